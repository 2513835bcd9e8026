"""Outputs: how a template comes by them, and under which names others see them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from muster.workflows.lint.artifacts import check_path, source_problem
from muster.workflows.lint.findings import Findings
from muster.workflows.lint.names import check_names, value_name_problem
from muster.workflows.lint.scope import Scope, check_tags
from muster.workflows.lint.syntax import expression_problem
from muster.workflows.lint.types import LEAVES, type_of

_TAG = re.compile(r"\{\{[-a-zA-Z0-9]+(\.[-a-zA-Z0-9_]+)*\}\}")
_SOURCES = ("path", "jqFilter", "jsonPath", "parameter", "expression")
_HAS_RESULT = ("container", "script", "data", "http", "plugin")


def is_tag(text: str) -> bool:
    return _TAG.search(text) is not None


def check_outputs(findings: Findings, template: Mapping[str, Any], path: str, scope: Scope) -> None:
    outputs = template.get("outputs") or {}
    if not outputs:
        return
    parameters, artifacts = outputs.get("parameters") or (), outputs.get("artifacts") or ()
    kind = type_of(template)
    check_names(findings, parameters, f"{path}.parameters", values=True, tags=True)
    check_names(findings, artifacts, f"{path}.artifacts", values=True, tags=True)
    if kind not in LEAVES:  # a leaf's outputs were looked at with the rest of it
        check_tags(findings, outputs, path, scope)
    for index, artifact in enumerate(artifacts):
        _check_artifact(findings, artifact, f"{path}.artifacts[{index}]", kind)
    for index, parameter in enumerate(parameters):
        _check_parameter(findings, parameter, f"{path}.parameters[{index}]", kind, scope)


def visible_suffixes(template: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """What others see of a node: what comes after `steps.NAME`, and, for a node of many items, what comes besides."""
    found = [".id", ".startedAt", ".finishedAt", ".hostNodeName"]
    if template.get("daemon"):
        found.append(".ip")
    kind = type_of(template)
    names = [c.get("name") for c in (template.get("containerSet") or {}).get("containers") or ()]
    if kind in _HAS_RESULT or "main" in names:
        found += [".outputs.result", ".exitCode"]
    outputs = template.get("outputs") or {}
    found += [f".outputs.parameters.{p.get('name')}" for p in outputs.get("parameters") or ()]
    found += [f".outputs.artifacts.{a.get('name')}" for a in outputs.get("artifacts") or ()]
    of_items = [".outputs.parameters"]
    if kind in ("script", "containerSet"):
        of_items += [".outputs.result", ".exitCode"]
    return found, of_items


def add_global_outputs(template: Mapping[str, Any], scope: Scope) -> None:
    """What the template exports under a `globalName` is seen by all that comes later."""
    outputs = template.get("outputs") or {}
    for name in _global_names(outputs.get("parameters") or ()):
        if is_tag(name):
            scope.any_parameter_output = True
        else:
            scope.everywhere.names.add(f"workflow.outputs.parameters.{name}")
    for name in _global_names(outputs.get("artifacts") or ()):
        if is_tag(name):
            scope.any_artifact_output = True
        else:
            scope.everywhere.names.add(f"workflow.outputs.artifacts.{name}")


def _global_names(items: Iterable[Mapping[str, Any]]) -> list[str]:
    return [name for item in items if (name := item.get("globalName"))]


def _check_artifact(findings: Findings, artifact: Mapping[str, Any], path: str, kind: str) -> None:
    if kind in LEAVES:
        check_path(findings, artifact, path)
    elif artifact.get("path"):
        findings.add(f"{path}.path", "path only valid in container/script templates; write from: {{...}} here")
    _check_global_name(findings, artifact, path)
    if kind not in LEAVES and artifact.get("from"):
        wrong = source_problem(artifact["from"])
        if wrong:
            findings.add(f"{path}.from", wrong)
    _check_expression(findings, artifact.get("fromExpression"), f"{path}.fromExpression")


def _check_parameter(findings: Findings, parameter: Mapping[str, Any], path: str, kind: str, scope: Scope) -> None:
    name, source = parameter.get("name") or "", parameter.get("valueFrom")
    _check_global_name(findings, parameter, path)
    if parameter.get("value") is not None:
        if source is not None:
            findings.add(f"{path}.valueFrom", f"{name} has both valueFrom and value specified. Choose one.")
        return
    if source is None:
        findings.add(path, f"{name} does not have valueFrom or value specified")
        return
    used = [field for field in _SOURCES if source.get(field)]
    if source.get("supplied") is not None:
        used.append("supplied")
    if not used:
        listed = "path, jqFilter, jsonPath, parameter, raw, expression"
        findings.add(f"{path}.valueFrom", f"valueFrom type unspecified. choose one of: {listed}")
        return
    if len(used) > 1 and set(used) != {"parameter", "expression"}:
        listed = "path, jqFilter, jsonPath, parameter, raw"
        findings.add(f"{path}.valueFrom", f"multiple valueFrom types specified. choose one of: {listed}")
        return
    _check_source(findings, name, source, f"{path}.valueFrom", kind)
    reference = source.get("parameter") or ""
    if reference and "{{" not in reference and not scope.has(reference.strip()):
        findings.add(f"{path}.valueFrom.parameter", f"failed to resolve {{{{{reference}}}}}")
    _check_expression(findings, source.get("expression"), f"{path}.valueFrom.expression")


def _check_source(findings: Findings, name: str, source: Mapping[str, Any], path: str, kind: str) -> None:
    if kind in ("container", "containerSet", "script"):
        if not source.get("path"):
            findings.add(path, f"{name}.path must be specified for {_title(kind)} templates")
    elif kind == "resource":
        if not source.get("jqFilter") and not source.get("jsonPath"):
            findings.add(path, f"{name} .jqFilter or jsonPath must be specified for {_title(kind)} templates")
    elif kind in ("steps", "dag"):
        if not source.get("parameter") and not source.get("expression"):
            findings.add(path, f"{name}.parameter or expression must be specified for {_title(kind)} templates")
        elif source.get("parameter") and source.get("expression"):
            findings.add(path, f"{name} shouldn't have both `from` and `expression` specified in `ValueFrom`; keep one")


def _check_global_name(findings: Findings, item: Mapping[str, Any], path: str) -> None:
    name = item.get("globalName") or ""
    if name and not is_tag(name):
        wrong = value_name_problem(name)
        if wrong:
            findings.add(f"{path}.globalName", wrong)


def _check_expression(findings: Findings, expression: str | None, path: str) -> None:
    wrong = expression_problem(expression) if expression else ""
    if wrong:
        findings.add(path, wrong)


def _title(kind: str) -> str:
    return "DAG" if kind == "dag" else kind[0].upper() + kind[1:]
