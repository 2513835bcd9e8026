"""How things in a workflow may be called."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from muster.kube.paths import join_path
from muster.workflows.lint.findings import Findings

_FIELD = re.compile(r"[a-zA-Z0-9][-a-zA-Z0-9]*", re.ASCII)
_VALUE = re.compile(r"[-a-zA-Z0-9_]+", re.ASCII)
_TAG = re.compile(r"\{\{.+?\}\}", re.DOTALL)
_LONGEST = 128
_FIELD_RULE = (
    "name must consist of alpha-numeric characters or '-', and must start with an alpha-numeric character "
    "(e.g. My-name1-2, 123-NAME)"
)
_VALUE_RULE = "Parameter/Artifact name must consist of alpha-numeric characters, '_' or '-' e.g. my_param_1, MY-PARAM-1"


def field_name_problem(name: str) -> str:
    """Of a template, a step, a task or a container; '' if the name may be."""
    if len(name) > _LONGEST:
        return f"must be no more than {_LONGEST} characters"
    return "" if _FIELD.fullmatch(name) else _FIELD_RULE


def value_name_problem(name: str) -> str:
    """Of a parameter or an artifact."""
    return "" if _VALUE.fullmatch(name) else _VALUE_RULE


def check_names(
    findings: Findings, items: Sequence[Any], path: str, *, values: bool = False, tags: bool = False
) -> None:
    """Every item has a name, a good one, and no two the same. With `tags`, what they will be filled with is good."""
    seen: set[str] = set()
    problem = value_name_problem if values else field_name_problem
    for index, item in enumerate(items):
        name = item.get("name") or ""
        field = join_path(path, f"[{index}].name")
        if not name:
            findings.add(field, "name is required")
            continue
        wrong = problem(_TAG.sub("x", name) if tags else name)
        if wrong:
            findings.add(field, f"'{name}' is invalid: {wrong}")
        elif name in seen:
            findings.add(field, f"name '{name}' is not unique")
        seen.add(name)
