"""Fills in the inputs of a template: arguments, defaults and tags."""

from __future__ import annotations

import json
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any

from muster.workflows.engine.errors import WorkflowError
from muster.workflows.lang.clock import Clock
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_encoding import to_json
from muster.workflows.lang.tags import find_tags_in, substitute
from muster.workflows.model import Template

ABSENT = "__argo-internal.absent-optional-output__"
"""An argument that is only a reference to an output that was never produced: treated as not given."""
_PARAMETER_FIELDS = ("name", "default", "value", "valueFrom", "globalName", "enum", "description")


def to_text(value: Any) -> str:
    """Returns text as it is, and `3`, `true` and lists as JSON."""
    return value if isinstance(value, str) else to_json(value)


def parameters_json(parameters: Iterable[Mapping[str, Any]]) -> str:
    """Returns the value of `{{workflow.parameters}}` and `{{inputs.parameters}}`."""
    listed = [_parameter_fields(p) for p in parameters]
    return json.dumps(listed, ensure_ascii=False, separators=(",", ":")) if listed else "null"


def _parameter_fields(parameter: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {f: parameter[f] for f in _PARAMETER_FIELDS if parameter.get(f) is not None}
    for field in ("default", "value"):
        if field in out:
            out[field] = to_text(out[field])
    return out


ConfigMaps = Callable[[str], Mapping[str, str] | None]

_NO_LOCATION = frozenset(
    (
        "name", "path", "mode", "from", "fromExpression", "optional", "subPath", "recurseMode", "archive",
        "archiveLogs", "globalName", "deleted", "artifactGC",
    )
)  # fmt: skip
"""Fields of an artifact that are not a location."""


def fill_inputs(
    template: Template,
    arguments: Mapping[str, Any],
    variables: Mapping[str, str],
    own: MutableMapping[str, str],
    config_maps: ConfigMaps,
    clock: Clock,
    *,
    takes_only_inputs: bool = False,
) -> Template:
    """Returns the template with its inputs filled in.

    `variables` are those of the workflow, `own` those of this node (`pod.name`). `takes_only_inputs` says that the
    template refers to neither. Raises WorkflowError and ExpressionError.
    """
    inputs = template.get("inputs")
    if inputs:
        given = {p["name"]: p for p in arguments.get("parameters") or ()}
        files = {a["name"]: a for a in arguments.get("artifacts") or ()}
        filled = dict(inputs)
        if inputs.get("parameters"):
            filled["parameters"] = [
                _fill_parameter(p, given.get(p["name"]), variables, config_maps, clock) for p in inputs["parameters"]
            ]
        if inputs.get("artifacts"):
            filled["artifacts"] = [_fill_artifact(a, files.get(a["name"])) for a in inputs["artifacts"]]
        template = {**template, "inputs": filled}
    return substitute_template(template, variables, own, clock, takes_only_inputs=takes_only_inputs)


def substitute_template(
    template: Template,
    variables: Mapping[str, str],
    own: MutableMapping[str, str],
    clock: Clock,
    *,
    takes_only_inputs: bool = False,
) -> Template:
    """Substitutes the workflow's variables first, then the inputs, which may contain them."""
    scope = ChainMap(own, dict(variables) if not isinstance(variables, dict) else variables)
    if not takes_only_inputs:
        template = substitute(template, scope, allow_unresolved=True, clock=clock)
    elif template.get("inputs"):
        filled = substitute(template["inputs"], scope, allow_unresolved=True, clock=clock)
        template = {**template, "inputs": filled}
    inputs, outputs = template.get("inputs") or {}, template.get("outputs") or {}
    local = dict[str, str](own)
    for parameter in inputs.get("parameters") or ():
        if parameter.get("value") is not None:
            local[f"inputs.parameters.{parameter['name']}"] = parameter["value"]
    local["inputs.parameters"] = parameters_json(inputs.get("parameters") or ())
    for direction, artifacts in (("inputs", inputs), ("outputs", outputs)):
        for artifact in artifacts.get("artifacts") or ():
            if artifact.get("path"):
                local[f"{direction}.artifacts.{artifact['name']}.path"] = artifact["path"]
    for parameter in outputs.get("parameters") or ():
        path = (parameter.get("valueFrom") or {}).get("path")
        if path:
            local[f"outputs.parameters.{parameter['name']}.path"] = path
    result: Template = substitute(template, ChainMap(local, scope.maps[1]), allow_unresolved=True, clock=clock)
    return result


def takes_only_inputs(template: Template) -> bool:
    """Whether all tags of a template refer to its own inputs and outputs, so one substitution is enough."""
    try:
        found = list(find_tags_in(template))
    except ExpressionError:
        return False
    return all(not tag.is_expression and tag.path.startswith(("inputs.", "outputs.")) for tag in found)


def has_location(artifact: Mapping[str, Any]) -> bool:
    return any(value is not None for name, value in artifact.items() if name not in _NO_LOCATION)


def _fill_parameter(
    declared: Mapping[str, Any],
    given: Mapping[str, Any] | None,
    variables: Mapping[str, str],
    config_maps: ConfigMaps,
    clock: Clock,
) -> dict[str, Any]:
    parameter = dict(declared)
    name = parameter["name"]
    if parameter.get("value") is None and parameter.get("default") is not None:
        parameter["value"] = parameter["default"]
    if given is not None and given.get("value") == ABSENT:
        if parameter.get("value") is None and not parameter.get("valueFrom"):
            raise WorkflowError(
                f"inputs.parameters.{name}: argument references an absent optional "
                "(skipped/omitted node output with no default)"
            )
    elif given is not None:
        parameter.pop("value", None)
        parameter.pop("valueFrom", None)
        field = "value" if given.get("value") is not None else "valueFrom"
        if given.get(field) is not None:
            parameter[field] = given[field]
    source = parameter.get("valueFrom") or {}
    if source.get("configMapKeyRef"):
        where = f"inputs.parameters.{name}"
        parameter["value"] = config_map_value(source, where, variables, config_maps, clock)
    elif parameter.get("value") is None:
        raise WorkflowError(f"inputs.parameters.{name} was not supplied")
    parameter["value"] = to_text(parameter["value"])
    return parameter


def config_map_value(
    source: Mapping[str, Any], where: str, variables: Mapping[str, str], config_maps: ConfigMaps, clock: Clock
) -> str:
    """Returns the value of a `configMapKeyRef`, or the default next to it. Raises WorkflowError."""
    ref = substitute(source["configMapKeyRef"], variables, clock=clock)
    data = config_maps(str(ref.get("name") or ""))
    if data is not None and ref.get("key") in data:
        return data[ref["key"]]
    if source.get("default") is not None:
        return to_text(source["default"])
    if ref.get("optional"):
        return ""
    missing = f"ConfigMap '{ref.get('name')}' does not exist" if data is None else f"it has no key '{ref.get('key')}'"
    raise WorkflowError(f"unable to retrieve {where} from ConfigMap '{ref.get('name')}': {missing}")


def _fill_artifact(declared: Mapping[str, Any], given: Mapping[str, Any] | None) -> dict[str, Any]:
    name = declared["name"]
    if not declared.get("optional") and not has_location(declared):
        if given is None:
            raise WorkflowError(f"inputs.artifacts.{name} was not supplied")
        if not has_location(given):
            raise WorkflowError(f"inputs.artifacts.{name} missing location information")
    if given is None:
        return dict(declared)
    artifact = {field: value for field, value in given.items() if field not in ("path", "mode", "recurseMode")}
    for field in ("path", "mode", "recurseMode"):
        if declared.get(field) is not None:
            artifact[field] = declared[field]
    if declared.get("optional"):
        artifact["optional"] = True
    return artifact
