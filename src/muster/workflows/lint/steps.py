"""Templates of steps."""

from __future__ import annotations

from collections.abc import Iterator

from muster.workflows.lint.items import (
    check_call,
    check_hooks,
    check_items,
    check_when,
    gathers_items,
    has_exit_hook,
)
from muster.workflows.lint.names import field_name_problem
from muster.workflows.lint.scope import Scope, check_tags
from muster.workflows.lint.walk import Frame, Walk


def visit_steps(walk: Walk, frame: Frame, scope: Scope) -> Iterator[Frame]:
    """A step sees what came before it, in earlier groups and in its own. The templates it runs are visited first."""
    findings = frame.holder.findings
    seen: set[str] = set()
    if not frame.template["steps"]:
        findings.add(f"{frame.path}.steps", f"{frame.name} must have at least one step")
    for number, group in enumerate(frame.template["steps"]):
        for index, step in enumerate(group):
            path = f"{frame.path}.steps[{number}][{index}]"
            name = frame.filled(step.get("name") or "")
            _check_name(frame, scope, name, f"{path}.name", seen)
            prefix = f"steps.{name}"
            scope.names.add(f"{prefix}.status")
            items = check_items(findings, step, path)
            scope.any_item = scope.any_item or "item.*" in items
            scope.names |= items
            check_when(findings, step, path)
            callee = walk.resolve(step, frame, path)
            check_call(findings, step, callee, path)
            if callee.frame is not None:
                yield callee.frame
            if has_exit_hook(step):
                walk.add_outputs(scope, callee, prefix, of_items=False)
            check_hooks(walk, frame, step, path)
            if step.get("onExit"):
                walk.named(step["onExit"], frame, f"{path}.onExit")
            inline = step.get("inline") or {}
            own = {f"inputs.parameters.{p.get('name')}" for p in (inline.get("inputs") or {}).get("parameters") or ()}
            check_tags(findings, step, path, scope, own, skip=frozenset(("inline",)))
            walk.add_outputs(scope, callee, prefix, of_items=gathers_items(step))


def _check_name(frame: Frame, scope: Scope, name: str, field: str, seen: set[str]) -> None:
    findings = frame.holder.findings
    if not name:
        findings.add(field, "name is required")
        return
    if name in seen:
        findings.add(field, f"name '{name}' is not unique among the steps of '{frame.name}'")
        return
    seen.add(name)
    wrong = field_name_problem(scope.without_known(name))
    if wrong:
        findings.add(field, f"name '{name}' is invalid: {wrong}")
