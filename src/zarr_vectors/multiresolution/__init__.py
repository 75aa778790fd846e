"""Pyramids: coarser levels, links between levels, and the choice of a level."""

from collections.abc import Sequence
from typing import Any

from zarr_vectors.core.location import resolve
from zarr_vectors.multiresolution.options import PyramidOptions, PyramidSummary
from zarr_vectors.multiresolution.plan import BinFactor, Factor
from zarr_vectors.multiresolution.pyramid import build

__all__ = ["PyramidOptions", "PyramidSummary", "build_pyramid", "coarsen_level"]


def build_pyramid(location: object, factors: Sequence[Factor | int] | None = None, **options: Any) -> PyramidSummary:  # noqa: ANN401
    """Build coarser levels over level 0 of a store, in place of any that are there.

    Parameters
    ----------
    location
        A path, a URL or a Zarr store object.
    factors
        For each level ``(bin_factor, sparsity_factor)``, relative to the level below: ``(2, 1.0)``
        doubles the bins, ``(2, 2.0)`` also keeps one object in two. A bin factor may be given for
        each axis. ``None``: levels are planned by the data.
    **options
        See `PyramidOptions`.
    """
    return build(resolve(location), factors, PyramidOptions(**options))


def coarsen_level(
    location: object,
    bin_factor: BinFactor,
    sparsity_factor: float = 1.0,
    **options: Any,  # noqa: ANN401
) -> PyramidSummary:
    """Build one coarser level over level 0; `build_pyramid` with one level."""
    return build_pyramid(location, [(bin_factor, sparsity_factor)], **options)
