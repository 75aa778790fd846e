import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from zarr.storage import MemoryStore

import zarr_vectors as zv
from zarr_vectors.core import writers
from zarr_vectors.core.counting import CountingStorage
from zarr_vectors.core.storage import LocalStorage, Storage, ZarrStorage
from zarr_vectors.core.store import MARKER, create_store, list_levels, read_level, read_root
from zarr_vectors.core.zip_storage import ZipStorage
from zarr_vectors.exceptions import (
    DecodeError,
    EncodeError,
    InputError,
    MetadataError,
    ObjectNotFoundError,
    StorageError,
    StoreExistsError,
    StoreNotFoundError,
    UnfinishedWriteError,
    UnsupportedVersionError,
)

WriteEverything = Callable[..., None]
ROOT = zv.RootMetadata(chunk_shape=(10, 10), bounds=((0, 0), (10, 10)), geometry_types=("point_cloud",))


def write_points(storage: Storage, value: float = 1.0, **options: Any) -> None:
    with create_store(storage, ROOT, **options) as draft:
        writers.write_vertices(draft.add_level(), {(0, 0): [[value, value]]})


def first_point(storage: Storage) -> list[float]:
    values: list[list[float]] = read_level(storage, read_root(storage), 0).read_vertices((0, 0)).tolist()
    return values[0]


def document(attributes: dict[str, Any], **top: Any) -> bytes:
    return json.dumps({"zarr_format": 3, "node_type": "group", "attributes": attributes, **top}).encode()


@pytest.fixture(params=["local", "memory", "zip"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Storage]:
    """Return a function that gives the same place again, for writing."""
    store = MemoryStore()
    places: dict[str, Callable[[], Storage]] = {
        "local": lambda: LocalStorage(tmp_path / "a.zv"),
        "memory": lambda: ZarrStorage(store),
        "zip": lambda: ZipStorage(tmp_path / "a.zip"),
    }
    return places[request.param]


# -- creating


def test_a_store_is_there_once_its_block_has_ended(place: Callable[[], Storage]) -> None:
    write_points(place())
    storage = place()
    assert first_point(storage) == [1.0, 1.0]
    assert storage.list_dir("") == ["0", "zarr.json"]
    storage.close()


def test_nothing_can_be_opened_before(place: Callable[[], Storage]) -> None:
    draft = create_store(place(), ROOT)
    writers.write_vertices(draft.add_level(), {(0, 0): [[1.0, 1.0]]})
    with pytest.raises((UnfinishedWriteError, StoreNotFoundError)):
        read_root(place())
    draft.discard()


def test_an_error_removes_what_was_written(place: Callable[[], Storage]) -> None:
    storage = place()
    with pytest.raises(LookupError), create_store(storage, ROOT) as draft:  # noqa: PT012
        writers.write_vertices(draft.add_level(), {(0, 0): [[1.0, 1.0]]})
        raise LookupError
    assert place().list_dir("") == []
    write_points(place())


def test_an_error_leaves_no_file_behind(tmp_path: Path) -> None:
    for storage in (LocalStorage(tmp_path / "a.zv"), ZipStorage(tmp_path / "a.zip")):
        with pytest.raises(KeyboardInterrupt), create_store(storage, ROOT) as draft:  # noqa: PT012
            writers.write_vertices(draft.add_level(), {(0, 0): [[1.0, 1.0]]})
            raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_draft_without_level_0_is_removed(place: Callable[[], Storage]) -> None:
    with pytest.raises(InputError, match="a store needs level 0"), create_store(place(), ROOT) as draft:
        draft.add_level(1)
    assert place().list_dir("") == []


def test_a_commit_that_fails_removes_the_draft(tmp_path: Path) -> None:
    metadata = ROOT.model_copy(update={"crs": {"epoch": float("nan")}})
    storage = LocalStorage(tmp_path / "a.zv")
    with pytest.raises(EncodeError, match="can't be written as JSON"), create_store(storage, metadata) as draft:
        draft.add_level()
    assert list(tmp_path.iterdir()) == []


def test_the_order_of_a_write() -> None:
    storage = CountingStorage(ZarrStorage(MemoryStore()))
    with create_store(storage, ROOT) as draft:
        for level in (1, 0):
            group = draft.add_level(level)
            writers.write_vertices(group, {(0, 0): [[1.0, 1.0]], (0, 1): [[1.0, 11.0]]})
    puts = storage.puts
    assert puts[0] == MARKER
    assert puts[-3:] == ["0/zarr.json", "1/zarr.json", "zarr.json"]
    for position, key in enumerate(puts[1:-3], start=1):
        if key.endswith("/zarr.json"):
            below = key.removesuffix("zarr.json")
            payloads = [other for other in puts if other.startswith(below) and "/c." in other]
            assert payloads
            assert all(puts.index(payload) < position for payload in payloads), key
    assert storage.list_dir("") == ["0", "1", "zarr.json"]


def test_a_zip_file_needs_no_marker(tmp_path: Path) -> None:
    storage = CountingStorage(ZipStorage(tmp_path / "a.zip"))
    write_points(storage)
    assert MARKER not in storage.puts
    assert storage.puts[-1] == "zarr.json"


def test_mode_x_refuses_a_place_that_holds_anything(place: Callable[[], Storage]) -> None:
    write_points(place())
    storage = place()
    with pytest.raises(StoreExistsError, match="something is there already") as error:
        create_store(storage, ROOT)
    assert error.value.store == storage.url
    assert first_point(storage) == [1.0, 1.0]
    storage.close()


def test_mode_w_replaces_a_store(place: Callable[[], Storage]) -> None:
    storage = place()
    with create_store(storage, ROOT) as draft:
        writers.write_vertices(draft.add_level(), {(0, 0): [[1.0, 1.0]], (5, 5): [[55.0, 55.0]]})
        draft.add_level(1)
    write_points(place(), 2.0, mode="w")
    storage = place()
    assert first_point(storage) == [2.0, 2.0]
    assert storage.list_dir("") == ["0", "zarr.json"]
    assert storage.list_dir("0/vertices") == ["0.0", "zarr.json"]
    storage.close()


def test_mode_w_begins_a_store(place: Callable[[], Storage]) -> None:
    write_points(place(), mode="w")
    storage = place()
    assert first_point(storage) == [1.0, 1.0]
    storage.close()


def test_a_zip_file_stays_when_its_replacement_fails(tmp_path: Path) -> None:
    write_points(ZipStorage(tmp_path / "a.zip"))
    with pytest.raises(LookupError), create_store(ZipStorage(tmp_path / "a.zip"), ROOT, mode="w") as draft:  # noqa: PT012
        draft.add_level()
        raise LookupError
    storage = ZipStorage(tmp_path / "a.zip")
    assert first_point(storage) == [1.0, 1.0]
    storage.close()


@pytest.mark.parametrize(
    "keys",
    [
        {"notes.txt": b"precious"},
        {"zarr.json": document({"other": 1}), "0/zarr.json": document({})},
        {"zarr.json": b"{"},
        {"zarr.json": json.dumps({"zarr_format": 3, "node_type": "array"}).encode()},
        {"0/data": b"x"},
        {"0/zarr.json": document({"other": 1})},
    ],
)
def test_what_is_not_a_store_is_not_replaced(place: Callable[[], Storage], keys: dict[str, bytes]) -> None:
    storage = place()
    storage.put_many(keys.items())
    storage.flush()
    storage = place()
    with pytest.raises(StoreExistsError, match="is not a zarr-vectors store, so it is not replaced") as error:
        create_store(storage, ROOT, mode="w")
    assert error.value.store == storage.url
    assert storage.get_many(list(keys)) == list(keys.values())
    storage.close()


@pytest.mark.parametrize(
    "keys",
    [
        {MARKER: b"{}", "0/vertices/x": b""},
        {"0/zarr.json": document({"zarr_vectors_level": {}}), "README.txt": b"stray"},
        {"zarr.json": document({"zarr_vectors": {"zv_version": "0.1"}})},
        {"zarr.json": document({}, zarr_vectors={})},
    ],
)
def test_old_and_unfinished_stores_can_be_replaced(tmp_path: Path, keys: dict[str, bytes]) -> None:
    for storage in (LocalStorage(tmp_path / "a.zv"), ZarrStorage(MemoryStore())):
        storage.put_many(keys.items())
        write_points(storage, mode="w")
        assert first_point(storage) == [1.0, 1.0]
        assert storage.list_dir("") == ["0", "zarr.json"]


def test_an_unknown_mode_replaces_nothing(place: Callable[[], Storage]) -> None:
    write_points(place())
    storage = place()
    with pytest.raises(InputError, match="mode is one of x, w, not 'a'"):
        create_store(storage, ROOT, mode="a")  # type: ignore[arg-type]
    assert first_point(storage) == [1.0, 1.0]
    storage.close()


def test_levels_are_added_once() -> None:
    draft = create_store(ZarrStorage(MemoryStore()), ROOT)
    draft.add_level(1)
    with pytest.raises(InputError, match="level 1: this level was added already"):
        draft.add_level(zv.LevelMetadata(level=1))
    with pytest.raises(MetadataError, match=r"zarr_vectors_level\.level"):
        draft.add_level(-1)
    with pytest.raises(MetadataError, match="does not divide") as error:
        draft.add_level(zv.LevelMetadata(level=2, chunk_shape=(15, 10)))
    assert error.value.level == 2


def test_a_draft_ends_once(place: Callable[[], Storage]) -> None:
    with create_store(place(), ROOT) as draft:
        draft.add_level()
        root = draft.commit()
        assert [dataset.path for dataset in root.multiscale.datasets] == ["0"]
    with pytest.raises(InputError, match="committed or discarded before"):
        draft.commit()
    draft.discard()
    storage = place()
    assert read_root(storage) == root
    storage.close()


def test_what_is_committed_stays_in_spite_of_a_later_error(tmp_path: Path) -> None:
    with pytest.raises(LookupError), create_store(LocalStorage(tmp_path / "a.zv"), ROOT) as draft:  # noqa: PT012
        draft.add_level()
        draft.commit()
        raise LookupError
    assert read_root(LocalStorage(tmp_path / "a.zv")).ndim == 2


# -- what is written about levels


def test_metadata_of_levels() -> None:
    storage = ZarrStorage(MemoryStore())
    with create_store(storage, ROOT) as draft:
        writers.write_vertices(draft.add_level(), {(0, 0): [[1.0, 1.0]] * 3})
        coarse = zv.LevelMetadata.from_attrs(
            {
                "zarr_vectors_level": {
                    "level": 1,
                    "bin_shape": [20, 20],
                    "bin_ratio": [2, 2],
                    "chunk_shape": [20, 20],
                    "x": 1,
                }
            }
        )
        group = draft.add_level(coarse)
        writers.write_vertices(group, {(0, 0): [[1.0, 1.0]]})
        writers.write_groups(group, np.array([0]), np.array([0, 1]))
    root = read_root(storage)
    assert [dataset.to_json() for dataset in root.multiscale.datasets] == [
        {
            "path": path,
            "coordinateTransformations": [
                {"type": "scale", "scale": [scale] * 2},
                {"type": "translation", "translation": [half] * 2},
            ],
        }
        for path, scale, half in (("0", 1.0, 5.0), ("1", 2.0, 10.0))
    ]
    assert list_levels(storage, root) == [0, 1]
    levels = [read_level(storage, root, number) for number in (0, 1)]
    assert [group.metadata.vertex_count for group in levels] == [3, 1]
    assert levels[0].metadata.arrays_present == ("vertices",)
    assert levels[1].metadata.arrays_present == ("vertices", "groups")
    assert levels[0].metadata.chunk_shape == (10.0, 10.0)
    assert levels[1].metadata.extras() == {"x": 1}
    (raw,) = storage.get_many(["0/zarr.json"])
    # A level that has the root's chunks does not repeat them.
    assert "chunk_shape" not in json.loads(bytes(raw or b""))["attributes"]["zarr_vectors_level"]
    (raw,) = storage.get_many(["1/zarr.json"])
    assert json.loads(bytes(raw or b""))["attributes"]["zarr_vectors_level"]["chunk_shape"] == [20.0, 20.0]


def test_a_stated_vertex_count_stays() -> None:
    storage = ZarrStorage(MemoryStore())
    with create_store(storage, ROOT) as draft:
        draft.add_level(zv.LevelMetadata(level=0, vertex_count=7))
    assert read_level(storage, read_root(storage), 0).metadata.vertex_count == 7


# -- opening


def with_keys(keys: dict[str, bytes]) -> ZarrStorage:
    storage = ZarrStorage(MemoryStore(), url="here")
    storage.put_many(keys.items())
    return storage


@pytest.mark.parametrize(
    ("keys", "error", "words"),
    [
        ({}, StoreNotFoundError, "there is nothing here"),
        ({"notes.txt": b""}, StoreNotFoundError, "not a zarr-vectors store, it has no zarr.json"),
        ({".zgroup": b"{}"}, StoreNotFoundError, "it is a Zarr v2 group"),
        ({"zarr.json": document({"other": 1})}, StoreNotFoundError, "a Zarr group without 'zarr_vectors'"),
        (
            {"zarr.json": json.dumps({"zarr_format": 3, "node_type": "array"}).encode()},
            StoreNotFoundError,
            "a single Zarr array",
        ),
        ({"zarr.json": b"{"}, DecodeError, "not valid JSON"),
        ({"zarr.json": b'{"node_type": "group"}'}, DecodeError, "does not describe a Zarr v3 group"),
        ({"zarr.json": document({"zarr_vectors": 3})}, MetadataError, "has no such block"),
        ({"zarr.json": document({"zarr_vectors": {}})}, UnsupportedVersionError, "zv_version is None"),
        ({"zarr.json": document({"zarr_vectors": {"zv_version": "0.5.0"}})}, UnsupportedVersionError, "format 0.5.0"),
        ({"zarr.json": document({"zarr_vectors": {"zv_version": "0.8.0"}})}, UnsupportedVersionError, "format 0.8.0"),
        ({"zarr.json": document({"zarr_vectors": {"zv_version": "0.7.0"}})}, MetadataError, "3 problems"),
        ({MARKER: b"{", "0/a": b""}, UnfinishedWriteError, "a write that began here did not finish"),
        ({MARKER: b'{"pid": 7}'}, UnfinishedWriteError, "process 7"),
        ({"0/vertices/0.0/c.0": b""}, UnfinishedWriteError, "levels and no root zarr.json"),
    ],
)
def test_what_can_not_be_opened(keys: dict[str, bytes], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as found:
        read_root(with_keys(keys))
    assert str(found.value).startswith("here: ")


def test_an_unfinished_write_is_told_by_its_marker(tmp_path: Path) -> None:
    create_store(LocalStorage(tmp_path / "a.zv"), ROOT)
    with pytest.raises(UnfinishedWriteError, match=r"began 2.*process \d+ on .*write it again with mode='w'"):
        read_root(LocalStorage(tmp_path / "a.zv"))


def test_a_marker_beside_a_root_is_no_harm() -> None:
    # All data and the root were there already when the write stopped.
    storage = ZarrStorage(MemoryStore())
    write_points(storage)
    storage.put_many([(MARKER, b"{}")])
    assert first_point(storage) == [1.0, 1.0]


def test_a_file_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(StorageError, match="a file is where a directory should be"):
        read_root(LocalStorage(tmp_path / "a"))
    with pytest.raises(StorageError, match="a file is where a directory should be"):
        create_store(LocalStorage(tmp_path / "a"), ROOT)


def test_keys_at_the_top_of_the_documents_are_read(tmp_path: Path, write_everything: WriteEverything) -> None:
    path = tmp_path / "a.zv"
    write_everything(path)
    for file in path.rglob("zarr.json"):
        parsed = json.loads(file.read_text())
        if parsed["node_type"] == "group":
            attributes = parsed.pop("attributes")
            attributes.pop("zarr_vectors_arrays", None)
            file.write_text(json.dumps({**parsed, **attributes}))
    group = read_level(LocalStorage(path), read_root(LocalStorage(path)), 0)
    assert group.metadata.vertex_count == 9
    assert len(group.read_vertices((0, 0, 0))) == 5


def test_levels_without_an_ngff_block() -> None:
    storage = ZarrStorage(MemoryStore())
    write_points(storage)
    storage.put_many([("12/zarr.json", b""), ("007/zarr.json", b""), ("labels/zarr.json", b"")])
    bare = read_root(storage).model_copy(update={"multiscale": ROOT.multiscale})
    assert list_levels(storage, bare) == [0, 12]


@pytest.mark.parametrize(
    ("raw", "error", "words"),
    [
        (None, ObjectNotFoundError, "the store has no such level"),
        (b"[]", DecodeError, "not a JSON object"),
        (document({}), MetadataError, "zarr_vectors_level"),
        (document({"zarr_vectors_level": {"level": 1}}), DecodeError, "the level group calls itself 1"),
        (document({"zarr_vectors_level": {"level": 0, "bin_shape": [3, 3]}}), MetadataError, "does not divide"),
        (
            document({"zarr_vectors_level": {"level": 0}, "zarr_vectors_arrays": []}),
            DecodeError,
            "must be a JSON object",
        ),
        (
            document({"zarr_vectors_level": {"level": 0}, "zarr_vectors_arrays": {"links/0": {"zv_array": "x"}}}),
            MetadataError,
            r"zarr_vectors_arrays\.links/0\.zv_array",
        ),
    ],
)
def test_levels_that_can_not_be_opened(raw: bytes | None, error: type[Exception], words: str) -> None:
    storage = with_keys({} if raw is None else {"0/zarr.json": raw})
    with pytest.raises(error, match=words) as found:
        read_level(storage, ROOT, 0)
    assert str(found.value).startswith("here, level 0")
