"""A store in one zip file: read as it is, or written anew and put in its place as a whole."""

import asyncio
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from zarr_vectors.core.local_files import sweep, temporary_name
from zarr_vectors.core.storage import ZarrStorage, run_async, storage_error, storage_errors
from zarr_vectors.exceptions import StorageError, StoreExistsError, StoreNotFoundError
from zarr_vectors.typing import Buffer

if TYPE_CHECKING:
    from zarr.abc.store import Store as ZarrStore


class ZipStorage:
    """A new zip file: written beside its place, and moved there as a whole by `flush`.

    Until then, what can be read is the file that is there already, if there is one.
    """

    transactional = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self._temporary = path.with_name(temporary_name(path.name))
        self._before = self._open_before()
        self._new: ZarrStorage | None = None

    @property
    def url(self) -> str:
        """The file's path."""
        return str(self.path)

    def get_many(self, keys: Sequence[str]) -> list[Buffer | None]:
        """Return what the file that is there already holds."""
        return [None] * len(keys) if self._before is None else self._before.get_many(keys)

    async def get_many_async(self, keys: Sequence[str]) -> list[Buffer | None]:
        """Return the same as `get_many`, from an event loop."""
        return [None] * len(keys) if self._before is None else await self._before.get_many_async(keys)

    def put_many(self, items: Iterable[tuple[str, Buffer]]) -> None:
        """Add to the new file."""
        self._target().put_many(items)

    async def put_many_async(self, items: Iterable[tuple[str, Buffer]]) -> None:
        """Do the same as `put_many`, from an event loop."""
        target = await asyncio.to_thread(self._target)
        await target.put_many_async(items)

    def put_new(self, key: str, value: Buffer) -> bool:
        """Add to the new file, which nobody else writes to."""
        self.put_many([(key, value)])
        return True

    def begin_replacement(self) -> bool:
        """Do nothing: a zip file is always replaced as a whole."""
        return True

    def delete_many(self, keys: Sequence[str]) -> None:
        """Refuse: a zip file only grows."""
        raise StorageError(f"a zip file can't lose {len(keys)} keys: write it anew").at(store=self.url)

    def delete_dir(self, prefix: str) -> None:
        """Refuse: a zip file only grows."""
        raise StorageError(f"a zip file can't lose {prefix or 'its keys'}: write it anew").at(store=self.url)

    def list_dir(self, prefix: str) -> list[str]:
        """Return the names in the file that is there already."""
        return [] if self._before is None else self._before.list_dir(prefix)

    def zarr_store(self) -> "ZarrStore":
        """Return the new file as zarr sees it."""
        return self._target().zarr_store()

    def flush(self) -> None:
        """Close the new file and put it in its place."""
        self.close()
        with storage_errors(self, ""):
            self._temporary.replace(self.path)

    def discard(self) -> None:
        """Remove the new file."""
        self.close()
        with storage_errors(self, ""):
            self._temporary.unlink(missing_ok=True)

    def close(self) -> None:
        """Close both files."""
        for storage in (self._new, self._before):
            if storage is not None:
                storage.close()

    def _open_before(self) -> ZarrStorage | None:
        if not self.path.exists():
            return None
        try:
            return open_zip(self.path)
        except StoreNotFoundError as error:
            raise StoreExistsError("what is there is not a zip file, so it is not replaced: remove it first").at(
                store=self.url
            ) from error

    def _target(self) -> ZarrStorage:
        if self._new is None:
            with storage_errors(self, ""):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                sweep(self.path.parent, self.path.name)
                self._new = _open_zip_store(self._temporary, "w")
        return self._new


def open_zip(path: Path) -> ZarrStorage:
    """Return a zip file that is there, for reading."""
    url = str(path)
    try:
        with path.open("rb") as file:
            is_zip = zipfile.is_zipfile(file)
    except FileNotFoundError as error:
        raise StoreNotFoundError("there is no such file").at(store=url) from error
    except OSError as error:
        raise storage_error(error, "").at(store=url) from error
    if not is_zip:
        raise StoreNotFoundError("this is not a whole zip file: it is something else, or a write did not finish").at(
            store=url
        )
    try:
        return _open_zip_store(path, "r")
    except zipfile.BadZipFile as error:
        raise StoreNotFoundError(f"this zip file is damaged: {error}").at(store=url) from error


def _open_zip_store(path: Path, mode: Literal["r", "w"]) -> ZarrStorage:
    from zarr.storage import ZipStore  # noqa: PLC0415  zarr is imported only when it is needed

    return ZarrStorage(run_async(ZipStore.open(path, mode=mode)), url=str(path), owned=True)
