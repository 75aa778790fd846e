"""What can be rebuilt without guessing: a plan as data, and carrying it out in an order that is safe to break off.

Counts, shapes and copies follow from the data; bounds are only widened; nothing that holds
geometry is changed. Payloads come first, then metadata of arrays, of levels, of the root; what is
left over from a broken write goes last.
"""

import copy
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from zarr_vectors.constants import (
    ARRAY_KINDS,
    CROSS_CHUNK_LINKS,
    ENDPOINT_RECORDS_ENCODING,
    FRAGMENT_INDEX_ENCODING,
    GROUPS,
    LINK_FRAGMENTS,
    LINKS,
    MANIFESTS_LAYOUT,
    OBJECT_INDEX,
    VERTEX_FRAGMENTS,
    VERTICES,
)
from zarr_vectors.core.group import chunked_meta
from zarr_vectors.core.keys import DATA, MANIFESTS, NODE, OFFSETS, array_name_of, parse_level_name
from zarr_vectors.core.location import resolve
from zarr_vectors.core.lock import changing
from zarr_vectors.core.metadata import ARRAYS_KEY, LEVEL_KEY, ROOT_KEY
from zarr_vectors.core.nodes import group_attributes, group_document, parse_document
from zarr_vectors.core.storage import Storage, temporary_keys
from zarr_vectors.core.store import MARKER
from zarr_vectors.encoding.fragments import encode_fragment_arrays
from zarr_vectors.encoding.rows import ROW_DTYPES, row_dtype
from zarr_vectors.ragged import Ragged, offsets_from_counts
from zarr_vectors.validate.conformance import rows_of, slack_of
from zarr_vectors.validate.consistency import LINKS_INSIDE, Chunk, ChunkReader
from zarr_vectors.validate.contents import check_contents
from zarr_vectors.validate.metadata import used_capabilities
from zarr_vectors.validate.report import Findings
from zarr_vectors.validate.structure import read_structure
from zarr_vectors.validate.views import BROKEN, CHUNKS_PER_BATCH, LevelView, StoreView, batches

CONFORMANCE: Final = 4

Document = dict[str, Any]
Rebuild = Callable[[], Iterator[tuple[str, bytes]]]


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that repair does."""

    kind: str
    """``vertex_count``, ``arrays_present``, ``num_links``, ``shape``, ``copies``, ``bounds``, ``remove``, …"""
    path: str
    """The node that changes."""
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}: {self.kind} {self.before} -> {self.after}"


@dataclass(slots=True, eq=False)
class RepairPlan:
    """What repair will do, or has done."""

    url: str
    actions: list[Action] = field(default_factory=list)
    applied: bool = False
    notes: list[str] = field(default_factory=list)
    """What can't be repaired from what is there."""
    documents: dict[str, Document] = field(default_factory=dict, repr=False)
    rebuilds: list[tuple[LevelView, Rebuild]] = field(default_factory=list, repr=False)
    removals: list[str] = field(default_factory=list, repr=False)

    def __bool__(self) -> bool:
        return bool(self.actions)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain JSON."""
        actions = [
            {"kind": item.kind, "path": item.path, "before": item.before, "after": item.after} for item in self.actions
        ]
        return {"url": self.url, "applied": self.applied, "actions": actions, "notes": self.notes}

    def add(self, kind: str, path: str, before: object, after: object) -> None:
        """Add an action."""
        self.actions.append(Action(kind, path, str(before), str(after)))

    def apply(self, storage: Storage) -> None:
        """Carry the plan out.

        Raises
        ------
        UnfinishedWriteError
            If another process is writing to the store.
        """
        if self.actions:
            # The marker of a write that was broken off is taken over here, and goes at the end.
            with changing(storage):
                for level, rebuild in self.rebuilds:
                    _put_link_fragments(level, rebuild)
                for depth in (_is_array, _is_level, _is_root):
                    items = sorted(self.documents.items())
                    storage.put_many([(key, _encode(document)) for key, document in items if depth(key)])
                for key in self.removals:
                    storage.delete_dir(key)
                storage.flush()
        self.applied = True


def repair(location: object, *, apply: bool = False) -> RepairPlan:
    """Return what would be repaired in a store, and with ``apply`` repair it.

    Parameters
    ----------
    location
        A path, a URL, a Zarr store, a storage, or an open `zarr_vectors.Store`.
    apply
        Change the store; without it nothing is written.

    Raises
    ------
    StoreNotFoundError
        If there is no store at all.
    """
    inner = getattr(location, "storage", None)
    storage = inner if isinstance(inner, Storage) else resolve(location)
    try:
        plan = plan_repair(storage)
        if apply:
            plan.apply(storage)
        return plan
    finally:
        if storage is not location and storage is not inner:
            storage.close()


def plan_repair(storage: Storage) -> RepairPlan:
    """Return what can be rebuilt in a store."""
    plan = RepairPlan(storage.url)
    findings = Findings(level=CONFORMANCE)
    view = read_structure(storage, findings)
    if view is None:
        plan.notes += [*findings.not_run, "write the store again"]
        return plan
    for number in sorted(view.levels):
        level = view.levels[number]
        with findings.guard(level.place, "the contents of the level"):
            totals = check_contents(view, level, findings)
            _plan_level(plan, view, level, totals)
    _plan_root(plan, view)
    _plan_leftovers(plan, view)
    plan.notes += findings.not_run
    return plan


def _plan_level(plan: RepairPlan, view: StoreView, level: LevelView, totals: dict[str, int]) -> None:
    made = _plan_link_fragments(plan, level)
    attributes: dict[str, Document] = {}
    for path, array in level.arrays.items():
        changed = _array_fixes(level, path, totals)
        if changed:
            key = f"{level.number}/{path}/{NODE}"
            document = _load(plan, view.storage, key)
            block = _home(document, "zv_array")
            for name, value in changed.items():
                plan.add(name, f"{level.number}/{path}", block.get(name), value)
                block[name] = value
            attributes[path] = group_attributes(document)
        elif array.attributes:
            attributes[path] = array.attributes
    if made is not None:
        attributes[LINK_FRAGMENTS] = made
    document = copy.deepcopy(level.document)
    _fix_level(plan, level, document, totals)
    _fix_copies(plan, level, document, attributes)
    if document != level.document:
        plan.documents[f"{level.number}/{NODE}"] = document


def _fix_level(plan: RepairPlan, level: LevelView, document: Document, totals: dict[str, int]) -> None:
    block = _home(document, LEVEL_KEY)[LEVEL_KEY]
    rows = totals.get(VERTICES, BROKEN)
    if rows != BROKEN and block.get("vertex_count", 0) != rows:
        plan.add("vertex_count", str(level.number), block.get("vertex_count"), rows)
        block["vertex_count"] = rows
    names = {array_name_of(path) for path in level.arrays}
    if plan.rebuilds and plan.rebuilds[-1][0] is level:
        names.add(LINK_FRAGMENTS)
    present = [name for name in ARRAY_KINDS if name in names]
    listed = block.get("arrays_present")
    if not isinstance(listed, list) or sorted(map(str, listed)) != sorted(present):
        plan.add("arrays_present", str(level.number), listed, present)
        block["arrays_present"] = present


def _fix_copies(plan: RepairPlan, level: LevelView, document: Document, attributes: dict[str, Document]) -> None:
    home = _home(document, ARRAYS_KEY)
    if ARRAYS_KEY not in home or home[ARRAYS_KEY] == attributes:
        return
    stored = home[ARRAYS_KEY] if isinstance(home[ARRAYS_KEY], dict) else {}
    if stored != {path: array.attributes for path, array in level.arrays.items()}:
        wrong = [path for path in sorted({*stored, *attributes}) if stored.get(path) != attributes.get(path)]
        plan.add("copies", str(level.number), f"{len(wrong)} that differ", ", ".join(wrong))
    home[ARRAYS_KEY] = {path: attributes[path] for path in sorted(attributes)}


def _array_fixes(level: LevelView, path: str, totals: dict[str, int]) -> Document:
    """Return the counts of an array that its data contradict, as they should be."""
    meta = level.arrays[path].meta
    fixes: Document = {}
    for key, count in _true_counts(level, path, totals).items():
        stated = getattr(meta, key)
        if key == "shape":
            if stated and stated[0] != count:
                fixes[key] = [count, *stated[1:]]
        elif stated is not None and stated != count:
            fixes[key] = count
    return fixes


def _true_counts(level: LevelView, path: str, totals: dict[str, int]) -> dict[str, int]:
    """Return what the data of an array say about the counts in its metadata; ``shape`` is about the rows."""
    array, name = level.arrays[path], array_name_of(path)
    meta, nodes = array.meta, array.nodes
    record = 8 * (meta.link_width or 0) * (level.group.ndim + 1)
    if ARRAY_KINDS[name].per_chunk:
        total = totals.get(path, BROKEN)
        if name == LINKS and meta.encoding == ENDPOINT_RECORDS_ENCODING and record and (array.sizes >= 0).all():
            total = int(array.sizes.sum()) // record
        if total == BROKEN or name in (VERTEX_FRAGMENTS, LINK_FRAGMENTS):
            return {}
        return {"shape": total, "num_links": total} if name == LINKS else {"shape": total}
    data, offsets, manifests = (nodes.get(node) for node in (DATA, OFFSETS, MANIFESTS))
    if name in (OBJECT_INDEX, GROUPS):
        key = "num_objects" if name == OBJECT_INDEX else "num_groups"
        if manifests is not None and meta.layout == MANIFESTS_LAYOUT and len(manifests.shape) == 1:
            return {key: manifests.shape[0]}
        return {} if offsets is None else {key: offsets.nbytes // 8}
    known = meta.dtype in ROW_DTYPES and bool(meta.shape)
    size = row_dtype(str(meta.dtype)).itemsize * math.prod((meta.shape or (0,))[1:]) if known else 0
    size = record if name == CROSS_CHUNK_LINKS else size
    if data is None or not size or data.nbytes % size:
        return {}
    rows = data.nbytes // size
    return {"shape": rows, "num_links": rows} if name == CROSS_CHUNK_LINKS else {"shape": rows}


def _plan_root(plan: RepairPlan, view: StoreView) -> None:
    document = copy.deepcopy(view.document)
    block = _home(document, ROOT_KEY)[ROOT_KEY]
    held = [str(token) for token in block.get("format_capabilities") or []]
    missing = [token for token in used_capabilities(view) if token not in held]
    if missing:
        plan.add("format_capabilities", "/", held, [*held, *missing])
        block["format_capabilities"] = [*held, *missing]
    low, high = (list(corner) for corner in view.root.bounds)
    for level in view.levels.values():
        if level.low is not None and level.high is not None:
            slack = slack_of(level)
            low = [min(old, new) if new < old - slack else old for old, new in zip(low, level.low, strict=True)]
            high = [max(old, new) if new > old + slack else old for old, new in zip(high, level.high, strict=True)]
    bounds = [[float(value) for value in low], [float(value) for value in high]]
    if bounds != [list(corner) for corner in view.root.bounds]:
        plan.add("bounds", "/", [list(corner) for corner in view.root.bounds], bounds)
        block["bounds"] = bounds
    if document != view.document:
        plan.documents[NODE] = document


def _plan_leftovers(plan: RepairPlan, view: StoreView) -> None:
    storage = view.storage
    names = storage.list_dir("")
    listed = [dataset.path for dataset in view.root.multiscale.datasets]
    for name in names:
        if listed and parse_level_name(name) is not None and name not in listed:
            plan.add("remove", name, "a level that the root does not list", "nothing")
            plan.removals.append(name)
    for key in temporary_keys(storage):
        plan.add("remove", key, "a file whose write was broken off", "nothing")
        plan.removals.append(key)
    if MARKER in names:
        plan.add("remove", MARKER, "the marker of a write, whose root is there", "nothing")


# -- link fragments


def _plan_link_fragments(plan: RepairPlan, level: LevelView) -> Document | None:
    """Plan the rebuilding of link fragments that do not divide the links as the vertices are divided.

    Returns
    -------
    attributes
        Of the array, if it gets new ones.
    """
    if LINKS_INSIDE not in level.arrays or level.is_draco:
        return None
    array = level.arrays.get(LINK_FRAGMENTS)
    fresh = array is None or not array.attributes

    def rebuild() -> Iterator[tuple[str, bytes]]:
        reader = ChunkReader(level, Findings(level=0))
        for numbers in batches(level, reader.arrays, level.chunks):
            for chunk in reader.read(numbers):
                blob = _rebuilt(chunk, fresh=fresh)
                if blob is not None:
                    yield chunk.key, blob

    wrong = sum(1 for _ in rebuild())
    if not wrong:
        return None
    plan.add("link_fragments", f"{level.number}/{LINK_FRAGMENTS}", f"{wrong} chunks to rebuild", "as vertex_fragments")
    plan.rebuilds.append((level, rebuild))
    if not fresh:
        return None
    attributes = chunked_meta(LINK_FRAGMENTS, "uint8", encoding=FRAGMENT_INDEX_ENCODING).to_json()
    plan.documents[f"{level.number}/{LINK_FRAGMENTS}/{NODE}"] = json.loads(group_document(attributes))
    return attributes


def _rebuilt(chunk: Chunk, *, fresh: bool) -> bytes | None:
    """Return the link fragments of a chunk; ``None`` where those that are there are right, or it is not clear."""
    links, index = chunk.links, chunk.fragments
    if index is None or links is None or len(links) == 0 or links.shape[1] == 1:
        return None
    fragments = rows_of(index, chunk.num_rows)
    # A row of several fragments leaves open which of them a link is of, a row of none says nothing.
    if fragments is None or len(np.unique(fragments.values)) != len(fragments.values):
        return None
    of_row = np.full(chunk.num_rows, BROKEN, dtype=np.int64)
    of_row[fragments.values] = fragments.owners
    home = of_row[links[:, 0]]
    if (home == BROKEN).any():
        return None
    rows = np.argsort(home, kind="stable")
    wanted = Ragged(rows, offsets_from_counts(np.bincount(home, minlength=len(fragments))))
    if not fresh and chunk.link_fragments is not None:
        stored = rows_of(chunk.link_fragments, len(links))
        if stored is not None and _same(stored, wanted):
            return None
    return _encode_ragged(wanted)


def _same(first: Ragged, second: Ragged) -> bool:
    """Tell whether two divisions put the same rows together, in whatever order."""
    if not np.array_equal(first.offsets, second.offsets):
        return False
    return all(np.array_equal(item.values[np.lexsort((item.values, item.owners))], second.values) for item in (first,))


def _encode_ragged(parts: Ragged) -> bytes:
    """Return the fragment index of some lists: ranges where they are runs."""
    breaks = np.cumsum(np.diff(parts.values, prepend=parts.values[:1]) != 1) if len(parts.values) else parts.values
    filled = parts.counts > 0
    first = np.minimum(parts.offsets[:-1], max(len(parts.values) - 1, 0))
    last = np.maximum(parts.offsets[1:] - 1, 0)
    is_range = ~filled | (breaks[last] == breaks[first])
    starts = np.where(filled, parts.values[first], 0)
    ranges = np.stack([starts, parts.counts], axis=1)[is_range]
    listed = np.repeat(~is_range, parts.counts)
    return encode_fragment_arrays(is_range, ranges, offsets_from_counts(parts.counts[~is_range]), parts.values[listed])


def _put_link_fragments(level: LevelView, rebuild: Rebuild) -> None:
    """Store rebuilt link fragments a few at a time, in the codecs of the array."""
    array = level.arrays.get(LINK_FRAGMENTS)
    codecs = (array.meta.codecs if array is not None else None) or ({"name": "bytes"},)
    waiting: list[tuple[str, bytes]] = []

    def put() -> None:
        level.group.put_payloads(
            LINK_FRAGMENTS, [(key, np.frombuffer(blob, dtype=np.uint8)) for key, blob in waiting], codecs
        )
        if array is not None and array.meta.codecs is None:
            # Other writers keep the data of a chunk in a folder, where they would lie on.
            for key, _ in waiting:
                level.group.storage.delete_dir(f"{level.number}/{LINK_FRAGMENTS}/{key}/c")
        waiting.clear()

    for key, blob in rebuild():
        waiting.append((key, blob))
        if len(waiting) >= CHUNKS_PER_BATCH:
            put()
    put()


# -- documents


def _load(plan: RepairPlan, storage: Storage, key: str) -> Document:
    """Return a document to change, as it stands or as the plan has changed it already."""
    if key not in plan.documents:
        (found,) = storage.get_many([key])
        plan.documents[key] = parse_document(found or b"{}")
    return plan.documents[key]


def _home(document: Document, key: str) -> Document:
    """Return where a key of ours stands: among the attributes, or at the top."""
    attributes = document.get("attributes")
    if isinstance(attributes, dict) and (key in attributes or key not in document):
        return attributes
    return document


def _encode(document: Document) -> bytes:
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False).encode()


def _is_root(key: str) -> bool:
    return key == NODE


def _is_level(key: str) -> bool:
    return key.count("/") == 1


def _is_array(key: str) -> bool:
    return key.count("/") > 1
