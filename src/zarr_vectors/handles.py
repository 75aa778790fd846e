"""Lazy handles on the objects, groups and chunks of a level: nothing is read until it is asked for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from zarr_vectors.constants import GROUP_ATTRIBUTES, VERTEX_ATTRIBUTES
from zarr_vectors.core.keys import chunk_key
from zarr_vectors.exceptions import InputError, ObjectNotFoundError
from zarr_vectors.query.chunks import Fetch, LoadedChunks, Need, load_chunks
from zarr_vectors.query.conditions import decode_categories
from zarr_vectors.query.index import LevelIndex
from zarr_vectors.query.result import Result
from zarr_vectors.ragged import Ragged
from zarr_vectors.typing import AnyArray, ChunkCoords, IntArray

DEFAULT_BATCH = 1_000
"""Objects that iteration reads at a time."""

Reader = Callable[..., Result]


@dataclass(frozen=True, slots=True, eq=False)
class ObjectSet:
    """Some objects of a level."""

    ids: IntArray
    reader: Reader

    def read(self, **selection: Any) -> Result:  # noqa: ANN401  the keywords of Level.read
        """Read these objects; takes the keywords of `Level.read`."""
        return self.reader(object_ids=self.ids, **selection)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"object {self.ids[0]}" if len(self) == 1 else f"{len(self):,} objects"


@dataclass(frozen=True, slots=True, eq=False)
class Objects:
    """All objects of a level; index it by id, by a list of ids or by a slice."""

    index: LevelIndex
    reader: Reader

    def __len__(self) -> int:
        return self.index.num_objects

    def __getitem__(self, ids: int | np.integer[Any] | slice | Sequence[int] | IntArray) -> ObjectSet:
        if isinstance(ids, slice):
            chosen = range(len(self))[ids]
            if len(chosen) > self.index.group.limits.max_rows(0):
                message = f"{len(chosen)} objects at once are over the limit: read them in batches"
                raise InputError(message).at(level=self.index.group.level)
            numbers = np.arange(chosen.start, chosen.stop, chosen.step, dtype=np.int64)
            return ObjectSet(numbers, self.reader)
        given = np.atleast_1d(np.asarray(ids))
        if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
            raise InputError(f"object ids are integers, not {ids!r:.60}").at(level=self.index.group.level)
        numbers = given.astype(np.int64)
        outside = (numbers < 0) | (numbers >= len(self))
        if outside.any():
            known = f"ids go from 0 to {len(self) - 1}" if len(self) else "the level has no objects"
            raise ObjectNotFoundError(f"there is no object {int(numbers[outside][0])}: {known}").at(
                level=self.index.group.level
            )
        return ObjectSet(numbers, self.reader)

    def __iter__(self) -> Iterator[ObjectSet]:
        return (self[number] for number in range(len(self)))

    def batches(self, size: int = DEFAULT_BATCH, **selection: Any) -> Iterator[Result]:  # noqa: ANN401
        """Read all objects, so many at a time; takes the keywords of `Level.read`."""
        if size < 1:
            raise InputError(f"a batch holds at least one object, not {size}")
        return (self[begin : begin + size].read(**selection) for begin in range(0, len(self), size))

    @property
    def absent(self) -> IntArray:
        """Ids that exist and have no vertices at this level."""
        index = self.index
        if not index.has_objects:
            return np.empty(0, dtype=np.int64)
        if index.group.root.object_index_convention == "identity":
            # There is no manifest to be empty: the fragment is.
            loaded = load_chunks(Fetch(index.group), index.chunks, Need(fragments=True))
            return np.flatnonzero(loaded.fragments.counts == 0)
        return np.flatnonzero(np.diff(index.manifests(None).object_offsets) == 0)

    def __repr__(self) -> str:
        return f"{len(self):,} objects"


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of a level; index it by number."""

    index: LevelIndex
    reader: Reader

    def __len__(self) -> int:
        return len(self.index.groups)

    def __getitem__(self, number: int) -> ObjectSet:
        if not 0 <= number < len(self):
            raise ObjectNotFoundError(f"there is no group {number}: the level has {len(self)}").at(
                level=self.index.group.level
            )
        offsets = self.index.groups.offsets
        return ObjectSet(self.index.groups.values[offsets[number] : offsets[number + 1]], self.reader)

    def __iter__(self) -> Iterator[ObjectSet]:
        return (self[number] for number in range(len(self)))

    @cached_property
    def attributes(self) -> Mapping[str, AnyArray]:
        """Attributes of the groups, a row for each."""
        names = self.index.attribute_names(GROUP_ATTRIBUTES)
        return {name: self.index.group_attribute(name) for name in names}

    def __repr__(self) -> str:
        return f"{len(self):,} groups"


@dataclass(frozen=True, eq=False)
class Chunk:
    """One chunk of a level, with its rows as they are stored."""

    coords: ChunkCoords
    index: LevelIndex

    @property
    def bounds(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Corners of the part of space that the chunk covers; the upper one belongs to the next chunk."""
        shape = self.index.grid.chunk_shape
        low = tuple(number * size for number, size in zip(self.coords, shape, strict=True))
        return low, tuple(value + size for value, size in zip(low, shape, strict=True))

    @cached_property
    def _loaded(self) -> LoadedChunks:
        index = self.index
        need = Need(
            fragments=True,
            owners=index.has_objects and index.has_fragment_owners,
            links=index.geometry.has_links,
            attributes=tuple(index.attribute_names(VERTEX_ATTRIBUTES)),
        )
        coords = np.array([self.coords], dtype=np.int64)
        loaded = load_chunks(Fetch(index.group), coords, need, link_width=index.link_width)
        if loaded.lacks_links:
            index.check_links_inside()
        return loaded

    @property
    def positions(self) -> AnyArray:
        """Rows as they are stored, ``(rows, ndim)``."""
        return self._loaded.positions

    @property
    def attributes(self) -> dict[str, AnyArray]:
        """A row for each vertex; text as text."""
        return {
            name: decode_categories(values, self.index.meta(VERTEX_ATTRIBUTES, name).categories)
            for name, values in self._loaded.attributes.items()
        }

    @property
    def fragments(self) -> Ragged:
        """Rows of each fragment."""
        return self._loaded.fragments

    @property
    def fragment_objects(self) -> IntArray | None:
        """The object of each fragment, where the store keeps it."""
        return self._loaded.owners

    @property
    def links(self) -> IntArray:
        """(links, width) rows: the links inside the chunk."""
        return self._loaded.links

    def __repr__(self) -> str:
        return f"Chunk({chunk_key(self.coords)})"


@dataclass(frozen=True, slots=True, eq=False)
class Chunks:
    """The chunks of a level that hold vertices; index it by position or by coordinates."""

    index: LevelIndex

    def __len__(self) -> int:
        return len(self.index.chunks)

    def __getitem__(self, which: int | ChunkCoords) -> Chunk:
        coords: ChunkCoords
        if isinstance(which, tuple):
            coords = tuple(int(value) for value in which)
            known = self.index.chunks
            if len(coords) != known.shape[1] or not (known == np.array(coords)).all(axis=1).any():
                raise ObjectNotFoundError("no vertex lies in this chunk").at(
                    level=self.index.group.level, chunk=chunk_key(coords)
                )
        else:
            coords = tuple(self.index.chunks[range(len(self))[which]].tolist())
        return Chunk(coords, self.index)

    def __iter__(self) -> Iterator[Chunk]:
        return (self[number] for number in range(len(self)))

    def __repr__(self) -> str:
        return f"{len(self):,} chunks"
