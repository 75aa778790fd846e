"""Conditions on attributes: comparisons, ranges and sets, of vertices, objects or groups.

>>> condition = parse_conditions({"fa": (0.2, None), "kind": ["axon", "glia"]})[0]
>>> condition.holds(np.array([0.1, 0.2, 0.9])).tolist()
[False, True, True]
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from zarr_vectors.exceptions import DecodeError, InputError
from zarr_vectors.typing import AnyArray, BoolArray

SCOPES: Final = ("vertex", "object", "group")
_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_PAIR: Final = 2
_TRIPLE: Final = 3

Where = Mapping[str, Any] | Sequence[tuple[str, str, Any]]
"""``{"fa": (0.2, 0.8)}``, ``{"label": 3}``, ``{"kind": ["a", "b"]}``, ``{"n": (">", 5)}`` or ``[("n", ">", 5)]``."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition on one attribute; all conditions of a query must hold."""

    name: str
    """Attribute name, with ``vertex.``, ``object.`` or ``group.`` in front where it is not clear."""
    test: str
    """An operator, ``in`` or ``range``."""
    value: Any

    def holds(self, values: AnyArray) -> BoolArray:
        """Tell for each value whether the condition holds."""
        if values.ndim != 1:
            raise InputError(f"{self.name!r} has {values.shape[1]} channels: conditions are for one value a row")
        is_text = values.dtype.kind in "UT"
        for item in self._items():
            if isinstance(item, str) != is_text:
                kind = "text" if is_text else "numbers"
                raise InputError(f"{self.name!r} holds {kind}, and is compared with {item!r}")
        column: npt.NDArray[Any] = values
        result = np.ones(len(values), dtype=np.bool_)
        if self.test == "in":
            result = _is_member(column, self.value)
        elif self.test == "range":
            low, high = self.value
            if low is not None:
                result &= column >= _as_stored(low, column)
            if high is not None:
                result &= column <= _as_stored(high, column)
        else:
            result &= _OPERATORS[self.test](column, _as_stored(self.value, column))
        return result

    def _items(self) -> list[Any]:
        """Return everything that values are compared with."""
        if self.test == "range":
            return [item for item in self.value if item is not None]
        return list(self.value) if self.test == "in" else [self.value]


def parse_conditions(where: Where | None) -> tuple[Condition, ...]:
    """Return the conditions that a ``where`` argument states."""
    if where is None:
        return ()
    if isinstance(where, Mapping):
        return tuple(_parse(str(name), value) for name, value in where.items())
    return tuple(_parse_triple(item) for item in where)


def resolve_scope(name: str, known: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    """Return the scope and the attribute that a name means.

    Parameters
    ----------
    name
        As the user gave it.
    known
        The attributes of each scope.
    """
    found = [scope for scope in SCOPES if name in known[scope]]
    if len(found) == 1:
        return found[0], name
    if len(found) > 1:
        choices = ", ".join(f"{scope}.{name}" for scope in found)
        raise InputError(f"{name!r} is an attribute of {' and '.join(found)}: say which, {choices}")
    scope, _, rest = name.partition(".")
    if scope in SCOPES and rest in known[scope]:
        return scope, rest
    listed = ", ".join(f"{scope}.{attribute}" for scope in SCOPES for attribute in known[scope]) or "none at all"
    raise InputError(f"there is no attribute {name!r}, only {listed}")


def _parse(name: str, value: object) -> Condition:
    if isinstance(value, tuple):
        if len(value) != _PAIR:
            raise InputError(f"a range is (low, high), either may be None; {name!r} got {value!r}")
        if isinstance(value[0], str) and value[0] in _OPERATORS:
            return Condition(name, value[0], _scalar(name, value[1]))
        return Condition(name, "range", tuple(None if end is None else _scalar(name, end) for end in value))
    if isinstance(value, list | set | frozenset | range):
        return Condition(name, "in", [_scalar(name, item) for item in value])
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return Condition(name, "in", [_scalar(name, item) for item in value.tolist()])
    return Condition(name, "==", _scalar(name, value))


def _parse_triple(item: object) -> Condition:
    if isinstance(item, list | tuple) and len(item) == _TRIPLE:
        name, test, value = item
        if isinstance(test, str) and test in _OPERATORS:
            return Condition(str(name), test, _scalar(str(name), value))
    raise InputError(f"a condition is (name, one of {', '.join(_OPERATORS)}, value), not {item!r}")


def _scalar(name: str, value: Any) -> Any:  # noqa: ANN401  any number, or text
    plain = value.item() if isinstance(value, np.generic | np.ndarray) and np.ndim(value) == 0 else value
    if isinstance(plain, str | int | float | complex):
        return plain
    raise InputError(f"{name!r} is compared with numbers or text, not with {value!r:.60}")


def _is_member(values: npt.NDArray[Any], items: Sequence[Any]) -> BoolArray:
    """Tell for each value whether it equals one of the items, in the same sense as ``==`` does."""
    if values.dtype.kind in "UT":
        return np.isin(values, np.array(items, dtype=str))
    if values.dtype.kind in "iu" and all(isinstance(item, int) for item in items):
        # In the values' own dtype: numpy would compare a mix of signed and unsigned as doubles.
        limits = np.iinfo(values.dtype)
        fitting = [int(item) for item in items if limits.min <= item <= limits.max]
        return np.isin(values, np.array(fitting, dtype=values.dtype))
    result = np.zeros(len(values), dtype=np.bool_)
    for item in set(items):
        result |= values == _as_stored(item, values)
    return result


def _as_stored(item: Any, values: npt.NDArray[Any]) -> Any:  # noqa: ANN401  any number, or text
    """Return a number in the precision of the values, so that 0.1 equals the float32 that is nearest to it."""
    if values.dtype.kind != "f" or isinstance(item, str | complex):
        return item
    with np.errstate(over="ignore"):
        rounded = values.dtype.type(item)
    # What is too large for the values' dtype is compared as it is.
    return np.array([item], dtype=np.float64) if np.isinf(rounded) else rounded


def decode_categories(values: AnyArray, categories: Sequence[str] | None) -> AnyArray:
    """Return text for numbers of categories; other values as they are."""
    if categories is None:
        return values
    check_categories(values, categories)
    table: AnyArray = np.array(categories or [""], dtype=str)
    return table[values.astype(np.int64)]


def check_categories(values: AnyArray, categories: Sequence[str] | None) -> None:
    """Raise unless every value is the number of a category, where there are any."""
    if categories is None:
        return
    if values.dtype.kind not in "biu":
        raise DecodeError(f"numbers of categories are integers, not {values.dtype}", rule="category")
    numbers = values.astype(np.int64)
    if numbers.size and (numbers.min() < 0 or numbers.max() >= len(categories)):
        raise DecodeError(f"a number is not one of the {len(categories)} categories", rule="category")
