"""The lexer of expr-lang: text to tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_strings import is_space, is_word, quote_string

Kind: TypeAlias = Literal["Identifier", "Number", "String", "Operator", "Bracket", "EOF"]

_WORD_OPERATORS = frozenset(
    ("not", "in", "or", "and", "matches", "contains", "startsWith", "endsWith", "let", "if", "else")
)
_DIGITS = "0123456789"
_OCTAL = "01234567"
_HEX = "0123456789abcdefABCDEF"
_RADIX = {"x": _HEX, "X": _HEX, "o": _OCTAL, "O": _OCTAL, "b": "01", "B": "01"}
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\"}
_HEX_ESCAPES = {"x": 2, "u": 4, "U": 8}


class Token(NamedTuple):
    kind: Kind
    value: str
    at: int
    """Where the token starts, in characters."""

    def __str__(self) -> str:
        return self.kind if self.kind == "EOF" else f"{self.kind}({quote_string(self.value)})"


def tokenize(text: str) -> Iterator[Token]:
    """Returns the tokens of an expression, with an EOF at the end. Raises ExpressionError where there is no token."""
    at, end = 0, len(text)
    while at < end:
        char = text[at]
        if is_space(char):
            at += 1
            continue
        if text.startswith(("//", "/*"), at):
            at = _skip_comment(text, at)
            continue
        token, at = _read_token(text, at)
        yield token
        if token.value in ("#", "##") and token.kind == "Operator":
            word = _read_word(text, at)
            if word:
                yield Token("Identifier", word, at)
                at += len(word)
    yield Token("EOF", "", max(end - 1, 0))


def _read_token(text: str, at: int) -> tuple[Token, int]:
    char = text[at]
    following = text[at + 1 : at + 2]
    if char in ("'", '"'):
        value, end = _read_string(text, at)
        return Token("String", value, at), end
    if char == "`":
        value, end = _read_raw_string(text, at)
        return Token("String", value, at), end
    if char in _DIGITS or (char == "." and following in tuple(_DIGITS)):
        end = _find_number_end(text, at)
        return Token("Number", text[at:end], at), end
    if char in "([{)]}":
        return Token("Bracket", char, at), at + 1
    double = {"|": "|", ":": ":", "?": ".?", "#": "#", ".": "."}.get(char, "&=*" if char in "&!=*<>" else "")
    if double or char in ",;%+-^/":
        end = at + (2 if following and following in double else 1)
        return Token("Operator", text[at:end], at), end
    word = _read_word(text, at)
    if word:
        return Token("Operator" if word in _WORD_OPERATORS else "Identifier", word, at), at + len(word)
    raise ExpressionError(f"unrecognized character: U+{ord(char):04X} '{char}'", text, at)


def _read_word(text: str, at: int) -> str:
    end = at
    while end < len(text) and is_word(text[end]):
        end += 1
    return text[at:end]


def _skip_comment(text: str, at: int) -> int:
    if text[at + 1] == "/":
        end = text.find("\n", at)
        return len(text) if end < 0 else end + 1
    end = text.find("*/", at + 2)
    if end < 0:
        raise ExpressionError("unclosed comment", text, len(text))
    return end + 2


def _find_number_end(text: str, at: int) -> int:
    end = at + (text[at] == ".")
    digits = _DIGITS
    if text[end] == "0":
        end += 1
        if text[end : end + 1] in tuple(_RADIX):
            digits = _RADIX[text[end]]
            end += 1
    end = _skip_run(text, end, digits + "_")
    if text[end : end + 1] == ".":
        if text[end + 1 : end + 2] == ".":
            return end
        end = _skip_run(text, end + 1, digits + "_")
    if text[end : end + 1] in ("e", "E"):
        end += 1
        if text[end : end + 1] in ("+", "-"):
            end += 1
        end = _skip_run(text, end, digits + "_")
    if end < len(text) and is_word(text[end]):
        raise ExpressionError(f"bad number syntax: {quote_string(text[at : end + 1])}", text, end)
    return end


def _skip_run(text: str, at: int, allowed: str) -> int:
    while at < len(text) and text[at] in allowed:
        at += 1
    return at


def _read_raw_string(text: str, at: int) -> tuple[str, int]:
    """Reads a `raw string`, in which two backticks mean one."""
    parts: list[str] = []
    start = at + 1
    while True:
        end = text.find("`", start)
        if end < 0:
            raise ExpressionError("literal not terminated", text, len(text))
        parts.append(text[start:end])
        if text[end + 1 : end + 2] != "`":
            return "`".join(parts), end + 1
        start = end + 2


def _read_string(text: str, at: int) -> tuple[str, int]:
    quote = text[at]
    out: list[str] = []
    here = at + 1
    while True:
        char = text[here : here + 1]
        if char in ("", "\n"):
            raise ExpressionError("literal not terminated", text, here)
        here += 1
        if char == quote:
            return "".join(out), here
        if char == "\\":
            value, here = _read_escape(text, here, quote)
            out.append(value)
        elif char == "\r":
            if text[here : here + 1] != "\n":
                out.append("\n")
        else:
            out.append(char)


def _read_escape(text: str, at: int, quote: str) -> tuple[str, int]:
    """Reads the rest of an escape; `at` is the position after the backslash."""
    char = text[at : at + 1]
    if char == quote:
        return quote, at + 1
    if char in _ESCAPES:
        return _ESCAPES[char], at + 1
    if char == "u" and text[at + 1 : at + 2] == "{":
        return _read_code_point(text, at + 2, text.find("}", at), most=6)
    if char in _HEX_ESCAPES:
        value, end = _read_code_point(text, at + 1, at + 1 + _HEX_ESCAPES[char], most=8)
        return value, end - 1
    octal = text[at : at + 3]
    if len(octal) == 3 and octal[0] in "0123" and all(c in _OCTAL for c in octal):
        return chr(int(octal, 8)), at + 3
    raise ExpressionError("invalid char escape", text, at)


def _read_code_point(text: str, start: int, end: int, most: int) -> tuple[str, int]:
    digits = text[start:end] if end >= start else ""
    if not 1 <= len(digits) <= most or any(c not in _HEX for c in digits) or len(digits) != end - start:
        raise ExpressionError("invalid char escape", text, start)
    code = int(digits, 16)
    if code > 0x10FFFF:
        raise ExpressionError("unable to unescape string", text, start)
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else chr(code), end + 1
