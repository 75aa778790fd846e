"""Rows in order: object after object for paths and trees, chunk after chunk for everything else; pure."""

from dataclasses import dataclass

import numpy as np

from zarr_vectors.query.chunks import LoadedChunks
from zarr_vectors.query.manifests import NamedFragments
from zarr_vectors.ragged import Ragged, changes, offsets_from_counts
from zarr_vectors.types.skeletons import NO_PARENT
from zarr_vectors.typing import BoolArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The rows of objects, as rows of the loaded chunks, and what belongs to each."""

    rows: IntArray
    owners: IntArray
    """Position of the object among those asked for, for each row."""
    fragments: IntArray
    """Number of the fragment occurrence that each row came from."""
    sequence: IntArray
    """Where each row comes along its object: a step of 1 leads to the very next row."""
    copies: BoolArray
    """Rows that begin a fragment at the very place where the one before, in another chunk, ended."""

    @property
    def pieces(self) -> IntArray:
        """Offsets: rows of one piece follow one another without a gap along their object."""
        return np.append(np.flatnonzero(self._begins), len(self.rows))

    @property
    def _begins(self) -> BoolArray:
        begins = changes(self.owners)
        begins[1:] |= np.diff(self.sequence) != 1
        return begins

    @property
    def follows(self) -> BoolArray:
        """Whether each row follows the row before it in one fragment, with none left out between them."""
        return ~(self._begins | changes(self.fragments))

    @property
    def originals(self) -> IntArray:
        """The row itself, or, for a copy, the row that it repeats; as rows of the loaded chunks."""
        place = np.where(self.copies, 0, np.arange(len(self.rows), dtype=np.int64))
        return self.rows[np.maximum.accumulate(place)]

    def take(self, kept: BoolArray) -> "Rows":
        """Return some of the rows; those that are left out leave a gap."""
        return Rows(self.rows[kept], self.owners[kept], self.fragments[kept], self.sequence[kept], self.copies[kept])


def rows_by_object(named: NamedFragments, loaded: LoadedChunks, *, find_copies: bool) -> Rows:
    """Return the rows of objects in manifest order.

    Parameters
    ----------
    named
        The fragments of the objects.
    loaded
        The chunks they lie in.
    find_copies
        Look for rows that repeat the last row before a seam.
    """
    expanded = loaded.fragments.take(named.fragments)
    fragments = expanded.owners
    owners = named.objects[fragments]
    # Blocks that are not loaded widen the step.
    gaps = named.gaps[fragments]
    sequence = np.arange(len(fragments), dtype=np.int64) + gaps
    copies = np.zeros(len(fragments), dtype=np.bool_)
    if find_copies:
        copies = changes(fragments) & ~changes(owners) & ~changes(gaps) & _repeats(expanded.values, loaded)
    return Rows(expanded.values, owners, fragments, sequence, copies)


def without_copies(rows: Rows) -> Rows:
    """Return the rows without those that repeat the row before a seam; this leaves no gap."""
    closed = Rows(rows.rows, rows.owners, rows.fragments, rows.sequence - np.cumsum(rows.copies), rows.copies)
    return closed.take(~rows.copies)


def parents_of_rows(
    rows: Rows, links: IntArray, num_rows: int, *, implied: bool, link_objects: IntArray | None = None
) -> IntArray:
    """Return the parent of each row of a result, as a row of the result; -1 for roots.

    Parameters
    ----------
    rows
        Object after object.
    links : (links, 2)
        Stored links as rows of the loaded chunks, child first; the parent is -1 where it is not
        loaded, and the child itself where that is a root. They go before what is implied.
    num_rows
        Rows of the loaded chunks.
    implied
        Whether a row without a stored link hangs on the row before it in its fragment.
    link_objects
        The object that each link is of, by its position among those asked for; ``None``: of whichever has its ends.
    """
    count = len(rows.rows)
    numbers = np.arange(count, dtype=np.int64)
    parents = np.where(rows.follows & implied, numbers - 1, NO_PARENT)
    if len(links) == 0 or count == 0:
        return parents
    # Where objects share rows, the parent is the one in the same object.
    keys = rows.owners * num_rows + rows.rows
    asked = rows.rows if link_objects is None else keys
    given = links[:, 0] if link_objects is None else link_objects * num_rows + links[:, 0]
    by_child = np.argsort(given, kind="stable")
    children, hung_on = given[by_child], links[by_child, 1]
    place = np.minimum(np.searchsorted(children, asked), len(children) - 1)
    linked = np.flatnonzero(children[place] == asked)
    order = np.argsort(keys, kind="stable")
    wanted = rows.owners[linked] * num_rows + hung_on[place[linked]]
    found = order[np.minimum(np.searchsorted(keys[order], wanted), count - 1)]
    good = (keys[found] == wanted) & (wanted != keys[linked]) & (hung_on[place[linked]] >= 0)
    parents[linked] = np.where(good, found, NO_PARENT)
    return parents


def merge_copies(rows: Rows, parents: IntArray) -> tuple[Rows, IntArray]:
    """Return rows and parents without copies at seams: what hung on a copy hangs on the row before it."""
    kept = ~rows.copies
    # A copy takes the number of the row that it repeats, which is the last one kept before it.
    number = np.cumsum(kept) - 1
    parents = np.where(parents == NO_PARENT, NO_PARENT, number[parents])
    return rows.take(kept), parents[kept]


def object_rows(owners: IntArray, rows: IntArray, num_objects: int) -> Ragged:
    """Return the rows of each object, in the order they come in, from pairs."""
    order = np.argsort(owners, kind="stable")
    return Ragged(rows[order], offsets_from_counts(np.bincount(owners, minlength=num_objects)))


def _repeats(rows: IntArray, loaded: LoadedChunks) -> BoolArray:
    """Tell which rows lie where the row before them lies, in another chunk."""
    repeats = np.zeros(len(rows), dtype=np.bool_)
    chunks = np.searchsorted(loaded.row_offsets, rows, side="right") - 1
    same_place = (loaded.positions[rows[1:]] == loaded.positions[rows[:-1]]).all(axis=1)
    repeats[1:] = same_place & (chunks[1:] != chunks[:-1])
    return repeats
