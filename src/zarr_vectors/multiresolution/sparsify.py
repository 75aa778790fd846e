"""Which objects a coarser level keeps."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from zarr_vectors.constants import OBJECT_ATTRIBUTES
from zarr_vectors.core.arrays import DenseAttribute
from zarr_vectors.exceptions import InputError
from zarr_vectors.query.index import LevelIndex
from zarr_vectors.ragged import changes
from zarr_vectors.typing import AnyArray, BoolArray, IntArray

Strategy = Literal["random", "length", "attribute", "spatial_coverage"]
STRATEGIES: Final[tuple[str, ...]] = get_args(Strategy)


@dataclass(frozen=True, slots=True)
class Sparsity:
    """How many objects to keep and which."""

    factor: float = 1.0
    """One object in so many is kept; 1: all."""
    strategy: Strategy = "random"
    """``random`` by seed; ``length``: the longest paths and trees, the most vertices elsewhere;
    ``attribute``: by value; ``spatial_coverage``: those that reach parts of space that no other kept object reaches."""
    seed: int = 0
    attribute: str | None = None
    lowest: bool = False
    """Keep those with the lowest values of the attribute instead of the highest."""


def choose_objects(index: LevelIndex, sparsity: Sparsity, sizes: npt.NDArray[np.float64]) -> IntArray:
    """Return the ids of the objects to keep, ascending.

    Parameters
    ----------
    index
        The level to choose from.
    sparsity
        How many and which.
    sizes
        Length or size of each object; those of size 0 are not there to be chosen.
    """
    present = np.flatnonzero(sizes > 0)
    count = max(round(len(present) / sparsity.factor), min(len(present), 1))
    if count == len(present):
        return present
    if sparsity.strategy == "random":
        return np.sort(np.random.default_rng(sparsity.seed).choice(present, count, replace=False))
    if sparsity.strategy == "spatial_coverage":
        return np.sort(_by_coverage(index, present, count))
    if sparsity.strategy == "length":
        order = _order(sizes[present], np.ones(len(present), dtype=np.bool_), lowest=sparsity.lowest)
    else:
        found = _attribute(index, sparsity)
        real = np.ones(len(found.values), dtype=np.bool_) if found.present is None else found.present != 0
        order = _order(found.values[present], real[present], lowest=sparsity.lowest)
    return np.sort(present[order[:count]])


def check_sparsity(index: LevelIndex, sparsity: Sparsity) -> None:
    """Raise `InputError` unless objects of a level can be chosen in this way."""
    if not 1 <= sparsity.factor < np.inf:
        raise InputError(f"a sparsity factor is at least 1 (keep one object in so many), not {sparsity.factor}")
    if sparsity.strategy not in STRATEGIES:
        raise InputError(f"sparsity_strategy is one of {', '.join(STRATEGIES)}, not {sparsity.strategy!r}")
    if sparsity.strategy == "attribute" and sparsity.factor > 1 and index.has_objects:
        _attribute(index, sparsity)


def _attribute(index: LevelIndex, sparsity: Sparsity) -> DenseAttribute:
    known = index.attribute_names(OBJECT_ATTRIBUTES)
    if sparsity.attribute not in known:
        names = ", ".join(known) or "none"
        raise InputError(f"sparsity_attribute is {sparsity.attribute!r}, the object attributes are {names}")
    found = index.dense_attribute(sparsity.attribute)
    values = found.values
    if values.ndim != 1 or values.dtype.kind not in "biuf":
        raise InputError(
            f"objects are ranked by one number each, {sparsity.attribute!r} is {values.dtype} {values.shape}"
        )
    return found


def _order(values: AnyArray, real: BoolArray, *, lowest: bool) -> IntArray:
    """Return the stable order by value, those without one last; no value is negated, which could wrap around."""
    _, rank = np.unique(values, return_inverse=True)
    rank = rank.reshape(-1) if lowest else -rank.reshape(-1)
    missing = ~real if values.dtype.kind != "f" else ~real | np.isnan(values)
    return np.lexsort((np.arange(len(values)), rank, missing))


def _by_coverage(index: LevelIndex, present: IntArray, count: int) -> IntArray:
    """Return objects in rounds: first, for every chunk, the one that reaches the most chunks, then the second, ….

    So every occupied part of space keeps an object before any part keeps a second one for its own sake.
    """
    manifests = index.manifests(present)
    _, chunk = np.unique(manifests.chunk_coords, axis=0, return_inverse=True)
    owners = np.repeat(np.arange(len(present)), np.diff(manifests.object_offsets))
    pairs = np.unique(np.stack([owners, chunk.reshape(-1)], axis=1), axis=0)
    reach = np.bincount(pairs[:, 0], minlength=len(present))
    # Within each chunk by falling reach, among equals the lower id.
    pairs = pairs[np.lexsort((pairs[:, 0], -reach[pairs[:, 0]], pairs[:, 1]))]
    starts = np.flatnonzero(changes(pairs[:, 1]))
    place = np.arange(len(pairs)) - np.repeat(starts, np.diff(np.append(starts, len(pairs))))
    turn = np.full(len(present), len(pairs), dtype=np.int64)
    np.minimum.at(turn, pairs[:, 0], place)
    return present[np.lexsort((-reach, turn))[:count]]
