"""Which WorkflowEventBindings an event matches, and the workflows that it starts. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from muster.kube.errors import BadRequest
from muster.kube.objects import Object, labels_of, meta, name_of, spec_of
from muster.workflows.lang.environment import build_environment
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.expr.evaluator import evaluate
from muster.workflows.submit import workflow_from_template

_BINDING_LABEL = "workflows.argoproj.io/workflow-event-binding"


class BindingResult(NamedTuple):
    workflow: Object | None = None
    """The workflow that the event starts."""
    problem: str = ""
    """Why the binding cannot be followed."""


def evaluate_bindings(bindings: Sequence[Object], scope: Mapping[str, Any]) -> list[BindingResult]:
    """Returns what each binding makes of an event. Expressions of users are evaluated: call it in a worker process."""
    return [_evaluate_binding(binding, scope) for binding in bindings]


def _evaluate_binding(binding: Object, scope: Mapping[str, Any]) -> BindingResult:
    try:
        if not matches_event(binding, scope) or not spec_of(binding).get("submit"):
            return BindingResult()
        return BindingResult(workflow_for_event(binding, scope))
    except BadRequest as error:
        return BindingResult(problem=error.message)


def matches_event(binding: Object, scope: Mapping[str, Any]) -> bool:
    """Raises BadRequest if the selector is not valid or not a boolean."""
    selector = str((spec_of(binding).get("event") or {}).get("selector") or "")
    answer = _value(selector, scope, "spec.event.selector")
    if not isinstance(answer, bool):
        raise BadRequest(f"spec.event.selector: the answer is {answer!r}, neither true nor false")
    return answer


def workflow_for_event(binding: Object, scope: Mapping[str, Any]) -> Object:
    """The workflow that the event starts. Raises BadRequest."""
    submit = spec_of(binding)["submit"]
    ref = submit.get("workflowTemplateRef") or {}
    workflow = workflow_from_template(str(ref.get("name") or ""), cluster_scope=bool(ref.get("clusterScope")))
    wanted, metadata = submit.get("metadata") or {}, dict(meta(workflow))
    for field in ("name", "generateName"):
        if wanted.get(field):
            metadata[field] = _text(wanted[field], scope, f"spec.submit.metadata.{field}")
    if metadata.get("name"):
        metadata.pop("generateName")
    for field in ("labels", "annotations"):
        values = {
            key: _text(value, scope, f"spec.submit.metadata.{field}[{key}]")
            for key, value in (wanted.get(field) or {}).items()
        }
        if values:
            metadata[field] = {**(metadata.get(field) or {}), **values}
    metadata["labels"] = {**labels_of({"metadata": metadata}), _BINDING_LABEL: name_of(binding)}
    parameters = [_argument(parameter, scope) for parameter in (submit.get("arguments") or {}).get("parameters") or ()]
    arguments = {"arguments": {"parameters": parameters}} if parameters else {}
    return {**workflow, "metadata": metadata, "spec": {**spec_of(workflow), **arguments}}


def _argument(parameter: Mapping[str, Any], scope: Mapping[str, Any]) -> Object:
    name = str(parameter.get("name"))
    source = (parameter.get("valueFrom") or {}).get("event")
    if not source:
        raise BadRequest(f'the argument "{name}" has no valueFrom.event: write the expression that gives its value')
    value = _value(str(source), scope, f"the argument {name}")
    return {"name": name, "value": value if isinstance(value, str) else orjson.dumps(value).decode()}


def _text(expression: Any, scope: Mapping[str, Any], where: str) -> str:
    value = _value(str(expression), scope, where)
    if not isinstance(value, str):
        raise BadRequest(f"{where}: must evaluate to a string, not {value!r}")
    return value


def _value(expression: str, scope: Mapping[str, Any], where: str) -> Any:
    try:
        return evaluate(expression, build_environment(scope, expression))
    except ExpressionError as error:
        raise BadRequest(f"{where}: {error}") from None
