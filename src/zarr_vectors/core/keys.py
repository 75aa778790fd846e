"""Every node name and chunk key, in both directions.

>>> chunk_key((-1, 0, 2))
'-1.0.2'
>>> parse_chunk_key("-1.0.2", 3)
(-1, 0, 2)
>>> parse_chunk_key("00.0.0", 3) is None
True
>>> delta_name(1), delta_name(0), delta_name(-2)
('+1', '0', '-2')
"""

import operator
import re
from collections.abc import Sequence
from typing import Final

from zarr_vectors.constants import ARRAY_KINDS
from zarr_vectors.exceptions import InputError, locate
from zarr_vectors.typing import ChunkCoords

NODE: Final = "zarr.json"
DATA: Final = "data"
OFFSETS: Final = "offsets"
PRESENT_MASK: Final = "present_mask"
MANIFESTS: Final = "manifests"
TEMPORARY_PREFIX: Final = ".zv-"
"""Begins the names of files that are being written: they are no part of the store yet."""

_COORDINATE: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")
_INT64_MAX: Final = 2**63 - 1
_MAX_NAME_BYTES: Final = 255
_FIRST_PRINTABLE: Final = " "


def chunk_key(coords: Sequence[int]) -> str:
    """Return the key of a chunk: its coordinates, joined by dots."""
    return ".".join(str(operator.index(value)) for value in coords)


def parse_chunk_key(key: str, ndim: int) -> ChunkCoords | None:
    """Return the coordinates of a chunk key, or ``None`` if it is not one of this rank."""
    parts = key.split(".")
    if len(parts) != ndim or not all(_COORDINATE.fullmatch(part) for part in parts):
        return None
    coords = tuple(int(part) for part in parts)
    return coords if all(abs(value) <= _INT64_MAX for value in coords) else None


def delta_name(delta: int) -> str:
    """Return the node name of a level delta: ``0``, ``+1``, ``-1``."""
    return f"{delta:+d}" if delta else "0"


def parse_delta_name(name: str) -> int | None:
    """Return the level delta of a node name, or ``None`` if it is not one."""
    if name == "0":
        return 0
    return int(name) if re.fullmatch(r"[+-][1-9][0-9]{0,3}", name) else None


def parse_level_name(name: str) -> int | None:
    """Return the number of a level group's name, or ``None`` if it is not one."""
    return int(name) if re.fullmatch(r"0|[1-9][0-9]{0,3}", name) else None


def array_path(array: str, *, name: str | None = None, delta: int | None = None) -> str:
    """Return the path of one array below its level.

    >>> array_path("link_attributes", name="weight", delta=0)
    'link_attributes/weight/0'

    Raises
    ------
    InputError
        If the format has no such array, or it needs a name or a delta that is not given.
    """
    if array not in ARRAY_KINDS:
        raise InputError(f"{array!r} is not an array of the format: {', '.join(ARRAY_KINDS)}")
    given = {"name": None if name is None else check_name(name), "delta": None if delta is None else delta_name(delta)}
    parts = [array]
    for part in ARRAY_KINDS[array].path_parts:
        value = given[part]
        if value is None:
            raise InputError(f"an array of {array} has a {part}, and none is given")
        parts.append(value)
    return "/".join(parts)


def array_name_of(path: str) -> str:
    """Return the canonical array name that a path below a level begins with."""
    return path.split("/", 1)[0]


def check_array_path(path: str) -> str:
    """Return the path of an array that metadata name, or raise if it leaves the store or is no path of its array."""
    parts = path.split("/")
    kind = ARRAY_KINDS.get(parts[0])
    if kind is None:
        # An array that a later format may have: it need only stay inside.
        for part in parts:
            check_name(part)
        return path
    if len(parts) != 1 + len(kind.path_parts):
        wanted = "/".join([kind.name, *(f"<{part}>" for part in kind.path_parts)])
        raise InputError(f"{path!r:.80} is not the path of an array: {wanted} is").at(array=kind.name)
    for what, part in zip(kind.path_parts, parts[1:], strict=True):
        if what == "name":
            with locate(array=kind.name):
                check_name(part)
        elif parse_delta_name(part) is None:
            raise InputError(f"{part!r:.80} is not a level delta such as 0, +1 or -1").at(array=kind.name)
    return path


def check_name(name: str) -> str:
    """Return a name that users chose, or raise if it can't be one node of a Zarr hierarchy."""
    reserved = name.startswith(("__", TEMPORARY_PREFIX)) or name == NODE
    if reserved or not name.strip("."):
        kinds = f"empty, dots alone, '__…', '{TEMPORARY_PREFIX}…' and {NODE!r} are reserved"
        raise InputError(f"{name!r} can't be a name in a store: {kinds}")
    if any(character in "/\\" or character < _FIRST_PRINTABLE for character in name):
        raise InputError(f"{name!r} can't be a name in a store: it has a path separator or a control character")
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise InputError(f"{name!r} can't be a name in a store: it is not valid text") from error
    if size > _MAX_NAME_BYTES:
        raise InputError(f"a name in a store has at most {_MAX_NAME_BYTES} bytes, {name[:20]!r}… has more")
    return name
