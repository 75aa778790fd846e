"""Which objects a selection means: by id, by group, by conditions, by what touches a box."""

from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from zarr_vectors.constants import GROUP_ATTRIBUTES, VERTEX_ATTRIBUTES, VERTEX_FRAGMENTS
from zarr_vectors.core.keys import array_path, chunk_key
from zarr_vectors.encoding.manifests import ManifestTable
from zarr_vectors.exceptions import InputError, MissingChunkError, ObjectNotFoundError, locate
from zarr_vectors.query.chunks import Fetch, LoadedChunks, Need, load_chunks, match_rows
from zarr_vectors.query.conditions import Condition, decode_categories, resolve_scope
from zarr_vectors.query.index import LevelIndex
from zarr_vectors.query.manifests import fragments_of_manifests
from zarr_vectors.query.selection import Selection
from zarr_vectors.spatial.bbox import BoundingBox
from zarr_vectors.typing import BoolArray, IntArray

VertexConditions = tuple[tuple[Condition, str], ...]
"""Conditions on vertices, each with the attribute it speaks of."""

NO_IDS: Final[IntArray] = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """The objects that a selection leaves, and what is still to be asked of their vertices."""

    ids: IntArray | None = None
    """``None``: no restriction. Ids that were asked for keep their order; others ascend."""
    manifests: ManifestTable | None = None
    """Of ``ids``, once they were read."""
    conditions: VertexConditions = ()
    """Those that only the vertices themselves can answer."""
    absent: IntArray = field(default_factory=lambda: NO_IDS)
    """Objects that were asked for by id and have no vertices."""

    def take(self, numbers: IntArray) -> "Chosen":
        """Return this choice with some of its ids, by their place among them."""
        ids = numbers if self.ids is None else self.ids[numbers]
        return replace(self, ids=ids, manifests=None if self.manifests is None else self.manifests.take(numbers))

    def with_manifests(self, index: LevelIndex) -> tuple[IntArray, ManifestTable]:
        """Return the ids, all of them where there is no restriction, and their manifests."""
        manifests = index.manifests(self.ids) if self.manifests is None else self.manifests
        ids = np.arange(manifests.num_objects, dtype=np.int64) if self.ids is None else self.ids
        return ids, manifests


def resolve_objects(index: LevelIndex, selection: Selection) -> Chosen:
    """Return the objects that ids, groups and conditions leave, and the conditions on vertices."""
    scopes = index.scopes() if selection.conditions else {}
    resolved = [(condition, *resolve_scope(condition.name, scopes)) for condition in selection.conditions]
    by_scope = {
        scope: tuple((condition, name) for condition, found, name in resolved if found == scope)
        for scope in ("vertex", "object", "group")
    }
    chosen = Chosen(conditions=by_scope["vertex"])
    if selection.object_ids is not None:
        if not index.has_objects:
            raise InputError("the level has no objects to choose from")
        manifests = index.manifests(selection.object_ids)
        absent = selection.object_ids[np.diff(manifests.object_offsets) == 0]
        chosen = replace(chosen, ids=selection.object_ids, manifests=manifests, absent=absent)
    numbers = _groups(index, selection, by_scope["group"])
    if numbers is not None:
        chosen = _restrict(chosen, np.unique(index.groups.take(numbers).values))
    for condition, name in by_scope["object"]:
        chosen = _restrict(chosen, _matching_objects(index, condition, name))
    return chosen


def touching_objects(index: LevelIndex, fetch: Fetch, chosen: Chosen, box: BoundingBox | None) -> Chosen:
    """Return those of the chosen objects with a vertex in the box for which all conditions hold."""
    names = tuple(dict.fromkeys(name for _, name in chosen.conditions))
    if chosen.ids is None and index.has_fragment_owners:
        coords = index.chunks if box is None else index.chunks_in(box)
        loaded = load_chunks(fetch, coords, Need(owners=True, attributes=names))
        owners = NO_IDS if loaded.owners is None else loaded.owners
        touched = np.unique(owners[_any_row(loaded, row_mask(index, loaded, box, chosen.conditions))])
        return chosen.take(touched[touched >= 0])
    ids, manifests = chosen.with_manifests(index)
    loaded = load_chunks(fetch, named_chunks(index, manifests, box), Need(fragments=True, attributes=names))
    named = fragments_of_manifests(manifests, loaded, ids, skip_missing=box is not None, limits=index.group.limits)
    hit = _any_row(loaded, row_mask(index, loaded, box, chosen.conditions))
    return replace(chosen, ids=ids, manifests=manifests).take(np.unique(named.objects[hit[named.fragments]]))


def named_chunks(index: LevelIndex, manifests: ManifestTable, box: BoundingBox | None) -> IntArray:
    """Return the chunks that manifests name, ascending; with a box, those that it touches."""
    coords = np.unique(manifests.chunk_coords, axis=0)
    if box is None:
        return coords
    here = index.in_box(coords, box)
    known = match_rows(index.chunks, coords) >= 0
    if not index.group.limits.trusted and (here & ~known).any():
        missing = coords[np.argmax(here & ~known)]
        raise MissingChunkError("a manifest names this chunk, which does not exist").at(
            array=VERTEX_FRAGMENTS, chunk=chunk_key(missing.tolist())
        )
    return coords[here & known]


def row_mask(
    index: LevelIndex, loaded: LoadedChunks, box: BoundingBox | None, conditions: VertexConditions
) -> BoolArray:
    """Tell for each row whether it lies in the box and all conditions hold."""
    mask = np.ones(loaded.num_rows, dtype=np.bool_) if box is None else box.contains(loaded.positions)
    for condition, name in conditions:
        categories = index.meta(VERTEX_ATTRIBUTES, name).categories
        with locate(level=index.group.level, array=array_path(VERTEX_ATTRIBUTES, name=name)):
            values = decode_categories(loaded.attributes[name], categories)
        mask &= condition.holds(values)
    return mask


def _any_row(loaded: LoadedChunks, hit: BoolArray) -> BoolArray:
    """Tell for each fragment whether one of its rows is hit."""
    counts = np.zeros(len(loaded.fragments.values) + 1, dtype=np.int64)
    np.cumsum(hit[loaded.fragments.values], out=counts[1:])
    offsets = loaded.fragments.offsets
    return counts[offsets[1:]] > counts[offsets[:-1]]


def _restrict(chosen: Chosen, allowed: IntArray) -> Chosen:
    """Return the choice without what is not allowed; ``allowed`` ascends."""
    return chosen.take(allowed if chosen.ids is None else np.flatnonzero(np.isin(chosen.ids, allowed)))


def _groups(index: LevelIndex, selection: Selection, conditions: VertexConditions) -> IntArray | None:
    """Return the groups that a selection names, ``None`` where it names none."""
    numbers = selection.groups
    if numbers is not None:
        count = len(index.groups)
        outside = (numbers < 0) | (numbers >= count)
        if outside.any():
            raise ObjectNotFoundError(f"there is no group {int(numbers[outside][0])}: the level has {count}").at(
                level=index.group.level
            )
    known = {"vertex": [], "object": [], "group": index.attribute_names(GROUP_ATTRIBUTES)}
    named = [(condition, resolve_scope(condition.name, known)[1]) for condition in selection.group_conditions]
    for condition, name in [*conditions, *named]:
        matching = np.flatnonzero(condition.holds(index.group_attribute(name)))
        numbers = matching if numbers is None else numbers[np.isin(numbers, matching)]
    return numbers


def _matching_objects(index: LevelIndex, condition: Condition, name: str) -> IntArray:
    found = index.dense_attribute(name)
    holds = condition.holds(found.values)
    return np.flatnonzero(holds if found.present is None else holds & (found.present != 0))
