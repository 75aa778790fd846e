"""What a read costs: requests, listings and batches, counted."""

import numpy as np
import pytest
from tests.query.stores import counted
from zarr.storage import MemoryStore

import zarr_vectors as zv
from zarr_vectors.api import Store
from zarr_vectors.core.counting import CountingStorage

Counted = tuple[Store, CountingStorage]


@pytest.fixture
def paths() -> Counted:
    """Forty paths of three chunks each, with two attributes."""
    store = MemoryStore()
    steps = np.stack([np.linspace(0.5, 29.5, 30), np.zeros(30)], axis=1)
    lines = [steps + np.array([0.0, number]) for number in range(40)]
    flat = np.arange(1200)
    zv.write_polylines(store, lines, chunk_shape=(10, 10), vertex_attributes={"a": flat, "b": flat / 2})
    return counted(store)


@pytest.fixture
def points() -> Counted:
    """A hundred points in twenty-five chunks, with attributes and two objects."""
    store = MemoryStore()
    grid = np.stack(np.meshgrid(np.arange(10.0), np.arange(10.0)), axis=-1).reshape(-1, 2)
    zv.write_points(
        store,
        grid,
        object_ids=np.arange(100) % 2,
        chunk_shape=(2, 2),
        vertex_attributes={"a": np.arange(100), "b": np.arange(100)},
        object_attributes={"size": [1.0, 2.0]},
    )
    return counted(store)


def arrays_of(keys: list[str]) -> set[str]:
    """Return the arrays that keys belong to: what stands before the chunk."""
    return {"/".join(key.split("/")[1:-2]) for key in keys}


def test_opening_a_level_takes_two_requests_and_no_listing(paths: Counted) -> None:
    store, counting = paths
    level = store[0]
    assert level.metadata.vertex_count == 1200
    assert counting.gets == ["zarr.json", "0/zarr.json"]
    assert counting.lists == []


def test_one_object_takes_its_manifest_and_its_chunks(paths: Counted) -> None:
    store, counting = paths
    level = store[0]
    counting.reset()
    assert len(level.read(object_ids=7, attributes=["a"])) == 30
    # The manifest, then positions, fragments and one attribute of three chunks.
    assert len(counting.gets) == 1 + 3 * 3
    assert counting.batches == 2
    assert counting.lists == []


def test_no_attributes_fetch_no_attribute(paths: Counted) -> None:
    store, counting = paths
    level = store[0]
    counting.reset()
    result = level.read(attributes=[])
    assert dict(result.attributes) == {}
    assert not [key for key in counting.gets if "attributes" in key]


def test_everything_is_one_batch_of_manifests_and_one_of_chunks(paths: Counted) -> None:
    store, counting = paths
    level = store[0]
    counting.reset()
    assert len(level.read()) == 1200
    assert counting.batches == 2


def test_a_box_on_points_takes_its_chunks_and_one_listing(points: Counted) -> None:
    store, counting = points
    level = store[0]
    counting.reset()
    result = level.read(bbox=([2, 2], [5, 3]), attributes=["a"])
    assert len(result) == 8
    # Two chunks; positions, fragments, the objects of the fragments, and one attribute.
    assert len(counting.gets) == 2 * 4
    assert counting.batches == 1
    assert counting.lists == ["0/vertices"]
    level.read(bbox=([0, 0], [9, 9]))
    assert counting.lists == ["0/vertices"]


def test_a_box_on_plain_points_takes_positions_alone() -> None:
    store = MemoryStore()
    zv.write_points(store, np.arange(20.0).reshape(10, 2), chunk_shape=(5, 5), vertex_attributes={"a": np.arange(10)})
    opened, counting = counted(store)
    level = opened[0]
    counting.reset()
    level.read(bbox=([0, 0], [4, 4]), attributes=[])
    assert counting.gets == ["0/vertices/0.0/c.0.0"]


def test_conditions_read_what_they_speak_of(points: Counted) -> None:
    store, counting = points
    level = store[0]
    counting.reset()
    assert len(level.read(where={"b": (0, 9)}, attributes=[])) == 10
    assert arrays_of(counting.gets) == {
        "vertices",
        "vertex_attributes/b",
        "vertex_fragments",
        "fragment_attributes/object_id",
    }
    counting.reset()
    level.read(where={"size": 2.0}, attributes=[])
    assert "object_attributes/size" in arrays_of(counting.gets)
    assert not [key for key in counting.gets if "vertex_attributes" in key]


def test_a_box_on_paths_reads_no_chunk_twice(paths: Counted) -> None:
    store, counting = paths
    level = store[0]
    counting.reset()
    result = level.read(bbox=([0, 3], [5, 4]), attributes=["a"])
    assert result.objects.tolist() == [3, 4]
    assert len(counting.gets) == len(set(counting.gets))
    # One chunk tells which objects touch the box; then their manifests; then their chunks.
    assert counting.batches == 3
    assert len(counting.gets) == 3 + 1 + (3 * 3 - 2)


def test_ids_and_a_box_read_the_manifests_once(paths: Counted) -> None:
    store, counting = paths
    level = store[0]
    counting.reset()
    assert level.read(object_ids=[9, 3, 35], bbox=([0, 0], [5, 9]), attributes=[]).objects.tolist() == [9, 3]
    assert len([key for key in counting.gets if "object_index" in key]) == 1
    assert len(counting.gets) == len(set(counting.gets))


def test_object_attributes_and_groups_are_read_when_they_are_asked_for(points: Counted) -> None:
    store, counting = points
    result = store[0].read(object_ids=[1])
    counting.reset()
    assert result.object_attributes["size"].tolist() == [2.0]
    assert arrays_of(counting.gets) == {"object_attributes/size"}
    counting.reset()
    assert result.object_attributes["size"].tolist() == [2.0]
    assert counting.gets == []
