"""Stores of the reference implementation read as its own reader reads them: every array, every number."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import zarr_vectors as zv
from zarr_vectors.constants import (
    CROSS_CHUNK_LINK_ATTRIBUTES,
    CROSS_CHUNK_LINKS,
    GROUP_ATTRIBUTES,
    LINK_ATTRIBUTES,
    LINK_FRAGMENTS,
    LINKS,
    OBJECT_ATTRIBUTES,
    VERTEX_ATTRIBUTES,
    VERTEX_FRAGMENTS,
    VERTICES,
)
from zarr_vectors.core.arrays import (
    read_all_object_manifests,
    read_cross_chunk_link_attribute,
    read_cross_chunk_links,
    read_fragment_index,
    read_group_attribute,
    read_groups,
    read_level_links,
    read_link_attribute,
    read_links,
    read_object_attribute,
    read_object_manifest,
    read_object_vertices,
    read_vertex_attribute,
)
from zarr_vectors.core.group import FsGroup
from zarr_vectors.core.keys import parse_chunk_key
from zarr_vectors.core.object_index import count_objects
from zarr_vectors.encoding.draco import decode_draco
from zarr_vectors.typing import ChunkCoords

Array = npt.NDArray[Any]
GOLDEN = Path(__file__).parents[1] / "data" / "golden"
CASES = sorted(path.stem for path in GOLDEN.glob("*.zip"))
OTHER_LAYERS = ("read.", "bbox")
"""Arrays that are about geometry types and box queries, not about what is stored."""


@dataclass
class Expected:
    """What a case must read as, with a record of what was compared."""

    facts: dict[str, Any]
    arrays: dict[str, Array]
    compared: set[str] = field(default_factory=set)

    def compare(self, name: str, found: Array, *, same_dtype: bool = True) -> None:
        expected = self.arrays[name]
        assert found.shape == expected.shape, name
        assert not same_dtype or found.dtype == expected.dtype, name
        np.testing.assert_array_equal(found, expected, err_msg=name)
        self.compared.add(name)

    @property
    def left(self) -> set[str]:
        stored = {name for name in self.arrays if not name.split("/")[1].startswith(OTHER_LAYERS)}
        return stored - self.compared


@dataclass
class LevelCase:
    """One level of a case: how we read it, and what must come out."""

    expected: Expected
    group: FsGroup
    facts: dict[str, Any]

    def compare(self, name: str, found: Array, *, same_dtype: bool = True) -> None:
        self.expected.compare(f"L{self.group.level}/{name}", found, same_dtype=same_dtype)

    def has(self, name: str) -> bool:
        return f"L{self.group.level}/{name}" in self.expected.arrays

    def coords(self, keys: Iterable[str]) -> list[ChunkCoords]:
        found = [parse_chunk_key(key, self.group.ndim) for key in keys]
        return [coords for coords in found if coords is not None]

    @property
    def chunks(self) -> list[ChunkCoords]:
        return self.coords(self.facts["chunk_keys"])


def load(directory: Path) -> tuple[zv.Store, Expected]:
    with np.load(directory / "expected.npz") as archive:
        arrays = {name: archive[name] for name in archive.files}
    facts = json.loads((directory / "expected.json").read_text())
    return zv.open(directory / "store.zv"), Expected(facts, arrays)


def offsets_of(parts: Sequence[Array]) -> Array:
    return np.cumsum([0, *map(len, parts)])


def joined(parts: Sequence[Array]) -> Array:
    return np.concatenate(parts)


def names_of(group: FsGroup, array: str) -> list[str]:
    """Return what follows the array's name in the path of each such array."""
    return [path.split("/", 1)[1] for path in group.list_arrays(array)]


@pytest.mark.parametrize("case", CASES)
def test_root_metadata(golden: Callable[[str], Path], case: str) -> None:
    store, expected = load(golden(case))
    root = store.metadata
    found = {
        **{name: getattr(root, name) for name in expected.facts["root"]},
        "axes": [axis.to_json() for axis in root.axes],
        "format_capabilities": sorted(root.format_capabilities),
    }
    assert json.loads(json.dumps(found)) == expected.facts["root"]
    assert sorted(root.model_fields_set & set(expected.facts["root"])) == sorted(
        set(expected.facts["root_keys_on_disk"]) & set(expected.facts["root"])
    )


@pytest.mark.parametrize("case", CASES)
def test_level_metadata(golden: Callable[[str], Path], case: str) -> None:
    store, expected = load(golden(case))
    assert [str(number) for number in store.levels] == list(expected.facts["levels"])
    for level in store:
        facts = expected.facts["levels"][str(level.number)]
        found = {name: getattr(level.metadata, name) for name in facts["meta"]}
        assert json.loads(json.dumps(found)) == facts["meta"]


@pytest.mark.parametrize("case", CASES)
def test_root_metadata_survives_being_written_again(golden: Callable[[str], Path], case: str) -> None:
    directory = golden(case)
    document = json.loads((directory / "store.zv" / "zarr.json").read_text())["attributes"]
    again = zv.open(directory / "store.zv").metadata.to_attrs()
    block, multiscale = again["zarr_vectors"], again["multiscales"]
    assert isinstance(block, dict)
    assert {key: block[key] for key in document["zarr_vectors"]} == document["zarr_vectors"]
    assert multiscale == document["multiscales"]


@pytest.mark.parametrize("case", CASES)
def test_every_stored_array(golden: Callable[[str], Path], case: str) -> None:
    store, expected = load(golden(case))
    for level in store:
        level_case = LevelCase(expected, level.group, expected.facts["levels"][str(level.number)])
        for check in CHECKS:
            check(level_case)
    assert expected.left == set()


def check_chunk_keys(case: LevelCase) -> None:
    assert case.group.list_chunks() == case.chunks
    assert len(case.chunks) == len(case.facts["chunk_keys"])


def check_vertices(case: LevelCase) -> None:
    meta = case.group.read_array_meta(VERTICES)
    assert (meta.dtype, meta.encoding) == (case.facts["vertex_dtype"], case.facts["vertex_encoding"])
    parts = [case.group.read_vertices(coords) for coords in case.chunks]
    assert sum(map(len, parts)) == case.facts["meta"]["vertex_count"]
    if meta.encoding == "draco":
        case.compare("draco.vertices", joined(parts))
        case.compare("draco.vertex_offsets", offsets_of(parts))
        payloads = [case.group.read_payload(VERTICES, key) for key in case.facts["chunk_keys"]]
        faces = [decode_draco(payload.data).faces for payload in payloads]
        case.compare("draco.faces", joined(faces))
        case.compare("draco.face_offsets", offsets_of(faces))
    else:
        case.compare("vertices", joined(parts))
        case.compare("vertex_offsets", offsets_of(parts))


def check_fragments(case: LevelCase) -> None:
    rows, kinds = compare_fragments(case, VERTEX_FRAGMENTS, case.chunks)
    case.compare("fragment_rows", joined(rows))
    case.compare("fragment_offsets", offsets_of(rows))
    case.compare("fragment_is_range", joined(kinds).astype(np.uint8))
    case.compare("chunk_fragment_offsets", offsets_of(kinds))


def check_link_fragments(case: LevelCase) -> None:
    if not case.has("link_fragment_rows"):
        assert case.group.list_chunks(LINK_FRAGMENTS) == []
        return
    chunks = case.coords(case.facts["links"]["0"]["chunk_keys"])
    rows, kinds = compare_fragments(case, LINK_FRAGMENTS, chunks)
    case.compare("link_fragment_rows", joined(rows))
    case.compare("link_fragment_offsets", offsets_of(rows))
    case.compare("chunk_link_fragment_offsets", offsets_of(kinds))


def compare_fragments(case: LevelCase, array: str, chunks: list[ChunkCoords]) -> tuple[list[Array], list[Array]]:
    """Return the rows of every fragment and the kinds of each chunk's fragments, read in both ways."""
    rows: list[Array] = []
    kinds: list[Array] = []
    for coords in chunks:
        index = read_fragment_index(case.group, array, coords)
        gathered, offsets = index.rows()
        one_by_one = [index.indices(number) for number in range(index.num_fragments)]
        np.testing.assert_array_equal(np.split(gathered, offsets[1:-1])[0], one_by_one[0])
        np.testing.assert_array_equal(gathered, joined(one_by_one))
        rows += one_by_one
        kinds.append(index.range_mask)
    return rows, kinds


def check_vertex_attributes(case: LevelCase) -> None:
    assert names_of(case.group, VERTEX_ATTRIBUTES) == sorted(case.facts["vertex_attributes"])
    for name, facts in case.facts["vertex_attributes"].items():
        parts = [read_vertex_attribute(case.group, name, coords) for coords in case.chunks]
        meta = case.group.read_array_meta(f"{VERTEX_ATTRIBUTES}/{name}")
        assert meta.dtype == facts["dtype"]
        assert (None if meta.channel_names is None else list(meta.channel_names)) == facts["channel_names"]
        case.compare(f"vertex_attributes.{name}", joined(parts))


def check_objects(case: LevelCase) -> None:
    if case.facts["num_objects"] is None:
        assert count_objects(case.group) == 0
        return
    assert count_objects(case.group) == case.facts["num_objects"]
    table = read_all_object_manifests(case.group)
    fragments, offsets = table.fragments()
    case.compare("manifest_chunks", np.repeat(table.chunk_coords, table.counts, axis=0))
    case.compare("manifest_fragments", fragments)
    case.compare("manifest_offsets", offsets[table.object_offsets])
    for object_id in range(table.num_objects):
        alone = read_object_manifest(case.group, object_id)
        assert repr(alone) == repr(table.blocks(object_id))
    # The rows of a Draco store follow the bitstream, so its objects are compared through the manifests alone.
    if case.has("object_vertices"):
        parts = [read_object_vertices(case.group, object_id) for object_id in range(table.num_objects)]
        case.compare("object_vertices", joined(parts))
        case.compare("object_vertex_offsets", offsets_of(parts))


def check_object_attributes(case: LevelCase) -> None:
    assert names_of(case.group, OBJECT_ATTRIBUTES) == sorted(case.facts["object_attributes"])
    for name, facts in case.facts["object_attributes"].items():
        attribute = read_object_attribute(case.group, name)
        assert list(attribute.values.shape) == facts["shape"]
        assert attribute.values.dtype == facts["dtype"]
        case.compare(f"object_attributes.{name}", attribute.values)
        assert (attribute.present is not None) == facts["present_mask"]
        if attribute.present is not None:
            case.compare(f"object_attributes.{name}.present_mask", attribute.present)


def check_groups(case: LevelCase) -> None:
    if case.facts["num_groups"] is not None:
        ids, offsets = read_groups(case.group)
        assert len(offsets) - 1 == case.facts["num_groups"]
        case.compare("groups", ids)
        case.compare("group_offsets", offsets)
    assert names_of(case.group, GROUP_ATTRIBUTES) == sorted(case.facts["group_attributes"])
    for name, facts in case.facts["group_attributes"].items():
        values = read_group_attribute(case.group, name)
        assert (list(values.shape), values.dtype) == (facts["shape"], facts["dtype"])
        case.compare(f"group_attributes.{name}", values)


def check_links(case: LevelCase) -> None:
    deltas = case.facts["links"]
    # A Draco mesh declares links/0 and stores none: its faces are in the bitstreams.
    stored = [name for name in names_of(case.group, LINKS) if case.group.list_chunks(f"{LINKS}/{name}")]
    assert stored == sorted(deltas)
    for delta, facts in deltas.items():
        assert case.group.read_array_meta(f"{LINKS}/{delta}").link_width == facts["link_width"]
        chunks = case.coords(facts["chunk_keys"])
        assert case.group.list_chunks(f"{LINKS}/{delta}") == chunks
        parts = [compare_links(case.group, int(delta), coords) for coords in chunks]
        case.compare(f"links.{delta}", joined(parts), same_dtype=False)
        case.compare(f"links.{delta}.offsets", offsets_of(parts))


def compare_links(group: FsGroup, delta: int, coords: ChunkCoords) -> Array:
    """Return link rows; those of links to another level are the last column of each endpoint."""
    if delta == 0:
        return read_links(group, coords)
    records = read_level_links(group, delta, coords)
    assert (records[..., :-1] == coords).all()
    return records[..., -1]


def check_link_attributes(case: LevelCase) -> None:
    assert names_of(case.group, LINK_ATTRIBUTES) == sorted(case.facts["link_attributes"])
    for path, facts in case.facts["link_attributes"].items():
        name, delta = path.split("/")
        chunks = case.coords(facts["chunk_keys"])
        parts = [read_link_attribute(case.group, name, coords, delta=int(delta)) for coords in chunks]
        case.compare(f"link_attributes.{name}.{delta}", joined(parts))
        case.compare(f"link_attributes.{name}.{delta}.offsets", offsets_of(parts))


def check_cross_chunk_links(case: LevelCase) -> None:
    assert names_of(case.group, CROSS_CHUNK_LINKS) == sorted(case.facts["cross_chunk_links"])
    for delta, facts in case.facts["cross_chunk_links"].items():
        records = read_cross_chunk_links(case.group, int(delta))
        assert records.shape[:2] == (facts["num_links"], facts["link_width"])
        case.compare(f"cross_chunk_links.{delta}", records)
    assert names_of(case.group, CROSS_CHUNK_LINK_ATTRIBUTES) == sorted(case.facts["cross_chunk_link_attributes"])
    for path, facts in case.facts["cross_chunk_link_attributes"].items():
        name, delta = path.split("/")
        values = read_cross_chunk_link_attribute(case.group, name, int(delta))
        assert (list(values.shape), values.dtype) == (facts["shape"], facts["dtype"])
        case.compare(f"cross_chunk_link_attributes.{name}.{delta}", values)


CHECKS: tuple[Callable[[LevelCase], None], ...] = (
    check_chunk_keys,
    check_vertices,
    check_fragments,
    check_link_fragments,
    check_vertex_attributes,
    check_objects,
    check_object_attributes,
    check_groups,
    check_links,
    check_link_attributes,
    check_cross_chunk_links,
)


def test_all_cases_are_there() -> None:
    assert len(CASES) == 20


def test_a_forgotten_array_is_noticed() -> None:
    arrays = {"L0/vertices": np.zeros(1), "L0/read.edges": np.zeros(1), "L0/bbox": np.zeros(1)}
    expected = Expected({}, arrays)
    assert expected.left == {"L0/vertices"}
    expected.compare("L0/vertices", np.zeros(1))
    assert expected.left == set()
