from __future__ import annotations

import pytest

from tests.workflows.lang.sample_scope import error_message


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", "unexpected token EOF, expected a value"),
        ("1 +", "unexpected token EOF, expected a value (1:3)"),
        ("(1", "unexpected token EOF, expected ')' (1:2)"),
        ("1)", 'unexpected token Bracket(")"), expected an operator or the end (1:2)'),
        ("[1, 2", "unexpected token EOF, expected ',' or ']' (1:5)"),
        ("{'a': 1", "unexpected token EOF, expected ',' or '}' (1:7)"),
        ("{a b}", "unexpected token Identifier(\"b\"), expected ':' (1:4)"),
        (
            "{[1]: 2}",
            "a map key must be a quoted string, a number, a identifier, or an expression enclosed in parentheses "
            '(unexpected token Bracket("[")) (1:2)',
        ),
        ("'unterminated", "literal not terminated (1:14)"),
        ("'a\\q'", "invalid char escape (1:4)"),
        ("@", "unrecognized character: U+0040 '@' (1:1)"),
        ("a b", 'unexpected token Identifier("b"), expected an operator or the end (1:3)'),
        ("1 2", 'unexpected token Number("2"), expected an operator or the end (1:3)'),
        ("1 +* 2", 'unexpected token Operator("*"), expected a value (1:4)'),
        ("a.", "unexpected end of expression, expected a name (1:2)"),
        ("a?.", "unexpected end of expression, expected a name (1:3)"),
        ("f(1", "unexpected token EOF, expected ',' or ')' (1:3)"),
        ("let a = 1", "unexpected token EOF, expected ';' (1:9)"),
        ("let = 1; 1", 'unexpected token Operator("="), expected a name (1:5)'),
        ("filter([1])", "expected at least 2 arguments (1:11)"),
        ("1abc", 'bad number syntax: "1a" (1:2)'),
        ("0xg", 'bad number syntax: "0xg" (1:3)'),
        (
            "1 not 2",
            "unexpected token Number(\"2\"), expected 'in', 'matches', 'contains', 'startsWith' or 'endsWith' (1:7)",
        ),
        ("/* open", "unclosed comment (1:8)"),
        (
            "9223372036854775808",
            'invalid integer literal: strconv.ParseInt: parsing "9223372036854775808": value out of range (1:19)',
        ),
        (
            "a ?? b + c",
            "Operator (+) and coalesce expressions (??) cannot be mixed. Wrap either by parentheses. (1:8)",
        ),
        ("a ? b", "unexpected token EOF, expected ':' (1:5)"),
        ("if true { 1 }", "unexpected token EOF, expected 'else' (1:13)"),
        ("count([1], )", 'unexpected token Bracket(")"), expected a value (1:12)'),
        ("x | 5", 'unexpected token Number("5"), expected a name (1:5)'),
    ],
)
def test_syntax_errors(expression: str, message: str) -> None:
    assert error_message(expression) == message
