"""Stores that are damaged or say too little: every error names the place."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.query.stores import hand_made
from zarr.storage import MemoryStore

import zarr_vectors as zv
from zarr_vectors.api import Level
from zarr_vectors.core import writers
from zarr_vectors.core.metadata import ArrayMetadata
from zarr_vectors.exceptions import DecodeError, InputError, MissingChunkError, ObjectNotFoundError, ZarrVectorsWarning
from zarr_vectors.query.conditions import parse_conditions
from zarr_vectors.query.execute import read
from zarr_vectors.query.index import LevelIndex
from zarr_vectors.query.selection import Selection

HERE, THERE = (0, 0), (1, 0)


def written(write: Callable[..., object], *args: Any, **keywords: Any) -> tuple[Level, MemoryStore]:
    store = MemoryStore()
    write(store, *args, **keywords)
    return zv.open(store)[0], store


def remove(store: MemoryStore, prefix: str) -> None:
    """Forget a chunk and its ``zarr.json``."""
    keys = [key for key in store._store_dict if key.startswith(prefix)]
    assert keys
    for key in keys:
        del store._store_dict[key]


def change(level: Level, array: str, **fields: Any) -> None:
    """Let the metadata of an array say something else."""
    known = level.group.arrays[array]
    level.group.arrays[array] = ArrayMetadata.parse({**known.to_json(), **fields}, array)


GRAPH: dict[str, Any] = {
    "chunk_shape": (10, 10),
    "vertex_attributes": {"a": [1, 2, 3], "word": ["x", "y", "x"]},
    "link_attributes": {"w": [1.0, 2.0]},
}
POSITIONS = [[0.0, 0.0], [1.0, 1.0], [10.0, 0.0]]
EDGES = [[0, 1], [1, 2]]


@pytest.mark.parametrize(
    "array", ["vertices", "vertex_fragments", "vertex_attributes/a", "fragment_attributes/object_id"]
)
def test_a_chunk_that_is_promised_and_not_there(array: str) -> None:
    level, store = written(zv.write_graph, POSITIONS, EDGES, **GRAPH)
    assert len(level.chunks) == 2
    remove(store, f"0/{array}/1.0/")
    with pytest.raises(MissingChunkError, match=r"the data are promised and not there") as error:
        level.read()
    assert (error.value.level, error.value.array, error.value.chunk) == (0, array, "1.0")
    assert error.value.store == level.group.storage.url


def test_a_link_attribute_that_is_promised_and_not_there() -> None:
    level, store = written(zv.write_graph, POSITIONS, EDGES, **GRAPH)
    remove(store, "0/link_attributes/w/0/0.0/")
    with pytest.raises(MissingChunkError, match=r"link_attributes/w/0/0\.0"):
        level.read()


def test_a_chunk_without_links_needs_none() -> None:
    level, store = written(zv.write_graph, POSITIONS, EDGES, **GRAPH)
    assert not [key for key in store._store_dict if key.startswith("0/links/0/1.0/")]
    assert len(level.read().edges) == 2


def test_an_attribute_of_other_length() -> None:
    level = hand_made("point_cloud", {HERE: [[0, 0], [1, 1]]}, {HERE: [(0, 2)]}, [[(HERE, [0])]])
    writers.write_vertex_attribute(level.group, "short", {HERE: [1]})
    with pytest.raises(DecodeError, match=r"vertex_attributes/short/0\.0: 1 rows are there, 2 belong there"):
        read(LevelIndex(level.group), Selection())


def test_an_attribute_whose_chunks_differ_in_channels() -> None:
    level = hand_made("point_cloud", {HERE: [[0, 0]], THERE: [[10, 0]]}, {HERE: [(0, 1)], THERE: [(0, 1)]}, [[]])
    writers.write_vertex_attribute(level.group, "mixed", {HERE: [1], THERE: [2]})
    writers.write_vertex_attribute(level.group, "mixed", {THERE: [[2, 3]]})
    change(level, "vertex_attributes/mixed", shape=None, chunk_key=None, compression_codec=None)
    with pytest.raises(DecodeError, match="vertex_attributes/mixed: chunks of one attribute differ in channels"):
        read(LevelIndex(level.group), Selection())


def test_links_without_a_width() -> None:
    level, _ = written(zv.write_graph, POSITIONS, EDGES, **GRAPH)
    change(level, "links/0", link_width=None)
    with pytest.raises(DecodeError, match="links/0: the array's metadata do not say its link_width"):
        level.read()


def test_fragments_that_name_rows_beyond_the_chunk() -> None:
    level = hand_made("polyline", {HERE: [[0, 0]]}, {HERE: [(0, 3)]}, [[(HERE, [0])]])
    with pytest.raises(DecodeError, match=r"level 0, vertex_fragments/0\.0") as error:
        level.read()
    assert error.value.level == 0


def test_a_category_that_does_not_exist() -> None:
    level, _ = written(zv.write_graph, POSITIONS, EDGES, **GRAPH)
    change(level, "vertex_attributes/word", categories=["x"])
    with pytest.raises(DecodeError, match="a number is not one of the 1 categories"):
        level.read()


def test_attributes_that_only_some_links_have() -> None:
    level, _ = written(zv.write_graph, POSITIONS, EDGES, **GRAPH)
    del level.group.arrays["cross_chunk_link_attributes/w/0"]
    result = level.read()
    assert result.link_attributes["w"].tolist() == [1.0, 0.0]
    assert result.link_attribute_missing["w"].tolist() == [False, True]
    level, _ = written(zv.write_graph, POSITIONS, EDGES, **GRAPH)
    del level.group.arrays["link_attributes/w/0"]
    result = level.read()
    assert result.link_attributes["w"].tolist() == [0.0, 2.0]
    assert result.link_attribute_missing["w"].tolist() == [True, False]


@pytest.mark.parametrize("ids", [[3], [-1], [0, 99]])
@pytest.mark.parametrize("read_before", [True, False])
def test_objects_that_do_not_exist(ids: list[int], read_before: bool) -> None:
    level, _ = written(zv.write_polylines, [[[0.0, 0.0]], [[1.0, 1.0]]], chunk_shape=(10, 10))
    if read_before:
        level.read()
    with pytest.raises(ObjectNotFoundError, match="there is no such object: ids go from 0 to 1") as error:
        level.read(object_ids=ids)
    assert error.value.object_id == max(ids, key=abs)


def test_objects_of_a_level_that_has_none() -> None:
    level, _ = written(zv.write_points, POSITIONS, chunk_shape=(10, 10))
    with pytest.raises(InputError, match="level 0: the level has no objects to choose from"):
        level.read(object_ids=[0])
    empty, _ = written(zv.write_polylines, ([], [0]), chunk_shape=(10, 10, 10))
    empty.read()
    with pytest.raises(ObjectNotFoundError, match="there is no such object: the level has none"):
        empty.read(object_ids=[0])


def test_groups_that_do_not_exist() -> None:
    level, _ = written(zv.write_points, POSITIONS, object_ids=[0, 1, 0], groups=[[0]], chunk_shape=(10, 10))
    with pytest.raises(ObjectNotFoundError, match="level 0: there is no group 1: the level has 1"):
        level.read(groups=[1])
    with pytest.raises(ObjectNotFoundError, match="there is no group -1"):
        level.read(groups=-1)
    bare, _ = written(zv.write_points, POSITIONS, chunk_shape=(10, 10))
    with pytest.raises(ObjectNotFoundError, match="there is no group 0: the level has 0"):
        bare.read(groups=0)
    with pytest.raises(InputError, match="there is no attribute 'kind', only none at all"):
        bare.read(groups={"kind": 1})


def test_attributes_that_do_not_exist() -> None:
    level, _ = written(zv.write_graph, POSITIONS, EDGES, **GRAPH)
    with pytest.raises(InputError, match="there is no attribute 'b', 'c': the level has a, word, w"):
        level.read(attributes=["a", "b", "c"])
    bare, _ = written(zv.write_points, POSITIONS, chunk_shape=(10, 10))
    with pytest.raises(InputError, match="there is no attribute 'b': the level has none"):
        bare.read(attributes=["b"])


def test_a_present_mask_leaves_absent_rows_out() -> None:
    store = MemoryStore()
    zv.write_points(store, POSITIONS, object_ids=[0, 1, 2], chunk_shape=(10, 10))
    level = zv.open(store)[0]
    writers.write_object_attribute(level.group, "size", [0.0, 1.0, 5.0], present=[0, 1, 1])
    selection = Selection(conditions=parse_conditions({"size": ("<", 3)}))
    assert read(LevelIndex(level.group), selection).objects.tolist() == [1]


def test_faces_across_chunks_of_a_foreign_draco_store_are_left_out_aloud() -> None:
    pytest.importorskip("DracoPy")
    positions = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [15, 0, 0]], dtype="f4")
    faces = [[0, 1, 2], [1, 3, 2]]
    keywords = {"chunk_shape": (10, 10, 10), "encoding": "draco", "quantization_bits": 14}
    level, _ = written(zv.write_mesh, positions, faces, **keywords)
    assert len(level.read().faces) == 2
    change(level, "vertices", draco_rows="as written")
    with pytest.warns(ZarrVectorsWarning, match="1 faces across chunks are left out") as caught:
        assert len(level.read().faces) == 1
    assert caught[0].filename == __file__


def test_draco_positions_of_other_dimensions() -> None:
    pytest.importorskip("DracoPy")
    positions = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], dtype="f4")
    level, _ = written(
        zv.write_mesh, positions, [[0, 1, 2]], chunk_shape=(10, 10, 10), encoding="draco", quantization_bits=14
    )
    blob = level.group.read_bytes("vertices", "0.0.0")
    flat = hand_made("mesh", {HERE: [[0, 0]]}, {HERE: [(0, 1)]}, [[(HERE, [0])]], row=False)
    change(flat, "vertices", encoding="draco", compression_codec=[{"name": "bytes"}], chunk_key="c.0")
    flat.group.write_bytes("vertices", "0.0", blob)
    with pytest.raises(DecodeError, match=r"vertices/0\.0: Draco positions of shape \(3, 3\) in a store of 2 axes"):
        flat.read()


def test_a_manifest_that_names_a_chunk_which_is_not_listed() -> None:
    level = hand_made("point_cloud", {HERE: [[0, 0]]}, {HERE: [(0, 1)]}, [[(HERE, [0])], [(THERE, [0])]])
    with pytest.raises(MissingChunkError, match="a manifest names this chunk, which does not exist") as error:
        level.read()
    assert (error.value.array, error.value.chunk, error.value.object_id) == ("vertex_fragments", "1.0", 1)
    with pytest.raises(MissingChunkError, match=r"vertex_fragments/1\.0"):
        level.read(bbox=([0, 0], [50, 50]))
    assert len(level.read(bbox=([0, 0], [5, 5]))) == 1


def test_a_level_with_every_array(write_everything: Callable[..., None]) -> None:
    store = MemoryStore()
    write_everything(store)
    # Its vertices do not lie in their chunks.
    with pytest.raises(DecodeError, match=r"vertices/-1\.0\.2: a row at .* does not lie in this chunk"):
        zv.open(store)[0].read()
    result = zv.open(store, trusted=True)[0].read()
    # Attributes of links to other levels are not among them; each of these two is stored for a part of the links.
    assert sorted(result.link_attributes) == ["flow", "weight"]
    assert result.link_attributes["flow"].tolist() == [[0.0, 0.0]] * 3 + [[1.5, 2.5]]
    assert result.link_attribute_missing["weight"].tolist() == [False, False, False, True]
    assert result.objects.tolist() == [0, 2]
