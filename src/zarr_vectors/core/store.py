"""A store as a whole: what is at a location, its levels, and the order in which a write becomes visible.

Payloads come first, then each level's ``zarr.json``, then the root's, which is the commit: a
store without it does not open. A marker tells an unfinished write from a place that never held
a store.
"""

import json
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Literal, Self, get_args

from zarr_vectors.constants import ARRAY_KINDS, VERTICES
from zarr_vectors.core.group import FsGroup
from zarr_vectors.core.keys import NODE, array_name_of, parse_level_name
from zarr_vectors.core.metadata import (
    ARRAYS_KEY,
    LEVEL_KEY,
    ROOT_KEY,
    ArrayMetadata,
    Dataset,
    LevelMetadata,
    RootMetadata,
    Transformation,
)
from zarr_vectors.core.nodes import group_attributes, group_document, parse_document
from zarr_vectors.core.storage import Storage
from zarr_vectors.exceptions import (
    DecodeError,
    InputError,
    ObjectNotFoundError,
    StoreExistsError,
    StoreNotFoundError,
    UnfinishedWriteError,
    locate,
)
from zarr_vectors.typing import Buffer

MARKER: Final = "zarr_vectors.unfinished"
"""Key that exists while a store is being written."""

Mode = Literal["x", "w"]


def read_root(storage: Storage) -> RootMetadata:
    """Return the metadata of the store; one request when all is well.

    Raises
    ------
    StoreNotFoundError
        If nothing is there, or something else than a zarr-vectors store.
    UnfinishedWriteError
        If a write began there and did not finish.
    UnsupportedVersionError, MetadataError
        If the store is of another version or breaks the rules of the format.
    """
    (document,) = storage.get_many([NODE])
    with locate(store=storage.url):
        if document is None:
            raise _explain_missing_root(storage)
        parsed = parse_document(document)
        if parsed.get("node_type") == "array":
            raise StoreNotFoundError("this is a single Zarr array, not a zarr-vectors store")
        attributes = group_attributes(parsed)
        if ROOT_KEY not in attributes:
            raise StoreNotFoundError(f"this is a Zarr group without {ROOT_KEY!r} attributes, not a zarr-vectors store")
        return RootMetadata.from_attrs(attributes)


def list_levels(storage: Storage, root: RootMetadata) -> list[int]:
    """Return the numbers of the store's levels: those the NGFF block lists, or, without one, those on disk."""
    names = [dataset.path for dataset in root.multiscale.datasets] or storage.list_dir("")
    return sorted({level for name in names if (level := parse_level_name(name)) is not None})


def read_level(storage: Storage, root: RootMetadata, level: int) -> FsGroup:
    """Return one level; one request."""
    (document,) = storage.get_many([f"{level}/{NODE}"])
    with locate(store=storage.url, level=level):
        if document is None:
            raise ObjectNotFoundError("the store has no such level")
        attributes = group_attributes(parse_document(document))
        metadata = LevelMetadata.from_attrs(attributes)
        if metadata.level != level:
            raise DecodeError(f"the level group calls itself {metadata.level}", rule="level")
        arrays = attributes.get(ARRAYS_KEY)
        return FsGroup(storage, root, metadata.on(root), _parse_arrays(arrays), complete=arrays is not None)


class StoreDraft:
    """A store that is being written: nothing of it can be opened until `commit`.

    As a context manager it commits at the end of the block; after an error it removes what it wrote.
    """

    def __init__(self, storage: Storage, metadata: RootMetadata) -> None:
        self.storage = storage
        self.metadata = metadata
        self.levels: dict[int, FsGroup] = {}
        self._finished = False

    def add_level(self, metadata: LevelMetadata | int = 0) -> FsGroup:
        """Return a new level to write arrays into."""
        declared = LevelMetadata.parse({"level": metadata}, LEVEL_KEY) if isinstance(metadata, int) else metadata
        if declared.level in self.levels:
            raise InputError("this level was added already").at(store=self.storage.url, level=declared.level)
        group = FsGroup(self.storage, self.metadata, declared.on(self.metadata), complete=True)
        self.levels[declared.level] = group
        return group

    def commit(self) -> RootMetadata:
        """Make the store visible: level metadata, then the root's, then the marker goes.

        Raises
        ------
        InputError
            If there is no level 0, or the draft was committed or discarded before.
        """
        with locate(store=self.storage.url):
            if self._finished:
                raise InputError("this draft was committed or discarded before")
            if 0 not in self.levels:
                raise InputError("a store needs level 0")
        groups = [self.levels[level] for level in sorted(self.levels)]
        self.storage.put_many([(f"{group.level}/{NODE}", level_document(group)) for group in groups])
        multiscale = self.metadata.multiscale.model_copy(update={"datasets": tuple(map(dataset_of, groups))})
        root = self.metadata.model_copy(update={"multiscale": multiscale})
        self.storage.put_many([(NODE, group_document(root.to_attrs()))])
        if not self.storage.transactional:
            self.storage.delete_many([MARKER])
        self.storage.flush()
        self._finished = True
        return root

    def discard(self) -> None:
        """Remove what was written; a draft that was committed stays."""
        if not self._finished:
            self._finished = True
            self.storage.discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and not self._finished:
                self.commit()
        finally:
            self.discard()


def create_store(storage: Storage, metadata: RootMetadata, *, mode: Mode = "x") -> StoreDraft:
    """Return a draft of a new store.

    Parameters
    ----------
    storage
        Where to write.
    metadata
        Of the root; the levels of its NGFF block follow from what is added.
    mode
        ``"x"``: refuse a place that holds anything. ``"w"``: replace a zarr-vectors store.

    Raises
    ------
    StoreExistsError
        If something is there; in mode ``"w"``, if it is not a zarr-vectors store.
    """
    if mode not in get_args(Mode):
        raise InputError(f"mode is one of {', '.join(get_args(Mode))}, not {mode!r}")
    names = storage.list_dir("")
    with locate(store=storage.url):
        if names and mode == "x":
            raise StoreExistsError("something is there already: choose another place, or replace a store with mode='w'")
        if names and not _may_replace(storage, names):
            raise StoreExistsError("what is there is not a zarr-vectors store, so it is not replaced: remove it first")
    if not storage.transactional:
        storage.put_many([(MARKER, _marker())])
        storage.delete_many([NODE])
        for name in names:
            if name not in (MARKER, NODE):
                storage.delete_dir(name)
    return StoreDraft(storage, metadata)


def level_document(group: FsGroup) -> bytes:
    """Return the ``zarr.json`` of a level: its metadata, and those of its arrays.

    The copy of the arrays' metadata is what lets a reader open a level with one request.
    """
    present = {array_name_of(path) for path in group.arrays}
    vertices = group.arrays.get(VERTICES)
    count = group.metadata.vertex_count or (vertices.shape[0] if vertices is not None and vertices.shape else 0)
    inherits = group.metadata.chunk_shape == group.root.chunk_shape
    update = {
        "vertex_count": count,
        "arrays_present": tuple(name for name in ARRAY_KINDS if name in present),
        "chunk_shape": None if inherits else group.metadata.chunk_shape,
    }
    block = group.metadata.model_copy(update=update).to_json()
    arrays = {path: group.arrays[path].to_json() for path in sorted(group.arrays)}
    return group_document({LEVEL_KEY: block, ARRAYS_KEY: arrays})


def dataset_of(group: FsGroup) -> Dataset:
    """Return a level's entry in the NGFF block."""
    root, level = group.root, group.metadata
    bin_shape = level.bin_shape or root.bin_shape
    ratio = level.bin_ratio or tuple(1 for _ in root.chunk_shape)
    return Dataset(
        path=str(level.level),
        transformations=(
            Transformation(type="scale", scale=tuple(float(value) for value in ratio)),
            Transformation(type="translation", translation=tuple(value / 2 for value in bin_shape)),
        ),
    )


def _parse_arrays(block: object) -> dict[str, ArrayMetadata]:
    if block is None:
        return {}
    if not isinstance(block, Mapping):
        raise DecodeError(f"{ARRAYS_KEY} must be a JSON object", rule="json")
    return {str(path): ArrayMetadata.parse(meta, f"{ARRAYS_KEY}.{path}") for path, meta in block.items()}


def _explain_missing_root(storage: Storage) -> Exception:
    (marker,) = storage.get_many([MARKER])
    names = storage.list_dir("")
    if marker is not None:
        return UnfinishedWriteError(f"a write {_describe(marker)} did not finish: write it again with mode='w'")
    if any(parse_level_name(name) is not None for name in names):
        return UnfinishedWriteError(
            "there are levels and no root zarr.json: a write did not finish; write it again with mode='w'"
        )
    if not names:
        return StoreNotFoundError("there is nothing here; create a store with zarr_vectors.create or a write function")
    hint = ": it is a Zarr v2 group" if ".zgroup" in names else ""
    return StoreNotFoundError(f"this is not a zarr-vectors store{hint}, it has no zarr.json")


def _may_replace(storage: Storage, names: list[str]) -> bool:
    """Tell whether what is there is a store, finished or not: anything else is not ours to remove."""
    if MARKER in names:
        return True
    levels = [f"{name}/{NODE}" for name in names if parse_level_name(name) is not None]
    documents = storage.get_many([NODE, *levels])
    return any(_is_ours(document) for document in documents if document is not None)


def _is_ours(document: Buffer) -> bool:
    try:
        attributes = group_attributes(parse_document(document))
    except DecodeError:
        return False
    return ROOT_KEY in attributes or LEVEL_KEY in attributes


def _marker() -> bytes:
    started = datetime.now(UTC).isoformat(timespec="seconds")
    return json.dumps({"started": started, "host": platform.node(), "pid": os.getpid()}).encode()


def _describe(marker: Buffer) -> str:
    try:
        fields: dict[str, Any] = parse_document(marker)
    except DecodeError:
        return "that began here"
    return f"that began {fields.get('started')} (process {fields.get('pid')} on {fields.get('host')})"
