"""A level made from the one below it, with loops: slow, simple, and independent of the library's way."""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

import zarr_vectors as zv
from zarr_vectors.constants import LEVEL0_OBJECT_ID, OBJECT_ID_ATTRIBUTE
from zarr_vectors.core.arrays import read_object_attribute
from zarr_vectors.core.object_index import read_manifests
from zarr_vectors.typing import AnyArray, ChunkCoords

Row = tuple[ChunkCoords, int]
"""A stored row: chunk coordinates and the row in the chunk."""
Bin = tuple[ChunkCoords, ChunkCoords]
"""Chunk coordinates, and those of the bin in the chunk."""


@dataclass(frozen=True)
class Stored:
    """All that a level stores, row by row."""

    level: zv.Level
    rows: list[Row]
    positions: AnyArray
    attributes: dict[str, AnyArray]
    objects: list[list[Row]] | None
    """The rows of each object in manifest order."""

    @property
    def place(self) -> dict[Row, int]:
        return {row: number for number, row in enumerate(self.rows)}

    def bin_of(self, position: AnyArray) -> Bin:
        """The bin of this level's grid that a position lies in."""
        chunk_shape, bin_shape = self.level.index.grid.chunk_shape, self.level.index.grid.bin_shape
        chunk, inside = [], []
        for value, side, size in zip(position.tolist(), chunk_shape, bin_shape, strict=True):
            cells = round(side / size)
            here = cell(value, side, position.dtype, whole=all(float(item).is_integer() for item in chunk_shape))
            found = cell(value, size, position.dtype, whole=all(float(item).is_integer() for item in bin_shape))
            chunk.append(here)
            inside.append(min(max(found - here * cells, 0), cells - 1))
        return tuple(chunk), tuple(inside)


def cell(value: float, size: float, dtype: np.dtype[Any], *, whole: bool) -> int:
    if dtype.kind in "iu" and dtype.itemsize == 8 and whole:
        return int(value) // int(size)
    return math.floor(float(value) / size)


def stored(level: zv.Level) -> Stored:
    rows: list[Row] = []
    positions: list[AnyArray] = []
    columns: dict[str, list[AnyArray]] = defaultdict(list)
    fragments: dict[ChunkCoords, list[list[int]]] = {}
    for chunk in level.chunks:
        rows += [(chunk.coords, row) for row in range(len(chunk.positions))]
        positions.append(chunk.positions)
        for name, values in chunk.attributes.items():
            columns[name].append(values)
        offsets = chunk.fragments.offsets.tolist()
        fragments[chunk.coords] = [chunk.fragments.values[a:b].tolist() for a, b in itertools.pairwise(offsets)]
    objects: list[list[Row]] | None = None
    if level.index.has_objects:
        table = read_manifests(level.group, None)
        numbers, offsets = (item.tolist() for item in table.fragments())
        objects = []
        for first, last in itertools.pairwise(table.object_offsets.tolist()):
            objects.append([])
            for block in range(first, last):
                coords = tuple(table.chunk_coords[block].tolist())
                for fragment in numbers[offsets[block] : offsets[block + 1]]:
                    objects[-1] += [(coords, row) for row in fragments[coords][fragment]]
    empty = level.read(attributes=[], limit=0).positions
    return Stored(
        level,
        rows,
        np.concatenate([empty, *positions]),
        {name: np.concatenate(values) for name, values in columns.items()},
        objects,
    )


def kept_objects(fine: Stored, coarse: Stored) -> dict[int, int]:
    """The objects of the finer level that the coarser one keeps, and their ids there."""
    assert coarse.objects is not None
    if coarse.level.metadata.preserves_object_ids:
        return {number: number for number, rows in enumerate(coarse.objects) if rows}
    upper = coarse.level.index.object_attribute(LEVEL0_OBJECT_ID).tolist()
    assert sorted(upper) == upper
    lower = list(range(len(fine.objects or ())))
    if fine.level.number:
        lower = fine.level.index.object_attribute(LEVEL0_OBJECT_ID).tolist()
    return {lower.index(number): place for place, number in enumerate(upper)}


def check_level(fine: Stored, coarse: Stored, reducers: Mapping[str, str], *, sparse: bool) -> dict[Row, Row]:
    """Compare a level with what it must be, given the one below; return the parent of every vertex."""
    assert len(coarse.rows) <= len(fine.rows)
    assert coarse.level.metadata.vertex_count == len(coarse.rows)
    assert coarse.positions.dtype == fine.positions.dtype
    alive = set(fine.rows)
    kept: dict[int, int] = {}
    if fine.objects is not None:
        kept = kept_objects(fine, coarse)
        if sparse:
            alive = {row for number in kept for row in fine.objects[number]}
    parents = check_metavertices(fine, coarse, alive, reducers)
    if fine.objects is not None:
        check_objects(fine, coarse, kept, parents)
    if fine.level.index.geometry.rooted:
        check_trees(fine, coarse, kept)
    elif fine.level.index.geometry.has_links:
        check_links(fine, coarse, kept, parents, reducers)
    return parents


def check_metavertices(fine: Stored, coarse: Stored, alive: set[Row], reducers: Mapping[str, str]) -> dict[Row, Row]:
    bins: dict[Bin, list[int]] = defaultdict(list)
    for number, row in enumerate(fine.rows):
        if row in alive:
            bins[coarse.bin_of(fine.positions[number])].append(number)
    of_bin: dict[Bin, int] = {}
    for number, row in enumerate(coarse.rows):
        here = coarse.bin_of(coarse.positions[number])
        assert here[0] == row[0]
        assert here not in of_bin
        of_bin[here] = number
    assert set(of_bin) == set(bins)
    for here, members in bins.items():
        check_centroid(coarse, here, coarse.positions[of_bin[here]], fine.positions[members])
        for name, values in fine.attributes.items():
            found = coarse.attributes[name][of_bin[here]]
            check_reduced(found, values[members], reducers.get(name) or default_reducer(values))
    return {fine.rows[number]: coarse.rows[of_bin[here]] for here, members in bins.items() for number in members}


def check_centroid(coarse: Stored, here: Bin, found: AnyArray, members: AnyArray) -> None:
    dtype = members.dtype
    exact = [sum(map(Fraction, column), Fraction()) / len(members) for column in members.T.tolist()]
    if dtype.kind in "iu":
        rounded = [math.floor(value + Fraction(1, 2)) for value in exact]
        good = found.tolist() == rounded
        strayed = coarse.bin_of(np.array(rounded, dtype=dtype)) != here
    else:
        room = [2 * Fraction(float(np.spacing(np.abs(column).max()))) for column in members.T]
        good = all(
            abs(Fraction(value) - right) <= slack
            for value, right, slack in zip(found.tolist(), exact, room, strict=True)
        )
        near = np.array([float(value) for value in exact]).astype(dtype)
        steps = [near, np.nextafter(near, dtype.type(-np.inf)), np.nextafter(near, dtype.type(np.inf))]
        strayed = any(coarse.bin_of(item) != here for item in steps)
    if not good:
        assert strayed, (found, exact)
        assert found.tolist() in members.tolist()


def default_reducer(values: AnyArray) -> str:
    return "mean" if values.dtype.kind == "f" else "mode"


def check_reduced(found: Any, members: AnyArray, reducer: str) -> None:
    if reducer == "count":
        assert found == len(members)
        return
    if members.ndim > 1:
        for channel in range(members.shape[1]):
            check_reduced(found[channel], members[:, channel], reducer)
        return
    values = members.tolist()
    if reducer == "mode":
        counted = Counter(values)
        assert found == min(value for value in counted if counted[value] == max(counted.values()))
    elif reducer in ("min", "max"):
        assert found == (min if reducer == "min" else max)(values)
    else:
        total = sum(map(Fraction, values))
        right = float(total if reducer == "sum" else total / len(values))
        loose: Any = members.dtype if members.dtype.kind == "f" and reducer == "mean" else np.float64
        scale = max(abs(value) for value in values) * len(values)
        assert abs(float(found) - right) <= 4 * float(np.finfo(loose).eps) * max(abs(right), scale * 1e-9, 1e-300)


def squeezed(items: Sequence[Any]) -> list[Any]:
    """The items without consecutive repeats."""
    return [item for item, _ in itertools.groupby(items)]


def check_objects(fine: Stored, coarse: Stored, kept: Mapping[int, int], parents: Mapping[Row, Row]) -> None:
    assert fine.objects is not None
    assert coarse.objects is not None
    metadata = coarse.level.metadata
    if metadata.preserves_object_ids:
        assert len(coarse.objects) == len(fine.objects) == metadata.inherited_num_objects
        assert all(not rows for number, rows in enumerate(coarse.objects) if number not in kept)
    else:
        assert sorted(kept.values()) == list(range(len(coarse.objects)))
    for number, new in kept.items():
        visited = [parents[row] for row in fine.objects[number]]
        geometry = fine.level.index.geometry
        if geometry.by_object and not geometry.rooted:
            assert coarse.objects[new] == squeezed(visited)
        else:
            assert len(set(coarse.objects[new])) == len(coarse.objects[new])
            assert set(coarse.objects[new]) == set(visited)
    check_object_attributes(fine, coarse, kept)
    groups = [ids.tolist() for ids in groups_of(fine.level)]
    if not metadata.preserves_object_ids:
        groups = [[kept[number] for number in ids if number in kept] for ids in groups]
    assert [ids.tolist() for ids in groups_of(coarse.level)] == groups
    for name, values in fine.level.groups.attributes.items():
        assert coarse.level.groups.attributes[name].tolist() == values.tolist()


def groups_of(level: zv.Level) -> list[AnyArray]:
    return [item.ids for item in level.groups]


def check_object_attributes(fine: Stored, coarse: Stored, kept: Mapping[int, int]) -> None:
    for name in fine.level.index.scopes()["object"]:
        if name == LEVEL0_OBJECT_ID:
            continue
        lower, upper = fine.level.index.object_attribute(name), coarse.level.index.object_attribute(name)
        for number, new in kept.items():
            assert upper[new].tolist() == lower[number].tolist()
        raw = read_object_attribute(coarse.level.group, name)
        if coarse.level.metadata.preserves_object_ids:
            assert raw.present is not None
            assert np.flatnonzero(raw.present).tolist() == sorted(kept)
            assert not raw.values[raw.present == 0].any()


def check_trees(fine: Stored, coarse: Stored, kept: Mapping[int, int]) -> None:
    below, above = fine.level.read(), coarse.level.read()
    assert below.parents is not None
    assert above.parents is not None
    assert (above.parents < np.arange(len(above))).all(), "parents before children"
    for number, new in kept.items():
        rows = np.flatnonzero(below.object_ids == number).tolist()
        nodes = {coarse.bin_of(above.positions[row]): row for row in np.flatnonzero(above.object_ids == new).tolist()}
        image = {row: coarse.bin_of(below.positions[row]) for row in rows}
        assert set(nodes) == set(image.values())
        edges = {
            frozenset((image[row], image[int(below.parents[row])])) for row in rows if int(below.parents[row]) >= 0
        }
        edges = {edge for edge in edges if len(edge) == 2}
        names = {row: here for here, row in nodes.items()}
        found = [(names[row], names[int(above.parents[row])]) for row in names if int(above.parents[row]) >= 0]
        assert {frozenset(edge) for edge in found} <= edges
        # As many edges as a forest with these components has, so none of them closes a cycle.
        whole, tree = components(nodes, edges), components(nodes, found)
        assert whole == tree
        assert len(found) == len(nodes) - len(whole)
        alone = coarse.level.read(object_ids=[new])
        assert alone.parents is not None
        first = min(names)
        assert [-1 if p < 0 else p + first for p in alone.parents.tolist()] == [
            int(above.parents[row]) for row in sorted(names)
        ]


def components(nodes: Any, edges: Any) -> set[frozenset[Any]]:
    part = {node: {node} for node in nodes}
    for edge in edges:
        first, second = tuple(edge)
        if part[first] is not part[second]:
            part[first] |= part[second]
            for node in part[second]:
                part[node] = part[first]
    return {frozenset(item) for item in part.values()}


def check_links(
    fine: Stored, coarse: Stored, kept: Mapping[int, int], parents: Mapping[Row, Row], reducers: Mapping[str, str]
) -> None:
    below, above = fine.level.read(), coarse.level.read()
    assert below.links is not None
    assert above.links is not None
    assert len(below) == len(fine.rows)
    place = coarse.place
    shared = OBJECT_ID_ATTRIBUTE in below.link_attributes
    owners: list[Any] = below.link_attributes[OBJECT_ID_ATTRIBUTE].tolist() if shared else [None] * len(below.links)
    images: dict[Any, list[int]] = defaultdict(list)
    for number, link in enumerate(below.links.tolist()):
        ends = [place.get(parents.get(fine.rows[end], ((), -1)), -1) for end in link]
        if min(ends) < 0 or len(set(ends)) < len(ends) or (shared and owners[number] not in kept):
            continue
        images[frozenset(ends), kept[owners[number]] if shared else None].append(number)
    found = above.link_attributes[OBJECT_ID_ATTRIBUTE].tolist() if shared else [None] * len(above.links)
    keys = [(frozenset(link), owner) for link, owner in zip(above.links.tolist(), found, strict=True)]
    assert len(set(keys)) == len(keys)
    assert set(keys) == set(images)
    for name, values in below.link_attributes.items():
        if name == OBJECT_ID_ATTRIBUTE:
            continue
        for number, key in enumerate(keys):
            reducer = reducers.get(name) or default_reducer(values)
            check_reduced(above.link_attributes[name][number], values[images[key]], reducer)


def mapped(cross: Any) -> dict[Row, Row]:
    """The links of a map; each vertex has one at most."""
    found = {}
    for chunk, row, other, other_row in zip(
        cross.chunks.tolist(), cross.rows.tolist(), cross.other_chunks.tolist(), cross.other_rows.tolist(), strict=True
    ):
        assert (tuple(chunk), row) not in found
        found[tuple(chunk), row] = (tuple(other), other_row)
    return found
