"""Links of a coarser level: between metavertices, each once, none inside a bin."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from zarr_vectors.constants import OBJECT_ID_ATTRIBUTE
from zarr_vectors.multiresolution.coarsen import Coarse, distinct_ends
from zarr_vectors.multiresolution.metavertices import Reducer, RowGroups, group_rows, reduce_columns
from zarr_vectors.query.chunks import match_rows
from zarr_vectors.query.index import LevelIndex
from zarr_vectors.query.result import Result
from zarr_vectors.ragged import Ragged, changes, offsets_from_counts
from zarr_vectors.table import Column
from zarr_vectors.typing import BoolArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class CoarseLinks:
    """Links between metavertices of a level, with their attributes."""

    links: IntArray
    """(links, width) metavertices."""
    attributes: dict[str, Column]


def merge_links(index: LevelIndex, coarse: Coarse, reducers: Mapping[str, Reducer]) -> CoarseLinks:
    """Return the links of the level below, between the metavertices of their ends.

    A link that several links become is kept once, as the first of them was directed; its
    attributes are reduced over all of them. Faces keep apart whose they are.
    """
    across, known = _across(index, coarse)
    links = np.concatenate([coarse.links, across[known]])
    joined = {name: _with_across(column, index, name, known) for name, column in coarse.link_attributes.items()}
    columns = {name: column for name, column in joined.items() if column is not None}
    ends = np.sort(links, axis=1)
    owner = columns.get(OBJECT_ID_ATTRIBUTE)
    keys = ends if owner is None else np.column_stack([ends, owner.values])
    _, inverse = np.unique(keys, axis=0, return_inverse=True)
    groups = _in_order_of_first(group_rows(inverse.reshape(-1)))
    return CoarseLinks(links[groups.order[groups.starts]], reduce_columns(columns, groups, reducers))


def tree_links(result: Result, meta: IntArray) -> tuple[IntArray, IntArray, Ragged]:
    """Return the trees of objects between metavertices.

    The parent of a metavertex is that of the first of its vertices, in depth-first order: it was
    visited before, so the links of an object never form a cycle.

    Returns
    -------
    links : (links, 2)
        Metavertices, child first.
    owners
        The object id of each link.
    visited
        The metavertices of each object of the result, each once, in the order of its first visit.
    """
    nothing = np.empty(0, dtype=np.int64)
    parents = nothing if result.parents is None else result.parents
    ids = nothing if result.object_ids is None else result.object_ids
    owners = result.object_rows.owners
    first = _first_visits(owners, meta)
    hung = first[parents[first] >= 0]
    counts = np.bincount(owners[first], minlength=len(result.objects))
    visited = Ragged(meta[first], offsets_from_counts(counts))
    return np.stack([meta[hung], meta[parents[hung]]], axis=1), ids[hung], visited


def _first_visits(owners: IntArray, meta: IntArray) -> IntArray:
    """Return the rows where an object comes into a metavertex for the first time, ascending."""
    order = np.lexsort((np.arange(len(meta)), meta, owners))
    return np.sort(order[changes(owners[order]) | changes(meta[order])])


def _across(index: LevelIndex, coarse: Coarse) -> tuple[IntArray, BoolArray]:
    """Return links between chunks of the level below, between metavertices, and which of them remain."""
    records = index.links_across
    parents = coarse.parents
    shape = records.shape[:2]
    chunk = match_rows(parents.fine_chunks, records[..., :-1].reshape(-1, index.group.ndim))
    row = records[..., -1].reshape(-1)
    sizes = np.array([len(rows) for rows in parents.rows], dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    flat = np.concatenate(parents.rows) if parents.rows else np.empty(0, np.int32)
    there = (chunk >= 0) & (row < np.where(chunk >= 0, sizes[np.maximum(chunk, 0)] if len(sizes) else 0, 0))
    local = np.full(len(row), -1, dtype=np.int64)
    local[there] = flat[starts[chunk[there]] + row[there]]
    good = local >= 0
    meta = np.full(len(row), -1, dtype=np.int64)
    meta[good] = coarse.layout.row_offsets[parents.coarse_of[chunk[good]]] + local[good]
    links = meta.reshape(shape)
    return links, distinct_ends(links)


def _with_across(column: Column, index: LevelIndex, name: str, known: BoolArray) -> Column | None:
    """Return an attribute of links inside and across; ``None`` where it is not stored for those across."""
    values = index.across_attribute(name)
    if values is None:
        return column if not known.any() else None
    return Column(np.concatenate([column.values, values[known]]), column.channel_names, column.categories)


def _in_order_of_first(groups: RowGroups) -> RowGroups:
    """Return the groups in the order in which the first row of each comes."""
    first = groups.order[groups.starts]
    order = np.argsort(first, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return group_rows(place[groups.group_of])
