from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.workflows.lang.go_numbers import (
    divide,
    format_float,
    parse_clamped_int,
    parse_float,
    parse_int,
    parse_prefixed_int,
    power,
    quotient,
    remainder,
    to_int,
    wrap_int64,
)

MOST, LEAST = 2**63 - 1, -(2**63)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (-2.5, "-2.5"),
        (100000.0, "100000"),
        (123456.5, "123456.5"),
        (1000000.0, "1e+06"),
        (1234567.0, "1.234567e+06"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1.5e-7, "1.5e-07"),
        (1e100, "1e+100"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_floats_print_as_in_go(number: float, text: str) -> None:
    assert format_float(number) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_printed_float_reads_as_itself(number: float) -> None:
    assert parse_float(format_float(number)) == number


@pytest.mark.parametrize(
    ("number", "wrapped"), [(5, 5), (MOST, MOST), (MOST + 1, LEAST), (LEAST - 1, MOST), (2**64, 0)]
)
def test_integers_have_64_bits(number: int, wrapped: int) -> None:
    assert wrap_int64(number) == wrapped


@pytest.mark.parametrize(("number", "cut"), [(1.9, 1), (-1.9, -1), (1e30, LEAST), (math.nan, LEAST)])
def test_floats_are_truncated(number: float, cut: int) -> None:
    assert to_int(number) == cut


@pytest.mark.parametrize(
    ("text", "number"),
    [("12", 12), ("-7", -7), ("+7", 7), ("", None), ("1.5", None), (" 1", None), ("1_0", None), (str(MOST + 1), None)],
)
def test_plain_integers(text: str, number: int | None) -> None:
    assert parse_int(text) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12", 12),
        ("0x1F", 31),
        ("-0b11", -3),
        ("0o17", 15),
        ("017", 15),
        ("0", 0),
        ("1_000", 1000),
        ("08", None),
        ("1__0", None),
        ("x", None),
        ("", None),
    ],
)
def test_integers_as_in_source(text: str, number: int | None) -> None:
    assert parse_prefixed_int(text) == number


@pytest.mark.parametrize(("text", "number"), [("9" * 30, MOST), ("-" + "9" * 90, LEAST), ("x", 0), ("12", 12)])
def test_integers_that_do_not_fit_are_clamped(text: str, number: int) -> None:
    assert parse_clamped_int(text) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1.5", 1.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("-1e3", -1000.0),
        ("1_000.5", 1000.5),
        ("0x1p-2", 0.25),
        ("inf", math.inf),
        ("-Infinity", -math.inf),
        ("1e999", None),
        ("", None),
        ("1e", None),
        ("0x1", None),
        ("one", None),
        ("9" * 2000, None),
    ],
)
def test_floats(text: str, number: float | None) -> None:
    assert parse_float(text) == number


@pytest.mark.parametrize(
    ("base", "exponent", "result"),
    [(2, 10, 1024), (2, -1, 0.5), (9, 999, math.inf), (-9, 999, -math.inf), (0, -1, math.inf), (-0.0, -1, -math.inf)],
)
def test_powers_never_raise(base: float, exponent: float, result: float) -> None:
    assert power(base, exponent) == result
    assert math.isnan(power(-8, 1 / 3))


@pytest.mark.parametrize(("a", "b", "result"), [(7, 2, 3.5), (1, 0, math.inf), (-1, 0, -math.inf)])
def test_divisions_never_raise(a: float, b: float, result: float) -> None:
    assert divide(a, b) == result
    assert math.isnan(divide(0, 0))


@given(st.integers(LEAST, MOST), st.integers(LEAST, MOST).filter(bool))
def test_quotient_and_remainder_belong_together(a: int, b: int) -> None:
    assert wrap_int64(quotient(a, b) * b + remainder(a, b)) == a
    assert abs(remainder(a, b)) < abs(b)
    assert remainder(a, b) == 0 or (remainder(a, b) < 0) == (a < 0)
