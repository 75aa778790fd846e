"""Vertices and faces of each chunk as one Draco bitstream, format 11.2."""

from dataclasses import dataclass

import numpy as np

from zarr_vectors.constants import VERTICES
from zarr_vectors.core.group import DRACO_ENCODING, FsGroup, chunked_meta
from zarr_vectors.core.keys import chunk_key
from zarr_vectors.encoding.draco import decode_draco, encode_draco
from zarr_vectors.exceptions import EncodeError, InputError, locate
from zarr_vectors.spatial.partition import Layout, LinkLayout
from zarr_vectors.typing import AnyArray, ByteArray
from zarr_vectors.writing.spec import StoreSpec

_CORNERS = 3


@dataclass(frozen=True, slots=True, eq=False)
class DracoChunks:
    """Bitstreams of all chunks, and how far they move a coordinate."""

    blobs: list[tuple[str, ByteArray]]
    num_rows: int
    bits: int
    max_error: float


def encode_draco_chunks(layout: Layout, links: LinkLayout | None, positions: AnyArray, bits: int) -> DracoChunks:
    """Return positions and inner faces as Draco.

    Rows and faces keep their order, so that attributes and links across chunks fit what is decoded.

    Raises
    ------
    InputError
        If Draco can't hold them: in float64, in quadrilaterals, in another order.
    """
    if positions.shape[1] != _CORNERS or links is None or links.rows.shape[1] != _CORNERS:
        raise InputError("Draco holds triangles in three dimensions")
    if positions.dtype != np.float32:
        raise InputError(f"Draco holds float32, the positions are {positions.dtype}: give dtype='float32'")
    blobs: list[tuple[str, ByteArray]] = []
    max_error = 0.0
    for number, coords in enumerate(layout.coords):
        rows = slice(*layout.row_offsets[number : number + 2].tolist())
        inside = slice(*links.chunk_offsets[number : number + 2].tolist())
        with locate(level=0, array=VERTICES, chunk=chunk_key(coords)):
            try:
                blob = encode_draco(positions[rows], links.rows[inside], quantization_bits=bits)
            except EncodeError as error:
                raise InputError(str(error)) from error
            decoded = decode_draco(blob)
            same_rows = decoded.positions.shape == positions[rows].shape
            if not same_rows or not np.array_equal(decoded.faces, links.rows[inside]):
                raise InputError("Draco would change the vertices or faces of this chunk: write it without Draco")
        change = decoded.positions.astype(np.float64) - positions[rows].astype(np.float64)
        max_error = max(max_error, float(np.abs(change).max(initial=0)))
        blobs.append((chunk_key(coords), np.frombuffer(blob, dtype=np.uint8)))
    return DracoChunks(blobs, len(positions), bits, max_error)


def write_draco_chunks(group: FsGroup, chunks: DracoChunks, spec: StoreSpec) -> None:
    """Store bitstreams as the vertices of a level."""
    meta = chunked_meta(
        VERTICES,
        # The codecs are those of bytes; the dtype is that of what is decoded.
        "uint8",
        compressor=None,
        checksum=spec.options.checksum,
        encoding=DRACO_ENCODING,
        shape=[chunks.num_rows, _CORNERS],
        num_chunks=len(chunks.blobs),
        draco_bits=chunks.bits,
        draco_rows="decoded",
        max_error=chunks.max_error,
    )
    group.write_payloads(VERTICES, meta.model_copy(update={"dtype": "float32"}), chunks.blobs)
