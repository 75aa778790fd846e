"""The grid of chunks and bins, format 6: which chunk and bin a position lies in.

The origin is the coordinate origin, so negative positions give negative chunks, and a position
on a seam belongs to the upper chunk.

>>> grid = ChunkGrid((10.0, 10.0), (5.0, 5.0))
>>> grid.chunks_of(np.array([[0.0, 10.0], [-0.5, 9.9]])).tolist()
[[0, 1], [-1, 0]]
>>> grid.bins_of(np.array([[0.0, 17.0]]), np.array([[0, 1]])).tolist()
[1]
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from zarr_vectors.exceptions import InputError
from zarr_vectors.typing import AnyArray, IntArray

_LARGEST_CELL: Final = 2**62
_WIDEST: Final = 8


@dataclass(frozen=True, slots=True)
class ChunkGrid:
    """Chunks of a level, each cut into the same number of bins along each axis."""

    chunk_shape: tuple[float, ...]
    bin_shape: tuple[float, ...]

    @property
    def bins_per_chunk(self) -> tuple[int, ...]:
        """Bins along each axis of a chunk."""
        return tuple(round(chunk / size) for chunk, size in zip(self.chunk_shape, self.bin_shape, strict=True))

    def chunks_of(self, positions: AnyArray) -> IntArray:
        """Return the chunk of each position, ``(rows, ndim)``.

        Raises
        ------
        InputError
            If a position is so far out that its chunk has no number.
        """
        return _cells(positions, self.chunk_shape)

    def bins_of(self, positions: AnyArray, chunks: IntArray) -> IntArray:
        """Return the flat index of each position's bin in its chunk, in C order."""
        bins = self.bins_per_chunk
        if math.prod(bins) == 1:
            return np.zeros(len(positions), dtype=np.int64)
        if math.prod(bins) >= _LARGEST_CELL:
            raise InputError(f"chunks of {list(bins)} bins have too many to number: choose a larger bin_shape")
        flat = np.zeros(len(positions), dtype=np.int64)
        for axis, count in enumerate(bins):
            inside = _axis_cells(positions[:, axis], self.bin_shape[axis])
            inside -= chunks[:, axis] * count
            # Bin and chunk are two divisions, which may disagree about a position on the chunk's
            # border where neither size has an exact binary form.
            np.clip(inside, 0, count - 1, out=inside)
            flat *= count
            flat += inside
        return flat

    def chunk_span(self, low: Sequence[float], high: Sequence[float]) -> tuple[IntArray, IntArray]:
        """Return the first and the last chunk, on each axis, of a box with both ends included."""
        first = [min(_edge_cells(*pair)) for pair in zip(low, self.chunk_shape, strict=True)]
        last = [max(_edge_cells(*pair)) for pair in zip(high, self.chunk_shape, strict=True)]
        return np.array(first, dtype=np.int64), np.array(last, dtype=np.int64)


def _cells(positions: AnyArray, shape: tuple[float, ...]) -> IntArray:
    # One axis after another: what is at hand at any time is one column, not a table of doubles.
    cells = np.empty((len(shape), len(positions)), dtype=np.int64)
    for axis, size in enumerate(shape):
        cells[axis] = _axis_cells(positions[:, axis], size)
    return cells.T


def _axis_cells(column: AnyArray, size: float) -> IntArray:
    cells: npt.NDArray[Any]
    if column.dtype.kind in "iu" and column.dtype.itemsize == _WIDEST and _is_whole(size):
        # Beyond 2**53 a double no longer tells neighbouring integers apart.
        integers: npt.NDArray[Any] = column
        cells = integers // np.array(int(size), dtype=column.dtype)
    else:
        # Division, not multiplication by the inverse: that puts some positions at cell edges into
        # the wrong cell.
        cells = column.astype(np.float64)
        with np.errstate(over="ignore"):
            cells /= size
        np.floor(cells, out=cells)
    if cells.size and not (cells.min() > -_LARGEST_CELL and cells.max() < _LARGEST_CELL):
        raise InputError("a position lies too far out for cells of this shape: choose a larger one")
    return cells.astype(np.int64)


def _is_whole(size: float) -> bool:
    return float(size).is_integer() and size < _LARGEST_CELL


def _edge_cells(edge: float, size: float) -> tuple[int, int]:
    """Return the cell of a box's edge as whole numbers and as doubles find it: positions may be either."""
    if math.isinf(edge):
        limit = math.copysign(_LARGEST_CELL, edge)
        return int(limit), int(limit)
    exact = math.floor(Fraction(edge) / Fraction(size))
    rounded = math.floor(_clip(float(edge) / size))
    return int(_clip(exact)), rounded


def _clip(cell: float) -> float:
    return min(max(cell, -_LARGEST_CELL), _LARGEST_CELL)
