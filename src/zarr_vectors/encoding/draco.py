"""Draco blobs, format 11.2: positions and faces of a chunk in one bitstream (extra ``draco``)."""

from dataclasses import dataclass
from types import ModuleType
from typing import Final

import numpy as np
import numpy.typing as npt

from zarr_vectors.encoding.rows import encode_rows
from zarr_vectors.exceptions import DecodeError, EncodeError, InputError, MissingDependencyError
from zarr_vectors.typing import AnyArray, Buffer, IntArray

MAX_QUANTIZATION_BITS: Final = 30
MAX_LEVEL: Final = 10


@dataclass(frozen=True, slots=True, eq=False)
class DracoMesh:
    """What a Draco bitstream holds."""

    positions: AnyArray
    """(rows, 3), in the order of the bitstream."""
    faces: IntArray
    """(faces, 3), rows of ``positions``; empty for a point cloud."""


def decode_draco(blob: Buffer) -> DracoMesh:
    """Return the positions and faces of a Draco bitstream.

    Raises
    ------
    DecodeError
        If the bytes are not a Draco bitstream.
    MissingDependencyError
        If the extra ``draco`` is not installed.
    """
    draco = _draco()
    try:
        mesh = draco.decode(memoryview(blob).tobytes())
    # MemoryError: damaged counts make the Draco library ask for more memory than there is.
    except (draco.FileTypeException, ValueError, MemoryError) as error:
        raise DecodeError(f"not a Draco bitstream: {error}", rule="draco") from error
    if mesh.points is None:
        raise DecodeError("the Draco bitstream holds no positions", rule="draco")
    positions: npt.NDArray[np.generic] = np.asarray(mesh.points)
    faces = np.asarray(getattr(mesh, "faces", np.empty((0, 3))), dtype=np.int64).reshape(-1, 3)
    if faces.size and (faces.min() < 0 or faces.max() >= len(positions)):
        raise DecodeError("a face of the Draco bitstream names a vertex that is not in it", rule="draco-faces")
    return DracoMesh(positions, faces)


def encode_draco(positions: AnyArray, faces: IntArray, *, quantization_bits: int, level: int = 7) -> bytes:
    """Return positions and faces as one Draco bitstream that keeps the order of both.

    Parameters
    ----------
    positions : (rows, 3)
        Stored as float32, rounded to ``2**quantization_bits`` steps over their extent.
    faces : (faces, 3)
    quantization_bits
        1 to 30; fewer bits, smaller and coarser.
    level
        0 to 10; higher, smaller and slower.

    Raises
    ------
    EncodeError
        If the positions are not finite float32 rows of three, or a face names another vertex.
    """
    if not 1 <= quantization_bits <= MAX_QUANTIZATION_BITS:
        raise InputError(f"quantisation takes 1 to {MAX_QUANTIZATION_BITS} bits, not {quantization_bits}")
    if not 0 <= level <= MAX_LEVEL:
        raise InputError(f"Draco's level is 0 to {MAX_LEVEL}, not {level}")
    if len(positions) == 0 or positions.shape[1:] != (3,):
        raise EncodeError(f"a Draco mesh has positions of shape (n, 3), not {positions.shape}", rule="draco")
    rows = encode_rows(positions, "float32")
    draco = _draco()
    try:
        blob: bytes = draco.encode(
            rows,
            faces.astype(np.uint32) if len(faces) else None,
            quantization_bits=quantization_bits,
            compression_level=level,
            # Another order would no longer fit the rows of attributes and links.
            preserve_order=True,
        )
    except (draco.EncodingFailedException, ValueError) as error:
        raise EncodeError(f"Draco can't encode the mesh: {error}", rule="draco") from error
    return blob


def _draco() -> ModuleType:
    try:
        import DracoPy  # noqa: PLC0415
    except ImportError as error:
        raise MissingDependencyError("a Draco mesh", extra="draco") from error
    return DracoPy  # type: ignore[no-any-return]
