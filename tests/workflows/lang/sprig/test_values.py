from __future__ import annotations

from typing import Any

import pytest

from tests.workflows.lang.sample_scope import value_of


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("sprig.default('foo', '')", "foo"),
        ("sprig.default('foo', 'bar')", "bar"),
        ("sprig.default('foo')", "foo"),
        ("sprig.default('foo', 0)", "foo"),
        ("sprig.default('foo', [])", "foo"),
        ("sprig.default('foo', nil)", "foo"),
        ("sprig.empty('')", True),
        ("sprig.empty(0)", True),
        ("sprig.empty({})", True),
        ("sprig.empty(now())", False),
        ("sprig.empty('x')", False),
        ("sprig.coalesce(nil, '', 0, 'x', 'y')", "x"),
        ("sprig.coalesce()", None),
        ("sprig.all(1, 'a')", True),
        ("sprig.all(1, '')", False),
        ("sprig.all()", True),
        ("sprig.any('', 0)", False),
        ("sprig.any('', 1)", True),
        ("sprig.ternary('foo', 'bar', true)", "foo"),
        ("sprig.ternary('foo', 'bar', false)", "bar"),
        ("sprig.fromJson('{\"a\": 1}')", {"a": 1}),
        ("sprig.fromJson('x')", None),
        ("sprig.toJson({'a': '<b>'})", '{"a":"\\u003cb\\u003e"}'),
        ("sprig.toRawJson({'a': '<b>'})", '{"a":"<b>"}'),
        ("sprig.toPrettyJson({'a': [1]})", '{\n  "a": [\n    1\n  ]\n}'),
        ("sprig.mustToJson([1])", "[1]"),
        ("sprig.toJson(groupBy([1], #))", ""),
        ("sprig.deepCopy({'a': [1]})", {"a": [1]}),
    ],
)
def test_defaults_choices_and_json(expression: str, value: Any) -> None:
    assert value_of(expression) == value


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("sprig.typeOf(1)", "int"),
        ("sprig.typeOf([])", "[]interface {}"),
        ("sprig.typeOf({})", "map[string]interface {}"),
        ("sprig.typeOf(nil)", "<nil>"),
        ("sprig.typeOf(1.5)", "float64"),
        ("sprig.typeIs('string', 'a')", True),
        ("sprig.typeIsLike('semver.Version', sprig.semver('1.2.3'))", True),
        ("sprig.kindOf({})", "map"),
        ("sprig.kindOf(1)", "int"),
        ("sprig.kindOf(nil)", "invalid"),
        ("sprig.kindIs('slice', [])", True),
        ("sprig.kindOf(now())", "struct"),
        ("sprig.deepEqual({'a': [1]}, {'a': [1]})", True),
        ("sprig.deepEqual(1, 1.0)", False),
    ],
)
def test_types_and_kinds(expression: str, value: Any) -> None:
    assert value_of(expression) == value


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("sprig.b64enc('hello')", "aGVsbG8="),
        ("sprig.b64dec('aGVsbG8=')", "hello"),
        ("sprig.b64dec('aGVs\\nbG8=')", "hello"),
        ("sprig.b64dec('nope!')", "illegal base64 data at input byte 4"),
        ("sprig.b64dec('YQ')", "illegal base64 data at input byte 0"),
        ("sprig.b64dec('YQ=')", "illegal base64 data at input byte 3"),
        ("sprig.b64dec('YQ==x')", "illegal base64 data at input byte 4"),
        ("sprig.b32enc('hello')", "NBSWY3DP"),
        ("sprig.b32dec('NBSWY3DP')", "hello"),
        ("sprig.b32dec('1')", "illegal base32 data at input byte 0"),
        ("sprig.sha1sum('hello')", "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d"),
        ("sprig.sha256sum('hello')", "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"),
        ("sprig.sha512sum('')[:16]", "cf83e1357eefb8bd"),
        ("sprig.adler32sum('hello')", "103547413"),
    ],
)
def test_encodings_and_checksums(expression: str, value: Any) -> None:
    assert value_of(expression) == value
