"""What is encoded comes back; other bytes are decoded or refused, and nothing else happens."""

import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from zarr_vectors.encoding.codecs import CodecChain
from zarr_vectors.encoding.compression import codec_pipeline
from zarr_vectors.encoding.fragments import (
    ChunkFragmentIndex,
    decode_fragments,
    encode_fragment_arrays,
    encode_fragments,
    encode_ranges,
)
from zarr_vectors.encoding.groups import decode_groups, encode_groups
from zarr_vectors.encoding.links import (
    LINK_DTYPES,
    decode_endpoint_records,
    decode_links,
    decode_paired_links,
    encode_endpoint_records,
    encode_links,
)
from zarr_vectors.encoding.manifests import (
    decode_manifests,
    decode_object_manifest_blocks,
    encode_manifests,
    encode_object_manifest_blocks,
    manifest_table,
    scan_manifests,
)
from zarr_vectors.encoding.rows import ROW_DTYPES, channels_of, decode_rows, encode_rows, row_dtype
from zarr_vectors.encoding.vlen import decode_vlen_bytes, encode_vlen_bytes, split_vlen_bytes
from zarr_vectors.exceptions import DecodeError
from zarr_vectors.typing import FragmentRef, IntArray

INT64_MAX = 2**63 - 1
PEAK_BYTES = 64 * 2**20

Blocks = list[tuple[tuple[int, ...], FragmentRef]]
Plain = list[tuple[tuple[int, ...], object]]


def offsets_of(lengths: list[int]) -> IntArray:
    return np.cumsum([0, *lengths], dtype=np.int64)


def int64s(values: list[int]) -> IntArray:
    return np.array(values, dtype=np.int64)


def pieces(values: IntArray, offsets: IntArray) -> list[list[int]]:
    return [values[begin:end].tolist() for begin, end in pairwise(offsets)]


def numbers_below(count: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, count - 1), max_size=20) if count else st.just([])


def plain(blocks: Blocks) -> Plain:
    return [(chunk, ref.tolist() if isinstance(ref, np.ndarray) else ref) for chunk, ref in blocks]


# ---------------------------------------------------------------- fragments

rows_of_a_chunk = st.integers(0, 40)
run = st.tuples(rows_of_a_chunk, rows_of_a_chunk)
row_list = st.lists(rows_of_a_chunk, max_size=6)
fragment_lists = st.lists(run | row_list, max_size=80)


def listed(fragment: tuple[int, int] | list[int]) -> list[int]:
    return list(range(fragment[0], sum(fragment))) if isinstance(fragment, tuple) else fragment


def check_array_forms(index: ChunkFragmentIndex) -> None:
    """Compare every form that answers for all fragments with the one that answers for one."""
    numbers = range(index.num_fragments)
    is_range = [index.is_range(f) for f in numbers]
    assert index.range_mask.tolist() == is_range
    assert index.num_range_fragments == sum(is_range)
    assert index.starts.tolist() == [index.range(f)[0] if is_range[f] else -1 for f in numbers]
    assert index.counts.tolist() == [len(index.indices(f)) for f in numbers]
    rows, offsets = index.rows()
    for f in numbers:
        assert rows[offsets[f] : offsets[f + 1]].tolist() == index.indices(f).tolist() == index.indices_view(f).tolist()
        if is_range[f]:
            start, count = index.range(f)
            assert index.indices(f).tolist() == list(range(start, start + count))


@given(fragments=fragment_lists)
def test_fragments_come_back_exactly(fragments: list[tuple[int, int] | list[int]]) -> None:
    index = decode_fragments(encode_fragments(fragments, num_rows=80, force_explicit=True), num_rows=80)
    found = [index.range(f) if index.is_range(f) else index.indices(f).tolist() for f in range(len(index))]
    assert found == fragments
    check_array_forms(index)


@given(fragments=fragment_lists)
def test_fragments_keep_their_rows_when_runs_become_ranges(fragments: list[tuple[int, int] | list[int]]) -> None:
    index = decode_fragments(encode_fragments(fragments))
    assert [index.indices(f).tolist() for f in range(len(index))] == [listed(fragment) for fragment in fragments]
    check_array_forms(index)


@given(fragments=fragment_lists, data=st.data())
def test_fragment_gathers_agree_with_the_scalar_form(
    fragments: list[tuple[int, int] | list[int]], data: st.DataObject
) -> None:
    index = decode_fragments(encode_fragments(fragments))
    chosen = data.draw(numbers_below(len(fragments)))
    rows, offsets = index.rows(chosen)
    assert pieces(rows, offsets) == [listed(fragments[f]) for f in chosen]
    wanted = data.draw(st.lists(st.integers(0, 90), max_size=10))
    owners, ends = index.fragments_of(wanted)
    assert pieces(owners, ends) == [
        [f for f, fragment in enumerate(fragments) if row in listed(fragment)] for row in wanted
    ]


@given(fragments=fragment_lists)
def test_fragment_tables_give_the_same_bytes(fragments: list[tuple[int, int] | list[int]]) -> None:
    ranges = [fragment for fragment in fragments if isinstance(fragment, tuple)]
    explicit = [fragment for fragment in fragments if isinstance(fragment, list)]
    from_tables = encode_fragment_arrays(
        np.array([isinstance(fragment, tuple) for fragment in fragments], dtype=np.bool_),
        np.array(ranges, dtype=np.int64).reshape(-1, 2),
        offsets_of([len(rows) for rows in explicit]),
        int64s([row for rows in explicit for row in rows]),
    )
    assert from_tables == encode_fragments(fragments, force_explicit=True)


@given(
    ranges=st.lists(
        st.integers(0, INT64_MAX).flatmap(lambda s: st.tuples(st.just(s), st.integers(0, INT64_MAX - s))), max_size=80
    )
)
def test_ranges_of_any_size_come_back(ranges: list[tuple[int, int]]) -> None:
    blob = encode_ranges(int64s([start for start, _ in ranges]), int64s([count for _, count in ranges]))
    assert blob == encode_fragments(ranges)
    index = decode_fragments(blob)
    assert [index.range(f) for f in range(len(index))] == ranges
    assert list(zip(index.starts.tolist(), index.counts.tolist(), strict=True)) == ranges


# ---------------------------------------------------------------- manifests

fragment_numbers = st.integers(0, 9) | st.integers(0, INT64_MAX - 1)
single = fragment_numbers
ranged = st.integers(0, INT64_MAX).flatmap(lambda start: st.tuples(st.just(start), st.integers(0, INT64_MAX - start)))
explicit_lists = st.lists(fragment_numbers, max_size=5).map(int64s)
coordinates = st.integers(-3, 3) | st.integers(-(2**63), INT64_MAX)


def blocks_of(ndim: int, references: st.SearchStrategy[FragmentRef], max_size: int) -> st.SearchStrategy[Blocks]:
    return st.lists(st.tuples(st.tuples(*[coordinates] * ndim), references), max_size=max_size)


@st.composite
def many_manifests(draw: st.DrawFn) -> tuple[int, list[Blocks]]:
    """Manifests for each way to find blocks: one stride, all in step (from 32 objects on), one by one."""
    ndim = draw(st.integers(1, 3))
    pool = draw(
        st.lists(
            blocks_of(ndim, single, max_size=4)
            | blocks_of(ndim, ranged, max_size=4)
            | blocks_of(ndim, single | ranged | explicit_lists, max_size=6),
            min_size=1,
            max_size=4,
        )
    )
    # Repeats of a few manifests: many objects at little cost, of which few have many blocks.
    count = draw(st.sampled_from([0, 1, 3, 31, 32, 70]))
    picks = draw(st.lists(st.integers(0, len(pool) - 1), min_size=count, max_size=count))
    return ndim, [pool[pick] for pick in picks]


def joined(ndim: int, manifests: list[Blocks]) -> tuple[bytes, IntArray]:
    blobs = [encode_object_manifest_blocks(blocks, ndim, force_explicit=True) for blocks in manifests]
    return b"".join(blobs), offsets_of([len(blob) for blob in blobs])


@given(case=many_manifests())
def test_manifests_agree_in_all_forms(case: tuple[int, list[Blocks]]) -> None:
    ndim, manifests = case
    blob, offsets = joined(ndim, manifests)
    table = decode_manifests(blob, offsets, ndim)
    assert table.num_objects == len(manifests)
    expected = [plain(blocks) for blocks in manifests]
    assert [plain(table.blocks(i)) for i in range(len(table))] == expected
    one_by_one = [plain(decode_object_manifest_blocks(blob[begin:end], ndim)) for begin, end in pairwise(offsets)]
    assert one_by_one == expected
    written, written_offsets = encode_manifests(table)
    assert written == blob
    assert written_offsets.tolist() == offsets.tolist()
    assert scan_manifests(blob, ndim, len(manifests)).tolist() == offsets.tolist()


@given(case=many_manifests(), data=st.data())
def test_taken_manifests_are_those_of_the_objects(case: tuple[int, list[Blocks]], data: st.DataObject) -> None:
    ndim, manifests = case
    chosen = data.draw(numbers_below(len(manifests)))
    taken = decode_manifests(*joined(ndim, manifests), ndim).take(int64s(chosen))
    assert [plain(taken.blocks(i)) for i in range(len(taken))] == [plain(manifests[i]) for i in chosen]
    assert encode_manifests(taken)[0] == joined(ndim, [manifests[i] for i in chosen])[0]


@given(
    objects=st.lists(
        st.lists(st.tuples(st.tuples(coordinates, coordinates), st.lists(st.integers(0, 6), max_size=5)), max_size=4),
        max_size=50,
    )
)
def test_manifest_tables_keep_the_fragments(objects: list[list[tuple[tuple[int, int], list[int]]]]) -> None:
    blocks = [block for blocks in objects for block in blocks]
    table = manifest_table(
        offsets_of([len(blocks) for blocks in objects]),
        np.array([chunk for chunk, _ in blocks], dtype=np.int64).reshape(-1, 2),
        offsets_of([len(fragments) for _, fragments in blocks]),
        int64s([f for _, fragments in blocks for f in fragments]),
    )
    again = decode_manifests(*encode_manifests(table), 2)
    fragments, offsets = again.fragments()
    assert pieces(fragments, offsets) == [fragments for _, fragments in blocks]
    assert np.diff(again.object_offsets).tolist() == [len(blocks) for blocks in objects]
    assert [tuple(chunk) for chunk in again.chunk_coords.tolist()] == [chunk for chunk, _ in blocks]
    # The smallest mode, and the one that the single form chooses where it has the choice.
    assert all(mode != 2 or len(f) != 1 for mode, (_, f) in zip(again.modes.tolist(), blocks, strict=True))
    longer = [(chunk, f) for chunk, f in blocks if len(f) != 1]
    modes = [m for m, (_, f) in zip(again.modes.tolist(), blocks, strict=True) if len(f) != 1]
    single_form = decode_object_manifest_blocks(encode_object_manifest_blocks(longer, 2), 2)
    assert modes == [1 if isinstance(ref, tuple) else 2 for _, ref in single_form]


# ---------------------------------------------------------------- vlen-bytes, rows, links, groups


@given(items=st.lists(st.binary(max_size=8), max_size=20), padding=st.integers(0, 3), before=st.binary(max_size=3))
def test_vlen_items_come_back(items: list[bytes], padding: int, before: bytes) -> None:
    offsets = offsets_of([len(item) for item in items]) + len(before)
    chunk = encode_vlen_bytes(before + b"".join(items), offsets, num_items=len(items) + padding)
    padded = items + [b""] * padding
    assert split_vlen_bytes(chunk) == padded
    data, found = decode_vlen_bytes(chunk)
    assert data == b"".join(items)
    assert found.tolist() == offsets_of([len(item) for item in padded]).tolist()


@pytest.mark.parametrize("dtype", ROW_DTYPES)
@given(data=st.data())
def test_rows_come_back(dtype: str, data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(max_dims=3, min_side=0, max_side=4))
    width = tuple(max(extent, 1) for extent in shape[1:])
    rows = data.draw(hnp.arrays(np.dtype(dtype), (shape[0], *width)))
    payload = encode_rows(rows.astype(rows.dtype.newbyteorder(">")))
    assert payload.dtype == row_dtype(dtype)
    for buffer in (payload.tobytes(), payload.reshape(-1).view(np.uint8)):
        again = decode_rows(buffer, dtype, width=width, num_rows=shape[0])
        assert again.shape == rows.shape
        assert again.tobytes() == rows.tobytes()
    if rows.size:
        channels = int(np.prod(width))
        assert channels_of(payload.nbytes, dtype, shape[0]) == (None if channels == 1 else channels)


@given(width=st.integers(1, 4), num_rows=st.sampled_from([1, 200, 300, 70_000, 2**33]), data=st.data())
def test_links_come_back(width: int, num_rows: int, data: st.DataObject) -> None:
    lowest = -1 if width == 1 else 0
    links = data.draw(
        hnp.arrays(np.int64, st.tuples(st.integers(0, 5), st.just(width)), elements=st.integers(lowest, num_rows - 1))
    )
    payload = encode_links(links, width=width, num_rows=num_rows)
    assert payload.dtype.name in LINK_DTYPES
    np.testing.assert_array_equal(
        decode_links(payload.tobytes(), payload.dtype.name, width=width, num_rows=num_rows), links
    )


@given(width=st.integers(1, 4), ndim=st.integers(1, 4), data=st.data())
def test_endpoint_records_come_back(width: int, ndim: int, data: st.DataObject) -> None:
    records = data.draw(hnp.arrays(np.int64, st.tuples(st.integers(0, 4), st.just(width), st.just(ndim + 1))))
    records[..., -1] &= INT64_MAX
    payload = encode_endpoint_records(records, width=width, ndim=ndim)
    again = decode_endpoint_records(payload.tobytes(), width=width, ndim=ndim, num_links=len(records))
    np.testing.assert_array_equal(again, records)


@given(parts=st.lists(st.lists(st.tuples(*[st.integers(0, INT64_MAX)] * 2), max_size=4), max_size=4), data=st.data())
def test_paired_links_are_records_inside_one_chunk(parts: list[list[tuple[int, int]]], data: st.DataObject) -> None:
    chunk = data.draw(st.lists(coordinates, min_size=1, max_size=3))
    pairs = [pair for part in parts for pair in part]
    starts = 16 * offsets_of([len(part) for part in parts])[:-1]
    payload = int64s([len(parts), *starts.tolist(), *(row for pair in pairs for row in pair)])
    records = decode_paired_links(payload.tobytes(), chunk)
    assert records.tolist() == [[[*chunk, a], [*chunk, b]] for a, b in pairs]


@given(groups=st.lists(st.lists(st.integers(0, INT64_MAX), max_size=4), max_size=6))
def test_groups_come_back_from_all_forms(groups: list[list[int]]) -> None:
    ids, offsets = int64s([i for group in groups for i in group]), offsets_of([len(group) for group in groups])
    data, starts = encode_groups(ids, offsets)
    count = int64s([len(groups)]).tobytes()
    forms: list[tuple[bytes, bytes | None]] = [
        (data.tobytes(), starts.tobytes()),
        (offsets.tobytes() + data.tobytes(), None),
        (count + starts.tobytes() + data.tobytes(), None),
    ]
    for blob, beside in forms:
        found, found_offsets = decode_groups(blob, beside, num_groups=len(groups))
        assert found.tolist() == ids.tolist()
        assert found_offsets.tolist() == offsets.tolist()


# ---------------------------------------------------------------- codecs

COMPRESSORS: list[Any] = [
    None,
    "default",
    "lz4",
    "zstd",
    "gzip",
    *({"name": "blosc", "configuration": {"cname": name}} for name in ("blosclz", "lz4hc", "zlib")),
    *({"name": "blosc", "configuration": {"shuffle": shuffle}} for shuffle in ("noshuffle", "bitshuffle")),
    {"name": "zstd", "configuration": {"level": 1, "checksum": True}},
]


def chain_of(compressor: Any, dtype: str = "int32", *, checksum: bool = True) -> CodecChain:
    chain = CodecChain.parse(codec_pipeline("vertices", dtype, compressor=compressor, checksum=checksum))
    assert chain is not None
    return chain


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=str)
@given(data=st.data())
def test_payloads_come_back_from_every_codec(compressor: Any, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(ROW_DTYPES))
    payload = data.draw(st.binary(max_size=300) | hnp.arrays(np.dtype(dtype), hnp.array_shapes(max_dims=2, min_side=0)))
    chain = chain_of(compressor, dtype, checksum=data.draw(st.booleans()))
    stored = chain.encode(payload)
    expected = payload if isinstance(payload, bytes) else payload.tobytes()
    assert chain.encode(payload) == stored
    assert chain.decode(stored).tobytes() == expected
    assert chain.decode(memoryview(stored), expected=len(expected)).tobytes() == expected


# ---------------------------------------------------------------- damaged bytes

VALID_FRAGMENTS = encode_fragments([(0, 4), [12, 7, 19], (20, 8), [], [3]], force_explicit=True)
VALID_MANIFEST = encode_object_manifest_blocks([((0, 1), 4), ((1, 1), (0, 3)), ((0, 2), np.array([6, 1]))])
VALID_STREAM = VALID_MANIFEST * 2 + encode_object_manifest_blocks([]) + VALID_MANIFEST
VALID_CROWD = VALID_MANIFEST * 40
VALID_VLEN = encode_vlen_bytes(b"abcdefgh", offsets_of([3, 0, 4, 1]))
VALID_RECORDS = encode_endpoint_records(np.arange(18).reshape(3, 2, 3), width=2, ndim=2).tobytes()
VALID_PAIRS = int64s([2, 0, 16, 5, 6, 7, 8, 9, 10]).tobytes()
VALID_GROUPS = int64s([0, 2, 2, 3, 7, 3, 5]).tobytes()
VALID_COUNTED_GROUPS = int64s([3, 0, 16, 16, 7, 3, 5]).tobytes()
NAMED_COMPRESSORS = ("default", "lz4", "zstd", "gzip")
PAYLOAD = np.arange(200, dtype="<i4") // 3


def walk_fragments(blob: bytes) -> None:
    index = decode_fragments(blob)
    index.rows(limit=100_000)


def walk_fragments_of_a_chunk(blob: bytes) -> None:
    index = decode_fragments(blob, num_rows=28)
    check_array_forms(index)
    index.fragments_of([0, 5, 27])


def walk_manifest(blob: bytes) -> None:
    decode_object_manifest_blocks(blob, 2)


def walk_stream(blob: bytes) -> None:
    offsets = scan_manifests(blob, 2, 4)
    table = decode_manifests(blob, offsets, 2)
    table.fragments(limit=100_000)
    assert encode_manifests(table)[0] == blob[: offsets[-1]]


def walk_crowd(blob: bytes) -> None:
    # Ends that the damage has not moved, so that most objects are still good.
    offsets = len(VALID_MANIFEST) * np.arange(40)
    decode_manifests(blob, np.append(offsets, len(blob)), 2).fragments(limit=100_000)


def walk_offsets(blob: bytes) -> None:
    offsets = np.frombuffer(blob[: len(blob) // 8 * 8], dtype="<i8")
    decode_manifests(VALID_STREAM, offsets, 2).fragments(limit=100_000)


def walk_groups(blob: bytes) -> None:
    ids, offsets = decode_groups(blob, None, num_groups=3)
    assert offsets[0] == 0
    assert offsets[-1] == len(ids)
    assert (np.diff(offsets) >= 0).all()


def walk_group_offsets(blob: bytes) -> None:
    decode_groups(int64s([7, 3, 5]).tobytes(), blob, num_groups=3)


def unpack(compressor: str) -> Callable[[bytes], object]:
    chain = chain_of(compressor, checksum=False)
    return lambda blob: chain.decode(blob, limit=2**20)


TARGETS: dict[str, tuple[bytes, Callable[[bytes], object]]] = {
    "fragments": (VALID_FRAGMENTS, walk_fragments),
    "fragments of a chunk": (VALID_FRAGMENTS, walk_fragments_of_a_chunk),
    "manifest": (VALID_MANIFEST, walk_manifest),
    "stream of manifests": (VALID_STREAM, walk_stream),
    "many manifests": (VALID_CROWD, walk_crowd),
    "offsets of manifests": (scan_manifests(VALID_STREAM, 2, 4).tobytes(), walk_offsets),
    "vlen-bytes": (VALID_VLEN, split_vlen_bytes),
    "rows": (bytes(48), lambda blob: decode_rows(blob, "float32", width=3, num_rows=4)),
    "links": (b"\0\1\1\2\2\3", lambda blob: decode_links(blob, "int8", width=2, num_rows=4)),
    "endpoint records": (VALID_RECORDS, lambda blob: decode_endpoint_records(blob, width=2, ndim=2)),
    "paired links": (VALID_PAIRS, lambda blob: decode_paired_links(blob, (1, 2))),
    "groups": (VALID_GROUPS, walk_groups),
    "counted groups": (VALID_COUNTED_GROUPS, walk_groups),
    "offsets of groups": (int64s([0, 16, 16]).tobytes(), walk_group_offsets),
    **{f"codec {name}": (chain_of(name, checksum=False).encode(PAYLOAD), unpack(name)) for name in NAMED_COMPRESSORS},
    "checksum": (chain_of("default").encode(PAYLOAD), chain_of("default").decode),
}


def decode_or_refuse(decode: Callable[[bytes], object], blob: bytes) -> None:
    """Let nothing but a `DecodeError` out, and nothing that needs memory out of proportion."""
    tracemalloc.start()
    try:
        decode(blob)
    except DecodeError as error:
        rule = error.rule
    else:
        rule = "none"
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert rule
    assert peak < PEAK_BYTES


@st.composite
def damaged(draw: st.DrawFn, valid: bytes) -> bytes:
    blob = bytearray(valid)
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["flip", "byte", "cut", "insert", "remove", "uint32", "int64"]))
        at = draw(st.integers(0, max(len(blob) - 1, 0)))
        if kind == "flip" and blob:
            blob[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "byte" and blob:
            blob[at] = draw(st.integers(0, 255))
        elif kind == "cut":
            del blob[at:]
        elif kind == "insert":
            blob[at:at] = draw(st.binary(min_size=1, max_size=16))
        elif kind == "remove":
            del blob[at : at + draw(st.integers(1, 16))]
        elif kind == "uint32":
            value = draw(st.sampled_from([0, 1, 2**16, 2**31 - 1, 2**31, 2**32 - 1]) | st.integers(0, 2**32 - 1))
            blob[at : at + 4] = value.to_bytes(4, "little")
        elif kind == "int64":
            value = draw(st.sampled_from([-1, 2**61, 2**62, INT64_MAX, -(2**63)]) | st.integers(-(2**63), INT64_MAX))
            blob[at // 8 * 8 : at // 8 * 8 + 8] = value.to_bytes(8, "little", signed=True)
    return bytes(blob)


@pytest.mark.parametrize("target", TARGETS)
@given(data=st.data())
def test_damaged_bytes_are_decoded_or_refused(target: str, data: st.DataObject) -> None:
    valid, decode = TARGETS[target]
    decode_or_refuse(decode, data.draw(damaged(valid)))


@pytest.mark.parametrize("target", TARGETS)
@given(blob=st.binary(max_size=100))
def test_random_bytes_are_decoded_or_refused(target: str, blob: bytes) -> None:
    _, decode = TARGETS[target]
    decode_or_refuse(decode, blob)


@pytest.mark.parametrize("target", ["fragments", "manifest"])
@given(blob=st.binary(max_size=100))
def test_random_bytes_after_a_good_beginning_are_decoded_or_refused(target: str, blob: bytes) -> None:
    valid, decode = TARGETS[target]
    decode_or_refuse(decode, valid[: 16 if target == "fragments" else 4] + blob)


@pytest.mark.parametrize("target", TARGETS)
def test_undamaged_bytes_are_decoded(target: str) -> None:
    valid, decode = TARGETS[target]
    decode(valid)
