"""What a query returns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from zarr_vectors.constants import GROUP_ATTRIBUTES, OBJECT_ATTRIBUTES, VERTEX_ATTRIBUTES
from zarr_vectors.core.keys import array_path
from zarr_vectors.exceptions import InputError, locate
from zarr_vectors.query import bridges
from zarr_vectors.query.chunks import LoadedChunks
from zarr_vectors.query.conditions import decode_categories
from zarr_vectors.query.html import table_html
from zarr_vectors.query.index import LevelIndex
from zarr_vectors.ragged import Ragged
from zarr_vectors.types import meshes, polylines, skeletons
from zarr_vectors.types.geometry import Geometry
from zarr_vectors.typing import AnyArray, BoolArray, IntArray


@dataclass(frozen=True, eq=False, kw_only=True)
class Result:
    """Vertices that a query selected, with everything that belongs to them.

    Paths and trees come object after object, each object with rows of its own. Points, graphs and
    meshes come chunk after chunk, each stored vertex once.
    """

    geometry_type: str
    positions: AnyArray
    """(vertices, ndim)"""
    attributes: Mapping[str, AnyArray]
    """A row for each vertex; text as text."""
    object_ids: IntArray | None
    """The object of each vertex, -1 for none; the lowest of those selected where objects share it."""
    objects: IntArray
    """The objects that came back."""
    object_rows: Ragged
    """Rows of each of ``objects``, in its own order."""
    absent: IntArray
    """Objects that were asked for by id and have no vertices at this level."""
    links: IntArray | None
    """(links, width) rows of ``positions``; ``None`` where the geometry stores none."""
    link_attributes: Mapping[str, AnyArray]
    link_attribute_missing: Mapping[str, BoolArray]
    """Links for which an attribute is not stored, for attributes that some links lack."""
    pieces: IntArray | None
    """Offsets of unbroken runs of rows, for paths."""
    parents: IntArray | None
    """The parent of each row, -1 for roots, for skeletons."""
    truncated: bool
    """Whether there was more than the limit."""
    index: LevelIndex

    def __len__(self) -> int:
        return len(self.positions)

    def __repr__(self) -> str:
        parts = [f"{len(self):,} vertices"]
        if self.object_ids is not None:
            parts.append(f"{len(self.objects):,} objects")
        if self.links is not None:
            parts.append(f"{len(self.links):,} links")
        if self.truncated:
            parts.append("cut at the limit")
        return f"Result({self.geometry_type}: {', '.join(parts)})"

    @property
    def level(self) -> int:
        """The level it was read from."""
        return self.index.group.level

    @property
    def geometry(self) -> Geometry:
        """What kind of geometry it is."""
        return self.index.geometry

    @property
    def edges(self) -> IntArray:
        """(edges, 2) rows: stored edges, [child, parent] of trees, steps of paths.

        Raises
        ------
        InputError
            If the geometry has faces or nothing at all between its vertices.
        """
        if self.parents is not None:
            children = np.flatnonzero(self.parents != skeletons.NO_PARENT)
            return np.stack([children, self.parents[children]], axis=1)
        if self.pieces is not None:
            return polylines.sequential_edges(self.pieces)
        if self.links is None or self.links.shape[1] != 2:  # noqa: PLR2004
            raise InputError(f"a {self.geometry_type} has no edges")
        return self.links

    @property
    def faces(self) -> IntArray:
        """(faces, 3 or 4) rows, winding as written."""
        if self.links is None or self.links.shape[1] == 2:  # noqa: PLR2004
            raise InputError(f"a {self.geometry_type} has no faces")
        return self.links

    @property
    def polylines(self) -> polylines.Polylines:
        """Paths as values and offsets, to index like a list; pieces where they were cut."""
        if self.pieces is None or self.object_ids is None:
            raise InputError(f"a {self.geometry_type} has no polylines")
        return polylines.lift(self.positions, self.pieces, self.object_ids[self.pieces[:-1]])

    @property
    def lines(self) -> AnyArray:
        """Both ends of each line, ``(lines, 2, ndim)``."""
        if self.pieces is None:
            raise InputError(f"a {self.geometry_type} has no lines")
        return polylines.lift_lines(self.positions, self.pieces)

    @property
    def mesh(self) -> meshes.Mesh:
        """Vertices and faces."""
        return meshes.lift(self.positions, self.faces, self.attributes, self.link_attributes)

    @property
    def skeletons(self) -> skeletons.Skeletons:
        """Trees, one for each object, to index like a list."""
        if self.parents is None:
            raise InputError(f"a {self.geometry_type} has no skeletons")
        return skeletons.lift(self.positions, self.parents, self.attributes, self.object_rows.offsets, self.objects)

    @cached_property
    def object_attributes(self) -> dict[str, AnyArray]:
        """Attributes of ``objects``, a row for each; read when they are first asked for."""
        names = self.index.attribute_names(OBJECT_ATTRIBUTES)
        return {name: self.index.object_attribute(name)[self.objects] for name in names}

    @cached_property
    def groups(self) -> dict[int, IntArray]:
        """Groups with a member among ``objects``, and these members; read when first asked for."""
        members = self.index.groups
        kept = np.isin(members.values, self.objects)
        owners, ids = members.owners[kept], members.values[kept]
        return {int(number): ids[owners == number] for number in np.unique(owners).tolist()}

    @cached_property
    def group_attributes(self) -> dict[str, AnyArray]:
        """Attributes of the groups in ``groups``, a row for each."""
        numbers = np.array(list(self.groups), dtype=np.int64)
        names = self.index.attribute_names(GROUP_ATTRIBUTES)
        return {name: self.index.group_attribute(name)[numbers] for name in names}

    def to_dict(self) -> dict[str, Any]:
        """Return plain numpy arrays by name."""
        return bridges.to_dict(self)

    def to_arrow(self) -> Any:  # noqa: ANN401  the type is the other library's
        """Return a pyarrow table with a row for each vertex (extra ``arrow``)."""
        return bridges.to_arrow(self)

    def to_trimesh(self) -> Any:  # noqa: ANN401
        """Return a trimesh mesh (extra ``trimesh``)."""
        return bridges.to_trimesh(self)

    def to_networkx(self) -> Any:  # noqa: ANN401
        """Return a networkx graph (extra ``networkx``)."""
        return bridges.to_networkx(self)

    def to_nibabel(self) -> Any:  # noqa: ANN401
        """Return a nibabel tractogram (extra ``nibabel``)."""
        return bridges.to_nibabel(self)

    def to_pyvista(self) -> Any:  # noqa: ANN401
        """Return a pyvista data set (extra ``pyvista``)."""
        return bridges.to_pyvista(self)

    def _repr_html_(self) -> str:
        rows = [("vertices", f"{len(self):,}"), ("level", str(self.level))]
        if self.object_ids is not None:
            rows.append(("objects", f"{len(self.objects):,}"))
        if self.links is not None:
            rows.append(("links", f"{len(self.links):,}"))
        rows += [(name, f"{values.dtype} {values.shape}") for name, values in self.attributes.items()]
        if self.truncated:
            rows.append(("cut", "at the limit"))
        return table_html(f"Result: {self.geometry_type}", rows)


def take_attributes(
    index: LevelIndex, loaded: LoadedChunks, names: Sequence[str], rows: IntArray | None
) -> dict[str, AnyArray]:
    """Return some rows of vertex attributes, or, for ``None``, all of them; text as text."""
    taken: dict[str, AnyArray] = {}
    for name in names:
        with locate(level=index.group.level, array=array_path(VERTEX_ATTRIBUTES, name=name)):
            categories = index.meta(VERTEX_ATTRIBUTES, name).categories
            taken[name] = decode_categories(take_rows(loaded.attributes[name], rows), categories)
    return taken


def take_rows(values: AnyArray, rows: IntArray | None) -> AnyArray:
    """Return some rows, or, for ``None``, all of them: without another copy unless they can't be written to."""
    if rows is None:
        return values if values.flags.writeable else values.copy()
    return values.take(rows, axis=0)
