import numpy as np
import numpy.typing as npt
import pytest

from zarr_vectors.encoding.links import (
    check_byte_offsets,
    decode_endpoint_records,
    decode_links,
    decode_paired_links,
    encode_endpoint_records,
    encode_links,
    narrowest_link_dtype,
)
from zarr_vectors.exceptions import DecodeError, EncodeError


def int64(*values: int) -> bytes:
    return np.array(values, dtype="<i8").tobytes()


@pytest.mark.parametrize(
    ("num_rows", "dtype"),
    [
        (0, "uint8"),
        (256, "uint8"),
        (257, "uint16"),
        (65_536, "uint16"),
        (65_537, "uint32"),
        (2**32, "uint32"),
        (2**32 + 1, "int64"),
    ],
)
def test_narrowest_dtype(num_rows: int, dtype: str) -> None:
    assert narrowest_link_dtype(num_rows) == dtype


def test_encode_links_is_as_narrow_as_it_can_be() -> None:
    links = encode_links([[0, 299], [1, 2]], width=2, num_rows=300)
    assert links.dtype == np.dtype("<u2")
    assert links.tobytes() == b"\0\0\x2b\x01\1\0\2\0"


def test_encode_links_in_the_declared_dtype() -> None:
    assert encode_links([[0, 1]], width=2, num_rows=2, dtype="int32").dtype == np.dtype("<i4")


def test_encode_no_links() -> None:
    assert encode_links([], width=3, num_rows=0).shape == (0, 3)


def test_encode_parents_of_roots() -> None:
    links = encode_links([[-1], [0]], width=1, num_rows=2)
    assert (links.dtype, links.tolist()) == (np.dtype("<i8"), [[-1], [0]])
    assert encode_links([[-1]], width=1, num_rows=2, dtype="int8").tobytes() == b"\xff"


@pytest.mark.parametrize("links", [[[0, 1, 2]], [0, 1], [[0.0, 1.0]], [[True, False]], 3], ids=repr)
def test_encode_links_rejects_wrong_shape_or_type(links: npt.ArrayLike) -> None:
    with pytest.raises(EncodeError) as caught:
        encode_links(links, width=2, num_rows=5)
    assert caught.value.rule == "link-width"


@pytest.mark.parametrize(("links", "width"), [([[0, 5]], 2), ([[-1, 0]], 2), ([[-2]], 1), ([[5]], 1)])
def test_encode_links_rejects_rows_outside_of_the_chunk(links: npt.ArrayLike, width: int) -> None:
    with pytest.raises(EncodeError) as caught:
        encode_links(links, width=width, num_rows=5)
    assert caught.value.rule == "link-rows"


@pytest.mark.parametrize(
    ("links", "width", "dtype"), [([[0, 300]], 2, "uint8"), ([[-1]], 1, "uint8"), ([[0, 1]], 2, "float32")]
)
def test_encode_links_rejects_a_dtype_that_does_not_fit(links: npt.ArrayLike, width: int, dtype: str) -> None:
    with pytest.raises(EncodeError) as caught:
        encode_links(links, width=width, num_rows=500, dtype=dtype)
    assert caught.value.rule == "link-dtype"


def test_decode_links_keeps_the_stored_dtype() -> None:
    links = decode_links(b"\0\1\1\2", "uint8", width=2, num_rows=3)
    assert (links.dtype, links.tolist()) == (np.dtype("u1"), [[0, 1], [1, 2]])


def test_decode_links_without_rows_or_links() -> None:
    assert decode_links(b"\0\xff", "uint8", width=2).tolist() == [[0, 255]]
    assert decode_links(b"", "uint8", width=2, num_rows=0).shape == (0, 2)


def test_decode_links_accepts_no_parent() -> None:
    assert decode_links(b"\xff\0", "int8", width=1, num_rows=2).tolist() == [[-1], [0]]


@pytest.mark.parametrize(
    ("payload", "dtype", "width"),
    [(b"\0\1\1\3", "uint8", 2), (b"\0\1\xff\0", "int8", 2), (b"\0\xfe", "int8", 1), (b"\0\xff", "uint8", 1)],
)
def test_decode_links_rejects_rows_outside_of_the_chunk(payload: bytes, dtype: str, width: int) -> None:
    with pytest.raises(DecodeError, match=r"link 1 is .* the chunk has 3 rows") as caught:
        decode_links(payload, dtype, width=width, num_rows=3)
    assert (caught.value.rule, caught.value.offset) == ("link-rows", None)


def test_decode_links_rejects_a_dtype_that_is_no_integer() -> None:
    with pytest.raises(DecodeError) as caught:
        decode_links(bytes(8), "float32", width=2)
    assert (caught.value.rule, caught.value.offset) == ("link-dtype", None)


@pytest.mark.parametrize(("width", "rule"), [(3, "row-size"), (0, "row-width")])
def test_decode_links_rejects_bytes_that_are_not_links(width: int, rule: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_links(bytes(8), "uint8", width=width)
    assert caught.value.rule == rule


def test_endpoint_records_come_back() -> None:
    records = [[[0, -1, 5], [1, -1, 0]], [[2, 2, 2], [3, 3, 3]]]
    payload = encode_endpoint_records(records, width=2, ndim=2)
    assert payload.tobytes() == int64(0, -1, 5, 1, -1, 0, 2, 2, 2, 3, 3, 3)
    assert decode_endpoint_records(payload.tobytes(), width=2, ndim=2, num_links=2).tolist() == records


def test_no_endpoint_records() -> None:
    assert encode_endpoint_records([], width=3, ndim=2).shape == (0, 3, 3)
    assert decode_endpoint_records(b"", width=3, ndim=2, num_links=0).shape == (0, 3, 3)


@pytest.mark.parametrize("records", [[[[0, 1], [0, 1]]], [[0, 1, 2]], [[[0.0, 1, 2], [0, 1, 2]]], 7], ids=repr)
def test_encode_endpoint_records_rejects_wrong_shape_or_type(records: npt.ArrayLike) -> None:
    with pytest.raises(EncodeError) as caught:
        encode_endpoint_records(records, width=2, ndim=2)
    assert caught.value.rule == "records"


@pytest.mark.parametrize("row", [np.int64(-1), np.uint64(2**63)])
def test_encode_endpoint_records_rejects_impossible_rows(row: np.integer) -> None:
    with pytest.raises(EncodeError) as caught:
        encode_endpoint_records(np.array([[[0, row]]], dtype=row.dtype), width=1, ndim=1)
    assert caught.value.rule == "link-rows"


def test_decode_endpoint_records_rejects_negative_rows() -> None:
    with pytest.raises(DecodeError, match="record 1 has a negative row") as caught:
        decode_endpoint_records(int64(0, 0, 0, 0, 0, 0, 0, -1), width=2, ndim=1)
    assert (caught.value.rule, caught.value.offset) == ("link-rows", None)


@pytest.mark.parametrize(("num_links", "size", "rule"), [(2, 32, "row-count"), (None, 31, "row-size")])
def test_decode_endpoint_records_rejects_other_lengths(num_links: int | None, size: int, rule: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_endpoint_records(bytes(size), width=2, ndim=1, num_links=num_links)
    assert caught.value.rule == rule


def test_paired_links_become_endpoint_records() -> None:
    records = decode_paired_links(int64(2, 0, 16, 3, 4, 5, 6), (7, -8))
    assert records.tolist() == [[[7, -8, 3], [7, -8, 4]], [[7, -8, 5], [7, -8, 6]]]


def test_paired_links_of_no_part() -> None:
    assert decode_paired_links(int64(0), (1, 2, 3)).shape == (0, 2, 4)


@pytest.mark.parametrize(
    ("payload", "rule", "offset"),
    [
        (b"", "part-count", 0),
        (int64(-1), "part-count", 0),
        (int64(2, 0), "part-count", 0),
        (int64(2**62, 0), "part-count", 0),
        (bytes(9), "item-size", 8),
        (int64(1, 0, 3), "pairs", 16),
        (int64(1, 0, 3, -4), "link-rows", 16),
        (int64(1, 8, 3, 4), "byte-offsets", None),
    ],
)
def test_decode_paired_links_rejects(payload: bytes, rule: str, offset: int | None) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_paired_links(payload, (0,))
    assert (caught.value.rule, caught.value.offset) == (rule, offset)


@pytest.mark.parametrize("offsets", [[], [0], [0, 0, 8], [0, 16]])
def test_byte_offsets_inside(offsets: list[int]) -> None:
    check_byte_offsets(np.array(offsets, dtype=np.int64), 16)


@pytest.mark.parametrize(
    "offsets",
    [
        [8],
        [0, 24],
        [0, 16, 8],
        [0, 4],
        [0, -8],
        # The difference of the two in the middle wraps around to a positive one.
        [0, 2**63 - 8, -16, 8],
    ],
)
def test_byte_offsets_outside(offsets: list[int]) -> None:
    with pytest.raises(DecodeError) as caught:
        check_byte_offsets(np.array(offsets, dtype=np.int64), 16)
    assert caught.value.rule == "byte-offsets"
