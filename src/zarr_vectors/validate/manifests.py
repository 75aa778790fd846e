"""The object index, at levels 2 to 4: offsets, manifests batch by batch, and the fragments that they name.

Memory: one batch of manifests, one byte for each fragment of the level (was it named?), and the
ids of the objects that have any.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from zarr_vectors.constants import MANIFESTS_LAYOUT, OBJECT_INDEX
from zarr_vectors.core.keys import DATA, MANIFESTS, OFFSETS
from zarr_vectors.core.object_index import read_manifests
from zarr_vectors.encoding.buffers import int64_stream
from zarr_vectors.encoding.manifests import EXPLICIT, ManifestTable, decode_manifests, scan_manifests
from zarr_vectors.exceptions import DecodeError, MissingChunkError, ZarrVectorsError
from zarr_vectors.ragged import changes, concatenated_ranges, offsets_from_counts
from zarr_vectors.typing import ByteArray, IntArray
from zarr_vectors.validate.report import Findings, Place
from zarr_vectors.validate.views import BROKEN, LevelView, key_of, read_each

OBJECTS_PER_BATCH: Final = 16_384
Hash = npt.NDArray[np.uint64]

Batch = tuple[int, ManifestTable]
"""The first object of the batch, and the manifests from it on."""


@dataclass(slots=True, eq=False)
class Named:
    """What the manifests of a level name, summed up."""

    fragments: ByteArray
    """One byte a fragment of the level: 1 where a manifest names it."""
    owner_hash: Hash
    """For each chunk, a sum over its fragments and their objects, to compare with what the chunks say."""
    steps: int = 0
    """How often an object goes on in another chunk."""
    complete: bool = True
    """Whether all manifests could be read."""
    present: list[IntArray] = field(default_factory=list)


def count_objects(level: LevelView) -> int:
    """Return how many object ids the level has; `BROKEN` where that is not known."""
    if level.is_identity:
        return int(level.num_fragments.sum()) if (level.num_fragments >= 0).all() else BROKEN
    array = level.arrays.get(OBJECT_INDEX)
    if array is None:
        return 0
    return BROKEN if array.meta.num_objects is None else array.meta.num_objects


def check_manifests(level: LevelView, findings: Findings, *, one_each: bool) -> Named:
    """Check every manifest of a level.

    Parameters
    ----------
    level
        With the fragments of each chunk counted.
    findings
        Where to report.
    one_each
        Whether an object is one fragment in each chunk.
    """
    known = np.maximum(level.num_fragments, 0)
    named = Named(np.zeros(int(known.sum()), dtype=np.uint8), np.zeros(len(known), dtype=np.uint64))
    if level.is_identity:
        named.fragments[:] = 1
        level.objects_present = np.arange(max(level.num_objects, 0))
        return named
    if OBJECT_INDEX not in level.arrays:
        return named
    if level.num_objects == BROKEN or None in level.arrays[OBJECT_INDEX].nodes.values():
        named.complete = False
        return named
    offsets = offsets_from_counts(known)
    for begin, table in _batches(level, named, findings):
        _check_batch(level, begin, table, offsets, named=named, findings=findings, one_each=one_each)
        findings.tell(f"objects of level {level.number}", begin + table.num_objects, level.num_objects)
    level.objects_present = np.concatenate([np.empty(0, np.int64), *named.present])
    return named


def _batches(level: LevelView, named: Named, findings: Findings) -> Iterator[Batch]:
    array = level.arrays[OBJECT_INDEX]
    if array.meta.layout == MANIFESTS_LAYOUT:
        node = array.nodes.get(MANIFESTS)
        if node is None or node.shape != (level.num_objects,):
            named.complete = False
            return
        per_chunk = node.chunk_shape[0]
        size = per_chunk * max(OBJECTS_PER_BATCH // per_chunk, 1)
        for begin in range(0, level.num_objects, size):
            yield from _read_range(level, begin, min(begin + size, level.num_objects), named, findings)
    elif array.meta.layout is None and DATA in array.nodes:
        yield from _legacy_batches(level, named, findings)
    else:
        named.complete = level.num_objects == 0


def _read_range(level: LevelView, begin: int, end: int, named: Named, findings: Findings) -> Iterator[Batch]:
    """Yield the manifests of some objects; around one that is broken, in smaller and smaller parts."""
    try:
        table = read_manifests(level.group, np.arange(begin, end))
    except MissingChunkError as error:
        named.complete = False
        findings.add_error("L1.chunk-data", Place(level.number, OBJECT_INDEX), error)
        return
    except ZarrVectorsError as error:
        if end - begin <= 1 or (isinstance(error, DecodeError) and error.object_id is None):
            # Without an object, it is the chunk of manifests that can't be unpacked.
            code = "L3.manifest-blob" if error.object_id is not None else "L3.blob"
            place = Place(level.number, OBJECT_INDEX, object_id=begin if end - begin <= 1 else None)
            findings.add_error(code, place, error)
            named.complete = False
            return
    else:
        yield begin, table
        return
    half = (begin + end) // 2
    yield from _read_range(level, begin, half, named, findings)
    yield from _read_range(level, half, end, named, findings)


def _legacy_batches(level: LevelView, named: Named, findings: Findings) -> Iterator[Batch]:
    place, count = Place(level.number, OBJECT_INDEX), level.num_objects
    stored = [name for name in (DATA, OFFSETS) if name in level.arrays[OBJECT_INDEX].nodes]
    payloads = read_each(level.group, [(OBJECT_INDEX, name) for name in stored])
    for name, payload in zip(stored, payloads, strict=True):
        if isinstance(payload, ZarrVectorsError):
            findings.add_error("L3.blob", Place(level.number, OBJECT_INDEX, name), payload)
    if any(payload is None or isinstance(payload, ZarrVectorsError) for payload in payloads):
        named.complete = False
        return
    data: ByteArray = payloads[0]  # type: ignore[assignment]
    try:
        if OFFSETS in stored:
            starts = int64_stream(payloads[1].data, what=OFFSETS)  # type: ignore[union-attr]
            if not check_offsets(starts, count, data.nbytes, place, findings):
                named.complete = False
                return
            tail = scan_manifests(data.data, level.group.ndim, min(count, 1), start=int(starts[-1]) if count else 0)
            offsets = np.append(starts, tail[-1]).astype(np.int64)
        else:
            offsets = scan_manifests(data.data, level.group.ndim, count)
    except DecodeError as error:
        findings.add_error("L3.manifest-blob", place, error)
        named.complete = False
        return
    end = int(offsets[-1])
    if data[end:].any():
        findings.add("L3.manifest-trailing", place, f"zeros from byte {end} on", "other bytes")
    for begin in range(0, count, OBJECTS_PER_BATCH):
        yield from _decode_range(
            level, data, offsets, (begin, min(begin + OBJECTS_PER_BATCH, count)), named=named, findings=findings
        )


def _decode_range(
    level: LevelView, data: ByteArray, offsets: IntArray, span: tuple[int, int], *, named: Named, findings: Findings
) -> Iterator[Batch]:
    begin, end = span
    try:
        table = decode_manifests(data.data, offsets[begin : end + 1], level.group.ndim)
    except DecodeError as error:
        if end - begin <= 1:
            error.object_id = begin
            findings.add_error("L3.manifest-blob", Place(level.number, OBJECT_INDEX), error)
            named.complete = False
            return
    else:
        yield begin, table
        return
    half = (begin + end) // 2
    yield from _decode_range(level, data, offsets, (begin, half), named=named, findings=findings)
    yield from _decode_range(level, data, offsets, (half, end), named=named, findings=findings)


def check_offsets(starts: IntArray, count: int, size: int, place: Place, findings: Findings) -> bool:
    """Check the offsets of the legacy layout, and tell whether they can be used."""
    wrong: list[tuple[str, object]] = []
    if len(starts) != count:
        wrong.append((f"{count} offsets", len(starts)))
    if len(starts) and starts[0] != 0:
        wrong.append(("a first offset of 0", int(starts[0])))
    falls = np.flatnonzero(starts[1:] < starts[:-1])
    if len(falls):
        wrong.append(("offsets that never fall", f"a smaller one at {int(falls[0]) + 1}"))
    if len(starts) and (starts.max() > size or starts.min() < 0):
        wrong.append((f"offsets within {size} bytes", f"{int(starts.min())} to {int(starts.max())}"))
    for expected, found in wrong:
        findings.add("L2.legacy-offsets", place, expected, found)
    return not wrong


def _check_batch(
    level: LevelView,
    begin: int,
    table: ManifestTable,
    offsets: IntArray,
    *,
    named: Named,
    findings: Findings,
    one_each: bool,
) -> None:
    owners = begin + np.repeat(np.arange(table.num_objects), np.diff(table.object_offsets))
    named.present.append(begin + np.flatnonzero(np.diff(table.object_offsets) > 0))
    chunks = level.find(table.chunk_coords)

    def at(block: int) -> Place:
        return Place(level.number, OBJECT_INDEX, key_of(table.chunk_coords[block]), int(owners[block]))

    findings.add_each(
        "L3.manifest-chunk", np.flatnonzero(chunks < 0), lambda block: (at(block), "a chunk with vertices", "none")
    )
    if len(chunks):
        named.steps += int((~changes(owners) & changes(chunks)).sum())
    available = np.append(level.num_fragments, BROKEN)[chunks]

    def beyond(block: int) -> tuple[Place, str, object]:
        start, count = int(table.starts[block]), int(table.counts[block])
        is_list = table.modes[block] == EXPLICIT
        last = int(table.explicit[start : start + count].max()) if is_list else start + count - 1
        return at(block), f"fragments below {available[block]}", f"fragment {last}"

    blocks = np.flatnonzero((chunks >= 0) & (available != BROKEN))
    over = (table.modes[blocks] != EXPLICIT) & (table.starts[blocks] + table.counts[blocks] > available[blocks])
    findings.add_each("L3.manifest-fragment-range", blocks[over], beyond)
    # Ranges are inside their chunk now, so expanding them is bounded by what is there.
    blocks = blocks[~over]
    values = concatenated_ranges(table.starts[blocks], table.counts[blocks])
    of_block = np.repeat(blocks, table.counts[blocks])
    explicit = table.modes[of_block] == EXPLICIT
    values[explicit] = table.explicit[values[explicit]]
    outside = values >= available[of_block]
    findings.add_each("L3.manifest-fragment-range", np.unique(of_block[outside]), beyond)
    values, of_block = values[~outside], of_block[~outside]
    _check_repeats(level, offsets[chunks[of_block]] + values, owners[of_block], named, findings)
    np.add.at(named.owner_hash, chunks[of_block], mix(values, owners[of_block]))
    if one_each and not level.group.metadata.shared_fragments and len(of_block):
        _check_one_each(level, owners[of_block], chunks[of_block], findings)


def _check_repeats(level: LevelView, numbers: IntArray, owners: IntArray, named: Named, findings: Findings) -> None:
    if not level.group.metadata.shared_fragments:
        unique, first, counts = np.unique(numbers, return_index=True, return_counts=True)
        again = np.flatnonzero((counts > 1) | (named.fragments[unique] != 0))

        def describe(item: int) -> tuple[Place, str, object]:
            place = Place(level.number, OBJECT_INDEX, object_id=int(owners[first[item]]))
            return place, "fragments that are named once", "one that is named again"

        findings.add_each("L3.fragment-shared", again, describe)
    named.fragments[numbers] = 1


def _check_one_each(level: LevelView, owners: IntArray, chunks: IntArray, findings: Findings) -> None:
    pairs, counts = np.unique(np.stack([owners, chunks], axis=1), axis=0, return_counts=True)

    def describe(pair: int) -> tuple[Place, str, object]:
        place = Place(level.number, OBJECT_INDEX, key_of(level.chunks[pairs[pair, 1]]), int(pairs[pair, 0]))
        return place, "one fragment in the chunk", int(counts[pair])

    findings.add_each("L4.object-fragments", np.flatnonzero(counts > 1), describe)


def mix(*columns: IntArray) -> Hash:
    """Return a hash of each row of some columns, whose sum does not depend on the order of the rows."""
    with np.errstate(over="ignore"):
        total = np.full(len(columns[0]), 0x9E37_79B9_7F4A_7C15, dtype=np.uint64)
        for column in columns:
            total = (total ^ column.astype(np.int64).view(np.uint64)) * np.uint64(0xBF58_476D_1CE4_E5B9)
            total = (total ^ (total >> np.uint64(29))) * np.uint64(0x94D0_49BB_1331_11EB)
            total ^= total >> np.uint64(32)
    return total
