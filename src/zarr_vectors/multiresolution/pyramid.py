"""Building a pyramid: plan the levels, make each from the one below it, then make them visible at once."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import get_args

import numpy as np

from zarr_vectors.constants import (
    ALL_ARRAY_NAMES,
    ARRAY_KINDS,
    CAP_FRAGMENT_INDEX,
    CAP_MULTISCALE_LINKS,
    CAP_PRESERVED_OBJECT_IDS,
    CAP_SHARED_FRAGMENTS,
    CROSS_CHUNK_LINK_ATTRIBUTES,
    CROSS_CHUNK_LINKS,
    LINK_ATTRIBUTES,
    LINKS,
    VERTEX_ATTRIBUTES,
    CrossLevelStorage,
)
from zarr_vectors.core.group import FsGroup
from zarr_vectors.core.keys import NODE, array_name_of, array_path, parse_delta_name, parse_level_name
from zarr_vectors.core.metadata import MULTISCALES_KEY, Dataset, RootMetadata
from zarr_vectors.core.nodes import group_attributes, group_document, parse_document
from zarr_vectors.core.object_index import write_object_manifests
from zarr_vectors.core.storage import Storage
from zarr_vectors.core.store import dataset_of, level_document, list_levels, read_level, read_root
from zarr_vectors.exceptions import InputError, MetadataError, StorageError, locate
from zarr_vectors.multiresolution.coarsen import covering_chunks
from zarr_vectors.multiresolution.crosslevel import compose, write_parents
from zarr_vectors.multiresolution.geometry_aware import check_simplifiable
from zarr_vectors.multiresolution.level import MadeLevel, make_level
from zarr_vectors.multiresolution.metavertices import Reducer, check_reducer
from zarr_vectors.multiresolution.options import Method, PyramidOptions, PyramidSummary
from zarr_vectors.multiresolution.plan import BinFactor, Factor, Grid, LevelPlan, above, plan_level
from zarr_vectors.multiresolution.sparsify import Sparsity, check_sparsity
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
        # Without this, rewriting the level's zarr.json would forget the arrays that were not asked for.
        for name in ALL_ARRAY_NAMES:
            base.list_arrays(name)
        index = LevelIndex(replace(base, complete=True))
        _check(index, options)
        root = _state_bins(root, index, options)
        below = Grid(0, tuple(root.bin_shape), (1,) * root.ndim, tuple(root.chunk_shape))
        plans = None if factors is None else _plans(index, below, factors, options)
        _remove_old_levels(storage, index.group)
        root, base = _with_manifests(root, index.group, options)
        made = _make_levels(LevelIndex(base), below, plans, root, options)
        _write_cross_level(base, made, options)
        _commit(storage, root, base, made, options)
    return PyramidSummary(
        levels=(0, *(item.group.level for item in made)),
        vertices=(base.metadata.vertex_count, *(item.group.metadata.vertex_count for item in made)),
        objects=(_present(LevelIndex(base)), *(item.num_present for item in made)),
        seconds=time.perf_counter() - began,
    )


def _check(index: LevelIndex, options: PyramidOptions) -> None:
    """Raise what the input can be refused for: nothing has changed yet."""
    if options.cross_level_depth < -1:
        raise InputError(
            f"cross_level_depth is -1 (all), 0 (none) or a number of levels, not {options.cross_level_depth}"
        )
    if options.cross_level_storage not in get_args(CrossLevelStorage):
        raise InputError(f"cross_level_storage is none, implicit or explicit, not {options.cross_level_storage!r}")
    if options.method not in get_args(Method):
        raise InputError(f"method is 'bins' or 'simplify', not {options.method!r}")
    if options.max_vertices < 1:
        raise InputError(f"max_vertices is at least 1, not {options.max_vertices}")
    if options.reduction_factor is not None and options.reduction_factor < 2:  # noqa: PLR2004
        raise InputError(f"reduction_factor is at least 2, not {options.reduction_factor}")
    if index.group.storage.url.endswith(".zip"):
        raise StorageError("a zip file can't grow levels: build the pyramid in a directory, then pack it")
    _check_reducers(index, options.reducers or {})
    check_sparsity(index, _sparsity(1.0, options))
    if options.method == "simplify":
        check_simplifiable(index)


def _check_reducers(index: LevelIndex, reducers: Mapping[str, Reducer]) -> None:
    vertex, link = index.chosen_attributes(None)
    for name, reducer in reducers.items():
        if name not in [*vertex, *link]:
            known = ", ".join([*vertex, *link]) or "none"
            raise InputError(f"there is a reducer for {name!r}, the attributes of vertices and links are {known}")
        arrays = [array_path(VERTEX_ATTRIBUTES, name=name), array_path(LINK_ATTRIBUTES, name=name, delta=0)]
        metas = [meta for meta in index.group.find_array_metas(arrays) if meta is not None]
        check_reducer(reducer, is_text=any(meta.categories is not None for meta in metas))


def _make_levels(
    index: LevelIndex, below: Grid, plans: Sequence[LevelPlan] | None, root: RootMetadata, options: PyramidOptions
) -> list[MadeLevel]:
    made: list[MadeLevel] = []
    num_objects = index.num_objects
    level0_ids = np.arange(num_objects, dtype=np.int64)
    while plans is None or len(made) < len(plans):
        plan = plans[len(made)] if plans is not None else _plan_by_data(index, below, options)
        if plan is None:
            break
        made.append(make_level(index, plan, root, level0_ids, num_objects=num_objects, options=options))
        level0_ids = made[-1].level0_ids
        below, index = above(plan), LevelIndex(made[-1].group)
    return made


def _plans(index: LevelIndex, below: Grid, factors: Sequence[Factor | int], options: PyramidOptions) -> list[LevelPlan]:
    scales = options.chunk_scale_factors or [None] * len(factors)
    if len(scales) != len(factors):
        raise InputError(f"{len(scales)} chunk scale factors for {len(factors)} levels")
    plans = []
    for factor, scale in zip(factors, scales, strict=True):
        bin_factor, kept = _parse_factor(factor)
        sparsity = _sparsity(kept, options)
        check_sparsity(index, sparsity)
        plans.append(plan_level(below, bin_factor, scale, sparsity))
        below = above(plans[-1])
    return plans


def _parse_factor(factor: Factor | int) -> tuple[BinFactor, float]:
    if not isinstance(factor, tuple):
        return factor, 1.0
    if len(tuple(factor)) != 2 or not np.isreal(factor[1]):  # noqa: PLR2004
        raise InputError(f"a level is (bin_factor, sparsity_factor) or a bin factor, not {factor!r}")
    return factor[0], float(factor[1])


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
    # Once a bin is as large as this, the coordinate origin is all that keeps vertices apart.
    reach = np.maximum(np.abs(index.chunks).max(axis=0), np.abs(index.chunks + 1).max(axis=0)) * below.chunk_shape
    factor = 2
    while True:
        plan = plan_level(below, factor, None, _sparsity(1.0, options))
        occupied = _count_bins(index, plan)
        if occupied * wanted <= count or occupied == 1 or (np.array(plan.bin_shape) >= reach).all():
            return plan if occupied < count else None
        factor *= 2


def _count_bins(index: LevelIndex, plan: LevelPlan) -> int:
    grid = ChunkGrid(plan.chunk_shape, plan.bin_shape)
    cover = covering_chunks(index.chunks, plan)
    total = 0
    for chunk, coords in enumerate(cover.chunks):
        members = index.chunks[cover.members_of(chunk)]
        positions = load_chunks(Fetch(index.group), members, Need()).positions
        total += len(np.unique(grid.bins_of(positions, np.broadcast_to(coords, positions.shape))))
    return total


def _state_bins(root: RootMetadata, index: LevelIndex, options: PyramidOptions) -> RootMetadata:
    """Return the root with bins of level 0: a store with one bin a chunk has none that a level could build on."""
    given = None if options.base_bin_shape is None else tuple(float(size) for size in options.base_bin_shape)
    if root.base_bin_shape is not None:
        if given not in (None, tuple(root.base_bin_shape)):
            raise InputError(f"the bins of level 0 are {list(root.base_bin_shape)}: base_bin_shape can't change them")
        return root
    if given is None:
        per_chunk = max(index.group.metadata.vertex_count / max(len(index.chunks), 1), 1.0)
        parts = 1 << max(round(np.log2(per_chunk) / root.ndim), 0)
        given = tuple(size / parts for size in root.chunk_shape)
    fields = {name: getattr(root, name) for name in type(root).model_fields}
    try:
        return RootMetadata.parse({**root.extras(), **fields, "base_bin_shape": given}, "zarr_vectors")
    except MetadataError as error:
        raise InputError(f"base_bin_shape {list(given)} does not suit the store: {error}") from error


def _with_manifests(root: RootMetadata, base: FsGroup, options: PyramidOptions) -> tuple[RootMetadata, FsGroup]:
    """Return root and level 0 in the standard convention: that object k is fragment k holds for no coarser level."""
    if root.object_index_convention == "identity":
        write = options.options
        manifests = LevelIndex(base).manifests(None)
        write_object_manifests(base, manifests, compressor=write.compressor, checksum=write.checksum)
        root = root.model_copy(update={"object_index_convention": "standard"})
    return root, replace(base, root=root)


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
            write_parents(groups[fine], target.group, target.layout, parents, both=both, options=options.options)


def _is_linked(made: Sequence[MadeLevel], options: PyramidOptions) -> bool:
    stored = options.cross_level_storage != "none" and options.cross_level_depth != 0
    return stored and any(item.parents is not None for item in made)


def _remove_old_levels(storage: Storage, base: FsGroup) -> None:
    """Take levels above 0 out of the store's root, then remove them: what can be seen is whole all the time.

    What a build that was interrupted left behind goes too.
    """
    root = base.root
    listed = [level for level in list_levels(storage, root) if level > 0]
    stale = [path for path in base.arrays if _is_cross_level(path)]
    for path in stale:
        del base.arrays[path]
    # Without a list of levels, those that are being written could be seen.
    if listed or stale or not root.multiscale.datasets:
        _put_documents(storage, [(f"0/{NODE}", level_document(base))])
        capabilities = [CAP_FRAGMENT_INDEX, *([CAP_SHARED_FRAGMENTS] if base.metadata.shared_fragments else [])]
        _put_root(storage, root, (dataset_of(base),), (*capabilities, *root.unknown_capabilities))
    for name in storage.list_dir(""):
        if parse_level_name(name) not in (None, 0):
            storage.delete_dir(name)
    _remove_cross_level(storage, base)


def _remove_cross_level(storage: Storage, base: FsGroup) -> None:
    """Remove all that leads from level 0 to other levels, and the groups that are empty without it."""
    for kind in (LINKS, CROSS_CHUNK_LINKS, LINK_ATTRIBUTES, CROSS_CHUNK_LINK_ATTRIBUTES):
        paths = [kind]
        for _ in ARRAY_KINDS[kind].path_parts:
            paths = [f"{path}/{name}" for path in paths for name in storage.list_dir(f"0/{path}") if name != NODE]
        for path in paths:
            if _is_cross_level(path):
                storage.delete_dir(f"0/{path}")
        if paths and not any(array_name_of(path) == kind for path in base.arrays):
            storage.delete_dir(f"0/{kind}")


def _is_cross_level(path: str) -> bool:
    *_, delta = path.split("/")
    return "delta" in ARRAY_KINDS[array_name_of(path)].path_parts and parse_delta_name(delta) not in (0, None)


def _commit(
    storage: Storage, root: RootMetadata, base: FsGroup, made: Sequence[MadeLevel], options: PyramidOptions
) -> None:
    levels = [item.group for item in made]
    storage.put_many([(f"{group.level}/{NODE}", level_document(group)) for group in levels])
    _put_documents(storage, [(f"0/{NODE}", level_document(base))])
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
    _put_documents(storage, [(NODE, group_document(root.model_copy(update=update).to_attrs()))])


def _put_documents(storage: Storage, documents: Sequence[tuple[str, bytes]]) -> None:
    """Rewrite documents of groups; attributes of others in them stay."""
    stored = storage.get_many([key for key, _ in documents])
    merged: list[tuple[str, bytes]] = []
    for (key, new), old in zip(documents, stored, strict=True):
        attributes = {} if old is None else group_attributes(parse_document(old))
        ours = group_attributes(parse_document(new))
        multiscales = attributes.get(MULTISCALES_KEY)
        if MULTISCALES_KEY in ours and isinstance(multiscales, list):
            ours[MULTISCALES_KEY] = [*ours[MULTISCALES_KEY], *multiscales[1:]]
        merged.append((key, group_document({**attributes, **ours})))
    storage.put_many(merged)


def _present(index: LevelIndex) -> int:
    if not index.has_objects:
        return 0
    return int(np.count_nonzero(np.diff(index.manifests(None).object_offsets)))
