from typing import Any

import numpy as np
import pytest

from zarr_vectors.exceptions import InputError
from zarr_vectors.query.selection import Selection

NOTHING: dict[str, Any] = dict.fromkeys(("bbox", "object_ids", "groups", "attributes", "where", "limit", "crop"), None)


def parsed(**given: Any) -> Selection:
    return Selection.parse(2, **{**NOTHING, **given})


def test_nothing_narrows_nothing() -> None:
    assert parsed() == Selection()


def test_ids_keep_their_order_and_come_once() -> None:
    ids = parsed(object_ids=[5, 2, 5, 0, 2]).object_ids
    assert ids is not None
    assert ids.tolist() == [5, 2, 0]


@pytest.mark.parametrize("ids", [7, np.uint8(7), [7], (7,), np.array([7])])
def test_one_id_may_stand_alone(ids: Any) -> None:
    found = parsed(object_ids=ids).object_ids
    assert found is not None
    assert found.tolist() == [7]


def test_an_empty_list_of_ids_is_no_objects() -> None:
    found = parsed(object_ids=[]).object_ids
    assert found is not None
    assert found.tolist() == []


@pytest.mark.parametrize("ids", [1.5, ["a"], [[1, 2]], [True]])
def test_ids_that_are_no_integers(ids: Any) -> None:
    with pytest.raises(InputError, match="object_ids are integers, not "):
        parsed(object_ids=ids)
    with pytest.raises(InputError, match="groups are integers, not "):
        parsed(groups=ids)


def test_groups_by_number_or_by_condition() -> None:
    numbers = parsed(groups=[2, 1]).groups
    assert numbers is not None
    assert numbers.tolist() == [2, 1]
    by_condition = parsed(groups={"kind": "tract"})
    assert by_condition.groups is None
    assert by_condition.group_conditions[0].name == "kind"


def test_a_negative_limit() -> None:
    with pytest.raises(InputError, match="limit is not negative, -1 is"):
        parsed(limit=-1)


def test_one_attribute_is_a_list_too() -> None:
    with pytest.raises(InputError, match=r"attributes is a list of names: \['fa'\]"):
        parsed(attributes="fa")
    assert parsed(attributes=[]).attributes == ()
