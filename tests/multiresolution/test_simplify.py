"""Simplified levels: ends, roots, tips and branch points stay, and what goes lies near what stays."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.properties import scenes
from tests.properties.oracle import Scene
from zarr.storage import MemoryStore

import zarr_vectors as zv
from zarr_vectors.cli.samples import make_torus
from zarr_vectors.exceptions import InputError, MissingArrayError, MissingDependencyError
from zarr_vectors.multiresolution import build_pyramid
from zarr_vectors.typing import AnyArray

fewer = settings(max_examples=settings().max_examples // 2)


def simplified(scene: Scene, **options: Any) -> zv.Store:
    where = MemoryStore()
    scene.written(where)
    build_pyramid(where, [(2, 1.0), (2, 1.0)], method="simplify", **options)
    return zv.open(where)


def distance(point: npt.NDArray[np.float64], path: npt.NDArray[np.float64]) -> float:
    """How far a point is from a path, measured in what each axis is scaled by."""
    begin, end = path[:-1], path[1:]
    chord = end - begin
    length = (chord * chord).sum(axis=1)
    along = np.clip(((point - begin) * chord).sum(axis=1) / np.where(length > 0, length, 1), 0, 1)
    nearest = begin + along[:, None] * chord
    ends = np.linalg.norm(path - point, axis=1).min()
    return float(min(ends, np.linalg.norm(nearest - point, axis=1).min(initial=np.inf)))


def check_manual(store: zv.Store, *, shared: bool = False) -> None:
    for level in list(store)[1:]:
        assert level.metadata.coarsening_method == "manual"
        assert not level.metadata.shared_fragments
        # Objects that shared vertices get vertices of their own.
        assert shared or level.metadata.vertex_count <= store[level.number - 1].metadata.vertex_count
        with pytest.raises(MissingArrayError):
            store[level.number - 1].parents()
    assert "multiscale_links" not in store.metadata.format_capabilities


def objects_of(level: zv.Level) -> dict[int, AnyArray]:
    result = level.read()
    return {int(number): result.positions[result.object_ids == number] for number in result.objects}


@pytest.mark.parametrize("kind", ["line", "streamline"])
@fewer
@given(data=st.data())
def test_paths_keep_their_ends_and_stay_near(kind: str, data: st.DataObject) -> None:
    store = simplified(data.draw(scenes.paths(geometry_type=kind)))
    check_manual(store)
    for level in list(store)[1:]:
        below, above = objects_of(store[level.number - 1]), objects_of(level)
        assert below.keys() == above.keys()
        half = np.array(level.metadata.bin_shape) / 2
        for number, path in below.items():
            kept = above[number]
            assert kept[[0, -1]].tolist() == path[[0, -1]].tolist()
            rest = iter(path.tolist())
            assert all(row in rest for row in kept.tolist()), "a part of the vertices, in their order"
            scaled = kept.astype(np.float64) / half
            assert all(distance(row / half, scaled) <= 1 + 1e-9 for row in path.astype(np.float64))


def test_attributes_follow_the_vertices_that_stay() -> None:
    where = MemoryStore()
    positions = np.stack([np.arange(20.0), np.where(np.arange(20) == 7, 9.0, 0.0)], axis=1)
    zv.write_polylines(
        where,
        [positions],
        chunk_shape=10,
        bin_shape=1,
        vertex_attributes={"row": np.arange(20), "word": np.where(np.arange(20) < 7, "near", "far")},
    )
    build_pyramid(where, [2], method="simplify")
    result = zv.open(where)[1].read()
    rows = result.attributes["row"]
    assert {0, 7, 19} <= set(rows.tolist())
    assert len(rows) < 20
    np.testing.assert_array_equal(result.positions, positions[rows])
    assert result.attributes["word"].tolist() == ["near" if row < 7 else "far" for row in rows]


@fewer
@given(data=st.data())
def test_trees_keep_roots_tips_and_branch_points(data: st.DataObject) -> None:
    scene = data.draw(scenes.skeletons())
    store = simplified(scene)
    check_manual(store)
    parents = {node: -1 if parent < 0 else parent for node, parent in enumerate(scene.parents or ())}
    children: dict[int, list[int]] = {node: [] for node in (-1, *parents)}
    for node, parent in parents.items():
        children[parent].append(node)
    for level in list(store)[1:]:
        result = level.read()
        assert result.parents is not None
        rows = result.attributes["row"].tolist()
        kept = set(rows)
        assert {node for node in parents if parents[node] < 0 or len(children[node]) != 1} <= kept
        found = {row: rows[parent] if parent >= 0 else -1 for row, parent in zip(rows, result.parents, strict=True)}
        for node in kept:
            above = parents[node]
            while above >= 0 and above not in kept:
                above = parents[above]
            assert found[node] == above
        assert result.object_ids is not None
        for row, number in zip(rows, result.object_ids.tolist(), strict=True):
            assert number in (scene.owners or ())[row]


def test_meshes_are_decimated_with_their_attributes() -> None:
    pytest.importorskip("fast_simplification")
    torus, faces = make_torus()
    vertices = torus.astype(np.float64) + 1e6
    two = np.concatenate([vertices, vertices + np.array([0, 0, 50])])
    where = MemoryStore()
    zv.write_mesh(
        where,
        two,
        np.concatenate([faces, faces + len(vertices)]),
        object_ids=np.repeat([1, 3], len(vertices)),
        vertex_attributes={"height": two[:, 2], "kind": np.where(two[:, 2] > 1e6 + 25, "b", "a")},
        object_attributes={"name": ["x", "y", "z", "w"]},
        chunk_shape=24,
        bin_shape=1.5,
    )
    build_pyramid(where, [(2, 1.0), (2, 2.0)], method="simplify")
    store = zv.open(where)
    check_manual(store)
    before, first, second = (level.read() for level in store)
    placed = first.positions.astype(np.float64)
    heights = first.attributes["height"].astype(np.float64)
    assert len(first.faces) == pytest.approx(len(before.faces) / 4, rel=0.05)
    assert first.objects.tolist() == [1, 3]
    assert len(second.objects) == 1
    assert second.object_attributes["name"].tolist() == [["x", "y", "z", "w"][second.objects[0]]]
    assert first.positions.dtype == np.float64
    assert np.unique(first.faces).tolist() == list(range(len(first)))
    # Decimation moves vertices by less than a bin, and attributes are means of what became one.
    nearest = [np.linalg.norm(two - row, axis=1).min() for row in placed[::20]]
    assert max(nearest) < 3
    assert np.abs(heights - placed[:, 2]).max() < 3
    assert first.object_ids is not None
    assert first.attributes["kind"].tolist() == ["a" if number == 1 else "b" for number in first.object_ids]


@fewer
@given(data=st.data())
def test_any_triangles_can_be_decimated(data: st.DataObject) -> None:
    pytest.importorskip("fast_simplification")
    scene = data.draw(scenes.meshes(by_face=data.draw(st.booleans())))
    where = MemoryStore()
    scene.written(where)
    assume(scene.positions.shape[1] == 3 and zv.open(where)[0].index.link_width == 3)
    build_pyramid(where, [(2, 1.0)], method="simplify", preserve_object_ids=data.draw(st.booleans()))
    store = zv.open(where)
    check_manual(store, shared=store[0].metadata.shared_fragments)
    below, above = store[0].read(), store[1].read()
    assert len(above.faces) <= len(below.faces)
    for lower, upper in zip(below.positions.T.tolist(), above.positions.T.tolist(), strict=True):
        assert all(min(lower) <= value <= max(lower) for value in upper)


@pytest.mark.parametrize("kind", ["points", "graph", "quads", "flat"])
def test_what_can_not_be_simplified_is_refused_before_anything_changes(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "store.zv"
    rng = np.random.default_rng(0)
    if kind == "points":
        zv.write_points(path, rng.random((9, 3)), object_ids=np.zeros(9, int), chunk_shape=0.5, bin_shape=0.25)
    elif kind == "graph":
        zv.write_graph(path, rng.random((9, 3)), [[0, 1]], chunk_shape=0.5, bin_shape=0.25)
    elif kind == "quads":
        zv.write_mesh(path, rng.random((9, 3)), [[0, 1, 2, 3]], chunk_shape=0.5, bin_shape=0.25)
    else:
        zv.write_mesh(path, rng.random((9, 2)), [[0, 1, 2]], chunk_shape=0.5, bin_shape=0.25)
    build_pyramid(path, [2])
    before = {item: item.read_bytes() for item in path.rglob("*") if item.is_file()}
    with pytest.raises(InputError, match="can be simplified"):
        build_pyramid(path, [2], method="simplify")
    assert {item: item.read_bytes() for item in path.rglob("*") if item.is_file()} == before


def test_a_missing_library_is_named_before_anything_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    where = MemoryStore()
    zv.write_mesh(where, np.eye(3), [[0, 1, 2]], chunk_shape=1)
    build_pyramid(where, [2])
    monkeypatch.setitem(sys.modules, "fast_simplification", None)
    with pytest.raises(MissingDependencyError, match="mesh"):
        build_pyramid(where, [2], method="simplify")
    assert zv.open(where).levels == (0, 1)
