"""Which objects a level keeps."""

from typing import Any

import numpy as np
import pytest
from zarr.storage import MemoryStore

import zarr_vectors as zv
from zarr_vectors.core.arrays import DenseAttribute
from zarr_vectors.exceptions import InputError
from zarr_vectors.multiresolution import build_pyramid
from zarr_vectors.multiresolution.sparsify import Sparsity, choose_objects

RANK = np.array([5.0, np.nan, -1.0, 9.0, 5.0, 2.0])


def level() -> zv.Level:
    """Six paths along x of 1 to 6 steps; path k begins at 10 k."""
    where = MemoryStore()
    paths = [np.stack([np.arange(k + 2.0) + 10 * k, np.full(k + 2, 0.5)], axis=1) for k in range(6)]
    attributes = {"rank": RANK, "label": np.array(["a"] * 6), "pair": np.zeros((6, 2))}
    zv.write_polylines(where, paths, chunk_shape=(10, 10), bin_shape=(1, 1), object_attributes=attributes)
    return zv.open(where)[0]


def chosen(present: Any = range(6), **options: Any) -> list[int]:
    sizes = np.zeros(6)
    sizes[list(present)] = np.array(list(present)) + 1.0
    found: list[int] = choose_objects(level().index, Sparsity(**options), sizes).tolist()
    return found


def test_by_attribute() -> None:
    by_rank = {"strategy": "attribute", "attribute": "rank"}
    assert chosen(factor=2.0, **by_rank) == [0, 3, 4]
    assert chosen(factor=2.0, lowest=True, **by_rank) == [0, 2, 5]
    # What has no value comes last either way.
    assert chosen(factor=1.2, **by_rank) == [0, 2, 3, 4, 5]
    assert chosen(factor=1.2, lowest=True, **by_rank) == [0, 2, 3, 4, 5]
    assert chosen(present=[1, 2], factor=2.0, **by_rank) == [2]


def test_rows_that_are_not_real_come_last(monkeypatch: pytest.MonkeyPatch) -> None:
    index = level().index
    dense = DenseAttribute(np.array([0.0, 1, 2, 3, 4, 5]), np.array([0, 1, 1, 1, 1, 0], dtype=np.uint8))
    monkeypatch.setattr(type(index), "dense_attribute", lambda *_: dense)
    found = choose_objects(index, Sparsity(3.0, "attribute", attribute="rank"), np.ones(6))
    assert found.tolist() == [3, 4]


@pytest.mark.parametrize("name", ["label", "pair"])
def test_objects_are_ranked_by_one_number(name: str) -> None:
    with pytest.raises(InputError, match="ranked by one number"):
        chosen(factor=2.0, strategy="attribute", attribute=name)


def test_by_length() -> None:
    assert chosen(factor=2.0, strategy="length") == [3, 4, 5]
    assert chosen(factor=2.0, strategy="length", lowest=True) == [0, 1, 2]


def test_by_length_of_what_is_stored() -> None:
    where = MemoryStore()
    long, short = np.array([[0.0, 0], [30, 0]]), np.stack([np.arange(9.0), np.zeros(9)], axis=1)
    zv.write_polylines(where, [short, long, [[1.0, 1]]], chunk_shape=10, bin_shape=1)
    build_pyramid(where, [(2, 3.0)], sparsity_strategy="length")
    assert zv.open(where)[1].read().objects.tolist() == [1]


def test_by_chance_with_a_seed() -> None:
    some = {tuple(chosen(factor=2.0, seed=seed)) for seed in range(20)}
    assert len(some) > 5
    assert all(len(item) == 3 for item in some)
    assert chosen(factor=2.0, seed=4) == chosen(factor=2.0, seed=4)


def test_at_least_one_object_stays() -> None:
    assert len(chosen(factor=1000.0)) == 1
    assert chosen(present=[], factor=2.0) == []


def test_every_chunk_stays_covered_if_it_can() -> None:
    rng = np.random.default_rng(0)
    where = MemoryStore()
    centres = rng.integers(0, 6, (300, 2)) * 10 + 5.0
    # Many objects in few chunks, some of which reach several.
    paths = [centre + rng.normal(0, 4, (4, 2)) for centre in centres]
    zv.write_polylines(where, paths, chunk_shape=10, bin_shape=1)
    occupied = len(zv.open(where)[0].chunks)
    build_pyramid(where, [(2, 300 / (occupied + 5))], sparsity_strategy="spatial_coverage")
    store = zv.open(where)
    kept = store[1].read().objects
    assert len(kept) == occupied + 5
    touched = np.unique(store[0].index.manifests(kept).chunk_coords, axis=0)
    assert len(touched) == occupied


def test_coverage_of_many_objects_in_one_chunk_is_quick() -> None:
    where = MemoryStore()
    count = 20_000
    zv.write_points(where, np.random.default_rng(0).random((count, 2)), object_ids=np.arange(count), chunk_shape=1)
    index = zv.open(where)[0].index
    assert len(choose_objects(index, Sparsity(2.0, "spatial_coverage"), np.ones(count))) == count // 2
