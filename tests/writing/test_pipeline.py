"""What the pipeline puts on disk: fragments, links, records, dtypes, and how much of it."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import zarr_vectors as zv
from zarr_vectors.constants import LINK_FRAGMENTS, VERTEX_FRAGMENTS
from zarr_vectors.core.arrays import (
    read_all_object_manifests,
    read_cross_chunk_link_attribute,
    read_cross_chunk_links,
    read_fragment_index,
    read_link_attribute,
    read_links,
)
from zarr_vectors.core.group import FsGroup
from zarr_vectors.core.location import resolve
from zarr_vectors.core.store import read_level, read_root
from zarr_vectors.spatial.chunk_shape import FEWEST_PER_CHUNK, MOST_PER_CHUNK
from zarr_vectors.typing import ChunkCoords

Array = npt.NDArray[Any]


def level_of(place: Path) -> FsGroup:
    storage = resolve(place)
    return read_level(storage, read_root(storage), 0)


def fragments_of(group: FsGroup, coords: ChunkCoords, array: str = VERTEX_FRAGMENTS) -> list[list[int]]:
    index = read_fragment_index(group, array, coords)
    return [index.indices(number).tolist() for number in range(index.num_fragments)]


def contents(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def test_points_are_sorted_by_bin_and_only_filled_bins_have_a_fragment(tmp_path: Path) -> None:
    positions = np.array([[7.0, 7.0], [1.0, 1.0], [6.0, 8.0], [2.0, 9.0], [11.0, 1.0]])
    zv.write_points(tmp_path / "s", positions, chunk_shape=(10, 10), bin_shape=(5, 5))
    group = level_of(tmp_path / "s")
    assert group.list_chunks() == [(0, 0), (1, 0)]
    assert group.read_vertices((0, 0)).tolist() == [[1, 1], [2, 9], [7, 7], [6, 8]]
    assert fragments_of(group, (0, 0)) == [[0], [1], [2, 3]]


def test_rows_of_an_object_in_a_chunk_are_its_fragment(tmp_path: Path) -> None:
    positions = np.array([[1.0], [2.0], [12.0], [3.0], [13.0]])
    zv.write_points(tmp_path / "s", positions, object_ids=[3, 0, 0, 3, 3], chunk_shape=(10,), bin_shape=(1,))
    group = level_of(tmp_path / "s")
    assert group.read_vertices((0,)).reshape(-1).tolist() == [2, 1, 3]
    assert fragments_of(group, (0,)) == [[0], [1, 2]]
    manifests = read_all_object_manifests(group)
    assert np.diff(manifests.object_offsets).tolist() == [2, 0, 0, 2]


def test_a_path_is_cut_at_bins_and_linked_across_chunks_from_last_row_to_first(tmp_path: Path) -> None:
    # Along x, chunks of 10 and bins of 5: the first path leaves its chunk and comes back.
    first = [[1.0], [4.0], [6.0], [11.0], [12.0], [9.0], [8.0]]
    second = [[18.0], [3.0]]
    zv.write_polylines(tmp_path / "s", [first, second, []], chunk_shape=(10,), bin_shape=(5,))
    group = level_of(tmp_path / "s")
    assert group.read_vertices((0,)).reshape(-1).tolist() == [1, 4, 6, 9, 8, 3]
    assert fragments_of(group, (0,)) == [[0, 1], [2], [3, 4], [5]]
    assert group.read_vertices((1,)).reshape(-1).tolist() == [11, 12, 18]
    assert fragments_of(group, (1,)) == [[0, 1], [2]]
    assert read_cross_chunk_links(group).tolist() == [
        [[0, 2], [1, 0]],  # 6 -> 11
        [[1, 1], [0, 3]],  # 12 -> 9
        [[1, 2], [0, 5]],  # 18 -> 3
    ]
    manifests = read_all_object_manifests(group)
    assert manifests.object_offsets.tolist() == [0, 3, 5, 5]
    assert manifests.chunk_coords.reshape(-1).tolist() == [0, 1, 0, 1, 0]
    assert manifests.fragments()[0].tolist() == [0, 1, 0, 2, 1, 3]


def test_paths_of_shared_segments_have_each_step_once(tmp_path: Path) -> None:
    segments = [[[1.0], [2.0]], [[11.0], [12.0]], [[21.0]]]
    summary = zv.write_polylines(tmp_path / "s", segments, segments=[[0, 1], [0, 1, 2], [2, 1]], chunk_shape=(10,))
    group = level_of(tmp_path / "s")
    assert summary.vertices == 5
    assert read_cross_chunk_links(group).tolist() == [
        [[0, 1], [1, 0]],
        [[1, 1], [2, 0]],
        [[2, 0], [1, 0]],
    ]
    assert group.metadata.shared_fragments
    assert "shared_fragments" in group.root.format_capabilities
    paths = [path.reshape(-1).tolist() for path in zv.open(tmp_path / "s")[0].read().polylines]
    assert paths == [[1, 2, 11, 12], [1, 2, 11, 12, 21], [21, 11, 12]]


def test_explicit_paths_store_each_step(tmp_path: Path) -> None:
    zv.write_polylines(
        tmp_path / "s", [[[1.0], [2.0], [11.0]], [[3.0]]], chunk_shape=(10,), links_convention="explicit"
    )
    group = level_of(tmp_path / "s")
    assert group.root.links_convention == "explicit"
    assert read_links(group, (0,)).tolist() == [[0, 1]]
    assert read_cross_chunk_links(group).tolist() == [[[0, 1], [1, 0]]]
    assert [len(path) for path in zv.open(tmp_path / "s")[0].read().polylines] == [3, 1]


def test_skeletons_store_only_links_that_are_not_implied_and_a_root_begins_a_fragment(tmp_path: Path) -> None:
    #  0 - 1 - 2      5 - 6: two trees of one object; 3 and 4 hang on 1, and 4 lies in the next chunk.
    positions = np.array([[0.0], [1.0], [2.0], [3.0], [12.0], [5.0], [6.0]])
    zv.write_skeletons(
        tmp_path / "s",
        positions,
        parents=[-1, 0, 1, 1, 3, -1, 5],
        vertex_attributes={"n": np.arange(7)},
        chunk_shape=(10,),
    )
    group = level_of(tmp_path / "s")
    assert group.read_vertices((0,)).reshape(-1).tolist() == [0, 1, 2, 3, 5, 6]
    # Node 3 hangs on 1 and not on the row before it; the step from 4 to 3 crosses a chunk.
    assert fragments_of(group, (0,)) == [[0, 1, 2, 3], [4, 5]]
    assert read_links(group, (0,)).tolist() == [[3, 1]]
    assert read_cross_chunk_links(group).tolist() == [[[1, 0], [0, 3]]]
    assert fragments_of(group, (0,), LINK_FRAGMENTS) == [[0], []]
    result = zv.open(tmp_path / "s")[0].read()
    assert result.parents is not None
    numbers = result.attributes["n"]
    assert {(int(numbers[child]), int(numbers[parent])) for child, parent in result.edges} == {
        (1, 0),
        (2, 1),
        (3, 1),
        (4, 3),
        (6, 5),
    }


def test_explicit_skeletons_store_every_link(tmp_path: Path) -> None:
    summary = zv.write_skeletons(
        tmp_path / "s", [[0.0], [1.0], [2.0]], parents=[-1, 0, 1], links_convention="explicit", chunk_shape=(10,)
    )
    assert summary.links == 2
    assert read_links(level_of(tmp_path / "s"), (0,)).tolist() == [[1, 0], [2, 1]]
    assert zv.open(tmp_path / "s")[0].read().edges.tolist() == [[1, 0], [2, 1]]


def test_link_fragments_stand_beside_vertex_fragments(tmp_path: Path) -> None:
    positions = np.array([[1.0], [2.0], [3.0], [4.0], [5.0], [15.0]])
    ids = [2, 0, 2, 0, 1, 1]
    edges = [[0, 2], [1, 3], [2, 0], [4, 5], [3, 0]]
    zv.write_graph(
        tmp_path / "s", positions, edges, object_ids=ids, link_attributes={"w": np.arange(5)}, chunk_shape=(10,)
    )
    group = level_of(tmp_path / "s")
    assert group.read_vertices((0,)).reshape(-1).tolist() == [2, 4, 5, 1, 3]
    vertices, links = fragments_of(group, (0,)), fragments_of(group, (0,), LINK_FRAGMENTS)
    assert vertices == [[0, 1], [2], [3, 4]]
    assert links == [[0, 1], [], [2, 3]]
    rows = read_links(group, (0,))
    assert rows.tolist() == [[0, 1], [1, 3], [3, 4], [4, 3]]
    for own, of_links in zip(vertices, links, strict=True):
        assert {int(row) for row in rows[of_links, 0]} <= set(own)
    assert read_link_attribute(group, "w", (0,)).tolist() == [1, 4, 0, 2]
    assert read_cross_chunk_links(group).tolist() == [[[0, 2], [1, 0]]]
    assert read_cross_chunk_link_attribute(group, "w").tolist() == [3]
    # A chunk without links has neither of the two arrays.
    assert group.list_chunks(LINK_FRAGMENTS) == group.list_chunks("links/0") == [(0,)]


@pytest.mark.parametrize(("count", "dtype"), [(200, "uint8"), (256, "uint8"), (257, "uint16"), (70_000, "uint32")])
def test_links_have_the_narrowest_dtype(tmp_path: Path, count: int, dtype: str) -> None:
    positions = np.linspace(0, 1, count)[:, None]
    zv.write_graph(tmp_path / "s", positions, [[0, count - 1]], chunk_shape=(10,))
    group = level_of(tmp_path / "s")
    assert group.read_array_meta("links/0").dtype == dtype
    assert read_links(group, (0,)).tolist() == [[0, count - 1]]


@pytest.mark.parametrize(("width", "chunks"), [(3, 2), (3, 3), (4, 2), (4, 3), (4, 4)])
def test_faces_across_chunks_keep_their_winding(tmp_path: Path, width: int, chunks: int) -> None:
    corners = np.array([[1.0, 1, 0], [11, 1, 0], [1, 11, 0], [11, 11, 0]])
    # The last corners stand in the chunk of the last one that is to be used.
    vertices = np.array([corners[min(number, chunks - 1)] + [number / 10, 0, 0] for number in range(width)])
    faces = np.array([np.roll(np.arange(width), shift) for shift in range(width)] + [np.arange(width)[::-1]])
    zv.write_mesh(
        tmp_path / "s",
        vertices,
        faces,
        vertex_attributes={"n": np.arange(width)},
        link_attributes={"f": np.arange(len(faces))},
        chunk_shape=(10, 10, 10),
    )
    group = level_of(tmp_path / "s")
    records = read_cross_chunk_links(group)
    assert records.shape == (len(faces), width, 4)
    assert len({tuple(end) for end in records[0, :, :3].tolist()}) == chunks
    result = zv.open(tmp_path / "s")[0].read()
    np.testing.assert_array_equal(result.attributes["n"][result.faces], faces[result.link_attributes["f"]])


def test_identity_has_an_empty_fragment_for_an_empty_object(tmp_path: Path) -> None:
    zv.write_graph(
        tmp_path / "s",
        [[1.0], [2.0], [3.0]],
        [[2, 1], [0, 0]],
        object_ids=[3, 1, 1],
        object_attributes={"k": [10, 11, 12, 13]},
        object_index_convention="identity",
        chunk_shape=(10,),
    )
    group = level_of(tmp_path / "s")
    assert fragments_of(group, (0,)) == [[], [0, 1], [], [2]]
    assert fragments_of(group, (0,), LINK_FRAGMENTS) == [[], [0], [], [1]]
    assert "object_index" not in group.metadata.arrays_present
    level = zv.open(tmp_path / "s")[0]
    assert len(level.objects) == 4
    result = level.read(object_ids=[3])
    assert (result.positions.tolist(), result.edges.tolist()) == ([[1.0]], [[0, 0]])
    assert result.object_attributes["k"].tolist() == [13]


@pytest.mark.parametrize("compressor", ["default", None, "zstd", "lz4", "gzip", {"vertices": None, "links": "gzip"}])
@pytest.mark.parametrize(("checksum", "byte_arrays"), [(True, False), (False, True)])
def test_how_arrays_are_stored(tmp_path: Path, compressor: Any, checksum: bool, byte_arrays: bool) -> None:
    rng = np.random.default_rng(0)
    positions, edges = rng.random((50, 3)) * 30, rng.integers(0, 50, (80, 2))
    zv.write_graph(
        tmp_path / "s",
        positions,
        edges,
        vertex_attributes={"rgb": rng.integers(0, 255, (50, 3), dtype=np.uint8), "n": np.arange(50)},
        link_attributes={"w": np.arange(80)},
        object_attributes={"k": ["a"]},
        groups=[[0]],
        chunk_shape=(10, 10, 10),
        compressor=compressor,
        checksum=checksum,
        byte_arrays=byte_arrays,
    )
    level = zv.open(tmp_path / "s")[0]
    for meta in level.group.arrays.values():
        names = [codec["name"] for codec in meta.codecs or ()]
        expects_checksum = checksum and meta.zv_array not in ("vertex_fragments", "link_fragments")
        assert ("crc32c" in names) == expects_checksum, meta
    result = level.read()
    numbers = result.attributes["n"]
    np.testing.assert_array_equal(result.positions, positions[numbers])
    np.testing.assert_array_equal(numbers[result.edges], edges[result.link_attributes["w"]])


def test_summary(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    place = tmp_path / "s"
    summary = zv.write_polylines(
        place,
        [rng.random((20, 3)) * 30 for _ in range(10)],
        vertex_attributes={"t": ["a", "b"] * 100},
        object_attributes={"k": np.arange(10)},
        groups=[[0, 1], [2]],
        group_attributes={"g": [1.5, 2.5]},
        chunk_shape=(10, 10, 10),
    )
    files = contents(place)
    assert "zarr_vectors.unfinished" not in files
    assert summary.bytes == sum(map(len, files.values()))
    assert (summary.vertices, summary.objects, summary.dropped) == (200, 10, 0)
    assert summary.chunks == len(level_of(place).list_chunks())
    assert summary.links == len(read_cross_chunk_links(level_of(place)))
    assert summary.chunk_shape == (10.0, 10.0, 10.0)
    assert summary.url == str(place)
    assert summary.lossless
    assert 0 < summary.seconds < 60


def test_summary_of_a_replaced_store_counts_only_the_new_one(tmp_path: Path) -> None:
    place = tmp_path / "s"
    zv.write_points(place, np.zeros((1000, 3)))
    summary = zv.write_points(place, [[1.0]], mode="w")
    assert summary.bytes == sum(map(len, contents(place).values()))


def test_links_of_a_summary_are_those_that_are_stored(tmp_path: Path) -> None:
    positions = [[1.0], [2.0], [11.0]]
    assert zv.write_graph(tmp_path / "g", positions, [[0, 1], [1, 2]], chunk_shape=(10,)).links == 2
    assert zv.write_skeletons(tmp_path / "k", positions, parents=[-1, 0, 1], chunk_shape=(10,)).links == 1
    assert zv.write_polylines(tmp_path / "p", [positions], chunk_shape=(10,)).links == 1
    assert zv.write_points(tmp_path / "c", positions, chunk_shape=(10,)).links == 0


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    positions, faces = rng.random((200, 3), dtype=np.float32) * 30, rng.integers(0, 200, (300, 3))
    for name in "ab":
        zv.write_mesh(
            tmp_path / name,
            positions,
            faces,
            vertex_attributes={"t": [str(number % 7) for number in range(200)]},
            link_attributes={"f": np.arange(300)},
            face_objects=np.arange(300) % 4,
            chunk_shape=(10, 10, 10),
        )
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_rounding_by_the_dtype_is_told(tmp_path: Path) -> None:
    given = np.array([[0.1, 1e6 + 0.01], [1 / 3, 2.0]])
    summary = zv.write_points(tmp_path / "s", given, dtype="float32", chunk_shape=(1e7, 1e7))
    stored = zv.open(tmp_path / "s")[0].read().positions
    assert stored.dtype == np.float32
    assert summary.max_error == np.abs(stored.astype(np.float64) - given).max() > 0
    assert not summary.lossless
    assert zv.write_points(tmp_path / "t", given.astype(np.float32), dtype="float64").lossless
    huge = zv.write_points(tmp_path / "u", [[2**53 + 1]], dtype="float64", chunk_shape=(2.0**50,))
    if np.finfo(np.longdouble).nmant > 60:
        assert huge.max_error == 1


def test_draco_error_is_told_and_rows_fit(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    positions = rng.random((300, 3), dtype=np.float32) * 30
    faces = np.array([rng.permutation(300)[:3] for _ in range(500)])
    summary = zv.write_mesh(
        tmp_path / "s",
        positions,
        faces,
        vertex_attributes={"n": np.arange(300)},
        link_attributes={"f": np.arange(500)},
        chunk_shape=(20, 20, 20),
        encoding="draco",
        quantization_bits=8,
    )
    result = zv.open(tmp_path / "s")[0].read()
    numbers = result.attributes["n"]
    error = np.abs(result.positions.astype(np.float64) - positions[numbers].astype(np.float64)).max()
    assert error == summary.max_error > 0
    assert not summary.lossless
    assert result.positions.dtype == np.float32
    assert len(result.faces) == 500
    assert len(read_cross_chunk_links(level_of(tmp_path / "s"))) > 0
    np.testing.assert_array_equal(numbers[result.faces], faces[result.link_attributes["f"]])


def test_draco_finds_vertices_that_moved_out_of_their_chunk(tmp_path: Path) -> None:
    positions = np.array([[9.999, 0, 0], [0, 0, 0], [0, 7.3, 0], [10.0, 0, 0], [19, 0, 0], [11, 8, 3]], dtype="f4")
    faces = [[0, 1, 2], [3, 4, 5], [2, 3, 4]]
    zv.write_mesh(tmp_path / "s", positions, faces, chunk_shape=(10, 10, 10), encoding="draco", quantization_bits=3)
    level = zv.open(tmp_path / "s")[0]
    rows = level.read().positions
    for low, high in [((9.9, 0, 0), (10, 1, 1)), ((10, 0, 0), (20, 20, 20)), ((0, 0, 0), (9.999, 9, 9))]:
        inside = ((rows >= np.array(low)) & (rows <= np.array(high))).all(axis=1)
        assert len(level.read(bbox=(low, high))) == inside.sum()


def cloud(name: str, count: int) -> Array:
    rng = np.random.default_rng(4)
    if name == "uniform":
        return rng.random((count, 3)) * [1000, 1000, 1000]
    if name == "flat":
        return rng.random((count, 3)) * [1000, 700, 0.001]
    if name == "clusters":
        return rng.normal(0, 3, (count, 3)) + rng.integers(0, 6, (count, 1)) * 500
    if name == "negative":
        return rng.random((count, 2)) * 1e-3 - 5
    if name == "surface":
        first, second = rng.random((2, count)) * 2 * np.pi
        return np.stack([np.cos(first), np.sin(first) * np.cos(second), np.sin(second)], axis=1)
    return np.cumsum(rng.normal(0, 1, (count, 3)), axis=0)


@pytest.mark.parametrize("name", ["uniform", "flat", "clusters", "negative", "surface", "walk"])
def test_chunks_that_nobody_chose_hold_16_to_64_thousand_vertices(tmp_path: Path, name: str) -> None:
    positions = cloud(name, 400_000).astype(np.float32)
    summary = zv.write_points(tmp_path / "s", positions)
    assert FEWEST_PER_CHUNK <= summary.vertices / summary.chunks <= MOST_PER_CHUNK


def test_chosen_chunks_are_whole_bins(tmp_path: Path) -> None:
    positions = np.random.default_rng(5).random((100_000, 2)) * 100
    summary = zv.write_points(tmp_path / "s", positions, bin_shape=(7, 3))
    assert [size % step for size, step in zip(summary.chunk_shape, (7, 3), strict=True)] == [0, 0]
