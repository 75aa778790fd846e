import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zarr
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec
from zarr.storage import MemoryStore

import zarr_vectors as zv
from zarr_vectors.core import group as group_module
from zarr_vectors.core.counting import CountingStorage
from zarr_vectors.core.group import FsGroup, chunked_meta
from zarr_vectors.core.metadata import ArrayMetadata
from zarr_vectors.core.storage import LocalStorage, ZarrStorage
from zarr_vectors.core.writers import WriteOptions
from zarr_vectors.exceptions import (
    DecodeError,
    EncodeError,
    MetadataError,
    MissingArrayError,
    MissingChunkError,
    ZarrVectorsError,
)

WriteEverything = Callable[..., None]
Place = tuple[int | None, str | None, str | None]
ROOT = zv.RootMetadata(chunk_shape=(10, 10, 10), bounds=((0, 0, 0), (10, 10, 10)), geometry_types=("point_cloud",))
POSITIONS = np.arange(15, dtype="f4").reshape(5, 3)


def place(error: pytest.ExceptionInfo[ZarrVectorsError]) -> Place:
    return error.value.level, error.value.array, error.value.chunk


def foreign_group(store: MemoryStore | None = None, *, level: int = 0) -> FsGroup:
    """Return a level without a word about its arrays, to be filled with zarr itself."""
    made = FsGroup(ZarrStorage(store or MemoryStore()), ROOT, zv.LevelMetadata(level=level))
    vertices = {"zv_array": "vertices", "dtype": "float32", "encoding": "raw"}
    zarr.create_group(made.storage.zarr_store(), path=f"{level}/vertices", attributes=vertices)
    return made


def zarr_array(group: FsGroup, path: str, values: npt.NDArray[Any], **options: Any) -> None:
    array = zarr.create_array(
        group.storage.zarr_store(), name=f"{group.level}/{path}", shape=values.shape, dtype=values.dtype, **options
    )
    array[...] = values


@pytest.fixture
def local(tmp_path: Path, write_everything: WriteEverything) -> Path:
    path = tmp_path / "a.zv"
    write_everything(path)
    return path


def undeclare(path: Path) -> None:
    """Turn a store of ours into one that leaves it to each chunk to say how it is stored."""
    for document in path.glob("*/**/zarr.json"):
        parsed = json.loads(document.read_text())
        attributes = parsed["attributes"]
        attributes.pop("zarr_vectors_arrays", None)
        for key in ("compression_codec", "chunk_key", "manifests_per_chunk"):
            attributes.pop(key, None)
        document.write_text(json.dumps(parsed))


# -- missing, empty, damaged


@pytest.mark.parametrize("declared", [True, False])
def test_missing_empty_and_damaged_are_three_outcomes(local: Path, declared: bool) -> None:
    if not declared:
        undeclare(local)
    group = zv.open(local)[0].group
    assert group.complete is declared
    # Missing: nothing is there.
    assert group.read_payloads([("vertices", "7.7.7")]) == [None]
    with pytest.raises(MissingChunkError, match="there is no such chunk") as error:
        group.read_vertices((7, 7, 7))
    assert place(error) == (0, "vertices", "7.7.7")
    # Empty: it is there, and holds no bytes.
    group.write_bytes("vertices", "1.1.1", b"")
    assert group.read_bytes("vertices", "1.1.1") == b""
    assert group.read_vertices((1, 1, 1)).shape == (0, 3)
    # Damaged: its zarr.json promises data that are gone.
    (local / "0/vertices/0.0.0/c.0.0").unlink()
    with pytest.raises(MissingChunkError, match=r"its zarr\.json is there, its data are not") as error:
        group.read_payloads([("vertices", "-1.0.2"), ("vertices", "0.0.0")])
    assert place(error) == (0, "vertices", "0.0.0")


@pytest.mark.parametrize("declared", [True, False])
def test_a_flipped_bit_is_an_error(local: Path, declared: bool) -> None:
    if not declared:
        undeclare(local)
    chunk = local / "0/vertices/0.0.0/c.0.0"
    raw = bytearray(chunk.read_bytes())
    raw[20] ^= 1
    chunk.write_bytes(raw)
    with pytest.raises(DecodeError, match="the bytes have changed") as error:
        zv.open(local)[0].group.read_vertices((0, 0, 0))
    assert place(error) == (0, "vertices", "0.0.0")
    assert error.value.rule == "checksum"


def test_a_declared_store_reads_without_its_chunks_documents(local: Path) -> None:
    (local / "0/vertices/0.0.0/zarr.json").unlink()
    assert len(zv.open(local)[0].group.read_vertices((0, 0, 0))) == 5


def test_a_chunk_that_moved_is_found_by_its_document(local: Path) -> None:
    document = local / "0/vertices/0.0.0/zarr.json"
    parsed = json.loads(document.read_text())
    parsed["chunk_key_encoding"]["configuration"]["separator"] = "/"
    document.write_text(json.dumps(parsed))
    (local / "0/vertices/0.0.0/c/0").mkdir(parents=True)
    (local / "0/vertices/0.0.0/c.0.0").rename(local / "0/vertices/0.0.0/c/0/0")
    np.testing.assert_array_equal(zv.open(local)[0].group.read_vertices((0, 0, 0)), POSITIONS)


# -- requests


def test_a_chunk_of_ours_is_one_request(local: Path) -> None:
    storage = CountingStorage(LocalStorage(local))
    store = zv.open(storage)
    assert (storage.gets, storage.lists, storage.batches) == (["zarr.json"], [], 1)
    group = store[0].group
    assert (storage.gets, storage.lists, storage.batches) == (["zarr.json", "0/zarr.json"], [], 2)
    storage.reset()
    group.read_vertices((0, 0, 0))
    assert (storage.gets, storage.lists) == (["0/vertices/0.0.0/c.0.0"], [])
    storage.reset()
    group.read_payloads([("vertices", "0.0.0"), ("vertex_attributes/rgb", "-1.0.2"), ("vertex_fragments", "0.0.0")])
    assert storage.batches == 1
    storage.reset()
    group.find_array_metas(["vertices", "nothing"])
    group.list_arrays("vertex_attributes")
    assert (storage.gets, storage.lists) == ([], [])


def test_a_chunk_of_others_asks_once_for_the_array(local: Path) -> None:
    undeclare(local)
    storage = CountingStorage(LocalStorage(local))
    group = zv.open(storage)[0].group
    storage.reset()
    group.read_vertices((0, 0, 0))
    assert storage.gets == ["0/vertices/zarr.json", "0/vertices/0.0.0/zarr.json", "0/vertices/0.0.0/c.0.0"]
    storage.reset()
    group.read_vertices((-1, 0, 2))
    assert storage.gets == ["0/vertices/-1.0.2/zarr.json", "0/vertices/-1.0.2/c.0.0"]


# -- arrays that zarr wrote


@pytest.mark.parametrize(
    "options",
    [
        {"chunks": (2, 3)},
        {"chunks": (5, 2)},
        {"chunks": (9, 9)},
        {"chunks": (1, 1), "shards": (4, 4)},
        {"chunks": (5, 3), "shards": (5, 3)},
        {"filters": [TransposeCodec(order=(1, 0))]},
        {"chunk_key_encoding": {"name": "v2", "separator": "/"}},
        {"chunk_key_encoding": {"name": "v2", "separator": "."}, "chunks": (3, 3)},
        {"compressors": None},
        {"compressors": BloscCodec(cname="lz4hc", shuffle="bitshuffle")},
        {"compressors": ZstdCodec(checksum=True)},
        {"compressors": [GzipCodec(), Crc32cCodec()]},
        {"serializer": BytesCodec(endian="big")},
        {"serializer": BytesCodec(endian="big"), "chunks": (2, 2)},
    ],
)
def test_arrays_that_zarr_wrote_read_equal(options: dict[str, Any]) -> None:
    group = foreign_group()
    values = POSITIONS + 1
    zarr_array(group, "vertices/0.0.0", values, **options)
    np.testing.assert_array_equal(group.read_vertices((0, 0, 0)), values)
    assert group.read_bytes("vertices", "0.0.0") == values.tobytes()


@pytest.mark.parametrize("dtype", ["complex64", "complex128", "int16", "float16", "uint64", "bool"])
def test_big_endian_arrays_read_equal(dtype: str) -> None:
    group = foreign_group()
    values = np.array([1, 2 - 3j if dtype.startswith("complex") else 0, 5]).astype(dtype)
    zarr_array(group, "vertices/0.0.0", values, serializer=BytesCodec(endian="big"))
    assert group.read_bytes("vertices", "0.0.0") == values.tobytes()


def test_codecs_that_only_zarr_knows() -> None:
    group = foreign_group()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from zarr.codecs.numcodecs import LZ4

        zarr_array(group, "vertices/0.0.0", POSITIONS, compressors=LZ4())
        np.testing.assert_array_equal(group.read_vertices((0, 0, 0)), POSITIONS)


def test_an_array_without_rows_that_zarr_wrote() -> None:
    group = foreign_group()
    zarr_array(group, "vertices/0.0.0", np.empty((0, 3), "f4"))
    assert group.read_vertices((0, 0, 0)).shape == (0, 3)


def test_what_zarr_would_fill_in_is_an_error() -> None:
    store = MemoryStore()
    group = foreign_group(store, level=2)
    zarr_array(group, "vertices/0.0.0", POSITIONS + 1, chunks=(2, 3))
    group.storage.delete_many(["2/vertices/0.0.0/c/1/0"])
    with pytest.raises(MissingChunkError, match=r"its zarr\.json is there, 1 of its chunks are not") as error:
        group.read_vertices((0, 0, 0))
    assert place(error) == (2, "vertices", "0.0.0")


def damage(group: FsGroup, key: str, change: Callable[[dict[str, Any]], object]) -> None:
    (raw,) = group.storage.get_many([key])
    assert raw is not None
    parsed = json.loads(bytes(raw))
    change(parsed)
    group.storage.put_many([(key, json.dumps(parsed).encode())])


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda node: node["codecs"].append({"name": "nonsense"}), "zarr"),
        (lambda node: node.update(shape=[2**40, 3]), "limit"),
        (lambda node: node.update(shape=[2**28, 1]), "limit"),
        (lambda node: node.update(data_type="variable_length_bytes"), "data-type"),
        (lambda node: node.update(data_type="float64"), "payload-size"),
        (lambda node: node.update(codecs=[]), "zarr"),
    ],
)
def test_arrays_that_can_not_be_read(change: Callable[[dict[str, Any]], object], rule: str) -> None:
    group = foreign_group()
    zarr_array(group, "vertices/0.0.0", POSITIONS)
    damage(group, "0/vertices/0.0.0/zarr.json", change)
    with pytest.raises(DecodeError) as error:
        group.read_vertices((0, 0, 0))
    assert error.value.rule == rule
    assert place(error) == (0, "vertices", "0.0.0")


def test_arrays_in_too_many_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_module, "MAX_ZARR_CHUNKS", 4)
    group = foreign_group()
    zarr_array(group, "vertices/0.0.0", POSITIONS, chunks=(1, 3))
    with pytest.raises(DecodeError, match="60 bytes in 5 chunks is too much"):
        group.read_vertices((0, 0, 0))


def test_what_only_zarr_can_read_comes_in_one_batch() -> None:
    group = foreign_group()
    zarr_array(group, "vertices/0.0.0", POSITIONS + 1, chunks=(1, 3))
    storage = CountingStorage(group.storage)
    group = FsGroup(storage, ROOT, zv.LevelMetadata(level=0), group.arrays)
    group.read_array_meta("vertices")
    storage.reset()
    group.read_vertices((0, 0, 0))
    assert storage.batches == 2
    assert storage.lists == []


def test_a_chunk_whose_document_is_broken() -> None:
    group = foreign_group()
    group.storage.put_many([("0/vertices/0.0.0/zarr.json", b"{")])
    with pytest.raises(DecodeError, match="not valid JSON") as error:
        group.read_vertices((0, 0, 0))
    assert place(error) == (0, "vertices", "0.0.0")


# -- metadata


def test_array_metadata(local: Path) -> None:
    for declared in (True, False):
        if not declared:
            undeclare(local)
        group = zv.open(local)[0].group
        assert group.read_array_meta("vertex_attributes/rgb").channel_names == ("r", "g", "b")
        with pytest.raises(MissingArrayError, match="the level has no such array") as error:
            group.read_array_meta("vertex_attributes/nothing")
        assert place(error) == (0, "vertex_attributes/nothing", None)
        assert group.list_arrays("vertex_attributes") == ["vertex_attributes/rgb", "vertex_attributes/time"]
        assert group.list_arrays("links") == ["links/+1", "links/0"]
        assert group.list_arrays("link_attributes") == ["link_attributes/share/+1", "link_attributes/weight/0"]
        assert group.list_arrays("cross_chunk_links") == ["cross_chunk_links/0"]


def test_array_metadata_at_the_top_of_the_document() -> None:
    group = foreign_group()
    top = {"zarr_format": 3, "node_type": "group", "zv_array": "groups", "num_groups": 3}
    group.storage.put_many([("0/groups/zarr.json", json.dumps(top).encode())])
    assert group.read_array_meta("groups").num_groups == 3


def test_array_metadata_that_break_the_rules() -> None:
    group = foreign_group()
    bad = {"zarr_format": 3, "node_type": "group", "attributes": {"zv_array": "nonsense", "num_groups": -1}}
    group.storage.put_many([("0/groups/zarr.json", json.dumps(bad).encode())])
    with pytest.raises(MetadataError, match="2 problems in the metadata") as error:
        group.read_array_meta("groups")
    assert place(error) == (0, "groups", None)


def test_groups_between_are_no_arrays(local: Path) -> None:
    undeclare(local)
    group = zv.open(local)[0].group
    assert group.find_array_metas(["link_attributes", "link_attributes/weight"]) == [None, None]


def test_stray_files_are_no_arrays_and_no_chunks(local: Path) -> None:
    undeclare(local)
    for name in ("link_attributes/.DS_Store", "vertices/notes.txt", "vertices/0.0", "vertices/00.0.0"):
        (local / "0" / name).write_bytes(b"x")
    group = zv.open(local)[0].group
    assert group.list_arrays("link_attributes") == ["link_attributes/share/+1", "link_attributes/weight/0"]
    assert group.list_chunks() == [(-1, 0, 2), (0, 0, 0)]


def test_chunks_of_an_array_that_is_not_there(local: Path) -> None:
    assert zv.open(local)[0].group.list_chunks("vertex_attributes/nothing") == []


def test_groups_above_an_array_are_written_once() -> None:
    storage = CountingStorage(ZarrStorage(MemoryStore()))
    group = FsGroup(storage, ROOT, zv.LevelMetadata(level=0), complete=True)
    meta = chunked_meta("link_attributes/a/0", "float32")
    group.write_array_meta("link_attributes/a/0", meta)
    assert storage.puts == [f"0/link_attributes/{path}zarr.json" for path in ("", "a/", "a/0/")]
    storage.reset()
    group.write_array_meta("link_attributes/a/0", meta)
    assert storage.puts == []
    group.write_array_meta("link_attributes/a/+1", meta)
    assert storage.puts == ["0/link_attributes/a/+1/zarr.json"]


def test_a_foreign_chunk_key_is_not_followed() -> None:
    group = foreign_group()
    meta = chunked_meta("vertices", "float32", ndim=2, encoding="raw").model_copy(update={"chunk_key": "../../x"})
    group.arrays["vertices"] = meta
    zarr_array(group, "vertices/0.0.0", POSITIONS)
    np.testing.assert_array_equal(group.read_vertices((0, 0, 0)), POSITIONS)


def test_a_level_as_zarr_sees_it(local: Path) -> None:
    found = zv.open(local)[0].group.zarr_group
    assert found.attrs["zarr_vectors_level"]["level"] == 0  # type: ignore[index, call-overload]
    assert "vertices" in set(found.group_keys())


# -- writing


def test_opaque_bytes_go_as_they_are(local: Path) -> None:
    group = FsGroup(LocalStorage(local), ROOT, zv.LevelMetadata(level=0), complete=True)
    group.write_bytes("mine", "blob", b"abc")
    assert (local / "0/mine/blob/c.0").read_bytes() == b"abc"
    assert group.read_bytes("mine", "blob") == b"abc"


def test_opaque_bytes_follow_what_the_array_declares(local: Path) -> None:
    group = zv.open(local)[0].group
    values = np.arange(4, dtype="f8")
    group.write_bytes("vertex_attributes/time", "5.5.5", values.tobytes())
    assert (local / "0/vertex_attributes/time/5.5.5/c.0").read_bytes() != values.tobytes()
    assert group.read_bytes("vertex_attributes/time", "5.5.5") == values.tobytes()


def test_opaque_bytes_take_the_place_of_what_was_there(local: Path) -> None:
    group = zv.open(local)[0].group
    group.write_bytes("vertices", "0.0.0", POSITIONS[:1].tobytes())
    assert sorted(path.name for path in (local / "0/vertices/0.0.0").iterdir()) == ["c.0.0", "zarr.json"]
    np.testing.assert_array_equal(group.read_vertices((0, 0, 0)), POSITIONS[:1])
    found = zarr.open_array(local, path="0/vertices/0.0.0", mode="r")
    assert np.asarray(found[...]).tobytes() == POSITIONS[:1].tobytes()


def test_a_missing_payload() -> None:
    with pytest.raises(MissingChunkError) as error:
        foreign_group(level=1).read_bytes("groups", "data")
    assert place(error) == (1, "groups", "data")


def test_codecs_that_can_not_be_written() -> None:
    group = foreign_group()
    with pytest.raises(EncodeError, match="can't write with the codecs bytes, nonsense") as error:
        group.put_payloads("vertices", [], [{"name": "bytes"}, {"name": "nonsense"}])
    assert place(error) == (0, "vertices", None)
    with pytest.raises(EncodeError, match="declare no codecs") as error:
        group.write_payloads("vertices", ArrayMetadata(zv_array="vertices"), [])
    assert place(error) == (0, "vertices", None)


def test_data_are_put_before_the_documents_that_promise_them() -> None:
    storage = CountingStorage(ZarrStorage(MemoryStore()))
    group = FsGroup(storage, ROOT, zv.LevelMetadata(level=0), complete=True)
    payloads = [(key, POSITIONS) for key in ("0.0.0", "0.0.1")]
    group.write_payloads("vertices", chunked_meta("vertices", "float32", ndim=2), payloads)
    assert storage.puts == [
        *(f"0/vertices/{key}/c.0.0" for key in ("0.0.0", "0.0.1")),
        *(f"0/vertices/{key}/zarr.json" for key in ("0.0.0", "0.0.1")),
        "0/vertices/zarr.json",
    ]


# -- vertices


def test_a_dtype_that_nobody_declares() -> None:
    group = foreign_group()
    group.arrays["vertices"] = ArrayMetadata(zv_array="vertices")
    zarr_array(group, "vertices/0.0.0", POSITIONS)
    with pytest.raises(DecodeError, match="do not say its dtype") as error:
        group.read_vertices((0, 0, 0))
    assert place(error) == (0, "vertices", "0.0.0")


def test_rows_that_are_cut_short() -> None:
    group = foreign_group()
    zarr_array(group, "vertices/0.0.0", np.ones(13, "u1"))
    with pytest.raises(DecodeError, match="13 bytes are not whole rows of 12 bytes") as error:
        group.read_vertices((0, 0, 0))
    assert place(error) == (0, "vertices", "0.0.0")


def test_draco_has_three_axes(golden: Callable[[str], Path]) -> None:
    group = zv.open(golden("mesh_draco") / "store.zv")[0].group
    flat = zv.RootMetadata(chunk_shape=(10, 10), bounds=((0, 0), (10, 10)), geometry_types=("mesh",))
    flat_group = FsGroup(group.storage, flat, group.metadata)
    payload = group.read_payload("vertices", "0.0.0")
    with pytest.raises(DecodeError, match="in a store of 2 axes"):
        flat_group.decode_vertices(payload)


@pytest.mark.parametrize(
    "compressor", ["default", None, "blosc", "lz4", "zstd", "gzip", {"name": "zstd"}, {"links": None}]
)
@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("byte_arrays", [True, False])
def test_every_option_reads_equal(
    write_everything: WriteEverything, compressor: Any, checksum: bool, byte_arrays: bool
) -> None:
    options = WriteOptions(compressor, checksum=checksum, byte_arrays=byte_arrays)
    plain, chosen = MemoryStore(), MemoryStore()
    write_everything(plain)
    write_everything(chosen, options=options)
    expected, found = zv.open(plain)[0].group, zv.open(chosen)[0].group
    assert sorted(found.arrays) == sorted(expected.arrays)
    for path in expected.arrays:
        nodes = [name for name in expected.storage.list_dir(f"0/{path}") if name not in ("zarr.json", "manifests")]
        assert nodes or path == "object_index"
        for node in nodes:
            assert found.read_bytes(path, node) == expected.read_bytes(path, node), (path, node)
    shape = zarr.open_array(chosen, path="0/vertices/0.0.0", mode="r").shape
    assert shape == ((60,) if byte_arrays else (5, 3))
