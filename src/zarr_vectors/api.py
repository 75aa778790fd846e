"""The library's face: `open`, `create`, `Store` and `Level`; thin handles, no logic."""

import asyncio
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import numpy.typing as npt

from zarr_vectors.core.group import FsGroup
from zarr_vectors.core.limits import DEFAULT_LIMITS, ReadLimits
from zarr_vectors.core.location import resolve
from zarr_vectors.core.lock import changing
from zarr_vectors.core.metadata import LevelMetadata, RootMetadata
from zarr_vectors.core.storage import Storage
from zarr_vectors.core.store import Mode, StoreDraft, create_store, list_levels, read_level, read_root
from zarr_vectors.exceptions import InputError, ObjectNotFoundError, ZarrVectorsError
from zarr_vectors.handles import Chunks, Groups, Objects
from zarr_vectors.multiresolution.crosslevel import CrossLevelMap, read_children, read_parents
from zarr_vectors.multiresolution.options import PyramidOptions, PyramidSummary
from zarr_vectors.multiresolution.plan import Factor
from zarr_vectors.multiresolution.pyramid import build
from zarr_vectors.query.conditions import Where
from zarr_vectors.query.execute import read
from zarr_vectors.query.html import table_html
from zarr_vectors.query.index import LevelIndex
from zarr_vectors.query.result import Result
from zarr_vectors.query.selection import GroupSelection, Selection


class Level:
    """One resolution level of a store."""

    def __init__(self, group: FsGroup, store: "Store") -> None:
        self.group = group
        self.index = LevelIndex(group)
        self._store = store

    @property
    def number(self) -> int:
        """0 is full resolution."""
        return self.group.level

    @property
    def metadata(self) -> LevelMetadata:
        """The level's metadata, with its grid spelled out."""
        return self.group.metadata

    def read(
        self,
        *,
        bbox: Sequence[npt.ArrayLike] | None = None,
        object_ids: int | npt.ArrayLike | None = None,
        groups: GroupSelection | None = None,
        attributes: Sequence[str] | None = None,
        where: Where | None = None,
        limit: int | None = None,
        crop: bool | None = None,
    ) -> Result:
        """Return what a selection means; all parts of it combine.

        Parameters
        ----------
        bbox
            ``(lower corner, upper corner)``, both ends included.
        object_ids
            One id or several; they come back in this order.
        groups
            Group numbers, or conditions on group attributes as in ``where``.
        attributes
            Names of vertex and link attributes to read; ``None``: all, ``[]``: none.
        where
            Conditions on vertex, object or group attributes: ``{"fa": (0.2, None)}`` is a range,
            ``{"label": 3}`` equality, ``{"kind": ["a", "b"]}`` a choice, ``{"n": (">", 5)}`` or
            ``[("n", ">", 5)]`` a comparison.
        limit
            At most this many objects (lines, paths, skeletons) or vertices (all else); the result's
            ``truncated`` says whether there was more.
        crop
            ``True``: only what lies in the box and meets the conditions on vertices. ``False``: whole
            objects with such a vertex. By default points, graphs and meshes are cropped, and lines,
            paths and skeletons come whole.
        """
        selection = Selection.parse(
            self.group.ndim,
            bbox=bbox,
            object_ids=object_ids,
            groups=groups,
            attributes=attributes,
            where=where,
            limit=limit,
            crop=crop,
        )
        return read(self.index, selection)

    async def aread(self, **selection: Any) -> Result:  # noqa: ANN401  the keywords of read
        """Do the same as `read` without blocking the event loop; takes the same keywords."""
        return await asyncio.to_thread(self.read, **selection)

    def parents(self, delta: int = 1) -> CrossLevelMap:
        """Return the vertex, ``delta`` levels up, that each vertex of this level became part of."""
        return read_parents(self.group, self._store[self.number + delta].group)

    def children(self, delta: int = 1) -> CrossLevelMap:
        """Return the vertices, ``delta`` levels down, that became each vertex of this level."""
        return read_children(self.group, self._store[self.number - delta].group)

    @property
    def objects(self) -> Objects:
        """The objects of this level, to index by id."""
        return Objects(self.index, self.read)

    @property
    def groups(self) -> Groups:
        """The groups of this level, to index by number."""
        return Groups(self.index, self.read)

    @property
    def chunks(self) -> Chunks:
        """The chunks that hold vertices, for work that goes chunk by chunk."""
        return Chunks(self.index)

    def _repr_html_(self) -> str:
        meta = self.metadata
        rows = [("vertices", f"{meta.vertex_count:,}"), ("arrays", ", ".join(meta.arrays_present))]
        return table_html(f"Level {self.number}", rows)

    def __repr__(self) -> str:
        return f"Level({self.number}, {self.metadata.vertex_count:,} vertices)"


class Store:
    """An open store: its metadata and its levels."""

    def __init__(self, storage: Storage, *, limits: ReadLimits = DEFAULT_LIMITS) -> None:
        self.storage = storage
        self.limits = limits
        self._load()

    def _load(self) -> None:
        self.metadata: RootMetadata = read_root(self.storage)
        self._levels: dict[int, Level] = {}
        self._numbers = tuple(list_levels(self.storage, self.metadata))

    @property
    def url(self) -> str:
        """Where the store is."""
        return self.storage.url

    @property
    def levels(self) -> tuple[int, ...]:
        """Numbers of the levels, finest first."""
        return self._numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[Level]:
        return (self[level] for level in self._numbers)

    def __getitem__(self, level: int) -> Level:
        if level not in self._numbers:
            known = f"only {', '.join(map(str, self._numbers))}" if self._numbers else "nor any other"
            raise ObjectNotFoundError(f"there is no such level, {known}").at(store=self.url, level=level)
        if level not in self._levels:
            group = read_level(self.storage, self.metadata, level, limits=self.limits)
            self._levels[level] = Level(group, self)
        return self._levels[level]

    @property
    def groups(self) -> Groups:
        """The groups of level 0."""
        return self[0].groups

    def level_for(self, *, vertices: int | None = None, resolution: float | None = None) -> Level:
        """Return the level that suits a purpose.

        Parameters
        ----------
        vertices
            The finest level with at most so many vertices, or, without one, the coarsest.
        resolution
            The coarsest level whose bins are at most this large on every axis, or, without one, level 0.
        """
        if (vertices is None) == (resolution is None):
            raise InputError("a level is chosen by vertices or by resolution")
        levels = list(self)
        if vertices is not None:
            return next((level for level in levels if level.metadata.vertex_count <= vertices), levels[-1])
        fine = [level for level in levels if max(level.metadata.bin_shape or (0.0,)) <= float(resolution or 0.0)]
        return fine[-1] if fine else levels[0]

    def build_pyramid(self, factors: Sequence[Factor | int] | None = None, **options: Any) -> PyramidSummary:  # noqa: ANN401
        """Build coarser levels over level 0, in place of any that are there.

        Parameters
        ----------
        factors
            For each level ``(bin_factor, sparsity_factor)``, relative to the level below: ``(2, 1.0)``
            doubles the bins, ``(2, 2.0)`` also keeps one object in two. A bin factor may be given for
            each axis. ``None``: levels are planned by the data.
        **options
            See `zarr_vectors.multiresolution.PyramidOptions`.
        """
        with changing(self.storage):
            summary = build(self.storage, factors, PyramidOptions(**options))
        self._load()
        return summary

    def close(self) -> None:
        """Let go of what is open."""
        self.storage.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        kinds = ", ".join(self.metadata.geometry_types)
        return f"Store({self.url!r}, {kinds}, {self.metadata.ndim}-D, {len(self)} levels)"

    def _repr_html_(self) -> str:
        root = self.metadata
        rows = [
            ("geometry", ", ".join(root.geometry_types)),
            ("axes", ", ".join(axis.name for axis in root.axes)),
            ("bounds", " to ".join(str(list(corner)) for corner in root.bounds)),
            ("chunk", str(list(root.chunk_shape))),
            ("levels", ", ".join(f"{level.number}: {level.metadata.vertex_count:,} vertices" for level in self)),
        ]
        return table_html(self.url, rows)


def open(location: object, *, trusted: bool = False, max_bytes: int | None = None, follow_links: bool = False) -> Store:
    """Open a store for reading.

    Parameters
    ----------
    location
        A path, a ``file://`` or ``memory://`` URL, a ``.zip`` file, or a Zarr store object.
    trusted
        Leave out the checks that the rows, fragments, chunks and links which a store names are
        there: a little faster, and for a damaged store, wrong.
    max_bytes
        Most bytes that one payload may unpack to, and one read may spend on row numbers; more is an
        error before the memory is asked for. ``None``: 2 GiB, and no more than 256 for each byte
        that is stored.
    follow_links
        Whether symbolic links inside a local store may lead out of it.

    Raises
    ------
    StoreNotFoundError
        If there is no zarr-vectors store at this place.
    UnfinishedWriteError
        If a write to it did not finish.
    UnsupportedVersionError
        If it is of a format version that this reader does not know.
    """
    if max_bytes is not None and max_bytes < 1:
        raise InputError(f"max_bytes is a positive number, not {max_bytes!r}")
    storage = resolve(location, follow_links=follow_links, max_bytes=max_bytes)
    try:
        return Store(storage, limits=ReadLimits(max_bytes, trusted))
    except ZarrVectorsError:
        storage.close()
        raise


def create(location: object, metadata: RootMetadata, *, mode: Mode = "x") -> StoreDraft:
    """Begin a new store, to be filled level by level with the functions of `zarr_vectors.core.writers`.

    Parameters
    ----------
    location
        As in `open`.
    metadata
        Of the root group.
    mode
        ``"x"``: refuse a place that holds anything. ``"w"``: replace a zarr-vectors store.

    Returns
    -------
    StoreDraft
        A context manager: the store can be opened once its block has ended without an error.
    """
    storage = resolve(location, writing=True)
    try:
        return create_store(storage, metadata, mode=mode)
    except ZarrVectorsError:
        storage.close()
        raise
