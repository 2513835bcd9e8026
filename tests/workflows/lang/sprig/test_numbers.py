from __future__ import annotations

import base64
import re
from typing import Any

import pytest

from tests.workflows.lang.sample_scope import error_message, value_of


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("sprig.atoi('12')", 12),
        ("sprig.atoi('x')", 0),
        ("sprig.int('3.00')", 3),
        ("sprig.int('0x1F')", 31),
        ("sprig.int('017')", 15),
        ("sprig.int('1_000')", 1000),
        ("sprig.int('x')", 0),
        ("sprig.int(nil)", 0),
        ("sprig.int(true)", 1),
        ("sprig.int(-2.7)", -2),
        ("sprig.int64('7')", 7),
        ("sprig.float64('1.5')", 1.5),
        ("sprig.float64('x')", 0.0),
        ("sprig.float64(true)", 1.0),
        ("sprig.toDecimal('777')", 511),
        ("sprig.toDecimal('9')", 0),
        ("sprig.add1(5)", 6),
        ("sprig.add(1, 2, '3')", 6),
        ("sprig.add()", 0),
        ("sprig.sub(5, 2)", 3),
        ("sprig.mul(2, 3, 4)", 24),
        ("sprig.div(7, 2)", 3),
        ("sprig.div(-7, 2)", -3),
        ("sprig.mod(-7, 3)", -1),
        ("sprig.max(1, 3, 2)", 3),
        ("sprig.biggest(1, 3)", 3),
        ("sprig.min(1, 3, -2)", -2),
        ("sprig.add1f(1.5)", 2.5),
        ("sprig.addf(1.5, 2, 2)", 5.5),
        ("sprig.addf(0.1, 0.2)", 0.3),
        ("sprig.subf(7.5, 2, 3)", 2.5),
        ("sprig.mulf(1.1, 1.1)", 1.21),
        ("sprig.divf(10, 4)", 2.5),
        ("sprig.divf(1, 3)", 0.3333333333333333),
        ("sprig.maxf(1, 2.5)", 2.5),
        ("sprig.minf(1, 2.5)", 1.0),
        ("sprig.ceil(123.001)", 124.0),
        ("sprig.floor('123.9')", 123.0),
        ("sprig.round(123.555555, 3)", 123.556),
        ("sprig.round(123.3, 0, 0.2)", 124.0),
        ("sprig.round(-2.5, 0)", -3.0),
        ("sprig.until(5)", [0, 1, 2, 3, 4]),
        ("sprig.until(-2)", [0, -1]),
        ("sprig.untilStep(3, 6, 2)", [3, 5]),
        ("sprig.untilStep(6, 3, -1)", [6, 5, 4]),
        ("sprig.untilStep(3, 6, -1)", []),
        ("sprig.seq(5)", "1 2 3 4 5"),
        ("sprig.seq(-3)", "1 0 -1 -2 -3"),
        ("sprig.seq(2, 5)", "2 3 4 5"),
        ("sprig.seq(0, 2, 10)", "0 2 4 6 8 10"),
        ("sprig.seq(0, -2, -5)", "0 -2 -4"),
        ("sprig.seq(5, 1, 0)", ""),
        ("sprig.seq()", ""),
    ],
)
def test_arithmetic(expression: str, value: Any) -> None:
    assert value_of(expression) == value


@pytest.mark.parametrize(
    ("expression", "pattern"),
    [
        ("sprig.randAlphaNum(20)", "[a-zA-Z0-9]{20}"),
        ("sprig.randAlpha(5)", "[a-zA-Z]{5}"),
        ("sprig.randNumeric(3)", "[0-9]{3}"),
        ("sprig.randAscii(50)", "[ -~]{50}"),
        ("sprig.randAlpha(0)", ""),
        ("sprig.randAlpha(-1)", ""),
        ("sprig.uuidv4()", "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"),
        ("sprig.shuffle('aabb')", "[ab]{4}"),
    ],
)
def test_random_texts(expression: str, pattern: str) -> None:
    assert re.fullmatch(pattern, value_of(expression))


def test_random_numbers_and_bytes() -> None:
    assert all(3 <= value_of("sprig.randInt(3, 5)") < 5 for _ in range(20))
    assert len(base64.b64decode(value_of("sprig.randBytes(16)"))) == 16
    assert error_message("sprig.randInt(5, 5)") == "invalid argument to Intn (1:7)"


def test_random_numbers_come_from_the_clock() -> None:
    assert value_of("sprig.uuidv4()") == value_of("sprig.uuidv4()")
