"""What we write is sound, and of what others write only known faults are reported."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.validate.stores import WRITERS, Breaker, positions, written
from zarr.storage import MemoryStore

import zarr_vectors as zv
from zarr_vectors.core import writers
from zarr_vectors.core.counting import CountingStorage
from zarr_vectors.core.location import resolve
from zarr_vectors.exceptions import InputError, StoreNotFoundError
from zarr_vectors.validate import crosslevel, manifests, structure, validate, views

REFERENCE = {"L2.capability-fragment-index", "L3.arrays-unlisted"}
"""What every store of the reference leaves out."""
PATH = {"L4.continuation-zero"}
GRAPH = {"L1.link-fragments-metadata"}
GOLDEN: dict[str, set[str]] = {
    # Written by hand: rows in no fragment, fragments that objects share without a word.
    "fragments_explicit": {
        "L3.arrays-unlisted",
        "L3.fragment-shared",
        "L4.fragment-empty",
        "L4.object-fragments",
        "L4.row-unnamed",
    },
    "graph": REFERENCE | GRAPH,
    "graph_two_objects": REFERENCE | GRAPH | {"L4.link-fragments-single"},
    "identity_single_chunk": REFERENCE,
    "legacy_object_index": REFERENCE | PATH,
    "lines": REFERENCE | PATH,
    "mesh_draco": REFERENCE | {"L4.draco-rows"},
    "mesh_quads": REFERENCE | GRAPH,
    "mesh_triangles": REFERENCE | GRAPH | {"L3.fragment-shared"},
    "points_binned": REFERENCE | {"L4.fragment-empty"},
    "points_blosc": REFERENCE | {"L4.fragment-empty"},
    "points_numeric_arrays": REFERENCE,
    "points_objects": REFERENCE,
    "polylines_2d": REFERENCE | PATH,
    "pyramid_points": REFERENCE | {"L4.fragment-empty"},
    "pyramid_points_objects": REFERENCE,
    "pyramid_streamlines": REFERENCE | PATH,
    "skeleton": REFERENCE | GRAPH,
    "streamlines": REFERENCE | PATH,
    "streamlines_zstd": REFERENCE | PATH,
}


@pytest.mark.parametrize("name", WRITERS)
def test_what_we_write_is_sound(name: str) -> None:
    report = Breaker(written(name)).report()
    assert report.ok, report
    assert not report.codes, report
    assert not report.not_run


def test_all_golden_stores_are_listed() -> None:
    found = {path.stem for path in (Path(__file__).parents[1] / "data" / "golden").glob("*.zip")}
    assert found == set(GOLDEN)


@pytest.mark.parametrize("case", GOLDEN)
def test_golden_stores_have_known_faults_only(golden: Callable[[str], Path], case: str) -> None:
    report = validate(golden(case) / "store.zv")
    assert report.codes == GOLDEN[case], report
    assert report.ok == ("L3.fragment-shared" not in report.codes)
    assert not report.not_run


@pytest.mark.parametrize("byte_arrays", [False, True])
def test_a_store_with_every_array(write_everything: Callable[..., None], byte_arrays: bool) -> None:
    store = MemoryStore()
    write_everything(store, options=writers.WriteOptions(byte_arrays=byte_arrays))
    report = validate(store)
    # Made by hand to have every array: its level 1 has only vertices, and rows do not lie in their chunks.
    assert report.codes == {
        "L1.array-missing",
        "L2.capability-missing",
        "L4.bounds",
        "L4.link-fragments-single",
        "L4.links-convention",
        "L4.rows-in-chunk",
        "L5.parent-bin",
        "L5.parent-level",
    }, report


def test_every_backend(tmp_path: Path) -> None:
    for where in (tmp_path / "a.zv", tmp_path / "b.zip", f"file://{tmp_path}/c.zv", MemoryStore(), "memory://sound"):
        zv.write_points(where, positions(), chunk_shape=(20, 20, 20), mode="w")
        report = validate(where)
        assert report.ok, report
        assert not report.findings


def test_an_open_store_and_a_storage_stay_open() -> None:
    zv.write_points("memory://still-open", positions(), mode="w")
    store = zv.open("memory://still-open")
    assert validate(store).ok
    assert validate(store.storage).ok
    assert len(store[0].read()) == len(positions())


def test_small_batches_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in (
        (views, "CHUNKS_PER_BATCH", 2),
        (views, "BYTES_PER_BATCH", 100),
        (structure, "NODES_PER_BATCH", 3),
        (manifests, "OBJECTS_PER_BATCH", 1),
        (crosslevel, "OBJECTS_PER_BATCH", 2),
        (crosslevel, "CHUNKS_PER_BATCH", 1),
    ):
        monkeypatch.setattr(module, name, value)
    for name in ("paths_pyramid", "ids_renumbered", "skeletons_pyramid"):
        report = Breaker(written(name)).report()
        assert not report.codes, report


def test_requests_come_in_batches() -> None:
    zv.write_points("memory://batches", positions(), chunk_shape=(10, 10, 10), object_ids=np.arange(200) % 3, mode="w")
    counting = CountingStorage(resolve("memory://batches"))
    assert validate(counting).ok
    chunks = len(zv.open("memory://batches")[0].chunks)
    assert chunks > 50
    # A few for each array, however many chunks there are.
    assert counting.batches < 40


def test_progress_is_told() -> None:
    told: list[tuple[str, int, int]] = []
    Breaker(written("paths_pyramid")).report(progress=lambda what, done, total: told.append((what, done, total)))
    assert all(0 < done <= total for _, done, total in told)
    said = " ".join(what for what, _, _ in told)
    assert all(word in said for word in ("structure", "chunks of level 2", "objects of level 1", "links 0 to 2"))


def test_levels_include_those_before() -> None:
    store = Breaker(written("points_pyramid"))
    store.items["0/notes"] = b""
    store.root(format_capabilities=["shared_fragments", "multiscale_links"])
    store.level(0, vertex_count=1)
    store.root(bounds=[[0, 0, 0], [0, 0, 0]])
    store.level(1, bin_ratio=[3, 3, 3])
    expected = [
        "L1.stray-node",
        "L2.capability-fragment-index",
        "L3.vertex-count",
        "L4.bounds",
        "L5.bin-ratio",
    ]
    for level in range(1, 6):
        report = store.report(level)
        assert report.level == level
        assert set(expected[:level]) <= report.codes
        assert not set(expected[level:]) & report.codes


def test_findings_are_counted_beyond_the_cap() -> None:
    store = Breaker(written("points"))
    for number in range(30):
        store.items[f"0/vertices/stray{number}/zarr.json"] = b""
    report = store.report(cap=4)
    assert report.counts == {"L1.chunk-key": 30}
    assert len(report.findings) == 4
    assert report.num_errors == 30
    assert "not sound at level 5, 30 errors" in str(report)
    assert store.report().to_json()["counts"] == {"L1.chunk-key": 30}


def test_a_finding_names_its_place() -> None:
    store = Breaker(written("ids"))
    store.manifest(0, 4, [((90, 90, 90), 0)])
    (finding,) = store.report().by_rule()["L3.manifest-chunk"]
    assert (finding.store_level, finding.array, finding.chunk, finding.object_id) == (0, "object_index", "90.90.90", 4)
    assert finding.path == "0/object_index/90.90.90 object 4"
    assert str(finding).startswith("L3.manifest-chunk 0/object_index/90.90.90 object 4: expected ")


def test_no_store_at_all(tmp_path: Path) -> None:
    with pytest.raises(StoreNotFoundError):
        validate(tmp_path)
    (tmp_path / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group", "attributes": {}}')
    with pytest.raises(StoreNotFoundError):
        validate(tmp_path)


def test_a_write_that_did_not_finish() -> None:
    store = Breaker(written("points"))
    store.delete("zarr.json")
    assert store.report().codes == {"L1.unfinished-write"}


@pytest.mark.parametrize(("level", "cap"), [(0, 20), (6, 20), ("x", 20), (5, 0)])
def test_arguments_are_checked(level: int, cap: int) -> None:
    with pytest.raises(InputError):
        validate("memory://nowhere", level, cap=cap)
