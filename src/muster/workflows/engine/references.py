"""Resolves the references of a step or task to earlier steps and tasks."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from muster.workflows.engine.arguments import ABSENT, to_text
from muster.workflows.engine.errors import WorkflowError
from muster.workflows.engine.loops import is_loop
from muster.workflows.engine.scope import Scope
from muster.workflows.lang.clock import Clock
from muster.workflows.lang.environment import evaluate_in
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.govaluate import evaluate_when
from muster.workflows.lang.tags import substitute
from muster.workflows.model import Outputs, Template

_REQUIRED = ("steps", "tasks")
_LATER = ("hooks", "inline")
_LOCATIONS = {"azure": "blob", "http": "url", "artifactory": "url", "hdfs": "path"}


def resolve_step(step: Mapping[str, Any], scope: Scope, variables: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """Returns the step with its references resolved; if it does not run, only its `when`. Raises WorkflowError,
    ExpressionError."""
    texts = scope.texts(variables)
    out = dict(step)
    if step.get("when"):
        out["when"] = substitute(str(step["when"]), texts, required=_REQUIRED, clock=clock)
        if not _may_run(out):
            return out
    later = {field: out.pop(field) for field in _LATER if field in out}
    arguments = out.get("arguments")
    if arguments and arguments.get("parameters"):
        marked = [_mark_absent(p, scope) for p in arguments["parameters"]]
        out["arguments"] = {**arguments, "parameters": marked}
    out = substitute(out, texts, required=_REQUIRED, clock=clock)
    if "inline" in later:
        known = {name: value for name, value in texts.items() if value is not None}
        later["inline"] = substitute(later["inline"], known, allow_unresolved=True, clock=clock)
    return {**_with_artifacts(out, scope, variables, clock), **later}


def resolve_arguments(
    arguments: Mapping[str, Any], scope: Scope, variables: dict[str, Any], clock: Clock
) -> dict[str, Any]:
    """Resolves the arguments of a hook; references that are not known yet stay."""
    out = dict(arguments)
    if arguments.get("parameters"):
        out["parameters"] = [_mark_absent(p, scope) for p in arguments["parameters"]]
    out = substitute(out, scope.texts(variables), required=(), clock=clock)
    holder = _with_artifacts({"arguments": out}, scope, variables, clock, keep_optional=True)
    found: dict[str, Any] = holder["arguments"]
    return found


def resolve_outputs(template: Template, scope: Scope, variables: dict[str, Any], clock: Clock) -> Outputs | None:
    """Returns the outputs of a steps or dag template. Raises WorkflowError and ExpressionError."""
    declared = template.get("outputs") or {}
    outputs = Outputs()
    if declared.get("parameters"):
        outputs["parameters"] = [_resolve_output(p, scope, variables, clock) for p in declared["parameters"]]
    if declared.get("artifacts"):
        outputs["artifacts"] = []
        for artifact in declared["artifacts"]:
            try:
                found = resolve_artifact(artifact, scope, variables, clock)
            except ExpressionError as error:
                if artifact.get("optional") and "Unable to resolve" in error.message:
                    continue
                raise ExpressionError(
                    f"unable to resolve outputs from scope: {error.message}", error.text, error.at, error.hint
                ) from None
            if found is not None:
                outputs["artifacts"].append({**found, "name": artifact["name"], **_global_name(artifact)})
    return outputs or None


def resolve_artifact(
    artifact: Mapping[str, Any], scope: Scope, variables: Mapping[str, Any], clock: Clock
) -> dict[str, Any] | None:
    """Returns the artifact that `from` or `fromExpression` refers to, or None without either. Raises WorkflowError and
    ExpressionError."""
    expression, source = artifact.get("fromExpression"), artifact.get("from")
    if expression:
        found = evaluate_in(str(expression), scope.values(variables), clock)
        shown = str(expression)
    elif source:
        shown = str(source).removeprefix("{{").removesuffix("}}").strip()
        if shown not in scope.artifacts:
            raise ExpressionError(f'Unable to resolve: "{shown}"', str(source), 0)
        found = scope.artifacts[shown]
    else:
        return None
    if not isinstance(found, dict):
        raise WorkflowError(f"Variable {{{{{shown}}}}} is not an artifact")
    out = dict(found)
    if artifact.get("subPath"):
        sub = substitute(str(artifact["subPath"]), scope.texts({}), allow_unresolved=True, clock=clock)
        out = _sub_path(out, sub)
    return out


def _may_run(step: Mapping[str, Any]) -> bool:
    try:
        return evaluate_when(str(step["when"]))
    except ExpressionError:
        if is_loop(step):
            return True  # it may refer to the item
        raise


def _mark_absent(parameter: Mapping[str, Any], scope: Scope) -> Mapping[str, Any]:
    value = parameter.get("value")
    if not isinstance(value, str) or not (value.startswith("{{") and value.endswith("}}")):
        return parameter
    name = value[2:-2].strip()
    absent = name in scope.parameters and scope.parameters[name] is None
    return {**parameter, "value": ABSENT} if absent else parameter


def _with_artifacts(
    step: dict[str, Any], scope: Scope, variables: Mapping[str, Any], clock: Clock, *, keep_optional: bool = False
) -> dict[str, Any]:
    arguments = step.get("arguments")
    if not arguments or not arguments.get("artifacts"):
        return step
    artifacts = []
    for artifact in arguments["artifacts"]:
        try:
            found = resolve_artifact(artifact, scope, variables, clock)
        except (WorkflowError, ExpressionError):
            if not artifact.get("optional"):
                raise
            if keep_optional:
                artifacts.append(artifact)
            continue
        artifacts.append(artifact if found is None else {**found, "name": artifact["name"]})
    return {**step, "arguments": {**arguments, "artifacts": artifacts}}


def _resolve_output(
    declared: Mapping[str, Any], scope: Scope, variables: Mapping[str, Any], clock: Clock
) -> dict[str, Any]:
    source = declared.get("valueFrom")
    if not source:
        raise WorkflowError(f"output parameter '{declared.get('name')}' must have a valueFrom")
    default = source.get("default")
    try:
        value = _output_value(source, scope, variables, clock)
    except ExpressionError:
        if default is None:
            raise
        value = default
    if value is None:
        value = default
    if value is None:
        raise WorkflowError(
            f'output parameter "{declared.get("name")}": "{source.get("parameter")}" is an absent optional '
            "(skipped/omitted node output with no default)"
        )
    return {**{f: v for f, v in declared.items() if f != "valueFrom"}, "value": to_text(value)}


def _output_value(source: Mapping[str, Any], scope: Scope, variables: Mapping[str, Any], clock: Clock) -> Any:
    if source.get("expression"):
        text = str(source["expression"])
        value = evaluate_in(text, scope.values(variables), clock)
        if value is None:
            raise ExpressionError(f'failed to evaluate expression "{text}"', text, 0)
        return value
    written = str(source.get("parameter") or "")
    if not written:
        return ""
    name = written.removeprefix("{{").removesuffix("}}").strip()
    if name.startswith("="):
        return evaluate_in(name[1:], scope.values(variables), clock)
    if name in scope.parameters:
        return scope.parameters[name]
    if name in variables:
        return variables[name]
    raise ExpressionError(f'Unable to resolve: "{name}"', written, 0)


def _global_name(artifact: Mapping[str, Any]) -> dict[str, Any]:
    return {"globalName": artifact["globalName"]} if artifact.get("globalName") else {}


def _sub_path(artifact: dict[str, Any], sub: str) -> dict[str, Any]:
    """Returns the part of an artifact below a path."""
    for name, location in artifact.items():
        field = _LOCATIONS.get(name, "key")
        if isinstance(location, dict) and isinstance(location.get(field), str):
            return {**artifact, name: {**location, field: posixpath.join(location[field], sub.lstrip("/"))}}
    if artifact.get("optional"):
        return artifact
    raise WorkflowError(f"a subPath needs an artifact with a key: '{artifact.get('name')}' has none")
