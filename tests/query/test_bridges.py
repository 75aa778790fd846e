"""Results in the words of other libraries."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zarr_vectors as zv
from zarr_vectors.exceptions import InputError, MissingDependencyError

BRIDGES = {
    "to_arrow": ("pyarrow", "arrow"),
    "to_trimesh": ("trimesh", "trimesh"),
    "to_networkx": ("networkx", "networkx"),
    "to_nibabel": ("nibabel.streamlines", "nibabel"),
    "to_pyvista": ("pyvista", "pyvista"),
}


@pytest.fixture
def points(tmp_path: Path) -> zv.Result:
    attributes: dict[str, Any] = {
        "mass": np.array([1.5, 2.5]),
        "kind": ["a", "b"],
        "rgb": np.array([[1, 2, 3], [4, 5, 6]], dtype=np.uint8),
        "phase": np.array([1 + 2j, 3 + 4j]),
        "flag": np.array([True, False]),
        "x": [7, 8],
        "object_id": [9, 9],
    }
    zv.write_points(tmp_path / "points", [[1.0, 2.0], [3.0, 4.0]], vertex_attributes=attributes, object_ids=[0, 5])
    return zv.open(tmp_path / "points")[0].read()


@pytest.fixture
def paths(tmp_path: Path) -> zv.Result:
    zv.write_polylines(
        tmp_path / "paths",
        [[[0, 0, 0], [1, 1, 1], [2, 2, 2]], [], [[5, 5, 5]], [[7, 7, 7], [8, 8, 8]]],
        geometry_type="streamline",
        vertex_attributes={"fa": np.arange(6.0), "rgb": np.arange(18).reshape(6, 3), "kind": list("abcabc")},
        object_attributes={"length": [10.0, 11.0, 12.0, 13.0], "name": list("abcd")},
        chunk_shape=(4, 4, 4),
    )
    return zv.open(tmp_path / "paths")[0].read(object_ids=[3, 0, 2])


@pytest.fixture
def graph(tmp_path: Path) -> zv.Result:
    zv.write_graph(
        tmp_path / "graph",
        [[1.0, 1.0], [2.0, 2.0], [11.0, 1.0]],
        [[0, 1], [0, 1], [1, 2]],
        vertex_attributes={"n": [0, 1, 2], "position": [5, 6, 7]},
        link_attributes={"key": [1, 2, 3], "weight": [0.5, 1.5, 2.5], "u_for_edge": ["a", "b", "c"]},
        chunk_shape=(10, 10),
    )
    return zv.open(tmp_path / "graph")[0].read()


@pytest.fixture
def skeleton(tmp_path: Path) -> zv.Result:
    zv.write_skeletons(
        tmp_path / "skeleton",
        np.array([[0, 0], [1, 0], [2, 0], [1, 1]], dtype=np.float32),
        parents=[-1, 0, 1, 1],
        vertex_attributes={"r": [1, 2, 3, 4]},
    )
    return zv.open(tmp_path / "skeleton")[0].read()


def mesh_of(place: Path, faces: Any, **keywords: Any) -> zv.Result:
    vertices = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], dtype=np.float32)
    attributes = {"vertex_attributes": {"n": np.arange(4)}, "link_attributes": {"f": np.arange(len(faces))}}
    zv.write_mesh(place, vertices, faces, chunk_shape=(10, 10, 10), **(attributes | keywords))
    return zv.open(place)[0].read()


def test_dict_of_points(points: zv.Result) -> None:
    found = points.to_dict()
    names = ("flag", "kind", "mass", "object_id", "phase", "rgb", "x")
    assert list(found) == ["positions", *(f"attributes.{name}" for name in names), "object_ids", "objects"]
    assert found["positions"] is points.positions


def test_dict_of_the_other_geometries(paths: zv.Result, tmp_path: Path) -> None:
    assert paths.to_dict()["offsets"].tolist() == [0, 2, 5, 6]
    found = mesh_of(tmp_path / "m", [[0, 1, 2]]).to_dict()
    assert (found["links"].tolist(), found["link_attributes.f"].tolist()) == ([[0, 1, 2]], [0])


def test_dict_of_trees(skeleton: zv.Result) -> None:
    assert sorted(skeleton.to_dict()["parents"].tolist()) == [-1, 0, 1, 1]


def test_arrow(points: zv.Result) -> None:
    pytest.importorskip("pyarrow")
    table = points.to_arrow()
    assert table.num_rows == 2
    assert table.to_pydict() == {
        "x": [1.0, 3.0],
        "y": [2.0, 4.0],
        "object_id": [0, 5],
        "flag": [True, False],
        "kind": ["a", "b"],
        "mass": [1.5, 2.5],
        "attribute.object_id": [9, 9],
        "phase": [[1.0, 2.0], [3.0, 4.0]],
        "rgb": [[1, 2, 3], [4, 5, 6]],
        "attribute.x": [7, 8],
    }
    assert str(table.schema.field("rgb").type) == "fixed_size_list<item: uint8>[3]"


def test_arrow_of_points_without_objects(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    zv.write_points(tmp_path / "s", np.zeros((3, 4)))
    assert zv.open(tmp_path / "s")[0].read().to_arrow().column_names == ["x", "y", "z", "t"]


def test_trimesh(tmp_path: Path) -> None:
    pytest.importorskip("trimesh")
    result = mesh_of(tmp_path / "s", [[0, 1, 2], [0, 2, 3]])
    mesh = result.to_trimesh()
    np.testing.assert_array_equal(mesh.vertices, result.positions)
    np.testing.assert_array_equal(mesh.faces, result.faces)
    assert mesh.area == 1.0
    assert mesh.vertex_attributes["n"].tolist() == [0, 1, 2, 3]
    assert mesh.face_attributes["f"].tolist() == [0, 1]


def test_trimesh_of_quads(tmp_path: Path) -> None:
    pytest.importorskip("trimesh")
    mesh = mesh_of(tmp_path / "s", [[0, 1, 2, 3]]).to_trimesh()
    assert mesh.faces.tolist() == [[0, 1, 2], [0, 2, 3]]
    assert mesh.face_attributes["f"].tolist() == [0, 0]


def test_trimesh_of_what_is_no_mesh(paths: zv.Result, tmp_path: Path) -> None:
    pytest.importorskip("trimesh")
    with pytest.raises(InputError, match="a streamline has no faces"):
        paths.to_trimesh()
    zv.write_mesh(tmp_path / "flat", np.eye(3, 2), [[0, 1, 2]])
    with pytest.raises(InputError, match="three dimensions, not 2"):
        zv.open(tmp_path / "flat")[0].read().to_trimesh()


def test_networkx_of_a_graph(graph: zv.Result) -> None:
    networkx = pytest.importorskip("networkx")
    found = graph.to_networkx()
    assert isinstance(found, networkx.MultiGraph)
    assert found.nodes[0] == {"position": (1.0, 1.0), "object_id": 0, "n": 0, "attribute.position": 5}
    assert sorted(data["weight"] for *_, data in found.edges(data=True)) == [0.5, 1.5, 2.5]
    assert sorted(data["u_for_edge"] for *_, data in found.edges(data=True)) == ["a", "b", "c"]
    assert sorted(data["key"] for *_, data in found.edges(data=True)) == [1, 2, 3]
    assert found.number_of_edges(0, 1) == 2


def test_networkx_of_trees_leads_from_child_to_parent(skeleton: zv.Result) -> None:
    networkx = pytest.importorskip("networkx")
    found = skeleton.to_networkx()
    radius = networkx.get_node_attributes(found, "r")
    assert {(radius[child], radius[parent]) for child, parent in found.edges} == {(2, 1), (3, 2), (4, 2)}
    assert networkx.is_forest(found)


def test_networkx_of_paths(paths: zv.Result) -> None:
    pytest.importorskip("networkx")
    assert sorted(paths.to_networkx().edges()) == [(0, 1), (2, 3), (3, 4)]


def test_networkx_of_what_has_no_edges(points: zv.Result) -> None:
    pytest.importorskip("networkx")
    with pytest.raises(InputError, match="a point_cloud has no edges"):
        points.to_networkx()


def test_nibabel(paths: zv.Result, tmp_path: Path) -> None:
    nibabel = pytest.importorskip("nibabel")
    tractogram = paths.to_nibabel()
    assert [line.tolist() for line in tractogram.streamlines] == [path.tolist() for path in paths.polylines]
    assert [line[0, 0] for line in tractogram.streamlines] == [7, 0, 5]
    assert tractogram.data_per_streamline["length"].tolist() == [[13.0], [10.0], [12.0]]
    assert [values.reshape(-1).tolist() for values in tractogram.data_per_point["fa"]] == [[4, 5], [0, 1, 2], [3]]
    assert tractogram.data_per_point["rgb"][0].shape == (2, 3)
    assert set(tractogram.data_per_point) == {"fa", "rgb"}
    nibabel.streamlines.save(tractogram, tmp_path / "tracts.trk")
    again = nibabel.streamlines.load(tmp_path / "tracts.trk")
    np.testing.assert_allclose(np.concatenate(list(again.streamlines)), paths.positions.astype(np.float64), atol=1e-5)


def test_nibabel_of_what_is_no_path(graph: zv.Result, tmp_path: Path) -> None:
    pytest.importorskip("nibabel")
    with pytest.raises(InputError, match="three dimensions, not a graph in 2"):
        graph.to_nibabel()
    zv.write_polylines(tmp_path / "flat", [[[0.0, 0.0]]])
    with pytest.raises(InputError, match="not a polyline in 2"):
        zv.open(tmp_path / "flat")[0].read().to_nibabel()


def test_pyvista(points: zv.Result, paths: zv.Result, tmp_path: Path) -> None:
    pytest.importorskip("pyvista")
    cloud = points.to_pyvista()
    assert cloud.points.tolist() == [[1, 2, 0], [3, 4, 0]]
    assert cloud.point_data["mass"].tolist() == [1.5, 2.5]
    assert "kind" not in cloud.point_data
    lines = paths.to_pyvista()
    assert lines.lines.tolist() == [2, 0, 1, 2, 2, 3, 2, 3, 4]
    for faces in ([[0, 1, 2], [0, 2, 3]], [[0, 1, 2, 3]]):
        mesh = mesh_of(tmp_path / f"m{len(faces)}", faces).to_pyvista()
        assert mesh.faces.tolist() == [number for face in faces for number in (len(face), *face)]
        assert mesh.cell_data["f"].tolist() == list(range(len(faces)))
        assert mesh.area == 1.0


def test_pyvista_of_trees_and_graphs(skeleton: zv.Result, tmp_path: Path) -> None:
    pytest.importorskip("pyvista")
    assert skeleton.to_pyvista().n_lines == 3
    zv.write_graph(tmp_path / "g", np.eye(5), [[0, 1], [3, 4]], link_attributes={"w": [1.0, 2.0]}, chunk_shape=10)
    found = zv.open(tmp_path / "g")[0].read().to_pyvista()
    assert (found.points.shape, found.cell_data["w"].tolist()) == ((5, 3), [1.0, 2.0])


@pytest.mark.parametrize("name", BRIDGES)
def test_a_missing_extra_says_what_to_install(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, extra = BRIDGES[name]
    monkeypatch.setitem(sys.modules, module, None)
    result = mesh_of(tmp_path / "s", [[0, 1, 2]])
    bridge: Callable[[], object] = getattr(result, name)
    with pytest.raises(
        MissingDependencyError, match=rf'needs an extra: pip install "zarr-vectors\[{extra}\]"'
    ) as caught:
        bridge()
    assert caught.value.extra == extra
    assert isinstance(caught.value, ImportError)
