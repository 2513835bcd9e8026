"""sprig's functions on lists and maps.

`set` and `unset` return a changed map and leave the given one alone: the values of a workflow are shared.
"""

from __future__ import annotations

import copy
from typing import Any

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.expr.operators import as_string
from muster.workflows.lang.go_values import Lists, NilList, Strings, deep_equal, equality_key, go_kind, go_type
from muster.workflows.lang.limits import check_count
from muster.workflows.lang.sprig.arguments import function_table, is_empty, to_int64, to_text

# -- Lists


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
        first.setdefault(equality_key(value), value)
    return list(first.values())


def _without(values: Any, *omitted: Any) -> list[Any]:
    unwanted = set(map(equality_key, omitted))
    return [value for value in _list(values, "Cannot find without on type") if equality_key(value) not in unwanted]


def _has(needle: Any, values: Any) -> bool:
    if values is None:
        return False
    return any(deep_equal(needle, value) for value in _list(values, "Cannot find has on type"))


def _slice(values: Any, *indices: Any) -> Any:
    items = _list(values, "list should be type of slice or array but")
    if not items:
        return None
    start = to_int64(indices[0]) if indices else 0
    stop = to_int64(indices[1]) if len(indices) > 1 else len(items)
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


LIST_FUNCTIONS = function_table(
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


# -- Maps

_DICT = "map[string]interface {}"


def _dict(*pairs: Any) -> dict[str, Any]:
    keys, values = pairs[::2], [*pairs[1::2], ""]
    return {to_text(key): value for key, value in zip(keys, values, strict=False)}


def _unset(given: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name != key}


def _pluck(key: str, *dicts: dict[str, Any]) -> list[Any]:
    return [given[key] for given in dicts if key in given]


def _keys(*dicts: dict[str, Any]) -> Strings:
    """Returns the keys, sorted. Go's order is random."""
    return Strings(key for given in dicts for key in sorted(given))


def _dig(*arguments: Any) -> Any:
    if len(arguments) < 3:
        raise ExpressionError("dig needs at least three arguments")
    *path, default, current = arguments
    keys = [as_string(key) for key in path]
    for key in keys:
        if type(current) is not dict:
            held = "nil" if current is None else go_type(current)
            raise ExpressionError(f"interface conversion: interface {{}} is {held}, not {_DICT}")
        if key not in current:
            return default
        current = current[key]
    return current


def _merge(first: dict[str, Any], *others: dict[str, Any]) -> dict[str, Any]:
    """Fills what the first map lacks, or has empty, from the others in turn."""
    merged = copy.deepcopy(first)
    for other in others:
        _merge_into(merged, other, overwrite=False)
    return merged


def _merge_overwrite(first: dict[str, Any], *others: dict[str, Any]) -> dict[str, Any]:
    """Overwrites the first map with the others in turn."""
    merged = copy.deepcopy(first)
    for other in others:
        _merge_into(merged, other, overwrite=True)
    return merged


def _merge_into(target: dict[str, Any], source: dict[str, Any], *, overwrite: bool) -> None:
    for key, value in source.items():
        present = target.get(key)
        if isinstance(value, dict) and isinstance(present, dict) and present:
            _merge_into(present, value, overwrite=overwrite)
        elif overwrite or (value is not None and is_empty(present)):
            target[key] = copy.deepcopy(value)


DICT_FUNCTIONS = function_table(
    ("dict", "...any", _dict),
    ("get", f"{_DICT}, string", lambda given, key: given.get(key, "")),
    ("set", f"{_DICT}, string, any", lambda given, key, value: {**given, key: value}),
    ("unset", f"{_DICT}, string", _unset),
    ("hasKey", f"{_DICT}, string", lambda given, key: key in given),
    ("pluck", f"string, ...{_DICT}", _pluck),
    ("keys", f"...{_DICT}", _keys),
    ("values", _DICT, lambda given: [given[key] for key in sorted(given)]),
    ("pick", f"{_DICT}, ...string", lambda given, *keys: {key: given[key] for key in keys if key in given}),
    ("omit", f"{_DICT}, ...string", lambda given, *keys: {k: v for k, v in given.items() if k not in keys}),
    ("dig", "...any", _dig),
    ("merge mustMerge", f"{_DICT}, ...{_DICT}", _merge),
    ("mergeOverwrite mustMergeOverwrite", f"{_DICT}, ...{_DICT}", _merge_overwrite),
)
