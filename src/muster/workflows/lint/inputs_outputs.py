"""Validates inputs, outputs, artifacts and arguments."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Any

from muster.workflows.artifacts.locations import is_supplied
from muster.workflows.lang.go_encoding import to_json
from muster.workflows.lint.field_rules import (
    LEAVES,
    Findings,
    Scope,
    check_names,
    check_tags,
    expression_problem,
    type_of,
    value_name_problem,
)

_KINDS = ("artifactory", "azure", "git", "gcs", "hdfs", "http", "oss", "raw", "s3", "plugin")


def check_location(findings: Findings, place: Mapping[str, Any], path: str) -> None:
    several = [kind for kind in _KINDS if place.get(kind) is not None]
    if len(several) > 1:
        findings.add(f"{path}.{several[1]}", "at most one artifact location can be specified; " + " and ".join(several))
    git = place.get("git")
    if git is not None and not git.get("repo"):
        findings.add(f"{path}.git.repo", "git.repo is required")
    hdfs = place.get("hdfs")
    if hdfs is not None:
        for field, message in _hdfs_problems(hdfs):
            findings.add(f"{path}.hdfs{field}", message)


def check_path(findings: Findings, artifact: Mapping[str, Any], path: str) -> None:
    """Checks an artifact of a template that runs something: it needs a path that stays where it is."""
    written = artifact.get("path") or ""
    name = artifact.get("name") or ""
    if not written:
        findings.add(f"{path}.path", f"Artifact '{name}' did not specify a path; set its path in the container")
        return
    safe = ""
    if "/../" in written:
        safe = written[: written.index("/../")]
    elif len(written) > 2 and written[-3:-2] == "/" and written.endswith(".."):
        safe = written[:-3]
    cleaned = posixpath.normpath(written)
    if safe and (not cleaned.startswith(f"{safe}/") or len(cleaned) <= len(safe) + 1):
        findings.add(
            f"{path}.path",
            f"Artifact '{name}' attempted to use a path containing '..'. Directory traversal is not permitted",
        )


def source_problem(source: str) -> str:
    """Returns the problem of a `from`, which must name an artifact."""
    if "{{" not in source:
        return f"'{source}' is not a reference; write {{{{steps.NAME.outputs.artifacts.X}}}}"
    if ".artifacts." in source or source.startswith("{{="):
        return ""
    return f"{source} is not an artifact; write {{{{steps.NAME.outputs.artifacts.X}}}}"


def _hdfs_problems(hdfs: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = []
    if not hdfs.get("addresses"):
        found.append((".addresses", "hdfs.addresses is required"))
    if not hdfs.get("path"):
        found.append((".path", "hdfs.path is required"))
    elif not hdfs["path"].startswith(("/", "{{")):
        found.append((".path", "hdfs.path must be a absolute file path"))
    cache, keytab = hdfs.get("krbCCacheSecret"), hdfs.get("krbKeytabSecret")
    if not (hdfs.get("hdfsUser") or cache or keytab):
        found.append(("", "either hdfs.hdfsUser, hdfs.krbCCacheSecret or hdfs.krbKeytabSecret is required"))
    realm = ("krbServicePrincipalName", "krbConfigConfigMap", "krbUsername", "krbRealm")
    for secret, name, fields in ((keytab, "krbKeytabSecret", realm), (cache, "krbCCacheSecret", realm[:2])):
        lacking = [field for field in fields if not hdfs.get(field)]
        if secret and lacking:
            wanted = " and ".join(f"hdfs.{field}" for field in lacking)
            found.append((f".{name}", f"{wanted} are required with hdfs.{name}"))
    return found


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
    if kind not in LEAVES:  # a leaf's outputs were checked with the rest of it
        check_tags(findings, outputs, path, scope)
    for index, artifact in enumerate(artifacts):
        _check_artifact(findings, artifact, f"{path}.artifacts[{index}]", kind)
    for index, parameter in enumerate(parameters):
        _check_parameter(findings, parameter, f"{path}.parameters[{index}]", kind, scope)


def visible_suffixes(template: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Returns what others see of a node: the suffixes after `steps.NAME`, and for a loop those of the list."""
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
    """Makes what the template exports under a `globalName` visible to everything after it."""
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


_NOT_HERE = ("path", "jsonPath", "jqFilter", "parameter", "expression")


def as_text(value: Any) -> str:
    """Returns a parameter's value as Argo reads it."""
    return value if isinstance(value, str) else to_json(value)


def check_arguments(findings: Findings, arguments: Mapping[str, Any], path: str, *, may_lack: bool = False) -> None:
    """`may_lack`: values may still be given on submission."""
    parameters = arguments.get("parameters") or ()
    artifacts = arguments.get("artifacts") or ()
    check_names(findings, parameters, f"{path}.parameters", values=True)
    check_names(findings, artifacts, f"{path}.artifacts", values=True)
    for index, parameter in enumerate(parameters):
        _check_parameter_argument(findings, parameter, f"{path}.parameters[{index}]", may_lack)
    for index, artifact in enumerate(artifacts):
        _check_artifact_argument(findings, artifact, f"{path}.artifacts[{index}]")


def check_supplied(
    findings: Findings,
    template: Mapping[str, Any],
    arguments: Mapping[str, Any],
    path: str,
    callee: str,
    *,
    told: bool = True,
) -> None:
    """Checks that every input has a value. `told`: that an argument has no value was reported already."""
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
    """Or was rejected because of its location."""
    return is_supplied(artifact) or artifact.get("git") is not None or artifact.get("hdfs") is not None


def _check_parameter_argument(findings: Findings, parameter: Mapping[str, Any], path: str, may_lack: bool) -> None:
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


def _check_artifact_argument(findings: Findings, artifact: Mapping[str, Any], path: str) -> None:
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
