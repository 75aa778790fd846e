"""Validation of a store, at five levels: structure, metadata, consistency, conformance, pyramid.

>>> import numpy as np, zarr_vectors as zv
>>> _ = zv.write_points("memory://validate-me", np.random.default_rng(0).random((100, 3)), mode="w")
>>> report = validate("memory://validate-me")
>>> report.ok, report.findings
(True, ())
"""

from zarr_vectors.core.location import resolve
from zarr_vectors.core.storage import Storage
from zarr_vectors.exceptions import InputError
from zarr_vectors.validate.contents import check_contents
from zarr_vectors.validate.crosslevel import check_cross_level
from zarr_vectors.validate.pyramid import check_declared, check_grids, check_objects
from zarr_vectors.validate.repair import Action, RepairPlan, repair
from zarr_vectors.validate.report import Finding, Findings, Place, Progress, Report
from zarr_vectors.validate.rule_table import LEVELS, RULES, Rule
from zarr_vectors.validate.structure import read_structure

__all__ = ["LEVELS", "RULES", "Action", "Finding", "RepairPlan", "Report", "Rule", "repair", "validate"]

CONSISTENCY = 3
PYRAMID = 5


def validate(location: object, level: int = 5, *, progress: Progress | None = None, cap: int = 20) -> Report:
    """Return everything that is wrong with a store.

    Parameters
    ----------
    location
        A path, a URL, a Zarr store, a storage, or an open `zarr_vectors.Store`.
    level
        1 structure, 2 metadata, 3 consistency, 4 conformance, 5 pyramid; each includes those before.
    progress
        Called with what is being checked, how much of it is done, and how much there is.
    cap
        Most findings of one rule to list; the rest are counted.

    Raises
    ------
    StoreNotFoundError
        If there is no store at all. What is wrong with one that is there is in the report.
    """
    if level not in LEVELS:
        raise InputError(f"validation levels go from 1 to {len(LEVELS)}, not {level!r}")
    if cap < 1:
        raise InputError(f"cap is at least 1, not {cap}")
    inner = getattr(location, "storage", None)
    storage = inner if isinstance(inner, Storage) else resolve(location)
    findings = Findings(cap, level, progress)
    try:
        view = read_structure(storage, findings)
        if view is None or level < CONSISTENCY:
            return findings.report(storage.url)
        for number, item in view.levels.items():
            with findings.guard(Place(number), "the contents of the level"):
                check_contents(view, item, findings)
        if level >= PYRAMID:
            with findings.guard(Place(), "the pyramid"):
                check_grids(view, findings)
                check_objects(view, findings)
                check_declared(view, findings)
        check_cross_level(view, findings)
        return findings.report(storage.url)
    finally:
        if storage is not location and storage is not inner:
            storage.close()
