import sys
from types import SimpleNamespace

import DracoPy
import numpy as np
import pytest

from zarr_vectors.encoding.draco import decode_draco, encode_draco
from zarr_vectors.exceptions import DecodeError, EncodeError, InputError, MissingDependencyError
from zarr_vectors.typing import AnyArray

POSITIONS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=np.float32)
FACES = np.array([[0, 1, 2], [0, 1, 3]], dtype=np.uint32)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_decode_gives_positions_and_faces(kind: type) -> None:
    mesh = decode_draco(kind(DracoPy.encode(POSITIONS, FACES)))
    # The codec reorders vertices, so compare the corners of the faces.
    corners = {frozenset(map(tuple, np.rint(mesh.positions[face]).tolist())) for face in mesh.faces}
    assert corners == {frozenset(map(tuple, POSITIONS[face].tolist())) for face in FACES}
    assert mesh.faces.dtype == np.int64


def test_decode_of_a_point_cloud_has_no_faces() -> None:
    mesh = decode_draco(DracoPy.encode(POSITIONS))
    assert (mesh.positions.shape, mesh.faces.shape) == ((4, 3), (0, 3))


@pytest.mark.parametrize("blob", [b"", b"DRACO", b"DRACO" + bytes(40), b"not a mesh at all"])
def test_decode_rejects_other_bytes(blob: bytes) -> None:
    with pytest.raises(DecodeError, match="not a Draco bitstream") as caught:
        decode_draco(blob)
    assert (caught.value.rule, caught.value.offset) == ("draco", None)


@pytest.mark.parametrize(
    ("mesh", "rule"),
    [
        (SimpleNamespace(points=None), "draco"),
        (SimpleNamespace(points=POSITIONS, faces=[[0, 1, 4]]), "draco-faces"),
        (SimpleNamespace(points=POSITIONS, faces=[[0, 1, -1]]), "draco-faces"),
    ],
)
def test_decode_rejects_what_the_library_lets_through(
    monkeypatch: pytest.MonkeyPatch, mesh: SimpleNamespace, rule: str
) -> None:
    monkeypatch.setattr(DracoPy, "decode", lambda _: mesh)
    with pytest.raises(DecodeError) as caught:
        decode_draco(b"DRACO")
    assert caught.value.rule == rule


def test_decode_turns_impossible_counts_into_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_out_of_memory(_: bytes) -> None:
        raise MemoryError("std::bad_alloc")

    monkeypatch.setattr(DracoPy, "decode", run_out_of_memory)
    with pytest.raises(DecodeError) as caught:
        decode_draco(b"DRACO")
    assert caught.value.rule == "draco"


def test_decode_without_the_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "DracoPy", None)
    with pytest.raises(MissingDependencyError, match=r"zarr-vectors\[draco\]"):
        decode_draco(b"DRACO")


@pytest.mark.parametrize(("rows", "faces"), [(1, 0), (50, 0), (3, 1), (50, 30), (300, 500)])
def test_encode_keeps_the_order_of_rows_and_faces(rows: int, faces: int) -> None:
    rng = np.random.default_rng(0)
    positions, corners = 100 * rng.random((rows, 3)), rng.integers(0, rows, (faces, 3))
    # Equal rows stay two rows: attributes are by row.
    positions[-1] = positions[0]
    mesh = decode_draco(encode_draco(positions, corners, quantization_bits=16))
    np.testing.assert_allclose(mesh.positions.astype(np.float64), positions, atol=100 / 2**16)
    np.testing.assert_array_equal(mesh.faces, corners)


@pytest.mark.parametrize("options", [{"quantization_bits": 0}, {"quantization_bits": 31}])
def test_encode_rejects_impossible_quantisation(options: dict[str, int]) -> None:
    with pytest.raises(InputError, match="1 to 30 bits"):
        encode_draco(POSITIONS, FACES.astype(np.int64), **options)


@pytest.mark.parametrize("level", [-1, 11])
def test_encode_rejects_impossible_level(level: int) -> None:
    with pytest.raises(InputError, match="0 to 10"):
        encode_draco(POSITIONS, FACES.astype(np.int64), quantization_bits=10, level=level)


@pytest.mark.parametrize(
    ("positions", "faces", "rule"),
    [
        (POSITIONS[:0], [], "draco"),
        (POSITIONS[:, :2], [], "draco"),
        (POSITIONS[0], [], "draco"),
        (POSITIONS, [[0, 1, 4]], "draco"),
        (np.full((1, 3), np.nan), [], "draco"),
        (np.full((1, 3), 1e300), [], "dtype"),
    ],
)
def test_encode_rejects_what_is_no_mesh(positions: AnyArray, faces: list[list[int]], rule: str) -> None:
    with pytest.raises(EncodeError) as caught:
        encode_draco(positions, np.array(faces, dtype=np.int64).reshape(-1, 3), quantization_bits=10)
    assert caught.value.rule == rule
