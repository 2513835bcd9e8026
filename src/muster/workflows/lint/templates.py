"""Validates a template: the rules that hold for every type, then those of its type. Those of steps and dag templates
are in `steps_and_dag.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from muster.workflows.lint.field_rules import (
    LEAVES,
    POD_TYPES,
    TYPES,
    Findings,
    Scope,
    check_names,
    check_tags,
    duration_problem,
    expression_problem,
    integer_problem,
    types_of,
    when_problem,
)
from muster.workflows.lint.inputs_outputs import check_location, check_outputs, check_path
from muster.workflows.lint.steps_and_dag import find_cycle, visit_dag, visit_steps
from muster.workflows.lint.walk import Frame, TemplateWalk

_POLICIES = ("Always", "OnFailure", "OnError", "OnTransientError")


def check_retry_strategy(findings: Findings, strategy: Mapping[str, Any], path: str) -> None:
    policy = strategy.get("retryPolicy") or ""
    if policy and policy not in _POLICIES:
        meant = findings.suggestion(policy, _POLICIES) or f"; use one of {', '.join(_POLICIES)}"
        findings.add(f"{path}.retryPolicy", f"{policy} is not a valid RetryPolicy{meant}")
    limit = strategy.get("limit")
    if limit is not None:
        wrong = integer_problem(limit)
        if wrong:
            findings.add(f"{path}.limit", wrong)
    expression = strategy.get("expression") or ""
    wrong = expression_problem(expression) if expression else ""
    if wrong:
        findings.add(f"{path}.expression", wrong)
    backoff = strategy.get("backoff")
    if backoff is None:
        return
    if not backoff.get("duration"):
        findings.add(f"{path}.backoff.duration", 'no base duration specified for retryStrategy; write "10s", "1m"')
    for field in ("duration", "maxDuration", "cap"):
        wrong = duration_problem(backoff[field]) if backoff.get(field) else ""
        if wrong:
            findings.add(f"{path}.backoff.{field}", wrong)
    factor = backoff.get("factor")
    wrong = integer_problem(factor) if factor is not None else ""
    if wrong:
        findings.add(f"{path}.backoff.factor", wrong)


def check_synchronization(findings: Findings, synchronization: Mapping[str, Any], path: str) -> None:
    for field, mutex in _each(synchronization, "mutex", "mutexes", path):
        if not mutex.get("name"):
            findings.add(f"{field}.name", "a mutex needs a name")
    for field, semaphore in _each(synchronization, "semaphore", "semaphores", path):
        sources = [name for name in ("configMapKeyRef", "database") if semaphore.get(name) is not None]
        if len(sources) != 1:
            message = "cannot get LockName for a Semaphore without a ConfigMapRef or Database"
            findings.add(field, message if not sources else "a semaphore has either configMapKeyRef or database")
            continue
        for key in ("name", "key") if sources == ["configMapKeyRef"] else ("key",):
            if not semaphore[sources[0]].get(key):
                findings.add(f"{field}.{sources[0]}.{key}", f"a semaphore needs the {key} of its limit")


def check_memoize(findings: Findings, memoize: Mapping[str, Any], path: str) -> None:
    if not memoize.get("key"):
        findings.add(f"{path}.key", "memoize.key is required: it identifies the result")
    if not ((memoize.get("cache") or {}).get("configMap") or {}).get("name"):
        findings.add(f"{path}.cache", "memoize.cache.configMap.name is required: it stores the results")
    age = memoize.get("maxAge") or ""
    wrong = duration_problem(age, plain_seconds=False) if age else ""
    if wrong:
        findings.add(f"{path}.maxAge", wrong)


def _each(synchronization: Mapping[str, Any], one: str, many: str, path: str) -> list[tuple[str, Mapping[str, Any]]]:
    found = [(f"{path}.{many}[{index}]", lock) for index, lock in enumerate(synchronization.get(many) or ())]
    if synchronization.get(one) is not None:
        found.append((f"{path}.{one}", synchronization[one]))
    return found


_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_KINDS = ("counter", "gauge", "histogram")


def check_metrics(findings: Findings, metrics: Mapping[str, Any], path: str) -> None:
    for index, metric in enumerate(metrics.get("prometheus") or ()):
        _check_metric(findings, metric, f"{path}.prometheus[{index}]")


def _check_metric(findings: Findings, metric: Mapping[str, Any], path: str) -> None:
    name = metric.get("name") or ""
    if not _NAME.fullmatch(name):
        rule = "Metric names must contain alphanumeric characters or '_'"
        findings.add(f"{path}.name", f"metric name '{name}' is invalid. {rule}")
    for index, label in enumerate(metric.get("labels") or ()):
        if not _NAME.fullmatch(label.get("key") or ""):
            rule = "keys may only contain alphanumeric characters or '_'"
            findings.add(f"{path}.labels[{index}].key", f"metric label '{label.get('key')}' is invalid: {rule}")
    if not metric.get("help"):
        findings.add(f"{path}.help", f"metric '{name}' must contain a help string under 'help: ' field")
    used = [kind for kind in _KINDS if metric.get(kind) is not None]
    if not used:
        findings.add(path, f"metric '{name}' must have one of counter, gauge and histogram")
    for kind in used:
        if not metric[kind].get("value"):
            findings.add(f"{path}.{kind}.value", f"metric '{name}' error: missing {kind}.value")
    gauge = metric.get("gauge") or {}
    if gauge.get("realtime") and "resourcesDuration." in (gauge.get("value") or ""):
        message = "'resourcesDuration.*' metrics cannot be used in real-time"
        findings.add(f"{path}.gauge.value", f"metric '{name}' error: {message}")
    if gauge.get("operation") not in (None, "", "Set", "Add", "Sub"):
        findings.add(f"{path}.gauge.operation", f"'{gauge['operation']}' is not one of Set, Add, Sub")
    wrong = when_problem(metric.get("when") or "")
    if wrong:
        findings.add(f"{path}.when", wrong)


_CHOICES = ", ".join(TYPES)


def visit(walk: TemplateWalk, frame: Frame) -> Iterator[Frame]:
    """Visits a template once. Yields the templates to visit before it continues."""
    if not walk.is_first_visit(frame):
        return
    template, path, findings = frame.template, frame.path, frame.holder.findings
    types = types_of(template)
    if len(types) != 1:
        what = "template type unspecified" if not types else f"multiple template types specified ({', '.join(types)})"
        findings.add(path, f"{what}. choose one of: {_CHOICES}")
        return
    kind = types[0]
    scope = Scope(walk.everywhere, set(frame.visible))
    _check_inputs(frame, kind, scope)
    _check_common(frame, kind)
    if kind == "steps":
        yield from visit_steps(walk, frame, scope)
    elif kind == "dag":
        yield from visit_dag(walk, frame, scope)
    else:
        _add_own_paths(frame, kind, scope)
        check_leaf(frame, scope)
    check_outputs(findings, template, f"{path}.outputs", scope)


def _check_inputs(frame: Frame, kind: str, scope: Scope) -> None:
    inputs, path, findings = frame.template.get("inputs") or {}, f"{frame.path}.inputs", frame.holder.findings
    parameters, artifacts = inputs.get("parameters") or (), inputs.get("artifacts") or ()
    check_names(findings, parameters, f"{path}.parameters", values=True)
    check_names(findings, artifacts, f"{path}.artifacts", values=True)
    scope.names.update(f"inputs.parameters.{p.get('name')}" for p in parameters)
    scope.names.add("inputs.parameters")  # null without any, as in Argo; Hera's runner has it in every script
    for index, artifact in enumerate(artifacts):
        field, name = f"{path}.artifacts[{index}]", artifact.get("name") or ""
        scope.names.add(f"inputs.artifacts.{name}")
        if kind in LEAVES:
            scope.names.add(f"inputs.artifacts.{name}.path")
            check_path(findings, artifact, field)
        elif artifact.get("path"):
            findings.add(f"{field}.path", "path only valid in container/script templates")
        if artifact.get("from"):
            findings.add(f"{field}.from", "from not valid in inputs; set it in the caller's arguments")
        check_location(findings, artifact, field)


def _check_common(frame: Frame, kind: str) -> None:
    template, path, findings = frame.template, frame.path, frame.holder.findings
    if kind in ("steps", "dag") and template.get("activeDeadlineSeconds") is not None:
        findings.add(f"{path}.activeDeadlineSeconds", "activeDeadlineSeconds is only valid for leaf templates")
    timeout = frame.filled(template.get("timeout") or "")
    if timeout:
        title = {"dag": "DAG"}.get(kind, kind.capitalize())
        if kind not in LEAVES:
            findings.add(f"{path}.timeout", f"{title} template doesn't support timeout field")
        elif duration_problem(timeout, plain_seconds=False):
            findings.add(f"{path}.timeout", f'{frame.name} has invalid duration format in timeout; write "30s", "5m"')
    if template.get("retryStrategy") is not None:
        check_retry_strategy(findings, template["retryStrategy"], f"{path}.retryStrategy")
    if template.get("synchronization") is not None:
        check_synchronization(findings, template["synchronization"], f"{path}.synchronization")
    if template.get("memoize") is not None:
        check_memoize(findings, template["memoize"], f"{path}.memoize")
    if template.get("metrics") is not None:
        check_metrics(findings, template["metrics"], f"{path}.metrics")
    if template.get("archiveLocation") is not None:
        check_location(findings, template["archiveLocation"], f"{path}.archiveLocation")


def _add_own_paths(frame: Frame, kind: str, scope: Scope) -> None:
    """A leaf may refer to the paths of its outputs and to its own Pod."""
    if kind in POD_TYPES:
        scope.names.add("pod.name")
    outputs = frame.template.get("outputs") or {}
    scope.names.update(f"outputs.artifacts.{a.get('name')}.path" for a in outputs.get("artifacts") or ())
    scope.names.update(f"outputs.parameters.{p.get('name')}.path" for p in outputs.get("parameters") or ())


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
