import gzip
import struct
from typing import Any

import google_crc32c
import numpy as np
import pytest
import zarr

from zarr_vectors.encoding.codecs import CodecChain, zstd_content_size
from zarr_vectors.encoding.rows import ROW_DTYPES
from zarr_vectors.exceptions import DecodeError, EncodeError
from zarr_vectors.typing import JSON

BLOSC: dict[str, JSON] = {
    "name": "blosc",
    "configuration": {"typesize": 4, "cname": "lz4", "clevel": 5, "shuffle": "shuffle", "blocksize": 0},
}
ZSTD: dict[str, JSON] = {"name": "zstd", "configuration": {"level": 3, "checksum": True}}
GZIP: dict[str, JSON] = {"name": "gzip", "configuration": {"level": 5}}
CRC: dict[str, JSON] = {"name": "crc32c"}
PIPELINES: dict[str, list[dict[str, JSON]]] = {
    "raw": [],
    "blosc": [BLOSC],
    "zstd": [ZSTD],
    "gzip": [GZIP],
    "crc32c": [CRC],
    "blosc and crc32c": [BLOSC, CRC],
    "crc32c and gzip": [CRC, GZIP],
}


def chain_of(*codecs: dict[str, JSON], endian: str = "little") -> CodecChain:
    chain = CodecChain.parse([{"name": "bytes", "configuration": {"endian": endian}}, *codecs])
    assert chain is not None
    return chain


def caught_by(codec: dict[str, JSON], stored: bytes, **options: Any) -> tuple[str, int | None]:
    with pytest.raises(DecodeError) as caught:
        chain_of(codec).decode(stored, **options)
    return caught.value.rule, caught.value.offset


# ---------------------------------------------------------------- parsing


@pytest.mark.parametrize(
    "codecs",
    [
        [],
        [{"name": "transpose"}, {"name": "bytes"}],
        [{"name": "bytes"}, {"name": "sharding_indexed"}],
        [{"name": "bytes"}, {"configuration": {}}],
        [{"name": "bytes"}, {"name": "blosc", "configuration": {"shuffle": "sideways"}}],
        [{"name": "bytes"}, {"name": "blosc", "configuration": {"shuffle": ["shuffle"]}}],
        [{"name": "bytes"}, {"name": "blosc", "configuration": {"clevel": "5"}}],
        [{"name": "bytes"}, {"name": "blosc", "configuration": {"blocksize": None}}],
        [{"name": "bytes"}, {"name": "blosc", "configuration": {"typesize": 1.5}}],
        [{"name": "bytes"}, {"name": "zstd", "configuration": {"level": "high"}}],
        [{"name": "bytes"}, {"name": "gzip", "configuration": {"level": None}}],
    ],
    ids=repr,
)
def test_other_pipelines_are_left_to_zarr(codecs: list[dict[str, JSON]]) -> None:
    assert CodecChain.parse(codecs) is None


def test_serializer_is_kept() -> None:
    chain = CodecChain.parse([{"name": "vlen-bytes"}, {"name": "zstd", "configuration": "not a mapping"}])
    assert chain is not None
    assert (chain.serializer, chain.big_endian, len(chain.steps)) == ("vlen-bytes", False, 1)


# ---------------------------------------------------------------- there and back


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("dtype", ROW_DTYPES)
@pytest.mark.parametrize("rows", [0, 1, 7])
def test_arrays_of_every_dtype_come_back(name: str, dtype: str, rows: int) -> None:
    array = np.arange(3 * rows).reshape(rows, 3).astype(dtype)
    chain = chain_of(*PIPELINES[name])
    stored = chain.encode(array)
    assert stored == chain.encode(array.tobytes()) == chain.encode(memoryview(array.tobytes()))
    assert chain.decode(stored, expected=array.nbytes).tobytes() == array.tobytes()


@pytest.mark.parametrize("name", PIPELINES)
def test_arrays_are_stored_in_c_order(name: str) -> None:
    array = np.arange(12, dtype="<i4").reshape(3, 4)
    chain = chain_of(*PIPELINES[name])
    assert chain.encode(np.asfortranarray(array)) == chain.encode(array)
    assert chain.encode(np.repeat(array, 2, axis=1)[:, ::2]) == chain.encode(array)


@pytest.mark.parametrize("size", [1, 3, 4, 21])
def test_blosc_takes_bytes_that_are_not_whole_items(size: int) -> None:
    chain = chain_of(BLOSC)
    assert chain.decode(chain.encode(bytes(range(size)))).tobytes() == bytes(range(size))


@pytest.mark.parametrize("compressors", [None, BLOSC, ZSTD, GZIP])
@pytest.mark.parametrize("endian", ["little", "big"])
def test_chunks_written_by_zarr_are_read(compressors: Any, endian: str) -> None:
    array = np.arange(24, dtype="<f4").reshape(8, 3)
    store = zarr.storage.MemoryStore()
    written = zarr.create_array(
        store,
        shape=array.shape,
        chunks=array.shape,
        dtype="float32",
        serializer={"name": "bytes", "configuration": {"endian": endian}},
        compressors=compressors,
    )
    written[:] = array
    chain = CodecChain.parse(written.metadata.to_dict()["codecs"])  # type: ignore[arg-type]
    assert chain is not None
    stored = store._store_dict["c/0/0"].to_bytes()
    assert chain.decode(stored, expected=array.nbytes, itemsize=4).tobytes() == array.tobytes()


@pytest.mark.parametrize("compressors", [None, BLOSC, ZSTD, GZIP])
def test_chunks_are_written_as_zarr_reads_them(compressors: Any) -> None:
    array = np.arange(24, dtype="<f4").reshape(8, 3)
    store = zarr.storage.MemoryStore()
    written = zarr.create_array(
        store, shape=array.shape, chunks=array.shape, dtype="float32", compressors=compressors, fill_value=-1
    )
    written[:] = 0
    chain = chain_of(*([] if compressors is None else [compressors]))
    buffer = type(store._store_dict["c/0/0"])
    store._store_dict["c/0/0"] = buffer.from_bytes(chain.encode(array))
    np.testing.assert_array_equal(written[:], array)


# ---------------------------------------------------------------- byte order


def test_big_endian_payloads_are_swapped() -> None:
    assert chain_of(endian="big").decode(b"\0\1\0\2", itemsize=2).tobytes() == b"\1\0\2\0"
    assert chain_of(endian="big").decode(b"\0\1", itemsize=1).tobytes() == b"\0\1"


def test_big_endian_payloads_must_be_whole_items() -> None:
    with pytest.raises(DecodeError) as caught:
        chain_of(endian="big").decode(b"\0\1\0", itemsize=2)
    assert (caught.value.rule, caught.value.offset) == ("item-size", None)


def test_big_endian_payloads_are_not_written() -> None:
    with pytest.raises(EncodeError) as caught:
        chain_of(endian="big").encode(b"\0\1")
    assert caught.value.rule == "endian"


# ---------------------------------------------------------------- sizes


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("expected", [0, 99, 101])
def test_another_size_than_declared_is_an_error(name: str, expected: int) -> None:
    chain = chain_of(*PIPELINES[name])
    with pytest.raises(DecodeError) as caught:
        chain.decode(chain.encode(bytes(100)), expected=expected)
    assert (caught.value.rule, caught.value.offset) == ("payload-size", None)


@pytest.mark.parametrize("codec", [BLOSC, ZSTD, GZIP])
def test_more_than_the_limit_is_not_unpacked(codec: dict[str, JSON]) -> None:
    stored = chain_of(codec).encode(bytes(10_000))
    assert chain_of(codec).decode(stored, limit=10_000).nbytes == 10_000
    assert caught_by(codec, stored, limit=9_999) == ("limit", None)


# ---------------------------------------------------------------- damage


def test_blosc_rejects_short_header() -> None:
    assert caught_by(BLOSC, bytes(15)) == ("blosc", 0)


def test_blosc_rejects_wrong_packed_size() -> None:
    stored = chain_of(BLOSC).encode(bytes(100))
    assert caught_by(BLOSC, stored + b"\0") == ("blosc", 12)
    assert caught_by(BLOSC, stored[:-1]) == ("blosc", 12)


def test_blosc_rejects_damaged_header() -> None:
    stored = bytearray(chain_of(BLOSC).encode(bytes(100)))
    stored[0] = 99
    assert caught_by(BLOSC, bytes(stored)) == ("blosc", None)


def test_zstd_rejects_other_bytes() -> None:
    assert caught_by(ZSTD, b"") == ("zstd", 0)
    assert caught_by(ZSTD, bytes(20)) == ("zstd", 0)


def test_zstd_rejects_cut_frames() -> None:
    stored = chain_of(ZSTD).encode(bytes(100_000))
    assert caught_by(ZSTD, stored[:6]) == ("zstd", 4)
    assert caught_by(ZSTD, stored[:-1]) == ("zstd", None)


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 65_791, 65_792, 100_000])
def test_zstd_content_size_is_read(size: int) -> None:
    assert zstd_content_size(chain_of(ZSTD).encode(bytes(size))) == size


def test_zstd_content_size_of_eight_bytes() -> None:
    frame = struct.pack("<IBQ", 0xFD2F_B528, 0b1110_0000, 2**40)
    assert zstd_content_size(frame) == 2**40
    assert caught_by(ZSTD, frame) == ("limit", None)


def test_zstd_content_size_after_a_dictionary_id() -> None:
    assert zstd_content_size(struct.pack("<IBIB", 0xFD2F_B528, 0b0010_0011, 7, 9)) == 9


def test_zstd_frame_without_content_size_needs_the_declared_one() -> None:
    frame = struct.pack("<IBB", 0xFD2F_B528, 0, 0x58) + (5 << 3 | 1).to_bytes(3, "little") + b"hello"
    assert zstd_content_size(frame) is None
    assert chain_of(ZSTD).decode(frame, expected=5).tobytes() == b"hello"
    assert caught_by(ZSTD, frame) == ("zstd", None)
    assert caught_by(ZSTD, frame, expected=4) == ("zstd", None)
    assert caught_by(ZSTD, frame, expected=6) == ("zstd", None)


def test_gzip_is_read_and_written_as_others_do() -> None:
    assert chain_of(GZIP).decode(gzip.compress(b"hello")).tobytes() == b"hello"
    assert gzip.decompress(chain_of(GZIP).encode(b"hello")) == b"hello"


def test_gzip_rejects_damage() -> None:
    stored = chain_of(GZIP).encode(b"hello")
    assert caught_by(GZIP, b"hello") == ("gzip", None)
    assert caught_by(GZIP, stored[:-1]) == ("gzip", None)
    assert caught_by(GZIP, stored + b"\0") == ("gzip", None)
    assert caught_by(GZIP, b"") == ("gzip", None)


def test_checksum_is_that_of_zarr() -> None:
    assert chain_of(CRC).encode(b"hello") == b"hello" + google_crc32c.value(b"hello").to_bytes(4, "little")


def test_checksum_rejects_a_flipped_bit() -> None:
    assert caught_by(CRC, b"hellp" + chain_of(CRC).encode(b"hello")[5:]) == ("checksum", 5)


def test_checksum_rejects_short_bytes() -> None:
    assert caught_by(CRC, b"abc") == ("checksum", 0)
