"""Manifests, resolved to fragments of chunks that are loaded."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from zarr_vectors.constants import OBJECT_INDEX, VERTEX_FRAGMENTS
from zarr_vectors.core.keys import chunk_key
from zarr_vectors.core.limits import DEFAULT_LIMITS, ReadLimits
from zarr_vectors.encoding.manifests import EXPLICIT, ManifestTable
from zarr_vectors.exceptions import DecodeError, MissingChunkError
from zarr_vectors.query.chunks import LoadedChunks
from zarr_vectors.ragged import concatenated_ranges
from zarr_vectors.typing import BoolArray, IntArray

_ROWS_PER_BLOCK: Final = 4
"""What a block's bytes weigh against row numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class NamedFragments:
    """Fragments in manifest order, object after object."""

    objects: IntArray
    """Position of the object in the manifest table, for each fragment."""
    fragments: IntArray
    """Number of the fragment among those of the loaded chunks."""
    gaps: IntArray
    """How many blocks of chunks that are not loaded come before, through all objects."""


def fragments_of_manifests(
    manifests: ManifestTable,
    loaded: LoadedChunks,
    object_ids: IntArray,
    *,
    skip_missing: bool = False,
    limits: ReadLimits = DEFAULT_LIMITS,
) -> NamedFragments:
    """Return the fragments that manifests name.

    Parameters
    ----------
    manifests
        Of some objects.
    loaded
        Chunks with their fragments.
    object_ids
        The ids of these objects, to name them in an error.
    skip_missing
        Leave out blocks of chunks that are not loaded, instead of raising.
    limits
        How many rows they may name.

    Raises
    ------
    MissingChunkError, DecodeError
        If a manifest names a chunk or a fragment that does not exist; names the object.
    """
    blocks = np.arange(manifests.num_blocks, dtype=np.int64)
    owners = np.repeat(np.arange(manifests.num_objects, dtype=np.int64), np.diff(manifests.object_offsets))
    chunks = loaded.find_chunks(manifests.chunk_coords)
    missing = chunks < 0
    if missing.any():
        if not skip_missing:
            block = int(np.argmax(missing))
            node = chunk_key(manifests.chunk_coords[block].tolist())
            raise MissingChunkError("a manifest names this chunk, which does not exist").at(
                array=VERTEX_FRAGMENTS, chunk=node, object_id=int(object_ids[owners[block]])
            )
        blocks = blocks[~missing]
    gaps: IntArray = np.cumsum(missing, dtype=np.int64)[blocks]
    owners, chunks = owners[blocks], chunks[blocks]
    modes, starts, counts = manifests.modes[blocks], manifests.starts[blocks], manifests.counts[blocks]
    available = np.diff(loaded.fragment_offsets)[chunks]
    listed = modes == EXPLICIT
    _require_inside(~listed & (starts + counts > available), manifests, blocks, object_ids[owners], available)
    # Ranges are inside their chunk now, but any number of them may name the same fragments.
    limit = limits.max_rows(loaded.num_rows + _ROWS_PER_BLOCK * manifests.num_blocks + len(manifests.explicit))
    _require_fewer(counts, limit)
    values = concatenated_ranges(starts, counts)
    explicit = np.repeat(listed, counts)
    values[explicit] = manifests.explicit[values[explicit]]
    of_block = np.repeat(np.arange(len(blocks)), counts)
    outside = values >= available[of_block]
    if outside.any():
        bad = np.zeros(len(blocks), dtype=np.bool_)
        bad[of_block[outside]] = True
        _require_inside(bad, manifests, blocks, object_ids[owners], available)
    values += loaded.fragment_offsets[chunks][of_block]
    _require_fewer(loaded.fragments.counts[values], limit)
    return NamedFragments(owners[of_block], values, gaps[of_block])


def _require_fewer(counts: IntArray, limit: int) -> None:
    if counts.sum(dtype=np.float64) > limit:
        message = f"the manifests name more than {limit} rows: give a larger max_bytes to read them"
        raise DecodeError(message, rule="limit").at(array=OBJECT_INDEX)


def _require_inside(
    bad: BoolArray, manifests: ManifestTable, blocks: IntArray, owners: IntArray, available: IntArray
) -> None:
    if not bad.any():
        return
    first = int(np.argmax(bad))
    node = chunk_key(manifests.chunk_coords[blocks[first]].tolist())
    raise DecodeError(f"a manifest names a fragment beyond the chunk's {available[first]}", rule="fragment").at(
        array=VERTEX_FRAGMENTS, chunk=node, object_id=int(owners[first])
    )
