"""What validation learns of a store and keeps: metadata, which chunks there are, and how much is in each."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from zarr_vectors.constants import LINKS, OBJECT_INDEX, VERTEX_FRAGMENTS, VERTICES
from zarr_vectors.core.group import DRACO_ENCODING, FsGroup, PayloadKey
from zarr_vectors.core.keys import array_path, chunk_key
from zarr_vectors.core.metadata import ArrayMetadata, RootMetadata
from zarr_vectors.core.nodes import ArrayNode
from zarr_vectors.core.storage import Storage
from zarr_vectors.exceptions import ZarrVectorsError
from zarr_vectors.query.chunks import match_rows
from zarr_vectors.query.index import LevelIndex
from zarr_vectors.spatial.grid import ChunkGrid
from zarr_vectors.types import geometry_named
from zarr_vectors.types.geometry import Geometry
from zarr_vectors.typing import ByteArray, IntArray
from zarr_vectors.validate.report import Place

BROKEN: Final = -1
"""Stands for a number that is not known, because what would tell is broken and reported."""

CHUNKS_PER_BATCH: Final = 256
BYTES_PER_BATCH: Final = 64 * 1024 * 1024


@dataclass(slots=True, eq=False)
class ArrayView:
    """One array of a level."""

    path: str
    meta: ArrayMetadata
    coords: IntArray
    """(chunks, ndim), ascending: the chunks it has, sound or not."""
    sizes: IntArray
    """Bytes of each chunk's payload; `BROKEN` where it can't be read."""
    nodes: dict[str, ArrayNode | None] = field(default_factory=dict)
    """Of an array for the whole level: what it is made of; ``None``: broken."""
    attributes: dict[str, Any] = field(default_factory=dict)
    """As they stand in its ``zarr.json``."""

    def sizes_of(self, coords: IntArray) -> IntArray:
        """Return the payload bytes of some chunks; `BROKEN` for chunks that it does not have."""
        found = match_rows(self.coords, coords)
        return np.where(found >= 0, np.append(self.sizes, BROKEN)[found], BROKEN)


@dataclass(slots=True, eq=False)
class LevelView:
    """One level: its arrays, and for each chunk how many rows, fragments and links it has."""

    group: FsGroup
    arrays: dict[str, ArrayView]
    document: dict[str, Any]
    """The level's ``zarr.json``."""
    num_rows: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    """Of each chunk of ``vertices``; `BROKEN` where it is not known."""
    num_fragments: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    num_links: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    num_objects: int = 0
    objects_present: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    """Object ids with at least one fragment, ascending; one entry an object."""
    level0_ids: IntArray | None = None
    """The id at level 0 of each object; ``None`` where it is not known."""
    low: tuple[float, ...] | None = None
    """The least position on each axis; ``None`` without rows."""
    high: tuple[float, ...] | None = None

    @property
    def number(self) -> int:
        """0 is full resolution."""
        return self.group.level

    @property
    def place(self) -> Place:
        """The level as a place."""
        return Place(self.number)

    @property
    def chunks(self) -> IntArray:
        """(chunks, ndim): those that hold vertices, ascending."""
        return self.arrays[VERTICES].coords

    @property
    def grid(self) -> ChunkGrid:
        """The level's chunks and bins."""
        return LevelIndex(self.group).grid

    @property
    def is_draco(self) -> bool:
        """Whether positions are Draco bitstreams."""
        return self.arrays[VERTICES].meta.encoding == DRACO_ENCODING

    @property
    def has_objects(self) -> bool:
        """Whether vertices belong to objects."""
        return self.is_identity or OBJECT_INDEX in self.arrays

    @property
    def is_identity(self) -> bool:
        """Whether object ``k`` is fragment ``k``."""
        return self.group.root.object_index_convention == "identity"

    @property
    def is_merged(self) -> bool:
        """Whether rows are metavertices, made of all rows of a bin."""
        meta = self.group.metadata
        return meta.level > 0 and meta.coarsening_method == "per_object" and meta.shared_fragments

    def find(self, coords: IntArray) -> IntArray:
        """Return the number of each chunk, -1 for those that do not exist."""
        return match_rows(self.chunks, coords)

    def links_to(self, delta: int) -> list[str]:
        """Return the arrays that hold links to another level."""
        paths = [array_path(name, delta=delta) for name in (LINKS, "cross_chunk_links")]
        return [path for path in paths if path in self.arrays]


@dataclass(slots=True, eq=False)
class StoreView:
    """A store as far as its structure is sound."""

    storage: Storage
    root: RootMetadata
    document: dict[str, Any]
    levels: dict[int, LevelView]

    @property
    def geometry(self) -> Geometry:
        """What kind of geometry it holds."""
        return geometry_named(self.root.geometry_types[0])


def batches(level: LevelView, arrays: list[str], coords: IntArray) -> Iterator[IntArray]:
    """Yield numbers of chunks whose payloads in some arrays are few enough, and small enough, to hold at a time."""
    sizes = [level.arrays[path].sizes_of(coords) for path in arrays]
    weights = np.sum([np.maximum(item, 0) for item in sizes], axis=0) if sizes else np.zeros(len(coords), np.int64)
    begin, total = 0, 0
    for number, weight in enumerate(weights.tolist()):
        if number > begin and (number - begin >= CHUNKS_PER_BATCH or total + weight > BYTES_PER_BATCH):
            yield np.arange(begin, number)
            begin, total = number, 0
        total += weight
    if begin < len(coords):
        yield np.arange(begin, len(coords))


def read_each(group: FsGroup, requests: list[PayloadKey]) -> list[ByteArray | ZarrVectorsError | None]:
    """Return many payloads, or what is wrong with each: one batch, and smaller ones only around what is broken."""
    try:
        return list(group.read_payloads(requests))
    except ZarrVectorsError as error:
        if len(requests) <= 1:
            return [error]
    half = len(requests) // 2
    return [*read_each(group, requests[:half]), *read_each(group, requests[half:])]


def key_of(coords: IntArray) -> str:
    """Return the key of a chunk."""
    return chunk_key(coords.tolist())


REQUIRED: Final = (VERTICES, VERTEX_FRAGMENTS)
