"""Fragment index, format 7.3: which rows of a chunk belong to which fragment.

A fragment is a run of rows ``(start, count)`` or an explicit list of rows; one bit tells which.

>>> index = decode_fragments(encode_fragments([(0, 4), [12, 7, 19], (20, 8)]))
>>> index.num_fragments, index.is_range(1), index.indices(1).tolist()
(3, False, [12, 7, 19])
>>> rows, offsets = index.rows([2, 1])
>>> rows.tolist(), offsets.tolist()
([20, 21, 22, 23, 24, 25, 26, 27, 12, 7, 19], [0, 8, 11])
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from zarr_vectors.encoding.buffers import as_bytes, int64_view, view
from zarr_vectors.encoding.manifests import decode_object_manifest_blocks, encode_object_manifest_blocks
from zarr_vectors.exceptions import DecodeError, EncodeError, InputError, ObjectNotFoundError
from zarr_vectors.ragged import concatenated_ranges, offsets_from_counts
from zarr_vectors.typing import BoolArray, Buffer, ByteArray, FragmentLike, IntArray, IntegerArray

__all__ = [
    "ChunkFragmentIndex",
    "decode_fragments",
    "decode_object_manifest_blocks",
    "encode_fragment_arrays",
    "encode_fragments",
    "encode_object_manifest_blocks",
    "encode_ranges",
]

MAGIC: Final = 0x5A56_4647
VERSION: Final = 1
HEADER: Final = struct.Struct("<IHHII")
MAX_FRAGMENTS: Final = 2**32 - 1
MAX_GATHERED_ROWS: Final = 2**31
"""Most rows that one gather returns unless the caller asks for more: overlapping ranges in
a small blob could otherwise name more rows than there is memory."""

_INT64_MAX: Final = 2**63 - 1

_TableProblem = tuple[str, str, int]
"""Message, rule, and which row of the table breaks it."""


class ChunkFragmentIndex:
    """The fragments of one chunk: zero-copy views over the blob and a lazy prefix popcount."""

    __slots__ = ("_bitmap", "_csr_indices", "_csr_offsets", "_prefix", "_ranges", "num_fragments", "num_rows")

    def __init__(
        self,
        bitmap: ByteArray,
        ranges: IntArray,
        csr_offsets: IntArray,
        csr_indices: IntArray,
        *,
        num_fragments: int,
        num_rows: int | None,
    ) -> None:
        self._bitmap = bitmap
        self._ranges = ranges
        self._csr_offsets = csr_offsets
        self._csr_indices = csr_indices
        self._prefix: IntArray | None = None
        self.num_fragments = num_fragments
        self.num_rows = num_rows

    def __len__(self) -> int:
        return self.num_fragments

    def __repr__(self) -> str:
        return f"ChunkFragmentIndex({self.num_fragments} fragments, {self.num_range_fragments} of them ranges)"

    @property
    def num_range_fragments(self) -> int:
        """How many of the fragments are ranges."""
        return len(self._ranges)

    @property
    def range_mask(self) -> BoolArray:
        """One bool a fragment: true where it is a range."""
        bits = np.unpackbits(self._bitmap, count=self.num_fragments, bitorder="little")
        return bits.view(np.bool_)

    @property
    def starts(self) -> IntArray:
        """First row of every fragment; -1 for explicit ones."""
        starts = np.full(self.num_fragments, -1, dtype=np.int64)
        starts[self.range_mask] = self._ranges[:, 0]
        return starts

    @property
    def counts(self) -> IntArray:
        """Number of rows of every fragment."""
        mask = self.range_mask
        counts = np.empty(self.num_fragments, dtype=np.int64)
        counts[mask] = self._ranges[:, 1]
        counts[~mask] = np.diff(self._csr_offsets)
        return counts

    def is_range(self, f: int) -> bool:
        """Tell whether fragment ``f`` is a range: one bit lookup."""
        f = self._checked(f)
        return bool((int(self._bitmap[f >> 3]) >> (f & 7)) & 1)

    def range(self, f: int) -> tuple[int, int]:
        """Return ``(start, count)`` of range fragment ``f``.

        Raises
        ------
        InputError
            If fragment ``f`` is explicit: it has no start.
        """
        if not self.is_range(f):
            raise InputError(f"fragment {f} is an explicit list of rows, not a range: ask for its indices")
        start, count = self._ranges[self._range_rows_before(f)]
        return int(start), int(count)

    def indices(self, f: int) -> IntArray:
        """Return the rows of fragment ``f`` as an array of its own."""
        return self.indices_view(f).astype(np.int64, copy=True)

    def indices_view(self, f: int) -> IntArray:
        """Return the rows of fragment ``f``, as a view over the blob where it is explicit."""
        if self.is_range(f):
            start, count = self.range(f)
            _check_limit(count, MAX_GATHERED_ROWS)
            return start + np.arange(count, dtype=np.int64)
        explicit = f - self._range_rows_before(f)
        begin, end = self._csr_offsets[explicit : explicit + 2]
        return self._csr_indices[begin:end]

    def rows(
        self, fragments: Sequence[int] | IntegerArray | None = None, *, limit: int = MAX_GATHERED_ROWS
    ) -> tuple[IntArray, IntArray]:
        """Return the rows of many fragments in one gather.

        Parameters
        ----------
        fragments
            Fragment numbers in any order, repeats allowed; ``None`` means all.
        limit
            Most rows to return; more is an error and not an attempt.

        Returns
        -------
        rows, offsets
            Rows of ``fragments[k]`` are ``rows[offsets[k]:offsets[k + 1]]``.
        """
        mask = self.range_mask
        sources = np.empty(self.num_fragments, dtype=np.int64)
        sources[mask] = self._ranges[:, 0]
        sources[~mask] = self._csr_offsets[:-1]
        counts = self.counts
        if fragments is not None:
            chosen = self._checked_many(fragments)
            mask, sources, counts = mask[chosen], sources[chosen], counts[chosen]
        # Summed as floats, since integers could overflow to a small number.
        _check_limit(float(counts.sum(dtype=np.float64)), limit)
        rows = concatenated_ranges(sources, counts)
        if not mask.all():
            explicit = np.repeat(~mask, counts)
            rows[explicit] = self._csr_indices[rows[explicit]]
        return rows, offsets_from_counts(counts)

    def fragments_of(self, rows: Sequence[int] | IntegerArray) -> tuple[IntArray, IntArray]:
        """Return which fragments hold each of some rows.

        Returns
        -------
        fragments, offsets
            Row ``rows[k]`` is in ``fragments[offsets[k]:offsets[k + 1]]``, ascending; none is an
            empty slice, more than one a shared row. A fragment that names a row twice is there once.
        """
        wanted = np.asarray(rows, dtype=np.int64)
        held, held_offsets = self.rows()
        owners = np.repeat(np.arange(self.num_fragments, dtype=np.int64), np.diff(held_offsets))
        order = np.argsort(held, kind="stable")
        held, owners = held[order], owners[order]
        fresh = np.ones(len(held), dtype=np.bool_)
        fresh[1:] = (held[1:] != held[:-1]) | (owners[1:] != owners[:-1])
        held, owners = held[fresh], owners[fresh]
        first = np.searchsorted(held, wanted, side="left")
        counts = np.searchsorted(held, wanted, side="right") - first
        return owners[concatenated_ranges(first, counts)], offsets_from_counts(counts)

    def _range_rows_before(self, f: int) -> int:
        if self._prefix is None:
            self._prefix = offsets_from_counts(self.range_mask.astype(np.int64))
        return int(self._prefix[f])

    def _checked(self, f: int) -> int:
        if not 0 <= f < self.num_fragments:
            raise ObjectNotFoundError(f"fragment {f} is not one of the {self.num_fragments} in this chunk")
        return f

    def _checked_many(self, fragments: Sequence[int] | IntegerArray) -> IntArray:
        chosen = np.asarray(fragments, dtype=np.int64)
        outside = (chosen < 0) | (chosen >= self.num_fragments)
        if outside.any():
            self._checked(int(chosen[outside][0]))
        return chosen


def encode_fragments(
    fragments: Iterable[FragmentLike], *, num_rows: int | None = None, force_explicit: bool = False
) -> bytes:
    """Return the v1 blob of a chunk's fragments.

    Parameters
    ----------
    fragments
        ``(start, count)`` tuples are ranges. Any other sequence of integers is a list of rows,
        and becomes a range when it is one.
    num_rows
        Rows in the chunk; when given, every fragment must lie inside.
    force_explicit
        Keep lists of rows explicit even where they are runs.

    Examples
    --------
    >>> encode_fragments([]).hex(" ", 4)
    '4746565a 01000000 00000000 00000000'
    """
    is_range: list[bool] = []
    ranges: list[tuple[int, int]] = []
    explicit: list[IntArray] = []
    for fragment in fragments:
        run = _as_run(fragment, force_explicit=force_explicit)
        is_range.append(run is not None)
        if run is None:
            explicit.append(_as_rows(fragment))
        else:
            ranges.append(run)
    counts = np.array([len(rows) for rows in explicit], dtype=np.int64)
    return encode_fragment_arrays(
        np.array(is_range, dtype=np.bool_),
        np.array(ranges, dtype=np.int64).reshape(-1, 2),
        offsets_from_counts(counts),
        np.concatenate(explicit) if explicit else np.empty(0, np.int64),
        num_rows=num_rows,
    )


def encode_ranges(starts: IntegerArray, counts: IntegerArray, *, num_rows: int | None = None) -> bytes:
    """Return the v1 blob of a chunk whose fragments are all ranges, without a loop.

    >>> index = decode_fragments(encode_ranges(np.array([0, 4]), np.array([4, 2])))
    >>> index.range(1)
    (4, 2)
    """
    if np.shape(starts) != np.shape(counts):
        raise EncodeError(f"{np.size(starts)} starts, {np.size(counts)} counts", rule="fragment")
    ranges = np.stack([np.asarray(starts, np.int64), np.asarray(counts, np.int64)], axis=1)
    nothing = np.zeros(1, dtype=np.int64)
    return encode_fragment_arrays(np.ones(len(ranges), dtype=np.bool_), ranges, nothing, nothing[:0], num_rows=num_rows)


def encode_fragment_arrays(
    is_range: BoolArray,
    ranges: IntArray,
    explicit_offsets: IntArray,
    explicit_indices: IntArray,
    *,
    num_rows: int | None = None,
) -> bytes:
    """Return the v1 blob from its tables: the general form that the others end in.

    Parameters
    ----------
    is_range
        One bool a fragment.
    ranges : (R, 2)
        Start and count of each range fragment, in fragment order.
    explicit_offsets, explicit_indices
        Rows of the explicit fragments, in fragment order, as offsets and values.
    num_rows
        Rows in the chunk; when given, every fragment must lie inside.

    Raises
    ------
    EncodeError
        If one of the seven write-time invariants of the format would be broken.
    """
    count = len(is_range)
    if count > MAX_FRAGMENTS:
        raise EncodeError(f"{count} fragments in a chunk, at most {MAX_FRAGMENTS} fit", rule="fragment-count")
    _check_tables(is_range, ranges, explicit_offsets, explicit_indices)
    problem = _ranges_problem(ranges, num_rows) or _indices_problem(explicit_indices, num_rows)
    if problem is not None:
        message, rule, _ = problem
        raise EncodeError(message, rule=rule)
    header = HEADER.pack(MAGIC, VERSION, 0, count, len(ranges))
    if count == 0:
        return header
    bitmap = np.zeros(_bitmap_size(count), dtype=np.uint8)
    bits = np.packbits(is_range, bitorder="little")
    bitmap[: len(bits)] = bits
    parts = (as_bytes(ranges, "<i8"), as_bytes(explicit_offsets, "<u4"), as_bytes(explicit_indices, "<i8"))
    return b"".join((header, bitmap.tobytes(), *(part.tobytes() for part in parts)))


def decode_fragments(buffer: Buffer, *, num_rows: int | None = None) -> ChunkFragmentIndex:
    """Return the fragments of a chunk as views over its v1 blob.

    Parameters
    ----------
    buffer
        The whole blob.
    num_rows
        Rows in the chunk; when given, fragments that reach outside are an error.

    Raises
    ------
    DecodeError
        If the bytes break a rule of the layout; names the rule and the byte.
    """
    size = memoryview(buffer).nbytes
    if size < HEADER.size:
        raise DecodeError(f"a fragment index has a header of 16 bytes, {size} are there", rule="length", offset=0)
    magic, version, flags, count, num_ranges = HEADER.unpack_from(buffer)
    if magic != MAGIC:
        raise DecodeError(f"magic is {magic:#010x}, not 'ZVFG' ({MAGIC:#010x})", rule="magic", offset=0)
    if version != VERSION:
        raise DecodeError(f"fragment index version {version}, only {VERSION} is known", rule="version", offset=4)
    if flags != 0:
        raise DecodeError(f"reserved flags are {flags:#06x}, not 0", rule="flags", offset=6)
    if num_ranges > count:
        raise DecodeError(f"{num_ranges} ranges among {count} fragments", rule="popcount", offset=12)

    offset = HEADER.size
    bitmap = view(buffer, "u1", _bitmap_size(count), offset, what="range bitmap").view(np.uint8)
    popcount = _popcount(bitmap, count)
    if popcount != num_ranges:
        raise DecodeError(
            f"header counts {num_ranges} range fragments, the bitmap {popcount}", rule="popcount", offset=12
        )
    offset += len(bitmap)
    ranges = int64_view(buffer, 2 * num_ranges, offset, what="range table").reshape(-1, 2)
    _check_decoded(_ranges_problem(ranges, num_rows), offset, 16)
    offset += ranges.nbytes
    csr_offsets, csr_indices = _decode_csr(buffer, count - num_ranges, offset)
    _check_decoded(_indices_problem(csr_indices, num_rows), size - csr_indices.nbytes, 8)
    return ChunkFragmentIndex(bitmap, ranges, csr_offsets, csr_indices, num_fragments=count, num_rows=num_rows)


def _decode_csr(buffer: Buffer, num_explicit: int, offset: int) -> tuple[IntArray, IntArray]:
    size = memoryview(buffer).nbytes
    # Document 000 gives offsets[E + 1] always, its empty chunk none: without explicit
    # fragments the lone zero may be there or not.
    if num_explicit == 0 and size == offset:
        return np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64)
    offsets = view(buffer, "<u4", num_explicit + 1, offset, what="explicit offsets").astype(np.int64)
    if offsets[0] != 0:
        raise DecodeError(f"explicit offsets begin with {offsets[0]}, not 0", rule="csr-start", offset=offset)
    falls = np.flatnonzero(np.diff(offsets) < 0)
    if len(falls):
        raise DecodeError(
            f"explicit offset {falls[0] + 1} is smaller than the one before it",
            rule="csr-monotone",
            offset=offset + 4 * (int(falls[0]) + 1),
        )
    offset += 4 * len(offsets)
    indices = int64_view(buffer, int(offsets[-1]), offset, what="explicit indices")
    end = offset + indices.nbytes
    if end != size:
        raise DecodeError(f"{size - end} bytes follow the fragment index", rule="trailing-bytes", offset=end)
    return offsets, indices


def _check_tables(
    is_range: BoolArray, ranges: IntArray, explicit_offsets: IntArray, explicit_indices: IntArray
) -> None:
    num_ranges = int(np.count_nonzero(is_range))
    num_explicit = len(is_range) - num_ranges
    if ranges.shape != (num_ranges, 2):
        message = f"{num_ranges} fragments are ranges, the range table has shape {ranges.shape}"
        raise EncodeError(message, rule="popcount")
    if len(explicit_offsets) != num_explicit + 1:
        message = f"{num_explicit} explicit fragments need one offset more, not {len(explicit_offsets)}"
        raise EncodeError(message, rule="csr-length")
    if explicit_offsets[0] != 0 or (explicit_offsets[1:] < explicit_offsets[:-1]).any():
        raise EncodeError("explicit offsets must begin at 0 and never fall", rule="csr-monotone")
    if explicit_offsets[-1] != len(explicit_indices):
        message = f"{len(explicit_indices)} explicit indices, offsets end at {explicit_offsets[-1]}"
        raise EncodeError(message, rule="csr-length")
    if len(explicit_indices) > MAX_FRAGMENTS:
        message = f"{len(explicit_indices)} explicit indices, offsets of 32 bits can't count them"
        raise EncodeError(message, rule="csr-length")


def _ranges_problem(ranges: IntArray, num_rows: int | None) -> _TableProblem | None:
    limit = _INT64_MAX if num_rows is None else num_rows
    starts, counts = ranges[:, 0], ranges[:, 1]
    # start > limit - count instead of start + count > limit: the sum could overflow.
    bad = (starts < 0) | (counts < 0) | (starts > limit - np.maximum(counts, 0))
    if not bad.any():
        return None
    row = int(np.argmax(bad))
    bound = "" if num_rows is None else f" of the chunk's {num_rows} rows"
    return f"range {row} is start {starts[row]}, count {counts[row]}: outside{bound}", "index-bounds", row


def _indices_problem(explicit: IntArray, num_rows: int | None) -> _TableProblem | None:
    limit = _INT64_MAX if num_rows is None else num_rows
    bad = (explicit < 0) | (explicit >= limit)
    if not bad.any():
        return None
    item = int(np.argmax(bad))
    value = int(explicit[item])
    if value < 0:
        return f"explicit index {value} is negative", "negative-index", item
    return f"explicit index {value} is outside of the chunk's {limit} rows", "index-bounds", item


def _check_decoded(problem: _TableProblem | None, table: int, itemsize: int) -> None:
    if problem is not None:
        message, rule, item = problem
        raise DecodeError(message, rule=rule, offset=table + itemsize * item)


def _check_limit(count: float, limit: int) -> None:
    if count > limit:
        raise DecodeError(f"the fragments name more than {limit} rows; raise the limit to read them", rule="limit")


def _as_run(fragment: FragmentLike, *, force_explicit: bool) -> tuple[int, int] | None:
    rows = _as_rows(fragment)
    if isinstance(fragment, tuple):
        if rows.shape != (2,):
            raise EncodeError(f"a tuple is (start, count), not {fragment!r}; pass rows as a list", rule="fragment")
        return int(rows[0]), int(rows[1])
    # An empty list stays explicit: the format keeps it apart from an empty range.
    if force_explicit or len(rows) == 0 or (np.diff(rows) != 1).any():
        return None
    return int(rows[0]), len(rows)


def _as_rows(fragment: FragmentLike) -> IntArray:
    rows = np.asarray(fragment)
    if rows.size == 0:
        rows = rows.astype(np.int64).reshape(-1)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise EncodeError(f"a fragment is a flat list of integers, not {rows.dtype} {rows.shape}", rule="fragment")
    return rows.astype(np.int64)


def _bitmap_size(count: int) -> int:
    return (count + 63) // 64 * 8


def _popcount(bitmap: ByteArray, count: int) -> int:
    bits = int.from_bytes(bitmap.tobytes(), "little")
    # Padding, bits included, is for decoders to ignore.
    return (bits & ((1 << count) - 1)).bit_count()
