"""Names for the shapes of data that pass between modules."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

JSON = dict[str, "JSON"] | list["JSON"] | str | int | float | bool | None

ChunkCoords = tuple[int, ...]
"""Integer coordinates of a chunk in its level's grid."""

Buffer = bytes | bytearray | memoryview
"""Bytes as they come from storage or go to it."""

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
ByteArray = npt.NDArray[np.uint8]
AnyArray = npt.NDArray[np.generic]
IntegerArray = npt.NDArray[np.integer]

FragmentRef = int | tuple[int, int] | IntArray
"""Fragments of one manifest block: one index, ``(start, count)``, or a list of indices."""

FragmentLike = tuple[int, int] | Sequence[int] | npt.NDArray[np.integer]
"""A fragment to encode: ``(start, count)``, or the rows themselves."""
