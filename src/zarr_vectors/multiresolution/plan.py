"""The levels that a pyramid is to have: bins, chunks and sparsity of each, against the level below."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from zarr_vectors.exceptions import InputError
from zarr_vectors.multiresolution.sparsify import Sparsity

BinFactor = int | Sequence[int]
Factor = tuple[BinFactor, float]
"""``(bin_factor, sparsity_factor)``, each relative to the level below."""

_LARGEST_FACTOR = 2**31


@dataclass(frozen=True, slots=True)
class LevelPlan:
    """How one level is made from the one below it."""

    level: int
    bin_shape: tuple[float, ...]
    bin_ratio: tuple[int, ...]
    """Against level 0."""
    chunk_shape: tuple[float, ...]
    chunk_scale: tuple[int, ...]
    """Chunks of the level below along each axis of a chunk of this one."""
    sparsity: Sparsity = field(default_factory=Sparsity)


@dataclass(frozen=True, slots=True)
class Grid:
    """The grid that the next level is relative to."""

    level: int
    bin_shape: tuple[float, ...]
    bin_ratio: tuple[int, ...]
    chunk_shape: tuple[float, ...]


def plan_level(below: Grid, bin_factor: BinFactor, chunk_scale: BinFactor | None, sparsity: Sparsity) -> LevelPlan:
    """Return the plan of the level above another.

    Parameters
    ----------
    below
        The grid of the level below.
    bin_factor
        A whole number, or one for each axis.
    chunk_scale
        How much chunks grow; ``None``: as little as lets the bins divide them.
    sparsity
        How many objects to keep and which.
    """
    ndim = len(below.bin_shape)
    factors = _whole(bin_factor, ndim, "a bin factor")
    if all(factor == 1 for factor in factors):
        raise InputError("a coarser level needs a bin factor above 1 on some axis")
    bins_below = [round(chunk / size) for chunk, size in zip(below.chunk_shape, below.bin_shape, strict=True)]
    # The least growth after which a whole number of the larger bins fits in a chunk.
    needed = [factor // math.gcd(factor, bins) for factor, bins in zip(factors, bins_below, strict=True)]
    asked = [1] * ndim if chunk_scale is None else _whole(chunk_scale, ndim, "a chunk scale factor")
    scale = [math.lcm(need, ask) for need, ask in zip(needed, asked, strict=True)]
    chunk_shape = tuple(size * factor for size, factor in zip(below.chunk_shape, scale, strict=True))
    if not np.isfinite(chunk_shape).all():
        raise InputError(f"chunks of level {below.level + 1} would be infinite: choose smaller factors")
    return LevelPlan(
        level=below.level + 1,
        bin_shape=tuple(size * factor for size, factor in zip(below.bin_shape, factors, strict=True)),
        bin_ratio=tuple(ratio * factor for ratio, factor in zip(below.bin_ratio, factors, strict=True)),
        chunk_shape=chunk_shape,
        chunk_scale=tuple(scale),
        sparsity=sparsity,
    )


def above(plan: LevelPlan) -> Grid:
    """Return the grid that the level above this one is relative to."""
    return Grid(plan.level, plan.bin_shape, plan.bin_ratio, plan.chunk_shape)


def _whole(value: BinFactor, ndim: int, what: str) -> list[int]:
    array = np.atleast_1d(np.asarray(value))
    if array.shape == (1,):
        array = np.repeat(array, ndim)
    numeric = array.shape == (ndim,) and array.dtype.kind in "iuf"
    if not numeric or not ((array >= 1) & (array <= _LARGEST_FACTOR) & (array == np.floor(array))).all():
        raise InputError(f"{what} is a whole number of at least 1, or one for each of {ndim} axes, not {value!r}")
    return [int(item) for item in array]
