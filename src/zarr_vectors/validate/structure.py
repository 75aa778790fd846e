"""Level 1, structure: groups, arrays and keys where they must be; reads every ``zarr.json`` of a store once."""

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import numpy as np

from zarr_vectors.constants import (
    ARRAY_KINDS,
    CROSS_CHUNK_LINKS,
    DISCRIMINATORS,
    GROUPS,
    LINK_FRAGMENTS,
    MANIFESTS_LAYOUT,
    OBJECT_ATTRIBUTES,
    OBJECT_INDEX,
    VERTICES,
)
from zarr_vectors.core.group import MAX_ZARR_CHUNKS, FsGroup
from zarr_vectors.core.keys import (
    DATA,
    MANIFESTS,
    NODE,
    OFFSETS,
    PRESENT_MASK,
    array_name_of,
    chunk_key,
    parse_chunk_key,
    parse_delta_name,
    parse_level_name,
)
from zarr_vectors.core.metadata import (
    ARRAYS_KEY,
    LEVEL_KEY,
    ROOT_KEY,
    ArrayMetadata,
    FormatModel,
    LevelMetadata,
    RootMetadata,
)
from zarr_vectors.core.nodes import ArrayNode, group_attributes, parse_document
from zarr_vectors.core.storage import Storage, exists_many
from zarr_vectors.core.store import MARKER, read_root
from zarr_vectors.exceptions import DecodeError, MetadataError, UnfinishedWriteError, UnsupportedVersionError
from zarr_vectors.typing import Buffer, IntArray
from zarr_vectors.validate.metadata import (
    check_array,
    check_capabilities,
    check_chunk_node,
    check_datasets,
    check_level,
    check_manifests_node,
)
from zarr_vectors.validate.report import Findings, Place
from zarr_vectors.validate.views import BROKEN, REQUIRED, ArrayView, LevelView, StoreView

Model = TypeVar("Model", bound=FormatModel)

NODES_PER_BATCH: Final = 1024
POINT_CLOUD: Final = "point_cloud"
_NODE_NAMES: Final = {
    OBJECT_INDEX: (MANIFESTS, DATA, OFFSETS),
    GROUPS: (DATA, OFFSETS),
    OBJECT_ATTRIBUTES: (DATA, PRESENT_MASK),
}


def read_structure(storage: Storage, findings: Findings) -> StoreView | None:
    """Check the structure of a store, and return what later levels need; ``None``: there is nothing to go on.

    Raises
    ------
    StoreNotFoundError
        If there is no store at all.
    """
    opened = _read_root(storage, findings)
    if opened is None:
        return None
    document, root = opened
    view = StoreView(storage, root, document, {})
    names = storage.list_dir("")
    on_disk = {level for name in names if (level := parse_level_name(name)) is not None}
    paths = [dataset.path for dataset in root.multiscale.datasets] or names
    listed = sorted({level for path in paths if (level := parse_level_name(path)) is not None})
    for level in sorted(on_disk - set(listed)):
        findings.add("L1.level-unlisted", Place(level), "a level that the root lists", "one that it does not")
    for name in names:
        if parse_level_name(name) is None and name not in (NODE, MARKER):
            findings.add("L1.stray-node", Place(), "levels and zarr.json", name)
    if 0 not in listed:
        findings.add("L1.level-zero", Place(), "level 0", f"levels {listed}")
    for number in listed:
        with findings.guard(Place(number), "the structure of the level"):
            item = _read_level(view, number, findings)
            if item is not None:
                view.levels[number] = item
    check_datasets(view, listed, findings)
    check_capabilities(view, findings)
    return view


def _read_root(storage: Storage, findings: Findings) -> tuple[dict[str, Any], RootMetadata] | None:
    document, marker = storage.get_many([NODE, MARKER])
    if marker is not None:
        findings.add("L1.unfinished-write", Place(), "no marker of a write", f"{MARKER} is there")
    if document is None:
        try:
            read_root(storage)
        except UnfinishedWriteError as error:
            if marker is None:
                findings.add_error("L1.unfinished-write", Place(), error)
        findings.not_run.append("all levels: there is no root")
        return None
    try:
        parsed = parse_document(document)
        attributes = group_attributes(parsed)
    except DecodeError as error:
        if not any(parse_level_name(name) is not None for name in storage.list_dir("")):
            read_root(storage)
        findings.add_error("L1.root-group", Place(), error)
        findings.not_run.append("all levels: the root can't be read")
        return None
    if not isinstance(attributes.get(ROOT_KEY), dict):
        if not any(parse_level_name(name) is not None for name in storage.list_dir("")):
            read_root(storage)
        findings.add("L1.root-group", Place(), f"the block {ROOT_KEY!r}", "none")
        findings.not_run.append("all levels: the root has no block of ours")
        return None
    root = _parse_root(attributes, findings)
    if root is None:
        findings.not_run.append("all levels: the root's metadata do not tell enough")
        return None
    return parsed, root


def _parse_root(attributes: dict[str, Any], findings: Findings) -> RootMetadata | None:
    try:
        return RootMetadata.from_attrs(attributes)
    except UnsupportedVersionError as error:
        findings.add("L2.version", Place(), "format 0.6 or 0.7", error.found)
        return None
    except MetadataError as error:
        findings.add_problems(Place(), error)
        multiscales = attributes.get("multiscales")
        multiscale = multiscales[0] if isinstance(multiscales, list) and multiscales else {}
        return _without_broken(RootMetadata, {**attributes[ROOT_KEY], "multiscale": multiscale}, error, ROOT_KEY)


def _without_broken(model: type[Model], block: dict[str, Any], error: MetadataError, path: str) -> Model | None:
    """Return the metadata without the keys that are broken, so that the rest can be checked; ``None`` if it can't."""
    keys = {problem.path.removeprefix(f"{path}.").split(".")[0].split("[")[0] for problem in error.problems}
    if any(problem.path.startswith("multiscales") for problem in error.problems):
        keys.add("multiscale")
    try:
        return model.parse({key: value for key, value in block.items() if key not in keys}, path)
    except MetadataError:
        return None


def _read_level(view: StoreView, number: int, findings: Findings) -> LevelView | None:
    place = Place(number)
    (document,) = view.storage.get_many([f"{number}/{NODE}"])
    if document is None:
        findings.add("L1.level-missing", place, "a group with zarr.json", "none")
        return None
    try:
        parsed = parse_document(document)
        attributes = group_attributes(parsed)
    except DecodeError as error:
        findings.add_error("L1.level-missing", place, error)
        return None
    if not isinstance(attributes.get(LEVEL_KEY), dict):
        findings.add("L1.level-missing", place, f"the block {LEVEL_KEY!r}", "none")
        return None
    metadata = _parse_level(view.root, number, attributes, findings)
    arrays = _read_arrays(view, number, findings)
    _check_copies(arrays, attributes.get(ARRAYS_KEY), place, findings)
    metas = {path: array.meta for path, array in arrays.items()}
    group = FsGroup(view.storage, view.root, metadata, metas, complete=True)
    level = LevelView(group, arrays, parsed)
    _check_required(level, view, findings)
    if VERTICES not in arrays:
        findings.not_run.append(f"{number}: the contents of a level without vertices")
        return None
    return level


def _parse_level(root: RootMetadata, number: int, attributes: dict[str, Any], findings: Findings) -> LevelMetadata:
    place = Place(number)
    try:
        metadata: LevelMetadata | None = LevelMetadata.from_attrs(attributes)
    except MetadataError as error:
        findings.add_problems(place, error)
        metadata = _without_broken(LevelMetadata, attributes[LEVEL_KEY], error, LEVEL_KEY)
    if metadata is not None and metadata.level != number:
        findings.add("L2.level-number", place, str(number), metadata.level)
    metadata = (metadata or LevelMetadata(level=0)).model_copy(update={"level": number})
    check_level(metadata, findings)
    try:
        return metadata.on(root)
    except MetadataError as error:
        findings.add_problems(place, error)
    usable = metadata.chunk_shape is not None and len(metadata.chunk_shape) == root.ndim
    shape = metadata.chunk_shape if usable else root.chunk_shape
    return metadata.model_copy(update={"chunk_shape": shape, "bin_shape": None, "bin_ratio": None})


def _read_arrays(view: StoreView, number: int, findings: Findings) -> dict[str, ArrayView]:
    storage, place = view.storage, Place(number)
    paths: list[str] = []
    for name in storage.list_dir(str(number)):
        if name in ARRAY_KINDS:
            paths += _paths_below(storage, number, name, findings)
        elif name != NODE:
            findings.add("L1.stray-node", place, "arrays of the format", name)
    documents = storage.get_many([f"{number}/{path}/{NODE}" for path in paths])
    arrays: dict[str, ArrayView] = {}
    for path, document in zip(paths, documents, strict=True):
        with findings.guard(place.chunk_of(path), "the structure of the array"):
            described = _describe_array(place.chunk_of(path), path, document, findings)
            if described is not None:
                arrays[path] = _read_nodes(view, number, path, described, findings)
    return arrays


def _paths_below(storage: Storage, number: int, name: str, findings: Findings) -> list[str]:
    """Return the paths of all arrays of a canonical name."""
    paths = [name]
    for part in ARRAY_KINDS[name].path_parts:
        deeper: list[str] = []
        for path in paths:
            for child in storage.list_dir(f"{number}/{path}"):
                if child == NODE:
                    continue
                if part == "delta" and parse_delta_name(child) is None:
                    findings.add("L1.stray-node", Place(number, path), "level deltas such as 0 and +1", child)
                else:
                    deeper.append(f"{path}/{child}")
        paths = deeper
    return paths


def _describe_array(
    place: Place, path: str, document: Buffer | None, findings: Findings
) -> tuple[ArrayMetadata, dict[str, Any]] | None:
    """Return the metadata of an array, and as they stand; ``None`` where they do not tell enough to read it."""
    kind = ARRAY_KINDS[array_name_of(path)]
    if document is None:
        known = path == LINK_FRAGMENTS
        code = "L1.link-fragments-metadata" if known else "L1.array-metadata"
        findings.add(code, place, "a group with zarr.json", "none")
        return (ArrayMetadata(zv_array=kind.discriminator), {}) if known else None
    try:
        attributes = group_attributes(parse_document(document))
    except DecodeError as error:
        findings.add_error("L1.array-metadata", place, error)
        return None
    found = attributes.get("zv_array")
    if found is None and path == LINK_FRAGMENTS:
        findings.add("L1.link-fragments-metadata", place, f"zv_array {kind.discriminator!r}", "none")
    elif found != kind.discriminator:
        expected = f"zv_array {kind.discriminator!r}"
        unknown = "" if str(found) in DISCRIMINATORS else ", which is not known"
        findings.add("L1.discriminator", place, expected, f"{found!r}{unknown}")
    block = {**attributes, "zv_array": kind.discriminator}
    try:
        return ArrayMetadata.parse(block, "attributes"), attributes
    except MetadataError as error:
        findings.add_problems(place, error)
        meta = _without_broken(ArrayMetadata, block, error, "attributes")
        return None if meta is None else (meta, attributes)


def _read_nodes(
    view: StoreView, number: int, path: str, described: tuple[ArrayMetadata, dict[str, Any]], findings: Findings
) -> ArrayView:
    meta, attributes = described
    place, ndim = Place(number, path), view.root.ndim
    name = array_name_of(path)
    check_array(place, meta, view.root, findings)
    children = [child for child in view.storage.list_dir(f"{number}/{path}") if child != NODE]
    if ARRAY_KINDS[name].per_chunk:
        parsed = {child: parse_chunk_key(child, ndim) for child in children}
        for child in (child for child, coords in parsed.items() if coords is None):
            findings.add("L1.chunk-key", place, f"chunk keys of {ndim} coordinates", child)
        coords = np.array(sorted(item for item in parsed.values() if item is not None), dtype=np.int64)
        coords = coords.reshape(-1, ndim)
        return ArrayView(path, meta, coords, _read_sizes(view, place, meta, coords, findings), {}, attributes)
    known = _NODE_NAMES.get(name, (DATA,))
    for child in children:
        if child not in known:
            findings.add("L1.stray-node", place, f"only {', '.join(known)}", child)
    names = [child for child in known if child in children]
    nodes = dict(zip(names, _parse_nodes(view, place, names, findings), strict=True))
    for child, node in nodes.items():
        if node is not None:
            if child == MANIFESTS:
                check_manifests_node(place, meta, node, findings)
            else:
                check_chunk_node(place.chunk_of(path, child), meta, node, findings, is_main=child == DATA)
    nothing = np.empty((0, ndim), dtype=np.int64)
    array = ArrayView(path, meta, nothing, nothing[:, 0], nodes, attributes)
    _check_promised(array, place, findings)
    return array


def _read_sizes(view: StoreView, place: Place, meta: ArrayMetadata, coords: IntArray, findings: Findings) -> IntArray:
    """Return the payload bytes of each chunk, from the chunks' own ``zarr.json``; they and their data are checked."""
    sizes = np.full(len(coords), BROKEN, dtype=np.int64)
    for begin in range(0, len(coords), NODES_PER_BATCH):
        part = [chunk_key(row) for row in coords[begin : begin + NODES_PER_BATCH].tolist()]
        for offset, node in enumerate(_parse_nodes(view, place, part, findings)):
            if node is not None:
                where = place.chunk_of(place.array or "", part[offset])
                check_chunk_node(where, meta, node, findings)
                sizes[begin + offset] = node.nbytes
        findings.tell(f"structure {place}", min(begin + NODES_PER_BATCH, len(coords)), len(coords))
    return sizes


def _parse_nodes(view: StoreView, place: Place, names: Sequence[str], findings: Findings) -> list[ArrayNode | None]:
    """Return what each ``zarr.json`` describes, ``None`` where it is broken or its data are missing."""
    base = f"{place.level}/{place.array}"
    documents = view.storage.get_many([f"{base}/{name}/{NODE}" for name in names])
    nodes: list[ArrayNode | None] = []
    for name, document in zip(names, documents, strict=True):
        where = Place(place.level, place.array, name)
        node = None
        if document is None:
            findings.add("L1.chunk-metadata", where, "a zarr.json beside the data", "none")
        else:
            try:
                node = ArrayNode.parse(parse_document(document))
            except DecodeError as error:
                findings.add_error("L1.chunk-metadata", where, error)
        nodes.append(node)
    keys: list[tuple[int, str]] = []
    for number, node in enumerate(nodes):
        if node is not None and node.nbytes:
            if node.num_chunks > MAX_ZARR_CHUNKS:
                where = Place(place.level, place.array, names[number])
                findings.add("L1.chunk-metadata", where, f"at most {MAX_ZARR_CHUNKS} Zarr chunks", node.num_chunks)
                nodes[number] = None
            else:
                keys += [(number, f"{base}/{names[number]}/{item}") for item in node.chunk_names()]
    for (number, key), there in zip(keys, exists_many(view.storage, [key for _, key in keys]), strict=True):
        if not there:
            findings.add("L1.chunk-data", Place(place.level, place.array, names[number]), "data", f"no {key}")
            nodes[number] = None
    return nodes


def _check_promised(array: ArrayView, place: Place, findings: Findings) -> None:
    """Check that what the metadata count is there at all."""
    name, meta = array_name_of(array.path), array.meta
    if name == OBJECT_INDEX:
        _check_layout(array, place, findings)
        return
    rows = {CROSS_CHUNK_LINKS: meta.num_links, GROUPS: meta.num_groups}.get(name, (meta.shape or (0,))[0])
    wanted = OFFSETS if name == GROUPS and DATA not in array.nodes else DATA
    if rows and wanted not in array.nodes:
        findings.add("L1.chunk-data", place.chunk_of(array.path, wanted), f"data of {rows} rows", "none")
    if meta.has_present_mask and rows and PRESENT_MASK not in array.nodes:
        findings.add("L1.chunk-data", place.chunk_of(array.path, PRESENT_MASK), "the mask that is promised", "none")


def _check_layout(array: ArrayView, place: Place, findings: Findings) -> None:
    meta, names = array.meta, set(array.nodes)
    missing = [key for key in ("num_objects", "sid_ndim") if getattr(meta, key) is None]
    if missing:
        findings.add("L1.object-index-metadata", place, "num_objects and sid_ndim", f"no {', '.join(missing)}")
    vlen = meta.layout == MANIFESTS_LAYOUT
    expected = "manifests" if vlen else "data, with or without offsets"
    good = names == {MANIFESTS} if vlen else DATA in names and MANIFESTS not in names
    if not good and not (not vlen and meta.num_objects == 0 and not names):
        found = ", ".join(sorted(names)) or "nothing"
        findings.add("L1.object-index-layout", place, expected, f"{found}, with layout {meta.layout!r}")


def _check_copies(arrays: dict[str, ArrayView], copies: object, place: Place, findings: Findings) -> None:
    if copies is None:
        return
    if not isinstance(copies, dict):
        findings.add("L1.array-copies", place, f"{ARRAYS_KEY} as a JSON object", type(copies).__name__)
        return
    for path in sorted({*arrays, *map(str, copies)}):
        own = arrays[path].attributes if path in arrays else None
        if own is None or copies.get(path) != own:
            which = "no such array" if own is None else "no copy" if path not in copies else "another copy"
            findings.add("L1.array-copies", place.chunk_of(path), f"{ARRAYS_KEY} as in its zarr.json", which)


def _check_required(level: LevelView, view: StoreView, findings: Findings) -> None:
    root, arrays, place = view.root, level.arrays, level.place
    required = list(REQUIRED)
    if root.object_index_convention == "identity":
        if OBJECT_INDEX in arrays:
            findings.add("L1.identity", place.chunk_of(OBJECT_INDEX), "no object_index", "one")
        if VERTICES in arrays and len(arrays[VERTICES].coords) > 1:
            found = f"{len(arrays[VERTICES].coords)} chunks"
            findings.add("L1.identity", place.chunk_of(VERTICES), "one chunk", found)
    elif any(kind != POINT_CLOUD for kind in root.geometry_types) or any(
        array_name_of(path) in (OBJECT_ATTRIBUTES, GROUPS) for path in arrays
    ):
        required.append(OBJECT_INDEX)
    on_disk = set(view.storage.list_dir(str(level.number)))
    for name in required:
        # Where the group is there and can't be read, that is reported already.
        if name not in arrays and name not in on_disk:
            findings.add("L1.array-missing", place.chunk_of(name), f"the array {name}", "none")
