from __future__ import annotations

from typing import Any

import pytest

from muster.workflows.lang.clock import SYSTEM_CLOCK
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_time_values import Duration, Month, Time
from muster.workflows.lang.go_values import (
    AnyMap,
    Function,
    Int64,
    NilList,
    Strings,
    deep_equal,
    equality_key,
    format_value,
    go_kind,
    go_type,
)


@pytest.mark.parametrize(
    ("value", "kind", "name", "text"),
    [
        (None, "invalid", "<nil>", "<nil>"),
        (True, "bool", "bool", "true"),
        (3, "int", "int", "3"),
        (Int64(3), "int64", "int64", "3"),
        (2.5, "float64", "float64", "2.5"),
        ("a", "string", "string", "a"),
        ([1, "a", None], "slice", "[]interface {}", "[1 a <nil>]"),
        (Strings(["a"]), "slice", "[]string", "[a]"),
        ({"b": 1, "a": [2]}, "map", "map[string]interface {}", "map[a:[2] b:1]"),
        (AnyMap({2: "b", 1: "a"}), "map", "map[interface {}]interface {}", "map[1:a 2:b]"),
        (Duration(1_500_000_000), "int64", "time.Duration", "1.5s"),
        (Month(8), "int", "time.Month", "August"),
        (Time(0), "struct", "time.Time", "1970-01-01 00:00:00 +0000 UTC"),
        (Function("f", "string, ...any", print, "bool"), "func", "func(string, ...interface {}) bool", None),
    ],
)
def test_kinds_types_and_how_values_print(value: Any, kind: str, name: str, text: str | None) -> None:
    assert go_kind(value) == kind
    assert go_type(value) == name
    assert text is None or format_value(value) == text


EQUAL: list[tuple[Any, Any, bool]] = [
    (1, 1, True),
    (1, 1.0, False),
    (1, Int64(1), False),
    (True, 1, False),
    ("a", "a", True),
    (None, None, True),
    ([1, [2]], [1, [2]], True),
    ([], NilList(), False),
    (["a"], Strings(["a"]), False),
    ({"a": [1]}, {"a": [1]}, True),
    ({"a": 1}, {"a": 1.0}, False),
    ({"a": None}, {}, False),
    (Duration(5), 5, False),
    (Time(5), Time(5), True),
]


@pytest.mark.parametrize(("a", "b", "same"), EQUAL)
def test_deep_equality_compares_types(a: Any, b: Any, same: bool) -> None:
    assert deep_equal(a, b) is same
    assert deep_equal(b, a) is same


@pytest.mark.parametrize(("a", "b", "same"), [pair for pair in EQUAL if not isinstance(pair[1], NilList)])
def test_equality_keys_agree_with_deep_equality(a: Any, b: Any, same: bool) -> None:
    assert (equality_key(a) == equality_key(b)) is same


def test_equality_keys_of_numbers() -> None:
    assert equality_key([1, 2.0], of_numbers=True) == equality_key(Strings([1.0, 2]), of_numbers=True)
    assert equality_key(True, of_numbers=True) != equality_key(1, of_numbers=True)


def test_a_function_takes_exactly_its_types() -> None:
    join = Function("join", "string, ...int", lambda text, *numbers: text + repr(numbers))
    assert join("a", clock=SYSTEM_CLOCK) == "a()"
    assert join("a", 1, 2, clock=SYSTEM_CLOCK) == "a(1, 2)"
    assert join(None, None, clock=SYSTEM_CLOCK) == "(0,)"
    for arguments, message in [
        ((), "reflect: Call with too few input arguments"),
        ((1,), "reflect: Call using int as type string"),
        (("a", Int64(1)), "reflect: Call using int64 as type int"),
    ]:
        with pytest.raises(ExpressionError) as caught:
            join(*arguments, clock=SYSTEM_CLOCK)
        assert caught.value.message == message


def test_a_function_that_takes_the_clock_gets_it_first() -> None:
    later = Function("later", "int", lambda clock, seconds: clock.now() + seconds, takes_clock=True)
    assert later(3, clock=SYSTEM_CLOCK._replace(now=lambda: 4)) == 7
