import math

import numpy as np
import pytest

from zarr_vectors.exceptions import InputError
from zarr_vectors.spatial.grid import ChunkGrid


def test_a_position_on_a_seam_belongs_to_the_upper_chunk() -> None:
    grid = ChunkGrid((10.0,), (10.0,))
    assert grid.chunks_of(np.array([[10.0], [0.0], [-10.0], [-0.001]])).tolist() == [[1], [0], [-1], [-1]]


def test_fractional_sides_divide_rather_than_multiply() -> None:
    grid = ChunkGrid((0.1,), (0.1,))
    positions = np.arange(-50, 51)[:, None] / 10
    assert grid.chunks_of(positions).ravel().tolist() == [math.floor(value / 0.1) for value in positions.ravel()]


@pytest.mark.parametrize(("chunk", "size"), [(0.3, 0.1), (0.1, 0.1 / 3), (1.0, 0.1)])
def test_bins_that_divide_only_up_to_rounding_stay_in_their_chunk(chunk: float, size: float) -> None:
    grid = ChunkGrid((chunk,), (size,))
    positions = np.concatenate([np.nextafter(np.arange(-40, 41) * chunk, way) for way in (-9, 9)])[:, None]
    bins = grid.bins_of(positions, grid.chunks_of(positions))
    assert bins.min() >= 0
    assert bins.max() < grid.bins_per_chunk[0]


def test_bins_are_numbered_in_c_order() -> None:
    grid = ChunkGrid((4.0, 6.0, 2.0), (2.0, 2.0, 1.0))
    assert grid.bins_per_chunk == (2, 3, 2)
    position = np.array([[3.0, 5.0, 1.5]])
    assert grid.bins_of(position, grid.chunks_of(position)).tolist() == [11]


def test_one_bin_a_chunk_needs_no_division() -> None:
    grid = ChunkGrid((4.0, 4.0), (4.0, 4.0))
    assert grid.bins_of(np.ones((3, 2)), np.zeros((3, 2), dtype=np.int64)).tolist() == [0, 0, 0]


def test_integers_beyond_doubles_fall_into_their_own_chunk() -> None:
    grid = ChunkGrid((2.0,), (2.0,))
    positions = np.array([[2**61 + 1], [2**61 + 2]])
    assert grid.chunks_of(positions).tolist() == [[2**60], [2**60 + 1]]


def test_integers_in_chunks_wider_than_their_dtype() -> None:
    grid = ChunkGrid((2.0**70,), (2.0**70,))
    assert grid.chunks_of(np.array([[5], [-5]])).tolist() == [[0], [-1]]


@pytest.mark.parametrize(
    "positions", [np.array([[1e30]]), np.array([[-1e30]]), np.array([[2**63]], dtype="u8"), np.array([[-(2**63)]])]
)
def test_positions_too_far_out(positions: np.ndarray) -> None:
    with pytest.raises(InputError, match="too far out for cells of this shape: choose a larger one"):
        ChunkGrid((1.0,), (1.0,)).chunks_of(positions)


def test_a_division_that_overflows_is_too_far_out() -> None:
    with pytest.raises(InputError, match="too far out"):
        ChunkGrid((1e-10,), (1e-10,)).chunks_of(np.array([[1e308]]))


def test_more_bins_than_numbers() -> None:
    grid = ChunkGrid((1e9,) * 3, (1e-3,) * 3)
    with pytest.raises(InputError, match="have too many to number: choose a larger bin_shape"):
        grid.bins_of(np.zeros((1, 3)), np.zeros((1, 3), dtype=np.int64))


def test_chunks_in_box_with_open_sides() -> None:
    first, last = ChunkGrid((10.0, 10.0), (10.0, 10.0)).chunk_span([-math.inf, 5.0], [0.0, math.inf])
    assert first.tolist() == [-(2**62), 0]
    assert last.tolist() == [0, 2**62]


def test_chunks_in_box_with_edges_on_seams() -> None:
    first, last = ChunkGrid((10.0,), (10.0,)).chunk_span([-10], [10.0])
    assert (first.tolist(), last.tolist()) == ([-1], [1])


def test_chunks_in_box_agree_with_doubles_and_with_whole_numbers() -> None:
    # 0.3 / 0.1 is 2.999... in doubles, 0.7 / 0.1 is 6.999...: the chunk of such a position must be in the span.
    grid = ChunkGrid((0.1,), (0.1,))
    for value in np.arange(-30, 31) / 10:
        chunk = int(grid.chunks_of(np.array([[value]]))[0, 0])
        first, last = grid.chunk_span([float(value)], [float(value)])
        assert first[0] <= chunk <= last[0]


def test_chunks_in_box_with_edges_beyond_all_chunks() -> None:
    first, last = ChunkGrid((1e-10,), (1e-10,)).chunk_span([-1e308], [1e308])
    assert (first.tolist(), last.tolist()) == ([-(2**62)], [2**62])


def test_chunks_in_box_agree_with_whole_numbers_beyond_doubles() -> None:
    grid = ChunkGrid((3.0,), (3.0,))
    edge = 3 * 2**58 - 1
    assert math.floor(float(edge) / 3.0) == 2**58
    first, last = grid.chunk_span([edge], [edge])
    assert first[0] <= grid.chunks_of(np.array([[edge]]))[0, 0] == 2**58 - 1 <= last[0]
