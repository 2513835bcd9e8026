from __future__ import annotations

import pytest

from muster.workflows.lang.sprig.catalog import SPRIG_FUNCTIONS
from tests.workflows.lang.sample_scope import error_message

EXPOSED = 209
"""Functions that sprig 3.3 has in its generic map, without `env` and `expandenv`, which Argo removes."""


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("sprig.trim()", "reflect: Call with too few input arguments (1:7)"),
        ("sprig.trim('a', 'b')", "reflect: Call with too many input arguments (1:7)"),
        ("sprig.trim(1)", "reflect: Call using int as type string (1:7)"),
        ("sprig.repeat(sprig.add(1, 2), 'x')", "reflect: Call using int64 as type int (1:7)"),
        ("sprig.repeat(-1, 'a')", "strings: negative Repeat count (1:7)"),
        ("sprig.substr(5, 2, 'abcdefg')", "runtime error: slice bounds out of range [5:2] (1:7)"),
        ("sprig.div(1, 0)", "runtime error: integer divide by zero (1:7)"),
        ("sprig.mod(1, 'x')", "runtime error: integer divide by zero (1:7)"),
        ("sprig.divf(1, 0)", "decimal division by 0 (1:7)"),
        ("sprig.fail('boom')", "boom (1:7)"),
        ("sprig.mustFromJson('x')", "invalid character 'x' looking for beginning of value (1:7)"),
        ("sprig.mustToJson(groupBy([1], #))", "json: unsupported type: map[interface {}][]interface {} (1:7)"),
        ("sprig.ternary('a', 'b', 1)", "reflect: Call using int as type bool (1:7)"),
        ("sprig.first('a')", "Cannot find first on type string (1:7)"),
        ("sprig.append(nil, 1)", "runtime error: invalid memory address or nil pointer dereference (1:7)"),
        ("sprig.rest(5)", "Cannot find rest on type int (1:7)"),
        ("sprig.slice([1], 5)", "reflect.Value.Slice: slice index out of bounds (1:7)"),
        ("sprig.concat([1], 'a')", "Cannot concat type string as list (1:7)"),
        ("sprig.get([], 'a')", "reflect: Call using []interface {} as type map[string]interface {} (1:7)"),
        (
            "sprig.get(sprig.split(',', 'a'), '_0')",
            "reflect: Call using map[string]string as type map[string]interface {} (1:7)",
        ),
        ("sprig.dig('a', {})", "dig needs at least three arguments (1:7)"),
        (
            "sprig.dig('a', 'b', 'none', {'a': 1})",
            "interface conversion: interface {} is int, not map[string]interface {} (1:7)",
        ),
        ("sprig.mustRegexMatch('(', 'a')", "error parsing regexp: missing closing ): `(` (1:7)"),
        (
            "sprig.regexFind('(?=a)', 'a')",
            "regexp: Compile(`(?=a)`): error parsing regexp: invalid or unsupported Perl syntax: `(?=` (1:7)",
        ),
        ("sprig.semver('one')", "Invalid Semantic Version (1:7)"),
        ("sprig.semver('1.2.3-01')", "Version segment starts with 0 (1:7)"),
        ("sprig.semverCompare('one', '1')", "improper constraint: one (1:7)"),
        ("sprig.urlParse('%zz')", 'unable to parse url: parse "%zz": invalid URL escape "%zz" (1:7)'),
        (
            "sprig.urlParse('http://h:port/')",
            'unable to parse url: parse "http://h:port/": invalid port ":port" after host (1:7)',
        ),
        ("sprig.urlJoin({'scheme': 1})", "unable to parse scheme key, must be of type string, but int found (1:7)"),
        ("sprig.mustToDate('2006-01-02', '2017-13-01')", 'parsing time "2017-13-01": month out of range (1:7)'),
        (
            "sprig.mustToDate('2006-01-02', 'soon')",
            'parsing time "soon" as "2006-01-02": cannot parse "soon" as "2006" (1:7)',
        ),
        ("sprig.mustDateModify('soon', date('2024-01-01'))", 'time: invalid duration "soon" (1:7)'),
        ("sprig.unixEpoch(5)", "reflect: Call using int as type time.Time (1:7)"),
        ("sprig.until(2000000)", "memory budget exceeded (1:7)"),
    ],
)
def test_what_fails(expression: str, message: str) -> None:
    assert error_message(expression) == message


@pytest.mark.parametrize("name", ["env", "expandenv", "nope"])
def test_an_unknown_function_is_named_in_the_error(name: str) -> None:
    message = f"invalid operation: cannot call nil (there is no function {name} here) (1:7)"
    assert error_message(f"sprig.{name}('HOME')") == message


@pytest.mark.parametrize("name", ["genCA", "bcrypt", "encryptAES", "getHostByName"])
def test_a_function_that_is_refused_says_what_to_do(name: str) -> None:
    assert error_message(f"sprig.{name}('x')").startswith(f"sprig.{name} is not available: ")


def test_every_function_of_argo_exists() -> None:
    assert len(SPRIG_FUNCTIONS) == EXPOSED
