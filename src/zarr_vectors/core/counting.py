"""A storage that counts what passes through it: requests and bytes are part of an operation's contract."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from zarr_vectors.core.storage import Storage
from zarr_vectors.typing import Buffer

if TYPE_CHECKING:
    from zarr.abc.store import Store as ZarrStore


class CountingStorage:
    """A storage that counts what passes through it, for tests and measurements."""

    def __init__(self, inner: Storage) -> None:
        self.inner = inner
        self.reset()

    def reset(self) -> None:
        """Set all counts to zero."""
        self.gets: list[str] = []
        self.puts: list[str] = []
        self.lists: list[str] = []
        self.batches = 0
        self.bytes_put = 0

    @property
    def url(self) -> str:
        """Name of the storage inside."""
        return self.inner.url

    @property
    def transactional(self) -> bool:
        """As the storage inside."""
        return self.inner.transactional

    def get_many(self, keys: Sequence[str]) -> list[Buffer | None]:
        """Count one batch and each key."""
        self._count(self.gets, keys)
        return self.inner.get_many(keys)

    async def get_many_async(self, keys: Sequence[str]) -> list[Buffer | None]:
        """Count one batch and each key."""
        self._count(self.gets, keys)
        return await self.inner.get_many_async(keys)

    def put_many(self, items: Iterable[tuple[str, Buffer]]) -> None:
        """Count one batch and each key."""
        self.batches += 1
        self.inner.put_many(map(self._counted, items))

    async def put_many_async(self, items: Iterable[tuple[str, Buffer]]) -> None:
        """Count one batch and each key."""
        self.batches += 1
        await self.inner.put_many_async(map(self._counted, items))

    def put_new(self, key: str, value: Buffer) -> bool:
        """Count one batch and the key."""
        self.batches += 1
        self._counted((key, value))
        return self.inner.put_new(key, value)

    def begin_replacement(self) -> bool:
        """Pass on, uncounted."""
        return self.inner.begin_replacement()

    def delete_many(self, keys: Sequence[str]) -> None:
        """Pass on, uncounted."""
        self.inner.delete_many(keys)

    def delete_dir(self, prefix: str) -> None:
        """Pass on, uncounted."""
        self.inner.delete_dir(prefix)

    def list_dir(self, prefix: str) -> list[str]:
        """Count one listing."""
        self.lists.append(prefix)
        return self.inner.list_dir(prefix)

    def zarr_store(self) -> "ZarrStore":
        """Return the Zarr store of the storage inside, which is not counted."""
        return self.inner.zarr_store()

    def flush(self) -> None:
        """Pass on, uncounted."""
        self.inner.flush()

    def discard(self) -> None:
        """Pass on, uncounted."""
        self.inner.discard()

    def close(self) -> None:
        """Close the storage inside."""
        self.inner.close()

    def _counted(self, item: tuple[str, Buffer]) -> tuple[str, Buffer]:
        # Items pass one by one: a write streams, and does not wait until all is encoded.
        self.puts.append(item[0])
        self.bytes_put += memoryview(item[1]).nbytes
        return item

    def _count(self, counted: list[str], keys: Sequence[str]) -> None:
        if keys:
            self.batches += 1
            counted.extend(keys)
