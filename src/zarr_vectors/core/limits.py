"""How far a reader goes along with what a store says: ceilings on memory, and which checks are made."""

from dataclasses import dataclass
from typing import Final

from zarr_vectors.encoding.codecs import MAX_PAYLOAD_BYTES

UNQUESTIONED_BYTES: Final = 64 * 1024 * 1024
"""What a payload may unpack to, however few bytes are stored."""
MAX_RATIO: Final = 256
"""Beyond that, so many bytes for each one that is stored: a chunk of real data stays far below."""

_ROW_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """What a reader allows a store to ask of it."""

    max_bytes: int | None = None
    """Most bytes of one payload, and of the row numbers of one read. ``None``: 2 GiB, and no more than
    256 for each byte that is stored; a number is taken as it is."""
    trusted: bool = False
    """Leave out the checks that rows, fragments, chunks and links which are named exist."""

    def ceiling(self, stored: int) -> int:
        """Return how many bytes may be made of so many that are stored."""
        if self.max_bytes is not None:
            return self.max_bytes
        return min(MAX_PAYLOAD_BYTES, max(UNQUESTIONED_BYTES, MAX_RATIO * stored))

    def max_rows(self, available: int) -> int:
        """Return how many row numbers may be listed over so many rows, counted with repeats."""
        return self.ceiling(_ROW_BYTES * available) // _ROW_BYTES


DEFAULT_LIMITS: Final = ReadLimits()
