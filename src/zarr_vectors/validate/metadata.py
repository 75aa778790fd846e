"""Level 2, metadata: what the ``zarr.json`` files say, checked against the format and against each other; pure."""

from collections.abc import Sequence
from typing import Final

from zarr_vectors.constants import (
    ARRAY_KINDS,
    CAP_FRAGMENT_INDEX,
    CAP_MULTISCALE_LINKS,
    CAP_PRESERVED_OBJECT_IDS,
    CAP_SHARED_FRAGMENTS,
    CROSS_CHUNK_LINKS,
    DICTIONARY_ENCODING,
    ENDPOINT_RECORDS_ENCODING,
    FRAGMENT_INDEX_ENCODING,
    GROUPS,
    LINK_FRAGMENTS,
    LINKS,
    MANIFESTS_LAYOUT,
    OBJECT_INDEX,
    VERTEX_FRAGMENTS,
    VERTICES,
)
from zarr_vectors.core.group import DRACO_ENCODING
from zarr_vectors.core.keys import array_name_of, parse_delta_name
from zarr_vectors.core.metadata import ArrayMetadata, LevelMetadata, RootMetadata
from zarr_vectors.core.nodes import VLEN_BYTES, ArrayNode
from zarr_vectors.encoding.links import LINK_DTYPES
from zarr_vectors.encoding.rows import ROW_DTYPES
from zarr_vectors.validate.report import Findings, Place
from zarr_vectors.validate.views import StoreView

_AXIS_ORDER: Final = {"time": 0, "channel": 1, "space": 3}
_CUSTOM: Final = 2
_ENCODINGS: Final = {
    VERTICES: ("raw", DRACO_ENCODING),
    VERTEX_FRAGMENTS: (FRAGMENT_INDEX_ENCODING,),
    LINK_FRAGMENTS: (FRAGMENT_INDEX_ENCODING,),
    LINKS: ("raw", ENDPOINT_RECORDS_ENCODING),
}
_OTHER_ENCODINGS: Final = ("raw", DICTIONARY_ENCODING)


def check_level(metadata: LevelMetadata, findings: Findings) -> None:
    """Check what a level says of itself, beyond its schema."""
    unknown = [name for name in metadata.arrays_present if name not in ARRAY_KINDS]
    if unknown:
        findings.add("L2.enumeration", Place(metadata.level), "names of arrays in arrays_present", ", ".join(unknown))


def check_array(place: Place, meta: ArrayMetadata, root: RootMetadata, findings: Findings) -> None:
    """Check that an array states what reading it needs, and that it agrees with its path."""
    path = place.array or ""
    name, *parts = path.split("/")
    stated = dict(zip(ARRAY_KINDS[name].path_parts, parts, strict=True))
    wrong: list[tuple[str, object]] = []
    if "name" in stated and meta.name not in (None, stated["name"]):
        wrong.append((f"name {stated['name']!r}", meta.name))
    if "delta" in stated and meta.level_delta not in (None, parse_delta_name(stated["delta"])):
        wrong.append((f"level_delta {stated['delta']}", meta.level_delta))
    if meta.sid_ndim not in (None, root.ndim):
        wrong.append((f"sid_ndim {root.ndim}", meta.sid_ndim))
    wrong += _missing_fields(name, meta)
    for expected, found in wrong:
        findings.add("L2.array-fields", place, expected, found)
    known = _ENCODINGS.get(name, _OTHER_ENCODINGS)
    if meta.encoding is not None and meta.encoding not in known:
        findings.add("L2.encoding", place, f"encoding {' or '.join(known)}", meta.encoding)
    if meta.encoding == DICTIONARY_ENCODING and meta.categories is None:
        findings.add("L2.encoding", place, "categories beside the dictionary encoding", "none")
    if meta.layout not in (None, MANIFESTS_LAYOUT):
        findings.add("L2.encoding", place, f"layout {MANIFESTS_LAYOUT}", meta.layout)


def _missing_fields(name: str, meta: ArrayMetadata) -> list[tuple[str, object]]:
    wrong: list[tuple[str, object]] = []
    if name in (LINKS, CROSS_CHUNK_LINKS) and meta.link_width is None:
        wrong.append(("link_width", "none"))
    if name == CROSS_CHUNK_LINKS and meta.num_links is None:
        wrong.append(("num_links", "none"))
    if name == GROUPS and meta.num_groups is None:
        wrong.append(("num_groups", "none"))
    if name in (OBJECT_INDEX, GROUPS, CROSS_CHUNK_LINKS, VERTEX_FRAGMENTS, LINK_FRAGMENTS):
        return wrong
    known = LINK_DTYPES if name == LINKS else ROW_DTYPES
    if meta.dtype not in known:
        wrong.append((f"dtype, one of {', '.join(known)}", meta.dtype))
    if not ARRAY_KINDS[name].per_chunk and not meta.shape:
        wrong.append(("shape", "none"))
    if meta.channel_names is not None and meta.shape is not None and meta.shape[1:] != (len(meta.channel_names),):
        wrong.append((f"{len(meta.channel_names)} channels, as there are channel_names", f"shape {list(meta.shape)}"))
    return wrong


def check_chunk_node(
    place: Place, meta: ArrayMetadata, node: ArrayNode, findings: Findings, *, is_main: bool = True
) -> None:
    """Check that a chunk's own ``zarr.json`` says what its array declares.

    Parameters
    ----------
    place
        Of the chunk.
    meta, node
        What the array and the chunk say.
    findings
        Where to report.
    is_main
        Whether the array's dtype is that of this payload: masks and offsets have their own.
    """
    if node.data_type == VLEN_BYTES:
        findings.add("L2.chunk-type", place, "numbers or bytes", node.data_type)
        return
    if is_main and meta.dtype is not None and node.data_type not in ("uint8", meta.dtype):
        findings.add("L2.chunk-type", place, f"uint8 or {meta.dtype}", node.data_type)
    if meta.codecs is None:
        return
    if is_main and meta.codecs != tuple(dict(codec) for codec in node.codecs):
        findings.add("L2.codecs", place, f"codecs {_names(meta.codecs)} as declared", _names(node.codecs))
    if is_main and meta.chunk_key is not None and node.is_single_chunk and node.chunk_name() != meta.chunk_key:
        findings.add("L2.codecs", place, f"data at {meta.chunk_key} as declared", node.chunk_name())


def check_manifests_node(place: Place, meta: ArrayMetadata, node: ArrayNode, findings: Findings) -> None:
    """Check the array of manifests: one item of variable length for each object."""
    if node.data_type != VLEN_BYTES:
        findings.add("L2.manifests-array", place, "items of variable length", node.data_type)
    if meta.num_objects is not None and node.shape != (meta.num_objects,):
        findings.add("L2.manifests-array", place, f"shape ({meta.num_objects},)", list(node.shape))
    if meta.codecs is not None and meta.codecs != tuple(dict(codec) for codec in node.codecs):
        findings.add("L2.codecs", place, f"codecs {_names(meta.codecs)} as declared", _names(node.codecs))
    if meta.manifests_per_chunk is not None and node.chunk_shape != (meta.manifests_per_chunk,):
        findings.add("L2.codecs", place, f"{meta.manifests_per_chunk} manifests a chunk", list(node.chunk_shape))


def _names(codecs: Sequence[object]) -> str:
    return ", ".join(str(codec.get("name")) if isinstance(codec, dict) else str(codec) for codec in codecs)


def check_datasets(view: StoreView, levels: Sequence[int], findings: Findings) -> None:
    """Check the NGFF block: a dataset for each level, with a scale and a translation, and the order of axes."""
    root = view.root
    datasets = {dataset.path: dataset for dataset in root.multiscale.datasets}
    for number in levels:
        dataset = datasets.get(str(number))
        if dataset is None:
            findings.add("L2.datasets", Place(number), "a dataset in multiscales", "none")
            continue
        for what, values in (("scale", dataset.scale), ("translation", dataset.translation)):
            if values is None or len(values) != root.ndim:
                findings.add("L2.datasets", Place(number), f"a {what} of {root.ndim} numbers", values)
    for path in datasets:
        if not path.isdecimal():
            findings.add("L2.datasets", Place(), "paths of levels", path)
    ranks = [_AXIS_ORDER.get(axis.type or "space", _CUSTOM) for axis in root.axes]
    if ranks != sorted(ranks):
        found = ", ".join(f"{axis.name} ({axis.type})" for axis in root.axes)
        findings.add("L2.axes-order", Place(), "time, channel, custom, space", found)


def check_capabilities(view: StoreView, findings: Findings) -> None:
    """Check the capabilities of a store against what its levels use."""
    held = view.root.format_capabilities
    for token in view.root.unknown_capabilities:
        findings.add("L2.unknown-capability", Place(), "a token that is known", token)
    for token in used_capabilities(view):
        if token not in held:
            code = "L2.capability-fragment-index" if token == CAP_FRAGMENT_INDEX else "L2.capability-missing"
            findings.add(code, Place(), token, ", ".join(held) or "no capabilities")
    flagged = any(level.group.metadata.shared_fragments for level in view.levels.values())
    if CAP_SHARED_FRAGMENTS in held and view.levels and not flagged:
        findings.add("L5.shared-flag", Place(), "a level with shared_fragments", "none")


def used_capabilities(view: StoreView) -> list[str]:
    """Return the tokens that the store must carry for what its levels use."""
    metas = [level.group.metadata for level in view.levels.values()]
    held = {
        CAP_FRAGMENT_INDEX: True,
        CAP_SHARED_FRAGMENTS: any(meta.shared_fragments for meta in metas),
        CAP_PRESERVED_OBJECT_IDS: any(meta.preserves_object_ids for meta in metas),
        CAP_MULTISCALE_LINKS: any(is_cross_level(path) for level in view.levels.values() for path in level.arrays),
    }
    return [token for token, holds in held.items() if holds]


def is_cross_level(path: str) -> bool:
    """Tell whether an array holds links to another level."""
    if array_name_of(path) not in (LINKS, CROSS_CHUNK_LINKS):
        return False
    return parse_delta_name(path.split("/")[1]) not in (0, None)
