import struct

import numpy as np
import pytest

from zarr_vectors.encoding import fragments, manifests
from zarr_vectors.encoding.fragments import (
    MAX_FRAGMENTS,
    decode_fragments,
    encode_fragment_arrays,
    encode_fragments,
    encode_ranges,
)
from zarr_vectors.exceptions import DecodeError, EncodeError, InputError, ObjectNotFoundError
from zarr_vectors.typing import FragmentLike

# The worked example of the format's page on fragment indices: tables at these bytes.
EXAMPLE: list[FragmentLike] = [(0, 4), [12, 7, 19], (20, 8)]
BITMAP, RANGES, OFFSETS, INDICES, END = 0x10, 0x18, 0x38, 0x40, 0x58


def example(**changes: tuple[int, bytes]) -> bytes:
    blob = bytearray(encode_fragments(EXAMPLE))
    for offset, value in changes.values():
        blob[offset : offset + len(value)] = value
    return bytes(blob)


def int64(value: int) -> bytes:
    return struct.pack("<q", value)


def uint32(value: int) -> bytes:
    return struct.pack("<I", value)


# ---------------------------------------------------------------- what comes back


def test_manifest_functions_are_where_the_documents_put_them() -> None:
    assert fragments.encode_object_manifest_blocks is manifests.encode_object_manifest_blocks
    assert fragments.decode_object_manifest_blocks is manifests.decode_object_manifest_blocks


def test_scalar_access_follows_the_worked_example() -> None:
    index = decode_fragments(encode_fragments(EXAMPLE))
    assert [index.is_range(f) for f in range(3)] == [True, False, True]
    assert (index.range(0), index.range(2)) == ((0, 4), (20, 8))
    assert index.indices(0).tolist() == [0, 1, 2, 3]
    assert index.indices(1).tolist() == [12, 7, 19]
    assert index.indices(2).tolist() == list(range(20, 28))


def test_counts_and_repr() -> None:
    index = decode_fragments(encode_fragments(EXAMPLE))
    assert (len(index), index.num_fragments, index.num_range_fragments) == (3, 3, 2)
    assert repr(index) == "ChunkFragmentIndex(3 fragments, 2 of them ranges)"


def test_whole_tables() -> None:
    index = decode_fragments(encode_fragments(EXAMPLE))
    assert index.range_mask.tolist() == [True, False, True]
    assert index.starts.tolist() == [0, -1, 20]
    assert index.counts.tolist() == [4, 3, 8]


def test_is_range_does_not_warm_the_prefix_cache() -> None:
    index = decode_fragments(encode_fragments(EXAMPLE))
    assert [index.is_range(f) for f in range(3)] == [True, False, True]
    assert index._prefix is None


@pytest.mark.parametrize(("access", "f"), [("range", 0), ("indices", 0), ("indices", 1), ("indices_view", 1)])
def test_range_and_indices_warm_the_prefix_cache(access: str, f: int) -> None:
    index = decode_fragments(encode_fragments(EXAMPLE))
    getattr(index, access)(f)
    assert index._prefix is not None
    assert index._prefix.tolist() == [0, 1, 1, 2]


def test_indices_view_shares_memory_with_the_blob() -> None:
    blob = encode_fragments(EXAMPLE)
    rows = decode_fragments(blob).indices_view(1)
    assert np.shares_memory(rows, np.frombuffer(blob, dtype=np.uint8))
    assert not rows.flags.writeable


def test_indices_are_a_copy() -> None:
    blob = bytearray(encode_fragments(EXAMPLE))
    rows = decode_fragments(blob).indices(1)
    rows[0] = 99
    assert bytes(blob) == encode_fragments(EXAMPLE)


def test_rows_of_all_fragments() -> None:
    rows, offsets = decode_fragments(encode_fragments(EXAMPLE)).rows()
    assert rows.tolist() == [0, 1, 2, 3, 12, 7, 19, *range(20, 28)]
    assert offsets.tolist() == [0, 4, 7, 15]


def test_rows_in_any_order_with_repeats() -> None:
    rows, offsets = decode_fragments(encode_fragments(EXAMPLE)).rows(np.array([1, 0, 1], dtype=np.uint8))
    assert rows.tolist() == [12, 7, 19, 0, 1, 2, 3, 12, 7, 19]
    assert offsets.tolist() == [0, 3, 7, 10]


def test_rows_of_no_fragment() -> None:
    rows, offsets = decode_fragments(encode_fragments(EXAMPLE)).rows([])
    assert (rows.tolist(), offsets.tolist()) == ([], [0])


def test_fragments_of_rows() -> None:
    index = decode_fragments(encode_fragments([(0, 3), [5, 2], (2, 1)]))
    found, offsets = index.fragments_of([2, 4, 5, 0])
    assert found.tolist() == [0, 1, 2, 1, 0]
    assert offsets.tolist() == [0, 3, 3, 4, 5]


def test_fragments_of_names_a_fragment_once() -> None:
    found, offsets = decode_fragments(encode_fragments([[4, 4, 1]])).fragments_of([4])
    assert (found.tolist(), offsets.tolist()) == ([0], [0, 1])


def test_fragments_of_an_empty_chunk() -> None:
    found, offsets = decode_fragments(encode_fragments([])).fragments_of([4])
    assert (found.tolist(), offsets.tolist()) == ([], [0, 0])


def test_num_rows_is_kept() -> None:
    assert decode_fragments(encode_fragments(EXAMPLE), num_rows=28).num_rows == 28


def test_a_million_ranges_come_back() -> None:
    counts = np.arange(1_000_000, dtype=np.int64) % 5
    starts = np.cumsum(counts) - counts
    index = decode_fragments(encode_ranges(starts, counts, num_rows=int(counts.sum())))
    assert index.num_fragments == index.num_range_fragments == 1_000_000
    np.testing.assert_array_equal(index.starts, starts)
    np.testing.assert_array_equal(index.counts, counts)
    rows, offsets = index.rows()
    np.testing.assert_array_equal(rows, np.arange(counts.sum()))
    np.testing.assert_array_equal(offsets[:-1], starts)


# ---------------------------------------------------------------- access that can't be


@pytest.mark.parametrize("f", [-1, 3])
def test_fragment_outside_of_the_chunk_is_not_found(f: int) -> None:
    index = decode_fragments(encode_fragments(EXAMPLE))
    for access in (index.is_range, index.range, index.indices, index.indices_view, lambda f: index.rows([0, f])):
        with pytest.raises(ObjectNotFoundError, match=f"fragment {f} is not one of the 3"):
            access(f)


def test_range_of_an_explicit_fragment_is_refused() -> None:
    with pytest.raises(InputError, match="fragment 1 is an explicit list"):
        decode_fragments(encode_fragments(EXAMPLE)).range(1)


def test_rows_beyond_the_limit_are_refused() -> None:
    index = decode_fragments(encode_fragments(EXAMPLE))
    assert len(index.rows([0], limit=4)[0]) == 4
    with pytest.raises(DecodeError, match="more than 3 rows") as caught:
        index.rows([0], limit=3)
    assert caught.value.rule == "limit"


@pytest.mark.parametrize("count", [2**31 + 1, 2**62])
def test_a_huge_range_is_read_but_not_listed(count: int) -> None:
    index = decode_fragments(encode_fragments([(1, count), (0, 2**62), (0, 2**62)]))
    assert index.range(0) == (1, count)
    for access in (index.indices, index.indices_view, lambda f: index.rows([f]), lambda _: index.rows()):
        with pytest.raises(DecodeError, match="rows") as caught:
            access(0)
        assert caught.value.rule == "limit"


# ---------------------------------------------------------------- encoding


def test_lists_that_are_runs_become_ranges() -> None:
    index = decode_fragments(encode_fragments([[3, 4, 5], range(2), np.array([7], dtype=np.uint8)]))
    assert [index.range(f) for f in range(3)] == [(3, 3), (0, 2), (7, 1)]


def test_force_explicit_keeps_lists_but_not_tuples() -> None:
    index = decode_fragments(encode_fragments([[3, 4, 5], (3, 3)], force_explicit=True))
    assert [index.is_range(f) for f in range(2)] == [False, True]


def test_a_fall_in_unsigned_rows_is_no_run() -> None:
    index = decode_fragments(encode_fragments([np.array([255, 0], dtype=np.uint8)]))
    assert index.indices(0).tolist() == [255, 0]


def test_encode_is_deterministic_and_keeps_padding_zero() -> None:
    blob = encode_fragments([(0, 1)] * 9)
    assert blob == encode_fragments([(0, 1)] * 9)
    assert blob[BITMAP : BITMAP + 8] == b"\xff\x01" + bytes(6)


def test_encode_ranges_agrees_with_the_list_form() -> None:
    assert encode_ranges(np.array([0, 4], dtype=np.uint8), np.array([4, 2])) == encode_fragments([(0, 4), (4, 2)])


def test_encode_ranges_of_nothing_is_the_header() -> None:
    assert encode_ranges(np.empty(0, np.int64), np.empty(0, np.int64)) == encode_fragments([])


def test_encode_ranges_rejects_unequal_lengths() -> None:
    with pytest.raises(EncodeError, match="2 starts, 1 counts") as caught:
        encode_ranges(np.array([0, 4]), np.array([4]))
    assert caught.value.rule == "fragment"


@pytest.mark.parametrize(
    "fragment",
    [(1, 2, 3), (1,), (0.5, 2), (0, 2**64), [1.5], ["a"], [[1, 2]], [True], [2**70]],
    ids=repr,
)
def test_encode_rejects_what_is_no_fragment(fragment: FragmentLike) -> None:
    with pytest.raises(EncodeError) as caught:
        encode_fragments([fragment])
    assert caught.value.rule == "fragment"


@pytest.mark.parametrize(
    ("fragment", "rule"),
    [
        ((-1, 2), "index-bounds"),
        ((1, -2), "index-bounds"),
        ((4, 7), "index-bounds"),
        ((11, 0), "index-bounds"),
        ((1, 2**63 - 1), "index-bounds"),
        ([3, 10], "index-bounds"),
        ([3, -1], "negative-index"),
    ],
)
def test_encode_rejects_rows_outside_of_the_chunk(fragment: FragmentLike, rule: str) -> None:
    with pytest.raises(EncodeError) as caught:
        encode_fragments([(0, 10), fragment], num_rows=10)
    assert caught.value.rule == rule


@pytest.mark.parametrize(
    ("fragment", "rule"),
    [((-1, 2), "index-bounds"), ((1, 2**63 - 1), "index-bounds"), ([-1, 3], "negative-index")],
)
def test_encode_rejects_impossible_rows_without_knowing_the_chunk(fragment: FragmentLike, rule: str) -> None:
    with pytest.raises(EncodeError) as caught:
        encode_fragments([fragment])
    assert caught.value.rule == rule


def test_rows_up_to_the_last_are_inside() -> None:
    encode_fragments([(0, 10), (10, 0), [9, 0]], num_rows=10)


@pytest.mark.parametrize(
    ("ranges", "offsets", "indices", "rule"),
    [
        ([], [0, 2], [1, 2], "popcount"),
        ([[0, 1], [1, 1]], [0, 2], [1, 2], "popcount"),
        ([[0, 1]], [0], [], "csr-length"),
        ([[0, 1]], [0, 1, 2], [1, 2], "csr-length"),
        ([[0, 1]], [1, 2], [1, 2], "csr-monotone"),
        ([[0, 1]], [0, 1], [1, 2], "csr-length"),
        ([[0, 1]], [0, -1], [], "csr-monotone"),
    ],
)
def test_encode_rejects_tables_that_do_not_fit(
    ranges: list[list[int]], offsets: list[int], indices: list[int], rule: str
) -> None:
    with pytest.raises(EncodeError) as caught:
        encode_fragment_arrays(
            np.array([True, False]),
            np.array(ranges, dtype=np.int64).reshape(-1, 2),
            np.array(offsets, dtype=np.int64),
            np.array(indices, dtype=np.int64),
        )
    assert caught.value.rule == rule


def test_encode_rejects_falling_offsets() -> None:
    with pytest.raises(EncodeError) as caught:
        encode_fragment_arrays(np.array([False, False]), np.empty((0, 2), np.int64), np.array([0, 2, 1]), np.array([1]))
    assert caught.value.rule == "csr-monotone"


def test_encode_rejects_more_fragments_than_the_header_counts() -> None:
    many = np.broadcast_to(np.True_, MAX_FRAGMENTS + 1)
    with pytest.raises(EncodeError) as caught:
        encode_fragment_arrays(many, np.empty((0, 2), np.int64), np.zeros(1, np.int64), np.empty(0, np.int64))
    assert caught.value.rule == "fragment-count"


def test_encode_rejects_more_indices_than_the_offsets_count() -> None:
    many = np.broadcast_to(np.int64(0), MAX_FRAGMENTS + 1)
    with pytest.raises(EncodeError, match="32 bits") as caught:
        encode_fragment_arrays(np.array([False]), np.empty((0, 2), np.int64), np.array([0, len(many)]), many)
    assert caught.value.rule == "csr-length"


# ---------------------------------------------------------------- decoding


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_decode_takes_any_buffer(kind: type) -> None:
    assert decode_fragments(kind(encode_fragments(EXAMPLE))).counts.tolist() == [4, 3, 8]


@pytest.mark.parametrize("size", [0, 1, 15])
def test_decode_rejects_short_header(size: int) -> None:
    with pytest.raises(DecodeError, match=f"{size} are there") as caught:
        decode_fragments(example()[:size])
    assert (caught.value.rule, caught.value.offset) == ("length", 0)


def test_decode_rejects_bad_magic() -> None:
    with pytest.raises(DecodeError, match="ZVFG") as caught:
        decode_fragments(example(magic=(0, b"ZVFG")))
    assert (caught.value.rule, caught.value.offset) == ("magic", 0)


def test_decode_rejects_unknown_version() -> None:
    with pytest.raises(DecodeError, match="version 2") as caught:
        decode_fragments(example(version=(4, b"\x02")))
    assert (caught.value.rule, caught.value.offset) == ("version", 4)


def test_decode_rejects_flags() -> None:
    with pytest.raises(DecodeError, match="0x0100") as caught:
        decode_fragments(example(flags=(7, b"\x01")))
    assert (caught.value.rule, caught.value.offset) == ("flags", 6)


@pytest.mark.parametrize("num_ranges", [0, 1, 3, 4, 2**32 - 1])
def test_decode_rejects_wrong_popcount(num_ranges: int) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_fragments(example(num_ranges=(12, uint32(num_ranges))))
    assert (caught.value.rule, caught.value.offset) == ("popcount", 12)


@pytest.mark.parametrize("offset", [BITMAP, BITMAP + 7, BITMAP + 3])
def test_decode_ignores_padding_of_the_bitmap(offset: int) -> None:
    bits = b"\xfd" if offset == BITMAP else b"\xff"
    index = decode_fragments(example(padding=(offset, bits)))
    assert index.range_mask.tolist() == [True, False, True]


def test_decode_rejects_inflated_fragment_count_before_allocating() -> None:
    with pytest.raises(DecodeError, match="range bitmap needs") as caught:
        decode_fragments(example(count=(8, uint32(2**32 - 1))))
    assert (caught.value.rule, caught.value.offset) == ("length", BITMAP)


@pytest.mark.parametrize(
    ("size", "offset"),
    [(BITMAP, BITMAP), (RANGES - 1, BITMAP), (RANGES, RANGES), (OFFSETS - 1, RANGES), (OFFSETS, OFFSETS)],
)
def test_decode_rejects_cut_tables(size: int, offset: int) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_fragments(example()[:size])
    assert (caught.value.rule, caught.value.offset) == ("length", offset)


@pytest.mark.parametrize(("size", "offset"), [(INDICES - 1, OFFSETS), (INDICES, INDICES), (END - 1, INDICES)])
def test_decode_rejects_cut_lists(size: int, offset: int) -> None:
    with pytest.raises(DecodeError, match="explicit") as caught:
        decode_fragments(example()[:size])
    assert (caught.value.rule, caught.value.offset) == ("length", offset)


def test_decode_rejects_offsets_that_do_not_begin_at_zero() -> None:
    with pytest.raises(DecodeError) as caught:
        decode_fragments(example(first=(OFFSETS, uint32(1))))
    assert (caught.value.rule, caught.value.offset) == ("csr-start", OFFSETS)


def test_decode_rejects_a_lone_offset_that_is_not_zero() -> None:
    blob = encode_fragments([(0, 2)])
    with pytest.raises(DecodeError) as caught:
        decode_fragments(blob[:-4] + uint32(1))
    assert (caught.value.rule, caught.value.offset) == ("csr-start", len(blob) - 4)


def test_decode_rejects_falling_offsets() -> None:
    blob = bytearray(encode_fragments([[5, 1], [2], [3]], force_explicit=True))
    blob[24 + 8 : 24 + 12] = uint32(1)
    with pytest.raises(DecodeError, match="explicit offset 2 is smaller") as caught:
        decode_fragments(blob)
    assert (caught.value.rule, caught.value.offset) == ("csr-monotone", 24 + 8)


@pytest.mark.parametrize("extra", [1, 8])
def test_decode_rejects_trailing_bytes(extra: int) -> None:
    with pytest.raises(DecodeError, match=f"{extra} bytes follow") as caught:
        decode_fragments(example() + bytes(extra))
    assert (caught.value.rule, caught.value.offset) == ("trailing-bytes", END)


def test_decode_rejects_bytes_after_the_lone_offset() -> None:
    blob = encode_fragments([(0, 2)])
    with pytest.raises(DecodeError) as caught:
        decode_fragments(blob + b"\0")
    assert (caught.value.rule, caught.value.offset) == ("trailing-bytes", len(blob))


@pytest.mark.parametrize(
    ("field", "value"),
    [(RANGES + 16, -1), (RANGES + 24, -1), (RANGES + 24, 2**63 - 1), (RANGES + 16, 2**63 - 1)],
)
def test_decode_rejects_impossible_ranges(field: int, value: int) -> None:
    with pytest.raises(DecodeError, match="range 1 is start") as caught:
        decode_fragments(example(field=(field, int64(value))))
    assert (caught.value.rule, caught.value.offset) == ("index-bounds", RANGES + 16)


def test_decode_rejects_negative_explicit_index() -> None:
    with pytest.raises(DecodeError, match="-7 is negative") as caught:
        decode_fragments(example(index=(INDICES + 8, int64(-7))))
    assert (caught.value.rule, caught.value.offset) == ("negative-index", INDICES + 8)


def test_decode_rejects_ranges_outside_of_the_chunk() -> None:
    with pytest.raises(DecodeError, match="27 rows") as caught:
        decode_fragments(example(), num_rows=27)
    assert (caught.value.rule, caught.value.offset) == ("index-bounds", RANGES + 16)


def test_decode_rejects_explicit_indices_outside_of_the_chunk() -> None:
    with pytest.raises(DecodeError, match="28 is outside of the chunk's 28 rows") as caught:
        decode_fragments(example(index=(INDICES + 16, int64(28))), num_rows=28)
    assert (caught.value.rule, caught.value.offset) == ("index-bounds", INDICES + 16)
