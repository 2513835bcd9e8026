"""What a step or task is repeated for, and what steers it: `when`, hooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from muster.workflows.lint.arguments import check_arguments, check_supplied
from muster.workflows.lint.findings import Findings
from muster.workflows.lint.syntax import expression_problem, integer_problem, when_problem
from muster.workflows.lint.walk import Callee, Frame, Walk

_LOOPS = ("withItems", "withParam", "withSequence")
_NOTHING: Mapping[str, Any] = {}


def is_loop(step: Mapping[str, Any]) -> bool:
    return bool(step.get("withItems") or step.get("withParam")) or step.get("withSequence") is not None


def gathers_items(step: Mapping[str, Any]) -> bool:
    """Whether the outputs of its items are seen as one list."""
    return bool(step.get("withItems") or step.get("withParam"))


def check_items(findings: Findings, step: Mapping[str, Any], path: str) -> set[str]:
    """The names that the items give: `item`, `item.x`; `item.*` stands for any."""
    used = [field for field in _LOOPS if step.get(field) or (field == "withSequence" and step.get(field) is not None)]
    if len(used) > 1:
        findings.add(f"{path}.{used[1]}", f"only one of withItems, withParam, withSequence can be specified: {used}")
    if step.get("withItems"):
        return _names_of(step["withItems"])
    if step.get("withParam"):
        _check_param(findings, step["withParam"], f"{path}.withParam")
        return {"item", "item.*"}
    if step.get("withSequence") is None:
        return set()
    _check_sequence(findings, step["withSequence"], f"{path}.withSequence")
    return {"item"}


def check_when(findings: Findings, step: Mapping[str, Any], path: str) -> None:
    wrong = when_problem(step.get("when") or "")
    if wrong:
        findings.add(f"{path}.when", wrong)


def check_call(findings: Findings, step: Mapping[str, Any], callee: Callee, path: str) -> None:
    """The arguments of a step are good, and are what its template wants."""
    arguments = step.get("arguments") or _NOTHING
    if arguments:
        check_arguments(findings, arguments, f"{path}.arguments")
    if callee.frame is not None:
        check_supplied(findings, callee.frame.template, arguments, path, callee.frame.name)


def check_hooks(walk: Walk, caller: Frame, holder: Mapping[str, Any], path: str) -> None:
    """Hooks of a workflow, a step or a task: each says when, and runs a template that is there."""
    findings = caller.holder.findings
    for event, hook in (holder.get("hooks") or _NOTHING).items():
        field = f"{path}.hooks.{event}"
        expression = hook.get("expression") or ""
        if not expression and event != "exit":
            findings.add(field, f"hooks.{event} Expression required; only the hook named exit goes without")
        wrong = expression_problem(expression) if expression else ""
        if wrong:
            findings.add(f"{field}.expression", wrong)
        if hook.get("template") or hook.get("templateRef") is not None:
            check_call(findings, hook, walk.resolve(hook, caller, field), field)
        else:
            findings.add(field, "failed to get a template: write template or templateRef")


def has_exit_hook(step: Mapping[str, Any]) -> bool:
    return bool(step.get("onExit")) or "exit" in (step.get("hooks") or ())


def _names_of(items: list[Any]) -> set[str]:
    names: set[str] = set()
    for item in items:
        if isinstance(item, dict):
            names.update(f"item.{key}" for key in item)
        elif isinstance(item, list):
            names.update(f"item.[{index}]" for index in range(len(item)))
        else:
            names.add("item")
    return names


def _check_param(findings: Findings, text: str, path: str) -> None:
    if "{{" in text:
        return
    try:
        items = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        findings.add(path, f"withParam value could not be parsed as a JSON list: {text}: {error}")
        return
    if not isinstance(items, list):
        findings.add(path, f"withParam value could not be parsed as a JSON list: {text}; write it as [...]")


def _check_sequence(findings: Findings, sequence: Mapping[str, Any], path: str) -> None:
    if sequence.get("count") is not None and sequence.get("end") is not None:
        findings.add(f"{path}.end", "only one of count or end can be defined in withSequence")
    elif sequence.get("count") is None and sequence.get("end") is None:
        findings.add(path, "neither end nor count was specified in withSequence")
    for field in ("start", "end", "count"):
        wrong = integer_problem(sequence[field]) if sequence.get(field) is not None else ""
        if wrong:
            findings.add(f"{path}.{field}", wrong)
