import zipfile
from pathlib import Path

import pytest
from zarr.storage import MemoryStore

from zarr_vectors.core.location import resolve
from zarr_vectors.core.storage import LocalStorage, ZarrStorage
from zarr_vectors.core.zip_storage import ZipStorage
from zarr_vectors.exceptions import InputError, StoreNotFoundError


@pytest.mark.parametrize("as_text", [True, False])
def test_paths(tmp_path: Path, as_text: bool) -> None:
    storage = resolve(str(tmp_path) if as_text else tmp_path)
    assert isinstance(storage, LocalStorage)
    assert storage.url == str(tmp_path)


def test_file_urls(tmp_path: Path) -> None:
    storage = resolve(f"file://{tmp_path}/a%20b.zv")
    assert storage.url == str(tmp_path / "a b.zv")


def test_memory_urls_name_one_store() -> None:
    storage = resolve("memory://test_memory_urls")
    storage.put_many([("a", b"1")])
    assert resolve("memory://test_memory_urls").get_many(["a"]) == [b"1"]
    assert resolve("memory://test_memory_urls_other").get_many(["a"]) == [None]
    assert storage.url == "memory://test_memory_urls"


def test_zarr_stores() -> None:
    store = MemoryStore()
    storage = resolve(store)
    assert isinstance(storage, ZarrStorage)
    assert storage.zarr_store() is store


def test_storages_are_taken_as_they_are(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path, durable=True)
    assert resolve(storage) is storage


@pytest.mark.parametrize("name", ["a.zip", "A.ZIP"])
def test_zip_files(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with pytest.raises(StoreNotFoundError, match="there is no such file"):
        resolve(path)
    assert isinstance(resolve(path, writing=True), ZipStorage)
    with zipfile.ZipFile(path, "w"):
        pass
    reading = resolve(path)
    assert isinstance(reading, ZarrStorage)
    reading.close()


def test_a_directory_may_be_called_zip(tmp_path: Path) -> None:
    (tmp_path / "a.zip").mkdir()
    assert isinstance(resolve(tmp_path / "a.zip"), LocalStorage)


@pytest.mark.parametrize("location", ["s3://bucket/a", "https://host/a"])
def test_unknown_schemes(location: str) -> None:
    with pytest.raises(InputError, match=f"{location.split(':', maxsplit=1)[0]}:// is not known"):
        resolve(location)


def test_what_is_no_location() -> None:
    with pytest.raises(InputError, match="not int"):
        resolve(3)
