"""What we write is plain Zarr: zarr itself reads the same numbers, and a second write gives the same bytes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zarr
from zarr.storage import LocalStore, MemoryStore, ZipStore

import zarr_vectors as zv
from zarr_vectors.core import arrays, writers
from zarr_vectors.core.group import FsGroup, chunked_meta
from zarr_vectors.core.object_index import write_object_manifests
from zarr_vectors.core.storage import ZarrStorage
from zarr_vectors.core.writers import WriteOptions
from zarr_vectors.encoding.manifests import encode_manifests, manifest_table
from zarr_vectors.encoding.rows import ROW_DTYPES

WriteEverything = Callable[..., None]
Array = npt.NDArray[Any]
COMPRESSORS = ("default", None, "blosc", "lz4", "zstd", "gzip", {"name": "gzip", "configuration": {"level": 1}})


def new_group(ndim: int = 2) -> FsGroup:
    root = zv.RootMetadata(chunk_shape=(10,) * ndim, bounds=((0,) * ndim, (10,) * ndim), geometry_types=("mesh",))
    return FsGroup(ZarrStorage(MemoryStore()), root, zv.LevelMetadata(level=0), complete=True)


def through_zarr(group: FsGroup, path: str) -> Array:
    return np.asarray(zarr.open_array(group.storage.zarr_store(), path=f"0/{path}", mode="r")[...])


def numbers(dtype: str, shape: tuple[int, ...]) -> Array:
    """Return values that use all bytes of their dtype, none of them NaN."""
    raw = np.random.default_rng(7).integers(0, 2**8, (int(np.prod(shape)), np.dtype(dtype).itemsize), dtype=np.uint8)
    if dtype == "bool":
        return (raw[:, 0] % 2).astype(dtype).reshape(shape)
    values = raw.view(dtype).reshape(shape)
    return np.where(np.isfinite(values), values, np.ones_like(values))


def assert_same(found: Array, expected: Array) -> None:
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ROW_DTYPES)
@pytest.mark.parametrize("compressor", ["default", None])
def test_every_dtype_reads_equal_through_zarr(dtype: str, compressor: str | None) -> None:
    group, options = new_group(), WriteOptions(compressor)
    rows = numbers(dtype, (50, 3))
    writers.write_vertices(group, {(0, 0): np.zeros((50, 2), "f4")})
    writers.write_vertex_attribute(group, "a", {(0, 0): rows}, options=options)
    writers.write_object_attribute(group, "b", rows, present=np.ones(50), options=options)
    assert_same(through_zarr(group, "vertex_attributes/a/0.0"), rows)
    assert_same(arrays.read_vertex_attribute(group, "a", (0, 0)), rows)
    assert_same(through_zarr(group, "object_attributes/b/data"), rows)
    assert_same(arrays.read_object_attribute(group, "b").values, rows)
    assert_same(through_zarr(group, "object_attributes/b/present_mask"), np.ones(50, "u1"))


@pytest.mark.parametrize("ndim", range(1, 9))
def test_one_to_eight_dimensions(ndim: int) -> None:
    group = new_group(ndim)
    coords = tuple(range(-ndim, 0))
    positions = numbers("float64", (7, ndim))
    writers.write_vertices(group, {coords: positions})
    key = ".".join(map(str, coords))
    assert_same(through_zarr(group, f"vertices/{key}"), positions)
    assert_same(group.read_vertices(coords), positions)
    assert group.list_chunks() == [coords]
    records = np.zeros((1, 2, ndim + 1), np.int64)
    writers.write_cross_chunk_links(group, records, width=2)
    assert_same(through_zarr(group, "cross_chunk_links/0/data"), records)
    table = manifest_table(np.array([0, 1]), np.array([coords]), np.array([0, 1]), np.array([3]))
    write_object_manifests(group, table)
    assert arrays.read_object_manifest(group, 0) == [(coords, 3)]


@pytest.mark.parametrize("rank", range(1, 9))
def test_arrays_of_one_to_eight_axes(rank: int) -> None:
    group = new_group()
    values = numbers("float32", tuple(range(2, 2 + rank))) if rank < 7 else numbers("float32", (2,) * rank)
    meta = chunked_meta("object_attributes/a", "float32", ndim=rank, shape=list(values.shape))
    group.write_payloads("object_attributes/a", meta, [("data", values)])
    assert_same(through_zarr(group, "object_attributes/a/data"), values)
    assert_same(arrays.read_object_attribute(group, "a").values, values)


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=str)
@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("byte_arrays", [True, False])
def test_every_option_reads_equal_through_zarr(
    write_everything: WriteEverything, compressor: Any, checksum: bool, byte_arrays: bool
) -> None:
    store = MemoryStore()
    write_everything(store, options=WriteOptions(compressor, checksum=checksum, byte_arrays=byte_arrays))
    group = zv.open(store)[0].group
    for path in group.arrays:
        for node in group.storage.list_dir(f"0/{path}"):
            if node not in ("zarr.json", "manifests"):
                assert through_zarr(group, f"{path}/{node}").tobytes() == group.read_bytes(path, node), (path, node)


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=str)
def test_manifests_read_equal_through_zarr(compressor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zarr_vectors.core.object_index.MAX_MANIFESTS_PER_CHUNK", 4)
    group = new_group()
    blocks = np.arange(11) % 4
    coords = np.arange(2 * blocks.sum()).reshape(-1, 2)
    each = np.arange(blocks.sum() + 1)
    table = manifest_table(np.r_[0, np.cumsum(blocks)], coords, each, each[:-1])
    write_object_manifests(group, table, compressor=compressor)
    data, offsets = encode_manifests(table)
    found = through_zarr(group, "object_index/manifests")
    assert found.tolist() == [data[offsets[i] : offsets[i + 1]] for i in range(11)]
    assert zarr.open_array(group.storage.zarr_store(), path="0/object_index/manifests", mode="r").chunks == (4,)


def test_zarr_walks_the_whole_hierarchy(tmp_path: Path, write_everything: WriteEverything) -> None:
    write_everything(tmp_path / "a.zv")
    write_everything(tmp_path / "a.zip")
    trees = []
    for store in (LocalStore(tmp_path / "a.zv", read_only=True), ZipStore(tmp_path / "a.zip", mode="r")):
        root = zarr.open_group(store, mode="r")
        trees.append({path: type(node).__name__ for path, node in root.members(max_depth=None)})
        store.close()
    assert trees[0] == trees[1]
    assert trees[0]["0/links/0/0.0.0"] == "Array"
    assert trees[0]["0/link_attributes/weight"] == "Group"
    documents = {
        path.parent.relative_to(tmp_path / "a.zv").as_posix() for path in (tmp_path / "a.zv").rglob("zarr.json")
    }
    assert set(trees[0]) == documents - {"."}


def test_ngff_and_our_keys_are_attributes(tmp_path: Path, write_everything: WriteEverything) -> None:
    write_everything(tmp_path / "a.zv")
    root = zarr.open_group(tmp_path / "a.zv", mode="r")
    assert set(root.attrs) == {"zarr_vectors", "multiscales"}
    assert set(root["0"].attrs) == {"zarr_vectors_level", "zarr_vectors_arrays"}


def tree(path: Path) -> dict[str, bytes | None]:
    """Return every file below a directory with its bytes, and every directory."""
    found = {item.relative_to(path).as_posix(): item for item in path.rglob("*")}
    return {name: item.read_bytes() if item.is_file() else None for name, item in found.items()}


@pytest.mark.parametrize(
    "options", [WriteOptions(), WriteOptions("gzip"), WriteOptions("zstd", byte_arrays=True)], ids=str
)
def test_two_writes_give_the_same_bytes(
    tmp_path: Path, write_everything: WriteEverything, options: WriteOptions
) -> None:
    for name in ("a", "b"):
        write_everything(tmp_path / name, options=options)
    first, second = tree(tmp_path / "a"), tree(tmp_path / "b")
    assert first == second
    assert len(first) > 50


def test_every_place_gets_the_same_bytes(tmp_path: Path, write_everything: WriteEverything) -> None:
    store = MemoryStore()
    write_everything(store)
    write_everything(tmp_path / "a.zv")
    write_everything(tmp_path / "a.zip")
    files = {name: value for name, value in tree(tmp_path / "a.zv").items() if value is not None}
    for storage in (ZarrStorage(store), zv.open(tmp_path / "a.zip").storage):
        assert dict(zip(files, storage.get_many(list(files)), strict=True)) == files
        storage.close()
    assert sorted(store._store_dict) == sorted(files)
