import asyncio
import errno
import os
import stat
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer as ZarrBuffer
from zarr.core.buffer import BufferPrototype
from zarr.storage import MemoryStore

from zarr_vectors.core.counting import CountingStorage
from zarr_vectors.core.storage import LocalStorage, Storage, ZarrStorage, check_key
from zarr_vectors.core.zip_storage import ZipStorage, open_zip
from zarr_vectors.exceptions import InputError, StorageError, StoreExistsError, StoreNotFoundError

OUTSIDE = ["../a", "/a", "a/../../b", "a//b", ".", "", "a/./b", "a/", "a\\b", "a\0b"]


@pytest.fixture(params=["local", "memory", "counting"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "local":
        return LocalStorage(tmp_path / "store")
    if request.param == "counting":
        return CountingStorage(LocalStorage(tmp_path / "store"))
    return ZarrStorage(MemoryStore())


def files_below(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


# -- what all storages do


def test_what_is_put_can_be_got(storage: Storage) -> None:
    storage.put_many([("a", b"1"), ("b/c", memoryview(b"22")), ("b/d/e", bytearray(b"")), ("a", b"3")])
    assert storage.get_many(["b/c", "nothing", "a", "b/d/e", "a/under/a/key"]) == [b"22", None, b"3", b"", None]
    assert storage.get_many([]) == []
    storage.put_many([])
    storage.flush()
    storage.close()


def test_async_twins(storage: Storage) -> None:
    async def work() -> list[object]:
        await storage.put_many_async((f"k/{number}", bytes([number])) for number in range(9))
        return list(await storage.get_many_async(["k/8", "k/9"]))

    assert asyncio.run(work()) == [b"\x08", None]


def test_listing(storage: Storage) -> None:
    assert storage.list_dir("") == []
    storage.put_many([("b/c", b""), ("b/a", b""), ("a", b""), ("b/d/e", b"")])
    assert storage.list_dir("") == ["a", "b"]
    assert storage.list_dir("b") == ["a", "c", "d"]
    assert storage.list_dir("b/c") == []
    assert storage.list_dir("nothing") == []


def test_deleting(storage: Storage) -> None:
    storage.put_many([("a", b""), ("b/c", b""), ("b/d/e", b""), ("bc", b"")])
    storage.delete_many(["a", "nothing"])
    storage.delete_dir("b")
    storage.delete_dir("nothing")
    assert storage.list_dir("") == ["bc"]
    storage.delete_dir("bc")
    assert storage.list_dir("") == []
    storage.put_many([("a", b""), ("b/c", b"")])
    storage.discard()
    assert storage.list_dir("") == []
    assert storage.get_many(["b/c"]) == [None]
    storage.put_many([("b/c", b"again")])
    assert storage.get_many(["b/c"]) == [b"again"]


def test_zarr_sees_the_same_keys(storage: Storage) -> None:
    storage.put_many([("b/c", b"1")])
    assert ZarrStorage(storage.zarr_store()).get_many(["b/c"]) == [b"1"]


@pytest.mark.parametrize("key", OUTSIDE)
def test_keys_stay_inside(storage: Storage, key: str) -> None:
    for work in (
        lambda: storage.get_many([key]),
        lambda: storage.put_many([(key, b"")]),
        lambda: storage.delete_many([key]),
    ):
        with pytest.raises(InputError, match="is not a key inside a store"):
            work()
    if key:
        for name in ("delete_dir", "list_dir"):
            with pytest.raises(InputError):
                getattr(storage, name)(key)


def test_a_failing_batch_says_so(storage: Storage) -> None:
    def items() -> Iterator[tuple[str, bytes]]:
        yield "a", b"1"
        raise LookupError

    with pytest.raises(LookupError):
        storage.put_many(items())


def test_good_keys() -> None:
    assert check_key("0/vertex_attributes/a:b …/-1.0.0/c.0") == "0/vertex_attributes/a:b …/-1.0.0/c.0"


# -- directories


def test_files_are_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = LocalStorage(tmp_path)
    storage.put_many([("a/b", b"old")])
    seen: list[bytes | None] = []
    replace = os.replace

    def watched(source: str, target: str) -> None:
        # All of the new bytes are in another file while the old ones still stand.
        seen.extend([Path(source).read_bytes(), Path(target).read_bytes()])
        assert storage.list_dir("a") == ["b"]
        replace(source, target)

    monkeypatch.setattr(os, "replace", watched)
    storage.put_many([("a/b", b"new")])
    assert seen == [b"new", b"old"]
    assert files_below(tmp_path) == ["a/b"]
    assert (tmp_path / "a/b").read_bytes() == b"new"


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = LocalStorage(tmp_path)
    storage.put_many([("a", b"old")])

    def full(_descriptor: int, _value: memoryview) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StorageError, match="No space left on device at a: free some space") as error:
        storage.put_many([("a", b"new")])
    assert error.value.store == str(tmp_path)
    assert isinstance(error.value.__cause__, OSError)
    assert files_below(tmp_path) == ["a"]
    assert storage.get_many(["a"]) == [b"old"]


def test_what_a_crash_left_behind_is_not_in_the_way(tmp_path: Path) -> None:
    (tmp_path / ".zv-1-0").write_bytes(b"half")
    storage = LocalStorage(tmp_path)
    assert storage.list_dir("") == []
    storage.put_many([("a", b"1")])
    assert storage.list_dir("") == ["a"]
    storage.discard()
    assert not tmp_path.exists()


def test_durable_writes_reach_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        synced.append(f"{kind} {path.relative_to(tmp_path)}" if kind == "folder" else kind)
        fsync(descriptor)

    if not Path("/proc/self/fd").exists():
        pytest.skip("this system does not tell what a descriptor is")
    monkeypatch.setattr(os, "fsync", watched)
    LocalStorage(tmp_path / "quick").put_many([("a", b"1")])
    assert synced == []
    storage = LocalStorage(tmp_path / "store", durable=True)
    storage.put_many([("a/b", b"1")])
    # The file, the folder that names it, and each folder that names a new folder.
    assert synced == ["folder store", "folder .", "file", "folder store/a"]
    synced.clear()
    storage.put_many([("a/c", b"1")])
    assert synced == ["file", "folder store/a"]
    assert storage.get_many(["a/b", "a/c"]) == [b"1", b"1"]


def test_a_file_where_a_directory_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    inside = LocalStorage(tmp_path)
    for key in ("file/a", "file/a/b"):
        with pytest.raises(StorageError, match=f"at {key}: a file is where a directory should be") as error:
            inside.put_many([(key, b"")])
        assert error.value.store == str(tmp_path)
    assert inside.get_many(["file/a"]) == [None]
    assert inside.list_dir("file") == []
    instead = LocalStorage(tmp_path / "file")
    with pytest.raises(StorageError, match="a file is where a directory should be"):
        instead.list_dir("")
    with pytest.raises(StorageError, match="a file is where a directory should be"):
        instead.put_many([("a", b"")])
    assert (tmp_path / "file").read_bytes() == b"x"


def test_a_directory_where_a_file_should_be(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    storage = LocalStorage(tmp_path)
    for work in (
        lambda: storage.get_many(["a"]),
        lambda: storage.put_many([("a", b"")]),
        lambda: storage.delete_many(["a"]),
    ):
        with pytest.raises(StorageError, match="at a"):
            work()
    assert files_below(tmp_path) == []


@pytest.mark.parametrize("call", ["os.open", "pathlib.Path.iterdir", "pathlib.Path.unlink", "os.mkdir", "os.link"])
def test_permission_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    # Tests may run as root, whom nobody denies anything.
    storage = LocalStorage(tmp_path / "store")
    storage.put_many([("a", b"")])
    calls: dict[str, Callable[[], object]] = {
        "os.open": lambda: storage.get_many(["a"]),
        "pathlib.Path.iterdir": lambda: storage.list_dir(""),
        "pathlib.Path.unlink": lambda: storage.delete_many(["a"]),
        "os.mkdir": lambda: storage.put_many([("new/a", b"")]),
        "os.link": lambda: storage.put_new("b", b""),
    }

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(call, denied)
        with pytest.raises(StorageError, match=r"Permission denied at .*: check the permissions") as error:
            calls[call]()
    assert error.value.store == str(tmp_path / "store")
    assert isinstance(error.value, OSError)


@pytest.mark.skipif(os.geteuid() == 0, reason="nobody denies root anything")
def test_permission_denied_for_real(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="Permission denied"):
        LocalStorage(tmp_path).put_many([("a", b"")])
    tmp_path.chmod(0o700)


def test_a_link_to_a_directory_stays(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "precious").write_bytes(b"")
    storage = LocalStorage(tmp_path / "link")
    storage.put_many([("a/b", b"")])
    (tmp_path / "real" / "other").symlink_to(tmp_path / "elsewhere")
    storage.discard()
    assert (tmp_path / "link").is_dir()
    assert list((tmp_path / "real").iterdir()) == []
    assert (tmp_path / "elsewhere" / "precious").exists()


def test_discarding_nothing(tmp_path: Path) -> None:
    LocalStorage(tmp_path / "never").discard()


# -- Zarr stores


class SlowStore(MemoryStore):
    """A store that tells how many requests were under way at once, and fails on demand."""

    def __init__(self) -> None:
        super().__init__()
        self.running = 0
        self.most = 0
        self.finished: list[str] = []

    async def wait(self, key: str) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(0.002 if key != "quick" else 0)
            if key == "quick":
                raise PermissionError(errno.EACCES, "Permission denied")
            self.finished.append(key)
        finally:
            self.running -= 1

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> ZarrBuffer | None:
        await self.wait(key)
        return await super().get(key, prototype, byte_range)

    async def set(self, key: str, value: ZarrBuffer, byte_range: tuple[int, int] | None = None) -> None:
        await self.wait(key)
        await super().set(key, value, byte_range)


@pytest.mark.parametrize("concurrency", [1, 3, 64])
def test_concurrency_is_bounded(concurrency: int) -> None:
    store = SlowStore()
    storage = ZarrStorage(store, concurrency=concurrency)
    keys = [f"k{number}" for number in range(20)]
    storage.put_many((key, key.encode()) for key in keys)
    assert store.most == min(concurrency, 20)
    store.most = 0
    assert storage.get_many(keys[::-1]) == [key.encode() for key in keys[::-1]]
    assert store.most == min(concurrency, 20)


def test_values_are_made_when_they_are_needed() -> None:
    store = SlowStore()
    made: list[int] = []

    def items() -> Iterator[tuple[str, bytes]]:
        for number in range(20):
            made.append(number)
            assert number - len(store.finished) <= 2
            yield f"k{number}", b""

    ZarrStorage(store, concurrency=2).put_many(items())
    assert made == list(range(20))


def test_a_failure_ends_the_rest_of_the_batch() -> None:
    store = SlowStore()
    storage = ZarrStorage(store, concurrency=4)
    with pytest.raises(StorageError, match="Permission denied at quick: check the permissions") as error:
        storage.put_many([("a", b""), ("b", b""), ("quick", b""), ("c", b"")])
    assert error.value.store == storage.url
    asyncio.run(asyncio.sleep(0.01))
    assert store.finished == []
    assert store.running == 0
    assert storage.list_dir("") == []


def test_concurrency_of_nothing() -> None:
    with pytest.raises(InputError, match="at least 1, not 0"):
        ZarrStorage(MemoryStore(), concurrency=0)


def test_a_store_for_reading_only() -> None:
    storage = ZarrStorage(MemoryStore(read_only=True), url="mine")
    calls: list[Callable[[], None]] = [
        lambda: storage.put_many([("a", b"")]),
        lambda: storage.delete_many(["a"]),
        storage.discard,
    ]
    for work in calls:
        with pytest.raises(StorageError, match="mine: the Zarr store was opened for reading only"):
            work()
    assert storage.get_many(["a"]) == [None]


def test_a_store_belongs_to_whoever_made_it() -> None:
    store = asyncio.run(MemoryStore.open())
    ZarrStorage(store).close()
    assert store._is_open
    ZarrStorage(store, owned=True).close()
    assert not store._is_open


# -- zip files


def test_a_zip_file_appears_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.zip"
    storage = ZipStorage(path)
    storage.put_many([("a/b", b"1")])
    asyncio.run(storage.put_many_async([("c", b"2")]))
    assert not path.exists()
    assert (storage.get_many(["c"]), storage.list_dir("")) == ([None], [])
    assert asyncio.run(storage.get_many_async(["c"])) == [None]
    assert ZarrStorage(storage.zarr_store()).get_many(["c"]) == [b"2"]
    storage.flush()
    assert files_below(tmp_path) == ["new/a.zip"]
    reading = open_zip(path)
    assert reading.get_many(["a/b", "c", "d"]) == [b"1", b"2", None]
    assert reading.list_dir("a") == ["b"]
    reading.close()


def test_a_zip_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    for value in (b"old", b"new"):
        storage = ZipStorage(path)
        storage.put_many([("a", value)])
        if value == b"new":
            # Until then, what can be read is the file that is there.
            assert storage.get_many(["a"]) == [b"old"]
            assert asyncio.run(storage.get_many_async(["a"])) == [b"old"]
            assert storage.list_dir("") == ["a"]
        storage.flush()
    reading = open_zip(path)
    assert reading.get_many(["a"]) == [b"new"]
    reading.close()
    assert files_below(tmp_path) == ["a.zip"]


def test_a_zip_file_is_discarded(tmp_path: Path) -> None:
    storage = ZipStorage(tmp_path / "a.zip")
    storage.put_many([("a", b"1")])
    storage.discard()
    assert files_below(tmp_path) == []
    ZipStorage(tmp_path / "b.zip").discard()


def test_a_zip_file_only_grows(tmp_path: Path) -> None:
    storage = ZipStorage(tmp_path / "a.zip")
    with pytest.raises(StorageError, match=r"a\.zip: a zip file can't lose 1 keys"):
        storage.delete_many(["a"])
    with pytest.raises(StorageError, match="can't lose its keys"):
        storage.delete_dir("")


def test_a_zip_file_that_nothing_was_put_into(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file or directory at /"):
        ZipStorage(tmp_path / "a.zip").flush()


def test_what_is_no_zip_file(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(b"PK\x03\x04 cut short")
    with pytest.raises(StoreNotFoundError, match=r"a\.zip: this is not a whole zip file"):
        open_zip(path)
    with pytest.raises(StoreExistsError, match=r"a\.zip: what is there is not a zip file, so it is not replaced"):
        ZipStorage(path)
    with pytest.raises(StorageError, match="Is a directory at /"):
        open_zip(tmp_path)


def test_damaged_zip_files(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", b"0123456789")
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"0123456789", b"0123456780"))
    storage = open_zip(path)
    with pytest.raises(StorageError, match="Bad CRC-32 for file 'a' at a") as error:
        storage.get_many(["a"])
    assert error.value.store == str(path)
    storage.close()
    path.write_bytes(whole.replace(b"PK\x01\x02", b"PK\x01\x09"))
    with pytest.raises(StoreNotFoundError, match="this zip file is damaged"):
        open_zip(path)


# -- counting


def test_counting(tmp_path: Path) -> None:
    storage = CountingStorage(LocalStorage(tmp_path))
    assert isinstance(storage, Storage)
    assert storage.url == str(tmp_path)
    assert storage.transactional is False
    storage.put_many([("a", b""), ("b", b"")])
    asyncio.run(storage.put_many_async([("c", b"")]))
    storage.get_many(["a"])
    asyncio.run(storage.get_many_async(["b", "c"]))
    storage.get_many([])
    storage.list_dir("")
    assert (storage.puts, storage.gets, storage.lists) == (["a", "b", "c"], ["a", "b", "c"], [""])
    assert storage.batches == 4
    storage.reset()
    assert (storage.puts, storage.gets, storage.lists, storage.batches) == ([], [], [], 0)
