"""Functions of expr-lang on lists and maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.expr.operators import as_int, as_string, fetch, sorted_by
from muster.workflows.lang.expr.types import (
    ANY,
    ARRAY,
    INT,
    BuiltinFunction,
    Type,
    checked,
    expect_count,
    fits,
    named,
    one_of,
    typed,
)
from muster.workflows.lang.go_values import (
    AnyMap,
    NilList,
    Opaque,
    Pairs,
    byte_length,
    go_kind,
    go_type,
    identity,
    is_integer,
    shown,
)
from muster.workflows.lang.limits import check_count


def length(value: Any) -> int:
    if isinstance(value, str | list | Mapping):
        return len(value)
    raise ExpressionError(f"invalid argument for len (type {go_type(value)})")


def get(base: Any, key: Any) -> Any:
    """An element or a field, and nil where there is none."""
    if base is None:
        return None
    if isinstance(base, list | str):
        at = as_int(key)
        size = len(base) if isinstance(base, list) else byte_length(base)
        return fetch(base, at) if -size <= at < size else None
    if isinstance(base, Mapping):
        wanted = "" if key is None else key
        return None if type(wanted) is str and wanted not in base else fetch(base, wanted)
    return base.method(key) if isinstance(base, Opaque) and type(key) is str else None


def _ends(name: str, at: int) -> BuiltinFunction:
    def call(values: Any) -> Any:
        try:
            return fetch(values, at)
        except ExpressionError:
            return None

    def check(arguments: Sequence[Type]) -> Type:
        expect_count(arguments, 1)
        if arguments[0].is_unknown:
            return ANY
        if not arguments[0].is_array:
            raise ExpressionError(f"cannot get {name} element from {arguments[0].label}")
        return named(arguments[0].name[2:])

    return checked(call, check)


def _take(values: Any, count: Any) -> Any:
    _expect_list("take from", values)
    if not is_integer(count):
        raise ExpressionError(f"cannot take {go_kind(count)} elements")
    if count < 0:
        raise ExpressionError("reflect.Value.Slice: slice index out of bounds")
    return type(values)(values[: int(count)])


def _check_take(arguments: Sequence[Type]) -> Type:
    expect_count(arguments, 2)
    if not fits(arguments[0], "array"):
        raise ExpressionError(f"cannot take from {arguments[0].label}")
    if not fits(arguments[1], "integer"):
        raise ExpressionError(f"cannot take {arguments[1].label} elements")
    return arguments[0]


def _keys(value: Any) -> list[Any]:
    return _sorted_keys("get keys from %s", value)


def _values(value: Any) -> list[Any]:
    return [value[key] for key in _sorted_keys("get values from %s", value)]


def _to_pairs(value: Any) -> Pairs:
    return Pairs([key, value[key]] for key in _sorted_keys("transform %s to pairs", value))


def _sorted_keys(doing: str, value: Any) -> list[Any]:
    """Go's maps have no order; this one is at least always the same."""
    if not isinstance(value, Mapping):
        raise ExpressionError("cannot " + doing.replace("%s", go_kind(value)))
    return sorted(value, key=lambda key: (str(type(key)), key if isinstance(key, str | int | float) else str(key)))


def _from_pairs(pairs: Any) -> AnyMap:
    if not isinstance(pairs, list):
        raise ExpressionError(f"cannot transform {shown(pairs)} from pairs")
    out = AnyMap()
    for pair in pairs:
        if not isinstance(pair, list):
            raise ExpressionError(f"invalid pair {shown(pair)}")
        if len(pair) != 2:
            raise ExpressionError(f"invalid pair length {shown(pair)}")
        if isinstance(pair[0], list | dict):
            raise ExpressionError(f"runtime error: hash of unhashable type {go_type(pair[0])}")
        out[pair[0]] = pair[1]
    return out


def _reverse(values: Any) -> list[Any]:
    _expect_list("reverse", values)
    return list(reversed(values))


def _uniq(values: Any) -> list[Any]:
    _expect_list("uniq", values)
    first: dict[Any, Any] = {}
    for value in values:
        first.setdefault(identity(value, of_numbers=True), value)
    return list(first.values())


def _concat(*lists: Any) -> list[Any]:
    for values in lists:
        _expect_list("concat", values)
    check_count(sum(map(len, lists)))
    return [value for values in lists for value in values] or NilList()


def _check_concat(arguments: Sequence[Type]) -> Type:
    if not arguments:
        raise ExpressionError("invalid number of arguments (expected at least 1, got 0)")
    for argument in arguments:
        if not fits(argument, "array"):
            raise ExpressionError(f"cannot concat {argument.label}")
    return ARRAY


def _flatten(values: Any) -> list[Any]:
    _expect_list("flatten", values)
    out: list[Any] = []
    waiting = [iter(values)]
    while waiting:
        for value in waiting[-1]:
            if isinstance(value, list):
                waiting.append(iter(value))
                break
            out.append(value)
        else:
            waiting.pop()
    check_count(len(out))
    return out


def _sort(values: Any, order: Any = "asc") -> list[Any]:
    if as_string(order) not in ("asc", "desc"):
        raise ExpressionError(f"invalid order {order}, expected asc or desc")
    if not isinstance(values, list):
        return NilList()
    return sorted_by(values, values, descending=order == "desc")


def _expect_list(doing: str, value: Any) -> None:
    if not isinstance(value, list):
        raise ExpressionError(f"cannot {doing} {go_kind(value)}")


FUNCTIONS: dict[str, BuiltinFunction] = {
    "len": checked(length, one_of("array map string", "invalid argument for len (type %s)", INT)),
    "first": _ends("first", 0),
    "last": _ends("last", -1),
    "get": BuiltinFunction(get),
    "take": checked(_take, _check_take),
    "keys": checked(_keys, one_of("map", "cannot get keys from %s", ARRAY)),
    "values": checked(_values, one_of("map", "cannot get values from %s", ARRAY)),
    "toPairs": checked(_to_pairs, one_of("map", "cannot transform %s to pairs", ARRAY)),
    "fromPairs": checked(
        _from_pairs, one_of("array", "cannot transform %s from pairs", named("map[interface {}]interface {}"))
    ),
    "reverse": checked(_reverse, one_of("array", "cannot reverse %s", ARRAY)),
    "uniq": checked(_uniq, one_of("array", "cannot uniq %s", ARRAY)),
    "concat": checked(_concat, _check_concat),
    "flatten": checked(_flatten, one_of("array", "cannot flatten %s", ARRAY)),
    "sort": typed(
        _sort,
        "[]interface {}, string -> []interface {}",
        "[]int, string -> []interface {}",
        "[]float64, string -> []interface {}",
        "[]string, string -> []interface {}",
        "[]interface {} -> []interface {}",
        "[]float64 -> []interface {}",
        "[]string -> []interface {}",
        "[]int -> []interface {}",
    ),
}
