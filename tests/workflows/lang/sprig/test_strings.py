from __future__ import annotations

from typing import Any

import pytest

from muster.workflows.lang.go_strings import well_formed
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
    assert (well_formed(found) if isinstance(found, str) else found) == value
