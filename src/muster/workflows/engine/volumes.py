"""Volumes of the workflow that take something from the steps or tasks around a template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from muster.workflows.engine.dice import CHANCE
from muster.workflows.engine.scope import Scope
from muster.workflows.expressions.tags import substitute
from muster.workflows.model import Template

if TYPE_CHECKING:
    from muster.workflows.engine.run import Run


def with_volumes(run: Run, template: Template, scope: Scope) -> Template:
    """The template with those volumes of the workflow, filled in. Those without tags are the workflow's affair."""
    found = open_volumes(run.spec)
    if not found:
        return template
    own = template.get("volumes") or []
    taken = {volume.get("name") for volume in own}
    known = {name: value for name, value in scope.parameters.items() if value is not None}
    filled = substitute(found, {**run.variables, **known}, allow_unresolved=True, chance=CHANCE)
    return {**template, "volumes": [*own, *(volume for volume in filled if volume.get("name") not in taken)]}


def open_volumes(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Those that still have tags in them."""
    return [volume for volume in spec.get("volumes") or () if "{{" in str(volume)]
