from __future__ import annotations

from typing import Any

import pytest

from tests.workflows.lang.sample_scope import value_of


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("trim('  a ')", "a"),
        ("trim('__a__', '_')", "a"),
        ("trimPrefix('HelloWorld', 'Hello')", "World"),
        ("trimSuffix('HelloWorld', 'World')", "Hello"),
        ("trimPrefix(' a')", "a"),
        ("upper('hello é')", "HELLO É"),
        ("lower('HELLO É')", "hello é"),
        ("split('a,b,c', ',')", ["a", "b", "c"]),
        ("split('a,b,c', ',', 2)", ["a", "b,c"]),
        ("split('abc', '')", ["a", "b", "c"]),
        ("split('abc', ',', 0) == nil", True),
        ("splitAfter('a,b,c', ',')", ["a,", "b,", "c"]),
        ("splitAfter('a,b,c', ',', 2)", ["a,", "b,c"]),
        ("replace('aaa', 'a', 'b')", "bbb"),
        ("replace('aaa', 'a', 'b', 2)", "bba"),
        ("replace('ab', '', '-')", "-a-b-"),
        ("repeat('Hi', 3)", "HiHiHi"),
        ("repeat('a', 0)", ""),
        ("join(['a', 'b'], '-')", "a-b"),
        ("join(['a', 'b'])", "ab"),
        ("join(split('a b', ' '), '+')", "a+b"),
        ("indexOf('apple pie', 'pie')", 6),
        ("indexOf('a', 'x')", -1),
        ("indexOf('éx', 'x')", 2),
        ("lastIndexOf('apple pie apple', 'apple')", 10),
        ("hasPrefix('HelloWorld', 'Hello')", True),
        ("hasSuffix('HelloWorld', 'World')", True),
        ("len('héllo')", 5),
    ],
)
def test_strings(expression: str, value: Any) -> None:
    assert value_of(expression) == value
