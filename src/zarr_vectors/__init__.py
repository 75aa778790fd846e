"""Very large vector geometry in Zarr v3 stores: points, lines, streamlines, skeletons, graphs, meshes.

>>> import zarr_vectors as zv
>>> zv.__version__
'0.1.0'
"""

from typing import TYPE_CHECKING

from zarr_vectors._version import __version__

if TYPE_CHECKING:
    from zarr_vectors.api import Level, Store, create, open
    from zarr_vectors.core.metadata import LevelMetadata, RootMetadata
    from zarr_vectors.exceptions import ZarrVectorsError
    from zarr_vectors.query.result import Result
    from zarr_vectors.write import write_graph, write_lines, write_mesh, write_points, write_polylines, write_skeletons
    from zarr_vectors.writing.spec import WriteSummary

__all__ = [
    "Level",
    "LevelMetadata",
    "Result",
    "RootMetadata",
    "Store",
    "WriteSummary",
    "ZarrVectorsError",
    "__version__",
    "create",
    "open",
    "write_graph",
    "write_lines",
    "write_mesh",
    "write_points",
    "write_polylines",
    "write_skeletons",
]

_HOMES = {
    "Level": "zarr_vectors.api",
    "Store": "zarr_vectors.api",
    "create": "zarr_vectors.api",
    "open": "zarr_vectors.api",
    "LevelMetadata": "zarr_vectors.core.metadata",
    "RootMetadata": "zarr_vectors.core.metadata",
    "ZarrVectorsError": "zarr_vectors.exceptions",
    "Result": "zarr_vectors.query.result",
    "WriteSummary": "zarr_vectors.writing.spec",
    "write_graph": "zarr_vectors.write",
    "write_lines": "zarr_vectors.write",
    "write_mesh": "zarr_vectors.write",
    "write_points": "zarr_vectors.write",
    "write_polylines": "zarr_vectors.write",
    "write_skeletons": "zarr_vectors.write",
}


def __getattr__(name: str) -> object:
    # Names are imported when they are first used: the command answers --help without numpy.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
