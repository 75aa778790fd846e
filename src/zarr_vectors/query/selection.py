"""What a query asks for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from zarr_vectors.exceptions import InputError
from zarr_vectors.query.conditions import Condition, Where, parse_conditions
from zarr_vectors.spatial.bbox import BoundingBox
from zarr_vectors.typing import IntArray

GroupSelection = int | Sequence[int] | Mapping[str, Any]
"""Group numbers, or conditions on group attributes."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Everything that narrows a read; all parts combine."""

    bbox: BoundingBox | None = None
    object_ids: IntArray | None = None
    """In the order asked for, each once."""
    groups: IntArray | None = None
    group_conditions: tuple[Condition, ...] = ()
    attributes: tuple[str, ...] | None = None
    """``None``: all."""
    conditions: tuple[Condition, ...] = ()
    limit: int | None = None
    crop: bool | None = None
    """``None``: what the geometry's users expect."""

    @classmethod
    def parse(
        cls,
        ndim: int,
        *,
        bbox: Sequence[npt.ArrayLike] | None,
        object_ids: int | npt.ArrayLike | None,
        groups: GroupSelection | None,
        attributes: Sequence[str] | None,
        where: Where | None,
        limit: int | None,
        crop: bool | None,
    ) -> Self:
        """Return the selection that the arguments of a read state, or raise `InputError`."""
        if limit is not None and limit < 0:
            raise InputError(f"limit is not negative, {limit} is")
        if isinstance(attributes, str):
            raise InputError(f"attributes is a list of names: [{attributes!r}]")
        by_number = groups is not None and not isinstance(groups, Mapping)
        return cls(
            bbox=None if bbox is None else BoundingBox.parse(bbox, ndim),
            object_ids=None if object_ids is None else _numbers(object_ids, "object_ids"),
            groups=_numbers(groups, "groups") if by_number else None,
            group_conditions=parse_conditions(groups) if isinstance(groups, Mapping) else (),
            attributes=None if attributes is None else tuple(attributes),
            conditions=parse_conditions(where),
            limit=limit,
            crop=crop,
        )


def _numbers(values: object, what: str) -> IntArray:
    array = np.atleast_1d(np.asarray(values))
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(f"{what} are integers, not {values!r:.60}")
    numbers, first = np.unique(array.astype(np.int64), return_index=True)
    return numbers[np.argsort(first, kind="stable")]
