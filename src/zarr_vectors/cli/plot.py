"""Pictures of a store's levels, side by side (extra ``plot``)."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import zarr_vectors as zv
from zarr_vectors.exceptions import MissingDependencyError

if TYPE_CHECKING:
    from types import ModuleType

MOST_DRAWN = 60_000
"""Vertices or edges drawn of one level; more would be one blot."""


def draw_levels(store: zv.Store, path: Path, *, title: str) -> None:
    """Draw every level of a store, seen along its last axis, to a PNG file."""
    pyplot = _pyplot()
    figure, panels = pyplot.subplots(
        1, len(store), figsize=(4.2 * len(store), 4.4), squeeze=False, layout="constrained"
    )
    figure.suptitle(title)
    low, high = (np.array(corner, dtype=np.float64) for corner in store.metadata.bounds)
    margin = 0.02 * (high - low)
    for panel, level in zip(panels[0], store, strict=True):
        _draw_level(panel, level)
        panel.set_xlim(low[0] - margin[0], high[0] + margin[0])
        panel.set_ylim(low[1] - margin[1], high[1] + margin[1])
        panel.set_aspect("equal")
        panel.set_xticks([])
        panel.set_yticks([])
        present = len(level.objects) - len(level.objects.absent) if level.index.has_objects else 0
        objects = f", {present:,} objects" if present else ""
        panel.set_title(f"level {level.number}: {level.metadata.vertex_count:,} vertices{objects}", fontsize=10)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _draw_level(panel: Any, level: zv.Level) -> None:  # noqa: ANN401  matplotlib's own type
    from matplotlib.collections import LineCollection

    result = level.read(attributes=[])
    plane = result.positions[:, :2].astype(np.float64)
    owners = np.zeros(len(plane)) if result.object_ids is None else result.object_ids.astype(np.float64)
    if result.pieces is None and result.parents is None:
        shown = np.linspace(0, len(plane) - 1, min(len(plane), MOST_DRAWN)).astype(np.int64)
        size = np.clip(4_000 / max(len(plane), 1), 0.3, 30)
        panel.scatter(*plane[shown].T, c=owners[shown], s=size, cmap="viridis", linewidths=0)
        return
    edges = result.edges[:: max(len(result.edges) // MOST_DRAWN, 1)]
    lines = LineCollection(list(plane[edges]), array=owners[edges[:, 0]], cmap="viridis", linewidths=0.6, alpha=0.7)
    panel.add_collection(lines)


def _pyplot() -> "ModuleType":
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise MissingDependencyError("a picture", extra="plot") from error
    # No screen is needed to write a file.
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    return plt
