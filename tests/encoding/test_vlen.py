import struct

import numpy as np
import pytest
from numcodecs.vlen import VLenBytes

from zarr_vectors.encoding.vlen import decode_vlen_bytes, encode_vlen_bytes, split_vlen_bytes
from zarr_vectors.exceptions import DecodeError, EncodeError


def test_encode_writes_what_numcodecs_writes() -> None:
    chunk = encode_vlen_bytes(b"abcde", np.array([0, 3, 3, 5]))
    assert chunk == bytes(VLenBytes().encode(np.array([b"abc", b"", b"de"], dtype=object)))


def test_encode_takes_a_slice_of_the_data() -> None:
    assert split_vlen_bytes(encode_vlen_bytes(b"abcde", np.array([1, 2, 4]))) == [b"b", b"cd"]


def test_encode_fills_up_the_last_chunk() -> None:
    assert split_vlen_bytes(encode_vlen_bytes(b"ab", np.array([0, 2]), num_items=3)) == [b"ab", b"", b""]


def test_encode_of_no_item() -> None:
    assert encode_vlen_bytes(b"", np.array([0])) == bytes(4)
    assert split_vlen_bytes(bytes(4)) == []


def test_encode_rejects_more_items_than_the_chunk_holds() -> None:
    with pytest.raises(EncodeError, match="2 items in a chunk of 1") as caught:
        encode_vlen_bytes(b"ab", np.array([0, 1, 2]), num_items=1)
    assert caught.value.rule == "item-count"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_decode_gives_items_back_to_back(kind: type) -> None:
    data, offsets = decode_vlen_bytes(kind(encode_vlen_bytes(b"abcde", np.array([0, 3, 3, 5]))))
    assert (data, offsets.tolist()) == (b"abcde", [0, 3, 3, 5])


@pytest.mark.parametrize("size", [0, 3])
def test_decode_rejects_short_header(size: int) -> None:
    with pytest.raises(DecodeError) as caught:
        split_vlen_bytes(bytes(size))
    assert (caught.value.rule, caught.value.offset) == ("length", 0)


@pytest.mark.parametrize("count", [2, 2**32 - 1])
def test_decode_rejects_more_items_than_fit(count: int) -> None:
    with pytest.raises(DecodeError, match=f"{count} items") as caught:
        split_vlen_bytes(struct.pack("<II", count, 0))
    assert (caught.value.rule, caught.value.offset) == ("item-count", 0)


@pytest.mark.parametrize("length", [5, 2**31 - 1, 2**31, 2**32 - 1])
def test_decode_rejects_lengths_past_the_end(length: int) -> None:
    with pytest.raises(DecodeError, match="past the 12 bytes") as caught:
        split_vlen_bytes(struct.pack("<II", 1, length) + b"abcd")
    assert (caught.value.rule, caught.value.offset) == ("length", None)


@pytest.mark.parametrize("chunk", [bytes(5), struct.pack("<II", 1, 0) + b"a"])
def test_decode_rejects_trailing_bytes(chunk: bytes) -> None:
    with pytest.raises(DecodeError, match="1 bytes follow") as caught:
        split_vlen_bytes(chunk)
    assert (caught.value.rule, caught.value.offset) == ("trailing-bytes", len(chunk) - 1)
