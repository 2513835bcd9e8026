"""`jsonpath(text, path)`: the JSONPath dialect of Argo's expressions, which is that of the Go library behind it.

Unlike in other dialects, a path without wildcards, filters, ranges or unions finds one value, not a list of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_encoding import from_json
from muster.workflows.lang.go_values import Int64, go_kind, is_number
from muster.workflows.lang.jsonpath_syntax import (
    Computed,
    Current,
    Document,
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
from muster.workflows.lang.limits import cache_short_texts, check_budget

_LIST, _MAP = "array slice", "map"
_MAX_STEPS = 100_000
"""Steps that one query may take."""
_STEPS_PER_CHECK = 64


def query(text: str, path: str) -> Any:
    """Returns what a path finds in a JSON text. Raises ExpressionError."""
    value = from_json(text)
    steps = compile_path(path)
    try:
        return _apply(steps, Document(value), value)
    except (RecursionError, _BudgetExceeded):
        raise ExpressionError("the path finds too much, or the JSON is nested too deeply") from None


@cache_short_texts(512)
def compile_path(path: str) -> tuple[Step, ...]:
    """Returns the steps of a path. Raises ExpressionError."""
    try:
        return parse_path(path, _apply)
    except ExpressionError as error:
        raise ExpressionError(f"invalid JSONPath selector '{path}' {error.message}") from None


class _BudgetExceeded(Exception):
    """The query takes too many steps, as a few `..` can make it do.

    This is not an ExpressionError: those only say that a branch finds nothing.
    """


def _apply(steps: Sequence[Step], document: Document, current: Any) -> Any:
    document.steps_taken += 1
    if document.steps_taken > _MAX_STEPS:
        raise _BudgetExceeded
    if not document.steps_taken % _STEPS_PER_CHECK:
        check_budget()
    if not steps:
        return current
    step, rest = steps[0], steps[1:]
    match step:
        case Root():
            return _apply(rest, document, document.value)
        case Current():
            return _apply(rest, document, current)
        case Key(key):
            return _apply(rest, document, _value_of(current, key))
        case Length():
            return _apply(rest, document, _length(current))
        case Index(index):
            return _apply(rest, document, _element_of(current, index))
        case Computed(script):
            return _apply((_evaluate_subscript(script, document, current), *rest), document, current)
        case Wildcard():
            _expect(current, "wildcard", "array map slice")
            return _apply_to_each(_elements(current), rest, document)
        case Filter(script):
            if not script.text:
                raise ExpressionError("invalid expression. is empty")
            _expect(current, "filter", "array map slice")
            kept = [element for element in _elements(current) if _passes_filter(script, document, element)]
            return _apply_to_list(kept, rest, document)
        case Range():
            return _apply_to_list(_select_range(step, document, current), rest, document)
        case Union(members):
            return _apply_to_list(_select_union(members, document, current), rest, document)
        case Recursive():
            return list(_apply_recursively(rest, document, current))


def _apply_to_list(elements: list[Any], rest: Sequence[Step], document: Document) -> Any:
    """Applies the rest of a path to a list of matches: an index picks one of them, anything else looks into each."""
    if not rest:
        return elements
    if isinstance(rest[0], Index):
        return _apply(rest, document, elements)
    return _apply_to_each(elements, rest, document)


def _apply_to_each(elements: list[Any], rest: Sequence[Step], document: Document) -> list[Any]:
    if not rest:
        return elements
    found: list[Any] = []
    for element in elements:
        try:
            value = _apply(rest, document, element)
        except ExpressionError:
            continue
        if value is not None:
            found.append(value)
    return found


def _apply_recursively(rest: Sequence[Step], document: Document, current: Any) -> Iterator[Any]:
    if current is None:
        return
    if rest:
        try:
            found = _apply(rest, document, current)
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
            yield from _apply_recursively(rest, document, element)


def _elements(value: Any) -> list[Any]:
    return [value[key] for key in sorted(value)] if isinstance(value, dict) else list(value)


def _passes_filter(script: Script, document: Document, element: Any) -> bool:
    try:
        value = script.evaluate(document, element)
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


def _evaluate_subscript(script: Script, document: Document, current: Any) -> Step:
    value = _evaluate_script(script, document, current)
    if value is None:
        raise ExpressionError("unexpected expression result. expected [int string] got [nil]")
    if isinstance(value, str):
        return Key(value)
    if not _is_whole(value):
        raise ExpressionError(f"unexpected expression result. expected [int string] got [{go_kind(value)}]")
    return Index(int(value))


def _evaluate_script(script: Script, document: Document, current: Any) -> Any:
    try:
        return script.evaluate(document, current)
    except ExpressionError as error:
        prefix = "" if error.message.startswith("invalid expression") else "invalid expression. "
        raise ExpressionError(prefix + error.message) from None


def _select_range(step: Range, document: Document, current: Any) -> list[Any]:
    _expect(current, "range", _LIST)
    size = len(current)
    start = _clamp(_range_bound(step.start, document, current, 0), size)
    stop = _clamp(_range_bound(step.stop, document, current, size), size)
    stride = _range_bound(step.step, document, current, 1)
    if stride == 0:
        raise ExpressionError("range: invalid token out of range")
    if stride < 0:
        return [current[at] for at in range(stop - 1, start - 1, stride)]
    return [current[at] for at in range(start, stop, stride)]


def _range_bound(end: int | Script | None, document: Document, current: Any, default: int) -> int:
    if end is None:
        return default
    if isinstance(end, int):
        return end
    value = _evaluate_script(end, document, current)
    if value is None or not _is_whole(value):
        got = "nil" if value is None else go_kind(value)
        raise ExpressionError(f"range: invalid token unexpected expression result. expected [int] got [{got}]")
    return int(value)


def _clamp(at: int, size: int) -> int:
    return min(max(size + at if at < 0 else at, 0), size)


def _select_union(members: Sequence[int | str | Script], document: Document, current: Any) -> list[Any]:
    wanted = [
        _evaluate_script(member, document, current) if isinstance(member, Script) else member for member in members
    ]
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
