import numpy as np
import pytest
from tests.query.stores import hand_made

from zarr_vectors.query.chunks import Fetch, Need, load_chunks, match_rows

HERE, THERE = (0, 0), (1, 0)


def test_matching_rows_near_and_far() -> None:
    known = np.array([[-5, 0], [0, 0], [0, 7]])
    assert match_rows(known, np.array([[0, 7], [0, 1], [-5, 0], [9, 9]])).tolist() == [2, -1, 0, -1]


def test_matching_rows_that_are_too_far_apart_for_one_number() -> None:
    far = 2**62
    known = np.array([[-far, -far], [-far, far], [far, 0]])
    assert match_rows(known, np.array([[far, 0], [0, 0], [-far, -far]])).tolist() == [2, -1, 0]


@pytest.mark.parametrize(("known", "wanted"), [(0, 2), (2, 0), (0, 0)])
def test_matching_nothing(known: int, wanted: int) -> None:
    rows = np.zeros((5, 3), dtype=np.int64)
    assert match_rows(rows[:known], rows[:wanted]).tolist() == [-1] * wanted


def test_rows_and_fragments_are_numbered_through_all_chunks() -> None:
    level = hand_made(
        "graph",
        {HERE: [[0, 0], [1, 1]], THERE: [[10, 0]]},
        {HERE: [(0, 1), (1, 1)], THERE: [(0, 1)]},
        [[(HERE, [0, 1]), (THERE, [0])]],
        links={HERE: [[0, 1]], THERE: [[0, 0]]},
    )
    fetch = Fetch(level.group)
    loaded = load_chunks(fetch, level.index.chunks, Need(fragments=True, links=True, attributes=("row",)))
    assert loaded.row_offsets.tolist() == [0, 2, 3]
    assert loaded.fragment_offsets.tolist() == [0, 2, 3]
    assert loaded.fragments.values.tolist() == [0, 1, 2]
    assert loaded.links.tolist() == [[0, 1], [2, 2]]
    assert loaded.attributes["row"].tolist() == [0, 1, 2]
    assert loaded.find_chunks(np.array([[1, 0], [5, 5]])).tolist() == [1, -1]
    assert loaded.owners is None


def test_no_chunks_keep_dtype_and_width() -> None:
    level = hand_made("graph", {HERE: [[0, 0]]}, {HERE: [(0, 1)]}, [[(HERE, [0])]], links={HERE: [[0, 0]]})
    need = Need(fragments=True, links=True, attributes=("row",))
    loaded = load_chunks(Fetch(level.group), np.empty((0, 2), dtype=np.int64), need, link_width=3)
    assert (loaded.positions.shape, loaded.positions.dtype.name) == ((0, 2), "float32")
    assert loaded.links.shape == (0, 3)
    assert loaded.attributes["row"].dtype.name == "int64"
    assert loaded.fragment_offsets.tolist() == [0]
