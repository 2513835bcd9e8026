"""`when`: the govaluate dialect as Argo uses it, where a word without quotes is a string.

Argo evaluates the text after `{{ }}` substitution: `heads == tails`, `3 > 2 && 'a b' != ''`. Its quirks are kept: a
dash is a minus, a dot looks for a field, a quoted date is a number of seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_numbers import divide, parse_float, power, to_int
from muster.workflows.lang.go_regex import compile_regex
from muster.workflows.lang.go_strings import is_digit, is_letter, is_space, upper
from muster.workflows.lang.go_time import SECOND
from muster.workflows.lang.go_time_layout import ANSIC, KITCHEN, RFC3339, RUBY_DATE, UNIX_DATE
from muster.workflows.lang.go_time_values import Time, parse_time
from muster.workflows.lang.go_values import deep_equal, format_value
from muster.workflows.lang.limits import MAX_DEPTH, MAX_TEXT, cache_short_texts, check_budget

# -- Lexer: which tokens there are, and which may follow which

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
_EMPTY_HINT = "A value is missing here. If a tag was replaced by an empty string, put quotes around the tag."
_WORDS_HINT = "Put quotes around a value that is more than one plain word."
_FIELD_HINT = "A dot looks for a field. Put quotes around a value that contains a dot."
_MAY_END = frozenset(("CLAUSE_CLOSE", "NUMERIC", "BOOLEAN", "STRING", "TIME", "PATTERN", "VARIABLE", "ACCESSOR"))


class Token(NamedTuple):
    kind: str
    value: Any
    at: int


def tokenize(text: str) -> list[Token]:
    """Returns the tokens of a `when`. Raises ExpressionError, also if their order is wrong."""
    found: list[Token] = []
    at = 0
    while at < len(text):
        if is_space(text[at]):
            at += 1
            continue
        token, at = _read_token(text, at, found[-1].kind if found else "UNKNOWN")
        found.append(token)
    if sum((token.kind == "CLAUSE") - (token.kind == "CLAUSE_CLOSE") for token in found):
        raise ExpressionError("Unbalanced parenthesis", at=len(text))
    check_token_order(found, len(text))
    return found


def check_token_order(found: list[Token], end: int) -> None:
    """Raises ExpressionError if a token may not follow the one before it."""
    before = Token("UNKNOWN", None, 0)
    for token in found:
        if token.kind not in _FOLLOWING[before.kind]:
            if before.kind == "VARIABLE" and token.kind == "CLAUSE":
                raise ExpressionError(f"Undefined function {before.value}", at=before.at)
            states = f"{before.kind} [{_show_token(before)}] to {token.kind} [{_show_token(token)}]"
            hint = _EMPTY_HINT if _wants_value(before) and not _is_value(token) else _WORDS_HINT
            raise ExpressionError(f"Cannot transition token types from {states}", at=token.at, hint=hint)
        before = token
    if before.kind not in _MAY_END:
        raise ExpressionError("Unexpected end of expression", at=end, hint=_EMPTY_HINT)


def _wants_value(token: Token) -> bool:
    return "STRING" in _FOLLOWING[token.kind] and token.kind != "CLAUSE_CLOSE"


def _is_value(token: Token) -> bool:
    return token.kind in _MAY_END or token.kind in ("CLAUSE", "PREFIX")


def _show_token(token: Token) -> str:
    """Returns a token's value as Go prints it: a parenthesis as a number."""
    return str(ord(token.value)) if token.kind in ("CLAUSE", "CLAUSE_CLOSE") else format_value(token.value)


def _read_token(text: str, at: int, before: str) -> tuple[Token, int]:
    char = text[at]
    if is_digit(char) or char == ".":
        return _read_number(text, at)
    if char == ",":
        return Token("SEPARATOR", ",", at), at + 1
    if char == "[":
        return _read_bracketed(text, at)
    if is_letter(char):
        return _read_word(text, at)
    if char in "'\"":
        return _read_quoted(text, at)
    if char in "()":
        return Token("CLAUSE" if char == "(" else "CLAUSE_CLOSE", char, at), at + 1
    symbol, end = _read_run(text, at, _is_symbol)
    if symbol in ("-", "!", "~") and "PREFIX" in _FOLLOWING[before]:
        return Token("PREFIX", symbol, at), end
    if symbol not in _SYMBOLS:
        raise ExpressionError(f"Invalid token: '{symbol}'", at=at)
    return Token(_SYMBOLS[symbol], symbol, at), end


def _read_run(text: str, at: int, allowed: Callable[[str], bool]) -> tuple[str, int]:
    """Returns the longest run of allowed characters, and its end. A backslash allows the character after it."""
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


def _read_number(text: str, at: int) -> tuple[Token, int]:
    if text.startswith("0x", at) and at + 2 < len(text):
        digits, end = _read_run(text, at + 2, lambda c: is_digit(c) or c in "abcdefABCDEF")
        try:
            return Token("NUMERIC", float(_parse_hex(digits)), at), end
        except ValueError:
            raise ExpressionError(f"Unable to parse hex value '{digits}' to uint64", at=at) from None
    digits, end = _read_run(text, at, lambda c: is_digit(c) or c == ".")
    number = parse_float(digits)
    if number is None:
        raise ExpressionError(f"Unable to parse numeric value '{digits}' to float64", at=at)
    return Token("NUMERIC", number, at), end


def _parse_hex(digits: str) -> int:
    number = int(digits, 16) if digits.isascii() else -1
    if not 0 <= number < 2**64:
        raise ValueError(digits)
    return number


def _read_bracketed(text: str, at: int) -> tuple[Token, int]:
    value, end = _read_until(text, at + 1, "]")
    if end >= len(text):
        raise ExpressionError("Unclosed parameter bracket", at=at)
    return Token("VARIABLE", value, at), end + 1


def _read_quoted(text: str, at: int) -> tuple[Token, int]:
    """Reads a string. Either kind of quote ends it, no matter which started it."""
    value, end = _read_until(text, at + 1, "'\"")
    if end >= len(text):
        raise ExpressionError("Unclosed string literal", at=at)
    moment = _parse_time_literal(value)
    return Token("STRING" if moment is None else "TIME", value if moment is None else moment, at), end + 1


def _read_until(text: str, at: int, closing: str) -> tuple[str, int]:
    out: list[str] = []
    while at < len(text) and text[at] not in closing:
        if text[at] == "\\":
            at += 1
        out.append(text[at : at + 1])
        at += 1
    return "".join(out), at


def _read_word(text: str, at: int) -> tuple[Token, int]:
    word, end = _read_run(text, at, lambda c: is_letter(c) or is_digit(c) or c in "_.")
    if word.find(".") > 0:
        if word.endswith("."):
            raise ExpressionError(f"Hanging accessor on token '{word}'", at=at, hint=_FIELD_HINT)
        path = word.split(".")
        for field in path[1:]:
            if field[:1] != upper(field[:1]):
                message = f"Unable to access unexported field '{field}' in token '{word}'"
                raise ExpressionError(message, at=at, hint=_FIELD_HINT)
        return Token("ACCESSOR", path, at), end
    if word in ("true", "false"):
        return Token("BOOLEAN", word == "true", at), end
    if word in ("in", "IN"):
        return Token("COMPARATOR", "in", at), end
    return Token("VARIABLE", word, at), end


def _is_symbol(char: str) -> bool:
    return not (is_digit(char) or is_letter(char) or char in "()[]'\"")


def _parse_time_literal(text: str) -> Time | None:
    """Returns the time that a string contains, if it does."""
    if not 4 <= len(text) <= 64 or not any(map(is_digit, text)):
        return None
    for layout in _TIMES:
        try:
            return parse_time(layout, text)
        except ExpressionError:
            continue
    return None


# -- Parser and evaluator

_LEVELS = (
    (",",),
    ("?", ":", "??"),
    ("||",),
    ("&&",),
    ("==", "!=", ">", ">=", "<", "<=", "=~", "!~", "in"),
    ("^", "&", "|"),
    (">>", "<<"),
    ("+", "-"),
    ("*", "/", "%"),
    ("**",),
)
"""Operators from the loosest binding to the tightest, all left-associative."""
_BINDING = {symbol: level for level, symbols in enumerate(_LEVELS) for symbol in symbols}
_BETWEEN = frozenset(("SEPARATOR", "TERNARY", "LOGICALOP", "COMPARATOR", "MODIFIER"))
_DASH_HINT = "A dash means minus. Put quotes around a value that contains a dash."


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    value: Any
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """`a.b`: a field of a parameter. Argo has no such parameters."""

    path: list[str]
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class Prefix:
    operator: str
    operand: Any
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    operator: str
    left: Any
    right: Any
    at: int


def evaluate_when(text: str) -> bool:
    """Returns whether a step with this `when` runs. Its tags are already substituted; an empty text means yes.

    Raises ExpressionError with Argo's message.
    """
    if text == "":
        return True
    tree = _parse(text)
    try:
        value = _evaluate(tree)
    except ExpressionError as error:
        # The misspelling is Argo's.
        raise _with_problem(error, text, "Failed to evaluate 'when' expresion") from None
    if not isinstance(value, bool):
        raise ExpressionError(f"Expected boolean evaluation for '{text}'. Got {format_value(value)}", text, 0)
    return value


def parse_when(text: str) -> None:
    """Raises ExpressionError if a `when` is invalid."""
    if text != "":
        _parse(text)


@cache_short_texts(2048)
def _parse(text: str) -> Any:
    if len(text) > MAX_TEXT:
        raise ExpressionError(f"a 'when' of {len(text)} characters is too long (at most {MAX_TEXT})")
    try:
        found = _mark_patterns(tokenize(text))
    except ExpressionError as error:
        raise _with_problem(error, text, "Invalid 'when' expression") from None
    try:
        strings = [token._replace(kind="STRING") if token.kind == "VARIABLE" else token for token in found]
        check_token_order(strings, len(text))
        return _Parser(_mark_patterns(strings)).operation()
    except ExpressionError as error:
        raise _with_problem(error, text, "Failed to parse 'when' expression") from None


def _with_problem(error: ExpressionError, text: str, problem: str) -> ExpressionError:
    hint = ' (hint: try wrapping the affected expression in quotes ("))' if "Invalid token" in error.message else ""
    return ExpressionError(f"{problem} '{text}': {error.message}{hint}", text, error.at, error.hint)


class _Parser:
    def __init__(self, found: list[Token]) -> None:
        self.tokens = found
        self.next = 0
        self.depth = 0

    def peek(self) -> Token | None:
        return self.tokens[self.next] if self.next < len(self.tokens) else None

    def operation(self, loosest: int = 0) -> Any:
        left = self.operand()
        while True:
            token = self.peek()
            if token is None or token.kind not in _BETWEEN or _BINDING[token.value] < loosest:
                return left
            self.next += 1
            left = Operation(token.value, left, self.operation(_BINDING[token.value] + 1), token.at)

    def operand(self) -> Any:
        token = self.peek()
        if token is None or token.kind == "CLAUSE_CLOSE":
            return None
        self.next += 1
        match token.kind:
            case "CLAUSE":
                return self.clause(token)
            case "PREFIX":
                return Prefix(str(token.value), self.operand(), token.at)
            case "ACCESSOR":
                if (following := self.peek()) is not None and following.kind == "CLAUSE":
                    self.operation()
                return Field(token.value, token.at)
            case "TIME":
                return Literal(float(token.value.nanoseconds // SECOND), token.at)
            case "NUMERIC" | "STRING" | "BOOLEAN" | "PATTERN":
                return Literal(token.value, token.at)
            case kind:
                message = f"Unable to plan token kind: '{kind}', value: '{format_value(token.value)}'"
                raise ExpressionError(message, at=token.at)

    def clause(self, opening: Token) -> Any:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ExpressionError(f"parentheses are nested more than {MAX_DEPTH} levels deep", at=opening.at)
        inner = self.operation()
        self.depth -= 1
        self.next += 1
        return inner


def _mark_patterns(found: list[Token]) -> list[Token]:
    """Turns strings after `=~` into patterns. An invalid pattern is an error even if it is never evaluated."""
    out = found[:1]
    for before, token in pairwise(found):
        if before.kind == "COMPARATOR" and before.value in ("=~", "!~") and token.kind == "STRING":
            try:
                compile_regex(token.value)
            except ExpressionError as error:
                raise ExpressionError(error.message, at=token.at) from None
            token = token._replace(kind="PATTERN")
        out.append(token)
    return out


def _evaluate(node: Any) -> Any:
    match node:
        case None:
            return None
        case Literal(value):
            return value
        case Field(path, at):
            raise ExpressionError(f"No parameter '{path[0]}' found.", at=at, hint=_FIELD_HINT)
        case Prefix(operator, operand, at):
            return _apply_prefix(operator, _evaluate(operand), at)
        case _:
            return _evaluate_operation(node)


def _evaluate_operation(node: Operation) -> Any:
    """Evaluates left-hand sides in a loop, since chains of operators can be long."""
    spine = [node]
    while isinstance(spine[-1].left, Operation):
        spine.append(spine[-1].left)
    left = _evaluate(spine[-1].left)
    for part in reversed(spine):
        left = _apply_operator(part, left)
    return left


def _apply_operator(node: Operation, left: Any) -> Any:
    check_budget()
    match node.operator:
        case "&&" if left is False:
            return False
        case "||" if left is True:
            return True
        case "??" | ":" if left is not None:
            return left
        case "?" if left is False:
            return None
    right = _evaluate(node.right)
    match node.operator:
        case ",":
            return [*left, right] if isinstance(left, list) else [left, right]
        case "?":
            _expect(left, bool, node, "ternary operator", "bool")
            return right
        case "??" | ":":
            return right
        case "&&" | "||":
            for side in (left, right):
                _expect(side, bool, node, "logical operator", "bool")
            return right
        case "==":
            return deep_equal(left, right)
        case "!=":
            return not deep_equal(left, right)
        case "=~" | "!~":
            for side in (left, right):
                _expect(side, str, node, "comparator", "number")
            return _matches(node, left, right) == (node.operator == "=~")
        case "in":
            _expect(right, list, node, "comparator", "number")
            return any(deep_equal(left, element) for element in right)
        case ">" | ">=" | "<" | "<=":
            return _compare(node, left, right)
        case "+" if isinstance(left, str) or isinstance(right, str):
            return format_value(left) + format_value(right)
        case "+" if not (isinstance(left, float) and isinstance(right, float)):
            raise _operand_error(left, node, "modifier", "number")
        case operator:
            for side in (left, right):
                _expect(side, float, node, "modifier", "number")
            return _ARITHMETIC[operator](left, right)


def _compare(node: Operation, left: Any, right: Any) -> bool:
    if type(left) is not type(right) or not isinstance(left, str | float):
        raise _operand_error(left, node, "comparator", "number")
    match node.operator:
        case ">":
            return bool(left > right)
        case ">=":
            return bool(left >= right)
        case "<":
            return bool(left < right)
        case _:
            return bool(left <= right)


def _matches(node: Operation, text: str, pattern: str) -> bool:
    try:
        return compile_regex(pattern).matches(text)
    except ExpressionError as error:
        message = f"Unable to compile regexp pattern '{pattern}': {error.message}"
        raise ExpressionError(message, at=node.at) from None


def _apply_prefix(operator: str, value: Any, at: int) -> Any:
    wanted = bool if operator == "!" else float
    if type(value) is not wanted:
        raise ExpressionError(f"Value '{format_value(value)}' cannot be used with the prefix '{operator}'", at=at)
    if operator == "!":
        return not value
    return -value if operator == "-" else float(~to_int(value))


def _expect(value: Any, wanted: type, node: Operation, role: str, name: str) -> None:
    if type(value) is not wanted:
        raise _operand_error(value, node, role, name)


def _operand_error(value: Any, node: Operation, role: str, wanted: str) -> ExpressionError:
    operator = "=" if node.operator == "==" else node.operator
    message = f"Value '{format_value(value)}' cannot be used with the {role} '{operator}', it is not a {wanted}"
    return ExpressionError(message, at=node.at, hint=_DASH_HINT if operator == "-" else "")


def _remainder(a: float, b: float) -> float:
    return math.nan if b == 0 or not math.isfinite(a) else math.fmod(a, b)


def _unsigned(number: float) -> int:
    return to_int(number) % 2**64


_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": divide,
    "%": _remainder,
    "**": power,
    "&": lambda a, b: float(to_int(a) & to_int(b)),
    "|": lambda a, b: float(to_int(a) | to_int(b)),
    "^": lambda a, b: float(to_int(a) ^ to_int(b)),
    "<<": lambda a, b: float((_unsigned(a) << min(_unsigned(b), 64)) % 2**64),
    ">>": lambda a, b: float(_unsigned(a) >> min(_unsigned(b), 64)),
}
