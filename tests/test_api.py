"""The library's face."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from zarr.storage import MemoryStore

import zarr_vectors as zv
from zarr_vectors.core.counting import CountingStorage
from zarr_vectors.core.storage import LocalStorage
from zarr_vectors.core.writers import write_vertices
from zarr_vectors.exceptions import (
    InputError,
    ObjectNotFoundError,
    StoreExistsError,
    StoreNotFoundError,
    UnfinishedWriteError,
)

WriteEverything = Callable[..., None]
ROOT = zv.RootMetadata(chunk_shape=(10,), bounds=((0,), (10,)), geometry_types=("point_cloud", "graph"))


@pytest.mark.parametrize("kind", ["path", "text", "file", "zip", "memory", "zarr", "storage"])
def test_every_kind_of_location(tmp_path: Path, write_everything: WriteEverything, kind: str) -> None:
    location = {
        "path": tmp_path / "a.zv",
        "text": str(tmp_path / "a.zv"),
        "file": f"file://{tmp_path}/a.zv",
        "zip": tmp_path / "deep" / "a.zip",
        "memory": f"memory://{tmp_path}",
        "zarr": MemoryStore(),
        "storage": LocalStorage(tmp_path / "a.zv", durable=True),
    }[kind]
    with pytest.raises(StoreNotFoundError):
        zv.open(location)
    write_everything(location)
    for _ in range(2):
        with zv.open(location) as store:
            assert (store.levels, len(store)) == ((0, 1), 2)
            assert [level.metadata.vertex_count for level in store] == [9, 1]
            assert store[0].group.read_vertices((-1, 0, 2)).shape == (4, 3)
            assert store[0] is store[0]
    with pytest.raises(StoreExistsError):
        zv.create(location, ROOT)
    write_everything(location, mode="w")
    with zv.open(location) as store:
        assert len(store[0].group.list_chunks()) == 2


def test_opening_is_one_request_and_one_for_each_level(tmp_path: Path, write_everything: WriteEverything) -> None:
    write_everything(tmp_path / "a.zv")
    storage = CountingStorage(LocalStorage(tmp_path / "a.zv"))
    store = zv.open(storage)
    assert (storage.gets, storage.lists) == (["zarr.json"], [])
    assert store[1].number == 1
    assert store[1].metadata.bin_ratio == (1, 1, 1)
    assert (storage.gets, storage.lists) == (["zarr.json", "1/zarr.json"], [])


def test_how_handles_look(write_everything: WriteEverything) -> None:
    write_everything("memory://test_how_handles_look")
    store = zv.open("memory://test_how_handles_look")
    assert store.url == "memory://test_how_handles_look"
    assert repr(store) == "Store('memory://test_how_handles_look', graph, 3-D, 2 levels)"
    assert repr(store[0]) == "Level(0, 9 vertices)"


def test_levels_that_are_not_there(write_everything: WriteEverything) -> None:
    write_everything("memory://test_levels")
    for level in (2, -1):
        with pytest.raises(ObjectNotFoundError, match="there is no such level, only 0, 1") as error:
            zv.open("memory://test_levels")[level]
        assert (error.value.level, error.value.store) == (level, "memory://test_levels")


def test_a_store_without_levels() -> None:
    store = zv.Store(_only_a_root())
    assert (len(store), list(store)) == (0, [])
    with pytest.raises(ObjectNotFoundError, match="nor any other"):
        store[0]


def _only_a_root() -> CountingStorage:
    from zarr_vectors.core.nodes import group_document
    from zarr_vectors.core.storage import ZarrStorage

    storage = CountingStorage(ZarrStorage(MemoryStore()))
    storage.put_many([("zarr.json", group_document(ROOT.to_attrs()))])
    return storage


def test_an_error_in_the_block_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(LookupError), zv.create(tmp_path / "a.zv", ROOT) as draft:  # noqa: PT012
        write_vertices(draft.add_level(), {(0,): np.zeros((1, 1), "f4")})
        raise LookupError
    assert list(tmp_path.iterdir()) == []


def test_a_draft_that_was_left_open(tmp_path: Path) -> None:
    zv.create(tmp_path / "a.zv", ROOT).add_level()
    with pytest.raises(UnfinishedWriteError):
        zv.open(tmp_path / "a.zv")
    with pytest.raises(StoreExistsError):
        zv.create(tmp_path / "a.zv", ROOT)
    with zv.create(tmp_path / "a.zv", ROOT, mode="w") as draft:
        draft.add_level()
    assert zv.open(tmp_path / "a.zv").levels == (0,)


def test_locations_that_are_none() -> None:
    with pytest.raises(InputError):
        zv.open(None)
    with pytest.raises(InputError, match="gopher:// is not known"):
        zv.create("gopher://a", ROOT)


def test_what_is_no_store_is_closed_again(tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("notes.txt", "x")
    # A file that stays open would be a warning, and warnings are errors here.
    with pytest.raises(StoreNotFoundError):
        zv.open(tmp_path / "a.zip")
    with pytest.raises(StoreExistsError):
        zv.create(tmp_path / "a.zip", ROOT, mode="w")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip"]


def test_public_names() -> None:
    assert dir(zv) == sorted(zv.__all__)
    for name in zv.__all__:
        assert getattr(zv, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        zv.nothing  # noqa: B018
