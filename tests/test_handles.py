"""Handles on stores, levels, objects, groups and chunks."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

import zarr_vectors as zv
from zarr_vectors.core.counting import CountingStorage
from zarr_vectors.core.location import resolve
from zarr_vectors.exceptions import InputError, ObjectNotFoundError

PATHS = [[[1.0, 1.0], [2.0, 2.0]], [], [[11.0, 1.0], [12.0, 1.0], [9.0, 1.0]], [[-3.0, 5.0]]]


@pytest.fixture
def paths(tmp_path: Path) -> zv.Level:
    zv.write_polylines(
        tmp_path / "paths",
        PATHS,
        vertex_attributes={"n": np.arange(6), "kind": list("abcabc")},
        object_attributes={"k": [10, 11, 12, 13]},
        groups={0: [3, 0], 2: [2]},
        group_attributes={"name": ["first", "empty", "last"]},
        chunk_shape=(10, 10),
    )
    return zv.open(tmp_path / "paths")[0]


@pytest.fixture
def points(tmp_path: Path) -> zv.Level:
    zv.write_points(tmp_path / "points", [[1.0], [2.0], [11.0]], chunk_shape=(10,))
    return zv.open(tmp_path / "points")[0]


def test_one_object(paths: zv.Level) -> None:
    assert repr(paths.objects[2]) == "object 2"
    result = paths.objects[2].read()
    assert (result.objects.tolist(), result.attributes["n"].tolist()) == ([2], [2, 3, 4])
    assert paths.objects[np.int64(0)].read().objects.tolist() == [0]


def test_several_objects_in_the_order_asked_for(paths: zv.Level) -> None:
    chosen = paths.objects[[3, 0]]
    assert (len(chosen), repr(chosen)) == (2, "2 objects")
    assert chosen.read().objects.tolist() == [3, 0]
    assert paths.objects[np.array([2, 1])].read().absent.tolist() == [1]


def test_slices_of_objects(paths: zv.Level) -> None:
    assert paths.objects[2:].ids.tolist() == [2, 3]
    assert paths.objects[::-1].read().objects.tolist() == [3, 2, 0]
    assert len(paths.objects[4:].read()) == 0


def test_the_keywords_of_read(paths: zv.Level) -> None:
    result = paths.objects[:].read(bbox=([0, 0], [5, 5]), attributes=["n"])
    assert (result.objects.tolist(), list(result.attributes)) == ([0], ["n"])


def test_all_objects_one_after_the_other(paths: zv.Level) -> None:
    assert (len(paths.objects), repr(paths.objects)) == (4, "4 objects")
    assert [len(item.read()) for item in paths.objects] == [2, 0, 3, 1]
    assert paths.objects.absent.tolist() == [1]


@pytest.mark.parametrize("ids", [4, -1, [0, 9], [-5]])
def test_objects_that_do_not_exist(paths: zv.Level, ids: int | list[int]) -> None:
    with pytest.raises(ObjectNotFoundError, match="ids go from 0 to 3") as caught:
        paths.objects[ids]
    assert caught.value.level == 0
    with pytest.raises(IndexError):
        paths.objects[ids]


@pytest.mark.parametrize("ids", [1.5, [0.5], "a", [[0, 1]], [True, False]])
def test_objects_that_are_no_numbers(paths: zv.Level, ids: object) -> None:
    with pytest.raises(InputError, match="object ids are integers"):
        paths.objects[ids]  # type: ignore[index]


def test_a_level_without_objects(points: zv.Level) -> None:
    assert len(points.objects) == 0
    assert points.objects.absent.tolist() == []
    assert list(points.objects.batches()) == []
    with pytest.raises(ObjectNotFoundError, match="has no objects"):
        points.objects[0]


@pytest.mark.parametrize(("size", "expected"), [(1, [[0], [], [2], [3]]), (3, [[0, 2], [3]]), (100, [[0, 2, 3]])])
def test_batches(paths: zv.Level, size: int, expected: list[list[int]]) -> None:
    assert [result.objects.tolist() for result in paths.objects.batches(size)] == expected
    narrow = list(paths.objects.batches(size, attributes=[]))
    assert all(result.attributes == {} for result in narrow)


def test_a_batch_holds_something(paths: zv.Level) -> None:
    with pytest.raises(InputError, match="at least one object, not 0"):
        paths.objects.batches(0)


def test_absent_objects_of_the_identity_convention(tmp_path: Path) -> None:
    zv.write_points(
        tmp_path / "s", [[1.0], [2.0]], object_ids=[3, 1], object_index_convention="identity", chunk_shape=(10,)
    )
    assert zv.open(tmp_path / "s")[0].objects.absent.tolist() == [0, 2]


def test_groups(paths: zv.Level) -> None:
    assert (len(paths.groups), repr(paths.groups)) == (3, "3 groups")
    assert [group.ids.tolist() for group in paths.groups] == [[3, 0], [], [2]]
    assert paths.groups[0].read().objects.tolist() == [3, 0]
    assert len(paths.groups[1].read()) == 0
    assert repr(paths.groups[1]) == "0 objects"
    assert paths.groups.attributes["name"].tolist() == ["first", "empty", "last"]
    assert zv.open(paths.group.storage).groups[2].ids.tolist() == [2]


@pytest.mark.parametrize("number", [-1, 3])
def test_groups_that_do_not_exist(paths: zv.Level, number: int) -> None:
    with pytest.raises(ObjectNotFoundError, match=f"no group {number}: the level has 3"):
        paths.groups[number]


def test_a_level_without_groups(points: zv.Level) -> None:
    assert len(points.groups) == 0
    assert points.groups.attributes == {}


def test_chunks(paths: zv.Level) -> None:
    chunks = paths.chunks
    assert (len(chunks), repr(chunks)) == (3, "3 chunks")
    assert [chunk.coords for chunk in chunks] == [(-1, 0), (0, 0), (1, 0)]
    assert chunks[-1].coords == chunks[1, 0].coords == (1, 0)
    chunk = chunks[0, 0]
    assert repr(chunk) == "Chunk(0.0)"
    assert chunks[0].bounds == ((-10.0, 0.0), (0.0, 10.0))
    assert chunk.positions.tolist() == [[1, 1], [2, 2], [9, 1]]
    assert chunk.attributes["n"].tolist() == [0, 1, 4]
    assert chunk.attributes["kind"].tolist() == ["a", "b", "b"]
    assert (chunk.fragments.values.tolist(), chunk.fragments.offsets.tolist()) == ([0, 1, 2], [0, 2, 3])
    assert chunk.fragment_objects is not None
    assert chunk.fragment_objects.tolist() == [0, 2]
    assert chunk.links.shape == (0, 2)


def test_links_of_a_chunk(tmp_path: Path) -> None:
    vertices = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [25, 0, 0]], dtype=np.float32)
    zv.write_mesh(tmp_path / "s", vertices, [[0, 1, 2], [1, 2, 3]], chunk_shape=10)
    level = zv.open(tmp_path / "s")[0]
    assert [chunk.links.tolist() for chunk in level.chunks] == [[[0, 1, 2]], []]


def test_chunks_that_hold_nothing(paths: zv.Level, points: zv.Level) -> None:
    for coords in [(5, 5), (0,), (0, 0, 0)]:
        with pytest.raises(ObjectNotFoundError, match="no vertex lies in this chunk"):
            paths.chunks[coords]
    with pytest.raises(IndexError):
        paths.chunks[3]
    assert points.chunks[0].fragment_objects is None


def test_a_chunk_is_read_once_and_when_it_is_asked_for(tmp_path: Path) -> None:
    zv.write_points(tmp_path / "s", [[1.0], [11.0]], chunk_shape=(10,), vertex_attributes={"n": [1, 2]})
    storage = CountingStorage(resolve(tmp_path / "s"))
    level = zv.open(storage)[0]
    storage.reset()
    chunk = level.chunks[0]
    assert storage.gets == []
    assert chunk.positions.tolist() == [[1.0]]
    before = list(storage.gets)
    assert (chunk.attributes["n"].tolist(), chunk.fragments.offsets.tolist()) == ([1], [0, 1])
    assert storage.gets == before
    assert not any("1/" in key.removeprefix("0/") for key in before)


def test_reads_in_an_event_loop(paths: zv.Level) -> None:
    async def read_all() -> tuple[zv.Result, zv.Result, zv.Result]:
        return await asyncio.gather(paths.aread(), paths.aread(object_ids=2), paths.aread(bbox=([0, 0], [5, 5])))

    everything, one, box = asyncio.run(read_all())
    assert (len(everything), one.objects.tolist(), box.objects.tolist()) == (6, [2], [0])


def test_a_store_is_a_sequence_of_levels(tmp_path: Path) -> None:
    zv.write_points(tmp_path / "s", [[1.0, 2.0]])
    with zv.open(tmp_path / "s") as store:
        assert (len(store), store.levels, [level.number for level in store]) == (1, (0,), [0])
        assert store[0] is store[0]
        with pytest.raises(ObjectNotFoundError, match="only 0"):
            store[1]


def test_what_they_say_of_themselves(paths: zv.Level) -> None:
    store = zv.open(paths.group.storage)
    assert repr(store) == f"Store({store.url!r}, polyline, 2-D, 1 levels)"
    assert repr(paths) == "Level(0, 6 vertices)"
    assert repr(paths.read()) == "Result(polyline: 6 vertices, 3 objects)"
    assert repr(paths.read(limit=1)) == "Result(polyline: 2 vertices, 1 objects, cut at the limit)"


def test_what_notebooks_show(paths: zv.Level) -> None:
    store = zv.open(paths.group.storage)
    shown = store._repr_html_()
    assert shown.startswith("<table>")
    assert "<th>geometry</th><td>polyline</td>" in shown
    assert "<td>0: 6 vertices</td>" in shown
    assert "<th>vertices</th><td>6</td>" in paths._repr_html_()
    assert "<td>int64 (6,)</td>" in paths.read()._repr_html_()


def test_what_notebooks_show_is_escaped(tmp_path: Path) -> None:
    zv.write_points(tmp_path / "s", [[1.0]], axes=["<x>"], vertex_attributes={"<b>": [1]})
    store = zv.open(tmp_path / "s")
    assert "&lt;x&gt;" in store._repr_html_()
    assert "&lt;b&gt;" in store[0].read()._repr_html_()
