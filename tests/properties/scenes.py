"""Scenes and questions for the query properties: small, and full of the cases that go wrong."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from tests.properties.oracle import Question, Scene, depth_first

import zarr_vectors as zv
from zarr_vectors.typing import AnyArray

T = TypeVar("T")
Draw = Callable[[st.SearchStrategy[Any]], Any]

FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
ATTRIBUTE_DTYPES = (*FLOATS, *INTEGERS, "bool")
SIDES = (1.0, 2.0, 0.5, 0.1, 0.3, 3.0, 7.5)
WORDS = ("axon", "glia", "soma")

seeds = st.integers(0, 2**32 - 1)


class Grid:
    """A dtype, a chunk shape and bins, and coordinates that like their seams."""

    def __init__(self, draw: Draw) -> None:
        self.ndim: int = draw(st.sampled_from((1, 2, 2, 2, 3, 3, 3, 4, 5, 8)))
        self.dtype = np.dtype(draw(st.sampled_from((*FLOATS, *FLOATS, *INTEGERS))))
        # Positive positions may all lie in one chunk.
        self.positive: bool = self.dtype.kind == "u" or draw(st.sampled_from((False, False, True)))
        sides = SIDES if self.dtype.kind == "f" else (1.0, 2.0, 3.0, 2.5, 10.0)
        self.chunk_shape = [draw(st.sampled_from(sides)) for _ in range(self.ndim)]
        parts = draw(st.sampled_from((None, 1, 2, 3, 5)))
        self.bin_shape = None if parts is None else [side / parts for side in self.chunk_shape]

    @property
    def keywords(self) -> dict[str, Any]:
        return {"chunk_shape": self.chunk_shape, "bin_shape": self.bin_shape}

    def positions(self, draw: Draw, count: int) -> AnyArray:
        """Return positions of which many lie on seams, some a hair beside them, some twice."""
        rng = np.random.default_rng(draw(seeds))
        reach = draw(st.integers(1, 4))
        steps = rng.integers(-4 * reach, 4 * reach + 1, (count, self.ndim)) / rng.choice([1, 2, 3, 4, 10])
        values = self._signed(steps * np.array(self.chunk_shape))
        if self.dtype.kind == "f":
            hair = rng.random(values.shape) * (values != 0)
            cast = values.astype(self.dtype)
            cast = np.where((hair > 0) & (hair < 0.1), np.nextafter(cast, self.dtype.type(-np.inf)), cast)
            cast = np.where(hair > 0.9, np.nextafter(cast, self.dtype.type(np.inf)), cast)
            return np.asarray(cast, dtype=self.dtype)
        return np.rint(values).astype(self.dtype)

    def walk(self, draw: Draw, count: int) -> AnyArray:
        """Return positions of which neighbours are near, so that paths leave chunks and come back."""
        rng = np.random.default_rng(draw(seeds))
        steps = rng.choice([-0.5, -0.25, 0.0, 0.25, 0.5, 1.0], (count, self.ndim))
        values = self._signed(np.cumsum(steps, axis=0) * np.array(self.chunk_shape))
        return (np.rint(values) if self.dtype.kind != "f" else values).astype(self.dtype)

    def _signed(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.abs(values) if self.positive else values


def counts(most: int = 30) -> st.SearchStrategy[int]:
    # Hypothesis likes the first choice and the ends of a range.
    return st.one_of(st.integers(most // 2, most), st.integers(3, most // 2), st.integers(0, 3))


def columns(draw: Draw, count: int) -> dict[str, AnyArray]:
    """Return attributes of so many rows: numbers of any dtype, text, and channels."""
    rng = np.random.default_rng(draw(seeds))
    dtype = draw(st.sampled_from(ATTRIBUTE_DTYPES))
    low = 0 if np.dtype(dtype).kind in "bu" else -3
    return {
        "value": rng.integers(low, 4, count).astype(dtype),
        "word": np.array(WORDS)[rng.integers(0, len(WORDS), count)],
        "pair": rng.integers(0, 200, (count, 2)).astype("uint8"),
    }


def of_objects(draw: Draw, num_objects: int) -> dict[str, Any]:
    """Return the fields of a scene that speak of its objects: their attributes and groups."""
    if num_objects == 0:
        return {"num_objects": 0}
    rng = np.random.default_rng(draw(seeds))
    groups = [
        rng.integers(0, num_objects, int(size)).tolist() for size in rng.integers(0, 4, (draw(st.integers(0, 4)),))
    ]
    names = np.array(WORDS)[rng.integers(0, len(WORDS), len(groups))]
    return {
        "num_objects": num_objects,
        "object_attributes": {
            "size": rng.integers(0, 5, num_objects) / 2,
            "label": np.array(WORDS)[rng.integers(0, len(WORDS), num_objects)],
        },
        "groups": groups,
        "group_attributes": {"rank": rng.integers(0, 3, len(groups)), "name": names} if groups else {},
    }


def object_ids(draw: Draw, count: int) -> AnyArray:
    """Return an object for each vertex: in any order, with gaps."""
    rng = np.random.default_rng(draw(seeds))
    pool = rng.permutation(9)[: draw(st.integers(1, 5))]
    return np.asarray(rng.choice(pool, count), dtype=np.int64)


def written(write: Callable[..., object], grid: Grid, scene: dict[str, Any], *args: Any, **kwargs: Any) -> Scene:
    """Return the scene, which knows how to write itself."""

    def write_to(location: object, **more: Any) -> object:
        by_object: dict[str, Any] = {}
        if scene.get("num_objects"):
            by_object["object_attributes"] = scene["object_attributes"]
            if scene["groups"]:
                by_object |= {"groups": scene["groups"], "group_attributes": scene["group_attributes"]}
        return write(location, *args, **{**grid.keywords, **by_object, **kwargs, **more})

    return Scene(written=write_to, **scene)


@st.composite
def point_clouds(draw: Draw, *, with_objects: bool) -> Scene:
    grid = Grid(draw)
    count = draw(counts())
    positions = grid.positions(draw, count)
    attributes = {"row": np.arange(count), **columns(draw, count)}
    scene: dict[str, Any] = {"geometry_type": "point_cloud", "positions": positions, "attributes": attributes}
    ids = object_ids(draw, count) if with_objects else None
    if ids is not None:
        scene["owners"] = [frozenset([int(number)]) for number in ids]
        scene |= of_objects(draw, int(ids.max()) + 1 if count else 0)
    return written(zv.write_points, grid, scene, positions, vertex_attributes=attributes, object_ids=ids)


@st.composite
def paths(draw: Draw, *, geometry_type: str) -> Scene:
    grid = Grid(draw)
    lengths = [2] * draw(counts(8)) if geometry_type == "line" else draw(st.lists(counts(12), max_size=7))
    closed = draw(st.booleans())
    parts = [grid.walk(draw, length) for length in lengths]
    if closed and geometry_type != "line":
        parts = [np.concatenate([part, part[:1]]) for part in parts]
    offsets = np.cumsum([0, *map(len, parts)])
    positions = np.concatenate([np.empty((0, grid.ndim), grid.dtype), *parts])
    attributes = {"row": np.arange(len(positions)), **columns(draw, len(positions))}
    scene: dict[str, Any] = {
        "geometry_type": geometry_type,
        "positions": positions,
        "attributes": attributes,
        "owners": [frozenset([number]) for number, part in enumerate(parts) for _ in part],
        "paths": [list(range(begin, end)) for begin, end in itertools.pairwise(offsets.tolist())],
        **of_objects(draw, len(parts)),
    }
    if geometry_type == "line":
        ends = positions.reshape(-1, 2, grid.ndim)
        per_end = {name: values.reshape(-1, 2, *values.shape[1:]) for name, values in attributes.items()}
        return written(zv.write_lines, grid, scene, ends, vertex_attributes=per_end)
    kind = {"geometry_type": geometry_type}
    return written(zv.write_polylines, grid, scene, (positions, offsets), vertex_attributes=attributes, **kind)


@st.composite
def shared_paths(draw: Draw) -> Scene:
    """Objects that are made of segments, some of which several name."""
    grid = Grid(draw)
    parts = [grid.walk(draw, length) for length in draw(st.lists(counts(6), min_size=1, max_size=5))]
    offsets = np.cumsum([0, *map(len, parts)])
    positions = np.concatenate(parts)
    made_of = draw(st.lists(st.lists(st.integers(0, len(parts) - 1), max_size=4), min_size=1, max_size=6))
    attributes = {"row": np.arange(len(positions)), **columns(draw, len(positions))}
    owners: list[set[int]] = [set() for _ in range(len(positions))]
    walks: list[list[int]] = []
    for number, segments in enumerate(made_of):
        walks.append([row for segment in segments for row in range(offsets[segment], offsets[segment + 1])])
        for row in walks[-1]:
            owners[row].add(number)
    scene: dict[str, Any] = {
        "geometry_type": "polyline",
        "positions": positions,
        "attributes": attributes,
        "owners": [frozenset(item) for item in owners],
        "paths": walks,
        **of_objects(draw, len(made_of)),
    }
    args = (zv.write_polylines, grid, scene, (positions, offsets))
    return written(*args, vertex_attributes=attributes, segments=made_of)


@st.composite
def graphs(draw: Draw) -> Scene:
    grid = Grid(draw)
    count = draw(counts())
    positions = grid.positions(draw, count)
    attributes = {"row": np.arange(count), **columns(draw, count)}
    rng = np.random.default_rng(draw(seeds))
    edges = rng.integers(0, count, (draw(counts(40)), 2)) if count else np.empty((0, 2), dtype=np.int64)
    of_links = {"link": np.arange(len(edges)), **columns(draw, len(edges))}
    ids = draw(st.sampled_from((None, object_ids(draw, count))))
    owners = np.zeros(count, dtype=np.int64) if ids is None else ids
    scene: dict[str, Any] = {
        "geometry_type": "graph",
        "positions": positions,
        "attributes": attributes,
        "owners": [frozenset([int(number)]) for number in owners],
        "links": edges.tolist(),
        "link_attributes": of_links,
        **of_objects(draw, int(owners.max()) + 1 if count else 0),
    }
    named = {"vertex_attributes": attributes, "link_attributes": of_links}
    return written(zv.write_graph, grid, scene, positions, edges, object_ids=ids, **named)


@st.composite
def meshes(draw: Draw, *, by_face: bool) -> Scene:
    grid = Grid(draw)
    count = draw(counts())
    width = draw(st.sampled_from((3, 3, 4)))
    positions = grid.positions(draw, count)
    attributes = {"row": np.arange(count), **columns(draw, count)}
    rng = np.random.default_rng(draw(seeds))
    faces = rng.integers(0, count, (draw(counts(25)), width)) if count else np.empty((0, width), dtype=np.int64)
    of_links = {"link": np.arange(len(faces)), **columns(draw, len(faces))}
    owners: list[set[int]] = [set() for _ in range(count)]
    named: dict[str, Any] = {"vertex_attributes": attributes, "link_attributes": dict(of_links)}
    scene: dict[str, Any] = {"geometry_type": "mesh", "positions": positions, "attributes": attributes}
    if by_face:
        face_objects = object_ids(draw, len(faces))
        for number, face in zip(face_objects.tolist(), faces.tolist(), strict=True):
            for vertex in face:
                owners[vertex].add(number)
        num_objects = int(face_objects.max()) + 1 if len(faces) else 0
        named["face_objects"] = face_objects
        scene["link_owners"] = face_objects.tolist()
        if any(len(item) != 1 for item in owners):
            of_links = {**of_links, "object_id": face_objects}
    else:
        ids = object_ids(draw, count)
        owners = [{int(number)} for number in ids]
        num_objects = int(ids.max()) + 1 if count else 0
        named["object_ids"] = ids
    scene |= {
        "owners": [frozenset(item) for item in owners],
        "links": faces.tolist(),
        "link_attributes": of_links,
        **of_objects(draw, num_objects),
    }
    return written(zv.write_mesh, grid, scene, positions, faces, **named)


@st.composite
def skeletons(draw: Draw) -> Scene:
    """Forests: roots anywhere, nodes in any order, several trees in one object."""
    grid = Grid(draw)
    count = draw(counts())
    rng = np.random.default_rng(draw(seeds))
    roots = draw(st.sampled_from((0.05, 0.3)))
    name = rng.permutation(count)
    parents = np.full(count, -1)
    objects = np.zeros(count, dtype=np.int64)
    pool = rng.permutation(9)[: draw(st.integers(1, 4))]
    for place in range(count):
        node = name[place]
        if place == 0 or rng.random() < roots:
            objects[node] = rng.choice(pool)
        else:
            # Mostly a chain, with branches.
            parents[node] = name[place - 1 if rng.random() < 0.7 else rng.integers(0, place)]
            objects[node] = objects[parents[node]]
    positions = grid.walk(draw, count)[np.argsort(name)] if count else grid.walk(draw, 0)
    attributes = {"row": np.arange(count), **columns(draw, count)}
    num_objects = int(objects.max()) + 1 if count else 0
    scene: dict[str, Any] = {
        "geometry_type": "skeleton",
        "positions": positions,
        "attributes": attributes,
        "owners": [frozenset([int(number)]) for number in objects],
        "paths": depth_first(parents.tolist(), objects.tolist(), num_objects),
        "parents": parents.tolist(),
        **of_objects(draw, num_objects),
    }
    named = {"vertex_attributes": attributes, "object_ids": objects}
    return written(zv.write_skeletons, grid, scene, positions, parents=parents, **named)


def some(draw: Draw, items: Sequence[T], most: int) -> list[T]:
    """Return some of the items, in any order, each once."""
    return draw(st.lists(st.sampled_from(items), max_size=most, unique=True)) if items else []


def boxes(draw: Draw, scene: Scene) -> tuple[list[float], list[float]]:
    """Return a box between two vertices, with some sides open, flat, on a seam or anywhere."""
    rng = np.random.default_rng(draw(seeds))
    ndim = scene.positions.shape[1]
    known = scene.positions if len(scene.positions) else np.zeros((1, ndim))
    corners = known[rng.integers(0, len(known), 2)].tolist()
    low, high = [], []
    for first, second in zip(*corners, strict=True):
        kind = rng.choice(("known", "low", "high", "flat", "seam", "any"), p=(0.6, 0.15, 0.15, 0.02, 0.04, 0.04))
        ends = sorted((first, second))
        if kind == "seam":
            ends = sorted(rng.integers(-6, 7, 2).tolist())
        elif kind == "any":
            ends = sorted(rng.normal(0, 5, 2).tolist())
        low.append(-math.inf if kind == "low" else ends[0])
        high.append(math.inf if kind == "high" else ends[0] if kind == "flat" else ends[1])
    return low, high


def tests(draw: Draw, values: AnyArray) -> Any:
    """Return a test of an attribute's values as ``where`` takes it."""
    known = [*values[:5].tolist(), *(("axon", "zebra") if values.dtype.kind == "U" else (1, 0))]
    value = st.sampled_from(known)
    kind = draw(st.sampled_from(("equal", "range", "open", "compare", "member")))
    if kind == "equal":
        return draw(value)
    if kind == "member":
        return draw(st.lists(value, max_size=3))
    if kind == "compare":
        return (draw(st.sampled_from(("==", "!=", "<", "<=", ">", ">="))), draw(value))
    ends = sorted((draw(value), draw(value)))
    return tuple(ends) if kind == "range" else (None, ends[1])


def conditions(draw: Draw, scene: Scene, scopes: Sequence[str]) -> dict[str, Any]:
    known = {
        "vertex": {name: values for name, values in scene.attributes.items() if values.ndim == 1},
        "object": scene.object_attributes,
        "group": scene.group_attributes,
    }
    names = [(scope, name) for scope in scopes for name in known[scope]]
    chosen: dict[str, Any] = {}
    for scope, name in some(draw, names, 2):
        spelled = f"{scope}.{name}" if draw(st.booleans()) else name
        chosen[spelled] = tests(draw, known[scope][name])
    return chosen


@st.composite
def questions(draw: Draw, scene: Scene) -> Question:
    asked: dict[str, Any] = {}
    mostly = ("bbox", "object_ids", "where", "groups", "crop", "limit")
    parts = draw(st.lists(st.sampled_from(mostly), min_size=1, max_size=3, unique=True))
    numbers = list(range(scene.num_objects))
    for part in parts:
        if part == "bbox":
            asked["bbox"] = boxes(draw, scene)
        elif part == "object_ids" and scene.owners is not None:
            asked["object_ids"] = some(draw, numbers, 5)
        elif part == "groups" and scene.groups:
            by_number = draw(st.booleans())
            numbered = some(draw, range(len(scene.groups)), 3)
            asked["groups"] = numbered if by_number else conditions(draw, scene, ["group"])
        elif part == "where":
            asked["where"] = conditions(draw, scene, ["vertex", "object", "group"])
        elif part == "limit":
            asked["limit"] = draw(st.integers(0, 6))
        elif part == "crop":
            asked["crop"] = draw(st.booleans())
    return Question(**asked)
