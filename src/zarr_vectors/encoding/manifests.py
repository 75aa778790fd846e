"""Object manifests, format 7.6: which fragments of which chunks make up an object.

A manifest is a list of blocks, each a chunk and a reference to fragments of that chunk.
The pair of functions that the format documents name handles one object:

>>> blob = encode_object_manifest_blocks([((0, 0, 1), 4), ((0, 1, 1), (0, 3))])
>>> decode_object_manifest_blocks(blob, 3)
[((0, 0, 1), 4), ((0, 1, 1), (0, 3))]

`encode_manifests` and `decode_manifests` handle all objects of a level at once, as arrays.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from zarr_vectors.encoding.buffers import as_bytes, windows
from zarr_vectors.exceptions import DecodeError, EncodeError, ObjectNotFoundError
from zarr_vectors.ragged import concatenated_ranges, offsets_from_counts
from zarr_vectors.typing import BoolArray, Buffer, ByteArray, ChunkCoords, FragmentRef, IntArray

SINGLE: Final = 0
RANGE: Final = 1
EXPLICIT: Final = 2

MAX_LISTED_FRAGMENTS: Final = 2**31
"""Most fragments that `ManifestTable.fragments` lists unless the caller asks for more."""

_INT64_MAX: Final = 2**63 - 1
_UINT32_MAX: Final = 2**32 - 1
_HEADER_SIZE: Final = 4
# By mode: fragment index; start and count; the count in front of a list.
_FIELD_SIZES: Final = (8, 16, 4)
_TOO_LONG: Final = "a block reaches past the end of its manifest"
# A wave of array operations costs about as much as this many blocks walked one by one.
_FEWEST_PER_WAVE: Final = 32


@dataclass(frozen=True, slots=True, eq=False)
class ManifestTable:
    """The manifests of many objects, as arrays over all their blocks."""

    object_offsets: IntArray
    """Blocks of object ``i`` are ``object_offsets[i]:object_offsets[i + 1]``."""
    chunk_coords: IntArray
    """(blocks, ndim): the chunk of each block."""
    modes: ByteArray
    """Mode of each block: 0 single, 1 range, 2 explicit."""
    starts: IntArray
    """Modes 0 and 1: the first fragment. Mode 2: where the block's list begins in ``explicit``."""
    counts: IntArray
    """Number of fragments that each block names."""
    explicit: IntArray
    """The lists of the explicit blocks, one after another."""

    @property
    def num_objects(self) -> int:
        """How many objects the table holds, empty ones included."""
        return len(self.object_offsets) - 1

    @property
    def num_blocks(self) -> int:
        """How many blocks all objects have together."""
        return len(self.modes)

    def fragments(self, *, limit: int = MAX_LISTED_FRAGMENTS) -> tuple[IntArray, IntArray]:
        """Return the fragments of every block, and offsets of one more than there are blocks.

        Raises
        ------
        DecodeError
            If the blocks name more than ``limit`` fragments.
        """
        if self.counts.sum(dtype=np.float64) > limit:
            raise DecodeError(f"the manifests name more than {limit} fragments", rule="limit")
        fragments = concatenated_ranges(self.starts, self.counts)
        listed = np.repeat(self.modes == EXPLICIT, self.counts)
        fragments[listed] = self.explicit[fragments[listed]]
        return fragments, offsets_from_counts(self.counts)

    def take(self, object_ids: IntArray) -> "ManifestTable":
        """Return the manifests of some objects, in the order given; repeats are allowed.

        Raises
        ------
        ObjectNotFoundError
            If one of the numbers is not that of an object of this table.
        """
        outside = (object_ids < 0) | (object_ids >= self.num_objects)
        if outside.any():
            self._require_object(int(object_ids[np.argmax(outside)]))
        counts = np.diff(self.object_offsets)[object_ids]
        blocks = concatenated_ranges(self.object_offsets[object_ids], counts)
        return ManifestTable(
            offsets_from_counts(counts),
            self.chunk_coords[blocks],
            self.modes[blocks],
            self.starts[blocks],
            self.counts[blocks],
            self.explicit,
        )

    def __len__(self) -> int:
        return self.num_objects

    def blocks(self, object_id: int) -> list[tuple[ChunkCoords, FragmentRef]]:
        """Return the blocks of one object, as `decode_object_manifest_blocks` does."""
        self._require_object(object_id)
        begin, end = self.object_offsets[object_id : object_id + 2].tolist()
        coords = [tuple(row) for row in self.chunk_coords[begin:end].tolist()]
        return [(coords[b - begin], self._reference(b)) for b in range(begin, end)]

    def _require_object(self, object_id: int) -> None:
        if not 0 <= object_id < self.num_objects:
            raise ObjectNotFoundError(f"object {object_id} is not one of the {self.num_objects} in the table")

    def _reference(self, block: int) -> FragmentRef:
        start, count = int(self.starts[block]), int(self.counts[block])
        if self.modes[block] == SINGLE:
            return start
        return (start, count) if self.modes[block] == RANGE else self.explicit[start : start + count]


def manifest_table(
    object_offsets: IntArray, chunk_coords: IntArray, fragment_offsets: IntArray, fragments: IntArray
) -> ManifestTable:
    """Return the table with the smallest fitting mode for each block.

    Parameters
    ----------
    object_offsets : (objects + 1,)
        Which blocks belong to each object.
    chunk_coords : (blocks, ndim)
        The chunk of each block.
    fragment_offsets : (blocks + 1,)
        Which of ``fragments`` belong to each block.
    fragments
        Fragment numbers, block after block.
    """
    counts = np.diff(fragment_offsets)
    begins = fragment_offsets[:-1]
    filled = counts > 0
    first = np.zeros(len(counts), dtype=np.int64)
    first[filled] = fragments[begins[filled]]
    steps = np.zeros(len(fragments) + 1, dtype=np.int64)
    np.cumsum(np.diff(fragments, prepend=fragments[:1]) != 1, out=steps[1:])
    # A block is a run when no step inside it, after its first fragment, is other than 1.
    breaks = np.zeros(len(counts), dtype=np.int64)
    breaks[filled] = steps[fragment_offsets[1:][filled]] - steps[begins[filled] + 1]
    modes = np.where(counts == 1, SINGLE, np.where(filled & (breaks == 0), RANGE, EXPLICIT)).astype(np.uint8)
    listed = modes == EXPLICIT
    explicit = fragments[np.repeat(listed, counts)]
    starts = first
    starts[listed] = offsets_from_counts(counts[listed])[:-1]
    return ManifestTable(object_offsets, chunk_coords, modes, starts, counts, explicit)


def encode_manifests(table: ManifestTable) -> tuple[bytes, IntArray]:
    """Return the manifest blobs of all objects back to back, and their offsets.

    Raises
    ------
    EncodeError
        If a fragment number is negative or a count does not fit its field.
    """
    _check_encodable(table)
    ndim = table.chunk_coords.shape[1]
    num_blocks = np.diff(table.object_offsets)
    block_sizes = _block_sizes(ndim)[table.modes] + np.where(table.modes == EXPLICIT, 8 * table.counts, 0)
    block_ends = offsets_from_counts(block_sizes)
    headers = _HEADER_SIZE * np.arange(len(num_blocks) + 1, dtype=np.int64)
    offsets = block_ends[table.object_offsets] + headers
    owners = np.repeat(np.arange(len(num_blocks), dtype=np.int64), num_blocks)
    positions = block_ends[:-1] + _HEADER_SIZE * (owners + 1)

    out = np.zeros(int(offsets[-1]), dtype=np.uint8)
    _scatter(out, offsets[:-1], as_bytes(num_blocks, "<u4"))
    _scatter(out, positions, as_bytes(table.chunk_coords, "<i8").reshape(-1, 8 * ndim))
    out[positions + 8 * ndim] = table.modes
    fields = positions + 8 * ndim + 1
    for mode, values in (
        (SINGLE, table.starts[:, None]),
        (RANGE, np.stack([table.starts, table.counts], axis=1)),
    ):
        chosen = table.modes == mode
        _scatter(out, fields[chosen], as_bytes(values[chosen], "<i8").reshape(-1, 8 * values.shape[1]))
    listed = table.modes == EXPLICIT
    _scatter(out, fields[listed], as_bytes(table.counts[listed], "<u4"))
    begins = fields[listed] + 4
    counts = table.counts[listed]
    order = concatenated_ranges(table.starts[listed], counts)
    slots = np.repeat(begins, counts) + 8 * concatenated_ranges(np.zeros_like(counts), counts)
    _scatter(out, slots, as_bytes(table.explicit[order], "<i8"))
    return out.tobytes(), offsets


def decode_manifests(buffer: Buffer, offsets: IntArray, sid_ndim: int) -> ManifestTable:
    """Return the manifests of many objects from their blobs, back to back in ``buffer``.

    Parameters
    ----------
    buffer
        All blobs.
    offsets
        Blob of object ``i`` is ``buffer[offsets[i]:offsets[i + 1]]``.
    sid_ndim
        Number of chunk coordinates.

    Raises
    ------
    DecodeError
        If a blob breaks a rule of the layout; names the object, the rule and the byte.
    """
    raw = np.frombuffer(buffer, dtype=np.uint8)
    begins, ends = offsets[:-1], offsets[1:]
    # Compared before they are subtracted: a difference of untrusted offsets can overflow.
    inside = (begins >= 0) & (begins <= ends) & (ends <= len(raw))
    _require(inside, begins, f"the manifest is not inside of the {len(raw)} bytes", "offsets")
    _require(ends - begins >= _HEADER_SIZE, begins, "a manifest is at least 4 bytes long", "length")
    num_blocks = _gather(raw, begins, 4).view("<u4").astype(np.int64).reshape(-1)
    smallest = int(_block_sizes(sid_ndim).min())
    _require(
        num_blocks <= (ends - begins - _HEADER_SIZE) // smallest,
        begins,
        "the manifest counts more blocks than its bytes can hold",
        "block-count",
    )
    positions = _block_positions(_Blobs(raw, begins, ends, num_blocks, sid_ndim))
    coords = _gather(raw, positions, 8 * sid_ndim).view("<i8").reshape(-1, sid_ndim).astype(np.int64)
    modes = raw[positions + 8 * sid_ndim]
    fields = positions + 8 * sid_ndim + 1

    starts = np.zeros(len(modes), dtype=np.int64)
    counts = np.ones(len(modes), dtype=np.int64)
    plain = modes != EXPLICIT
    starts[plain] = _gather(raw, fields[plain], 8).view("<i8").reshape(-1)
    ranged = modes == RANGE
    counts[ranged] = _gather(raw, fields[ranged] + 8, 8).view("<i8").reshape(-1)
    listed = ~plain
    counts[listed] = _gather(raw, fields[listed], 4).view("<u4").reshape(-1)
    slots = np.repeat(fields[listed] + 4, counts[listed])
    slots += 8 * concatenated_ranges(np.zeros(len(counts[listed]), np.int64), counts[listed])
    explicit = _gather(raw, slots, 8).view("<i8").reshape(-1).astype(np.int64)
    starts[listed] = offsets_from_counts(counts[listed])[:-1]

    table = ManifestTable(offsets_from_counts(num_blocks), coords, modes, starts, counts, explicit)
    _check_references(table, fields)
    return table


def encode_object_manifest_blocks(
    blocks: Iterable[tuple[Sequence[int], FragmentRef | Sequence[int]]],
    sid_ndim: int | None = None,
    *,
    force_explicit: bool = False,
) -> bytes:
    """Return the manifest blob of one object.

    Parameters
    ----------
    blocks
        ``(chunk_coords, fragments)`` pairs. An int is mode 0, a ``(start, count)`` tuple mode 1;
        a list or array is mode 1 when it is a run, else mode 2.
    sid_ndim
        Length of every ``chunk_coords``; by default that of the first.
    force_explicit
        Keep lists and arrays in mode 2 even where they are runs.

    Examples
    --------
    >>> encode_object_manifest_blocks([]).hex()
    '00000000'
    """
    parts: list[bytes] = []
    ndim = sid_ndim
    for coords, reference in blocks:
        # Where nobody says how many coordinates a chunk has, the first block does.
        ndim = len(coords) if ndim is None else ndim
        chunk = _as_int64(coords, what="chunk coordinates", rule="chunk-coords")
        if chunk.shape != (ndim,):
            raise EncodeError(f"chunk {tuple(coords)} does not have {ndim} coordinates", rule="chunk-coords")
        parts.append(chunk.tobytes() + _encode_reference(reference, force=force_explicit))
    return struct.pack("<I", len(parts)) + b"".join(parts)


def decode_object_manifest_blocks(raw: Buffer, sid_ndim: int) -> list[tuple[ChunkCoords, FragmentRef]]:
    """Return the blocks of one object's manifest blob.

    Returns
    -------
    blocks
        ``(chunk_coords, fragments)`` pairs; fragments are an int for mode 0, a
        ``(start, count)`` tuple for mode 1, an int64 array for mode 2.
    """
    size = memoryview(raw).nbytes
    try:
        return decode_manifests(raw, np.array([0, size], dtype=np.int64), sid_ndim).blocks(0)
    except DecodeError as error:
        # The bytes don't tell which object they are: the number is for the caller to add.
        error.object_id = None
        raise


def scan_manifests(buffer: Buffer, sid_ndim: int, num_objects: int, start: int = 0) -> IntArray:
    """Return the offsets of manifests that lie back to back with nothing to say where each ends.

    Bytes after the last manifest are left alone: the caller decides what they may be.
    """
    raw = np.frombuffer(buffer, dtype=np.uint8).data
    available = max(len(raw) - start, 0)
    if num_objects > available // _HEADER_SIZE:
        raise DecodeError(f"{num_objects} manifests do not fit in {available} bytes", rule="length", offset=start)
    offsets = np.empty(num_objects + 1, dtype=np.int64)
    offsets[0] = position = start
    for object_id in range(num_objects):
        try:
            position = _manifest_end(raw, position, sid_ndim)
        except DecodeError as error:
            error.at(object_id=object_id)
            raise
        offsets[object_id + 1] = position
    return offsets


@dataclass(frozen=True, slots=True, eq=False)
class _Blobs:
    """Manifests back to back whose ends and numbers of blocks are known."""

    raw: ByteArray
    begins: IntArray
    ends: IntArray
    num_blocks: IntArray
    ndim: int


def _block_sizes(ndim: int) -> IntArray:
    """Bytes of a block by mode, without an explicit list's entries."""
    return 8 * ndim + 1 + np.array(_FIELD_SIZES, dtype=np.int64)


def _block_positions(blobs: _Blobs) -> IntArray:
    """Return the byte position of every block.

    Most manifests have blocks of one mode, so where the length fits that reading, and the
    mode bytes agree, the positions follow at once. The rest are walked, all objects in step.
    """
    num_blocks = blobs.num_blocks
    first_block = offsets_from_counts(num_blocks)[:-1]
    positions = np.empty(int(num_blocks.sum()), dtype=np.int64)
    left = np.ones(len(num_blocks), dtype=np.bool_)
    for mode in (SINGLE, RANGE):
        stride = int(_block_sizes(blobs.ndim)[mode])
        fits = left & (blobs.ends - blobs.begins - _HEADER_SIZE == num_blocks * stride)
        counts = num_blocks[fits]
        within = concatenated_ranges(np.zeros_like(counts), counts)
        candidates = np.repeat(blobs.begins[fits] + _HEADER_SIZE, counts) + stride * within
        other_mode = offsets_from_counts((blobs.raw[candidates + 8 * blobs.ndim] != mode).astype(np.int64))
        ends_at = offsets_from_counts(counts)
        agrees = other_mode[ends_at[1:]] == other_mode[ends_at[:-1]]
        chosen = np.flatnonzero(fits)[agrees]
        slots = concatenated_ranges(first_block[chosen], num_blocks[chosen])
        positions[slots] = candidates[np.repeat(agrees, counts)]
        left[chosen] = False
    _walk(blobs, np.flatnonzero(left), first_block, positions)
    return positions


def _walk(blobs: _Blobs, objects: IntArray, first_block: IntArray, positions: IntArray) -> None:
    """Fill ``positions`` for the blocks of ``objects``: all in step, and the last few one by one."""
    ends, num_blocks = blobs.ends, blobs.num_blocks
    cursor = blobs.begins + _HEADER_SIZE
    wave = 0
    active = objects[num_blocks[objects] > 0]
    while len(active) >= _FEWEST_PER_WAVE:
        positions[first_block[active] + wave] = cursor[active]
        cursor[active] += _sizes_at(blobs, cursor[active], active)
        wave += 1
        active = active[num_blocks[active] > wave]
    raw = blobs.raw.data
    for object_id in active.tolist():
        position, end = int(cursor[object_id]), int(ends[object_id])
        first = int(first_block[object_id])
        try:
            for block in range(first + wave, first + int(num_blocks[object_id])):
                positions[block] = position
                position += _size_at(raw, position, end, blobs.ndim)
        except DecodeError as error:
            error.at(object_id=object_id)
            raise
        cursor[object_id] = position
    over = cursor[objects] == ends[objects]
    _require(over, cursor[objects], "bytes follow the last block of the manifest", "trailing-bytes", objects=objects)


def _sizes_at(blobs: _Blobs, at: IntArray, objects: IntArray) -> IntArray:
    """Return the size of the block at each position, all inside their manifests."""
    ends, fields = blobs.ends[objects], at + 8 * blobs.ndim + 1
    _require(fields <= ends, at, _TOO_LONG, "length", objects=objects)
    modes = blobs.raw[fields - 1]
    _require(modes <= EXPLICIT, fields - 1, "a block's mode is not 0, 1 or 2", "mode", objects=objects)
    sizes = _block_sizes(blobs.ndim)[modes]
    _require(at + sizes <= ends, at, _TOO_LONG, "length", objects=objects)
    listed = modes == EXPLICIT
    sizes[listed] += 8 * _gather(blobs.raw, fields[listed], 4).view("<u4").reshape(-1).astype(np.int64)
    _require(at + sizes <= ends, at, _TOO_LONG, "length", objects=objects)
    return sizes


def _size_at(raw: memoryview, position: int, end: int, ndim: int) -> int:
    """Return the size of the block at ``position``, which is inside its manifest."""
    field = position + 8 * ndim + 1
    if field > end:
        raise DecodeError(_TOO_LONG, rule="length", offset=position)
    mode = raw[field - 1]
    if mode > EXPLICIT:
        raise DecodeError("a block's mode is not 0, 1 or 2", rule="mode", offset=field - 1)
    size = 8 * ndim + 1 + _FIELD_SIZES[mode]
    if mode == EXPLICIT and position + size <= end:
        size += 8 * int.from_bytes(raw[field : field + 4], "little")
    if position + size > end:
        raise DecodeError(_TOO_LONG, rule="length", offset=position)
    return size


def _manifest_end(raw: memoryview, position: int, ndim: int) -> int:
    """Return where the manifest at ``position`` ends."""
    first = position + _HEADER_SIZE
    if first > len(raw):
        raise DecodeError("the stream ends before this manifest", rule="length", offset=position)
    num_blocks = int.from_bytes(raw[position:first], "little")
    position = first
    for _ in range(num_blocks):
        position += _size_at(raw, position, len(raw), ndim)
    return position


def _check_references(table: ManifestTable, fields: IntArray) -> None:
    bad = _out_of_range(table)
    negative = np.flatnonzero(table.explicit < 0)
    if len(negative):
        listed = np.flatnonzero(table.modes == EXPLICIT)
        owner = np.searchsorted(table.starts[listed], negative[0], side="right") - 1
        bad[listed[owner]] = True
    if bad.any():
        block = int(np.argmax(bad))
        object_id = int(np.searchsorted(table.object_offsets, block, side="right")) - 1
        chunk = ".".join(map(str, table.chunk_coords[block].tolist()))
        error = DecodeError("a fragment number is negative or too large", rule="fragment", offset=int(fields[block]))
        raise error.at(object_id=object_id, chunk=chunk)


def _check_encodable(table: ManifestTable) -> None:
    if _out_of_range(table).any() or (table.explicit < 0).any():
        raise EncodeError("a fragment number is negative or too large", rule="fragment")
    lists, blocks = table.counts[table.modes == EXPLICIT], np.diff(table.object_offsets)
    if (lists > _UINT32_MAX).any() or (blocks > _UINT32_MAX).any():
        raise EncodeError("more entries than 32 bits can count", rule="count")


def _out_of_range(table: ManifestTable) -> BoolArray:
    """Tell which blocks of mode 0 and 1 name fragments below 0 or beyond int64."""
    too_large = table.starts > _INT64_MAX - np.maximum(table.counts, 0)
    bad: BoolArray = (table.modes != EXPLICIT) & ((table.starts < 0) | (table.counts < 0) | too_large)
    return bad


def _encode_reference(reference: FragmentRef | Sequence[int], *, force: bool) -> bytes:
    values = _as_int64(reference, what="fragments", rule="fragment")
    if (values < 0).any():
        raise EncodeError(f"fragment {values.min()} is negative", rule="fragment")
    if isinstance(reference, tuple):
        if values.shape != (2,):
            raise EncodeError(f"a tuple is (start, count), not {reference!r}; pass a list", rule="fragment")
        start, count = values.tolist()
    elif values.ndim == 0:
        start, count = int(values), 1
    elif values.ndim > 1:
        raise EncodeError(f"fragments are a flat list, not of shape {values.shape}", rule="fragment")
    elif force or values.size == 0 or (np.diff(values) != 1).any():
        return struct.pack("<BI", EXPLICIT, values.size) + values.tobytes()
    else:
        start, count = int(values[0]), values.size
    if start > _INT64_MAX - count:
        raise EncodeError(f"{count} fragments from {start} on are too large", rule="fragment")
    return struct.pack("<Bq", SINGLE, start) if values.ndim == 0 else struct.pack("<Bqq", RANGE, start, count)


def _as_int64(values: FragmentRef | Sequence[int], *, what: str, rule: str) -> IntArray:
    array = np.asarray(values)
    if array.size and (array.dtype.kind not in "iu" or array.max() > _INT64_MAX):
        raise EncodeError(f"{what} are 64-bit integers, not {values!r}", rule=rule)
    return array.astype("<i8")


def _require(good: BoolArray, offsets: IntArray, message: str, rule: str, *, objects: IntArray | None = None) -> None:
    if good.all():
        return
    first = int(np.argmin(good))
    object_id = first if objects is None else int(objects[first])
    raise DecodeError(message, rule=rule, offset=int(offsets[first])).at(object_id=object_id)


def _gather(raw: ByteArray, positions: IntArray, width: int) -> ByteArray:
    return np.ascontiguousarray(windows(raw, width)[positions])


def _scatter(out: ByteArray, positions: IntArray, values: ByteArray) -> None:
    windows(out, values.shape[1])[positions] = values
