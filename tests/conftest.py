"""What all tests share: how many examples hypothesis tries, and the golden stores.

Hypothesis takes the profile that HYPOTHESIS_PROFILE names, else `ci` where CI is set, else `dev`.
"""

import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest
from hypothesis import settings

import zarr_vectors as zv
from zarr_vectors.constants import LINK_FRAGMENTS, VERTEX_FRAGMENTS
from zarr_vectors.core import writers
from zarr_vectors.core.group import FsGroup
from zarr_vectors.core.object_index import write_object_manifests
from zarr_vectors.core.store import Mode
from zarr_vectors.encoding.fragments import encode_fragments
from zarr_vectors.encoding.manifests import manifest_table
from zarr_vectors.typing import AnyArray, ChunkCoords

settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=100, deadline=None, derandomize=False, print_blob=True)
settings.register_profile("fuzz", max_examples=5000, deadline=None)

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))

GOLDEN = Path(__file__).parent / "data" / "golden"


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function from a golden case to the directory it is unpacked in: store.zv, expected.npz and .json."""
    unpacked: dict[str, Path] = {}

    def unpack(case: str) -> Path:
        if case not in unpacked:
            unpacked[case] = tmp_path_factory.mktemp(case)
            with zipfile.ZipFile(GOLDEN / f"{case}.zip") as archive:
                archive.extractall(unpacked[case])
        return unpacked[case]

    return unpack


class WriteEverything(Protocol):
    """Write a small store that has every array of the format."""

    def __call__(
        self, location: object, *, options: writers.WriteOptions = writers.DEFAULT_OPTIONS, mode: Mode = "x"
    ) -> None: ...


@pytest.fixture(scope="session")
def write_everything() -> WriteEverything:
    """Return a function that writes a store of two chunks, three objects and every array of the format.

    Vertices are 0, 1, 2, … in both chunks; object 0 is in both, object 1 is empty, object 2 is in the first.
    """

    def write(location: object, *, options: writers.WriteOptions = writers.DEFAULT_OPTIONS, mode: Mode = "x") -> None:
        metadata = zv.RootMetadata(
            chunk_shape=(10, 10, 10), bounds=((-10, 0, 0), (10, 10, 30)), geometry_types=("graph",)
        )
        with zv.create(location, metadata, mode=mode) as draft:
            write_level(draft.add_level(), options)
            coarse = draft.add_level(zv.LevelMetadata(level=1, bin_shape=(10, 10, 10), bin_ratio=(1, 1, 1)))
            writers.write_vertices(coarse, {(0, 0, 0): np.zeros((1, 3), "f4")}, options=options)

    return write


def write_level(group: FsGroup, options: writers.WriteOptions) -> None:
    first: ChunkCoords = (0, 0, 0)
    second: ChunkCoords = (-1, 0, 2)
    rows = {first: 5, second: 4}

    def ramp(dtype: str, *tail: int) -> dict[ChunkCoords, AnyArray]:
        shapes = {chunk: (count, *tail) for chunk, count in rows.items()}
        return {chunk: np.arange(np.prod(shape), dtype=dtype).reshape(shape) for chunk, shape in shapes.items()}

    writers.write_vertices(group, ramp("f4", 3), options=options)
    fragments = {first: encode_fragments([(0, 2), [4, 2, 3]]), second: encode_fragments([(0, 4)])}
    writers.write_fragments(group, VERTEX_FRAGMENTS, fragments)
    writers.write_vertex_attribute(group, "rgb", ramp("u1", 3), channel_names=["r", "g", "b"], options=options)
    writers.write_vertex_attribute(group, "time", ramp("f8"), options=options)
    writers.write_fragment_attribute(group, "label", {first: [7, 8], second: [9]}, dtype="uint16", options=options)
    links = {first: [[0, 1], [3, 2]], second: [[0, 3]]}
    writers.write_links(group, links, rows, width=2, options=options)
    writers.write_fragments(
        group, LINK_FRAGMENTS, {chunk: encode_fragments([(0, len(links[chunk]))]) for chunk in links}
    )
    weights = {chunk: np.arange(len(links[chunk]), dtype="f4") for chunk in links}
    writers.write_link_attribute(group, "weight", weights, options=options)
    writers.write_level_links(group, 1, {first: [[[0, 0, 0, 4], [0, 0, 0, 0]]]}, options=options)
    writers.write_link_attribute(group, "share", {first: [0.5]}, delta=1, options=options)
    writers.write_cross_chunk_links(group, [[[0, 0, 0, 1], [-1, 0, 2, 3]]], width=2, options=options)
    writers.write_cross_chunk_link_attribute(group, "flow", [[1.5, 2.5]], options=options)
    table = manifest_table(
        np.array([0, 2, 2, 3]), np.array([first, second, first]), np.array([0, 1, 2, 3]), np.array([1, 0, 0])
    )
    write_object_manifests(group, table, compressor=options.compressor, checksum=options.checksum)
    writers.write_object_attribute(group, "size", [1.5, 2.5, 3.5], present=[1, 0, 1], options=options)
    writers.write_groups(group, np.array([2, 0]), np.array([0, 2, 2]), options=options)
    writers.write_group_attribute(group, "kind", [5, 6], options=options)
