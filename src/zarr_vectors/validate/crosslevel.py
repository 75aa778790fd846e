"""Links between levels, at levels 3 and 5: their ends exist, every vertex has one parent, and deltas agree.

Vertices are numbered through all chunks of their level. Memory: one batch of chunks with their
links, eight bytes for each chunk of the coarser level, one byte for each fragment of the finer one.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from zarr_vectors.constants import (
    CROSS_CHUNK_LINKS,
    ENDPOINT_RECORDS_ENCODING,
    LINK_ATTRIBUTES,
    LINKS,
    VERTEX_FRAGMENTS,
    VERTICES,
)
from zarr_vectors.core.arrays import decode_attribute
from zarr_vectors.core.keys import array_name_of, array_path, delta_name, parse_delta_name
from zarr_vectors.core.object_index import read_manifests
from zarr_vectors.encoding.fragments import decode_fragments
from zarr_vectors.encoding.links import decode_endpoint_records, decode_paired_links
from zarr_vectors.encoding.manifests import ManifestTable
from zarr_vectors.exceptions import DecodeError, MissingChunkError, MissingDependencyError, ZarrVectorsError
from zarr_vectors.ragged import concatenated_ranges, offsets_from_counts
from zarr_vectors.typing import AnyArray, BoolArray, ByteArray, IntArray
from zarr_vectors.validate.conformance import outside_cells, rows_of, slack_of
from zarr_vectors.validate.consistency import check_ends, read_records
from zarr_vectors.validate.manifests import OBJECTS_PER_BATCH, Hash, mix
from zarr_vectors.validate.metadata import is_cross_level
from zarr_vectors.validate.report import Findings, Place
from zarr_vectors.validate.views import (
    BROKEN,
    CHUNKS_PER_BATCH,
    ArrayView,
    LevelView,
    StoreView,
    batches,
    key_of,
    read_each,
)

Pairs = tuple[IntArray, IntArray]
"""Vertices of a level and of the other, as numbers through all chunks; one entry a link."""


class LevelLinks:
    """The links of a level to another, read for some chunks at a time; what is wrong is reported once."""

    def __init__(self, level: LevelView, other: LevelView, findings: Findings) -> None:
        self.level = level
        self.other = other
        self.findings = findings
        delta = other.number - level.number
        self.path, across = array_path(LINKS, delta=delta), array_path(CROSS_CHUNK_LINKS, delta=delta)
        self.broken = False
        """Whether some links could not be read, so that what is missing proves nothing."""
        self.starts = _starts(level)
        self.other_starts = _starts(other)
        self.counts: dict[int, int] = {}
        self.num_across = 0
        self._across = np.empty((0, 2, level.group.ndim + 1), dtype=np.int64)
        if across in level.arrays:
            records = read_records(level, across, findings)
            self.broken = records is None
            if records is not None:
                self.num_across = len(records)
                self._across = self._sound(across, records[:, :2])
        self._across_chunk = level.find(self._across[:, 0, :-1])
        order = np.argsort(self._across_chunk, kind="stable")
        self._across, self._across_chunk = self._across[order], self._across_chunk[order]

    @property
    def total(self) -> int:
        """How many links inside chunks were read."""
        return sum(self.counts.values())

    def read(self, numbers: IntArray, *, report: bool = True) -> Pairs:
        """Return the links of some chunks, by their numbers among those of the level, ascending."""
        level = self.level
        own, others = self._of_across(numbers)
        array = level.arrays.get(self.path)
        if array is None:
            return own, others
        coords = level.chunks[numbers]
        wanted = np.flatnonzero(array.sizes_of(coords) != BROKEN)
        payloads = read_each(level.group, [(self.path, key_of(coords[place])) for place in wanted.tolist()])
        parts = [np.empty((0, 2, level.group.ndim + 1), dtype=np.int64)]
        for place, payload in zip(wanted.tolist(), payloads, strict=True):
            records = self._decode(coords[place], int(numbers[place]), payload, report=report)
            if records is not None:
                parts.append(records)
        inside = self._number(self._sound(self.path, np.concatenate(parts), report=report))
        return np.concatenate([own, inside[0]]), np.concatenate([others, inside[1]])

    def _of_across(self, numbers: IntArray) -> Pairs:
        begin = np.searchsorted(self._across_chunk, numbers, side="left")
        end = np.searchsorted(self._across_chunk, numbers, side="right")
        return self._number(self._across[concatenated_ranges(begin, end - begin)])

    def _decode(
        self, coords: IntArray, number: int, payload: ByteArray | ZarrVectorsError | None, *, report: bool
    ) -> IntArray | None:
        level = self.level
        meta, place = level.arrays[self.path].meta, Place(level.number, self.path, key_of(coords))
        try:
            if isinstance(payload, ZarrVectorsError):
                raise payload
            if payload is None or meta.link_width is None:
                raise MissingChunkError("the data are promised and not there")
            if meta.encoding == ENDPOINT_RECORDS_ENCODING:
                records = decode_endpoint_records(payload.data, width=meta.link_width, ndim=level.group.ndim)
            else:
                records = decode_paired_links(payload.data, coords.tolist())
        except ZarrVectorsError as error:
            self.broken = True
            if report:
                self.findings.add_error(
                    "L3.links" if not isinstance(payload, ZarrVectorsError) else "L3.blob", place, error
                )
            return None
        self.counts[number] = len(records)
        if records.shape[1] == 1:
            # The own end of a single reference is the row that it stands in.
            own = np.concatenate([np.tile(coords, (len(records), 1)), np.arange(len(records))[:, None]], axis=1)
            records = np.concatenate([own[:, None], records], axis=1)
        elsewhere = (records[:, 0, :-1] != coords).any(axis=1)
        if elsewhere.any() and report:
            found = f"{int(elsewhere.sum())} with another, the first {int(np.argmax(elsewhere))}"
            self.findings.add("L3.link-ends", place, "records whose first end is in this chunk", found)
        return records[~elsewhere, :2]

    def _sound(self, path: str, records: IntArray, *, report: bool = True) -> IntArray:
        findings = self.findings if report else Findings(level=0)
        if records.shape[1] == 1:
            # Between chunks nothing says whose a single reference is.
            return np.empty((0, 2, records.shape[2]), dtype=np.int64)
        good = check_ends(self.level, path, records[:, :1], self.level, findings).all(axis=1)
        good &= check_ends(self.level, path, records[:, 1:], self.other, findings).all(axis=1)
        for end, at in enumerate((self.level, self.other)):
            # Rows of a chunk that can't be decoded have no numbers.
            good &= np.append(at.num_rows, BROKEN)[at.find(records[:, end, :-1])] != BROKEN
        self.broken |= not good.all()
        return records[good]

    def _number(self, records: IntArray) -> Pairs:
        own = self.starts[self.level.find(records[:, 0, :-1])] + records[:, 0, -1]
        others = self.other_starts[self.other.find(records[:, 1, :-1])] + records[:, 1, -1]
        return own, others


def _starts(level: LevelView) -> IntArray:
    return offsets_from_counts(np.maximum(level.num_rows, 0))[:-1]


def check_cross_level(view: StoreView, findings: Findings) -> None:
    """Check all links between levels, a pair of levels at a time."""
    pairs = {
        (number, number + delta)
        for number, level in view.levels.items()
        for path in level.arrays
        if is_cross_level(path)
        and (delta := parse_delta_name(path.split("/")[1]) or 0)
        and number + delta in view.levels
    }
    for low, high in sorted({(min(pair), max(pair)) for pair in pairs}):
        with findings.guard(Place(low), f"links to level {high}"):
            _check_pair(view, view.levels[low], view.levels[high], findings)


def _check_pair(view: StoreView, fine: LevelView, coarse: LevelView, findings: Findings) -> None:
    up, down = LevelLinks(fine, coarse, findings), LevelLinks(coarse, fine, findings)
    upward = np.zeros(len(coarse.chunks), dtype=np.uint64)
    downward = upward.copy()
    delta = coarse.number - fine.number
    if fine.links_to(delta):
        family = _Family(view, fine, coarse, up, findings) if findings.level >= 5 else None  # noqa: PLR2004
        for numbers in batches(fine, _read_with(fine, up), fine.chunks):
            own, others = up.read(numbers)
            _add_hashes(upward, coarse, own, others)
            if family is not None:
                family.check(numbers, own, others)
            findings.tell(f"links {fine.number} to {coarse.number}", int(numbers[-1]) + 1, len(fine.chunks))
        _check_counts(fine, up, delta, findings)
    if coarse.links_to(-delta):
        for numbers in batches(coarse, [path for path in (down.path,) if path in coarse.arrays], coarse.chunks):
            own, others = down.read(numbers)
            _add_hashes(downward, coarse, others, own)
        _check_counts(coarse, down, -delta, findings)
    if fine.links_to(delta) and coarse.links_to(-delta) and not up.broken and not down.broken:

        def describe(chunk: int) -> tuple[Place, str, object]:
            place = Place(coarse.number, down.path, key_of(coarse.chunks[chunk]))
            return place, f"the links of level {fine.number}, turned around", "others"

        findings.add_each("L5.inverse", np.flatnonzero(upward != downward), describe)


def _read_with(fine: LevelView, links: LevelLinks) -> list[str]:
    return [path for path in (VERTICES, VERTEX_FRAGMENTS, links.path) if path in fine.arrays]


def _add_hashes(sums: Hash, coarse: LevelView, fine_rows: IntArray, coarse_rows: IntArray) -> None:
    chunks = np.searchsorted(_starts(coarse), coarse_rows, side="right") - 1
    np.add.at(sums, chunks, mix(fine_rows, coarse_rows))


def _check_counts(level: LevelView, links: LevelLinks, delta: int, findings: Findings) -> None:
    """Check how many links are declared, and the rows of their attributes."""
    array = level.arrays.get(links.path)
    if array is not None and array.meta.num_links not in (None, links.total) and not links.broken:
        findings.add("L3.num-links", Place(level.number, links.path), str(links.total), array.meta.num_links)
    for path, attribute in level.arrays.items():
        if array_name_of(path) == LINK_ATTRIBUTES and path.split("/")[2] == delta_name(delta):
            _check_attribute(level, attribute, links.counts, findings)


def _check_attribute(level: LevelView, attribute: ArrayView, counts: dict[int, int], findings: Findings) -> None:
    """Check that an attribute of links to another level has a row for each of them."""
    chunks = level.find(attribute.coords)
    for number in sorted(set(counts) - set(chunks.tolist())):
        if counts[number]:
            place = Place(level.number, attribute.path, key_of(level.chunks[number]))
            findings.add("L3.chunk-missing", place, f"{counts[number]} rows", "no chunk")
    wanted = np.flatnonzero((attribute.sizes != BROKEN) & (chunks >= 0))
    for begin in range(0, len(wanted), CHUNKS_PER_BATCH):
        part = wanted[begin : begin + CHUNKS_PER_BATCH].tolist()
        payloads = read_each(level.group, [(attribute.path, key_of(attribute.coords[number])) for number in part])
        for number, payload in zip(part, payloads, strict=True):
            place = Place(level.number, attribute.path, key_of(attribute.coords[number]))
            if isinstance(payload, ZarrVectorsError):
                findings.add_error("L3.blob", place, payload)
            elif payload is not None and attribute.meta.dtype is not None:
                try:
                    decode_attribute(attribute.meta, payload, attribute.meta.dtype, counts.get(int(chunks[number]), 0))
                except DecodeError as error:
                    findings.add_error("L3.attribute-rows", place, error)


@dataclass(slots=True, eq=False)
class _Family:
    """Checks that the vertices of a level have the parents they should have."""

    view: StoreView
    fine: LevelView
    coarse: LevelView
    links: LevelLinks
    findings: Findings
    _survivors: ByteArray | None = field(init=False)
    _fragment_starts: IntArray = field(init=False)
    _steps: list[LevelLinks] | None = field(init=False)

    def __post_init__(self) -> None:
        self._survivors = _surviving_fragments(self.fine, self.coarse, self.findings)
        self._fragment_starts = offsets_from_counts(np.maximum(self.fine.num_fragments, 0))
        self._steps = self._links_between()

    def _links_between(self) -> list[LevelLinks] | None:
        """Return the links to the next level and from there on, where links over several levels are made of them."""
        between = self.view.levels.get(self.fine.number + 1)
        if between is None or self.coarse.number - self.fine.number <= 1:
            return None
        rest = self.coarse.number - between.number
        if not self.fine.links_to(1) or not between.links_to(rest):
            return None
        silent = Findings(level=0)
        return [LevelLinks(self.fine, between, silent), LevelLinks(between, self.coarse, silent)]

    def check(self, numbers: IntArray, own: IntArray, others: IntArray) -> None:
        """Check the links of some chunks."""
        fine, findings = self.fine, self.findings
        rows, counts = np.unique(own, return_counts=True)

        def twice(item: int) -> tuple[Place, str, object]:
            return self._at(int(rows[item])), "one parent", int(counts[item])

        findings.add_each("L5.parent-twice", np.flatnonzero(counts > 1), twice)
        if (fine.num_rows[numbers] != BROKEN).all() and not self.links.broken:
            self._check_missing(numbers, rows)
        if self.coarse.group.metadata.bin_shape is not None:
            self._check_bins(numbers, own, others)
        if self._steps is not None:
            self._check_composition(numbers, own, others)

    def _at(self, row: int) -> Place:
        chunk = int(np.searchsorted(self.links.starts, row, side="right")) - 1
        return Place(self.fine.number, self.links.path, key_of(self.fine.chunks[chunk]))

    def _check_missing(self, numbers: IntArray, linked: IntArray) -> None:
        wanted = self._wanted_rows(numbers)
        if wanted is None:
            return
        missing = wanted[~np.isin(wanted, linked)]
        chunks = np.searchsorted(self.links.starts, missing, side="right") - 1

        def describe(chunk: int) -> tuple[Place, str, object]:
            place = Place(self.fine.number, self.links.path, key_of(self.fine.chunks[chunk]))
            count = int((chunks == chunk).sum())
            first = int(missing[np.argmax(chunks == chunk)] - self.links.starts[chunk])
            return place, "a parent for every vertex that survives", f"{count} without, the first row {first}"

        self.findings.add_each("L5.parent-missing", np.unique(chunks), describe)

    def _wanted_rows(self, numbers: IntArray) -> IntArray | None:
        """Return the rows of some chunks that belong to objects of the coarser level; ``None``: not known."""
        fine, starts = self.fine, self.links.starts
        if not fine.has_objects:
            return concatenated_ranges(starts[numbers], fine.num_rows[numbers])
        if self._survivors is None:
            return None
        payloads = read_each(fine.group, [(VERTEX_FRAGMENTS, key_of(fine.chunks[number])) for number in numbers])
        parts = [np.empty(0, dtype=np.int64)]
        for number, payload in zip(numbers.tolist(), payloads, strict=True):
            if payload is None or isinstance(payload, ZarrVectorsError) or fine.num_fragments[number] == BROKEN:
                return None
            num_rows = int(fine.num_rows[number])
            try:
                index = decode_fragments(payload.data, num_rows=num_rows)
            except DecodeError:
                return None
            fragments = rows_of(index, num_rows)
            if fragments is None:
                return None
            begin, end = self._fragment_starts[number : number + 2].tolist()
            kept = fragments.take(np.flatnonzero(self._survivors[begin:end]))
            parts.append(np.unique(kept.values) + starts[number])
        return np.concatenate(parts)

    def _check_bins(self, numbers: IntArray, own: IntArray, others: IntArray) -> None:
        children = _positions(self.fine, numbers, own, self.links.starts)
        needed = np.unique(np.searchsorted(self.links.other_starts, others, side="right") - 1)
        parents = _positions(self.coarse, needed, others, self.links.other_starts)
        if children is None or parents is None:
            return
        bins = self.coarse.grid.bin_shape
        good = np.isfinite(children).all(axis=1) & np.isfinite(parents).all(axis=1)
        if not good.all():
            return
        cells = np.floor(children.astype(np.float64) / np.array(bins)).astype(np.int64)
        slack = max(slack_of(self.fine), slack_of(self.coarse))
        wrong = outside_cells(parents, cells, bins, slack=slack, rounded=True)
        if slack:
            wrong &= outside_cells(
                children, np.floor(parents.astype(np.float64) / np.array(bins)).astype(np.int64), bins, slack=slack
            )
        chunks = np.searchsorted(self.links.starts, own[wrong], side="right") - 1

        def describe(chunk: int) -> tuple[Place, str, object]:
            place = Place(self.fine.number, self.links.path, key_of(self.fine.chunks[chunk]))
            link = int(np.flatnonzero(wrong)[np.argmax(chunks == chunk)])
            found = f"{int((chunks == chunk).sum())} others, the first {children[link].tolist()}"
            return place, f"children in the bin of {parents[link].tolist()}", found

        self.findings.add_each("L5.parent-bin", np.unique(chunks), describe)

    def _check_composition(self, numbers: IntArray, own: IntArray, others: IntArray) -> None:
        if self._steps is None:
            return
        first, second = self._steps
        rows, between = first.read(numbers, report=False)
        chunks = np.unique(np.searchsorted(second.starts, between, side="right") - 1)
        middle, top = second.read(chunks, report=False)
        order = np.argsort(middle, kind="stable")
        middle, top = middle[order], top[order]
        place = np.minimum(np.searchsorted(middle, between), max(len(middle) - 1, 0))
        known = middle[place] == between if len(middle) else np.zeros(len(between), dtype=np.bool_)
        expected = mix(rows[known], top[place[known]]) if known.any() else np.empty(0, dtype=np.uint64)
        found = mix(own, others) if len(own) else np.empty(0, dtype=np.uint64)
        if not first.broken and not second.broken and not np.array_equal(np.sort(expected), np.sort(found)):
            where = Place(self.fine.number, self.links.path, key_of(self.fine.chunks[numbers[0]]))
            through = f"the links through level {self.fine.number + 1}"
            self.findings.add("L5.composition", where, through, f"others, in one of {len(numbers)} chunks from here on")


def _positions(level: LevelView, numbers: IntArray, rows: IntArray, starts: IntArray) -> AnyArray | None:
    """Return the positions of rows that lie in some chunks; ``None`` where one of these can't be decoded."""
    if len(rows) == 0:
        return None
    payloads = read_each(level.group, [(VERTICES, key_of(level.chunks[number])) for number in numbers])
    parts: list[AnyArray] = []
    for number, payload in zip(numbers.tolist(), payloads, strict=True):
        if payload is None or isinstance(payload, ZarrVectorsError):
            return None
        try:
            positions = level.group.decode_vertices(payload)
        except (DecodeError, MissingDependencyError):
            return None
        if len(positions) != level.num_rows[number]:
            return None
        parts.append(positions)
    local = offsets_from_counts(level.num_rows[numbers])[:-1]
    place = np.searchsorted(starts[numbers], rows, side="right") - 1
    return np.concatenate(parts).take(local[place] + rows - starts[numbers][place], axis=0)


def _surviving_fragments(fine: LevelView, coarse: LevelView, findings: Findings) -> ByteArray | None:
    """Return one byte a fragment: 1 where an object names it that has vertices at the coarser level; or ``None``."""
    if not fine.has_objects:
        return None
    if fine.level0_ids is None or coarse.level0_ids is None:
        findings.not_run.append(f"level {fine.number}: whether every surviving vertex has a parent")
        return None
    kept: BoolArray = np.isin(fine.level0_ids, coarse.level0_ids[coarse.objects_present])
    starts = offsets_from_counts(np.maximum(fine.num_fragments, 0))
    mask: ByteArray = np.zeros(int(starts[-1]), dtype=np.uint8)
    ids = np.flatnonzero(kept)
    for begin in range(0, len(ids), OBJECTS_PER_BATCH):
        try:
            table = read_manifests(fine.group, ids[begin : begin + OBJECTS_PER_BATCH])
            mask[_named(table, fine, starts)] = 1
        except ZarrVectorsError:
            return None
    return mask


def _named(table: ManifestTable, level: LevelView, starts: IntArray) -> IntArray:
    chunks = level.find(table.chunk_coords)
    fragments, offsets = table.fragments(limit=64 * (int(starts[-1]) + table.num_blocks) + 1024)
    of_block: npt.NDArray[np.int64] = np.repeat(chunks, np.diff(offsets))
    numbers = starts[of_block] + fragments
    inside = (of_block >= 0) & (fragments < np.append(level.num_fragments, 0)[of_block])
    return numbers[inside]
