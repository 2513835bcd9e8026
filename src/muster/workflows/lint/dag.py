"""Templates of tasks that wait for each other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from muster.workflows.expressions import depends
from muster.workflows.expressions.errors import ExpressionError
from muster.workflows.lint.arguments import as_text
from muster.workflows.lint.graphs import ancestors_among, cycle, ordered
from muster.workflows.lint.items import (
    check_call,
    check_hooks,
    check_items,
    check_when,
    gathers_items,
    is_loop,
)
from muster.workflows.lint.names import check_names
from muster.workflows.lint.scope import Scope, check_tags, tagged_strings
from muster.workflows.lint.walk import Callee, Frame, Walk

_STATUS = re.compile(r"\{\{\s*tasks\.([^.{}]+)\.status\s*\}\}")
_INLINE = frozenset(("inline",))


def visit_dag(walk: Walk, frame: Frame, scope: Scope) -> Iterator[Frame]:
    """Every task sees the outputs of every other, but only of those it comes after it knows how they ended. The
    templates that tasks run are visited first."""
    tasks = frame.template["dag"].get("tasks") or []
    findings, base = frame.holder.findings, f"{frame.path}.dag.tasks"
    if not tasks:
        findings.add(base, f"{frame.name} must have at least one task")
        return
    check_names(findings, tasks, base)
    paths = {task.get("name") or "": f"{base}[{index}]" for index, task in enumerate(tasks)}
    by_name: dict[str, Mapping[str, Any]] = {task.get("name") or "": task for task in tasks}
    graph = _graph(frame, by_name, paths)
    order = ordered(graph)
    if len(order) < len(graph):
        findings.add(base, f"dependency cycle detected: {'->'.join(cycle(graph))}")
        order = list(graph)
    callees: dict[str, Callee] = {}
    for name in order:
        task, path = by_name[name], paths[name]
        callee = callees[name] = walk.resolve(task, frame, path)
        if callee.frame is not None:
            yield callee.frame
        walk.add_outputs(scope, callee, f"tasks.{name}", of_items=gathers_items(task))
    _check_target(frame, by_name, scope)
    asked = {name: _asked(by_name[name], paths[name]) for name in order}
    known = ancestors_among(order, graph, asked)
    for name in order:
        task, path = by_name[name], paths[name]
        if task.get("hooks"):
            scope.names.add(f"tasks.{name}.status")
        _check_task(walk, frame, task, path, callees[name])
        before = known.get(name, set())
        extra = check_items(findings, task, path)
        extra |= {f"tasks.{other}.status" for other in before}
        inline = task.get("inline") or {}
        extra |= {f"inputs.parameters.{p.get('name')}" for p in (inline.get("inputs") or {}).get("parameters") or ()}
        check_tags(findings, task, path, scope, extra, skip=_INLINE)
        _check_waits(frame, task, path, before, by_name)


def _graph(frame: Frame, by_name: Mapping[str, Mapping[str, Any]], paths: Mapping[str, str]) -> dict[str, list[str]]:
    """Who waits for whom, of those that are there."""
    findings = frame.holder.findings
    using_depends = any(task.get("depends") for task in by_name.values())
    graph: dict[str, list[str]] = {}
    for name, task in by_name.items():
        path, listed = paths[name], task.get("dependencies") or ()
        if (using_depends or listed) and name[:1].isdigit():
            message = "name cannot begin with a digit when using either 'depends' or 'dependencies'"
            findings.add(f"{path}.name", f"{name} {message}")
        if using_depends and listed:
            message = "cannot use both 'depends' and 'dependencies' in the same DAG template"
            findings.add(f"{path}.dependencies", f"{message}; write depends: {' && '.join(listed)}")
        if using_depends and task.get("continueOn") is not None:
            message = "cannot use 'continueOn' when using 'depends'. Instead use 'dep-task.Failed'/'dep-task.Errored'"
            findings.add(f"{path}.continueOn", message)
        graph[name] = _needed(frame, task, path, by_name)
    return graph


def _needed(frame: Frame, task: Mapping[str, Any], path: str, by_name: Mapping[str, Mapping[str, Any]]) -> list[str]:
    findings = frame.holder.findings
    text = task.get("depends") or ""
    if text:
        field = f"{path}.depends"
        try:
            named = depends.tasks(depends.parse(frame.filled(text)))
        except ExpressionError as error:
            findings.add(field, str(error))
            return []
        fields = dict.fromkeys(named, field)
    else:
        listed = [frame.filled(name) for name in task.get("dependencies") or ()]
        if not listed:
            return []
        named = dict.fromkeys(listed, False)
        fields = {name: f"{path}.dependencies[{index}]" for index, name in enumerate(listed)}
    needed = []
    for name, by_items in named.items():
        other = by_name.get(name)
        if other is None:
            findings.add(fields[name], f"dependency '{name}' not defined{findings.meant(name, by_name)}")
            continue
        if by_items and not is_loop(other):
            message = "uses an items-based condition such as .AnySucceeded or .AllFailed but does not contain any items"
            findings.add(fields[name], f"dependency '{name}' {message}")
        needed.append(name)
    return needed


def _check_task(walk: Walk, frame: Frame, task: Mapping[str, Any], path: str, callee: Callee) -> None:
    findings = frame.holder.findings
    check_when(findings, task, path)
    check_call(findings, task, callee, path)
    check_hooks(walk, frame, task, path)
    if task.get("onExit"):
        walk.named(task["onExit"], frame, f"{path}.onExit")


def _asked(task: Mapping[str, Any], path: str) -> set[str]:
    """The tasks of which it matters whether this one comes after them."""
    found = {name for _, text in tagged_strings(task, path, _INLINE) for name in _STATUS.findall(text)}
    return found | {name for _, name, _ in _handed_over(task, path)}


def _handed_over(task: Mapping[str, Any], path: str) -> Iterator[tuple[str, str, str]]:
    """(field, other task, what) for every argument that is another task's output."""
    arguments = task.get("arguments")
    if not arguments:
        return
    for index, parameter in enumerate(arguments.get("parameters") or ()):
        value = parameter.get("value")
        if isinstance(value, str) and value.startswith("{{tasks."):
            name = as_text(value).split(".")[1]
            yield f"{path}.arguments.parameters[{index}].value", name, f"parameter '{parameter.get('name')}'"
    for index, artifact in enumerate(arguments.get("artifacts") or ()):
        source = artifact.get("from") or ""
        if source.startswith("{{tasks."):
            name = source.split(".")[1]
            yield f"{path}.arguments.artifacts[{index}].from", name, f"artifact '{artifact.get('name')}'"


def _check_waits(
    frame: Frame, task: Mapping[str, Any], path: str, before: set[str], by_name: Mapping[str, Mapping[str, Any]]
) -> None:
    for field, name, what in _handed_over(task, path):
        if name in by_name and name not in before:
            advice = f"add {name} to depends (or dependencies) of the task"
            frame.holder.findings.add(field, f"missing dependency '{name}' for {what}; {advice}")


def _check_target(frame: Frame, by_name: Mapping[str, Mapping[str, Any]], scope: Scope) -> None:
    target, path = frame.template["dag"].get("target") or "", f"{frame.path}.dag.target"
    if not target:
        return
    findings = frame.holder.findings
    check_tags(findings, target, path, scope)
    for name in frame.filled(target).split(" "):
        if "{{" not in name and name not in by_name:
            findings.add(path, f"target '{name}' is not defined{findings.meant(name, by_name)}")
