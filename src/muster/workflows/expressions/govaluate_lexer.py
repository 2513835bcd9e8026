"""The words of a `when`: text to tokens, and which token may follow which."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from muster.workflows.expressions.characters import is_digit, is_letter, is_space, upper
from muster.workflows.expressions.errors import ExpressionError
from muster.workflows.expressions.layouts import ANSIC, KITCHEN, RFC3339, RUBY_DATE, UNIX_DATE
from muster.workflows.expressions.moments import Time, parsed_time
from muster.workflows.expressions.numbers import parse_float
from muster.workflows.expressions.values import shown

_TIMES = (
    ANSIC,
    UNIX_DATE,
    RUBY_DATE,
    KITCHEN,
    RFC3339,
    "2006-01-02",
    "2006-01-02 15:04",
    "2006-01-02 15:04:05",
    "2006-01-02 15:04:05-07:00",
    "2006-01-02T15Z0700",
    "2006-01-02T15:04Z0700",
    "2006-01-02T15:04:05Z0700",
)
_MODIFIERS = ("+", "-", "*", "/", "%", "**", "&", "|", "^", ">>", "<<")
_COMPARATORS = ("==", "!=", ">", ">=", "<", "<=", "=~", "!~")
_SYMBOLS = {
    **dict.fromkeys(_MODIFIERS, "MODIFIER"),
    **dict.fromkeys(("&&", "||"), "LOGICALOP"),
    **dict.fromkeys(_COMPARATORS, "COMPARATOR"),
    **dict.fromkeys(("?", ":", "??"), "TERNARY"),
}
_VALUES = frozenset(("NUMERIC", "BOOLEAN", "VARIABLE", "ACCESSOR", "STRING", "CLAUSE"))
_OPERATORS = frozenset(("MODIFIER", "COMPARATOR", "LOGICALOP", "CLAUSE_CLOSE", "TERNARY", "SEPARATOR"))
_FOLLOWING = {
    "UNKNOWN": _VALUES | {"PREFIX", "TIME"},
    "CLAUSE": _VALUES | {"PREFIX", "TIME", "CLAUSE_CLOSE"},
    "CLAUSE_CLOSE": _OPERATORS | {"NUMERIC", "BOOLEAN", "VARIABLE", "STRING", "TIME", "CLAUSE"},
    "NUMERIC": _OPERATORS,
    "BOOLEAN": _OPERATORS,
    "STRING": _OPERATORS,
    "VARIABLE": _OPERATORS,
    "TIME": _OPERATORS - {"TERNARY"},
    "PATTERN": _OPERATORS - {"TERNARY"},
    "ACCESSOR": _OPERATORS | {"CLAUSE"},
    "MODIFIER": _VALUES | {"PREFIX", "CLAUSE_CLOSE"},
    "COMPARATOR": _VALUES | {"PREFIX", "TIME", "PATTERN", "CLAUSE_CLOSE"},
    "LOGICALOP": _VALUES | {"PREFIX", "TIME", "CLAUSE_CLOSE"},
    "PREFIX": _VALUES - {"STRING"} | {"CLAUSE_CLOSE"},
    "TERNARY": _VALUES | {"PREFIX", "TIME", "SEPARATOR"},
    "SEPARATOR": _VALUES | {"PREFIX", "TIME"},
}
_EMPTY_HINT = "A value is missing here, perhaps because a tag was replaced by nothing: write quotes around it."
_WORDS_HINT = "Write quotes around a value that is more than one plain word."
_DOT_HINT = "A dot looks for a field: write quotes around a value that has one."
_MAY_END = frozenset(("CLAUSE_CLOSE", "NUMERIC", "BOOLEAN", "STRING", "TIME", "PATTERN", "VARIABLE", "ACCESSOR"))


class Token(NamedTuple):
    kind: str
    value: Any
    at: int


def tokens(text: str) -> list[Token]:
    """The tokens of a `when`, in an order that makes sense. Raises ExpressionError."""
    found: list[Token] = []
    at = 0
    while at < len(text):
        if is_space(text[at]):
            at += 1
            continue
        token, at = _token(text, at, found[-1].kind if found else "UNKNOWN")
        found.append(token)
    if sum((token.kind == "CLAUSE") - (token.kind == "CLAUSE_CLOSE") for token in found):
        raise ExpressionError("Unbalanced parenthesis", at=len(text))
    check_order(found, len(text))
    return found


def check_order(found: list[Token], end: int) -> None:
    """Refuses a token where it cannot stand."""
    before = Token("UNKNOWN", None, 0)
    for token in found:
        if token.kind not in _FOLLOWING[before.kind]:
            if before.kind == "VARIABLE" and token.kind == "CLAUSE":
                raise ExpressionError(f"Undefined function {before.value}", at=before.at)
            states = f"{before.kind} [{_seen(before)}] to {token.kind} [{_seen(token)}]"
            hint = _EMPTY_HINT if _wants_value(before) and not _is_value(token) else _WORDS_HINT
            raise ExpressionError(f"Cannot transition token types from {states}", at=token.at, hint=hint)
        before = token
    if before.kind not in _MAY_END:
        raise ExpressionError("Unexpected end of expression", at=end, hint=_EMPTY_HINT)


def _wants_value(token: Token) -> bool:
    return "STRING" in _FOLLOWING[token.kind] and token.kind != "CLAUSE_CLOSE"


def _is_value(token: Token) -> bool:
    return token.kind in _MAY_END or token.kind in ("CLAUSE", "PREFIX")


def _seen(token: Token) -> str:
    """As Go prints a token's value; a parenthesis is a number to it."""
    return str(ord(token.value)) if token.kind in ("CLAUSE", "CLAUSE_CLOSE") else shown(token.value)


def _token(text: str, at: int, before: str) -> tuple[Token, int]:
    char = text[at]
    if is_digit(char) or char == ".":
        return _number(text, at)
    if char == ",":
        return Token("SEPARATOR", ",", at), at + 1
    if char == "[":
        return _bracketed(text, at)
    if is_letter(char):
        return _word(text, at)
    if char in "'\"":
        return _quoted(text, at)
    if char in "()":
        return Token("CLAUSE" if char == "(" else "CLAUSE_CLOSE", char, at), at + 1
    symbol, end = _run(text, at, _is_symbol)
    if symbol in ("-", "!", "~") and "PREFIX" in _FOLLOWING[before]:
        return Token("PREFIX", symbol, at), end
    if symbol not in _SYMBOLS:
        raise ExpressionError(f"Invalid token: '{symbol}'", at=at)
    return Token(_SYMBOLS[symbol], symbol, at), end


def _run(text: str, at: int, allowed: Callable[[str], bool]) -> tuple[str, int]:
    """The longest run of allowed characters, where a backslash allows whatever follows it."""
    out: list[str] = []
    while at < len(text):
        char = text[at]
        if char == "\\":
            if at + 1 >= len(text):
                raise ExpressionError("Nothing follows the backslash", at=at)
            out.append(text[at + 1])
            at += 2
            continue
        if is_space(char) or not allowed(char):
            break
        out.append(char)
        at += 1
    return "".join(out), min(at, len(text))


def _number(text: str, at: int) -> tuple[Token, int]:
    if text.startswith("0x", at) and at + 2 < len(text):
        digits, end = _run(text, at + 2, lambda c: is_digit(c) or c in "abcdefABCDEF")
        try:
            return Token("NUMERIC", float(_hex(digits)), at), end
        except ValueError:
            raise ExpressionError(f"Unable to parse hex value '{digits}' to uint64", at=at) from None
    digits, end = _run(text, at, lambda c: is_digit(c) or c == ".")
    number = parse_float(digits)
    if number is None:
        raise ExpressionError(f"Unable to parse numeric value '{digits}' to float64", at=at)
    return Token("NUMERIC", number, at), end


def _hex(digits: str) -> int:
    number = int(digits, 16) if digits.isascii() else -1
    if not 0 <= number < 2**64:
        raise ValueError(digits)
    return number


def _bracketed(text: str, at: int) -> tuple[Token, int]:
    value, end = _until(text, at + 1, "]")
    if end >= len(text):
        raise ExpressionError("Unclosed parameter bracket", at=at)
    return Token("VARIABLE", value, at), end + 1


def _quoted(text: str, at: int) -> tuple[Token, int]:
    """Either quote ends a string, whichever began it."""
    value, end = _until(text, at + 1, "'\"")
    if end >= len(text):
        raise ExpressionError("Unclosed string literal", at=at)
    moment = _moment(value)
    return Token("STRING" if moment is None else "TIME", value if moment is None else moment, at), end + 1


def _until(text: str, at: int, closing: str) -> tuple[str, int]:
    out: list[str] = []
    while at < len(text) and text[at] not in closing:
        if text[at] == "\\":
            at += 1
        out.append(text[at : at + 1])
        at += 1
    return "".join(out), at


def _word(text: str, at: int) -> tuple[Token, int]:
    word, end = _run(text, at, lambda c: is_letter(c) or is_digit(c) or c in "_.")
    if word.find(".") > 0:
        if word.endswith("."):
            raise ExpressionError(f"Hanging accessor on token '{word}'", at=at, hint=_DOT_HINT)
        path = word.split(".")
        for field in path[1:]:
            if field[:1] != upper(field[:1]):
                message = f"Unable to access unexported field '{field}' in token '{word}'"
                raise ExpressionError(message, at=at, hint=_DOT_HINT)
        return Token("ACCESSOR", path, at), end
    if word in ("true", "false"):
        return Token("BOOLEAN", word == "true", at), end
    if word in ("in", "IN"):
        return Token("COMPARATOR", "in", at), end
    return Token("VARIABLE", word, at), end


def _is_symbol(char: str) -> bool:
    return not (is_digit(char) or is_letter(char) or char in "()[]'\"")


def _moment(text: str) -> Time | None:
    """The time that a string looks like, if it does."""
    if not 4 <= len(text) <= 64 or not any(map(is_digit, text)):
        return None
    for layout in _TIMES:
        try:
            return parsed_time(layout, text)
        except ExpressionError:
            continue
    return None
