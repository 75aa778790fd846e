"""A store in the memory of this process, by name: for tests, examples and what need not last."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from zarr_vectors.core.storage import check_key, zarr_store_of
from zarr_vectors.typing import Buffer

if TYPE_CHECKING:
    from zarr.abc.store import Store as ZarrStore

_STORES: Final[dict[str, dict[str, bytes]]] = {}
"""By name, so that what was created under ``memory://name`` can be opened."""


class MemoryStorage:
    """Keys and bytes in a dict that every storage of the same name shares."""

    transactional = False

    def __init__(self, name: str) -> None:
        self.name = name
        self._items = _STORES.setdefault(name, {})

    @property
    def url(self) -> str:
        """``memory://`` and the name."""
        return f"memory://{self.name}"

    def get_many(self, keys: Sequence[str]) -> list[Buffer | None]:
        """Return the bytes of each key, ``None`` where there is no such key."""
        return [self._items.get(check_key(key)) for key in keys]

    async def get_many_async(self, keys: Sequence[str]) -> list[Buffer | None]:
        """Return the same as `get_many`, from an event loop."""
        return self.get_many(keys)

    def put_many(self, items: Iterable[tuple[str, Buffer]]) -> None:
        """Keep each value under its key."""
        for key, value in items:
            self._items[check_key(key)] = bytes(value)

    async def put_many_async(self, items: Iterable[tuple[str, Buffer]]) -> None:
        """Do the same as `put_many`, from an event loop."""
        self.put_many(items)

    def put_new(self, key: str, value: Buffer) -> bool:
        """Keep a value unless the key is there already, and tell whether it was kept."""
        kept = bytes(value)
        return self._items.setdefault(check_key(key), kept) is kept

    def begin_replacement(self) -> bool:
        """Refuse: keys are replaced one by one."""
        return False

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove keys; those that are not there are left alone."""
        for key in keys:
            self._items.pop(check_key(key), None)

    def delete_dir(self, prefix: str) -> None:
        """Remove all keys below a prefix."""
        below = f"{check_key(prefix)}/" if prefix else ""
        for key in [key for key in self._items if key.startswith(below)]:
            del self._items[key]

    def list_dir(self, prefix: str) -> list[str]:
        """Return the names directly below a prefix, sorted."""
        below = f"{check_key(prefix)}/" if prefix else ""
        return sorted({key[len(below) :].split("/", 1)[0] for key in list(self._items) if key.startswith(below)})

    def zarr_store(self) -> "ZarrStore":
        """Return a Zarr store with what is there now, to read from."""
        return zarr_store_of(self._items)

    def flush(self) -> None:
        """Do nothing: each key is there when it is put."""

    def discard(self) -> None:
        """Remove all keys."""
        self._items.clear()

    def close(self) -> None:
        """Do nothing: the name keeps what it holds."""
