"""The chunk shape for data whose owner did not choose one.

A chunk should hold 16 to 64 thousand vertices on average over the chunks that hold any: fewer,
and files and requests outweigh the data; more, and a small box reads too much. Sides are round
numbers. Axes of space share one side; any other axis, such as time, is cut into as many parts
as the longest axis of space.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from zarr_vectors.typing import AnyArray, BoolArray

FEWEST_PER_CHUNK: Final = 16_384
MOST_PER_CHUNK: Final = 65_536
_SAMPLE: Final = 200_000
_ROUND: Final = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
_MOST_STEPS: Final = 60
_CLOSE_ENOUGH: Final = 1.05
_MOST_CHUNKS: Final = 2.0**52


def choose_chunk_shape(positions: AnyArray, spatial: Sequence[bool]) -> tuple[float, ...]:
    """Return a chunk shape of round numbers that suits the positions.

    Parameters
    ----------
    positions : (rows, ndim)
    spatial
        Which axes are of space.

    Examples
    --------
    >>> grid = np.stack(np.meshgrid(*[np.arange(64.0)] * 3), axis=-1).reshape(-1, 3)
    >>> choose_chunk_shape(grid, [True] * 3)
    (60.0, 60.0, 60.0)
    """
    of_space = np.array(spatial) if any(spatial) else np.ones(len(spatial), dtype=np.bool_)
    if len(positions) == 0:
        return tuple(1.0 for _ in spatial)
    sample = positions[:: max(len(positions) // _SAMPLE, 1)].astype(np.float64)
    box = _Box.around(positions, of_space)
    if box.longest == 0 or len(positions) <= MOST_PER_CHUNK:
        return box.shape(box.longest or 1.0)
    # The largest side whose chunks are not too full: fullness grows with the side.
    low, high = 0.0, box.longest
    for _ in range(_MOST_STEPS):
        side = (low + high) / 2
        if len(positions) / _occupied(sample, box.shape(side)) > MOST_PER_CHUNK:
            high = side
        else:
            low = side
        if low and high / low < _CLOSE_ENOUGH:
            break
    return box.shape(low or high)


@dataclass(frozen=True, slots=True, eq=False)
class _Box:
    """Where the positions lie."""

    extent: npt.NDArray[np.float64]
    reach: npt.NDArray[np.float64]
    """Distance of the farthest position from the origin, on each axis."""
    of_space: BoolArray
    longest: float
    """Extent of the longest axis of space."""

    @classmethod
    def around(cls, positions: AnyArray, of_space: BoolArray) -> Self:
        low, high = (corner.astype(np.float64) for corner in (positions.min(axis=0), positions.max(axis=0)))
        with np.errstate(over="ignore"):
            extent = np.minimum(high - low, np.finfo(np.float64).max)
        return cls(extent, np.maximum(np.abs(low), np.abs(high)), of_space, float(extent[of_space].max()))

    def shape(self, side: float) -> tuple[float, ...]:
        """Return the shape whose axes of space have this side."""
        parts = max(self.longest / side, 1.0)
        sides = np.where(self.of_space, side, np.where(self.extent > 0, self.extent / parts, 1.0))
        # Far from the origin a double can't tell smaller chunks apart.
        sides = np.maximum(sides, self.reach / _MOST_CHUNKS)
        return tuple(_round_down(float(value)) for value in sides)


def _round_down(value: float) -> float:
    normal = max(value, float(np.finfo(np.float64).tiny))
    power = float(np.floor(np.log10(normal)))
    scaled = normal / 10.0**power
    digit = max((choice for choice in _ROUND if choice <= scaled * (1 + 1e-9)), default=_ROUND[0])
    return float(f"{digit * 10.0**power:.6g}")


def _occupied(sample: npt.NDArray[np.float64], shape: tuple[float, ...]) -> int:
    """Return how many chunks of a shape hold some of the positions."""
    cells = np.floor(sample / np.array(shape)).astype(np.int64)
    cells -= cells.min(axis=0)
    keys = np.ravel_multi_index(tuple(cells.T), tuple(cells.max(axis=0) + 1), mode="wrap")
    return len(np.unique(keys))
