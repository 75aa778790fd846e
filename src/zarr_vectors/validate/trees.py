"""Links of skeletons: do they form forests? Chunk by chunk, then between chunks; pure.

Inside a chunk every vertex is followed to the last ancestor that is still in the chunk. Between
chunks only those ancestors matter, so that memory grows with the links between chunks, not with
the vertices.
"""

from dataclasses import dataclass, field

import numpy as np

from zarr_vectors.ragged import Ragged
from zarr_vectors.typing import BoolArray, IntArray
from zarr_vectors.validate.conformance import rows_of
from zarr_vectors.validate.consistency import LINKS_ACROSS, Chunk
from zarr_vectors.validate.report import Findings
from zarr_vectors.validate.views import LevelView

_NONE = -1


@dataclass(slots=True, eq=False)
class TreeCheck:
    """Follows parents through the chunks of a level."""

    level: LevelView
    findings: Findings
    records: IntArray
    """(links, 2, ndim + 1): links between chunks, child first."""
    owners: IntArray | None
    """The object of each of them, where vertices are shared."""
    implicit: bool
    """Whether a row's parent is the row before it, where no link says otherwise."""
    _child: IntArray = field(init=False)
    _parent: IntArray = field(init=False)
    _root: IntArray = field(init=False)

    def __post_init__(self) -> None:
        self._child = self.level.find(self.records[:, 0, :-1])
        self._parent = self.level.find(self.records[:, 1, :-1])
        # The row that the parent's tree begins with in its chunk, for each link between chunks.
        self._root = np.full(len(self.records), _NONE, dtype=np.int64)

    def check(self, number: int, chunk: Chunk) -> None:
        """Check the trees of one chunk, by its number among those of the level."""
        if chunk.positions is None or chunk.fragments is None or chunk.links is None:
            return
        shared = self.level.group.metadata.shared_fragments
        if shared and chunk.num_links and chunk.link_owners is None:
            return
        links, owners = _as_pairs(chunk.links, chunk.num_rows), chunk.link_owners
        if owners is None or len(owners) != len(links):
            owners = np.zeros(len(links), dtype=np.int64)
        out = np.flatnonzero(self._child == number)
        into = np.flatnonzero(self._parent == number)
        of_records = np.zeros(len(self.records), np.int64) if self.owners is None else self.owners
        leaving = np.stack([of_records[out], self.records[out, 0, -1]], axis=1)
        entering = np.stack([of_records[into], self.records[into, 1, -1]], axis=1)
        children = np.stack([owners, links[:, 0]], axis=1)
        parents = np.stack([owners, links[:, 1]], axis=1)
        fragments = rows_of(chunk.fragments, chunk.num_rows) if self.implicit and not shared else None
        before, after = (children[:0], children[:0]) if fragments is None else _steps(fragments)
        nodes, inverse = np.unique(
            np.concatenate([children, parents, leaving, entering, before, after]), axis=0, return_inverse=True
        )
        sizes = [len(part) for part in (children, parents, leaving, entering, before, after)]
        child, parent, left, entered, previous, following = np.split(inverse.reshape(-1), np.cumsum(sizes)[:-1])
        several = np.bincount(np.concatenate([child, left]), minlength=len(nodes)) > 1
        if several.any():
            row = int(nodes[np.argmax(several), 1])
            found = f"{int(several.sum())} with more, the first row {row}"
            self.findings.add("L4.skeleton-parents", chunk.place, "rows with one parent at most", found)
        up = np.arange(len(nodes))
        up[following] = previous
        up[child] = parent
        up[left] = left
        root, looping = follow(up)
        if looping.any():
            found = f"{int(looping.sum())} rows that lead into a circle, the first {int(nodes[np.argmax(looping), 1])}"
            self.findings.add("L4.skeleton-cycle", chunk.place, "parents that end at a root", found)
        self._root[into] = np.where(looping[entered], _NONE, nodes[root[entered], 1])

    def finish(self) -> None:
        """Check the trees between chunks."""
        if len(self.records) == 0:
            return
        owners = np.zeros(len(self.records), np.int64) if self.owners is None else self.owners
        children = np.stack([owners, self._child, self.records[:, 0, -1]], axis=1)
        roots = np.stack([owners, self._parent, self._root], axis=1)
        nodes, inverse = np.unique(np.concatenate([children, roots]), axis=0, return_inverse=True)
        child, root = np.split(inverse.reshape(-1), 2)
        up = np.arange(len(nodes))
        known = self._root != _NONE
        up[child[known]] = root[known]
        _, looping = follow(up)
        if looping.any():
            found = f"{int(looping.sum())} links that lead into a circle"
            self.findings.add("L4.skeleton-cycle", self.level.place.chunk_of(LINKS_ACROSS), "forests", found)


def follow(up: IntArray) -> tuple[IntArray, BoolArray]:
    """Return the root of each node, and which nodes have none because they lead into a circle.

    >>> roots, looping = follow(np.array([0, 0, 1, 4, 3]))
    >>> roots[:3].tolist(), looping.tolist()
    ([0, 0, 0], [False, False, False, True, True])
    """
    found = up
    for _ in range(max(len(up), 1).bit_length() + 1):
        found = found[found]
    looping: BoolArray = up[found] != found
    return found, looping


def _as_pairs(links: IntArray, num_rows: int) -> IntArray:
    """Return rows [child, parent]; in one column, row ``k`` holds the parent of vertex ``k``."""
    if links.shape[1] != 1:
        return links[:, :2]
    column = links.reshape(-1)[:num_rows]
    children = np.flatnonzero((column >= 0) & (column != np.arange(len(column))))
    return np.stack([children, column[children]], axis=1)


def _steps(fragments: Ragged) -> tuple[IntArray, IntArray]:
    """Return each row that has one before it in its fragment, and that row; keyed as rows without an object."""
    inner = np.ones(len(fragments.values), dtype=np.bool_)
    starts = fragments.offsets[:-1]
    inner[starts[starts < len(inner)]] = False
    places = np.flatnonzero(inner)
    before = fragments.values[places - 1]
    after = fragments.values[places]
    return _keyed(before), _keyed(after)


def _keyed(rows: IntArray) -> IntArray:
    return np.stack([np.zeros_like(rows), rows], axis=1)
