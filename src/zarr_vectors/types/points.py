"""Point clouds: rows, and an object id for each where there are objects."""

from collections.abc import Mapping

import numpy.typing as npt

from zarr_vectors.table import Column, VertexTable
from zarr_vectors.types.geometry import Geometry
from zarr_vectors.types.inputs import parse_columns, parse_object_ids
from zarr_vectors.typing import AnyArray

GEOMETRY = Geometry(("point_cloud",), "implicit_sequential", by_object=False, whole_by_default=False)


def lower(
    positions: AnyArray, attributes: Mapping[str, npt.ArrayLike | Column], object_ids: npt.ArrayLike | None
) -> VertexTable:
    """Return the table of a point cloud."""
    ids = parse_object_ids(object_ids, len(positions))
    return VertexTable(
        positions,
        parse_columns(attributes, len(positions), "vertex attribute"),
        part_ids=ids,
        num_objects=0 if ids is None or not len(ids) else int(ids.max()) + 1,
    )
