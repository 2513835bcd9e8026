"""Field paths as Kubernetes spells them: `spec.containers[0].image`, `metadata.labels[app.kubernetes.io/name]`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeAlias

Step: TypeAlias = str | int

_STEP = re.compile(r"([^.\[\]]+)|\[([^\]]*)\]")


def join_path(path: str, field: str) -> str:
    """`spec` and `containers[0]` -> `spec.containers[0]`; what begins with a bracket needs no dot."""
    if not path:
        return field
    if not field or field[0] == "[":
        return path + field
    return f"{path}.{field}"


def split_path(path: str) -> list[Step]:
    """`spec.containers[0].image` -> ['spec', 'containers', 0, 'image']."""
    return [name or (int(index) if index.isdigit() else index) for name, index in _STEP.findall(path)]


def spell_path(steps: Iterable[Step]) -> str:
    """The opposite of `split_path`."""
    path = ""
    for step in steps:
        bracketed = isinstance(step, int) or "." in step or "/" in step
        path = join_path(path, f"[{step}]" if bracketed else str(step))
    return path


def value_at(value: Any, path: str) -> Any:
    """What stands at the path, or None."""
    for step in split_path(path):
        if isinstance(value, dict):
            value = value.get(step, value.get(str(step)))
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value
