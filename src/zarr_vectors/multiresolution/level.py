"""One level from the one below it: written whole, and not visible yet."""

import os
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from zarr_vectors.constants import (
    GROUP_ATTRIBUTES,
    GROUPS,
    LEVEL0_OBJECT_ID,
    OBJECT_ATTRIBUTES,
    OBJECT_ID_ATTRIBUTE,
)
from zarr_vectors.core.arrays import read_group_attribute, read_object_attribute
from zarr_vectors.core.group import FsGroup
from zarr_vectors.core.metadata import LevelMetadata, RootMetadata
from zarr_vectors.core.object_index import write_object_manifests
from zarr_vectors.core.writers import (
    write_cross_chunk_links,
    write_group_attribute,
    write_groups,
    write_object_attribute,
)
from zarr_vectors.encoding.manifests import ManifestTable
from zarr_vectors.multiresolution.batches import object_lengths
from zarr_vectors.multiresolution.coarsen import (
    Coarse,
    CoarsenOptions,
    Parents,
    coarsen_chunks,
    object_metavertices,
)
from zarr_vectors.multiresolution.geometry_aware import simplified_table
from zarr_vectors.multiresolution.links import CoarseLinks, merge_links, path_steps, tree_links
from zarr_vectors.multiresolution.options import PyramidOptions
from zarr_vectors.multiresolution.plan import LevelPlan
from zarr_vectors.multiresolution.sparsify import Sparsity, choose_objects
from zarr_vectors.query.index import LevelIndex
from zarr_vectors.ragged import Ragged, offsets_from_counts
from zarr_vectors.spatial.grid import ChunkGrid
from zarr_vectors.spatial.partition import (
    Layout,
    continuation_records,
    object_fragments,
    partition,
    partition_links,
)
from zarr_vectors.table import Column, VertexTable
from zarr_vectors.typing import IntArray
from zarr_vectors.writing.pipeline import (
    column_fields,
    manifests_of,
    write_link_arrays,
    write_position_array,
    write_row_arrays,
)


@dataclass(frozen=True, slots=True, eq=False)
class MadeLevel:
    """A level that is written and not visible yet."""

    group: FsGroup
    layout: Layout
    parents: Parents | None
    """``None`` where the level has no metavertices."""
    level0_ids: IntArray
    """The level-0 id of each object id of the level."""
    num_present: int
    """Objects with vertices."""


@dataclass(frozen=True, slots=True, eq=False)
class _Objects:
    """The objects that a level keeps, and how they are numbered there."""

    kept: IntArray
    """Ids at the level below, ascending."""
    new_ids: IntArray
    """Of each kept object, at the new level."""
    level0_ids: IntArray
    """Of each id of the new level."""

    def numbering(self, num_objects: int) -> IntArray:
        """Return the new id of each object of the level below, -1 for those that are dropped."""
        numbers = np.full(num_objects, -1, dtype=np.int64)
        numbers[self.kept] = self.new_ids
        return numbers


def make_level(
    index: LevelIndex,
    plan: LevelPlan,
    root: RootMetadata,
    level0_ids: IntArray,
    *,
    num_objects: int,
    options: PyramidOptions,
) -> MadeLevel:
    """Write one level above another.

    Parameters
    ----------
    index
        The level below.
    plan
        The new level's grid, and how many objects it keeps.
    root
        Of the store, with the bins that the plan is relative to.
    level0_ids
        The level-0 id of each object of the level below.
    num_objects
        How many object ids level 0 has.
    options
        What the caller chose.
    """
    _tell(options, plan, "choosing objects")
    objects = _choose(index, plan.sparsity, level0_ids, options) if index.has_objects else None
    group = _new_group(index, plan, root, options)
    if options.method == "simplify":
        layout, parents = _write_simplified(index, group, plan, objects, options), None
    else:
        coarse = _write_bins(index, group, plan, objects, options)
        layout, parents = coarse.layout, coarse.parents
    kept = 0 if objects is None else len(objects.kept)
    update = {"vertex_count": len(layout.order), "object_sparsity": kept / num_objects if kept else 1.0}
    finished = FsGroup(group.storage, root, group.metadata.model_copy(update=update), group.arrays, complete=True)
    return MadeLevel(finished, layout, parents, level0_ids if objects is None else objects.level0_ids, kept)


def _choose(index: LevelIndex, sparsity: Sparsity, level0_ids: IntArray, options: PyramidOptions) -> _Objects:
    kept = choose_objects(index, sparsity, _sizes(index, sparsity))
    if options.preserve_object_ids:
        return _Objects(kept, kept, level0_ids)
    return _Objects(kept, np.arange(len(kept), dtype=np.int64), level0_ids[kept])


def _sizes(index: LevelIndex, sparsity: Sparsity) -> npt.NDArray[np.float64]:
    """Return how large each object is; only whether it is there, unless size decides."""
    blocks = np.diff(index.manifests(None).object_offsets)
    if sparsity.strategy != "length" or sparsity.factor == 1:
        return blocks.astype(np.float64)
    return object_lengths(index, np.flatnonzero(blocks > 0))


def _new_group(index: LevelIndex, plan: LevelPlan, root: RootMetadata, options: PyramidOptions) -> FsGroup:
    preserved = index.has_objects and options.preserve_object_ids
    by_bins = options.method == "bins"
    metadata = LevelMetadata(
        level=plan.level,
        bin_shape=plan.bin_shape,
        bin_ratio=plan.bin_ratio,
        chunk_shape=plan.chunk_shape,
        coarsening_method="per_object" if by_bins else "manual",
        parent_level=index.group.level,
        shared_fragments=by_bins,
        preserves_object_ids=preserved,
        inherited_num_objects=index.num_objects if preserved else None,
    )
    # What an interrupted build may have left there.
    index.group.storage.delete_dir(str(plan.level))
    return FsGroup(index.group.storage, root, metadata.on(root), {}, complete=True)


def _write_bins(
    index: LevelIndex, group: FsGroup, plan: LevelPlan, objects: _Objects | None, options: PyramidOptions
) -> Coarse:
    """Write a level of metavertices."""
    _tell(options, plan, "metavertices")
    reducers = options.reducers or {}
    settings = CoarsenOptions(reducers, options.options, options.workers or os.cpu_count() or 1)
    kept = None if objects is None else objects.kept
    coarse = coarsen_chunks(index, group, plan, kept, settings, sparse=kept is not None and plan.sparsity.factor != 1)
    links: CoarseLinks | None = None
    if objects is not None:
        _tell(options, plan, "objects")
        fragments, links = _metavertices_of(index, coarse, objects)
        _write_objects(index, group, _manifests(coarse.layout, fragments, objects), objects, options)
        _write_continuations(index, group, fragments, coarse.layout, options)
    if index.geometry.has_links and not index.geometry.rooted:
        links = merge_links(index, coarse, reducers, None if objects is None else objects.numbering(index.num_objects))
    if links is not None:
        table = VertexTable(
            np.empty((len(coarse.layout.order), group.ndim), dtype=np.float32),
            links=links.links,
            link_width=links.links.shape[1],
            link_attributes=links.attributes,
        )
        write_link_arrays(group, table, coarse.layout, partition_links(table, coarse.layout), options.options)
    return coarse


def _write_continuations(
    index: LevelIndex, group: FsGroup, fragments: Ragged, layout: Layout, options: PyramidOptions
) -> None:
    """Write the links between chunks of paths that imply their other steps."""
    if index.geometry.by_object and not index.geometry.rooted and group.root.links_convention != "explicit":
        records = continuation_records(fragments, layout)
        if len(records):
            write_cross_chunk_links(group, records, width=2, options=options.options)


def _write_simplified(
    index: LevelIndex, group: FsGroup, plan: LevelPlan, objects: _Objects | None, options: PyramidOptions
) -> Layout:
    """Write a level of simplified objects."""
    _tell(options, plan, "simplified objects")
    nothing = np.empty(0, dtype=np.int64)
    chosen = objects or _Objects(nothing, nothing, nothing)
    table = simplified_table(index, plan, chosen.kept, chosen.new_ids, options.reducers or {})
    layout = partition(table, ChunkGrid(plan.chunk_shape, plan.bin_shape))
    write_position_array(group, table, layout, options.options)
    write_row_arrays(group, table, layout, options.options)
    fragments = object_fragments(table, layout)
    if table.links is not None:
        write_link_arrays(group, table, layout, partition_links(table, layout), options.options)
    _write_continuations(index, group, fragments, layout, options)
    padded = np.append(fragments.offsets, np.repeat(fragments.offsets[-1:], len(chosen.level0_ids)))
    manifests = _manifests(layout, Ragged(fragments.values, padded).take(chosen.new_ids), chosen)
    _write_objects(index, group, manifests, chosen, options)
    return layout


def _metavertices_of(index: LevelIndex, coarse: Coarse, objects: _Objects) -> tuple[Ragged, CoarseLinks | None]:
    """Return the metavertices of each kept object, in order, and the links of trees and of explicit paths."""
    if coarse.members is not None:
        return coarse.members, None
    values: list[IntArray] = [np.empty(0, dtype=np.int64)]
    counts = np.zeros(len(objects.kept), dtype=np.int64)
    links: list[IntArray] = [np.empty((0, 2), dtype=np.int64)]
    owners: list[IntArray] = [np.empty(0, dtype=np.int64)]
    for result, meta, visited in object_metavertices(index, coarse, objects.kept):
        places = np.searchsorted(objects.kept, result.objects)
        order = visited
        if index.geometry.rooted:
            trees = tree_links(result, meta)
            links.append(trees.links)
            owners.append(objects.new_ids[places][trees.owners])
            order = trees.visited
        values.append(order.values)
        counts[places] = order.counts
    fragments = Ragged(np.concatenate(values), offsets_from_counts(counts))
    if index.geometry.rooted:
        return fragments, CoarseLinks(np.concatenate(links), {OBJECT_ID_ATTRIBUTE: Column(np.concatenate(owners))})
    return fragments, path_steps(fragments) if index.group.root.links_convention == "explicit" else None


def _manifests(layout: Layout, fragments: Ragged, objects: _Objects) -> ManifestTable:
    """Return the manifests of all ids of the level; ``fragments`` are those of the kept objects."""
    counts = np.zeros(len(objects.level0_ids), dtype=np.int64)
    counts[objects.new_ids] = fragments.counts
    return manifests_of(layout, Ragged(fragments.values, offsets_from_counts(counts)))


def _write_objects(
    index: LevelIndex, group: FsGroup, manifests: ManifestTable, objects: _Objects, options: PyramidOptions
) -> None:
    """Write the object index, attributes and groups."""
    write = options.options
    write_object_manifests(group, manifests, compressor=write.compressor, checksum=write.checksum)
    kept_mask = np.zeros(index.num_objects, dtype=np.uint8)
    kept_mask[objects.kept] = 1
    for name in index.attribute_names(OBJECT_ATTRIBUTES):
        if name == LEVEL0_OBJECT_ID and not options.preserve_object_ids:
            continue
        found = read_object_attribute(index.group, name)
        meta = index.meta(OBJECT_ATTRIBUTES, name)
        fields = column_fields(Column(found.values, meta.channel_names, meta.categories))
        present = kept_mask if found.present is None else kept_mask & found.present
        if options.preserve_object_ids:
            write_object_attribute(group, name, found.values, present=present, options=write, **fields)
        else:
            mask = None if found.present is None else present[objects.kept]
            write_object_attribute(group, name, found.values[objects.kept], present=mask, options=write, **fields)
    if not options.preserve_object_ids:
        write_object_attribute(group, LEVEL0_OBJECT_ID, objects.level0_ids, options=write)
    _write_groups(index, group, objects, options)


def _write_groups(index: LevelIndex, group: FsGroup, objects: _Objects, options: PyramidOptions) -> None:
    if index.group.find_array_metas([GROUPS])[0] is None:
        return
    members = index.groups
    if not options.preserve_object_ids:
        there = np.isin(members.values, objects.kept)
        counts = np.bincount(members.owners[there], minlength=len(members))
        numbers = objects.new_ids[np.searchsorted(objects.kept, members.values[there])]
        members = Ragged(numbers, offsets_from_counts(counts))
    write_groups(group, members.values, members.offsets, options=options.options)
    for name in index.attribute_names(GROUP_ATTRIBUTES):
        meta = index.meta(GROUP_ATTRIBUTES, name)
        stored = read_group_attribute(index.group, name)
        fields = column_fields(Column(stored, meta.channel_names, meta.categories))
        write_group_attribute(group, name, stored, options=options.options, **fields)


def _tell(options: PyramidOptions, plan: LevelPlan, what: str) -> None:
    if options.progress is not None:
        options.progress(plan.level, what)
