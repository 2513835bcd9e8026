"""Objects with one wrong value: every field in turn, with values of every other type."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from muster.kube.objects import Object

WRONG: tuple[Any, ...] = (None, "", "x", -1, 7, 1.5, True, [], ["x"], [{}], [None], {}, {"x": "y"}, "x" * 5000, 10**18)


class Missing:
    """Stands for a field that is removed."""


def rich_objects() -> list[Object]:
    """Objects of many kinds, with most of their fields."""
    return list(yaml.safe_load_all(Path(__file__).with_name("rich_objects.yaml").read_text()))


def spoiled(obj: Object) -> Iterator[Any]:
    for path in _paths(obj):
        for value in (*WRONG, Missing):
            yield _with(obj, path, value)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in entries:
        yield (*path, key)
        yield from _paths(child, (*path, key))


def _with(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    changed = value.copy()
    if len(path) > 1:
        changed[path[0]] = _with(value[path[0]], path[1:], new)
    elif new is Missing:
        del changed[path[0]]
    else:
        changed[path[0]] = new
    return changed
