"""What users give, checked and brought into one form; every complaint names the argument."""

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from zarr_vectors.constants import OBJECT_ID_ATTRIBUTE
from zarr_vectors.encoding.rows import ROW_DTYPES
from zarr_vectors.exceptions import InputError
from zarr_vectors.ragged import Ragged, offsets_from_counts
from zarr_vectors.table import Column
from zarr_vectors.typing import AnyArray, IntArray

MAX_NDIM: Final = 8
PAIR: Final = 2
MOST_UNUSED_IDS: Final = 100_000_000
"""Object ids up to this are taken whatever the number of rows; each costs a few bytes, used or not."""

_LONG_INTEGERS: Final = ("int64", "uint64")
_POSITION_DTYPES: Final = tuple(name for name in ROW_DTYPES if np.dtype(name).kind in "iuf")


class FlatPaths(Protocol):
    """Paths as this library returns them."""

    @property
    def vertices(self) -> AnyArray: ...  # noqa: D102
    @property
    def offsets(self) -> IntArray: ...  # noqa: D102


RaggedLike = Sequence[npt.ArrayLike] | tuple[npt.ArrayLike, npt.ArrayLike] | FlatPaths
"""A list of arrays, or ``(values, offsets)`` with one offset more than there are lists."""


def as_array(values: npt.ArrayLike, what: str) -> AnyArray:
    """Return values as an array, or raise if rows differ in length or text and numbers are mixed."""
    try:
        array: AnyArray = np.asarray(values)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{what}: not an array, {error}") from error
    # numpy turns numbers beside text into text, without a word.
    if array.dtype.kind in "US" and not isinstance(values, np.ndarray) and array.ndim == 1:
        items: Iterable[object] = values  # type: ignore[assignment]
        if not all(isinstance(item, str | bytes) for item in items):
            raise InputError(f"{what} mixes text with other things: give numbers, or text alone")
    return array


def parse_positions(values: npt.ArrayLike, dtype: npt.DTypeLike | None = None, what: str = "positions") -> AnyArray:
    """Return positions as an array ``(rows, ndim)`` of finite numbers.

    Raises
    ------
    InputError
        If the shape or dtype is wrong, or a position is NaN or infinite; names the row.
    """
    array = as_array(values, what)
    if array.ndim != PAIR or not 1 <= array.shape[1] <= MAX_NDIM:
        raise InputError(f"{what} have shape (rows, 1 to {MAX_NDIM}), not {array.shape}")
    if array.dtype.name not in _POSITION_DTYPES:
        raise InputError(f"{what} are integers or floats of at most 64 bits, not {array.dtype}")
    if array.dtype.kind == "f":
        finite = np.isfinite(array)
        if not finite.all():
            bad = ~finite.all(axis=1)
            row = int(np.argmax(bad))
            raise InputError(f"{what}: row {row} is {array[row].tolist()}, not finite ({int(bad.sum())} such rows)")
    target = array.dtype.newbyteorder("=") if dtype is None else _position_dtype(dtype, what)
    if target == array.dtype:
        return array
    with np.errstate(over="ignore", invalid="ignore"):
        converted = array.astype(target)
    if target.kind in "iu" and not np.array_equal(converted, array):
        raise InputError(f"{what} do not fit in {target} without change: round them first")
    if target.kind == "f" and not np.isfinite(converted).all():
        raise InputError(f"{what} do not fit in {target}: some become infinite")
    return converted


def rounding_error(given: npt.ArrayLike, stored: AnyArray) -> float:
    """Return the largest change of a coordinate that a conversion of dtype made."""
    before = np.asarray(given)
    # numpy calls it safe to turn an int64 into a double, which is not exact.
    is_exact = np.can_cast(before.dtype, stored.dtype, casting="safe") and before.dtype.name not in _LONG_INTEGERS
    if before.dtype == stored.dtype or is_exact:
        return 0.0
    error = 0.0
    for old, new in zip(before.T, stored.T, strict=True):
        # Wider than a double where there is such a type: an int64 may not fit in a double.
        change = np.abs(old.astype(np.longdouble) - new.astype(np.longdouble))
        error = max(error, float(change.max(initial=0)))
    return error


def parse_columns(
    attributes: Mapping[str, npt.ArrayLike | Column] | None,
    num_rows: int,
    what: str,
    channel_names: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Column]:
    """Return attributes as columns of ``num_rows`` rows each; text becomes numbers of categories."""
    columns: dict[str, Column] = {}
    for name, values in (attributes or {}).items():
        names = (channel_names or {}).get(name)
        column = values if isinstance(values, Column) else parse_column(values, f"{what} {name!r}", names)
        if len(column.values) != num_rows:
            raise InputError(f"{what} {name!r} has {len(column.values)} rows, {num_rows} are needed")
        columns[name] = column
    return columns


def parse_link_columns(attributes: Mapping[str, npt.ArrayLike | Column], num_links: int) -> dict[str, Column]:
    """Return attributes of links; one name is taken by what the store itself tells of a link."""
    if OBJECT_ID_ATTRIBUTE in attributes:
        raise InputError(f"{OBJECT_ID_ATTRIBUTE!r} is the store's own link attribute: the object that a link is of")
    return parse_columns(attributes, num_links, "link attribute")


def parse_column(values: npt.ArrayLike, what: str, channel_names: Sequence[str] | None = None) -> Column:
    """Return one attribute: its dtype as given, text as numbers of sorted categories."""
    array = as_array(values, what)
    if array.ndim not in (1, PAIR) or (array.ndim == PAIR and array.shape[1] == 0):
        raise InputError(f"{what} has shape (rows,) or (rows, channels), not {array.shape}")
    if channel_names is not None and array.shape[1:] != (len(channel_names),):
        raise InputError(f"{what} has {len(channel_names)} channel names and shape {array.shape}")
    names = None if channel_names is None else tuple(channel_names)
    if array.dtype.name in ROW_DTYPES:
        return Column(array, names)
    if array.dtype.kind == "O" and not all(isinstance(value, str) for value in array.flat):
        raise InputError(f"{what} mixes text with other things: give numbers, or text alone")
    if array.dtype.kind not in "OUT":
        raise InputError(f"{what} is numbers ({', '.join(ROW_DTYPES)}) or text, not {array.dtype}")
    if array.ndim != 1:
        raise InputError(f"{what} is text, which has one value a row")
    categories, codes = np.unique(array.astype(str), return_inverse=True)
    narrow = np.min_scalar_type(max(len(categories) - 1, 0))
    return Column(codes.reshape(-1).astype(narrow), None, tuple(categories.tolist()))


def is_flat_ragged(values: object) -> bool:
    """Tell whether this is ``(values, offsets)``, and not a list of arrays."""
    if not isinstance(values, tuple) or len(values) != PAIR:
        return False
    rows, offsets = (np.asarray(item) if _is_regular(item) else np.empty(()) for item in values)
    if rows.ndim == 0 or offsets.ndim != 1 or offsets.size == 0 or offsets.dtype.kind not in "iu":
        return False
    # A list of two arrays has rows of one shape; where it can't be one, bad offsets are an error later on.
    return rows.ndim > 1 or _are_offsets(offsets, len(rows))


def parse_ragged(values: RaggedLike, what: str) -> tuple[AnyArray, IntArray]:
    """Return lists of rows as flat values and offsets; ``(values, offsets)`` never becomes a list."""
    if hasattr(values, "vertices") and hasattr(values, "offsets"):
        values = (values.vertices, values.offsets)
    if is_flat_ragged(values):
        flat, offsets = np.asarray(values[0]), np.asarray(values[1])
        if not _are_offsets(offsets, len(flat)):
            raise InputError(f"{what}: offsets begin at 0, never fall, and end at the {len(flat)} rows there are")
        return flat, offsets.astype(np.int64, copy=False)
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputError(f"{what} is a list of arrays, or (values, offsets), not {type(values).__name__}")
    arrays = [as_array(item, f"{what}, entry {number}") for number, item in enumerate(values)]
    if any(item.ndim == 0 for item in arrays):
        raise InputError(f"{what} is a list of arrays, or (values, offsets)")
    counts = np.array([len(item) for item in arrays], dtype=np.int64)
    filled = [item for item in arrays if len(item)]
    shapes = {item.shape[1:] for item in filled}
    if len(shapes) > 1:
        raise InputError(f"{what}: rows differ in shape: {', '.join(map(str, sorted(shapes)))}")
    if len({item.dtype.kind in "UOT" for item in filled}) > 1:
        raise InputError(f"{what} mixes text with other things: give numbers, or text alone")
    wide = [item for item in arrays if item.ndim > 1]
    flat = np.concatenate(filled) if filled else (wide[0] if wide else np.empty(0))
    return flat, offsets_from_counts(counts)


def parse_object_ids(object_ids: npt.ArrayLike | None, num_rows: int, what: str = "object_ids") -> IntArray | None:
    """Return one non-negative object id a row."""
    if object_ids is None:
        return None
    array = as_array(object_ids, what)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu" or array.shape != (num_rows,):
        raise InputError(f"{what} is one integer for each of {num_rows} rows, not {array.dtype} {array.shape}")
    if array.size == 0:
        return array.astype(np.int64)
    lowest, highest = int(array.min()), int(array.max())
    if lowest < 0:
        raise InputError(f"{what}: row {int(np.argmin(array))} is {lowest}, ids are not negative")
    if highest >= max(MOST_UNUSED_IDS, 4 * num_rows):
        raise InputError(
            f"{what}: {highest} is too large for {num_rows} rows: ids count the objects from 0, so number them anew "
            "and keep yours as an object attribute"
        )
    return array.astype(np.int64)


def parse_numbers(
    values: npt.ArrayLike, below: int, shape: tuple[int | None, ...], what: str, counted: str = "vertices"
) -> IntArray:
    """Return numbers of vertices, each from 0 to ``below - 1``; ``None`` in the shape stands for any length."""
    array = as_array(values, what)
    if array.size == 0:
        array = np.empty(tuple(extent or 0 for extent in shape), dtype=np.int64)
    good_shape = array.ndim == len(shape) and all(
        extent in (None, found) for extent, found in zip(shape, array.shape, strict=False)
    )
    if array.dtype.kind not in "iu" or not good_shape:
        wanted = "(" + ", ".join("n" if extent is None else str(extent) for extent in shape) + ")"
        raise InputError(f"{what} are integers of shape {wanted}, not {array.dtype} {array.shape}")
    numbers = array.astype(np.int64)
    # A huge unsigned number becomes a negative one, and is refused as such.
    bad = (numbers < 0) | (numbers >= below)
    if bad.any():
        row = int(np.argwhere(bad)[0][0])
        raise InputError(f"{what}: row {row} is {array[row].tolist()}, there are {below} {counted}")
    return numbers


def parse_groups(groups: object, num_objects: int) -> Ragged | None:
    """Return the members of each group: a list of lists, a mapping from group number, or (values, offsets)."""
    if groups is None:
        return None
    if isinstance(groups, Mapping):
        members = {_group_number(number): ids for number, ids in groups.items()}
        # A number that is left out is an empty group.
        groups = [members.get(number, ()) for number in range(max(members, default=-1) + 1)]
    flat, offsets = parse_ragged(groups, "groups")  # type: ignore[arg-type]
    ids = parse_numbers(flat, num_objects, (None,), "members of groups", "objects")
    return Ragged(ids, offsets)


def _position_dtype(dtype: npt.DTypeLike, what: str) -> np.dtype[np.generic]:
    try:
        target: np.dtype[np.generic] = np.dtype(dtype).newbyteorder("=")
    except TypeError as error:
        raise InputError(f"dtype of {what}: {error}") from error
    if target.name not in _POSITION_DTYPES:
        raise InputError(f"dtype of {what} is an integer or a float of at most 64 bits, not {target}")
    return target


def _group_number(number: object) -> int:
    try:
        found = operator.index(number)  # type: ignore[arg-type]
    except TypeError as error:
        raise InputError(f"group numbers are integers, not {number!r}") from error
    if not 0 <= found < MOST_UNUSED_IDS:
        raise InputError(f"group numbers count the groups from 0, {found} is none")
    return found


def _is_regular(values: object) -> bool:
    """Tell whether numpy can make an array of this without an error; lists of lists may be ragged."""
    if isinstance(values, np.ndarray):
        return True
    try:
        np.asarray(values)
    except (TypeError, ValueError):
        return False
    return True


def _are_offsets(offsets: AnyArray, num_rows: int) -> bool:
    numbers = offsets.astype(np.int64)
    return bool(numbers[0] == 0 and (np.diff(numbers) >= 0).all() and numbers[-1] == num_rows)
