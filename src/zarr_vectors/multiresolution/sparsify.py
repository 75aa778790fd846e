"""Which objects a coarser level keeps."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from zarr_vectors.constants import OBJECT_ATTRIBUTES
from zarr_vectors.exceptions import InputError
from zarr_vectors.query.index import LevelIndex
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
    if sparsity.factor < 1:
        raise InputError(f"a sparsity factor is at least 1 (keep one object in so many), not {sparsity.factor}")
    if sparsity.strategy not in STRATEGIES:
        raise InputError(f"sparsity_strategy is one of {', '.join(STRATEGIES)}, not {sparsity.strategy!r}")
    present = np.flatnonzero(sizes > 0)
    count = max(round(len(present) / sparsity.factor), min(len(present), 1))
    if count == len(present):
        return present
    if sparsity.strategy == "random":
        return np.sort(np.random.default_rng(sparsity.seed).choice(present, count, replace=False))
    if sparsity.strategy == "spatial_coverage":
        return np.sort(_by_coverage(index, present, count))
    rank = sizes[present] if sparsity.strategy == "length" else _attribute(index, sparsity)[present]
    order = np.argsort(rank, kind="stable") if sparsity.lowest else _falling(rank)
    return np.sort(present[order[:count]])


def _attribute(index: LevelIndex, sparsity: Sparsity) -> AnyArray:
    known = index.attribute_names(OBJECT_ATTRIBUTES)
    if sparsity.attribute not in known:
        names = ", ".join(known) or "none"
        raise InputError(f"sparsity_attribute is {sparsity.attribute!r}, the object attributes are {names}")
    values = index.object_attribute(sparsity.attribute)
    if values.ndim != 1 or values.dtype.kind not in "biuf":
        raise InputError(
            f"objects are ranked by one number each, {sparsity.attribute!r} is {values.dtype} {values.shape}"
        )
    return values


def _falling(values: AnyArray) -> IntArray:
    """Return the stable order from the highest value to the lowest; no value is negated, which could wrap around."""
    _, rank = np.unique(values, return_inverse=True)
    return np.argsort(-rank.reshape(-1), kind="stable")


def _by_coverage(index: LevelIndex, present: IntArray, count: int) -> IntArray:
    """Return objects chosen in rounds: in each, for every chunk, the one left that reaches the most chunks.

    So every occupied part of space keeps an object before any part keeps a second one.
    """
    manifests = index.manifests(None)
    _, number = np.unique(manifests.chunk_coords, axis=0, return_inverse=True)
    owners = np.repeat(np.arange(manifests.num_objects), np.diff(manifests.object_offsets))
    pairs = np.unique(np.stack([owners, number.reshape(-1)], axis=1), axis=0)
    reach = np.bincount(pairs[:, 0], minlength=manifests.num_objects)
    left: BoolArray = np.zeros(manifests.num_objects, dtype=np.bool_)
    left[present] = True
    # Widest reach first; among equals the lower id.
    pairs = pairs[np.lexsort((pairs[:, 0], -reach[pairs[:, 0]]))]
    chosen = np.empty(0, dtype=np.int64)
    while len(chosen) < count:
        open_pairs = pairs[left[pairs[:, 0]]]
        _, first = np.unique(open_pairs[:, 1], return_index=True)
        taken = np.unique(open_pairs[first, 0])
        taken = taken[np.lexsort((taken, -reach[taken]))][: count - len(chosen)]
        chosen = np.concatenate([chosen, taken])
        left[taken] = False
    return chosen
