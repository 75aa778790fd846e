"""Table to store: lay out, encode, put; chunk payloads first, the root last."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from zarr_vectors.constants import (
    CAP_FRAGMENT_INDEX,
    CAP_SHARED_FRAGMENTS,
    LINK_FRAGMENTS,
    OBJECT_ID_ATTRIBUTE,
    VERTEX_FRAGMENTS,
)
from zarr_vectors.core.counting import CountingStorage
from zarr_vectors.core.group import FsGroup
from zarr_vectors.core.metadata import LevelMetadata, Multiscale, RootMetadata, default_axes, divides
from zarr_vectors.core.object_index import write_object_manifests
from zarr_vectors.core.storage import Storage
from zarr_vectors.core.store import create_store
from zarr_vectors.core.writers import (
    WriteOptions,
    write_cross_chunk_link_attribute,
    write_cross_chunk_links,
    write_fragment_attribute,
    write_fragments,
    write_group_attribute,
    write_groups,
    write_link_attribute,
    write_links,
    write_object_attribute,
    write_vertex_attribute,
    write_vertices,
)
from zarr_vectors.encoding.fragments import encode_ranges
from zarr_vectors.encoding.manifests import ManifestTable, manifest_table
from zarr_vectors.exceptions import InputError, MetadataError
from zarr_vectors.ragged import Ragged, changes
from zarr_vectors.spatial.chunk_shape import choose_chunk_shape
from zarr_vectors.spatial.grid import ChunkGrid
from zarr_vectors.spatial.partition import (
    Layout,
    LinkLayout,
    continuation_records,
    object_fragments,
    partition,
    partition_links,
)
from zarr_vectors.table import Column, VertexTable
from zarr_vectors.typing import AnyArray, ChunkCoords, IntArray
from zarr_vectors.writing.bounds import apply_bounds
from zarr_vectors.writing.check import check_arrays
from zarr_vectors.writing.draco import encode_draco_chunks, write_draco_chunks
from zarr_vectors.writing.spec import StoreSpec, WriteSummary


def write_store(storage: Storage, table: VertexTable, spec: StoreSpec) -> WriteSummary:
    """Write a table as level 0 of a new store, and return what was written.

    Raises
    ------
    InputError
        If the input can't be stored; nothing was written.
    StoreExistsError
        If the place holds something and the mode is not ``"w"``.
    """
    began = time.perf_counter()
    before = table.num_vertices
    table, bounds = apply_bounds(table, spec)
    root = _root_metadata(table, spec, bounds)
    layout = partition(table, ChunkGrid(root.chunk_shape, root.bin_shape))
    links = None if table.links is None else partition_links(table, layout)
    fragments = object_fragments(table, layout)
    shared = table.objects is not None and len(np.unique(table.objects.values)) != len(table.objects.values)
    if shared:
        root = root.model_copy(update={"format_capabilities": (CAP_FRAGMENT_INDEX, CAP_SHARED_FRAGMENTS)})
    records = continuation_records(fragments, layout) if table.continues else None
    if spec.object_index_convention == "identity":
        layout, links = _identity_layout(layout, links, fragments)
    draco = None
    if spec.draco_bits is not None:
        positions = table.positions.take(layout.order, axis=0)
        draco = encode_draco_chunks(layout, links, positions, spec.draco_bits)
    # Everything that the input can be refused for comes before this line: what is there is replaced after it.
    check_arrays(table, layout, links, root, spec)
    counted = CountingStorage(storage)
    with create_store(counted, root, mode=spec.mode) as draft:
        counted.reset()
        group = draft.add_level(LevelMetadata(level=0, shared_fragments=shared, vertex_count=table.num_vertices))
        if draco is not None:
            write_draco_chunks(group, draco, spec)
        else:
            write_position_array(group, table, layout, spec.options)
        write_row_arrays(group, table, layout, spec.options)
        if links is not None:
            write_link_arrays(group, table, layout, links, spec.options, in_draco=spec.draco_bits is not None)
        if records is not None and len(records):
            write_cross_chunk_links(group, records, width=2, options=spec.options)
        if table.part_ids is not None:
            _write_objects(group, layout, fragments, spec, shared=shared)
    stored_links = 0 if links is None else len(links.inside) + len(links.across)
    return WriteSummary(
        url=storage.url,
        vertices=table.num_vertices,
        objects=table.num_objects,
        chunks=len(layout.chunks),
        links=stored_links + (0 if records is None else len(records)),
        bytes=counted.bytes_put,
        seconds=time.perf_counter() - began,
        chunk_shape=tuple(root.chunk_shape),
        bounds=bounds,
        dropped=before - table.num_vertices,
        max_error=spec.rounding + (0.0 if draco is None else draco.max_error),
    )


def _root_metadata(
    table: VertexTable, spec: StoreSpec, bounds: tuple[tuple[float, ...], tuple[float, ...]]
) -> RootMetadata:
    axes = default_axes(table.ndim) if spec.axes is None else spec.axes
    if len(axes) != table.ndim:
        raise InputError(f"{len(axes)} axes for positions of {table.ndim} columns")
    if spec.crs is not None and not isinstance(spec.crs, Mapping):
        raise InputError(f"crs is a mapping, not {type(spec.crs).__name__}")
    bins = None if spec.bin_shape is None else _per_axis(spec.bin_shape, table.ndim, "bin_shape")
    if spec.chunk_shape is not None:
        chunk_shape = _per_axis(spec.chunk_shape, table.ndim, "chunk_shape")
    else:
        chunk_shape = choose_chunk_shape(table.positions, [axis.type != "time" for axis in axes])
        chunk_shape = chunk_shape if bins is None else _whole_bins(chunk_shape, bins)
    if bins is not None and not divides(chunk_shape, bins):
        raise InputError(f"bin_shape {list(bins)} does not divide chunk_shape {list(chunk_shape)} evenly")
    block: dict[str, Any] = {
        "chunk_shape": chunk_shape,
        "bounds": bounds,
        "geometry_types": (spec.geometry_type,),
        "links_convention": spec.links_convention,
        "object_index_convention": spec.object_index_convention,
        "cross_level_storage": "none",
        "crs": None if spec.crs is None else dict(spec.crs),
        "multiscale": Multiscale(axes=axes),
    }
    if bins is not None:
        block["base_bin_shape"] = bins
    try:
        return RootMetadata.parse(block, "zarr_vectors")
    except MetadataError as error:
        raise InputError(f"the store can't be described: {error}") from error


def _per_axis(values: Sequence[float] | float, ndim: int, what: str) -> tuple[float, ...]:
    try:
        array = np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} is {ndim} positive numbers, not {values!r}") from error
    if array.shape == (1,):
        array = np.repeat(array, ndim)
    if array.shape != (ndim,) or not np.isfinite(array).all() or (array <= 0).any():
        raise InputError(f"{what} is {ndim} positive numbers, not {values!r}")
    return tuple(array.tolist())


def _whole_bins(chunk_shape: Sequence[float], bins: Sequence[float]) -> tuple[float, ...]:
    return tuple(max(round(chunk / size), 1) * size for chunk, size in zip(chunk_shape, bins, strict=True))


def write_position_array(group: FsGroup, table: VertexTable, layout: Layout, options: WriteOptions) -> None:
    """Write the positions of the vertices."""
    positions = table.positions.take(layout.order, axis=0)
    chunks = _by_chunk(layout.coords, positions, layout.row_offsets)
    write_vertices(group, chunks, dtype=positions.dtype.name, options=options)


def write_row_arrays(group: FsGroup, table: VertexTable, layout: Layout, options: WriteOptions) -> None:
    """Write the attributes and the fragments of the vertices."""
    coords = layout.coords
    for name, column in table.attributes.items():
        rows = _rows_by_chunk(layout, column.values.take(layout.order, axis=0), layout.row_offsets)
        dtype = column.values.dtype.name
        write_vertex_attribute(group, name, rows, dtype=dtype, options=options, **column_fields(column))
    starts = layout.fragment_starts - np.repeat(layout.row_offsets[:-1], np.diff(layout.fragment_offsets))
    write_fragments(
        group, VERTEX_FRAGMENTS, _encode_ranges(coords, starts, layout.fragment_counts, layout.fragment_offsets)
    )


def write_link_arrays(
    group: FsGroup,
    table: VertexTable,
    layout: Layout,
    links: LinkLayout,
    options: WriteOptions,
    *,
    in_draco: bool = False,
) -> None:
    """Write links inside chunks with their fragments, links across, and the attributes of both."""
    coords = layout.coords
    if not in_draco:
        num_rows = dict(zip(coords, np.diff(layout.row_offsets).tolist(), strict=True))
        rows = _by_chunk(coords, links.rows, links.chunk_offsets)
        write_links(group, rows, num_rows, width=table.link_width, options=options)
    ends = np.cumsum(links.fragment_counts)
    starts = ends - links.fragment_counts
    starts = starts - np.repeat(links.chunk_offsets[:-1], np.diff(layout.fragment_offsets))
    blobs = _encode_ranges(coords, starts, links.fragment_counts, layout.fragment_offsets)
    filled = np.diff(links.chunk_offsets) > 0
    write_fragments(
        group, LINK_FRAGMENTS, {here: blobs[here] for here, some in zip(coords, filled.tolist(), strict=True) if some}
    )
    write_cross_chunk_links(group, links.records, width=table.link_width, options=options)
    for name, column in table.link_attributes.items():
        inside = _rows_by_chunk(layout, column.values.take(links.inside, axis=0), links.chunk_offsets)
        dtype = column.values.dtype.name
        write_link_attribute(group, name, inside, dtype=dtype, options=options, **column_fields(column))
        across = column.values.take(links.across, axis=0)
        write_cross_chunk_link_attribute(group, name, across, options=options, **column_fields(column))


def _write_objects(group: FsGroup, layout: Layout, fragments: Ragged, spec: StoreSpec, *, shared: bool) -> None:
    """Write the object index, the objects' attributes and groups."""
    if spec.object_index_convention != "identity":
        options = spec.options
        manifests = manifests_of(layout, fragments)
        write_object_manifests(group, manifests, compressor=options.compressor, checksum=options.checksum)
        if not shared:
            # Which object a fragment is of: what a box query asks, answered chunk by chunk
            # instead of by reading the whole object index.
            owner = np.full(len(layout.fragment_starts), -1, dtype=np.int64)
            owner[fragments.values] = fragments.owners
            chunks = _by_chunk(layout.coords, owner, layout.fragment_offsets)
            write_fragment_attribute(group, OBJECT_ID_ATTRIBUTE, chunks, dtype="int64", options=spec.options)
    for name, column in spec.object_attributes.items():
        write_object_attribute(group, name, column.values, options=spec.options, **column_fields(column))
    if spec.groups is not None:
        write_groups(group, spec.groups.values, spec.groups.offsets, options=spec.options)
        for name, column in spec.group_attributes.items():
            write_group_attribute(group, name, column.values, options=spec.options, **column_fields(column))


def manifests_of(layout: Layout, fragments: Ragged) -> ManifestTable:
    """Return the manifests: neighbouring fragments of one object in one chunk share a block."""
    chunk = np.searchsorted(layout.fragment_offsets, fragments.values, side="right") - 1
    begins = changes(chunk) | changes(fragments.owners)
    starts = np.flatnonzero(begins)
    blocks = np.searchsorted(starts, fragments.offsets)
    return manifest_table(
        blocks,
        layout.chunks[chunk[starts]],
        np.append(starts, len(fragments.values)),
        fragments.values - layout.fragment_offsets[chunk],
    )


def _identity_layout(layout: Layout, links: LinkLayout | None, fragments: Ragged) -> tuple[Layout, LinkLayout | None]:
    """Return the layout of one chunk whose fragment ``k`` is object ``k``, empty where the object is."""
    if layout.fragment_parts is None:
        raise InputError("the identity convention is for objects: give object_ids")
    if len(layout.chunks) > 1:
        raise InputError(
            f"the identity convention needs one chunk, the data fill {len(layout.chunks)}: widen chunk_shape"
        )
    if (fragments.counts > 1).any():
        object_id = int(np.argmax(fragments.counts > 1))
        raise InputError(f"the identity convention needs one fragment an object, object {object_id} has several")
    if len(np.unique(fragments.values)) != len(layout.fragment_starts):
        raise InputError("the identity convention needs each vertex to be of one object")

    def spread(values: IntArray) -> IntArray:
        by_object = np.zeros(len(fragments), dtype=np.int64)
        by_object[fragments.owners] = values[fragments.values]
        return by_object

    return (
        replace(
            layout,
            fragment_offsets=np.array([0, len(fragments)])[: len(layout.chunks) + 1],
            fragment_starts=spread(layout.fragment_starts),
            fragment_counts=spread(layout.fragment_counts),
            fragment_parts=np.arange(len(fragments), dtype=np.int64),
            fragment_sequence=np.zeros(len(fragments), dtype=np.int64),
        ),
        links if links is None else replace(links, fragment_counts=spread(links.fragment_counts)),
    )


def _encode_ranges(
    coords: Sequence[ChunkCoords], starts: IntArray, counts: IntArray, offsets: IntArray
) -> dict[ChunkCoords, bytes]:
    bounds = offsets.tolist()
    return {
        here: encode_ranges(starts[begin:end], counts[begin:end])
        for here, begin, end in zip(coords, bounds[:-1], bounds[1:], strict=True)
    }


def _rows_by_chunk(layout: Layout, values: AnyArray, offsets: IntArray) -> dict[ChunkCoords, AnyArray]:
    """Return the rows of each chunk; without chunks, one of no rows, which tells how many channels there are."""
    return _by_chunk(layout.coords, values, offsets) or {(0,) * layout.chunks.shape[1]: values[:0]}


def _by_chunk(coords: Sequence[ChunkCoords], values: AnyArray, offsets: IntArray) -> dict[ChunkCoords, AnyArray]:
    bounds = offsets.tolist()
    return {here: values[begin:end] for here, begin, end in zip(coords, bounds[:-1], bounds[1:], strict=True)}


def column_fields(column: Column) -> Mapping[str, Any]:
    """Return what the metadata of an attribute say of its channels and its text."""
    fields: dict[str, Any] = {"channel_names": column.channel_names}
    if column.categories is not None:
        fields |= {"encoding": "dictionary", "categories": column.categories}
    return fields
