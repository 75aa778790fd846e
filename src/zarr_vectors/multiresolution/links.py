"""Links of a coarser level: between metavertices, each once, none inside a bin."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from zarr_vectors.constants import OBJECT_ID_ATTRIBUTE
from zarr_vectors.multiresolution.coarsen import Coarse, distinct_ends
from zarr_vectors.multiresolution.metavertices import Reducer, RowGroups, group_rows, reduce_columns
from zarr_vectors.query.chunks import match_rows
from zarr_vectors.query.index import LevelIndex
from zarr_vectors.query.links import records_across
from zarr_vectors.query.result import Result
from zarr_vectors.ragged import Ragged, changes, offsets_from_counts
from zarr_vectors.table import Column
from zarr_vectors.types.skeletons import NO_PARENT, depth_first_order, parents_of_edges, run_heads
from zarr_vectors.typing import BoolArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class CoarseLinks:
    """Links between metavertices of a level, with their attributes."""

    links: IntArray
    """(links, width) metavertices."""
    attributes: dict[str, Column]


@dataclass(frozen=True, slots=True, eq=False)
class CoarseTrees:
    """Trees of objects between metavertices."""

    links: IntArray
    """(links, 2) metavertices, child first."""
    owners: IntArray
    """The place of each link's object in the result."""
    visited: Ragged
    """The metavertices of each object, each once, a parent before its children."""


def merge_links(
    index: LevelIndex, coarse: Coarse, reducers: Mapping[str, Reducer], new_ids: IntArray | None
) -> CoarseLinks:
    """Return the links of the level below, between the metavertices of their ends.

    A link that several links become is kept once, as the first of them was directed; its
    attributes are reduced over all of them. Faces keep apart whose they are.

    Parameters
    ----------
    index, coarse
        The level below, and what became of its vertices.
    reducers
        By attribute.
    new_ids
        The number of each object at the new level, -1 for those that are dropped; ``None``: there are no objects.
    """
    across, known = _across(index, coarse)
    links = np.concatenate([coarse.links, across[known]])
    joined = {name: _with_across(column, index, name, known) for name, column in coarse.link_attributes.items()}
    columns = {name: column for name, column in joined.items() if column is not None}
    ends = np.sort(links, axis=1)
    # Objects that share no vertex share metavertices: owners count even where the level below has no need of them.
    owner = columns.pop(OBJECT_ID_ATTRIBUTE, None)
    if owner is not None and new_ids is not None and _are_objects(owner, len(new_ids)):
        # A face of a dropped object may lie between vertices that other objects keep.
        numbers = new_ids[owner.values]
        stays = numbers >= 0
        columns |= {OBJECT_ID_ATTRIBUTE: Column(numbers)}
        columns = {name: Column(c.values[stays], c.channel_names, c.categories) for name, c in columns.items()}
        links, ends = links[stays], np.column_stack([ends, numbers])[stays]
        reducers = {**reducers, OBJECT_ID_ATTRIBUTE: "mode"}
    _, inverse = np.unique(ends, axis=0, return_inverse=True)
    groups = _in_order_of_first(group_rows(inverse.reshape(-1)))
    return CoarseLinks(links[groups.order[groups.starts]], reduce_columns(columns, groups, reducers))


def tree_links(result: Result, meta: IntArray) -> CoarseTrees:
    """Return the trees of objects between metavertices.

    The parent of a metavertex is that of the first of its vertices, parents before children: it was
    visited before, so the links of an object never form a cycle. Trees of one object that meet in
    a metavertex become one.
    """
    parents = np.empty(0, dtype=np.int64) if result.parents is None else result.parents
    owners = result.object_rows.owners
    if (parents >= np.arange(len(parents))).any():
        order = depth_first_order(parents, owners)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        parents = np.where(parents[order] == NO_PARENT, NO_PARENT, rank[parents[order]])
        meta, owners = meta[order], owners[order]
    first, node = _first_visits(owners, meta)
    hung_on = np.where(parents[first] == NO_PARENT, NO_PARENT, node[parents[first]])
    children = np.flatnonzero(parents != NO_PARENT)
    joined = _join_trees(hung_on, np.stack([node[children], node[parents[children]]], axis=1))
    order = np.arange(len(first)) if joined is None else depth_first_order(joined, owners[first])
    hung_on = hung_on if joined is None else joined
    hung = np.flatnonzero(hung_on != NO_PARENT)
    counts = np.bincount(owners[first], minlength=len(result.objects))
    return CoarseTrees(
        links=np.stack([meta[first[hung]], meta[first[hung_on[hung]]]], axis=1),
        owners=owners[first[hung]],
        visited=Ragged(meta[first[order]], offsets_from_counts(counts)),
    )


def path_steps(visited: Ragged) -> CoarseLinks:
    """Return the steps along paths between metavertices, each once."""
    steps = np.stack([visited.values[:-1], visited.values[1:]], axis=1)
    return CoarseLinks(np.unique(steps[~changes(visited.owners)[1:]], axis=0), {})


def _first_visits(owners: IntArray, meta: IntArray) -> tuple[IntArray, IntArray]:
    """Return the rows where an object comes into a metavertex for the first time, and the number of each row's."""
    order = np.lexsort((np.arange(len(meta)), meta, owners))
    begins = changes(owners[order]) | changes(meta[order])
    first = np.sort(order[begins])
    node = np.empty(len(meta), dtype=np.int64)
    node[order] = np.searchsorted(first, order[begins])[np.cumsum(begins) - 1]
    return first, node


def _join_trees(parents: IntArray, edges: IntArray) -> IntArray | None:
    """Return the parents where trees that edges lead between are one; ``None`` where there are none such."""
    top, _ = run_heads(parents, parents == NO_PARENT)
    between = edges[top[edges[:, 0]] != top[edges[:, 1]]]
    if len(between) == 0:
        return None
    _, first = np.unique(np.sort(top[between], axis=1), axis=0, return_index=True)
    leader: dict[int, int] = {}

    def find(tree: int) -> int:
        while leader.get(tree, tree) != tree:
            leader[tree] = leader.get(leader[tree], leader[tree])
            tree = leader[tree]
        return tree

    chosen: list[int] = []
    for number in np.sort(first).tolist():
        one, other = (find(tree) for tree in top[between[number]].tolist())
        if one != other:
            leader[max(one, other)] = min(one, other)
            chosen.append(number)
    children = np.flatnonzero(parents != NO_PARENT)
    hanging = np.stack([children, parents[children]], axis=1)
    return parents_of_edges(np.concatenate([hanging, between[chosen]]), len(parents))


def _across(index: LevelIndex, coarse: Coarse) -> tuple[IntArray, BoolArray]:
    """Return links between chunks of the level below, between metavertices, and which of them remain."""
    records, parents = records_across(index), coarse.parents
    chunk = match_rows(parents.chunks, records[..., :-1].reshape(-1, index.group.ndim))
    row = records[..., -1].reshape(-1)
    available = np.append(np.diff(parents.row_offsets), 0)[chunk]
    there = np.flatnonzero(row < available)
    meta = np.full(len(row), -1, dtype=np.int64)
    meta[there] = parents.numbers[parents.row_offsets[chunk[there]] + row[there]]
    links = meta.reshape(records.shape[:2])
    return links, distinct_ends(links)


def _with_across(column: Column, index: LevelIndex, name: str, known: BoolArray) -> Column | None:
    """Return an attribute of links inside and across; ``None`` where it is not stored for those across."""
    values = index.across_attribute(name)
    if values is None or len(values) != len(known):
        return column if not known.any() else None
    return Column(np.concatenate([column.values, values[known]]), column.channel_names, column.categories)


def _are_objects(owner: Column, num_objects: int) -> bool:
    """Tell whether an attribute holds object ids: another writer may use its name for something else."""
    values: npt.NDArray[Any] = owner.values
    return values.ndim == 1 and values.dtype.kind in "iu" and bool((values >= 0).all() and (values < num_objects).all())


def _in_order_of_first(groups: RowGroups) -> RowGroups:
    """Return the groups in the order in which the first row of each comes."""
    first = groups.order[groups.starts]
    order = np.argsort(first, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return group_rows(place[groups.group_of])
