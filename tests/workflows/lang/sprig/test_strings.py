from __future__ import annotations

from typing import Any

import pytest

from muster.workflows.lang.go_strings import replace_invalid_bytes
from tests.workflows.lang.sample_scope import value_of


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("sprig.hello()", "Hello!"),
        ("sprig.abbrev(5, 'hello world')", "he..."),
        ("sprig.abbrev(3, 'hello')", "hello"),
        ("sprig.abbrevboth(5, 10, '1234 5678 9123')", "...5678..."),
        ("sprig.trunc(5, 'hello world')", "hello"),
        ("sprig.trunc(-5, 'hello world')", "world"),
        ("sprig.trunc(2, 'hé')", "h�"),
        ("sprig.trunc(9, 'abc')", "abc"),
        ("sprig.trim('   hello    ')", "hello"),
        ("sprig.trimAll('$', '$5.00')", "5.00"),
        ("sprig.trimall('$', '$5.00')", "5.00"),
        ("sprig.trimSuffix('-', 'hello-')", "hello"),
        ("sprig.trimPrefix('-', '-hello')", "hello"),
        ("sprig.substr(0, 5, 'hello world')", "hello"),
        ("sprig.substr(-1, 5, 'hello world')", "hello"),
        ("sprig.substr(6, -1, 'hello world')", "world"),
        ("sprig.repeat(3, 'hello')", "hellohellohello"),
        ("sprig.nospace('hello w o r l d')", "helloworld"),
        ("sprig.initials('First Try')", "FT"),
        ("sprig.wrap(5, 'a bb ccc dddd eeeeeee f')", "a bb\nccc\ndddd\neeeeeee\nf"),
        ("sprig.wrapWith(5, '|', 'Hello Worldwide')", "Hello|World|wide"),
        ("sprig.contains('cat', 'catch')", True),
        ("sprig.hasPrefix('cat', 'catch')", True),
        ("sprig.hasSuffix('ch', 'catch')", True),
        ("sprig.quote('a', 1, nil, 'b\"c')", '"a" "1" "b\\"c"'),
        ("sprig.squote('a', 1, nil)", "'a' '1'"),
        ("sprig.cat('hello', nil, 1, true)", "hello 1 true"),
        ("sprig.indent(4, 'a\\nb')", "    a\n    b"),
        ("sprig.nindent(2, 'a\\nb')", "\n  a\n  b"),
        ("sprig.replace(' ', '-', 'I Am Henry VIII')", "I-Am-Henry-VIII"),
        ("sprig.plural('one anchovy', 'many anchovies', 1)", "one anchovy"),
        ("sprig.plural('one anchovy', 'many anchovies', 3)", "many anchovies"),
        ("sprig.toString(1.5)", "1.5"),
        ("sprig.toStrings([1, nil, 'a'])", ["1", "a"]),
        ("sprig.toStrings('x')", ["x"]),
        ("sprig.split('$', 'foo$bar$baz')", {"_0": "foo", "_1": "bar", "_2": "baz"}),
        ("sprig.split('$', 'foo$bar')._1", "bar"),
        ("sprig.split('$', 'foo')._9", ""),
        ("sprig.splitn('$', 2, 'foo$bar$baz')", {"_0": "foo", "_1": "bar$baz"}),
        ("sprig.splitList('$', 'foo$bar$baz')", ["foo", "bar", "baz"]),
        ("sprig.join('_', ['a', 1, nil])", "a_1"),
        ("sprig.join('_', 'alone')", "alone"),
        ("sprig.sortAlpha(['c', 'a', 'B'])", ["B", "a", "c"]),
        ("sprig.sortAlpha([10, 9])", ["10", "9"]),
        ("sprig.sortAlpha('x')", ["x"]),
    ],
)
def test_strings(expression: str, value: Any) -> None:
    found = value_of(expression)
    assert (replace_invalid_bytes(found) if isinstance(found, str) else found) == value


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


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("sprig.regexMatch('^[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+$', 'test@acme.com')", True),
        ("sprig.regexMatch('(', 'a')", False),
        ("sprig.regexFindAll('[2,4,6,8]', '123456789', -1)", ["2", "4", "6", "8"]),
        ("sprig.regexFindAll('[2,4,6,8]', '123456789', 2)", ["2", "4"]),
        ("sprig.regexFind('[a-zA-Z][1-9]', 'abcd1234')", "d1"),
        ("sprig.regexFind('x', 'abc')", ""),
        ("sprig.regexReplaceAll('a(x*)b', '-ab-axxb-', '${1}W')", "-W-xxW-"),
        ("sprig.regexReplaceAll('a(x*)b', '-ab-axxb-', '$1W')", "---"),
        ("sprig.regexReplaceAll('(?P<n>x+)', 'axxb', '<${n}$$>')", "a<xx$>b"),
        ("sprig.regexReplaceAllLiteral('a(x*)b', '-ab-axxb-', '${1}')", "-${1}-${1}-"),
        ("sprig.regexSplit('z+', 'pizza', -1)", ["pi", "a"]),
        ("sprig.regexSplit('z', 'pizza', 2)", ["pi", "za"]),
        ("sprig.regexQuoteMeta('1.2.3')", "1\\.2\\.3"),
        ("sprig.mustRegexFind('l+', 'hello')", "ll"),
    ],
)
def test_regular_expressions(expression: str, value: Any) -> None:
    assert value_of(expression) == value
