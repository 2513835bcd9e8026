"""The syntax of the JSONPath dialect of Argo's `jsonpath` function: steps, filters `?(@.age > 42)`, scripts
`(@.length-1)`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_encoding import from_json
from muster.workflows.lang.go_numbers import divide, parse_float, parse_int, power, remainder
from muster.workflows.lang.go_regex import compile_regex
from muster.workflows.lang.go_values import Int64, deep_equal, format_value
from muster.workflows.lang.limits import MAX_DEPTH

# -- Filters and scripts


class Document:
    """The value that a path is applied to, and how many steps its query has taken."""

    __slots__ = ("steps_taken", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.steps_taken = 0


Select: TypeAlias = Callable[[Document, Any], Any]
"""Returns what a path inside the expression finds, given the document and the current element."""
_OPERATORS = (
    "||", "&&", "==", "!=", "<=", ">=", "<", ">", "=~", "!", "+", "-", "**", "*", "/", "%", "not in", "in", "@", "$",
)  # fmt: skip
_TRUE = ("1", "t", "T", "true", "TRUE", "True")
_FALSE = ("0", "f", "F", "false", "FALSE", "False")
_NUMBERS: dict[str, Callable[[float, float], Any]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": divide,
    "**": power,
}


@dataclass(frozen=True, slots=True)
class Operation:
    operator: str
    left: Any = None
    right: Any = None


@dataclass(frozen=True, slots=True)
class Path:
    select: Select


class _Names(dict[str, Any]):
    """The words that have a meaning in a script, with their values."""

    def __init__(self, document: Document, current: Any) -> None:
        super().__init__({"$": document.value, "@": current, "nil": None, "null": None})
        self.document = document


class Script:
    """A compiled filter or script.

    The dialect finds operators by searching for their text, the loosest first, and keeps strings in single quotes while
    it computes.
    """

    def __init__(self, text: str, compile_select: Callable[[str], Select]) -> None:
        self.text = text
        self._compile_select = compile_select
        self._root = self._parse_operation(text, _OPERATORS, 0)

    def evaluate(self, document: Document, current: Any) -> Any:
        """Raises ExpressionError if the values do not fit the operators."""
        if not self.text:
            raise ExpressionError("invalid expression. is empty")
        known = _Names(document, current)
        if self._root is not None:
            return _evaluate(self._root, known)
        if self.text in known:
            return known[self.text]
        for read in (_number, _boolean):
            try:
                return read(self.text, known)
            except ExpressionError:
                continue
        return self.text

    def _parse_operation(self, text: str, operators: tuple[str, ...], depth: int) -> Operation | Path | None:
        if depth > MAX_DEPTH:
            raise ExpressionError(f"invalid expression. nested more than {MAX_DEPTH} levels deep")
        text = text.strip()
        if not text:
            return None
        if text.startswith("(") and text.endswith(")"):
            text, operators = text[1:-1].strip(), _OPERATORS
        for number, operator in enumerate(operators):
            at = _find(text, operator)
            if at < 0:
                continue
            left, right = text[:at].strip(), text[at + len(operator) :].strip()
            if operator in ("@", "$"):
                if not left:
                    return Path(self._compile_select(text))
                continue
            if not right or (not left and operator != "!") or (left and operator == "!"):
                continue
            rest = operators[number:]
            return Operation(
                operator, self._parse_argument(left, rest, depth), self._parse_argument(right, rest, depth)
            )
        return None

    def _parse_argument(self, text: str, operators: tuple[str, ...], depth: int) -> Any:
        found = self._parse_operation(text, operators, depth + 1)
        if found is not None or not text:
            return found
        if text[0] + text[-1] in ("[]", "{}"):
            try:
                return from_json(text)
            except ExpressionError:
                return text
        return text


def _find(text: str, operator: str) -> int:
    """Returns where an operator is outside of quotes and brackets, or -1."""
    quote, square, round_ = "", 0, 0
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"" and not square and not round_:
            quote = char
        elif char in "()" and not square:
            round_ += 1 if char == "(" else -1
        elif char in "[]" and not round_:
            square += 1 if char == "[" else -1
        if quote or square > 0 or round_ > 0:
            continue
        start = at + 1 - len(operator)
        if start >= 0 and text[start : at + 1] == operator:
            return start
    return -1


def _evaluate(node: Any, known: _Names) -> Any:
    if isinstance(node, Path):
        value = node.select(known.document, known["@"])
        return _add_quotes(value) if isinstance(value, str) else value
    if not isinstance(node, Operation):
        return node
    match node.operator:
        case "||" | "&&":
            first, second = _boolean(node.left, known), _boolean(node.right, known)
            return first or second if node.operator == "||" else first and second
        case "!":
            return not _boolean(node.right, known)
        case "==" | "!=":
            return _equal(node, known) == (node.operator == "==")
        case "=~":
            return _matches(node, known)
        case "in" | "not in":
            return _is_in(node, known) == (node.operator == "in")
        case "%":
            return _modulo(_integer(node.left, known), _integer(node.right, known))
        case operator:
            return _NUMBERS[operator](_number(node.left, known), _number(node.right, known))


def _modulo(a: int, b: int) -> Int64:
    if b == 0:
        raise ExpressionError("runtime error: integer divide by zero")
    return Int64(remainder(a, b))


def _evaluate_name(node: Any, known: _Names) -> Any:
    value = _evaluate(node, known)
    return known[value] if isinstance(value, str) and value in known else value


def _number(node: Any, known: _Names) -> float:
    if node is None:
        raise ExpressionError("invalid argument. is nil")
    number = parse_float(format_value(_evaluate_name(node, known)))
    if number is None:
        raise ExpressionError("invalid argument. expected number")
    return number


def _integer(node: Any, known: _Names) -> int:
    if node is None:
        raise ExpressionError("invalid argument. is nil")
    number = parse_int(format_value(_evaluate_name(node, known)))
    if number is None:
        raise ExpressionError("invalid argument. expected integer")
    return number


def _boolean(node: Any, known: _Names) -> bool:
    value = _evaluate_name(node, known)
    if value is None:
        return False
    word = format_value(value)
    if word not in _TRUE and word not in _FALSE:
        raise ExpressionError("invalid argument. expected boolean")
    return word in _TRUE


def _string(node: Any, known: _Names) -> str:
    if node is None:
        raise ExpressionError("invalid argument. is nil")
    value = _evaluate(node, known)
    if not isinstance(value, str):
        return format_value(value)
    if value in known:
        value = known[value]
        return _add_quotes(_strip_quotes(value, '"')) if isinstance(value, str) else format_value(value)
    unquoted = _strip_quotes(value, '"')
    return value if unquoted == value else _add_quotes(unquoted)


def _add_quotes(text: str) -> str:
    return text if len(text) > 1 and text[0] == text[-1] == "'" else f"'{text}'"


def _strip_quotes(text: str, quote: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == quote else text


def _equal(node: Operation, known: _Names) -> bool:
    try:
        return _number(node.left, known) == _number(node.right, known)
    except ExpressionError:
        return _string(node.left, known) == _string(node.right, known)


def _matches(node: Operation, known: _Names) -> bool:
    text, pattern = _strip_quotes(_string(node.left, known), "'"), _strip_quotes(_string(node.right, known), "'")
    try:
        return compile_regex(pattern).matches(text)
    except ExpressionError:
        raise ExpressionError("invalid argument. expected a valid regexp") from None


def _is_in(node: Operation, known: _Names) -> bool:
    item: Any = node.left
    for read in (_number, _string, _boolean):
        try:
            item = read(node.left, known)
            break
        except ExpressionError:
            continue
    return any(deep_equal(element, item) for element in _elements(node.right, known))


def _elements(node: Any, known: _Names) -> list[Any]:
    if node is None:
        raise ExpressionError("invalid argument. is nil")
    value = _evaluate_name(node, known)
    if value is None:
        raise ExpressionError("invalid argument. is nil")
    if isinstance(value, list):
        return value
    if isinstance(value, Mapping):
        return list(value.values())
    raise ExpressionError("invalid argument. expected array, map, or slice")


# -- Steps

_NUMBER = re.compile(r"[+-]?[0-9]+", re.ASCII)

Apply: TypeAlias = Callable[[tuple["Step", ...], Document, Any], Any]
"""Follows steps, given the document and the current element."""


@dataclass(frozen=True, slots=True)
class Root:
    pass


@dataclass(frozen=True, slots=True)
class Current:
    pass


@dataclass(frozen=True, slots=True)
class Key:
    key: str


@dataclass(frozen=True, slots=True)
class Length:
    pass


@dataclass(frozen=True, slots=True)
class Index:
    index: int


@dataclass(frozen=True, slots=True)
class Wildcard:
    pass


@dataclass(frozen=True, slots=True)
class Recursive:
    pass


@dataclass(frozen=True, slots=True)
class Filter:
    script: Script


@dataclass(frozen=True, slots=True)
class Computed:
    """An index or a key that a script computes, as in `[(@.length-1)]`."""

    script: Script


@dataclass(frozen=True, slots=True)
class Range:
    start: int | Script | None
    stop: int | Script | None
    step: int | Script | None


@dataclass(frozen=True, slots=True)
class Union:
    members: tuple[int | str | Script, ...]


Step: TypeAlias = Root | Current | Key | Length | Index | Wildcard | Recursive | Filter | Computed | Range | Union


def parse_path(path: str, apply: Apply, depth: int = 0) -> tuple[Step, ...]:
    """Returns the steps of a path. `apply` follows the paths inside its filters and scripts."""
    if depth > MAX_DEPTH:
        raise ExpressionError("nested too deeply")
    return tuple(_parse_step(word, apply, depth) for word in _split_path(path))


def _split_path(path: str) -> Iterator[str]:
    """Yields `$`, `.name`, `..` and whole brackets."""
    if path[:1] not in ("$", "@"):
        raise ExpressionError(f"unexpected token '{path[:1]}' at index 0")
    if len(path) > 1 and path[1] not in ".[":
        raise ExpressionError(f"unexpected token '{path[1]}' at index 1")
    yield path[0]
    at = 1
    while at < len(path):
        if path.startswith("..", at):
            yield ".."
            at += 2
            continue
        start = at + (path[at] == ".")
        if path[start : start + 1] == "[":
            at = _find_closing(path, start)
            yield path[start:at]
            continue
        end = start
        while end < len(path) and path[end] not in ".[":
            end += 1
        yield path[start:end]
        at = end


def _find_closing(path: str, start: int) -> int:
    """Returns the position after the bracket that closes the one at `start`, ignoring those in quotes and scripts."""
    quotes, scripts, open_brackets = 0, 0, 0
    for at in range(start, len(path)):
        char = path[at]
        quotes += char == "'"
        scripts += (char == "(") - (char == ")")
        open_brackets += (char == "[") - (char == "]")
        if char == "]" and open_brackets == 0 and quotes % 2 == 0 and scripts == 0:
            return at + 1
    return len(path)


def _parse_step(word: str, apply: Apply, depth: int) -> Step:
    word = word.strip()
    if not word:
        raise ExpressionError("invalid token. token string is empty")
    simple: dict[str, Step] = {"$": Root(), "@": Current(), "*": Wildcard(), "..": Recursive(), "length": Length()}
    if word in simple:
        return simple[word]
    if not word.startswith("["):
        return Key(word)
    inside = word[1:-1].strip() if word.endswith("]") else ""
    if inside == "*":
        return Wildcard()
    if inside.startswith("?(") and inside.endswith(")"):
        return Filter(_parse_script(inside[2:-1].strip(), apply, depth))
    if not inside or inside.startswith("?"):
        raise _syntax_error(word)
    return _parse_subscript(inside, word, apply, depth)


def _parse_subscript(inside: str, word: str, apply: Apply, depth: int) -> Step:
    parts = _split_subscript(inside, word)
    separators = {part for part in parts if part in (",", ":")}
    if len(separators) > 1:
        raise _syntax_error(word)
    if not separators:
        member = _parse_member(parts[0], word, apply, depth) if len(parts) == 1 else None
        if isinstance(member, str):
            return Key(member)
        if isinstance(member, Script):
            return Computed(member)
        if member is None:
            raise _syntax_error(word)
        return Index(member)
    if separators == {","}:
        members = [part for part in parts if part != ","]
        if parts.count(",") >= len(members):
            raise _syntax_error(word)
        return Union(tuple(_parse_member(part, word, apply, depth) for part in members))
    return _parse_range(parts, word, apply, depth)


def _parse_range(parts: list[str], word: str, apply: Apply, depth: int) -> Range:
    ends: list[int | Script | None] = [None]
    for part in parts:
        if part == ":":
            ends.append(None)
            continue
        member = _parse_member(part, word, apply, depth)
        if isinstance(member, str):
            raise ExpressionError(f"invalid expression. invalid format '{part}'")
        ends[-1] = member
    if len(ends) > 3:
        raise _syntax_error(word)
    return Range(*[*ends, None][:3])


def _split_subscript(inside: str, word: str) -> list[str]:
    """Returns the members and separators of a subscript: `'a'`, `(@.length-1)`, `3`, `,` and `:`."""
    parts: list[str] = []
    pending, quote, open_scripts = "", "", 0
    for char in inside:
        if quote:
            if char == quote and pending.endswith("\\"):
                pending = pending[:-1] + char
                continue
            pending += char
            if char == quote:
                parts.append(pending)
                pending, quote = "", ""
        elif open_scripts or char == "(":
            open_scripts += (char == "(") - (char == ")")
            pending += char
            if not open_scripts:
                parts.append(pending.strip())
                pending = ""
        elif char in "'\"":
            if pending.strip():
                raise _syntax_error(word)
            pending, quote = char, char
        elif char in ",:":
            if pending.strip():
                parts.append(pending.strip())
            parts.append(char)
            pending = ""
        else:
            pending += char
    if pending.strip():
        parts.append(pending.strip())
    return parts


def _parse_member(part: str, word: str, apply: Apply, depth: int) -> int | str | Script:
    if _NUMBER.fullmatch(part) and len(part) < 20:
        return int(part)
    if len(part) > 1 and part[0] == part[-1] and part[0] in "'\"":
        return part[1:-1]
    if len(part) > 2 and part[0] == "(" and part[-1] == ")":
        return _parse_script(part[1:-1], apply, depth)
    raise _syntax_error(word)


def _parse_script(text: str, apply: Apply, depth: int) -> Script:
    def compile_select(path: str) -> Select:
        steps = parse_path(path, apply, depth + 1)
        return lambda document, current: apply(steps, document, current)

    return Script(text, compile_select)


def _syntax_error(word: str) -> ExpressionError:
    return ExpressionError(f"invalid token. '{word}' does not match any token format")
