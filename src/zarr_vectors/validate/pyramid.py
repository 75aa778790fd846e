"""Level 5, pyramid: grids that nest, ids that are kept, and one metavertex a bin."""

import math
from collections.abc import Sequence

import numpy as np

from zarr_vectors.constants import LEVEL0_OBJECT_ID, OBJECT_ATTRIBUTES, OBJECT_INDEX, VERTICES
from zarr_vectors.core.arrays import read_object_attribute
from zarr_vectors.core.keys import array_path, delta_name, parse_delta_name
from zarr_vectors.core.metadata import divides
from zarr_vectors.exceptions import InputError, ZarrVectorsError
from zarr_vectors.validate.consistency import Chunk
from zarr_vectors.validate.metadata import is_cross_level
from zarr_vectors.validate.report import Findings, Place
from zarr_vectors.validate.views import BROKEN, LevelView, StoreView

_TOLERANCE = 1e-6
_MAP = array_path(OBJECT_ATTRIBUTES, name=LEVEL0_OBJECT_ID)


def check_grids(view: StoreView, findings: Findings) -> None:
    """Check that grids nest, that ratios agree, and what levels say of their parents."""
    numbers = sorted(view.levels)
    for below, number in zip([None, *numbers], numbers, strict=False):
        level, meta = view.levels[number], view.levels[number].group.metadata
        if below is not None:
            _check_nesting(level, view.levels[below], findings)
        _check_ratio(level, view, findings)
        parent = meta.parent_level
        good = parent is None if number == 0 else parent is not None and parent < number and parent in view.levels
        if not good:
            expected = "none" if number == 0 else "a finer level that exists"
            findings.add("L5.parent-level", level.place, f"parent_level: {expected}", parent)


def _check_nesting(level: LevelView, below: LevelView, findings: Findings) -> None:
    pairs = [("chunk_shape", level.grid.chunk_shape, below.grid.chunk_shape)]
    if level.group.metadata.bin_shape is not None:
        pairs.append(("bin_shape", level.grid.bin_shape, below.grid.bin_shape))
    for name, coarse, fine in pairs:
        if not divides(coarse, fine):
            expected = f"{name} a whole multiple of level {below.number}'s {list(fine)}"
            findings.add("L5.grid-nest", level.place, expected, list(coarse))


def _check_ratio(level: LevelView, view: StoreView, findings: Findings) -> None:
    meta, root = level.group.metadata, view.root
    bins = meta.bin_shape if level.number else root.bin_shape
    ratio = meta.bin_ratio or (None if level.number else (1,) * root.ndim)
    if bins is not None and ratio is not None:
        stated = [size * factor for size, factor in zip(root.bin_shape, ratio, strict=True)]
        if not _close(stated, bins):
            expected = f"bin_ratio {[round(size / base, 6) for size, base in zip(bins, root.bin_shape, strict=True)]}"
            findings.add("L5.bin-ratio", level.place, expected, list(ratio))
    dataset = next((item for item in root.multiscale.datasets if item.path == str(level.number)), None)
    if dataset is None:
        return
    halves = None if bins is None else [size / 2 for size in bins]
    for what, values, wanted in (("scale", dataset.scale, ratio), ("translation", dataset.translation, halves)):
        comparable = values is not None and wanted is not None and len(values) == len(wanted)
        if comparable and values is not None and wanted is not None and not _close(values, wanted):
            findings.add("L5.transformations", level.place, f"{what} {list(wanted)}", list(values))


def _close(first: Sequence[float], second: Sequence[float]) -> bool:
    return all(math.isclose(a, b, rel_tol=_TOLERANCE) for a, b in zip(first, second, strict=True))


def check_metavertices(level: LevelView, chunk: Chunk, findings: Findings) -> None:
    """Check that a chunk of a merged level has one metavertex a bin."""
    positions = chunk.positions
    if positions is None or len(positions) == 0 or not np.isfinite(positions).all():
        return
    if not divides(level.grid.chunk_shape, level.grid.bin_shape):
        return
    cells = np.broadcast_to(chunk.coords, positions.shape)
    candidates = [positions]
    if positions.dtype.kind == "f":
        # Rounding may put a mean onto the border of its bin, which belongs to the next one.
        candidates.append(np.nextafter(positions, np.array(-np.inf, positions.dtype)))
    try:
        distinct = max(len(np.unique(level.grid.bins_of(rows, cells))) for rows in candidates)
    except InputError:
        return
    if distinct < len(positions):
        found = f"{len(positions)} in {distinct} bins"
        findings.add("L5.metavertex-bin", Place(level.number, VERTICES, chunk.key), "one metavertex a bin", found)


def check_objects(view: StoreView, findings: Findings) -> None:
    """Check that ids are kept where that is promised, or mapped back; and follow them to level 0."""
    for number in sorted(view.levels):
        level = view.levels[number]
        if not level.has_objects or level.num_objects == BROKEN:
            continue
        parent = view.levels.get(-1 if level.group.metadata.parent_level is None else level.group.metadata.parent_level)
        if number == 0:
            level.level0_ids = np.arange(level.num_objects)
        elif parent is not None and parent.has_objects:
            _check_ids(level, parent, view, findings)
            _check_appearing(level, parent, findings)


def _check_ids(level: LevelView, parent: LevelView, view: StoreView, findings: Findings) -> None:
    meta, place = level.group.metadata, Place(level.number, OBJECT_INDEX)
    if meta.preserves_object_ids:
        if parent.num_objects not in (BROKEN, level.num_objects):
            findings.add("L5.object-count", place, f"{parent.num_objects} objects", level.num_objects)
        elif meta.inherited_num_objects not in (None, level.num_objects):
            expected = f"inherited_num_objects {level.num_objects}"
            findings.add("L5.object-count", place, expected, meta.inherited_num_objects)
        else:
            level.level0_ids = parent.level0_ids
        return
    if _MAP not in level.arrays:
        findings.add("L5.object-ids", Place(level.number, _MAP), "the ids at level 0", "no such array")
        return
    try:
        ids = read_object_attribute(level.group, LEVEL0_OBJECT_ID).values.astype(np.int64).reshape(-1)
    except ZarrVectorsError:
        return
    base = view.levels[0].num_objects if 0 in view.levels else BROKEN
    wrong = (ids < 0) | (ids >= base) if base != BROKEN else ids < 0
    if wrong.any() or len(np.unique(ids)) != len(ids):
        found = f"{int(wrong.sum())} others" if wrong.any() else "the same id twice"
        findings.add("L5.object-ids", Place(level.number, _MAP), f"distinct ids below {base}", found)
    elif len(ids) == level.num_objects:
        level.level0_ids = ids


def _check_appearing(level: LevelView, parent: LevelView, findings: Findings) -> None:
    if level.level0_ids is None or parent.level0_ids is None:
        return
    here = level.level0_ids[level.objects_present]
    new = here[~np.isin(here, parent.level0_ids[parent.objects_present])]
    if len(new):
        place = Place(level.number, OBJECT_INDEX, object_id=int(new[0]))
        expected = f"objects of level {parent.number}"
        findings.add("L5.objects-appear", place, expected, f"{len(new)} without vertices there", count=len(new))


def check_declared(view: StoreView, findings: Findings) -> None:
    """Check that links between levels are stored as the root declares."""
    root = view.root
    deepest = max(view.levels, default=0) if root.cross_level_depth == -1 else root.cross_level_depth
    storage = root.cross_level_storage
    for number, level in view.levels.items():
        for delta in range(1, deepest + 1) if storage != "none" else ():
            steps = [view.levels.get(number + step) for step in range(1, delta + 1)]
            if any(step is None or not step.is_merged for step in steps):
                break
            _check_stored(level, delta, findings)
            other = view.levels[number + delta]
            if storage == "explicit":
                _check_stored(other, -delta, findings)
        for path in level.arrays:
            delta = parse_delta_name(path.split("/")[1]) or 0 if is_cross_level(path) else 0
            wrong = _why_not_declared(view, number, delta)
            if delta and wrong is not None:
                findings.add("L5.cross-level-undeclared", Place(number, path), wrong, delta_name(delta))


def _check_stored(level: LevelView, delta: int, findings: Findings) -> None:
    if not level.links_to(delta):
        path = f"links/{delta_name(delta)}"
        findings.add(
            "L5.cross-level-missing", Place(level.number, path), f"links to level {level.number + delta}", "none"
        )


def _why_not_declared(view: StoreView, number: int, delta: int) -> str | None:
    root = view.root
    if number + delta not in view.levels:
        return "links to levels that exist"
    if root.cross_level_storage == "none" or root.cross_level_depth == 0:
        return "no links between levels"
    if delta < 0 and root.cross_level_storage == "implicit":
        return "links to coarser levels only"
    if root.cross_level_depth != -1 and abs(delta) > root.cross_level_depth:
        return f"links over {root.cross_level_depth} levels at most"
    return None
