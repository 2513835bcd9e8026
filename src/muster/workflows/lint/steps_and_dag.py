"""Validates steps and dag templates: their order, loops, conditions and hooks."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import orjson

from muster.workflows.engine.loops import is_loop
from muster.workflows.lang import depends
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lint.field_rules import (
    Findings,
    Scope,
    check_names,
    check_tags,
    expression_problem,
    field_name_problem,
    integer_problem,
    tagged_strings,
    when_problem,
)
from muster.workflows.lint.inputs_outputs import as_text, check_arguments, check_supplied
from muster.workflows.lint.walk import Callee, Frame, TemplateWalk

_LOOPS = ("withItems", "withParam", "withSequence")
_NOTHING: Mapping[str, Any] = {}
_STATUS = re.compile(r"\{\{\s*tasks\.([^.{}]+)\.status\s*\}\}")
_INLINE = frozenset(("inline",))


def visit_steps(walk: TemplateWalk, frame: Frame, scope: Scope) -> Iterator[Frame]:
    """Validates steps. A step sees earlier groups and its own group. Templates that steps run are visited first."""
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
            _check_all_hooks(walk, frame, step, path)
            check_tags(findings, step, path, scope, _inline_parameters(step), skip=_INLINE)
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


def visit_dag(walk: TemplateWalk, frame: Frame, scope: Scope) -> Iterator[Frame]:
    """Validates a dag. Every task sees the outputs of all others, but the status only of those it comes after.
    Templates that tasks run are visited first."""
    tasks = frame.template["dag"].get("tasks") or []
    findings, base = frame.holder.findings, f"{frame.path}.dag.tasks"
    if not tasks:
        findings.add(base, f"{frame.name} must have at least one task")
        return
    check_names(findings, tasks, base)
    paths = {task.get("name") or "": f"{base}[{index}]" for index, task in enumerate(tasks)}
    by_name: dict[str, Mapping[str, Any]] = {task.get("name") or "": task for task in tasks}
    graph = _graph(frame, by_name, paths)
    order = topological_order(graph)
    if len(order) < len(graph):
        findings.add(base, f"dependency cycle detected: {'->'.join(find_cycle(graph))}")
        order = list(graph)
    callees: dict[str, Callee] = {}
    for name in order:
        task, path = by_name[name], paths[name]
        callee = callees[name] = walk.resolve(task, frame, path)
        if callee.frame is not None:
            yield callee.frame
        walk.add_outputs(scope, callee, f"tasks.{name}", of_items=gathers_items(task))
    _check_target(frame, by_name, scope)
    asked = {name: _referenced_tasks(by_name[name], paths[name]) for name in order}
    known = ancestors_among(order, graph, asked)
    for name in order:
        task, path = by_name[name], paths[name]
        if task.get("hooks"):
            scope.names.add(f"tasks.{name}.status")
        check_when(findings, task, path)
        check_call(findings, task, callees[name], path)
        _check_all_hooks(walk, frame, task, path)
        before = known.get(name, set())
        extra = check_items(findings, task, path)
        extra |= {f"tasks.{other}.status" for other in before}
        check_tags(findings, task, path, scope, extra | _inline_parameters(task), skip=_INLINE)
        _check_dependencies(frame, task, path, before, by_name)


def _graph(frame: Frame, by_name: Mapping[str, Mapping[str, Any]], paths: Mapping[str, str]) -> dict[str, list[str]]:
    """Returns the dependencies between existing tasks."""
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
        graph[name] = _dependencies_of(frame, task, path, by_name)
    return graph


def _dependencies_of(
    frame: Frame, task: Mapping[str, Any], path: str, by_name: Mapping[str, Mapping[str, Any]]
) -> list[str]:
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
            findings.add(fields[name], f"dependency '{name}' not defined{findings.suggestion(name, by_name)}")
            continue
        if by_items and not is_loop(other):
            message = "uses an items-based condition such as .AnySucceeded or .AllFailed but does not contain any items"
            findings.add(fields[name], f"dependency '{name}' {message}")
        needed.append(name)
    return needed


def _referenced_tasks(task: Mapping[str, Any], path: str) -> set[str]:
    """Returns the tasks for which it matters whether this one comes after them."""
    found = {name for _, text in tagged_strings(task, path, _INLINE) for name in _STATUS.findall(text)}
    return found | {name for _, name, _ in _passed_outputs(task, path)}


def _passed_outputs(task: Mapping[str, Any], path: str) -> Iterator[tuple[str, str, str]]:
    """Yields (field, other task, what) for every argument that is another task's output."""
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


def _check_dependencies(
    frame: Frame, task: Mapping[str, Any], path: str, before: set[str], by_name: Mapping[str, Mapping[str, Any]]
) -> None:
    for field, name, what in _passed_outputs(task, path):
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
            findings.add(path, f"target '{name}' is not defined{findings.suggestion(name, by_name)}")


def gathers_items(step: Mapping[str, Any]) -> bool:
    """Whether the outputs of its items are combined into a list."""
    return bool(step.get("withItems") or step.get("withParam"))


def check_items(findings: Findings, step: Mapping[str, Any], path: str) -> set[str]:
    """Returns the names that the items define: `item`, `item.x`; `item.*` means any."""
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
    """Checks that the arguments of a step are valid and match its template."""
    arguments = step.get("arguments") or _NOTHING
    if arguments:
        check_arguments(findings, arguments, f"{path}.arguments")
    if callee.frame is not None:
        check_supplied(findings, callee.frame.template, arguments, path, callee.frame.name)


def check_hooks(walk: TemplateWalk, caller: Frame, holder: Mapping[str, Any], path: str) -> None:
    """Checks hooks of a workflow, step or task: each has a condition and an existing template."""
    findings = caller.holder.findings
    for event, hook in (holder.get("hooks") or _NOTHING).items():
        field = f"{path}.hooks.{event}"
        expression = hook.get("expression") or ""
        if not expression and event != "exit":
            findings.add(field, f"hooks.{event} Expression required; only the hook named exit needs none")
        wrong = expression_problem(expression) if expression else ""
        if wrong:
            findings.add(f"{field}.expression", wrong)
        if hook.get("template") or hook.get("templateRef") is not None:
            check_call(findings, hook, walk.resolve(hook, caller, field), field)
        else:
            findings.add(field, "failed to get a template: write template or templateRef")


def _check_all_hooks(walk: TemplateWalk, frame: Frame, step: Mapping[str, Any], path: str) -> None:
    """Checks the hooks of a step or task, and its `onExit`."""
    check_hooks(walk, frame, step, path)
    if step.get("onExit"):
        walk.named(step["onExit"], frame, f"{path}.onExit")


def _inline_parameters(step: Mapping[str, Any]) -> set[str]:
    """Returns the inputs of an inline template, which the step's own fields may refer to."""
    inputs = (step.get("inline") or _NOTHING).get("inputs") or _NOTHING
    return {f"inputs.parameters.{p.get('name')}" for p in inputs.get("parameters") or ()}


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


def topological_order(graph: Mapping[str, Collection[str]]) -> list[str]:
    """Returns the names, each after those it depends on. Those in a cycle, or after one, are left out."""
    waiting = {name: len(needed) for name, needed in graph.items()}
    followers: dict[str, list[str]] = {}
    for name, needed in graph.items():
        for other in needed:
            followers.setdefault(other, []).append(name)
    ready = deque(name for name, count in waiting.items() if count == 0)
    order = []
    while ready:
        name = ready.popleft()
        order.append(name)
        for follower in followers.get(name, ()):
            waiting[follower] -= 1
            if waiting[follower] == 0:
                ready.append(follower)
    return order


def find_cycle(graph: Mapping[str, Collection[str]]) -> list[str]:
    """Returns a cycle with its first name repeated at the end, or []."""
    rest = graph.keys() - set(topological_order(graph))
    # Every remaining name waits for another one, so following them must come back.
    name = next((n for n in graph if n in rest), None)
    path: dict[str, None] = {}
    while name is not None and name not in path:
        path[name] = None
        name = next((other for other in graph[name] if other in rest), None)
    if name is None:
        return []
    steps = list(path)
    return [*steps[steps.index(name) :], name]


def ancestors_among(
    order: Iterable[str], graph: Mapping[str, Collection[str]], wanted: Mapping[str, Collection[str]]
) -> dict[str, set[str]]:
    """Returns, of the names that each one asks about, those it comes after. One bit per name keeps this linear in the
    number of edges."""
    asked = {name for names in wanted.values() for name in names}
    bits = {name: 1 << index for index, name in enumerate(sorted(asked))}
    before: dict[str, int] = {}
    found: dict[str, set[str]] = {}
    for name in order:
        seen = 0
        for other in graph[name]:
            seen |= before.get(other, 0) | bits.get(other, 0)
        before[name] = seen
        if wanted.get(name):
            found[name] = {other for other in wanted[name] if seen & bits[other]}
    return found
