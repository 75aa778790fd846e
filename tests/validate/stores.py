"""Small stores of every kind as plain keys and bytes, and a way to break them."""

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import zarr_vectors as zv
from zarr_vectors.constants import OBJECT_INDEX
from zarr_vectors.core.group import FsGroup
from zarr_vectors.core.keys import parse_chunk_key
from zarr_vectors.core.memory_storage import MemoryStorage
from zarr_vectors.core.storage import Storage
from zarr_vectors.core.store import read_level, read_root
from zarr_vectors.encoding.codecs import CodecChain
from zarr_vectors.encoding.manifests import encode_object_manifest_blocks
from zarr_vectors.encoding.vlen import encode_vlen_bytes, split_vlen_bytes
from zarr_vectors.multiresolution import build_pyramid
from zarr_vectors.validate import Report, validate

Array = npt.NDArray[Any]
Items = dict[str, bytes]
GRID = {"chunk_shape": (40, 40, 40), "bin_shape": (10, 10, 10)}
_NUMBER = itertools.count()


def scene() -> np.random.Generator:
    return np.random.default_rng(7)


def positions(count: int = 200) -> Array:
    return (scene().random((count, 3)) * 58 - 18).astype("f4")


def paths(count: int = 12) -> list[Array]:
    rng = scene()
    return [np.cumsum(rng.normal(0, 2, (int(rng.integers(5, 30)), 3)), axis=0).astype("f4") + 20 for _ in range(count)]


def write_points(where: object, **options: Any) -> None:
    rows = positions()
    attributes = {
        "w": np.arange(len(rows)),
        "t": np.array(["a", "b", "c"])[np.arange(len(rows)) % 3],
        "rgb": np.ones((len(rows), 3), "u1"),
    }
    zv.write_points(where, rows, vertex_attributes=attributes, **GRID, **options)  # type: ignore[arg-type]


def write_ids(where: object) -> None:
    rows = positions()
    zv.write_points(
        where,
        rows,
        object_ids=np.arange(len(rows)) % 6,
        object_attributes={"s": np.arange(6.0) + 1},
        groups=[[0, 2], [5]],
        group_attributes={"n": ["x", "y"]},
        chunk_shape=(40, 40, 40),
    )


def write_paths(where: object) -> None:
    lines = paths()
    zv.write_polylines(
        where,
        lines,
        geometry_type="streamline",
        object_attributes={"length": [float(len(line)) for line in lines]},
        groups=[[1, 2], [3]],
        chunk_shape=(20, 20, 20),
        bin_shape=(5, 5, 5),
    )


def write_graph(where: object, **options: Any) -> None:
    rng = scene()
    zv.write_graph(
        where,
        positions(120),
        rng.integers(0, 120, (600, 2)),
        object_ids=np.arange(120) % 3,
        link_attributes={"weight": np.arange(600.0)},
        chunk_shape=(40, 40, 40),
        bin_shape=(10, 10, 10),
        **options,
    )


def write_skeletons(where: object) -> None:
    rng = scene()
    parents = np.arange(200) - 1
    branches = np.flatnonzero(rng.random(200) < 0.1)
    parents[branches] = (rng.random(len(branches)) * branches).astype(int)
    parents[[0, 90]] = -1
    nodes = np.cumsum(rng.normal(0, 2, (200, 3)), axis=0).astype("f4")
    zv.write_skeletons(where, nodes, parents=parents, chunk_shape=(16, 16, 16), bin_shape=(4, 4, 4))


def write_mesh(where: object, **options: Any) -> None:
    rng = scene()
    zv.write_mesh(where, positions(120), rng.integers(0, 120, (300, 3)), chunk_shape=(40, 40, 40), **options)


def write_identity(where: object) -> None:
    rows = np.abs(positions(60))
    shape = (100, 100, 100)
    zv.write_points(where, rows, object_ids=np.arange(60) % 5, chunk_shape=shape, object_index_convention="identity")


def pyramid(write: Callable[[object], object], *factors: Any, **options: Any) -> Callable[[object], object]:
    def make(where: object) -> None:
        write(where)
        build_pyramid(where, list(factors), **options)

    return make


BOTH = {"cross_level_storage": "explicit", "cross_level_depth": -1}
WRITERS: dict[str, Callable[[object], object]] = {
    "points": write_points,
    "points_bytes": lambda where: write_points(where, byte_arrays=True),
    "points_empty": lambda where: zv.write_points(where, np.empty((0, 3), "f4")),
    "ids": write_ids,
    "identity": write_identity,
    "lines": lambda where: zv.write_lines(where, scene().random((40, 2, 2)) * 50, chunk_shape=(10, 10)),
    "paths": write_paths,
    "graph": write_graph,
    "graph_bytes": lambda where: write_graph(where, byte_arrays=True, compressor=None, checksum=False),
    "skeletons": write_skeletons,
    "mesh": write_mesh,
    "mesh_shared": lambda where: write_mesh(where, face_objects=np.arange(300) % 3),
    "draco": lambda where: write_mesh(where, encoding="draco", quantization_bits=14),
    "points_pyramid": pyramid(write_points, 2, 2, **BOTH),
    "points_sparse": pyramid(write_points, (2, 1.0)),
    "ids_pyramid": pyramid(write_ids, (2, 2.0), (2, 1.0), base_bin_shape=(10, 10, 10), **BOTH),
    "ids_renumbered": pyramid(write_ids, (2, 2.0), base_bin_shape=(10, 10, 10), preserve_object_ids=False),
    "identity_pyramid": pyramid(write_identity, (2, 1.0)),
    "lines_pyramid": pyramid(
        lambda where: zv.write_lines(where, scene().random((40, 2, 2)) * 50, chunk_shape=(10, 10), bin_shape=(5, 5)), 2
    ),
    "paths_pyramid": pyramid(write_paths, (2, 1.0), (2, 2.0), **BOTH),
    "paths_renumbered": pyramid(write_paths, (2, 2.0), preserve_object_ids=False),
    "paths_unlinked": pyramid(write_paths, (2, 2.0), cross_level_storage="none"),
    "paths_simplified": pyramid(write_paths, (2, 2.0), method="simplify"),
    "graph_pyramid": pyramid(write_graph, (2, 1.0), (2, 2.0), **BOTH),
    "skeletons_pyramid": pyramid(write_skeletons, (2, 1.0), **BOTH),
    "mesh_pyramid": pyramid(write_mesh, 2),
    "mesh_shared_pyramid": pyramid(lambda where: write_mesh(where, face_objects=np.arange(300) % 3), (2, 2.0)),
    "draco_pyramid": pyramid(lambda where: write_mesh(where, encoding="draco", quantization_bits=14), 2),
}


@cache
def written(name: str) -> Items:
    """Return the keys of a store that was written once."""
    with in_memory({}) as storage:
        WRITERS[name](storage)
        return dict(storage._items)


def from_directory(path: Path) -> Items:
    return {item.relative_to(path).as_posix(): item.read_bytes() for item in path.rglob("*") if item.is_file()}


@contextmanager
def in_memory(items: Items) -> Iterator[MemoryStorage]:
    storage = MemoryStorage(f"validate-{next(_NUMBER)}")
    storage.put_many(items.items())
    try:
        yield storage
    finally:
        storage.delete_dir("")


class Breaker:
    """A store to break: its keys, and edits in the words of the format."""

    def __init__(self, items: Items) -> None:
        self.items = dict(items)

    def report(self, level: int = 5, **options: Any) -> Report:
        with in_memory(self.items) as storage:
            return validate(storage, level, **options)

    # -- documents

    def load(self, key: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.items[key])
        return document

    def edit(self, key: str, change: Callable[[dict[str, Any]], object]) -> None:
        """Change the attributes of a group."""
        document = self.load(key)
        change(document["attributes"])
        self.items[key] = json.dumps(document).encode()

    def root(self, **values: Any) -> None:
        self.edit("zarr.json", lambda attributes: attributes["zarr_vectors"].update(values))

    def level(self, level: int, /, **values: Any) -> None:
        self.edit(f"{level}/zarr.json", lambda attributes: attributes["zarr_vectors_level"].update(values))

    def array(self, path: str, **values: Any) -> None:
        """Change the metadata of an array, and the level's copy of them."""
        level, _, name = path.partition("/")
        self.edit(f"{path}/zarr.json", lambda attributes: _update(attributes, values))
        self.edit(f"{level}/zarr.json", lambda attributes: _update(attributes["zarr_vectors_arrays"][name], values))

    def delete(self, prefix: str) -> None:
        gone = [key for key in self.items if key == prefix or key.startswith(f"{prefix}/")]
        assert gone, prefix
        for key in gone:
            del self.items[key]

    # -- payloads

    def chunks(self, path: str) -> list[str]:
        """Return the chunks of an array, those with the most bytes first."""
        names = {key[len(path) + 1 :].split("/")[0] for key in self.items if key.startswith(f"{path}/")}
        names = {name for name in names if parse_chunk_key(name, len(name.split("."))) is not None}
        sizes = {name: self.node(f"{path}/{name}").size for name in names}
        return sorted(names, key=lambda name: (-sizes[name], name))

    def chunk(self, path: str) -> str:
        return self.chunks(path)[0]

    def node(self, path: str) -> Array:
        """Return the payload of a node as the array that its zarr.json describes."""
        level, _, rest = path.partition("/")
        array, _, node = rest.rpartition("/")
        document = self.load(f"{path}/zarr.json")
        with self.group(int(level)) as group:
            payload = group.read_payload(array, node)
        values: Array = payload.view(document["data_type"]).reshape(document["shape"]).copy()
        return values

    def put(self, path: str, values: npt.ArrayLike) -> None:
        """Replace the payload of a node, in the codecs that are declared."""
        level, _, rest = path.partition("/")
        array, _, node = rest.rpartition("/")
        with in_memory(self.items) as storage:
            group = read_level(storage, read_root(storage), int(level))
            codecs = group.read_array_meta(array).codecs
            if codecs is None:
                group.write_bytes(array, node, np.asarray(values).tobytes())
            else:
                group.put_payloads(array, [(node, np.asarray(values))], codecs)
            self.items = dict(storage._items)

    def change(self, path: str, change: Callable[[Array], Array]) -> None:
        """Replace a payload by what a function makes of it."""
        self.put(path, change(self.node(path)))

    @contextmanager
    def group(self, level: int = 0) -> Iterator[FsGroup]:
        with in_memory(self.items) as storage:
            yield read_level(storage, read_root(storage), level)

    def manifests(self, level: int, change: Callable[[list[bytes]], list[bytes]]) -> None:
        """Change the manifest blobs of a level, as many as there were."""
        path = f"{level}/{OBJECT_INDEX}/manifests"
        chain = CodecChain.parse(self.load(f"{path}/zarr.json")["codecs"])
        assert chain is not None
        blobs = split_vlen_bytes(chain.decode(self.items[f"{path}/c.0"]).data)
        changed = change(list(blobs))
        assert len(changed) == len(blobs)
        offsets = np.cumsum([0, *map(len, changed)], dtype=np.int64)
        self.items[f"{path}/c.0"] = chain.encode(encode_vlen_bytes(b"".join(changed), offsets))

    def manifest(self, level: int, object_id: int, blocks: Any) -> None:
        blob = encode_object_manifest_blocks(blocks, 3)
        self.manifests(level, lambda blobs: [*blobs[:object_id], blob, *blobs[object_id + 1 :]])


def _update(block: dict[str, Any], values: dict[str, Any]) -> None:
    for key, value in values.items():
        if value is ...:
            block.pop(key, None)
        else:
            block[key] = value


class Failing:
    """A storage that fails on some keys in a way of its own."""

    def __init__(self, inner: Storage, part: str, error: Exception) -> None:
        self.inner = inner
        self.part = part
        self.error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def get_many(self, keys: list[str]) -> Any:
        if any(self.part in key for key in keys):
            raise self.error
        return self.inner.get_many(keys)
