"""One module a geometry: how a user's arrays become a table of vertices, and the way back."""

from typing import Final

from zarr_vectors.exceptions import InputError
from zarr_vectors.types import graphs, meshes, points, polylines, skeletons
from zarr_vectors.types.geometry import Geometry

GEOMETRIES: Final[dict[str, Geometry]] = {
    name: geometry
    for geometry in (
        points.GEOMETRY,
        polylines.LINES,
        polylines.GEOMETRY,
        graphs.GEOMETRY,
        skeletons.GEOMETRY,
        meshes.GEOMETRY,
    )
    for name in geometry.names
}


def geometry_named(name: str) -> Geometry:
    """Return what the pipelines need to know of a geometry."""
    if name not in GEOMETRIES:
        raise InputError(f"geometry type {name!r} is not one of {', '.join(GEOMETRIES)}")
    return GEOMETRIES[name]
