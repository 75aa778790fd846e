"""What a caller may choose about a pyramid, and what came of building it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from zarr_vectors.constants import CrossLevelStorage
from zarr_vectors.core.writers import DEFAULT_OPTIONS, WriteOptions
from zarr_vectors.multiresolution.metavertices import Reducer
from zarr_vectors.multiresolution.plan import BinFactor
from zarr_vectors.multiresolution.sparsify import Strategy

FEWEST_VERTICES: Final = 10_000
"""A pyramid planned by the data ends with a level of at most so many vertices."""

Method = Literal["bins", "simplify"]

Progress = Callable[[int, str], None]
"""Called with the level and what is being done to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PyramidOptions:
    """How a pyramid is built."""

    chunk_scale_factors: Sequence[BinFactor | None] | None = None
    """How much chunks grow at each level; ``None``: as little as the bins allow."""
    sparsity_strategy: Strategy = "random"
    """Which objects a sparser level keeps: by chance, the longest, by an attribute, or so that they cover space."""
    sparsity_seed: int = 0
    sparsity_attribute: str | None = None
    sparsity_lowest: bool = False
    """Keep objects with the lowest values of the attribute instead of the highest."""
    cross_level_depth: int = 1
    """Over how many levels links reach; 0: none, -1: all."""
    cross_level_storage: CrossLevelStorage = "implicit"
    """``"none"``, ``"implicit"`` (to the coarser level) or ``"explicit"`` (in both directions)."""
    method: Method = "bins"
    """``"bins"``: one metavertex a bin. ``"simplify"``: paths and skeletons with fewer points, triangle
    meshes with fewer faces (extra ``mesh``); no links lead to such levels."""
    preserve_object_ids: bool = True
    """Whether dropped objects keep their number; else the rest are numbered anew."""
    reducers: Mapping[str, Reducer] | None = None
    """How each attribute is reduced; by default floats by mean, all else by mode."""
    base_bin_shape: Sequence[float] | None = None
    """Bins of level 0, for a store that does not state them; by default about one vertex a bin."""
    max_vertices: int = FEWEST_VERTICES
    """Planned by the data: no more levels once a level holds at most so many vertices."""
    reduction_factor: int | None = None
    """Planned by the data: each level is at least so many times smaller; by default the store's own."""
    options: WriteOptions = DEFAULT_OPTIONS
    workers: int | None = None
    """Threads; by default the cores there are."""
    progress: Progress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PyramidSummary:
    """What a build made."""

    levels: tuple[int, ...]
    vertices: tuple[int, ...]
    """Of each level, level 0 first."""
    objects: tuple[int, ...]
    """With vertices at each level."""
    seconds: float
