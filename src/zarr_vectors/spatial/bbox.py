"""Boxes with both ends included, exact for every dtype of positions.

>>> box = BoundingBox.parse(([0, 0], [2, 1]), 2)
>>> box.contains(np.array([[0, 1], [2, 2]])).tolist()
[True, False]
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from zarr_vectors.exceptions import InputError
from zarr_vectors.typing import AnyArray, BoolArray

_EMPTY_RANGE = (1, 0)


@dataclass(frozen=True, slots=True)
class BoundingBox:
    """Lower and upper corner, as the numbers that were given: a double does not hold every int64."""

    lower: tuple[int | float, ...]
    upper: tuple[int | float, ...]

    @classmethod
    def parse(cls, bbox: Sequence[npt.ArrayLike], ndim: int) -> Self:
        """Return the box of two corners, or raise `InputError`; infinite sides are open."""
        try:
            lower, upper = (tuple(np.asarray(corner, dtype=object).tolist()) for corner in bbox)
            corners = np.array([lower, upper], dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"a box is (lower corner, upper corner), not {bbox!r:.80}") from error
        if corners.shape != (2, ndim):
            raise InputError(f"a box in {ndim} dimensions is two corners of {ndim} numbers, not {corners.shape}")
        box = cls(tuple(map(_number, lower)), tuple(map(_number, upper)))
        if np.isnan(corners).any() or any(low > high for low, high in zip(box.lower, box.upper, strict=True)):
            raise InputError(f"the lower corner of a box lies below the upper one: {corners.tolist()}")
        return box

    @property
    def low(self) -> npt.NDArray[np.float64]:
        """The lower corner in doubles."""
        return np.array(self.lower, dtype=np.float64)

    @property
    def high(self) -> npt.NDArray[np.float64]:
        """The upper corner in doubles."""
        return np.array(self.upper, dtype=np.float64)

    def contains(self, positions: AnyArray) -> BoolArray:
        """Tell for each position whether it lies in the box."""
        inside = np.ones(len(positions), dtype=np.bool_)
        for axis in range(positions.shape[1]):
            low, high = self._limits(axis, positions.dtype)
            column: npt.NDArray[Any] = positions[:, axis]
            inside &= (column >= low) & (column <= high)
        return inside

    def _limits(self, axis: int, dtype: np.dtype[Any]) -> tuple[Any, Any]:
        low, high = self.lower[axis], self.upper[axis]
        if dtype.kind not in "iu":
            # Arrays, not scalars: numpy would round a scalar to float32 before it compares.
            return np.array([low], dtype=np.float64), np.array([high], dtype=np.float64)
        # Whole numbers are compared as such, inside of what the dtype holds.
        limits = np.iinfo(dtype)
        if low > limits.max or high < limits.min:
            return _EMPTY_RANGE
        first = limits.min if low <= limits.min else math.ceil(low)
        last = limits.max if high >= limits.max else math.floor(high)
        return first, last


def _number(value: Any) -> int | float:  # noqa: ANN401  whatever numpy took for a number
    return int(value) if isinstance(value, int | np.integer) else float(value)
