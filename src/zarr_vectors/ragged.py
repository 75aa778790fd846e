"""Lists of different lengths without lists: flat values and offsets.

>>> ragged = Ragged(np.array([7, 8, 9]), np.array([0, 2, 2, 3]))
>>> len(ragged), ragged.counts.tolist(), ragged.owners.tolist()
(3, [2, 0, 1], [0, 0, 2])
"""

from dataclasses import dataclass

import numpy as np

from zarr_vectors.typing import AnyArray, BoolArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """Lists of integers: list ``i`` is ``values[offsets[i]:offsets[i + 1]]``."""

    values: IntArray
    offsets: IntArray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def counts(self) -> IntArray:
        """Length of each list."""
        return np.diff(self.offsets)

    @property
    def owners(self) -> IntArray:
        """Which list each value is in."""
        return np.repeat(np.arange(len(self), dtype=np.int64), self.counts)

    def take(self, lists: IntArray) -> "Ragged":
        """Return some of the lists, in the order given."""
        counts = self.counts[lists]
        return Ragged(self.values[concatenated_ranges(self.offsets[lists], counts)], offsets_from_counts(counts))


def offsets_from_counts(counts: IntArray) -> IntArray:
    """Return running offsets, one more than there are counts, starting at 0.

    >>> offsets_from_counts(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    offsets = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def concatenated_ranges(starts: IntArray, counts: IntArray) -> IntArray:
    """Return ``arange(start, start + count)`` of every pair, one after another.

    >>> concatenated_ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    offsets = offsets_from_counts(counts)
    return np.arange(offsets[-1], dtype=np.int64) + np.repeat(starts - offsets[:-1], counts)


def changes(values: AnyArray) -> BoolArray:
    """Tell for each value whether it differs from the one before it; the first one does.

    >>> changes(np.array([3, 3, 5, 3])).tolist()
    [True, False, True, True]
    """
    changed = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=changed[1:])
    return changed
