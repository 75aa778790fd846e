import json
from typing import Any

import pytest

from zarr_vectors.core import nodes
from zarr_vectors.core.nodes import (
    VLEN_BYTES,
    ArrayNode,
    array_document,
    group_attributes,
    group_document,
    parse_document,
    single_chunk_name,
)
from zarr_vectors.exceptions import DecodeError, EncodeError

BYTES = [{"name": "bytes"}]


def document(**changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(array_document((5, 3), "float32", BYTES))
    return made | changes


def key_encoding(name: str, **configuration: str) -> dict[str, Any]:
    return {"chunk_key_encoding": {"name": name, "configuration": configuration}}


def test_our_arrays_read_as_they_are_written() -> None:
    node = ArrayNode.parse(document())
    assert (node.shape, node.chunk_shape, node.data_type) == ((5, 3), (5, 3), "float32")
    assert (node.nbytes, node.itemsize, node.wordsize, node.num_chunks) == (60, 4, 4, 1)
    assert node.is_single_chunk
    assert node.chunk_name() == single_chunk_name(2) == "c.0.0"


@pytest.mark.parametrize(
    ("data_type", "itemsize", "wordsize"), [("complex128", 16, 8), ("bool", 1, 1), (VLEN_BYTES, 1, 1)]
)
def test_sizes(data_type: str, itemsize: int, wordsize: int) -> None:
    node = ArrayNode.parse(json.loads(array_document((4,), data_type, BYTES)))
    assert (node.itemsize, node.wordsize) == (itemsize, wordsize)


def test_both_names_of_variable_length_bytes() -> None:
    assert ArrayNode.parse(document(data_type="bytes")).data_type == VLEN_BYTES


def test_an_array_of_several_chunks() -> None:
    grid = {"name": "regular", "configuration": {"chunk_shape": [2, 2]}}
    node = ArrayNode.parse(document(chunk_grid=grid))
    assert node.num_chunks == 6
    assert not node.is_single_chunk
    assert node.chunk_name(2, 1) == "c.2.1"


def test_an_array_without_rows() -> None:
    node = ArrayNode.parse(json.loads(array_document((0, 3), "int8", BYTES)))
    assert (node.shape, node.chunk_shape, node.nbytes, node.num_chunks) == ((0, 3), (1, 3), 0, 0)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        (key_encoding("default"), "c/0/0"),
        (key_encoding("default", separator="."), "c.0.0"),
        (key_encoding("v2"), "0.0"),
        (key_encoding("v2", separator="/"), "0/0"),
        ({"chunk_key_encoding": {"name": "default"}}, "c/0/0"),
    ],
)
def test_chunk_key_encodings(changes: dict[str, Any], name: str) -> None:
    assert ArrayNode.parse(document(**changes)).chunk_name() == name


@pytest.mark.parametrize(("encoding", "name"), [("default", "c"), ("v2", "0")])
def test_an_array_without_axes(encoding: str, name: str) -> None:
    grid = {"name": "regular", "configuration": {"chunk_shape": []}}
    node = ArrayNode.parse(document(shape=[], chunk_grid=grid, **key_encoding(encoding)))
    assert node.chunk_name() == name


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"node_type": "group"}, "node-type"),
        ({"zarr_format": 2}, "node-type"),
        ({"shape": "5"}, "shape"),
        ({"shape": [5, -1]}, "shape"),
        ({"shape": [5, True]}, "shape"),
        ({"shape": [5.0, 3]}, "shape"),
        ({"shape": [5]}, "chunk-grid"),
        ({"chunk_grid": None}, "json"),
        ({"chunk_grid": {"name": "regular"}}, "json"),
        ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0, 3]}}}, "shape"),
        ({"chunk_grid": {"name": "rectilinear", "configuration": {"chunk_shape": [5, 3]}}}, "chunk-grid"),
        ({"codecs": {}}, "codecs"),
        ({"codecs": ["bytes"]}, "codecs"),
        ({"data_type": "r16"}, "data-type"),
        ({"data_type": {"name": "numpy.datetime64"}}, "data-type"),
        ({"data_type": None}, "data-type"),
        ({"storage_transformers": [{"name": "sharding"}]}, "storage-transformers"),
        ({"chunk_key_encoding": "default"}, "json"),
        ({"chunk_key_encoding": {"name": "default", "configuration": "x"}}, "json"),
        (key_encoding("default", separator="-"), "chunk-key"),
        (key_encoding("hashed"), "chunk-key"),
    ],
)
def test_arrays_that_are_refused(changes: dict[str, Any], rule: str) -> None:
    with pytest.raises(DecodeError) as error:
        ArrayNode.parse(document(**changes))
    assert error.value.rule == rule


def test_documents() -> None:
    assert parse_document(b'{"a": 1}') == {"a": 1}
    assert parse_document(memoryview(b'{"a": 1}')) == {"a": 1}


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"\xff", b"null", b"[" * 100_000])
def test_what_is_no_document(raw: bytes) -> None:
    with pytest.raises(DecodeError) as error:
        parse_document(raw)
    assert error.value.rule == "json"


def test_documents_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "MAX_DOCUMENT_BYTES", 4)
    with pytest.raises(DecodeError, match=r"zarr\.json of 8 bytes, at most 4 are read"):
        parse_document(b'{"a": 1}')


def test_keys_at_the_top_count_as_attributes() -> None:
    group = {"zarr_format": 3, "node_type": "group", "zarr_vectors": {"a": 1}, "consolidated_metadata": None}
    assert group_attributes(group) == {"zarr_vectors": {"a": 1}}
    # Where both have a key, the place that Zarr gives to users wins.
    assert group_attributes({**group, "attributes": {"zarr_vectors": {"b": 2}, "x": 0}}) == {
        "zarr_vectors": {"b": 2},
        "x": 0,
    }


def test_groups_keep_their_other_keys() -> None:
    made = json.loads(group_document({"a": "é"}, {"must_understand": False, "zarr_format": 2}))
    assert made == {"must_understand": False, "zarr_format": 3, "node_type": "group", "attributes": {"a": "é"}}


@pytest.mark.parametrize(
    ("changes", "rule"),
    [({"node_type": "array"}, "node-type"), ({"zarr_format": 2}, "node-type"), ({"attributes": []}, "json")],
)
def test_what_is_no_group(changes: dict[str, Any], rule: str) -> None:
    with pytest.raises(DecodeError) as error:
        group_attributes({"zarr_format": 3, "node_type": "group"} | changes)
    assert error.value.rule == rule


def test_metadata_that_json_does_not_have() -> None:
    with pytest.raises(EncodeError, match="can't be written as JSON") as error:
        group_document({"a": float("nan")})
    assert error.value.rule == "json"
