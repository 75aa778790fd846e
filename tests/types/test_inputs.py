"""What users give, brought into one form without needless copies."""

import numpy as np
import pytest

from zarr_vectors.exceptions import InputError
from zarr_vectors.table import Column
from zarr_vectors.types.inputs import (
    MOST_UNUSED_IDS,
    is_flat_ragged,
    parse_column,
    parse_columns,
    parse_groups,
    parse_numbers,
    parse_object_ids,
    parse_positions,
    parse_ragged,
    rounding_error,
)


def test_values_and_offsets_never_become_a_list() -> None:
    values, offsets = np.zeros((7, 3)), np.array([0, 3, 3, 7])
    flat, found = parse_ragged((values, offsets), "paths")
    assert flat is values
    assert np.shares_memory(found, offsets)
    assert parse_positions(flat) is values


def test_positions_are_not_copied_unless_the_dtype_changes() -> None:
    values = np.zeros((4, 2), dtype=np.float32)
    assert parse_positions(values) is values
    assert parse_positions(values, "float32") is values
    swapped = parse_positions(values.astype(">f4"))
    assert swapped.dtype == np.dtype("=f4")
    assert parse_positions(values, "int16").dtype == np.int16


def test_positions_may_be_read_only() -> None:
    values = np.zeros((4, 2))
    values.flags.writeable = False
    assert parse_positions(values) is values


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((np.zeros((3, 2)), [0, 1, 3]), True),
        ((np.zeros((3, 2)), [0, 9]), True),
        ((np.zeros(3), [0, 1, 3]), True),
        (([1, 2], [3, 4]), False),
        ((np.zeros((3, 2)), np.zeros((3, 2))), False),
        ((np.zeros((3, 2)), [0.0, 3.0]), False),
        (([[1], [2, 3]], [0, 1]), False),
        ([np.zeros((3, 2)), [0, 1, 3]], False),
        ((np.zeros((3, 2)),), False),
        (5, False),
    ],
)
def test_values_and_offsets_are_told_from_lists(given: object, *, expected: bool) -> None:
    assert is_flat_ragged(given) == expected


def test_ragged_lists_skip_what_is_empty() -> None:
    flat, offsets = parse_ragged([[], [[1, 2]], np.empty((0, 5)), [[3, 4], [5, 6]]], "paths")
    assert (flat.tolist(), offsets.tolist()) == ([[1, 2], [3, 4], [5, 6]], [0, 0, 1, 1, 3])
    assert flat.dtype.kind == "i"


def test_rounding_is_measured() -> None:
    assert rounding_error(np.array([[0.5]]), np.array([[0.5]], dtype=np.float32)) == 0
    assert rounding_error(np.array([[0.1]]), np.array([[0.1]], dtype=np.float32)) == abs(float(np.float32(0.1)) - 0.1)
    assert rounding_error([[1, 2]], np.array([[1, 2]])) == 0
    assert rounding_error(np.empty((0, 2)), np.empty((0, 2), dtype=np.float32)) == 0
    assert rounding_error(np.array([[2**60 + 1]]), np.array([[2.0**60]])) in (0, 1)


def test_text_becomes_the_narrowest_numbers_of_sorted_categories() -> None:
    column = parse_column(["b", "a", "b"], "kind")
    assert (column.values.tolist(), column.values.dtype.name) == ([1, 0, 1], "uint8")
    assert column.categories == ("a", "b")
    empty = parse_column(np.array([], dtype=str), "kind")
    assert (len(empty.values), empty.categories) == (0, ())


def test_columns_pass_through() -> None:
    column = Column(np.arange(3))
    assert parse_columns({"a": column}, 3, "attribute")["a"] is column
    with pytest.raises(InputError, match="attribute 'a' has 3 rows, 4 are needed"):
        parse_columns({"a": column}, 4, "attribute")
    assert parse_columns(None, 3, "attribute") == {}


def test_numbers_of_any_integer_dtype() -> None:
    for dtype in ("uint8", "int16", "uint64", ">i4"):
        found = parse_numbers(np.array([[0, 1]], dtype=dtype), 2, (None, 2), "edges")
        assert (found.dtype, found.tolist()) == (np.dtype(np.int64), [[0, 1]])
    assert parse_numbers([], 2, (None, 2), "edges").shape == (0, 2)


def test_object_ids_may_be_sparse_up_to_a_limit() -> None:
    ids = parse_object_ids(np.array([MOST_UNUSED_IDS - 1], dtype=np.uint32), 1)
    assert ids is not None
    assert ids.dtype == np.int64
    assert parse_object_ids(None, 3) is None
    empty = parse_object_ids([], 0)
    assert empty is not None
    assert empty.dtype == np.int64
    with pytest.raises(InputError, match="number them anew"):
        parse_object_ids([MOST_UNUSED_IDS], 1)


def test_groups_in_every_form() -> None:
    for given in ([[2, 0], [], [1]], {0: [2, 0], 2: [1]}, (np.array([2, 0, 1]), [0, 2, 2, 3])):
        groups = parse_groups(given, 3)
        assert groups is not None
        assert (groups.values.tolist(), groups.offsets.tolist()) == ([2, 0, 1], [0, 2, 2, 3])
    assert parse_groups(None, 3) is None
    empty = parse_groups({}, 3)
    assert empty is not None
    assert len(empty) == 0
