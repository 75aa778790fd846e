"""Whatever is done to the files of a store, validation answers and does not raise."""

import json
from typing import Any

import numpy as np
import pytest
from tests.validate.stores import Breaker, Items, in_memory, written

from zarr_vectors.exceptions import StoreNotFoundError
from zarr_vectors.validate import repair

VALUES: list[Any] = [None, -1, 0, 10**25, 1.5, "", "x", [], [0], {}, {"a": 1}, True, [[1]], "float64"]
STORES = ("paths_pyramid", "graph", "ids_renumbered", "skeletons_pyramid", "draco", "identity", "mesh_shared")


def mutate(items: Items, rng: np.random.Generator) -> Items:
    """Return a store with a file of it changed, cut, lost, or put in place of another."""
    changed = dict(items)
    key = sorted(items)[int(rng.integers(len(items)))]
    data = bytearray(items[key])
    match int(rng.integers(6)):
        case 0:
            del changed[key]
        case 1:
            changed[key] = bytes(data[: int(rng.integers(len(data) + 1))])
        case 2:
            for place in rng.integers(0, max(len(data), 1), 3).tolist():
                if data:
                    data[place] = int(rng.integers(256))
            changed[key] = bytes(data)
        case 3:
            changed[key] = items[sorted(items)[int(rng.integers(len(items)))]]
        case _:
            changed = mutate_document(items, rng)
    return changed


def mutate_document(items: Items, rng: np.random.Generator) -> Items:
    keys = [key for key in sorted(items) if key.endswith("zarr.json") and items[key].startswith(b"{")]
    key = keys[int(rng.integers(len(keys)))]
    try:
        document = json.loads(items[key])
    except ValueError:
        return items
    node: Any = document
    # Walk to some place of the document, and put something else there.
    for _ in range(int(rng.integers(1, 6))):
        places = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not places:
            break
        place = places[int(rng.integers(len(places)))]
        if not isinstance(node[place], dict | list) or rng.random() < 0.2:
            node[place] = VALUES[int(rng.integers(len(VALUES)))]
            break
        node = node[place]
    return {**items, key: json.dumps(document).encode()}


@pytest.mark.parametrize("name", STORES)
def test_validation_never_raises(name: str) -> None:
    rng = np.random.default_rng(STORES.index(name))
    items = written(name)
    for _ in range(15):
        broken = items
        for _ in range(int(rng.integers(1, 4))):
            broken = mutate(broken, rng)
        report = Breaker(broken).report()
        crashed = [finding for finding in report.findings if finding.code == "L1.unreadable"]
        assert not crashed, crashed


@pytest.mark.parametrize("name", STORES)
def test_repair_never_raises(name: str) -> None:
    rng = np.random.default_rng(100 + STORES.index(name))
    for _ in range(4):
        with in_memory(mutate(written(name), rng)) as storage:
            repair(storage, apply=True)


def test_a_root_that_is_no_group() -> None:
    store = Breaker(written("points"))
    store.items["zarr.json"] = b'{"zarr_format": 3, "node_type": "array"}'
    assert store.report().codes == {"L1.root-group"}
    with in_memory({"zarr.json": store.items["zarr.json"]}) as storage, pytest.raises(StoreNotFoundError):
        repair(storage)


def test_broken_metadata_do_not_hide_the_rest() -> None:
    store = Breaker(written("points"))
    store.delete(f"0/vertex_attributes/rgb/{store.chunk('0/vertices')}")
    store.root(cross_level_depth="deep", reduction_factor=0)
    store.level(0, vertex_count=None, bin_ratio=[0])
    store.array("0/vertex_attributes/w", shape="long")
    report = store.report()
    assert report.counts["L2.schema"] == 5
    assert "L3.chunk-missing" in report.codes
