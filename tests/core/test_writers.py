from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from zarr.storage import MemoryStore

import zarr_vectors as zv
from zarr_vectors.core import arrays, writers
from zarr_vectors.core.counting import CountingStorage
from zarr_vectors.core.group import FsGroup
from zarr_vectors.core.object_index import write_object_manifests
from zarr_vectors.core.storage import ZarrStorage
from zarr_vectors.core.writers import WriteOptions
from zarr_vectors.encoding.fragments import encode_fragments
from zarr_vectors.encoding.manifests import manifest_table
from zarr_vectors.exceptions import EncodeError, InputError, MissingArrayError, ZarrVectorsError

A, B, C = (0, 0), (0, 1), (-1, 0)
Write = Callable[[FsGroup], None]


@pytest.fixture
def group() -> FsGroup:
    root = zv.RootMetadata(chunk_shape=(10, 10), bounds=((0, 0), (10, 10)), geometry_types=("graph",))
    return FsGroup(CountingStorage(ZarrStorage(MemoryStore())), root, zv.LevelMetadata(level=1), complete=True)


def puts(group: FsGroup) -> list[str]:
    assert isinstance(group.storage, CountingStorage)
    return group.storage.puts


def place(error: pytest.ExceptionInfo[ZarrVectorsError]) -> tuple[object, ...]:
    found = error.value
    return tuple(part for part in (found.level, found.array, found.chunk) if part is not None)


# -- what is written


def test_chunks_are_written_in_order_whatever_order_they_come_in(group: FsGroup) -> None:
    writers.write_vertices(group, {B: [[1.0, 2.0]], C: [[3.0, 4.0]], A: [[5.0, 6.0]]})
    assert puts(group) == [
        *(f"1/vertices/{key}/c.0.0" for key in ("-1.0", "0.0", "0.1")),
        *(f"1/vertices/{key}/zarr.json" for key in ("-1.0", "0.0", "0.1")),
        "1/vertices/zarr.json",
    ]
    meta = group.arrays["vertices"]
    assert (meta.zv_array, meta.dtype, meta.encoding, meta.shape) == ("vertices", "float64", "raw", (3, 2))


@pytest.mark.parametrize("nothing", [[], np.empty((0, 2), "f4"), np.empty(0, "i1")])
def test_empty_chunks_do_not_exist(group: FsGroup, nothing: Any) -> None:
    writers.write_vertices(group, {A: nothing, B: np.ones((1, 2), "f4")})
    writers.write_vertex_attribute(group, "rgb", {A: nothing, B: np.ones((1, 3), "u1")})
    writers.write_links(group, {A: [], B: [[0, 0]]}, {A: 0, B: 1}, width=2)
    assert group.list_chunks() == [B]
    assert group.list_chunks("vertex_attributes/rgb") == [B]
    assert group.list_chunks("links/0") == [B]
    assert group.arrays["vertices"].dtype == "float32"
    assert group.arrays["vertex_attributes/rgb"].shape == (1, 3)


def test_a_level_without_chunks_is_declared(group: FsGroup) -> None:
    writers.write_vertices(group, {}, dtype="float64")
    writers.write_vertex_attribute(group, "a", {})
    writers.write_links(group, {}, {}, width=3)
    assert (group.arrays["vertices"].dtype, group.arrays["vertices"].shape) == ("float64", (0, 2))
    assert (group.arrays["vertex_attributes/a"].dtype, group.arrays["vertex_attributes/a"].shape) == ("float32", (0,))
    assert (group.arrays["links/0"].num_links, group.arrays["links/0"].link_width) == (0, 3)


def test_a_dtype_can_be_chosen(group: FsGroup) -> None:
    writers.write_vertices(group, {A: [[1, 2]]}, dtype="float32")
    writers.write_vertex_attribute(group, "n", {A: np.array([1.0]), B: np.array([2], "u1")}, dtype="int16")
    assert group.read_vertices(A).dtype == np.float32
    writers.write_vertices(group, {A: [[1, 2]], B: [[1, 2]]}, dtype="float32")
    assert arrays.read_vertex_attribute(group, "n", A).tolist() == [1]


def test_one_link_dtype_for_the_level(group: FsGroup) -> None:
    writers.write_links(group, {A: [[0, 1]]}, {A: 2, B: 300}, width=2)
    assert group.arrays["links/0"].dtype == "uint16"
    writers.write_links(group, {A: [[0], [-1]]}, {A: 2}, width=1)
    assert group.arrays["links/0"].dtype == "int64"


def test_extra_fields_reach_the_metadata(group: FsGroup) -> None:
    writers.write_vertices(group, {A: [[1.0, 2.0]]})
    writers.write_vertex_attribute(group, "kind", {A: [0]}, encoding="dictionary", categories=["axon"], unit="um")
    meta = group.arrays["vertex_attributes/kind"]
    assert (meta.name, meta.encoding, meta.categories, meta.extras()) == (
        "kind",
        "dictionary",
        ("axon",),
        {"unit": "um"},
    )


def test_a_mask_is_ones_and_zeros(group: FsGroup) -> None:
    writers.write_object_attribute(group, "a", [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], present=[0.5, 7, 0])
    found = arrays.read_object_attribute(group, "a")
    assert found.present is not None
    assert found.present.tolist() == [1, 1, 0]
    assert found.values.tolist() == [[1.0, 2.0], [3.0, 4.0], [0.0, 0.0]]
    writers.write_object_attribute(group, "b", [1])
    assert group.arrays["object_attributes/b"].has_present_mask is False


def test_fragments_stay_raw(group: FsGroup) -> None:
    blob = encode_fragments([(0, 3)])
    writers.write_fragments(group, "vertex_fragments", {A: blob})
    assert group.storage.get_many(["1/vertex_fragments/0.0/c.0"]) == [blob]
    meta = group.arrays["vertex_fragments"]
    assert meta.encoding == "fragment_index_v1"
    assert meta.codecs == ({"name": "bytes"},)


@pytest.mark.parametrize("byte_arrays", [True, False])
def test_where_chunks_keep_their_data(group: FsGroup, byte_arrays: bool) -> None:
    options = WriteOptions(byte_arrays=byte_arrays)
    writers.write_vertices(group, {A: [[1.0, 2.0]]}, options=options)
    writers.write_level_links(group, -1, {A: [[[0, 0, 0], [0, 0, 1]]]}, options=options)
    keys = [group.arrays[array].chunk_key for array in ("vertices", "links/-1")]
    assert keys == (["c.0", "c.0"] if byte_arrays else ["c.0.0", "c.0.0.0"])
    assert arrays.read_level_links(group, -1, A).tolist() == [[[0, 0, 0], [0, 0, 1]]]


# -- what is refused


def objects(group: FsGroup) -> None:
    write_object_manifests(group, manifest_table(np.array([0, 1]), np.array([A]), np.array([0, 1]), np.array([0])))


@pytest.mark.parametrize(
    ("write", "rule", "where"),
    [
        (lambda g: writers.write_vertices(g, {A: [[1.0, np.nan]]}), "finite", (1, "vertices", "0.0")),
        (lambda g: writers.write_vertices(g, {A: [[1e300, 0]]}, dtype="float32"), "dtype", (1, "vertices", "0.0")),
        (lambda g: writers.write_vertices(g, {A: [[1.0]]}), "row-width", (1, "vertices", "0.0")),
        (lambda g: writers.write_vertices(g, {A: [1.0, 2.0]}), "row-width", (1, "vertices", "0.0")),
        (lambda g: writers.write_vertices(g, {A: 1.0}), "rows", (1, "vertices", "0.0")),
        (lambda g: writers.write_vertices(g, {A: [["a", "b"]]}), "dtype", (1, "vertices", "0.0")),
        (lambda g: writers.write_vertices(g, {(0,): [[1.0, 2.0]]}), "chunk-coords", (1, "vertices")),
        (
            lambda g: writers.write_vertices(g, {A: np.ones((1, 2), "f4"), B: np.ones((1, 2), "f8")}),
            "dtype",
            (1, "vertices", "0.1"),
        ),
        (
            lambda g: writers.write_vertex_attribute(g, "a", {A: [300]}, dtype="uint8"),
            "dtype",
            (1, "vertex_attributes/a", "0.0"),
        ),
        (
            lambda g: writers.write_vertex_attribute(g, "a", {A: [1.0], B: [[1.0, 2.0]]}),
            "row-width",
            (1, "vertex_attributes/a", "0.1"),
        ),
        (
            lambda g: writers.write_vertex_attribute(g, "a", {A: [[1.0, 2.0]]}, channel_names=["r"]),
            "channels",
            (1, "vertex_attributes/a"),
        ),
        (
            lambda g: writers.write_object_attribute(g, "a", [[1.0, 2.0]], channel_names=["r", "g", "b"]),
            "channels",
            (1, "object_attributes/a"),
        ),
        (
            lambda g: writers.write_object_attribute(g, "a", [1.0, 2.0], present=[1]),
            "present-mask",
            (1, "object_attributes/a"),
        ),
        (lambda g: writers.write_object_attribute(g, "a", "text"), "dtype", (1, "object_attributes/a")),
        (lambda g: writers.write_links(g, {A: [[0, 2]]}, {A: 2}, width=2), "link-rows", (1, "links/0", "0.0")),
        (lambda g: writers.write_links(g, {A: [[0, 1]]}, {B: 2}, width=2), "link-rows", (1, "links/0", "0.0")),
        (lambda g: writers.write_links(g, {A: [[0, 1]]}, {A: 2}, width=3), "link-width", (1, "links/0", "0.0")),
        (lambda g: writers.write_links(g, {(0,): [[0, 1]]}, {(0,): 2}, width=2), "chunk-coords", (1, "links/0")),
        (lambda g: writers.write_level_links(g, 0, {}), "delta", ()),
        (lambda g: writers.write_level_links(g, 1, {A: [[[0, 0], [0, 0]]]}), "records", (1, "links/+1", "0.0")),
        (lambda g: writers.write_level_links(g, 1, {(0,): []}), "chunk-coords", (1, "links/+1")),
        (
            lambda g: writers.write_cross_chunk_links(g, [[[0, 0, -1], [0, 0, 0]]], width=2),
            "link-rows",
            (1, "cross_chunk_links/0"),
        ),
        (lambda g: writers.write_groups(g, np.array([1]), np.array([0, 2])), "group-offsets", (1, "groups")),
        (lambda g: writers.write_groups(g, np.array([-1]), np.array([0, 1])), "object-id", (1, "groups")),
        (
            lambda g: writers.write_fragments(g, "vertex_fragments", {(0,): b""}),
            "chunk-coords",
            (1, "vertex_fragments"),
        ),
        (
            lambda g: writers.write_vertices(g, {A: [[1.0, 2.0]]}, options=WriteOptions({"name": "nonsense"})),
            "codecs",
            (1, "vertices"),
        ),
    ],
)
def test_what_breaks_a_rule_is_not_written(group: FsGroup, write: Write, rule: str, where: tuple[object, ...]) -> None:
    with pytest.raises(EncodeError) as error:
        write(group)
    assert error.value.rule == rule
    assert place(error) == where
    assert puts(group) == []


def test_the_row_that_is_not_finite_is_named(group: FsGroup) -> None:
    with pytest.raises(EncodeError, match=r"row 2 is \[3.0, inf\]: positions are finite"):
        writers.write_vertices(group, {A: [[1.0, 2.0], [2.0, 3.0], [3.0, np.inf], [np.nan, 0.0]]})


@pytest.mark.parametrize(
    ("prepare", "write", "where"),
    [
        (objects, lambda g: writers.write_object_attribute(g, "a", [1.0, 2.0]), (1, "object_attributes/a")),
        (
            lambda g: writers.write_cross_chunk_links(g, [], width=2),
            lambda g: writers.write_cross_chunk_link_attribute(g, "a", [1.0]),
            (1, "cross_chunk_link_attributes/a/0"),
        ),
        (
            lambda g: writers.write_groups(g, np.array([0]), np.array([0, 1])),
            lambda g: writers.write_group_attribute(g, "a", [1.0, 2.0]),
            (1, "group_attributes/a"),
        ),
    ],
)
def test_rows_must_fit_what_they_belong_to(
    group: FsGroup, prepare: Write, write: Write, where: tuple[object, ...]
) -> None:
    prepare(group)
    with pytest.raises(EncodeError, match="rows for") as error:
        write(group)
    assert error.value.rule == "row-count"
    assert place(error) == where


@pytest.mark.parametrize(
    ("write", "where"),
    [
        (lambda g: writers.write_group_attribute(g, "a", [1]), (1, "groups")),
        (lambda g: writers.write_cross_chunk_link_attribute(g, "a", [1]), (1, "cross_chunk_links/0")),
    ],
)
def test_what_an_attribute_belongs_to_comes_first(group: FsGroup, write: Write, where: tuple[object, ...]) -> None:
    with pytest.raises(MissingArrayError) as error:
        write(group)
    assert place(error) == where


def test_names_that_can_not_be_nodes(group: FsGroup) -> None:
    with pytest.raises(InputError, match="path separator"):
        writers.write_vertex_attribute(group, "../a", {})
    with pytest.raises(InputError, match="'vertices' holds no fragment index"):
        writers.write_fragments(group, "vertices", {})
