"""A template: what holds for every type, and the way on to what is particular to one."""

from __future__ import annotations

from collections.abc import Iterator

from muster.workflows.lint.artifacts import check_location, check_path
from muster.workflows.lint.dag import visit_dag
from muster.workflows.lint.leaves import check_leaf
from muster.workflows.lint.metrics import check_metrics
from muster.workflows.lint.names import check_names
from muster.workflows.lint.outputs import check_outputs
from muster.workflows.lint.retries import check_memoize, check_retry_strategy, check_synchronization
from muster.workflows.lint.scope import Scope
from muster.workflows.lint.steps import visit_steps
from muster.workflows.lint.syntax import duration_problem
from muster.workflows.lint.types import LEAVES, POD_TYPES, TYPES, types_of
from muster.workflows.lint.walk import Frame, Walk

_CHOICES = ", ".join(TYPES)


def visit(walk: Walk, frame: Frame) -> Iterator[Frame]:
    """Looks at a template once. Answers the templates that have to be visited before it goes on."""
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
            findings.add(f"{field}.from", "from not valid in inputs; the caller's arguments say where it comes from")
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
    """A leaf may name the places where its outputs are collected, and its own Pod."""
    if kind in POD_TYPES:
        scope.names.add("pod.name")
    outputs = frame.template.get("outputs") or {}
    scope.names.update(f"outputs.artifacts.{a.get('name')}.path" for a in outputs.get("artifacts") or ())
    scope.names.update(f"outputs.parameters.{p.get('name')}.path" for p in outputs.get("parameters") or ())
