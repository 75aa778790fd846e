import numpy as np
import pytest

from zarr_vectors.encoding.groups import decode_groups, encode_groups
from zarr_vectors.exceptions import DecodeError, EncodeError


def int64(*values: int) -> bytes:
    return np.array(values, dtype="<i8").tobytes()


def test_encode_gives_ids_and_byte_offsets() -> None:
    data, offsets = encode_groups(np.array([7, 3, 5]), np.array([0, 2, 2, 3]))
    assert (data.tobytes(), offsets.tobytes()) == (int64(7, 3, 5), int64(0, 16, 16))


def test_encode_of_no_group() -> None:
    data, offsets = encode_groups(np.empty(0, np.int64), np.zeros(1, np.int64))
    assert (len(data), len(offsets)) == (0, 0)


@pytest.mark.parametrize("offsets", [[], [1, 3], [0, 2], [0, 2, 1, 3], [0, 4]])
def test_encode_rejects_offsets_that_do_not_fit(offsets: list[int]) -> None:
    with pytest.raises(EncodeError) as caught:
        encode_groups(np.array([7, 3, 5]), np.array(offsets, dtype=np.int64))
    assert caught.value.rule == "group-offsets"


def test_encode_rejects_negative_ids() -> None:
    with pytest.raises(EncodeError) as caught:
        encode_groups(np.array([7, -3]), np.array([0, 2]))
    assert caught.value.rule == "object-id"


@pytest.mark.parametrize(
    ("data", "offsets"),
    [
        pytest.param(int64(7, 3, 5), int64(0, 16, 16), id="two blobs"),
        pytest.param(int64(0, 2, 2, 3, 7, 3, 5), None, id="item offsets in front"),
        pytest.param(int64(3, 0, 16, 16, 7, 3, 5), None, id="number of groups and byte offsets in front"),
    ],
)
def test_decode_reads_all_three_forms(data: bytes, offsets: bytes | None) -> None:
    ids, starts = decode_groups(data, offsets, num_groups=3)
    assert (ids.tolist(), starts.tolist()) == ([7, 3, 5], [0, 2, 2, 3])


@pytest.mark.parametrize(("data", "offsets"), [(b"", b""), (int64(0), None)])
def test_decode_of_no_group(data: bytes, offsets: bytes | None) -> None:
    ids, starts = decode_groups(data, offsets, num_groups=0)
    assert (ids.tolist(), starts.tolist()) == ([], [0])


@pytest.mark.parametrize(
    ("data", "offsets", "num_groups", "rule", "offset"),
    [
        (bytes(9), int64(0), 1, "item-size", 8),
        (int64(1), bytes(7), 1, "item-size", 0),
        (int64(1), int64(0, 8), 1, "group-count", None),
        (int64(1), int64(0), 2, "group-count", None),
        (int64(1), int64(8), 1, "byte-offsets", None),
        (int64(1), int64(0, 16), 2, "byte-offsets", None),
        (int64(1, 2), int64(0, 4), 2, "byte-offsets", None),
        (int64(1), b"", 0, "group-offsets", None),
        (int64(1, -2), int64(0), 1, "object-id", None),
        # Offsets in front of the ids.
        (b"", None, 2, "group-offsets", None),
        (int64(5, 1, 2), None, 2, "group-offsets", None),
        (int64(0, 2), None, 2, "group-offsets", None),
        (int64(0, 1, 3, 7, 7), None, 2, "group-offsets", None),
        (int64(0, 3, 2, 7, 7), None, 2, "group-offsets", None),
        (int64(0, -1, 2, 7, 7), None, 2, "group-offsets", None),
        # Eight times this offset wraps around to 8.
        (int64(0, 2**61 + 1, 2, 7, 7), None, 2, "group-offsets", None),
        (int64(0, 1, 2, 7, -7), None, 2, "object-id", None),
        (int64(1, 7), None, 0, "group-offsets", None),
        (int64(2, 0, 24, 7, 7), None, 2, "byte-offsets", None),
    ],
)
def test_decode_rejects(data: bytes, offsets: bytes | None, num_groups: int, rule: str, offset: int | None) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_groups(data, offsets, num_groups=num_groups)
    assert (caught.value.rule, caught.value.offset) == (rule, offset)
