"""Sets of an object's fields, as `metadata.managedFields` records them (FieldsV1).

A path is a tuple of FieldsV1's own keys: `f:spec`, then `k:{"name":"web"}` for the item of a list that is told apart by
its name, `v:"x"` for a value of a set. A field that is a member of the set and has members below it is `.` on the wire.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import orjson

Path: TypeAlias = tuple[str, ...]


def to_fields_v1(paths: Iterable[Path]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for path in sorted(paths):
        node = root
        for step in path:
            below = node.get(step)
            if below is None:
                below = node[step] = {}
            elif not below:
                below["."] = {}  # it came as a member, for paths come sorted
            node = below
    return root


def from_fields_v1(fields: Mapping[str, Any]) -> set[Path]:
    found: set[Path] = set()
    _collect(fields, (), found)
    return found


def spell(path: Path) -> str:
    """`.spec.containers[name="web"].image`"""
    return "".join(_spell_step(step) for step in path)


def _collect(fields: Mapping[str, Any], path: Path, found: set[Path]) -> None:
    for step, below in fields.items():
        if step == ".":
            found.add(path)
            continue
        at = (*path, step)
        if below and isinstance(below, dict):
            _collect(below, at, found)
        else:
            found.add(at)


def _spell_step(step: str) -> str:
    sort, _, text = step.partition(":")
    if sort == "f":
        return f".{text}"
    if sort != "k":
        return f"[={text}]" if sort == "v" else f"[{text}]"
    try:
        keys = sorted(orjson.loads(text).items())
    except (orjson.JSONDecodeError, AttributeError):
        return f"[{text}]"  # a client may write anything into managedFields
    return f"[{','.join(f'{name}={orjson.dumps(value).decode()}' for name, value in keys)}]"
