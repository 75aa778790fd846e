"""Paths as flat vertices and offsets."""

import numpy as np
import pytest

from zarr_vectors.exceptions import InputError
from zarr_vectors.types import geometry_named
from zarr_vectors.types.meshes import lift
from zarr_vectors.types.polylines import Polylines, lift_lines, per_end, sequential_edges

PATHS = Polylines(np.arange(12.0).reshape(6, 2), np.array([0, 2, 2, 3, 6]), np.array([4, 5, 7, 9]))


def test_paths_index_like_a_list() -> None:
    assert (len(PATHS), repr(PATHS)) == (4, "Polylines(4 paths, 6 vertices)")
    assert PATHS[0].tolist() == [[0, 1], [2, 3]]
    assert PATHS[-2].tolist() == [[4, 5]]
    assert [len(path) for path in PATHS] == [2, 0, 1, 3]
    assert np.shares_memory(PATHS[3], PATHS.vertices)
    with pytest.raises(IndexError):
        PATHS[4]


def test_slices_are_paths_again() -> None:
    taken = PATHS[::-2]
    assert [len(path) for path in taken] == [3, 0]
    assert taken.object_ids.tolist() == [9, 5]
    assert len(PATHS[4:]) == 0


def test_edges_of_paths() -> None:
    assert sequential_edges(PATHS.offsets).tolist() == [[0, 1], [3, 4], [4, 5]]
    assert sequential_edges(np.array([0])).tolist() == []
    assert sequential_edges(np.array([0, 1, 1, 2])).tolist() == []


def test_lines_need_both_ends() -> None:
    assert lift_lines(np.zeros((4, 3)), np.array([0, 2, 4])).shape == (2, 2, 3)
    with pytest.raises(InputError, match="crop=False"):
        lift_lines(np.zeros((3, 3)), np.array([0, 2, 3]))


def test_attributes_of_ends() -> None:
    assert per_end([[1, 2], [3, 4]], 2).tolist() == [1, 2, 3, 4]
    assert per_end([1, 2, 3, 4], 2).tolist() == [1, 2, 3, 4]
    assert per_end(np.zeros((2, 2, 3)), 2).shape == (4, 3)


def test_unknown_geometry() -> None:
    with pytest.raises(InputError, match="'blob' is not one of point_cloud, line"):
        geometry_named("blob")


def test_mesh_says_how_large_it_is() -> None:
    assert repr(lift(np.zeros((1000, 3)), np.zeros((5, 3), dtype=np.int64), {}, {})) == "Mesh(1,000 vertices, 5 faces)"
