"""Meshes: vertices and faces, or cells of four corners; several objects may share vertices."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from zarr_vectors.constants import OBJECT_ID_ATTRIBUTE
from zarr_vectors.exceptions import InputError
from zarr_vectors.ragged import Ragged, changes, offsets_from_counts
from zarr_vectors.table import Column, VertexTable
from zarr_vectors.types.geometry import Geometry
from zarr_vectors.types.inputs import PAIR, as_array, parse_columns, parse_link_columns, parse_numbers, parse_object_ids
from zarr_vectors.typing import AnyArray, IntArray

GEOMETRY = Geometry(("mesh",), "explicit", by_object=False, whole_by_default=False, has_links=True)

WIDTHS = (3, 4)


@dataclass(frozen=True, slots=True, eq=False)
class Mesh:
    """Vertices and faces."""

    vertices: AnyArray
    faces: IntArray
    """(faces, 3 or 4), rows of ``vertices``, winding as given."""
    vertex_attributes: Mapping[str, AnyArray]
    face_attributes: Mapping[str, AnyArray]

    def __repr__(self) -> str:
        return f"Mesh({len(self.vertices):,} vertices, {len(self.faces):,} faces)"


def lower(
    vertices: AnyArray,
    faces: npt.ArrayLike,
    attributes: Mapping[str, npt.ArrayLike | Column],
    face_attributes: Mapping[str, npt.ArrayLike | Column],
    *,
    object_ids: npt.ArrayLike | None = None,
    face_objects: npt.ArrayLike | None = None,
) -> VertexTable:
    """Return the table of a mesh; without ids, all of it is object 0.

    Objects are told by vertex (``object_ids``), or by face (``face_objects``): then a vertex
    belongs to the objects of all its faces, and is stored once.
    """
    corners = as_array(faces, "faces")
    width = corners.shape[1] if corners.ndim == PAIR else WIDTHS[0]
    if width not in WIDTHS:
        raise InputError(f"faces have 3 or 4 corners, not {width}")
    links = parse_numbers(corners, len(vertices), (None, width), "faces")
    columns = parse_link_columns(face_attributes, len(links))
    owners = parse_object_ids(face_objects, len(links), "face_objects")
    if owners is not None and object_ids is not None:
        raise InputError("objects are told by object_ids or by face_objects, not by both")
    if owners is None:
        ids = parse_object_ids(object_ids, len(vertices))
        parts = np.zeros(len(vertices), dtype=np.int64) if ids is None else ids
        objects, count = None, int(parts.max()) + 1 if len(parts) else 0
    else:
        count = int(owners.max()) + 1 if len(owners) else 0
        parts, objects = _parts_by_owners(links, owners, len(vertices), count)
        if objects is not None:
            columns[OBJECT_ID_ATTRIBUTE] = Column(owners)
    return VertexTable(
        vertices,
        parse_columns(attributes, len(vertices), "vertex attribute"),
        part_ids=parts,
        objects=objects,
        num_objects=count,
        links=links,
        link_width=width,
        link_attributes=columns,
    )


def lift(
    vertices: AnyArray, faces: IntArray, attributes: Mapping[str, AnyArray], face_attributes: Mapping[str, AnyArray]
) -> Mesh:
    """Return a mesh from rows and the links between them."""
    return Mesh(vertices, faces, attributes, face_attributes)


def _parts_by_owners(
    faces: IntArray, owners: IntArray, num_vertices: int, num_objects: int
) -> tuple[IntArray, Ragged | None]:
    """Return the part of each vertex, one part for each set of owners, and the parts of each object.

    Without a shared vertex, part ``k`` is object ``k`` and no table of parts is needed.
    """
    pairs = np.unique(np.stack([faces.reshape(-1), np.repeat(owners, faces.shape[1])], axis=1), axis=0)
    counts = np.bincount(pairs[:, 0], minlength=num_vertices)
    # Parts 0 to num_objects - 1 belong to one object each; vertices of no face to none.
    parts = np.full(num_vertices, num_objects, dtype=np.int64)
    offsets = offsets_from_counts(counts)
    alone = np.flatnonzero(counts == 1)
    parts[alone] = pairs[offsets[alone], 1]
    named = [np.stack([np.arange(num_objects), np.arange(num_objects)], axis=1)]
    next_part = num_objects + 1
    for owners_each in np.unique(counts[counts > 1]).tolist():
        vertices = np.flatnonzero(counts == owners_each)
        sets = pairs[offsets[vertices][:, None] + np.arange(owners_each), 1]
        order = np.lexsort(sets.T[::-1])
        new = np.zeros(len(order), dtype=np.bool_)
        for column in sets[order].T:
            new |= changes(column)
        parts[vertices[order]] = next_part + np.cumsum(new) - 1
        distinct = sets[order][new]
        numbers = np.repeat(next_part + np.arange(len(distinct)), owners_each)
        named.append(np.stack([distinct.reshape(-1), numbers], axis=1))
        next_part += len(distinct)
    if next_part == num_objects + 1 and (counts > 0).all():
        return parts, None
    table = np.concatenate(named)
    table = table[np.lexsort((table[:, 1], table[:, 0]))]
    return parts, Ragged(table[:, 1], np.searchsorted(table[:, 0], np.arange(num_objects + 1)))
