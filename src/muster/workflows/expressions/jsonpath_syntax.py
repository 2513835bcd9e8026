"""The steps of a JSONPath, in the dialect of the Go library behind Argo's `jsonpath` function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from muster.workflows.expressions.errors import ExpressionError
from muster.workflows.expressions.jsonpath_script import Script
from muster.workflows.expressions.limits import MAX_DEPTH

_NUMBER = re.compile(r"[+-]?[0-9]+", re.ASCII)

Apply: TypeAlias = Callable[[tuple["Step", ...], Any, Any], Any]
"""Follows steps, given the root and the current element."""


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
    """An index or a key that a script computes."""

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
    """The steps of a path. `apply` follows the paths inside its filters and scripts."""
    if depth > MAX_DEPTH:
        raise ExpressionError("nested too deeply")
    return tuple(_step(word, apply, depth) for word in _words(path))


def _words(path: str) -> Iterator[str]:
    """`$`, `.name`, `..` and whole brackets."""
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
            at = _closing(path, start)
            yield path[start:at]
            continue
        end = start
        while end < len(path) and path[end] not in ".[":
            end += 1
        yield path[start:end]
        at = end


def _closing(path: str, start: int) -> int:
    """Just behind the bracket that closes the one at `start`; quotes and scripts protect."""
    quotes, scripts, open_brackets = 0, 0, 0
    for at in range(start, len(path)):
        char = path[at]
        quotes += char == "'"
        scripts += (char == "(") - (char == ")")
        open_brackets += (char == "[") - (char == "]")
        if char == "]" and open_brackets == 0 and quotes % 2 == 0 and scripts == 0:
            return at + 1
    return len(path)


def _step(word: str, apply: Apply, depth: int) -> Step:
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
        return Filter(_script(inside[2:-1].strip(), apply, depth))
    if not inside or inside.startswith("?"):
        raise _malformed(word)
    return _subscript(inside, word, apply, depth)


def _subscript(inside: str, word: str, apply: Apply, depth: int) -> Step:
    parts = _parts(inside, word)
    separators = {part for part in parts if part in (",", ":")}
    if len(separators) > 1:
        raise _malformed(word)
    if not separators:
        member = _member(parts[0], word, apply, depth) if len(parts) == 1 else None
        if isinstance(member, str):
            return Key(member)
        if isinstance(member, Script):
            return Computed(member)
        if member is None:
            raise _malformed(word)
        return Index(member)
    if separators == {","}:
        members = [part for part in parts if part != ","]
        if parts.count(",") >= len(members):
            raise _malformed(word)
        return Union(tuple(_member(part, word, apply, depth) for part in members))
    return _range(parts, word, apply, depth)


def _range(parts: list[str], word: str, apply: Apply, depth: int) -> Range:
    ends: list[int | Script | None] = [None]
    for part in parts:
        if part == ":":
            ends.append(None)
            continue
        member = _member(part, word, apply, depth)
        if isinstance(member, str):
            raise ExpressionError(f"invalid expression. invalid format '{part}'")
        ends[-1] = member
    if len(ends) > 3:
        raise _malformed(word)
    return Range(*[*ends, None][:3])


def _parts(inside: str, word: str) -> list[str]:
    """Members and separators of a subscript: `'a'`, `(@.length-1)`, `3`, `,` and `:`."""
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
                raise _malformed(word)
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


def _member(part: str, word: str, apply: Apply, depth: int) -> int | str | Script:
    if _NUMBER.fullmatch(part) and len(part) < 20:
        return int(part)
    if len(part) > 1 and part[0] == part[-1] and part[0] in "'\"":
        return part[1:-1]
    if len(part) > 2 and part[0] == "(" and part[-1] == ")":
        return _script(part[1:-1], apply, depth)
    raise _malformed(word)


def _script(text: str, apply: Apply, depth: int) -> Script:
    def paths(path: str) -> Callable[[Any, Any], Any]:
        steps = parse_path(path, apply, depth + 1)
        return lambda root, current: apply(steps, root, current)

    return Script(text, paths)


def _malformed(word: str) -> ExpressionError:
    return ExpressionError(f"invalid token. '{word}' does not match any token format")
