from __future__ import annotations

from typing import Any

import pytest

from tests.workflows.lang.sample_scope import value_of


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("sprig.upper('hello é')", "HELLO É"),
        ("sprig.lower('HELLO')", "hello"),
        ("sprig.title('hello world-wide')", "Hello World-Wide"),
        ("sprig.untitle('Hello World')", "hello world"),
        ("sprig.swapcase('This Is A.Test')", "tHIS iS a.tEST"),
        ("sprig.camelcase('http_server')", "HttpServer"),
        ("sprig.camelcase('_complex__case_')", "_Complex_Case_"),
        ("sprig.camelcase('GOLANG_IS_GREAT')", "GolangIsGreat"),
        ("sprig.camelcase('')", ""),
        ("sprig.camelcase('--')", "---"),
        ("sprig.snakecase('FirstName')", "first_name"),
        ("sprig.snakecase('HTTPServer')", "http_server"),
        ("sprig.snakecase('NoHTTPS')", "no_https"),
        ("sprig.snakecase('GO PATH')", "go_path"),
        ("sprig.snakecase('http2xx')", "http_2xx"),
        ("sprig.snakecase('HTTP20xOK')", "http_20x_ok"),
        ("sprig.snakecase('Duration2m3s')", "duration_2m3s"),
        ("sprig.snakecase('Bld4Floor3rd')", "bld4_floor_3rd"),
        ("sprig.kebabcase('FirstName')", "first-name"),
        ("sprig.kebabcase('some words.and-more')", "some-words.and-more"),
    ],
)
def test_cases(expression: str, value: Any) -> None:
    assert value_of(expression) == value
