from typing import Any

import pytest

from zarr_vectors.constants import ALL_ARRAY_NAMES
from zarr_vectors.encoding.codecs import CodecChain
from zarr_vectors.encoding.compression import CHECKSUM, Compressor, codec_pipeline, get_default_compressor
from zarr_vectors.exceptions import InputError

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}


def blosc(shuffle: str, itemsize: int, cname: str = "zstd") -> dict[str, Any]:
    configuration = {"typesize": itemsize, "cname": cname, "clevel": 5, "shuffle": shuffle, "blocksize": 0}
    return {"name": "blosc", "configuration": configuration}


@pytest.mark.parametrize("array_name", ALL_ARRAY_NAMES)
def test_default_codecs_follow_the_table_of_the_format(array_name: str) -> None:
    codec = get_default_compressor(array_name, itemsize=4)
    if array_name in {"vertex_fragments", "link_fragments"}:
        assert codec is None
    else:
        assert codec == blosc("bitshuffle" if array_name == "links" else "shuffle", 4)


def test_unknown_array_is_refused() -> None:
    with pytest.raises(InputError, match="'colours' is not an array of the format"):
        get_default_compressor("colours")


@pytest.mark.parametrize("array_name", ALL_ARRAY_NAMES)
@pytest.mark.parametrize("compressor", ["default", None, "blosc", "lz4", "zstd", "gzip"])
def test_every_pipeline_can_be_run(array_name: str, compressor: str | None) -> None:
    assert CodecChain.parse(codec_pipeline(array_name, "float32", compressor=compressor)) is not None


def test_pipeline_of_vertices() -> None:
    assert codec_pipeline("vertices", "float32") == [BYTES, blosc("shuffle", 4), CHECKSUM]
    assert codec_pipeline("vertices", "float32", checksum=False) == [BYTES, blosc("shuffle", 4)]


def test_pipeline_of_single_bytes_has_no_byte_order() -> None:
    assert codec_pipeline("links", "uint8", compressor=None, checksum=False) == [{"name": "bytes"}]


def test_pipeline_of_manifests() -> None:
    assert codec_pipeline("object_index", "bytes") == [{"name": "vlen-bytes"}, blosc("shuffle", 1), CHECKSUM]


@pytest.mark.parametrize("compressor", ["default", None, "zstd", {"name": "zstd"}, {"vertices": None}])
def test_fragment_indices_stay_raw(compressor: Compressor) -> None:
    assert codec_pipeline("vertex_fragments", "uint8", compressor=compressor) == [{"name": "bytes"}]


@pytest.mark.parametrize(
    ("compressor", "expected"),
    [
        ("blosc", blosc("bitshuffle", 2)),
        ("lz4", blosc("shuffle", 2, "lz4")),
        ("zstd", {"name": "zstd", "configuration": {"level": 3, "checksum": False}}),
        ("gzip", {"name": "gzip", "configuration": {"level": 5}}),
        ({"name": "gzip", "configuration": {"level": 9}}, {"name": "gzip", "configuration": {"level": 9}}),
        ({"name": "zstd"}, {"name": "zstd", "configuration": {}}),
        ({"links": "gzip"}, {"name": "gzip", "configuration": {"level": 5}}),
        ({"links": "default"}, blosc("bitshuffle", 2)),
        ({"links": {"name": "blosc", "configuration": {"cname": "lz4", "typesize": 9}}}, blosc("shuffle", 2, "lz4")),
        ({"vertices": "gzip"}, blosc("bitshuffle", 2)),
        ({}, blosc("bitshuffle", 2)),
    ],
)
def test_compressor_of_links(compressor: Compressor, expected: dict[str, Any]) -> None:
    assert codec_pipeline("links", "uint16", compressor=compressor, checksum=False)[1:] == [expected]


@pytest.mark.parametrize("compressor", [None, {"links": None}])
def test_links_without_compression(compressor: Compressor) -> None:
    assert codec_pipeline("links", "uint16", compressor=compressor) == [BYTES, CHECKSUM]


def test_fragment_indices_are_compressed_when_named() -> None:
    pipeline = codec_pipeline("vertex_fragments", "uint8", compressor={"vertex_fragments": "blosc"})
    assert pipeline == [{"name": "bytes"}, blosc("shuffle", 1)]


@pytest.mark.parametrize(
    ("compressor", "message"),
    [
        ("brotli", "compressor 'brotli' is not known"),
        (5, "compressor 5 is not known"),
        ({"links": 5}, "compressor 5 is not known"),
        ({"name": 5}, "a mapping with a name"),
        ({"links": {"configuration": {}}}, "a mapping with a name"),
        ({"name": "zstd", "configuration": 3}, "configuration of a codec is a mapping"),
        ({"lines": None, "colours": None}, "no array of the format is called 'colours', 'lines'"),
    ],
)
def test_unusable_compressor_is_refused(compressor: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        codec_pipeline("links", "uint16", compressor=compressor)
