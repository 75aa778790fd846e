"""Reading the arrays of a level, format 7: each function is a path, a fetch and a decode.

Dtypes, widths and dimensions come from the metadata, never from the caller. Functions that
take chunk coordinates read one chunk; the query layer reads many in one batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zarr_vectors.constants import (
    CROSS_CHUNK_LINK_ATTRIBUTES,
    CROSS_CHUNK_LINKS,
    ENDPOINT_RECORDS_ENCODING,
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
from zarr_vectors.core.group import FsGroup, PayloadKey
from zarr_vectors.core.keys import DATA, OFFSETS, PRESENT_MASK, array_path, chunk_key
from zarr_vectors.core.metadata import ArrayMetadata
from zarr_vectors.core.object_index import read_all_object_manifests, read_object_manifest
from zarr_vectors.encoding.fragments import ChunkFragmentIndex, decode_fragments
from zarr_vectors.encoding.groups import decode_groups
from zarr_vectors.encoding.links import decode_endpoint_records, decode_links, decode_paired_links
from zarr_vectors.encoding.rows import channels_of, decode_rows, row_dtype
from zarr_vectors.exceptions import DecodeError, InputError, MissingChunkError, locate
from zarr_vectors.typing import AnyArray, ByteArray, FragmentRef, IntArray, IntegerArray

__all__ = [
    "DenseAttribute",
    "read_all_object_manifests",
    "read_cross_chunk_link_attribute",
    "read_cross_chunk_links",
    "read_fragment_attribute",
    "read_fragment_index",
    "read_group_attribute",
    "read_groups",
    "read_level_links",
    "read_link_attribute",
    "read_links",
    "read_object_attribute",
    "read_object_manifest",
    "read_object_vertices",
    "read_vertex_attribute",
]


@dataclass(frozen=True, slots=True, eq=False)
class DenseAttribute:
    """One row for each object or group."""

    values: AnyArray
    """(rows,) or (rows, channels); rows that are not present are zero."""
    present: ByteArray | None
    """1 where the row is real; ``None``: all are."""


def read_fragment_index(
    group: FsGroup, array: str, chunk_coords: Sequence[int], *, num_rows: int | None = None
) -> ChunkFragmentIndex:
    """Return the fragment index of a chunk: ``vertex_fragments`` or ``link_fragments``."""
    if array not in (VERTEX_FRAGMENTS, LINK_FRAGMENTS):
        raise InputError(f"{array!r} holds no fragment index: {VERTEX_FRAGMENTS} and {LINK_FRAGMENTS} do")
    node = chunk_key(chunk_coords)
    payload = group.read_payload(array, node)
    with locate(level=group.level, array=array, chunk=node):
        return decode_fragments(payload.data, num_rows=num_rows)


def read_object_vertices(group: FsGroup, object_id: int) -> AnyArray:
    """Return the positions of one object in manifest order, shape ``(rows, ndim)``.

    One batch for the manifest, one for all chunks that it names.
    """
    blocks = read_object_manifest(group, object_id)
    nodes = list(dict.fromkeys(chunk_key(coords) for coords, _ in blocks))
    with locate(level=group.level, object_id=object_id):
        payloads = _read_all(group, [(array, node) for node in nodes for array in (VERTICES, VERTEX_FRAGMENTS)])
        chunks = {
            node: _decode_chunk(group, node, payloads[VERTICES, node], payloads[VERTEX_FRAGMENTS, node])
            for node in nodes
        }
        parts: list[AnyArray] = []
        for coords, reference in blocks:
            vertices, index = chunks[chunk_key(coords)]
            with locate(array=VERTEX_FRAGMENTS, chunk=chunk_key(coords)):
                rows, _ = index.rows(_chosen(reference, index.num_fragments))
            parts.append(vertices.take(rows, axis=0))
    if parts:
        return np.concatenate(parts)
    meta = group.read_array_meta(VERTICES)
    with locate(level=group.level, array=VERTICES):
        return np.empty((0, group.ndim), dtype=row_dtype(group.dtype_of(meta, VERTICES)))


def read_vertex_attribute(group: FsGroup, name: str, chunk_coords: Sequence[int]) -> AnyArray:
    """Return an attribute's rows in a chunk, aligned with its vertices."""
    array = array_path(VERTEX_ATTRIBUTES, name=name)
    return _aligned_rows(group, array, VERTICES, chunk_coords)


def read_fragment_attribute(group: FsGroup, name: str, chunk_coords: Sequence[int]) -> AnyArray:
    """Return an attribute's rows in a chunk, aligned with its fragments."""
    array = array_path(FRAGMENT_ATTRIBUTES, name=name)
    return _aligned_rows(group, array, VERTEX_FRAGMENTS, chunk_coords)


def read_link_attribute(group: FsGroup, name: str, chunk_coords: Sequence[int], *, delta: int = 0) -> AnyArray:
    """Return an attribute's rows in a chunk, aligned with its links of the same delta."""
    array = array_path(LINK_ATTRIBUTES, name=name, delta=delta)
    return _aligned_rows(group, array, array_path(LINKS, delta=delta), chunk_coords)


def read_links(group: FsGroup, chunk_coords: Sequence[int]) -> IntegerArray:
    """Return the links inside a chunk, shape ``(links, width)``: rows of its vertices."""
    array, node = array_path(LINKS, delta=0), chunk_key(chunk_coords)
    meta = group.read_array_meta(array)
    payloads = _read_all(group, [(array, node), (VERTICES, node)])
    num_rows = _num_rows(group, VERTICES, chunk_coords, payloads[VERTICES, node])
    with locate(level=group.level, array=array, chunk=node):
        dtype = group.dtype_of(meta, array)
        return decode_links(payloads[array, node].data, dtype, width=_width(meta), num_rows=num_rows)


def read_level_links(group: FsGroup, delta: int, chunk_coords: Sequence[int]) -> IntArray:
    """Return a chunk's links to another level as records ``(links, width, ndim + 1)``.

    Each endpoint is chunk coordinates and a row. The first lies at this level, the others at
    ``level + delta``.
    """
    if delta == 0:
        raise InputError("links to another level have a delta other than 0: read_links reads those")
    array, node = array_path(LINKS, delta=delta), chunk_key(chunk_coords)
    meta = group.read_array_meta(array)
    payload = group.read_payload(array, node)
    with locate(level=group.level, array=array, chunk=node):
        return _decode_level_links(group, meta, chunk_coords, payload)


def read_cross_chunk_links(group: FsGroup, delta: int = 0) -> IntArray:
    """Return the links between chunks as records ``(links, width, ndim + 1)``: chunk coordinates, then the row."""
    array = array_path(CROSS_CHUNK_LINKS, delta=delta)
    meta = group.read_array_meta(array)
    payload = _level_payload(group, array, meta.num_links)
    with locate(level=group.level, array=array, chunk=DATA):
        return decode_endpoint_records(payload.data, width=_width(meta), ndim=group.ndim, num_links=meta.num_links)


def read_cross_chunk_link_attribute(group: FsGroup, name: str, delta: int = 0) -> AnyArray:
    """Return an attribute's rows, aligned with the cross-chunk links of the same delta."""
    array = array_path(CROSS_CHUNK_LINK_ATTRIBUTES, name=name, delta=delta)
    links = group.read_array_meta(array_path(CROSS_CHUNK_LINKS, delta=delta))
    meta = group.read_array_meta(array)
    return _dense_rows(group, array, meta, links.num_links)


def read_object_attribute(group: FsGroup, name: str) -> DenseAttribute:
    """Return an attribute of every object, with the mask of rows that are real where there is one."""
    array = array_path(OBJECT_ATTRIBUTES, name=name)
    meta = group.read_array_meta(array)
    values = _dense_rows(group, array, meta, None)
    if not meta.has_present_mask:
        return DenseAttribute(values, None)
    payload = _level_payload(group, array, len(values), PRESENT_MASK)
    with locate(level=group.level, array=array, chunk=PRESENT_MASK):
        mask = decode_rows(payload.data, "uint8", num_rows=len(values)).view(np.uint8)
        return DenseAttribute(values, mask)


def read_groups(group: FsGroup) -> tuple[IntArray, IntArray]:
    """Return the object ids of all groups, and offsets of one more than there are groups."""
    meta = group.read_array_meta(GROUPS)
    if meta.num_groups is None:
        raise DecodeError("the metadata do not say how many groups there are", rule="num-groups").at(
            level=group.level, array=GROUPS
        )
    data, offsets = group.read_payloads([(GROUPS, DATA), (GROUPS, OFFSETS)])
    with locate(level=group.level, array=GROUPS):
        if data is None and offsets is None and meta.num_groups:
            raise MissingChunkError(f"{meta.num_groups} groups are promised and not there")
        # Ours say how many ids there are, and have both blobs; for others, either may say enough.
        if meta.num_ids is not None and ((data is None and meta.num_ids) or (offsets is None and meta.num_groups)):
            raise MissingChunkError("the data are promised and not there").at(chunk=DATA if data is None else OFFSETS)
        # A level whose groups are all empty stores no ids, one without groups no offsets.
        nothing = np.empty(0, dtype=np.uint8)
        ids = nothing if data is None else data
        starts = nothing if offsets is None and not meta.num_groups else offsets
        with locate(chunk=DATA):
            members = decode_groups(ids.data, None if starts is None else starts.data, num_groups=meta.num_groups)
            if meta.num_ids is not None and len(members[0]) != meta.num_ids:
                raise DecodeError(f"{len(members[0])} ids are there, {meta.num_ids} are declared", rule="id-count")
            return members


def read_group_attribute(group: FsGroup, name: str) -> AnyArray:
    """Return an attribute of every group."""
    array = array_path(GROUP_ATTRIBUTES, name=name)
    groups = group.read_array_meta(GROUPS)
    return _dense_rows(group, array, group.read_array_meta(array), groups.num_groups)


def decode_attribute(meta: ArrayMetadata, payload: ByteArray, dtype: str, num_rows: int) -> AnyArray:
    """Return attribute rows; where the metadata leave the channels out, they follow from the bytes."""
    tail: tuple[int, ...] | None = None
    if meta.shape is not None and len(meta.shape) > 1:
        tail = tuple(meta.shape[1:])
    elif meta.channel_names is not None:
        tail = (len(meta.channel_names),)
    elif meta.shape is None:
        channels = channels_of(payload.nbytes, dtype, num_rows)
        tail = None if channels is None else (channels,)
    return decode_rows(payload.data, dtype, width=tail, num_rows=num_rows)


def _read_all(group: FsGroup, requests: Sequence[PayloadKey]) -> dict[PayloadKey, ByteArray]:
    """Return payloads that all must be there, in one batch."""
    found: dict[PayloadKey, ByteArray] = {}
    for (array, node), payload in zip(requests, group.read_payloads(requests), strict=True):
        if payload is None:
            raise MissingChunkError("there is no such chunk").at(level=group.level, array=array, chunk=node)
        found[array, node] = payload
    return found


def _decode_chunk(
    group: FsGroup, node: str, vertices: ByteArray, fragments: ByteArray
) -> tuple[AnyArray, ChunkFragmentIndex]:
    with locate(level=group.level, array=VERTICES, chunk=node):
        positions = group.decode_vertices(vertices)
    with locate(level=group.level, array=VERTEX_FRAGMENTS, chunk=node):
        return positions, decode_fragments(fragments.data, num_rows=len(positions))


def _chosen(reference: FragmentRef, num_fragments: int) -> IntArray:
    """Return the fragments that a manifest block names, all of which the chunk must have."""
    if isinstance(reference, tuple):
        start, count = reference
        last = start + count - 1
        fragments = np.arange(start, start + count if last < num_fragments else start, dtype=np.int64)
    else:
        fragments = np.atleast_1d(np.asarray(reference, dtype=np.int64))
        last = int(fragments.max(initial=-1))
    if last >= num_fragments:
        raise DecodeError(f"the manifest names fragment {last}, the chunk has {num_fragments}", rule="fragment")
    return fragments


def _aligned_rows(group: FsGroup, array: str, beside: str, chunk_coords: Sequence[int]) -> AnyArray:
    """Return rows of a chunk that are aligned with another array's rows in the same chunk."""
    node = chunk_key(chunk_coords)
    meta = group.read_array_meta(array)
    payloads = _read_all(group, [(array, node), (beside, node)])
    num_rows = _num_rows(group, beside, chunk_coords, payloads[beside, node])
    with locate(level=group.level, array=array, chunk=node):
        return decode_attribute(meta, payloads[array, node], group.dtype_of(meta, array), num_rows)


def _num_rows(group: FsGroup, array: str, chunk_coords: Sequence[int], payload: ByteArray) -> int:
    with locate(level=group.level, array=array, chunk=chunk_key(chunk_coords)):
        if array == VERTICES:
            return len(group.decode_vertices(payload))
        if array == VERTEX_FRAGMENTS:
            return decode_fragments(payload.data).num_fragments
        meta = group.read_array_meta(array)
        if array == array_path(LINKS, delta=0):
            return len(decode_links(payload.data, group.dtype_of(meta, array), width=_width(meta)))
        return len(_decode_level_links(group, meta, chunk_coords, payload))


def _decode_level_links(
    group: FsGroup, meta: ArrayMetadata, chunk_coords: Sequence[int], payload: ByteArray
) -> IntArray:
    if meta.encoding == ENDPOINT_RECORDS_ENCODING:
        return decode_endpoint_records(payload.data, width=_width(meta), ndim=group.ndim)
    return decode_paired_links(payload.data, chunk_coords)


def _dense_rows(group: FsGroup, array: str, meta: ArrayMetadata, num_rows: int | None) -> AnyArray:
    with locate(level=group.level, array=array):
        if not meta.shape:
            raise DecodeError("the array's metadata do not say its shape", rule="shape")
        count = meta.shape[0]
        if num_rows is not None and count != num_rows:
            raise DecodeError(f"{count} rows are declared, {num_rows} belong there", rule="row-count")
        dtype = group.dtype_of(meta, array)
    payload = _level_payload(group, array, count)
    with locate(level=group.level, array=array, chunk=DATA):
        return decode_rows(payload.data, dtype, width=tuple(meta.shape[1:]) or None, num_rows=count)


def _level_payload(group: FsGroup, array: str, count: int | None, node: str = DATA) -> ByteArray:
    """Return ``data`` of a level-wide array, or what stands beside it; no rows need no data."""
    (payload,) = group.read_payloads([(array, node)])
    if payload is None and count == 0:
        return np.empty(0, dtype=np.uint8)
    if payload is None:
        raise MissingChunkError("the data are promised and not there").at(level=group.level, array=array, chunk=node)
    return payload


def _width(meta: ArrayMetadata) -> int:
    if meta.link_width is None:
        raise DecodeError("the array's metadata do not say its link_width", rule="link-width")
    return meta.link_width
