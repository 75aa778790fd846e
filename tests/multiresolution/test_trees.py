"""Trees of several objects through the same metavertices."""

import numpy as np
import pytest
from zarr.storage import MemoryStore

import zarr_vectors as zv
from zarr_vectors.multiresolution import build_pyramid

COLUMNS = np.array([0.5, 2.5, 4.5, 6.5])
"""One vertex in each of four bins of side 2; chunks of side 4 part the second from the third."""


def write(location: object) -> None:
    """Object 0 is to be dropped; 1 goes to the right, 2 to the left, 3 both ways from the second bin."""
    walks = [[0, 1, 2, 3], [0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 2, 3]]
    parents = [[-1, 0, 1, 2], [-1, 0, 1, 2], [-1, 0, 1, 2], [-1, 0, 0, 2]]
    along = np.concatenate([COLUMNS[walk] for walk in walks])
    rows = np.concatenate([np.where(np.array(item) < 0, -1, np.array(item) + 4 * k) for k, item in enumerate(parents)])
    zv.write_skeletons(
        location,
        np.stack([along, np.full(16, 0.5)], axis=1),
        parents=rows,
        object_ids=np.repeat(np.arange(4), 4),
        object_attributes={"rank": [0, 1, 2, 3]},
        chunk_shape=4,
        bin_shape=1,
    )


def trees(level: zv.Level, **selection: object) -> dict[int, dict[float, float | None]]:
    """Where each node of each object hangs, by their first coordinates."""
    result = level.read(**selection)  # type: ignore[arg-type]
    found: dict[int, dict[float, float | None]] = {}
    for tree in result.skeletons:
        first = tree.positions[:, 0].tolist()
        found[tree.object_id] = {
            here: None if parent < 0 else first[parent]
            for here, parent in zip(first, tree.parents.tolist(), strict=True)
        }
    return found


RIGHT = {0.5: None, 2.5: 0.5, 4.5: 2.5, 6.5: 4.5}
LEFT = {6.5: None, 4.5: 6.5, 2.5: 4.5, 0.5: 2.5}
BOTH = {2.5: None, 0.5: 2.5, 4.5: 2.5, 6.5: 4.5}


def test_each_object_has_its_own_parents() -> None:
    where = MemoryStore()
    write(where)
    build_pyramid(where, [(2, 1.0)])
    level = zv.open(where)[1]
    assert level.metadata.vertex_count == 4
    expected = {0: RIGHT, 1: RIGHT, 2: LEFT, 3: BOTH}
    assert trees(level) == expected
    assert trees(level, object_ids=[3, 2, 1]) == {number: expected[number] for number in (3, 2, 1)}
    for number, tree in expected.items():
        assert trees(level, object_ids=[number]) == {number: tree}
    cropped = trees(level, bbox=([2, 0], [8, 1]), crop=True)
    assert cropped[2] == {6.5: None, 4.5: 6.5, 2.5: 4.5}
    assert cropped[1] == {2.5: None, 4.5: 2.5, 6.5: 4.5}


@pytest.mark.parametrize("deeper", [False, True])
def test_and_so_it_is_where_objects_are_numbered_anew(*, deeper: bool) -> None:
    where = MemoryStore()
    write(where)
    factors = [([2, 1], 4 / 3), ([1, 2], 1.0)] if deeper else [(2, 4 / 3)]
    build_pyramid(where, factors, sparsity_strategy="attribute", sparsity_attribute="rank", preserve_object_ids=False)
    store = zv.open(where)
    level = store[len(factors)]
    assert level.read().object_attributes["level0_object_id"].tolist() == [1, 2, 3]
    assert trees(level) == {0: RIGHT, 1: LEFT, 2: BOTH}
    assert trees(level, object_ids=[2, 0]) == {2: BOTH, 0: RIGHT}


def test_trees_of_one_object_that_meet_in_a_bin_become_one() -> None:
    where = MemoryStore()
    # The first tree is one node in the second bin; the other goes from the first bin into it and on.
    along = np.array([2.5, 0.5, 2.75, 4.5])
    zv.write_skeletons(
        where, np.stack([along, np.full(4, 0.5)], axis=1), parents=[-1, -1, 1, 2], chunk_shape=4, bin_shape=1
    )
    build_pyramid(where, [2])
    result = zv.open(where)[1].read()
    assert result.parents is not None
    assert np.count_nonzero(result.parents < 0) == 1
    assert len(result) == 3
    assert len(result.edges) == 2
