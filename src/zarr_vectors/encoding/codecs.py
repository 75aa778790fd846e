"""Zarr v3 codec pipelines over bytes: bytes or vlen-bytes, then blosc, zstd, gzip and crc32c.

The common pipelines go straight to the codec libraries. `CodecChain.parse` returns ``None`` for
any other, which is then for Zarr's own pipeline to run.

>>> chain = CodecChain.parse([{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}])
>>> chain.decode(chain.encode(b"abcd")).tobytes()
b'abcd'
"""

import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

import google_crc32c
import numpy as np
from numcodecs import blosc, zstd

from zarr_vectors.exceptions import DecodeError, EncodeError
from zarr_vectors.typing import JSON, AnyArray, Buffer, ByteArray

MAX_PAYLOAD_BYTES: Final = 2**31
"""Most bytes that one payload may unpack to unless the caller asks for more."""

_SHUFFLES: Final = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}
_BLOSC_HEADER: Final = struct.Struct("<BBBBIII")
_ZSTD_MAGIC: Final = 0xFD2F_B528
_ZSTD_SHORTEST_HEADER: Final = 6
_ZSTD_LONGEST_HEADER: Final = 18
_ZSTD_FIELD_BASES: Final = (0, 256, 0, 0)
_CRC_SIZE: Final = 4

Encode = Callable[["Buffer | AnyArray"], bytes]
Decode = Callable[[Buffer, int | None, int], Buffer]


@dataclass(frozen=True, slots=True)
class CodecChain:
    """A parsed pipeline: how payload bytes become stored bytes and the reverse."""

    serializer: str
    """``bytes`` or ``vlen-bytes``."""
    big_endian: bool
    steps: tuple[tuple[Encode, Decode], ...]

    @classmethod
    def parse(cls, codecs: Sequence[Mapping[str, JSON]]) -> Self | None:
        """Return the chain, or ``None`` when one of the codecs is not among the common ones."""
        if not codecs or codecs[0].get("name") not in ("bytes", "vlen-bytes"):
            return None
        steps = []
        for codec in codecs[1:]:
            make = _STEPS.get(str(codec.get("name")))
            step = None if make is None else make(_configuration(codec))
            if step is None:
                return None
            steps.append(step)
        big_endian = _configuration(codecs[0]).get("endian") == "big"
        return cls(str(codecs[0]["name"]), big_endian, tuple(steps))

    def encode(self, payload: Buffer | AnyArray) -> bytes:
        """Return the stored bytes of a payload that is in the serializer's byte order already."""
        if self.big_endian:
            raise EncodeError("payloads are written little-endian", rule="endian")
        data: Buffer | AnyArray = payload
        for encode, _ in self.steps:
            data = encode(data)
        return data if isinstance(data, bytes) else _flat(data).tobytes()

    def decode(
        self, stored: Buffer, *, expected: int | None = None, itemsize: int = 1, limit: int = MAX_PAYLOAD_BYTES
    ) -> ByteArray:
        """Return the payload as little-endian bytes.

        Parameters
        ----------
        stored
            The bytes of the Zarr chunk.
        expected
            How many bytes it must unpack to, where the metadata tell.
        itemsize
            Bytes of an item, to swap if the chunk was stored big-endian.
        limit
            Most bytes to unpack to; checked against what the codec's own header declares.
        """
        data: Buffer = stored
        for position in range(len(self.steps) - 1, -1, -1):
            data = self.steps[position][1](data, expected if position == 0 else None, limit)
        payload: ByteArray = np.frombuffer(data, dtype=np.uint8)
        if expected is not None and len(payload) != expected:
            raise DecodeError(f"the payload is {len(payload)} bytes, {expected} are declared", rule="payload-size")
        if self.big_endian and itemsize > 1:
            if len(payload) % itemsize:
                raise DecodeError(f"{len(payload)} bytes are not items of {itemsize} bytes", rule="item-size")
            payload = payload.reshape(-1, itemsize)[:, ::-1].reshape(-1)
        return payload


def _flat(data: Buffer | AnyArray) -> ByteArray:
    """Return the data as bytes in C order, whatever the shape and dtype of an array."""
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    return np.frombuffer(data, dtype=np.uint8)


def _configuration(codec: Mapping[str, JSON]) -> Mapping[str, JSON]:
    configuration = codec.get("configuration")
    return configuration if isinstance(configuration, Mapping) else {}


def _blosc_step(configuration: Mapping[str, JSON]) -> tuple[Encode, Decode] | None:
    shuffle = str(configuration.get("shuffle", "noshuffle"))
    cname = str(configuration.get("cname", "zstd"))
    clevel, blocksize = configuration.get("clevel", 5), configuration.get("blocksize", 0)
    typesize = configuration.get("typesize", 1)
    if shuffle not in _SHUFFLES or not isinstance(typesize, int):
        return None
    if not isinstance(clevel, int) or not isinstance(blocksize, int):
        return None

    def encode(data: Buffer | AnyArray) -> bytes:
        items = _items(data, typesize)
        packed: bytes = blosc.compress(items, cname.encode(), clevel, _SHUFFLES[shuffle], blocksize)
        return packed

    return encode, _decode_blosc


def _items(data: Buffer | AnyArray, typesize: int) -> AnyArray:
    """Return the data as items of ``typesize`` bytes, which is what the shuffle works on."""
    raw = _flat(data)
    return raw.view(f"V{typesize}") if typesize > 1 and len(raw) % typesize == 0 else raw


def _decode_blosc(data: Buffer, expected: int | None, limit: int) -> Buffer:
    size = memoryview(data).nbytes
    if size < _BLOSC_HEADER.size:
        raise DecodeError(f"a blosc payload has a header of 16 bytes, {size} are there", rule="blosc", offset=0)
    declared, _, packed = _BLOSC_HEADER.unpack_from(data)[4:]
    if packed != size:
        raise DecodeError(f"blosc declares {packed} packed bytes, {size} are there", rule="blosc", offset=12)
    _check_size(declared, expected, limit)
    out = np.empty(declared, dtype=np.uint8)
    try:
        if declared:
            blosc.decompress(data, out)
    except (RuntimeError, ValueError) as error:
        raise DecodeError(f"blosc can't unpack the payload: {error}", rule="blosc") from error
    return out.data


def _zstd_step(configuration: Mapping[str, JSON]) -> tuple[Encode, Decode] | None:
    level, checksum = configuration.get("level", 0), bool(configuration.get("checksum", False))
    if not isinstance(level, int):
        return None

    def encode(data: Buffer | AnyArray) -> bytes:
        packed: bytes = zstd.compress(_flat(data), level, checksum)
        return packed

    return encode, _decode_zstd


def _decode_zstd(data: Buffer, expected: int | None, limit: int) -> Buffer:
    declared = zstd_content_size(data)
    size = expected if declared is None else declared
    if size is None:
        raise DecodeError("the zstd frame does not say how much it unpacks to, nor do the metadata", rule="zstd")
    _check_size(size, expected, limit)
    out = np.empty(size, dtype=np.uint8)
    try:
        if size:
            zstd.decompress(data, out)
    except (RuntimeError, ValueError) as error:
        raise DecodeError(f"zstd can't unpack the payload: {error}", rule="zstd") from error
    return out.data


def zstd_content_size(data: Buffer) -> int | None:
    """Return the size that a Zstd frame header declares, ``None`` when it leaves it out (RFC 8878, 3.1.1.1)."""
    raw = bytes(memoryview(data)[:_ZSTD_LONGEST_HEADER])
    if len(raw) < _ZSTD_SHORTEST_HEADER or struct.unpack_from("<I", raw)[0] != _ZSTD_MAGIC:
        raise DecodeError("not a zstd frame", rule="zstd", offset=0)
    descriptor = raw[4]
    single_segment = bool(descriptor & 0x20)
    field_size = (int(single_segment), 2, 4, 8)[descriptor >> 6]
    if field_size == 0:
        return None
    start = 5 + (0 if single_segment else 1) + (0, 1, 2, 4)[descriptor & 3]
    field = raw[start : start + field_size]
    if len(field) < field_size:
        raise DecodeError("the zstd frame header is cut short", rule="zstd", offset=4)
    # A field of two bytes counts from where one byte ends.
    return int.from_bytes(field, "little") + _ZSTD_FIELD_BASES[descriptor >> 6]


def _gzip_step(configuration: Mapping[str, JSON]) -> tuple[Encode, Decode] | None:
    level = configuration.get("level", 5)
    if not isinstance(level, int):
        return None

    def encode(data: Buffer | AnyArray) -> bytes:
        # wbits 31 is gzip framing with a zero time stamp: the same input gives the same bytes.
        packer = zlib.compressobj(level, wbits=31)
        return packer.compress(_flat(data).data) + packer.flush()

    return encode, _decode_gzip


def _decode_gzip(data: Buffer, expected: int | None, limit: int) -> Buffer:
    unpacker = zlib.decompressobj(wbits=31)
    ceiling = limit if expected is None else min(limit, expected)
    try:
        unpacked = unpacker.decompress(data, ceiling + 1)
    except zlib.error as error:
        raise DecodeError(f"gzip can't unpack the payload: {error}", rule="gzip") from error
    _check_size(len(unpacked), expected, limit)
    if not unpacker.eof or unpacker.unused_data:
        raise DecodeError("the gzip stream is cut short or has bytes after its end", rule="gzip")
    return unpacked


def _crc_step(_: Mapping[str, JSON]) -> tuple[Encode, Decode]:
    return _encode_crc, _decode_crc


def _encode_crc(data: Buffer | AnyArray) -> bytes:
    raw = data if isinstance(data, bytes) else _flat(data).tobytes()
    checksum: int = google_crc32c.value(raw)
    return raw + checksum.to_bytes(_CRC_SIZE, "little")


def _decode_crc(data: Buffer, _expected: int | None, _limit: int) -> Buffer:
    stored = memoryview(data)
    if stored.nbytes < _CRC_SIZE:
        raise DecodeError(f"{stored.nbytes} bytes can't end in a checksum", rule="checksum", offset=0)
    body = stored[:-_CRC_SIZE]
    found, declared = google_crc32c.value(body.tobytes()), int.from_bytes(stored[-_CRC_SIZE:], "little")
    if found != declared:
        raise DecodeError(
            f"checksum is {found:#010x}, {declared:#010x} was written: the bytes have changed",
            rule="checksum",
            offset=body.nbytes,
        )
    return body


def _check_size(size: int, expected: int | None, limit: int) -> None:
    if expected is not None and size != expected:
        raise DecodeError(f"the payload unpacks to {size} bytes, {expected} are declared", rule="payload-size")
    if size > limit:
        raise DecodeError(f"the payload unpacks to {size} bytes, more than the limit of {limit}", rule="limit")


_STEPS: Final[dict[str, Callable[[Mapping[str, JSON]], tuple[Encode, Decode] | None]]] = {
    "blosc": _blosc_step,
    "zstd": _zstd_step,
    "gzip": _gzip_step,
    "crc32c": _crc_step,
}
