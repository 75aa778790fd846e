"""Geometry-aware coarsening: fewer points along a path, with ends and branch points kept; pure."""

import numpy as np
import numpy.typing as npt

from zarr_vectors.ragged import Ragged, concatenated_ranges, offsets_from_counts
from zarr_vectors.types.skeletons import NO_PARENT, run_heads
from zarr_vectors.typing import AnyArray, BoolArray, IntArray

FloatArray = npt.NDArray[np.float64]


def simplify_paths(positions: AnyArray, offsets: IntArray, tolerance: npt.ArrayLike) -> BoolArray:
    """Return which vertices of paths to keep so that no dropped one lies further than the tolerance away.

    The rule of Ramer, Douglas and Peucker, for all paths at once: every round keeps, in each
    stretch between two kept vertices, the one that lies furthest from the chord.

    Parameters
    ----------
    positions : (vertices, ndim)
    offsets
        Which vertices belong to each path.
    tolerance
        A distance, or one for each axis.

    Examples
    --------
    >>> zigzag = np.array([[0, 0], [1, 0.1], [2, 0], [3, 2], [4, 0]])
    >>> simplify_paths(zigzag, np.array([0, 5]), 0.5).tolist()
    [True, False, True, True, True]
    """
    # Axes are scaled so that the tolerance is 1 on each.
    scaled: FloatArray = positions.astype(np.float64) / np.asarray(tolerance, dtype=np.float64)
    kept = np.zeros(len(positions), dtype=np.bool_)
    filled = np.flatnonzero(np.diff(offsets) > 0)
    kept[offsets[filled]] = True
    kept[offsets[filled + 1] - 1] = True
    path_of = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    # Stretches that have nothing left to keep are not looked at again.
    first = np.flatnonzero(kept)[:-1]
    last = np.flatnonzero(kept)[1:]
    open_stretch = (path_of[first] == path_of[last]) & (last - first > 1)
    first, last = first[open_stretch], last[open_stretch]
    while len(first):
        counts = last - first - 1
        inner = concatenated_ranges(first + 1, counts)
        stretch = np.repeat(np.arange(len(first)), counts)
        distance = _distance_to_chord(scaled[inner], scaled[first][stretch], scaled[last][stretch])
        starts = np.cumsum(counts) - counts
        furthest = np.maximum.reduceat(distance, starts)
        # The first of the furthest vertices of each stretch.
        is_furthest = distance == furthest[stretch]
        place = np.full(len(first), len(inner), dtype=np.int64)
        np.minimum.at(place, stretch[is_furthest], np.flatnonzero(is_furthest))
        split = furthest > 1.0
        middle = inner[place[split]]
        kept[middle] = True
        left, right = first[split], last[split]
        first, last = np.concatenate([left, middle]), np.concatenate([middle, right])
        longer = last - first > 1
        first, last = first[longer], last[longer]
    return kept


def simplify_trees(positions: AnyArray, parents: IntArray, tolerance: npt.ArrayLike) -> tuple[BoolArray, IntArray]:
    """Return which nodes of trees to keep, and the parent among the kept of every kept node.

    Roots, tips and branch points stay; the unbranched runs between them are simplified as paths.

    Returns
    -------
    kept
        One bool a node.
    parents
        Of the kept nodes, as numbers among the kept; -1 for roots.
    """
    count = len(parents)
    has_parent = parents != NO_PARENT
    num_children = np.bincount(parents[has_parent], minlength=count)
    fixed = ~has_parent | (num_children != 1)
    runs = _runs(parents, fixed)
    inside = simplify_paths(positions.take(runs.values, axis=0), runs.offsets, tolerance)
    kept = fixed.copy()
    kept[runs.values[inside]] = True
    # From each node to the nearest kept one above it, in doubling jumps.
    jump = np.where(kept | ~has_parent, np.arange(count), parents)
    while True:
        further = jump[jump]
        if np.array_equal(further, jump):
            break
        jump = further
    rows = np.flatnonzero(kept)
    number = np.cumsum(kept) - 1
    upward = parents[rows]
    return kept, np.where(upward == NO_PARENT, NO_PARENT, number[jump[np.maximum(upward, 0)]])


def _runs(parents: IntArray, fixed: BoolArray) -> Ragged:
    """Return the runs between fixed nodes: the upper fixed node, then all nodes down to the lower one."""
    nodes = np.flatnonzero(parents != NO_PARENT)
    begins = parents == NO_PARENT
    begins[nodes] |= fixed[parents[nodes]]
    head, depth = run_heads(parents, begins)
    heads, run = np.unique(head[nodes], return_inverse=True)
    offsets = offsets_from_counts(np.bincount(run, minlength=len(heads)) + 1)
    flat = np.empty(int(offsets[-1]), dtype=np.int64)
    flat[offsets[:-1]] = parents[heads]
    flat[offsets[run] + 1 + depth[nodes]] = nodes
    return Ragged(flat, offsets)


def _distance_to_chord(points: FloatArray, begin: FloatArray, end: FloatArray) -> FloatArray:
    chord = end - begin
    length = np.einsum("ij,ij->i", chord, chord)
    along = np.einsum("ij,ij->i", points - begin, chord) / np.where(length > 0, length, 1.0)
    nearest = begin + np.clip(along, 0.0, 1.0)[:, None] * chord
    distance: FloatArray = np.linalg.norm(points - nearest, axis=1)
    return distance
