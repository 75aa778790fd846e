"""Writing: one function a geometry, each lowering what it is given and ending in the one pipeline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, Literal, Self, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from zarr_vectors.constants import LinksConvention, ObjectIndexConvention
from zarr_vectors.core.location import resolve
from zarr_vectors.core.metadata import Axis
from zarr_vectors.core.store import Mode
from zarr_vectors.core.writers import WriteOptions
from zarr_vectors.encoding.compression import Compressor
from zarr_vectors.exceptions import InputError, KeywordError, MetadataError, ZarrVectorsError
from zarr_vectors.ragged import Ragged
from zarr_vectors.table import Column, VertexTable
from zarr_vectors.types import geometry_named, graphs, meshes, points, polylines, skeletons
from zarr_vectors.types.inputs import (
    PAIR,
    RaggedLike,
    as_array,
    is_flat_ragged,
    parse_column,
    parse_columns,
    parse_groups,
    parse_positions,
    parse_ragged,
    rounding_error,
)
from zarr_vectors.typing import AnyArray, IntArray
from zarr_vectors.writing.pipeline import write_store
from zarr_vectors.writing.spec import BoundsPolicy, StoreSpec, WriteSummary

Attributes = Mapping[str, npt.ArrayLike]
RaggedAttributes = Mapping[str, npt.ArrayLike | RaggedLike]
AxisLike = str | Mapping[str, str] | Axis


class StoreKeywords(TypedDict, total=False):
    """Keywords that every write function takes."""

    chunk_shape: Sequence[float] | float | None
    """Size of a chunk along each axis; ``None`` picks round numbers with 16 to 64 thousand vertices a chunk."""
    bin_shape: Sequence[float] | float | None
    """Size of a bin, which divides the chunk evenly; ``None``: one bin a chunk."""
    bounds: Sequence[Sequence[float]] | None
    """Lower and upper corner of the store; ``None``: those of the data."""
    bounds_policy: BoundsPolicy
    """What to do with vertices outside of ``bounds``: ``"raise"`` (default), ``"drop"`` or ``"expand"``."""
    object_attributes: Attributes | None
    """A row for each object id."""
    groups: object
    """Lists of object ids, a mapping from group number to ids, or ``(ids, offsets)``."""
    group_attributes: Attributes | None
    """A row for each group."""
    channel_names: Mapping[str, Sequence[str]] | None
    """Names of the channels of attributes that have several."""
    dtype: npt.DTypeLike | None
    """Of the stored positions; ``None``: as given."""
    compressor: Compressor
    """``"default"``, ``None``, ``"zstd"``, ``"lz4"``, ``"gzip"``, a codec, or one of these by array name."""
    checksum: bool
    """Whether a flipped bit is found on read; on by default."""
    byte_arrays: bool
    """Store plain bytes instead of numeric arrays."""
    axes: Sequence[AxisLike] | None
    """Names, or mappings with name, type and unit."""
    crs: Mapping[str, Any] | None
    """Coordinate reference system, any mapping."""
    links_convention: LinksConvention | None
    """``None``: the one that suits the geometry."""
    object_index_convention: ObjectIndexConvention
    """``"identity"`` leaves the object index out, where the store has one chunk."""
    mode: Mode
    """``"x"``: refuse a place that holds anything; ``"w"``: replace a store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Keywords:
    """The same keywords with their defaults."""

    chunk_shape: Sequence[float] | float | None = None
    bin_shape: Sequence[float] | float | None = None
    bounds: Sequence[Sequence[float]] | None = None
    bounds_policy: BoundsPolicy = "raise"
    object_attributes: Attributes | None = None
    groups: object = None
    group_attributes: Attributes | None = None
    channel_names: Mapping[str, Sequence[str]] | None = None
    dtype: npt.DTypeLike | None = None
    compressor: Compressor = "default"
    checksum: bool = True
    byte_arrays: bool = False
    axes: Sequence[AxisLike] | None = None
    crs: Mapping[str, Any] | None = None
    links_convention: LinksConvention | None = None
    object_index_convention: ObjectIndexConvention = "standard"
    mode: Mode = "x"

    @classmethod
    def parse(cls, keywords: StoreKeywords) -> Self:
        known = [field.name for field in fields(cls)]
        for name in keywords:
            if name not in known:
                near = get_close_matches(name, known, n=1)
                hint = f": did you mean {near[0]!r}?" if near else f", only {', '.join(known)}"
                raise KeywordError(f"there is no keyword {name!r}{hint}")
        return cls(**keywords)


def write_points(
    location: object,
    positions: npt.ArrayLike,
    *,
    vertex_attributes: Attributes | None = None,
    object_ids: npt.ArrayLike | None = None,
    **keywords: Unpack[StoreKeywords],
) -> WriteSummary:
    """Write a point cloud to a new store.

    Parameters
    ----------
    location
        A path, a URL, a ``.zip`` file or a Zarr store object.
    positions : (points, ndim)
        Any integer or float dtype, 1 to 8 dimensions.
    vertex_attributes
        By name, ``(points,)`` or ``(points, channels)``; text is welcome.
    object_ids : (points,)
        The object of each point, where there are objects.
    **keywords
        See `StoreKeywords`.

    Returns
    -------
    WriteSummary
        What was written.

    Examples
    --------
    >>> write_points("memory://points", [[0.5, 1.0], [2.0, 3.0]], vertex_attributes={"mass": [1.0, 2.0]}).vertices
    2
    """
    options = _Keywords.parse(keywords)
    array = parse_positions(positions, options.dtype)
    columns = _columns(vertex_attributes, len(array), options)
    table = points.lower(array, columns, object_ids)
    return _write(location, table, "point_cloud", options, rounding=rounding_error(positions, array))


def write_lines(
    location: object,
    endpoints: npt.ArrayLike,
    *,
    vertex_attributes: Attributes | None = None,
    **keywords: Unpack[StoreKeywords],
) -> WriteSummary:
    """Write lines, each an object of two vertices.

    Parameters
    ----------
    location
        As in `write_points`.
    endpoints : (lines, 2, ndim)
    vertex_attributes
        By name, ``(lines, 2)``, ``(lines, 2, channels)``, or a row for each end.
    **keywords
        See `StoreKeywords`.
    """
    options = _Keywords.parse(keywords)
    array = as_array(endpoints, "endpoints")
    if array.ndim != 3 or array.shape[1] != PAIR:  # noqa: PLR2004
        raise InputError(f"lines have shape (lines, 2, ndim), not {array.shape}")
    given = array.reshape(PAIR * len(array), array.shape[2])
    flat = parse_positions(given, options.dtype, "endpoints")
    per_end = {name: polylines.per_end(values, len(array)) for name, values in (vertex_attributes or {}).items()}
    table = polylines.lower(
        flat,
        PAIR * np.arange(len(array) + 1, dtype=np.int64),
        _columns(per_end, len(flat), options),
        explicit=_is_explicit(options),
    )
    return _write(location, table, "line", options, rounding=rounding_error(given, flat))


def write_polylines(
    location: object,
    paths: RaggedLike,
    *,
    geometry_type: Literal["polyline", "streamline"] = "polyline",
    vertex_attributes: RaggedAttributes | None = None,
    segments: RaggedLike | None = None,
    **keywords: Unpack[StoreKeywords],
) -> WriteSummary:
    """Write polylines or streamlines, each an object.

    Parameters
    ----------
    location
        As in `write_points`.
    paths
        A list of arrays ``(vertices, ndim)``, or ``(values, offsets)``; empty paths are kept.
    geometry_type
        ``"polyline"`` or ``"streamline"``.
    vertex_attributes
        By name, flat with a row for each vertex, or ragged as the paths are.
    segments
        Makes ``paths`` segments: for each object, the numbers of its segments in order. A segment
        that several objects name is stored once.
    **keywords
        See `StoreKeywords`.

    Examples
    --------
    >>> write_polylines("memory://paths", [[[0, 0], [1, 1]], [[5, 5]], []], chunk_shape=(4, 4)).objects
    3
    """
    options = _Keywords.parse(keywords)
    if geometry_type not in polylines.GEOMETRY.names:
        raise InputError(f"geometry_type is {' or '.join(polylines.GEOMETRY.names)}, not {geometry_type!r}")
    values, offsets = parse_ragged(paths, "paths")
    given = values if len(values) else _no_positions(values)
    flat = parse_positions(given, options.dtype, "paths")
    columns = _columns(_flat(vertex_attributes, offsets), len(flat), options)
    made_of = None if segments is None else _segments(segments)
    table = polylines.lower(flat, offsets, columns, made_of, explicit=_is_explicit(options))
    return _write(location, table, geometry_type, options, rounding=rounding_error(given, flat))


def write_graph(
    location: object,
    positions: npt.ArrayLike,
    edges: npt.ArrayLike,
    *,
    vertex_attributes: Attributes | None = None,
    link_attributes: Attributes | None = None,
    object_ids: npt.ArrayLike | None = None,
    **keywords: Unpack[StoreKeywords],
) -> WriteSummary:
    """Write a graph of one or several objects.

    Parameters
    ----------
    location
        As in `write_points`.
    positions : (vertices, ndim)
    edges : (edges, 2)
        Vertex numbers; loops and parallel edges are kept.
    vertex_attributes, link_attributes
        By name, a row for each vertex or edge.
    object_ids : (vertices,)
        The object of each vertex; without it, all is object 0.
    **keywords
        See `StoreKeywords`.
    """
    options = _Keywords.parse(keywords)
    array = parse_positions(positions, options.dtype)
    columns = _columns(vertex_attributes, len(array), options)
    of_edges = _columns(link_attributes, None, options, "link")
    table = graphs.lower(array, edges, columns, of_edges, object_ids)
    return _write(location, table, "graph", options, rounding=rounding_error(positions, array))


def write_skeletons(
    location: object,
    positions: npt.ArrayLike | RaggedLike,
    *,
    parents: npt.ArrayLike | RaggedLike | None = None,
    edges: npt.ArrayLike | RaggedLike | None = None,
    vertex_attributes: RaggedAttributes | None = None,
    object_ids: npt.ArrayLike | None = None,
    **keywords: Unpack[StoreKeywords],
) -> WriteSummary:
    """Write skeletons: trees or forests, each an object.

    Parameters
    ----------
    location
        As in `write_points`.
    positions
        All nodes, ``(nodes, ndim)``, with ``object_ids``; or one array for each skeleton. Nodes are
        stored depth first, so they come back in that order.
    parents
        The parent of each node, -1 for roots; numbers of the flat table, or, for a list of
        skeletons, numbers inside each.
    edges : (edges, 2)
        Instead of parents: [child, parent] rows, or edges in any direction. Numbered as parents are.
    vertex_attributes
        By name, a row for each node: radius, type and so on.
    object_ids : (nodes,)
        The skeleton of each node; without it, all is object 0.
    **keywords
        See `StoreKeywords`.
    """
    options = _Keywords.parse(keywords)
    if (parents is None) == (edges is None):
        raise InputError("a skeleton needs either parents or edges")
    given = _skeleton_input(positions, parents, edges, object_ids)
    flat = parse_positions(given.positions, options.dtype)
    if given.edges is None:
        hung_on = skeletons.parse_parents(given.parents, len(flat))
    else:
        hung_on = skeletons.parents_of_edges(given.edges, len(flat))
    columns = _columns(_flat(vertex_attributes, given.offsets), len(flat), options)
    count = None if given.offsets is None else len(given.offsets) - 1
    table = skeletons.lower(flat, hung_on, columns, given.object_ids, count, explicit=_is_explicit(options))
    return _write(location, table, "skeleton", options, rounding=rounding_error(given.positions, flat))


def write_mesh(
    location: object,
    vertices: npt.ArrayLike,
    faces: npt.ArrayLike,
    *,
    vertex_attributes: Attributes | None = None,
    link_attributes: Attributes | None = None,
    object_ids: npt.ArrayLike | None = None,
    face_objects: npt.ArrayLike | None = None,
    encoding: Literal["raw", "draco"] = "raw",
    quantization_bits: int | None = None,
    **keywords: Unpack[StoreKeywords],
) -> WriteSummary:
    """Write a mesh of one or several objects.

    Parameters
    ----------
    location
        As in `write_points`.
    vertices : (vertices, ndim)
    faces : (faces, 3) or (faces, 4)
        Triangles, or quadrilaterals and tetrahedra; the order of the corners is kept.
    vertex_attributes, link_attributes
        By name, a row for each vertex or face.
    object_ids : (vertices,)
        The object of each vertex; without it, all is object 0.
    face_objects : (faces,)
        Instead: the object of each face. Objects may then share vertices, which are stored once.
    encoding
        ``"draco"`` (extra ``draco``) packs vertices and faces together. It rounds positions, so it
        wants ``quantization_bits``; the summary's ``max_error`` says by how much.
    quantization_bits
        1 to 30, for Draco.
    **keywords
        See `StoreKeywords`.
    """
    options = _Keywords.parse(keywords)
    if encoding not in ("raw", "draco"):
        raise InputError(f"encoding is 'raw' or 'draco', not {encoding!r}")
    if (encoding == "draco") != (quantization_bits is not None):
        raise InputError("Draco rounds positions: say to how many quantization_bits, with encoding='draco' alone")
    array = parse_positions(vertices, options.dtype, "vertices")
    columns = _columns(vertex_attributes, len(array), options)
    of_faces = _columns(link_attributes, None, options, "link")
    table = meshes.lower(array, faces, columns, of_faces, object_ids=object_ids, face_objects=face_objects)
    rounding = rounding_error(vertices, array)
    return _write(location, table, "mesh", options, rounding=rounding, draco_bits=quantization_bits)


@dataclass(frozen=True, slots=True, eq=False)
class _SkeletonInput:
    """Nodes of all skeletons in one table; parents or edges are numbers of this table."""

    positions: npt.ArrayLike
    parents: npt.ArrayLike
    edges: npt.ArrayLike | None
    object_ids: npt.ArrayLike | None
    offsets: IntArray | None


def _skeleton_input(
    positions: Any,  # noqa: ANN401  one array or many: told apart here
    parents: Any,  # noqa: ANN401
    edges: Any,  # noqa: ANN401
    object_ids: npt.ArrayLike | None,
) -> _SkeletonInput:
    """Return flat arrays: lists of skeletons have numbers inside each, which become numbers of the flat table."""
    flat_pair = is_flat_ragged(positions)
    if not flat_pair and not _is_list_of_tables(positions):
        return _SkeletonInput(positions, parents, edges, object_ids, None)
    if object_ids is not None:
        raise InputError("a list of skeletons has its object ids in its order: leave object_ids out")
    flat, offsets = parse_ragged(positions, "positions")
    nodes = Ragged(np.arange(len(flat), dtype=np.int64), offsets)
    if not flat_pair and parents is not None:
        parents = _parents_in_table(parents, nodes)
    if not flat_pair and edges is not None:
        edges = _edges_in_table(edges, nodes)
    return _SkeletonInput(flat if len(flat) else _no_positions(flat), parents, edges, nodes.owners, offsets)


def _parents_in_table(parents: RaggedLike, nodes: Ragged) -> IntArray:
    values, offsets = parse_ragged(parents, "parents")
    if not np.array_equal(offsets, nodes.offsets):
        raise InputError("parents must have as many entries as each skeleton has nodes")
    numbers = _whole_numbers(values, 1, "parents")
    if ((numbers < skeletons.NO_PARENT) | (numbers >= nodes.counts[nodes.owners])).any():
        raise InputError("a parent lies outside of its skeleton: in a list, numbers count inside each skeleton")
    return np.where(numbers < 0, skeletons.NO_PARENT, numbers + nodes.offsets[nodes.owners])


def _edges_in_table(edges: RaggedLike, nodes: Ragged) -> IntArray:
    values, offsets = parse_ragged(edges, "edges")
    if len(offsets) != len(nodes.offsets):
        raise InputError("edges must be a list with an entry for each skeleton")
    rows = _whole_numbers(values if len(values) else values.reshape(0, PAIR), PAIR, "edges")
    skeleton = np.repeat(np.arange(len(nodes)), np.diff(offsets))
    if ((rows < 0) | (rows >= nodes.counts[skeleton][:, None])).any():
        raise InputError("an edge leaves its skeleton: in a list, numbers count inside each skeleton")
    return rows + nodes.offsets[skeleton][:, None]


def _whole_numbers(values: AnyArray, ndim: int, what: str) -> IntArray:
    if values.ndim != ndim or (values.size and values.dtype.kind not in "iu"):
        raise InputError(f"{what} are integers with {ndim} axes, not {values.dtype} {values.shape}")
    return values.astype(np.int64)


def _is_list_of_tables(values: object) -> bool:
    """Tell a list of skeletons from a list of positions."""
    if not isinstance(values, list | tuple):
        return False
    filled = [array for array in (as_array(item, "positions") for item in values) if array.size]
    return not filled or filled[0].ndim == PAIR


def _write(
    location: object,
    table: VertexTable,
    geometry_type: str,
    options: _Keywords,
    *,
    rounding: float,
    draco_bits: int | None = None,
) -> WriteSummary:
    geometry = geometry_named(geometry_type)
    convention = options.links_convention or geometry.links_convention
    if convention not in (geometry.links_convention, "explicit"):
        raise InputError(f"a {geometry_type} is stored {geometry.links_convention} or explicit, not {convention}")
    if table.part_ids is None and (options.object_attributes or options.groups is not None):
        raise InputError("object attributes and groups need object_ids")
    groups = parse_groups(options.groups, table.num_objects)
    if groups is None and options.group_attributes:
        raise InputError("group attributes need groups")
    num_groups = 0 if groups is None else len(groups)
    spec = StoreSpec(
        geometry_type=geometry_type,
        links_convention=convention,
        chunk_shape=options.chunk_shape,
        bin_shape=options.bin_shape,
        bounds=options.bounds,
        bounds_policy=options.bounds_policy,
        axes=_axes(options.axes),
        crs=options.crs,
        object_index_convention=options.object_index_convention,
        object_attributes=_columns(options.object_attributes, table.num_objects, options, "object"),
        groups=groups,
        group_attributes=_columns(options.group_attributes, num_groups, options, "group"),
        draco_bits=draco_bits,
        rounding=rounding,
        options=WriteOptions(options.compressor, options.checksum, options.byte_arrays),
        mode=options.mode,
    )
    _check_channel_names(table, spec, options)
    storage = resolve(location, writing=True)
    try:
        return write_store(storage, table, spec)
    except ZarrVectorsError:
        storage.close()
        raise


def _columns(
    attributes: Attributes | None, num_rows: int | None, options: _Keywords, scope: str = "vertex"
) -> dict[str, Column]:
    """Return attributes as columns, of as many rows as are needed where that is known."""
    if attributes is not None and not isinstance(attributes, Mapping):
        raise InputError(f"{scope} attributes are a mapping from names to values, not {type(attributes).__name__}")
    what, names = f"{scope} attribute", options.channel_names or {}
    columns = {
        name: parse_column(values, f"{what} {name!r}", names.get(name)) for name, values in (attributes or {}).items()
    }
    return columns if num_rows is None else parse_columns(columns, num_rows, what)


def _check_channel_names(table: VertexTable, spec: StoreSpec, options: _Keywords) -> None:
    scopes = (table.attributes, table.link_attributes, spec.object_attributes, spec.group_attributes)
    for name in options.channel_names or {}:
        if not any(name in scope for scope in scopes):
            raise InputError(f"channel_names speaks of {name!r}, and there is no such attribute")


def _flat(attributes: RaggedAttributes | None, offsets: IntArray | None) -> Attributes:
    """Return attributes with a row for each vertex, from such arrays or from ragged lists."""
    if attributes is not None and not isinstance(attributes, Mapping):
        raise InputError(f"vertex attributes are a mapping from names to values, not {type(attributes).__name__}")
    return {name: _flat_values(values, offsets, name) for name, values in (attributes or {}).items()}


def _flat_values(values: Any, offsets: IntArray | None, name: str) -> npt.ArrayLike:  # noqa: ANN401  flat or ragged
    what = f"vertex attribute {name!r}"
    nested = isinstance(values, list | tuple) and any(isinstance(item, list | tuple | np.ndarray) for item in values)
    if offsets is None or not (is_flat_ragged(values) or (nested and len(values) == len(offsets) - 1)):
        return values  # type: ignore[no-any-return]
    flat, found = parse_ragged(values, what)
    if np.array_equal(found, offsets):
        return flat
    # With as many paths as vertices, a list of rows has the length of a list of paths.
    if not is_flat_ragged(values) and len(values) == offsets[-1]:
        return values  # type: ignore[no-any-return]
    raise InputError(f"{what} must have as many rows in each list as the path has vertices")


def _segments(segments: RaggedLike) -> Ragged:
    values, offsets = parse_ragged(segments, "segments")
    return Ragged(_whole_numbers(values, 1, "segments"), offsets)


def _no_positions(values: AnyArray) -> AnyArray:
    is_table = values.ndim == PAIR and values.shape[1]
    return values if is_table else np.empty((0, 3), dtype=np.float32)


def _is_explicit(options: _Keywords) -> bool:
    return options.links_convention == "explicit"


def _axes(axes: Sequence[AxisLike] | None) -> tuple[Axis, ...] | None:
    if axes is None:
        return None
    try:
        return tuple(_axis(axis) for axis in axes)
    except MetadataError as error:
        raise InputError(f"axes are names, or mappings with name, type and unit: {error}") from error


def _axis(axis: AxisLike) -> Axis:
    if isinstance(axis, Axis):
        return axis
    return Axis.parse({"name": axis, "type": "space"} if isinstance(axis, str) else axis, "axes")
