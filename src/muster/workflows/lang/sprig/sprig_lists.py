"""sprig: lists."""

from __future__ import annotations

from typing import Any

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_values import Lists, NilList, deep_equal, go_kind, identity
from muster.workflows.lang.limits import check_count
from muster.workflows.lang.sprig.sprig_functions import function_table, integer, is_empty


def _list(value: Any, complaint: str) -> list[Any]:
    if value is None:
        raise ExpressionError("runtime error: invalid memory address or nil pointer dereference")
    if not isinstance(value, list):
        raise ExpressionError(f"{complaint} {go_kind(value)}")
    return value


def _append(values: Any, value: Any) -> list[Any]:
    return [*_list(values, "Cannot push on type"), value]


def _prepend(values: Any, value: Any) -> list[Any]:
    return [value, *_list(values, "Cannot prepend on type")]


def _first(values: Any) -> Any:
    return next(iter(_list(values, "Cannot find first on type")), None)


def _last(values: Any) -> Any:
    return next(reversed(_list(values, "Cannot find last on type")), None)


def _rest(values: Any) -> list[Any]:
    items = _list(values, "Cannot find rest on type")
    return list(items[1:]) if items else NilList()


def _initial(values: Any) -> list[Any]:
    items = _list(values, "Cannot find initial on type")
    return list(items[:-1]) if items else NilList()


def _reverse(values: Any) -> list[Any]:
    return list(reversed(_list(values, "Cannot find reverse on type")))


def _compact(values: Any) -> list[Any]:
    return [value for value in _list(values, "Cannot compact on type") if not is_empty(value)]


def _uniq(values: Any) -> list[Any]:
    first: dict[Any, Any] = {}
    for value in _list(values, "Cannot find uniq on type"):
        first.setdefault(identity(value), value)
    return list(first.values())


def _without(values: Any, *omitted: Any) -> list[Any]:
    unwanted = set(map(identity, omitted))
    return [value for value in _list(values, "Cannot find without on type") if identity(value) not in unwanted]


def _has(needle: Any, values: Any) -> bool:
    if values is None:
        return False
    return any(deep_equal(needle, value) for value in _list(values, "Cannot find has on type"))


def _slice(values: Any, *indices: Any) -> Any:
    items = _list(values, "list should be type of slice or array but")
    if not items:
        return None
    start = integer(indices[0]) if indices else 0
    stop = integer(indices[1]) if len(indices) > 1 else len(items)
    if not 0 <= start <= stop <= len(items):
        raise ExpressionError("reflect.Value.Slice: slice index out of bounds")
    return type(items)(items[start:stop])


def _concat(*lists: Any) -> list[Any]:
    for values in lists:
        if values is not None and not isinstance(values, list):
            raise ExpressionError(f"Cannot concat type {go_kind(values)} as list")
    items = [_list(values, "") for values in lists]
    check_count(sum(map(len, items)))
    return [value for values in items for value in values] or NilList()


def _chunk(size: int, values: Any) -> Lists:
    items = _list(values, "Cannot chunk type")
    if size <= 0:
        raise ExpressionError("runtime error: makeslice: len out of range")
    return Lists(list(items[at : at + size]) for at in range(0, len(items), size))


FUNCTIONS = function_table(
    ("list tuple", "...any", lambda *values: list(values)),
    ("append push mustAppend mustPush", "any, any", _append),
    ("prepend mustPrepend", "any, any", _prepend),
    ("first mustFirst", "any", _first),
    ("last mustLast", "any", _last),
    ("rest mustRest", "any", _rest),
    ("initial mustInitial", "any", _initial),
    ("reverse mustReverse", "any", _reverse),
    ("compact mustCompact", "any", _compact),
    ("uniq mustUniq", "any", _uniq),
    ("without mustWithout", "any, ...any", _without),
    ("has mustHas", "any, any", _has),
    ("slice mustSlice", "any, ...any", _slice),
    ("concat", "...any", _concat),
    ("chunk mustChunk", "int, any", _chunk),
)
