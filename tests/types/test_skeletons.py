"""Forests: parents from edges, and the depth-first order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zarr_vectors.exceptions import InputError
from zarr_vectors.types.skeletons import (
    NO_PARENT,
    Skeletons,
    depth_first_order,
    parents_of_edges,
)
from zarr_vectors.typing import IntArray


@st.composite
def forests(draw: st.DrawFn) -> IntArray:
    """Draw the parents of a forest, its nodes in any order."""
    count = draw(st.integers(0, 40))
    parents = [draw(st.integers(-1, number - 1)) if draw(st.booleans()) else number - 1 for number in range(count)]
    names = np.array(draw(st.permutations(range(count))), dtype=np.int64)
    renamed = np.full(count, NO_PARENT, dtype=np.int64)
    for number, parent in enumerate(parents):
        if parent >= 0:
            renamed[names[number]] = names[parent]
    return renamed


def root_of(parents: IntArray, node: int) -> int:
    while parents[node] != NO_PARENT:
        node = int(parents[node])
    return node


@given(forests(), st.integers(0, 2**32 - 1))
def test_edges_in_any_direction_give_the_tree_from_its_lowest_node(parents: IntArray, seed: int) -> None:
    count = len(parents)
    rng = np.random.default_rng(seed)
    children = np.flatnonzero(parents != NO_PARENT)
    edges = np.stack([children, parents[children]], axis=1)
    flip = rng.random(len(edges)) < 0.5
    edges[flip] = edges[flip][:, ::-1]
    edges = rng.permutation(edges)
    found = parents_of_edges(edges, count)
    assert {frozenset(edge) for edge in edges.tolist()} == {
        frozenset((int(child), int(found[child]))) for child in np.flatnonzero(found != NO_PARENT)
    }
    roots = {root_of(found, node) for node in range(count)}
    assert len(roots) == np.count_nonzero(parents == NO_PARENT)
    if len(np.unique(edges[:, 0])) != len(edges):
        for node in range(count):
            tree = [other for other in range(count) if root_of(parents, other) == root_of(parents, node)]
            assert root_of(found, node) == min(tree)


@given(st.integers(2, 12), st.data())
def test_edges_with_a_cycle_are_refused(count: int, data: st.DataObject) -> None:
    # A tree, and one edge more than that.
    edges = [(number, data.draw(st.integers(0, number - 1))) for number in range(1, count)]
    edges.append((data.draw(st.integers(0, count - 2)), count - 1))
    flipped = [edge[::-1] if data.draw(st.booleans()) else edge for edge in edges]

    def lay_out() -> None:
        parents = parents_of_edges(flipped, count)
        depth_first_order(parents, np.zeros(count, dtype=np.int64))

    with pytest.raises(InputError, match="cycle"):
        lay_out()


@given(forests())
def test_order_is_depth_first(parents: IntArray) -> None:
    objects = np.array([root_of(parents, node) for node in range(len(parents))], dtype=np.int64)
    order = depth_first_order(parents, objects)
    assert sorted(order.tolist()) == list(range(len(parents)))
    assert (np.diff(objects[order]) >= 0).all()
    above: list[int] = []
    for node in order.tolist():
        # The parent is the last of the nodes on the way here that is not done yet.
        while above and above[-1] != parents[node]:
            above.pop()
        assert bool(above) == (parents[node] != NO_PARENT)
        above.append(node)


def test_a_long_chain_needs_no_recursion() -> None:
    count = 200_000
    parents = np.arange(count) - 1
    order = depth_first_order(parents, np.zeros(count, dtype=np.int64))
    np.testing.assert_array_equal(order, np.arange(count))
    edges = np.stack([np.arange(count - 1), np.arange(1, count)], axis=1)
    edges[::2] = edges[::2, ::-1]
    np.testing.assert_array_equal(parents_of_edges(edges, count), parents)


def test_many_lonely_nodes_are_quick_to_find() -> None:
    count = 100_000
    edges = [[0, 1], [0, 2]]
    parents = parents_of_edges(edges, count)
    assert parents[:4].tolist() == [-1, 0, 0, -1]
    assert np.count_nonzero(parents == NO_PARENT) == count - 2


def test_skeletons_index_like_a_list() -> None:
    many = Skeletons(
        np.arange(10.0).reshape(5, 2),
        np.array([-1, 0, -1, 2, 2]),
        {"radius": np.arange(5)},
        np.array([0, 2, 5]),
        np.array([7, 4]),
    )
    assert (len(many), repr(many)) == (2, "Skeletons(2 skeletons, 5 nodes)")
    last = many[-1]
    assert (last.object_id, last.parents.tolist(), last.attributes["radius"].tolist()) == (4, [-1, 0, 0], [2, 3, 4])
    assert last.edges.tolist() == [[1, 0], [2, 0]]
    assert [skeleton.object_id for skeleton in many] == [7, 4]
    with pytest.raises(IndexError):
        many[2]
