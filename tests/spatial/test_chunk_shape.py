import numpy as np
import pytest

from zarr_vectors.spatial.chunk_shape import MOST_PER_CHUNK, choose_chunk_shape
from zarr_vectors.spatial.grid import ChunkGrid


def test_nothing_needs_no_particular_shape() -> None:
    assert choose_chunk_shape(np.empty((0, 2)), [True, True]) == (1.0, 1.0)


def test_one_place_needs_no_particular_shape() -> None:
    assert choose_chunk_shape(np.full((3, 2), 7.0), [True, True]) == (1.0, 1.0)


def test_sides_are_round_numbers() -> None:
    assert choose_chunk_shape(np.array([[0.0, 0.0], [97.0, 13.0]]), [True, True]) == (80.0, 80.0)


def test_chunks_hold_no_more_than_they_should() -> None:
    positions = np.random.default_rng(0).random((200_000, 2)) * 1000
    shape = choose_chunk_shape(positions, [True, True])
    chunks = ChunkGrid(shape, shape).chunks_of(positions)
    assert len(positions) / len(np.unique(chunks, axis=0)) <= MOST_PER_CHUNK
    assert len(np.unique(chunks, axis=0)) < 40


def test_time_is_cut_into_as_many_parts_as_space() -> None:
    rng = np.random.default_rng(0)
    positions = np.stack([rng.random(300_000) * 100, rng.random(300_000) * 8], axis=1)
    space, time = choose_chunk_shape(positions, [True, False])
    assert 100 / space == pytest.approx(8 / time, rel=0.3)


def test_an_axis_of_time_without_extent() -> None:
    positions = np.array([[0.0, 5.0], [10.0, 5.0]])
    assert choose_chunk_shape(positions, [True, False]) == (10.0, 1.0)


def test_without_an_axis_of_space_all_are_treated_alike() -> None:
    assert choose_chunk_shape(np.array([[0.0], [10.0]]), [False]) == (10.0,)


@pytest.mark.parametrize(
    "positions",
    [
        np.array([[1e300]]),
        np.array([[-1.7e308], [1.7e308]]),
        np.array([[5e-324], [0.0]]),
        np.array([[2**63 - 1], [2**63 - 2]]),
        np.array([[2**64 - 1]], dtype="u8"),
        np.array([[65504.0], [-65504.0]], dtype="f2"),
        np.array([[-128], [127]], dtype="i1"),
    ],
)
def test_any_positions_fit_into_the_shape_that_is_chosen_for_them(positions: np.ndarray) -> None:
    shape = choose_chunk_shape(positions, [True])
    assert len(ChunkGrid(shape, shape).chunks_of(positions)) == len(positions)
