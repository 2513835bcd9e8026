"""Validates a template: the rules that hold for every type, then those of its type."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from muster.workflows.lint.executor_templates import check_leaf
from muster.workflows.lint.field_rules import (
    LEAVES,
    POD_TYPES,
    TYPES,
    Findings,
    check_names,
    duration_problem,
    expression_problem,
    integer_problem,
    types_of,
    when_problem,
)
from muster.workflows.lint.inputs_outputs import check_location, check_outputs, check_path
from muster.workflows.lint.scope import Scope
from muster.workflows.lint.steps_and_dag import visit_dag, visit_steps
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
    if parameters:
        scope.names.add("inputs.parameters")
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
