"""The codec table of format 11.3, and how a caller overrides it.

>>> get_default_compressor("links", itemsize=2)["configuration"]["shuffle"]
'bitshuffle'
>>> get_default_compressor("vertex_fragments") is None
True
>>> [codec["name"] for codec in codec_pipeline("vertices", "float32")]
['bytes', 'blosc', 'crc32c']
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from zarr_vectors.constants import ARRAY_KINDS
from zarr_vectors.exceptions import InputError
from zarr_vectors.typing import JSON

Codec = dict[str, JSON]
"""One codec as Zarr v3 metadata spell it: ``name`` and ``configuration``."""

Compressor = str | None | Mapping[str, "JSON | Mapping[str, JSON]"]
"""``"default"``, ``None`` (no compression), a name of `NAMED`, a codec, or one of these by array name."""

CHECKSUM: Final[Codec] = {"name": "crc32c"}

_BLOSC_LEVEL: Final = 5


def get_default_compressor(array_name: str, itemsize: int = 1) -> Codec | None:
    """Return the codec that the format gives an array, or ``None`` where its bytes stay raw.

    Parameters
    ----------
    array_name
        One of `zarr_vectors.constants.ALL_ARRAY_NAMES`.
    itemsize
        Bytes of one item, for the shuffle.
    """
    kind = ARRAY_KINDS.get(array_name)
    if kind is None:
        raise InputError(f"{array_name!r} is not an array of the format: {', '.join(ARRAY_KINDS)}")
    if kind.shuffle is None:
        return None
    return _blosc(kind.shuffle, itemsize)


def codec_pipeline(
    array_name: str, dtype: str, *, compressor: Compressor = "default", checksum: bool = True
) -> list[Codec]:
    """Return the whole Zarr v3 codec pipeline of an array: bytes, compressor, checksum.

    Parameters
    ----------
    array_name
        One of `zarr_vectors.constants.ALL_ARRAY_NAMES`.
    dtype
        Of the items; ``"bytes"`` for variable-length bytes.
    compressor
        See `Compressor`. A mapping by array name leaves the others at the default.
    checksum
        Put a crc32c after the compressor; fragment indices never have one (format 11.4).
    """
    if dtype == "bytes":
        serializer: Codec = {"name": "vlen-bytes"}
        itemsize = 1
    else:
        itemsize = np.dtype(dtype).itemsize
        serializer = {"name": "bytes"} if itemsize == 1 else {"name": "bytes", "configuration": {"endian": "little"}}
    chosen = _choose(array_name, itemsize, compressor)
    pipeline = [serializer] if chosen is None else [serializer, chosen]
    if checksum and ARRAY_KINDS[array_name].shuffle is not None:
        pipeline.append(CHECKSUM)
    return pipeline


def _choose(array_name: str, itemsize: int, compressor: Compressor) -> Codec | None:
    default = get_default_compressor(array_name, itemsize)
    if default is None and not (isinstance(compressor, Mapping) and array_name in compressor):
        return None
    if isinstance(compressor, Mapping):
        if "name" in compressor:
            return _checked(dict(compressor), itemsize)
        unknown = set(compressor) - set(ARRAY_KINDS)
        if unknown:
            raise InputError(f"no array of the format is called {', '.join(sorted(map(repr, unknown)))}")
        if array_name not in compressor:
            return default
        chosen = compressor[array_name]
        return _checked(dict(chosen), itemsize) if isinstance(chosen, Mapping) else _named(chosen, default, itemsize)
    return _named(compressor, default, itemsize)


def _named(compressor: object, default: Codec | None, itemsize: int) -> Codec | None:
    if compressor is None:
        return None
    if compressor == "default":
        return default
    named: dict[str, Codec] = {
        "blosc": default or _blosc("shuffle", itemsize),
        "lz4": _blosc("shuffle", itemsize, "lz4"),
        "zstd": {"name": "zstd", "configuration": {"level": 3, "checksum": False}},
        "gzip": {"name": "gzip", "configuration": {"level": 5}},
    }
    if not isinstance(compressor, str) or compressor not in named:
        raise InputError(f"compressor {compressor!r} is not known: use 'default', None, {', '.join(named)} or a codec")
    return named[compressor]


def _checked(codec: dict[str, object], itemsize: int) -> Codec:
    if not isinstance(codec.get("name"), str):
        raise InputError(f"a codec is a mapping with a name and a configuration, not {codec!r}")
    configuration = codec.get("configuration", {})
    if not isinstance(configuration, Mapping):
        raise InputError(f"the configuration of a codec is a mapping, not {configuration!r}")
    result: dict[str, JSON] = dict(configuration)
    if codec["name"] == "blosc":
        standard = _blosc("shuffle", itemsize)["configuration"]
        result = {**(standard if isinstance(standard, dict) else {}), **result, "typesize": itemsize}
    return {"name": str(codec["name"]), "configuration": result}


def _blosc(shuffle: str, itemsize: int, cname: str = "zstd") -> Codec:
    configuration: dict[str, JSON] = {
        "typesize": itemsize,
        "cname": cname,
        "clevel": _BLOSC_LEVEL,
        "shuffle": shuffle,
        "blocksize": 0,
    }
    return {"name": "blosc", "configuration": configuration}
