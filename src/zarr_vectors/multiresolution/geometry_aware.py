"""Levels that know what they coarsen: paths and trees with fewer points, meshes with fewer triangles.

Such a level is marked ``coarsening_method: "manual"``. Its vertices are not metavertices, so no
links lead to it from the level below. Simplified objects are held in memory until they are written.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from zarr_vectors.constants import VERTEX_ATTRIBUTES
from zarr_vectors.exceptions import InputError, MissingDependencyError
from zarr_vectors.multiresolution.coarsen import object_batches
from zarr_vectors.multiresolution.metavertices import Reducer, group_rows, reduce_columns
from zarr_vectors.multiresolution.plan import LevelPlan
from zarr_vectors.multiresolution.simplify import simplify_paths, simplify_trees
from zarr_vectors.query.index import LevelIndex
from zarr_vectors.query.result import Result
from zarr_vectors.ragged import offsets_from_counts
from zarr_vectors.table import Column, VertexTable
from zarr_vectors.types import meshes, polylines, skeletons
from zarr_vectors.typing import AnyArray, IntArray

TRIANGLE = 3


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A batch of simplified objects."""

    positions: AnyArray
    attributes: dict[str, Column]
    object_ids: IntArray
    """Of each vertex, in the numbering of the new level."""
    links: IntArray
    """Vertices of the batch: parents, as [parent] rows, of trees; corners of faces; nothing for paths."""


def simplified_table(
    index: LevelIndex, plan: LevelPlan, kept: IntArray, new_ids: IntArray, reducers: Mapping[str, Reducer]
) -> VertexTable:
    """Return the table of a level whose kept objects are simplified.

    Parameters
    ----------
    index
        The level below.
    plan
        Bins of the new level: no dropped vertex lies more than half a bin from what stays, and a
        mesh loses as many triangles as there are bins fewer.
    kept, new_ids
        The objects to keep, and their numbers at the new level.
    reducers
        How attributes of vertices that become one are reduced.
    """
    number = np.full(index.num_objects, -1, dtype=np.int64)
    number[kept] = new_ids
    parts = list(_parts(index, plan, kept, reducers))
    positions = np.concatenate([part.positions for part in parts])
    ids = number[np.concatenate([part.object_ids for part in parts])]
    columns = {
        name: Column(
            np.concatenate([part.attributes[name].values for part in parts]), column.channel_names, column.categories
        )
        for name, column in parts[0].attributes.items()
    }
    count = int(new_ids.max()) + 1 if len(new_ids) else 0
    starts = np.cumsum([0, *(len(part.positions) for part in parts)])
    links = [np.where(part.links < 0, -1, part.links + start) for part, start in zip(parts, starts, strict=False)]
    if index.geometry.rooted:
        return skeletons.lower(positions, np.concatenate(links).reshape(-1), columns, ids, count)
    if index.geometry.by_object:
        counts = np.bincount(ids, minlength=count)
        order = np.argsort(ids, kind="stable")
        ordered = {name: Column(c.values[order], c.channel_names, c.categories) for name, c in columns.items()}
        return polylines.lower(positions[order], offsets_from_counts(counts), ordered)
    return meshes.lower(positions, np.concatenate(links), columns, {}, object_ids=ids)


def _parts(index: LevelIndex, plan: LevelPlan, kept: IntArray, reducers: Mapping[str, Reducer]) -> Iterator[_Part]:
    tolerance = np.array(plan.bin_shape) / 2
    if index.geometry.rooted:
        for result in object_batches(index, kept, attributes=None):
            yield _simplified_trees(index, result, tolerance)
    elif index.geometry.by_object:
        for result in object_batches(index, kept, attributes=None):
            yield _simplified_paths(index, result, tolerance)
    elif index.link_width == TRIANGLE and index.geometry.has_links:
        for object_id in kept.tolist():
            yield from _decimated(index, object_id, plan, reducers)
    else:
        raise InputError("only paths, skeletons and triangle meshes can be simplified: use method='bins'")


def _simplified_paths(index: LevelIndex, result: Result, tolerance: AnyArray) -> _Part:
    pieces = result.pieces if result.pieces is not None else np.zeros(1, np.int64)
    stays = simplify_paths(result.positions, pieces, tolerance)
    return _rows(index, result, np.flatnonzero(stays), np.empty((0, 1), dtype=np.int64))


def _simplified_trees(index: LevelIndex, result: Result, tolerance: AnyArray) -> _Part:
    parents = result.parents if result.parents is not None else np.empty(0, np.int64)
    stays, hung_on = simplify_trees(result.positions, parents, tolerance)
    return _rows(index, result, np.flatnonzero(stays), hung_on[:, None])


def _decimated(index: LevelIndex, object_id: int, plan: LevelPlan, reducers: Mapping[str, Reducer]) -> Iterator[_Part]:
    (result,) = object_batches(index, np.array([object_id]), attributes=None)
    library = _library()
    factor = float(np.prod(np.array(plan.bin_shape) / np.array(_bins_below(index)))) ** (2 / len(plan.bin_shape))
    faces = result.faces.astype(np.int32)
    if len(faces) == 0:
        yield _rows(index, result, np.arange(len(result)), result.faces)
        return
    points = result.positions.astype(np.float64)
    _, _, collapses = library.simplify(
        points, faces, target_reduction=max(1.0 - 1.0 / factor, 0.0), return_collapses=True
    )
    fewer, triangles, mapping = library.replay_simplification(points, faces, collapses)
    groups = group_rows(np.asarray(mapping, dtype=np.int64))
    columns = reduce_columns(_columns(index, result), groups, reducers)
    yield _Part(
        fewer.astype(result.positions.dtype),
        columns,
        np.full(len(fewer), object_id, dtype=np.int64),
        triangles.astype(np.int64),
    )


def _bins_below(index: LevelIndex) -> tuple[float, ...]:
    return index.grid.bin_shape


def _rows(index: LevelIndex, result: Result, rows: IntArray, links: IntArray) -> _Part:
    ids = result.object_ids if result.object_ids is not None else np.empty(0, np.int64)
    columns = {
        name: Column(column.values.take(rows, axis=0), column.channel_names, column.categories)
        for name, column in _columns(index, result).items()
    }
    return _Part(result.positions.take(rows, axis=0), columns, ids[rows], links)


def _columns(index: LevelIndex, result: Result) -> dict[str, Column]:
    """Return the attributes of a result as they are stored: text as numbers of categories."""
    columns = {}
    for name, values in result.attributes.items():
        meta = index.meta(VERTEX_ATTRIBUTES, name)
        if meta.categories is None:
            columns[name] = Column(values, meta.channel_names)
        else:
            table = np.array(meta.categories)
            order = np.argsort(table)
            codes = order[np.searchsorted(table[order], values)]
            columns[name] = Column(codes.astype(np.min_scalar_type(len(table))), None, meta.categories)
    return columns


def _library() -> ModuleType:
    try:
        import fast_simplification  # noqa: PLC0415
    except ImportError as error:
        raise MissingDependencyError("decimating a mesh", extra="mesh") from error
    module: ModuleType = fast_simplification
    return module
