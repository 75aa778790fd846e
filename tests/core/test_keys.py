import numpy as np
import pytest

from zarr_vectors.constants import ALL_ARRAY_NAMES, ARRAY_KINDS
from zarr_vectors.core.keys import (
    array_name_of,
    array_path,
    check_name,
    chunk_key,
    delta_name,
    parse_chunk_key,
    parse_delta_name,
    parse_level_name,
)
from zarr_vectors.exceptions import InputError


@pytest.mark.parametrize("coords", [(0,), (1, 2), (-1, 0, 2), (0,) * 8, (2**63 - 1, -(2**63) + 1)])
def test_chunk_keys_go_both_ways(coords: tuple[int, ...]) -> None:
    assert parse_chunk_key(chunk_key(coords), len(coords)) == coords


def test_chunk_key_of_an_array() -> None:
    assert chunk_key(np.array([-1, 0, 2])) == "-1.0.2"  # type: ignore[arg-type]


def test_chunk_key_refuses_half_a_chunk() -> None:
    with pytest.raises(TypeError):
        chunk_key((1.5, 0.0))  # type: ignore[arg-type]


NO_CHUNK_KEYS = (
    *("", "0.0", "00.0.0", "-0.0.0", "a.b.c", "0.0.", "+1.0.0", "0x1.0.0", " 0.0.0", "0.0.0\n"),
    *("1.0.0.0", "\N{ARABIC-INDIC DIGIT ONE}.0.0", "zarr.json", f"{2**63}.0.0", f"{10**19}.0.0"),
)


@pytest.mark.parametrize("key", NO_CHUNK_KEYS)
def test_what_is_no_chunk_key(key: str) -> None:
    assert parse_chunk_key(key, 3) is None


@pytest.mark.parametrize("delta", [0, 1, -1, 9999])
def test_delta_names_go_both_ways(delta: int) -> None:
    assert parse_delta_name(delta_name(delta)) == delta


@pytest.mark.parametrize("name", ["1", "+0", "-0", "+01", "", "++1", "+10000", "0\n", "zarr.json"])
def test_what_is_no_delta(name: str) -> None:
    assert parse_delta_name(name) is None


@pytest.mark.parametrize(("name", "level"), [("0", 0), ("12", 12), ("9999", 9999)])
def test_level_names(name: str, level: int) -> None:
    assert parse_level_name(name) == level


@pytest.mark.parametrize("name", ["", "00", "-1", "+1", "10000", "0\n", "zarr.json"])
def test_what_is_no_level(name: str) -> None:
    assert parse_level_name(name) is None


def test_array_paths() -> None:
    for array in ALL_ARRAY_NAMES:
        path = array_path(array, name="a b", delta=-1)
        assert array_name_of(path) == array
        assert path.count("/") == len(ARRAY_KINDS[array].path_parts)
    assert array_path("links", delta=0) == "links/0"
    assert array_path("vertex_attributes", name="rgb", delta=3) == "vertex_attributes/rgb"


def test_array_path_needs_its_parts() -> None:
    with pytest.raises(InputError, match="links has a delta"):
        array_path("links")
    with pytest.raises(InputError, match="link_attributes has a name"):
        array_path("link_attributes", delta=0)
    with pytest.raises(InputError, match="'edges' is not an array of the format"):
        array_path("edges")


@pytest.mark.parametrize("name", ["a", "a.b", "é", "a b", ".hidden", "c", "x" * 255, "_one"])
def test_good_names(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "reserved"),
        (".", "reserved"),
        ("...", "reserved"),
        ("__x", "reserved"),
        (".zv-1", "reserved"),
        ("zarr.json", "reserved"),
        ("a/b", "separator"),
        ("a\\b", "separator"),
        ("a\nb", "control"),
        ("a\0", "control"),
        ("\ud800", "not valid text"),
        ("é" * 128, "at most 255 bytes"),
    ],
)
def test_bad_names(name: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        check_name(name)
