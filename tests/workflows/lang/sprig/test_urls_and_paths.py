from __future__ import annotations

from typing import Any

import pytest

from tests.workflows.lang.sample_scope import value_of


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (
            "sprig.urlParse('http://admin:secret@server.com:8080/api?list=false#anchor')",
            {
                "fragment": "anchor",
                "host": "server.com:8080",
                "hostname": "server.com",
                "opaque": "",
                "path": "/api",
                "query": "list=false",
                "scheme": "http",
                "userinfo": "admin:secret",
            },
        ),
        ("sprig.urlParse('mailto:ada@example.org').opaque", "ada@example.org"),
        ("sprig.urlParse('/a%20b').path", "/a b"),
        ("sprig.urlParse('http://[::1]:80/').hostname", "::1"),
        (
            "sprig.urlJoin({'scheme': 'http', 'host': 'host:80', 'path': '/a b', 'query': 'q', 'fragment': 'f g'})",
            "http://host:80/a%20b?q#f%20g",
        ),
        ("sprig.urlJoin({'host': 'h', 'path': 'p'})", "//h/p"),
        ("sprig.urlJoin(sprig.urlParse('https://u:p@h/x?y=1#z'))", "https://u:p@h/x?y=1#z"),
    ],
)
def test_urls(expression: str, value: Any) -> None:
    assert value_of(expression) == value


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
