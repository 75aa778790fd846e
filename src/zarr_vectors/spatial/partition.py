"""A table of vertices, laid out in chunks: which rows go where, which fragments they form, who names them.

All of it is whole-array work: the only thing that is sorted is pieces (ordered parts) or rows
by small integers (everything else).
"""

from dataclasses import dataclass

import numpy as np

from zarr_vectors.ragged import Ragged, changes, concatenated_ranges, offsets_from_counts
from zarr_vectors.spatial.grid import ChunkGrid
from zarr_vectors.table import VertexTable
from zarr_vectors.typing import ChunkCoords, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Where everything of a table is stored.

    Rows and fragments are numbered through all chunks, chunk after chunk; ``row_offsets`` and
    ``fragment_offsets`` turn these numbers into those inside a chunk.
    """

    chunks: IntArray
    """(chunks, ndim), in ascending order."""
    row_offsets: IntArray
    """(chunks + 1,)"""
    order: IntArray
    """The table's vertex for each stored row."""
    fragment_offsets: IntArray
    """(chunks + 1,)"""
    fragment_starts: IntArray
    """First row of each fragment."""
    fragment_counts: IntArray
    fragment_parts: IntArray | None
    """The part each fragment belongs to; ``None``: there are no objects."""
    fragment_sequence: IntArray
    """Where each fragment comes in its part: fragments of one part in ascending order of this."""

    @property
    def coords(self) -> list[ChunkCoords]:
        """The chunks as tuples."""
        return [tuple(row) for row in self.chunks.tolist()]

    @property
    def row_of(self) -> IntArray:
        """The stored row of each vertex of the table."""
        rows = np.empty_like(self.order)
        rows[self.order] = np.arange(len(self.order), dtype=np.int64)
        return rows

    def chunk_of_rows(self, rows: IntArray) -> IntArray:
        """Return the number of the chunk that holds each row."""
        return np.searchsorted(self.row_offsets, rows, side="right") - 1

    def fragment_of_rows(self, rows: IntArray) -> IntArray:
        """Return the fragment that holds each row: fragments tile the rows."""
        return np.searchsorted(self.fragment_starts, rows, side="right") - 1


@dataclass(frozen=True, slots=True, eq=False)
class LinkLayout:
    """Links inside chunks, sorted by the fragment of their first end, and links between chunks."""

    inside: IntArray
    """The table's link for each stored row."""
    rows: IntArray
    """(links inside, width), rows of the chunk."""
    chunk_offsets: IntArray
    """(chunks + 1,) into ``inside``."""
    fragment_counts: IntArray
    """How many of the links inside belong to each fragment."""
    across: IntArray
    """The table's link for each record between chunks."""
    records: IntArray
    """(links across, width, ndim + 1): chunk coordinates, then the row in that chunk."""


def partition(table: VertexTable, grid: ChunkGrid) -> Layout:
    """Return the layout of a table's vertices on a grid."""
    coords = grid.chunks_of(table.positions)
    chunks, chunk_of = _unique_rows(coords)
    if table.ordered:
        bins = grid.bins_of(table.positions, coords) if table.cut == "bin" else None
        return _layout_pieces(table, chunks, chunk_of, bins)
    keys = grid.bins_of(table.positions, coords) if table.part_ids is None else table.part_ids
    return _layout_sorted(table, chunks, chunk_of, keys)


def partition_links(table: VertexTable, layout: Layout) -> LinkLayout:
    """Return the layout of a table's links, given that of its vertices."""
    links = np.empty((0, table.link_width), np.int64) if table.links is None else table.links
    rows = layout.row_of[links]
    chunks = layout.chunk_of_rows(rows)
    within = (chunks == chunks[:, :1]).all(axis=1)
    kept = np.ones(len(links), dtype=np.bool_)
    if table.drop_sequential:
        fragments = layout.fragment_of_rows(rows)
        kept = ~((fragments[:, 0] == fragments[:, 1]) & (rows[:, 0] == rows[:, 1] + 1))
    inside, across = np.flatnonzero(within & kept), np.flatnonzero(~within & kept)
    home = layout.fragment_of_rows(rows[inside, 0])
    by_home = np.argsort(home, kind="stable")
    inside = inside[by_home]
    counts = np.bincount(home, minlength=len(layout.fragment_starts))
    chunk_counts = np.bincount(chunks[inside, 0], minlength=len(layout.chunks))
    return LinkLayout(
        inside=inside,
        rows=rows[inside] - layout.row_offsets[chunks[inside, :1]],
        chunk_offsets=offsets_from_counts(chunk_counts),
        fragment_counts=counts,
        across=across,
        records=_records(layout, rows[across]),
    )


def object_fragments(table: VertexTable, layout: Layout) -> Ragged:
    """Return the fragments of each object, in the order of its parts and along each part."""
    if layout.fragment_parts is None:
        return Ragged(np.empty(0, np.int64), np.zeros(table.num_objects + 1, np.int64))
    by_part = np.lexsort((layout.fragment_sequence, layout.fragment_parts))
    parts = layout.fragment_parts[by_part]
    objects = table.objects
    if objects is None:
        return Ragged(by_part, np.searchsorted(parts, np.arange(table.num_objects + 1)))
    begins = np.searchsorted(parts, objects.values, side="left")
    counts = np.searchsorted(parts, objects.values, side="right") - begins
    expanded = concatenated_ranges(begins, counts)
    return Ragged(by_part[expanded], offsets_from_counts(counts)[objects.offsets])


def continuation_records(fragments: Ragged, layout: Layout) -> IntArray:
    """Return one record for each step of an object from a fragment to one in another chunk.

    From the last row of the piece that is left to the first row of the piece that is entered;
    a step that several objects share is one record.
    """
    left, entered = fragments.values[:-1], fragments.values[1:]
    joined = np.ones(len(left), dtype=np.bool_)
    borders = fragments.offsets[1:-1]
    joined[borders[(borders > 0) & (borders < len(fragments.values))] - 1] = False
    last = layout.fragment_starts[left] + layout.fragment_counts[left] - 1
    steps = np.stack([last, layout.fragment_starts[entered]], axis=1)
    chunks = layout.chunk_of_rows(steps)
    steps = steps[joined & (chunks[:, 0] != chunks[:, 1])]
    if len(steps) and np.bincount(fragments.values).max() > 1:
        _, first = np.unique(steps, axis=0, return_index=True)
        steps = steps[np.sort(first)]
    return _records(layout, steps)


def _layout_pieces(table: VertexTable, chunks: IntArray, chunk_of: IntArray, bins: IntArray | None) -> Layout:
    """Lay out ordered parts: rows stay in order inside each piece, pieces are sorted by chunk."""
    parts = np.zeros(table.num_vertices, np.int64) if table.part_ids is None else table.part_ids
    begins = changes(parts) | changes(chunk_of)
    if bins is not None:
        begins |= changes(bins)
    if table.breaks is not None:
        begins |= table.breaks
    starts = np.flatnonzero(begins)
    counts = np.diff(np.append(starts, table.num_vertices))
    by_chunk = np.argsort(chunk_of[starts], kind="stable")
    starts, counts = starts[by_chunk], counts[by_chunk]
    return Layout(
        chunks=chunks,
        row_offsets=offsets_from_counts(np.bincount(chunk_of, minlength=len(chunks))),
        order=concatenated_ranges(starts, counts),
        fragment_offsets=np.searchsorted(chunk_of[starts], np.arange(len(chunks) + 1)),
        fragment_starts=offsets_from_counts(counts)[:-1],
        fragment_counts=counts,
        fragment_parts=None if table.part_ids is None else parts[starts],
        fragment_sequence=starts,
    )


def _layout_sorted(table: VertexTable, chunks: IntArray, chunk_of: IntArray, keys: IntArray) -> Layout:
    """Lay out rows by chunk and, inside a chunk, by part or bin; each such group is a fragment."""
    order = sort_by(chunk_of, keys)
    chunk_sorted, key_sorted = chunk_of[order], keys[order]
    starts = np.flatnonzero(changes(chunk_sorted) | changes(key_sorted))
    return Layout(
        chunks=chunks,
        row_offsets=np.searchsorted(chunk_sorted, np.arange(len(chunks) + 1)),
        order=order,
        fragment_offsets=np.searchsorted(chunk_sorted[starts], np.arange(len(chunks) + 1)),
        fragment_starts=starts,
        fragment_counts=np.diff(np.append(starts, len(order))),
        fragment_parts=None if table.part_ids is None else key_sorted[starts],
        fragment_sequence=np.arange(len(starts), dtype=np.int64),
    )


def sort_by(first: IntArray, second: IntArray) -> IntArray:
    """Return the stable order by two keys of non-negative integers, the first one leading.

    >>> sort_by(np.array([1, 0, 1, 0]), np.array([0, 5, 0, 4])).tolist()
    [3, 1, 0, 2]
    """
    order = _stable_order(second)
    return order[_stable_order(first[order])]


def _stable_order(keys: IntArray) -> IntArray:
    """Argsort, 16 bits at a time where two passes do: numpy sorts uint16 by radix, wider integers by merging."""
    if len(keys) == 0:
        return np.empty(0, dtype=np.int64)
    largest = int(keys.max())
    if largest == 0:
        return np.arange(len(keys), dtype=np.int64)
    if largest < 2**16:
        return np.argsort(keys.astype(np.uint16), kind="stable")
    if largest >= 2**32:
        return np.argsort(keys, kind="stable")
    low = np.argsort(keys.astype(np.uint16), kind="stable")
    high = (keys >> 16).astype(np.uint16)
    return low[np.argsort(high[low], kind="stable")]


def _unique_rows(coords: IntArray) -> tuple[IntArray, IntArray]:
    """Return the distinct rows in ascending order, and the number of each row among them."""
    if len(coords) == 0:
        return coords, np.empty(0, dtype=np.int64)
    low = coords.min(axis=0)
    extent = [int(value) + 1 for value in coords.max(axis=0) - low]
    size = int(np.prod([float(value) for value in extent]))
    if size >= 2**62:
        unique, inverse = np.unique(coords, axis=0, return_inverse=True)
        return unique, inverse.reshape(-1)
    flat = np.zeros(len(coords), dtype=np.int64)
    for axis, count in enumerate(extent):
        flat *= count
        flat += coords[:, axis] - low[axis]
    if size <= 4 * len(coords) + 1024:
        # Few enough cells to have a slot each: cheaper than sorting the rows.
        taken = np.zeros(size, dtype=np.bool_)
        taken[flat] = True
        cells = np.flatnonzero(taken)
        number = np.cumsum(taken) - 1
        inverse = number[flat]
    else:
        cells, inverse = np.unique(flat, return_inverse=True)
    return np.stack(np.unravel_index(cells, extent), axis=1) + low, inverse.reshape(-1)


def _records(layout: Layout, rows: IntArray) -> IntArray:
    chunks = layout.chunk_of_rows(rows)
    local = rows - layout.row_offsets[chunks]
    return np.concatenate([layout.chunks[chunks], local[..., None]], axis=-1)
