"""What follows from the data is rebuilt, and nothing else is touched."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.validate.stores import WRITERS, Breaker, from_directory, in_memory, positions, write_graph, written

import zarr_vectors as zv
from zarr_vectors.core.store import MARKER
from zarr_vectors.exceptions import StorageError, StoreNotFoundError, UnfinishedWriteError
from zarr_vectors.validate import RepairPlan, repair, validate


def repaired(store: Breaker) -> RepairPlan:
    """Repair a store, whose second repair must find nothing left."""
    with in_memory(store.items) as storage:
        before = dict(storage._items)
        planned = repair(storage)
        assert storage._items == before
        assert not planned.applied
        plan = repair(storage, apply=True)
        assert [*plan.actions] == [*planned.actions]
        assert plan.applied
        again = repair(storage)
        assert not again, again.actions
        assert MARKER not in storage._items
        store.items = dict(storage._items)
    return plan


def kinds(plan: RepairPlan) -> list[str]:
    return [action.kind for action in plan.actions]


@pytest.mark.parametrize("name", WRITERS)
def test_a_sound_store_needs_no_repair(name: str) -> None:
    with in_memory(written(name)) as storage:
        plan = repair(storage, apply=True)
        assert not plan, plan.actions
        assert storage._items == written(name)


def test_counts_follow_from_the_data() -> None:
    store = Breaker(written("graph_pyramid"))
    store.level(0, vertex_count=1, arrays_present=["vertices"], mine={"kept": [1]})
    store.array("0/links/0", num_links=1, shape=[1, 2])
    store.array("0/links/+1", num_links=1)
    store.array("0/cross_chunk_links/0", num_links=1)
    store.array("0/link_attributes/weight/0", shape=[7])
    store.array("0/object_index", num_objects=1)
    plan = repaired(store)
    assert sorted(kinds(plan)) == [
        "arrays_present",
        "num_links",
        "num_links",
        "num_links",
        "num_objects",
        "shape",
        "shape",
        "vertex_count",
    ]
    assert not store.report().codes, store.report()
    assert store.load("0/zarr.json")["attributes"]["zarr_vectors_level"]["mine"] == {"kept": [1]}


def test_counts_of_groups_and_objects() -> None:
    store = Breaker(written("ids"))
    store.array("0/groups", num_groups=7)
    store.array("0/object_attributes/s", shape=[2])
    assert sorted(kinds(repaired(store))) == ["num_groups", "shape"]
    assert not store.report().codes


def test_counts_of_a_legacy_index(golden: Callable[[str], Path]) -> None:
    store = Breaker(from_directory(golden("legacy_object_index") / "store.zv"))
    store.edit("0/object_index/zarr.json", lambda attributes: attributes.update(num_objects=77))
    assert "num_objects" in kinds(repaired(store))
    assert store.report().codes == {"L4.continuation-zero"}


def test_copies_are_made_anew() -> None:
    store = Breaker(written("points"))
    store.edit("0/zarr.json", lambda attributes: attributes["zarr_vectors_arrays"].pop("vertices"))
    assert kinds(repaired(store)) == ["copies"]
    assert not store.report().codes


def test_capabilities_are_added_and_others_kept() -> None:
    store = Breaker(written("points_pyramid"))
    store.root(format_capabilities=["of_mine"])
    assert kinds(repaired(store)) == ["format_capabilities"]
    found = store.load("zarr.json")["attributes"]["zarr_vectors"]["format_capabilities"]
    assert found == ["of_mine", "fragment_index", "shared_fragments", "multiscale_links"]


def test_bounds_are_widened_and_never_narrowed() -> None:
    store = Breaker(written("points"))
    low, high = store.load("zarr.json")["attributes"]["zarr_vectors"]["bounds"]
    store.root(bounds=[[0.0, -1000.0, low[2]], [high[0], high[1], 0.0]])
    assert kinds(repaired(store)) == ["bounds"]
    found = store.load("zarr.json")["attributes"]["zarr_vectors"]["bounds"]
    assert found == [[low[0], -1000.0, low[2]], high]


@pytest.mark.parametrize("gone", ["0/link_fragments", "0/link_fragments/zarr.json"])
def test_link_fragments_are_rebuilt(gone: str) -> None:
    store = Breaker(written("graph"))
    store.delete(gone)
    assert "link_fragments" in kinds(repaired(store))
    assert not store.report().codes, store.report()
    whole = written("graph")
    assert {key: value for key, value in store.items.items() if key.endswith("c.0")} == {
        key: value for key, value in whole.items() if key.endswith("c.0")
    }


def test_link_fragments_of_the_reference_are_rebuilt(golden: Callable[[str], Path]) -> None:
    store = Breaker(from_directory(golden("graph_two_objects") / "store.zv"))
    repaired(store)
    assert not store.report().codes, store.report()
    assert not [key for key in store.items if "link_fragments" in key and "/c/" in key]


def test_links_out_of_order_become_explicit_fragments() -> None:
    store = Breaker(written("graph"))
    chunk = store.chunk("0/links/0")
    rng = np.random.default_rng(1)
    store.change(f"0/links/0/{chunk}", lambda links: links[rng.permutation(len(links))])
    assert store.report().codes == {"L4.link-fragments"}
    assert kinds(repaired(store)) == ["link_fragments"]
    assert not store.report().codes


def test_leftovers_go(tmp_path: Path) -> None:
    path = tmp_path / "store.zv"
    write_graph(path)
    (path / "7" / "vertices").mkdir(parents=True)
    (path / "7" / "vertices" / "zarr.json").write_text("{}")
    (path / "0" / "vertices" / ".zv-123-abc-0").write_bytes(b"half")
    (path / MARKER).write_text(json.dumps({"pid": 2**22 + 5, "host": "", "started": "once"}))
    plan = repair(path)
    assert [action.path for action in plan.actions] == ["7", "0/vertices/.zv-123-abc-0", MARKER]
    assert (path / "7").exists()
    (path / MARKER).write_text("{}")
    assert repair(path, apply=True).applied
    assert sorted(item.name for item in path.iterdir()) == ["0", "zarr.json"]
    assert not list(path.rglob(".zv-*"))
    assert validate(path).ok
    assert not repair(path)


def test_a_store_that_is_being_written_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.zv"
    write_graph(path)
    (path / MARKER).write_text(json.dumps({"pid": 7, "host": "another.machine", "started": "now"}))
    with pytest.raises(UnfinishedWriteError):
        repair(path, apply=True)


def test_broken_data_are_not_counted() -> None:
    store = Breaker(written("points"))
    store.level(0, vertex_count=1)
    key = f"0/vertices/{store.chunk('0/vertices')}/c.0.0"
    store.items[key] = store.items[key][:-1]
    with in_memory(store.items) as storage:
        assert not repair(storage)


def test_without_a_root_there_is_nothing_to_go_by() -> None:
    store = Breaker(written("points"))
    store.delete("zarr.json")
    with in_memory(store.items) as storage:
        plan = repair(storage, apply=True)
    assert not plan
    assert plan.notes


def test_what_cant_be_written(tmp_path: Path) -> None:
    with pytest.raises(StoreNotFoundError):
        repair(tmp_path / "nothing")
    packed = tmp_path / "store.zip"
    zv.write_points(packed, positions(), chunk_shape=(20, 20, 20))
    assert not repair(packed, apply=True)
    store = Breaker(written("points"))
    store.level(0, vertex_count=1)
    with in_memory(store.items) as storage:
        from zarr_vectors.core.storage import ZarrStorage

        with pytest.raises(StorageError):
            repair(ZarrStorage(storage.zarr_store()), apply=True)


def test_a_plan_is_data() -> None:
    store = Breaker(written("points"))
    store.level(0, vertex_count=1)
    with in_memory(store.items) as storage:
        plan = repair(storage)
    (action,) = plan.to_json()["actions"]
    assert action == {"kind": "vertex_count", "path": "0", "before": "1", "after": "200"}
    assert str(plan.actions[0]) == "0: vertex_count 1 -> 200"
