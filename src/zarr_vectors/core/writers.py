"""Writing the arrays of a level, format 7: each function is a check, an encode and one batch.

Chunks come as a mapping from chunk coordinates to values. Empty chunks are left out: on disk
they do not exist.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from zarr_vectors.constants import (
    CROSS_CHUNK_LINK_ATTRIBUTES,
    CROSS_CHUNK_LINKS,
    ENDPOINT_RECORDS_ENCODING,
    FRAGMENT_ATTRIBUTES,
    FRAGMENT_INDEX_ENCODING,
    GROUP_ATTRIBUTES,
    GROUPS,
    LINK_ATTRIBUTES,
    LINK_FRAGMENTS,
    LINKS,
    OBJECT_ATTRIBUTES,
    OBJECT_INDEX,
    VERTEX_ATTRIBUTES,
    VERTEX_FRAGMENTS,
    VERTICES,
)
from zarr_vectors.core.group import FsGroup, chunked_meta
from zarr_vectors.core.keys import DATA, OFFSETS, PRESENT_MASK, array_path, chunk_key
from zarr_vectors.encoding.compression import Compressor
from zarr_vectors.encoding.groups import encode_groups
from zarr_vectors.encoding.links import encode_endpoint_records, encode_links, narrowest_link_dtype
from zarr_vectors.encoding.rows import encode_rows
from zarr_vectors.exceptions import EncodeError, InputError, locate
from zarr_vectors.typing import AnyArray, ChunkCoords, IntArray


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How arrays are stored."""

    compressor: Compressor = "default"
    """See `zarr_vectors.encoding.compression.Compressor`."""
    checksum: bool = True
    """Put a crc32c after the compressor, so that a flipped bit is an error and not a wrong number."""
    byte_arrays: bool = False
    """Store rows as plain 1-D uint8 arrays (format 5.2) instead of numeric ones (format 7)."""


DEFAULT_OPTIONS: Final = WriteOptions()

RowChunks = Mapping[ChunkCoords, npt.ArrayLike]


def write_vertices(
    group: FsGroup, chunks: RowChunks, *, dtype: str | None = None, options: WriteOptions = DEFAULT_OPTIONS
) -> None:
    """Store positions, ``(rows, ndim)`` for each chunk.

    Raises
    ------
    EncodeError
        If a position is not finite, or its row does not have one value for each axis.
    """
    rows = _encode_chunks(group, VERTICES, chunks, dtype, tail=(group.ndim,))
    for coords, values in rows.items():
        finite = np.isfinite(values)
        if not finite.all():
            row = int(np.argmin(finite.all(axis=1)))
            raise EncodeError(f"row {row} is {values[row].tolist()}: positions are finite", rule="finite").at(
                level=group.level, array=VERTICES, chunk=chunk_key(coords)
            )
    _write_rows(group, VERTICES, rows, options, dtype=dtype, tail=(group.ndim,), encoding="raw")


def write_fragments(group: FsGroup, array: str, blobs: Mapping[ChunkCoords, bytes]) -> None:
    """Store fragment indices (`vertex_fragments` or `link_fragments`) as raw bytes, without a codec."""
    if array not in (VERTEX_FRAGMENTS, LINK_FRAGMENTS):
        raise InputError(f"{array!r} holds no fragment index: {VERTEX_FRAGMENTS} and {LINK_FRAGMENTS} do")
    meta = chunked_meta(array, "uint8", encoding=FRAGMENT_INDEX_ENCODING)
    payloads = [
        (_checked_key(group, array, coords), np.frombuffer(blob, dtype=np.uint8))
        for coords, blob in sorted(blobs.items())
    ]
    group.write_payloads(array, meta, payloads)


def write_vertex_attribute(
    group: FsGroup,
    name: str,
    chunks: RowChunks,
    *,
    dtype: str | None = None,
    channel_names: Sequence[str] | None = None,
    options: WriteOptions = DEFAULT_OPTIONS,
    **fields: object,
) -> None:
    """Store an attribute of the vertices, ``(rows,)`` or ``(rows, channels)`` for each chunk."""
    array = array_path(VERTEX_ATTRIBUTES, name=name)
    fields = {"name": name, "channel_names": channel_names, **fields}
    _write_attribute(group, array, chunks, dtype=dtype, options=options, fields=fields)


def write_fragment_attribute(
    group: FsGroup,
    name: str,
    chunks: RowChunks,
    *,
    dtype: str | None = None,
    channel_names: Sequence[str] | None = None,
    options: WriteOptions = DEFAULT_OPTIONS,
) -> None:
    """Store an attribute of the fragments, one row for each fragment of a chunk."""
    array = array_path(FRAGMENT_ATTRIBUTES, name=name)
    fields: dict[str, object] = {"name": name, "channel_names": channel_names}
    _write_attribute(group, array, chunks, dtype=dtype, options=options, fields=fields)


def write_link_attribute(
    group: FsGroup,
    name: str,
    chunks: RowChunks,
    *,
    delta: int = 0,
    dtype: str | None = None,
    channel_names: Sequence[str] | None = None,
    options: WriteOptions = DEFAULT_OPTIONS,
    **fields: object,
) -> None:
    """Store an attribute of the links inside chunks, one row for each link of a chunk."""
    array = array_path(LINK_ATTRIBUTES, name=name, delta=delta)
    fields = {"name": name, "channel_names": channel_names, "level_delta": delta, **fields}
    _write_attribute(group, array, chunks, dtype=dtype, options=options, fields=fields)


def write_links(
    group: FsGroup,
    chunks: RowChunks,
    num_rows: Mapping[ChunkCoords, int],
    *,
    width: int,
    options: WriteOptions = DEFAULT_OPTIONS,
) -> None:
    """Store links inside chunks, ``(links, width)`` rows of each chunk's vertices.

    Parameters
    ----------
    group, chunks
        Where, and the links of each chunk.
    num_rows
        Rows of each chunk, which every end of a link must be one of. The largest decides the
        dtype: one for the level, the narrowest that fits.
    width
        Ends of a link.
    options
        How to store them.
    """
    array = array_path(LINKS, delta=0)
    signed = any(np.asarray(links).min(initial=0) < 0 for links in chunks.values())
    dtype = "int64" if signed else narrowest_link_dtype(max(num_rows.values(), default=0))
    rows: dict[ChunkCoords, AnyArray] = {}
    for coords, links in sorted(chunks.items()):
        with locate(level=group.level, array=array, chunk=_checked_key(group, array, coords)):
            # A chunk that is not named has no rows, so that any link in it is refused.
            rows[coords] = encode_links(links, width=width, num_rows=num_rows.get(coords, 0), dtype=dtype)
    _write_rows(group, array, rows, options, dtype=dtype, tail=(width,), level_delta=0, link_width=width)


def write_level_links(
    group: FsGroup, delta: int, chunks: RowChunks, *, width: int = 2, options: WriteOptions = DEFAULT_OPTIONS
) -> None:
    """Store links to another level, records ``(links, width, ndim + 1)`` for each chunk of this level."""
    if delta == 0:
        raise EncodeError("links to another level have a delta other than 0", rule="delta")
    array = array_path(LINKS, delta=delta)
    rows: dict[ChunkCoords, AnyArray] = {}
    for coords, records in sorted(chunks.items()):
        with locate(level=group.level, array=array, chunk=_checked_key(group, array, coords)):
            rows[coords] = encode_endpoint_records(records, width=width, ndim=group.ndim)
    _write_rows(
        group,
        array,
        rows,
        options,
        dtype="int64",
        tail=(width, group.ndim + 1),
        encoding=ENDPOINT_RECORDS_ENCODING,
        level_delta=delta,
        link_width=width,
    )


def write_cross_chunk_links(
    group: FsGroup,
    records: npt.ArrayLike,
    *,
    width: int,
    delta: int = 0,
    options: WriteOptions = DEFAULT_OPTIONS,
) -> None:
    """Store links between chunks, records ``(links, width, ndim + 1)``: chunk coordinates, then the row."""
    array = array_path(CROSS_CHUNK_LINKS, delta=delta)
    with locate(level=group.level, array=array):
        values = encode_endpoint_records(records, width=width, ndim=group.ndim)
    fields = {"level_delta": delta, "link_width": width, "num_links": len(values), "sid_ndim": group.ndim}
    _write_dense(group, array, values, options, fields)


def write_cross_chunk_link_attribute(
    group: FsGroup,
    name: str,
    values: npt.ArrayLike,
    *,
    delta: int = 0,
    channel_names: Sequence[str] | None = None,
    options: WriteOptions = DEFAULT_OPTIONS,
    **fields: object,
) -> None:
    """Store an attribute of the links between chunks; as many rows as there are records, or an error."""
    array = array_path(CROSS_CHUNK_LINK_ATTRIBUTES, name=name, delta=delta)
    links = group.read_array_meta(array_path(CROSS_CHUNK_LINKS, delta=delta))
    rows = _encode_dense(group, array, values, links.num_links)
    fields = {"name": name, "level_delta": delta, "channel_names": channel_names, **fields}
    _write_dense(group, array, rows, options, fields)


def write_object_attribute(
    group: FsGroup,
    name: str,
    values: npt.ArrayLike,
    *,
    present: npt.ArrayLike | None = None,
    channel_names: Sequence[str] | None = None,
    options: WriteOptions = DEFAULT_OPTIONS,
    **fields: object,
) -> None:
    """Store an attribute of every object, with a mask of the rows that are real where some are not."""
    array = array_path(OBJECT_ATTRIBUTES, name=name)
    index = group.arrays.get(OBJECT_INDEX)
    rows = _encode_dense(group, array, values, None if index is None else index.num_objects)
    side: list[tuple[str, AnyArray]] = []
    if present is not None:
        mask = np.asarray(present).astype(np.bool_).astype(np.uint8)
        if mask.shape != rows.shape[:1]:
            raise EncodeError(f"a mask of shape {mask.shape} for {len(rows)} rows", rule="present-mask").at(
                level=group.level, array=array
            )
        side.append((PRESENT_MASK, mask))
        rows = np.where(mask.reshape(-1, *(1 for _ in rows.shape[1:])) != 0, rows, np.zeros_like(rows))
    fields = {"name": name, "channel_names": channel_names, "has_present_mask": present is not None, **fields}
    _write_dense(group, array, rows, options, fields, side=side)


def write_groups(
    group: FsGroup, object_ids: IntArray, offsets: IntArray, *, options: WriteOptions = DEFAULT_OPTIONS
) -> None:
    """Store groups: the object ids of group ``g`` are ``object_ids[offsets[g]:offsets[g + 1]]``."""
    with locate(level=group.level, array=GROUPS):
        ids, starts = encode_groups(np.asarray(object_ids, np.int64), np.asarray(offsets, np.int64))
    fields = {"shape": None, "num_groups": len(starts), "num_ids": len(ids)}
    _write_dense(group, GROUPS, ids, options, fields, side=[(OFFSETS, starts)])


def write_group_attribute(
    group: FsGroup,
    name: str,
    values: npt.ArrayLike,
    *,
    channel_names: Sequence[str] | None = None,
    options: WriteOptions = DEFAULT_OPTIONS,
    **fields: object,
) -> None:
    """Store an attribute of every group; as many rows as there are groups, or an error."""
    array = array_path(GROUP_ATTRIBUTES, name=name)
    rows = _encode_dense(group, array, values, group.read_array_meta(GROUPS).num_groups)
    fields = {"name": name, "channel_names": channel_names, **fields}
    _write_dense(group, array, rows, options, fields)


def _checked_key(group: FsGroup, array: str, coords: ChunkCoords) -> str:
    if len(coords) != group.ndim:
        raise EncodeError(f"chunk {coords} does not have {group.ndim} coordinates", rule="chunk-coords").at(
            level=group.level, array=array
        )
    return chunk_key(coords)


def _write_attribute(
    group: FsGroup,
    array: str,
    chunks: RowChunks,
    *,
    dtype: str | None,
    options: WriteOptions,
    fields: Mapping[str, object],
) -> None:
    shapes = [np.shape(chunks[coords]) for coords in sorted(chunks)]
    # Chunks without rows tell the shape of a row only where no other does: an empty list has none.
    filled = [shape for shape in shapes if shape[:1] != (0,)]
    tail = next((shape[1:] for shape in [*filled, *shapes]), ())
    rows = _encode_chunks(group, array, chunks, dtype, tail=tail)
    _check_channels(group, array, tail, fields)
    _write_rows(group, array, rows, options, dtype=dtype, tail=tail, **fields)


def _encode_chunks(
    group: FsGroup, array: str, chunks: RowChunks, dtype: str | None, *, tail: tuple[int, ...]
) -> dict[ChunkCoords, AnyArray]:
    """Return the chunks that have rows, in order, all of one dtype and row shape."""
    rows: dict[ChunkCoords, AnyArray] = {}
    for coords, values in sorted(chunks.items()):
        with locate(level=group.level, array=array, chunk=_checked_key(group, array, coords)):
            if np.shape(values)[:1] == (0,):
                continue
            encoded = encode_rows(values, dtype)
            first = next(iter(rows.values()), encoded)
            if encoded.dtype != first.dtype:
                message = f"rows are {encoded.dtype.name}, those of other chunks {first.dtype.name}: say which dtype"
                raise EncodeError(message, rule="dtype")
            if encoded.shape[1:] != tail:
                raise EncodeError(f"rows have shape {encoded.shape[1:]}, {tail} is wanted", rule="row-width")
            rows[coords] = encoded
    return rows


def _write_rows(
    group: FsGroup,
    array: str,
    rows: Mapping[ChunkCoords, AnyArray],
    options: WriteOptions,
    *,
    dtype: str | None,
    tail: tuple[int, ...],
    **fields: object,
) -> None:
    """Store one array of equal dtype and row shape, chunk after chunk, then its metadata."""
    filled = {coords: values for coords, values in rows.items() if len(values)}
    total = sum(len(values) for values in filled.values())
    found = next((values.dtype.name for values in rows.values()), dtype or "float32")
    if "link_width" in fields:
        fields["num_links"] = total
    meta = chunked_meta(
        array,
        found,
        ndim=1 if options.byte_arrays else 1 + len(tail),
        compressor=options.compressor,
        checksum=options.checksum,
        shape=[total, *tail],
        # An array of chunks does not tell how many there are: without a number, one that is lost is not missed.
        num_chunks=len(filled),
        **fields,
    )
    payloads = ((chunk_key(coords), _as_stored(values, options)) for coords, values in filled.items())
    group.write_payloads(array, meta, payloads)


def _encode_dense(group: FsGroup, array: str, values: npt.ArrayLike, num_rows: int | None) -> AnyArray:
    with locate(level=group.level, array=array):
        rows = encode_rows(values)
        if num_rows is not None and len(rows) != num_rows:
            raise EncodeError(f"{len(rows)} rows for {num_rows} entries", rule="row-count")
        return rows


def _write_dense(
    group: FsGroup,
    array: str,
    values: AnyArray,
    options: WriteOptions,
    fields: Mapping[str, object],
    *,
    side: Iterable[tuple[str, AnyArray]] = (),
) -> None:
    """Store one array for the whole level: ``data``, what stands beside it, then the metadata."""
    _check_channels(group, array, values.shape[1:], fields)
    meta = chunked_meta(
        array,
        values.dtype.name,
        ndim=1 if options.byte_arrays else values.ndim,
        compressor=options.compressor,
        checksum=options.checksum,
        **{"shape": list(values.shape), **fields},
    )
    # Zarr has no chunk of zero rows: an array without rows is declared and not stored.
    payloads = [(DATA, values), *side]
    group.write_payloads(array, meta, [(node, _as_stored(rows, options)) for node, rows in payloads if len(rows)])


def _check_channels(group: FsGroup, array: str, tail: tuple[int, ...], fields: Mapping[str, object]) -> None:
    names = fields.get("channel_names")
    if isinstance(names, Sequence) and (len(names),) != tail:
        raise EncodeError(f"{len(names)} channel names for rows of shape {tail}", rule="channels").at(
            level=group.level, array=array
        )


def _as_stored(values: AnyArray, options: WriteOptions) -> AnyArray:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8) if options.byte_arrays else values
