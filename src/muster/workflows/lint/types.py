"""The types a template can be of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TYPES = ("container", "containerSet", "steps", "dag", "script", "resource", "data", "suspend", "http", "plugin")
LEAVES = frozenset(("container", "containerSet", "script", "resource", "data", "http", "plugin"))
"""Those that run something; a suspend does not."""
POD_TYPES = frozenset(("container", "containerSet", "script", "resource", "data"))


def types_of(template: Mapping[str, Any]) -> list[str]:
    return [kind for kind in TYPES if template.get(kind) is not None]


def type_of(template: Mapping[str, Any]) -> str:
    """'' for one without."""
    return next((kind for kind in TYPES if template.get(kind) is not None), "")
