"""What a read relies on beyond its payloads' own layouts, checked for all chunks at once; `trusted` leaves it out.

Damage that leaves every payload well-formed shows here: a chunk that is gone, one that lies in
another's place, links to chunks that do not exist.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from zarr_vectors.constants import CROSS_CHUNK_LINKS, LINK_FRAGMENTS, LINKS, VERTEX_FRAGMENTS, VERTICES
from zarr_vectors.core.group import DRACO_ENCODING, FsGroup
from zarr_vectors.core.keys import array_path, chunk_key
from zarr_vectors.exceptions import DecodeError, MissingChunkError
from zarr_vectors.typing import AnyArray, ChunkCoords, IntArray

_SLACK: Final = 1e-6
"""Of a chunk's size: borders are products that were rounded, and copies of a seam's vertex lie on them."""


def check_listing(group: FsGroup, found: Sequence[ChunkCoords], array: str = VERTICES) -> None:
    """Raise unless as many chunks are listed as an array declares, where it does."""
    (meta,) = group.find_array_metas([array])
    declared = None if meta is None else meta.num_chunks
    if group.limits.trusted or declared is None or declared == len(found):
        return
    # Which one is missing, the fragments tell: a listing that only a damaged store costs.
    beside = set(group.list_chunks(VERTEX_FRAGMENTS if array == VERTICES else LINK_FRAGMENTS))
    odd = sorted(beside.symmetric_difference(found))
    chunk = chunk_key(odd[0]) if odd else None
    message = f"{declared} chunks are declared, {len(found)} are there"
    error: DecodeError | MissingChunkError
    error = MissingChunkError(message) if len(found) < declared else DecodeError(message, rule="chunk-count")
    raise error.at(level=group.level, array=array, chunk=chunk)


def check_totals(group: FsGroup, num_rows: int | None, links: IntArray | None) -> None:
    """Raise unless all chunks together have as many rows and links as their arrays declare, where they do."""
    if group.limits.trusted:
        return
    inside = array_path(LINKS, delta=0)
    vertices, meta = group.find_array_metas([VERTICES, inside])
    if num_rows is not None and vertices is not None and vertices.num_chunks is not None and vertices.shape:
        _check_total(group, VERTICES, num_rows, vertices.shape[0])
    # Parents in one column are fewer links than they are rows.
    if links is None or meta is None or meta.num_chunks is None or meta.num_links is None:
        return
    if meta.link_width == links.shape[1]:
        _check_total(group, inside, len(links), meta.num_links)


def _check_total(group: FsGroup, array: str, found: int, declared: int) -> None:
    if found != declared:
        message = f"{found} rows are there in all chunks, {declared} are declared"
        raise DecodeError(message, rule="row-count").at(level=group.level, array=array)


def check_places(group: FsGroup, coords: IntArray, positions: Sequence[AnyArray]) -> None:
    """Raise if a chunk's first or last row does not lie in it: then its rows are another chunk's.

    Two rows a chunk cost nothing, and find every chunk that was moved as a whole.
    """
    if group.limits.trusted or not positions:
        return
    # Lossy positions may stray, and so may copies of vertices of the chunk beside.
    if group.read_array_meta(VERTICES).encoding == DRACO_ENCODING:
        return
    if group.root.cross_chunk_strategy != "explicit_links":
        return
    filled = np.array([number for number, rows in enumerate(positions) if len(rows)], dtype=np.int64)
    if len(filled) == 0:
        return
    shape = np.array(group.metadata.chunk_shape or group.root.chunk_shape, dtype=np.float64)
    ends = np.stack([positions[number][[0, -1]] for number in filled.tolist()]).astype(np.float64)
    low = coords[filled].astype(np.float64) * shape
    slack = _SLACK * shape
    # Written so that what is not a number is outside too.
    inside = ((ends >= (low - slack)[:, None]) & (ends <= (low + shape + slack)[:, None])).all(axis=2)
    if not inside.all():
        number, end = np.argwhere(~inside)[0].tolist()
        raise DecodeError(f"a row at {ends[number, end].tolist()} does not lie in this chunk", rule="chunk-rows").at(
            level=group.level, array=VERTICES, chunk=chunk_key(coords[filled[number]].tolist())
        )


def check_link_chunks(group: FsGroup, known: IntArray, records: IntArray, chunks: IntArray) -> None:
    """Raise if a link between chunks names one that does not exist.

    Parameters
    ----------
    group
        The level.
    known : (chunks,)
        The number of the chunk of each end of ``records``, flattened, among all of the level; -1 for none.
    records : (links, width, ndim + 1)
        The links.
    chunks : (links, width)
        The number of each end's chunk among those loaded, -1 for others.
    """
    bad = (known.reshape(chunks.shape) < 0) & (chunks < 0)
    if bad.any():
        record, end = np.argwhere(bad)[0].tolist()
        node = chunk_key(records[record, end, :-1].tolist())
        raise MissingChunkError(f"link {record} names this chunk, which does not exist").at(
            level=group.level, array=array_path(CROSS_CHUNK_LINKS, delta=0), chunk=node
        )
