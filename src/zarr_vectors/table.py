"""The waist: any geometry, in memory, as one table of vertices and one of links.

A geometry type lowers what a user gives to a `VertexTable`. Nothing below knows whether its
rows were stars, streamlines or the corners of a mesh.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from zarr_vectors.ragged import Ragged
from zarr_vectors.typing import AnyArray, BoolArray, IntArray

Cut = Literal["bin", "chunk"]


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """Values of one attribute: a row for each vertex, link, object or group."""

    values: AnyArray
    """(rows,) or (rows, channels)."""
    channel_names: tuple[str, ...] | None = None
    categories: tuple[str, ...] | None = None
    """Text: ``values`` are numbers of these."""


@dataclass(frozen=True, slots=True, eq=False)
class VertexTable:
    """Vertices, the parts they form, the objects that are made of parts, and links between vertices.

    A part is what is stored once: a path, the points of one object, the corners that two meshes
    share. Most objects are one part; several objects that name one part share its rows.
    """

    positions: AnyArray
    """(vertices, ndim). Rows of an ordered part follow one another in its order."""
    attributes: Mapping[str, Column] = field(default_factory=dict)
    part_ids: IntArray | None = None
    """The part of each vertex; ``None``: there are no objects."""
    objects: Ragged | None = None
    """The parts of each object, in order; ``None``: object ``k`` is part ``k``."""
    num_objects: int = 0
    """How many object ids there are, those without vertices included."""
    ordered: bool = False
    """Whether the order of the rows is the order along a part, to be kept piece by piece."""
    cut: Cut = "chunk"
    """Where an ordered part is cut into pieces: where it leaves a bin, or only where it leaves a chunk."""
    breaks: BoolArray | None = None
    """Rows that begin a piece in any case."""
    continues: bool = False
    """Whether a piece leads on to the next one of its object: across chunks that becomes a link."""
    links: IntArray | None = None
    """(links, width) vertex numbers; ``None``: the geometry has no links to store."""
    link_width: int = 2
    link_attributes: Mapping[str, Column] = field(default_factory=dict)
    drop_sequential: bool = False
    """Leave out links from a row to the row before it in the same piece: the convention implies them."""

    @property
    def num_vertices(self) -> int:
        """How many vertices there are."""
        return len(self.positions)

    @property
    def ndim(self) -> int:
        """Number of spatial axes."""
        return int(self.positions.shape[1])
