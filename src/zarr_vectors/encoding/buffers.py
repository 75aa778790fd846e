"""Bounds-checked views over untrusted bytes: the one place that turns a buffer into numbers."""

from typing import cast

import numpy as np

from zarr_vectors.exceptions import DecodeError
from zarr_vectors.typing import AnyArray, Buffer, ByteArray, IntArray


def view(buffer: Buffer, dtype: str, count: int, offset: int, *, what: str) -> AnyArray:
    """Return ``count`` little-endian items at ``offset`` as a read-only view, or raise `DecodeError`."""
    itemsize = np.dtype(dtype).itemsize
    available = memoryview(buffer).nbytes - offset
    if count < 0 or available < 0 or count > available // itemsize:
        raise DecodeError(
            f"{what} needs {count * itemsize} bytes, {max(available, 0)} are there", rule="length", offset=offset
        )
    array: AnyArray = np.frombuffer(buffer, dtype=dtype, count=count, offset=offset)
    array.flags.writeable = False
    return array


def int64_view(buffer: Buffer, count: int, offset: int, *, what: str) -> IntArray:
    """Return ``count`` int64 values at ``offset`` as a read-only view, or raise `DecodeError`."""
    return cast("IntArray", view(buffer, "<i8", count, offset, what=what))


def int64_stream(buffer: Buffer, *, what: str) -> IntArray:
    """Return a buffer that holds nothing but int64 values as an array view."""
    size = memoryview(buffer).nbytes
    if size % 8:
        raise DecodeError(f"{what} is {size} bytes long, not a multiple of 8", rule="item-size", offset=size - size % 8)
    return int64_view(buffer, size // 8, 0, what=what)


def as_bytes(array: AnyArray, dtype: str) -> ByteArray:
    """Return the items of ``array`` as little-endian bytes, shape ``(items, itemsize)``."""
    items = np.ascontiguousarray(array, dtype=dtype)
    return items.reshape(-1).view(np.uint8).reshape(items.size, items.dtype.itemsize)


def windows(array: ByteArray, width: int) -> ByteArray:
    """Return every run of ``width`` bytes as a row, without copying: gather or scatter by byte position.

    >>> windows(np.arange(5, dtype=np.uint8), 2)[[0, 3]].tolist()
    [[0, 1], [3, 4]]
    """
    rows = max(len(array) - width + 1, 0)
    return np.lib.stride_tricks.as_strided(array, shape=(rows, width), strides=(1, 1))
