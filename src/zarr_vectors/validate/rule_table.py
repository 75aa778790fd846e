"""Every rule that validation knows, as data.

>>> RULES["L3.manifest-chunk"].severity
'error'
"""

from dataclasses import dataclass
from typing import Final, Literal

Severity = Literal["error", "warning"]

LEVELS: Final = {
    1: ("structure", "groups, arrays and keys are where they must be"),
    2: ("metadata", "what the `zarr.json` files say follows the schema and agrees with itself"),
    3: ("consistency", "every blob decodes, and what one names exists in the other"),
    4: ("conformance", "what is stored fits the geometry, the grid and the conventions"),
    5: ("pyramid", "levels nest, keep what they promise, and are linked as declared"),
}
"""Validation levels; each includes those before it."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the format."""

    code: str
    """Stable name; begins with the validation level."""
    severity: Severity
    says: str
    """What must hold, in one line."""
    source: str
    """Where the format says so: a section of its documents, or of docs/format-notes.md (`notes`)."""

    @property
    def level(self) -> int:
        """The validation level that checks it."""
        return int(self.code[1])


def _error(code: str, says: str, source: str) -> Rule:
    return Rule(code, "error", says, source)


def _warning(code: str, says: str, source: str) -> Rule:
    return Rule(code, "warning", says, source)


RULES: Final[dict[str, Rule]] = {
    rule.code: rule
    for rule in (
        _error("L1.root-group", "The root is a Zarr v3 group that carries the `zarr_vectors` block.", "5.1"),
        _error("L1.unfinished-write", "No write is under way, and none was broken off.", "5.3"),
        _error("L1.level-missing", "Every level that the root lists is a Zarr v3 group with its block.", "5.1"),
        _error("L1.level-zero", "There is a level 0.", "5.1"),
        _warning("L1.level-unlisted", "The root lists every level that is on disk.", "5.1"),
        _error("L1.array-missing", "A level has the arrays that its geometry requires.", "5.1, manifest page L1"),
        _error("L1.array-metadata", "The group of an array has a `zarr.json`.", "5.1, 5.4"),
        _warning("L1.link-fragments-metadata", "`link_fragments` says what it is (the reference's does not).", "7.5"),
        _error("L1.discriminator", "`zv_array` is known, and the one of the array's name.", "5.4"),
        _error("L1.object-index-layout", "`object_index` has exactly one of its layouts.", "manifest page L1"),
        _error("L1.object-index-metadata", "`object_index` names `num_objects` and `sid_ndim`.", "manifest page L1"),
        _error("L1.identity", "The identity convention has one chunk and no `object_index`.", "7.6"),
        _error("L1.chunk-key", "Names of chunks are keys of the store's rank, without leading zeros.", "notes 2"),
        _error("L1.chunk-metadata", "A chunk has a `zarr.json` that describes a Zarr v3 array.", "5.2"),
        _error("L1.chunk-data", "Where a `zarr.json` promises data, they are there.", "notes 2"),
        _warning("L1.stray-node", "Nothing else lies in the store.", "5.1"),
        _error("L1.array-copies", "A level's copy of its arrays' metadata equals the arrays' own.", "notes, additions"),
        _error("L1.unreadable", "The storage can list and read what is there.", "5.3"),
        _error("L2.schema", "The metadata have the fields and types of the format.", "8, schema"),
        _error("L2.version", "The format version is one that this library reads.", "notes 1"),
        _error("L2.enumeration", "Conventions and methods are among those of the format.", "notes 1"),
        _error("L2.ndim", "Shapes and corners have one entry for each axis.", "notes 1"),
        _error("L2.division", "Bins divide chunks, and the root's chunks divide a level's, evenly.", "notes 1"),
        _error("L2.level-number", "A level calls itself by the number of its group.", "notes 1"),
        _error("L2.array-fields", "An array states what reading it needs, and agrees with its path.", "7, 11.5"),
        _error("L2.encoding", "`encoding` and `layout` are ones that the format has for the array.", "11.5"),
        _error("L2.manifests-array", "`manifests` has shape (num_objects,) and vlen-bytes items.", "manifest page L2"),
        _error(
            "L2.legacy-offsets",
            "`offsets` has one entry an object, begins at 0, never falls, stays within `data`.",
            "manifest page L2",
        ),
        _warning("L2.unknown-capability", "Capability tokens are ones that this library knows.", "notes 1"),
        _error("L2.capability-missing", "What the store uses is among its capabilities.", "7.7, manifest page"),
        _warning(
            "L2.capability-fragment-index",
            "Every store has the token `fragment_index` (the reference leaves it out).",
            "notes 1",
        ),
        _error("L2.codecs", "The codecs and chunk key that an array declares are its chunks' own.", "notes, additions"),
        _error("L2.chunk-type", "A chunk's items are bytes or of the dtype that the array declares.", "5.2, 7"),
        _error("L2.datasets", "The NGFF block lists every level with a scale and a translation.", "notes 1"),
        _warning("L2.axes-order", "Axes come as NGFF orders them: time, channel, custom, space.", "notes 1"),
        _error("L3.blob", "Every payload can be unpacked, and to the size that is declared.", "11"),
        _warning("L3.not-decoded", "What decoding a payload needs is installed here.", "11.2"),
        _error("L3.rows", "Payloads are whole rows.", "7.1, 7.2"),
        _error("L3.not-finite", "Positions are finite.", "notes 2"),
        _error("L3.fragment-index", "A fragment index follows its layout (invariants 1, 2, 4, 5).", "fragment page"),
        _error("L3.fragment-padding", "Padding of the range bitmap is zero (invariant 3).", "fragment page"),
        _error("L3.fragment-rows", "Fragments lie inside the rows of their chunk (invariants 6, 7).", "fragment page"),
        _error("L3.chunk-missing", "A chunk has its fragments and attributes beside its vertices.", "5.1, 7"),
        _error("L3.chunk-orphan", "Only chunks with vertices have fragments, links or attributes.", "5.1, 7"),
        _error("L3.manifest-blob", "Every manifest decodes.", "manifest page L3"),
        _error("L3.manifest-chunk", "Manifests name chunks that exist.", "manifest page L3"),
        _error("L3.manifest-fragment-range", "Manifests name fragments that their chunk has.", "manifest page L3"),
        _error("L3.fragment-shared", "No fragment is named twice, unless the level shares them.", "manifest page L3"),
        _error("L3.manifest-trailing", "Bytes after the last manifest of a stream are zero.", "manifest page L3"),
        _error("L3.fragment-owners", "`fragment_attributes/object_id` says what the manifests do.", "notes, additions"),
        _error("L3.links", "Links and link records decode.", "7.5, 7.7"),
        _error("L3.link-ends", "Every end of a link is a row that exists.", "7.5, 7.7"),
        _error("L3.attribute-rows", "Attributes have a row for each row of what they describe.", "7.2, 7.8 to 7.11"),
        _error("L3.category", "Codes of text are among the categories.", "notes 5"),
        _error("L3.groups", "Groups decode.", "7.4"),
        _error("L3.group-members", "Groups name objects that exist.", "7.4"),
        _error("L3.present-mask", "A present mask is 0 or 1 for each object; absent rows are zero.", "notes 5"),
        _error("L3.vertex-count", "`vertex_count` is the number of rows.", "notes 1"),
        _error("L3.num-links", "`num_links` is the number of links.", "7.5, 7.7"),
        _error("L3.array-shape", "The `shape` that an array declares is that of its rows.", "7.2"),
        _error("L3.arrays-present", "Every array that `arrays_present` lists is there.", "notes 1"),
        _warning("L3.arrays-unlisted", "`arrays_present` lists every array (the reference lists some).", "notes 1"),
        _error("L4.links-convention", "`links_convention` fits the geometry and what is stored.", "7.5"),
        _error("L4.link-width", "Links have as many ends as the geometry's.", "7.5, 7.7"),
        _error("L4.link-fragments", "`link_fragments` divides links as `vertex_fragments` does rows.", "7.5"),
        _warning(
            "L4.link-fragments-single",
            "There is a link fragment for each vertex fragment (the reference has one a chunk).",
            "7.5, notes 8",
        ),
        _warning("L4.link-fragments-missing", "Explicit links have `link_fragments`.", "7.5"),
        _error("L4.rows-in-chunk", "Rows lie in their chunk.", "7.1, notes 2"),
        _warning("L4.rows-in-bin", "A fragment of points or of a path lies in one bin.", "fragment page, notes 4"),
        _warning("L4.fragment-order", "Fragments of points come in ascending order of their bins.", "fragment page"),
        _warning(
            "L4.fragment-empty", "Only bins with rows have fragments (the reference has empty ones).", "fragment page"
        ),
        _warning("L4.row-unnamed", "Every row is in a fragment, every fragment in a manifest.", "7.3, 7.6"),
        _warning("L4.object-fragments", "Without order along a path, an object is one fragment a chunk.", "notes 4"),
        _error("L4.continuation-rows", "A path goes on from a piece's last row to a piece's first.", "notes 4"),
        _warning("L4.continuation-zero", "The records of paths hold true rows (the reference writes 0).", "notes 4, 8"),
        _warning("L4.continuation-count", "Every step of a path between chunks has one record.", "notes 4"),
        _error("L4.bounds", "`bounds` holds every row.", "notes 1"),
        _error("L4.skeleton-parents", "A vertex of a skeleton has at most one parent.", "notes 4"),
        _error("L4.skeleton-cycle", "Links of skeletons form forests.", "notes 4"),
        _error("L4.draco", "Draco holds meshes, and leaves `links/0` without chunks.", "11.2"),
        _warning("L4.draco-rows", "Rows are known to follow Draco's order (the reference's do not).", "notes 4, 8"),
        _error("L5.grid-nest", "Bins and chunks of a level are whole multiples of those below.", "notes 1, 6"),
        _error("L5.bin-ratio", "`bin_ratio` is the level's bins over those of level 0.", "notes 1"),
        _error("L5.transformations", "NGFF's scale and translation say what the level's bins do.", "notes 1, 5"),
        _error("L5.parent-level", "A coarser level names a finer one that it was made from.", "notes 1"),
        _error("L5.object-count", "A level that keeps ids has as many objects as its parent level.", "manifest page"),
        _error("L5.object-ids", "A level that numbers anew maps its objects back to level 0.", "manifest page"),
        _error("L5.objects-appear", "Objects of a level have vertices at its parent level.", "manifest page"),
        _warning("L5.shared-flag", "A store that promises shared fragments has a level with them.", "manifest page"),
        _error("L5.metavertex-bin", "A merged level has one metavertex a bin.", "notes 6"),
        _error("L5.cross-level-missing", "Links between levels are stored as declared.", "7.5, 9.6"),
        _error("L5.cross-level-undeclared", "Only declared links between levels are stored.", "7.5, 9.6"),
        _error("L5.parent-missing", "Every vertex of a surviving object has a parent.", "notes 6"),
        _error("L5.parent-twice", "No vertex has two parents at one level.", "notes 6"),
        _error("L5.parent-bin", "The bin of a parent holds its children.", "notes 6"),
        _error("L5.inverse", "Links down are those up, turned around.", "notes 6"),
        _error("L5.composition", "Links over several levels are those of one level, one after another.", "notes 6"),
    )
}
