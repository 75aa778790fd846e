import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from zarr.storage import MemoryStore

import zarr_vectors as zv
from zarr_vectors.core import arrays, writers
from zarr_vectors.core.counting import CountingStorage
from zarr_vectors.core.group import FsGroup
from zarr_vectors.core.metadata import ArrayMetadata
from zarr_vectors.core.object_index import write_object_manifests
from zarr_vectors.core.storage import LocalStorage, ZarrStorage
from zarr_vectors.encoding.fragments import encode_fragments
from zarr_vectors.encoding.manifests import manifest_table
from zarr_vectors.exceptions import (
    DecodeError,
    InputError,
    MissingArrayError,
    MissingChunkError,
    ObjectNotFoundError,
    ZarrVectorsError,
)

FIRST, SECOND = (0, 0, 0), (-1, 0, 2)
ROOT = zv.RootMetadata(chunk_shape=(10, 10, 10), bounds=((0, 0, 0), (1, 1, 1)), geometry_types=("graph",))
Read = Callable[[FsGroup], object]


@pytest.fixture
def path(tmp_path: Path, write_everything: Callable[..., None]) -> Path:
    write_everything(tmp_path / "a.zv")
    return tmp_path / "a.zv"


@pytest.fixture
def group(path: Path) -> FsGroup:
    return zv.open(path)[0].group


@pytest.fixture
def empty() -> FsGroup:
    """Return a level that nothing was written to, which knows all of its arrays."""
    return FsGroup(ZarrStorage(MemoryStore()), ROOT, zv.LevelMetadata(level=3), complete=True)


def place(error: pytest.ExceptionInfo[ZarrVectorsError]) -> tuple[object, ...]:
    found = error.value
    return tuple(part for part in (found.level, found.array, found.chunk, found.object_id) if part is not None)


def change(group: FsGroup, array: str, **fields: Any) -> None:
    group.arrays[array] = group.arrays[array].model_copy(update=fields)


def remove(path: Path, array: str, node: str) -> None:
    for file in (path / "0" / array / node).iterdir():
        file.unlink()


# -- everything reads as it was written


def test_chunk_arrays(group: FsGroup) -> None:
    ramp = np.arange(15).reshape(5, 3)
    np.testing.assert_array_equal(group.read_vertices(FIRST), ramp)
    rgb = arrays.read_vertex_attribute(group, "rgb", FIRST)
    assert (rgb.dtype, rgb.tolist()) == (np.dtype("uint8"), ramp.tolist())
    assert arrays.read_vertex_attribute(group, "time", SECOND).tolist() == [0.0, 1.0, 2.0, 3.0]
    assert arrays.read_fragment_attribute(group, "label", FIRST).tolist() == [7, 8]
    assert arrays.read_links(group, FIRST).tolist() == [[0, 1], [3, 2]]
    assert arrays.read_links(group, SECOND).dtype == np.uint8
    assert arrays.read_link_attribute(group, "weight", FIRST).tolist() == [0.0, 1.0]
    assert arrays.read_level_links(group, 1, FIRST).tolist() == [[[0, 0, 0, 4], [0, 0, 0, 0]]]
    assert arrays.read_link_attribute(group, "share", FIRST, delta=1).tolist() == [0.5]


def test_fragments(group: FsGroup) -> None:
    index = arrays.read_fragment_index(group, "vertex_fragments", FIRST, num_rows=5)
    assert [index.indices(number).tolist() for number in range(2)] == [[0, 1], [4, 2, 3]]
    assert arrays.read_fragment_index(group, "link_fragments", FIRST).range(0) == (0, 2)


def test_level_arrays(group: FsGroup) -> None:
    assert arrays.read_cross_chunk_links(group).tolist() == [[[0, 0, 0, 1], [-1, 0, 2, 3]]]
    assert arrays.read_cross_chunk_link_attribute(group, "flow").tolist() == [[1.5, 2.5]]
    size = arrays.read_object_attribute(group, "size")
    assert size.present is not None
    assert (size.values.tolist(), size.present.tolist()) == ([1.5, 0.0, 3.5], [1, 0, 1])
    ids, offsets = arrays.read_groups(group)
    assert (ids.tolist(), offsets.tolist()) == ([2, 0], [0, 2, 2])
    assert arrays.read_group_attribute(group, "kind").tolist() == [5, 6]


def test_objects(group: FsGroup) -> None:
    in_both = arrays.read_object_vertices(group, 0)
    np.testing.assert_array_equal(in_both[:3], group.read_vertices(FIRST)[[4, 2, 3]])
    np.testing.assert_array_equal(in_both[3:], group.read_vertices(SECOND))
    nothing = arrays.read_object_vertices(group, 1)
    assert (nothing.shape, nothing.dtype) == ((0, 3), np.dtype("float32"))
    assert len(arrays.read_object_vertices(group, 2)) == 2


def test_an_object_is_two_batches(path: Path) -> None:
    storage = CountingStorage(LocalStorage(path))
    counted = zv.open(storage)[0].group
    storage.reset()
    arrays.read_object_vertices(counted, 0)
    assert (storage.batches, len(storage.gets), storage.lists) == (2, 5, [])


def test_a_chunk_that_an_object_comes_back_to_is_read_once(empty: FsGroup) -> None:
    storage = CountingStorage(empty.storage)
    counted = FsGroup(storage, ROOT, empty.metadata, complete=True)
    writers.write_vertices(counted, {FIRST: np.arange(12, dtype="f4").reshape(4, 3), SECOND: np.zeros((1, 3), "f4")})
    fragments = {FIRST: encode_fragments([(0, 1), (1, 2), [3]]), SECOND: encode_fragments([(0, 1)])}
    writers.write_fragments(counted, "vertex_fragments", fragments)  # type: ignore[arg-type]
    chunks = np.array([FIRST, SECOND, FIRST])
    table = manifest_table(np.array([0, 3]), chunks, np.array([0, 2, 3, 4]), np.array([1, 2, 0, 0]))
    write_object_manifests(counted, table)
    storage.reset()
    assert arrays.read_object_vertices(counted, 0)[:, 0].tolist() == [3.0, 6.0, 9.0, 0.0, 0.0]
    assert (storage.batches, len(storage.gets)) == (2, 5)


# -- what the metadata leave open


def test_channels_follow_from_the_bytes(group: FsGroup) -> None:
    expected = arrays.read_vertex_attribute(group, "rgb", FIRST)
    for fields in ({"shape": None}, {"channel_names": None}, {"shape": None, "channel_names": None}, {"shape": (9,)}):
        change(group, "vertex_attributes/rgb", **{"shape": (9, 3), "channel_names": ("r", "g", "b"), **fields})
        np.testing.assert_array_equal(arrays.read_vertex_attribute(group, "rgb", FIRST), expected)
    change(group, "vertex_attributes/time", shape=None)
    assert arrays.read_vertex_attribute(group, "time", FIRST).shape == (5,)


def test_rows_of_several_axes(empty: FsGroup) -> None:
    values = np.arange(24, dtype="f4").reshape(2, 3, 4)
    writers.write_vertices(empty, {FIRST: np.zeros((2, 3), "f4")})
    writers.write_vertex_attribute(empty, "tensor", {FIRST: values})
    np.testing.assert_array_equal(arrays.read_vertex_attribute(empty, "tensor", FIRST), values)
    writers.write_object_attribute(empty, "tensor", values, present=[0, 1])
    dense = arrays.read_object_attribute(empty, "tensor").values
    assert not dense[0].any()
    np.testing.assert_array_equal(dense[1], values[1])


def test_arrays_without_rows(empty: FsGroup) -> None:
    writers.write_cross_chunk_links(empty, [], width=2)
    writers.write_cross_chunk_link_attribute(empty, "flow", np.empty((0, 2), "f4"))
    writers.write_object_attribute(empty, "size", np.empty(0, "f4"), present=[])
    writers.write_groups(empty, np.empty(0, np.int64), np.zeros(1, np.int64))
    writers.write_group_attribute(empty, "kind", np.empty(0, "i8"))
    assert arrays.read_cross_chunk_links(empty).shape == (0, 2, 4)
    assert arrays.read_cross_chunk_link_attribute(empty, "flow").shape == (0, 2)
    size = arrays.read_object_attribute(empty, "size")
    assert size.values.shape == (0,)
    assert size.present is not None
    assert size.present.shape == (0,)
    ids, offsets = arrays.read_groups(empty)
    assert (ids.tolist(), offsets.tolist()) == ([], [0])
    assert arrays.read_group_attribute(empty, "kind").shape == (0,)


def test_groups_that_are_all_empty(empty: FsGroup) -> None:
    writers.write_groups(empty, np.empty(0, np.int64), np.zeros(4, np.int64))
    ids, offsets = arrays.read_groups(empty)
    assert (ids.tolist(), offsets.tolist()) == ([], [0, 0, 0, 0])


@pytest.mark.parametrize("values", [[0, 2, 2, 2, 0], [2, 0, 16, 2, 0]])
def test_groups_in_one_blob(empty: FsGroup, values: list[int]) -> None:
    empty.arrays["groups"] = ArrayMetadata(zv_array="groups", num_groups=2)
    empty.write_bytes("groups", "data", np.array(values, dtype="<i8").tobytes())
    ids, offsets = arrays.read_groups(empty)
    assert (ids.tolist(), offsets.tolist()) == ([2, 0], [0, 2, 2])


# -- errors, and where they are


@pytest.mark.parametrize(
    ("read", "error", "where"),
    [
        (lambda g: g.read_vertices((9, 9, 9)), MissingChunkError, (0, "vertices", "9.9.9")),
        (
            lambda g: arrays.read_vertex_attribute(g, "rgb", (9, 9, 9)),
            MissingChunkError,
            (0, "vertex_attributes/rgb", "9.9.9"),
        ),
        (lambda g: arrays.read_vertex_attribute(g, "no", FIRST), MissingArrayError, (0, "vertex_attributes/no")),
        (lambda g: arrays.read_fragment_attribute(g, "no", FIRST), MissingArrayError, (0, "fragment_attributes/no")),
        (lambda g: arrays.read_links(g, (9, 9, 9)), MissingChunkError, (0, "links/0", "9.9.9")),
        (lambda g: arrays.read_level_links(g, 1, SECOND), MissingChunkError, (0, "links/+1", "-1.0.2")),
        (lambda g: arrays.read_level_links(g, 2, FIRST), MissingArrayError, (0, "links/+2")),
        (lambda g: arrays.read_cross_chunk_links(g, 1), MissingArrayError, (0, "cross_chunk_links/+1")),
        (
            lambda g: arrays.read_fragment_index(g, "vertex_fragments", (9, 9, 9)),
            MissingChunkError,
            (0, "vertex_fragments", "9.9.9"),
        ),
        (
            lambda g: arrays.read_fragment_index(g, "vertex_fragments", FIRST, num_rows=4),
            DecodeError,
            (0, "vertex_fragments", "0.0.0"),
        ),
        (lambda g: arrays.read_object_vertices(g, 3), ObjectNotFoundError, (0, 3)),
        (lambda g: arrays.read_object_attribute(g, "no"), MissingArrayError, (0, "object_attributes/no")),
        (lambda g: arrays.read_group_attribute(g, "no"), MissingArrayError, (0, "group_attributes/no")),
        (lambda g: arrays.read_fragment_index(g, "vertices", FIRST), InputError, ()),
        (lambda g: arrays.read_level_links(g, 0, FIRST), InputError, ()),
        (lambda g: arrays.read_vertex_attribute(g, "a/b", FIRST), InputError, ()),
    ],
)
def test_what_is_not_there(
    group: FsGroup, read: Read, error: type[ZarrVectorsError], where: tuple[object, ...]
) -> None:
    with pytest.raises(error) as found:
        read(group)
    assert place(found) == where


READERS: dict[str, Read] = {
    "vertex attribute": lambda g: arrays.read_vertex_attribute(g, "time", FIRST),
    "fragment attribute": lambda g: arrays.read_fragment_attribute(g, "label", FIRST),
    "link attribute": lambda g: arrays.read_link_attribute(g, "weight", FIRST),
    "level link attribute": lambda g: arrays.read_link_attribute(g, "share", FIRST, delta=1),
    "links": lambda g: arrays.read_links(g, FIRST),
    "cross-chunk links": arrays.read_cross_chunk_links,
    "cross-chunk link attribute": lambda g: arrays.read_cross_chunk_link_attribute(g, "flow"),
    "object": lambda g: arrays.read_object_vertices(g, 0),
    "object attribute": lambda g: arrays.read_object_attribute(g, "size"),
    "groups": arrays.read_groups,
    "group attribute": lambda g: arrays.read_group_attribute(g, "kind"),
}


@pytest.mark.parametrize(
    ("what", "array", "node"),
    [
        ("vertex attribute", "vertex_attributes/time", "0.0.0"),
        ("vertex attribute", "vertices", "0.0.0"),
        ("fragment attribute", "vertex_fragments", "0.0.0"),
        ("link attribute", "links/0", "0.0.0"),
        ("links", "vertices", "0.0.0"),
        ("cross-chunk links", "cross_chunk_links/0", "data"),
        ("cross-chunk link attribute", "cross_chunk_link_attributes/flow/0", "data"),
        ("object", "vertices", "-1.0.2"),
        ("object", "vertex_fragments", "0.0.0"),
        ("object attribute", "object_attributes/size", "data"),
        ("object attribute", "object_attributes/size", "present_mask"),
        ("group attribute", "group_attributes/kind", "data"),
    ],
)
def test_data_that_other_data_promise(path: Path, group: FsGroup, what: str, array: str, node: str) -> None:
    remove(path, array, node)
    with pytest.raises(MissingChunkError) as error:
        READERS[what](group)
    assert place(error) == ((0, array, node, 0) if what == "object" else (0, array, node))


def test_groups_that_are_promised(path: Path, group: FsGroup) -> None:
    remove(path, "groups", "data")
    with pytest.raises(MissingChunkError, match="the data are promised and not there") as error:
        arrays.read_groups(group)
    assert place(error) == (0, "groups", "data")
    change(group, "groups", num_ids=None)
    with pytest.raises(DecodeError, match="byte offsets") as offsets:
        arrays.read_groups(group)
    assert place(offsets) == (0, "groups", "data")
    remove(path, "groups", "offsets")
    with pytest.raises(MissingChunkError, match="2 groups are promised and not there") as missing:
        arrays.read_groups(group)
    assert place(missing) == (0, "groups")


@pytest.mark.parametrize(
    ("what", "array", "fields", "rule", "where"),
    [
        ("links", "links/0", {"link_width": None}, "link-width", (0, "links/0", "0.0.0")),
        ("links", "links/0", {"dtype": None}, "dtype", (0, "links/0", "0.0.0")),
        ("links", "links/0", {"dtype": "float32"}, "link-dtype", (0, "links/0", "0.0.0")),
        ("links", "links/0", {"link_width": 3}, "row-size", (0, "links/0", "0.0.0")),
        ("link attribute", "links/0", {"link_width": 1}, "row-count", (0, "link_attributes/weight/0", "0.0.0")),
        ("level link attribute", "links/+1", {"link_width": None}, "link-width", (0, "links/+1", "0.0.0")),
        ("level link attribute", "links/+1", {"encoding": None}, "pairs", (0, "links/+1", "0.0.0")),
        (
            "vertex attribute",
            "vertex_attributes/time",
            {"dtype": "float32"},
            "row-count",
            (0, "vertex_attributes/time", "0.0.0"),
        ),
        (
            "vertex attribute",
            "vertex_attributes/time",
            {"dtype": "text"},
            "dtype",
            (0, "vertex_attributes/time", "0.0.0"),
        ),
        ("vertex attribute", "vertices", {"dtype": "float64"}, "row-size", (0, "vertices", "0.0.0")),
        ("cross-chunk links", "cross_chunk_links/0", {"num_links": 2}, "row-count", (0, "cross_chunk_links/0", "data")),
        (
            "cross-chunk links",
            "cross_chunk_links/0",
            {"link_width": None},
            "link-width",
            (0, "cross_chunk_links/0", "data"),
        ),
        (
            "cross-chunk link attribute",
            "cross_chunk_links/0",
            {"num_links": 2},
            "row-count",
            (0, "cross_chunk_link_attributes/flow/0"),
        ),
        ("object", "vertices", {"dtype": "float64"}, "row-size", (0, "vertices", "0.0.0", 0)),
        ("object attribute", "object_attributes/size", {"shape": None}, "shape", (0, "object_attributes/size")),
        ("object attribute", "object_attributes/size", {"shape": ()}, "shape", (0, "object_attributes/size")),
        ("object attribute", "object_attributes/size", {"dtype": None}, "dtype", (0, "object_attributes/size")),
        (
            "object attribute",
            "object_attributes/size",
            {"shape": (4,)},
            "row-count",
            (0, "object_attributes/size", "data"),
        ),
        ("groups", "groups", {"num_groups": None}, "num-groups", (0, "groups")),
        ("groups", "groups", {"num_groups": 3}, "group-count", (0, "groups", "data")),
        ("group attribute", "groups", {"num_groups": 3}, "row-count", (0, "group_attributes/kind")),
    ],
)
def test_metadata_that_the_data_do_not_follow(
    group: FsGroup, *, what: str, array: str, fields: dict[str, Any], rule: str, where: tuple[object, ...]
) -> None:
    change(group, array, **fields)
    with pytest.raises(DecodeError) as error:
        READERS[what](group)
    assert error.value.rule == rule
    assert place(error) == where


def test_a_mask_of_the_wrong_length(group: FsGroup) -> None:
    group.write_bytes("object_attributes/size", "present_mask", b"\1\1")
    with pytest.raises(DecodeError, match="2 rows are there, 3 belong there") as error:
        arrays.read_object_attribute(group, "size")
    assert place(error) == (0, "object_attributes/size", "present_mask")


def test_links_outside_of_the_chunk(group: FsGroup) -> None:
    group.write_bytes("links/0", "0.0.0", bytes([0, 5]))
    with pytest.raises(DecodeError, match=r"link 0 is \[0, 5\], the chunk has 5 rows") as error:
        arrays.read_links(group, FIRST)
    assert place(error) == (0, "links/0", "0.0.0")


@pytest.mark.parametrize(
    ("fragments", "last"), [([5], 5), ([0, 1, 2], 2), ([0, 7], 7)], ids=["single", "range", "explicit"]
)
def test_a_manifest_names_fragments_that_are_not_there(group: FsGroup, fragments: list[int], last: int) -> None:
    table = manifest_table(np.array([0, 0, 1]), np.array([FIRST]), np.array([0, len(fragments)]), np.array(fragments))
    write_object_manifests(group, table)
    with pytest.raises(DecodeError, match=f"the manifest names fragment {last}, the chunk has 2") as error:
        arrays.read_object_vertices(group, 1)
    assert place(error) == (0, "vertex_fragments", "0.0.0", 1)


def test_fragments_that_reach_outside_of_the_chunk(group: FsGroup) -> None:
    writers.write_fragments(group, "vertex_fragments", {FIRST: encode_fragments([(0, 2), (2, 4)])})
    with pytest.raises(DecodeError) as error:
        arrays.read_object_vertices(group, 0)
    assert place(error) == (0, "vertex_fragments", "0.0.0", 0)


def test_an_empty_object_of_an_unknown_dtype(group: FsGroup) -> None:
    change(group, "vertices", dtype="text")
    with pytest.raises(DecodeError, match="dtype 'text' is not one of") as error:
        arrays.read_object_vertices(group, 1)
    assert place(error) == (0, "vertices")


def test_documents_may_hold_more_than_the_format_knows(path: Path) -> None:
    document = path / "0" / "zarr.json"
    parsed = json.loads(document.read_text())
    parsed["attributes"]["zarr_vectors_arrays"]["vertices"]["future"] = {"a": None}
    document.write_text(json.dumps(parsed))
    group = zv.open(path)[0].group
    assert group.read_array_meta("vertices").extras() == {"future": {"a": None}}
    assert len(group.read_vertices(FIRST)) == 5
