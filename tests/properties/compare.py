"""A result of the library against the answer of the oracle; no difference is tolerated."""

import itertools
from typing import Any

import numpy as np
from tests.properties.oracle import Answer, Question, Scene, answer
from zarr.storage import MemoryStore

import zarr_vectors as zv
from zarr_vectors.api import Level
from zarr_vectors.query.result import Result
from zarr_vectors.typing import AnyArray


def write_and_open(scene: Scene, **keywords: Any) -> Level:
    """Return level 0 of the scene, written to memory."""
    store = MemoryStore()
    scene.written(store, **keywords)
    return zv.open(store)[0]


def check(scene: Scene, level: Level, question: Question) -> None:
    """Ask the store and the oracle, and compare."""
    result = level.read(**question.keywords)
    expected = answer(scene, question)
    assert result.geometry_type == scene.geometry_type
    assert result.truncated == expected.truncated
    assert result.absent.tolist() == expected.absent
    rows = result.attributes["row"].tolist()
    same_columns(result.attributes, scene.attributes, rows)
    same(result.positions, scene.positions[rows])
    if scene.paths is not None:
        check_by_object(scene, result, expected)
    else:
        check_by_chunk(scene, level, result, expected, question)
    check_objects(scene, result)


def check_by_object(scene: Scene, result: Result, expected: Answer) -> None:
    rows = result.attributes["row"].tolist()
    assert rows == [vertex for _, piece in expected.pieces for vertex in piece]
    assert result.object_ids is not None
    assert result.object_ids.tolist() == [number for number, piece in expected.pieces for _ in piece]
    assert result.objects.tolist() == expected.objects
    listed = [result.object_rows.values[begin:end].tolist() for begin, end in pairs(result.object_rows.offsets)]
    assert listed == [
        [row for row, number in enumerate(result.object_ids.tolist()) if number == owner] for owner in expected.objects
    ]
    assert result.links is None
    if scene.parents is None:
        paths = result.polylines
        assert paths.object_ids.tolist() == [number for number, _ in expected.pieces]
        assert len(paths) == len(expected.pieces)
        for path, (_, piece) in zip(paths, expected.pieces, strict=True):
            same(path, scene.positions[piece])
        assert result.edges.tolist() == [
            [row, row + 1] for begin, end in pairs(paths.offsets) for row in range(begin, end - 1)
        ]
        return
    assert result.parents is not None
    found = [-1 if parent < 0 else rows[parent] for parent in result.parents.tolist()]
    assert found == [scene.parents[row] if scene.parents[row] in rows else -1 for row in rows]
    assert {(rows[child], rows[parent]) for child, parent in result.edges.tolist()} == {
        (row, scene.parents[row]) for row in rows if scene.parents[row] in rows
    }
    for skeleton, owner in zip(result.skeletons, expected.objects, strict=True):
        nodes = skeleton.attributes["row"].tolist()
        assert skeleton.object_id == owner
        assert [-1 if parent < 0 else nodes[parent] for parent in skeleton.parents.tolist()] == [
            scene.parents[node] if scene.parents[node] in nodes else -1 for node in nodes
        ]


def check_by_chunk(scene: Scene, level: Level, result: Result, expected: Answer, question: Question) -> None:
    rows = result.attributes["row"].tolist()
    assert len(set(rows)) == len(rows)
    if question.limit is None:
        assert sorted(rows) == expected.vertices
    else:
        # Which ones is not promised, only that they are the first ones.
        assert len(rows) == min(question.limit, len(expected.vertices))
        unlimited = level.read(**{**question.keywords, "limit": None})
        assert rows == unlimited.attributes["row"].tolist()[: question.limit]
    shape = level.index.grid.chunk_shape
    chunks = [tuple(np.floor(scene.positions[row].astype(np.float64) / shape).tolist()) for row in rows]
    assert chunks == sorted(chunks)
    if scene.owners is None:
        assert result.object_ids is None
        assert result.objects.tolist() == []
    else:
        check_owners(scene, result, expected, rows)
    if scene.links is None:
        assert result.links is None
        return
    check_links(scene, result, expected, rows)


def check_owners(scene: Scene, result: Result, expected: Answer, rows: list[int]) -> None:
    owners = [
        {number for number in (scene.owners or [])[row] if expected.chosen is None or number in expected.chosen}
        for row in rows
    ]
    assert result.object_ids is not None
    assert result.object_ids.tolist() == [min(item, default=-1) for item in owners]
    order = list(range(scene.num_objects)) if expected.chosen is None else expected.chosen
    assert result.objects.tolist() == [number for number in order if any(number in item for item in owners)]
    for owner, (begin, end) in zip(result.objects.tolist(), pairs(result.object_rows.offsets), strict=True):
        assert sorted(result.object_rows.values[begin:end].tolist()) == [
            row for row, item in enumerate(owners) if owner in item
        ]


def check_links(scene: Scene, result: Result, expected: Answer, rows: list[int]) -> None:
    assert result.links is not None
    numbers = result.link_attributes["link"].tolist()
    there = set(rows)
    wanted = [number for number in expected.links if there.issuperset((scene.links or [])[number])]
    assert sorted(numbers) == wanted
    assert [[rows[end] for end in link] for link in result.links.tolist()] == [
        list((scene.links or [])[number]) for number in numbers
    ]
    same_columns(result.link_attributes, scene.link_attributes, numbers)
    assert result.link_attribute_missing == {}


def check_objects(scene: Scene, result: Result) -> None:
    objects = result.objects.tolist()
    same_columns(result.object_attributes, scene.object_attributes, objects)
    members = {
        number: [member for member in group if member in objects]
        for number, group in enumerate(scene.groups)
        if set(group) & set(objects)
    }
    assert {number: ids.tolist() for number, ids in result.groups.items()} == members
    same_columns(result.group_attributes, scene.group_attributes, list(members))


def check_attributes(scene: Scene, level: Level, question: Question, names: list[str]) -> None:
    """Fewer attributes are fewer attributes, and nothing else changes."""
    everything = level.read(**question.keywords)
    fewer = level.read(**question.keywords, attributes=names)
    assert list(fewer.attributes) == [name for name in names if name in scene.attributes]
    assert sorted(fewer.link_attributes) == sorted(name for name in names if name in everything.link_attributes)
    for name, values in fewer.attributes.items():
        same(values, everything.attributes[name])
    for name, values in fewer.link_attributes.items():
        same(values, everything.link_attributes[name])
    same_results(everything, fewer)


def same_results(first: Result, second: Result) -> None:
    """Two reads gave the same, attributes aside."""
    same(first.positions, second.positions)
    same(first.objects, second.objects)
    same(first.absent, second.absent)
    same(first.object_rows.values, second.object_rows.values)
    same(first.object_rows.offsets, second.object_rows.offsets)
    assert first.truncated == second.truncated
    for one, other in (
        (first.object_ids, second.object_ids),
        (first.links, second.links),
        (first.pieces, second.pieces),
        (first.parents, second.parents),
    ):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            same(one, other)


def same(found: AnyArray, expected: AnyArray) -> None:
    assert found.dtype.newbyteorder("=") == expected.dtype.newbyteorder("=") or expected.dtype.kind == "U"
    assert found.shape == expected.shape
    assert found.tolist() == expected.tolist()


def same_columns(found: Any, expected: Any, rows: list[int]) -> None:
    assert sorted(found) == sorted(expected)
    for name, values in expected.items():
        same(found[name], values[rows])


def pairs(offsets: AnyArray) -> list[tuple[int, int]]:
    return list(itertools.pairwise(offsets.tolist()))
