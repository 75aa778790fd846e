"""Bounds of a store, and what happens to vertices that lie outside of those that were asked for."""

import math
from dataclasses import replace
from typing import get_args

import numpy as np

from zarr_vectors.exceptions import InputError
from zarr_vectors.ragged import Ragged, offsets_from_counts
from zarr_vectors.spatial.bbox import BoundingBox
from zarr_vectors.table import Column, VertexTable
from zarr_vectors.typing import BoolArray, IntArray
from zarr_vectors.writing.spec import BoundsPolicy, StoreSpec

Bounds = tuple[tuple[float, ...], tuple[float, ...]]


def apply_bounds(table: VertexTable, spec: StoreSpec) -> tuple[VertexTable, Bounds]:
    """Return the table with the policy applied, and the bounds of the store.

    Raises
    ------
    InputError
        If a vertex lies outside of the given bounds and the policy is to raise.
    """
    if spec.bounds_policy not in get_args(BoundsPolicy):
        raise InputError(f"bounds_policy is {', '.join(get_args(BoundsPolicy))}, not {spec.bounds_policy!r}")
    found = _data_bounds(table)
    if spec.bounds is None:
        return table, found
    box = BoundingBox.parse(spec.bounds, table.ndim)
    if not np.isfinite([box.low, box.high]).all():
        raise InputError("bounds are finite numbers")
    given = (tuple(box.low.tolist()), tuple(box.high.tolist()))
    outside = ~box.contains(table.positions)
    if not outside.any():
        return table, given
    if spec.bounds_policy == "raise":
        row = int(np.argmax(outside))
        raise InputError(
            f"{int(outside.sum())} vertices lie outside of the bounds, the first is row {row}, "
            f"{table.positions[row].tolist()}: give wider bounds, or bounds_policy='drop' or 'expand'"
        )
    if spec.bounds_policy == "drop":
        return _drop(table, outside), given
    low = tuple(min(pair) for pair in zip(given[0], found[0], strict=True))
    high = tuple(max(pair) for pair in zip(given[1], found[1], strict=True))
    return table, (low, high)


def keep_vertices(table: VertexTable, kept: BoolArray) -> VertexTable:
    """Return the table with some of its vertices, and the links whose ends are all among them."""
    rows = np.flatnonzero(kept)
    number = np.cumsum(kept) - 1
    links, link_attributes = table.links, dict(table.link_attributes)
    if links is not None:
        whole = kept[links].all(axis=1)
        links = number[links[whole]]
        link_attributes = {name: _take(column, np.flatnonzero(whole)) for name, column in link_attributes.items()}
    return replace(
        table,
        positions=table.positions.take(rows, axis=0),
        attributes={name: _take(column, rows) for name, column in table.attributes.items()},
        part_ids=None if table.part_ids is None else table.part_ids[rows],
        breaks=None if table.breaks is None else table.breaks[rows],
        links=links,
        link_attributes=link_attributes,
    )


def _drop(table: VertexTable, outside: BoolArray) -> VertexTable:
    if not table.ordered or table.part_ids is None:
        return keep_vertices(table, ~outside)
    # A path without some of its vertices would be another path: it goes as a whole.
    broken = np.unique(table.part_ids[outside])
    if table.objects is None:
        return keep_vertices(table, ~np.isin(table.part_ids, broken))
    objects = table.objects
    gone = np.zeros(len(objects), dtype=np.bool_)
    gone[objects.owners[np.isin(objects.values, broken)]] = True
    stays = ~gone[objects.owners]
    left = Ragged(objects.values[stays], offsets_from_counts(np.where(gone, 0, objects.counts)))
    # Segments that only such paths were made of go with them.
    lost = np.setdiff1d(np.append(objects.values[~stays], broken), left.values)
    return keep_vertices(replace(table, objects=left), ~np.isin(table.part_ids, lost))


def _data_bounds(table: VertexTable) -> Bounds:
    if table.num_vertices == 0:
        zero = (0.0,) * table.ndim
        return zero, zero
    low, high = table.positions.min(axis=0).tolist(), table.positions.max(axis=0).tolist()
    return tuple(_not_above(value) for value in low), tuple(-_not_above(-value) for value in high)


def _not_above(value: float) -> float:
    """Return the float next below a whole number that has no float of its own."""
    rounded = float(value)
    return math.nextafter(rounded, -math.inf) if rounded > value else rounded


def _take(column: Column, rows: IntArray) -> Column:
    return Column(column.values.take(rows, axis=0), column.channel_names, column.categories)
