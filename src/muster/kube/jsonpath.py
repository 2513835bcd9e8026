"""Kubernetes' JSONPath: printer columns (`.status.phase`) and templates (`{.items[*].metadata.name}`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import orjson

Selector: TypeAlias = Callable[[list[Any]], list[Any]]


class JsonPathError(ValueError):
    """The path is invalid; the message says where, and what to write."""


def first_value(value: Any, path: str) -> Any:
    """Returns the first match, or None: the cell of a printer column. The braces are optional."""
    found = all_values(value, path)
    return found[0] if found else None


def all_values(value: Any, path: str) -> list[Any]:
    """Returns all matches, in document order."""
    return _path(_strip_braces(path))([value])


def render(value: Any, template: str) -> str:
    """Returns what `-o jsonpath=` prints: text with `{...}`, where braces hold a path, a quoted string, or `range PATH`
    ... `end`. Matches are joined by spaces; objects and lists are printed as JSON."""
    parts = _template(template if "{" in template else "{" + template + "}")
    return "".join(_render(parts, value, value))


def _strip_braces(path: str) -> str:
    path = path.strip()
    return path[1:-1].strip() if path.startswith("{") and path.endswith("}") else path


class _Text(NamedTuple):
    text: str


class _Print(NamedTuple):
    path: Selector
    from_root: bool


class _Range(NamedTuple):
    path: Selector
    from_root: bool
    body: list[Any]


def _render(parts: list[Any], value: Any, root: Any) -> Iterator[str]:
    for part in parts:
        match part:
            case _Text(text):
                yield text
            case _Print(path, from_root):
                yield " ".join(_format_value(found) for found in path([root if from_root else value]))
            case _Range(path, from_root, body):
                for found in path([root if from_root else value]):
                    yield from _render(body, found, root)


def _format_value(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


@lru_cache(maxsize=256)
def _template(template: str) -> list[Any]:
    parts: list[Any] = []
    open_ranges: list[tuple[list[Any], Selector, bool]] = []
    for text, inside in _pieces(template):
        if inside is None:
            parts.append(_Text(text))
        elif inside == "end":
            if not open_ranges:
                raise JsonPathError("{end} without a {range ...} before it")
            outer, path, from_root = open_ranges.pop()
            outer.append(_Range(path, from_root, parts))
            parts = outer
        elif inside.startswith(("range ", "range\t")):
            path_text = inside[6:].strip()
            open_ranges.append((parts, _path(path_text), path_text.startswith("$")))
            parts = []
        elif inside[:1] in ("'", '"'):
            parts.append(_Text(_unquoted(inside)))
        else:
            parts.append(_Print(_path(inside), inside.startswith("$")))
    if open_ranges:
        raise JsonPathError("a {range ...} has no {end}")
    return parts


def _pieces(template: str) -> Iterator[tuple[str, str | None]]:
    """Yields (text, None) outside braces and ('', content) inside; quotes protect braces."""
    at = 0
    while at < len(template):
        start = template.find("{", at)
        if start < 0:
            yield template[at:], None
            return
        if start > at:
            yield template[at:start], None
        end = _find_closing(template, start + 1, "}")
        if end < 0:
            raise JsonPathError(f'"{{" at character {start + 1} is not closed')
        yield "", template[start + 1 : end].strip()
        at = end + 1


def _find_closing(text: str, at: int, bracket: str) -> int:
    quote = ""
    while at < len(text):
        char = text[at]
        if quote:
            if char == "\\":
                at += 1
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char == bracket:
            return at
        elif char == "[" and bracket == "]":
            at = _find_closing(text, at + 1, "]")
            if at < 0:
                return -1
        at += 1
    return -1


def _unquoted(text: str) -> str:
    if len(text) < 2 or text[-1] != text[0]:
        raise JsonPathError(f"the string {text} is not closed")
    return (
        text[1:-1]
        .replace("\\n", "\n")
        .replace("\\t", "\t")
        .replace("\\r", "\r")
        .replace("\\'", "'")
        .replace('\\"', '"')
        .replace("\\\\", "\\")
    )


_NAME = re.compile(r"(?:[^.\[\]\\\s]|\\.)+")


@lru_cache(maxsize=2048)
def _path(path: str) -> Selector:
    """Compiles a path; missing fields match nothing."""
    steps: list[Selector] = []
    at = 1 if path[:1] in ("$", "@") else 0
    while at < len(path):
        if path.startswith("..", at):
            steps.append(_select_recursive)
            at += 2
            if path.startswith("[", at):
                continue
            at = _field(path, at, steps)
        elif path[at] == ".":
            at += 1
            if at == len(path) or path[at] == "[":  # `.` alone is the whole, `.[0]` is `[0]`
                continue
            at = _field(path, at, steps)
        elif path[at] == "[":
            end = _find_closing(path, at + 1, "]")
            if end < 0:
                raise JsonPathError(f'"[" in {path} is not closed')
            steps.append(_bracket(path[at + 1 : end].strip(), path))
            at = end + 1
        elif at == 0:
            at = _field(path, at, steps)
        else:
            raise JsonPathError(f'unexpected "{path[at]}" in {path}; write a field as .name and an item as [0]')

    def follow(values: list[Any]) -> list[Any]:
        for step in steps:
            values = step(values)
            if not values:
                break
        return values

    return follow


def _field(path: str, at: int, steps: list[Selector]) -> int:
    found = _NAME.match(path, at)
    if found is None:
        raise JsonPathError(f"a field name is missing in {path}")
    name = re.sub(r"\\(.)", r"\1", found[0])
    steps.append(_select_all if name == "*" else _key(name))
    return found.end()


def _key(name: str) -> Selector:
    return lambda values: [v[name] for v in values if isinstance(v, dict) and name in v]


def _select_all(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        found += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return found


def _select_recursive(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        found.append(value)
        found += _select_recursive(_select_all([value]))
    return found


def _bracket(inside: str, path: str) -> Selector:
    if inside == "*":
        return _select_all
    if inside.startswith("?(") and inside.endswith(")"):
        return _filter(inside[2:-1].strip(), path)
    if inside[:1] in ("'", '"'):
        names = [_unquoted(part.strip()) for part in _split(inside, ",")]
        return lambda values: [v[n] for v in values if isinstance(v, dict) for n in names if n in v]
    if ":" in inside:
        return _slice(inside, path)
    try:
        indices = [int(part) for part in inside.split(",")]
    except ValueError:
        raise JsonPathError(f"[{inside}] in {path}: write an index, a slice, ['a key'], [*] or [?(@.x==1)]") from None
    return lambda values: [
        v[i] for v in values if isinstance(v, list) for i in indices if -len(v) <= i < len(v)
    ]  # fmt: skip


def _slice(inside: str, path: str) -> Selector:
    try:
        bounds = [int(part) if part.strip() else None for part in inside.split(":")]
    except ValueError:
        raise JsonPathError(f"[{inside}] in {path} is not a slice such as [0:2] or [-1:]") from None
    cut = slice(*bounds)
    return lambda values: [item for v in values if isinstance(v, list) for item in v[cut]]


_COMPARISON = re.compile(r"(==|!=|<=|>=|<|>)")


def _filter(condition: str, path: str) -> Selector:
    at = _outside_quotes(condition)
    if at is None:
        exists = _path(condition)
        return lambda values: [item for item in _select_all(values) if exists([item])]
    left, operator, right = condition[: at[0]].strip(), condition[at[0] : at[1]], condition[at[1] :].strip()
    get_left, get_right = _operand(left, path), _operand(right, path)
    holds = _OPERATORS[operator]

    def keep(item: Any) -> bool:
        one, other = get_left(item), get_right(item)
        if one is _MISSING or other is _MISSING:
            return False
        try:
            return holds(one, other)
        except TypeError:
            return False

    return lambda values: [item for item in _select_all(values) if keep(item)]


_MISSING = object()
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: bool(a == b),
    "!=": lambda a, b: bool(a != b),
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
}


def _outside_quotes(condition: str) -> tuple[int, int] | None:
    quote = ""
    for at, char in enumerate(condition):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        else:
            found = _COMPARISON.match(condition, at)
            if found is not None:
                return found.span()
    return None


def _operand(text: str, path: str) -> Callable[[Any], Any]:
    if text.startswith("@"):
        get = _path(text)
        return lambda item: next(iter(get([item])), _MISSING)
    if text[:1] in ("'", '"'):
        literal: Any = _unquoted(text)
    else:
        try:
            literal = orjson.loads(text)
        except orjson.JSONDecodeError:
            raise JsonPathError(f"cannot read {text or 'nothing'} in the filter of {path}; quote strings") from None
    return lambda _: literal


def _split(text: str, separator: str) -> list[str]:
    parts, start = [], 0
    while (at := _find_closing(text, start, separator)) >= 0:
        parts.append(text[start:at])
        start = at + 1
    return [*parts, text[start:]]
