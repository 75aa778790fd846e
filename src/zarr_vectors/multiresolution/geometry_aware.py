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
from zarr_vectors.multiresolution.batches import object_batches
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
SPATIAL = 3


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A batch of simplified objects."""

    positions: AnyArray
    attributes: dict[str, Column]
    object_ids: IntArray
    """Of each vertex, in the numbering of the new level."""
    links: IntArray
    """Vertices of the batch: parents, as [parent] rows, of trees; corners of faces; nothing for paths."""


def check_simplifiable(index: LevelIndex) -> None:
    """Raise unless the objects of a level can be simplified."""
    geometry = index.geometry
    if geometry.by_object and index.has_objects:
        return
    if not geometry.has_links or index.link_width != TRIANGLE or index.group.ndim != SPATIAL or not index.has_objects:
        raise InputError(
            "only paths, skeletons and triangle meshes in three dimensions can be simplified: use method='bins'"
        )
    _library()


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
    explicit = index.group.root.links_convention == "explicit"
    starts = np.cumsum([0, *(len(part.positions) for part in parts)])
    links = [np.where(part.links < 0, -1, part.links + start) for part, start in zip(parts, starts, strict=False)]
    if index.geometry.rooted:
        return skeletons.lower(positions, np.concatenate(links).reshape(-1), columns, ids, count, explicit=explicit)
    if index.geometry.by_object:
        counts = np.bincount(ids, minlength=count)
        order = np.argsort(ids, kind="stable")
        ordered = {name: Column(c.values[order], c.channel_names, c.categories) for name, c in columns.items()}
        return polylines.lower(positions[order], offsets_from_counts(counts), ordered, explicit=explicit)
    return meshes.lower(positions, np.concatenate(links), columns, {}, object_ids=ids)


def _parts(index: LevelIndex, plan: LevelPlan, kept: IntArray, reducers: Mapping[str, Reducer]) -> Iterator[_Part]:
    tolerance = np.array(plan.bin_shape) / 2
    if index.geometry.rooted:
        for result in object_batches(index, kept, attributes=None):
            yield _simplified_trees(index, result, tolerance)
    elif index.geometry.by_object:
        for result in object_batches(index, kept, attributes=None):
            yield _simplified_paths(index, result, tolerance)
    else:
        # One by one: what is decimated must not be joined to anything else.
        for number in range(max(len(kept), 1)):
            for result in object_batches(index, kept[number : number + 1], attributes=None):
                yield _decimated(index, result, plan, reducers)


def _simplified_paths(index: LevelIndex, result: Result, tolerance: AnyArray) -> _Part:
    pieces = result.pieces if result.pieces is not None else np.zeros(1, np.int64)
    stays = simplify_paths(result.positions, pieces, tolerance)
    return _rows(index, result, np.flatnonzero(stays), np.empty((0, 1), dtype=np.int64))


def _simplified_trees(index: LevelIndex, result: Result, tolerance: AnyArray) -> _Part:
    parents = result.parents if result.parents is not None else np.empty(0, np.int64)
    stays, hung_on = simplify_trees(result.positions, parents, tolerance)
    return _rows(index, result, np.flatnonzero(stays), hung_on[:, None])


def _decimated(index: LevelIndex, result: Result, plan: LevelPlan, reducers: Mapping[str, Reducer]) -> _Part:
    """Return one object with fewer triangles, by the square of the resolution; vertices of no face go.

    An object that has too few of them to lose any stays as it is.
    """
    whole = _rows(index, result, np.arange(len(result)), result.faces)
    corners = result.faces[(result.faces != np.roll(result.faces, 1, axis=1)).all(axis=1)]
    if len(corners) == 0:
        return whole
    used, faces = np.unique(corners, return_inverse=True)
    faces = faces.reshape(-1, TRIANGLE).astype(np.int32)
    points = result.positions[used].astype(np.float64)
    ratio = np.array(plan.bin_shape) / np.array(index.grid.bin_shape)
    target = max(1.0 - float(np.prod(ratio)) ** (-2 / len(ratio)), 0.0)
    library = _library()
    fewer, triangles, collapses = library.simplify(points, faces, target_reduction=target, return_collapses=True)
    # The replay tells which vertices became one; its positions are rounded to float32, so they are not taken.
    _, _, mapping = library.replay_simplification(points, faces, collapses)
    merged = np.asarray(mapping, dtype=np.int64)
    groups = group_rows(merged[merged >= 0])
    if len(triangles) == 0 or len(groups.keys) != len(fewer):
        return whole
    columns = _taken(_columns(index, result), used[merged >= 0])
    # What is best for a surface may lie outside of it, and of what the dtype holds.
    placed = np.clip(fewer, points.min(axis=0), points.max(axis=0))
    dtype = result.positions.dtype
    return _Part(
        (np.rint(placed) if dtype.kind in "iu" else placed).astype(dtype),
        reduce_columns(columns, groups, reducers),
        np.repeat(result.objects, len(fewer)),
        triangles.astype(np.int64),
    )


def _rows(index: LevelIndex, result: Result, rows: IntArray, links: IntArray) -> _Part:
    ids = result.object_ids if result.object_ids is not None else np.empty(0, np.int64)
    return _Part(result.positions.take(rows, axis=0), _taken(_columns(index, result), rows), ids[rows], links)


def _taken(columns: Mapping[str, Column], rows: IntArray) -> dict[str, Column]:
    return {
        name: Column(column.values.take(rows, axis=0), column.channel_names, column.categories)
        for name, column in columns.items()
    }


def _columns(index: LevelIndex, result: Result) -> dict[str, Column]:
    """Return the attributes of a result as they are stored: text as numbers of categories."""
    columns = {}
    for name, values in result.attributes.items():
        meta = index.meta(VERTEX_ATTRIBUTES, name)
        if meta.categories is None:
            columns[name] = Column(values, meta.channel_names)
        else:
            table = np.array(meta.categories, dtype=str)
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
