"""Artifacts: where they lie, what they are taken from, where they are put."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from muster.workflows.lint.findings import Findings

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
    """Of an artifact of a template that runs something: it needs a path, one that leads nowhere else."""
    written = artifact.get("path") or ""
    name = artifact.get("name") or ""
    if not written:
        findings.add(f"{path}.path", f"Artifact '{name}' did not specify a path; say where in the container it is")
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
    """Of a `from`: it names an artifact."""
    if "{{" not in source:
        return f"'{source}' is not a reference; write {{{{steps.NAME.outputs.artifacts.X}}}}"
    if ".artifacts." in source or source.startswith("{{="):
        return ""
    return f"{source} is no artifact; write {{{{steps.NAME.outputs.artifacts.X}}}}"


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
