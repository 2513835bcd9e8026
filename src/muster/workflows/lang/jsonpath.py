"""`jsonpath(text, path)`: the JSONPath dialect of Argo's expressions, that of the Go library that Argo uses.

Unlike in other dialects, a path without wildcards, filters, ranges or unions finds one value, not a list of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_encoding import from_json
from muster.workflows.lang.go_values import Int64, go_kind, is_number
from muster.workflows.lang.jsonpath_syntax import (
    Computed,
    Current,
    Filter,
    Index,
    Key,
    Length,
    Range,
    Recursive,
    Root,
    Script,
    Step,
    Union,
    Wildcard,
    parse_path,
)

_LIST, _MAP = "array slice", "map"
_MAX_WORK = 300_000


def query(text: str, path: str) -> Any:
    """What a path finds in a JSON text. Raises ExpressionError."""
    value = from_json(text)
    steps = compile_path(path)
    _work.set([0])
    try:
        return _apply(steps, value, value)
    except (RecursionError, _BudgetExceeded):
        raise ExpressionError("the path finds too much, or the JSON is nested too deeply") from None


@lru_cache(maxsize=512)
def compile_path(path: str) -> tuple[Step, ...]:
    """The steps of a path."""
    try:
        return parse_path(path, _apply)
    except ExpressionError as error:
        raise ExpressionError(f"invalid JSONPath selector '{path}' {error.message}") from None


class _BudgetExceeded(Exception):
    """Ends a search that a few `..` can make endless. No ExpressionError: those only say that a branch has nothing."""


_work: ContextVar[list[int]] = ContextVar("work")


def _apply(steps: Sequence[Step], root: Any, current: Any) -> Any:
    work = _work.get()
    work[0] += 1
    if work[0] > _MAX_WORK:
        raise _BudgetExceeded
    if not steps:
        return current
    step, rest = steps[0], steps[1:]
    match step:
        case Root():
            return _apply(rest, root, root)
        case Current():
            return _apply(rest, root, current)
        case Key(key):
            return _apply(rest, root, _value_of(current, key))
        case Length():
            return _apply(rest, root, _length(current))
        case Index(index):
            return _apply(rest, root, _element_of(current, index))
        case Computed(script):
            return _apply((_evaluate_subscript(script, root, current), *rest), root, current)
        case Wildcard():
            _expect(current, "wildcard", "array map slice")
            return _apply_to_each(_elements(current), rest, root)
        case Filter(script):
            if not script.text:
                raise ExpressionError("invalid expression. is empty")
            _expect(current, "filter", "array map slice")
            kept = [element for element in _elements(current) if _passes_filter(script, root, element)]
            return _apply_to_list(kept, rest, root)
        case Range():
            return _apply_to_list(_select_range(step, root, current), rest, root)
        case Union(members):
            return _apply_to_list(_select_union(members, root, current), rest, root)
        case Recursive():
            return list(_apply_recursively(rest, root, current))


def _apply_to_list(elements: list[Any], rest: Sequence[Step], root: Any) -> Any:
    """What follows a list of finds: an index picks one of them, anything else looks into each."""
    if not rest:
        return elements
    if isinstance(rest[0], Index):
        return _apply(rest, root, elements)
    return _apply_to_each(elements, rest, root)


def _apply_to_each(elements: list[Any], rest: Sequence[Step], root: Any) -> list[Any]:
    if not rest:
        return elements
    found: list[Any] = []
    for element in elements:
        try:
            value = _apply(rest, root, element)
        except ExpressionError:
            continue
        if value is not None:
            found.append(value)
    return found


def _apply_recursively(rest: Sequence[Step], root: Any, current: Any) -> Iterator[Any]:
    if current is None:
        return
    if rest:
        try:
            found = _apply(rest, root, current)
        except ExpressionError:
            found = None
        if isinstance(found, list):
            yield from found
        elif found is not None:
            yield found
    else:
        yield current
    if isinstance(current, dict | list):
        for element in _elements(current):
            yield from _apply_recursively(rest, root, element)


def _elements(value: Any) -> list[Any]:
    return [value[key] for key in sorted(value)] if isinstance(value, dict) else list(value)


def _passes_filter(script: Script, root: Any, element: Any) -> bool:
    try:
        value = script.evaluate(root, element)
    except ExpressionError:
        return False
    if isinstance(value, str):
        quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
        return bool(value[1:-1] if quoted else value)
    return bool(value)


def _value_of(current: Any, key: str) -> Any:
    _expect(current, "key", _MAP)
    if key not in current:
        raise ExpressionError(f"key: invalid token key '{key}' not found")
    return current[key]


def _length(current: Any) -> Any:
    _expect(current, "length", "array map slice string")
    if isinstance(current, dict) and "length" in current:
        return current["length"]
    return Int64(len(current.encode("utf-8", "surrogateescape")) if isinstance(current, str) else len(current))


def _element_of(current: Any, index: int) -> Any:
    _expect(current, "index", _LIST)
    at = len(current) + index if index < 0 else index
    if not 0 <= at < len(current):
        raise ExpressionError("index: invalid token out of range")
    return current[at]


def _evaluate_subscript(script: Script, root: Any, current: Any) -> Step:
    value = _evaluate_script(script, root, current)
    if value is None:
        raise ExpressionError("unexpected expression result. expected [int string] got [nil]")
    if isinstance(value, str):
        return Key(value)
    if not _is_whole(value):
        raise ExpressionError(f"unexpected expression result. expected [int string] got [{go_kind(value)}]")
    return Index(int(value))


def _evaluate_script(script: Script, root: Any, current: Any) -> Any:
    try:
        return script.evaluate(root, current)
    except ExpressionError as error:
        prefix = "" if error.message.startswith("invalid expression") else "invalid expression. "
        raise ExpressionError(prefix + error.message) from None


def _select_range(step: Range, root: Any, current: Any) -> list[Any]:
    _expect(current, "range", _LIST)
    size = len(current)
    start = _clamp(_range_bound(step.start, root, current, 0), size)
    stop = _clamp(_range_bound(step.stop, root, current, size), size)
    stride = _range_bound(step.step, root, current, 1)
    if stride == 0:
        raise ExpressionError("range: invalid token out of range")
    if stride < 0:
        return [current[at] for at in range(stop - 1, start - 1, stride)]
    return [current[at] for at in range(start, stop, stride)]


def _range_bound(end: int | Script | None, root: Any, current: Any, default: int) -> int:
    if end is None:
        return default
    if isinstance(end, int):
        return end
    value = _evaluate_script(end, root, current)
    if value is None or not _is_whole(value):
        got = "nil" if value is None else go_kind(value)
        raise ExpressionError(f"range: invalid token unexpected expression result. expected [int] got [{got}]")
    return int(value)


def _clamp(at: int, size: int) -> int:
    return min(max(size + at if at < 0 else at, 0), size)


def _select_union(members: Sequence[int | str | Script], root: Any, current: Any) -> list[Any]:
    wanted = [_evaluate_script(member, root, current) if isinstance(member, Script) else member for member in members]
    if all(isinstance(member, str) for member in wanted):
        _expect(current, "union", _MAP)
        return [current[key] for key in wanted if key in current]
    places: list[int] = []
    for member in wanted:
        if not _is_whole(member):
            got = "nil" if member is None else go_kind(member)
            expected = "int" if got == "string" else "int string"
            raise ExpressionError(f"union: invalid token argument. expected [{expected}] got [{got}]")
        places.append(int(member))
    _expect(current, "union", _LIST)
    from_start = (len(current) + at if at < 0 else at for at in places)
    return [current[at] for at in from_start if 0 <= at < len(current)]


def _is_whole(value: Any) -> bool:
    return is_number(value) and float(value).is_integer()


def _expect(value: Any, step: str, kinds: str) -> None:
    got = "nil" if value is None else go_kind(value)
    if got not in kinds.split():
        raise ExpressionError(f"{step}: invalid token target. expected [{kinds}] got [{got}]")
