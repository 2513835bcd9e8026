from __future__ import annotations

from typing import Any

import pytest

from tests.workflows.lang.sample_scope import value_of


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("sprig.base('foo/bar/baz')", "baz"),
        ("sprig.base('')", "."),
        ("sprig.base('/')", "/"),
        ("sprig.base('a/')", "a"),
        ("sprig.dir('foo/bar/baz')", "foo/bar"),
        ("sprig.dir('/a')", "/"),
        ("sprig.dir('a')", "."),
        ("sprig.clean('foo/bar/../baz')", "foo/baz"),
        ("sprig.clean('/../a//b/./c/')", "/a/b/c"),
        ("sprig.clean('../a')", "../a"),
        ("sprig.clean('')", "."),
        ("sprig.ext('foo.tar.gz')", ".gz"),
        ("sprig.ext('a.b/c')", ""),
        ("sprig.isAbs('/a')", True),
        ("sprig.isAbs('a')", False),
        ("sprig.osBase('/a/b')", "b"),
    ],
)
def test_paths(expression: str, value: Any) -> None:
    assert value_of(expression) == value
