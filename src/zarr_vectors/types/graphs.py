"""Graphs: vertices of one or several objects, and edges between any of them."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from zarr_vectors.table import Column, VertexTable
from zarr_vectors.types.geometry import Geometry
from zarr_vectors.types.inputs import parse_columns, parse_link_columns, parse_numbers, parse_object_ids
from zarr_vectors.typing import AnyArray

GEOMETRY = Geometry(("graph",), "explicit", by_object=False, whole_by_default=False, has_links=True)


def lower(
    positions: AnyArray,
    edges: npt.ArrayLike,
    attributes: Mapping[str, npt.ArrayLike | Column],
    edge_attributes: Mapping[str, npt.ArrayLike | Column],
    object_ids: npt.ArrayLike | None,
) -> VertexTable:
    """Return the table of a graph; without object ids, all of it is object 0."""
    ids = parse_object_ids(object_ids, len(positions))
    if ids is None:
        ids = np.zeros(len(positions), dtype=np.int64)
    links = parse_numbers(edges, len(positions), (None, 2), "edges")
    return VertexTable(
        positions,
        parse_columns(attributes, len(positions), "vertex attribute"),
        part_ids=ids,
        num_objects=int(ids.max()) + 1 if len(ids) else 0,
        links=links,
        link_width=2,
        link_attributes=parse_link_columns(edge_attributes, len(links)),
    )
