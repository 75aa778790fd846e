"""Names and tokens of the format: array names, their kinds, conventions, capabilities, versions."""

from dataclasses import dataclass
from typing import Final, Literal

FORMAT_VERSION: Final = "0.7.0"
OLDEST_READABLE: Final = (0, 6)
NEWEST_READABLE: Final = (0, 7)

VERTICES: Final = "vertices"
VERTEX_FRAGMENTS: Final = "vertex_fragments"
LINK_FRAGMENTS: Final = "link_fragments"
LINKS: Final = "links"
VERTEX_ATTRIBUTES: Final = "vertex_attributes"
FRAGMENT_ATTRIBUTES: Final = "fragment_attributes"
LINK_ATTRIBUTES: Final = "link_attributes"
OBJECT_INDEX: Final = "object_index"
OBJECT_ATTRIBUTES: Final = "object_attributes"
GROUPS: Final = "groups"
GROUP_ATTRIBUTES: Final = "group_attributes"
CROSS_CHUNK_LINKS: Final = "cross_chunk_links"
CROSS_CHUNK_LINK_ATTRIBUTES: Final = "cross_chunk_link_attributes"

Shuffle = Literal["noshuffle", "shuffle", "bitshuffle"]


@dataclass(frozen=True, slots=True)
class ArrayKind:
    """What the format says of one canonical array name (documents 5.4, 7 and 11.3)."""

    name: str
    """First path component below the level, e.g. ``vertex_attributes``."""
    discriminator: str
    """The ``zv_array`` value on disk."""
    path_parts: tuple[str, ...]
    """What follows the name in the path of one array: attribute name, delta, both or neither."""
    per_chunk: bool
    """One payload for each spatial chunk, or one for the whole level."""
    shuffle: Shuffle | None
    """Filter in front of Zstd in the default codec; ``None``: raw bytes, no codec and no checksum."""


ARRAY_KINDS: Final[dict[str, ArrayKind]] = {
    kind.name: kind
    for kind in (
        ArrayKind(VERTICES, "vertices", (), per_chunk=True, shuffle="shuffle"),
        ArrayKind(VERTEX_FRAGMENTS, "vertex_fragments", (), per_chunk=True, shuffle=None),
        ArrayKind(LINK_FRAGMENTS, "link_fragments", (), per_chunk=True, shuffle=None),
        ArrayKind(LINKS, "links", ("delta",), per_chunk=True, shuffle="bitshuffle"),
        ArrayKind(VERTEX_ATTRIBUTES, "attribute", ("name",), per_chunk=True, shuffle="shuffle"),
        ArrayKind(FRAGMENT_ATTRIBUTES, "fragment_attribute", ("name",), per_chunk=True, shuffle="shuffle"),
        ArrayKind(LINK_ATTRIBUTES, "link_attribute", ("name", "delta"), per_chunk=True, shuffle="shuffle"),
        ArrayKind(OBJECT_INDEX, "object_index", (), per_chunk=False, shuffle="shuffle"),
        ArrayKind(OBJECT_ATTRIBUTES, "object_attribute", ("name",), per_chunk=False, shuffle="shuffle"),
        ArrayKind(GROUPS, "groups", (), per_chunk=False, shuffle="shuffle"),
        # "groupings_attribute" is the format's old spelling, which stays on disk (document 7.4).
        ArrayKind(GROUP_ATTRIBUTES, "groupings_attribute", ("name",), per_chunk=False, shuffle="shuffle"),
        ArrayKind(CROSS_CHUNK_LINKS, "cross_chunk_links", ("delta",), per_chunk=False, shuffle="shuffle"),
        ArrayKind(
            CROSS_CHUNK_LINK_ATTRIBUTES,
            "cross_chunk_link_attribute",
            ("name", "delta"),
            per_chunk=False,
            shuffle="shuffle",
        ),
    )
}
ALL_ARRAY_NAMES: Final = tuple(ARRAY_KINDS)
DISCRIMINATORS: Final = frozenset(kind.discriminator for kind in ARRAY_KINDS.values())

CAP_FRAGMENT_INDEX: Final = "fragment_index"
CAP_SHARED_FRAGMENTS: Final = "shared_fragments"
CAP_PRESERVED_OBJECT_IDS: Final = "preserved_object_ids"
CAP_MULTISCALE_LINKS: Final = "multiscale_links"
ALL_CAPABILITIES: Final = (
    CAP_FRAGMENT_INDEX,
    CAP_SHARED_FRAGMENTS,
    CAP_PRESERVED_OBJECT_IDS,
    CAP_MULTISCALE_LINKS,
)

GeometryType = Literal["point_cloud", "line", "polyline", "streamline", "skeleton", "graph", "mesh"]
LinksConvention = Literal["explicit", "implicit_sequential", "implicit_sequential_with_branches"]
ObjectIndexConvention = Literal["standard", "identity"]
CrossChunkStrategy = Literal["explicit_links", "boundary_deduplication", "both"]
CrossLevelStorage = Literal["none", "implicit", "explicit"]
CoarseningMethod = Literal["none", "per_object", "manual"]

OBJECT_ID_ATTRIBUTE: Final = "object_id"
"""Fragment attribute that our writer keeps: the object each fragment belongs to. Also the link
attribute that tells whose a face is where objects share vertices."""

LEVEL0_OBJECT_ID: Final = "level0_object_id"
"""Object attribute of a level whose objects were numbered anew: their ids at level 0."""

MANIFESTS_LAYOUT: Final = "vlen_manifests_v1"
FRAGMENT_INDEX_ENCODING: Final = "fragment_index_v1"
ENDPOINT_RECORDS_ENCODING: Final = "endpoint_records_v1"
DICTIONARY_ENCODING: Final = "dictionary"

# A chunk of manifests is bounded by objects (the format's "~16K") and by bytes, since one
# object costs the whole chunk that holds it.
MAX_MANIFESTS_PER_CHUNK: Final = 16_384
MANIFEST_CHUNK_BYTES: Final = 256 * 1024
