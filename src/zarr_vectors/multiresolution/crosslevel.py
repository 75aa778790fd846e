"""Links between levels: written from parents, composed over several levels, and read back in both directions."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from zarr_vectors.constants import CROSS_CHUNK_LINKS, ENDPOINT_RECORDS_ENCODING, LINKS
from zarr_vectors.core.arrays import read_cross_chunk_links
from zarr_vectors.core.group import FsGroup, chunked_meta
from zarr_vectors.core.keys import array_path, chunk_key
from zarr_vectors.core.writers import WriteOptions
from zarr_vectors.encoding.links import decode_endpoint_records, decode_paired_links
from zarr_vectors.exceptions import InputError, MissingArrayError, MissingChunkError, locate
from zarr_vectors.multiresolution.coarsen import NO_PARENT, Parents
from zarr_vectors.spatial.partition import Layout
from zarr_vectors.typing import AnyArray, IntArray, IntegerArray


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
    kept = lower.numbers != NO_PARENT
    numbers = np.full(len(lower.numbers), NO_PARENT, dtype=upper.numbers.dtype)
    numbers[kept] = upper.numbers[lower.numbers[kept]]
    return Parents(lower.chunks, lower.row_offsets, numbers)


def write_parents(
    fine: FsGroup, coarse: FsGroup, layout: Layout, parents: Parents, *, both: bool, options: WriteOptions
) -> None:
    """Store the links from a level to a coarser one; with ``both``, the way back too.

    Parameters
    ----------
    fine, coarse
        The two levels.
    layout
        Of the coarser level.
    parents
        Of each vertex of the finer level.
    both
        Whether the coarser level gets links to the finer one.
    options
        How to store them.
    """
    delta = coarse.level - fine.level
    kept = np.flatnonzero(parents.numbers != NO_PARENT)
    below = _Rows(parents.chunks, parents.row_offsets)
    above = _Rows(layout.chunks, layout.row_offsets)
    upward = _Links(below, kept, above, parents.numbers[kept])
    _write_links(fine, delta, upward, options)
    if both:
        # The children of each metavertex in the order in which they are stored.
        order = np.argsort(upward.other_rows, kind="stable")
        _write_links(coarse, -delta, _Links(above, upward.other_rows[order], below, kept[order]), options)


def read_parents(fine: FsGroup, coarse: FsGroup) -> CrossLevelMap:
    """Return the links from a level to a coarser one, by inverting where only the way back is stored."""
    _check_order(fine, coarse)
    return _read(fine, coarse) or _inverted(_read(coarse, fine)) or _missing(fine, coarse)


def read_children(coarse: FsGroup, fine: FsGroup) -> CrossLevelMap:
    """Return the links from a level to a finer one, by inverting where only the way up is stored."""
    _check_order(fine, coarse)
    return _read(coarse, fine) or _inverted(_read(fine, coarse)) or _missing(coarse, fine)


def _check_order(fine: FsGroup, coarse: FsGroup) -> None:
    if coarse.level <= fine.level:
        raise InputError(f"parents are at a coarser level, children at a finer one: level {coarse.level} is not above")


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


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """The rows of a level, numbered through its chunks."""

    chunks: IntArray
    offsets: IntArray

    def endpoints(self, rows: IntegerArray) -> IntArray:
        """Return chunk coordinates, then the row in the chunk, of each row."""
        chunk = np.searchsorted(self.offsets, rows, side="right") - 1
        return np.column_stack([self.chunks[chunk], rows - self.offsets[chunk]])


@dataclass(frozen=True, slots=True, eq=False)
class _Links:
    """Links from rows of one level, ascending, to rows of another."""

    own: _Rows
    own_rows: IntegerArray
    other: _Rows
    other_rows: IntegerArray

    def records(self, begin: int, end: int) -> IntArray:
        """Return some of the links as endpoint records."""
        ends = self.own.endpoints(self.own_rows[begin:end]), self.other.endpoints(self.other_rows[begin:end])
        return np.stack(ends, axis=1).astype("<i8", copy=False)


def _write_links(group: FsGroup, delta: int, links: _Links, options: WriteOptions) -> None:
    """Store links from a level to another, chunk after chunk."""
    array = array_path(LINKS, delta=delta)
    meta = chunked_meta(
        array,
        "int64",
        ndim=1 if options.byte_arrays else 3,
        compressor=options.compressor,
        checksum=options.checksum,
        shape=[len(links.own_rows), 2, group.ndim + 1],
        encoding=ENDPOINT_RECORDS_ENCODING,
        level_delta=delta,
        link_width=2,
        num_links=len(links.own_rows),
    )
    borders = np.searchsorted(links.own_rows, links.own.offsets)

    def payloads() -> Iterator[tuple[str, AnyArray]]:
        # Records take many times the room of the rows, so they are made when they are stored.
        for chunk in np.flatnonzero(np.diff(borders)).tolist():
            records = links.records(borders[chunk], borders[chunk + 1])
            stored = np.ascontiguousarray(records).reshape(-1).view(np.uint8) if options.byte_arrays else records
            yield chunk_key(links.own.chunks[chunk].tolist()), stored

    group.write_payloads(array, meta, payloads())
