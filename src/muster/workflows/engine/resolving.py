"""What a Workflow object means before anything of it runs: its spec, and the variables of the workflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from muster.kube.objects import Object, spec_of, status_of
from muster.workflows.engine.arguments import ConfigMaps
from muster.workflows.engine.dice import CHANCE, throw_for
from muster.workflows.engine.errors import Refused, message_of
from muster.workflows.engine.merging import merged_workflow_spec
from muster.workflows.engine.variables import workflow_variables
from muster.workflows.expressions.environment import evaluate_in
from muster.workflows.expressions.errors import ExpressionError
from muster.workflows.expressions.tags import substitute
from muster.workflows.model import World

CONTROLS = ("suspend", "shutdown", "parallelism", "activeDeadlineSeconds", "priority")
"""Fields that may change while a workflow runs."""


@dataclass(slots=True)
class Resolved:
    spec: Object
    variables: dict[str, str] = field(default_factory=dict)
    stored_spec: Object | None = None
    """What a `workflowTemplateRef` led to."""
    metadata: dict[str, dict[str, str]] = field(default_factory=dict)
    """Labels and annotations that the workflow wants to have."""
    phase: str = ""
    """How the workflow ends if it cannot run at all, with the message why."""
    message: str = ""


def resolve_workflow(workflow: Object, world: World, now: datetime, config_maps: ConfigMaps) -> Resolved:
    spec = spec_of(workflow)
    stored = None
    if spec.get("workflowTemplateRef"):
        try:
            stored = _stored(workflow, spec, world)
        except Refused as error:
            return Resolved(spec, phase="Error", message=message_of(error))
        spec = {**stored, **{name: spec[name] for name in CONTROLS if spec.get(name) is not None}}
        if spec_of(workflow).get("suspend") is None:
            spec.pop("suspend", None)
    resolved = Resolved(spec, stored_spec=stored)
    try:
        resolved.variables = workflow_variables(workflow, spec, now, config_maps)
        throw_for(resolved.variables["workflow.uid"])
        resolved.spec = substituted_spec(spec, resolved.variables)
    except (Refused, ExpressionError) as error:
        resolved.phase, resolved.message = "Failed", f"failed to set global parameters: {message_of(error)}"
        return resolved
    try:
        _add_metadata(resolved)
    except (Refused, ExpressionError) as error:
        resolved.phase, resolved.message = "Error", message_of(error)
    return resolved


def substituted_spec(spec: Object, variables: Mapping[str, str]) -> Object:
    """The spec with the workflow's variables filled in, except in its templates: these come later."""
    outer = {name: value for name, value in spec.items() if name != "templates"}
    return {
        **substitute(outer, variables, allow_unresolved=True, chance=CHANCE),
        "templates": spec.get("templates") or [],
    }


def _stored(workflow: Object, spec: Object, world: World) -> Object:
    stored = status_of(workflow).get("storedWorkflowTemplateSpec")
    if stored:
        return dict(stored)
    ref = spec["workflowTemplateRef"]
    name, cluster_scope = str(ref.get("name") or ""), bool(ref.get("clusterScope"))
    template = world.template(name, cluster_scope=cluster_scope)
    if template is None:
        kind = "clusterworkflowtemplates" if cluster_scope else "workflowtemplates"
        raise Refused(f'{kind}.argoproj.io "{name}" not found')
    return merged_workflow_spec(spec, spec_of(template))


def _add_metadata(resolved: Resolved) -> None:
    wanted: Mapping[str, Any] = resolved.spec.get("workflowMetadata") or {}
    for name in ("labels", "annotations"):
        if wanted.get(name):
            resolved.metadata[name] = {key: str(value) for key, value in wanted[name].items()}
    for key, source in (wanted.get("labelsFrom") or {}).items():
        text = str(source.get("expression") or "")
        value = evaluate_in(text, resolved.variables, CHANCE)
        if not isinstance(value, str):
            raise Refused(f"failed to evaluate label \"{key}\": expression '{text}' must give a string")
        resolved.metadata.setdefault("labels", {})[key] = value
    for name, values in resolved.metadata.items():
        for key, value in values.items():
            resolved.variables[f"workflow.{name}.{key}"] = value
    if resolved.metadata:
        resolved.spec = substituted_spec(resolved.spec, resolved.variables)
