"""Points, graphs and meshes: rows chunk after chunk, each stored vertex once."""

from dataclasses import dataclass

import numpy as np

from zarr_vectors.constants import OBJECT_ID_ATTRIBUTE
from zarr_vectors.query.checks import check_totals
from zarr_vectors.query.chunks import Fetch, LoadedChunks, Need, load_chunks
from zarr_vectors.query.gather import object_rows
from zarr_vectors.query.index import LevelIndex
from zarr_vectors.query.links import ResultLinks, gather_links
from zarr_vectors.query.manifests import fragments_of_manifests
from zarr_vectors.query.objects import NO_IDS, Chosen, named_chunks, row_mask
from zarr_vectors.query.result import Result, take_attributes, take_rows
from zarr_vectors.query.selection import Selection
from zarr_vectors.ragged import Ragged
from zarr_vectors.spatial.bbox import BoundingBox
from zarr_vectors.typing import IntArray

_UNOWNED = -1


@dataclass(frozen=True, slots=True, eq=False)
class _Ownership:
    """Which object owns which row, as pairs; no object where the level has none."""

    ids: IntArray
    """The objects that ``owners`` number."""
    owners: IntArray
    rows: IntArray

    def in_result(self, number: IntArray) -> "_Ownership":
        """Return the pairs whose rows are in the result, as rows of it, and only objects that have some."""
        kept = number[self.rows] >= 0
        present, place = np.unique(self.owners[kept], return_inverse=True)
        return _Ownership(self.ids[present], place.reshape(-1), number[self.rows[kept]])

    def object_rows(self) -> Ragged:
        """Return the rows of each object."""
        return object_rows(self.owners, self.rows, len(self.ids))

    def object_ids(self, num_rows: int) -> IntArray:
        """Return the lowest owner of each row, -1 for none."""
        unowned = np.iinfo(np.int64).max
        lowest = np.full(num_rows, unowned, dtype=np.int64)
        np.minimum.at(lowest, self.rows, self.ids[self.owners])
        return np.where(lowest == unowned, _UNOWNED, lowest)


def read_by_chunk(
    index: LevelIndex, fetch: Fetch, selection: Selection, chosen: Chosen, box: BoundingBox | None
) -> Result:
    """Return the vertices of the chosen objects; with a box or conditions, only those that meet them."""
    vertex, link = index.chosen_attributes(selection.attributes)
    loaded, ownership = _load(index, fetch, chosen, box, _need(index, chosen, vertex, link))
    if loaded.lacks_links:
        index.check_links_inside()
    if box is None and chosen.ids is None:
        check_totals(index.group, loaded.num_rows, loaded.links if index.geometry.has_links else None)
    mask = row_mask(index, loaded, box, chosen.conditions)
    if chosen.ids is not None:
        named = np.zeros(loaded.num_rows, dtype=np.bool_)
        named[ownership.rows] = True
        mask &= named
    found = np.flatnonzero(mask)
    rows = found if selection.limit is None else found[: selection.limit]
    number = np.full(loaded.num_rows, -1, dtype=np.int64)
    number[rows] = np.arange(len(rows))
    owned = ownership.in_result(number)
    links = ResultLinks()
    if index.geometry.has_links:
        links = gather_links(index, loaded, number, link, chosen.ids if index.has_link_owners else None)
    taken = None if len(rows) == loaded.num_rows else rows
    return Result(
        geometry_type=index.group.root.geometry_types[0],
        positions=take_rows(loaded.positions, taken),
        attributes=take_attributes(index, loaded, vertex, taken),
        object_ids=owned.object_ids(len(rows)) if index.has_objects else None,
        objects=owned.ids,
        object_rows=owned.object_rows(),
        absent=chosen.absent,
        links=links.rows,
        link_attributes=links.attributes,
        link_attribute_missing=links.missing,
        pieces=None,
        parents=None,
        truncated=len(rows) < len(found),
        index=index,
    )


def _need(index: LevelIndex, chosen: Chosen, vertex: list[str], link: list[str]) -> Need:
    owners = [OBJECT_ID_ATTRIBUTE] if chosen.ids is not None and index.has_link_owners else []
    return Need(
        fragments=index.has_objects,
        owners=index.has_objects and chosen.ids is None and index.has_fragment_owners,
        links=index.geometry.has_links,
        attributes=tuple(dict.fromkeys([*vertex, *(name for _, name in chosen.conditions)])),
        link_attributes=tuple(dict.fromkeys([*link, *owners])),
    )


def _load(
    index: LevelIndex, fetch: Fetch, chosen: Chosen, box: BoundingBox | None, need: Need
) -> tuple[LoadedChunks, _Ownership]:
    """Return the chunks that may hold vertices of the result, and who owns their rows.

    The chunks themselves tell the owners where they can and no object is chosen, else the manifests do.
    """
    width = index.link_width
    if not index.has_objects or need.owners:
        coords = index.chunks if box is None else index.chunks_in(box)
        loaded = load_chunks(fetch, coords, need, link_width=width)
        return loaded, _told_by_chunks(loaded)
    ids, manifests = chosen.with_manifests(index)
    coords = named_chunks(index, manifests, box)
    if chosen.ids is None:
        # Vertices of no object are part of the level too.
        coords = index.chunks if box is None else index.chunks_in(box)
    loaded = load_chunks(fetch, coords, need, link_width=width)
    named = fragments_of_manifests(manifests, loaded, ids, skip_missing=box is not None, limits=index.group.limits)
    expanded = loaded.fragments.take(named.fragments)
    return loaded, _Ownership(ids, named.objects[expanded.owners], expanded.values)


def _told_by_chunks(loaded: LoadedChunks) -> _Ownership:
    if loaded.owners is None:
        return _Ownership(NO_IDS, NO_IDS, NO_IDS)
    of_row = loaded.owners[loaded.fragments.owners]
    owned = of_row != _UNOWNED
    ids, owners = np.unique(of_row[owned], return_inverse=True)
    return _Ownership(ids, owners.reshape(-1), loaded.fragments.values[owned])
