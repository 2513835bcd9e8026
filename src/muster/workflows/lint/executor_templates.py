"""Validates templates that run something: container, script, containerSet, resource, http, data, suspend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from muster.workflows.lint.field_rules import (
    Findings,
    check_names,
    duration_problem,
    expression_problem,
    integer_problem,
)
from muster.workflows.lint.scope import Scope, check_tags
from muster.workflows.lint.steps_and_dag import find_cycle
from muster.workflows.lint.walk import Frame

_ACTIONS = ("get", "create", "apply", "delete", "replace", "patch")
_STRATEGIES = ("strategic", "merge", "json")


def check_resource(frame: Frame, scope: Scope) -> None:
    resource, path, findings = frame.template["resource"], f"{frame.path}.resource", frame.holder.findings
    action = frame.filled(resource.get("action") or "")
    if action not in _ACTIONS and "{{" not in action:
        findings.add(f"{path}.action", f"resource.action must be one of: {', '.join(_ACTIONS)}")
    strategy = resource.get("mergeStrategy") or ""
    if strategy and strategy not in _STRATEGIES and "{{" not in strategy:
        findings.add(f"{path}.mergeStrategy", f"resource.mergeStrategy must be one of: {', '.join(_STRATEGIES)}")
    if action in ("delete", "get"):
        return
    manifest, source = resource.get("manifest") or "", resource.get("manifestFrom")
    if not manifest and source is None:
        findings.add(path, "either resource.manifest or resource.manifestFrom must be specified")
    if manifest and source is not None:
        message = "shouldn't have both `manifest` and `manifestFrom` specified in `Manifest` for resource template"
        findings.add(f"{path}.manifestFrom", f"{message}; keep one of them")
    artifact = (source or {}).get("artifact")
    if artifact is not None:
        name = artifact.get("name") or ""
        known = [a.get("name") or "" for a in (frame.template.get("inputs") or {}).get("artifacts") or ()]
        if name not in known:
            message = f"artifact {name} in `manifestFrom` refer to a non-exist artifact"
            findings.add(f"{path}.manifestFrom.artifact.name", f"{message}{findings.suggestion(name, known)}")
    if manifest:
        wrong = _yaml_problem(scope.without_known(manifest))
        if wrong:
            findings.add(f"{path}.manifest", f"resource.manifest must be a valid yaml: {wrong}")


def _yaml_problem(text: str) -> str:
    try:
        line = _line_of_invalid_key(yaml.parse(text, getattr(yaml, "CBaseLoader", yaml.BaseLoader)))
    except yaml.MarkedYAMLError as error:
        place = f"line {error.problem_mark.line + 1} of it: " if error.problem_mark else ""
        return f"{place}{error.problem}"
    except yaml.YAMLError as error:
        return str(error)
    return f"line {line} of it: a key must be plain text; put a tag in quotes" if line else ""


def _line_of_invalid_key(events: Iterable[Any]) -> int:
    """Returns the line of a mapping used as a key, which is what `{{x}}` without quotes is; 0 if all keys are valid."""
    places: list[bool | None] = []
    """For each open list and mapping: whether a key comes next; None in lists."""
    for event in events:
        if isinstance(event, yaml.CollectionEndEvent):
            places.pop()
            continue
        if not isinstance(event, yaml.NodeEvent):
            continue
        if places and places[-1] is not None:
            if places[-1] and isinstance(event, yaml.CollectionStartEvent):
                return event.start_mark.line + 1 if event.start_mark else 1
            places[-1] = not places[-1]
        if isinstance(event, yaml.CollectionStartEvent):
            places.append(True if isinstance(event, yaml.MappingStartEvent) else None)
    return 0


_OWN_CONTAINERS = ("main", "wait", "init")
_IGNORED_INPUTS = frozenset(("parameters",))


def check_leaf(frame: Frame, scope: Scope) -> None:
    """Validates a container, script, resource, ... or suspend."""
    template, path, findings = frame.template, frame.path, frame.holder.findings
    check_tags(findings, template, path, scope, skip=frozenset(("inputs",)))
    _check_inputs_tags(frame, scope)
    if template.get("container") is not None:
        _check_container(frame, template["container"])
    if template.get("script") is not None:
        _check_image(frame, "script")
    if template.get("containerSet") is not None:
        _check_container_set(findings, template, f"{path}.containerSet")
    if template.get("resource") is not None:
        check_resource(frame, scope)
    if template.get("suspend") is not None:
        _check_duration(findings, template["suspend"].get("duration"), f"{path}.suspend.duration")
    if template.get("http") is not None:
        _check_http(findings, template["http"], f"{path}.http")
    for index, step in enumerate((template.get("data") or {}).get("transformation") or ()):
        wrong = expression_problem(step.get("expression") or "")
        if wrong:
            findings.add(f"{path}.data.transformation[{index}].expression", wrong)
    _check_deadline(frame)
    if template.get("parallelism") is not None:
        findings.add(f"{path}.parallelism", "parallelism is only valid for steps and dag templates")
    _check_side_containers(findings, template, path)


def _check_inputs_tags(frame: Frame, scope: Scope) -> None:
    """The caller sets the value of an input; the value written there is used only without a caller."""
    inputs, path = frame.template.get("inputs") or {}, f"{frame.path}.inputs"
    check_tags(frame.holder.findings, inputs, path, scope, skip=_IGNORED_INPUTS)
    skip = frozenset() if frame.is_entrypoint else frozenset(("value",))
    for index, parameter in enumerate(inputs.get("parameters") or ()):
        check_tags(frame.holder.findings, parameter, f"{path}.parameters[{index}]", scope, skip=skip)


def _check_container(frame: Frame, container: Mapping[str, Any]) -> None:
    findings, path = frame.holder.findings, frame.path
    mounted: dict[str, str] = {}
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        place = mount.get("mountPath") or ""
        if place in mounted:
            field = f"{path}.container.volumeMounts[{index}].mountPath"
            findings.add(field, f"'{place}' already mounted in {mounted[place]}")
        mounted[place] = f"container.volumeMounts.{mount.get('name')}"
    for index, artifact in enumerate((frame.template.get("inputs") or {}).get("artifacts") or ()):
        place = artifact.get("path") or ""
        if place and place in mounted:
            findings.add(f"{path}.inputs.artifacts[{index}].path", f"'{place}' already mounted in {mounted[place]}")
        mounted[place] = f"inputs.artifacts.{artifact.get('name')}"
    _check_image(frame, "container")


def _check_image(frame: Frame, kind: str) -> None:
    default = (frame.holder.defaults.get(kind) or {}).get("image")
    if not frame.template[kind].get("image") and not default:
        field = f"{frame.path}.{kind}.image"
        frame.holder.findings.add(field, f"{kind}.image may not be empty; name one, such as python:3.12")


def _check_container_set(findings: Findings, template: Mapping[str, Any], path: str) -> None:
    containers = template["containerSet"].get("containers") or ()
    if not containers:
        findings.add(f"{path}.containers", "containers must have at least one container")
        return
    check_names(findings, containers, f"{path}.containers")
    seen: set[str] = set()
    for index, mount in enumerate(template["containerSet"].get("volumeMounts") or ()):
        place = mount.get("mountPath") or ""
        if place in seen:
            findings.add(f"{path}.volumeMounts[{index}].mountPath", f"'{place}' already mounted")
        seen.add(place)
    graph = {c.get("name") or "": list(c.get("dependencies") or ()) for c in containers}
    for index, container in enumerate(containers):
        for number, needed in enumerate(container.get("dependencies") or ()):
            if needed not in graph:
                field = f"{path}.containers[{index}].dependencies[{number}]"
                findings.add(field, f"dependency '{needed}' not defined{findings.suggestion(needed, graph)}")
    circle = find_cycle({name: [n for n in needed if n in graph] for name, needed in graph.items()})
    if circle:
        findings.add(f"{path}.containers", f"dependency cycle detected: {'->'.join(circle)}")
    outputs, inputs = template.get("outputs") or {}, template.get("inputs") or {}
    if "main" not in graph and (inputs.get("artifacts") or outputs.get("parameters") or outputs.get("artifacts")):
        findings.add(f"{path}.containers", 'containers must have a container named "main" for input or output')
    retry = template["containerSet"].get("retryStrategy") or {}
    duration = retry.get("duration") or ""
    wrong = duration_problem(duration, plain_seconds=False) if duration else ""
    if wrong:
        findings.add(f"{path}.retryStrategy.duration", wrong)


def _check_http(findings: Findings, http: Mapping[str, Any], path: str) -> None:
    if not http.get("url"):
        findings.add(f"{path}.url", "http.url is required")
    wrong = expression_problem(http["successCondition"]) if http.get("successCondition") else ""
    if wrong:
        findings.add(f"{path}.successCondition", wrong)
    if http.get("body") and http.get("bodyFrom"):
        findings.add(f"{path}.bodyFrom", "body and bodyFrom are both set; keep one of them")


def _check_deadline(frame: Frame) -> None:
    deadline = frame.template.get("activeDeadlineSeconds")
    if deadline is None:
        return
    value = frame.filled(deadline) if isinstance(deadline, str) else deadline
    tagged = isinstance(value, str) and value.startswith("{{") and value.endswith("}}")
    if not tagged and ((isinstance(value, str) and integer_problem(value)) or ("{{" in str(value)) or int(value) < 0):
        message = "activeDeadlineSeconds must be a positive integer > 0 or an argo variable"
        frame.holder.findings.add(f"{frame.path}.activeDeadlineSeconds", message)


def _check_duration(findings: Findings, text: str | None, path: str) -> None:
    wrong = duration_problem(text) if text else ""
    if wrong:
        findings.add(path, wrong)


def _check_side_containers(findings: Findings, template: Mapping[str, Any], path: str) -> None:
    taken = set(_OWN_CONTAINERS) | {c.get("name") for c in (template.get("containerSet") or {}).get("containers") or ()}
    for group in ("initContainers", "sidecars"):
        for index, container in enumerate(template.get(group) or ()):
            name, field = container.get("name") or "", f"{path}.{group}[{index}].name"
            if not name:
                findings.add(field, f"{group} must all have container name")
            elif name in taken:
                findings.add(field, f"'{name}' is the name of another container of the Pod; use another name")
            taken.add(name)
