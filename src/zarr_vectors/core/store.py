"""A store as a whole: what is at a location, its levels, and the order in which a write becomes visible.

Payloads come first, then each level's ``zarr.json``, then the root's, which is the commit: a
store without it does not open. A marker tells an unfinished write from a place that never held
a store.
"""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Literal, Self, get_args

from zarr_vectors.constants import ARRAY_KINDS, VERTICES
from zarr_vectors.core.group import FsGroup, check_discriminator
from zarr_vectors.core.keys import NODE, array_name_of, check_array_path, parse_level_name
from zarr_vectors.core.limits import DEFAULT_LIMITS, ReadLimits
from zarr_vectors.core.lock import MARKER, WriteLock, describe
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
    MetadataError,
    ObjectNotFoundError,
    Problem,
    StoreExistsError,
    StoreNotFoundError,
    UnfinishedWriteError,
    locate,
)
from zarr_vectors.typing import Buffer

__all__ = [
    "MARKER",
    "Mode",
    "StoreDraft",
    "create_store",
    "dataset_of",
    "level_document",
    "list_levels",
    "read_level",
    "read_root",
]

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
    paths = [dataset.path for dataset in root.multiscale.datasets]
    for number, path in enumerate(paths):
        if parse_level_name(path) is None:
            problem = Problem(f"multiscales[0].datasets[{number}].path", "level-name", f"{path!r:.80} is not a level")
            raise MetadataError([problem]).at(store=storage.url)
    return sorted({level for name in paths or storage.list_dir("") if (level := parse_level_name(name)) is not None})


def read_level(storage: Storage, root: RootMetadata, level: int, *, limits: ReadLimits = DEFAULT_LIMITS) -> FsGroup:
    """Return one level; one request."""
    (document,) = storage.get_many([f"{level}/{NODE}"])
    with locate(store=storage.url, level=level):
        if document is None:
            raise ObjectNotFoundError(f"the store has no such level: {level}/{NODE} is not there")
        attributes = group_attributes(parse_document(document))
        metadata = LevelMetadata.from_attrs(attributes)
        if metadata.level != level:
            raise DecodeError(f"the level group calls itself {metadata.level}", rule="level")
        arrays = attributes.get(ARRAYS_KEY)
        known = _parse_arrays(arrays)
        return FsGroup(storage, root, metadata.on(root), known, complete=arrays is not None, limits=limits)


class StoreDraft:
    """A store that is being written: nothing of it can be opened until `commit`.

    As a context manager it commits at the end of the block; after an error it removes what it wrote.
    """

    def __init__(self, storage: Storage, metadata: RootMetadata, lock: WriteLock | None = None) -> None:
        self.storage = storage
        self.metadata = metadata
        self._lock = lock
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
        self.storage.flush()
        if self._lock is not None:
            self._lock.release(self.storage)
        self._finished = True
        return root

    def discard(self) -> None:
        """Remove what was written; a draft that was committed stays."""
        if not self._finished:
            self._finished = True
            if self._lock is not None:
                # The marker goes last: until then what is left can be told from what is not ours.
                for name in self.storage.list_dir(""):
                    if name != MARKER:
                        self.storage.delete_dir(name)
            self.storage.discard()
            if self._lock is not None:
                self._lock.release(self.storage)

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
        ``"x"``: refuse a place that holds anything. ``"w"``: replace a zarr-vectors store, which
        stays as it is until the new one is whole where the storage can do that: in a local
        directory, and in a zip file.

    Raises
    ------
    StoreExistsError
        If something is there; in mode ``"w"``, if it is not a zarr-vectors store.
    UnfinishedWriteError
        If another process is writing there.
    """
    if mode not in get_args(Mode):
        raise InputError(f"mode is one of {', '.join(get_args(Mode))}, not {mode!r}")
    names = storage.list_dir("")
    with locate(store=storage.url):
        _check_place(storage, names, mode)
        if storage.transactional:
            return StoreDraft(storage, metadata)
        lock = WriteLock()
        lock.take(storage, take_over=mode == "w")
        now = storage.list_dir("")
        if {*now} - {MARKER} != {*names} - {MARKER}:
            lock.release(storage)
            raise StoreExistsError("another write has changed what is there: look at it, and write again")
    if NODE in names and storage.begin_replacement():
        # The lock moves along with the place.
        storage.put_many([(MARKER, lock.marker)])
        return StoreDraft(storage, metadata, lock)
    storage.delete_many([NODE])
    for name in names:
        if name not in (MARKER, NODE):
            storage.delete_dir(name)
    return StoreDraft(storage, metadata, lock)


def _check_place(storage: Storage, names: Sequence[str], mode: Mode) -> None:
    if mode == "x" and any(name != MARKER for name in names):
        raise StoreExistsError("something is there already: choose another place, or replace a store with mode='w'")
    if names and mode == "w" and not _may_replace(storage, names):
        raise StoreExistsError("what is there is not a zarr-vectors store, so it is not replaced: remove it first")


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
    arrays: dict[str, ArrayMetadata] = {}
    for path, block_of_array in block.items():
        try:
            check_array_path(path)
        except InputError as error:
            raise MetadataError([Problem(ARRAYS_KEY, "array-path", error.message)]).at(array=error.array) from error
        with locate(array=path):
            arrays[path] = ArrayMetadata.parse(block_of_array, f"{ARRAYS_KEY}.{path}")
            check_discriminator(path, arrays[path])
    return arrays


def _explain_missing_root(storage: Storage) -> Exception:
    (marker,) = storage.get_many([MARKER])
    names = storage.list_dir("")
    if marker is not None:
        return UnfinishedWriteError(f"a write {describe(marker)} did not finish: write it again with mode='w'")
    if any(parse_level_name(name) is not None for name in names):
        return UnfinishedWriteError(
            "there are levels and no root zarr.json: a write did not finish; write it again with mode='w'"
        )
    if not names:
        return StoreNotFoundError("there is nothing here; create a store with zarr_vectors.create or a write function")
    hint = ": it is a Zarr v2 group" if ".zgroup" in names else ""
    return StoreNotFoundError(f"this is not a zarr-vectors store{hint}, it has no zarr.json")


def _may_replace(storage: Storage, names: Sequence[str]) -> bool:
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
