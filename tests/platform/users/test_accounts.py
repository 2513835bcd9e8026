from __future__ import annotations

import pytest

from muster.platform.users.accounts import NAME, free_name


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("ann", True),
        ("a", True),
        ("ann.lee-2_x", True),
        ("2cents", True),
        ("", False),
        ("Ann", False),
        ("-ann", False),
        ("ann-", False),
        ("ann lee", False),
        ("ann/lee", False),
        ("安", False),
        ("a" * 63, True),
        ("a" * 64, False),
    ],
)
def test_names_are_valid_in_urls_and_file_names(name: str, good: bool) -> None:
    assert bool(NAME.fullmatch(name)) is good


@pytest.mark.parametrize(
    ("wished", "used", "expected"),
    [
        ("ann", [], "ann"),
        ("Ann Lee", [], "ann-lee"),
        ("ann@example.com", [], "ann"),
        ("ann", ["ann"], "ann-2"),
        ("ann", ["ann", "ann-2", "ann-4"], "ann-3"),
        ("安", [], "user"),
        ("..//..", [], "user"),
        ("x" * 100, [], "x" * 56),
    ],
)
def test_an_external_name_becomes_a_free_valid_one(wished: str, used: list[str], expected: str) -> None:
    assert free_name(wished, used) == expected
    assert NAME.fullmatch(expected)
