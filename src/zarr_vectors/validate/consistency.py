"""Level 3, consistency: every blob decodes, and what one names exists in the other."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from zarr_vectors.constants import (
    CROSS_CHUNK_LINK_ATTRIBUTES,
    CROSS_CHUNK_LINKS,
    FRAGMENT_ATTRIBUTES,
    GROUP_ATTRIBUTES,
    GROUPS,
    LINK_ATTRIBUTES,
    LINK_FRAGMENTS,
    LINKS,
    OBJECT_ATTRIBUTES,
    VERTEX_ATTRIBUTES,
    VERTEX_FRAGMENTS,
    VERTICES,
)
from zarr_vectors.core.arrays import decode_attribute, read_groups
from zarr_vectors.core.keys import DATA, PRESENT_MASK, array_name_of, array_path
from zarr_vectors.core.metadata import ArrayMetadata
from zarr_vectors.encoding.draco import decode_draco
from zarr_vectors.encoding.fragments import HEADER, ChunkFragmentIndex, decode_fragments
from zarr_vectors.encoding.links import decode_endpoint_records, decode_links
from zarr_vectors.encoding.rows import decode_rows
from zarr_vectors.exceptions import DecodeError, MissingChunkError, MissingDependencyError, ZarrVectorsError
from zarr_vectors.query.chunks import match_rows
from zarr_vectors.typing import AnyArray, ByteArray, IntArray
from zarr_vectors.validate.report import Findings, Place
from zarr_vectors.validate.views import BROKEN, ArrayView, LevelView, key_of, read_each

LINKS_INSIDE = array_path(LINKS, delta=0)
LINKS_ACROSS = array_path(CROSS_CHUNK_LINKS, delta=0)
_OUTSIDE_ROWS = ("index-bounds", "negative-index")

Payload = ByteArray | ZarrVectorsError | None


@dataclass(slots=True, eq=False)
class Chunk:
    """One chunk, decoded as far as it can be."""

    place: Place
    coords: IntArray
    key: str
    positions: AnyArray | None = None
    """Rows that are finite or not; ``None`` where they can't be decoded."""
    fragments: ChunkFragmentIndex | None = None
    """Inside the rows; ``None`` where they are not."""
    num_fragments: int = BROKEN
    links: IntArray | None = None
    """(links, width) inside the rows, those in a Draco bitstream too; ``None`` where they can't be decoded."""
    num_links: int = BROKEN
    link_fragments: ChunkFragmentIndex | None = None
    owners: IntArray | None = None
    """The object of each fragment, where it is stored."""
    link_owners: IntArray | None = None
    """The object of each link, where it is stored."""

    @property
    def num_rows(self) -> int:
        """How many rows there are, `BROKEN` where that is not known."""
        return BROKEN if self.positions is None else len(self.positions)


def chunk_arrays(level: LevelView) -> list[str]:
    """Return the arrays that are read chunk by chunk."""
    kinds = (VERTICES, VERTEX_FRAGMENTS, LINK_FRAGMENTS, VERTEX_ATTRIBUTES, FRAGMENT_ATTRIBUTES)
    plain = [path for path in level.arrays if array_name_of(path) in kinds or path == LINKS_INSIDE]
    return [*plain, *(path for path in level.arrays if _is_link_attribute(path))]


def _is_link_attribute(path: str) -> bool:
    return array_name_of(path) == LINK_ATTRIBUTES and path.endswith("/0")


class ChunkReader:
    """Decodes chunks of a level, batch by batch, and sums up what they hold."""

    def __init__(self, level: LevelView, findings: Findings) -> None:
        self.level = level
        self.findings = findings
        self.arrays = chunk_arrays(level)
        self.totals: dict[str, int] = dict.fromkeys(self.arrays, 0)
        """Rows of each array; `BROKEN` once a chunk of it can't be decoded."""
        self._payloads: dict[tuple[str, str], Payload] = {}
        self._sizes: dict[tuple[str, str], int] = {}
        """Of the chunks of a batch that an array has, sound or not."""

    def read(self, numbers: IntArray) -> list[Chunk]:
        """Return some chunks, by their numbers among those of the level."""
        level = self.level
        coords = level.chunks[numbers]
        keys = [key_of(row) for row in coords]
        self._sizes = {}
        for path in self.arrays:
            array = level.arrays[path]
            for key, place in zip(keys, match_rows(array.coords, coords).tolist(), strict=True):
                if place >= 0:
                    self._sizes[path, key] = int(array.sizes[place])
        requests = [request for request, size in self._sizes.items() if size != BROKEN]
        self._payloads = dict(zip(requests, read_each(level.group, requests), strict=True))
        return [self._decode(row, key) for row, key in zip(coords, keys, strict=True)]

    def _payload(self, chunk: Chunk, path: str) -> ByteArray | None:
        """Return a payload that is sound, or report why it is not."""
        payload = self._payloads.get((path, chunk.key))
        place = Place(self.level.number, path, chunk.key)
        if payload is None:
            return None
        if isinstance(payload, ZarrVectorsError):
            code = "L1.chunk-data" if isinstance(payload, MissingChunkError) else "L3.blob"
            self.findings.add_error(code, place, payload)
            return None
        size = self._sizes[path, chunk.key]
        if payload.nbytes != size:
            self.findings.add("L3.blob", place, f"{size} bytes, as its zarr.json says", f"{payload.nbytes} bytes")
        return payload

    def _has(self, chunk: Chunk, path: str) -> bool:
        """Tell whether the array has this chunk, sound or not."""
        return (path, chunk.key) in self._sizes

    def _decode(self, coords: IntArray, key: str) -> Chunk:
        chunk = Chunk(Place(self.level.number, VERTICES, key), coords, key)
        self._positions(chunk)
        self._count(VERTICES, chunk.num_rows)
        chunk.fragments, chunk.num_fragments = self._index(chunk, VERTEX_FRAGMENTS, chunk.num_rows)
        if chunk.num_rows > 0 and VERTEX_FRAGMENTS in self.level.arrays and not self._has(chunk, VERTEX_FRAGMENTS):
            self.findings.add("L3.chunk-missing", _at(chunk, VERTEX_FRAGMENTS), "fragments of the vertices", "none")
        self._links(chunk)
        if self._has(chunk, LINK_FRAGMENTS):
            chunk.link_fragments, _ = self._index(chunk, LINK_FRAGMENTS, chunk.num_links)
        for path in self.arrays:
            self._attribute(chunk, path)
        return chunk

    def _positions(self, chunk: Chunk) -> None:
        payload = self._payload(chunk, VERTICES)
        if payload is None:
            return
        level, findings = self.level, self.findings
        try:
            positions = level.group.decode_vertices(payload)
            if level.is_draco:
                chunk.links = decode_draco(payload.data).faces
        except MissingDependencyError as error:
            findings.add_error("L3.not-decoded", chunk.place, error)
            return
        except DecodeError as error:
            findings.add_error("L3.blob" if level.is_draco else "L3.rows", chunk.place, error)
            return
        bad = ~np.isfinite(positions).all(axis=1)
        if bad.any():
            row = int(np.argmax(bad))
            found = f"{int(bad.sum())} rows that are not, the first {row}: {positions[row].tolist()}"
            findings.add("L3.not-finite", chunk.place, "finite positions", found)
        chunk.positions = positions

    def _index(self, chunk: Chunk, path: str, num_rows: int) -> tuple[ChunkFragmentIndex | None, int]:
        """Return a fragment index that lies inside the rows, and how many fragments it has."""
        payload = self._payload(chunk, path)
        if payload is None:
            return None, BROKEN
        place = _at(chunk, path)
        try:
            index = decode_fragments(payload.data)
        except DecodeError as error:
            code = "L3.fragment-rows" if error.rule in _OUTSIDE_ROWS else "L3.fragment-index"
            self.findings.add_error(code, place, error)
            return None, BROKEN
        used = HEADER.size + (index.num_fragments + 7) // 8
        if payload[used : HEADER.size + (index.num_fragments + 63) // 64 * 8].any():
            self.findings.add("L3.fragment-padding", place, "zeros after the bitmap", "other bytes")
        if num_rows == BROKEN:
            return None, index.num_fragments
        try:
            return decode_fragments(payload.data, num_rows=num_rows), index.num_fragments
        except DecodeError as error:
            self.findings.add_error("L3.fragment-rows", place, error)
            return None, index.num_fragments

    def _links(self, chunk: Chunk) -> None:
        if self.level.is_draco:
            chunk.num_links = BROKEN if chunk.links is None else len(chunk.links)
            return
        if not self._has(chunk, LINKS_INSIDE):
            width = self.level.arrays[LINKS_INSIDE].meta.link_width if LINKS_INSIDE in self.level.arrays else None
            chunk.links, chunk.num_links = np.empty((0, width or 2), dtype=np.int64), 0
            return
        payload = self._payload(chunk, LINKS_INSIDE)
        meta = self.level.arrays[LINKS_INSIDE].meta
        if payload is None or meta.dtype is None or meta.link_width is None:
            self._count(LINKS_INSIDE, BROKEN)
            return
        place = _at(chunk, LINKS_INSIDE)
        try:
            links = decode_links(payload.data, meta.dtype, width=meta.link_width)
        except DecodeError as error:
            self.findings.add_error("L3.links", place, error)
            self._count(LINKS_INSIDE, BROKEN)
            return
        chunk.num_links = len(links)
        self._count(LINKS_INSIDE, len(links))
        if chunk.num_rows == BROKEN:
            return
        try:
            sound = decode_links(payload.data, meta.dtype, width=meta.link_width, num_rows=chunk.num_rows)
            chunk.links = sound.astype(np.int64)
        except DecodeError as error:
            self.findings.add_error("L3.link-ends", place, error)

    def _attribute(self, chunk: Chunk, path: str) -> None:
        counts = {
            VERTEX_ATTRIBUTES: chunk.num_rows,
            FRAGMENT_ATTRIBUTES: chunk.num_fragments,
            LINK_ATTRIBUTES: chunk.num_links,
        }
        name = array_name_of(path)
        if name not in counts:
            return
        rows, meta, place = counts[name], self.level.arrays[path].meta, _at(chunk, path)
        if not self._has(chunk, path):
            if rows > 0:
                self.findings.add("L3.chunk-missing", place, f"{rows} rows", "no chunk")
                self._count(path, BROKEN)
            return
        payload = self._payload(chunk, path)
        if payload is None or rows == BROKEN or meta.dtype is None:
            self._count(path, BROKEN)
            return
        try:
            values = decode_attribute(meta, payload, meta.dtype, rows)
        except DecodeError as error:
            self.findings.add_error("L3.attribute-rows", place, error)
            self._count(path, BROKEN)
            return
        self._count(path, len(values))
        check_categories(values, meta, place, self.findings)
        if path == f"{FRAGMENT_ATTRIBUTES}/object_id" and values.dtype.kind in "iu":
            chunk.owners = values.astype(np.int64).reshape(-1)
        if path == f"{LINK_ATTRIBUTES}/object_id/0" and values.dtype.kind in "iu":
            chunk.link_owners = values.astype(np.int64).reshape(-1)

    def _count(self, path: str, rows: int) -> None:
        before = self.totals.get(path, 0)
        self.totals[path] = BROKEN if BROKEN in (before, rows) else before + rows


def _at(chunk: Chunk, path: str) -> Place:
    return Place(chunk.place.level, path, chunk.key)


def check_categories(values: AnyArray, meta: ArrayMetadata, place: Place, findings: Findings) -> None:
    """Check that codes of text are among the categories."""
    if meta.categories is None or values.size == 0 or values.dtype.kind not in "iu":
        return
    codes: npt.NDArray[np.integer] = values.view(values.dtype)
    low, high = int(codes.min()), int(codes.max())
    if low < 0 or high >= len(meta.categories):
        findings.add("L3.category", place, f"codes below {len(meta.categories)}", f"codes from {low} to {high}")


def check_orphans(level: LevelView, findings: Findings) -> None:
    """Check that arrays have chunks only where there are vertices."""
    for path, array in level.arrays.items():
        for row in array.coords[level.find(array.coords) < 0]:
            findings.add("L3.chunk-orphan", Place(level.number, path, key_of(row)), "a chunk with vertices", "none")


def check_totals(level: LevelView, totals: dict[str, int], findings: Findings) -> None:
    """Check the counts that metadata state against what the chunks hold."""
    rows = totals.get(VERTICES, BROKEN)
    if rows not in (BROKEN, level.group.metadata.vertex_count):
        findings.add("L3.vertex-count", level.place, str(rows), level.group.metadata.vertex_count)
    for path, total in totals.items():
        meta, place = level.arrays[path].meta, Place(level.number, path)
        if total == BROKEN:
            continue
        if path == LINKS_INSIDE and meta.num_links not in (None, total):
            findings.add("L3.num-links", place, str(total), meta.num_links)
        if meta.shape and meta.shape[0] != total and array_name_of(path) not in (VERTEX_FRAGMENTS, LINK_FRAGMENTS):
            findings.add("L3.array-shape", place, f"{total} rows", list(meta.shape))


def check_arrays_present(level: LevelView, findings: Findings) -> None:
    """Check the list of arrays that a level carries."""
    listed = set(level.group.metadata.arrays_present)
    present = {array_name_of(path) for path in level.arrays}
    for name in sorted(listed - present):
        findings.add("L3.arrays-present", level.place, f"the array {name}", "none")
    missing = sorted(present - listed)
    if missing:
        findings.add("L3.arrays-unlisted", level.place, "all arrays in arrays_present", f"not {', '.join(missing)}")


def read_records(level: LevelView, path: str, findings: Findings) -> IntArray | None:
    """Return the records of links between chunks, ``None`` where they can't be decoded."""
    array = level.arrays[path]
    width, place = array.meta.link_width, Place(level.number, path, DATA)
    if width is None or array.nodes.get(DATA, False) is None:
        return None
    (payload,) = read_each(level.group, [(path, DATA)]) if DATA in array.nodes else [np.empty(0, dtype=np.uint8)]
    if payload is None or isinstance(payload, ZarrVectorsError):
        if payload is not None:
            findings.add_error("L3.blob", place, payload)
        return None
    try:
        records = decode_endpoint_records(payload.data, width=width, ndim=level.group.ndim)
    except DecodeError as error:
        findings.add_error("L3.links", place, error)
        return None
    if array.meta.num_links not in (None, len(records)):
        findings.add("L3.num-links", Place(level.number, path), str(len(records)), array.meta.num_links)
    return records


def check_ends(level: LevelView, path: str, ends: IntArray, at: LevelView, findings: Findings) -> npt.NDArray[np.bool_]:
    """Tell which ends of records exist; report those that do not.

    Parameters
    ----------
    level, path
        Where the records are stored.
    ends : (records, ends, ndim + 1)
        Chunk coordinates and rows.
    at
        The level that the ends lie in.
    findings
        Where to report.
    """
    flat = ends.reshape(-1, ends.shape[-1])
    chunks = at.find(flat[:, :-1])
    known = np.append(at.num_rows, 0)[chunks]
    good = (chunks >= 0) & ((flat[:, -1] < known) | (known == BROKEN))
    result: npt.NDArray[np.bool_] = good.reshape(ends.shape[:-1])
    bad = np.flatnonzero(~result.all(axis=1))
    if len(bad):
        record = int(bad[0])
        found = f"{len(bad)} records with other ends, the first {record}: {ends[record].tolist()}"
        findings.add("L3.link-ends", Place(level.number, path), f"rows of level {at.number}", found, count=len(bad))
    return result


def check_dense(level: LevelView, records: dict[str, int], findings: Findings) -> None:
    """Check what is stored once for the level: attributes of objects, groups and links between chunks.

    Parameters
    ----------
    level
        The level, whose objects are counted.
    records
        How many links each array of links between chunks holds; `BROKEN` where it is not known.
    findings
        Where to report.
    """
    groups = _check_groups(level, findings)
    for path, array in level.arrays.items():
        name = array_name_of(path)
        if name == OBJECT_ATTRIBUTES and level.has_objects:
            _check_rows(level, array, level.num_objects, "objects", findings)
        elif name == GROUP_ATTRIBUTES:
            _check_rows(level, array, groups, "groups", findings)
        elif name == CROSS_CHUNK_LINK_ATTRIBUTES:
            links = f"{CROSS_CHUNK_LINKS}/{path.split('/')[2]}"
            _check_rows(level, array, records.get(links, 0), "links", findings)


def _check_groups(level: LevelView, findings: Findings) -> int:
    """Return how many groups there are."""
    array, place = level.arrays.get(GROUPS), Place(level.number, GROUPS)
    if array is None:
        return 0
    if array.meta.num_groups is None or None in array.nodes.values():
        return BROKEN
    try:
        ids, _ = read_groups(level.group)
    except MissingChunkError:
        return BROKEN
    except ZarrVectorsError as error:
        findings.add_error("L3.groups", place, error)
        return BROKEN
    outside = ids[ids >= level.num_objects]
    if len(outside) and level.has_objects and level.num_objects != BROKEN:
        found = f"{len(outside)} others, the first {int(outside[0])}"
        findings.add("L3.group-members", place, f"ids below {level.num_objects}", found, count=len(outside))
    return array.meta.num_groups


def _check_rows(level: LevelView, array: ArrayView, count: int, of: str, findings: Findings) -> None:
    meta, place = array.meta, Place(level.number, array.path)
    if not meta.shape or meta.dtype is None or None in array.nodes.values():
        return
    if count not in (BROKEN, meta.shape[0]):
        findings.add("L3.attribute-rows", place, f"{count} rows, one for each of the {of}", f"shape {list(meta.shape)}")
    if DATA not in array.nodes:
        return
    values = _dense(level, array, DATA, findings, dtype=meta.dtype, tail=tuple(meta.shape[1:]))
    if values is None:
        return
    if len(values) != meta.shape[0]:
        findings.add("L3.array-shape", place, f"{len(values)} rows", list(meta.shape))
    check_categories(values, meta, place, findings)
    if meta.has_present_mask and PRESENT_MASK in array.nodes:
        mask = _dense(level, array, PRESENT_MASK, findings, dtype="uint8")
        if mask is not None:
            _check_mask(values, mask.view(np.uint8), place, findings)


def _dense(
    level: LevelView, array: ArrayView, node: str, findings: Findings, *, dtype: str, tail: tuple[int, ...] = ()
) -> AnyArray | None:
    (payload,) = read_each(level.group, [(array.path, node)])
    place = Place(level.number, array.path, node)
    try:
        if isinstance(payload, ZarrVectorsError):
            raise payload
        return None if payload is None else decode_rows(payload.data, dtype, width=tail or None)
    except ZarrVectorsError as error:
        findings.add_error("L3.rows" if not isinstance(payload, ZarrVectorsError) else "L3.blob", place, error)
        return None


def _check_mask(values: AnyArray, mask: ByteArray, place: Place, findings: Findings) -> None:
    if len(mask) != len(values):
        findings.add("L3.present-mask", place, f"{len(values)} entries", len(mask))
        return
    if (mask > 1).any():
        findings.add("L3.present-mask", place, "0 and 1", f"{int(mask.max())} for object {int(np.argmax(mask > 1))}")
    absent = (mask == 0) & (values.reshape(len(values), -1) != 0).any(axis=1)
    if absent.any():
        found = f"{int(absent.sum())} that are not, the first object {int(np.argmax(absent))}"
        findings.add("L3.present-mask", place, "zeros where a row is absent", found)
