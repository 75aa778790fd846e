"""What can be refused before anything is written: names, codecs, metadata that are not JSON."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from zarr_vectors.constants import (
    CROSS_CHUNK_LINK_ATTRIBUTES,
    CROSS_CHUNK_LINKS,
    GROUP_ATTRIBUTES,
    GROUPS,
    LINK_ATTRIBUTES,
    LINK_FRAGMENTS,
    LINKS,
    OBJECT_ATTRIBUTES,
    OBJECT_INDEX,
    VERTEX_ATTRIBUTES,
    VERTEX_FRAGMENTS,
    VERTICES,
)
from zarr_vectors.core.group import chunked_meta
from zarr_vectors.core.keys import array_path
from zarr_vectors.core.metadata import RootMetadata
from zarr_vectors.core.nodes import MAX_DOCUMENT_BYTES, group_document
from zarr_vectors.encoding.codecs import MAX_PAYLOAD_BYTES, CodecChain
from zarr_vectors.exceptions import InputError, ZarrVectorsError
from zarr_vectors.spatial.partition import Layout, LinkLayout
from zarr_vectors.table import Column, VertexTable
from zarr_vectors.typing import JSON
from zarr_vectors.writing.spec import StoreSpec

_BYTES = "bytes"
_TRIAL_BYTES = 64


def check_arrays(
    table: VertexTable, layout: Layout, links: LinkLayout | None, root: RootMetadata, spec: StoreSpec
) -> None:
    """Raise unless every array of the store can be named, described and encoded.

    Raises
    ------
    InputError
        Names the array.
    """
    _describe("the root", root.to_attrs)
    size = 0
    for array, dtype, column in _arrays(table, spec):
        size += _check_array(array, dtype, column, spec)
    if size > MAX_DOCUMENT_BYTES:
        raise InputError(
            f"the metadata of the arrays take {size} bytes, at most {MAX_DOCUMENT_BYTES} are read: text is for few "
            "different values, give numbers"
        )
    _check_sizes(table, layout, links)


def _arrays(table: VertexTable, spec: StoreSpec) -> Iterator[tuple[str, str, Column | None]]:
    """Yield the path, dtype and column of each array that may be written."""
    plain = {VERTICES: table.positions.dtype.name, VERTEX_FRAGMENTS: "uint8"}
    if table.links is not None:
        plain |= {array_path(LINKS, delta=0): "uint32", LINK_FRAGMENTS: "uint8"}
    if table.links is not None or table.continues:
        plain |= {array_path(CROSS_CHUNK_LINKS, delta=0): "int64"}
    if table.part_ids is not None:
        plain |= {OBJECT_INDEX: _BYTES, GROUPS: "int64"}
    yield from ((array, dtype, None) for array, dtype in plain.items())
    scopes = [
        (VERTEX_ATTRIBUTES, table.attributes),
        (LINK_ATTRIBUTES, table.link_attributes),
        (CROSS_CHUNK_LINK_ATTRIBUTES, table.link_attributes),
        (OBJECT_ATTRIBUTES, spec.object_attributes),
        (GROUP_ATTRIBUTES, spec.group_attributes),
    ]
    for array, columns in scopes:
        for name, column in columns.items():
            if not isinstance(name, str):
                raise InputError(f"names of attributes are text, not {name!r}")
            yield array_path(array, name=name, delta=0), column.values.dtype.name, column


def _check_array(array: str, dtype: str, column: Column | None, spec: StoreSpec) -> int:
    """Return how many bytes the metadata of an array take, or raise."""
    options = spec.options

    def attributes() -> Mapping[str, object]:
        meta = chunked_meta(
            array,
            dtype,
            compressor=options.compressor,
            checksum=options.checksum,
            channel_names=None if column is None else column.channel_names,
            categories=None if column is None else column.categories,
        )
        _try_codecs(meta.codecs or ())
        return meta.to_json()

    return _describe(array, attributes)


def _describe(what: str, attributes: Callable[[], Mapping[str, object]]) -> int:
    try:
        return len(group_document(attributes()))
    except (ZarrVectorsError, TypeError, ValueError) as error:
        raise InputError(f"{what} can't be stored: {error}") from error


def _try_codecs(codecs: Sequence[Mapping[str, JSON]]) -> None:
    """Raise unless a few bytes can be encoded: a codec tells that it can't do what is asked by failing."""
    chain = CodecChain.parse(codecs)
    if chain is None:
        names = ", ".join(str(codec.get("name")) for codec in codecs)
        raise InputError(f"can't write with the codecs {names} as they are configured")
    try:
        chain.encode(np.zeros(_TRIAL_BYTES, dtype=np.uint8))
    except (RuntimeError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"the codec refuses its configuration: {error}") from error


def _check_sizes(table: VertexTable, layout: Layout, links: LinkLayout | None) -> None:
    """Raise if the rows of a chunk are too many bytes for one payload."""
    columns = [("positions", table.positions), *((name, column.values) for name, column in table.attributes.items())]
    sizes = [(name, values, layout.row_offsets) for name, values in columns]
    if links is not None:
        of_links = [(name, column.values) for name, column in table.link_attributes.items()]
        sizes += [(name, values, links.chunk_offsets) for name, values in [("links", links.rows), *of_links]]
    for name, values, offsets in sizes:
        row_size = values.dtype.itemsize * math.prod(values.shape[1:])
        largest = int(np.diff(offsets).max(initial=0)) * row_size
        if largest > MAX_PAYLOAD_BYTES:
            raise InputError(
                f"{name}: a chunk has {largest} bytes, at most {MAX_PAYLOAD_BYTES} fit: choose a smaller chunk_shape"
            )
