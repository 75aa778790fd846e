from typing import Any

import numpy as np
import pytest

from zarr_vectors.exceptions import DecodeError, InputError
from zarr_vectors.query.conditions import decode_categories, parse_conditions, resolve_scope


def holding(test: Any, values: Any, dtype: str | None = None) -> list[bool]:
    (condition,) = parse_conditions({"x": test})
    return [bool(item) for item in condition.holds(np.array(values, dtype=dtype))]


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        (2, [False, True, False]),
        ((2, None), [False, True, True]),
        ((None, 2), [True, True, False]),
        ((2, 2), [False, True, False]),
        ((None, None), [True, True, True]),
        ((3, 1), [False, False, False]),
        ((">", 2), [False, False, True]),
        ((">=", 2), [False, True, True]),
        (("<", 2), [True, False, False]),
        (("<=", 2), [True, True, False]),
        (("!=", 2), [True, False, True]),
        (("==", 2), [False, True, False]),
        ([1, 3, 99], [True, False, True]),
        ({1, 2.0}, [True, True, False]),
        (frozenset([3]), [False, False, True]),
        (range(2, 9), [False, True, True]),
        (np.array([1, 2]), [True, True, False]),
        (np.int8(2), [False, True, False]),
        (np.array(2), [False, True, False]),
        ([], [False, False, False]),
        (2.5, [False, False, False]),
        (True, [True, False, False]),
    ],
)
@pytest.mark.parametrize("dtype", ["u1", "i8", "u8", "f2", "f4", "f8"])
def test_numbers(test: Any, expected: list[bool], dtype: str) -> None:
    assert holding(test, [1, 2, 3], dtype) == expected


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("b", [False, True]),
        (["a", "zz"], [True, False]),
        ([], [False, False]),
        (("b", None), [False, True]),
        ((None, None), [True, True]),
        (("!=", "a"), [False, True]),
        (np.str_("a"), [True, False]),
    ],
)
def test_text(test: Any, expected: list[bool]) -> None:
    assert holding(test, ["a", "b"]) == expected


def test_a_number_equals_the_float_that_is_nearest_to_it() -> None:
    for test in (0.1, [0.1], (0.1, 0.1), ("==", 0.1), np.float64(0.1)):
        assert holding(test, [0.1, 0.2], "f4") == [True, False]


def test_a_number_too_large_for_the_dtype_equals_nothing() -> None:
    assert holding([1e30], [1.0, np.inf], "f2") == [False, False]
    assert holding(("<", 1e30), [1.0, np.inf], "f2") == [True, False]
    assert holding([300, -1, 5], [5, 44], "u1") == [True, False]
    assert holding([2**64 - 1, -1], [2**64 - 1, 2**64 - 2], "u8") == [True, False]


def test_booleans() -> None:
    assert holding(("==", True), [True, False]) == [True, False]
    assert holding([0], [True, False]) == [False, True]


def test_nan_is_in_no_range_and_equals_nothing() -> None:
    assert holding((0, None), [np.nan, 1]) == [False, True]
    assert holding(float("nan"), [np.nan, 1]) == [False, False]


def test_triples() -> None:
    first, second = parse_conditions([("x", ">", 1), ("y", "==", "a")])
    assert (first.name, first.test, first.value) == ("x", ">", 1)
    assert second.holds(np.array(["a"])).tolist() == [True]


@pytest.mark.parametrize("item", ["x>1", ("x", ">"), ("x", "~", 1), ("x", ["=="], 1), 5])
def test_what_is_not_a_triple(item: Any) -> None:
    with pytest.raises(InputError, match=r"a condition is \(name, one of ==, !=, <, <=, >, >=, value\), not "):
        parse_conditions([item])


def test_a_tuple_of_three_is_no_range() -> None:
    with pytest.raises(InputError, match=r"a range is \(low, high\), either may be None; 'x' got \(1, 2, 3\)"):
        parse_conditions({"x": (1, 2, 3)})


@pytest.mark.parametrize("value", [None, {}, object(), [None], (1, []), np.ones((2, 2)), b"a"])
def test_what_nothing_can_be_compared_with(value: Any) -> None:
    with pytest.raises(InputError, match="'x' is compared with numbers or text, not with "):
        parse_conditions({"x": value})


@pytest.mark.parametrize("test", ["a", ["a"], ["a", 1], ("a", None), (">", "a")])
def test_text_is_not_compared_with_numbers(test: Any) -> None:
    with pytest.raises(InputError, match="'x' holds numbers, and is compared with 'a'"):
        holding(test, [1, 2])


def test_numbers_are_not_compared_with_text() -> None:
    with pytest.raises(InputError, match="'x' holds text, and is compared with 1"):
        holding(["a", 1], ["a"])


def test_channels_can_not_be_compared() -> None:
    with pytest.raises(InputError, match="'x' has 3 channels: conditions are for one value a row"):
        holding(1, np.ones((2, 3)))


def test_no_conditions() -> None:
    assert parse_conditions(None) == ()
    assert parse_conditions({}) == ()


SCOPES = {"vertex": ["fa", "n"], "object": ["n", "vertex.fa"], "group": ["kind"]}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fa", ("vertex", "fa")),
        ("kind", ("group", "kind")),
        ("group.kind", ("group", "kind")),
        ("object.n", ("object", "n")),
        ("vertex.fa", ("object", "vertex.fa")),
    ],
)
def test_names_find_their_scope(name: str, expected: tuple[str, str]) -> None:
    assert resolve_scope(name, SCOPES) == expected


def test_a_name_in_two_scopes() -> None:
    with pytest.raises(InputError, match=r"'n' is an attribute of vertex and object: say which, vertex\.n, object\.n"):
        resolve_scope("n", SCOPES)


def test_a_name_in_no_scope() -> None:
    with pytest.raises(InputError, match=r"there is no attribute 'x', only vertex\.fa, vertex\.n, object\.n"):
        resolve_scope("x", SCOPES)
    with pytest.raises(InputError, match="there is no attribute 'x', only none at all"):
        resolve_scope("x", {"vertex": [], "object": [], "group": []})


def test_categories_become_text() -> None:
    assert decode_categories(np.array([1, 0, 1]), ["a", "b"]).tolist() == ["b", "a", "b"]
    assert decode_categories(np.array([1, 0]), None).tolist() == [1, 0]
    assert decode_categories(np.empty(0, "u1"), []).tolist() == []


def test_a_number_without_a_category() -> None:
    with pytest.raises(DecodeError, match="a number is not one of the 2 categories") as error:
        decode_categories(np.array([2]), ["a", "b"])
    assert error.value.rule == "category"
