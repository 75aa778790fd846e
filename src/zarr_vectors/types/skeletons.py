"""Skeletons: forests, stored depth first so that a parent is usually the row before its child."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from zarr_vectors.exceptions import InputError
from zarr_vectors.ragged import changes, offsets_from_counts
from zarr_vectors.table import Column, VertexTable
from zarr_vectors.types.geometry import Geometry
from zarr_vectors.types.inputs import as_array, parse_columns, parse_numbers, parse_object_ids
from zarr_vectors.typing import AnyArray, BoolArray, IntArray

GEOMETRY = Geometry(
    ("skeleton",),
    "implicit_sequential_with_branches",
    by_object=True,
    whole_by_default=True,
    rooted=True,
    has_links=True,
)

NO_PARENT = -1


@dataclass(frozen=True, slots=True, eq=False)
class Skeleton:
    """One object: nodes, and the parent of each."""

    object_id: int
    positions: AnyArray
    parents: IntArray
    """Node numbers; -1 for a root."""
    attributes: Mapping[str, AnyArray]

    @property
    def edges(self) -> IntArray:
        """(edges, 2): child, parent."""
        children = np.flatnonzero(self.parents != NO_PARENT)
        return np.stack([children, self.parents[children]], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Skeletons:
    """Many skeletons in one table of nodes; indexes and iterates like a list of `Skeleton`."""

    positions: AnyArray
    parents: IntArray
    attributes: Mapping[str, AnyArray]
    offsets: IntArray
    object_ids: IntArray

    def __len__(self) -> int:
        return len(self.object_ids)

    def __getitem__(self, index: int) -> Skeleton:
        number = range(len(self))[index]
        begin, end = self.offsets[number : number + 2].tolist()
        parents = self.parents[begin:end]
        return Skeleton(
            int(self.object_ids[number]),
            self.positions[begin:end],
            np.where(parents == NO_PARENT, NO_PARENT, parents - begin),
            {name: values[begin:end] for name, values in self.attributes.items()},
        )

    def __iter__(self) -> Iterator[Skeleton]:
        return (self[number] for number in range(len(self)))

    def __repr__(self) -> str:
        return f"Skeletons({len(self):,} skeletons, {len(self.positions):,} nodes)"


def lower(
    positions: AnyArray,
    parents: IntArray,
    attributes: Mapping[str, npt.ArrayLike | Column],
    object_ids: npt.ArrayLike | None,
    num_objects: int | None = None,
    *,
    explicit: bool = False,
) -> VertexTable:
    """Return the table of skeletons, its rows depth first within each object.

    With ``explicit``, the link to a parent in the row before is stored too.
    """
    count = len(positions)
    ids = parse_object_ids(object_ids, count)
    if ids is None:
        ids = np.zeros(count, dtype=np.int64)
    has_parent = parents != NO_PARENT
    apart = has_parent & (ids[np.where(has_parent, parents, 0)] != ids) if count else has_parent
    if apart.any():
        row = int(np.argmax(apart))
        raise InputError(f"node {row} is of object {ids[row]}, its parent {parents[row]} of object {ids[parents[row]]}")
    order = depth_first_order(parents, ids)
    rank = np.empty(count, dtype=np.int64)
    rank[order] = np.arange(count)
    parents_sorted = parents[order]
    children = np.flatnonzero(parents_sorted != NO_PARENT)
    columns = parse_columns(attributes, count, "vertex attribute")
    return VertexTable(
        positions.take(order, axis=0),
        {
            name: Column(column.values.take(order, axis=0), column.channel_names, column.categories)
            for name, column in columns.items()
        },
        part_ids=ids[order],
        num_objects=max(num_objects or 0, int(ids.max()) + 1 if count else 0),
        ordered=True,
        cut="chunk",
        breaks=parents_sorted == NO_PARENT,
        links=np.stack([children, rank[parents_sorted[children]]], axis=1),
        link_width=2,
        drop_sequential=not explicit,
    )


def parse_parents(parents: npt.ArrayLike, count: int) -> IntArray:
    """Return the parent of each node, -1 for roots; a node that is its own parent is a root too."""
    array = as_array(parents, "parents")
    if array.size == 0:
        array = array.astype(np.int64)
    if array.shape != (count,) or array.dtype.kind not in "iu":
        raise InputError(f"parents are one integer for each of {count} nodes, not {array.dtype} {array.shape}")
    numbers = array.astype(np.int64)
    numbers[numbers == np.arange(count)] = NO_PARENT
    bad = (numbers < NO_PARENT) | (numbers >= count)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(f"parents: node {row} has parent {numbers[row]}, there are {count} nodes (-1: a root)")
    return numbers


def parents_of_edges(edges: npt.ArrayLike, count: int) -> IntArray:
    """Return the parent of each node from edges.

    Rows ``[child, parent]`` where no child comes twice are taken as they are; other edges are
    directed towards the lowest node of each tree.
    """
    rows = parse_numbers(edges, count, (None, 2), "edges")
    if (rows[:, 0] == rows[:, 1]).any():
        raise InputError("a skeleton has no edge from a node to itself")
    parents = np.full(count, NO_PARENT, dtype=np.int64)
    if len(np.unique(rows[:, 0])) == len(rows):
        parents[rows[:, 0]] = rows[:, 1]
        return parents
    sources, targets, down = _walk_around(rows)
    parents[targets[down]] = sources[down]
    if np.count_nonzero(parents != NO_PARENT) != len(rows):
        raise InputError("the edges of a skeleton form a cycle or repeat: use write_graph for such data")
    return parents


def depth_first_order(parents: IntArray, objects: IntArray) -> IntArray:
    """Return the nodes in depth-first order, object after object.

    Runs of nodes with one child each are followed in whole-array steps; only the branches
    between them are walked one by one.

    Raises
    ------
    InputError
        If the parents form a cycle.
    """
    count = len(parents)
    if count == 0:
        return np.empty(0, dtype=np.int64)
    has_parent = parents != NO_PARENT
    num_children = np.bincount(parents[has_parent], minlength=count)
    begins_run = ~has_parent | (num_children[np.where(has_parent, parents, 0)] != 1)
    head, depth = run_heads(parents, begins_run)
    run_of_head = np.cumsum(begins_run) - 1
    heads = np.flatnonzero(begins_run)
    run = run_of_head[head]
    lengths = np.bincount(run, minlength=len(heads))
    run_order = _runs_depth_first(heads, parents, run, objects)
    starts = np.empty(len(heads), dtype=np.int64)
    starts[run_order] = offsets_from_counts(lengths[run_order])[:-1]
    order = np.empty(count, dtype=np.int64)
    order[starts[run] + depth] = np.arange(count)
    return order


def lift(
    positions: AnyArray, parents: IntArray, attributes: Mapping[str, AnyArray], offsets: IntArray, object_ids: IntArray
) -> Skeletons:
    """Return skeletons from rows, object after object, and the parent row of each."""
    return Skeletons(positions, parents, attributes, offsets, object_ids)


def _walk_around(edges: IntArray) -> tuple[IntArray, IntArray, BoolArray]:
    """Walk around each tree from its lowest node; tell for each edge, either way, whether it is passed downwards.

    The walk leaves a node by the edge after the one it came in by, so that it passes each edge
    once in either direction: first away from the lowest node. All trees are walked at once, and
    places along a walk are found by doubling the step.
    """
    count = 2 * len(edges)
    sources = np.concatenate([edges[:, 0], edges[:, 1]])
    order = np.argsort(sources, kind="stable")
    place = np.empty(count, dtype=np.int64)
    place[order] = np.arange(count)
    back = place[(order + len(edges)) % count]
    sources = sources[order]
    begins = np.flatnonzero(changes(sources))
    after = np.arange(1, count + 1)
    after[np.append(begins[1:], count) - 1] = begins
    step = after[back]
    first, jump = np.arange(count), step
    for _ in range(count.bit_length()):
        first = np.minimum(first, first[jump])
        jump = jump[jump]
    is_last = step == first
    jump, left = np.where(is_last, np.arange(count), step), (~is_last).astype(np.int64)
    for _ in range(count.bit_length()):
        left += left[jump]
        jump = jump[jump]
    return sources, sources[back], left > left[back]


def run_heads(parents: IntArray, begins_run: BoolArray) -> tuple[IntArray, IntArray]:
    """Return the first node of each node's run and the steps to it, by doubling the jump."""
    nodes = np.arange(len(parents), dtype=np.int64)
    jump = np.where(begins_run, nodes, parents)
    depth = (~begins_run).astype(np.int64)
    # After k rounds a node has jumped 2**k steps; a cycle never arrives.
    for _ in range(len(parents).bit_length() + 1):
        further = jump[jump]
        if np.array_equal(further, jump):
            break
        depth += depth[jump]
        jump = further
    stuck = ~begins_run[jump]
    if stuck.any():
        raise InputError(f"parents form a cycle: following them from node {int(np.argmax(stuck))} never ends at a root")
    return jump, depth


def _runs_depth_first(heads: IntArray, parents: IntArray, run: IntArray, objects: IntArray) -> IntArray:
    """Return the runs in depth-first order; a run's parent is the run that its head hangs on."""
    hangs_on = np.where(parents[heads] == NO_PARENT, -1, run[parents[heads]])
    is_root = hangs_on == -1
    roots = np.flatnonzero(is_root)
    roots = roots[np.argsort(objects[heads[roots]], kind="stable")]
    branches = np.flatnonzero(~is_root)
    branches = branches[np.argsort(hangs_on[branches], kind="stable")]
    bounds = np.searchsorted(hangs_on[branches], np.arange(len(heads) + 1)).tolist()
    children = branches.tolist()
    order: list[int] = []
    stack = roots[::-1].tolist()
    while stack:
        here = stack.pop()
        order.append(here)
        stack.extend(children[bounds[here] : bounds[here + 1]][::-1])
    if len(order) != len(heads):
        raise InputError("parents form a cycle through a branch: every node must lead to a root")
    return np.array(order, dtype=np.int64)
