"""Bad input: a clear error before anything is written, and nothing lost of what was there."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zarr_vectors as zv
from zarr_vectors.encoding.draco import DracoMesh
from zarr_vectors.exceptions import EncodeError, InputError, KeywordError, StoreExistsError

POINTS = np.array([[0.5, 0.5, 0.5], [1.5, 0.5, 0.5], [0.5, 1.5, 0.5], [3.5, 3.5, 3.5]], dtype=np.float32)
ENDS = POINTS.reshape(2, 2, 3)
FACES = [[0, 1, 2]]
Write = Callable[..., object]


def points(location: object, positions: Any = POINTS, **keywords: Any) -> object:
    return zv.write_points(location, positions, **keywords)


def objects(location: object, positions: Any = POINTS, **keywords: Any) -> object:
    return zv.write_points(location, positions, object_ids=[0, 0, 1, 2], **keywords)


def lines(location: object, endpoints: Any = ENDS, **keywords: Any) -> object:
    return zv.write_lines(location, endpoints, **keywords)


def paths(location: object, given: Any = (POINTS, [0, 3, 4]), **keywords: Any) -> object:
    return zv.write_polylines(location, given, **keywords)


def graph(location: object, positions: Any = POINTS, edges: Any = ((0, 1), (1, 3)), **keywords: Any) -> object:
    return zv.write_graph(location, positions, edges, **keywords)


def skeleton(location: object, positions: Any = POINTS, **keywords: Any) -> object:
    keywords = {"parents": [-1, 0, 1, 1]} | keywords
    return zv.write_skeletons(location, positions, **keywords)


def mesh(location: object, vertices: Any = POINTS, faces: Any = FACES, **keywords: Any) -> object:
    return zv.write_mesh(location, vertices, faces, **keywords)


WRITERS: list[Write] = [points, objects, lines, paths, graph, skeleton, mesh]
every_writer = pytest.mark.parametrize("write", WRITERS)


def refuses(write: Write, message: str, directory: Path, *args: Any, **keywords: Any) -> None:
    """Assert that a call is refused, that it leaves nothing behind, and that it leaves what was there as it was."""
    place = directory / "new"
    with pytest.raises(InputError, match=message):
        write(place, *args, **keywords)
    assert not place.exists()
    zv.write_points(place, [[7.0]])
    before = contents(place)
    with pytest.raises(InputError, match=message):
        write(place, *args, mode="w", **keywords)
    assert contents(place) == before
    shutil.rmtree(place)
    assert list(directory.iterdir()) == []


def contents(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def spoilt(write: Write, value: float) -> tuple[Any, str]:
    """Return the positions of a writer with one bad value in row 2."""
    bad = POINTS.copy()
    bad[2, 1] = value
    given: dict[Write, Any] = {lines: bad.reshape(2, 2, 3), paths: (bad, [0, 3, 4])}
    return given.get(write, bad), r"row 2 is \[0\.5, (nan|-?inf), 0\.5\]"


@every_writer
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_positions_that_are_not_finite(tmp_path: Path, write: Write, value: float) -> None:
    given, message = spoilt(write, value)
    refuses(write, message, tmp_path, given)


@every_writer
def test_wrong_shapes_of_positions(tmp_path: Path, write: Write) -> None:
    refuses(write, "shape|list of arrays", tmp_path, np.zeros(4))


def test_too_many_dimensions(tmp_path: Path) -> None:
    refuses(points, r"\(rows, 1 to 8\)", tmp_path, np.zeros((2, 9)))
    refuses(points, r"\(rows, 1 to 8\)", tmp_path, np.zeros((2, 0)))


def test_lines_need_two_ends(tmp_path: Path) -> None:
    refuses(lines, r"\(lines, 2, ndim\), not \(2, 3, 3\)", tmp_path, np.zeros((2, 3, 3)))


@pytest.mark.parametrize("given", [[[0, 0], [1]], [[0, 0], ["a", 1]], [[None, 1]], [[1 + 2j, 0]], [[True, False]]])
def test_positions_that_are_no_numbers(tmp_path: Path, given: Any) -> None:
    refuses(points, "positions", tmp_path, given)


def test_positions_wider_than_64_bits(tmp_path: Path) -> None:
    if np.dtype(np.longdouble).itemsize > 8:
        refuses(points, "at most 64 bits", tmp_path, POINTS.astype(np.longdouble))
        refuses(points, "at most 64 bits", tmp_path, dtype=np.longdouble)


@pytest.mark.parametrize(
    ("given", "dtype", "message"),
    [
        ([[0.5]], "int32", "round them first"),
        ([[300]], "uint8", "round them first"),
        ([[-1]], "uint8", "round them first"),
        ([[1e300]], "float32", "some become infinite"),
        ([[1.0]], "bool", "an integer or a float"),
        ([[1.0]], "no such", "no such"),
    ],
)
def test_positions_that_do_not_fit_the_dtype(tmp_path: Path, given: Any, dtype: str, message: str) -> None:
    refuses(points, message, tmp_path, given, dtype=dtype)


@pytest.mark.parametrize("write", [points, objects, graph, skeleton, mesh, paths, lines])
def test_vertex_attributes_of_another_length(tmp_path: Path, write: Write) -> None:
    refuses(write, "'size' has 3 rows, 4 are needed", tmp_path, vertex_attributes={"size": [1, 2, 3]})


@pytest.mark.parametrize(("write", "count"), [(graph, 2), (mesh, 1)])
def test_link_attributes_of_another_length(tmp_path: Path, write: Write, count: int) -> None:
    message = f"link attribute 'w' has 3 rows, {count} are needed"
    refuses(write, message, tmp_path, link_attributes={"w": [1, 2, 3]})


def test_the_stores_own_link_attribute(tmp_path: Path) -> None:
    refuses(graph, "store's own", tmp_path, link_attributes={"object_id": [1, 2]})
    refuses(mesh, "store's own", tmp_path, link_attributes={"object_id": [1]}, face_objects=[0])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a", 1, 2, 3], "mixes text"),
        (["a", None, "b", "c"], "mixes text"),
        ([1, 2, "3", 4], "mixes text"),
        ([b"a", b"b", b"c", b"d"], "numbers .* or text"),
        (np.array(["2020-01-01"] * 4, dtype="datetime64[D]"), "numbers .* or text"),
        ([["a", "b"]] * 4, "one value a row"),
        (np.zeros((4, 2, 2)), r"\(rows,\) or \(rows, channels\)"),
        (np.zeros((4, 0)), r"\(rows,\) or \(rows, channels\)"),
        (5, r"\(rows,\) or \(rows, channels\)"),
        ([[1, 2], [3], [4], [5]], "not an array"),
        (np.zeros(4, dtype=np.clongdouble), "numbers .* or text"),
    ],
)
def test_attributes_that_can_not_be_stored(tmp_path: Path, values: Any, message: str) -> None:
    refuses(points, message, tmp_path, vertex_attributes={"a": values})


@pytest.mark.parametrize("name", ["../x", "a/b", "", "..", "__x", "zarr.json", "\ud800", "x" * 300, "a\nb", 5])
@pytest.mark.parametrize("scope", ["vertex_attributes", "object_attributes", "group_attributes"])
def test_names_that_are_no_names(tmp_path: Path, name: Any, scope: str) -> None:
    values = {"vertex_attributes": [1, 2, 3, 4], "object_attributes": [1, 2, 3], "group_attributes": [1]}[scope]
    refuses(objects, "name", tmp_path, groups=[[0, 1]], **{scope: {name: values}})


def test_names_of_link_attributes(tmp_path: Path) -> None:
    refuses(graph, "can't be a name", tmp_path, link_attributes={"a/b": [1, 2]})


def test_text_that_is_not_valid(tmp_path: Path) -> None:
    refuses(points, "vertex_attributes/t can't be stored", tmp_path, vertex_attributes={"t": ["\ud800"] * 4})


def test_attributes_that_are_no_mapping(tmp_path: Path) -> None:
    refuses(points, "mapping from names", tmp_path, vertex_attributes=[1, 2, 3, 4])
    refuses(paths, "mapping from names", tmp_path, vertex_attributes=[1, 2, 3, 4])


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"rgb": ["r", "g"]}, "2 channel names"),
        ({"size": ["s"]}, "1 channel names"),
        ({"rbg": ["r", "g", "b"]}, "speaks of 'rbg'"),
        ({"rgb": [1, 2, 3]}, "vertex_attributes/rgb can't be stored"),
    ],
)
def test_channel_names_that_do_not_fit(tmp_path: Path, names: Any, message: str) -> None:
    attributes = {"rgb": np.zeros((4, 3)), "size": np.zeros(4)}
    refuses(points, message, tmp_path, vertex_attributes=attributes, channel_names=names)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([[0, 4]], r"edges: row 0 is \[0, 4\], there are 4 vertices"),
        ([[0, 1], [-1, 2]], r"edges: row 1 is \[-1, 2\]"),
        (np.array([[0, 2**64 - 1]], dtype=np.uint64), "edges: row 0"),
        ([[0, 1, 2]], r"shape \(n, 2\)"),
        ([0, 1], r"shape \(n, 2\)"),
        ([[0.0, 1.0]], "integers"),
        ([[0, 1], [2]], "not an array"),
    ],
)
def test_edges_that_lead_nowhere(tmp_path: Path, edges: Any, message: str) -> None:
    refuses(graph, message, tmp_path, POINTS, edges)


@pytest.mark.parametrize(
    ("faces", "message"),
    [
        ([[0, 1, 4]], r"faces: row 0 is \[0, 1, 4\], there are 4 vertices"),
        ([[0, 1, -1]], "faces: row 0"),
        ([[0, 1]], "3 or 4 corners, not 2"),
        ([[0, 1, 2, 3, 0]], "3 or 4 corners, not 5"),
        ([0, 1, 2], r"shape \(n, 3\)"),
        ([[0, 1, 2], [0, 1]], "not an array"),
    ],
)
def test_faces_that_lead_nowhere(tmp_path: Path, faces: Any, message: str) -> None:
    refuses(mesh, message, tmp_path, POINTS, faces)


@pytest.mark.parametrize("write", [points, graph, skeleton, mesh])
@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([0, -1, 1, 1], "row 1 is -1, ids are not negative"),
        ([0, 1, 1], "one integer for each of 4 rows"),
        ([0.0, 1.0, 1.0, 1.0], "one integer for each of 4 rows"),
        ([0, 1, 1, 2**40], "number them anew"),
        (np.array([0, 1, 1, 2**64 - 1], dtype=np.uint64), "number them anew"),
    ],
)
def test_object_ids_that_are_none(tmp_path: Path, write: Write, ids: Any, message: str) -> None:
    refuses(write, message, tmp_path, object_ids=ids)


def test_objects_of_faces(tmp_path: Path) -> None:
    refuses(mesh, "not by both", tmp_path, object_ids=[0, 0, 0, 0], face_objects=[0])
    refuses(mesh, "face_objects is one integer for each of 1 rows", tmp_path, face_objects=[0, 1])
    refuses(mesh, "face_objects: row 0 is -2", tmp_path, face_objects=[-2])


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"object_attributes": {"a": [1, 2]}}, "'a' has 2 rows, 3 are needed"),
        ({"object_attributes": {"a": [1, 2, 3, 4]}}, "'a' has 4 rows, 3 are needed"),
        ({"groups": [[0, 3]]}, "row 1 is 3, there are 3 objects"),
        ({"groups": [[-1]]}, "row 0 is -1, there are 3 objects"),
        ({"groups": {-1: [0]}}, "count the groups from 0"),
        ({"groups": {"a": [0]}}, "group numbers are integers"),
        ({"groups": {1.5: [0]}}, "group numbers are integers"),
        ({"groups": [[0.5]]}, "members of groups are integers"),
        ({"groups": 5}, "groups is a list of arrays"),
        ({"groups": [0, 1]}, "groups is a list of arrays"),
        ({"groups": [[0]], "group_attributes": {"a": [1, 2]}}, "'a' has 2 rows, 1 are needed"),
        ({"group_attributes": {"a": [1, 2]}}, "group attributes need groups"),
    ],
)
def test_objects_and_groups_that_do_not_fit(tmp_path: Path, keywords: Any, message: str) -> None:
    refuses(objects, message, tmp_path, **keywords)


def test_objects_and_groups_without_objects(tmp_path: Path) -> None:
    refuses(points, "need object_ids", tmp_path, object_attributes={"a": [1]})
    refuses(points, "need object_ids", tmp_path, groups=[[0]])


@every_writer
@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ([[0, 0, 0], [3, 3, 3]], r"1 vertices lie outside of the bounds, the first is row 3, \[3\.5, 3\.5, 3\.5\]"),
        ([[0, 0], [5, 5]], "two corners of 3 numbers"),
        ([[9, 9, 9], [0, 0, 0]], "lower corner"),
        ([[0, 0, 0], [np.inf, 5, 5]], "finite"),
        ([[0, 0, 0], [np.nan, 5, 5]], "corner"),
        ("all", "a box is"),
    ],
)
def test_bounds_that_do_not_hold_the_data(tmp_path: Path, write: Write, bounds: Any, message: str) -> None:
    refuses(write, message, tmp_path, bounds=bounds)


@every_writer
def test_a_policy_that_is_none(tmp_path: Path, write: Write) -> None:
    refuses(write, "bounds_policy is raise, drop, expand, not 'clip'", tmp_path, bounds_policy="clip")


@every_writer
@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"chunk_shape": (1, 1)}, "chunk_shape is 3 positive numbers"),
        ({"chunk_shape": (1, 1, 0)}, "chunk_shape is 3 positive numbers"),
        ({"chunk_shape": (1, 1, -1)}, "chunk_shape is 3 positive numbers"),
        ({"chunk_shape": (1, 1, np.nan)}, "chunk_shape is 3 positive numbers"),
        ({"chunk_shape": "large"}, "chunk_shape is 3 positive numbers"),
        ({"chunk_shape": (10, 10, 10), "bin_shape": (3, 5, 5)}, r"bin_shape \[3\.0.* does not divide"),
        ({"chunk_shape": (10, 10, 10), "bin_shape": (20, 10, 10)}, "does not divide"),
        ({"chunk_shape": (10, 10, 10), "bin_shape": (5, 5)}, "bin_shape is 3 positive numbers"),
        ({"chunk_shape": (1e-300,) * 3}, "too far out"),
        ({"compressor": "zip"}, "compressor 'zip' is not known"),
        ({"compressor": {"name": "lzma"}}, "can't write with the codecs bytes, lzma"),
        ({"compressor": {"name": "blosc", "configuration": {"cname": "none"}}}, "refuses its configuration"),
        ({"compressor": {"name": "gzip", "configuration": {"level": 99}}}, "refuses its configuration"),
        ({"compressor": {"vertexes": None}}, "no array of the format is called 'vertexes'"),
        ({"compressor": {"vertices": "zip"}}, "compressor 'zip' is not known"),
        ({"axes": ["x", "y"]}, "2 axes for positions of 3 columns"),
        ({"axes": []}, "0 axes for positions of 3 columns"),
        ({"axes": ["x", "x", "y"]}, "names of axes must differ"),
        ({"axes": [{"type": "space"}, "y", "z"]}, "axes are names"),
        ({"axes": [1, 2, 3]}, "axes are names"),
        ({"crs": "EPSG:4326"}, "crs is a mapping"),
        ({"crs": {"code": object()}}, "the root can't be stored"),
        ({"crs": {"code": float("nan")}}, "the root can't be stored"),
        ({"links_convention": "implicit"}, "or explicit, not implicit"),
        ({"object_index_convention": "none"}, "object_index_convention"),
        ({"mode": "a"}, "mode is one of"),
    ],
)
def test_options_that_can_not_be(tmp_path: Path, write: Write, keywords: Any, message: str) -> None:
    place = tmp_path / "new"
    with pytest.raises(InputError, match=message):
        write(place, **keywords)
    assert list(tmp_path.iterdir()) == []


@every_writer
def test_unknown_keyword(tmp_path: Path, write: Write) -> None:
    refuses(write, "no keyword 'chunk_shap': did you mean 'chunk_shape'", tmp_path, chunk_shap=(1, 1, 1))
    refuses(write, "no keyword 'colour', only chunk_shape, ", tmp_path, colour="red")
    with pytest.raises(TypeError):
        write(tmp_path / "other", colour="red")
    assert issubclass(KeywordError, InputError)


@every_writer
def test_a_place_that_is_none(write: Write) -> None:
    with pytest.raises(InputError, match="a store is a path"):
        write(5)


@every_writer
def test_an_existing_store_is_kept_unless_it_is_to_be_replaced(tmp_path: Path, write: Write) -> None:
    place = tmp_path / "store"
    zv.write_points(place, [[7.0]])
    before = contents(place)
    with pytest.raises(StoreExistsError, match="mode='w'"):
        write(place)
    assert contents(place) == before
    write(place, mode="w")
    assert zv.open(place).metadata.ndim == 3


def test_an_existing_zip_file_is_kept_by_bad_input(tmp_path: Path) -> None:
    place = tmp_path / "store.zip"
    zv.write_points(place, [[7.0]])
    before = place.read_bytes()
    with pytest.raises(InputError):
        zv.write_points(place, [[7.0]], vertex_attributes={"../x": [1]}, mode="w")
    assert place.read_bytes() == before
    assert list(tmp_path.iterdir()) == [place]


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ([1, 2, 0, -1], "cycle"),
        ([-1, 2, 1, 1], "cycle"),
        ([1, 0, 0, 0], "cycle"),
        ([-1, 0, 1], "one integer for each of 4 nodes"),
        ([-1, 0, 1, 4], "node 3 has parent 4, there are 4 nodes"),
        ([-2, 0, 1, 2], "node 0 has parent -2"),
        ([-1.0, 0.0, 1.0, 2.0], "one integer for each of 4 nodes"),
    ],
)
def test_parents_that_make_no_forest(tmp_path: Path, parents: Any, message: str) -> None:
    refuses(skeleton, message, tmp_path, parents=parents)


def test_parents_of_another_object(tmp_path: Path) -> None:
    message = "node 2 is of object 1, its parent 1 of object 0"
    refuses(skeleton, message, tmp_path, object_ids=[0, 0, 1, 0])


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([[0, 1], [1, 2], [2, 0]], "cycle"),
        ([[0, 1], [0, 2], [1, 2]], "cycle or repeat"),
        ([[0, 1], [0, 1]], "cycle or repeat"),
        ([[0, 1], [0, 2], [1, 0]], "cycle or repeat"),
        ([[1, 1]], "to itself"),
        ([[0, 9]], "edges: row 0"),
    ],
)
def test_edges_that_make_no_forest(tmp_path: Path, edges: Any, message: str) -> None:
    refuses(skeleton, message, tmp_path, parents=None, edges=edges)


def test_skeletons_need_parents_or_edges(tmp_path: Path) -> None:
    refuses(skeleton, "either parents or edges", tmp_path, parents=None)
    refuses(skeleton, "either parents or edges", tmp_path, edges=[[0, 1]])


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"parents": [[-1, 0], [-1, 0], [-1]]}, "as many entries as each skeleton"),
        ({"parents": [[-1, 0], [-1, 2]]}, "outside of its skeleton"),
        ({"parents": [[-1, 0], [-1, -2]]}, "outside of its skeleton"),
        ({"parents": [[-1.0, 0.0], [-1.0, 0.5]]}, "integers"),
        ({"parents": None, "edges": [[[0, 1]]]}, "an entry for each skeleton"),
        ({"parents": None, "edges": [[[0, 1]], [[0, 2]]]}, "leaves its skeleton"),
        ({"parents": None, "edges": [[0, 1], [0, 1]]}, "integers with 2 axes"),
        ({"parents": [[-1, 0], [-1, 0]], "object_ids": [0, 0, 1, 1]}, "leave object_ids out"),
    ],
)
def test_lists_of_skeletons_that_do_not_fit(tmp_path: Path, keywords: Any, message: str) -> None:
    refuses(skeleton, message, tmp_path, [POINTS[:2], POINTS[2:]], **keywords)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((POINTS, [0, 3]), "end at the 4 rows"),
        ((POINTS, [1, 4]), "begin at 0"),
        ((POINTS, [0, 3, 2, 4]), "never fall"),
        ([POINTS, POINTS[:, :2]], "rows differ in shape"),
        ([POINTS, 5], "list of arrays"),
        ([POINTS, [[1, 2, 3], [4]]], "entry 1: not an array"),
        ("paths", "not str"),
        (7, "not int"),
    ],
)
def test_paths_that_are_none(tmp_path: Path, given: Any, message: str) -> None:
    refuses(paths, message, tmp_path, given)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"segments": [[0, 2]]}, "segments: row 1 is 2, there are 2 paths"),
        ({"segments": [[-1]]}, "segments: row 0"),
        ({"segments": [[0.5]]}, "segments are integers"),
        ({"segments": [[0]], "links_convention": "explicit"}, "leave links_convention out"),
        ({"geometry_type": "mesh"}, "polyline or streamline, not 'mesh'"),
        ({"vertex_attributes": {"a": [[1, 2], [3, 4]]}}, "as many rows in each list"),
        ({"vertex_attributes": {"a": ([1, 2, 3, 4], [0, 2, 4])}}, "as many rows in each list"),
        ({"vertex_attributes": {"a": [["a", "b", "c"], [1]]}}, "mixes text"),
    ],
)
def test_parts_of_paths_that_do_not_fit(tmp_path: Path, keywords: Any, message: str) -> None:
    refuses(paths, message, tmp_path, **keywords)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"encoding": "draco"}, "say to how many quantization_bits"),
        ({"quantization_bits": 10}, "with encoding='draco' alone"),
        ({"encoding": "zip"}, "encoding is 'raw' or 'draco'"),
        ({"encoding": "draco", "quantization_bits": 0}, "1 to 30 bits"),
        ({"encoding": "draco", "quantization_bits": 31}, "1 to 30 bits"),
        ({"encoding": "draco", "quantization_bits": 10, "dtype": "float64"}, "Draco holds float32"),
        ({"encoding": "draco", "quantization_bits": 10, "faces": [[0, 1, 2, 3]]}, "Draco holds triangles"),
        ({"encoding": "draco", "quantization_bits": 10, "vertices": POINTS[:, :2]}, "in three dimensions"),
    ],
)
def test_draco_that_can_not_be(tmp_path: Path, keywords: Any, message: str) -> None:
    refuses(mesh, message, tmp_path, **keywords)


def test_draco_that_fails_or_changes_the_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> bytes:
        raise EncodeError("no", rule="draco")

    keywords: dict[str, Any] = {"encoding": "draco", "quantization_bits": 10, "chunk_shape": 10}
    changed = DracoMesh(POINTS, np.array([[2, 1, 0]]))
    monkeypatch.setattr("zarr_vectors.writing.draco.decode_draco", lambda _: changed)
    refuses(mesh, "0/?.*Draco would change", tmp_path, **keywords)
    monkeypatch.setattr("zarr_vectors.writing.draco.encode_draco", fail)
    refuses(mesh, "no .rule draco", tmp_path, **keywords)


@pytest.mark.parametrize("write", [objects, paths, graph, skeleton, mesh])
def test_identity_needs_one_chunk(tmp_path: Path, write: Write) -> None:
    options = {"object_index_convention": "identity", "chunk_shape": (1, 1, 1)}
    refuses(write, "needs one chunk, the data fill 4", tmp_path, **options)


def test_identity_needs_one_fragment_an_object(tmp_path: Path) -> None:
    options: dict[str, Any] = {"object_index_convention": "identity", "chunk_shape": (4, 4, 4)}
    refuses(paths, "object 0 has several", tmp_path, bin_shape=(1, 1, 1), **options)
    refuses(skeleton, "object 0 has several", tmp_path, parents=[-1, 0, -1, 2], **options)
    refuses(points, "give object_ids", tmp_path, **options)
    refuses(mesh, "each vertex to be of one object", tmp_path, face_objects=[0], **options)


def test_chunks_too_large_to_be_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zarr_vectors.writing.check.MAX_PAYLOAD_BYTES", 16)
    refuses(points, re.escape("positions: a chunk has 48 bytes, at most 16 fit"), tmp_path, chunk_shape=4)
    monkeypatch.setattr("zarr_vectors.writing.check.MAX_PAYLOAD_BYTES", 48)
    refuses(points, "'?a'?: a chunk has 64 bytes", tmp_path, chunk_shape=4, vertex_attributes={"a": np.zeros((4, 2))})


def test_more_text_than_the_metadata_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zarr_vectors.writing.check.MAX_DOCUMENT_BYTES", 1000)
    refuses(points, "text is for few different values", tmp_path, vertex_attributes={"t": ["a", "b", "c", "d"]})
