"""``zarr.json`` documents: how ours are written, and what we need to know of any array's.

Chunk arrays hold one chunk each. Ours use the ``default`` key encoding with separator ``.``, so
that the chunk lies beside its ``zarr.json`` and no directory is spent on it.
"""

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from zarr_vectors.encoding.rows import ROW_DTYPES, row_dtype
from zarr_vectors.exceptions import DecodeError, EncodeError
from zarr_vectors.typing import Buffer

VLEN_BYTES: Final = "variable_length_bytes"
MAX_DOCUMENT_BYTES: Final = 64 * 1024 * 1024
MAX_DOCUMENT_DEPTH: Final = 64

_ZARR_FORMAT: Final = 3


@dataclass(frozen=True, slots=True)
class ArrayNode:
    """What a chunk array's ``zarr.json`` says, as far as reading its chunks needs it."""

    shape: tuple[int, ...]
    chunk_shape: tuple[int, ...]
    data_type: str
    codecs: tuple[Mapping[str, Any], ...]
    separator: str
    prefix: str
    """``c`` in the default key encoding, empty in that of Zarr v2."""

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Self:
        """Return the array that a document describes, or raise `DecodeError`."""
        if document.get("node_type") != "array" or document.get("zarr_format") != _ZARR_FORMAT:
            raise DecodeError("zarr.json does not describe a Zarr v3 array", rule="node-type")
        shape = _lengths(document.get("shape"), "shape", smallest=0)
        grid = _mapping(document.get("chunk_grid"), "chunk_grid")
        chunk_shape = _lengths(_mapping(grid.get("configuration"), "chunk_grid").get("chunk_shape"), "chunk_shape")
        if grid.get("name") != "regular" or len(shape) != len(chunk_shape):
            raise DecodeError("only regular chunk grids of the array's rank are known", rule="chunk-grid")
        codecs = document.get("codecs")
        if not isinstance(codecs, list) or not all(isinstance(codec, dict) for codec in codecs):
            raise DecodeError("codecs must be a list of objects", rule="codecs")
        if document.get("storage_transformers"):
            raise DecodeError("storage transformers are not known", rule="storage-transformers")
        separator, prefix = _key_encoding(_mapping(document.get("chunk_key_encoding"), "chunk_key_encoding"))
        # Zarr has two names for variable-length bytes.
        data_type = VLEN_BYTES if document.get("data_type") == "bytes" else document.get("data_type")
        if data_type not in (*ROW_DTYPES, VLEN_BYTES):
            raise DecodeError(f"data type {data_type!r:.80} is not one that the format uses", rule="data-type")
        return cls(shape, chunk_shape, str(data_type), tuple(codecs), separator, prefix)

    @property
    def nbytes(self) -> int:
        """Size of the whole array; the bytes of variable-length items do not count."""
        return math.prod(self.shape) * self.itemsize

    @property
    def chunk_nbytes(self) -> int:
        """Size of one Zarr chunk of it."""
        return math.prod(self.chunk_shape) * self.itemsize

    @property
    def itemsize(self) -> int:
        """Bytes of one item."""
        return 1 if self.data_type == VLEN_BYTES else row_dtype(self.data_type).itemsize

    @property
    def wordsize(self) -> int:
        """Bytes that a byte order is about: those of an item, or of either half of a complex number."""
        is_complex = self.data_type != VLEN_BYTES and row_dtype(self.data_type).kind == "c"
        return self.itemsize // 2 if is_complex else self.itemsize

    @property
    def num_chunks(self) -> int:
        """How many Zarr chunks the array is cut into."""
        return math.prod(self._grid)

    @property
    def is_single_chunk(self) -> bool:
        """Whether one chunk, of exactly the array's shape, holds it all."""
        return self.shape == self.chunk_shape

    def chunk_name(self, *index: int) -> str:
        """Return the key of a chunk below the array's own path."""
        parts = [self.prefix] if self.prefix else []
        parts += [str(number) for number in index or (0,) * len(self.shape)]
        # Zarr v2 calls the chunk of an array without axes "0".
        return self.separator.join(parts) or "0"

    def chunk_names(self) -> list[str]:
        """Return the keys of all chunks."""
        return [self.chunk_name(*index) for index in itertools.product(*map(range, self._grid))]

    @property
    def _grid(self) -> list[int]:
        return [-(-size // chunk) for size, chunk in zip(self.shape, self.chunk_shape, strict=True)]


def single_chunk_name(ndim: int) -> str:
    """Return where an array that we write keeps its one chunk: ``c.0`` in 1-D, ``c.0.0`` in 2-D."""
    return ".".join(["c", *("0" for _ in range(ndim))])


def array_document(
    shape: Sequence[int], data_type: str, codecs: Sequence[Mapping[str, Any]], chunk_shape: Sequence[int] | None = None
) -> bytes:
    """Return the ``zarr.json`` of an array that we write."""
    # Zarr has no chunks of length 0, only arrays.
    chunks = [max(length, 1) for length in chunk_shape or shape]
    document = {
        "zarr_format": _ZARR_FORMAT,
        "node_type": "array",
        "shape": list(shape),
        "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
        "fill_value": _fill_value(data_type),
        "codecs": list(codecs),
        "attributes": {},
        "storage_transformers": [],
    }
    return json.dumps(document, separators=(",", ":")).encode()


def group_document(attributes: Mapping[str, Any], extras: Mapping[str, Any] | None = None) -> bytes:
    """Return the ``zarr.json`` of a group, with other top-level keys that it had before."""
    document = {**(extras or {}), "zarr_format": _ZARR_FORMAT, "node_type": "group", "attributes": attributes}
    try:
        return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False).encode()
    except ValueError as error:
        raise EncodeError(f"the metadata can't be written as JSON: {error}", rule="json") from error


def parse_document(buffer: Buffer) -> dict[str, Any]:
    """Return a ``zarr.json`` as a dict, or raise `DecodeError`."""
    size = memoryview(buffer).nbytes
    if size > MAX_DOCUMENT_BYTES:
        raise DecodeError(f"zarr.json of {size} bytes, at most {MAX_DOCUMENT_BYTES} are read", rule="limit")
    try:
        document = json.loads(bytes(buffer))
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"zarr.json is not valid JSON: {error}", rule="json") from error
    if not isinstance(document, dict):
        raise DecodeError("zarr.json is not a JSON object", rule="json")
    _check_depth(document)
    return document


def _check_depth(document: dict[str, Any]) -> None:
    """Raise if a document is nested so deeply that what walks through it could run out of stack."""
    layer: list[Any] = [document]
    for _ in range(MAX_DOCUMENT_DEPTH):
        items = itertools.chain.from_iterable(item.values() if isinstance(item, dict) else item for item in layer)
        layer = [item for item in items if isinstance(item, dict | list)]
        if not layer:
            return
    raise DecodeError(f"zarr.json is nested more than {MAX_DOCUMENT_DEPTH} deep", rule="json-depth")


def group_attributes(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a group's document; keys that sit at its top count as attributes too."""
    if document.get("node_type") != "group" or document.get("zarr_format") != _ZARR_FORMAT:
        raise DecodeError("zarr.json does not describe a Zarr v3 group", rule="node-type")
    attributes = document.get("attributes", {})
    if not isinstance(attributes, dict):
        raise DecodeError("zarr.json: the attributes of a group must be a JSON object", rule="json")
    reserved = ("zarr_format", "node_type", "attributes", "consolidated_metadata")
    top = {key: value for key, value in document.items() if key not in reserved}
    return {**top, **attributes}


def _fill_value(data_type: str) -> object:
    if data_type == VLEN_BYTES:
        return ""
    kind = row_dtype(data_type).kind
    return {"b": False, "f": 0.0, "c": [0.0, 0.0]}.get(kind, 0)


def _mapping(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise DecodeError(f"{what} must be a JSON object", rule="json")
    return value


def _lengths(value: object, what: str, *, smallest: int = 1) -> tuple[int, ...]:
    good = isinstance(value, list) and all(
        isinstance(item, int) and not isinstance(item, bool) and item >= smallest for item in value
    )
    if not good or not isinstance(value, list):
        raise DecodeError(f"{what} must be a list of whole numbers from {smallest}, not {value!r:.80}", rule="shape")
    return tuple(value)


def _key_encoding(encoding: Mapping[str, Any]) -> tuple[str, str]:
    configuration = encoding.get("configuration") or {}
    name = encoding.get("name")
    separator = _mapping(configuration, "chunk_key_encoding").get("separator", "/" if name == "default" else ".")
    if name not in ("default", "v2") or separator not in ("/", "."):
        raise DecodeError(f"chunk key encoding {name!r} with separator {separator!r} is not known", rule="chunk-key")
    return separator, "c" if name == "default" else ""
