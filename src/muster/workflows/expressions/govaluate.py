"""`when`: the govaluate dialect as Argo uses it, where a word without quotes is a string.

Argo evaluates the text after `{{ }}` substitution: `heads == tails`, `3 > 2 && 'a b' != ''`. Its quirks are kept: a
dash is a minus, a dot looks for a field, a quoted date is a number of seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from muster.workflows.expressions.errors import ExpressionError
from muster.workflows.expressions.gotime import SECOND
from muster.workflows.expressions.govaluate_lexer import Token, check_order, tokens
from muster.workflows.expressions.limits import MAX_DEPTH, MAX_TEXT
from muster.workflows.expressions.numbers import divide, power, to_int
from muster.workflows.expressions.regex import compiled
from muster.workflows.expressions.values import deep_equal, shown

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
"""From the loosest binding to the tightest, each from left to right."""
_BINDING = {symbol: level for level, symbols in enumerate(_LEVELS) for symbol in symbols}
_BETWEEN = frozenset(("SEPARATOR", "TERNARY", "LOGICALOP", "COMPARATOR", "MODIFIER"))
_DASH_HINT = "A dash means minus: write quotes around a value that has one."
_DOT_HINT = "A dot looks for a field: write quotes around a value that has one."


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    value: Any
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """`a.b`, of a parameter that Argo never has."""

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
    """Whether a step with this `when`, its tags already substituted, is to run. Raises ExpressionError with Argo's
    words. No text at all means yes."""
    if text == "":
        return True
    tree = _parsed(text)
    try:
        value = _value(tree)
    except ExpressionError as error:
        # Argo writes the word like this.
        raise _placed(error, text, "Failed to evaluate 'when' expresion") from None
    if not isinstance(value, bool):
        raise ExpressionError(f"Expected boolean evaluation for '{text}'. Got {shown(value)}", text, 0)
    return value


def parse_when(text: str) -> None:
    """Raises ExpressionError for a `when` that cannot be read."""
    if text != "":
        _parsed(text)


@lru_cache(maxsize=2048)
def _parsed(text: str) -> Any:
    if len(text) > MAX_TEXT:
        raise ExpressionError(f"a 'when' of {len(text)} characters is too long (at most {MAX_TEXT})")
    try:
        found = _with_patterns(tokens(text))
    except ExpressionError as error:
        raise _placed(error, text, "Invalid 'when' expression") from None
    try:
        strings = [token._replace(kind="STRING") if token.kind == "VARIABLE" else token for token in found]
        check_order(strings, len(text))
        return _Parser(_with_patterns(strings)).operation()
    except ExpressionError as error:
        raise _placed(error, text, "Failed to parse 'when' expression") from None


def _placed(error: ExpressionError, text: str, problem: str) -> ExpressionError:
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
                message = f"Unable to plan token kind: '{kind}', value: '{shown(token.value)}'"
                raise ExpressionError(message, at=token.at)

    def clause(self, opening: Token) -> Any:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ExpressionError(f"parentheses are nested more than {MAX_DEPTH} levels deep", at=opening.at)
        inner = self.operation()
        self.depth -= 1
        self.next += 1
        return inner


def _with_patterns(found: list[Token]) -> list[Token]:
    """Strings behind `=~` as patterns. One that is wrong is an error even if nothing gets to it."""
    out = found[:1]
    for before, token in pairwise(found):
        if before.kind == "COMPARATOR" and before.value in ("=~", "!~") and token.kind == "STRING":
            try:
                compiled(token.value)
            except ExpressionError as error:
                raise ExpressionError(error.message, at=token.at) from None
            token = token._replace(kind="PATTERN")
        out.append(token)
    return out


def _value(node: Any) -> Any:
    match node:
        case None:
            return None
        case Literal(value):
            return value
        case Field(path, at):
            raise ExpressionError(f"No parameter '{path[0]}' found.", at=at, hint=_DOT_HINT)
        case Prefix(operator, operand, at):
            return _prefixed(operator, _value(operand), at)
        case _:
            return _operated(node)


def _operated(node: Operation) -> Any:
    """Chains of operators can be long, so their left-hand sides are taken in a loop."""
    spine = [node]
    while isinstance(spine[-1].left, Operation):
        spine.append(spine[-1].left)
    left = _value(spine[-1].left)
    for part in reversed(spine):
        left = _applied(part, left)
    return left


def _applied(node: Operation, left: Any) -> Any:
    match node.operator:
        case "&&" if left is False:
            return False
        case "||" if left is True:
            return True
        case "??" | ":" if left is not None:
            return left
        case "?" if left is False:
            return None
    right = _value(node.right)
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
            return _compared(node, left, right)
        case "+" if isinstance(left, str) or isinstance(right, str):
            return shown(left) + shown(right)
        case "+" if not (isinstance(left, float) and isinstance(right, float)):
            raise _unusable(left, node, "modifier", "number")
        case operator:
            for side in (left, right):
                _expect(side, float, node, "modifier", "number")
            return _ARITHMETIC[operator](left, right)


def _compared(node: Operation, left: Any, right: Any) -> bool:
    if type(left) is not type(right) or not isinstance(left, str | float):
        raise _unusable(left, node, "comparator", "number")
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
        return compiled(pattern).matches(text)
    except ExpressionError as error:
        message = f"Unable to compile regexp pattern '{pattern}': {error.message}"
        raise ExpressionError(message, at=node.at) from None


def _prefixed(operator: str, value: Any, at: int) -> Any:
    wanted = bool if operator == "!" else float
    if type(value) is not wanted:
        raise ExpressionError(f"Value '{shown(value)}' cannot be used with the prefix '{operator}'", at=at)
    if operator == "!":
        return not value
    return -value if operator == "-" else float(~to_int(value))


def _expect(value: Any, wanted: type, node: Operation, role: str, name: str) -> None:
    if type(value) is not wanted:
        raise _unusable(value, node, role, name)


def _unusable(value: Any, node: Operation, role: str, wanted: str) -> ExpressionError:
    operator = "=" if node.operator == "==" else node.operator
    message = f"Value '{shown(value)}' cannot be used with the {role} '{operator}', it is not a {wanted}"
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
