"""Links of a result: those inside chunks and those across, with their attributes."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from zarr_vectors.constants import (
    CROSS_CHUNK_LINK_ATTRIBUTES,
    CROSS_CHUNK_LINKS,
    LINK_ATTRIBUTES,
    OBJECT_ID_ATTRIBUTE,
    VERTICES,
)
from zarr_vectors.core.group import DRACO_ENCODING
from zarr_vectors.core.keys import array_path, chunk_key
from zarr_vectors.exceptions import DecodeError, ZarrVectorsWarning, locate
from zarr_vectors.query.checks import check_link_chunks
from zarr_vectors.query.chunks import LoadedChunks, match_rows
from zarr_vectors.query.conditions import decode_categories
from zarr_vectors.query.index import LevelIndex
from zarr_vectors.typing import AnyArray, BoolArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class ResultLinks:
    """Links as rows of a result."""

    rows: IntArray | None = None
    """(links, width); ``None`` where the geometry has none."""
    attributes: dict[str, AnyArray] = field(default_factory=dict)
    missing: dict[str, BoolArray] = field(default_factory=dict)
    """Links for which an attribute is not stored."""


def gather_links(
    index: LevelIndex, loaded: LoadedChunks, number: IntArray, names: Sequence[str], owners: IntArray | None
) -> ResultLinks:
    """Return the links whose ends are all in the result: those inside chunks, then those across.

    Parameters
    ----------
    index, loaded
        The level, and chunks of it.
    number
        The row of the result for each loaded row, -1 for none.
    names
        Link attributes to return.
    owners
        Objects whose links are wanted; ``None``: whoever they belong to.
    """
    inside = number[loaded.links]
    # Ends that are not loaded are -1, which finds the last entry.
    across = np.append(number, -1)[links_across(index, loaded)]
    kept_inside: BoolArray = np.all(inside >= 0, axis=1)
    kept_across: BoolArray = np.all(across >= 0, axis=1)
    if owners is not None:
        of_across = index.across_attribute(OBJECT_ID_ATTRIBUTE)
        kept_inside &= np.isin(loaded.link_attributes[OBJECT_ID_ATTRIBUTE], owners)
        kept_across &= False if of_across is None else np.isin(of_across, owners)
    links = ResultLinks(np.concatenate([inside[kept_inside], across[kept_across]]))
    for name in names:
        first, second = loaded.link_attributes.get(name), index.across_attribute(name)
        values, missing = _join(first, second, kept_inside, kept_across)
        array = CROSS_CHUNK_LINK_ATTRIBUTES if first is None else LINK_ATTRIBUTES
        with locate(level=index.group.level, array=array_path(array, name=name, delta=0)):
            links.attributes[name] = decode_categories(values, index.meta(array, name, delta=0).categories)
        if missing.any():
            links.missing[name] = missing
    return links


def links_across(index: LevelIndex, loaded: LoadedChunks) -> IntArray:
    """Return the ends of links between chunks, ``(links, width)``, as rows of the loaded chunks; -1 for others."""
    records = records_across(index)
    rows = records[..., -1]
    chunks = loaded.find_chunks(records[..., :-1].reshape(-1, index.group.ndim)).reshape(rows.shape)
    if not index.group.limits.trusted:
        _check_chunks(index, records, chunks)
    # Chunks that are not loaded have as many rows as it takes.
    available = np.append(np.diff(loaded.row_offsets), np.iinfo(np.int64).max)[chunks]
    if (rows >= available).any():
        record, end = np.argwhere(rows >= available)[0].tolist()
        message = f"link {record} names row {rows[record, end]} of a chunk with {available[record, end]}"
        raise DecodeError(message, rule="link-rows").at(
            level=index.group.level,
            array=array_path(CROSS_CHUNK_LINKS, delta=0),
            chunk=chunk_key(records[record, end, :-1].tolist()),
        )
    return np.where(chunks >= 0, loaded.row_offsets[chunks] + rows, -1)


def records_across(index: LevelIndex) -> IntArray:
    """Return the links between chunks, ``(links, width, ndim + 1)``, as far as their rows can be trusted."""
    records = index.links_across
    meta = index.group.read_array_meta(VERTICES)
    if len(records) and meta.encoding == DRACO_ENCODING and (meta.model_extra or {}).get("draco_rows") != "decoded":
        warnings.warn(
            f"{index.group.storage.url}: {len(records)} faces across chunks are left out: this writer numbered them "
            "before Draco changed the order of the vertices",
            ZarrVectorsWarning,
            stacklevel=7,  # whoever called Level.read
        )
        return records[:0]
    return records


def _check_chunks(index: LevelIndex, records: IntArray, chunks: IntArray) -> None:
    """Raise if a link leads to a chunk that does not exist, as far as this read can tell."""
    elsewhere = chunks < 0
    # A link with one end in hand matters to this read, so that its other end is worth a listing.
    halfway = elsewhere.any(axis=1) & ~elsewhere.all(axis=1)
    if halfway.any() or (elsewhere.any() and index.known_chunks is not None):
        ends = records[..., :-1].reshape(-1, index.group.ndim)
        check_link_chunks(index.group, match_rows(index.chunks, ends), records, chunks)


def _join(
    first: AnyArray | None, second: AnyArray | None, kept_first: BoolArray, kept_second: BoolArray
) -> tuple[AnyArray, BoolArray]:
    """Return an attribute of links inside and across; zeros, and a mask, where one of the two is not stored."""
    counts = int(kept_first.sum()), int(kept_second.sum())
    missing = np.repeat([first is None, second is None], counts)
    stored = next(values for values in (first, second) if values is not None)
    shape, dtype = stored.shape[1:], stored.dtype
    parts = (
        np.zeros((counts[0], *shape), dtype=dtype) if first is None else first[kept_first],
        np.zeros((counts[1], *shape), dtype=dtype) if second is None else second[kept_second],
    )
    return np.concatenate(parts), missing
