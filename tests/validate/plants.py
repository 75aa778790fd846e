"""One way to break each rule, in a store that was sound."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.validate.stores import Array, Breaker

from zarr_vectors.core.store import MARKER
from zarr_vectors.encoding.fragments import decode_fragments, encode_fragments

Plant = Callable[[Breaker], None]
PLANTS: dict[str, tuple[str, Plant]] = {}
"""By rule: the store to break, and how."""


def plants(code: str, store: str) -> Callable[[Plant], Plant]:
    def register(plant: Plant) -> Plant:
        PLANTS[code] = store, plant
        return plant

    return register


# -- level 1


@plants("L1.root-group", "points")
def root_group(store: Breaker) -> None:
    store.items["zarr.json"] = b"{"


@plants("L1.unfinished-write", "points")
def unfinished_write(store: Breaker) -> None:
    store.items[MARKER] = b"{}"


@plants("L1.level-missing", "points_pyramid")
def level_missing(store: Breaker) -> None:
    store.delete("1/zarr.json")


@plants("L1.level-zero", "points_pyramid")
def level_zero(store: Breaker) -> None:
    store.edit("zarr.json", lambda attributes: attributes["multiscales"][0]["datasets"].pop(0))


@plants("L1.level-unlisted", "points_pyramid")
def level_unlisted(store: Breaker) -> None:
    store.edit("zarr.json", lambda attributes: attributes["multiscales"][0]["datasets"].pop())


@plants("L1.array-missing", "ids")
def array_missing(store: Breaker) -> None:
    store.delete("0/object_index")


@plants("L1.array-metadata", "points")
def array_metadata(store: Breaker) -> None:
    store.delete("0/vertices/zarr.json")


@plants("L1.link-fragments-metadata", "graph")
def link_fragments_metadata(store: Breaker) -> None:
    store.delete("0/link_fragments/zarr.json")


@plants("L1.discriminator", "points")
def discriminator(store: Breaker) -> None:
    store.array("0/vertices", zv_array="links")


@plants("L1.object-index-layout", "ids")
def object_index_layout(store: Breaker) -> None:
    store.items["0/object_index/data/zarr.json"] = store.items["0/object_index/manifests/zarr.json"]


@plants("L1.object-index-metadata", "ids")
def object_index_metadata(store: Breaker) -> None:
    store.array("0/object_index", sid_ndim=...)


@plants("L1.identity", "ids")
def identity(store: Breaker) -> None:
    store.root(object_index_convention="identity")


@plants("L1.chunk-key", "points")
def chunk_key(store: Breaker) -> None:
    for name in ("0.0", "00.0.0", "a.b.c"):
        store.items[f"0/vertices/{name}/zarr.json"] = b"{}"
    assert store.report().counts["L1.chunk-key"] == 3


@plants("L1.chunk-metadata", "points")
def chunk_metadata(store: Breaker) -> None:
    store.delete(f"0/vertices/{store.chunk('0/vertices')}/zarr.json")


@plants("L1.chunk-data", "points")
def chunk_data(store: Breaker) -> None:
    store.delete(f"0/vertices/{store.chunk('0/vertices')}/c.0.0")


@plants("L1.stray-node", "points")
def stray_node(store: Breaker) -> None:
    store.items["0/notes.txt"] = b"remember"


@plants("L1.array-copies", "points")
def array_copies(store: Breaker) -> None:
    store.edit("0/zarr.json", lambda attributes: attributes["zarr_vectors_arrays"]["vertices"].update(dtype="float64"))


# -- level 2


@plants("L2.schema", "points")
def schema(store: Breaker) -> None:
    store.level(0, vertex_count="many", object_sparsity=7)
    assert store.report().counts["L2.schema"] == 2


@plants("L2.version", "points")
def version(store: Breaker) -> None:
    store.root(zv_version="0.5.1")


@plants("L2.enumeration", "points")
def enumeration(store: Breaker) -> None:
    store.root(cross_chunk_strategy="magic")


@plants("L2.ndim", "points_pyramid")
def ndim(store: Breaker) -> None:
    store.level(1, bin_shape=[10.0, 10.0])


@plants("L2.division", "points")
def division(store: Breaker) -> None:
    store.root(base_bin_shape=[7.0, 5.0, 5.0])


@plants("L2.level-number", "points")
def level_number(store: Breaker) -> None:
    store.level(0, level=3)


@plants("L2.array-fields", "graph")
def array_fields(store: Breaker) -> None:
    store.array("0/links/0", level_delta=2)


@plants("L2.encoding", "points")
def encoding(store: Breaker) -> None:
    store.array("0/vertices", encoding="zip")


@plants("L2.manifests-array", "ids")
def manifests_array(store: Breaker) -> None:
    store.array("0/object_index", num_objects=9)


@plants("L2.unknown-capability", "points")
def unknown_capability(store: Breaker) -> None:
    store.root(format_capabilities=["fragment_index", "time_travel"])


@plants("L2.capability-missing", "points_pyramid")
def capability_missing(store: Breaker) -> None:
    store.root(format_capabilities=["fragment_index", "shared_fragments"])


@plants("L2.capability-fragment-index", "points")
def capability_fragment_index(store: Breaker) -> None:
    store.root(format_capabilities=[])


def edit_chunk(store: Breaker, path: str, **values: Any) -> None:
    key = f"{path}/{store.chunk(path)}/zarr.json"
    store.items[key] = json.dumps({**store.load(key), **values}).encode()


@plants("L2.codecs", "points")
def codecs(store: Breaker) -> None:
    edit_chunk(store, "0/vertices", codecs=[{"name": "bytes"}])


@plants("L2.chunk-type", "points")
def chunk_type(store: Breaker) -> None:
    edit_chunk(store, "0/vertices", data_type="int32")


@plants("L2.datasets", "points")
def datasets(store: Breaker) -> None:
    store.edit("zarr.json", lambda a: a["multiscales"][0]["datasets"][0]["coordinateTransformations"].pop())


@plants("L2.axes-order", "points")
def axes_order(store: Breaker) -> None:
    store.edit("zarr.json", lambda attributes: attributes["multiscales"][0]["axes"][1].update(type="time"))


# -- level 3


@plants("L3.blob", "points")
def blob(store: Breaker) -> None:
    key = f"0/vertices/{store.chunk('0/vertices')}/c.0.0"
    store.items[key] = bytes([store.items[key][0] ^ 1]) + store.items[key][1:]


@plants("L3.rows", "points_bytes")
def rows(store: Breaker) -> None:
    store.put(f"0/vertices/{store.chunk('0/vertices')}", np.zeros(13, np.uint8))


@plants("L3.not-finite", "points")
def not_finite(store: Breaker) -> None:
    set_rows(store, "0/vertices", slice(1), np.nan)


def set_rows(store: Breaker, path: str, rows: Any, value: Any, chunk: str | None = None) -> None:
    def change(values: Array) -> Array:
        values[rows] = value
        return values

    store.change(f"{path}/{chunk or store.chunk(path)}", change)


def set_fragments(store: Breaker, change: Callable[[list[Any]], list[Any]], path: str = "0/vertex_fragments") -> None:
    chunk = store.chunk(path)
    index = decode_fragments(store.node(f"{path}/{chunk}").tobytes())
    fragments = [index.indices(number).tolist() for number in range(len(index))]
    store.put(f"{path}/{chunk}", np.frombuffer(encode_fragments(change(fragments)), np.uint8))


@plants("L3.fragment-index", "points")
def fragment_index(store: Breaker) -> None:
    set_rows(store, "0/vertex_fragments", slice(4), 7)


@plants("L3.fragment-padding", "points")
def fragment_padding(store: Breaker) -> None:
    set_rows(store, "0/vertex_fragments", 23, 1)


@plants("L3.fragment-rows", "points")
def fragment_rows(store: Breaker) -> None:
    set_fragments(store, lambda fragments: [*fragments, (0, 10_000)])


@plants("L3.chunk-missing", "points")
def chunk_missing(store: Breaker) -> None:
    store.delete(f"0/vertex_attributes/w/{store.chunk('0/vertex_attributes/w')}")


@plants("L3.chunk-orphan", "points")
def chunk_orphan(store: Breaker) -> None:
    source = f"0/vertex_attributes/w/{store.chunk('0/vertex_attributes/w')}"
    for name in ("zarr.json", "c.0"):
        store.items[f"0/vertex_attributes/w/90.90.90/{name}"] = store.items[f"{source}/{name}"]


@plants("L3.manifest-blob", "ids")
def manifest_blob(store: Breaker) -> None:
    store.manifests(0, lambda blobs: [blobs[0], blobs[1][:-3], *blobs[2:]])


@plants("L3.manifest-chunk", "ids")
def manifest_chunk(store: Breaker) -> None:
    store.manifest(0, 1, [((90, 90, 90), 0)])


@plants("L3.manifest-fragment-range", "ids")
def manifest_fragment_range(store: Breaker) -> None:
    store.manifest(0, 1, [((0, 0, 0), (1, 50)), ((-1, 0, 0), [0, 99])])
    assert store.report().counts["L3.manifest-fragment-range"] == 2


@plants("L3.fragment-shared", "ids")
def fragment_shared(store: Breaker) -> None:
    store.manifests(0, lambda blobs: [blobs[1], *blobs[1:]])


@plants("L3.fragment-owners", "ids")
def fragment_owners(store: Breaker) -> None:
    set_rows(store, "0/fragment_attributes/object_id", 0, 5)


@plants("L3.links", "graph_bytes")
def links(store: Breaker) -> None:
    store.put(f"0/links/0/{store.chunk('0/links/0')}", np.zeros(13, np.uint8))


@plants("L3.link-ends", "graph")
def link_ends(store: Breaker) -> None:
    set_rows(store, "0/links/0", 0, 250)


@plants("L3.attribute-rows", "points")
def attribute_rows(store: Breaker) -> None:
    store.change(f"0/vertex_attributes/w/{store.chunk('0/vertices')}", lambda values: values[1:])


@plants("L3.category", "points")
def category(store: Breaker) -> None:
    set_rows(store, "0/vertex_attributes/t", 0, 77)


@plants("L3.groups", "ids")
def groups(store: Breaker) -> None:
    store.put("0/groups/offsets", np.array([8, 0]))


@plants("L3.group-members", "ids")
def group_members(store: Breaker) -> None:
    store.put("0/groups/data", np.array([0, 2, 99]))


@plants("L3.present-mask", "ids_pyramid")
def present_mask(store: Breaker) -> None:
    store.change("1/object_attributes/s/present_mask", lambda mask: (1 - mask) * 2)


@plants("L3.vertex-count", "points")
def vertex_count(store: Breaker) -> None:
    store.level(0, vertex_count=3)


@plants("L3.num-links", "graph")
def num_links(store: Breaker) -> None:
    store.array("0/links/0", num_links=3)


@plants("L3.array-shape", "points")
def array_shape(store: Breaker) -> None:
    store.array("0/vertex_attributes/w", shape=[3])


@plants("L3.arrays-present", "points")
def arrays_present(store: Breaker) -> None:
    store.edit("0/zarr.json", lambda a: a["zarr_vectors_level"]["arrays_present"].append("groups"))


@plants("L3.arrays-unlisted", "points")
def arrays_unlisted(store: Breaker) -> None:
    store.level(0, arrays_present=["vertices"])


# -- level 4


@plants("L4.links-convention", "paths")
def links_convention(store: Breaker) -> None:
    store.root(links_convention="explicit")


@plants("L4.link-width", "graph")
def link_width(store: Breaker) -> None:
    store.root(geometry_types=["mesh"])


@plants("L4.link-fragments", "graph")
def link_fragments(store: Breaker) -> None:
    set_fragments(store, lambda fragments: fragments[::-1], "0/link_fragments")


@plants("L4.link-fragments-single", "graph")
def link_fragments_single(store: Breaker) -> None:
    set_fragments(store, lambda fragments: [[row for rows in fragments for row in rows]], "0/link_fragments")


@plants("L4.link-fragments-missing", "graph")
def link_fragments_missing(store: Breaker) -> None:
    store.delete("0/link_fragments")


@plants("L4.rows-in-chunk", "points")
def rows_in_chunk(store: Breaker) -> None:
    set_rows(store, "0/vertices", 2, 500.0)


@plants("L4.rows-in-bin", "points")
def rows_in_bin(store: Breaker) -> None:
    set_fragments(store, lambda fragments: [fragments[0] + fragments[1], *fragments[2:]])


@plants("L4.fragment-order", "points")
def fragment_order(store: Breaker) -> None:
    set_fragments(store, lambda fragments: fragments[::-1])


@plants("L4.fragment-empty", "points")
def fragment_empty(store: Breaker) -> None:
    set_fragments(store, lambda fragments: [*fragments, (0, 0)])


@plants("L4.row-unnamed", "points")
def row_unnamed(store: Breaker) -> None:
    set_fragments(store, lambda fragments: fragments[:-1])


@plants("L4.object-fragments", "ids")
def object_fragments(store: Breaker) -> None:
    store.manifest(0, 1, [((0, 0, 0), (0, 2))])


def set_record(store: Breaker, record: int, rows: list[int]) -> None:
    def change(records: Array) -> Array:
        records[record, :, -1] = rows
        return records

    store.change("0/cross_chunk_links/0/data", change)


@plants("L4.continuation-rows", "paths")
def continuation_rows(store: Breaker) -> None:
    records = store.node("0/cross_chunk_links/0/data")
    record = int(np.argmax(records[:, 0, -1] > 1))
    set_record(store, record, [int(records[record, 0, -1]) - 1, int(records[record, 1, -1]) + 1])


@plants("L4.continuation-zero", "paths")
def continuation_zero(store: Breaker) -> None:
    store.change("0/cross_chunk_links/0/data", lambda records: np.where(np.arange(4) == 3, 0, records))


@plants("L4.continuation-count", "paths")
def continuation_count(store: Breaker) -> None:
    store.change("0/cross_chunk_links/0/data", lambda records: records[1:])


@plants("L4.bounds", "points")
def bounds(store: Breaker) -> None:
    store.root(bounds=[[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])


@plants("L4.skeleton-parents", "skeletons")
def skeleton_parents(store: Breaker) -> None:
    store.change(f"0/links/0/{store.chunk('0/links/0')}", lambda links: np.concatenate([links, links]))


@plants("L4.skeleton-cycle", "skeletons")
def skeleton_cycle(store: Breaker) -> None:
    chunk = store.chunk("0/links/0")
    store.put(f"0/links/0/{chunk}", np.array([[0, 1], [1, 0]], store.node(f"0/links/0/{chunk}").dtype))


@plants("L4.draco", "draco")
def draco(store: Breaker) -> None:
    store.root(geometry_types=["graph"])


@plants("L4.draco-rows", "draco")
def draco_rows(store: Breaker) -> None:
    store.array("0/vertices", draco_rows=...)


# -- level 5


@plants("L5.grid-nest", "points_pyramid")
def grid_nest(store: Breaker) -> None:
    store.level(2, bin_shape=[10.0, 10.0, 10.0])


@plants("L5.bin-ratio", "points_pyramid")
def bin_ratio(store: Breaker) -> None:
    store.level(1, bin_ratio=[3, 3, 3])


@plants("L5.transformations", "points_pyramid")
def transformations(store: Breaker) -> None:
    store.edit(
        "zarr.json",
        lambda a: a["multiscales"][0]["datasets"][1]["coordinateTransformations"][0].update(scale=[9.0, 9.0, 9.0]),
    )


@plants("L5.parent-level", "points_pyramid")
def parent_level(store: Breaker) -> None:
    store.level(1, parent_level=2)


@plants("L5.object-count", "ids_pyramid")
def object_count(store: Breaker) -> None:
    store.level(1, inherited_num_objects=3)


@plants("L5.object-ids", "ids_renumbered")
def object_ids(store: Breaker) -> None:
    store.change("1/object_attributes/level0_object_id/data", lambda ids: ids * 0)


@plants("L5.objects-appear", "ids_pyramid")
def objects_appear(store: Breaker) -> None:
    store.manifests(0, lambda blobs: [bytes(4)] * len(blobs))


@plants("L5.shared-flag", "points")
def shared_flag(store: Breaker) -> None:
    store.root(format_capabilities=["fragment_index", "shared_fragments"])


@plants("L5.metavertex-bin", "points_pyramid")
def metavertex_bin(store: Breaker) -> None:
    store.change(f"1/vertices/{store.chunk('1/vertices')}", lambda rows: np.repeat(rows[:1], len(rows), axis=0))


@plants("L5.cross-level-missing", "points_pyramid")
def cross_level_missing(store: Breaker) -> None:
    store.delete("0/links/+1")


@plants("L5.cross-level-undeclared", "points_pyramid")
def cross_level_undeclared(store: Breaker) -> None:
    store.root(cross_level_storage="implicit")


@plants("L5.parent-missing", "paths_pyramid")
def parent_missing(store: Breaker) -> None:
    store.change(f"0/links/+1/{store.chunk('0/links/+1')}", lambda records: records[1:])


@plants("L5.parent-twice", "points_pyramid")
def parent_twice(store: Breaker) -> None:
    store.change(f"0/links/+1/{store.chunk('0/links/+1')}", lambda records: np.concatenate([records, records[:1]]))


def swap_parents(records: Array) -> Array:
    """Give each vertex the parent of another."""
    records[:, 1] = records[::-1, 1].copy()
    return records


@plants("L5.parent-bin", "points_pyramid")
def parent_bin(store: Breaker) -> None:
    store.change(f"0/links/+1/{store.chunk('0/links/+1')}", swap_parents)


@plants("L5.inverse", "points_pyramid")
def inverse(store: Breaker) -> None:
    store.change(f"1/links/-1/{store.chunk('1/links/-1')}", swap_parents)


@plants("L5.composition", "points_pyramid")
def composition(store: Breaker) -> None:
    store.change(f"0/links/+2/{store.chunk('0/links/+2')}", lambda records: records[1:])
