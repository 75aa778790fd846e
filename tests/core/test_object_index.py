import itertools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.dtype import VariableLengthBytes
from zarr.storage import MemoryStore

import zarr_vectors as zv
from zarr_vectors.core import object_index
from zarr_vectors.core.counting import CountingStorage
from zarr_vectors.core.group import FsGroup
from zarr_vectors.core.metadata import ArrayMetadata
from zarr_vectors.core.object_index import (
    count_objects,
    read_all_object_manifests,
    read_manifests,
    read_object_manifest,
    write_object_manifests,
)
from zarr_vectors.core.storage import ZarrStorage
from zarr_vectors.encoding.fragments import encode_fragments
from zarr_vectors.encoding.manifests import ManifestTable, encode_manifests, manifest_table
from zarr_vectors.exceptions import (
    DecodeError,
    EncodeError,
    InputError,
    MissingArrayError,
    MissingChunkError,
    ObjectNotFoundError,
    ZarrVectorsError,
)


def make_group(*, convention: Any = "standard", level: int = 2) -> FsGroup:
    root = zv.RootMetadata(
        chunk_shape=(10, 10),
        bounds=((0, 0), (1, 1)),
        geometry_types=("polyline",),
        object_index_convention=convention,
    )
    return FsGroup(CountingStorage(ZarrStorage(MemoryStore())), root, zv.LevelMetadata(level=level), complete=True)


def make_table(count: int = 40) -> ManifestTable:
    """Return manifests of 0, 1, 2, 0, 1, 2, … blocks, of one to three fragments."""
    blocks = np.arange(count) % 3
    sizes = 1 + np.arange(blocks.sum()) % 3
    return manifest_table(
        np.r_[0, np.cumsum(blocks)],
        np.arange(2 * blocks.sum()).reshape(-1, 2) - 5,
        np.r_[0, np.cumsum(sizes)],
        np.arange(sizes.sum()) ** 2 % 11,
    )


def assert_same(found: ManifestTable, expected: ManifestTable) -> None:
    assert encode_manifests(found)[0] == encode_manifests(expected)[0]
    assert found.object_offsets.tolist() == expected.object_offsets.tolist()


def place(error: pytest.ExceptionInfo[ZarrVectorsError]) -> tuple[object, ...]:
    found = error.value
    return tuple(part for part in (found.level, found.array, found.chunk, found.object_id) if part is not None)


def as_stream(group: FsGroup, table: ManifestTable, *, offsets: bool, tail: bytes = b"") -> None:
    """Store manifests as older versions did: one stream, with or without offsets."""
    data, starts = encode_manifests(table)
    group.write_bytes("object_index", "data", data + tail)
    if offsets:
        group.write_bytes("object_index", "offsets", starts[:-1].astype("<i8").tobytes())
    meta = ArrayMetadata(zv_array="object_index", num_objects=table.num_objects, sid_ndim=2)
    group.write_array_meta("object_index", meta)


def as_foreign(group: FsGroup, table: ManifestTable, **options: Any) -> None:
    """Store manifests with zarr itself."""
    data, offsets = encode_manifests(table)
    blobs = np.array([data[a:b] for a, b in itertools.pairwise(offsets)], dtype=object)
    path = f"{group.level}/object_index/manifests"
    dtype = VariableLengthBytes()
    array = zarr.create_array(group.storage.zarr_store(), name=path, shape=blobs.shape, dtype=dtype, **options)
    array[:] = blobs
    meta = ArrayMetadata(zv_array="object_index", num_objects=table.num_objects, sid_ndim=2, layout="vlen_manifests_v1")
    group.arrays["object_index"] = meta


@pytest.fixture(params=["ours", "offsets", "stream", "zeros behind", "zarr", "zarr chunks", "zarr shards"])
def stored(request: pytest.FixtureRequest) -> FsGroup:
    group, table = make_group(), make_table()
    match request.param:
        case "ours":
            write_object_manifests(group, table)
        case "offsets":
            as_stream(group, table, offsets=True)
        case "stream":
            as_stream(group, table, offsets=False)
        case "zeros behind":
            as_stream(group, table, offsets=True, tail=bytes(5))
        case "zarr":
            as_foreign(group, table)
        case "zarr chunks":
            as_foreign(group, table, chunks=(7,))
        case _:
            as_foreign(group, table, chunks=(5,), shards=(20,))
    return group


def test_manifests_read_as_they_were_written(stored: FsGroup) -> None:
    table = make_table()
    assert count_objects(stored) == 40
    assert_same(read_all_object_manifests(stored), table)
    ids = [5, 39, 0, 5]
    assert_same(read_manifests(stored, ids), table.take(np.array(ids)))
    assert read_object_manifest(stored, 0) == []
    for object_id in (1, 2, 38):
        assert repr(read_object_manifest(stored, object_id)) == repr(table.blocks(object_id))
    assert read_manifests(stored, []).num_objects == 0


@pytest.mark.parametrize("object_id", [-1, 40, 2**40])
def test_objects_that_are_not_there(stored: FsGroup, object_id: int) -> None:
    with pytest.raises(ObjectNotFoundError, match="there is no such object: ids go from 0 to 39") as error:
        read_manifests(stored, [3, object_id])
    assert place(error) == (2, object_id)


def test_object_ids_are_whole_numbers() -> None:
    group = make_group()
    write_object_manifests(group, make_table())
    with pytest.raises(InputError, match="object ids are integers, not float64"):
        read_manifests(group, [1.5])  # type: ignore[list-item]


def test_a_level_without_objects() -> None:
    group = make_group()
    assert count_objects(group) == 0
    with pytest.raises(MissingArrayError) as error:
        read_all_object_manifests(group)
    assert place(error) == (2, "object_index")


@pytest.mark.parametrize("layout", ["ours", "offsets", "stream", "nothing"])
def test_an_index_of_no_objects(layout: str) -> None:
    group, table = make_group(), make_table(0)
    if layout == "ours":
        write_object_manifests(group, table)
    elif layout == "nothing":
        group.arrays["object_index"] = ArrayMetadata(zv_array="object_index", num_objects=0)
    else:
        as_stream(group, table, offsets=layout == "offsets")
    found = read_all_object_manifests(group)
    assert (found.num_objects, found.num_blocks, found.chunk_coords.shape[1]) == (0, 0, 2)
    with pytest.raises(ObjectNotFoundError, match="the level has none"):
        read_object_manifest(group, 0)


def test_one_object_is_one_request_and_one_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_index, "MAX_MANIFESTS_PER_CHUNK", 8)
    group = make_group()
    write_object_manifests(group, make_table())
    storage = group.storage
    assert isinstance(storage, CountingStorage)
    chunks = [f"2/object_index/manifests/c.{number}" for number in range(5)]
    assert storage.puts == [*chunks, "2/object_index/manifests/zarr.json", "2/object_index/zarr.json"]
    storage.reset()
    read_object_manifest(group, 17)
    assert storage.gets == ["2/object_index/manifests/c.2"]
    storage.reset()
    assert_same(read_manifests(group, [1, 39, 2]), make_table().take(np.array([1, 39, 2])))
    assert (storage.batches, storage.gets) == (1, [chunks[0], chunks[4]])


def test_chunks_are_bounded_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_index, "MANIFEST_CHUNK_BYTES", 1000)
    group = make_group()
    write_object_manifests(group, make_table(200))
    (index,) = (group.arrays["object_index"],)
    assert index.manifests_per_chunk == 16
    assert_same(read_all_object_manifests(group), make_table(200))


@pytest.mark.parametrize("compressor", ["default", None, "gzip", "zstd", {"object_index": "lz4"}])
@pytest.mark.parametrize("checksum", [True, False])
def test_options(compressor: Any, checksum: bool) -> None:
    group = make_group()
    write_object_manifests(group, make_table(), compressor=compressor, checksum=checksum)
    assert_same(read_all_object_manifests(group), make_table())


def test_codecs_that_can_not_be_written() -> None:
    with pytest.raises(EncodeError, match="codecs vlen-bytes, nonsense, crc32c") as error:
        write_object_manifests(make_group(), make_table(), compressor={"name": "nonsense"})
    assert place(error) == (2, "object_index")


def test_chunks_of_another_rank() -> None:
    table = manifest_table(np.array([0, 1]), np.zeros((1, 3), np.int64), np.array([0, 1]), np.array([0]))
    with pytest.raises(EncodeError, match="in a store of 2 axes") as error:
        write_object_manifests(make_group(), table)
    assert place(error) == (2, "object_index")


# -- damage


def edit(group: FsGroup, change: Callable[[dict[str, Any]], object]) -> None:
    key = f"{group.level}/object_index/manifests/zarr.json"
    (raw,) = group.storage.get_many([key])
    parsed = json.loads(bytes(raw or b""))
    change(parsed)
    group.storage.put_many([(key, json.dumps(parsed).encode())])


def test_a_missing_chunk_of_manifests() -> None:
    group = make_group()
    write_object_manifests(group, make_table())
    group.storage.delete_many(["2/object_index/manifests/c.0"])
    with pytest.raises(MissingChunkError, match="promised and not there") as error:
        read_object_manifest(group, 1)
    assert place(error) == (2, "object_index/manifests", "0")


def test_a_missing_array_of_manifests() -> None:
    group = make_group()
    meta = ArrayMetadata(zv_array="object_index", num_objects=1, layout="vlen_manifests_v1")
    group.arrays["object_index"] = meta
    with pytest.raises(MissingArrayError, match="the layout promises this array") as error:
        read_all_object_manifests(group)
    assert place(error) == (2, "object_index/manifests")


def test_too_few_manifests_in_a_chunk() -> None:
    group = make_group()
    write_object_manifests(group, make_table())
    group.arrays["object_index"] = group.arrays["object_index"].model_copy(update={"num_objects": 2**14 + 1})
    edit(group, lambda node: node.update(shape=[2**14 + 1]))
    other = make_group()
    write_object_manifests(other, make_table(3))
    (chunk,) = other.storage.get_many(["2/object_index/manifests/c.0"])
    assert chunk is not None
    per_chunk = other.arrays["object_index"].manifests_per_chunk
    group.arrays["object_index"] = group.arrays["object_index"].model_copy(update={"manifests_per_chunk": 10**6})
    group.storage.put_many([("2/object_index/manifests/c.0", chunk)])
    with pytest.raises(DecodeError, match=f"the chunk holds {per_chunk} manifests, 16385 belong there") as error:
        read_object_manifest(group, 1)
    assert place(error) == (2, "object_index/manifests", "0")


def test_a_flipped_bit() -> None:
    group = make_group()
    write_object_manifests(group, make_table())
    key = "2/object_index/manifests/c.0"
    (raw,) = group.storage.get_many([key])
    assert raw is not None
    broken = bytearray(raw)
    broken[30] ^= 4
    group.storage.put_many([(key, broken)])
    with pytest.raises(DecodeError, match="the bytes have changed") as error:
        read_object_manifest(group, 1)
    assert place(error) == (2, "object_index/manifests", "0")


@pytest.mark.parametrize(
    "change",
    [lambda node: node.update(data_type="uint8"), lambda node: node.update(shape=[39])],
    ids=["numbers", "count"],
)
def test_manifests_of_another_kind(change: Callable[[dict[str, Any]], object]) -> None:
    group = make_group()
    as_foreign(group, make_table())
    edit(group, change)
    with pytest.raises(DecodeError, match="not 40 variable-length blobs") as error:
        read_all_object_manifests(group)
    assert error.value.rule == "manifests"
    assert place(error) == (2, "object_index/manifests")


def test_manifests_that_not_even_zarr_can_read() -> None:
    group = make_group()
    as_foreign(group, make_table())
    edit(group, lambda node: node["codecs"].append({"name": "nonsense"}))
    with pytest.raises(DecodeError, match="zarr can't read the array") as error:
        read_all_object_manifests(group)
    assert place(error) == (2, "object_index/manifests")


def test_a_broken_manifest_is_named_by_its_object() -> None:
    group, table = make_group(), make_table()
    data, offsets = encode_manifests(table)
    broken = bytearray(data)
    broken[offsets[5] + 4 + 16] = 9
    group.write_bytes("object_index", "data", broken)
    group.write_bytes("object_index", "offsets", offsets[:-1].astype("<i8").tobytes())
    group.arrays["object_index"] = ArrayMetadata(zv_array="object_index", num_objects=40)
    with pytest.raises(DecodeError) as error:
        read_object_manifest(group, 5)
    assert (error.value.level, error.value.array, error.value.object_id) == (2, "object_index", 5)

    blobs = np.array([bytes(broken[a:b]) for a, b in itertools.pairwise(offsets)], dtype=object)
    dtype = VariableLengthBytes()
    array = zarr.create_array(
        group.storage.zarr_store(), name="2/object_index/manifests", shape=(40,), chunks=(40,), dtype=dtype
    )
    array[:] = blobs
    group.arrays["object_index"] = ArrayMetadata(zv_array="object_index", num_objects=40, layout="vlen_manifests_v1")
    with pytest.raises(DecodeError) as error:
        read_manifests(group, [1, 2, 5])
    assert (error.value.level, error.value.array, error.value.object_id) == (2, "object_index/manifests", 5)


@pytest.mark.parametrize(
    ("fields", "rule"),
    [({"num_objects": None}, "num-objects"), ({"layout": "columns_v9"}, "layout"), ({"sid_ndim": 3}, "sid-ndim")],
)
def test_metadata_that_do_not_say_enough(fields: dict[str, Any], rule: str) -> None:
    group = make_group()
    as_stream(group, make_table(), offsets=True)
    group.arrays["object_index"] = group.arrays["object_index"].model_copy(update=fields)
    with pytest.raises(DecodeError) as error:
        read_all_object_manifests(group)
    assert error.value.rule == rule
    assert place(error) == (2, "object_index")


def test_a_stream_that_is_promised() -> None:
    group = make_group()
    group.arrays["object_index"] = ArrayMetadata(zv_array="object_index", num_objects=1)
    with pytest.raises(MissingChunkError, match="neither manifests nor data are there") as error:
        read_all_object_manifests(group)
    assert place(error) == (2, "object_index")


@pytest.mark.parametrize(
    ("offsets", "rule"),
    [([0], "offset-count"), ([4] * 40, "offsets"), ([0, 8, 4] + [8] * 37, "offsets"), ([0] * 39 + [10**6], "offsets")],
)
def test_offsets_that_break_the_rules(offsets: list[int], rule: str) -> None:
    group = make_group()
    as_stream(group, make_table(), offsets=False)
    group.write_bytes("object_index", "offsets", np.array(offsets, dtype="<i8").tobytes())
    with pytest.raises(DecodeError) as error:
        read_all_object_manifests(group)
    assert error.value.rule == rule
    assert place(error) == (2, "object_index")


@pytest.mark.parametrize("offsets", [True, False])
def test_bytes_behind_the_last_manifest(offsets: bool) -> None:
    group = make_group()
    as_stream(group, make_table(), offsets=offsets, tail=b"\0\1")
    with pytest.raises(DecodeError, match="bytes follow the last manifest") as error:
        read_all_object_manifests(group)
    assert place(error) == (2, "object_index")


# -- the identity convention


def identity_group(*chunks: str) -> FsGroup:
    group = make_group(convention="identity")
    for chunk in chunks:
        group.write_bytes("vertices", chunk, b"x")
        group.write_bytes("vertex_fragments", chunk, encode_fragments([(0, 1), [2, 1], (0, 0)]))
    return group


def test_identity_objects_are_fragments() -> None:
    group = identity_group("-1.4")
    assert count_objects(group) == 3
    assert read_object_manifest(group, 1) == [((-1, 4), 1)]
    assert_same(read_manifests(group, [2, 0]), read_all_object_manifests(group).take(np.array([2, 0])))
    with pytest.raises(ObjectNotFoundError):
        read_object_manifest(group, 3)


def test_identity_without_a_chunk() -> None:
    assert count_objects(identity_group()) == 0


def test_identity_needs_one_chunk() -> None:
    with pytest.raises(DecodeError, match="needs one chunk, 2 are there") as error:
        read_all_object_manifests(identity_group("0.0", "0.1"))
    assert place(error) == (2, "vertices")


def test_identity_with_broken_fragments() -> None:
    group = identity_group("0.0")
    group.write_bytes("vertex_fragments", "0.0", b"nonsense")
    with pytest.raises(DecodeError) as error:
        count_objects(group)
    assert place(error) == (2, "vertex_fragments", "0.0")
