"""Resolves a Workflow before it runs: its spec and its `{{workflow.*}}` variables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from muster.kube.objects import (
    Object,
    annotations_of,
    labels_of,
    meta,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
)
from muster.kube.pod_security import PREFIX
from muster.workflows.engine.clock import RunClock, format_timestamp, parse_timestamp
from muster.workflows.engine.errors import WorkflowError, error_message
from muster.workflows.engine.templates import (
    ConfigMaps,
    config_map_value,
    merge_workflow_spec,
    parameters_json,
    to_text,
)
from muster.workflows.lang.clock import Clock
from muster.workflows.lang.environment import evaluate_in
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.tags import substitute, without_marks
from muster.workflows.model import ClusterView

_SCHEDULED = "workflows.argoproj.io/scheduled-time"
_LAYOUTS = {
    "B": "%B", "b": "%b", "m": "%m", "A": "%A", "a": "%a", "d": "%d", "H": "%H", "I": "%I", "M": "%M", "S": "%S",
    "Y": "%Y", "y": "%y", "p": "%p", "Z": "UTC", "z": "+0000", "L": ".000",
}  # fmt: skip


def workflow_variables(
    workflow: Object, spec: Object, now: datetime, config_maps: ConfigMaps, clock: Clock
) -> dict[str, str]:
    """Returns the variables that are known before anything runs. Raises WorkflowError."""
    created = parse_timestamp(str(meta(workflow).get("creationTimestamp") or format_timestamp(now)))
    found = {
        "workflow.name": name_of(workflow),
        "workflow.namespace": namespace_of(workflow),
        "workflow.mainEntrypoint": str(spec.get("entrypoint") or ""),
        "workflow.serviceAccountName": str(spec.get("serviceAccountName") or ""),
        "workflow.uid": uid_of(workflow),
        "workflow.creationTimestamp": format_timestamp(created),
        "workflow.creationTimestamp.RFC3339": format_timestamp(created),
        "workflow.creationTimestamp.s": str(int(created.timestamp())),
    }
    for char, layout in _LAYOUTS.items():
        found[f"workflow.creationTimestamp.{char}"] = created.strftime(layout)
    if _SCHEDULED in annotations_of(workflow):
        found["workflow.scheduledTime"] = annotations_of(workflow)[_SCHEDULED]
    if spec.get("priority") is not None:
        found["workflow.priority"] = str(spec["priority"])
    _add_parameters(found, spec, config_maps, clock)
    return found | metadata_variables(workflow, spec)


def metadata_variables(workflow: Object, spec: Object) -> dict[str, str]:
    """Returns `workflow.labels.*` and `workflow.annotations.*`, with those that the spec adds."""
    found: dict[str, str] = {}
    extra: Mapping[str, Any] = spec.get("workflowMetadata") or {}
    for part, own in (("annotations", annotations_of(workflow)), ("labels", labels_of(workflow))):
        written = json.dumps(dict(sorted(own.items())), ensure_ascii=False, separators=(",", ":")) if own else "null"
        found[f"workflow.{part}"] = found[f"workflow.{part}.json"] = written
        later = extra.get("labelsFrom") or {} if part == "labels" else {}
        for name, value in {**own, **(extra.get(part) or {})}.items():
            if name not in later:
                found[f"workflow.{part}.{name}"] = str(value)
    return found


def _add_parameters(found: dict[str, str], spec: Object, config_maps: ConfigMaps, clock: Clock) -> None:
    parameters = (spec.get("arguments") or {}).get("parameters") or []
    found["workflow.parameters"] = found["workflow.parameters.json"] = parameters_json(parameters)
    for parameter in parameters:
        name, source = parameter["name"], parameter.get("valueFrom") or {}
        if parameter.get("value") is not None:
            found[f"workflow.parameters.{name}"] = to_text(parameter["value"])
        elif source.get("configMapKeyRef"):
            where = f"arguments.parameters.{name}"
            found[f"workflow.parameters.{name}"] = config_map_value(source, where, found, config_maps, clock)
        elif parameter.get("default") is not None:
            found[f"workflow.parameters.{name}"] = to_text(parameter["default"])
        else:
            raise WorkflowError(f"either value or valueFrom must be specified in order to set global parameter {name}")


CONTROLS = ("suspend", "shutdown", "parallelism", "activeDeadlineSeconds", "priority")
"""Fields that may change while a workflow runs."""


@dataclass(slots=True)
class Resolved:
    spec: Object
    variables: dict[str, str] = field(default_factory=dict)
    stored_spec: Object | None = None
    """The spec that a `workflowTemplateRef` was resolved to."""
    metadata: dict[str, dict[str, str]] = field(default_factory=dict)
    """Labels and annotations from `workflowMetadata`."""
    phase: str = ""
    """The phase and message of a workflow that cannot run at all."""
    message: str = ""


def resolve_workflow(
    workflow: Object, view: ClusterView, now: datetime, config_maps: ConfigMaps, run_clock: RunClock
) -> Resolved:
    spec = spec_of(workflow)
    stored = None
    if spec.get("workflowTemplateRef"):
        try:
            stored = _resolve_template_ref(workflow, spec, view)
        except WorkflowError as error:
            return Resolved(spec, phase="Error", message=error_message(error))
        spec = {**stored, **{name: spec[name] for name in CONTROLS if spec.get(name) is not None}}
        if spec_of(workflow).get("suspend") is None:
            spec.pop("suspend", None)
    resolved = Resolved(spec, stored_spec=stored)
    clock = run_clock.expressions
    try:
        resolved.variables = workflow_variables(workflow, spec, now, config_maps, clock)
        run_clock.seed(resolved.variables["workflow.uid"])
        resolved.spec = substitute_spec(spec, resolved.variables, clock)
    except (WorkflowError, ExpressionError) as error:
        resolved.phase, resolved.message = "Failed", f"failed to set global parameters: {error_message(error)}"
        return resolved
    try:
        _add_metadata(resolved, clock)
    except (WorkflowError, ExpressionError) as error:
        resolved.phase, resolved.message = "Error", error_message(error)
    return resolved


def substitute_spec(spec: Object, variables: Mapping[str, str], clock: Clock) -> Object:
    """Returns the spec with the workflow's variables filled in, except in its templates, which are filled in later."""
    outer = {name: value for name, value in spec.items() if name != "templates"}
    return {
        **substitute(outer, variables, allow_unresolved=True, clock=clock, mark=True),
        "templates": spec.get("templates") or [],
    }


def _resolve_template_ref(workflow: Object, spec: Object, view: ClusterView) -> Object:
    stored = status_of(workflow).get("storedWorkflowTemplateSpec")
    if stored:
        return dict(stored)
    ref = spec["workflowTemplateRef"]
    name, cluster_scope = str(ref.get("name") or ""), bool(ref.get("clusterScope"))
    template = view.template(name, cluster_scope=cluster_scope)
    if template is None:
        kind = "clusterworkflowtemplates" if cluster_scope else "workflowtemplates"
        raise WorkflowError(f'{kind}.argoproj.io "{name}" not found')
    return merge_workflow_spec(spec, spec_of(template))


def _add_metadata(resolved: Resolved, clock: Clock) -> None:
    wanted: Mapping[str, Any] = resolved.spec.get("workflowMetadata") or {}
    for name in ("labels", "annotations"):
        if wanted.get(name):
            resolved.metadata[name] = {
                key: str(value) for key, value in wanted[name].items() if not key.startswith(PREFIX)
            }
    for key, source in (wanted.get("labelsFrom") or {}).items():
        if key.startswith(PREFIX):
            continue  # only the platform says which run a Workflow belongs to
        text = str(source.get("expression") or "")
        value = evaluate_in(text, resolved.variables, clock)
        if not isinstance(value, str):
            raise WorkflowError(f"failed to evaluate label \"{key}\": expression '{text}' must evaluate to a string")
        resolved.metadata.setdefault("labels", {})[key] = value
    resolved.metadata = without_marks(resolved.metadata)
    for name, values in resolved.metadata.items():
        for key, value in values.items():
            resolved.variables[f"workflow.{name}.{key}"] = value
    if resolved.metadata:
        resolved.spec = substitute_spec(resolved.spec, resolved.variables, clock)
