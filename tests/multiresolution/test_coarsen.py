"""Metavertices stay in their bin, and reducers keep what they promise."""

import numpy as np
import pytest

from zarr_vectors.exceptions import InputError
from zarr_vectors.multiresolution.coarsen import _inside_bins
from zarr_vectors.multiresolution.metavertices import Reducer, centroids, group_rows, reduce_column
from zarr_vectors.spatial.grid import ChunkGrid
from zarr_vectors.table import Column


def test_a_mean_that_rounding_puts_outside_of_its_bin_gives_way_to_a_member() -> None:
    positions = np.array([[0.5], [1.5], [0.75]])
    groups = group_rows(np.array([0, 1, 0]))
    grid = ChunkGrid((2.0,), (1.0,))
    means = np.array([[1.0], [2.0]])
    placed = _inside_bins(means, positions, groups, grid, np.array([0]))
    assert placed.tolist() == [[0.5], [1.5]]


@pytest.mark.parametrize("offset", [2**62, -(2**62)])
def test_means_of_large_integers_are_exact(offset: int) -> None:
    positions = np.array([[offset], [offset + 1], [offset + 5]], dtype=np.int64)
    assert centroids(positions, group_rows(np.zeros(3, np.int64))).tolist() == [[offset + 2]]


def test_means_of_the_largest_unsigned_integers() -> None:
    positions = np.array([[2**64 - 1], [2**64 - 3]], dtype=np.uint64)
    assert centroids(positions, group_rows(np.zeros(2, np.int64))).tolist() == [[2**64 - 2]]


def test_a_mean_of_integers_does_not_wrap_around() -> None:
    values = np.full(4, 2**62, dtype=np.int64)
    reduced = reduce_column(Column(values), group_rows(np.zeros(4, np.int64)), "mean")
    assert reduced.values.tolist() == [2.0**62]


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_a_sum_without_room_is_refused(dtype: str) -> None:
    values = np.full(4, np.iinfo(dtype).max, dtype=dtype)
    with pytest.raises(InputError, match="no room in 64 bits"):
        reduce_column(Column(values), group_rows(np.zeros(4, np.int64)), "sum")


def test_sums_of_small_floats_are_wide() -> None:
    values = np.full(3, 60_000, dtype=np.float16)
    reduced = reduce_column(Column(values), group_rows(np.zeros(3, np.int64)), "sum")
    assert reduced.values.dtype == np.float64
    assert reduced.values.tolist() == [3 * float(np.float16(60_000))]


@pytest.mark.parametrize("reducer", ["mean", "sum", "min", "max", "mode", "count"])
@pytest.mark.parametrize("dtype", ["int8", "uint64", "bool", "float16", "complex64"])
def test_no_rows_give_the_dtype_that_rows_give(dtype: str, reducer: Reducer) -> None:
    some = reduce_column(Column(np.ones((3, 2), dtype=dtype)), group_rows(np.zeros(3, np.int64)), reducer)
    none = reduce_column(Column(np.ones((0, 2), dtype=dtype)), group_rows(np.empty(0, np.int64)), reducer)
    assert none.values.dtype == some.values.dtype
    assert none.values.shape == (0, *some.values.shape[1:])
