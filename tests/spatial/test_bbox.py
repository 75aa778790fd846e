import math

import numpy as np
import pytest

from zarr_vectors.exceptions import InputError
from zarr_vectors.spatial.bbox import BoundingBox


def inside(bbox: object, positions: object, dtype: str) -> list[bool]:
    array = np.array(positions, dtype=dtype)
    box = BoundingBox.parse(bbox, array.shape[1])  # type: ignore[arg-type]
    return [bool(item) for item in box.contains(array)]


def test_both_ends_are_included() -> None:
    assert inside(([0, 0], [1, 1]), [[0, 0], [1, 1], [1, 1.5], [-0.1, 0]], "f8") == [True, True, False, False]


def test_infinite_sides_are_open() -> None:
    assert inside(([-math.inf], [math.inf]), [[-(2**63)], [2**63 - 1]], "i8") == [True, True]
    assert inside(([0], [math.inf]), [[-1.0], [1e300]], "f8") == [False, True]


def test_a_flat_box_holds_its_plane() -> None:
    assert inside(([1, 0], [1, 5]), [[1, 2], [1.5, 2]], "f4") == [True, False]


def test_edges_are_not_rounded_to_float32() -> None:
    nearest = float(np.float32(0.1))
    assert inside(([0.0], [0.1]), [[nearest]], "f4") == [nearest <= 0.1]
    assert inside(([0.1], [1.0]), [[nearest]], "f4") == [nearest >= 0.1]


def test_whole_numbers_are_compared_exactly() -> None:
    big = 2**53
    assert inside(([big + 1], [big + 1]), [[big], [big + 1], [big + 2]], "i8") == [False, True, False]
    assert inside(([2**64 - 1], [2**64 - 1]), [[2**64 - 1], [2**64 - 2]], "u8") == [True, False]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.5, 1.5, [False, True]),
        (-10.0, -1.0, [False, False]),
        (300, 400, [False, False]),
        (-1e30, 1e30, [True, True]),
        (0.1, 0.9, [False, False]),
    ],
)
def test_fractions_around_unsigned_bytes(low: float, high: float, expected: list[bool]) -> None:
    assert inside(([low], [high]), [[0], [1]], "u1") == expected


def test_corners_in_doubles() -> None:
    box = BoundingBox.parse(([0, 1], [2, 3.5]), 2)
    assert box.low.tolist() == [0.0, 1.0]
    assert box.high.tolist() == [2.0, 3.5]
    assert box.lower == (0, 1)


@pytest.mark.parametrize("bbox", [5, ([0, 0],), ([0], [1], [2]), (["a"], ["b"]), ([None], [1]), ([0, [1]], [1, 2])])
def test_what_is_not_a_box(bbox: object) -> None:
    with pytest.raises(InputError, match="a box"):
        BoundingBox.parse(bbox, 2)  # type: ignore[arg-type]


def test_a_box_of_other_dimensions() -> None:
    with pytest.raises(InputError, match=r"a box in 3 dimensions is two corners of 3 numbers, not \(2, 2\)"):
        BoundingBox.parse(([0, 0], [1, 1]), 3)


@pytest.mark.parametrize("bbox", [([1], [0]), ([math.nan], [1]), ([2**53 + 1], [2**53])])
def test_corners_the_wrong_way_round(bbox: tuple[list[float], list[float]]) -> None:
    with pytest.raises(InputError, match="the lower corner of a box lies below the upper one"):
        BoundingBox.parse(bbox, 1)
