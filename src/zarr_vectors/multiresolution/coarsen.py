"""One level from the one below it, by bins: chunk by chunk of the coarser grid, then object by object.

Memory: the chunks of the level below that one coarser chunk covers, or one batch of objects, plus
four bytes for each vertex of the level below (its parent), eight for each metavertex (its bin),
the links that remain and the manifests.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from zarr_vectors.constants import (
    FRAGMENT_INDEX_ENCODING,
    LINK_ATTRIBUTES,
    VERTEX_ATTRIBUTES,
    VERTEX_FRAGMENTS,
    VERTICES,
)
from zarr_vectors.core.group import FsGroup, chunked_meta
from zarr_vectors.core.keys import array_path, chunk_key
from zarr_vectors.core.metadata import ArrayMetadata
from zarr_vectors.core.writers import WriteOptions
from zarr_vectors.encoding.fragments import encode_ranges
from zarr_vectors.multiresolution.batches import NamedByChunk, named_by_chunk, object_batches
from zarr_vectors.multiresolution.metavertices import (
    Reducer,
    RowGroups,
    centroids,
    group_rows,
    reduce_columns,
)
from zarr_vectors.multiresolution.plan import LevelPlan
from zarr_vectors.query.chunks import Fetch, LoadedChunks, Need, load_chunks, match_rows
from zarr_vectors.query.index import LevelIndex
from zarr_vectors.query.result import Result
from zarr_vectors.ragged import Ragged, changes, offsets_from_counts
from zarr_vectors.spatial.grid import ChunkGrid
from zarr_vectors.spatial.partition import Layout
from zarr_vectors.table import Column
from zarr_vectors.typing import JSON, AnyArray, BoolArray, IntArray

BYTES_PER_PUT = 8 * 1024 * 1024
"""Payloads that wait before they are stored together."""

NO_PARENT = -1

_LARGEST_INT32 = 2**31


@dataclass(frozen=True, slots=True, eq=False)
class Parents:
    """The metavertex of each vertex of the level below."""

    chunks: IntArray
    """The chunks of the level below."""
    row_offsets: IntArray
    """(chunks + 1,): their rows."""
    numbers: npt.NDArray[np.int32] | IntArray
    """For each row, its metavertex, numbered through the chunks of the new level; -1 if it is not kept."""


@dataclass(frozen=True, slots=True, eq=False)
class Coarse:
    """What the first pass made: metavertices, written, and where they are."""

    layout: Layout
    """One row, and one fragment, a metavertex."""
    places: "_Places"
    parents: Parents
    links: IntArray
    """(links, width) metavertices, for links inside chunks of the level below; with repeats."""
    link_attributes: dict[str, Column]
    members: Ragged | None
    """The metavertices of each kept object, where their order means nothing."""


@dataclass(frozen=True, slots=True)
class CoarsenOptions:
    """What the caller may choose about how a level is made."""

    reducers: Mapping[str, Reducer]
    write: WriteOptions
    workers: int


def coarsen_chunks(
    index: LevelIndex, group: FsGroup, plan: LevelPlan, kept: IntArray | None, options: CoarsenOptions, *, sparse: bool
) -> Coarse:
    """Write the metavertices of a level, and return where they are.

    Parameters
    ----------
    index
        The level below.
    group
        The new level.
    plan
        Its grid.
    kept
        The objects that survive; ``None``: there are none.
    options
        Reducers, codecs and threads.
    sparse
        Whether only vertices of kept objects survive; else every vertex does.
    """
    by_chunk = kept is not None and not index.geometry.by_object
    named = named_by_chunk(index, kept) if kept is not None and (sparse or by_chunk) else None
    below = _Below(index, ChunkGrid(plan.chunk_shape, plan.bin_shape), named, options, sparse=sparse)
    try:
        return _coarsen(below, group, covering_chunks(index.chunks, plan))
    except _StrayError:
        # Where sizes have no exact binary form, or rows lie a little outside of their chunk, the
        # coarser chunk of a vertex need not be the one that covers its chunk: look at the vertices.
        group.storage.delete_dir(str(group.level))
        group.arrays.clear()
        return _coarsen(below, group, _touched_chunks(index, below.grid))


def object_metavertices(index: LevelIndex, coarse: Coarse, kept: IntArray) -> Iterator[tuple[Result, IntArray, Ragged]]:
    """Yield batches of paths or trees: as read, the metavertex of each vertex, and those along each object.

    Consecutive repeats are dropped.
    """
    for result in object_batches(index, kept):
        meta = coarse.places.find(result.positions)
        owners = result.object_rows.owners
        keep = changes(meta) | changes(owners)
        counts = np.bincount(owners[keep], minlength=len(result.objects))
        yield result, meta, Ragged(meta[keep], offsets_from_counts(counts))


def distinct_ends(links: IntArray) -> BoolArray:
    """Tell which links have all their ends, and no two of them in one bin."""
    there: BoolArray = np.all(links >= 0, axis=1)
    return there & ~_repeated_ends(links)


class _StrayError(Exception):
    """A vertex lies in another chunk of the new grid than the one that covers its chunk."""


@dataclass(frozen=True, slots=True, eq=False)
class _Places:
    """Where metavertices are: to find that of a position."""

    grid: ChunkGrid
    chunks: IntArray
    ranks: IntArray
    """The bins that occur in any chunk, ascending: their numbers are smaller than those of all bins."""
    keys: IntArray
    """Of each metavertex, ascending."""

    def find(self, positions: AnyArray) -> IntArray:
        """Return the metavertex of each position; there must be one."""
        chunks = self.grid.chunks_of(positions)
        number = match_rows(self.chunks, chunks)
        rank = np.searchsorted(self.ranks, self.grid.bins_of(positions, chunks))
        return np.searchsorted(self.keys, number * len(self.ranks) + rank)


@dataclass(frozen=True, slots=True, eq=False)
class _Below:
    """The level below, and how it is coarsened."""

    index: LevelIndex
    grid: ChunkGrid
    """Of the new level."""
    named: NamedByChunk | None
    options: CoarsenOptions
    sparse: bool

    @property
    def need(self) -> Need:
        """What is read of each chunk."""
        index = self.index
        _, link_names = index.chosen_attributes(None)
        flat = index.geometry.has_links and not index.geometry.rooted
        return Need(
            fragments=self.named is not None,
            links=flat,
            attributes=tuple(index.attribute_names(VERTEX_ATTRIBUTES)),
            link_attributes=tuple(link_names) if flat else (),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Cover:
    """Chunks of the new level, and the chunks of the level below that hold their vertices."""

    chunks: IntArray
    members: Ragged
    nested: bool
    """Whether each chunk of the level below lies in one of the new level."""

    def members_of(self, chunk: int) -> IntArray:
        """Return the chunks of the level below, by number, that hold vertices of a chunk of the new level."""
        return self.members.values[self.members.offsets[chunk] : self.members.offsets[chunk + 1]]


def covering_chunks(fine: IntArray, plan: LevelPlan) -> Cover:
    """Return the chunks of a planned level that cover those of the level below."""
    covering = np.floor_divide(fine, np.array(plan.chunk_scale, dtype=np.int64))
    chunks, number = np.unique(covering, axis=0, return_inverse=True)
    number = number.reshape(-1)
    counts = np.bincount(number, minlength=len(chunks))
    return Cover(chunks, Ragged(np.argsort(number, kind="stable"), offsets_from_counts(counts)), nested=True)


def _touched_chunks(index: LevelIndex, grid: ChunkGrid) -> Cover:
    """Find the chunks of the new level by looking at every position."""
    touched: list[IntArray] = []
    for number in range(len(index.chunks)):
        positions = load_chunks(Fetch(index.group), index.chunks[number : number + 1], Need()).positions
        coords = np.unique(grid.chunks_of(positions), axis=0)
        touched.append(np.column_stack([coords, np.full(len(coords), number)]))
    pairs = np.concatenate(touched)
    chunks, number_of = np.unique(pairs[:, :-1], axis=0, return_inverse=True)
    number_of = number_of.reshape(-1)
    order = np.lexsort((pairs[:, -1], number_of))
    counts = np.bincount(number_of, minlength=len(chunks))
    return Cover(chunks, Ragged(pairs[order, -1], offsets_from_counts(counts)), nested=False)


def _coarsen(below: _Below, group: FsGroup, cover: Cover) -> Coarse:
    home = np.full(len(below.index.chunks), -1, dtype=np.int64)
    home[cover.members.values[::-1]] = cover.members.owners[::-1]
    need = below.need

    def work(chunk: int) -> _ChunkResult:
        which = cover.members_of(chunk)
        return _coarsen_chunk(below, need, cover, chunk, home[which] == chunk)

    # The arrays must be declared even where no vertex is kept. This also reads, before threads
    # do, all metadata that the level keeps.
    nothing = Cover(np.zeros((1, group.ndim), np.int64), Ragged(home[:0], np.zeros(2, np.int64)), nested=cover.nested)
    sample = _coarsen_chunk(below, need, nothing, 0, np.empty(0, dtype=np.bool_))
    writer = _LevelWriter(group, below.options, sample)
    results: list[_ChunkResult] = []
    for chunk, result in enumerate(_in_threads(work, len(cover.chunks), below.options.workers)):
        writer.put(cover.chunks[chunk], result)
        results.append(result.without_payload())
    writer.finish()
    return _assemble(below, cover, results, sample)


@dataclass(frozen=True, slots=True, eq=False)
class _ChunkResult:
    """The metavertices of one coarser chunk."""

    positions: AnyArray
    attributes: dict[str, Column]
    bins: IntArray
    count: int
    parents: list[npt.NDArray[np.int32]]
    """By chunk of the level below."""
    links: list[npt.NDArray[np.int32]]
    """By chunk of the level below: (links, width) rows of it, without those that certainly vanish."""
    link_attributes: dict[str, Column]
    members: IntArray
    """(pairs, 2): place of a kept object, row."""

    def without_payload(self) -> "_ChunkResult":
        """Return what is needed once the metavertices are written."""
        return _ChunkResult(
            self.positions[:0], {}, self.bins, self.count, self.parents, self.links, self.link_attributes, self.members
        )


def _coarsen_chunk(below: _Below, need: Need, cover: Cover, chunk: int, at_home: BoolArray) -> _ChunkResult:
    """Return the metavertices of one chunk of the new grid, from those of the level below that hold its vertices."""
    index, grid, coords = below.index, below.grid, cover.chunks[chunk]
    which = cover.members_of(chunk)
    loaded = load_chunks(Fetch(index.group), index.chunks[which], need, link_width=index.link_width)
    alive = np.ones(loaded.num_rows, dtype=np.bool_)
    named: tuple[IntArray, IntArray] | None = None
    if below.named is not None:
        named = below.named.rows(loaded, which)
        if below.sparse:
            alive[:] = False
            alive[named[1]] = True
    here = alive & (grid.chunks_of(loaded.positions) == coords).all(axis=1)
    if cover.nested and np.count_nonzero(here) != np.count_nonzero(alive):
        raise _StrayError
    rows = np.flatnonzero(here)
    positions = loaded.positions.take(rows, axis=0)
    groups = group_rows(grid.bins_of(positions, np.broadcast_to(coords, positions.shape)))
    parent = np.full(loaded.num_rows, NO_PARENT, dtype=np.int32)
    parent[rows] = groups.group_of
    columns = {
        name: Column(values.take(rows, axis=0), *_description(index, VERTEX_ATTRIBUTES, name))
        for name, values in loaded.attributes.items()
    }
    links, link_columns = _remaining_links(index, loaded, alive, parent, at_home)
    return _ChunkResult(
        positions=_inside_bins(centroids(positions, groups), positions, groups, grid, coords),
        attributes=reduce_columns(columns, groups, below.options.reducers),
        bins=groups.keys,
        count=len(groups.keys),
        parents=[parent[begin:end] for begin, end in pairwise(loaded.row_offsets.tolist())],
        links=links,
        link_attributes=link_columns,
        members=np.empty((0, 2), np.int64) if named is None else _members(named, parent),
    )


def _inside_bins(means: AnyArray, positions: AnyArray, groups: RowGroups, grid: ChunkGrid, chunk: IntArray) -> AnyArray:
    """Return the means; where rounding puts one into another bin, a member of the group instead."""
    if len(means) == 0:
        return means
    chunks = grid.chunks_of(means)
    strayed = (chunks != chunk).any(axis=1) | (grid.bins_of(means, chunks) != groups.keys)
    means[strayed] = positions[groups.order[groups.starts[strayed]]]
    return means


def _members(named: tuple[IntArray, IntArray], parent: npt.NDArray[np.int32]) -> IntArray:
    """Return which object has which of the metavertices, each pair once."""
    objects, rows = named
    pairs = np.stack([objects, parent[rows].astype(np.int64)], axis=1)
    return np.unique(pairs[pairs[:, 1] >= 0], axis=0)


def _remaining_links(
    index: LevelIndex,
    loaded: LoadedChunks,
    alive: BoolArray,
    parent: npt.NDArray[np.int32],
    at_home: BoolArray,
) -> tuple[list[npt.NDArray[np.int32]], dict[str, Column]]:
    """Return links of the chunks that are dealt with here, as rows of each, and their attributes."""
    of_chunk = np.searchsorted(loaded.row_offsets, loaded.links[:, 0], side="right") - 1
    remain = at_home[of_chunk] & alive[loaded.links].all(axis=1) & ~_repeated_ends(parent[loaded.links])
    columns = {
        name: Column(values[remain], *_description(index, LINK_ATTRIBUTES, name, 0))
        for name, values in loaded.link_attributes.items()
    }
    local = (loaded.links - loaded.row_offsets[of_chunk][:, None])[remain].astype(np.int32)
    ends = np.searchsorted(of_chunk[remain], np.arange(len(at_home) + 1))
    return [local[begin:end] for begin, end in pairwise(ends.tolist())], columns


def _repeated_ends(links: npt.NDArray[np.int32] | IntArray) -> BoolArray:
    """Tell which links have two ends in one bin."""
    repeated = np.zeros(len(links), dtype=np.bool_)
    for first in range(links.shape[1]):
        for second in range(first + 1, links.shape[1]):
            repeated |= (links[:, first] == links[:, second]) & (links[:, first] >= 0)
    return repeated


class _LevelWriter:
    """Puts the payloads of a level some chunks at a time, and the arrays' metadata at the end."""

    def __init__(self, group: FsGroup, options: CoarsenOptions, sample: _ChunkResult) -> None:
        self.group = group
        self.options = options.write
        self.samples = self._columns(sample)
        self.totals = dict.fromkeys(self.samples, 0)
        self.codecs = {array: self._meta(array).codecs or () for array in self.samples}
        self.fragments = chunked_meta(VERTEX_FRAGMENTS, "uint8", encoding=FRAGMENT_INDEX_ENCODING)
        self.waiting: list[tuple[str, str, AnyArray, Sequence[Mapping[str, JSON]]]] = []
        self.waiting_bytes = 0

    def put(self, chunk: IntArray, result: _ChunkResult) -> None:
        """Take the metavertices of a chunk."""
        if result.count == 0:
            return
        node = chunk_key(chunk.tolist())
        for array, column in self._columns(result).items():
            dtype = self.samples[array].values.dtype.newbyteorder("<")
            values = np.ascontiguousarray(column.values, dtype=dtype)
            self.totals[array] += len(values)
            stored = values.reshape(-1).view(np.uint8) if self.options.byte_arrays else values
            self._add(array, node, stored, self.codecs[array])
        rows = np.arange(result.count, dtype=np.int64)
        blob = encode_ranges(rows, np.ones_like(rows), num_rows=result.count)
        self._add(VERTEX_FRAGMENTS, node, np.frombuffer(blob, dtype=np.uint8), self.fragments.codecs or ())
        if self.waiting_bytes >= BYTES_PER_PUT:
            self.flush()

    def flush(self) -> None:
        """Store what is waiting."""
        self.group.put_arrays(self.waiting)
        self.waiting, self.waiting_bytes = [], 0

    def finish(self) -> None:
        """Store what is waiting, then the metadata."""
        self.flush()
        for array in self.samples:
            self.group.write_array_meta(array, self._meta(array))
        self.group.write_array_meta(VERTEX_FRAGMENTS, self.fragments)

    def _add(self, array: str, node: str, values: AnyArray, codecs: Sequence[Mapping[str, JSON]]) -> None:
        self.waiting.append((array, node, values, codecs))
        self.waiting_bytes += values.nbytes

    def _columns(self, result: _ChunkResult) -> dict[str, Column]:
        columns = {array_path(VERTEX_ATTRIBUTES, name=name): column for name, column in result.attributes.items()}
        return {VERTICES: Column(result.positions), **columns}

    def _meta(self, array: str) -> ArrayMetadata:
        sample = self.samples[array]
        fields: dict[str, object] = {"encoding": "raw"} if array == VERTICES else {"name": array.split("/", 1)[1]}
        if sample.categories is not None:
            fields |= {"encoding": "dictionary", "categories": sample.categories}
        return chunked_meta(
            array,
            sample.values.dtype.name,
            ndim=1 if self.options.byte_arrays else sample.values.ndim,
            compressor=self.options.compressor,
            checksum=self.options.checksum,
            shape=[self.totals[array], *sample.values.shape[1:]],
            channel_names=sample.channel_names,
            **fields,
        )


def _assemble(below: _Below, cover: Cover, results: list[_ChunkResult], sample: _ChunkResult) -> Coarse:
    counts = np.array([result.count for result in results], dtype=np.int64)
    filled = counts > 0
    offsets = offsets_from_counts(counts)
    total = int(offsets[-1])
    rows = np.arange(total, dtype=np.int64)
    row_offsets = offsets_from_counts(counts[filled])
    layout = Layout(
        chunks=cover.chunks[filled],
        row_offsets=row_offsets,
        order=rows,
        fragment_offsets=row_offsets,
        fragment_starts=rows,
        fragment_counts=np.ones(total, dtype=np.int64),
        fragment_parts=rows,
        fragment_sequence=np.zeros(total, dtype=np.int64),
    )
    bins = np.concatenate([rows[:0], *(result.bins for result in results)])
    ranks = np.unique(bins)
    chunk_of = np.repeat(np.arange(len(layout.chunks)), np.diff(row_offsets))
    keys = chunk_of * len(ranks) + np.searchsorted(ranks, bins)
    parents = _assemble_parents(below.index.chunks, cover, results, offsets)
    columns = {
        name: Column(
            np.concatenate([column.values, *(result.link_attributes[name].values for result in results)]),
            column.channel_names,
            column.categories,
        )
        for name, column in sample.link_attributes.items()
    }
    links = _assemble_links(cover, results, parents, below.index.link_width)
    whole = distinct_ends(links)
    return Coarse(
        layout=layout,
        places=_Places(below.grid, layout.chunks, ranks, keys),
        parents=parents,
        links=links[whole],
        link_attributes={
            name: Column(column.values[whole], column.channel_names, column.categories)
            for name, column in columns.items()
        },
        members=_assemble_members(below, results, offsets),
    )


def _assemble_parents(fine: IntArray, cover: Cover, results: list[_ChunkResult], offsets: IntArray) -> Parents:
    sizes = np.zeros(len(fine), dtype=np.int64)
    for chunk, result in enumerate(results):
        sizes[cover.members_of(chunk)] = [len(parent) for parent in result.parents]
    row_offsets = offsets_from_counts(sizes)
    numbers: npt.NDArray[np.int32] | IntArray = np.full(int(row_offsets[-1]), NO_PARENT, dtype=np.int32)
    if int(offsets[-1]) >= _LARGEST_INT32:
        numbers = numbers.astype(np.int64)
    for chunk, result in enumerate(results):
        for which, parent in zip(cover.members_of(chunk).tolist(), result.parents, strict=True):
            mine = numbers[row_offsets[which] : row_offsets[which + 1]]
            here = parent != NO_PARENT
            mine[here] = parent[here] + offsets[chunk]
    return Parents(fine, row_offsets, numbers)


def _assemble_links(cover: Cover, results: list[_ChunkResult], parents: Parents, width: int) -> IntArray:
    links = [np.empty((0, width), dtype=np.int64)]
    for chunk, result in enumerate(results):
        for which, local in zip(cover.members_of(chunk).tolist(), result.links, strict=True):
            links.append(parents.numbers[parents.row_offsets[which] + local].astype(np.int64))
    return np.concatenate(links)


def _assemble_members(below: _Below, results: list[_ChunkResult], offsets: IntArray) -> Ragged | None:
    if below.named is None or below.index.geometry.by_object:
        return None
    starts = np.repeat(offsets[:-1], [len(result.members) for result in results])
    pairs = np.concatenate([np.empty((0, 2), np.int64), *(result.members for result in results)])
    # Chunk after chunk, so that the metavertices of an object ascend.
    order = np.argsort(pairs[:, 0], kind="stable")
    counts = np.bincount(pairs[:, 0], minlength=below.named.num_objects)
    return Ragged((pairs[:, 1] + starts)[order], offsets_from_counts(counts))


def _in_threads(work: "Callable[[int], _ChunkResult]", count: int, workers: int) -> "Iterator[_ChunkResult]":
    """Yield ``work(0), work(1), …`` in order; at most ``workers`` results are waiting at any time."""
    if workers <= 1:
        yield from map(work, range(count))
        return
    with ThreadPoolExecutor(workers) as pool:
        waiting = [pool.submit(work, number) for number in range(min(workers, count))]
        for number in range(count):
            yield waiting.pop(0).result()
            following = number + workers
            if following < count:
                waiting.append(pool.submit(work, following))


def _description(
    index: LevelIndex, array: str, name: str, delta: int | None = None
) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    meta = index.meta(array, name, delta)
    return meta.channel_names, meta.categories
