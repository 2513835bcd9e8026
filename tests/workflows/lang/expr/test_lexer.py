from __future__ import annotations

import pytest

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.expr.parser import tokenize


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ["EOF"]),
        ("a.b", ['Identifier("a")', 'Operator(".")', 'Identifier("b")', "EOF"]),
        ("$env", ['Identifier("$env")', "EOF"]),
        ("1..2", ['Number("1")', 'Operator("..")', 'Number("2")', "EOF"]),
        ("1.5.5", ['Number("1.5")', 'Number(".5")', "EOF"]),
        ("0x1F 1_000 1e-3", ['Number("0x1F")', 'Number("1_000")', 'Number("1e-3")', "EOF"]),
        (
            "a?.b ?? c",
            ['Identifier("a")', 'Operator("?.")', 'Identifier("b")', 'Operator("??")', 'Identifier("c")', "EOF"],
        ),
        ("not in", ['Operator("not")', 'Operator("in")', "EOF"]),
        ("notin", ['Identifier("notin")', "EOF"]),
        ("#acc", ['Operator("#")', 'Identifier("acc")', "EOF"]),
        ("# acc", ['Operator("#")', 'Identifier("acc")', "EOF"]),
        (
            "a==b**c",
            ['Identifier("a")', 'Operator("==")', 'Identifier("b")', 'Operator("**")', 'Identifier("c")', "EOF"],
        ),
        ("[{(", ['Bracket("[")', 'Bracket("{")', 'Bracket("(")', "EOF"]),
        ("'a\\'b' \"c\"", ['String("a\'b")', 'String("c")', "EOF"]),
        ("`raw \\n``x`", ['String("raw \\\\n`x")', "EOF"]),
        ("'a\rb'", ['String("a\\nb")', "EOF"]),
        ("a // rest", ['Identifier("a")', "EOF"]),
        ("/* a */ b", ['Identifier("b")', "EOF"]),
        ("größe", ['Identifier("größe")', "EOF"]),
    ],
)
def test_tokens(text: str, found: list[str]) -> None:
    assert [str(token) for token in tokenize(text)] == found


@pytest.mark.parametrize(
    ("text", "message", "at"),
    [
        ("'open", "literal not terminated", 5),
        ("'line\nbreak'", "literal not terminated", 5),
        ("`open", "literal not terminated", 5),
        ("'\\q'", "invalid char escape", 2),
        ("'\\u12'", "invalid char escape", 3),
        ("'\\u{110000}'", "unable to unescape string", 4),
        ("'\\777'", "invalid char escape", 2),
        ("/* open", "unclosed comment", 7),
        ("a ~ b", "unrecognized character: U+007E '~'", 2),
        ("12ab", 'bad number syntax: "12a"', 2),
    ],
)
def test_invalid_tokens(text: str, message: str, at: int) -> None:
    with pytest.raises(ExpressionError) as caught:
        list(tokenize(text))
    assert caught.value.message == message
    assert caught.value.at == at
