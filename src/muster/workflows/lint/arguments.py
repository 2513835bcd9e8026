"""Arguments: what a caller hands over, and whether it is what the template asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.workflows.artifacts.locations import is_supplied
from muster.workflows.expressions.gojson import to_json
from muster.workflows.lint.artifacts import check_location, source_problem
from muster.workflows.lint.findings import Findings
from muster.workflows.lint.names import check_names

_NOT_HERE = ("path", "jsonPath", "jqFilter", "parameter", "expression")


def as_text(value: Any) -> str:
    """A value of a parameter as Argo reads it."""
    return value if isinstance(value, str) else to_json(value)


def check_arguments(findings: Findings, arguments: Mapping[str, Any], path: str, *, may_lack: bool = False) -> None:
    """`may_lack`: values may still come from whoever submits this."""
    parameters = arguments.get("parameters") or ()
    artifacts = arguments.get("artifacts") or ()
    check_names(findings, parameters, f"{path}.parameters", values=True)
    check_names(findings, artifacts, f"{path}.artifacts", values=True)
    for index, parameter in enumerate(parameters):
        _check_parameter(findings, parameter, f"{path}.parameters[{index}]", may_lack)
    for index, artifact in enumerate(artifacts):
        _check_artifact(findings, artifact, f"{path}.artifacts[{index}]")


def check_supplied(
    findings: Findings,
    template: Mapping[str, Any],
    arguments: Mapping[str, Any],
    path: str,
    callee: str,
    *,
    told: bool = True,
) -> None:
    """Every input of the template is given a value, or has one. `told`: that an argument has no value was told."""
    inputs = template.get("inputs") or {}
    if not inputs:
        return
    given = {p.get("name"): p for p in arguments.get("parameters") or ()}
    for declared in inputs.get("parameters") or ():
        name = declared.get("name")
        if not _has_value(declared, given.get(name), told):
            findings.add(
                path,
                f"inputs.parameters.{name} was not supplied to template '{callee}'; "
                f"add it to arguments.parameters, or give the input a default",
            )
    handed = {a.get("name") for a in arguments.get("artifacts") or ()}
    for declared in inputs.get("artifacts") or ():
        name = declared.get("name")
        if not declared.get("optional") and name not in handed and not _is_placed(declared):
            findings.add(
                path,
                f"inputs.artifacts.{name} was not supplied to template '{callee}'; "
                f"add it to arguments.artifacts, or make it optional",
            )


def _has_value(declared: Mapping[str, Any], given: Mapping[str, Any] | None, told: bool) -> bool:
    if given is not None:
        source = given.get("valueFrom") or {}
        if told and not source.get("event") and source.get("supplied") is None:
            return True
        return given.get("value") is not None or bool(source.get("configMapKeyRef"))
    if declared.get("value") is not None or declared.get("default") is not None:
        return True
    return bool((declared.get("valueFrom") or {}).get("configMapKeyRef"))


def _is_placed(artifact: Mapping[str, Any]) -> bool:
    """Or was refused for where it is said to be."""
    return is_supplied(artifact) or artifact.get("git") is not None or artifact.get("hdfs") is not None


def _check_parameter(findings: Findings, parameter: Mapping[str, Any], path: str, may_lack: bool) -> None:
    value, source, name = parameter.get("value"), parameter.get("valueFrom"), parameter.get("name") or ""
    if value is None and source is None and not may_lack:
        findings.add(path, f"{name}.value or {name}.valueFrom is required")
    if source is not None:
        known = source.get("configMapKeyRef") or source.get("event") or source.get("supplied") is not None
        strange = next((field for field in _NOT_HERE if source.get(field)), "")
        if not known or strange:
            where = f"{path}.valueFrom.{strange}" if strange else f"{path}.valueFrom"
            findings.add(where, f"{name}.valueFrom only allows: default, configMapKeyRef and supplied")
    choices = parameter.get("enum")
    if choices is None:
        return
    if not choices:
        findings.add(f"{path}.enum", f"{name}.enum should contain at least one value")
    elif value is None:
        if not may_lack:
            findings.add(path, f"{name}.value is required; choose one of {name}.enum")
    elif as_text(value) not in map(as_text, choices):
        listed = ", ".join(map(as_text, choices))
        findings.add(f"{path}.value", f"{name}.value should be present in {name}.enum list: {listed}")


def _check_artifact(findings: Findings, artifact: Mapping[str, Any], path: str) -> None:
    name = artifact.get("name") or ""
    source = artifact.get("from") or ""
    if not source and not is_supplied(artifact):
        findings.add(path, f"{name}.from, artifact location, or key is required")
    if source and artifact.get("fromExpression"):
        findings.add(
            f"{path}.fromExpression", f"{name} shouldn't have both `from` and `fromExpression` in Artifact; keep one"
        )
    if source:
        wrong = source_problem(source)
        if wrong:
            findings.add(f"{path}.from", wrong)
    check_location(findings, artifact, path)
