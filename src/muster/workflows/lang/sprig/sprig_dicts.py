"""sprig: maps. `set` and `unset` hand back a changed map and leave the given one alone: what a workflow holds is
read-only here."""

from __future__ import annotations

import copy
from typing import Any

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.expr.operators import as_string
from muster.workflows.lang.go_values import Strings, go_type
from muster.workflows.lang.sprig.sprig_functions import function_table, is_empty, text

_DICT = "map[string]interface {}"


def _dict(*pairs: Any) -> dict[str, Any]:
    keys, values = pairs[::2], [*pairs[1::2], ""]
    return {text(key): value for key, value in zip(keys, values, strict=False)}


def _unset(given: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name != key}


def _pluck(key: str, *dicts: dict[str, Any]) -> list[Any]:
    return [given[key] for given in dicts if key in given]


def _keys(*dicts: dict[str, Any]) -> Strings:
    """Go's order is random; this one is sorted."""
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
    """What the first one lacks, or has empty, comes from the others in turn."""
    merged = copy.deepcopy(first)
    for other in others:
        _merge_into(merged, other, overwrite=False)
    return merged


def _merge_overwrite(first: dict[str, Any], *others: dict[str, Any]) -> dict[str, Any]:
    """The others in turn overwrite what the first one has."""
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


FUNCTIONS = function_table(
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
