"""Links, format 7.5 and 7.7: chunk-local rows, and records whose ends name their chunk.

A link inside a chunk is ``link_width`` row numbers. A link between chunks or levels is
``link_width`` endpoints, each chunk coordinates and a row:

>>> record = encode_endpoint_records([[[0, 0, 1, 5], [0, 0, 2, 0]]], width=2, ndim=3)
>>> decode_endpoint_records(record.tobytes(), width=2, ndim=3).tolist()
[[[0, 0, 1, 5], [0, 0, 2, 0]]]
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from zarr_vectors.encoding.buffers import int64_stream
from zarr_vectors.encoding.rows import decode_rows
from zarr_vectors.exceptions import DecodeError, EncodeError
from zarr_vectors.typing import AnyArray, Buffer, IntArray, IntegerArray

LINK_DTYPES: Final = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
_NARROW: Final = ("uint8", "uint16", "uint32", "int64")


def narrowest_link_dtype(num_rows: int) -> str:
    """Return the narrowest dtype for links among ``num_rows`` rows of a chunk.

    >>> [narrowest_link_dtype(n) for n in (256, 257, 65_537)]
    ['uint8', 'uint16', 'uint32']
    """
    return next(name for name in _NARROW if num_rows - 1 <= np.iinfo(name).max)


def encode_links(links: npt.ArrayLike, *, width: int, num_rows: int, dtype: str | None = None) -> AnyArray:
    """Return chunk-local links as a little-endian array, whose bytes are the payload.

    Parameters
    ----------
    links : (links, width)
        Row numbers; -1 stands for "no parent" where the width is 1.
    width
        Ends of a link.
    num_rows
        Rows in the chunk: every end must be one of them.
    dtype
        Declared by the level; by default the narrowest that fits.
    """
    array = np.asarray(links)
    if array.size == 0:
        array = array.astype(np.int64).reshape(-1, width)
    if array.dtype.kind not in "iu" or array.shape[1:] != (width,):
        message = f"links are integers of shape (n, {width}), not {array.dtype} {array.shape}"
        raise EncodeError(message, rule="link-width")
    lowest = -1 if width == 1 else 0
    if array.size and (array.min() < lowest or array.max() >= num_rows):
        raise EncodeError(f"a link names a row outside of the chunk's {num_rows}", rule="link-rows")
    name = dtype or (narrowest_link_dtype(num_rows) if not array.size or array.min() >= 0 else "int64")
    if name not in LINK_DTYPES or not _fits(array, name):
        raise EncodeError(f"link rows do not fit in dtype {name!r}", rule="link-dtype")
    return np.ascontiguousarray(array, dtype=np.dtype(name).newbyteorder("<"))


def decode_links(buffer: Buffer, dtype: str, *, width: int, num_rows: int | None = None) -> IntegerArray:
    """Return chunk-local links, shape ``(links, width)``, in the dtype they are stored in.

    Parameters
    ----------
    buffer
        The payload.
    dtype, width
        What the array's metadata declares.
    num_rows
        Rows in the chunk; when given, an end outside of them is an error.
    """
    if dtype not in LINK_DTYPES:
        raise DecodeError(f"links have an integer dtype, not {dtype!r}", rule="link-dtype")
    links: IntegerArray = decode_rows(buffer, dtype, width=width)  # type: ignore[assignment]
    if num_rows is not None and links.size:
        lowest = -1 if width == 1 else 0
        bad = (links < lowest) | (links >= num_rows)
        if bad.any():
            row = int(np.argmax(bad.any(axis=1)))
            raise DecodeError(f"link {row} is {links[row].tolist()}, the chunk has {num_rows} rows", rule="link-rows")
    return links


def encode_endpoint_records(records: npt.ArrayLike, *, width: int, ndim: int) -> IntArray:
    """Return links between chunks as an int64 array of shape ``(links, width, ndim + 1)``."""
    array = np.asarray(records)
    if array.size == 0:
        return np.empty((0, width, ndim + 1), dtype="<i8")
    if array.dtype.kind not in "iu" or array.shape[1:] != (width, ndim + 1):
        raise EncodeError(
            f"records are integers of shape (n, {width}, {ndim + 1}), not {array.dtype} {array.shape}", rule="records"
        )
    encoded = np.ascontiguousarray(array, dtype="<i8")
    if (encoded[..., -1] < 0).any():
        raise EncodeError("an endpoint's row is negative or too large", rule="link-rows")
    return encoded


def decode_endpoint_records(buffer: Buffer, *, width: int, ndim: int, num_links: int | None = None) -> IntArray:
    """Return links between chunks, shape ``(links, width, ndim + 1)``: chunk coordinates, then the row."""
    records: IntArray = decode_rows(buffer, "int64", width=(width, ndim + 1), num_rows=num_links)  # type: ignore[assignment]
    bad = (records[..., -1] < 0).any(axis=1)
    if bad.any():
        raise DecodeError(f"record {int(np.argmax(bad))} has a negative row", rule="link-rows")
    return records


def decode_paired_links(buffer: Buffer, chunk_coords: Sequence[int]) -> IntArray:
    """Return links to another level from the untagged form, as endpoint records.

    That form holds int64 K, K byte offsets, then pairs (own row, other level's row), where both
    ends lie in chunks of the same coordinates, each in its own grid.
    """
    values = int64_stream(buffer, what="links to another level")
    if len(values) == 0 or not 0 <= values[0] < len(values):
        raise DecodeError("links to another level begin with the number of parts", rule="part-count", offset=0)
    parts = int(values[0])
    pairs = values[parts + 1 :]
    if len(pairs) % 2:
        raise DecodeError(f"{len(pairs)} row numbers are not pairs", rule="pairs", offset=8 * (parts + 1))
    check_byte_offsets(values[1 : parts + 1], pairs.nbytes)
    if (pairs < 0).any():
        raise DecodeError("a link's row is negative", rule="link-rows", offset=8 * (parts + 1))
    records = np.empty((len(pairs) // 2, 2, len(chunk_coords) + 1), dtype=np.int64)
    records[..., :-1] = chunk_coords
    records[..., -1] = pairs.reshape(-1, 2)
    return records


def check_byte_offsets(offsets: IntArray, size: int) -> None:
    """Raise unless the byte offsets of int64 lists begin at 0, never fall, and stay inside ``size`` bytes."""
    # Compared, not subtracted: a difference of untrusted offsets can overflow.
    good = len(offsets) == 0 or (
        offsets[0] == 0 and offsets[-1] <= size and (offsets[1:] >= offsets[:-1]).all() and (offsets % 8 == 0).all()
    )
    if not good:
        raise DecodeError(f"byte offsets must begin at 0, never fall and end within {size} bytes", rule="byte-offsets")


def _fits(array: AnyArray, name: str) -> bool:
    limits = np.iinfo(name)
    return array.size == 0 or bool(array.min() >= limits.min and array.max() <= limits.max)
