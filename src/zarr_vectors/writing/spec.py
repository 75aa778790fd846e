"""What a new store is to be, apart from its vertices, and what came of writing it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from zarr_vectors.constants import LinksConvention, ObjectIndexConvention
from zarr_vectors.core.metadata import Axis
from zarr_vectors.core.store import Mode
from zarr_vectors.core.writers import DEFAULT_OPTIONS, WriteOptions
from zarr_vectors.ragged import Ragged
from zarr_vectors.table import Column

BoundsPolicy = Literal["raise", "drop", "expand"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSpec:
    """Everything about a store that is not a vertex or a link."""

    geometry_type: str
    links_convention: LinksConvention
    chunk_shape: Sequence[float] | float | None = None
    """``None``: chosen by the data."""
    bin_shape: Sequence[float] | float | None = None
    """``None``: one bin a chunk."""
    bounds: Sequence[Sequence[float]] | None = None
    """``None``: those of the data."""
    bounds_policy: BoundsPolicy = "raise"
    axes: tuple[Axis, ...] | None = None
    crs: Mapping[str, Any] | None = None
    object_index_convention: ObjectIndexConvention = "standard"
    object_attributes: Mapping[str, Column] = field(default_factory=dict)
    groups: Ragged | None = None
    group_attributes: Mapping[str, Column] = field(default_factory=dict)
    draco_bits: int | None = None
    """Store vertices and faces as Draco bitstreams, rounded to this many bits."""
    rounding: float = 0.0
    """How far positions are from those that the user gave, before they are encoded."""
    options: WriteOptions = DEFAULT_OPTIONS
    mode: Mode = "x"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSummary:
    """What was written."""

    url: str
    vertices: int
    objects: int
    chunks: int
    links: int
    """Stored links, inside chunks and across them; those that a convention implies are not stored."""
    bytes: int
    """Size of all that was stored."""
    seconds: float
    chunk_shape: tuple[float, ...]
    bounds: tuple[tuple[float, ...], tuple[float, ...]]
    dropped: int = 0
    """Vertices left out because they, or a vertex of their path, lie outside of the bounds."""
    max_error: float = 0.0
    """No stored coordinate is further than this from the one given: 0 unless ``dtype`` or Draco rounds."""

    @property
    def lossless(self) -> bool:
        """Whether every position is stored exactly as given."""
        return self.max_error == 0
