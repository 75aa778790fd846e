"""Building a pyramid: plan the levels, make each from the one below it, then make them visible at once."""

import time
from collections.abc import Sequence

import numpy as np

from zarr_vectors.constants import (
    ALL_ARRAY_NAMES,
    CAP_FRAGMENT_INDEX,
    CAP_MULTISCALE_LINKS,
    CAP_PRESERVED_OBJECT_IDS,
    CAP_SHARED_FRAGMENTS,
    CROSS_CHUNK_LINKS,
    LINKS,
)
from zarr_vectors.core.group import FsGroup
from zarr_vectors.core.keys import NODE, parse_delta_name
from zarr_vectors.core.metadata import Dataset, RootMetadata
from zarr_vectors.core.nodes import group_document
from zarr_vectors.core.storage import Storage
from zarr_vectors.core.store import dataset_of, level_document, list_levels, read_level, read_root
from zarr_vectors.exceptions import InputError, StorageError, locate
from zarr_vectors.multiresolution.crosslevel import compose, write_parents
from zarr_vectors.multiresolution.level import MadeLevel, make_level
from zarr_vectors.multiresolution.options import PyramidOptions, PyramidSummary
from zarr_vectors.multiresolution.plan import Factor, Grid, LevelPlan, above, plan_level
from zarr_vectors.multiresolution.sparsify import Sparsity
from zarr_vectors.query.chunks import Fetch, Need, load_chunks
from zarr_vectors.query.index import LevelIndex
from zarr_vectors.spatial.grid import ChunkGrid

MOST_LEVELS = 16


def build(storage: Storage, factors: Sequence[Factor | int] | None, options: PyramidOptions) -> PyramidSummary:
    """Build a pyramid over level 0, in place of any that is there.

    Nothing of it can be seen before the last step, which rewrites the root's ``zarr.json``. Levels
    that are replaced are taken out of the root first.
    """
    began = time.perf_counter()
    root = read_root(storage)
    base = read_level(storage, root, 0)
    with locate(store=storage.url):
        _check(storage, options)
        root = _state_bins(root, LevelIndex(base), options)
        base = FsGroup(storage, root, base.metadata, base.arrays, base.complete)
        # Without this, rewriting the level's zarr.json would forget the arrays that were not asked for.
        for name in ALL_ARRAY_NAMES:
            base.list_arrays(name)
        below = Grid(0, tuple(root.bin_shape), (1,) * root.ndim, tuple(root.chunk_shape))
        plans = None if factors is None else _plans(below, factors, options)
        _remove_old_levels(storage, root, base)
        made = _make_levels(LevelIndex(base), below, plans, root, options)
        _write_cross_level(base, made, options)
        _commit(storage, root, base, made, options)
    return PyramidSummary(
        levels=(0, *(item.group.level for item in made)),
        vertices=(base.metadata.vertex_count, *(item.group.metadata.vertex_count for item in made)),
        objects=(_present(LevelIndex(base)), *(item.num_present for item in made)),
        seconds=time.perf_counter() - began,
    )


def _check(storage: Storage, options: PyramidOptions) -> None:
    if options.cross_level_depth < -1:
        raise InputError(
            f"cross_level_depth is -1 (all), 0 (none) or a number of levels, not {options.cross_level_depth}"
        )
    if options.cross_level_storage not in ("none", "implicit", "explicit"):
        raise InputError(f"cross_level_storage is none, implicit or explicit, not {options.cross_level_storage!r}")
    if options.method not in ("bins", "simplify"):
        raise InputError(f"method is 'bins' or 'simplify', not {options.method!r}")
    if storage.url.endswith(".zip"):
        raise StorageError("a zip file can't grow levels: build the pyramid in a directory, then pack it")


def _make_levels(
    index: LevelIndex, below: Grid, plans: Sequence[LevelPlan] | None, root: RootMetadata, options: PyramidOptions
) -> list[MadeLevel]:
    made: list[MadeLevel] = []
    level0_ids = np.arange(index.num_objects, dtype=np.int64)
    while plans is None or len(made) < len(plans):
        plan = plans[len(made)] if plans is not None else _plan_by_data(index, below, options)
        if plan is None:
            break
        made.append(make_level(index, plan, root, level0_ids, options))
        level0_ids = made[-1].level0_ids
        below, index = above(plan), LevelIndex(made[-1].group)
    return made


def _plans(below: Grid, factors: Sequence[Factor | int], options: PyramidOptions) -> list[LevelPlan]:
    scales = options.chunk_scale_factors or [None] * len(factors)
    if len(scales) != len(factors):
        raise InputError(f"{len(scales)} chunk scale factors for {len(factors)} levels")
    plans = []
    for factor, scale in zip(factors, scales, strict=True):
        bin_factor, sparsity = factor if isinstance(factor, tuple) else (factor, 1.0)
        plans.append(plan_level(below, bin_factor, scale, _sparsity(float(sparsity), options)))
        below = above(plans[-1])
    return plans


def _sparsity(factor: float, options: PyramidOptions) -> Sparsity:
    return Sparsity(
        factor,
        options.sparsity_strategy,
        options.sparsity_seed,
        options.sparsity_attribute,
        options.sparsity_lowest,
    )


def _plan_by_data(index: LevelIndex, below: Grid, options: PyramidOptions) -> LevelPlan | None:
    """Return the smallest doubling of the bins that makes the next level small enough, or ``None`` at the top."""
    count = index.group.metadata.vertex_count
    if count <= options.max_vertices or below.level + 1 >= MOST_LEVELS:
        return None
    wanted = options.reduction_factor or index.group.root.reduction_factor
    factor = 2
    while True:
        plan = plan_level(below, factor, None, _sparsity(1.0, options))
        occupied = _count_bins(index, plan)
        if occupied * wanted <= count or occupied == 1:
            return plan if occupied < count else None
        factor *= 2


def _count_bins(index: LevelIndex, plan: LevelPlan) -> int:
    grid = ChunkGrid(plan.chunk_shape, plan.bin_shape)
    covering = np.floor_divide(index.chunks, np.array(plan.chunk_scale, dtype=np.int64))
    chunks, number = np.unique(covering, axis=0, return_inverse=True)
    total = 0
    for chunk in range(len(chunks)):
        members = index.chunks[number.reshape(-1) == chunk]
        positions = load_chunks(Fetch(index.group), members, Need()).positions
        total += len(np.unique(grid.bins_of(positions, np.broadcast_to(chunks[chunk], positions.shape))))
    return total


def _state_bins(root: RootMetadata, index: LevelIndex, options: PyramidOptions) -> RootMetadata:
    """Return the root with bins of level 0: a store with one bin a chunk has none that a level could build on."""
    if root.base_bin_shape is not None:
        return root
    if options.base_bin_shape is not None:
        shape = tuple(float(size) for size in options.base_bin_shape)
    else:
        per_chunk = max(index.group.metadata.vertex_count / max(len(index.chunks), 1), 1.0)
        parts = 1 << max(round(np.log2(per_chunk) / root.ndim), 0)
        shape = tuple(size / parts for size in root.chunk_shape)
    fields = {name: getattr(root, name) for name in type(root).model_fields}
    return RootMetadata.parse({**root.extras(), **fields, "base_bin_shape": shape}, "zarr_vectors")


def _write_cross_level(base: FsGroup, made: Sequence[MadeLevel], options: PyramidOptions) -> None:
    if not _is_linked(made, options):
        return
    groups = [base, *(item.group for item in made)]
    both = options.cross_level_storage == "explicit"
    deepest = len(made) if options.cross_level_depth == -1 else options.cross_level_depth
    for fine in range(len(made)):
        parents = made[fine].parents
        for delta in range(1, min(deepest, len(made) - fine) + 1):
            target = made[fine + delta - 1]
            if parents is None or target.parents is None:
                break
            if delta > 1:
                parents = compose(parents, target.parents)
            write_parents(groups[fine], target.group, target.chunks, parents, both=both, options=options.options)


def _is_linked(made: Sequence[MadeLevel], options: PyramidOptions) -> bool:
    stored = options.cross_level_storage != "none" and options.cross_level_depth != 0
    return stored and any(item.parents is not None for item in made)


def _remove_old_levels(storage: Storage, root: RootMetadata, base: FsGroup) -> None:
    """Take levels above 0 out of the store's root, then remove them: what can be seen is whole all the time."""
    old = [level for level in list_levels(storage, root) if level > 0]
    stale = [path for path in base.arrays if _is_cross_level(path)]
    for path in stale:
        del base.arrays[path]
    if old or stale:
        storage.put_many([(f"0/{NODE}", level_document(base))])
        _put_root(storage, root, (dataset_of(base),), (CAP_FRAGMENT_INDEX,))
    for path in stale:
        storage.delete_dir(f"0/{path}")
    for level in old:
        storage.delete_dir(str(level))


def _is_cross_level(path: str) -> bool:
    name, _, delta = path.partition("/")
    return name in (LINKS, CROSS_CHUNK_LINKS) and parse_delta_name(delta) not in (0, None)


def _commit(
    storage: Storage, root: RootMetadata, base: FsGroup, made: Sequence[MadeLevel], options: PyramidOptions
) -> None:
    levels = [item.group for item in made]
    storage.put_many([(f"{group.level}/{NODE}", level_document(group)) for group in [*levels, base]])
    linked = _is_linked(made, options)
    held = {
        CAP_FRAGMENT_INDEX: True,
        CAP_SHARED_FRAGMENTS: any(group.metadata.shared_fragments for group in [base, *levels]),
        CAP_PRESERVED_OBJECT_IDS: any(group.metadata.preserves_object_ids for group in levels),
        CAP_MULTISCALE_LINKS: linked,
    }
    capabilities = [token for token, holds in held.items() if holds]
    update = {
        "cross_level_depth": options.cross_level_depth if linked else 0,
        "cross_level_storage": options.cross_level_storage if linked else "none",
    }
    datasets = tuple(dataset_of(group) for group in [base, *levels])
    _put_root(storage, root.model_copy(update=update), datasets, (*capabilities, *root.unknown_capabilities))
    storage.flush()


def _put_root(
    storage: Storage, root: RootMetadata, datasets: tuple[Dataset, ...], capabilities: tuple[str, ...]
) -> None:
    multiscale = root.multiscale.model_copy(update={"datasets": datasets})
    update = {"multiscale": multiscale, "format_capabilities": capabilities}
    storage.put_many([(NODE, group_document(root.model_copy(update=update).to_attrs()))])


def _present(index: LevelIndex) -> int:
    if not index.has_objects:
        return 0
    return int(np.count_nonzero(np.diff(index.manifests(None).object_offsets)))
