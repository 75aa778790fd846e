"""The ``vlen-bytes`` chunk of Zarr: a count, then each item's length and bytes.

>>> chunk = encode_vlen_bytes(b"abcde", np.array([0, 3, 3, 5]))
>>> data, offsets = decode_vlen_bytes(chunk)
>>> bytes(data), offsets.tolist()
(b'abcde', [0, 3, 3, 5])
"""

import struct

import numpy as np
from numcodecs.vlen import VLenBytes

from zarr_vectors.encoding.buffers import as_bytes, windows
from zarr_vectors.exceptions import DecodeError, EncodeError
from zarr_vectors.ragged import offsets_from_counts
from zarr_vectors.typing import Buffer, IntArray

_LENGTH_SIZE = 4


def encode_vlen_bytes(data: Buffer, offsets: IntArray, *, num_items: int | None = None) -> bytes:
    """Return the chunk that holds the items ``data[offsets[i]:offsets[i + 1]]``.

    Parameters
    ----------
    data, offsets
        The items, back to back.
    num_items
        Items in a whole chunk: a last, shorter chunk is filled up with empty ones, as Zarr does.
    """
    lengths = np.diff(offsets)
    padding = 0 if num_items is None else num_items - len(lengths)
    if padding < 0:
        raise EncodeError(f"{len(lengths)} items in a chunk of {num_items}", rule="item-count")
    padded = np.concatenate([lengths, np.zeros(padding, dtype=np.int64)])
    ends = offsets_from_counts(padded + _LENGTH_SIZE) + _LENGTH_SIZE
    out = np.zeros(int(ends[-1]), dtype=np.uint8)
    out[:_LENGTH_SIZE] = as_bytes(np.array([len(padded)]), "<u4")[0]
    windows(out, _LENGTH_SIZE)[ends[:-1]] = as_bytes(padded, "<u4")
    is_item = np.ones(len(out), dtype=np.bool_)
    is_item[:_LENGTH_SIZE] = False
    windows(is_item.view(np.uint8), _LENGTH_SIZE)[ends[:-1]] = 0
    out[is_item] = np.frombuffer(data, dtype=np.uint8)[offsets[0] : offsets[-1]]
    return out.tobytes()


def decode_vlen_bytes(buffer: Buffer) -> tuple[bytes, IntArray]:
    """Return the items of a chunk back to back, and their offsets."""
    items = split_vlen_bytes(buffer)
    offsets = offsets_from_counts(np.fromiter(map(len, items), dtype=np.int64, count=len(items)))
    return b"".join(items), offsets


def split_vlen_bytes(buffer: Buffer) -> list[bytes]:
    """Return the items of a chunk.

    Raises
    ------
    DecodeError
        If the lengths do not add up to the chunk; checked before anything is allocated.
    """
    size = memoryview(buffer).nbytes
    if size < _LENGTH_SIZE:
        message = f"a vlen-bytes chunk begins with a count of 4 bytes, {size} are there"
        raise DecodeError(message, rule="length", offset=0)
    (count,) = struct.unpack_from("<I", buffer)
    if count > (size - _LENGTH_SIZE) // _LENGTH_SIZE:
        raise DecodeError(f"{count} items do not fit in {size} bytes", rule="item-count", offset=0)
    if count == 0:
        items: list[bytes] = []
    else:
        try:
            items = VLenBytes().decode(buffer).tolist()
        except ValueError as error:
            raise DecodeError(f"item lengths reach past the {size} bytes of the chunk", rule="length") from error
    used = _LENGTH_SIZE * (count + 1) + sum(map(len, items))
    if used != size:
        raise DecodeError(f"{size - used} bytes follow the last item", rule="trailing-bytes", offset=used)
    return items
