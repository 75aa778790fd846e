"""The only I/O: batches of keys over a local directory or any Zarr v3 store.

There is no call that reads one key inside a loop, so N + 1 access can't be written by accident.
The private zarr import (`sync`) lives here alone: it is the one bridge from plain calls to the
asynchronous stores that zarr offers.
"""

import asyncio
import contextlib
import errno
import itertools
import os
import threading
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, runtime_checkable

from zarr_vectors.core.keys import NODE, TEMPORARY_PREFIX
from zarr_vectors.core.local_files import (
    Fence,
    put_in_place,
    read_file,
    remove,
    sweep,
    sync_folder,
    temporary_name,
    write_file,
)
from zarr_vectors.core.nodes import MAX_DOCUMENT_BYTES
from zarr_vectors.encoding.codecs import MAX_PAYLOAD_BYTES
from zarr_vectors.exceptions import InputError, StorageError
from zarr_vectors.typing import Buffer

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from zarr.abc.store import Store as ZarrStore

DEFAULT_CONCURRENCY: Final = 64
"""Most requests under way at once, for stores that are not a local directory."""

# Where a directory can't be swapped for another: then it is cleared and filled.
_NO_SIBLING: Final = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG)

T = TypeVar("T")
R = TypeVar("R")


@runtime_checkable
class Storage(Protocol):
    """What the rest of the library needs of a place that holds keys and bytes."""

    @property
    def url(self) -> str:
        """How a person names this place."""
        ...

    @property
    def transactional(self) -> bool:
        """Whether what is put stays unseen until `flush`, so that no other commit order is needed."""
        ...

    def get_many(self, keys: Sequence[str]) -> list[Buffer | None]:
        """Return the bytes of each key, ``None`` where there is no such key."""
        ...

    async def get_many_async(self, keys: Sequence[str]) -> list[Buffer | None]:
        """Return the same as `get_many`, from an event loop."""
        ...

    def put_many(self, items: Iterable[tuple[str, Buffer]]) -> None:
        """Store each value under its key; when this returns, all of them are there."""
        ...

    async def put_many_async(self, items: Iterable[tuple[str, Buffer]]) -> None:
        """Do the same as `put_many`, from an event loop."""
        ...

    def put_new(self, key: str, value: Buffer) -> bool:
        """Store a value unless the key is there already, and tell whether it was stored."""
        ...

    def begin_replacement(self) -> bool:
        """Keep what is there until `flush` puts in its place all that is put from now on; tell whether that can be."""
        ...

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove keys; those that are not there are left alone."""
        ...

    def delete_dir(self, prefix: str) -> None:
        """Remove a key, or all keys below a prefix; an empty prefix stands for everything."""
        ...

    def list_dir(self, prefix: str) -> list[str]:
        """Return the names directly below a prefix, sorted; empty where there is nothing."""
        ...

    def zarr_store(self) -> "ZarrStore":
        """Return a Zarr store over the same keys."""
        ...

    def flush(self) -> None:
        """Make visible what was put."""
        ...

    def discard(self) -> None:
        """Remove everything that was put: a write is given up."""
        ...

    def close(self) -> None:
        """Let go of what is open."""
        ...


class LocalStorage:
    """A directory: plain file calls, each file replaced atomically.

    Parameters
    ----------
    root
        The directory.
    durable
        Whether every file is on the disk when `put_many` returns.
    follow_links
        Whether symbolic links inside may lead out of the directory.
    max_bytes
        Largest file that is read.
    """

    transactional = False

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        durable: bool = False,
        follow_links: bool = False,
        max_bytes: int = MAX_PAYLOAD_BYTES,
    ) -> None:
        self.root = Path(root)
        self.durable = durable
        self.follow_links = follow_links
        self.max_bytes = max_bytes
        self._draft: Path | None = None
        self._work_in(self.root)

    def _work_in(self, base: Path) -> None:
        self._base = base
        self._prefix = f"{base}/"
        self._made: set[str] = set()
        self._fence = None if self.follow_links else Fence(base)

    @property
    def url(self) -> str:
        """The directory's path."""
        return str(self.root)

    def get_many(self, keys: Sequence[str]) -> list[Buffer | None]:
        """Return the bytes of each key, ``None`` where there is no such file."""
        return [self._read(key) for key in keys]

    async def get_many_async(self, keys: Sequence[str]) -> list[Buffer | None]:
        """Return the same as `get_many`, from an event loop."""
        return await asyncio.to_thread(self.get_many, keys)

    def put_many(self, items: Iterable[tuple[str, Buffer]]) -> None:
        """Write each file beside its place and move it there."""
        for key, value in items:
            self._write(key, value)

    async def put_many_async(self, items: Iterable[tuple[str, Buffer]]) -> None:
        """Do the same as `put_many`, from an event loop."""
        await asyncio.to_thread(self.put_many, items)

    def put_new(self, key: str, value: Buffer) -> bool:
        """Write a file that nobody else has written, and tell whether it is ours."""
        path = self._path(key)
        with storage_errors(self, key):
            self._ready_folder(str(path.parent))
            temporary = path.with_name(temporary_name())
            try:
                write_file(str(temporary), memoryview(value).cast("B"), durable=self.durable)
                # A link appears with its contents, and fails where there is something.
                os.link(temporary, path)
            except FileExistsError:
                return False
            finally:
                temporary.unlink(missing_ok=True)
        return True

    def begin_replacement(self) -> bool:
        """Fill a directory beside this one, which takes its place in `flush`."""
        place = Path(os.path.realpath(self.root))
        if not place.is_dir() or place.is_mount():
            return False
        draft = place.with_name(f"{TEMPORARY_PREFIX}new-{place.name}")
        with storage_errors(self, ""):
            try:
                # What a write that was broken off left there, the old store or half of a new one.
                remove(draft)
                draft.mkdir()
            except OSError as error:
                if error.errno in _NO_SIBLING:
                    return False
                raise
        self._draft = draft
        self._work_in(draft)
        return True

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove files; those that are not there are left alone."""
        for key in keys:
            with storage_errors(self, key), contextlib.suppress(FileNotFoundError):
                self._path(key).unlink()

    def delete_dir(self, prefix: str) -> None:
        """Remove a directory with all that is in it; of the root only what is in it."""
        self._made.clear()
        with storage_errors(self, prefix):
            if prefix:
                path = self._path(prefix)
                if self._fence is not None:
                    self._fence.check_folder(str(path.parent))
                    self._fence.forget()
                remove(path)
                return
            with contextlib.suppress(FileNotFoundError):
                for path in list(self._base.iterdir()):
                    remove(path)

    def list_dir(self, prefix: str) -> list[str]:
        """Return the names in a directory, sorted; empty where there is none."""
        path = self._path(prefix) if prefix else self._base
        with storage_errors(self, prefix):
            try:
                if prefix and self._fence is not None:
                    self._fence.check_folder(str(path))
                names = [entry.name for entry in path.iterdir()]
            except FileNotFoundError:
                return []
            except NotADirectoryError:
                # A stray file among the nodes holds nothing; a file instead of a store is a mistake.
                if prefix:
                    return []
                raise
        return sorted(name for name in names if not name.startswith(TEMPORARY_PREFIX))

    def zarr_store(self) -> "ZarrStore":
        """Return zarr's own store over the directory."""
        from zarr.storage import LocalStore  # noqa: PLC0415  zarr is imported only when it is needed

        return LocalStore(self._base)

    def flush(self) -> None:
        """Put a replacement in its place; else do nothing, each file is there when it is put."""
        if self._draft is None:
            return
        with storage_errors(self, ""):
            place = Path(os.path.realpath(self.root))
            put_in_place(self._draft, place)
            if self.durable:
                sync_folder(place.parent)
            remove(self._draft)
        self._draft = None
        self._work_in(self.root)

    def discard(self) -> None:
        """Give up a replacement; else remove the directory, unless it is a link: then what is in it."""
        if self._draft is not None:
            with storage_errors(self, ""):
                remove(self._draft)
            self._draft = None
            self._work_in(self.root)
            return
        self.delete_dir("")
        if not self.root.is_symlink():
            with storage_errors(self, ""), contextlib.suppress(FileNotFoundError):
                self.root.rmdir()

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def _path(self, key: str) -> Path:
        return self._base / check_key(key)

    def _read(self, key: str) -> bytes | None:
        path = f"{self._prefix}{check_key(key)}"
        with storage_errors(self, key):
            try:
                return read_file(path, self._fence, MAX_DOCUMENT_BYTES if path.endswith(NODE) else self.max_bytes)
            except (FileNotFoundError, NotADirectoryError):
                return None

    def _write(self, key: str, value: Buffer) -> None:
        # Strings and bare system calls: a level is many small files, and pathlib costs as much as the disk.
        path = f"{self._prefix}{check_key(key)}"
        folder = path[: path.rindex("/")]
        with storage_errors(self, key):
            self._ready_folder(folder)
            temporary = f"{folder}/{temporary_name()}"
            try:
                write_file(temporary, memoryview(value).cast("B"), durable=self.durable)
                os.replace(temporary, path)  # noqa: PTH105
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise
            if self.durable:
                sync_folder(folder)

    def _ready_folder(self, folder: str) -> None:
        """Make a folder before the first write to it, or clear one that is there of what a crash left."""
        if folder in self._made:
            return
        path = Path(folder)
        new = [parent for parent in (path, *path.parents) if not parent.exists()] if self.durable else []
        if self._fence is not None:
            self._fence.check_folder(folder)
        if path.is_dir():
            sweep(folder)
        else:
            path.mkdir(parents=True, exist_ok=True)
        for made in new:
            # A new folder outlasts a power failure once the folder above it is on the disk.
            sync_folder(made.parent)
        self._made.add(folder)


class ZarrStorage:
    """Any Zarr v3 store: memory, and whatever implements zarr's interface.

    Parameters
    ----------
    store
        The store.
    url
        How to call it in messages; by default as zarr prints it.
    concurrency
        Most requests under way at once.
    owned
        Whether `close` closes the store: it belongs to whoever made it.
    """

    transactional = False

    def __init__(
        self,
        store: "ZarrStore",
        *,
        url: str | None = None,
        concurrency: int = DEFAULT_CONCURRENCY,
        owned: bool = False,
    ) -> None:
        if concurrency < 1:
            raise InputError(f"concurrency must be at least 1, not {concurrency}")
        self.store = store
        self.concurrency = concurrency
        self.owned = owned
        self._url = url or str(store)

    @property
    def url(self) -> str:
        """How zarr prints the store, or the name it was opened by."""
        return self._url

    def get_many(self, keys: Sequence[str]) -> list[Buffer | None]:
        """Return the bytes of each key, ``None`` where there is no such key."""
        return run_async(self.get_many_async(keys))

    async def get_many_async(self, keys: Sequence[str]) -> list[Buffer | None]:
        """Return the same as `get_many`, from an event loop."""
        from zarr.core.buffer import default_buffer_prototype  # noqa: PLC0415

        prototype = default_buffer_prototype()

        async def get(key: str) -> Buffer | None:
            with storage_errors(self, key):
                found = await self.store.get(check_key(key), prototype)
            return None if found is None else found.to_bytes()

        return await self._bounded(get, keys)

    def put_many(self, items: Iterable[tuple[str, Buffer]]) -> None:
        """Store each value under its key, many at once; values are made as they are needed."""
        run_async(self.put_many_async(items))

    async def put_many_async(self, items: Iterable[tuple[str, Buffer]]) -> None:
        """Do the same as `put_many`, from an event loop."""
        from zarr.core.buffer import default_buffer_prototype  # noqa: PLC0415

        self._check_writable()
        make = default_buffer_prototype().buffer.from_bytes

        async def put(item: tuple[str, Buffer]) -> None:
            key, value = item
            with storage_errors(self, key):
                await self.store.set(check_key(key), make(bytes(value)))

        await self._bounded(put, items)

    def put_new(self, key: str, value: Buffer) -> bool:
        """Store a value unless the key is there; two who ask at the same moment may both be told that it was not."""
        if self.get_many([key])[0] is not None:
            return False
        self.put_many([(key, value)])
        return True

    def begin_replacement(self) -> bool:
        """Refuse: keys are replaced one by one."""
        return False

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove keys; those that are not there are left alone."""
        self._check_writable()

        async def delete(key: str) -> None:
            with storage_errors(self, key):
                await self.store.delete(check_key(key))

        run_async(self._bounded(delete, keys))

    def delete_dir(self, prefix: str) -> None:
        """Remove a key, or all keys below a prefix."""
        self._check_writable()

        async def delete() -> None:
            with storage_errors(self, prefix):
                await self.store.delete_dir(check_key(prefix) if prefix else "")
                if prefix:
                    await self.store.delete(prefix)

        run_async(delete())

    def list_dir(self, prefix: str) -> list[str]:
        """Return the names directly below a prefix, sorted."""

        async def names() -> list[str]:
            with storage_errors(self, prefix):
                return [name async for name in self.store.list_dir(check_key(prefix) if prefix else "")]

        return sorted({name.rstrip("/") for name in run_async(names())})

    def zarr_store(self) -> "ZarrStore":
        """Return the store itself."""
        return self.store

    def flush(self) -> None:
        """Do nothing: each key is there when it is put."""

    def discard(self) -> None:
        """Remove all keys."""
        self.delete_dir("")

    def close(self) -> None:
        """Close the store if it was opened here."""
        if self.owned:
            self.store.close()

    def _check_writable(self) -> None:
        if self.store.read_only:
            raise StorageError("the Zarr store was opened for reading only").at(store=self.url)

    async def _bounded(self, work: "Callable[[T], Coroutine[None, None, R]]", items: Iterable[T]) -> list[R]:
        """Return what the work makes of each item, in order; a failure ends the rest before it is raised."""
        results: dict[int, R] = {}
        later = enumerate(items)
        first = list(itertools.islice(later, self.concurrency))
        numbered = itertools.chain(first, later)

        async def worker() -> None:
            # All workers take from one iterator: between two awaits nobody else runs.
            for number, item in numbered:
                results[number] = await work(item)

        tasks = [asyncio.ensure_future(worker()) for _ in first]
        try:
            await asyncio.gather(*tasks)
        finally:
            # What would go on in the background could still write after the caller has cleaned up.
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return [results[number] for number in range(len(results))]


def zarr_store_of(items: Mapping[str, Buffer]) -> "ZarrStore":
    """Return a Zarr store in memory that holds these keys, for what only zarr can decode."""
    from zarr.core.buffer import default_buffer_prototype  # noqa: PLC0415
    from zarr.storage import MemoryStore  # noqa: PLC0415  zarr is imported only when it is needed

    make = default_buffer_prototype().buffer.from_bytes
    return MemoryStore({key: make(bytes(value)) for key, value in items.items()}, read_only=True)


def exists_many(storage: Storage, keys: Sequence[str]) -> list[bool]:
    """Tell for each key whether it is there, where the backend can tell without reading it."""
    if isinstance(storage, LocalStorage):
        with storage_errors(storage, ""):
            return [(storage.root / check_key(key)).is_file() for key in keys]
    if not isinstance(storage, ZarrStorage):
        return [found is not None for found in storage.get_many(keys)]
    store, limit = storage.store, asyncio.Semaphore(storage.concurrency)

    async def exists(key: str) -> bool:
        async with limit:
            with storage_errors(storage, key):
                return await store.exists(check_key(key))

    async def all_of_them() -> list[bool]:
        return list(await asyncio.gather(*map(exists, keys)))

    return run_async(all_of_them())


def temporary_keys(storage: Storage) -> list[str]:
    """Return the keys of files whose write was broken off, which listings leave out: only a directory has any."""
    if not isinstance(storage, LocalStorage):
        return []
    with storage_errors(storage, ""):
        found = storage.root.rglob(f"{TEMPORARY_PREFIX}*")
        return sorted(path.relative_to(storage.root).as_posix() for path in found if path.is_file())


def check_key(key: str) -> str:
    """Return a key that stays inside its store, or raise.

    >>> check_key("0/vertices/0.0.0/c.0.0")
    '0/vertices/0.0.0/c.0.0'
    """
    parts = key.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\\" in key or "\0" in key:
        raise InputError(f"{key!r} is not a key inside a store")
    if not key.isascii():
        try:
            key.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"{key!r} is not a key: it is not valid text") from error
    return key


@contextlib.contextmanager
def storage_errors(storage: Storage, key: str) -> Iterator[None]:
    """Turn what a backend raises into our errors, with the store and the key."""
    try:
        yield
    except (OSError, zipfile.BadZipFile, zlib.error) as error:
        raise storage_error(error, key).at(store=storage.url) from error


def storage_error(error: Exception, key: str) -> StorageError:
    """Return our error for one of a backend, with what to do about it where that is known."""
    number = error.errno if isinstance(error, OSError) else None
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    hint = {
        errno.ENOSPC: ": free some space and write again",
        errno.EACCES: ": check the permissions",
        errno.EROFS: ": the place is read-only",
        errno.ENOTDIR: ": a file is where a directory should be",
        errno.EEXIST: ": a file is where a directory should be",
    }.get(number or 0, "")
    return StorageError(f"{reason} at {key or '/'}{hint}")


def run_async(work: "Coroutine[None, None, R]") -> R:
    """Wait for work of an asynchronous store, on zarr's own event loop."""
    from zarr.core.sync import sync  # noqa: PLC0415

    tasks: list[asyncio.Task[R] | None] = []
    given_up, ended = threading.Event(), threading.Event()

    async def tracked() -> R:
        tasks.append(asyncio.current_task())
        try:
            if given_up.is_set():
                work.close()
                raise asyncio.CancelledError
            return await work
        finally:
            ended.set()

    try:
        return sync(tracked())
    except KeyboardInterrupt:
        # What goes on in the other thread could still write after the caller has cleaned up.
        given_up.set()
        for task in tasks:
            if task is not None:
                task.get_loop().call_soon_threadsafe(task.cancel)
                ended.wait()
        raise
