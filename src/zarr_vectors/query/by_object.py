"""Paths and trees: rows object after object, in path order."""

from dataclasses import dataclass

import numpy as np

from zarr_vectors.encoding.manifests import ManifestTable
from zarr_vectors.query.chunks import Fetch, LoadedChunks, Need, load_chunks
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
    loaded = load_chunks(fetch, coords, Need(fragments=True, links=rooted, attributes=names))
    named = fragments_of_manifests(objects.manifests, loaded, objects.ids, skip_missing=box is not None)
    rows = rows_by_object(named, loaded, find_copies=index.group.root.cross_chunk_strategy != "explicit_links")
    parents: IntArray | None = None
    if not rooted:
        rows = without_copies(rows)
    if box is not None or chosen.conditions:
        rows = rows.take(row_mask(index, loaded, box, chosen.conditions)[rows.originals])
    if rooted:
        rows, parents = merge_copies(rows, _parents(index, loaded, rows))
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


def _parents(index: LevelIndex, loaded: LoadedChunks, rows: Rows) -> IntArray:
    across = links_across(index, loaded)
    links = np.concatenate([loaded.links, across[across[:, 0] >= 0]])
    implied = index.group.root.links_convention != "explicit"
    return parents_of_rows(rows, links, loaded.num_rows, implied=implied)
