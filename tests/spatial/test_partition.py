import numpy as np
import pytest

from zarr_vectors.ragged import Ragged
from zarr_vectors.spatial.grid import ChunkGrid
from zarr_vectors.spatial.partition import (
    Layout,
    continuation_records,
    object_fragments,
    partition,
    partition_links,
    sort_by,
)
from zarr_vectors.table import VertexTable

GRID = ChunkGrid((10.0,), (5.0,))


def column(*values: float) -> np.ndarray:
    return np.array(values)[:, None]


def fragments_of(layout: Layout) -> list[list[int]]:
    """Return the table's vertices of each fragment."""
    starts, counts = layout.fragment_starts.tolist(), layout.fragment_counts.tolist()
    return [layout.order[start : start + count].tolist() for start, count in zip(starts, counts, strict=True)]


def test_points_without_objects_are_sorted_by_bin() -> None:
    layout = partition(VertexTable(column(12, 1, 7, 2, -1)), GRID)
    assert layout.coords == [(-1,), (0,), (1,)]
    assert fragments_of(layout) == [[4], [1, 3], [2], [0]]
    assert layout.row_offsets.tolist() == [0, 1, 4, 5]
    assert layout.fragment_offsets.tolist() == [0, 1, 3, 4]
    assert layout.fragment_parts is None


def test_points_of_objects_form_one_fragment_a_chunk() -> None:
    table = VertexTable(column(1, 7, 2, 12), part_ids=np.array([3, 1, 3, 3]), num_objects=4)
    layout = partition(table, GRID)
    assert fragments_of(layout) == [[1], [0, 2], [3]]
    assert object_fragments(table, layout).offsets.tolist() == [0, 0, 1, 1, 3]
    assert object_fragments(table, layout).values.tolist() == [0, 1, 2]


def test_a_path_is_cut_where_it_leaves_a_bin_and_comes_back() -> None:
    table = VertexTable(
        column(1, 2, 6, 11, 3), part_ids=np.zeros(5, np.int64), num_objects=1, ordered=True, cut="bin", continues=True
    )
    layout = partition(table, GRID)
    assert fragments_of(layout) == [[0, 1], [2], [4], [3]]
    fragments = object_fragments(table, layout)
    assert fragments.values.tolist() == [0, 1, 3, 2]
    # From the last row of the piece left to the first row of the piece entered.
    assert continuation_records(fragments, layout).tolist() == [[[0, 2], [1, 0]], [[1, 0], [0, 3]]]


def test_a_path_cut_by_chunk_keeps_its_bins_together() -> None:
    table = VertexTable(column(1, 6, 11), part_ids=np.zeros(3, np.int64), num_objects=1, ordered=True)
    assert fragments_of(partition(table, GRID)) == [[0, 1], [2]]


def test_breaks_begin_a_piece() -> None:
    table = VertexTable(
        column(1, 2, 3),
        part_ids=np.zeros(3, np.int64),
        num_objects=1,
        ordered=True,
        breaks=np.array([True, False, True]),
    )
    assert fragments_of(partition(table, GRID)) == [[0, 1], [2]]


def test_objects_that_share_a_part_name_its_fragments() -> None:
    table = VertexTable(
        column(1, 11, 2),
        part_ids=np.array([0, 0, 1]),
        objects=Ragged(np.array([0, 1, 0, 1]), np.array([0, 2, 3, 3, 4])),
        num_objects=4,
        ordered=True,
        continues=True,
    )
    layout = partition(table, GRID)
    fragments = object_fragments(table, layout)
    assert [
        fragments.values[a:b].tolist() for a, b in zip(fragments.offsets[:-1], fragments.offsets[1:], strict=True)
    ] == [
        [0, 2, 1],
        [0, 2],
        [],
        [1],
    ]
    # The step inside the shared part is one record, though two objects take it.
    assert continuation_records(fragments, layout).tolist() == [[[0, 0], [1, 0]], [[1, 0], [0, 1]]]


def test_links_are_sorted_by_fragment_and_parted_at_borders() -> None:
    table = VertexTable(
        column(1, 2, 11, 3),
        part_ids=np.array([1, 0, 0, 0]),
        num_objects=2,
        links=np.array([[0, 1], [1, 3], [1, 2], [3, 3]]),
    )
    layout = partition(table, GRID)
    links = partition_links(table, layout)
    assert layout.order.tolist() == [1, 3, 0, 2]
    assert links.inside.tolist() == [1, 3, 0]
    assert links.rows.tolist() == [[0, 1], [1, 1], [2, 0]]
    assert links.fragment_counts.tolist() == [2, 1, 0]
    assert links.across.tolist() == [2]
    assert links.records.tolist() == [[[0, 0], [1, 0]]]


def test_links_that_follow_from_the_order_are_dropped() -> None:
    table = VertexTable(
        column(1, 2, 3, 4),
        part_ids=np.zeros(4, np.int64),
        num_objects=1,
        ordered=True,
        links=np.array([[1, 0], [2, 1], [3, 1]]),
        drop_sequential=True,
    )
    assert partition_links(table, partition(table, GRID)).inside.tolist() == [2]


def test_an_empty_table() -> None:
    table = VertexTable(np.empty((0, 2)), links=np.empty((0, 3), np.int64), link_width=3)
    layout = partition(table, ChunkGrid((1.0, 1.0), (1.0, 1.0)))
    assert layout.coords == []
    assert partition_links(table, layout).rows.shape == (0, 3)
    assert object_fragments(table, layout).values.tolist() == []


def test_links_of_a_table_without_any() -> None:
    table = VertexTable(column(1, 2))
    assert partition_links(table, partition(table, GRID)).rows.shape == (0, 2)


def test_chunks_scattered_further_than_a_flat_index_reaches() -> None:
    far = 2.0**40
    table = VertexTable(np.array([[far, -far, far], [-far, far, -far], [far, -far, far]]))
    layout = partition(table, ChunkGrid((1.0,) * 3, (1.0,) * 3))
    assert layout.coords == [(-(2**40), 2**40, -(2**40)), (2**40, -(2**40), 2**40)]
    assert layout.order.tolist() == [1, 0, 2]


def test_chunks_scattered_widely() -> None:
    layout = partition(VertexTable(column(1e6, -1e6, 1e6)), GRID)
    assert layout.coords == [(-100_000,), (100_000,)]


@pytest.mark.parametrize("largest", [10, 2**16 + 5, 2**32 + 5])
def test_sorting_is_stable_for_keys_of_any_size(largest: int) -> None:
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 3, 200), rng.integers(0, largest, 200)
    second[:50] = second[50:100]
    order = sort_by(first, second)
    assert order.tolist() == sorted(range(200), key=lambda row: (first[row], second[row], row))
