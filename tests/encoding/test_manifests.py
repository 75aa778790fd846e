import struct
from collections.abc import Sequence

import numpy as np
import pytest

from zarr_vectors.encoding.manifests import (
    EXPLICIT,
    RANGE,
    SINGLE,
    ManifestTable,
    decode_manifests,
    decode_object_manifest_blocks,
    encode_manifests,
    encode_object_manifest_blocks,
    manifest_table,
    scan_manifests,
)
from zarr_vectors.exceptions import DecodeError, EncodeError, ObjectNotFoundError, locate
from zarr_vectors.typing import FragmentRef, IntArray

Blocks = list[tuple[tuple[int, ...], FragmentRef]]

SINGLES: Blocks = [((0,), 4), ((1,), 2)]
RANGES: Blocks = [((0,), (4, 2)), ((-1,), (0, 0)), ((2,), (1, 1))]
MIXED: Blocks = [((0,), 4), ((1,), (3, 2)), ((2,), np.array([7, 1])), ((3,), np.array([], dtype=np.int64))]

# One mixed block walks one object at a time; forty objects walk in step.
ALONE, IN_STEP = 1, 40


def joined(manifests: Sequence[Blocks]) -> tuple[bytes, IntArray]:
    blobs = [encode_object_manifest_blocks(blocks, 1, force_explicit=True) for blocks in manifests]
    return b"".join(blobs), np.cumsum([0, *map(len, blobs)])


def plain(blocks: Blocks) -> list[tuple[tuple[int, ...], object]]:
    return [(chunk, ref.tolist() if isinstance(ref, np.ndarray) else ref) for chunk, ref in blocks]


def block(mode: int, body: bytes, chunk: int = 0) -> bytes:
    return struct.pack("<qB", chunk, mode) + body


def int64(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)


def manifest(*blocks: bytes) -> bytes:
    return struct.pack("<I", len(blocks)) + b"".join(blocks)


def hand_made(modes: list[int], starts: list[int], counts: list[int], explicit: list[int]) -> ManifestTable:
    return ManifestTable(
        np.array([0, len(modes)]),
        np.zeros((len(modes), 1), dtype=np.int64),
        np.array(modes, dtype=np.uint8),
        np.array(starts, dtype=np.int64),
        np.array(counts, dtype=np.int64),
        np.array(explicit, dtype=np.int64),
    )


# ---------------------------------------------------------------- one object


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        (5, 5),
        (np.int32(5), 5),
        ((5, 3), (5, 3)),
        ((5, 0), (5, 0)),
        ([5, 6, 7], (5, 3)),
        ([5], (5, 1)),
        (np.array([5, 6], dtype=np.uint8), (5, 2)),
        ([5, 7], [5, 7]),
        ([6, 5], [6, 5]),
        ([5, 5], [5, 5]),
        ([], []),
        # The difference of these two wraps to 1 in eight bits.
        (np.array([255, 0], dtype=np.uint8), [255, 0]),
    ],
    ids=repr,
)
def test_mode_follows_from_the_reference(reference: FragmentRef, expected: object) -> None:
    blocks = decode_object_manifest_blocks(encode_object_manifest_blocks([((1, -2), reference)]), 2)
    assert plain(blocks) == [((1, -2), expected)]


def test_force_explicit_keeps_lists_only() -> None:
    blob = encode_object_manifest_blocks([((0,), [5, 6]), ((0,), (5, 2)), ((0,), 5)], force_explicit=True)
    assert plain(decode_object_manifest_blocks(blob, 1)) == [((0,), [5, 6]), ((0,), (5, 2)), ((0,), 5)]


@pytest.mark.parametrize(
    "reference",
    [-1, (-1, 2), (1, -2), [3, -1], 1.5, (0.5, 2), [1.5], "a", [[1, 2]], (1, 2, 3), (1,), 2**63, 2**63 - 1, [2**70]],
    ids=repr,
)
def test_encode_rejects_what_names_no_fragment(reference: FragmentRef) -> None:
    with pytest.raises(EncodeError) as caught:
        encode_object_manifest_blocks([((0,), reference)])
    assert caught.value.rule == "fragment"


def test_encode_rejects_a_run_beyond_int64() -> None:
    with pytest.raises(EncodeError, match="too large") as caught:
        encode_object_manifest_blocks([((0,), (2**63 - 2, 3))])
    assert caught.value.rule == "fragment"


@pytest.mark.parametrize("chunk", [(0,), (0, 0, 0), (0.5, 1), (0, 2**63), ((0, 1), (0, 1))], ids=repr)
def test_encode_rejects_wrong_chunk_coordinates(chunk: tuple[int, ...]) -> None:
    with pytest.raises(EncodeError) as caught:
        encode_object_manifest_blocks([(chunk, 1)], 2)
    assert caught.value.rule == "chunk-coords"


def test_encode_rejects_blocks_of_different_rank() -> None:
    with pytest.raises(EncodeError, match="does not have 2 coordinates") as caught:
        encode_object_manifest_blocks([((0, 1), 1), ((0, 1, 2), 1)])
    assert caught.value.rule == "chunk-coords"


def test_decode_of_one_object_leaves_its_number_to_the_caller() -> None:
    with pytest.raises(DecodeError) as caught, locate(object_id=17):
        decode_object_manifest_blocks(b"\x01\0\0", 1)
    assert (caught.value.rule, caught.value.offset, caught.value.object_id) == ("length", 0, 17)


# ---------------------------------------------------------------- many objects


@pytest.mark.parametrize("copies", [ALONE, IN_STEP])
def test_bulk_forms_agree_with_the_single_ones(copies: int) -> None:
    manifests = [SINGLES, RANGES, MIXED, [], MIXED[2:]] * copies
    blob, offsets = joined(manifests)
    table = decode_manifests(blob, offsets, 1)
    assert table.num_objects == len(table) == len(manifests)
    assert table.num_blocks == sum(map(len, manifests))
    assert [plain(table.blocks(i)) for i in range(len(manifests))] == [plain(blocks) for blocks in manifests]
    written, written_offsets = encode_manifests(table)
    assert written == blob
    np.testing.assert_array_equal(written_offsets, offsets)
    np.testing.assert_array_equal(scan_manifests(blob, 1, len(manifests)), offsets)


def test_manifests_of_no_object() -> None:
    table = decode_manifests(b"", np.zeros(1, dtype=np.int64), 3)
    assert (table.num_objects, table.num_blocks, table.chunk_coords.shape) == (0, 0, (0, 3))
    assert encode_manifests(table)[0] == b""


@pytest.mark.parametrize(("length", "stride"), [(1, 17), (3, 25)])
def test_a_length_that_fits_two_modes_goes_by_the_mode_bytes(length: int, stride: int) -> None:
    # An empty list and one of this length take as many bytes as two blocks of mode 0, or of mode 1.
    blob = manifest(block(2, struct.pack("<I", 0)), block(2, struct.pack("<I", length) + int64(*range(length))))
    assert len(blob) == 4 + 2 * stride
    assert plain(decode_object_manifest_blocks(blob, 1)) == [((0,), []), ((0,), list(range(length)))]


def test_fragments_of_all_blocks() -> None:
    blob, offsets = joined([MIXED, SINGLES])
    fragments, ends = decode_manifests(blob, offsets, 1).fragments()
    assert fragments.tolist() == [4, 3, 4, 7, 1, 4, 2]
    assert ends.tolist() == [0, 1, 3, 5, 5, 6, 7]


def test_fragments_beyond_the_limit_are_refused() -> None:
    blob, offsets = joined([[((0,), (0, 2**62)), ((0,), (0, 2**62)), ((0,), (0, 2**62))]])
    with pytest.raises(DecodeError) as caught:
        decode_manifests(blob, offsets, 1).fragments()
    assert caught.value.rule == "limit"
    blob, offsets = joined([SINGLES])
    assert len(decode_manifests(blob, offsets, 1).fragments(limit=2)[0]) == 2
    with pytest.raises(DecodeError, match="more than 1 fragments"):
        decode_manifests(blob, offsets, 1).fragments(limit=1)


def test_take_keeps_the_order_given() -> None:
    blob, offsets = joined([SINGLES, MIXED, [], RANGES])
    taken = decode_manifests(blob, offsets, 1).take(np.array([3, 1, 1, 2]))
    assert [plain(taken.blocks(i)) for i in range(4)] == [plain(b) for b in (RANGES, MIXED, MIXED, [])]
    assert encode_manifests(taken)[0] == joined([RANGES, MIXED, MIXED, []])[0]


@pytest.mark.parametrize("object_id", [-1, 2])
def test_an_object_outside_of_the_table_is_not_found(object_id: int) -> None:
    blob, offsets = joined([SINGLES, MIXED])
    table = decode_manifests(blob, offsets, 1)
    with pytest.raises(ObjectNotFoundError, match=f"object {object_id} is not one of the 2"):
        table.blocks(object_id)
    with pytest.raises(ObjectNotFoundError, match=f"object {object_id} is not one of the 2"):
        table.take(np.array([0, object_id]))


def test_manifest_table_chooses_the_smallest_mode() -> None:
    table = manifest_table(
        np.array([0, 4, 4, 5]),
        np.arange(5)[:, None],
        np.array([0, 1, 4, 6, 6, 8]),
        np.array([9, 2, 3, 4, 4, 6, 7, 6]),
    )
    assert table.modes.tolist() == [SINGLE, RANGE, EXPLICIT, EXPLICIT, EXPLICIT]
    assert [plain(table.blocks(i)) for i in range(3)] == [
        [((0,), 9), ((1,), (2, 3)), ((2,), [4, 6]), ((3,), [])],
        [],
        [((4,), [7, 6])],
    ]


def test_manifest_table_of_nothing() -> None:
    nothing = np.zeros(1, dtype=np.int64)
    table = manifest_table(nothing, np.empty((0, 3), np.int64), nothing, nothing[:0])
    assert (table.num_objects, table.num_blocks) == (0, 0)


def test_a_million_manifests_come_back() -> None:
    count = 1_000_000
    fragments = np.arange(count, dtype=np.int64) % 1000
    ones = np.arange(count + 1, dtype=np.int64)
    table = manifest_table(ones, np.stack([fragments, -fragments], axis=1), ones, fragments)
    blob, offsets = encode_manifests(table)
    again = decode_manifests(blob, offsets, 2)
    assert again.num_objects == again.num_blocks == count
    np.testing.assert_array_equal(again.chunk_coords, table.chunk_coords)
    np.testing.assert_array_equal(again.fragments()[0], fragments)


@pytest.mark.parametrize(
    "table",
    [
        hand_made([SINGLE], [-1], [1], []),
        hand_made([SINGLE], [2**63 - 1], [1], []),
        hand_made([RANGE], [0], [-1], []),
        hand_made([RANGE], [2**63 - 2], [3], []),
        hand_made([EXPLICIT], [0], [1], [-1]),
    ],
)
def test_encode_manifests_rejects_impossible_fragments(table: ManifestTable) -> None:
    with pytest.raises(EncodeError) as caught:
        encode_manifests(table)
    assert caught.value.rule == "fragment"


def test_encode_manifests_rejects_counts_beyond_32_bits() -> None:
    table = hand_made([EXPLICIT], [0], [2**32], [])
    with pytest.raises(EncodeError) as caught:
        encode_manifests(table)
    assert caught.value.rule == "count"
    blocks = ManifestTable(
        np.array([0, 2**32]), table.chunk_coords, table.modes, table.starts, table.starts, table.starts
    )
    with pytest.raises(EncodeError) as caught:
        encode_manifests(blocks)
    assert caught.value.rule == "count"


# ---------------------------------------------------------------- damaged bytes

GOOD = manifest(block(2, struct.pack("<I", 0)), block(0, int64(3)))


@pytest.mark.parametrize("before", [0, 1, 50])
@pytest.mark.parametrize(
    ("blob", "rule", "offset"),
    [
        pytest.param(b"\0\0\0", "length", 0, id="short header"),
        pytest.param(struct.pack("<I", 2**32 - 1) + bytes(60), "block-count", 0, id="inflated count"),
        pytest.param(manifest() + b"\0", "trailing-bytes", 4, id="bytes after no block"),
        pytest.param(GOOD + b"\0", "trailing-bytes", len(GOOD), id="bytes after the last block"),
        pytest.param(manifest(block(3, int64(0))), "mode", 12, id="unknown mode"),
        pytest.param(GOOD[:-1], "length", 17, id="cut single"),
        pytest.param(manifest(block(1, int64(0, 2)))[:-1], "length", 4, id="cut range"),
        pytest.param(manifest(block(2, struct.pack("<I", 2) + int64(5))), "length", 4, id="cut list"),
        pytest.param(manifest(block(2, struct.pack("<I", 2**32 - 1) + int64(5))), "length", 4, id="inflated list"),
        pytest.param(
            struct.pack("<I", 2) + block(2, struct.pack("<I", 1) + int64(5)) + bytes(8), "length", 25, id="cut chunk"
        ),
        pytest.param(
            struct.pack("<I", 2) + block(2, struct.pack("<I", 1) + int64(5)) + block(2, b"\0\0\0"),
            "length",
            25,
            id="cut count",
        ),
        pytest.param(manifest(block(0, int64(-1))), "fragment", 13, id="negative single"),
        pytest.param(manifest(block(0, int64(2**63 - 1))), "fragment", 13, id="single too large"),
        pytest.param(manifest(block(1, int64(-1, 2))), "fragment", 13, id="negative start"),
        pytest.param(manifest(block(1, int64(1, -2))), "fragment", 13, id="negative count"),
        pytest.param(manifest(block(1, int64(2, 2**63 - 2))), "fragment", 13, id="end beyond int64"),
        pytest.param(manifest(block(2, struct.pack("<I", 2) + int64(5, -5))), "fragment", 13, id="negative in list"),
    ],
)
def test_decode_names_object_rule_and_byte(blob: bytes, rule: str, offset: int, before: int) -> None:
    # Behind `before` good objects that are walked too: alone, a few, or enough to go in step.
    data, offsets = GOOD * before + blob, np.append(np.arange(before + 1) * len(GOOD), 0)
    offsets[-1] = len(data)
    with pytest.raises(DecodeError) as caught:
        decode_manifests(data, offsets, 1)
    assert (caught.value.rule, caught.value.offset) == (rule, before * len(GOOD) + offset)
    assert caught.value.object_id == before


@pytest.mark.parametrize("bad", ["mode", "length", "list", "chunk"])
def test_decode_names_the_object_in_a_later_wave(bad: str) -> None:
    first = block(2, struct.pack("<I", 1) + int64(5))
    second = {
        "mode": block(9, int64(0)),
        "length": block(1, int64(0)),
        "list": block(2, struct.pack("<I", 3) + int64(0)),
        "chunk": bytes(8) + b"\1" + bytes(4),
    }[bad]
    damaged = struct.pack("<I", 2) + first + second
    blobs = [manifest(first, block(0, int64(3)))] * 50 + [damaged]
    offsets = np.cumsum([0, *map(len, blobs)])
    with pytest.raises(DecodeError) as caught:
        decode_manifests(b"".join(blobs), offsets, 1)
    at_mode = 8 if bad == "mode" else 0
    assert caught.value.rule == ("mode" if bad == "mode" else "length")
    assert caught.value.offset == offsets[50] + 4 + len(first) + at_mode
    assert caught.value.object_id == 50


def test_a_negative_fragment_is_named_with_its_chunk() -> None:
    blob = manifest(block(2, struct.pack("<I", 0)), block(2, struct.pack("<I", 1) + int64(-1), chunk=-7))
    with pytest.raises(DecodeError) as caught:
        decode_object_manifest_blocks(blob, 1)
    assert (caught.value.chunk, caught.value.offset) == ("-7", 4 + 13 + 9)


@pytest.mark.parametrize(
    ("offsets", "rule", "object_id"),
    [
        ([-4, 4], "offsets", 0),
        ([0, 4, 12], "offsets", 1),
        ([0, 4, 2**62], "offsets", 1),
        ([0, 8, 4], "offsets", 1),
        ([0, 4, 6], "length", 1),
        # The differences of these wrap around to lengths that look right.
        ([0, 2**63 - 1, -(2**63) + 10, 8], "offsets", 0),
        ([2**56, -(2**63)], "offsets", 0),
    ],
)
def test_decode_rejects_offsets_outside_of_the_bytes(offsets: list[int], rule: str, object_id: int) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_manifests(manifest() * 2, np.array(offsets), 1)
    assert (caught.value.rule, caught.value.object_id) == (rule, object_id)


# ---------------------------------------------------------------- streams without offsets


def test_scan_starts_where_it_is_told_and_leaves_the_rest_alone() -> None:
    blob, offsets = joined([SINGLES, MIXED])
    assert scan_manifests(b"xyz" + blob + b"rest", 1, 2, start=3).tolist() == (offsets + 3).tolist()
    assert scan_manifests(blob, 1, 0, start=5).tolist() == [5]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_scan_takes_any_buffer(kind: type) -> None:
    blob, offsets = joined([SINGLES, MIXED])
    assert scan_manifests(kind(blob), 1, 2).tolist() == offsets.tolist()


@pytest.mark.parametrize(("num_objects", "start"), [(2, 0), (2**40, 0), (1, 4), (1, 40)])
def test_scan_rejects_more_objects_than_fit(num_objects: int, start: int) -> None:
    with pytest.raises(DecodeError) as caught:
        scan_manifests(manifest(), 1, num_objects, start=start)
    assert (caught.value.rule, caught.value.offset) == ("length", start)


@pytest.mark.parametrize(
    ("tail", "rule", "offset"),
    [
        (b"\0\0", "length", 0),
        (struct.pack("<I", 1) + bytes(8), "length", 4),
        (struct.pack("<I", 2**32 - 1) + block(0, int64(3)), "length", 21),
        (manifest(block(3, int64(0))), "mode", 12),
        (manifest(block(2, struct.pack("<I", 2**32 - 1))), "length", 4),
    ],
)
def test_scan_names_object_rule_and_byte(tail: bytes, rule: str, offset: int) -> None:
    with pytest.raises(DecodeError) as caught:
        scan_manifests(GOOD + tail, 1, 2)
    assert (caught.value.rule, caught.value.offset) == (rule, len(GOOD) + offset)
    assert caught.value.object_id == 1
