"""Metavertices: all vertices of one bin become one, and so do their attributes; pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from zarr_vectors.exceptions import InputError
from zarr_vectors.ragged import changes
from zarr_vectors.table import Column
from zarr_vectors.typing import AnyArray, IntArray

Reducer = Literal["mean", "sum", "min", "max", "mode", "count"]
REDUCERS: Final[tuple[str, ...]] = get_args(Reducer)


@dataclass(frozen=True, slots=True, eq=False)
class RowGroups:
    """Rows that become one: rows of group ``g`` are ``order[starts[g]:starts[g] + counts[g]]``."""

    keys: IntArray
    """What the rows of a group have in common, ascending."""
    order: IntArray
    starts: IntArray
    counts: IntArray
    group_of: IntArray
    """The group of each row."""


def group_rows(keys: IntArray) -> RowGroups:
    """Return rows grouped by key.

    >>> groups = group_rows(np.array([7, 3, 7]))
    >>> groups.keys.tolist(), groups.counts.tolist(), groups.group_of.tolist()
    ([3, 7], [1, 2], [1, 0, 1])
    """
    order = np.argsort(keys, kind="stable")
    ranked = keys[order]
    begins = changes(ranked)
    starts = np.flatnonzero(begins)
    group_of = np.empty(len(keys), dtype=np.int64)
    group_of[order] = np.cumsum(begins) - 1
    return RowGroups(ranked[starts], order, starts, np.diff(np.append(starts, len(keys))), group_of)


def centroids(positions: AnyArray, groups: RowGroups) -> AnyArray:
    """Return the mean position of each group, in the dtype of the positions; integers are rounded."""
    ranked = positions.take(groups.order, axis=0)
    base = ranked[groups.starts]
    # Means are taken of the distances to one member: far from the origin, and for integers
    # beyond 2**53, a sum of the positions themselves would lose digits.
    if positions.dtype.kind == "f":
        offsets = ranked.astype(np.float64) - np.repeat(base, groups.counts, axis=0).astype(np.float64)
    else:
        signed = ranked.astype(np.int64, copy=False).view(np.int64)
        offsets = (signed - np.repeat(signed[groups.starts], groups.counts, axis=0)).astype(np.float64)
    means = np.add.reduceat(offsets, groups.starts, axis=0) / groups.counts[:, None] if len(base) else offsets
    if positions.dtype.kind == "f":
        return (base.astype(np.float64) + means).astype(positions.dtype)
    shifted = base.astype(np.int64, copy=False).view(np.int64) + np.floor(means + 0.5).astype(np.int64)
    return shifted.astype(positions.dtype)


def default_reducer(column: Column) -> Reducer:
    """Return what suits a column: the mean of measurements, the most common of labels."""
    return "mean" if column.values.dtype.kind in "fc" and column.categories is None else "mode"


def reduce_columns(
    columns: Mapping[str, Column], groups: RowGroups, reducers: Mapping[str, Reducer] | None = None
) -> dict[str, Column]:
    """Return each column with one row a group.

    Parameters
    ----------
    columns
        A row for each row that was grouped.
    groups
        Which rows become one.
    reducers
        By column name; `default_reducer` for the others.
    """
    chosen = reducers or {}
    return {
        name: reduce_column(column, groups, chosen.get(name) or default_reducer(column))
        for name, column in columns.items()
    }


def check_reducer(reducer: str, *, is_text: bool) -> None:
    """Raise `InputError` unless there is such a reducer and it suits the attribute."""
    if reducer not in REDUCERS:
        raise InputError(f"a reducer is one of {', '.join(REDUCERS)}, not {reducer!r}")
    if is_text and reducer not in ("mode", "count"):
        raise InputError(f"text is reduced by mode or count, not by {reducer}")


def reduce_column(column: Column, groups: RowGroups, reducer: Reducer) -> Column:
    """Return a column with one row a group.

    ``mean`` keeps a float dtype and turns integers into float64; ``sum`` widens to 64 bits;
    ``min``, ``max`` and ``mode`` keep the dtype, the smaller value wins a tie; ``count`` is the
    number of rows.
    """
    check_reducer(reducer, is_text=column.categories is not None)
    if reducer == "count":
        return Column(groups.counts.astype(np.int64))
    values = column.values.take(groups.order, axis=0)
    if reducer == "mode":
        return Column(_mode(values, groups), column.channel_names, column.categories)
    if reducer in ("min", "max"):
        function = np.minimum if reducer == "min" else np.maximum
        lowest = function.reduceat(values, groups.starts, axis=0) if len(values) else values
        return Column(lowest, column.channel_names)
    sums = _sums(values, groups, exact=reducer == "sum")
    if reducer == "sum":
        return Column(sums, column.channel_names)
    counts = groups.counts.reshape(-1, *(1 for _ in values.shape[1:]))
    dtype = values.dtype if values.dtype.kind in "fc" else np.dtype(np.float64)
    return Column((sums / counts).astype(dtype), column.channel_names)


def _sums(values: AnyArray, groups: RowGroups, *, exact: bool) -> npt.NDArray[Any]:
    """Return the sum of each group in 64 bits: of integers, where it is to be exact, as an integer."""
    kind = values.dtype.kind
    wide = np.complex128 if kind == "c" else np.float64
    widened = values.astype(wide)
    sums = np.add.reduceat(widened, groups.starts, axis=0) if len(values) else widened
    if kind in "fc" or not exact:
        return sums
    whole = np.uint64 if kind == "u" else np.int64
    limits = np.iinfo(whole)
    if len(values) == 0:
        return values.astype(whole)
    if (sums >= float(limits.max)).any() or (sums < float(limits.min)).any():
        raise InputError("a sum of this attribute has no room in 64 bits: reduce it by mean, min, max or mode")
    return np.add.reduceat(values.astype(whole), groups.starts, axis=0)


def _mode(values: AnyArray, groups: RowGroups) -> AnyArray:
    if values.ndim > 1:
        return np.stack([_mode(values[:, channel], groups) for channel in range(values.shape[1])], axis=1)
    if len(values) == 0:
        return values
    group = np.repeat(np.arange(len(groups.starts)), groups.counts)
    order = np.lexsort((values, group))
    begins = np.flatnonzero(changes(values[order]) | changes(group[order]))
    lengths = np.diff(np.append(begins, len(values)))
    runs = order[begins]
    # Runs of one group by falling length; among equals the smaller value, which comes first already.
    best = np.lexsort((np.arange(len(runs)), -lengths, group[runs]))
    first = best[changes(group[runs][best])]
    return values[runs[first]]
