"""Every rule finds what breaks it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.validate.plants import PLANTS
from tests.validate.stores import Array, Breaker, Failing, Items, from_directory, in_memory, written

from zarr_vectors.encoding import draco
from zarr_vectors.exceptions import MissingDependencyError
from zarr_vectors.validate import RULES, validate
from zarr_vectors.validate.rules import rules_page

SPECIAL = {"L1.unreadable", "L3.not-decoded", "L2.legacy-offsets", "L3.manifest-trailing"}
"""Rules that need more than an edit: they have tests of their own below."""


def test_every_rule_has_a_test() -> None:
    assert {*PLANTS, *SPECIAL} == set(RULES)


@pytest.mark.parametrize("code", sorted(PLANTS))
def test_a_planted_inconsistency_is_found(code: str) -> None:
    name, plant = PLANTS[code]
    store = Breaker(written(name))
    # That the store was sound before, test_sound.py shows.
    plant(store)
    report = store.report()
    assert code in report.codes, report
    finding = report.by_rule()[code][0]
    assert (finding.level, finding.severity) == (RULES[code].level, RULES[code].severity)
    assert finding.expected
    assert finding.found
    assert report.ok == all(RULES[broken].severity == "warning" for broken in report.codes)


def test_the_page_of_rules_is_up_to_date() -> None:
    page = Path(__file__).parents[2] / "docs" / "validation-rules.md"
    assert page.read_text(encoding="utf-8") == rules_page()


@pytest.mark.parametrize("error", [OSError(5, "input/output error"), RuntimeError("the backend gave up")])
def test_a_backend_that_fails_is_a_finding(error: Exception) -> None:
    with in_memory(written("points")) as storage:
        report = validate(Failing(storage, "0/vertex_attributes/w", error))
    assert report.codes == {"L1.unreadable"}
    assert {finding.store_level for finding in report.findings} == {0}
    assert not report.ok
    assert report.not_run


def test_draco_that_is_not_installed_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise MissingDependencyError("a Draco mesh", extra="draco")

    store = Breaker(written("draco"))
    monkeypatch.setattr(draco, "_draco", missing)
    report = store.report()
    assert report.ok, report
    assert "L3.not-decoded" in report.codes


@pytest.fixture
def legacy(golden: Callable[[str], Path]) -> Items:
    return from_directory(golden("legacy_object_index") / "store.zv")


@pytest.mark.parametrize(
    "change",
    [lambda o: o[:-1], lambda o: o + 8, lambda o: o[::-1].copy(), lambda o: o * 100],
    ids=["length", "first", "falling", "beyond"],
)
def test_legacy_offsets(legacy: Items, change: Callable[[Array], Array]) -> None:
    store = Breaker(legacy)
    offsets = np.frombuffer(store.node("0/object_index/offsets").tobytes(), np.int64)
    store.put("0/object_index/offsets", change(offsets.copy()).view(np.uint8))
    assert "L2.legacy-offsets" in store.report().codes


def test_legacy_trailing_bytes(legacy: Items) -> None:
    store = Breaker(legacy)
    data = store.node("0/object_index/data").view(np.uint8).reshape(-1)
    store.put("0/object_index/data", np.append(data, np.zeros(9, np.uint8)))
    assert not {"L3.manifest-trailing", "L3.manifest-blob"} & store.report().codes
    store.put("0/object_index/data", np.append(data, np.ones(9, np.uint8)))
    assert "L3.manifest-trailing" in store.report().codes


def test_a_broken_legacy_manifest(legacy: Items) -> None:
    store = Breaker(legacy)
    offsets = np.frombuffer(store.node("0/object_index/offsets").tobytes(), np.int64)
    data = store.node("0/object_index/data").view(np.uint8).reshape(-1)
    data[offsets[1] + 4 + 24] = 9
    store.put("0/object_index/data", data)
    findings = store.report().by_rule()["L3.manifest-blob"]
    assert [finding.object_id for finding in findings] == [1]


def test_a_bare_stream_of_manifests(legacy: Items) -> None:
    store = Breaker(legacy)
    store.delete("0/object_index/offsets")
    assert store.report().ok
    store.put("0/object_index/data", np.zeros(2, np.uint8))
    assert "L3.manifest-blob" in store.report().codes
