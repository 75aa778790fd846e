"""What is written comes back: every geometry, attribute, dtype, axis and form of input."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import zarr_vectors as zv
from zarr_vectors.core.metadata import Axis
from zarr_vectors.write import AxisLike

Array = npt.NDArray[Any]


def contents(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def random_paths(count: int = 20, ndim: int = 3) -> list[Array]:
    rng = np.random.default_rng(0)
    return [np.cumsum(rng.normal(0, 3, (rng.integers(0, 12), ndim)), axis=0) for _ in range(count)]


@pytest.mark.parametrize(
    "dtype",
    [
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
        "complex64",
        "complex128",
        ">f4",
        ">i8",
    ],
)
@pytest.mark.parametrize("tail", [(), (1,), (3,)])
def test_dtypes_of_attributes(tmp_path: Path, dtype: str, tail: tuple[int, ...]) -> None:
    positions = np.arange(40.0).reshape(20, 2)
    values = (np.arange(20 * int(np.prod(tail, dtype=int))).reshape(20, *tail) % 127).astype(dtype)
    attributes = {"a": values, "n": np.arange(20)}
    zv.write_graph(
        tmp_path / "s",
        positions,
        np.stack([np.arange(19), np.arange(1, 20)], axis=1),
        vertex_attributes=attributes,
        link_attributes={"a": values[:19], "m": np.arange(19)},
        object_ids=np.arange(20) % 4,
        object_attributes={"a": values[:4]},
        groups=[[0, 1], [3]],
        group_attributes={"a": values[:2]},
        chunk_shape=(10, 10),
    )
    level = zv.open(tmp_path / "s")[0]
    result = level.read()
    plain = np.dtype(dtype).newbyteorder("=")
    for found, given in [
        (result.attributes["a"], values[result.attributes["n"]]),
        (result.link_attributes["a"], values[result.link_attributes["m"]]),
        (result.object_attributes["a"], values[:4]),
        (level.groups.attributes["a"], values[:2]),
    ]:
        assert found.dtype == plain
        np.testing.assert_array_equal(found, given)


@pytest.mark.parametrize(
    "dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
)
def test_dtypes_of_positions(tmp_path: Path, dtype: str) -> None:
    positions = np.arange(60).reshape(20, 3).astype(dtype)
    zv.write_points(tmp_path / "s", positions, vertex_attributes={"n": np.arange(20)}, chunk_shape=(25, 25, 25))
    result = zv.open(tmp_path / "s")[0].read()
    assert result.positions.dtype == dtype
    np.testing.assert_array_equal(result.positions, positions[result.attributes["n"]])


def test_text_of_every_scope(tmp_path: Path) -> None:
    kinds = ["axon", "", "Käfer", "axon", "雪"]
    zv.write_graph(
        tmp_path / "s",
        np.arange(5.0)[:, None],
        [[0, 1], [3, 4], [1, 2]],
        vertex_attributes={"kind": kinds, "n": np.arange(5)},
        link_attributes={"how": np.array(["up", "down", "up"], dtype=object), "m": np.arange(3)},
        object_ids=[0, 0, 1, 1, 2],
        object_attributes={"name": ["a", "b", "c"]},
        groups={1: [2, 0]},
        group_attributes={"label": ["first", "second"]},
        chunk_shape=(2,),
    )
    level = zv.open(tmp_path / "s")[0]
    result = level.read()
    assert result.attributes["kind"].tolist() == [kinds[n] for n in result.attributes["n"]]
    assert result.link_attributes["how"].tolist() == [["up", "down", "up"][m] for m in result.link_attributes["m"]]
    assert result.object_attributes["name"].tolist() == ["a", "b", "c"]
    assert level.groups.attributes["label"].tolist() == ["first", "second"]
    assert [group.ids.tolist() for group in level.groups] == [[], [2, 0]]
    stored = level.group.read_array_meta("vertex_attributes/kind")
    assert (stored.encoding, stored.dtype) == ("dictionary", "uint8")
    assert stored.categories == ("", "Käfer", "axon", "雪")


def test_text_of_more_than_256_kinds(tmp_path: Path) -> None:
    words = [f"word {number}" for number in range(300)]
    zv.write_points(tmp_path / "s", np.arange(300)[:, None], vertex_attributes={"w": words}, chunk_shape=(50,))
    level = zv.open(tmp_path / "s")[0]
    assert level.group.read_array_meta("vertex_attributes/w").dtype == "uint16"
    assert level.read().attributes["w"].tolist() == words


def test_channel_names_are_kept(tmp_path: Path) -> None:
    zv.write_points(
        tmp_path / "s",
        [[0.0], [1.0]],
        vertex_attributes={"rgb": np.zeros((2, 3)), "plain": np.zeros((2, 2))},
        object_ids=[0, 1],
        object_attributes={"box": np.zeros((2, 2))},
        channel_names={"rgb": ["red", "green", "blue"], "box": ("low", "high")},
    )
    group = zv.open(tmp_path / "s")[0].group
    assert group.read_array_meta("vertex_attributes/rgb").channel_names == ("red", "green", "blue")
    assert group.read_array_meta("vertex_attributes/plain").channel_names is None
    assert group.read_array_meta("object_attributes/box").channel_names == ("low", "high")


def test_axes_and_crs_are_kept(tmp_path: Path) -> None:
    axes: list[AxisLike] = [
        {"name": "time", "type": "time", "unit": "second"},
        Axis(name="height", type="space", unit="micrometer"),
        "across",
    ]
    crs = {"epsg": 4326, "nested": {"list": [1, 2.5, None, "text"]}}
    zv.write_points(tmp_path / "s", np.zeros((1, 3)), axes=axes, crs=crs)
    root = zv.open(tmp_path / "s").metadata
    assert [axis.to_json() for axis in root.axes] == [
        {"name": "time", "type": "time", "unit": "second"},
        {"name": "height", "type": "space", "unit": "micrometer"},
        {"name": "across", "type": "space"},
    ]
    assert root.crs == crs


def test_axes_that_nobody_named_have_no_unit(tmp_path: Path) -> None:
    zv.write_points(tmp_path / "s", np.zeros((1, 5)))
    axes = [axis.to_json() for axis in zv.open(tmp_path / "s").metadata.axes]
    assert axes == [{"name": name, "type": "time" if name == "t" else "space"} for name in ("x", "y", "z", "t", "d4")]


@pytest.mark.parametrize("ndim", [1, 2, 4, 8])
def test_any_number_of_dimensions(tmp_path: Path, ndim: int) -> None:
    paths = random_paths(ndim=ndim)
    zv.write_polylines(tmp_path / "s", paths, chunk_shape=(5,) * ndim)
    level = zv.open(tmp_path / "s")[0]
    filled = [path for path in paths if len(path)]
    for found, path in zip(level.read().polylines, filled, strict=True):
        np.testing.assert_array_equal(found, path)
    low, high = np.full(ndim, -4.0), np.full(ndim, 4.0)
    inside = [k for k, path in enumerate(paths) if ((path >= low) & (path <= high)).all(axis=1).any()]
    assert level.read(bbox=(low, high)).objects.tolist() == inside


def test_space_and_time(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    positions = np.concatenate([rng.random((500, 3)) * 100, rng.random((500, 1)) * 1e4], axis=1)
    zv.write_points(tmp_path / "s", positions, chunk_shape=(50, 50, 50, 1000))
    box = ([0, 0, 0, 2500.0], [100, 100, 60, 5500.0])
    inside = ((positions >= box[0]) & (positions <= box[1])).all(axis=1)
    assert len(zv.open(tmp_path / "s")[0].read(bbox=box)) == inside.sum() > 0


def test_lists_and_offsets_give_the_same_bytes(tmp_path: Path) -> None:
    paths = random_paths()
    offsets = np.cumsum([0, *map(len, paths)])
    flat = np.concatenate(paths)
    numbers = np.arange(len(flat), dtype=np.float32)
    forms: dict[str, tuple[Any, Any]] = {
        "lists": (paths, np.split(numbers, offsets[1:-1])),
        "nested": ([path.tolist() for path in paths], list(np.split(numbers, offsets[1:-1]))),
        "offsets": ((flat, offsets), (numbers, offsets)),
        "flat attribute": ((flat, offsets.astype(np.uint32)), numbers),
    }
    for name, (given, attribute) in forms.items():
        zv.write_polylines(tmp_path / name, given, vertex_attributes={"n": attribute}, chunk_shape=(5, 5, 5))
    stores = [contents(tmp_path / name) for name in forms]
    assert all(store == stores[0] for store in stores)


def test_what_was_read_can_be_written_again(tmp_path: Path) -> None:
    zv.write_polylines(tmp_path / "a", [path for path in random_paths() if len(path)], chunk_shape=(5, 5, 5))
    zv.write_polylines(tmp_path / "b", zv.open(tmp_path / "a")[0].read().polylines, chunk_shape=(5, 5, 5))
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


@pytest.mark.parametrize("given", [[], [[]], [[], []], [np.empty((0, 2))], (np.empty((0, 3)), [0, 0])])
def test_paths_without_vertices(tmp_path: Path, given: Any) -> None:
    count = len(given[1]) - 1 if isinstance(given, tuple) else len(given)
    assert zv.write_polylines(tmp_path / "s", given).objects == count
    level = zv.open(tmp_path / "s")[0]
    assert (len(level.read()), len(level.objects)) == (0, count)
    assert level.objects.absent.tolist() == list(range(count))


def test_attributes_of_paths_as_rows_or_as_lists(tmp_path: Path) -> None:
    paths = [[[0.0, 0.0], [1.0, 1.0]], [], [[2.0, 2.0]]]
    rows = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    attributes: dict[str, Any] = {"lists": [["a", "b"], [], ["c"]], "rows": rows, "wide": [rows[:2], [], rows[2:]]}
    zv.write_polylines(tmp_path / "s", paths, vertex_attributes=attributes)
    result = zv.open(tmp_path / "s")[0].read()
    assert result.attributes["lists"].tolist() == ["a", "b", "c"]
    assert result.attributes["rows"].tolist() == result.attributes["wide"].tolist() == rows


def test_lines_with_attributes_of_their_ends(tmp_path: Path) -> None:
    ends = np.random.default_rng(2).random((10, 2, 3)) * 20
    attributes = {
        "by line": np.arange(20).reshape(10, 2),
        "flat": np.arange(20),
        "colour": np.arange(60).reshape(10, 2, 3),
    }
    zv.write_lines(tmp_path / "s", ends, vertex_attributes=attributes, chunk_shape=(10, 10, 10))
    result = zv.open(tmp_path / "s")[0].read()
    np.testing.assert_array_equal(result.lines, ends)
    np.testing.assert_array_equal(result.attributes["by line"], np.arange(20))
    np.testing.assert_array_equal(result.attributes["flat"], np.arange(20))
    np.testing.assert_array_equal(result.attributes["colour"], np.arange(60).reshape(20, 3))


@pytest.mark.parametrize("explicit", [False, True])
def test_lines_in_either_convention(tmp_path: Path, explicit: bool) -> None:
    ends = np.random.default_rng(3).random((10, 2, 2)) * 20
    zv.write_lines(
        tmp_path / "s", ends, chunk_shape=(5, 5), links_convention="explicit" if explicit else "implicit_sequential"
    )
    np.testing.assert_array_equal(zv.open(tmp_path / "s")[0].read().lines, ends)


def test_graphs_keep_loops_and_parallel_edges(tmp_path: Path) -> None:
    positions = [[1.0], [2.0], [11.0]]
    edges = [[0, 0], [0, 1], [0, 1], [1, 0], [2, 0], [0, 2], [2, 2]]
    zv.write_graph(tmp_path / "s", positions, edges, vertex_attributes={"n": [0, 1, 2]}, chunk_shape=(10,))
    result = zv.open(tmp_path / "s")[0].read()
    assert sorted(result.attributes["n"][result.edges].tolist()) == sorted(edges)


def test_graphs_without_edges_and_without_vertices(tmp_path: Path) -> None:
    zv.write_graph(tmp_path / "a", [[1.0, 2.0]], [])
    assert zv.open(tmp_path / "a")[0].read().edges.shape == (0, 2)
    zv.write_graph(tmp_path / "b", np.empty((0, 2)), np.empty((0, 2), dtype=int))
    assert len(zv.open(tmp_path / "b")[0].read()) == 0
    zv.write_mesh(tmp_path / "c", [[1.0, 2.0, 3.0]], np.empty((0, 4), dtype=int))
    assert zv.open(tmp_path / "c")[0].read().faces.shape == (0, 4)


def skeletons_given() -> dict[str, dict[str, Any]]:
    first = np.array([[0.0, 0], [1, 0], [2, 0], [1, 1]])
    second = np.array([[20.0, 0], [21, 0]])
    flat = np.concatenate([first, second])
    return {
        "flat parents": {"positions": flat, "parents": [-1, 0, 1, 1, -1, 4], "object_ids": [0, 0, 0, 0, 1, 1]},
        "list parents": {"positions": [first, second], "parents": [[-1, 0, 1, 1], [-1, 0]]},
        "list of lists": {"positions": [first.tolist(), second.tolist()], "parents": [[-1, 0, 1, 1], [-1, 0]]},
        "tuple of arrays": {"positions": (first, second), "parents": ([-1, 0, 1, 1], [-1, 0])},
        "offsets": {"positions": (flat, [0, 4, 6]), "parents": [-1, 0, 1, 1, -1, 4]},
        "own parent": {"positions": [first, second], "parents": [[0, 0, 1, 1], [0, 0]]},
        "child to parent": {"positions": [first, second], "edges": [[[1, 0], [2, 1], [3, 1]], [[1, 0]]]},
        "any direction": {"positions": [first, second], "edges": [[[0, 1], [1, 2], [1, 3]], [[0, 1]]]},
        "flat edges": {"positions": (flat, [0, 4, 6]), "edges": [[0, 1], [1, 2], [1, 3], [4, 5]]},
    }


@pytest.mark.parametrize("form", skeletons_given())
def test_every_form_of_skeletons_gives_the_same_bytes(tmp_path: Path, form: str) -> None:
    expected = skeletons_given()["flat parents"]
    given = skeletons_given()[form]
    for name, keywords in (("a", expected), ("b", given)):
        positions = keywords.pop("positions")
        zv.write_skeletons(tmp_path / name, positions, **keywords, chunk_shape=(10, 10))
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_lists_with_an_empty_skeleton(tmp_path: Path) -> None:
    summary = zv.write_skeletons(
        tmp_path / "s",
        [np.empty((0, 2)), np.array([[0.0, 0], [1, 0]]), np.empty(0)],
        parents=[[], [-1, 0], []],
        vertex_attributes={"radius": [[], [1.5, 2.5], []]},
    )
    assert summary.objects == 3
    (only,) = zv.open(tmp_path / "s")[0].read().skeletons
    assert (only.object_id, only.parents.tolist(), only.attributes["radius"].tolist()) == (1, [-1, 0], [1.5, 2.5])
    assert only.edges.tolist() == [[1, 0]]


def test_a_list_of_nothing_is_no_skeleton(tmp_path: Path) -> None:
    assert zv.write_skeletons(tmp_path / "s", [], parents=[]).objects == 0
    assert zv.write_skeletons(tmp_path / "t", [[]], edges=[[]]).objects == 1


def test_meshes_whose_objects_share_vertices(tmp_path: Path) -> None:
    vertices = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [11, 0, 0], [12, 0, 0], [5, 5, 5]])
    faces = np.array([[0, 1, 2], [2, 1, 3], [3, 4, 1]])
    zv.write_mesh(
        tmp_path / "s",
        vertices,
        faces,
        face_objects=[0, 2, 2],
        vertex_attributes={"n": np.arange(6)},
        link_attributes={"f": np.arange(3)},
        object_attributes={"name": ["a", "none", "b"]},
        chunk_shape=(10, 10, 10),
    )
    level = zv.open(tmp_path / "s")[0]
    everything = level.read()
    np.testing.assert_array_equal(everything.attributes["n"][everything.faces], faces[everything.link_attributes["f"]])
    assert len(everything) == 6
    first, second = level.read(object_ids=[0]), level.read(object_ids=[2])
    assert sorted(first.attributes["n"].tolist()) == [0, 1, 2]
    assert sorted(second.attributes["n"].tolist()) == [1, 2, 3, 4]
    assert first.link_attributes["f"].tolist() == [0]
    assert sorted(second.link_attributes["f"].tolist()) == [1, 2]
    assert level.objects.absent.tolist() == [1]


def test_meshes_told_apart_by_faces_that_share_nothing(tmp_path: Path) -> None:
    vertices = np.arange(18, dtype=np.float32).reshape(6, 3)
    faces = [[0, 2, 4], [1, 3, 5]]
    zv.write_mesh(tmp_path / "by faces", vertices, faces, face_objects=[1, 0], chunk_shape=(30, 30, 30))
    zv.write_mesh(tmp_path / "by vertices", vertices, faces, object_ids=[1, 0, 1, 0, 1, 0], chunk_shape=(30, 30, 30))
    assert contents(tmp_path / "by faces") == contents(tmp_path / "by vertices")


@pytest.mark.parametrize("place", ["memory://write-places", "store.zip", "store"])
def test_places(tmp_path: Path, place: str) -> None:
    location = place if "://" in place else tmp_path / place
    zv.write_points(location, [[1.0, 2.0]])
    zv.write_points(location, [[3.0, 4.0]], mode="w")
    with zv.open(location) as store:
        assert store[0].read().positions.tolist() == [[3.0, 4.0]]


def test_a_single_number_is_a_shape_for_all_axes(tmp_path: Path) -> None:
    summary = zv.write_points(tmp_path / "s", np.zeros((3, 2)), chunk_shape=10, bin_shape=5)
    assert summary.chunk_shape == (10.0, 10.0)
    assert zv.open(tmp_path / "s").metadata.bin_shape == (5.0, 5.0)
