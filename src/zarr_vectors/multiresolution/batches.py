"""Going through a level without holding all of it: objects in batches, fragments chunk by chunk."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from zarr_vectors.constants import VERTEX_FRAGMENTS
from zarr_vectors.core.keys import chunk_key
from zarr_vectors.exceptions import DecodeError
from zarr_vectors.query.chunks import Fetch, LoadedChunks, Need, load_chunks, match_rows
from zarr_vectors.query.execute import read
from zarr_vectors.query.index import LevelIndex
from zarr_vectors.query.manifests import fragments_of_manifests
from zarr_vectors.query.result import Result
from zarr_vectors.query.selection import Selection
from zarr_vectors.ragged import Ragged, concatenated_ranges
from zarr_vectors.typing import IntArray

ROWS_PER_BATCH = 1_000_000
"""Vertices of the objects that are read at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class NamedByChunk:
    """The fragments of each chunk that some objects name."""

    fragments: Ragged
    objects: IntArray
    """The place, among these objects, of the one that names each fragment."""
    num_objects: int

    def rows(self, loaded: LoadedChunks, which: IntArray) -> tuple[IntArray, IntArray]:
        """Return pairs of an object's place and a row of the loaded chunks, which have these numbers."""
        counts = self.fragments.counts[which]
        entries = concatenated_ranges(self.fragments.offsets[which], counts)
        chunk = np.repeat(np.arange(len(which)), counts)
        numbers = self.fragments.values[entries]
        available = np.diff(loaded.fragment_offsets)[chunk]
        outside = numbers >= available
        if outside.any():
            first = int(np.argmax(outside))
            raise DecodeError(f"a manifest names a fragment beyond the chunk's {available[first]}", rule="fragment").at(
                array=VERTEX_FRAGMENTS, chunk=chunk_key(loaded.coords[chunk[first]].tolist())
            )
        expanded = loaded.fragments.take(numbers + loaded.fragment_offsets[chunk])
        return self.objects[entries][expanded.owners], expanded.values


def named_by_chunk(index: LevelIndex, ids: IntArray) -> NamedByChunk:
    """Return the fragments that objects name, by chunk of the level."""
    manifests = index.manifests(ids)
    chunk = match_rows(index.chunks, manifests.chunk_coords)
    if (chunk < 0).any():
        # Resolving them against no chunk at all raises the error that names the chunk and the object.
        empty = load_chunks(Fetch(index.group), index.chunks[:0], Need(fragments=True))
        fragments_of_manifests(manifests, empty, ids)
    fragments, offsets = manifests.fragments()
    counts = np.diff(offsets)
    of_chunk = np.repeat(chunk, counts)
    of_object = np.repeat(np.repeat(np.arange(len(ids)), np.diff(manifests.object_offsets)), counts)
    order = np.argsort(of_chunk, kind="stable")
    ends = np.searchsorted(of_chunk[order], np.arange(len(index.chunks) + 1))
    return NamedByChunk(Ragged(fragments[order], ends), of_object[order], len(ids))


def object_batches(index: LevelIndex, ids: IntArray, *, attributes: tuple[str, ...] | None = ()) -> Iterator[Result]:
    """Yield objects of a level, about `ROWS_PER_BATCH` vertices at a time; ``None``: with all attributes.

    At least one batch comes, if need be without objects.
    """
    for begin, end in _batches(index, ids):
        yield read(index, Selection(object_ids=ids[begin:end], attributes=attributes))


def object_lengths(index: LevelIndex, ids: IntArray) -> npt.NDArray[np.float64]:
    """Return the length of each object of the level: along its edges for paths and trees, else its vertices.

    An object of one vertex has no length, and is there nevertheless: its length is a little above 0.
    """
    lengths = np.zeros(index.num_objects)
    if not index.geometry.by_object:
        named = named_by_chunk(index, ids)
        for number in range(len(index.chunks)):
            which = np.array([number])
            loaded = load_chunks(Fetch(index.group), index.chunks[which], Need(fragments=True))
            objects, _ = named.rows(loaded, which)
            np.add.at(lengths, ids[objects], 1.0)
        return lengths
    for result in object_batches(index, ids):
        steps = result.positions[result.edges].astype(np.float64)
        spans = np.linalg.norm(steps[:, 1] - steps[:, 0], axis=1)
        owners = result.object_rows.owners[result.edges[:, 0]]
        along = np.bincount(owners, weights=spans, minlength=len(result.objects))
        lengths[result.objects] = np.maximum(along, np.finfo(np.float64).tiny)
    return lengths


def _batches(index: LevelIndex, ids: IntArray) -> list[tuple[int, int]]:
    """Return where batches of objects begin and end, by how many fragments each object names."""
    manifests = index.manifests(ids)
    ends = np.concatenate([[0], np.cumsum(manifests.counts)])[manifests.object_offsets]
    # Where objects share fragments they name more vertices than there are.
    total = max(int(ends[-1]), 1)
    per_fragment = max(index.group.metadata.vertex_count / total, 1.0)
    step = max(ROWS_PER_BATCH / per_fragment, 1.0)
    borders = np.flatnonzero(np.diff(ends[:-1] // step, prepend=0.0) > 0).tolist()
    return list(zip([0, *borders], [*borders, len(ids)], strict=True))
