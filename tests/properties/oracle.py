"""The same questions asked of arrays in memory, answered with loops: slow, simple, and independent of the library."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zarr_vectors.typing import AnyArray

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What was written. Vertex ``k`` has the attribute ``row`` of value ``k``, link ``k`` the attribute ``link``."""

    geometry_type: str
    positions: AnyArray
    attributes: Mapping[str, AnyArray]
    owners: Sequence[frozenset[int]] | None = None
    """The objects of each vertex; ``None``: there are no objects."""
    paths: Sequence[Sequence[int]] | None = None
    """The vertices of each object in order, for paths and trees; a vertex may be in several."""
    parents: Sequence[int] | None = None
    links: Sequence[Sequence[int]] | None = None
    link_attributes: Mapping[str, AnyArray] = field(default_factory=dict)
    link_owners: Sequence[int] | None = None
    """The object of each face, where objects share vertices."""
    num_objects: int = 0
    object_attributes: Mapping[str, AnyArray] = field(default_factory=dict)
    groups: Sequence[Sequence[int]] = ()
    group_attributes: Mapping[str, AnyArray] = field(default_factory=dict)
    written: Callable[..., object] = print
    """Writes the scene to a location; takes the keywords of the write functions."""

    @property
    def whole_by_default(self) -> bool:
        return self.paths is not None

    def vertices_of(self, object_id: int) -> list[int]:
        if self.paths is not None:
            return list(self.paths[object_id])
        return [vertex for vertex, owners in enumerate(self.owners or ()) if object_id in owners]


@dataclass(frozen=True, kw_only=True)
class Question:
    """The arguments of one read."""

    bbox: tuple[Sequence[float], Sequence[float]] | None = None
    object_ids: Sequence[int] | None = None
    groups: Sequence[int] | Mapping[str, Any] | None = None
    where: Mapping[str, Any] | None = None
    limit: int | None = None
    crop: bool | None = None

    @property
    def keywords(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a read must give."""

    objects: list[int]
    """In promised order."""
    pieces: list[tuple[int, list[int]]]
    """Paths and trees: runs of vertices that follow one another, with the object of each."""
    vertices: list[int]
    """Points, graphs and meshes: in any order."""
    absent: list[int]
    links: list[int]
    chosen: list[int] | None
    """The objects that the selection leaves; ``None``: no restriction."""
    truncated: bool


def holds(test: Any, value: Any) -> bool:
    if isinstance(test, tuple):
        if isinstance(test[0], str) and test[0] in OPERATORS:
            return OPERATORS[test[0]](value, test[1])
        low, high = test
        return (low is None or value >= low) and (high is None or value <= high)
    if isinstance(test, list):
        return any(value == item for item in test)
    return bool(value == test)


def inside(position: AnyArray, bbox: tuple[Sequence[float], Sequence[float]] | None) -> bool:
    if bbox is None:
        return True
    return all(low <= value <= high for value, low, high in zip(position.tolist(), *bbox, strict=True))


def scope_of(scene: Scene, name: str) -> tuple[str, str]:
    scopes = {"vertex": scene.attributes, "object": scene.object_attributes, "group": scene.group_attributes}
    found = [scope for scope, columns in scopes.items() if name in columns]
    if found:
        assert len(found) == 1
        return found[0], name
    scope, _, rest = name.partition(".")
    assert rest in scopes[scope]
    return scope, rest


def answer(scene: Scene, question: Question) -> Answer:
    crop = question.crop if question.crop is not None else not scene.whole_by_default
    by_scope: dict[str, list[tuple[str, Any]]] = {"vertex": [], "object": [], "group": []}
    for name, test in (question.where or {}).items():
        scope, attribute = scope_of(scene, name)
        by_scope[scope].append((attribute, test))
    if isinstance(question.groups, Mapping):
        by_scope["group"] += [(scope_of(scene, name)[1], test) for name, test in question.groups.items()]
    chosen = chosen_objects(scene, question, by_scope)

    hits = {
        vertex
        for vertex in range(len(scene.positions))
        if inside(scene.positions[vertex], question.bbox)
        and all(holds(test, scene.attributes[name][vertex].item()) for name, test in by_scope["vertex"])
    }
    filtered = question.bbox is not None or bool(by_scope["vertex"])
    if filtered and scene.owners is not None and (scene.paths is not None or not crop):
        candidates = range(scene.num_objects) if chosen is None else chosen
        chosen = [number for number in candidates if any(vertex in hits for vertex in scene.vertices_of(number))]
        if not crop:
            hits = set(range(len(scene.positions)))
    absent = [number for number in question.object_ids or () if not scene.vertices_of(number)]
    if scene.paths is not None:
        return answer_by_object(scene, question, chosen, hits, absent)
    vertices = sorted(hits)
    if chosen is not None and scene.owners is not None:
        vertices = [vertex for vertex in vertices if scene.owners[vertex] & set(chosen)]
    return Answer(
        objects=[],
        pieces=[],
        vertices=vertices,
        absent=absent,
        links=links_of(scene, set(vertices), chosen),
        chosen=chosen,
        truncated=question.limit is not None and len(vertices) > question.limit,
    )


def chosen_objects(scene: Scene, question: Question, by_scope: Mapping[str, list[tuple[str, Any]]]) -> list[int] | None:
    chosen = None if question.object_ids is None else list(question.object_ids)
    by_number = question.groups is not None and not isinstance(question.groups, Mapping)
    if by_number or by_scope["group"]:
        members: set[int] = set()
        for number, group in enumerate(scene.groups):
            named = not by_number or number in (question.groups or ())
            if named and all(holds(t, scene.group_attributes[n][number].item()) for n, t in by_scope["group"]):
                members |= set(group)
        chosen = sorted(members) if chosen is None else [number for number in chosen if number in members]
    for name, test in by_scope["object"]:
        candidates = list(range(scene.num_objects)) if chosen is None else chosen
        chosen = [number for number in candidates if holds(test, scene.object_attributes[name][number].item())]
    return chosen


def answer_by_object(
    scene: Scene, question: Question, chosen: list[int] | None, hits: set[int], absent: list[int]
) -> Answer:
    candidates = list(range(scene.num_objects)) if chosen is None else chosen
    filled = [number for number in candidates if scene.vertices_of(number)]
    objects = filled if question.limit is None else filled[: question.limit]
    pieces: list[tuple[int, list[int]]] = []
    for number in objects:
        begun = False
        for vertex in scene.vertices_of(number):
            if vertex not in hits:
                begun = False
            elif begun:
                pieces[-1][1].append(vertex)
            else:
                pieces.append((number, [vertex]))
                begun = True
    return Answer(
        objects=objects,
        pieces=pieces,
        vertices=[],
        absent=absent,
        links=[],
        chosen=chosen,
        truncated=len(objects) < len(filled),
    )


def links_of(scene: Scene, vertices: set[int], chosen: list[int] | None) -> list[int]:
    """Return the links whose ends are all there, those of the chosen objects where objects share vertices."""
    found = []
    for number, link in enumerate(scene.links or ()):
        owned = chosen is None or scene.link_owners is None or scene.link_owners[number] in chosen
        if owned and all(vertex in vertices for vertex in link):
            found.append(number)
    return found


def depth_first(parents: Sequence[int], objects: Sequence[int], num_objects: int) -> list[list[int]]:
    """Return the nodes of each object, parents before children, branches in the order of their first node."""
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(parents):
        children.setdefault(parent, []).append(node)
    paths: list[list[int]] = [[] for _ in range(num_objects)]

    def visit(node: int) -> None:
        paths[objects[node]].append(node)
        for child in children.get(node, ()):
            visit(child)

    for root in children.get(-1, ()):
        visit(root)
    return paths
