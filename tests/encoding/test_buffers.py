import numpy as np
import pytest

from zarr_vectors.encoding.buffers import (
    as_bytes,
    int64_stream,
    int64_view,
    view,
    windows,
)
from zarr_vectors.exceptions import DecodeError
from zarr_vectors.ragged import concatenated_ranges, offsets_from_counts


def test_view_reads_little_endian_items_at_an_offset() -> None:
    assert view(b"\xff\x01\x00\x02\x00", "<u2", 2, 1, what="numbers").tolist() == [1, 2]


def test_view_shares_memory_and_is_read_only() -> None:
    buffer = bytearray(16)
    array = view(buffer, "<i8", 2, 0, what="numbers")
    assert np.shares_memory(array, np.frombuffer(buffer, np.uint8))
    assert not array.flags.writeable


@pytest.mark.parametrize(("count", "offset"), [(0, 0), (0, 4), (1, 0)])
def test_view_may_reach_the_end(count: int, offset: int) -> None:
    assert len(view(b"abcd", "<u4", count, offset, what="numbers")) == count


@pytest.mark.parametrize(("count", "offset"), [(1, 1), (2, 0), (-1, 0), (0, 5), (2**40, 0)])
def test_view_rejects_what_is_not_there(count: int, offset: int) -> None:
    with pytest.raises(DecodeError, match="numbers needs") as caught:
        view(b"abcd", "<u4", count, offset, what="numbers")
    assert (caught.value.rule, caught.value.offset) == ("length", offset)


def test_int64_view_reads_int64() -> None:
    assert int64_view(np.array([1, -2]).astype("<i8").tobytes(), 1, 8, what="numbers").tolist() == [-2]


def test_int64_stream_takes_the_whole_buffer() -> None:
    assert int64_stream(np.array([1, -2]).astype("<i8").tobytes(), what="numbers").tolist() == [1, -2]
    assert int64_stream(b"", what="numbers").tolist() == []


def test_int64_stream_rejects_half_items() -> None:
    with pytest.raises(DecodeError, match="numbers is 21 bytes long") as caught:
        int64_stream(bytes(21), what="numbers")
    assert (caught.value.rule, caught.value.offset) == ("item-size", 16)


def test_as_bytes_gives_one_row_an_item() -> None:
    assert as_bytes(np.array([[1, 258]]), "<u2").tolist() == [[1, 0], [2, 1]]
    assert as_bytes(np.empty((0, 3)), "<i8").shape == (0, 8)


def test_windows_write_through() -> None:
    array = np.zeros(5, dtype=np.uint8)
    windows(array, 2)[[0, 3]] = [[1, 2], [3, 4]]
    assert array.tolist() == [1, 2, 0, 3, 4]


def test_windows_of_a_short_array_are_none() -> None:
    assert windows(np.zeros(3, dtype=np.uint8), 4).shape == (0, 4)


def test_offsets_and_ranges_of_nothing() -> None:
    nothing = np.empty(0, dtype=np.int64)
    assert offsets_from_counts(nothing).tolist() == [0]
    assert concatenated_ranges(nothing, nothing).tolist() == []


def test_concatenated_ranges_skip_empty_ones() -> None:
    assert concatenated_ranges(np.array([5, 9, 0]), np.array([2, 0, 3])).tolist() == [5, 6, 0, 1, 2]
