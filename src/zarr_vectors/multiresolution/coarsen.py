"""One level from the one below it, by bins: chunk by chunk of the coarser grid, then object by object.

Memory: the chunks of the level below that one coarser chunk covers, or one batch of objects, plus
four bytes for each vertex of the level below (its parent) and eight for each metavertex (its bin).
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
from zarr_vectors.multiresolution.metavertices import (
    Reducer,
    RowGroups,
    centroids,
    group_rows,
    reduce_columns,
)
from zarr_vectors.multiresolution.plan import LevelPlan
from zarr_vectors.query.chunks import Fetch, LoadedChunks, Need, load_chunks, match_rows
from zarr_vectors.query.execute import read
from zarr_vectors.query.index import LevelIndex
from zarr_vectors.query.manifests import fragments_of_manifests
from zarr_vectors.query.result import Result
from zarr_vectors.query.selection import Selection
from zarr_vectors.ragged import Ragged, changes, offsets_from_counts
from zarr_vectors.spatial.grid import ChunkGrid
from zarr_vectors.spatial.partition import Layout
from zarr_vectors.table import Column
from zarr_vectors.typing import JSON, AnyArray, BoolArray, IntArray

BYTES_PER_PUT = 8 * 1024 * 1024
"""Payloads that wait before they are stored together."""

ROWS_PER_BATCH = 1_000_000
"""Vertices of the objects that are read at a time."""

NO_PARENT = -1


@dataclass(frozen=True, slots=True, eq=False)
class Parents:
    """The metavertex of each vertex of the level below: a row of the coarser chunk that covers its chunk."""

    fine_chunks: IntArray
    coarse_of: IntArray
    """Number of the coarser chunk that covers each chunk; -1 where no vertex of it survives."""
    rows: list[npt.NDArray[np.int32]]
    """For each chunk, the parent of each row; -1 for vertices that are not kept."""


@dataclass(frozen=True, slots=True, eq=False)
class Coarse:
    """What the first pass made: metavertices, written, and where they are."""

    layout: Layout
    """One row, and one fragment, a metavertex."""
    bins: IntArray
    """Flat bin of each metavertex in its chunk, ascending within a chunk."""
    grid: ChunkGrid
    parents: Parents
    links: IntArray
    """(links, width) metavertices, for links inside chunks of the level below; with repeats."""
    link_attributes: dict[str, Column]

    def find(self, positions: AnyArray) -> IntArray:
        """Return the metavertex of each position of a kept object."""
        chunks = self.grid.chunks_of(positions)
        number = match_rows(self.layout.chunks, chunks)
        bins = self.grid.bins_of(positions, chunks)
        per_chunk = int(np.prod(self.grid.bins_per_chunk))
        keys = np.repeat(np.arange(len(self.layout.chunks)), np.diff(self.layout.row_offsets)) * per_chunk + self.bins
        return np.searchsorted(keys, number * per_chunk + bins)


@dataclass(frozen=True, slots=True)
class CoarsenOptions:
    """What the caller may choose about how a level is made."""

    reducers: Mapping[str, Reducer]
    write: WriteOptions
    workers: int


def coarsen_chunks(
    index: LevelIndex, group: FsGroup, plan: LevelPlan, kept: IntArray | None, options: CoarsenOptions
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
        The objects that survive; ``None``: every vertex does.
    options
        Reducers, codecs and threads.
    """
    grid = ChunkGrid(plan.chunk_shape, plan.bin_shape)
    fine = index.chunks
    covering = np.floor_divide(fine, np.array(plan.chunk_scale, dtype=np.int64))
    chunks, number = np.unique(covering, axis=0, return_inverse=True)
    members = Ragged(
        np.argsort(number.reshape(-1), kind="stable"), offsets_from_counts(np.bincount(number.reshape(-1)))
    )
    survivors = None if kept is None else _surviving_fragments(index, kept)

    below = _Below(index, survivors, options)

    def work(chunk: int) -> _ChunkResult:
        which = members.values[members.offsets[chunk] : members.offsets[chunk + 1]]
        return _coarsen_chunk(below, grid, chunks[chunk], which)

    writer = _LevelWriter(group, options)
    results: list[_ChunkResult] = []
    for chunk, result in enumerate(_in_threads(work, len(chunks), options.workers)):
        writer.put(chunks[chunk], result)
        results.append(result.without_payload())
    writer.finish()
    return _assemble(fine, chunks, members, results, grid)


def object_metavertices(index: LevelIndex, coarse: Coarse, kept: IntArray) -> Iterator[tuple[Result, IntArray, Ragged]]:
    """Yield batches of kept objects: as read, the metavertex of each vertex, and those of each object in order.

    Along a path consecutive repeats are dropped; elsewhere each metavertex comes once, ascending.
    """
    for result in object_batches(index, kept):
        meta = coarse.find(result.positions)
        visited = meta[result.object_rows.values]
        owners = result.object_rows.owners
        if index.geometry.by_object:
            keep = changes(visited) | changes(owners)
        else:
            order = np.lexsort((visited, owners))
            visited, owners = visited[order], owners[order]
            keep = changes(visited) | changes(owners)
        counts = np.bincount(owners[keep], minlength=len(result.objects))
        yield result, meta, Ragged(visited[keep], offsets_from_counts(counts))


def object_lengths(index: LevelIndex, ids: IntArray) -> npt.NDArray[np.float64]:
    """Return the length of each object of the level: along its edges for paths and trees, else its vertices."""
    lengths = np.zeros(index.num_objects)
    for result in object_batches(index, ids):
        lengths[result.objects] = result.object_rows.counts
        if index.geometry.by_object and result.object_ids is not None:
            steps = result.positions[result.edges].astype(np.float64)
            spans = np.linalg.norm(steps[:, 1] - steps[:, 0], axis=1)
            owners = result.object_ids[result.edges[:, 0]]
            # An object of one vertex has no length, and is there nevertheless.
            lengths[result.objects] = np.finfo(np.float64).tiny
            lengths += np.bincount(owners, weights=spans, minlength=index.num_objects)
    return lengths


def object_batches(index: LevelIndex, ids: IntArray, *, attributes: tuple[str, ...] | None = ()) -> Iterator[Result]:
    """Yield objects of a level, about `ROWS_PER_BATCH` vertices at a time; ``None``: with all attributes."""
    average = max(index.group.metadata.vertex_count / max(index.num_objects, 1), 1.0)
    size = max(int(ROWS_PER_BATCH / average), 1)
    for begin in range(0, len(ids), size):
        yield read(index, Selection(object_ids=ids[begin : begin + size], attributes=attributes))


@dataclass(frozen=True, slots=True, eq=False)
class _ChunkResult:
    """The metavertices of one coarser chunk."""

    positions: AnyArray
    attributes: dict[str, Column]
    bins: IntArray
    count: int
    parents: list[npt.NDArray[np.int32]]
    """By chunk of the level below."""
    links: IntArray
    """(links, width) rows of this chunk."""
    link_attributes: dict[str, Column]

    def without_payload(self) -> "_ChunkResult":
        return _ChunkResult(
            self.positions[:0], {}, self.bins, self.count, self.parents, self.links, self.link_attributes
        )


def _coarsen_chunk(below: "_Below", grid: ChunkGrid, chunk: IntArray, which: IntArray) -> _ChunkResult:
    """Return the metavertices of one chunk of the new grid, which covers some of the level below."""
    index, survivors = below.index, below.survivors
    names = index.attribute_names(VERTEX_ATTRIBUTES)
    _, link_names = index.chosen_attributes(None)
    flat = index.geometry.has_links and not index.geometry.rooted
    need = Need(
        fragments=survivors is not None,
        links=flat,
        attributes=tuple(names),
        link_attributes=tuple(link_names) if flat else (),
    )
    loaded = load_chunks(Fetch(index.group), index.chunks[which], need, link_width=index.link_width)
    alive = None if survivors is None else survivors.rows(loaded, which)
    rows = np.arange(loaded.num_rows, dtype=np.int64) if alive is None else np.flatnonzero(alive)
    positions = loaded.positions.take(rows, axis=0)
    bins = grid.bins_of(positions, np.broadcast_to(chunk, positions.shape))
    groups = group_rows(bins)
    parent = np.full(loaded.num_rows, NO_PARENT, dtype=np.int32)
    parent[rows] = groups.group_of
    bounds = loaded.row_offsets.tolist()
    columns = {
        name: Column(values.take(rows, axis=0), *_description(index, name))
        for name, values in loaded.attributes.items()
    }
    links, link_columns = _coarse_links(index, loaded, parent)
    return _ChunkResult(
        positions=_inside_bins(centroids(positions, groups), positions, groups, grid, chunk),
        attributes=reduce_columns(columns, groups, below.options.reducers),
        bins=groups.keys,
        count=len(groups.keys),
        parents=[parent[begin:end] for begin, end in pairwise(bounds)],
        links=links,
        link_attributes=link_columns,
    )


def _inside_bins(means: AnyArray, positions: AnyArray, groups: RowGroups, grid: ChunkGrid, chunk: IntArray) -> AnyArray:
    """Return the means; where rounding puts one into another bin, a member of the group instead."""
    if len(means) == 0:
        return means
    chunks = grid.chunks_of(means)
    strayed = (chunks != chunk).any(axis=1) | (grid.bins_of(means, chunks) != groups.keys)
    means[strayed] = positions[groups.order[groups.starts[strayed]]]
    return means


def _coarse_links(
    index: LevelIndex, loaded: LoadedChunks, parent: npt.NDArray[np.int32]
) -> tuple[IntArray, dict[str, Column]]:
    links = parent[loaded.links].astype(np.int64)
    whole = distinct_ends(links)
    columns = {
        name: Column(values[whole], *_link_description(index, name)) for name, values in loaded.link_attributes.items()
    }
    return links[whole], columns


def distinct_ends(links: IntArray) -> BoolArray:
    """Tell which links have all their ends, and no two of them in one bin."""
    good: BoolArray = np.all(links >= 0, axis=1)
    for first in range(links.shape[1]):
        for second in range(first + 1, links.shape[1]):
            good &= links[:, first] != links[:, second]
    return good


class _LevelWriter:
    """Puts the payloads of a level some chunks at a time, and the arrays' metadata at the end."""

    def __init__(self, group: FsGroup, options: CoarsenOptions) -> None:
        self.group = group
        self.options = options.write
        self.totals: dict[str, int] = {}
        self.samples: dict[str, Column] = {}
        self.waiting: list[tuple[str, str, AnyArray, Sequence[Mapping[str, JSON]]]] = []
        self.waiting_bytes = 0

    def put(self, chunk: IntArray, result: _ChunkResult) -> None:
        if result.count == 0:
            return
        node = chunk_key(chunk.tolist())
        columns = {VERTICES: Column(result.positions)}
        columns |= {array_path(VERTEX_ATTRIBUTES, name=name): column for name, column in result.attributes.items()}
        for array, column in columns.items():
            values = np.ascontiguousarray(column.values, dtype=column.values.dtype.newbyteorder("<"))
            self.samples.setdefault(array, Column(values[:0], column.channel_names, column.categories))
            self.totals[array] = self.totals.get(array, 0) + len(values)
            self._add(array, node, values, self._meta(array))
        rows = np.arange(result.count, dtype=np.int64)
        blob = encode_ranges(rows, np.ones_like(rows), num_rows=result.count)
        self._add(VERTEX_FRAGMENTS, node, np.frombuffer(blob, dtype=np.uint8), self._fragments_meta())
        if self.waiting_bytes >= BYTES_PER_PUT:
            self.flush()

    def flush(self) -> None:
        self.group.put_arrays(self.waiting)
        self.waiting, self.waiting_bytes = [], 0

    def finish(self) -> None:
        self.flush()
        for array in self.samples:
            self.group.write_array_meta(array, self._meta(array))
        self.group.write_array_meta(VERTEX_FRAGMENTS, self._fragments_meta())

    def _add(self, array: str, node: str, values: AnyArray, meta: ArrayMetadata) -> None:
        self.waiting.append((array, node, values, meta.codecs or ()))
        self.waiting_bytes += values.nbytes

    def _fragments_meta(self) -> ArrayMetadata:
        return chunked_meta(VERTEX_FRAGMENTS, "uint8", encoding=FRAGMENT_INDEX_ENCODING)

    def _meta(self, array: str) -> ArrayMetadata:
        sample = self.samples[array]
        fields: dict[str, object] = {"encoding": "raw"} if array == VERTICES else {"name": array.split("/", 1)[1]}
        if sample.categories is not None:
            fields |= {"encoding": "dictionary", "categories": sample.categories}
        return chunked_meta(
            array,
            sample.values.dtype.name,
            ndim=sample.values.ndim,
            compressor=self.options.compressor,
            checksum=self.options.checksum,
            shape=[self.totals[array], *sample.values.shape[1:]],
            channel_names=sample.channel_names,
            **fields,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Survivors:
    """Fragments that a kept object names, by chunk."""

    fragments: Ragged

    def rows(self, loaded: LoadedChunks, which: IntArray) -> BoolArray:
        """Tell for each row of loaded chunks whether it survives."""
        named = self.fragments.take(which)
        numbers = named.values + loaded.fragment_offsets[named.owners]
        alive = np.zeros(loaded.num_rows, dtype=np.bool_)
        alive[loaded.fragments.take(numbers).values] = True
        return alive


@dataclass(frozen=True, slots=True, eq=False)
class _Below:
    """The level below, and what of it is kept."""

    index: LevelIndex
    survivors: _Survivors | None
    options: CoarsenOptions


def _surviving_fragments(index: LevelIndex, kept: IntArray) -> _Survivors:
    manifests = index.manifests(kept)
    chunk = match_rows(index.chunks, manifests.chunk_coords)
    if (chunk < 0).any():
        # Resolving them against no chunk at all raises the error that names the chunk and the object.
        empty = load_chunks(Fetch(index.group), index.chunks[:0], Need(fragments=True))
        fragments_of_manifests(manifests, empty, kept)
    fragments, offsets = manifests.fragments()
    of_chunk = np.repeat(chunk, np.diff(offsets))
    pairs = np.unique(np.stack([of_chunk, fragments], axis=1), axis=0)
    return _Survivors(Ragged(pairs[:, 1], np.searchsorted(pairs[:, 0], np.arange(len(index.chunks) + 1))))


def _assemble(
    fine: IntArray, chunks: IntArray, members: Ragged, results: list[_ChunkResult], grid: ChunkGrid
) -> Coarse:
    counts = np.array([result.count for result in results], dtype=np.int64)
    filled = counts > 0
    offsets = offsets_from_counts(counts)
    number = np.where(filled, np.cumsum(filled) - 1, -1)
    total = int(offsets[-1])
    rows = np.arange(total, dtype=np.int64)
    parents: list[npt.NDArray[np.int32]] = [np.empty(0, np.int32)] * len(fine)
    coarse_of = np.full(len(fine), -1, dtype=np.int64)
    for chunk, result in enumerate(results):
        for which, parent in zip(
            members.values[members.offsets[chunk] : members.offsets[chunk + 1]], result.parents, strict=True
        ):
            parents[which] = parent
            coarse_of[which] = number[chunk]
    columns: dict[str, Column] = {}
    for name in results[0].link_attributes if results else ():
        parts = [result.link_attributes[name] for result in results]
        columns[name] = Column(
            np.concatenate([part.values for part in parts]), parts[0].channel_names, parts[0].categories
        )
    links = [result.links + start for result, start in zip(results, offsets[:-1].tolist(), strict=True)]
    layout = Layout(
        chunks=chunks[filled],
        row_offsets=offsets_from_counts(counts[filled]),
        order=rows,
        fragment_offsets=offsets_from_counts(counts[filled]),
        fragment_starts=rows,
        fragment_counts=np.ones(total, dtype=np.int64),
        fragment_parts=rows,
        fragment_sequence=np.zeros(total, dtype=np.int64),
    )
    return Coarse(
        layout=layout,
        bins=np.concatenate([result.bins for result in results]) if results else rows,
        grid=grid,
        parents=Parents(fine, coarse_of, parents),
        links=np.concatenate(links) if links else np.empty((0, 2), np.int64),
        link_attributes=columns,
    )


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


def _description(index: LevelIndex, name: str) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    meta = index.meta(VERTEX_ATTRIBUTES, name)
    return meta.channel_names, meta.categories


def _link_description(index: LevelIndex, name: str) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    meta = index.group.read_array_meta(array_path(LINK_ATTRIBUTES, name=name, delta=0))
    return meta.channel_names, meta.categories
