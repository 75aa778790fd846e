"""Lines, polylines and streamlines: rows in path order, cut where a path leaves a bin."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import overload

import numpy as np
import numpy.typing as npt

from zarr_vectors.exceptions import InputError
from zarr_vectors.ragged import Ragged
from zarr_vectors.table import Column, VertexTable
from zarr_vectors.types.geometry import Geometry
from zarr_vectors.types.inputs import PAIR, as_array, parse_columns, parse_numbers
from zarr_vectors.typing import AnyArray, IntArray

GEOMETRY = Geometry(("polyline", "streamline"), "implicit_sequential", by_object=True, whole_by_default=True)
LINES = Geometry(("line",), "implicit_sequential", by_object=True, whole_by_default=True)


@dataclass(frozen=True, slots=True, eq=False)
class Polylines:
    """Paths as flat vertices and offsets; indexes and iterates like a list of arrays.

    >>> paths = Polylines(np.arange(6.0).reshape(3, 2), np.array([0, 1, 1, 3]), np.array([4, 5, 6]))
    >>> len(paths), paths[2].tolist(), [len(path) for path in paths]
    (3, [[2.0, 3.0], [4.0, 5.0]], [1, 0, 2])
    """

    vertices: AnyArray
    offsets: IntArray
    object_ids: IntArray
    """The object of each path; a path that was cut to a box may come in several pieces."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> AnyArray: ...

    @overload
    def __getitem__(self, index: slice) -> "Polylines": ...

    def __getitem__(self, index: int | slice) -> "AnyArray | Polylines":
        if isinstance(index, slice):
            lists = np.arange(len(self), dtype=np.int64)[index]
            taken = Ragged(np.arange(len(self.vertices), dtype=np.int64), self.offsets).take(lists)
            return Polylines(self.vertices.take(taken.values, axis=0), taken.offsets, self.object_ids[lists])
        number = range(len(self))[index]
        return self.vertices[self.offsets[number] : self.offsets[number + 1]]

    def __iter__(self) -> Iterator[AnyArray]:
        return (self.vertices[begin:end] for begin, end in pairwise(self.offsets.tolist()))

    def __repr__(self) -> str:
        return f"Polylines({len(self):,} paths, {len(self.vertices):,} vertices)"


def lower(
    positions: AnyArray,
    offsets: IntArray,
    attributes: Mapping[str, npt.ArrayLike | Column],
    segments: Ragged | None = None,
    *,
    explicit: bool = False,
) -> VertexTable:
    """Return the table of paths.

    With ``segments``, of objects that are made of these paths in order. With ``explicit``, each
    step along a path is a link to be stored.
    """
    if explicit and segments is not None:
        raise InputError("segments of several objects are joined implicitly: leave links_convention out")
    paths = Ragged(np.arange(len(positions), dtype=np.int64), offsets)
    if segments is not None:
        parse_numbers(segments.values, len(paths), (None,), "segments", "paths")
    return VertexTable(
        positions,
        parse_columns(attributes, len(positions), "vertex attribute"),
        part_ids=paths.owners,
        objects=segments,
        num_objects=len(paths) if segments is None else len(segments),
        ordered=True,
        cut="bin",
        continues=not explicit,
        links=sequential_edges(offsets) if explicit else None,
    )


def lift(vertices: AnyArray, offsets: IntArray, object_ids: IntArray) -> Polylines:
    """Return paths from rows in path order."""
    return Polylines(vertices, offsets, object_ids)


def lift_lines(vertices: AnyArray, offsets: IntArray) -> AnyArray:
    """Return ``(lines, 2, ndim)`` from rows in path order; pieces of a line that was cut are no lines."""
    if (np.diff(offsets) != PAIR).any():
        raise InputError("some lines were cut to the box: ask for crop=False, or take polylines")
    return vertices.reshape(-1, PAIR, vertices.shape[1])


def sequential_edges(offsets: IntArray) -> IntArray:
    """Return the edges of paths: each vertex to the next one of its path."""
    count = int(offsets[-1])
    ends = np.zeros(count + 1, dtype=np.bool_)
    ends[offsets] = True
    rows = np.flatnonzero(~ends[1:])[: max(count - 1, 0)]
    return np.stack([rows, rows + 1], axis=1)


def per_end(values: npt.ArrayLike, count: int) -> AnyArray:
    """Return an attribute of lines, ``(lines, 2, ...)``, with a row for each end."""
    array = as_array(values, "an attribute of lines")
    if array.ndim >= PAIR and array.shape[:PAIR] == (count, PAIR):
        return array.reshape(PAIR * count, *array.shape[PAIR:])
    return array
