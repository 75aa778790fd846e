"""Public names and documented import paths: a change here is a change for users."""

from importlib import import_module
from inspect import signature

import pytest

import zarr_vectors as zv
from zarr_vectors.write import StoreKeywords, _Keywords

PUBLIC = [
    "Level",
    "LevelMetadata",
    "Result",
    "RootMetadata",
    "Store",
    "WriteSummary",
    "ZarrVectorsError",
    "__version__",
    "create",
    "open",
    "write_graph",
    "write_lines",
    "write_mesh",
    "write_points",
    "write_polylines",
    "write_skeletons",
]

DOCUMENTED = {
    "zarr_vectors.constants": [
        "ALL_ARRAY_NAMES",
        "CAP_FRAGMENT_INDEX",
        "CAP_MULTISCALE_LINKS",
        "CAP_PRESERVED_OBJECT_IDS",
        "CAP_SHARED_FRAGMENTS",
    ],
    "zarr_vectors.encoding.fragments": [
        "ChunkFragmentIndex",
        "decode_fragments",
        "decode_object_manifest_blocks",
        "encode_fragments",
        "encode_object_manifest_blocks",
    ],
    "zarr_vectors.encoding.manifests": ["decode_object_manifest_blocks", "encode_object_manifest_blocks"],
    "zarr_vectors.encoding.compression": ["get_default_compressor"],
    "zarr_vectors.core.metadata": ["LevelMetadata", "RootMetadata"],
    "zarr_vectors.core.group": ["FsGroup"],
    "zarr_vectors.core.arrays": [
        "read_all_object_manifests",
        "read_fragment_index",
        "read_object_manifest",
        "read_object_vertices",
    ],
}

KEYWORDS = [
    "axes",
    "bin_shape",
    "bounds",
    "bounds_policy",
    "byte_arrays",
    "channel_names",
    "checksum",
    "chunk_shape",
    "compressor",
    "crs",
    "dtype",
    "group_attributes",
    "groups",
    "links_convention",
    "mode",
    "object_attributes",
    "object_index_convention",
]

ARGUMENTS = {
    "write_points": ["location", "positions", "vertex_attributes", "object_ids"],
    "write_lines": ["location", "endpoints", "vertex_attributes"],
    "write_polylines": ["location", "paths", "geometry_type", "vertex_attributes", "segments"],
    "write_graph": ["location", "positions", "edges", "vertex_attributes", "link_attributes", "object_ids"],
    "write_skeletons": ["location", "positions", "parents", "edges", "vertex_attributes", "object_ids"],
    "write_mesh": [
        "location",
        "vertices",
        "faces",
        "vertex_attributes",
        "link_attributes",
        "object_ids",
        "face_objects",
        "encoding",
        "quantization_bits",
    ],
}


def test_public_names() -> None:
    assert sorted(zv.__all__) == sorted(PUBLIC)
    assert dir(zv) == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_there_and_documented(name: str) -> None:
    found = getattr(zv, name)
    assert name == "__version__" or found.__doc__


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'write_everything'"):
        zv.write_everything  # noqa: B018


@pytest.mark.parametrize(("module", "names"), DOCUMENTED.items())
def test_documented_import_paths(module: str, names: list[str]) -> None:
    found = import_module(module)
    assert [name for name in names if not hasattr(found, name)] == []


@pytest.mark.parametrize("name", ["read_bytes", "write_bytes", "read_array_meta", "read_vertices", "zarr_group"])
def test_documented_methods_of_a_level_group(name: str) -> None:
    assert hasattr(import_module("zarr_vectors.core.group").FsGroup, name)


def test_array_names_and_capabilities_of_the_format() -> None:
    constants = import_module("zarr_vectors.constants")
    assert constants.ALL_ARRAY_NAMES == (
        "vertices",
        "vertex_fragments",
        "link_fragments",
        "links",
        "vertex_attributes",
        "fragment_attributes",
        "link_attributes",
        "object_index",
        "object_attributes",
        "groups",
        "group_attributes",
        "cross_chunk_links",
        "cross_chunk_link_attributes",
    )
    tokens = {name: value for name, value in vars(constants).items() if name.startswith("CAP_")}
    assert tokens == {
        "CAP_FRAGMENT_INDEX": "fragment_index",
        "CAP_MULTISCALE_LINKS": "multiscale_links",
        "CAP_PRESERVED_OBJECT_IDS": "preserved_object_ids",
        "CAP_SHARED_FRAGMENTS": "shared_fragments",
    }


@pytest.mark.parametrize(("name", "arguments"), ARGUMENTS.items())
def test_arguments_of_write_functions(name: str, arguments: list[str]) -> None:
    assert list(signature(getattr(zv, name)).parameters) == [*arguments, "keywords"]


def test_keywords_of_write_functions() -> None:
    assert sorted(StoreKeywords.__annotations__) == KEYWORDS
    # The two lists of the same keywords, one with types alone and one with defaults, agree.
    assert {name: str(kind) for name, kind in StoreKeywords.__annotations__.items()} == {
        name: str(kind) for name, kind in _Keywords.__annotations__.items()
    }


def test_arguments_of_read() -> None:
    names = ["self", "bbox", "object_ids", "groups", "attributes", "where", "limit", "crop"]
    assert list(signature(zv.Level.read).parameters) == names
