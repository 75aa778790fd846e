"""Pyramids of the reference implementation: read as they are, and our own over the same data."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.multiresolution.brute import check_level, mapped, stored
from zarr.storage import MemoryStore

import zarr_vectors as zv
from zarr_vectors.exceptions import MissingArrayError
from zarr_vectors.multiresolution import build_pyramid

Array = npt.NDArray[Any]
Golden = Callable[[str], Path]
Row = tuple[tuple[int, ...], int]
CASES = ["pyramid_points", "pyramid_points_objects", "pyramid_streamlines"]


class Expected:
    """What the reference's own reader gave."""

    def __init__(self, directory: Path) -> None:
        self.store = zv.open(directory / "store.zv")
        self.facts = json.loads((directory / "expected.json").read_text())
        with np.load(directory / "expected.npz") as archive:
            self.arrays = {name: archive[name] for name in archive.files}

    def __getitem__(self, name: str) -> Array:
        found: Array = self.arrays[name]
        return found

    def level(self, number: int) -> dict[str, Any]:
        facts: dict[str, Any] = self.facts["levels"][str(number)]
        return facts

    def links(self, level: int, delta: str) -> dict[Row, Row]:
        """The links that a level stores to another: inside chunks of the same coordinates, and across."""
        found: dict[Row, Row] = {}
        if delta in self.level(level)["links"]:
            pairs, offsets = self[f"L{level}/links.{delta}"], self[f"L{level}/links.{delta}.offsets"]
            for number, key in enumerate(self.level(level)["links"][delta]["chunk_keys"]):
                chunk = tuple(map(int, key.split(".")))
                for own, other in pairs[offsets[number] : offsets[number + 1]].tolist():
                    found[chunk, own] = (chunk, other)
        if delta in self.level(level)["cross_chunk_links"]:
            for own, other in self[f"L{level}/cross_chunk_links.{delta}"].tolist():
                found[tuple(own[:-1]), own[-1]] = (tuple(other[:-1]), other[-1])
        return found


@pytest.mark.parametrize("case", CASES)
def test_levels_hold_what_the_reference_reads(golden: Golden, case: str) -> None:
    expected = Expected(golden(case))
    assert expected.store.levels == tuple(sorted(map(int, expected.facts["levels"])))
    for level in expected.store:
        meta = expected.level(level.number)["meta"]
        for name in ("vertex_count", "object_sparsity", "coarsening_method", "parent_level", "shared_fragments"):
            assert getattr(level.metadata, name) == meta[name]
        if level.number:
            assert list(level.metadata.bin_shape or ()) == meta["bin_shape"]
            assert list(level.metadata.bin_ratio or ()) == meta["bin_ratio"]
        assert list(level.metadata.chunk_shape or ()) == meta["chunk_shape"]
        held = stored(level)
        np.testing.assert_array_equal(held.positions, expected[f"L{level.number}/vertices"])
        if held.objects is not None:
            place = held.place
            rows = [place[row] for rows in held.objects for row in rows]
            np.testing.assert_array_equal(held.positions[rows], expected[f"L{level.number}/object_vertices"])
        name = "read.polylines" if case == "pyramid_streamlines" else "read.positions"
        np.testing.assert_array_equal(level.read().positions, expected[f"L{level.number}/{name}"])


def test_dropped_objects_of_the_reference(golden: Golden) -> None:
    expected = Expected(golden("pyramid_points_objects"))
    level = expected.store[1]
    for name in ("score", "vec"):
        dense = level.index.dense_attribute(name)
        np.testing.assert_array_equal(dense.values, expected[f"L1/object_attributes.{name}"])
        np.testing.assert_array_equal(dense.present, expected[f"L1/object_attributes.{name}.present_mask"])
    present = np.flatnonzero(expected["L1/object_attributes.score.present_mask"])
    assert level.read().objects.tolist() == present.tolist()
    assert level.read(where={"score": (None, None)}).objects.tolist() == present.tolist()


def test_links_between_levels_of_the_same_chunks(golden: Golden) -> None:
    expected = Expected(golden("pyramid_streamlines"))
    store = expected.store
    for fine in (0, 1):
        parents = expected.links(fine, "+1")
        assert mapped(store[fine].parents()) == parents
        assert mapped(store[fine + 1].children().inverted()) == parents
        assert len(parents) == len(expected[f"L{fine + 1}/links.-1"])
    with pytest.raises(MissingArrayError):
        store[0].parents(2)


def test_links_between_levels_whose_chunks_differ(golden: Golden) -> None:
    expected = Expected(golden("pyramid_points"))
    store = expected.store
    one, two, both = expected.links(0, "+1"), expected.links(1, "+1"), expected.links(0, "+2")
    assert mapped(store[0].parents()) == one
    assert mapped(store[1].parents()) == two
    assert mapped(store[0].parents(2)) == both
    # Only the way up is stored.
    assert mapped(store[2].children(2).inverted()) == both
    assert {row: two[upper] for row, upper in one.items()} == both


def test_no_links_between_levels(golden: Golden) -> None:
    with pytest.raises(MissingArrayError):
        Expected(golden("pyramid_points_objects")).store[0].parents()


@pytest.mark.parametrize("case", CASES)
def test_our_pyramid_over_the_references_level_0(golden: Golden, case: str, tmp_path: Path) -> None:
    path = tmp_path / "store.zv"
    shutil.copytree(golden(case) / "store.zv", path)
    before = Expected(golden(case)).store[0].read()
    store = zv.open(path)
    store.build_pyramid([(2, 1.0), (2, 2.0)], cross_level_storage="explicit", cross_level_depth=-1)
    after = store[0].read()
    np.testing.assert_array_equal(after.positions, before.positions)
    held = [stored(level) for level in store]
    first = check_level(held[0], held[1], {}, sparse=False)
    second = check_level(held[1], held[2], {}, sparse=held[0].objects is not None)
    assert mapped(store[0].parents()) == first
    assert mapped(store[0].parents(2)) == {row: second[upper] for row, upper in first.items() if upper in second}
    # FORMAT 8: the reference's bin is the root's times the level's own factor; ours compounds.
    base = np.array(store.metadata.bin_shape)
    assert [level.metadata.bin_shape for level in store][1:] == [tuple(base * 2), tuple(base * 4)]
    assert (path / "0/links/+1").is_dir()
    assert not (path / "0/cross_chunk_links/+2").exists()


def test_what_the_reference_loses_at_coarse_levels() -> None:
    # FORMAT 8: float64 read as float32; no vertex attributes, groups or links at coarse levels.
    rng = np.random.default_rng(0)
    positions = 1e6 + rng.random((80, 3)) * 20
    where = MemoryStore()
    zv.write_graph(
        where,
        positions,
        rng.integers(0, 80, (120, 2)),
        object_ids=np.arange(80) % 4,
        vertex_attributes={"mass": rng.random(80)},
        link_attributes={"weight": rng.random(120)},
        groups=[[0, 1], [3]],
        chunk_shape=10,
        bin_shape=2.5,
    )
    build_pyramid(where, [(2, 1.0), (2, 2.0)], sparsity_strategy="length")
    store = zv.open(where)
    held = [stored(level) for level in store]
    for number, sparse in ((0, False), (1, True)):
        check_level(held[number], held[number + 1], {}, sparse=sparse)
    coarse = store[1].read()
    assert coarse.positions.dtype == np.float64
    assert (coarse.positions != coarse.positions.astype(np.float32)).any()
    assert len(coarse.edges)
    assert list(coarse.attributes) == ["mass"]
    assert list(coarse.link_attributes) == ["weight"]
    assert len(store[2].groups) == 2
