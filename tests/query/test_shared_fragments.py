"""Stores of other writers: fragments of two objects, rows listed one by one, copies at seams, parents in a column."""

import numpy as np
import pytest
from tests.query.stores import hand_made

from zarr_vectors.api import Level
from zarr_vectors.exceptions import DecodeError, MissingChunkError

HERE, THERE = (0, 0), (1, 0)


@pytest.fixture(scope="module")
def shared() -> Level:
    """Objects 0 and 2 share a fragment; fragment 1 of the first chunk lists its rows; object 1 is empty."""
    return hand_made(
        "polyline",
        {HERE: [[0, 0], [1, 1], [2, 2], [3, 3], [9, 9]], THERE: [[10, 0], [11, 0]]},
        {HERE: [(0, 2), [4, 2, 3]], THERE: [(0, 2)]},
        [[(HERE, [0, 1]), (THERE, [0])], [], [(THERE, [0]), (HERE, [1])]],
        level={"shared_fragments": True},
    )


def test_each_object_has_rows_of_its_own(shared: Level) -> None:
    result = shared.read()
    assert result.attributes["row"].tolist() == [0, 1, 4, 2, 3, 5, 6, 5, 6, 4, 2, 3]
    assert result.objects.tolist() == [0, 2]
    assert result.polylines.offsets.tolist() == [0, 7, 12]


def test_ids_come_in_the_order_asked_for(shared: Level) -> None:
    result = shared.read(object_ids=[2, 1, 0])
    assert result.objects.tolist() == [2, 0]
    assert result.absent.tolist() == [1]
    assert result.attributes["row"].tolist() == [5, 6, 4, 2, 3, 0, 1, 4, 2, 3, 5, 6]


def test_a_box_finds_every_owner_of_a_shared_fragment(shared: Level) -> None:
    assert shared.read(bbox=([10, 0], [10, 0])).objects.tolist() == [0, 2]
    assert shared.read(bbox=([0, 0], [1, 1])).objects.tolist() == [0]


def test_a_cropped_path_is_cut_where_rows_are_left_out(shared: Level) -> None:
    result = shared.read(bbox=([2, 0], [10, 9]), crop=True)
    # Row 1 is left out before rows 4, 2, 3 and 5; for object 2, row 6 is left out in between.
    assert result.attributes["row"].tolist() == [4, 2, 3, 5, 5, 4, 2, 3]
    assert result.polylines.offsets.tolist() == [0, 4, 5, 8]
    assert result.polylines.object_ids.tolist() == [0, 2, 2]


def test_points_that_two_objects_name_come_once() -> None:
    level = hand_made(
        "point_cloud",
        {HERE: [[0, 0], [1, 1], [2, 2]]},
        {HERE: [(0, 1), (1, 1), [2, 0]]},
        [[(HERE, [1, 2])], [(HERE, [0, 1])]],
        level={"shared_fragments": True},
    )
    result = level.read()
    assert result.attributes["row"].tolist() == [0, 1, 2]
    assert result.object_ids is not None
    assert result.object_ids.tolist() == [0, 0, 0]
    assert result.object_rows.values.tolist() == [1, 2, 0, 0, 1]
    chosen = level.read(object_ids=[1])
    assert chosen.attributes["row"].tolist() == [0, 1]
    assert chosen.object_ids is not None
    assert chosen.object_ids.tolist() == [1, 1]


@pytest.mark.parametrize("strategy", ["boundary_deduplication", "both"])
def test_copies_at_seams_are_merged(strategy: str) -> None:
    level = hand_made(
        "streamline",
        {HERE: [[5, 0], [10, 0], [9, 1]], THERE: [[10, 0], [12, 0], [10, 1]]},
        {HERE: [(0, 2), (2, 1)], THERE: [(0, 2), (2, 1)]},
        [[(HERE, [0]), (THERE, [0])], [(HERE, [1]), (THERE, [1])]],
        across=[[[0, 0, 1], [1, 0, 0]]] if strategy == "both" else None,
        cross_chunk_strategy=strategy,
    )
    result = level.read()
    # The path 5, 10, 12: the vertex at 10 is stored twice. The other object has no copy.
    assert result.polylines[0].tolist() == [[5, 0], [10, 0], [12, 0]]
    assert result.polylines[1].tolist() == [[9, 1], [10, 1]]
    assert level.read(bbox=([10, 0], [20, 0]), crop=True).polylines[0].tolist() == [[10, 0], [12, 0]]
    assert level.read(bbox=([0, 0], [10, 0]), crop=True).polylines[0].tolist() == [[5, 0], [10, 0]]


def test_copies_are_vertices_without_the_strategy() -> None:
    level = hand_made(
        "streamline",
        {HERE: [[5, 0], [10, 0]], THERE: [[10, 0], [12, 0]]},
        {HERE: [(0, 2)], THERE: [(0, 2)]},
        [[(HERE, [0]), (THERE, [0])]],
    )
    assert len(level.read()) == 4


def test_the_same_place_in_one_chunk_is_no_copy() -> None:
    level = hand_made(
        "streamline",
        {HERE: [[5, 0], [5, 0], [5, 0]]},
        {HERE: [(0, 2), (2, 1)]},
        [[(HERE, [0, 1])]],
        cross_chunk_strategy="boundary_deduplication",
    )
    assert len(level.read()) == 3


def test_a_copy_is_not_looked_for_across_a_chunk_that_is_left_out() -> None:
    far = (5, 0)
    level = hand_made(
        "streamline",
        {HERE: [[5, 0], [10, 0]], THERE: [[10, 0], [12, 0]], far: [[55, 0]]},
        {HERE: [(0, 2)], THERE: [(0, 2)], far: [(0, 1)]},
        [[(HERE, [0]), (far, [0]), (THERE, [0])]],
        cross_chunk_strategy="boundary_deduplication",
    )
    result = level.read(bbox=([0, 0], [12, 0]), crop=True)
    assert [path.tolist() for path in result.polylines] == [[[5, 0], [10, 0]], [[10, 0], [12, 0]]]


@pytest.mark.parametrize("strategy", ["boundary_deduplication", "both"])
def test_children_of_a_copy_hang_on_what_it_repeats(strategy: str) -> None:
    level = hand_made(
        "skeleton",
        {HERE: [[5, 0], [10, 0]], THERE: [[10, 0], [12, 0], [13, 0]]},
        {HERE: [(0, 2)], THERE: [(0, 3)]},
        [[(HERE, [0]), (THERE, [0])]],
        across=[[[1, 0, 0], [0, 0, 1]]] if strategy == "both" else None,
        links={THERE: [[2, 0]]},
        links_convention="implicit_sequential_with_branches",
        cross_chunk_strategy=strategy,
    )
    result = level.read()
    assert result.positions.tolist() == [[5, 0], [10, 0], [12, 0], [13, 0]]
    assert result.parents is not None
    # The third row of the second chunk is stored as a child of the copy.
    assert result.parents.tolist() == [-1, 0, 1, 1]
    cropped = level.read(bbox=([10, 0], [20, 0]), crop=True)
    assert cropped.parents is not None
    assert cropped.parents.tolist() == [-1, 0, 0]


def test_parents_in_one_column() -> None:
    level = hand_made(
        "skeleton",
        {HERE: [[0, 0], [1, 0], [2, 0], [3, 0]], THERE: [[10, 0], [11, 0]]},
        {HERE: [(0, 4)], THERE: [(0, 2)]},
        [[(HERE, [0])], [(THERE, [0])]],
        links={HERE: [[-1], [0], [2], [1]], THERE: [[1], [1]]},
        link_width=1,
        links_convention="explicit",
    )
    result = level.read()
    assert result.parents is not None
    assert result.parents.tolist() == [-1, 0, -1, 1, 5, -1]


def test_parents_in_one_column_with_links_across() -> None:
    level = hand_made(
        "skeleton",
        {HERE: [[0, 0], [1, 0]], THERE: [[10, 0]]},
        {HERE: [(0, 2)], THERE: [(0, 1)]},
        [[(HERE, [0]), (THERE, [0])]],
        links={HERE: [[0], [0]], THERE: [[-1]]},
        link_width=1,
        across=[[[1, 0, 0], [0, 0, 1]]],
        links_convention="explicit",
    )
    result = level.read()
    assert result.parents is not None
    assert result.parents.tolist() == [-1, 0, 1]


def test_one_column_of_parents_has_one_for_each_vertex() -> None:
    level = hand_made(
        "skeleton",
        {HERE: [[0, 0], [1, 0]]},
        {HERE: [(0, 2)]},
        [[(HERE, [0])]],
        links={HERE: [[0]]},
        link_width=1,
        links_convention="explicit",
    )
    with pytest.raises(DecodeError, match=r"level 0, links/0/0\.0: 1 parents for 2 vertices") as error:
        level.read()
    assert error.value.rule == "row-count"


def test_the_row_before_is_that_of_the_fragment_not_of_the_chunk() -> None:
    level = hand_made(
        "skeleton",
        {HERE: [[0, 0], [1, 0], [2, 0]]},
        {HERE: [[2, 0, 1]]},
        [[(HERE, [0])]],
        links_convention="implicit_sequential_with_branches",
    )
    result = level.read()
    assert result.attributes["row"].tolist() == [2, 0, 1]
    assert result.parents is not None
    assert result.parents.tolist() == [-1, 0, 1]
    cropped = level.read(where={"row": ("!=", 0)}, crop=True)
    assert cropped.parents is not None
    assert cropped.parents.tolist() == [-1, -1]


def test_a_stored_parent_that_is_cut_off_leaves_a_root() -> None:
    level = hand_made(
        "skeleton",
        {HERE: [[0, 0], [1, 0], [2, 0]], THERE: [[10, 0]]},
        {HERE: [(0, 3)], THERE: [(0, 1)]},
        [[(HERE, [0]), (THERE, [0])]],
        across=[[[0, 0, 2], [1, 0, 0]]],
        links_convention="implicit_sequential_with_branches",
    )
    whole = level.read()
    assert whole.parents is not None
    assert whole.parents.tolist() == [-1, 0, 3, -1]
    cropped = level.read(bbox=([0, 0], [5, 5]), crop=True)
    assert cropped.parents is not None
    # Row 2 hangs on a vertex of a chunk that is not read, not on the row before it.
    assert cropped.parents.tolist() == [-1, 0, -1]


def test_a_parent_that_is_not_read_is_not_a_row_of_another_object() -> None:
    level = hand_made(
        "skeleton",
        {HERE: [[0, 0], [1, 0], [2, 0]], THERE: [[10, 0]]},
        {HERE: [(2, 1), (0, 2)], THERE: [(0, 1)]},
        [[(HERE, [0])], [(HERE, [1]), (THERE, [0])]],
        across=[[[0, 0, 1], [1, 0, 0]]],
        links_convention="implicit_sequential_with_branches",
    )
    cropped = level.read(bbox=([0, 0], [5, 5]), crop=True)
    assert cropped.attributes["row"].tolist() == [2, 0, 1]
    assert cropped.parents is not None
    assert cropped.parents.tolist() == [-1, -1, -1]


def test_a_link_to_itself_marks_a_root() -> None:
    level = hand_made(
        "skeleton",
        {HERE: [[0, 0], [1, 0], [2, 0]]},
        {HERE: [(0, 3)]},
        [[(HERE, [0])]],
        links={HERE: [[1, 1]]},
        links_convention="implicit_sequential_with_branches",
    )
    result = level.read()
    assert result.parents is not None
    assert result.parents.tolist() == [-1, -1, 1]


def test_a_mesh_with_nothing_but_faces_across() -> None:
    level = hand_made(
        "mesh",
        {HERE: [[0, 0], [1, 0]], THERE: [[10, 0]]},
        {HERE: [(0, 2)], THERE: [(0, 1)]},
        [[(HERE, [0]), (THERE, [0])]],
        across=[[[0, 0, 0], [0, 0, 1], [1, 0, 0]]],
    )
    assert level.read().faces.tolist() == [[0, 1, 2]]
    assert level.read(bbox=([0, 0], [5, 5])).faces.shape == (0, 3)


def test_a_link_across_to_a_row_that_is_not_there() -> None:
    level = hand_made(
        "graph",
        {HERE: [[0, 0]], THERE: [[10, 0]]},
        {HERE: [(0, 1)], THERE: [(0, 1)]},
        [[(HERE, [0]), (THERE, [0])]],
        across=[[[0, 0, 0], [1, 0, 7]]],
    )
    with pytest.raises(DecodeError, match=r"cross_chunk_links/0/1.0: link 0 names row 7 of a chunk with 1"):
        level.read()
    assert len(level.read(bbox=([0, 0], [5, 5])).edges) == 0


def test_a_manifest_that_names_a_missing_chunk() -> None:
    level = hand_made("polyline", {HERE: [[0, 0]]}, {HERE: [(0, 1)]}, [[(HERE, [0])], [(THERE, [0])]])
    with pytest.raises(MissingChunkError, match=r"vertices/1\.0: the data are promised and not there"):
        level.read(object_ids=[1])


@pytest.mark.parametrize("numbers", [[1], [0, 1], [0, 5]])
def test_a_manifest_that_names_a_missing_fragment(numbers: list[int]) -> None:
    level = hand_made("polyline", {HERE: [[0, 0]]}, {HERE: [(0, 1)]}, [[], [(HERE, numbers)]])
    with pytest.raises(DecodeError, match=r"vertex_fragments/0\.0, object 1: a manifest names a fragment beyond"):
        level.read()


def test_coarse_levels_read_like_any_other() -> None:
    level = hand_made(
        "streamline",
        {HERE: [[5, 5]], THERE: [[15, 5]]},
        {HERE: [(0, 1)], THERE: [(0, 1)]},
        [[(HERE, [0]), (THERE, [0])], [(THERE, [0]), (HERE, [0])], []],
        level={"shared_fragments": True},
        row=False,
    )
    result = level.read()
    assert [path.tolist() for path in result.polylines] == [[[5, 5], [15, 5]], [[15, 5], [5, 5]]]
    assert result.edges.tolist() == [[0, 1], [2, 3]]
    assert level.metadata.vertex_count == 2
    assert np.array_equal(level.objects.absent, [2])
