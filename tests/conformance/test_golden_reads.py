"""Stores of the reference implementation, read through the public interface."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import zarr_vectors as zv
from zarr_vectors.exceptions import ZarrVectorsWarning

Array = npt.NDArray[Any]
GOLDEN = Path(__file__).parents[1] / "data" / "golden"
CASES = sorted(path.stem for path in GOLDEN.glob("*.zip"))
POINTS = [case for case in CASES if case.startswith(("points", "pyramid_points", "identity"))]
PATHS = ["legacy_object_index", "polylines_2d", "pyramid_streamlines", "streamlines", "streamlines_zstd"]
MESHES = {"mesh_quads": 4, "mesh_triangles": 3}

Golden = Callable[[str], Path]


@dataclass
class Case:
    """A level as we read it, and the arrays that the reference's own reader gave."""

    level: zv.Level
    arrays: dict[str, Array]

    def has(self, name: str) -> bool:
        return f"L{self.level.number}/{name}" in self.arrays

    def __getitem__(self, name: str) -> Array:
        return self.arrays[f"L{self.level.number}/{name}"]


def load(directory: Path) -> Iterator[Case]:
    with np.load(directory / "expected.npz") as archive:
        arrays = {name: archive[name] for name in archive.files}
    for level in zv.open(directory / "store.zv"):
        yield Case(level, arrays)


def as_set(links: Array) -> set[tuple[int, ...]]:
    return {tuple(row) for row in links.tolist()}


def sorted_rows(rows: Array) -> Array:
    return rows[np.lexsort(rows.T[::-1])]


def test_every_case_is_read_by_some_test() -> None:
    known = {*POINTS, *PATHS, *MESHES, "lines", "skeleton", "graph", "graph_two_objects", "mesh_draco"}
    assert known | {"fragments_explicit"} == set(CASES)


@pytest.mark.parametrize("case", POINTS)
def test_points(golden: Golden, case: str) -> None:
    for expected in load(golden(case)):
        result = expected.level.read()
        np.testing.assert_array_equal(result.positions, expected["read.positions"])
        assert result.positions.dtype == expected["read.positions"].dtype
        names = [name.split(".", 2)[2] for name in expected.arrays if name.startswith("L0/read.vertex_attributes.")]
        for name in names:
            np.testing.assert_array_equal(result.attributes[name], expected[f"read.vertex_attributes.{name}"])


@pytest.mark.parametrize("case", POINTS)
def test_points_in_a_box(golden: Golden, case: str) -> None:
    for expected in load(golden(case)):
        result = expected.level.read(bbox=list(expected["bbox"]))
        np.testing.assert_array_equal(sorted_rows(result.positions), expected["bbox_positions"])


@pytest.mark.parametrize("case", [case for case in CASES if case != "mesh_draco"])
def test_each_object(golden: Golden, case: str) -> None:
    for expected in load(golden(case)):
        if not expected.has("object_vertices"):
            assert len(expected.level.objects) == 0
            continue
        parts = np.split(expected["object_vertices"], expected["object_vertex_offsets"][1:-1])
        named = np.diff(expected["manifest_offsets"])
        assert len(expected.level.objects) == len(parts)
        for object_id, rows in enumerate(parts):
            result = expected.level.read(object_ids=[object_id])
            # Points, graphs and meshes come in the order they are stored in, each row once.
            if expected.level.index.geometry.by_object:
                np.testing.assert_array_equal(result.positions, rows)
            else:
                np.testing.assert_array_equal(sorted_rows(result.positions), np.unique(rows, axis=0))
            if len(rows) or not named[object_id]:
                assert result.absent.tolist() == ([] if len(rows) else [object_id])


def test_shared_rows_of_explicit_fragments(golden: Golden) -> None:
    # The reference skips chunks with explicit fragments; the manifests tell which rows each object has.
    (expected,) = load(golden("fragments_explicit"))
    parts = np.split(expected["object_vertices"], expected["object_vertex_offsets"][1:-1])
    result = expected.level.read()
    found = {
        int(object_id): result.positions[result.object_rows.values[begin:end]]
        for object_id, begin, end in zip(
            result.objects, result.object_rows.offsets[:-1], result.object_rows.offsets[1:], strict=True
        )
    }
    for object_id, rows in enumerate(parts):
        np.testing.assert_array_equal(found.get(object_id, rows[:0]), rows)


@pytest.mark.parametrize("case", PATHS)
def test_paths(golden: Golden, case: str) -> None:
    for expected in load(golden(case)):
        result = expected.level.read()
        parts = np.split(expected["read.polylines"], expected["read.polyline_offsets"][1:-1])
        assert len(result.polylines) == len(parts)
        for found, path in zip(result.polylines, parts, strict=True):
            np.testing.assert_array_equal(found, path)
        assert result.positions.dtype == expected["read.polylines"].dtype


def test_attributes_of_paths_follow_their_vertices(golden: Golden) -> None:
    (expected,) = load(golden("streamlines"))
    rows = {tuple(row): number for number, row in enumerate(expected["vertices"].tolist())}
    result = expected.level.read()
    order = [rows[tuple(row)] for row in result.positions.tolist()]
    assert result.attributes
    for name, values in result.attributes.items():
        np.testing.assert_array_equal(values, expected[f"vertex_attributes.{name}"][order])


@pytest.mark.parametrize("case", ["lines", "streamlines", "legacy_object_index"])
def test_the_rows_0_of_the_references_path_links_are_not_trusted(golden: Golden, case: str) -> None:
    # FORMAT 8: rows of cross-chunk links of paths are always 0. Steps follow from the manifests instead.
    (expected,) = load(golden(case))
    assert (expected["cross_chunk_links.0"][..., -1] == 0).all()
    result = expected.level.read()
    parts = np.split(np.arange(len(result)), expected["object_vertex_offsets"][1:-1])
    steps = [np.stack([part[:-1], part[1:]], axis=1) for part in parts]
    np.testing.assert_array_equal(result.edges, np.concatenate(steps))


def test_lines(golden: Golden) -> None:
    (expected,) = load(golden("lines"))
    np.testing.assert_array_equal(expected.level.read().lines, expected["read.endpoints"])


def test_skeleton(golden: Golden) -> None:
    (expected,) = load(golden("skeleton"))
    result = expected.level.read()

    def by_position(positions: Array, edges: Array) -> set[tuple[tuple[float, ...], tuple[float, ...]]]:
        return {(tuple(positions[child].tolist()), tuple(positions[parent].tolist())) for child, parent in edges}

    assert len(result.edges) == len(expected["read.edges"])
    assert by_position(result.positions, result.edges) == by_position(
        expected["read.positions"], expected["read.edges"]
    )
    assert np.count_nonzero(result.parents == -1) == 1


@pytest.mark.parametrize("case", ["graph", "graph_two_objects"])
def test_graph(golden: Golden, case: str) -> None:
    (expected,) = load(golden(case))
    result = expected.level.read()
    np.testing.assert_array_equal(result.positions, expected["read.positions"])
    assert len(result.edges) == len(expected["read.edges"])
    assert as_set(np.sort(result.edges, axis=1)) == as_set(np.sort(expected["read.edges"], axis=1))


def test_attributes_of_links_within_and_across_chunks(golden: Golden) -> None:
    # The reference drops attributes of edges across chunks on reading; they are stored, so they are read.
    (expected,) = load(golden("graph"))
    result = expected.level.read()
    inside = len(expected["links.0"])
    for name in result.link_attributes:
        stored = {
            "inside": expected[f"link_attributes.{name}.0"] if expected.has(f"link_attributes.{name}.0") else None,
            "across": (
                expected[f"cross_chunk_link_attributes.{name}.0"]
                if expected.has(f"cross_chunk_link_attributes.{name}.0")
                else None
            ),
        }
        assert any(values is not None for values in stored.values())
        missing = result.link_attribute_missing.get(name, np.zeros(len(result.edges), dtype=np.bool_))
        if stored["inside"] is None:
            assert missing[:inside].all()
        else:
            np.testing.assert_array_equal(result.link_attributes[name][:inside], stored["inside"])
        if stored["across"] is None:
            assert missing[inside:].all()
        else:
            np.testing.assert_array_equal(result.link_attributes[name][inside:], stored["across"])


@pytest.mark.parametrize("case", MESHES)
def test_mesh(golden: Golden, case: str) -> None:
    (expected,) = load(golden(case))
    result = expected.level.read()
    np.testing.assert_array_equal(result.positions, expected["read.vertices"])
    assert result.faces.shape == expected["read.faces"].shape == (len(result.faces), MESHES[case])
    assert as_set(result.faces) == as_set(expected["read.faces"])


def test_draco_positions_and_faces_come_from_the_bitstreams(golden: Golden) -> None:
    # FORMAT 8: the reference never decodes Draco, and its links across chunks number the vertices as they
    # were before the codec changed their order: those faces are left out, with a warning.
    (expected,) = load(golden("mesh_draco"))
    across = len(expected["cross_chunk_links.0"])
    assert across > 0
    with pytest.warns(ZarrVectorsWarning, match=f"{across} faces across chunks are left out"):
        result = expected.level.read()
    np.testing.assert_array_equal(result.positions, expected["draco.vertices"])
    starts = np.repeat(expected["draco.vertex_offsets"][:-1], np.diff(expected["draco.face_offsets"]))
    np.testing.assert_array_equal(result.faces, expected["draco.faces"] + starts[:, None])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore::zarr_vectors.exceptions.ZarrVectorsWarning")
def test_object_and_group_attributes(golden: Golden, case: str) -> None:
    facts = json.loads((golden(case) / "expected.json").read_text())
    for expected in load(golden(case)):
        result = expected.level.read()
        level = facts["levels"][str(expected.level.number)]
        assert sorted(result.object_attributes) == sorted(level["object_attributes"])
        for name, values in result.object_attributes.items():
            np.testing.assert_array_equal(values, expected[f"object_attributes.{name}"][result.objects])
        if level["num_groups"] is not None:
            groups = expected.level.groups
            members = np.split(expected["groups"], expected["group_offsets"][1:-1])
            assert [group.ids.tolist() for group in groups] == [ids.tolist() for ids in members]
            for name, values in groups.attributes.items():
                np.testing.assert_array_equal(values, expected[f"group_attributes.{name}"])
