"""What is known of a level between queries: its chunks, manifests, and links across chunks, read once."""

import numpy as np

from zarr_vectors.constants import (
    CROSS_CHUNK_LINK_ATTRIBUTES,
    CROSS_CHUNK_LINKS,
    GROUP_ATTRIBUTES,
    GROUPS,
    LINK_ATTRIBUTES,
    LINKS,
    OBJECT_ATTRIBUTES,
    OBJECT_ID_ATTRIBUTE,
    OBJECT_INDEX,
    VERTEX_ATTRIBUTES,
    VERTICES,
)
from zarr_vectors.core.arrays import (
    DenseAttribute,
    read_cross_chunk_link_attribute,
    read_cross_chunk_links,
    read_group_attribute,
    read_groups,
    read_object_attribute,
)
from zarr_vectors.core.group import FsGroup
from zarr_vectors.core.keys import DATA, array_path
from zarr_vectors.core.metadata import ArrayMetadata
from zarr_vectors.core.object_index import count_objects, read_manifests
from zarr_vectors.encoding.manifests import ManifestTable
from zarr_vectors.exceptions import DecodeError, InputError, ObjectNotFoundError, locate
from zarr_vectors.query.checks import check_listing
from zarr_vectors.query.chunks import FRAGMENT_OWNERS
from zarr_vectors.query.conditions import decode_categories
from zarr_vectors.ragged import Ragged
from zarr_vectors.spatial.bbox import BoundingBox
from zarr_vectors.spatial.grid import ChunkGrid
from zarr_vectors.types import geometry_named
from zarr_vectors.types.geometry import Geometry
from zarr_vectors.typing import AnyArray, BoolArray, IntArray


class LevelIndex:
    """A level, and what queries have learnt of it; valid as long as the store does not change."""

    def __init__(self, group: FsGroup) -> None:
        self.group = group
        self._chunks: IntArray | None = None
        self._manifests: ManifestTable | None = None
        self._across: IntArray | None = None
        self._names: dict[str, list[str]] = {}
        self._num_objects: int | None = None
        self._groups: Ragged | None = None
        self._links_counted = False

    @property
    def geometry(self) -> Geometry:
        """What kind of geometry the level holds."""
        return geometry_named(self.group.root.geometry_types[0])

    @property
    def grid(self) -> ChunkGrid:
        """The level's chunks and bins."""
        meta, root = self.group.metadata, self.group.root
        chunk_shape = meta.chunk_shape or root.chunk_shape
        return ChunkGrid(
            tuple(chunk_shape), tuple(meta.bin_shape or (root.bin_shape if meta.level == 0 else chunk_shape))
        )

    @property
    def chunks(self) -> IntArray:
        """(chunks, ndim): all that hold vertices, ascending; one listing."""
        if self._chunks is None:
            found = self.group.list_chunks(VERTICES)
            check_listing(self.group, found)
            self._chunks = np.array(found, dtype=np.int64).reshape(-1, self.group.ndim)
        return self._chunks

    @property
    def num_objects(self) -> int:
        """How many object ids there are."""
        if self._num_objects is None:
            self._num_objects = count_objects(self.group)
        return self._num_objects

    @property
    def has_objects(self) -> bool:
        """Whether vertices belong to objects."""
        if self.group.root.object_index_convention == "identity":
            return True
        return self.group.find_array_metas([OBJECT_INDEX])[0] is not None

    @property
    def has_fragment_owners(self) -> bool:
        """Whether the chunks themselves tell which object each fragment is of."""
        return self.group.find_array_metas([FRAGMENT_OWNERS])[0] is not None

    @property
    def has_link_owners(self) -> bool:
        """Whether links tell which object they are of: they must where objects share vertices."""
        owners = array_path(LINK_ATTRIBUTES, name=OBJECT_ID_ATTRIBUTE, delta=0)
        return bool(self.group.metadata.shared_fragments) and self.group.find_array_metas([owners])[0] is not None

    def manifests(self, object_ids: IntArray | None) -> ManifestTable:
        """Return the manifests of some objects, or of all; all are kept."""
        if self._manifests is None:
            # The identity convention has one table and no way to read a part of it.
            if object_ids is not None and self.group.root.object_index_convention != "identity":
                return read_manifests(self.group, object_ids)
            self._manifests = read_manifests(self.group, None)
        if object_ids is None:
            return self._manifests
        self._check_objects(object_ids, self._manifests.num_objects)
        return self._manifests.take(object_ids)

    def _check_objects(self, object_ids: IntArray, count: int) -> None:
        outside = (object_ids < 0) | (object_ids >= count)
        if outside.any():
            known = f"ids go from 0 to {count - 1}" if count else "the level has none"
            raise ObjectNotFoundError(f"there is no such object: {known}").at(
                level=self.group.level, object_id=int(object_ids[outside][0])
            )

    def chunks_in(self, box: BoundingBox) -> IntArray:
        """Return the chunks that a box touches, of those that hold vertices."""
        return self.chunks[self.in_box(self.chunks, box)]

    def in_box(self, coords: IntArray, box: BoundingBox) -> BoolArray:
        """Tell which chunks a box touches."""
        meta = self.group.read_array_meta(VERTICES)
        # Lossy positions may lie a little outside of their chunk.
        slack = (meta.model_extra or {}).get("max_error", 0.0)
        if not isinstance(slack, int | float) or not 0 <= slack < np.inf:
            raise DecodeError(f"max_error is a number from 0, not {slack!r:.80}", rule="max-error").at(
                level=self.group.level, array=VERTICES
            )
        low = [value - slack if slack else value for value in box.lower]
        high = [value + slack if slack else value for value in box.upper]
        first, last = self.grid.chunk_span(low, high)
        inside: BoolArray = np.all((coords >= first) & (coords <= last), axis=1)
        return inside

    def attribute_names(self, array: str) -> list[str]:
        """Return the names of the attributes of a kind, e.g. of ``vertex_attributes``."""
        if array not in self._names:
            paths = self.group.list_arrays(array)
            self._names[array] = sorted({path.split("/")[1] for path in paths})
        return self._names[array]

    def scopes(self) -> dict[str, list[str]]:
        """Return the attributes that conditions can speak of."""
        return {
            "vertex": self.attribute_names(VERTEX_ATTRIBUTES),
            "object": self.attribute_names(OBJECT_ATTRIBUTES),
            "group": self.attribute_names(GROUP_ATTRIBUTES),
        }

    def meta(self, array: str, name: str, delta: int | None = None) -> ArrayMetadata:
        """Return the metadata of an attribute."""
        return self.group.read_array_meta(array_path(array, name=name, delta=delta))

    def chosen_attributes(self, names: tuple[str, ...] | None) -> tuple[list[str], list[str]]:
        """Return the vertex attributes and the link attributes that a selection asks for."""
        vertex = self.attribute_names(VERTEX_ATTRIBUTES)
        link: list[str] = []
        if self.geometry.has_links and not self.geometry.rooted:
            kinds = (LINK_ATTRIBUTES, CROSS_CHUNK_LINK_ATTRIBUTES)
            # Attributes of links to other levels are not of this level's links.
            paths = [path.split("/") for kind in kinds for path in self.group.list_arrays(kind)]
            link = sorted({name for _, name, delta in paths if delta == "0"})
        if names is None:
            return vertex, link
        unknown = [name for name in names if name not in vertex and name not in link]
        if unknown:
            known = ", ".join([*vertex, *link]) or "none"
            raise InputError(f"there is no attribute {', '.join(map(repr, unknown))}: the level has {known}")
        return [name for name in names if name in vertex], [name for name in names if name in link]

    def object_attribute(self, name: str) -> AnyArray:
        """Return an attribute of all objects, text as text."""
        return self.dense_attribute(name).values

    def dense_attribute(self, name: str) -> DenseAttribute:
        """Return an attribute of all objects, text as text, and which of its rows are real."""
        found = read_object_attribute(self.group, name)
        with locate(level=self.group.level, array=array_path(OBJECT_ATTRIBUTES, name=name), chunk=DATA):
            if len(found.values) != self.num_objects:
                message = f"{len(found.values)} rows are there, the level has {self.num_objects} objects"
                raise DecodeError(message, rule="row-count")
            values = decode_categories(found.values, self.meta(OBJECT_ATTRIBUTES, name).categories)
        return DenseAttribute(values, found.present)

    def group_attribute(self, name: str) -> AnyArray:
        """Return an attribute of all groups, text as text."""
        values = read_group_attribute(self.group, name)
        with locate(level=self.group.level, array=array_path(GROUP_ATTRIBUTES, name=name), chunk=DATA):
            return decode_categories(values, self.meta(GROUP_ATTRIBUTES, name).categories)

    @property
    def groups(self) -> Ragged:
        """Members of each group; no groups where the level has none."""
        if self._groups is None:
            (meta,) = self.group.find_array_metas([GROUPS])
            nothing = np.zeros(1, dtype=np.int64)
            self._groups = Ragged(nothing[:0], nothing) if meta is None else Ragged(*read_groups(self.group))
            if self.has_objects and (self._groups.values >= self.num_objects).any():
                number = int(self._groups.values.max())
                self._groups = None
                raise DecodeError(f"a group names object {number} of {self.num_objects}", rule="object-id").at(
                    level=self.group.level, array=GROUPS, chunk=DATA
                )
        return self._groups

    @property
    def link_width(self) -> int:
        """Ends of a link."""
        if self.geometry.rooted:
            # Parents may be stored in one column; they are read as rows [child, parent] all the same.
            return 2
        metas = self.group.find_array_metas([array_path(LINKS, delta=0), array_path(CROSS_CHUNK_LINKS, delta=0)])
        return next((meta.link_width for meta in metas if meta is not None and meta.link_width is not None), 2)

    @property
    def links_across(self) -> IntArray:
        """(links, width, ndim + 1): all links between chunks of this level."""
        if self._across is None:
            (meta,) = self.group.find_array_metas([array_path(CROSS_CHUNK_LINKS, delta=0)])
            empty = np.empty((0, self.link_width, self.group.ndim + 1), dtype=np.int64)
            self._across = empty if meta is None else self._read_across()
        return self._across

    def _read_across(self) -> IntArray:
        records = read_cross_chunk_links(self.group)
        if records.shape[1] != self.link_width:
            raise DecodeError(
                f"links have {records.shape[1]} ends, {self.link_width} belong there", rule="link-width"
            ).at(level=self.group.level, array=array_path(CROSS_CHUNK_LINKS, delta=0))
        return records

    def check_links_inside(self) -> None:
        """Raise if a chunk's links are lost; one listing, once, for levels where some chunks store none."""
        array = array_path(LINKS, delta=0)
        (meta,) = self.group.find_array_metas([array])
        if self._links_counted or meta is None or meta.num_chunks is None or self.group.limits.trusted:
            return
        check_listing(self.group, self.group.list_chunks(array), array)
        self._links_counted = True

    @property
    def known_chunks(self) -> IntArray | None:
        """All chunks, if they were listed already."""
        return self._chunks

    def across_attribute(self, name: str) -> AnyArray | None:
        """Return an attribute of the links between chunks, if it is stored for them."""
        array = array_path(CROSS_CHUNK_LINK_ATTRIBUTES, name=name, delta=0)
        if self.group.find_array_metas([array])[0] is None:
            return None
        return read_cross_chunk_link_attribute(self.group, name)
