"""Every level of every pyramid is what its definition says, given the level below it."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.multiresolution.brute import Row, Stored, check_level, mapped, stored
from tests.properties import scenes
from tests.properties.oracle import Scene
from tests.properties.test_queries_answers import SCENES
from zarr.storage import MemoryStore

import zarr_vectors as zv
from zarr_vectors.exceptions import MissingArrayError

# A pyramid costs as much as many queries.
fewer = settings(max_examples=settings().max_examples // 4)
any_geometry = pytest.mark.parametrize("kind", SCENES)

NUMERIC = ("mean", "sum", "min", "max", "mode", "count")


@st.composite
def factors(draw: scenes.Draw, ndim: int, *, with_objects: bool) -> list[Any]:
    bins = st.one_of(
        st.sampled_from((2, 2, 3)),
        st.lists(st.sampled_from((1, 2, 3)), min_size=ndim, max_size=ndim).filter(lambda item: max(item) > 1),
    )
    sparsity = st.sampled_from((1.0, 1.5, 2.0)) if with_objects else st.just(1.0)
    chosen: list[Any] = draw(st.lists(st.tuples(bins, sparsity), min_size=1, max_size=3))
    return chosen


@st.composite
def options(draw: scenes.Draw, scene: Scene, count: int) -> dict[str, Any]:
    ndim = scene.positions.shape[1]
    scale = st.one_of(st.none(), st.sampled_from((1, 2, 3)), st.just([2, *[1] * (ndim - 1)]))
    strategy = draw(st.sampled_from(("random", "length", "attribute", "spatial_coverage")))
    chosen: dict[str, Any] = {
        "sparsity_strategy": strategy,
        "sparsity_seed": draw(st.integers(0, 5)),
        "sparsity_lowest": draw(st.booleans()),
        "cross_level_storage": draw(st.sampled_from(("implicit", "explicit", "none"))),
        "cross_level_depth": draw(st.sampled_from((1, 2, -1))),
        "preserve_object_ids": draw(st.booleans()),
        "workers": draw(st.sampled_from((1, 1, 1, 2))),
        "reducers": draw(reducers(scene)),
    }
    if strategy == "attribute" and scene.object_attributes:
        chosen["sparsity_attribute"] = "size"
    elif strategy == "attribute":
        chosen["sparsity_strategy"] = "random"
    if draw(st.booleans()):
        chosen["chunk_scale_factors"] = draw(st.lists(scale, min_size=count, max_size=count))
    return chosen


@st.composite
def reducers(draw: scenes.Draw, scene: Scene) -> dict[str, str]:
    names = scenes.some(draw, sorted({*scene.attributes, *scene.link_attributes} - {"object_id"}), 3)
    return {name: draw(st.sampled_from(("mode", "count") if name == "word" else NUMERIC)) for name in names}


def build(scene: Scene, data: st.DataObject) -> tuple[zv.Store, list[Any], dict[str, Any]]:
    where = MemoryStore()
    scene.written(where)
    levels = data.draw(factors(scene.positions.shape[1], with_objects=scene.owners is not None))
    chosen = data.draw(options(scene, len(levels)))
    store = zv.open(where)
    summary = store.build_pyramid(levels, **chosen)
    assert summary.levels == store.levels == tuple(range(len(levels) + 1))
    assert summary.vertices == tuple(level.metadata.vertex_count for level in store)
    return zv.open(where), levels, chosen


@any_geometry
@fewer
@given(data=st.data())
def test_each_level_follows_from_the_one_below(kind: str, data: st.DataObject) -> None:
    scene: Scene = data.draw(SCENES[kind])
    store, levels, chosen = build(scene, data)
    held = [stored(level) for level in store]
    parents: list[dict[Row, Row]] = []
    for number, (_, sparsity) in enumerate(levels):
        below, above = held[number : number + 2]
        sparse = sparsity != 1.0 and scene.owners is not None
        parents.append(check_level(below, above, chosen["reducers"], sparse=sparse))
    check_metadata(store, levels, held)
    check_cross_level(store, chosen, parents)
    check_answers(scene, held[1:], data)


def check_metadata(store: zv.Store, levels: list[Any], held: list[Stored]) -> None:
    root = store.metadata
    ndim = root.ndim
    ratio = np.ones(ndim, dtype=np.int64)
    for number, (factor, sparsity) in enumerate(levels, start=1):
        metadata = store[number].metadata
        ratio *= np.broadcast_to(factor, ndim)
        assert metadata.bin_ratio == tuple(ratio.tolist())
        assert metadata.bin_shape == pytest.approx(np.array(root.bin_shape) * ratio)
        assert metadata.parent_level == number - 1
        assert metadata.coarsening_method == "per_object"
        assert metadata.shared_fragments
        for lower, upper in zip(held[number - 1].level.index.grid.chunk_shape, metadata.chunk_shape or (), strict=True):
            assert math.isclose(upper / lower, round(upper / lower))
        dataset = root.multiscale.datasets[number]
        assert dataset.path == str(number)
        assert dataset.scale == pytest.approx(ratio.tolist())
        assert dataset.translation == pytest.approx([side / 2 for side in metadata.bin_shape or ()])
        objects = held[number].objects
        if objects is None:
            assert metadata.object_sparsity == 1.0
            continue
        present = sum(1 for rows in objects if rows)
        ids = len(held[0].objects or ())
        assert metadata.object_sparsity == (present / ids if present else 1.0)
        before = sum(1 for rows in held[number - 1].objects or () if rows)
        assert present == (before if sparsity == 1.0 else max(round(before / sparsity), min(before, 1)))
    capabilities = set(root.format_capabilities)
    assert {"fragment_index", "shared_fragments"} <= capabilities
    assert ("preserved_object_ids" in capabilities) == any(level.metadata.preserves_object_ids for level in store)
    assert ("multiscale_links" in capabilities) == (root.cross_level_storage != "none")


def check_cross_level(store: zv.Store, chosen: dict[str, Any], parents: list[dict[Row, Row]]) -> None:
    kind, depth = chosen["cross_level_storage"], chosen["cross_level_depth"]
    assert store.metadata.cross_level_storage == kind
    assert store.metadata.cross_level_depth == (0 if kind == "none" else depth)
    for fine in range(len(parents)):
        expected = parents[fine]
        for delta in range(1, len(parents) - fine + 1):
            if delta > 1:
                above = parents[fine + delta - 1]
                expected = {row: above[upper] for row, upper in expected.items() if upper in above}
            level, target = store[fine], store[fine + delta]
            if kind == "none" or (depth != -1 and delta > depth):
                with pytest.raises(MissingArrayError):
                    level.parents(delta)
                continue
            up = level.parents(delta)
            assert mapped(up) == expected
            down = target.children(delta)
            assert (down.level, down.other_level) == (fine + delta, fine)
            assert mapped(down.inverted()) == expected
            assert (f"links/{-delta}" in target.group.arrays) == (kind == "explicit")


def check_answers(scene: Scene, levels: list[Stored], data: st.DataObject) -> None:
    """Compare reads of levels with what loops over their own arrays find."""
    for held in levels:
        box = scenes.boxes(data.draw, scene)
        wanted = sorted(scenes.some(data.draw, range(len(held.objects or ())), 3))
        by_value = data.draw(st.integers(0, 30))
        everything = np.ones(len(held.rows), dtype=np.bool_)
        inside = contains(held, box)
        meets = held.attributes["row"].astype(np.float64) >= by_value if len(held.rows) else everything
        check_read(held, {}, everything, None)
        check_read(held, {"bbox": box}, inside, None)
        check_read(held, {"bbox": box, "where": {"row": (by_value, None)}}, inside & meets, None)
        if held.objects is not None:
            check_read(held, {"object_ids": wanted}, everything, wanted)
            check_read(held, {"object_ids": wanted, "where": {"row": (by_value, None)}}, meets, wanted)


def contains(held: Stored, box: Any) -> Any:
    return np.array(
        [
            all(low <= value <= high for value, low, high in zip(row, *box, strict=True))
            for row in held.positions.tolist()
        ],
        dtype=np.bool_,
    )


def check_read(held: Stored, asked: dict[str, Any], mask: Any, ids: list[int] | None) -> None:
    result = held.level.read(**asked, crop=True)
    place = held.place
    numbers = range(len(held.objects or ())) if ids is None else ids
    if held.level.index.geometry.by_object:
        assert held.objects is not None
        rows = [place[row] for number in numbers for row in held.objects[number] if mask[place[row]]]
        owners = [number for number in numbers for row in held.objects[number] if mask[place[row]]]
        assert result.object_ids is not None
        assert result.object_ids.tolist() == owners
    else:
        rows = np.flatnonzero(mask).tolist()
        if ids is not None:
            named = {place[row] for number in ids for row in (held.objects or [])[number]}
            rows = [row for row in rows if row in named]
    assert result.positions.tolist() == held.positions[rows].tolist()
    for name, values in result.attributes.items():
        assert values.tolist() == held.attributes[name][rows].tolist() if len(held.rows) else len(values) == 0
