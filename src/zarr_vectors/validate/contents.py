"""The contents of one level, at levels 3 to 5: one pass over its chunks, then over what is stored once."""

import numpy as np

from zarr_vectors.constants import (
    CROSS_CHUNK_LINK_ATTRIBUTES,
    CROSS_CHUNK_LINKS,
    FRAGMENT_ATTRIBUTES,
    OBJECT_ID_ATTRIBUTE,
    OBJECT_INDEX,
)
from zarr_vectors.core.arrays import read_cross_chunk_link_attribute
from zarr_vectors.core.keys import array_name_of, array_path
from zarr_vectors.exceptions import ZarrVectorsError
from zarr_vectors.typing import IntArray
from zarr_vectors.validate.conformance import LevelConformance, check_links
from zarr_vectors.validate.consistency import (
    LINKS_ACROSS,
    Chunk,
    ChunkReader,
    check_arrays_present,
    check_dense,
    check_ends,
    check_orphans,
    check_totals,
    read_records,
)
from zarr_vectors.validate.manifests import Hash, Named, check_manifests, count_objects, mix
from zarr_vectors.validate.pyramid import check_metavertices
from zarr_vectors.validate.report import Findings, Place
from zarr_vectors.validate.trees import TreeCheck
from zarr_vectors.validate.views import BROKEN, LevelView, StoreView, batches, key_of

CONFORMANCE = 4
PYRAMID = 5
_OWNERS = array_path(FRAGMENT_ATTRIBUTES, name=OBJECT_ID_ATTRIBUTE)
_ACROSS_OWNERS = array_path(CROSS_CHUNK_LINK_ATTRIBUTES, name=OBJECT_ID_ATTRIBUTE, delta=0)


def check_contents(view: StoreView, level: LevelView, findings: Findings) -> dict[str, int]:
    """Check one level, and fill in what the levels of a pyramid are compared by.

    Returns
    -------
    totals
        Rows of each array that is stored chunk by chunk; `BROKEN` where they can't be counted.
    """
    conform = findings.level >= CONFORMANCE
    check_orphans(level, findings)
    check_arrays_present(level, findings)
    records = read_records(level, LINKS_ACROSS, findings) if LINKS_ACROSS in level.arrays else None
    reader = ChunkReader(level, findings)
    shape = LevelConformance(level, view, findings, records) if conform else None
    trees = _trees(view, level, records, findings) if conform else None
    stated = _check_chunks(level, reader, shape, trees, findings)
    check_totals(level, reader.totals, findings)
    if conform:
        check_links(level, view, findings)
    if records is not None:
        check_ends(level, LINKS_ACROSS, records, level, findings)
    level.num_objects = count_objects(level)
    by_chunk = not view.geometry.by_object and not level.is_merged
    named = check_manifests(level, findings, one_each=by_chunk)
    if _OWNERS in level.arrays and OBJECT_INDEX in level.arrays and named.complete:
        _check_owners(level, stated, named, findings)
    _check_dense(level, records, findings)
    if shape is not None:
        shape.finish(named, decoded=bool((level.num_rows >= 0).all() and (level.num_fragments >= 0).all()))
    if trees is not None:
        trees.finish()
    return reader.totals


def _check_chunks(
    level: LevelView, reader: ChunkReader, shape: LevelConformance | None, trees: TreeCheck | None, findings: Findings
) -> Hash:
    """Check every chunk, and return for each a sum over the objects that it says its fragments are of."""
    count = len(level.chunks)
    level.num_rows, level.num_fragments, level.num_links = (np.full(count, BROKEN, np.int64) for _ in range(3))
    stated = np.zeros(count, dtype=np.uint64)
    for numbers in batches(level, reader.arrays, level.chunks):
        for number, chunk in zip(numbers.tolist(), reader.read(numbers), strict=True):
            _count(level, number, chunk, stated)
            if shape is not None:
                shape.check(number, chunk)
            if trees is not None:
                trees.check(number, chunk)
            if findings.level >= PYRAMID and level.is_merged:
                check_metavertices(level, chunk, findings)
        findings.tell(f"chunks of level {level.number}", int(numbers[-1]) + 1, count)
    return stated


def _count(level: LevelView, number: int, chunk: Chunk, stated: Hash) -> None:
    level.num_rows[number] = chunk.num_rows
    level.num_fragments[number] = chunk.num_fragments
    level.num_links[number] = chunk.num_links
    if chunk.owners is not None:
        owned = np.flatnonzero(chunk.owners >= 0)
        stated[number] = mix(owned, chunk.owners[owned]).sum(dtype=np.uint64)


def _trees(view: StoreView, level: LevelView, records: IntArray | None, findings: Findings) -> TreeCheck | None:
    if not view.geometry.rooted:
        return None
    nothing = np.empty((0, 2, level.group.ndim + 1), dtype=np.int64)
    links = nothing if records is None or records.shape[1] != nothing.shape[1] else records
    owners: IntArray | None = None
    if _ACROSS_OWNERS in level.arrays:
        try:
            owners = read_cross_chunk_link_attribute(level.group, OBJECT_ID_ATTRIBUTE).astype(np.int64).reshape(-1)
        except ZarrVectorsError:
            owners = None
    if owners is not None and len(owners) != len(links):
        owners = None
    if owners is None and level.group.metadata.shared_fragments:
        links = nothing
    implicit = view.root.links_convention != "explicit"
    return TreeCheck(level, findings, links, owners, implicit=implicit)


def _check_owners(level: LevelView, stated: Hash, named: Named, findings: Findings) -> None:
    def describe(chunk: int) -> tuple[Place, str, object]:
        return (
            Place(level.number, _OWNERS, key_of(level.chunks[chunk])),
            "the objects that name each fragment",
            "others",
        )

    known = (level.num_fragments != BROKEN) & (level.arrays[_OWNERS].sizes_of(level.chunks) != BROKEN)
    findings.add_each("L3.fragment-owners", np.flatnonzero((stated != named.owner_hash) & known), describe)


def _check_dense(level: LevelView, records: IntArray | None, findings: Findings) -> None:
    counts: dict[str, int] = {}
    for path, array in level.arrays.items():
        if array_name_of(path) == CROSS_CHUNK_LINKS:
            stated = array.meta.num_links
            counts[path] = BROKEN if stated is None else stated
    if records is not None:
        counts[LINKS_ACROSS] = len(records)
    check_dense(level, counts, findings)
