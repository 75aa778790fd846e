"""`FsGroup`: the arrays of one level, read and written as whole payloads, in batches.

A payload is what the format calls the bytes of ``<array>/<chunk>``: rows, links, a fragment
index. It is one Zarr array of one chunk, so a payload costs one request where the array's
group declares its codecs, and two where the chunk's own ``zarr.json`` must be asked.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from zarr_vectors.constants import ARRAY_KINDS, VERTICES
from zarr_vectors.core.keys import DATA, NODE, array_name_of, chunk_key, parse_chunk_key
from zarr_vectors.core.limits import DEFAULT_LIMITS, ReadLimits
from zarr_vectors.core.metadata import ArrayMetadata, LevelMetadata, RootMetadata
from zarr_vectors.core.nodes import (
    VLEN_BYTES,
    ArrayNode,
    array_document,
    group_attributes,
    group_document,
    parse_document,
    single_chunk_name,
)
from zarr_vectors.core.storage import Storage, zarr_store_of
from zarr_vectors.encoding.codecs import CodecChain
from zarr_vectors.encoding.compression import Compressor, codec_pipeline
from zarr_vectors.encoding.draco import decode_draco
from zarr_vectors.encoding.rows import decode_rows
from zarr_vectors.exceptions import (
    DecodeError,
    EncodeError,
    MissingArrayError,
    MissingChunkError,
    locate,
)
from zarr_vectors.typing import JSON, AnyArray, Buffer, ByteArray, ChunkCoords

if TYPE_CHECKING:
    import zarr

PayloadKey = tuple[str, str]
"""Array path below the level and node name: ``("vertices", "0.0.1")``, ``("groups", "data")``."""

DRACO_ENCODING: Final = "draco"
RAW_ENCODING: Final = "raw"
MAX_ZARR_CHUNKS: Final = 2**20
"""Most Zarr chunks of one array that are looked for: a few bytes of metadata can promise any number."""

_PORTION: Final = 4096
_OWN_CHUNK: Final = re.compile(r"c(\.0)+")
_RAW: Final[tuple[dict[str, JSON], ...]] = ({"name": "bytes"},)


@dataclass(frozen=True, slots=True)
class FsGroup:
    """One level of a store: where it is, what its metadata say, and its payloads."""

    storage: Storage
    root: RootMetadata
    metadata: LevelMetadata
    arrays: dict[str, ArrayMetadata] = field(default_factory=dict)
    """Metadata of the arrays, by path below the level, as far as they are known."""
    complete: bool = False
    """Whether ``arrays`` lists all there are, so that none needs to be asked for."""
    limits: ReadLimits = DEFAULT_LIMITS
    """What the store may ask of whoever reads it."""

    @property
    def level(self) -> int:
        """Number of this level."""
        return self.metadata.level

    @property
    def ndim(self) -> int:
        """Number of spatial axes."""
        return self.root.ndim

    @property
    def zarr_group(self) -> "zarr.Group":
        """The level as zarr's own group."""
        import zarr  # noqa: PLC0415  zarr is imported only when it is needed

        return zarr.open_group(self.storage.zarr_store(), path=str(self.level), mode="r")

    # -- metadata

    def read_array_meta(self, array: str) -> ArrayMetadata:
        """Return the metadata of an array, by its path below the level.

        Raises
        ------
        MissingArrayError
            If the level has no such array.
        """
        (found,) = self.find_array_metas([array])
        if found is None:
            raise MissingArrayError("the level has no such array").at(level=self.level, array=array)
        return found

    def find_array_metas(self, arrays: Sequence[str]) -> list[ArrayMetadata | None]:
        """Return the metadata of several arrays in one batch, ``None`` for those that do not exist."""
        unknown = [] if self.complete else [array for array in dict.fromkeys(arrays) if array not in self.arrays]
        # An empty batch would still cost a trip to the event loop, for every look at the metadata.
        documents = self.storage.get_many([self._key(array, NODE) for array in unknown]) if unknown else []
        for array, document in zip(unknown, documents, strict=True):
            if document is not None:
                with locate(level=self.level, array=array):
                    attributes = group_attributes(parse_document(document))
                    if attributes.get("zv_array") is not None:
                        found = ArrayMetadata.parse(attributes, "attributes")
                        check_discriminator(array, found)
                        self.arrays[array] = found
        return [self.arrays.get(array) for array in arrays]

    def write_array_meta(self, array: str, meta: ArrayMetadata) -> None:
        """Store the metadata of an array, and the groups above it."""
        if self.arrays.get(array) == meta:
            return
        known = {parent for path in self.arrays for parent in _parents(path)}
        documents = [(self._key(parent, NODE), group_document({})) for parent in _parents(array) if parent not in known]
        self.storage.put_many([*documents, (self._key(array, NODE), group_document(meta.to_json()))])
        self.arrays[array] = meta

    def list_arrays(self, name: str) -> list[str]:
        """Return the paths of all arrays of a canonical name, e.g. of every vertex attribute, sorted."""
        if not self.complete:
            paths = [name]
            for _ in ARRAY_KINDS[name].path_parts:
                paths = [f"{path}/{child}" for path in paths for child in self._children(path)]
            self.find_array_metas(paths)
        return sorted(path for path in self.arrays if array_name_of(path) == name)

    def list_chunks(self, array: str = VERTICES) -> list[ChunkCoords]:
        """Return the coordinates of all chunks of an array, sorted; one listing."""
        names = self.storage.list_dir(self._key(array))
        coords = (parse_chunk_key(name, self.ndim) for name in names)
        return sorted(item for item in coords if item is not None)

    # -- payloads

    def read_bytes(self, array: str, node: str) -> bytes:
        """Return one payload, decoded, as bytes.

        Raises
        ------
        MissingChunkError
            If there is no such payload.
        """
        return self.read_payload(array, node).tobytes()

    def read_payload(self, array: str, node: str) -> ByteArray:
        """Return one payload, decoded, or raise `MissingChunkError`."""
        (payload,) = self.read_payloads([(array, node)])
        if payload is None:
            raise MissingChunkError("there is no such chunk").at(level=self.level, array=array, chunk=node)
        return payload

    def read_payloads(self, requests: Sequence[PayloadKey]) -> list[ByteArray | None]:
        """Return many payloads, decoded, in as few batches as their metadata allow.

        Returns
        -------
        payloads
            One for each request; ``None`` where there is no such chunk.

        Raises
        ------
        MissingChunkError
            If a chunk's ``zarr.json`` is there and its data are not: that is damage, not absence.
        DecodeError
            If the bytes can't be decoded.
        """
        arrays = list(dict.fromkeys(array for array, _ in requests))
        metas = dict(zip(arrays, self.find_array_metas(arrays), strict=True))
        chains = {array: _declared_chain(meta) for array, meta in metas.items()}
        results: list[ByteArray | None] = [None] * len(requests)
        declared = [place for place, (array, _) in enumerate(requests) if chains[array] is not None]
        asked = [place for place, (array, _) in enumerate(requests) if chains[array] is None]
        names = [self._declared_name(node, metas[array]) for array, node in (requests[place] for place in declared)]
        keys = [self._key(*requests[place], name) for place, name in zip(declared, names, strict=True)]
        for place, stored in zip(declared, self.storage.get_many(keys), strict=True):
            array, node = requests[place]
            chain = chains[array]
            if stored is None or chain is None:
                # Absent, damaged or moved: the chunk's own zarr.json tells which.
                asked.append(place)
                continue
            with locate(level=self.level, array=array, chunk=node):
                results[place] = chain.decode(stored, limit=self.limits.ceiling(memoryview(stored).nbytes))
        self._read_by_node(requests, asked, results)
        return results

    def _read_by_node(
        self, requests: Sequence[PayloadKey], places: Sequence[int], results: list[ByteArray | None]
    ) -> None:
        """Fill in what the chunks' own ``zarr.json`` must tell how to read; absent chunks stay ``None``."""
        documents = self.storage.get_many([self._key(*requests[place], NODE) for place in places])
        plain: list[tuple[int, ArrayNode, CodecChain]] = []
        for place, document in zip(places, documents, strict=True):
            if document is None:
                continue
            array, chunk = requests[place]
            with locate(level=self.level, array=array, chunk=chunk):
                node = ArrayNode.parse(parse_document(document))
                if node.data_type == VLEN_BYTES:
                    raise DecodeError("a payload is numbers or bytes, not items of variable length", rule="data-type")
                chain = CodecChain.parse(node.codecs)
                if node.is_single_chunk and chain is not None:
                    plain.append((place, node, chain))
                else:
                    values = self.read_through_zarr(f"{array}/{chunk}", node)
                    results[place] = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        stored = self.storage.get_many([self._key(*requests[place], node.chunk_name()) for place, node, _ in plain])
        for (place, node, chain), value in zip(plain, stored, strict=True):
            array, chunk = requests[place]
            with locate(level=self.level, array=array, chunk=chunk):
                if value is None:
                    raise MissingChunkError("its zarr.json is there, its data are not")
                limit = self.limits.ceiling(memoryview(value).nbytes)
                results[place] = chain.decode(value, expected=node.nbytes, itemsize=node.wordsize, limit=limit)

    def read_through_zarr(self, path: str, node: ArrayNode) -> AnyArray:
        """Return a Zarr array below the level as zarr decodes it: other codecs, several chunks, shards.

        All of its chunks come in one batch, and zarr decodes them in memory.

        Raises
        ------
        MissingChunkError
            If not all of its chunks are there: what Zarr fills in never reaches the caller.
        DecodeError
            If zarr can't decode it.
        """
        import zarr  # noqa: PLC0415  zarr is imported only when it is needed

        if node.nbytes == 0:
            return np.empty(0, dtype=np.uint8)
        if node.num_chunks > MAX_ZARR_CHUNKS:
            raise DecodeError(f"an array of {node.nbytes} bytes in {node.num_chunks} chunks is too much", rule="limit")
        found: dict[str, Buffer] = {}
        # In portions: the first one that is not whole ends it, however many chunks are promised.
        for names in _portions([NODE, *node.chunk_names()]):
            stored = zip(names, self.storage.get_many([self._key(path, name) for name in names]), strict=True)
            there = {name: value for name, value in stored if value is not None}
            if len(there) < len(names):
                raise MissingChunkError(f"its zarr.json is there, {len(names) - len(there)} of its chunks are not")
            found |= there
        limit = self.limits.ceiling(sum(memoryview(value).nbytes for value in found.values()))
        if max(node.nbytes, node.chunk_nbytes) > limit:
            raise DecodeError(
                f"an array of {node.nbytes} bytes in chunks of {node.chunk_nbytes} is over the limit of {limit}: "
                "give a larger max_bytes to read it",
                rule="limit",
            )
        try:
            values = np.asarray(zarr.open_array(zarr_store_of(found), mode="r")[...])
        # What zarr and the codecs raise for metadata or bytes that are no good is theirs to choose.
        except (ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError) as error:
            raise DecodeError(f"zarr can't read the array: {error}", rule="zarr") from error
        return values.astype(values.dtype.newbyteorder("<"), copy=False)

    def write_bytes(self, array: str, node: str, payload: Buffer) -> None:
        """Store opaque bytes: where and in the codecs that the array declares, else as they are."""
        (meta,) = self.find_array_metas([array])
        values = np.frombuffer(payload, dtype=np.uint8)
        if meta is None or meta.codecs is None or _declared_chain(meta) is None:
            self.put_payloads(array, [(node, values)], _RAW)
            return
        # As many axes as the array's other chunks have, so that the bytes take the place of what was there.
        num_axes = self._declared_name(node, meta).count(".")
        self.put_payloads(array, [(node, values.reshape(-1, *[1] * (num_axes - 1)))], meta.codecs)

    def write_payloads(self, array: str, meta: ArrayMetadata, payloads: Iterable[tuple[str, AnyArray]]) -> None:
        """Store arrays as payloads in the codecs that the metadata declare, then the metadata."""
        if meta.codecs is None:
            raise EncodeError("the array's metadata declare no codecs", rule="codecs").at(level=self.level, array=array)
        self.put_payloads(array, payloads, meta.codecs)
        self.write_array_meta(array, meta)

    def put_payloads(
        self, array: str, payloads: Iterable[tuple[str, AnyArray]], codecs: Sequence[Mapping[str, JSON]]
    ) -> None:
        """Store arrays as payloads: all data first, so that a ``zarr.json`` never promises what is not there."""
        self._chain(array, codecs)
        self.put_arrays((array, node, values, codecs) for node, values in payloads)

    def put_arrays(self, items: Iterable[tuple[str, str, AnyArray, Sequence[Mapping[str, JSON]]]]) -> None:
        """Store payloads of several arrays, ``(array, node, values, codecs)``: a batch of data, then one of nodes."""
        documents: list[tuple[str, bytes]] = []

        def data() -> Iterator[tuple[str, bytes]]:
            for array, node, values, codecs in items:
                chain = self._chain(array, codecs)
                documents.append(
                    (self._key(array, node, NODE), array_document(values.shape, values.dtype.name, codecs))
                )
                if values.size:
                    yield self._key(array, node, single_chunk_name(values.ndim)), chain.encode(values)

        self.storage.put_many(data())
        self.storage.put_many(documents)

    def read_vertices(self, chunk_coords: Sequence[int]) -> AnyArray:
        """Return the positions of one chunk, shape ``(rows, ndim)``, in the dtype that the metadata declare."""
        payload = self.read_payload(VERTICES, chunk_key(chunk_coords))
        with locate(level=self.level, array=VERTICES, chunk=chunk_key(chunk_coords)):
            return self.decode_vertices(payload)

    def decode_vertices(self, payload: ByteArray) -> AnyArray:
        """Return positions from the payload of a chunk: raw rows or a Draco bitstream."""
        meta = self.read_array_meta(VERTICES)
        if meta.encoding == DRACO_ENCODING:
            positions = decode_draco(payload.data).positions
            if positions.shape[1:] != (self.ndim,):
                raise DecodeError(
                    f"Draco positions of shape {positions.shape} in a store of {self.ndim} axes", rule="draco"
                )
            return positions
        if meta.encoding not in (None, RAW_ENCODING):
            raise DecodeError(f"the encoding {meta.encoding!r:.80} is not known", rule="encoding")
        return decode_rows(payload.data, self.dtype_of(meta, VERTICES), width=self.ndim)

    def dtype_of(self, meta: ArrayMetadata, array: str) -> str:
        """Return the dtype that an array declares, or raise."""
        if meta.dtype is None:
            raise DecodeError("the array's metadata do not say its dtype", rule="dtype").at(
                level=self.level, array=array
            )
        return meta.dtype

    def _chain(self, array: str, codecs: Sequence[Mapping[str, JSON]]) -> CodecChain:
        chain = CodecChain.parse(codecs)
        if chain is None:
            names = ", ".join(str(codec.get("name")) for codec in codecs)
            raise EncodeError(f"can't write with the codecs {names}", rule="codecs").at(level=self.level, array=array)
        return chain

    def _children(self, path: str) -> list[str]:
        return [name for name in self.storage.list_dir(self._key(path)) if name != NODE]

    def _key(self, *parts: str) -> str:
        return "/".join([str(self.level), *parts])

    def _declared_name(self, node: str, meta: ArrayMetadata | None) -> str:
        """Return where a payload of ours keeps its data; what stands beside ``data`` has one axis."""
        is_main = node == DATA or parse_chunk_key(node, self.ndim) is not None
        return str(meta.chunk_key) if meta is not None and is_main else single_chunk_name(1)


def check_discriminator(array: str, meta: ArrayMetadata) -> None:
    """Raise if what stands at an array's path says that it is another kind of array."""
    kind = ARRAY_KINDS.get(array_name_of(array))
    if kind is not None and meta.zv_array != kind.discriminator:
        raise DecodeError(f"zv_array is {meta.zv_array!r}, not {kind.discriminator!r}", rule="discriminator")


def chunked_meta(
    array: str,
    dtype: str,
    *,
    ndim: int = 1,
    compressor: Compressor = "default",
    checksum: bool = True,
    **fields: object,
) -> ArrayMetadata:
    """Return the metadata of an array that we write: discriminator, dtype, codecs, where a chunk keeps its data."""
    name = array_name_of(array)
    codecs = codec_pipeline(name, dtype, compressor=compressor, checksum=checksum)
    block = {
        "zv_array": ARRAY_KINDS[name].discriminator,
        "dtype": dtype,
        **fields,
        "compression_codec": codecs,
        "chunk_key": single_chunk_name(ndim),
    }
    return ArrayMetadata.parse({key: value for key, value in block.items() if value is not None}, array)


def _declared_chain(meta: ArrayMetadata | None) -> CodecChain | None:
    """Return how all chunks of an array of ours are stored; ``None``: each chunk's own ``zarr.json`` tells."""
    if meta is None or meta.codecs is None or not _OWN_CHUNK.fullmatch(meta.chunk_key or ""):
        return None
    chain = CodecChain.parse(meta.codecs)
    return None if chain is None or chain.big_endian else chain


def _portions(names: Sequence[str]) -> Iterator[Sequence[str]]:
    return (names[begin : begin + _PORTION] for begin in range(0, len(names), _PORTION))


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
