"""Results in the words of other libraries, which are imported when they are asked for."""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zarr_vectors.exceptions import InputError, MissingDependencyError
from zarr_vectors.typing import AnyArray, IntArray

if TYPE_CHECKING:
    from types import ModuleType

    from zarr_vectors.query.result import Result

_SPATIAL: Final = 3
_EDGE: Final = 2
_QUAD: Final = 4


def to_dict(result: "Result") -> dict[str, Any]:
    """Return plain numpy arrays by name."""
    found: dict[str, Any] = {"positions": result.positions, **_named("attributes", result.attributes)}
    if result.object_ids is not None:
        found |= {"object_ids": result.object_ids, "objects": result.objects}
    if result.pieces is not None:
        found["offsets"] = result.pieces
    if result.parents is not None:
        found["parents"] = result.parents
    if result.links is not None:
        found |= {"links": result.links, **_named("link_attributes", result.link_attributes)}
    return found


def to_arrow(result: "Result") -> Any:  # noqa: ANN401
    """Return a pyarrow table with a row for each vertex.

    Attributes with the name of an axis, or ``object_id``, get ``attribute.`` in front of it.
    """
    arrow = _import("pyarrow", "arrow", "an Arrow table")
    columns: dict[str, Any] = {}
    for axis, definition in enumerate(result.index.group.root.axes):
        columns[definition.name] = arrow.array(np.ascontiguousarray(result.positions[:, axis]))
    if result.object_ids is not None:
        columns["object_id"] = arrow.array(result.object_ids)
    for name, values in result.attributes.items():
        columns[f"attribute.{name}" if name in columns else name] = _arrow_column(arrow, values)
    return arrow.table(columns)


def to_trimesh(result: "Result") -> Any:  # noqa: ANN401
    """Return a trimesh mesh; its vertices are not merged or reordered. Faces of four corners become two triangles."""
    trimesh = _import("trimesh", "trimesh", "a trimesh mesh")
    faces = result.faces
    if result.positions.shape[1] != _SPATIAL:
        raise InputError(f"a trimesh mesh has three dimensions, not {result.positions.shape[1]}")
    of_faces = dict(result.link_attributes)
    if faces.shape[1] == _QUAD:
        faces = faces[:, [0, 1, 2, 0, 2, 3]].reshape(-1, _SPATIAL)
        of_faces = {name: np.repeat(values, 2, axis=0) for name, values in of_faces.items()}
    return trimesh.Trimesh(
        vertices=result.positions,
        faces=faces,
        vertex_attributes=dict(result.attributes),
        face_attributes=of_faces,
        process=False,
    )


def to_networkx(result: "Result") -> Any:  # noqa: ANN401
    """Return a networkx graph: nodes with a position and attributes, edges with theirs.

    Directed from child to parent for skeletons; a multigraph for graphs, which may have parallel
    edges. Attributes called ``position`` or ``object_id`` get ``attribute.`` in front of it.
    """
    networkx = _import("networkx", "networkx", "a networkx graph")
    edges = result.edges
    graph = networkx.MultiGraph() if result.parents is None else networkx.DiGraph()
    columns: dict[str, list[Any]] = {"position": [tuple(row) for row in result.positions.tolist()]}
    if result.object_ids is not None:
        columns["object_id"] = result.object_ids.tolist()
    for name, values in result.attributes.items():
        columns[f"attribute.{name}" if name in columns else name] = values.tolist()
    graph.add_nodes_from((row, {name: items[row] for name, items in columns.items()}) for row in range(len(result)))
    of_edges = {name: values.tolist() for name, values in result.link_attributes.items()}
    pairs = enumerate(edges.tolist())
    graph.add_edges_from((*ends, {name: items[row] for name, items in of_edges.items()}) for row, ends in pairs)
    return graph


def to_nibabel(result: "Result") -> Any:  # noqa: ANN401
    """Return a nibabel tractogram: numeric vertex attributes are data of points, object attributes of streamlines."""
    streamlines = _import("nibabel.streamlines", "nibabel", "a nibabel tractogram")
    pieces = result.pieces
    if pieces is None or result.positions.shape[1] != _SPATIAL:
        kind = f"a {result.geometry_type} in {result.positions.shape[1]}"
        raise InputError(f"a tractogram holds paths in three dimensions, not {kind}")

    def sequence(values: AnyArray) -> Any:  # noqa: ANN401
        data = streamlines.ArraySequence()
        data._data = np.ascontiguousarray(values)  # noqa: SLF001  nibabel's own way in for flat data
        data._offsets = pieces[:-1].copy()  # noqa: SLF001
        data._lengths = np.diff(pieces)  # noqa: SLF001
        return data

    rows = _rows_of(result.objects, result.polylines.object_ids)
    of_points = _numeric(result.attributes)
    of_paths = _numeric(result.object_attributes)
    return streamlines.Tractogram(
        sequence(result.positions.astype(np.result_type(result.positions.dtype, np.float32), copy=False)),
        data_per_streamline={name: _as_columns(values[rows]) for name, values in of_paths.items()},
        data_per_point={name: sequence(_as_columns(values)) for name, values in of_points.items()},
        affine_to_rasmm=np.eye(4),
    )


def to_pyvista(result: "Result") -> Any:  # noqa: ANN401
    """Return a pyvista data set: points, lines or faces, with numeric attributes of points and of cells.

    Positions with fewer than three axes get zeros; of more, the first three are taken.
    """
    pyvista = _import("pyvista", "pyvista", "a pyvista data set")
    points = np.zeros((len(result), _SPATIAL), dtype=np.result_type(result.positions.dtype, np.float32))
    used = min(result.positions.shape[1], _SPATIAL)
    points[:, :used] = result.positions[:, :used]
    if result.links is not None and result.links.shape[1] > _EDGE:
        data = pyvista.PolyData(points, faces=_cells(result.faces))
    elif result.pieces is not None or result.parents is not None or result.links is not None:
        data = pyvista.PolyData(points, lines=_cells(result.edges))
    else:
        data = pyvista.PolyData(points)
    for name, values in _numeric(result.attributes).items():
        data.point_data[name] = values
    for name, values in _numeric(result.link_attributes).items():
        data.cell_data[name] = values
    return data


def _import(module: str, extra: str, feature: str) -> "ModuleType":
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingDependencyError(feature, extra=extra) from error


def _named(prefix: str, columns: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    return {f"{prefix}.{name}": values for name, values in columns.items()}


def _numeric(columns: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    return {name: values for name, values in columns.items() if values.dtype.kind in "biuf"}


def _as_columns(values: AnyArray) -> AnyArray:
    return values if values.ndim > 1 else values[:, None]


def _rows_of(objects: IntArray, wanted: IntArray) -> IntArray:
    """Return where each wanted object stands among distinct objects in any order."""
    order = np.argsort(objects)
    return order[np.searchsorted(objects, wanted, sorter=order)]


def _arrow_column(arrow: Any, values: AnyArray) -> Any:  # noqa: ANN401
    if values.dtype.kind == "c":
        # Arrow has no complex numbers: real and imaginary part.
        halves = np.float32 if values.dtype.itemsize == np.dtype(np.complex64).itemsize else np.float64
        values = np.ascontiguousarray(values).view(halves).reshape(len(values), -1)
    if values.ndim == 1:
        return arrow.array(values)
    flat = arrow.array(np.ascontiguousarray(values).reshape(-1))
    return arrow.FixedSizeListArray.from_arrays(flat, values.shape[1])


def _cells(links: IntArray) -> IntArray:
    """Return links in VTK's way: the number of corners, then the corners."""
    widths = np.full((len(links), 1), links.shape[1], dtype=np.int64)
    return np.concatenate([widths, links], axis=1).reshape(-1)
