"""Other arguments for a workflow that has run before."""

from __future__ import annotations

from collections.abc import Sequence

from muster.kube.errors import BadRequest
from muster.kube.objects import Object, spec_of, status_of
from muster.workflows.submission import SubmissionError, overridden


def with_parameters(workflow: Object, parameters: Sequence[str]) -> Object:
    """`parameters` are NAME=VALUE. They go before what the workflow, or the template it runs, says. Raises
    BadRequest."""
    if not parameters:
        return workflow
    stored = status_of(workflow).get("storedWorkflowTemplateSpec")
    try:
        changed = {**workflow, "spec": _overridden(spec_of(workflow), parameters)}
        if stored:
            changed["status"] = {
                **status_of(workflow),
                "storedWorkflowTemplateSpec": _overridden(stored, parameters),
            }
    except SubmissionError as error:
        raise BadRequest(str(error)) from None
    return changed


def _overridden(spec: Object, parameters: Sequence[str]) -> Object:
    arguments = spec.get("arguments") or {}
    return {
        **spec,
        "arguments": {**arguments, "parameters": overridden(arguments.get("parameters") or (), parameters)},
    }
