"""Chunks, fetched in one batch and decoded into whole arrays: rows and fragments numbered through all of them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from zarr_vectors.constants import (
    FRAGMENT_ATTRIBUTES,
    LINK_ATTRIBUTES,
    LINKS,
    OBJECT_ID_ATTRIBUTE,
    OBJECT_INDEX,
    VERTEX_ATTRIBUTES,
    VERTEX_FRAGMENTS,
    VERTICES,
)
from zarr_vectors.core.arrays import decode_attribute
from zarr_vectors.core.group import DRACO_ENCODING, FsGroup, PayloadKey
from zarr_vectors.core.keys import array_path, chunk_key
from zarr_vectors.encoding.draco import decode_draco
from zarr_vectors.encoding.fragments import decode_fragments
from zarr_vectors.encoding.links import decode_links
from zarr_vectors.encoding.rows import decode_rows
from zarr_vectors.exceptions import DecodeError, MissingChunkError, locate
from zarr_vectors.query.checks import check_places
from zarr_vectors.query.conditions import check_categories
from zarr_vectors.ragged import Ragged, offsets_from_counts
from zarr_vectors.typing import AnyArray, ByteArray, IntArray

FRAGMENT_OWNERS: Final = array_path(FRAGMENT_ATTRIBUTES, name=OBJECT_ID_ATTRIBUTE)
LINKS_INSIDE: Final = array_path(LINKS, delta=0)


@dataclass(frozen=True, slots=True)
class Need:
    """What a query needs of each chunk besides its positions."""

    fragments: bool = False
    owners: bool = False
    """The object of each fragment, and with it the fragments."""
    links: bool = False
    attributes: tuple[str, ...] = ()
    link_attributes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class LoadedChunks:
    """Chunks in memory; rows, fragments and links are numbered through all of them."""

    coords: IntArray
    row_offsets: IntArray
    positions: AnyArray
    attributes: dict[str, AnyArray]
    """As stored: text as numbers of categories."""
    fragments: Ragged
    """Rows of each fragment."""
    fragment_offsets: IntArray
    owners: IntArray | None
    """The object of each fragment, -1 for none."""
    links: IntArray
    """(links, width) rows."""
    link_attributes: dict[str, AnyArray]
    lacks_links: bool
    """Whether a chunk stores no links: it may have none, or they may be lost."""

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return len(self.positions)

    def find_chunks(self, coords: IntArray) -> IntArray:
        """Return the number of each chunk, -1 for those that are not loaded."""
        return match_rows(self.coords, coords)


@dataclass(slots=True)
class Fetch:
    """The payloads of one read; each is asked for once."""

    group: FsGroup
    payloads: dict[PayloadKey, ByteArray | None] = field(default_factory=dict)

    def get(self, arrays: Sequence[str], nodes: Sequence[str]) -> None:
        """Bring in the payloads of some arrays and chunks, in one batch."""
        wanted = [(array, node) for array in arrays for node in nodes if (array, node) not in self.payloads]
        if wanted:
            self.payloads.update(zip(wanted, self.group.read_payloads(wanted), strict=True))

    @contextmanager
    def payload(self, array: str, node: str) -> Iterator[ByteArray]:
        """Lend a payload that must be there; errors on the way name it."""
        with locate(level=self.group.level, array=array, chunk=node):
            found = self.payloads[array, node]
            if found is None:
                raise MissingChunkError("the data are promised and not there")
            yield found


def load_chunks(fetch: Fetch, coords: IntArray, need: Need, *, link_width: int = 2) -> LoadedChunks:
    """Return chunks with what is needed of them; one batch of requests for what is not there yet.

    Parameters
    ----------
    fetch
        What was read before.
    coords : (chunks, ndim)
        Ascending, each once.
    need
        What to read.
    link_width
        Ends of a link.
    """
    group = fetch.group
    nodes = [chunk_key(row) for row in coords.tolist()]
    fetch.get(_arrays(group, need), nodes)
    positions, faces = _load_positions(fetch, nodes)
    check_places(group, coords, positions)
    num_rows = [len(rows) for rows in positions]
    row_offsets = _offsets(num_rows)
    fragments, fragment_offsets = (
        _load_fragments(fetch, nodes, row_offsets) if _in_fragments(need) else _no_fragments(nodes)
    )
    owners = _load_owners(fetch, nodes, np.diff(fragment_offsets).tolist()) if need.owners else None
    links: list[IntArray] = []
    if need.links:
        links = faces if _is_draco(group) else _load_links(fetch, nodes, num_rows)
        _check_widths(group, nodes, links, link_width)
    num_links = [len(rows) for rows in links]
    shifted = [rows + start for rows, start in zip(links, row_offsets[:-1].tolist(), strict=False)]
    return LoadedChunks(
        coords=coords,
        row_offsets=row_offsets,
        positions=_joined(positions) if positions else _no_positions(group),
        attributes={
            name: _load_attribute(fetch, array_path(VERTEX_ATTRIBUTES, name=name), nodes, num_rows)
            for name in need.attributes
        },
        fragments=fragments,
        fragment_offsets=fragment_offsets,
        owners=owners,
        links=np.concatenate([np.empty((0, link_width), dtype=np.int64), *shifted]),
        link_attributes={
            name: _load_attribute(fetch, array, nodes, num_links)
            for name, array in _link_attributes(group, need).items()
        },
        lacks_links=need.links and any(fetch.payloads.get((LINKS_INSIDE, node)) is None for node in nodes),
    )


def match_rows(known: IntArray, wanted: IntArray) -> IntArray:
    """Return for each row of ``wanted`` its number among the sorted, distinct rows of ``known``, or -1.

    >>> match_rows(np.array([[0, 1], [2, 0]]), np.array([[2, 0], [5, 5]])).tolist()
    [1, -1]
    """
    if len(known) == 0 or len(wanted) == 0:
        return np.full(len(wanted), -1, dtype=np.int64)
    low, high = known.min(axis=0), known.max(axis=0)
    # Numbers of Python: coordinates on disk may be so far apart that int64 has no room for it.
    extent = [int(last) - int(first) + 1 for first, last in zip(low, high, strict=True)]
    if np.prod([float(value) for value in extent]) >= 2**62:
        merged, inverse = np.unique(np.concatenate([known, wanted]), axis=0, return_inverse=True)
        number = np.full(len(merged), -1, dtype=np.int64)
        inverse = inverse.reshape(-1)
        number[inverse[: len(known)]] = np.arange(len(known))
        return number[inverse[len(known) :]]
    inside = ((wanted >= low) & (wanted <= high)).all(axis=1)
    keys = np.ravel_multi_index(tuple((known - low).T), extent)
    found = np.full(len(wanted), -1, dtype=np.int64)
    asked = np.ravel_multi_index(tuple((wanted[inside] - low).T), extent)
    place = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    found[inside] = np.where(keys[place] == asked, place, -1)
    return found


def _arrays(group: FsGroup, need: Need) -> list[str]:
    """Return the arrays to read of each chunk."""
    arrays = [VERTICES, *(array_path(VERTEX_ATTRIBUTES, name=name) for name in need.attributes)]
    if _in_fragments(need):
        arrays.append(VERTEX_FRAGMENTS)
    if need.owners:
        arrays.append(FRAGMENT_OWNERS)
    if need.links and not _is_draco(group):
        arrays.append(LINKS_INSIDE)
    return [*arrays, *_link_attributes(group, need).values()]


def _link_attributes(group: FsGroup, need: Need) -> dict[str, str]:
    """Return the arrays of link attributes by name, those that links inside chunks have."""
    paths = {name: array_path(LINK_ATTRIBUTES, name=name, delta=0) for name in need.link_attributes}
    known = group.find_array_metas(list(paths.values()))
    return {name: path for (name, path), meta in zip(paths.items(), known, strict=True) if meta is not None}


def _in_fragments(need: Need) -> bool:
    return need.fragments or need.owners


def _is_draco(group: FsGroup) -> bool:
    return group.read_array_meta(VERTICES).encoding == DRACO_ENCODING


def _load_positions(fetch: Fetch, nodes: Sequence[str]) -> tuple[list[AnyArray], list[IntArray]]:
    """Return the positions of each chunk, and its faces where Draco packs them together."""
    group = fetch.group
    positions: list[AnyArray] = []
    faces: list[IntArray] = []
    draco = _is_draco(group)
    for node in nodes:
        with fetch.payload(VERTICES, node) as payload:
            if draco:
                mesh = decode_draco(payload.data)
                if mesh.positions.shape[1:] != (group.ndim,):
                    message = f"Draco positions of shape {mesh.positions.shape} in a store of {group.ndim} axes"
                    raise DecodeError(message, rule="draco")
                positions.append(mesh.positions)
                faces.append(mesh.faces)
            else:
                positions.append(group.decode_vertices(payload))
    return positions, faces


def _no_positions(group: FsGroup) -> AnyArray:
    dtype = group.dtype_of(group.read_array_meta(VERTICES), VERTICES)
    return np.empty((0, group.ndim), dtype=dtype)


def _load_fragments(fetch: Fetch, nodes: Sequence[str], row_offsets: IntArray) -> tuple[Ragged, IntArray]:
    """Return the rows of each fragment, and the offsets of the chunks' fragments."""
    limits = fetch.group.limits
    left = limits.max_rows(int(row_offsets[-1]))
    rows = [np.empty(0, dtype=np.int64)]
    counts = [np.empty(0, dtype=np.int64)]
    for node, start, end in zip(nodes, row_offsets[:-1].tolist(), row_offsets[1:].tolist(), strict=True):
        with fetch.payload(VERTEX_FRAGMENTS, node) as payload:
            num_rows = None if limits.trusted else end - start
            local, offsets = decode_fragments(payload.data, num_rows=num_rows).rows(limit=left)
        left -= len(local)
        rows.append(local + start)
        counts.append(np.diff(offsets))
    ragged = Ragged(np.concatenate(rows), offsets_from_counts(np.concatenate(counts)))
    return ragged, _offsets([len(item) for item in counts[1:]])


def _no_fragments(nodes: Sequence[str]) -> tuple[Ragged, IntArray]:
    offsets = np.zeros(len(nodes) + 1, dtype=np.int64)
    return Ragged(offsets[:0], offsets[:1]), offsets


def _load_owners(fetch: Fetch, nodes: Sequence[str], num_fragments: Sequence[int]) -> IntArray:
    group = fetch.group
    (index,) = group.find_array_metas([OBJECT_INDEX])
    last = np.iinfo(np.int64).max if index is None or index.num_objects is None else index.num_objects - 1
    owners = [np.empty(0, dtype=np.int64)]
    for node, count in zip(nodes, num_fragments, strict=True):
        with fetch.payload(FRAGMENT_OWNERS, node) as payload:
            ids = decode_rows(payload.data, "int64", num_rows=count).astype(np.int64)
            if not group.limits.trusted and count and (ids.min() < -1 or ids.max() > last):
                raise DecodeError(f"a fragment is of an object that is not one of {last + 1}", rule="object-id")
            owners.append(ids)
    return np.concatenate(owners)


def _load_links(fetch: Fetch, nodes: Sequence[str], num_rows: Sequence[int]) -> list[IntArray]:
    """Return the links of each chunk; a chunk without links stores none."""
    group = fetch.group
    (meta,) = group.find_array_metas([LINKS_INSIDE])
    if meta is None:
        return []
    if meta.link_width is None:
        raise DecodeError("the array's metadata do not say its link_width", rule="link-width").at(
            level=group.level, array=LINKS_INSIDE
        )
    dtype = group.dtype_of(meta, LINKS_INSIDE)
    loaded: list[IntArray] = []
    for node, rows in zip(nodes, num_rows, strict=True):
        stored = fetch.payloads[LINKS_INSIDE, node]
        payload = np.empty(0, dtype=np.uint8) if stored is None else stored
        with locate(level=group.level, array=LINKS_INSIDE, chunk=node):
            known = None if group.limits.trusted else rows
            links = decode_links(payload.data, dtype, width=meta.link_width, num_rows=known).astype(np.int64)
            loaded.append(_parents_as_links(links, rows) if meta.link_width == 1 else links)
    return loaded


def _check_widths(group: FsGroup, nodes: Sequence[str], links: Sequence[IntArray], width: int) -> None:
    for node, rows in zip(nodes, links, strict=False):
        if rows.shape[1] != width:
            raise DecodeError(f"links have {rows.shape[1]} ends, {width} belong there", rule="link-width").at(
                level=group.level, array=LINKS_INSIDE, chunk=node
            )


def _parents_as_links(parents: IntArray, num_rows: int) -> IntArray:
    """Return rows [child, parent] where row ``k`` holds the parent of vertex ``k``, itself or -1 for a root."""
    if len(parents) not in (0, num_rows):
        raise DecodeError(f"{len(parents)} parents for {num_rows} vertices", rule="row-count")
    column = parents.reshape(-1)
    children = np.flatnonzero((column >= 0) & (column != np.arange(len(column))))
    return np.stack([children, column[children]], axis=1)


def _load_attribute(fetch: Fetch, array: str, nodes: Sequence[str], num_rows: Sequence[int]) -> AnyArray:
    group = fetch.group
    meta = group.read_array_meta(array)
    dtype = group.dtype_of(meta, array)
    values: list[AnyArray] = []
    for node, rows in zip(nodes, num_rows, strict=True):
        if rows or fetch.payloads[array, node] is not None:
            with fetch.payload(array, node) as payload:
                values.append(decode_attribute(meta, payload, dtype, rows))
                check_categories(values[-1], meta.categories)
    if not values:
        tail = (len(meta.channel_names),) if meta.channel_names else tuple((meta.shape or (0,))[1:])
        with locate(level=group.level, array=array):
            return decode_rows(b"", dtype, width=tail or None)
    if len({item.shape[1:] for item in values}) > 1:
        raise DecodeError("chunks of one attribute differ in channels", rule="row-width").at(
            level=group.level, array=array
        )
    return _joined(values)


def _joined(parts: Sequence[AnyArray]) -> AnyArray:
    return np.concatenate(parts) if len(parts) > 1 else parts[0]


def _offsets(counts: Sequence[int]) -> IntArray:
    return offsets_from_counts(np.array(counts, dtype=np.int64))
