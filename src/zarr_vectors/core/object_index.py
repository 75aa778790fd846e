"""The object index of a level, format 7.6: manifests in each of the layouts that stores have.

Written as ``manifests``, a chunked array of variable-length bytes. Read from there, from
``data`` + ``offsets``, from a bare ``data`` stream, or, under the identity convention, from the
fragments of the store's only chunk.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from zarr_vectors.constants import (
    MANIFEST_CHUNK_BYTES,
    MANIFESTS_LAYOUT,
    MAX_MANIFESTS_PER_CHUNK,
    OBJECT_INDEX,
    VERTEX_FRAGMENTS,
    VERTICES,
)
from zarr_vectors.core.group import FsGroup, chunked_meta
from zarr_vectors.core.keys import DATA, MANIFESTS, NODE, OFFSETS, chunk_key
from zarr_vectors.core.metadata import ArrayMetadata
from zarr_vectors.core.nodes import VLEN_BYTES, ArrayNode, array_document, parse_document
from zarr_vectors.encoding.buffers import int64_stream
from zarr_vectors.encoding.codecs import CodecChain
from zarr_vectors.encoding.compression import Compressor
from zarr_vectors.encoding.fragments import decode_fragments
from zarr_vectors.encoding.manifests import ManifestTable, decode_manifests, encode_manifests, scan_manifests
from zarr_vectors.encoding.vlen import encode_vlen_bytes, split_vlen_bytes
from zarr_vectors.exceptions import (
    DecodeError,
    EncodeError,
    InputError,
    MissingArrayError,
    MissingChunkError,
    ObjectNotFoundError,
    locate,
)
from zarr_vectors.ragged import offsets_from_counts
from zarr_vectors.typing import ChunkCoords, FragmentRef, IntArray, IntegerArray

_CHUNKS_PER_BATCH: Final = 4096
_WHERE: Final = f"{OBJECT_INDEX}/{MANIFESTS}"


@dataclass(frozen=True, slots=True)
class _ManifestChunks:
    """How the manifests array is cut into chunks and where each is."""

    per_chunk: int
    chain: CodecChain
    separator: str
    prefix: str

    def key(self, level: int, chunk: int) -> str:
        name = self.separator.join([*([self.prefix] if self.prefix else []), str(chunk)])
        return f"{level}/{_WHERE}/{name}"


def count_objects(group: FsGroup) -> int:
    """Return how many object ids the level has, empty ones included; 0 without an object index."""
    if group.root.object_index_convention == "identity":
        return _read_identity(group).num_objects
    (meta,) = group.find_array_metas([OBJECT_INDEX])
    return 0 if meta is None else _num_objects(group, meta)


def read_object_manifest(group: FsGroup, object_id: int) -> list[tuple[ChunkCoords, FragmentRef]]:
    """Return the manifest blocks of one object, ``(chunk_coords, fragments)`` pairs in order.

    Raises
    ------
    ObjectNotFoundError
        If the level has no such object id.
    """
    return read_manifests(group, [object_id]).blocks(0)


def read_all_object_manifests(group: FsGroup) -> ManifestTable:
    """Return the manifests of all objects of the level, as one table."""
    return read_manifests(group, None)


def read_manifests(group: FsGroup, object_ids: Sequence[int] | IntegerArray | None) -> ManifestTable:
    """Return the manifests of some objects, in the order asked for; ``None`` means all.

    One batch of requests: the chunks of the index that hold these objects.
    """
    if group.root.object_index_convention == "identity":
        return _take(_read_identity(group), object_ids, group)
    meta = group.read_array_meta(OBJECT_INDEX)
    count = _num_objects(group, meta)
    if meta.sid_ndim is not None and meta.sid_ndim != group.ndim:
        raise DecodeError(f"sid_ndim is {meta.sid_ndim}, the store has {group.ndim} axes", rule="sid-ndim").at(
            level=group.level, array=OBJECT_INDEX
        )
    if meta.layout == MANIFESTS_LAYOUT:
        return _read_vlen(group, meta, count, object_ids)
    if meta.layout is not None:
        raise DecodeError(f"object index layout {meta.layout!r} is not known", rule="layout").at(
            level=group.level, array=OBJECT_INDEX
        )
    return _take(_read_stream(group, count), object_ids, group)


def write_object_manifests(
    group: FsGroup, manifests: ManifestTable, *, compressor: Compressor = "default", checksum: bool = True
) -> None:
    """Store the manifests of all objects of the level, in chunks bounded by objects and by bytes."""
    with locate(level=group.level, array=OBJECT_INDEX):
        if manifests.chunk_coords.shape[1:] != (group.ndim,):
            shape = manifests.chunk_coords.shape
            raise EncodeError(f"chunk coordinates of shape {shape} in a store of {group.ndim} axes", rule="sid-ndim")
        data, offsets = encode_manifests(manifests)
    count = manifests.num_objects
    per_chunk = _manifests_per_chunk(len(data), count)
    meta = chunked_meta(
        OBJECT_INDEX,
        "bytes",
        compressor=compressor,
        checksum=checksum,
        num_objects=count,
        sid_ndim=group.ndim,
        layout=MANIFESTS_LAYOUT,
        manifests_per_chunk=per_chunk,
    ).model_copy(update={"dtype": None, "chunk_key": None})
    codecs = meta.codecs or ()
    chain = CodecChain.parse(codecs)
    if chain is None:
        names = ", ".join(str(codec.get("name")) for codec in codecs)
        raise EncodeError(f"can't write manifests with the codecs {names}", rule="codecs").at(
            level=group.level, array=OBJECT_INDEX
        )
    chunks = _ManifestChunks(per_chunk, chain, ".", "c")
    raw = memoryview(data)
    group.storage.put_many(
        (
            chunks.key(group.level, begin // per_chunk),
            chain.encode(encode_vlen_bytes(raw, offsets[begin : begin + per_chunk + 1], num_items=per_chunk)),
        )
        for begin in range(0, count, per_chunk)
    )
    document = array_document((count,), VLEN_BYTES, codecs, (per_chunk,))
    group.storage.put_many([(f"{group.level}/{_WHERE}/{NODE}", document)])
    group.write_array_meta(OBJECT_INDEX, meta)


def _manifests_per_chunk(num_bytes: int, count: int) -> int:
    """Return a round number of manifests whose bytes stay within the bound on average."""
    if count == 0:
        return 1
    fitting = max(MANIFEST_CHUNK_BYTES * count // max(num_bytes, 1), 1)
    return min(1 << (fitting.bit_length() - 1), MAX_MANIFESTS_PER_CHUNK)


def _num_objects(group: FsGroup, meta: ArrayMetadata) -> int:
    if meta.num_objects is None:
        raise DecodeError("the metadata do not say how many objects there are", rule="num-objects").at(
            level=group.level, array=OBJECT_INDEX
        )
    return meta.num_objects


def _read_vlen(
    group: FsGroup, meta: ArrayMetadata, count: int, object_ids: Sequence[int] | IntegerArray | None
) -> ManifestTable:
    wanted = None if object_ids is None else _checked_ids(object_ids, count, group)
    chunks = _declared_chunks(meta) or _chunks_by_node(group, count)
    if not isinstance(chunks, _ManifestChunks):
        with locate(level=group.level, array=_WHERE):
            everything = group.read_through_zarr(_WHERE, chunks).tolist()
        blobs = everything if wanted is None else [everything[object_id] for object_id in wanted.tolist()]
    elif wanted is None:
        # No number of objects is believed, and no memory asked for, before their chunks are there.
        whole = _read_blobs(group, chunks, range(-(-count // chunks.per_chunk)), count)
        blobs = [blob for items in whole for blob in items][:count]
    else:
        of_chunk = wanted // chunks.per_chunk
        needed, place = np.unique(of_chunk, return_inverse=True)
        parts = list(_read_blobs(group, chunks, needed.tolist(), count))
        slots = zip(place.reshape(-1).tolist(), (wanted % chunks.per_chunk).tolist(), strict=True)
        blobs = [parts[part][slot] for part, slot in slots]
    offsets = np.cumsum([0, *map(len, blobs)], dtype=np.int64)
    return _decode(group, _WHERE, b"".join(blobs), offsets, wanted)


def _read_blobs(group: FsGroup, chunks: _ManifestChunks, needed: Sequence[int], count: int) -> Iterator[list[bytes]]:
    """Yield the manifests of some chunks of the index: all in one batch, unless they are very many."""
    for begin in range(0, len(needed), _CHUNKS_PER_BATCH):
        some = needed[begin : begin + _CHUNKS_PER_BATCH]
        stored = group.storage.get_many([chunks.key(group.level, chunk) for chunk in some])
        for chunk, value in zip(some, stored, strict=True):
            with locate(level=group.level, array=_WHERE, chunk=str(chunk)):
                if value is None:
                    raise MissingChunkError("the manifests of this chunk are promised and not there")
                limit = group.limits.ceiling(memoryview(value).nbytes)
                blobs = split_vlen_bytes(chunks.chain.decode(value, limit=limit).data)
                expected = min(chunks.per_chunk, count - chunk * chunks.per_chunk)
                # Zarr fills the last chunk up with empty items.
                if len(blobs) < expected or any(blobs[expected:]):
                    message = f"the chunk holds {len(blobs)} manifests, {expected} belong there"
                    raise DecodeError(message, rule="item-count")
                yield blobs


def _declared_chunks(meta: ArrayMetadata) -> _ManifestChunks | None:
    """Return the chunks of an index of ours, whose metadata tell all; ``None``: its ``zarr.json`` must be asked."""
    if meta.codecs is None or meta.manifests_per_chunk is None:
        return None
    chain = CodecChain.parse(meta.codecs)
    return None if chain is None else _ManifestChunks(meta.manifests_per_chunk, chain, ".", "c")


def _chunks_by_node(group: FsGroup, count: int) -> _ManifestChunks | ArrayNode:
    """Return the chunks of any index, or the node itself where only zarr can read it."""
    (document,) = group.storage.get_many([f"{group.level}/{_WHERE}/{NODE}"])
    with locate(level=group.level, array=_WHERE):
        if document is None:
            raise MissingArrayError("the layout promises this array")
        node = ArrayNode.parse(parse_document(document))
        if node.data_type != VLEN_BYTES or node.shape != (count,):
            message = f"{node.data_type} of shape {node.shape}, not {count} variable-length blobs"
            raise DecodeError(message, rule="manifests")
        chain = CodecChain.parse(node.codecs)
        return node if chain is None else _ManifestChunks(node.chunk_shape[0], chain, node.separator, node.prefix)


def _read_stream(group: FsGroup, count: int) -> ManifestTable:
    """Read ``data`` with ``offsets`` beside it (the last entry open-ended), or scan ``data`` alone."""
    data, offsets = group.read_payloads([(OBJECT_INDEX, DATA), (OBJECT_INDEX, OFFSETS)])
    with locate(level=group.level, array=OBJECT_INDEX):
        if data is None:
            if count == 0:
                return _empty(group.ndim)
            raise MissingChunkError("neither manifests nor data are there")
        if offsets is None:
            ends = scan_manifests(data.data, group.ndim, count)
        else:
            starts = int64_stream(offsets.data, what="object_index/offsets")
            _check_offsets(starts, count, data.nbytes)
            tail = scan_manifests(data.data, group.ndim, min(count, 1), start=int(starts[-1]) if count else 0)
            ends = np.append(starts, tail[-1]).astype(np.int64)
        end = int(ends[-1])
        if data[end:].any():
            raise DecodeError(f"bytes follow the last manifest at {end}", rule="trailing-bytes", offset=end)
    return _decode(group, OBJECT_INDEX, data[:end].tobytes(), ends, None)


def _check_offsets(starts: IntArray, count: int, size: int) -> None:
    if len(starts) != count:
        raise DecodeError(f"{len(starts)} offsets, {count} objects are declared", rule="offset-count")
    if count and (starts[0] != 0 or (starts[1:] < starts[:-1]).any() or starts[-1] > size):
        raise DecodeError(f"offsets begin at 0, never fall and stay within {size} bytes", rule="offsets")


def _read_identity(group: FsGroup) -> ManifestTable:
    """Object k is fragment k of the only chunk."""
    chunks = group.list_chunks(VERTICES)
    if not chunks:
        return _empty(group.ndim)
    if len(chunks) > 1:
        raise DecodeError(f"the identity convention needs one chunk, {len(chunks)} are there", rule="identity").at(
            level=group.level, array=VERTICES
        )
    node = chunk_key(chunks[0])
    payload = group.read_payload(VERTEX_FRAGMENTS, node)
    with locate(level=group.level, array=VERTEX_FRAGMENTS, chunk=node):
        filled = decode_fragments(payload.data).counts > 0
    # An object without vertices has a fragment without rows here; elsewhere its manifest is empty.
    fragments = np.flatnonzero(filled)
    return ManifestTable(
        object_offsets=offsets_from_counts(filled.astype(np.int64)),
        chunk_coords=np.tile(np.array(chunks[0], dtype=np.int64), (len(fragments), 1)),
        modes=np.zeros(len(fragments), dtype=np.uint8),
        starts=fragments,
        counts=np.ones(len(fragments), dtype=np.int64),
        explicit=fragments[:0],
    )


def _decode(group: FsGroup, array: str, data: bytes, offsets: IntArray, object_ids: IntArray | None) -> ManifestTable:
    with locate(level=group.level, array=array):
        try:
            return decode_manifests(data, offsets, group.ndim)
        except DecodeError as error:
            # The decoder counts the manifests that it was given.
            if error.object_id is not None and object_ids is not None:
                error.object_id = int(object_ids[error.object_id])
            raise


def _take(table: ManifestTable, object_ids: Sequence[int] | IntegerArray | None, group: FsGroup) -> ManifestTable:
    return table if object_ids is None else table.take(_checked_ids(object_ids, table.num_objects, group))


def _checked_ids(object_ids: Sequence[int] | IntegerArray, count: int, group: FsGroup) -> IntArray:
    given = np.asarray(object_ids)
    if given.size and given.dtype.kind not in "iu":
        raise InputError(f"object ids are integers, not {given.dtype}").at(level=group.level)
    wanted = given.astype(np.int64).reshape(-1)
    outside = (wanted < 0) | (wanted >= count)
    if outside.any():
        known = f"ids go from 0 to {count - 1}" if count else "the level has none"
        missing = int(wanted[outside][0])
        raise ObjectNotFoundError(f"there is no such object: {known}").at(level=group.level, object_id=missing)
    return wanted


def _empty(ndim: int) -> ManifestTable:
    nothing = np.empty(0, dtype=np.int64)
    return ManifestTable(
        np.zeros(1, dtype=np.int64), nothing.reshape(0, ndim), nothing.astype(np.uint8), nothing, nothing, nothing
    )
