import numpy as np
import pytest
from zarr.storage import MemoryStore

import zarr_vectors as zv
from zarr_vectors.exceptions import InputError
from zarr_vectors.query.result import Result

POSITIONS = np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [12.0, 0.0, 0.0]])
CHUNKS = (10, 10, 10)


def points() -> Result:
    store = MemoryStore()
    zv.write_points(store, POSITIONS, vertex_attributes={"a": [1, 2, 3]}, chunk_shape=CHUNKS)
    return zv.open(store)[0].read()


def mesh() -> Result:
    store = MemoryStore()
    zv.write_mesh(store, POSITIONS, [[0, 1, 2]], chunk_shape=CHUNKS)
    return zv.open(store)[0].read()


def paths(*, limit: int | None = None) -> Result:
    store = MemoryStore()
    zv.write_polylines(store, [POSITIONS, POSITIONS[:2]], chunk_shape=CHUNKS)
    return zv.open(store)[0].read(limit=limit)


def test_points_have_no_links_of_any_kind() -> None:
    result = points()
    for name in ("edges", "faces", "polylines", "lines", "skeletons"):
        with pytest.raises(InputError, match=f"a point_cloud has no {name}"):
            getattr(result, name)
    with pytest.raises(InputError, match="a point_cloud has no faces"):
        _ = result.mesh


def test_a_mesh_has_faces_and_no_edges() -> None:
    result = mesh()
    assert len(result.mesh.faces) == 1
    with pytest.raises(InputError, match="a mesh has no edges"):
        _ = result.edges


def test_a_graph_has_edges_and_no_faces() -> None:
    store = MemoryStore()
    zv.write_graph(store, POSITIONS, [[0, 2]], chunk_shape=CHUNKS)
    result = zv.open(store)[0].read()
    assert result.edges.tolist() == [[0, 2]]
    with pytest.raises(InputError, match="a graph has no faces"):
        _ = result.faces


def test_lines_that_were_cut_are_no_lines() -> None:
    store = MemoryStore()
    zv.write_lines(store, np.array([[[0.0, 0, 0], [1, 1, 1]], [[2, 2, 2], [12, 0, 0]]]), chunk_shape=CHUNKS)
    level = zv.open(store)[0]
    assert level.read().lines.shape == (2, 2, 3)
    with pytest.raises(InputError, match="some lines were cut to the box: ask for crop=False"):
        _ = level.read(bbox=([0, 0, 0], [5, 5, 5]), crop=True).lines


def test_what_a_result_says_of_itself() -> None:
    assert repr(points()) == "Result(point_cloud: 3 vertices)"
    assert repr(mesh()) == "Result(mesh: 3 vertices, 1 objects, 1 links)"
    assert repr(paths(limit=1)) == "Result(polyline: 3 vertices, 1 objects, cut at the limit)"
    assert points().level == 0
    assert len(points()) == 3


def test_tables_for_notebooks() -> None:
    assert "<th>a</th><td>int64 (3,)</td>" in points()._repr_html_()
    assert "<th>links</th><td>1</td>" in mesh()._repr_html_()
    assert "<th>cut</th><td>at the limit</td>" in paths(limit=1)._repr_html_()


def test_results_can_be_written_to() -> None:
    for result in (points(), mesh(), paths()):
        result.positions[:] = 5
        assert (result.positions == 5).all()
    points().attributes["a"][0] = 7


def test_groups_of_a_result_hold_its_objects_alone() -> None:
    store = MemoryStore()
    zv.write_points(
        store,
        POSITIONS,
        object_ids=[0, 1, 2],
        groups=[[2, 0], [1], []],
        group_attributes={"name": ["a", "b", "c"]},
        chunk_shape=CHUNKS,
    )
    result = zv.open(store)[0].read(object_ids=[2, 1])
    assert {number: ids.tolist() for number, ids in result.groups.items()} == {0: [2], 1: [1]}
    assert result.group_attributes["name"].tolist() == ["a", "b"]
