"""Where a store is: a path, a URL, a Zarr store or a storage of ours, resolved to one interface."""

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from zarr_vectors.core.memory_storage import MemoryStorage
from zarr_vectors.core.storage import LocalStorage, Storage, ZarrStorage
from zarr_vectors.core.zip_storage import ZipStorage, open_zip
from zarr_vectors.exceptions import InputError


def resolve(
    location: object, *, writing: bool = False, follow_links: bool = False, max_bytes: int | None = None
) -> Storage:
    """Return the storage that a location names.

    Parameters
    ----------
    location
        A path, ``file://…``, ``memory://name``, a path that ends in ``.zip``, a Zarr store object,
        or a storage of this library.
    writing
        Whether a new store is to be written there; a zip file opens in one way or the other.
    follow_links
        Whether symbolic links in a local directory may lead out of it.
    max_bytes
        Largest file that is read of a local directory.
    """
    if isinstance(location, str | os.PathLike):
        found = _resolve_url(os.fspath(location), writing=writing)
        if isinstance(found, LocalStorage):
            largest = found.max_bytes if max_bytes is None else max_bytes
            return LocalStorage(found.root, follow_links=follow_links, max_bytes=largest)
        return found
    if isinstance(location, Storage):
        return location
    from zarr.abc.store import Store as ZarrStore  # noqa: PLC0415  zarr is imported only when it is needed

    if isinstance(location, ZarrStore):
        return ZarrStorage(location)
    raise InputError(f"a store is a path, a URL or a Zarr store, not {type(location).__name__}")


def _resolve_url(url: str, *, writing: bool) -> Storage:
    scheme, separator, rest = url.partition("://")
    if not separator:
        return _resolve_path(Path(url), writing=writing)
    if scheme == "file":
        return _resolve_path(Path(unquote(urlsplit(url).path)), writing=writing)
    if scheme == "memory":
        return MemoryStorage(rest)
    raise InputError(f"{scheme}:// is not known: use a path, file://, memory:// or a Zarr store object")


def _resolve_path(path: Path, *, writing: bool) -> Storage:
    if path.suffix.lower() != ".zip" or path.is_dir():
        return LocalStorage(path)
    return ZipStorage(path) if writing else open_zip(path)
