"""Building: what is refused, what a failure leaves, what a rebuild replaces, what is planned by the data."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.multiresolution.brute import check_level, stored
from zarr.storage import MemoryStore

import zarr_vectors as zv
from zarr_vectors.core.counting import CountingStorage
from zarr_vectors.core.location import resolve
from zarr_vectors.core.storage import LocalStorage, Storage, ZarrStorage
from zarr_vectors.core.writers import WriteOptions
from zarr_vectors.exceptions import InputError, MissingArrayError, StorageError
from zarr_vectors.multiresolution import PyramidOptions, batches, build_pyramid, coarsen_level
from zarr_vectors.multiresolution.pyramid import build
from zarr_vectors.typing import Buffer


def files_of(path: Path) -> dict[str, bytes]:
    return {str(item.relative_to(path)): item.read_bytes() for item in path.rglob("*") if item.is_file()}


def keys_of(store: MemoryStore) -> dict[str, bytes]:
    return {key: value.to_bytes() for key, value in store._store_dict.items()}


def write_paths(location: object, *, reach: float = 20.0) -> None:
    rng = np.random.default_rng(1)
    counts = (12, 0, 30, 5, 1, 20)
    paths = [(rng.random(3) + np.cumsum(rng.normal(0, 0.05, (count, 3)), axis=0)) * reach for count in counts]
    zv.write_polylines(
        location,
        paths,
        geometry_type="streamline",
        chunk_shape=(10, 10, 10),
        bin_shape=(2, 2, 2),
        object_attributes={"rank": np.arange(6) % 4},
        vertex_attributes={"fa": np.arange(sum(map(len, paths)), dtype="f4")},
        groups=[[0, 2], [5]],
    )


class FailingStorage(CountingStorage):
    """Fails at the put with a given number."""

    def __init__(self, inner: Storage, fail_at: int) -> None:
        super().__init__(inner)
        self.fail_at = fail_at
        self.put = 0

    def put_many(self, items: Iterable[tuple[str, Buffer]]) -> None:
        for item in items:
            if self.put == self.fail_at:
                raise StorageError("the disk is full")
            self.put += 1
            self.inner.put_many([item])


@pytest.mark.parametrize("rebuilt", [False, True])
def test_a_failure_at_any_put_leaves_level_0_and_a_rerun_leaves_nothing_of_it(*, rebuilt: bool) -> None:
    clean, path = MemoryStore(), MemoryStore()
    options = {"cross_level_storage": "explicit", "workers": 1}
    for place in (clean, path):
        write_paths(place, reach=6.0)
        if rebuilt:
            build_pyramid(place, [(2, 1.0), (2, 1.0)], cross_level_storage="explicit", cross_level_depth=-1)
    before = zv.open(path)[0].read()
    build_pyramid(clean, [(3, 1.0)], **options)
    expected = keys_of(clean)
    number = 0
    while True:
        storage = FailingStorage(ZarrStorage(path), number)
        try:
            build(storage, [(2, 1.0), (2, 2.0)], PyramidOptions(workers=1, cross_level_storage="explicit"))
        except StorageError:
            store = zv.open(path)
            assert store.levels[0] == 0
            again = store[0].read()
            np.testing.assert_array_equal(again.positions, before.positions)
            np.testing.assert_array_equal(again.attributes["fa"], before.attributes["fa"])
            for level in store:
                level.read()
        else:
            break
        if number % 20 == 0:
            # Whatever was there, another pyramid takes its place whole.
            build_pyramid(path, [(3, 1.0)], **options)
            assert keys_of(path).keys() == expected.keys()
        number += 1
    assert number > 40
    build_pyramid(path, [(3, 1.0)], **options)
    assert keys_of(path) == expected


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    for name, workers in (("one", 1), ("two", 3)):
        write_paths(tmp_path / name)
        build_pyramid(tmp_path / name, [(2, 1.0), (2, 2.0)], workers=workers, cross_level_storage="explicit")
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")


def test_a_rebuild_leaves_nothing_of_the_old_levels(tmp_path: Path) -> None:
    path = tmp_path / "store.zv"
    zv.write_points(path, np.random.default_rng(0).random((200, 2)) * 40, chunk_shape=(10, 10), bin_shape=(1, 1))
    before = files_of(path)
    store = zv.open(path)
    store.build_pyramid([2, 2, 2], cross_level_storage="explicit", cross_level_depth=-1)
    assert len(store) == 4
    assert len(store[0].parents(3)) == 200
    store.build_pyramid([2], cross_level_storage="none")
    assert len(store) == 2
    left = {name for name in files_of(path) if not name.startswith("1/")}
    assert left == set(before)
    with pytest.raises(MissingArrayError, match="cross_level_storage='implicit'"):
        store[0].parents()
    store.build_pyramid([])
    assert files_of(path).keys() == before.keys()
    assert store.metadata.format_capabilities == ("fragment_index",)


def test_attributes_of_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "store.zv"
    zv.write_points(path, np.random.default_rng(0).random((50, 2)) * 40, chunk_shape=(10, 10), bin_shape=(1, 1))
    for name, key in (("zarr.json", "project"), ("0/zarr.json", "note")):
        document = json.loads((path / name).read_text())
        document["attributes"][key] = {"mine": None}
        if name == "zarr.json":
            document["attributes"]["zarr_vectors"]["unknown_key"] = [1]
            document["attributes"]["zarr_vectors"]["format_capabilities"].append("future")
            document["attributes"]["multiscales"].append({"name": "other"})
        (path / name).write_text(json.dumps(document))
    for factors in ([2, 2], [2]):
        build_pyramid(path, factors)
        root = json.loads((path / "zarr.json").read_text())["attributes"]
        assert root["project"] == {"mine": None}
        assert root["zarr_vectors"]["unknown_key"] == [1]
        assert "future" in root["zarr_vectors"]["format_capabilities"]
        assert root["multiscales"][1] == {"name": "other"}
        assert [item["path"] for item in root["multiscales"][0]["datasets"]] == [
            str(n) for n in range(len(factors) + 1)
        ]
        assert json.loads((path / "0/zarr.json").read_text())["attributes"]["note"] == {"mine": None}


REFUSED: list[tuple[Sequence[Any] | None, dict[str, Any], str]] = [
    ([1], {}, "a bin factor above 1"),
    ([0], {}, "whole number of at least 1"),
    ([2.5], {}, "whole number of at least 1"),
    ([float("inf")], {}, "whole number of at least 1"),
    ([float("nan")], {}, "whole number of at least 1"),
    (["2"], {}, "whole number of at least 1"),
    ([2**40], {}, "whole number of at least 1"),
    ([[2, 2]], {}, "one for each of 3 axes"),
    ([(2, 1.0, 1.0)], {}, "bin_factor, sparsity_factor"),
    ([(2, 0.5)], {}, "sparsity factor is at least 1"),
    ([(2, float("nan"))], {}, "sparsity factor is at least 1"),
    ([(2, 2.0)], {"sparsity_strategy": "best"}, "sparsity_strategy is one of"),
    ([(2, 2.0)], {"sparsity_strategy": "attribute"}, "sparsity_attribute is None, the object attributes are rank"),
    ([(2, 2.0)], {"sparsity_strategy": "attribute", "sparsity_attribute": "x"}, "sparsity_attribute is 'x'"),
    ([2], {"chunk_scale_factors": [2, 2]}, "2 chunk scale factors for 1 levels"),
    ([2], {"chunk_scale_factors": [1.5]}, "a chunk scale factor is a whole number"),
    ([2], {"cross_level_depth": -2}, "cross_level_depth is -1"),
    ([2], {"cross_level_storage": "both"}, "cross_level_storage is none"),
    ([2], {"method": "magic"}, "method is"),
    ([2], {"reducers": {"fa": "median"}}, "a reducer is one of"),
    ([2], {"reducers": {"nothing": "mean"}}, "there is a reducer for 'nothing'"),
    ([2], {"base_bin_shape": (5, 5, 5)}, "base_bin_shape can't change them"),
    (None, {"max_vertices": 0}, "max_vertices is at least 1"),
    (None, {"reduction_factor": 1}, "reduction_factor is at least 2"),
]


@pytest.mark.parametrize(("factors", "options", "message"), REFUSED)
def test_what_is_refused_changes_nothing(
    tmp_path: Path, factors: Sequence[Any] | None, options: dict[str, Any], message: str
) -> None:
    path = tmp_path / "store.zv"
    write_paths(path)
    build_pyramid(path, [2])
    before = files_of(path)
    with pytest.raises(InputError, match=message):
        build_pyramid(path, factors, **options)
    assert files_of(path) == before


def test_text_is_not_averaged() -> None:
    where = MemoryStore()
    zv.write_points(where, np.zeros((2, 2)), vertex_attributes={"t": ["a", "b"]}, chunk_shape=(1, 1))
    with pytest.raises(InputError, match="text is reduced by mode or count"):
        build_pyramid(where, [2], reducers={"t": "mean"})


def test_a_bad_base_bin_shape_is_an_input_error() -> None:
    where = MemoryStore()
    zv.write_points(where, np.zeros((2, 2)), chunk_shape=(4, 4))
    with pytest.raises(InputError, match="base_bin_shape"):
        build_pyramid(where, [2], base_bin_shape=(3, 3))
    build_pyramid(where, [2], base_bin_shape=(2, 1))
    assert zv.open(where)[1].metadata.bin_shape == (4, 2)


def test_a_zip_file_does_not_grow(tmp_path: Path) -> None:
    zv.write_points(tmp_path / "store.zip", np.zeros((2, 2)), chunk_shape=(4, 4))
    with pytest.raises(StorageError, match="zip"):
        build_pyramid(tmp_path / "store.zip", [2])


def test_one_level_at_a_time() -> None:
    where = MemoryStore()
    write_paths(where)
    summary = coarsen_level(where, 2, 2.0)
    assert summary.levels == (0, 1)
    assert summary.objects == (5, 2)


def test_levels_are_made_from_the_level_below_and_state_their_bins() -> None:
    where = MemoryStore()
    zv.write_points(where, np.random.default_rng(0).random((99, 2)) * 8, chunk_shape=(4, 4), bin_shape=(1, 0.5))
    build_pyramid(where, [(2, 1.0), ([3, 1], 1.0)], chunk_scale_factors=[None, [1, 2]])
    first, second = list(zv.open(where))[1:]
    assert list(first.metadata.bin_shape or ()) == [2, 1]
    assert list(first.metadata.chunk_shape or ()) == [4, 4]
    assert list(second.metadata.bin_shape or ()) == [6, 1]
    assert list(second.metadata.bin_ratio or ()) == [6, 2]
    # Three bins of 2 do not fit in a chunk of 4.
    assert list(second.metadata.chunk_shape or ()) == [12, 8]


@pytest.mark.parametrize("spread", [1.0, 2.0])
@pytest.mark.parametrize("ndim", [1, 2, 3, 8])
def test_levels_planned_by_the_data(ndim: int, spread: float) -> None:
    where = MemoryStore()
    rng = np.random.default_rng(0)
    # Around the origin, which no bin ever crosses.
    zv.write_points(where, (rng.random((400, ndim)) - spread / 2) * 20)
    store = zv.open(where)
    summary = store.build_pyramid(max_vertices=30, reduction_factor=4)
    for number, (above, below) in enumerate(zip(summary.vertices[1:], summary.vertices[:-1], strict=True), start=1):
        last = number == len(summary.levels) - 1
        assert above * 4 <= below or (last and above < below)
    smallest = summary.vertices[-1]
    corners = len(np.unique(store[0].read().positions.astype(np.float64) >= 0, axis=0))
    assert smallest <= 30 or smallest == corners or smallest * 4 > summary.vertices[-2]


def test_no_level_where_there_is_nothing_to_gain() -> None:
    where = MemoryStore()
    zv.write_points(where, np.array([[-1.0, 1.0], [1.0, 1.0]]), chunk_shape=(4, 4))
    assert build_pyramid(where, max_vertices=1).levels == (0,)
    zv.write_points(where, np.full((9, 2), 0.3), chunk_shape=(4, 4), mode="w")
    assert build_pyramid(where, max_vertices=1).vertices == (9, 1)


def test_the_level_for_a_purpose() -> None:
    where = MemoryStore()
    zv.write_points(where, np.random.default_rng(0).random((500, 2)) * 32, chunk_shape=(8, 8), bin_shape=(1, 1))
    store = zv.open(where)
    store.build_pyramid([2, 2, (2, 1.0)])
    counts = [level.metadata.vertex_count for level in store]
    assert store.level_for(vertices=500).number == 0
    assert store.level_for(vertices=counts[1]).number == 1
    assert store.level_for(vertices=counts[1] - 1).number == 2
    assert store.level_for(vertices=0).number == 3
    assert store.level_for(resolution=0.5).number == 0
    assert store.level_for(resolution=2).number == 1
    assert store.level_for(resolution=7.9).number == 2
    assert store.level_for(resolution=1e9).number == 3
    with pytest.raises(InputError, match="by vertices or by resolution"):
        store.level_for()


WRITERS = {
    "points": lambda where: zv.write_points(where, np.empty((0, 3)), vertex_attributes={"t": np.empty(0, str)}),
    "objects": lambda where: zv.write_points(where, np.empty((0, 3)), object_ids=np.empty(0, int)),
    "paths": lambda where: zv.write_polylines(where, [np.empty((0, 3)), np.empty((0, 3))]),
    "graph": lambda where: zv.write_graph(where, np.empty((0, 3)), np.empty((0, 2), int), link_attributes={"w": []}),
    "mesh": lambda where: zv.write_mesh(where, np.empty((0, 3)), np.empty((0, 3), int)),
    "skeleton": lambda where: zv.write_skeletons(where, np.empty((0, 3)), parents=np.empty(0, int)),
}


@pytest.mark.parametrize("method", ["bins", "simplify"])
@pytest.mark.parametrize("kind", WRITERS)
def test_stores_without_vertices(kind: str, method: str) -> None:
    if method == "simplify" and kind in ("points", "objects", "graph"):
        return
    where = MemoryStore()
    WRITERS[kind](where)
    assert build_pyramid(where, [(2, 2.0), (2, 1.0)], method=method).vertices == (0, 0, 0)
    for level in zv.open(where):
        result = level.read()
        assert len(result) == 0
        assert result.positions.shape == (0, 3)
        assert list(result.attributes) == (["t"] if kind == "points" else [])
        assert level.read(bbox=([0, 0, 0], [1, 1, 1])).positions.dtype == result.positions.dtype
        if kind == "mesh":
            assert result.faces.shape == (0, 3)


def test_a_chunk_is_found_by_position_where_sizes_have_no_exact_form() -> None:
    # 0.1 * 3 is not 0.3: some of these lie in another chunk of the coarser grid than the one that covers their own.
    where = MemoryStore()
    positions = np.stack([np.arange(-90, 90) / 10, np.arange(180) / 10], axis=1)
    edges = np.stack([np.arange(179), np.arange(1, 180)], axis=1)
    zv.write_graph(where, positions, edges, object_ids=np.arange(180) // 30, chunk_shape=0.1)
    store = zv.open(where)
    store.build_pyramid([(3, 1.0), (3, 2.0)], cross_level_storage="explicit")
    covering = np.floor_divide(store[0].index.chunks, 3)
    assert any(
        (store[1].index.grid.chunks_of(chunk.positions) != covering[number]).any()
        for number, chunk in enumerate(store[0].chunks)
    )
    held = [stored(level) for level in store]
    for number in (0, 1):
        check_level(held[number], held[number + 1], {}, sparse=number == 1)
    for row in store[1].read().positions:
        assert len(store[1].read(bbox=(row, row))) == 1


def test_the_identity_convention_becomes_the_standard_one() -> None:
    where = MemoryStore()
    rng = np.random.default_rng(0)
    zv.write_points(
        where,
        rng.random((40, 2)),
        object_ids=rng.integers(0, 9, 40),
        chunk_shape=1,
        bin_shape=0.125,
        object_index_convention="identity",
    )
    before = zv.open(where)[0].read()
    store = zv.open(where)
    store.build_pyramid([(2, 1.0), (2, 2.0)])
    assert store.metadata.object_index_convention == "standard"
    after = store[0].read()
    np.testing.assert_array_equal(after.positions, before.positions)
    np.testing.assert_array_equal(after.object_ids, before.object_ids)
    held = [stored(level) for level in store]
    for number in (0, 1):
        check_level(held[number], held[number + 1], {}, sparse=number == 1)


def test_draco_levels_coarsen() -> None:
    pytest.importorskip("DracoPy")
    rng = np.random.default_rng(0)
    where = MemoryStore()
    vertices = rng.random((60, 3)).astype("f4") * 10
    zv.write_mesh(
        where,
        vertices,
        rng.integers(0, 60, (80, 3)),
        chunk_shape=2,
        bin_shape=1,
        encoding="draco",
        quantization_bits=11,
    )
    store = zv.open(where)
    store.build_pyramid([2])
    check_level(stored(store[0]), stored(store[1]), {}, sparse=False)


class MeasuringStorage(CountingStorage):
    """Records the most vertices payload bytes that are asked for at once."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.most = 0

    def get_many(self, keys: Sequence[str]) -> list[Buffer | None]:
        found = self.inner.get_many(keys)
        sizes = [
            memoryview(value).nbytes
            for key, value in zip(keys, found, strict=True)
            if "/vertices/" in key and value is not None
        ]
        self.most = max(self.most, sum(sizes))
        return found


def test_a_build_holds_a_coarse_chunk_and_not_the_level() -> None:
    where = MemoryStore()
    positions = np.random.default_rng(0).random((20_000, 2)) * 24
    ids = np.arange(20_000) % 7
    zv.write_points(where, positions, object_ids=ids, chunk_shape=(2, 2), bin_shape=(1, 1))
    storage = MeasuringStorage(ZarrStorage(where))
    build(storage, [(2, 2.0), (2, 1.0)], PyramidOptions(sparsity_strategy="length", workers=2))
    stored_bytes = sum(len(chunk.positions) for chunk in zv.open(where)[0].chunks) * 16
    assert storage.most < stored_bytes / 20


def test_objects_are_read_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, parts = MemoryStore(), MemoryStore()
    for where in (whole, parts):
        write_paths(where)
    build_pyramid(whole, [(2, 1.0), (2, 2.0)], sparsity_strategy="length")
    monkeypatch.setattr(batches, "ROWS_PER_BATCH", 7)
    index = zv.open(parts)[0].index
    assert len(list(batches.object_batches(index, np.arange(6)))) > 2
    build_pyramid(parts, [(2, 1.0), (2, 2.0)], sparsity_strategy="length")
    for one, other in zip(zv.open(whole), zv.open(parts), strict=True):
        np.testing.assert_array_equal(one.read().positions, other.read().positions)
        np.testing.assert_array_equal(one.read().object_ids, other.read().object_ids)


def test_progress_names_each_level() -> None:
    where = MemoryStore()
    write_paths(where)
    told: list[tuple[int, str]] = []
    build_pyramid(where, [2, 2], progress=lambda level, what: told.append((level, what)))
    assert {level for level, _ in told} == {1, 2}


def test_bytes_as_bytes() -> None:
    where = MemoryStore()
    write_paths(where)
    build_pyramid(where, [2], cross_level_storage="explicit", options=WriteOptions(byte_arrays=True))
    store = zv.open(where)
    check_level(stored(store[0]), stored(store[1]), {}, sparse=False)
    assert len(store[1].children()) == store[0].metadata.vertex_count
    chunk = next(iter(store[1].chunks))
    array: Any = store[1].group.zarr_group[f"vertices/{'.'.join(map(str, chunk.coords))}"]
    assert array.dtype == np.uint8


def test_parents_are_above_and_children_below() -> None:
    where = MemoryStore()
    write_paths(where)
    build_pyramid(where, [2])
    store = zv.open(where)
    for delta in (0, -1):
        with pytest.raises(InputError, match="is not above"):
            store[1].parents(delta)
    with pytest.raises(InputError, match="is not above"):
        store[0].children(0)


@pytest.mark.parametrize("stays", ["links/+1", "links/-1"])
def test_one_direction_of_links_is_enough(tmp_path: Path, stays: str) -> None:
    path = tmp_path / "store.zv"
    write_paths(path)
    build_pyramid(path, [2], cross_level_storage="explicit")
    both = zv.open(path)
    wanted = np.stack([both[0].parents().rows, both[0].parents().other_rows])
    level, gone = (1, "links/-1") if stays == "links/+1" else (0, "links/+1")
    document = json.loads((path / f"{level}/zarr.json").read_text())
    (arrays,) = (value for value in document["attributes"].values() if gone in value)
    del arrays[gone]
    (path / f"{level}/zarr.json").write_text(json.dumps(document))
    LocalStorage(path).delete_dir(f"{level}/{gone}")
    store = zv.open(path)
    up, down = store[0].parents(), store[1].children().inverted()
    for found in (up, down):
        assert len(found) == store[0].metadata.vertex_count
        order = np.lexsort((found.rows, *found.chunks.T[::-1]))
        np.testing.assert_array_equal(np.stack([found.rows[order], found.other_rows[order]]), wanted)


def test_the_location_may_be_anything_that_resolves(tmp_path: Path) -> None:
    write_paths(tmp_path / "store.zv")
    assert isinstance(resolve(str(tmp_path / "store.zv")), LocalStorage)
    assert build_pyramid(str(tmp_path / "store.zv"), [2]).levels == (0, 1)
