import numpy as np

from zarr_vectors.ragged import Ragged, changes, concatenated_ranges, offsets_from_counts


def test_taking_lists_in_any_order_and_twice() -> None:
    ragged = Ragged(np.array([7, 8, 9]), np.array([0, 2, 2, 3]))
    taken = ragged.take(np.array([2, 0, 1, 0]))
    assert taken.values.tolist() == [9, 7, 8, 7, 8]
    assert taken.offsets.tolist() == [0, 1, 3, 3, 5]
    assert taken.owners.tolist() == [0, 1, 1, 3, 3]


def test_no_lists() -> None:
    nothing = Ragged(np.empty(0, np.int64), np.zeros(1, np.int64))
    assert len(nothing) == 0
    assert nothing.take(np.empty(0, np.int64)).offsets.tolist() == [0]


def test_ranges_one_after_another() -> None:
    assert concatenated_ranges(np.array([4, 9, 0]), np.array([2, 0, 1])).tolist() == [4, 5, 0]
    assert offsets_from_counts(np.empty(0, np.int64)).tolist() == [0]


def test_changes_of_nothing_and_of_one() -> None:
    assert changes(np.empty(0)).tolist() == []
    assert changes(np.array([5])).tolist() == [True]
