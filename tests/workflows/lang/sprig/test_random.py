from __future__ import annotations

import base64
import re

import pytest

from tests.workflows.lang.sample_scope import complaint_about, value_of


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
    assert complaint_about("sprig.randInt(5, 5)") == "invalid argument to Intn (1:7)"


def test_the_dice_are_those_of_the_caller() -> None:
    assert value_of("sprig.uuidv4()") == value_of("sprig.uuidv4()")
