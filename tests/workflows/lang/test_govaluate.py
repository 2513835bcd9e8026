"""`when` as Argo evaluates it: words are strings, and errors have Argo's messages."""

from __future__ import annotations

import pytest

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.govaluate import evaluate_when

INVALID = "Invalid 'when' expression"
UNREADABLE = "Failed to parse 'when' expression"
FAILED = "Failed to evaluate 'when' expresion"


@pytest.mark.parametrize(
    ("when", "runs"),
    [
        ("", True),
        ("heads == heads", True),
        ("heads == tails", False),
        ("heads != tails", True),
        ("Succeeded == Succeeded", True),
        ("true", True),
        ("false", False),
        ("'true' == true", False),
        ("true == true", True),
        ("'' == ''", True),
        ("\"\" != 'x'", True),
        ("'a b' == 'a b'", True),
        ("\"a\" == 'a'", True),
        ("'foo-bar' == 'foo-bar'", True),
        ("foo\\-bar == foo\\-bar", True),
        ("[foo-bar] == 'foo-bar'", True),
        ("foo_bar == foo_bar", True),
        ("é == é", True),
        ("3 > 2", True),
        ("3 >= 3", True),
        ("2 < 1", False),
        ("2 <= 1", False),
        ("10 > 9", True),
        ("'10' > '9'", False),
        ("1 == 1.0", True),
        ("1 == '1'", False),
        ("0x1F == 31", True),
        (".5 == 0.5", True),
        ("1 + 2 * 3 == 7", True),
        ("(1 + 2) * 3 == 9", True),
        ("8 - 3 - 2 == 3", True),
        ("7 % 4 == 3", True),
        ("10 / 4 == 2.5", True),
        ("2 ** 3 ** 2 == 64", True),
        ("-1 < 0", True),
        ("1 - -1 == 2", True),
        ("6 & 3 == 2", True),
        ("6 | 3 == 7", True),
        ("6 ^ 3 == 5", True),
        ("1 << 3 == 8", True),
        ("8 >> 2 == 2", True),
        ("~1 == -2", True),
        ("'a' + 'b' == ab", True),
        ("'a' + 1 == a1", True),
        ("a in (a, b)", True),
        ("c in ('a', 'b')", False),
        ("1 in (1, 2)", True),
        ("a IN (a, b)", True),
        ("foo =~ '^f.o$'", True),
        ("foo =~ f", True),
        ("foo !~ 'x'", True),
        ("!true", False),
        ("!(a == b)", True),
        ("a == a && b == b", True),
        ("a == b || c == c", True),
        ("a == a && b == c || d == d", True),
        ("true || 1 > 'a'", True),
        ("true ? false : true", False),
        ("false ? false : true", True),
        ("a == a ? true : false", True),
        ("'2020-01-01' < '2020-01-02'", True),
        ("'2020-01-01' == '2020-01-01T00:00:00Z'", True),
        ("\n a ==\n\ta", True),
        ("a==a&& !(b==c)", True),
    ],
)
def test_whether_a_step_runs(when: str, runs: bool) -> None:
    assert evaluate_when(when) is runs


@pytest.mark.parametrize(
    ("when", "problem", "reason", "column"),
    [
        (" ", INVALID, "Unexpected end of expression", 2),
        ("a == ", INVALID, "Unexpected end of expression", 6),
        ("== a", INVALID, "Cannot transition token types from UNKNOWN [<nil>] to COMPARATOR [==]", 1),
        ("a b", INVALID, "Cannot transition token types from VARIABLE [a] to VARIABLE [b]", 3),
        ("a == b c", INVALID, "Cannot transition token types from VARIABLE [b] to VARIABLE [c]", 8),
        ("foo-bar == foo-bar", FAILED, "Value 'foo' cannot be used with the modifier '-', it is not a number", 4),
        ("a==a&&!b", INVALID, "Invalid token: '&&!'", 5),
        ("a==-1", INVALID, "Invalid token: '==-'", 2),
        ("_foo == x", INVALID, "Invalid token: '_'", 1),
        ("a = b", INVALID, "Invalid token: '='", 3),
        ("a === b", INVALID, "Invalid token: '==='", 3),
        ("user@host == x", INVALID, "Invalid token: '@'", 5),
        ("foo.bar == x", INVALID, "Unable to access unexported field 'bar' in token 'foo.bar'", 1),
        ("foo.Bar == x", FAILED, "No parameter 'foo' found.", 1),
        ("v1.2 == v1.2", FAILED, "No parameter 'v1' found.", 1),
        ("1.2.3 == x", INVALID, "Unable to parse numeric value '1.2.3' to float64", 1),
        ("5abc == x", INVALID, "Cannot transition token types from NUMERIC [5] to VARIABLE [abc]", 2),
        ("a in (a)", FAILED, "Value 'a' cannot be used with the comparator 'in', it is not a number", 3),
        ("a && b", FAILED, "Value 'a' cannot be used with the logical operator '&&', it is not a bool", 3),
        ("true && 1", FAILED, "Value '1' cannot be used with the logical operator '&&', it is not a bool", 6),
        ("1 && true", FAILED, "Value '1' cannot be used with the logical operator '&&', it is not a bool", 3),
        ("a < 1", FAILED, "Value 'a' cannot be used with the comparator '<', it is not a number", 3),
        ("true > false", FAILED, "Value 'true' cannot be used with the comparator '>', it is not a number", 6),
        ("!foo", UNREADABLE, "Cannot transition token types from PREFIX [!] to STRING [foo]", 2),
        ("!1", FAILED, "Value '1' cannot be used with the prefix '!'", 1),
        ("-'a'", INVALID, "Cannot transition token types from PREFIX [-] to STRING [a]", 2),
        ("'a' * 2", FAILED, "Value 'a' cannot be used with the modifier '*', it is not a number", 5),
        ("1 + true", FAILED, "Value '1' cannot be used with the modifier '+', it is not a number", 3),
        ("5 =~ 5", FAILED, "Value '5' cannot be used with the comparator '=~', it is not a number", 3),
        ("foo =~ '('", INVALID, "error parsing regexp: missing closing ): `(`", 8),
        (
            "foo =~ (a + '(')",
            FAILED,
            "Unable to compile regexp pattern 'a(': error parsing regexp: missing closing ): `a(`",
            5,
        ),
        ("'unclosed", INVALID, "Unclosed string literal", 1),
        ("[unclosed", INVALID, "Unclosed parameter bracket", 1),
        ("(a == a", INVALID, "Unbalanced parenthesis", 8),
        ("a == a)", INVALID, "Unbalanced parenthesis", 8),
        ("f(x)", INVALID, "Undefined function f", 1),
        ("a ? b : c", FAILED, "Value 'a' cannot be used with the ternary operator '?', it is not a bool", 3),
        (
            "foo =~ 'f' ? true : false",
            UNREADABLE,
            "Cannot transition token types from PATTERN [f] to TERNARY [?]",
            12,
        ),
        ("a.", INVALID, "Hanging accessor on token 'a.'", 1),
        ("0xZZ == 1", INVALID, "Unable to parse hex value '' to uint64", 1),
    ],
)
def test_errors_and_their_positions(when: str, problem: str, reason: str, column: int) -> None:
    with pytest.raises(ExpressionError) as caught:
        evaluate_when(when)
    hint = ' (hint: try wrapping the affected expression in quotes ("))' if "Invalid token" in reason else ""
    assert caught.value.message == f"{problem} '{when}': {reason}{hint}"
    assert caught.value.position == (1, column)


@pytest.mark.parametrize(
    ("when", "got"),
    [("foo", "foo"), ("1 + 1", "2"), ("()", "<nil>"), ("true ? a : b", "a"), ("(a, 1)", "[a 1]")],
)
def test_the_result_must_be_a_boolean(when: str, got: str) -> None:
    with pytest.raises(ExpressionError, match="Expected boolean") as caught:
        evaluate_when(when)
    assert caught.value.message == f"Expected boolean evaluation for '{when}'. Got {got}"


@pytest.mark.parametrize(
    ("when", "hint"),
    [
        (" == heads", "A value is missing here"),
        ("heads == ", "A value is missing here"),
        ("my-step == my-step", "A dash means minus"),
        ("report.txt == x", "A dot looks for a field"),
        ("v1.2 == v1.2", "A dot looks for a field"),
        ("two words == x", "Put quotes around a value"),
    ],
)
def test_a_hint_says_what_to_write(when: str, hint: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        evaluate_when(when)
    assert str(caught.value).split("\n")[-1].startswith(hint)


def test_the_text_is_shown_with_a_caret() -> None:
    with pytest.raises(ExpressionError) as caught:
        evaluate_when("heads == foo.txt")
    assert str(caught.value).split("\n")[1:3] == [" | heads == foo.txt", " | .........^"]
