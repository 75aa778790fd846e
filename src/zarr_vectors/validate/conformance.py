"""Level 4, conformance: what is stored fits the geometry, the grid and the conventions; pure."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from zarr_vectors.constants import LINK_FRAGMENTS, OBJECT_INDEX, VERTEX_FRAGMENTS, VERTICES
from zarr_vectors.core.metadata import divides
from zarr_vectors.encoding.fragments import ChunkFragmentIndex
from zarr_vectors.exceptions import DecodeError, InputError
from zarr_vectors.ragged import Ragged
from zarr_vectors.spatial.grid import ChunkGrid
from zarr_vectors.typing import AnyArray, BoolArray, IntArray
from zarr_vectors.validate.consistency import LINKS_ACROSS, LINKS_INSIDE, Chunk
from zarr_vectors.validate.manifests import Named
from zarr_vectors.validate.report import Findings, Place
from zarr_vectors.validate.views import BROKEN, LevelView, StoreView, key_of

PATHS: Final = ("line", "polyline", "streamline")
_WIDTHS: Final = {"graph": (2,), "mesh": (3, 4), "skeleton": (1, 2), **dict.fromkeys(PATHS, (2,))}
_CONVENTIONS: Final = {
    "graph": ("explicit",),
    "mesh": ("explicit",),
    "skeleton": ("explicit", "implicit_sequential_with_branches"),
}
# How far outside of its chunk Draco may put a position, where the store does not say.
_DRACO_SLACK: Final = 0.01
_ULPS: Final = 4


def check_links(level: LevelView, view: StoreView, findings: Findings) -> None:
    """Check that conventions, widths and encodings fit the geometry."""
    root, place = view.root, level.place
    kind, convention = root.geometry_types[0], root.links_convention
    inside = LINKS_INSIDE in level.arrays
    fitting = _CONVENTIONS.get(kind)
    if fitting is not None and convention not in fitting:
        findings.add("L4.links-convention", Place(), f"{' or '.join(fitting)} for a {kind}", convention)
    if convention == "implicit_sequential" and inside:
        findings.add("L4.links-convention", place.chunk_of(LINKS_INSIDE), f"no links under {convention}", "links/0")
    if convention == "explicit" and kind in _WIDTHS and not inside and not level.is_draco:
        findings.add("L4.links-convention", place.chunk_of(LINKS_INSIDE), "explicit links", "none")
    _check_companions(level, kind, findings)


def _check_companions(level: LevelView, kind: str, findings: Findings) -> None:
    """Check widths, and what must or must not stand beside the links."""
    arrays, place = level.arrays, level.place
    for path in (LINKS_INSIDE, LINKS_ACROSS):
        width = arrays[path].meta.link_width if path in arrays else None
        if kind in _WIDTHS and width is not None and width not in _WIDTHS[kind]:
            expected = f"{' or '.join(map(str, _WIDTHS[kind]))} ends for a {kind}"
            findings.add("L4.link-width", place.chunk_of(path), expected, width)
    chunks = len(arrays[LINKS_INSIDE].coords) if LINKS_INSIDE in arrays else 0
    if chunks and LINK_FRAGMENTS not in arrays:
        findings.add("L4.link-fragments-missing", place.chunk_of(LINK_FRAGMENTS), "the companion of links/0", "none")
    if level.is_draco:
        if kind != "mesh":
            findings.add("L4.draco", place.chunk_of(VERTICES), "Draco for meshes only", kind)
        if chunks:
            findings.add("L4.draco", place.chunk_of(LINKS_INSIDE), "no links/0 beside Draco", f"{chunks} chunks")
        if (arrays[VERTICES].meta.model_extra or {}).get("draco_rows") != "decoded":
            findings.add("L4.draco-rows", place.chunk_of(VERTICES), "draco_rows 'decoded'", "none")


def slack_of(level: LevelView) -> float:
    """Return how far positions may lie outside of their chunk: lossy ones a little."""
    if not level.is_draco:
        return 0.0
    stated = (level.arrays[VERTICES].meta.model_extra or {}).get("max_error")
    return float(stated) if isinstance(stated, int | float) else _DRACO_SLACK * max(level.grid.chunk_shape)


def outside_cells(
    positions: AnyArray, cells: IntArray, shape: tuple[float, ...], *, slack: float = 0.0, rounded: bool = False
) -> BoolArray:
    """Tell which positions lie outside of the cells of a grid that they should be in.

    Parameters
    ----------
    positions : (rows, ndim)
    cells : (rows, ndim) or (ndim,)
    shape
        Of a cell.
    slack
        How far outside is fine.
    rounded
        Whether positions are means, which rounding may put a little outside.
    """
    grid = ChunkGrid(shape, shape)
    try:
        outside: BoolArray = (grid.chunks_of(positions) != cells).any(axis=1)
    except InputError:
        return np.ones(len(positions), dtype=np.bool_)
    if not outside.any() or not (slack or rounded):
        return outside
    size = np.array(shape, dtype=np.float64)
    rows = positions[outside].astype(np.float64)
    low = np.broadcast_to(cells, positions.shape)[outside] * size
    distance = np.maximum(low - rows, rows - (low + size))
    allowed: npt.NDArray[np.float64] = np.full(rows.shape, slack)
    if rounded:
        dtype = positions.dtype if positions.dtype.kind == "f" else np.dtype(np.float64)
        ulp = np.spacing(np.maximum(np.abs(rows), np.abs(low) + size).astype(dtype)).astype(np.float64)
        allowed += _ULPS * ulp if positions.dtype.kind == "f" else 1.0
    outside[outside] = (distance > allowed).any(axis=1)
    return outside


def rows_of(index: ChunkFragmentIndex, num_rows: int) -> Ragged | None:
    """Return the rows of all fragments; ``None`` where ranges overlap so much that they are too many to list."""
    try:
        return Ragged(*index.rows(limit=64 * (num_rows + len(index)) + 1024))
    except DecodeError:
        return None


@dataclass(slots=True, eq=False)
class LevelConformance:
    """Checks of one level that go chunk by chunk, and what they add up to."""

    level: LevelView
    view: StoreView
    findings: Findings
    records: IntArray | None
    """Links between chunks of the level."""
    _joined: BoolArray = field(init=False)
    """(records, 2): whether each end of a path's record is where a piece ends or begins."""
    _ends: tuple[IntArray, IntArray] | None = field(init=False)
    _in_bins: bool = field(init=False)
    _in_order: bool = field(init=False)
    _num_empty: int = 0

    def __post_init__(self) -> None:
        level, root = self.level, self.view.root
        kind, grid = root.geometry_types[0], level.grid
        paths = kind in PATHS
        binned = not level.is_draco and not level.is_merged and divides(grid.chunk_shape, grid.bin_shape)
        plain = kind == "point_cloud" and not level.has_objects
        self._in_bins = binned and (plain or paths)
        self._in_order = binned and plain and level.number == 0
        self._ends = None
        records = self.records
        if paths and records is not None and records.shape[1] == 2:  # noqa: PLR2004
            self._ends = level.find(records[:, 0, :-1]), level.find(records[:, 1, :-1])
            self._joined = np.zeros((len(records), 2), dtype=np.bool_)

    def check(self, number: int, chunk: Chunk) -> None:
        """Check one chunk, by its number among those of the level."""
        if chunk.positions is None:
            return
        self._check_positions(chunk)
        if chunk.fragments is None:
            return
        fragments = rows_of(chunk.fragments, chunk.num_rows)
        if fragments is None:
            self.findings.not_run.append(f"{chunk.place}: fragments that overlap too much to list")
            return
        self._check_fragments(chunk, fragments)
        self._check_link_fragments(chunk, fragments)
        if self._ends is not None and self.records is not None:
            filled = fragments.counts > 0
            last = fragments.values[fragments.offsets[1:][filled] - 1]
            first = fragments.values[fragments.offsets[:-1][filled]]
            for end, rows in enumerate((last, first)):
                here = np.flatnonzero(self._ends[end] == number)
                self._joined[here, end] = np.isin(self.records[here, end, -1], rows)

    def _check_positions(self, chunk: Chunk) -> None:
        level, positions = self.level, chunk.positions
        if positions is None or len(positions) == 0:
            return
        finite = np.isfinite(positions).all(axis=1)
        rows = positions[finite]
        if len(rows) == 0:
            return
        outside = outside_cells(
            rows, chunk.coords, level.grid.chunk_shape, slack=slack_of(level), rounded=level.number > 0
        )
        if outside.any():
            row = int(np.flatnonzero(finite)[np.argmax(outside)])
            found = f"{int(outside.sum())} outside, the first row {row}: {positions[row].tolist()}"
            self.findings.add("L4.rows-in-chunk", chunk.place, "rows inside the chunk", found)
        low, high = rows.min(axis=0).tolist(), rows.max(axis=0).tolist()
        level.low = tuple(map(min, low, level.low or low))
        level.high = tuple(map(max, high, level.high or high))

    def _check_fragments(self, chunk: Chunk, fragments: Ragged) -> None:
        findings, positions = self.findings, chunk.positions
        place = chunk.place.chunk_of(VERTEX_FRAGMENTS, chunk.key)
        empty = fragments.counts == 0
        self._num_empty += int(empty.sum())
        if empty.any() and not self.level.is_identity:
            found = f"{int(empty.sum())} of {len(empty)} without any"
            findings.add("L4.fragment-empty", place, "fragments with rows", found)
        held = np.zeros(chunk.num_rows, dtype=np.bool_)
        held[fragments.values] = True
        if not held.all():
            found = f"{int((~held).sum())} in none, the first {int(np.argmin(held))}"
            findings.add("L4.row-unnamed", place, "rows that are in a fragment", found)
        if not self._in_bins or positions is None or not np.isfinite(positions).all():
            return
        try:
            bins = self.level.grid.bins_of(positions, np.broadcast_to(chunk.coords, positions.shape))
        except InputError:
            return
        starts = fragments.offsets[:-1][~empty]
        if len(starts) == 0:
            return
        of_rows = bins[fragments.values]
        spread = np.minimum.reduceat(of_rows, starts) != np.maximum.reduceat(of_rows, starts)
        if spread.any():
            first = int(np.flatnonzero(~empty)[np.argmax(spread)])
            found = f"{int(spread.sum())} in several, the first {first}"
            findings.add("L4.rows-in-bin", place, "fragments in one bin each", found)
        elif self._in_order and (np.diff(of_rows[starts]) <= 0).any():
            findings.add("L4.fragment-order", place, "ascending bins, each once", "another order")

    def _check_link_fragments(self, chunk: Chunk, fragments: Ragged) -> None:
        index, links = chunk.link_fragments, chunk.links
        if index is None or links is None or len(links) == 0 or links.shape[1] == 1:
            return
        place = chunk.place.chunk_of(LINK_FRAGMENTS, chunk.key)
        if len(index) != len(fragments):
            code = "L4.link-fragments-single" if len(index) == 1 else "L4.link-fragments"
            self.findings.add(code, place, f"{len(fragments)} fragments, as of the vertices", len(index))
            return
        parts = rows_of(index, len(links))
        if parts is None or len(parts.values) != len(links) or len(np.unique(parts.values)) != len(links):
            self.findings.add("L4.link-fragments", place, "every link in one fragment", "another division")
            return
        # Rows of several fragments leave open which of them a link is of.
        if len(np.unique(fragments.values)) != len(fragments.values):
            return
        of_row = np.full(chunk.num_rows, BROKEN, dtype=np.int64)
        of_row[fragments.values] = fragments.owners
        wrong = of_row[links[parts.values, 0]] != parts.owners
        if wrong.any():
            found = f"{int(wrong.sum())} others, the first link {int(parts.values[np.argmax(wrong)])}"
            self.findings.add("L4.link-fragments", place, "links whose first end is in the fragment", found)

    def finish(self, named: Named, *, decoded: bool) -> None:
        """Check what only the whole level tells.

        Parameters
        ----------
        named
            What the manifests name.
        decoded
            Whether all chunks could be decoded.
        """
        self._check_bounds()
        if decoded and self._ends is not None and self.records is not None:
            self._check_continuations(self.records, named)
        if self.level.has_objects and named.complete and decoded:
            self._check_unnamed(named)

    def _check_bounds(self) -> None:
        level, root = self.level, self.view.root
        if level.low is None or level.high is None:
            return
        slack = slack_of(level)
        for axis, (low, high, first, last) in enumerate(zip(*root.bounds, level.low, level.high, strict=True)):
            spare = slack + (_ULPS * float(np.spacing(np.float32(max(abs(low), abs(high))))) if level.number else 0.0)
            if first < low - spare or last > high + spare:
                expected = f"axis {axis} within {low:g} to {high:g}"
                self.findings.add("L4.bounds", level.place, expected, f"{first!r} to {last!r}")

    def _check_continuations(self, records: IntArray, named: Named) -> None:
        level, findings = self.level, self.findings
        place = level.place.chunk_of(LINKS_ACROSS)
        wrong = np.flatnonzero(~self._joined.all(axis=1))
        zero = (records[wrong][..., -1] == 0).all(axis=1)

        def describe(record: int) -> tuple[Place, str, object]:
            return place, "a last row, then a first row", f"record {record}: {records[record].tolist()}"

        findings.add_each("L4.continuation-zero", wrong[zero], describe)
        findings.add_each("L4.continuation-rows", wrong[~zero], describe)
        meta = level.group.metadata
        explicit = self.view.root.cross_chunk_strategy != "boundary_deduplication"
        if explicit and named.complete and not meta.shared_fragments and named.steps != len(records):
            found = f"{len(records)} records"
            findings.add("L4.continuation-count", place, f"{named.steps} steps between chunks", found)

    def _check_unnamed(self, named: Named) -> None:
        # A fragment without rows may be without a name.
        unnamed = int((named.fragments == 0).sum()) - self._num_empty
        if unnamed > 0 and OBJECT_INDEX in self.level.arrays:
            offsets = np.cumsum(self.level.num_fragments)
            first = int(np.searchsorted(offsets, int(np.argmin(named.fragments)), side="right"))
            place = Place(self.level.number, VERTEX_FRAGMENTS, key_of(self.level.chunks[first]))
            self.findings.add("L4.row-unnamed", place, "fragments that a manifest names", f"{unnamed} others")
