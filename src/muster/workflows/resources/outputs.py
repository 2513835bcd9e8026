"""The output parameters of a resource template: what jsonPath or jqFilter find in the object."""

from __future__ import annotations

from typing import Any

from muster.kube.jsonpath import JsonPathError, render
from muster.kube.objects import Object
from muster.workflows.model import Outputs, Template
from muster.workflows.resources.errors import ResourceError
from muster.workflows.resources.jq import JqError, jq_text


def outputs_of(template: Template, obj: Object | None) -> Outputs:
    """All of the template's, those with a source with their values. Without an object (a `get` that may find nothing),
    their defaults. Raises ResourceError for a path or filter that cannot be read."""
    declared = template.get("outputs") or {}
    found = Outputs()
    if declared.get("parameters"):
        found["parameters"] = [_with_value(number, p, obj) for number, p in enumerate(declared["parameters"])]
    return found


def _with_value(number: int, parameter: dict[str, Any], obj: Object | None) -> dict[str, Any]:
    source = parameter.get("valueFrom")
    if source is None:
        return parameter
    if obj is None:
        return {**parameter, "value": str(source.get("default") or "")}
    where = f"outputs.parameters[{number}] ({parameter.get('name')}).valueFrom"
    try:
        if source.get("jsonPath"):
            return {**parameter, "value": render(obj, source["jsonPath"])}
        if source.get("jqFilter"):
            return {**parameter, "value": jq_text(source["jqFilter"], obj)}
    except JsonPathError as error:
        raise ResourceError(f"{where}.jsonPath: {error}") from None
    except JqError as error:
        raise ResourceError(f"{where}.jqFilter: {error}") from None
    return parameter
