"""Stores made by hand, chunk by chunk, for what our own write functions never make."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from zarr.storage import MemoryStore

import zarr_vectors as zv
from zarr_vectors.api import Level, Store
from zarr_vectors.constants import VERTEX_FRAGMENTS
from zarr_vectors.core import writers
from zarr_vectors.core.counting import CountingStorage
from zarr_vectors.core.group import FsGroup
from zarr_vectors.core.location import resolve
from zarr_vectors.core.object_index import write_object_manifests
from zarr_vectors.core.storage import Storage
from zarr_vectors.encoding.fragments import encode_fragments
from zarr_vectors.encoding.manifests import manifest_table
from zarr_vectors.typing import ChunkCoords, FragmentLike

Blocks = Sequence[tuple[ChunkCoords, Sequence[int]]]


def hand_made(
    geometry_type: str,
    vertices: Mapping[ChunkCoords, npt.ArrayLike],
    fragments: Mapping[ChunkCoords, Sequence[FragmentLike]],
    manifests: Sequence[Blocks],
    *,
    links: Mapping[ChunkCoords, npt.ArrayLike] | None = None,
    link_width: int = 2,
    across: npt.ArrayLike | None = None,
    row: bool = True,
    level: Mapping[str, Any] | None = None,
    **root: Any,
) -> Level:
    """Return level 0 of a store with chunks of side 10; the attribute ``row`` counts through all chunks."""
    ndim = len(next(iter(vertices)))
    metadata = zv.RootMetadata.parse(
        {
            "chunk_shape": (10.0,) * ndim,
            "bounds": ((-100.0,) * ndim, (100.0,) * ndim),
            "geometry_types": (geometry_type,),
            **root,
        },
        "root",
    )
    store = MemoryStore()
    with zv.create(store, metadata) as draft:
        group = draft.add_level(zv.LevelMetadata.parse({"level": 0, **(level or {})}, "level"))
        write_arrays(group, vertices, fragments, manifests)
        if row:
            counts = {coords: len(np.asarray(rows)) for coords, rows in sorted(vertices.items())}
            starts = np.cumsum([0, *counts.values()])
            numbers = {c: np.arange(s, s + n) for (c, n), s in zip(counts.items(), starts, strict=False)}
            writers.write_vertex_attribute(group, "row", numbers)
        if links is not None:
            num_rows = {coords: len(np.asarray(rows)) for coords, rows in vertices.items()}
            writers.write_links(group, links, num_rows, width=link_width)
        if across is not None:
            writers.write_cross_chunk_links(group, across, width=np.shape(across)[1])
    return zv.open(store)[0]


def write_arrays(
    group: FsGroup,
    vertices: Mapping[ChunkCoords, npt.ArrayLike],
    fragments: Mapping[ChunkCoords, Sequence[FragmentLike]],
    manifests: Sequence[Blocks],
) -> None:
    writers.write_vertices(group, {coords: np.asarray(rows, "f4") for coords, rows in vertices.items()})
    blobs = {coords: encode_fragments(list(items)) for coords, items in fragments.items()}
    writers.write_fragments(group, VERTEX_FRAGMENTS, blobs)
    blocks = [block for manifest in manifests for block in manifest]
    table = manifest_table(
        np.cumsum([0, *map(len, manifests)]),
        np.array([coords for coords, _ in blocks], dtype=np.int64).reshape(len(blocks), group.ndim),
        np.cumsum([0, *(len(numbers) for _, numbers in blocks)]),
        np.array([number for _, numbers in blocks for number in numbers], dtype=np.int64),
    )
    write_object_manifests(group, table)


def counted(location: object) -> tuple[Store, CountingStorage]:
    """Return a store that counts what is asked of it."""
    storage: Storage = resolve(location)
    counting = CountingStorage(storage)
    return Store(counting), counting
