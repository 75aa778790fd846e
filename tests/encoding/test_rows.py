import numpy as np
import numpy.typing as npt
import pytest

from zarr_vectors.encoding.rows import ROW_DTYPES, channels_of, decode_rows, encode_rows, row_dtype
from zarr_vectors.exceptions import DecodeError, EncodeError


@pytest.mark.parametrize("name", ROW_DTYPES)
def test_row_dtype_is_little_endian(name: str) -> None:
    dtype = row_dtype(name)
    assert dtype.name == name
    assert dtype.str[0] in "<|"


@pytest.mark.parametrize("name", ["float128", "<f4", "object", "str", "datetime64[s]", ""])
def test_row_dtype_rejects_other_names(name: str) -> None:
    with pytest.raises(DecodeError) as caught:
        row_dtype(name)
    assert (caught.value.rule, caught.value.offset) == ("dtype", None)


def test_encode_swaps_big_endian_values() -> None:
    assert encode_rows(np.array([1, 2], dtype=">u2")).tobytes() == b"\1\0\2\0"


def test_encode_makes_rows_contiguous() -> None:
    assert encode_rows(np.asfortranarray([[1, 2], [3, 4]]), "uint8").tobytes() == b"\1\2\3\4"


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1.0, 2.0], "uint8"),
        ([0, 1], "bool"),
        ([0.1, 1e-300, np.nan, np.inf], "float32"),
        ([2**24 + 1], "float32"),
        ([1, 2], "complex64"),
        ([True, False], "uint8"),
        (np.array([1], dtype=np.uint64), "int64"),
        ([], "int16"),
    ],
)
def test_encode_converts_to_the_declared_dtype(values: npt.ArrayLike, dtype: str) -> None:
    rows = encode_rows(values, dtype)
    assert rows.dtype.name == dtype
    np.testing.assert_array_equal(rows, np.asarray(values).astype(dtype))


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1.5], "int32"),
        ([np.nan], "int32"),
        ([np.inf], "uint8"),
        ([256], "uint8"),
        ([-1], "uint64"),
        (np.array([2**64 - 1], dtype=np.uint64), "int64"),
        ([2], "bool"),
        ([1e39], "float32"),
        ([70_000], "float16"),
        ([1 + 2j], "float64"),
        ([1 + 0j], "int64"),
        ([1e300 + 0j], "complex64"),
        (["a"], "int32"),
        ([None], "int32"),
        ([1], "object"),
        (np.array([1], dtype="M8[s]"), "int64"),
    ],
)
def test_encode_rejects_values_that_would_change(values: npt.ArrayLike, dtype: str) -> None:
    with pytest.raises(EncodeError) as caught:
        encode_rows(values, dtype)
    assert caught.value.rule == "dtype"


@pytest.mark.parametrize("values", [["a"], [None], np.array([1], dtype="m8[s]")])
def test_encode_rejects_what_is_not_numeric(values: npt.ArrayLike) -> None:
    with pytest.raises(EncodeError, match="rows are numbers") as caught:
        encode_rows(values)
    assert caught.value.rule == "dtype"


def test_encode_rejects_a_scalar() -> None:
    with pytest.raises(EncodeError) as caught:
        encode_rows(3)
    assert caught.value.rule == "rows"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda raw: np.frombuffer(raw, np.uint8)])
def test_decode_takes_any_buffer(kind: type) -> None:
    assert decode_rows(kind(b"\1\2\3\4"), "uint8", width=2).tolist() == [[1, 2], [3, 4]]


def test_decode_is_a_view() -> None:
    payload = bytes(16)
    assert np.shares_memory(decode_rows(payload, "float32", width=2), np.frombuffer(payload, np.uint8))


@pytest.mark.parametrize(
    ("width", "shape"), [(None, (12,)), (1, (12, 1)), (3, (4, 3)), ((2, 3), (2, 2, 3)), ((), (12,))]
)
def test_decode_shapes_rows(width: int | tuple[int, ...] | None, shape: tuple[int, ...]) -> None:
    assert decode_rows(bytes(24), "int16", width=width).shape == shape


def test_decode_of_nothing_is_no_row() -> None:
    assert decode_rows(b"", "float64", width=3, num_rows=0).shape == (0, 3)


@pytest.mark.parametrize("width", [0, -1, (2, 0), (-2, -3)])
def test_decode_rejects_rows_that_hold_nothing(width: int | tuple[int, ...]) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_rows(bytes(24), "uint8", width=width)
    assert (caught.value.rule, caught.value.offset) == ("row-width", None)


def test_decode_rejects_half_rows() -> None:
    with pytest.raises(DecodeError, match="25 bytes are not whole rows of 12 bytes") as caught:
        decode_rows(bytes(25), "float32", width=3)
    assert (caught.value.rule, caught.value.offset) == ("row-size", None)


def test_decode_rejects_another_number_of_rows() -> None:
    with pytest.raises(DecodeError, match="2 rows are there, 3 belong there") as caught:
        decode_rows(bytes(24), "float32", width=3, num_rows=3)
    assert (caught.value.rule, caught.value.offset) == ("row-count", None)


def test_channels_follow_from_the_bytes() -> None:
    assert channels_of(24, "float32", 6) is None
    assert channels_of(24, "float32", 2) == 3


@pytest.mark.parametrize(("num_bytes", "num_rows"), [(24, 0), (24, 4), (0, 3)])
def test_channels_rejects_what_does_not_divide(num_bytes: int, num_rows: int) -> None:
    with pytest.raises(DecodeError) as caught:
        channels_of(num_bytes, "float32", num_rows)
    assert (caught.value.rule, caught.value.offset) == ("row-size", None)
