"""Fixed-width rows, format 7.1 and 7.2: vertices and attributes in any numeric dtype, little-endian.

>>> payload = encode_rows([[1, 2], [3, 4]], "uint16")
>>> decode_rows(payload.tobytes(), "uint16", width=2).tolist()
[[1, 2], [3, 4]]
"""

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from zarr_vectors.exceptions import DecodeError, EncodeError
from zarr_vectors.typing import AnyArray, Buffer, ByteArray

ROW_DTYPES: Final = (
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *(f"float{bits}" for bits in (16, 32, 64)),
    *(f"complex{bits}" for bits in (64, 128)),
)
"""Names of the dtypes that rows may have, as the metadata spells them."""


MAX_ROW_AXES: Final = 16
MAX_ROW_BYTES: Final = 2**31
"""Largest row: without rows, a shape on paper could still be one that no array can have."""


def row_dtype(name: str) -> np.dtype[np.generic]:
    """Return the little-endian dtype that a ``dtype`` of the metadata names.

    Raises
    ------
    DecodeError
        If the name is not one of `ROW_DTYPES`.
    """
    if name not in ROW_DTYPES:
        raise DecodeError(f"dtype {name!r} is not one of {', '.join(ROW_DTYPES)}", rule="dtype")
    return np.dtype(name).newbyteorder("<")


def encode_rows(values: npt.ArrayLike, dtype: str | None = None) -> AnyArray:
    """Return the rows as a contiguous little-endian array, whose bytes are the payload.

    Parameters
    ----------
    values
        One row for each entry of the first axis.
    dtype
        What the metadata declares; by default the dtype of the values.

    Raises
    ------
    EncodeError
        If the values are not numeric, or do not survive the conversion to ``dtype``: only
        rounding to a narrower float is fine.
    """
    array = np.asarray(values)
    name = array.dtype.name if dtype is None else dtype
    if name not in ROW_DTYPES:
        raise EncodeError(f"rows are numbers ({', '.join(ROW_DTYPES)}), not {name}", rule="dtype")
    if array.ndim == 0:
        raise EncodeError("rows need at least one axis", rule="rows")
    target = np.dtype(name).newbyteorder("<")
    if array.dtype.kind not in "biufc":
        raise EncodeError(f"{array.dtype} can't be stored as {name}", rule="dtype")
    if array.dtype.kind == "c" and target.kind != "c":
        raise EncodeError(f"complex values can't be stored as {name}", rule="dtype")
    # What does not fit is found by looking at the result, and needs no warning besides.
    with np.errstate(invalid="ignore", over="ignore"):
        converted: AnyArray = np.ascontiguousarray(array, dtype=target)
    if np.can_cast(array.dtype, target, casting="safe"):
        return converted
    # Floats may be rounded to the declared precision; nothing else may change.
    same = np.isfinite(converted) | ~np.isfinite(array) if target.kind in "fc" else converted == array
    if not same.all():
        raise EncodeError(f"some values do not fit in {name} without change", rule="dtype")
    return converted


def decode_rows(
    buffer: Buffer | ByteArray,
    dtype: str,
    *,
    width: int | tuple[int, ...] | None = None,
    num_rows: int | None = None,
) -> AnyArray:
    """Return the rows of a payload as a view over its bytes.

    Parameters
    ----------
    buffer
        The payload.
    dtype
        What the metadata declares.
    width
        Values in a row, or the shape of a row; ``None``: one value a row, without a second axis.
    num_rows
        When given, a payload of another length is an error.
    """
    item = row_dtype(dtype)
    flat: ByteArray = np.frombuffer(buffer, dtype=np.uint8)
    tail = () if width is None else (width,) if isinstance(width, int) else width
    if min(tail, default=1) < 1:
        raise DecodeError(f"a row of shape {tail} holds nothing", rule="row-width")
    row_size = item.itemsize * math.prod(tail)
    if len(tail) > MAX_ROW_AXES or row_size > MAX_ROW_BYTES:
        raise DecodeError(f"a row of {len(tail)} axes and {row_size} bytes is too large", rule="row-width")
    if len(flat) % row_size:
        raise DecodeError(f"{len(flat)} bytes are not whole rows of {row_size} bytes", rule="row-size")
    found = len(flat) // row_size
    if num_rows is not None and found != num_rows:
        raise DecodeError(f"{found} rows are there, {num_rows} belong there", rule="row-count")
    return flat.view(item).reshape((found, *tail))


def channels_of(num_bytes: int, dtype: str, num_rows: int) -> int | None:
    """Return the channel count that follows from bytes, rows and item size; ``None`` for scalars.

    For stores that leave the attribute's shape out of its metadata.
    """
    itemsize = row_dtype(dtype).itemsize
    if num_rows == 0 or num_bytes % (num_rows * itemsize):
        raise DecodeError(f"{num_bytes} bytes of {dtype} do not divide into {num_rows} rows", rule="row-size")
    channels = num_bytes // (num_rows * itemsize)
    if channels == 0:
        raise DecodeError(f"no bytes for {num_rows} rows", rule="row-size")
    return None if channels == 1 else channels
