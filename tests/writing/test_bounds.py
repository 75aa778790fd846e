"""Bounds of a store, and what lies outside of them."""

from pathlib import Path

import numpy as np
import pytest

import zarr_vectors as zv
from zarr_vectors.writing.spec import BoundsPolicy

POINTS = np.array([[0.0, 0.0], [5.0, 5.0], [-3.0, 1.0], [2.0, 2.0], [12.0, 1.0]])
BOUNDS = [[0.0, 0.0], [10.0, 10.0]]


def test_bounds_are_those_of_the_data(tmp_path: Path) -> None:
    summary = zv.write_points(tmp_path / "s", POINTS)
    assert summary.bounds == ((-3.0, 0.0), (12.0, 5.0))
    assert zv.open(tmp_path / "s").metadata.bounds == summary.bounds


def test_bounds_hold_whole_numbers_that_have_no_float(tmp_path: Path) -> None:
    low, high = -(2**53) - 1, 2**53 + 1
    summary = zv.write_points(tmp_path / "s", np.array([[low], [high]]), chunk_shape=(2**50,))
    assert summary.bounds[0][0] <= low
    assert summary.bounds[1][0] >= high


def test_bounds_without_data(tmp_path: Path) -> None:
    summary = zv.write_points(tmp_path / "s", np.empty((0, 2)))
    assert (summary.bounds, summary.vertices, summary.chunks) == (((0.0, 0.0), (0.0, 0.0)), 0, 0)
    assert len(zv.open(tmp_path / "s")[0].read()) == 0


@pytest.mark.parametrize("policy", ["raise", "drop", "expand"])
def test_bounds_that_hold_all_are_kept(tmp_path: Path, policy: BoundsPolicy) -> None:
    wide = [[-10.0, -10.0], [20.0, 20.0]]
    summary = zv.write_points(tmp_path / "s", POINTS, bounds=wide, bounds_policy=policy)
    assert (summary.bounds, summary.dropped) == (((-10.0, -10.0), (20.0, 20.0)), 0)


def test_both_ends_of_bounds_are_inside(tmp_path: Path) -> None:
    assert zv.write_points(tmp_path / "s", [[0.0], [1.0]], bounds=[[0], [1]]).vertices == 2


def test_expand_takes_in_the_data(tmp_path: Path) -> None:
    summary = zv.write_points(tmp_path / "s", POINTS, bounds=BOUNDS, bounds_policy="expand")
    assert summary.bounds == ((-3.0, 0.0), (12.0, 10.0))
    assert (summary.vertices, summary.dropped) == (5, 0)


def test_drop_leaves_out_single_points(tmp_path: Path) -> None:
    numbers = np.arange(5)
    summary = zv.write_points(
        tmp_path / "s",
        POINTS,
        vertex_attributes={"n": numbers},
        object_ids=[0, 0, 1, 1, 2],
        object_attributes={"k": [7, 8, 9]},
        bounds=BOUNDS,
        bounds_policy="drop",
    )
    assert (summary.vertices, summary.dropped, summary.objects) == (3, 2, 3)
    assert summary.bounds == ((0.0, 0.0), (10.0, 10.0))
    level = zv.open(tmp_path / "s")[0]
    assert sorted(level.read().attributes["n"].tolist()) == [0, 1, 3]
    assert level.objects.absent.tolist() == [2]


def test_drop_leaves_out_whole_paths(tmp_path: Path) -> None:
    offsets = np.array([0, 2, 3, 5])
    summary = zv.write_polylines(
        tmp_path / "s", (POINTS, offsets), vertex_attributes={"n": np.arange(5)}, bounds=BOUNDS, bounds_policy="drop"
    )
    assert (summary.vertices, summary.dropped, summary.objects) == (2, 3, 3)
    result = zv.open(tmp_path / "s")[0].read()
    assert (result.objects.tolist(), result.attributes["n"].tolist()) == ([0], [0, 1])


def test_drop_leaves_out_whole_lines(tmp_path: Path) -> None:
    ends = np.array([[[0.0, 0], [1, 1]], [[2, 2], [12, 2]]])
    summary = zv.write_lines(tmp_path / "s", ends, bounds=BOUNDS, bounds_policy="drop")
    assert (summary.vertices, summary.dropped) == (2, 2)
    np.testing.assert_array_equal(zv.open(tmp_path / "s")[0].read().lines, ends[:1])


def test_drop_leaves_out_whole_skeletons(tmp_path: Path) -> None:
    summary = zv.write_skeletons(
        tmp_path / "s",
        POINTS,
        parents=[-1, 0, -1, 2, 3],
        object_ids=[0, 0, 1, 1, 1],
        bounds=BOUNDS,
        bounds_policy="drop",
    )
    assert (summary.vertices, summary.dropped) == (2, 3)
    result = zv.open(tmp_path / "s")[0].read()
    assert result.parents is not None
    assert (result.objects.tolist(), result.parents.tolist()) == ([0], [-1, 0])


def test_drop_leaves_out_paths_with_a_segment_outside(tmp_path: Path) -> None:
    segments = [[[0.0, 0.0], [1.0, 0.0]], [[2.0, 0.0], [12.0, 0.0]], [[3.0, 0.0]], [[4.0, 0.0]]]
    summary = zv.write_polylines(
        tmp_path / "s", segments, segments=[[0, 1, 3], [0, 2], [1], [2]], bounds=BOUNDS, bounds_policy="drop"
    )
    # Segment 1 is outside; segment 3 is of no other path.
    assert (summary.vertices, summary.dropped, summary.objects) == (3, 3, 4)
    result = zv.open(tmp_path / "s")[0].read()
    assert result.objects.tolist() == [1, 3]
    assert [path.tolist() for path in result.polylines] == [[[0.0, 0.0], [1.0, 0.0], [3.0, 0.0]], [[3.0, 0.0]]]


def test_drop_leaves_out_links_with_an_end_outside(tmp_path: Path) -> None:
    edges = [[0, 1], [1, 2], [3, 1], [4, 2]]
    summary = zv.write_graph(
        tmp_path / "s",
        POINTS,
        edges,
        vertex_attributes={"n": np.arange(5)},
        link_attributes={"w": [0, 1, 2, 3]},
        bounds=BOUNDS,
        bounds_policy="drop",
        chunk_shape=(4, 4),
    )
    assert (summary.vertices, summary.dropped, summary.links) == (3, 2, 2)
    result = zv.open(tmp_path / "s")[0].read()
    numbers = result.attributes["n"][result.edges]
    found = {int(w): pair for w, pair in zip(result.link_attributes["w"], numbers.tolist(), strict=True)}
    assert found == {0: [0, 1], 2: [3, 1]}


def test_everything_may_be_dropped(tmp_path: Path) -> None:
    summary = zv.write_points(tmp_path / "s", POINTS, bounds=[[50, 50], [60, 60]], bounds_policy="drop")
    assert (summary.vertices, summary.dropped, summary.chunks) == (0, 5, 0)
