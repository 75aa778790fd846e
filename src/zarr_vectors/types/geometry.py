"""What the pipelines need to know of a geometry, stated once for each type in its own module."""

from dataclasses import dataclass

from zarr_vectors.constants import LinksConvention


@dataclass(frozen=True, slots=True)
class Geometry:
    """How one geometry is stored and what people expect of a query on it."""

    names: tuple[str, ...]
    """Names in ``geometry_types``."""
    links_convention: LinksConvention
    by_object: bool
    """Whether a result comes object after object, each with rows of its own, or chunk after chunk."""
    whole_by_default: bool
    """Whether a box gives whole objects that touch it, or only what lies inside."""
    rooted: bool = False
    """Whether rows have a parent, implied by the row before."""
    has_links: bool = False
    """Whether links are stored and belong to the result."""
