"""Paths and trees: rows object after object, in path order."""

from dataclasses import dataclass

import numpy as np

from zarr_vectors.constants import OBJECT_ID_ATTRIBUTE
from zarr_vectors.encoding.manifests import ManifestTable
from zarr_vectors.query.checks import check_totals
from zarr_vectors.query.chunks import Fetch, LoadedChunks, Need, load_chunks, match_rows
from zarr_vectors.query.gather import Rows, merge_copies, object_rows, parents_of_rows, rows_by_object, without_copies
from zarr_vectors.query.index import LevelIndex
from zarr_vectors.query.links import links_across
from zarr_vectors.query.manifests import fragments_of_manifests
from zarr_vectors.query.objects import Chosen, named_chunks, row_mask
from zarr_vectors.query.result import Result, take_attributes
from zarr_vectors.query.selection import Selection
from zarr_vectors.spatial.bbox import BoundingBox
from zarr_vectors.typing import IntArray


def read_by_object(
    index: LevelIndex, fetch: Fetch, selection: Selection, chosen: Chosen, box: BoundingBox | None
) -> Result:
    """Return the chosen objects; with a box or conditions, only the rows that meet them."""
    objects = _limited(index, chosen, selection.limit)
    vertex, _ = index.chosen_attributes(selection.attributes)
    names = tuple(dict.fromkeys([*vertex, *(name for _, name in chosen.conditions)]))
    rooted = index.geometry.rooted
    coords = named_chunks(index, objects.manifests, box)
    # Where objects share vertices, a vertex may have a parent in each of them.
    owners = (OBJECT_ID_ATTRIBUTE,) if rooted and index.has_link_owners else ()
    need = Need(fragments=True, links=rooted, attributes=names, link_attributes=owners)
    loaded = load_chunks(fetch, coords, need)
    if loaded.lacks_links:
        index.check_links_inside()
    if box is None and chosen.ids is None and selection.limit is None:
        check_totals(index.group, None, loaded.links if rooted else None)
    named = fragments_of_manifests(
        objects.manifests, loaded, objects.ids, skip_missing=box is not None, limits=index.group.limits
    )
    rows = rows_by_object(named, loaded, find_copies=index.group.root.cross_chunk_strategy != "explicit_links")
    parents: IntArray | None = None
    if not rooted:
        rows = without_copies(rows)
    if box is not None or chosen.conditions:
        rows = rows.take(row_mask(index, loaded, box, chosen.conditions)[rows.originals])
    if rooted:
        rows, parents = merge_copies(rows, _parents(index, loaded, rows, objects.ids))
    present, place = np.unique(rows.owners, return_inverse=True)
    return Result(
        geometry_type=index.group.root.geometry_types[0],
        positions=loaded.positions.take(rows.rows, axis=0),
        attributes=take_attributes(index, loaded, vertex, rows.rows),
        object_ids=objects.ids[rows.owners],
        objects=objects.ids[present],
        object_rows=object_rows(place.reshape(-1), np.arange(len(place), dtype=np.int64), len(present)),
        absent=chosen.absent,
        links=None,
        link_attributes={},
        link_attribute_missing={},
        pieces=None if rooted else rows.pieces,
        parents=parents,
        truncated=objects.truncated,
        index=index,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Objects:
    ids: IntArray
    manifests: ManifestTable
    truncated: bool


def _limited(index: LevelIndex, chosen: Chosen, limit: int | None) -> _Objects:
    """Return the chosen objects that have vertices, as many as the limit allows."""
    ids, manifests = chosen.with_manifests(index)
    filled = np.flatnonzero(np.diff(manifests.object_offsets) > 0)
    kept = filled if limit is None else filled[:limit]
    if len(kept) < len(ids):
        ids, manifests = ids[kept], manifests.take(kept)
    return _Objects(ids, manifests, truncated=len(kept) < len(filled))


def _parents(index: LevelIndex, loaded: LoadedChunks, rows: Rows, ids: IntArray) -> IntArray:
    across = links_across(index, loaded)
    known = across[:, 0] >= 0
    links = np.concatenate([loaded.links, across[known]])
    implied = index.group.root.links_convention != "explicit"
    link_objects: IntArray | None = None
    if OBJECT_ID_ATTRIBUTE in loaded.link_attributes:
        of_across = index.across_attribute(OBJECT_ID_ATTRIBUTE)
        nobody = np.full(len(across), -1, dtype=np.int64)
        named = (nobody if of_across is None else of_across.astype(np.int64))[known]
        owners = np.concatenate([loaded.link_attributes[OBJECT_ID_ATTRIBUTE].astype(np.int64), named])
        link_objects = match_rows(np.sort(ids)[:, None], owners[:, None])
        link_objects = np.where(link_objects >= 0, np.append(np.argsort(ids), -1)[link_objects], -1)
    return parents_of_rows(rows, links, loaded.num_rows, implied=implied, link_objects=link_objects)
