"""Links between levels: written from parents, composed over several levels, and read back in both directions."""

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from zarr_vectors.constants import CROSS_CHUNK_LINKS, ENDPOINT_RECORDS_ENCODING, LINKS
from zarr_vectors.core.arrays import read_cross_chunk_links
from zarr_vectors.core.group import FsGroup
from zarr_vectors.core.keys import array_path, chunk_key
from zarr_vectors.core.writers import WriteOptions, write_level_links
from zarr_vectors.encoding.links import decode_endpoint_records, decode_paired_links
from zarr_vectors.exceptions import MissingArrayError, MissingChunkError, locate
from zarr_vectors.multiresolution.coarsen import NO_PARENT, Parents
from zarr_vectors.typing import ChunkCoords, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class CrossLevelMap:
    """Which vertex of one level belongs to which of another; one entry for each link."""

    level: int
    other_level: int
    chunks: IntArray
    """(links, ndim): the chunk of the vertex at ``level``."""
    rows: IntArray
    """Its row in that chunk."""
    other_chunks: IntArray
    other_rows: IntArray

    def __len__(self) -> int:
        return len(self.rows)

    def __bool__(self) -> bool:
        # A map without links is an answer, not the lack of one.
        return True

    def inverted(self) -> "CrossLevelMap":
        """Return the same links, seen from the other level."""
        return CrossLevelMap(self.other_level, self.level, self.other_chunks, self.other_rows, self.chunks, self.rows)


def compose(lower: Parents, upper: Parents) -> Parents:
    """Return the grandparents: parents at the level above of parents at the level between."""
    coarse_of = np.full_like(lower.coarse_of, NO_PARENT)
    rows = []
    for number, parents in enumerate(lower.rows):
        between = int(lower.coarse_of[number])
        if between == NO_PARENT:
            rows.append(np.full_like(parents, NO_PARENT))
            continue
        further = upper.rows[between]
        found = further[np.maximum(parents, 0)]
        rows.append(np.where(parents == NO_PARENT, NO_PARENT, found).astype(np.int32))
        coarse_of[number] = upper.coarse_of[between]
    return Parents(lower.fine_chunks, coarse_of, rows)


def write_parents(
    fine: FsGroup, coarse: FsGroup, coarse_chunks: IntArray, parents: Parents, *, both: bool, options: WriteOptions
) -> None:
    """Store the links from a level to a coarser one; with ``both``, the way back too.

    Parameters
    ----------
    fine, coarse
        The two levels.
    coarse_chunks
        The chunks of the coarser level, as ``parents`` numbers them.
    parents
        Of each vertex of the finer level.
    both
        Whether the coarser level gets links to the finer one.
    options
        How to store them.
    """
    delta = coarse.level - fine.level
    upward: dict[ChunkCoords, IntArray] = {}
    downward: dict[ChunkCoords, list[IntArray]] = {}
    for number, rows in enumerate(parents.rows):
        kept = np.flatnonzero(rows != NO_PARENT)
        if len(kept) == 0:
            continue
        here = tuple(parents.fine_chunks[number].tolist())
        there = tuple(coarse_chunks[parents.coarse_of[number]].tolist())
        records = np.empty((len(kept), 2, len(here) + 1), dtype=np.int64)
        records[:, 0, :-1], records[:, 0, -1] = here, kept
        records[:, 1, :-1], records[:, 1, -1] = there, rows[kept]
        upward[here] = records
        if both:
            downward.setdefault(there, []).append(records[:, ::-1])
    write_level_links(fine, delta, upward, options=options)
    if both:
        back = {chunk: _by_own_row(np.concatenate(parts)) for chunk, parts in downward.items()}
        write_level_links(coarse, -delta, back, options=options)


def read_parents(fine: FsGroup, coarse: FsGroup) -> CrossLevelMap:
    """Return the links from a level to a coarser one, by inverting where only the way back is stored."""
    return _read(fine, coarse) or _inverted(_read(coarse, fine)) or _missing(fine, coarse)


def read_children(coarse: FsGroup, fine: FsGroup) -> CrossLevelMap:
    """Return the links from a level to a finer one, by inverting where only the way up is stored."""
    return _read(coarse, fine) or _inverted(_read(fine, coarse)) or _missing(coarse, fine)


def _inverted(found: CrossLevelMap | None) -> CrossLevelMap | None:
    return None if found is None else found.inverted()


def _missing(group: FsGroup, other: FsGroup) -> NoReturn:
    delta = other.level - group.level
    raise MissingArrayError(
        f"no links to level {other.level} are stored: build the pyramid with cross_level_storage='implicit' and "
        f"cross_level_depth={abs(delta)}"
    ).at(level=group.level, array=array_path(LINKS, delta=delta))


def _read(group: FsGroup, other: FsGroup) -> CrossLevelMap | None:
    """Return the links that one level stores to another, inside chunks of the same coordinates and across."""
    delta = other.level - group.level
    array, across = array_path(LINKS, delta=delta), array_path(CROSS_CHUNK_LINKS, delta=delta)
    meta, across_meta = group.find_array_metas([array, across])
    if meta is None and across_meta is None:
        return None
    parts: list[IntArray] = []
    if meta is not None:
        chunks = group.list_chunks(array)
        payloads = group.read_payloads([(array, chunk_key(coords)) for coords in chunks])
        for coords, payload in zip(chunks, payloads, strict=True):
            with locate(level=group.level, array=array, chunk=chunk_key(coords)):
                if payload is None:
                    raise MissingChunkError("the data are promised and not there")
                if meta.encoding == ENDPOINT_RECORDS_ENCODING:
                    parts.append(decode_endpoint_records(payload.data, width=meta.link_width or 2, ndim=group.ndim))
                else:
                    parts.append(decode_paired_links(payload.data, coords))
    if across_meta is not None:
        parts.append(read_cross_chunk_links(group, delta))
    records = np.concatenate(parts) if parts else np.empty((0, 2, group.ndim + 1), dtype=np.int64)
    own, others = records[:, 0], records[:, 1]
    return CrossLevelMap(group.level, other.level, own[:, :-1], own[:, -1], others[:, :-1], others[:, -1])


def _by_own_row(records: IntArray) -> IntArray:
    """Sort records of one chunk by the row at their own end, then by the other end."""
    keys = [*(records[:, 1, axis] for axis in range(records.shape[2] - 1, -1, -1)), records[:, 0, -1]]
    ordered: IntArray = records[np.lexsort(keys)]
    return ordered
