"""What a template says about its Pod: which containers lead, what is to be kept of them. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

from muster.workflows.model import Template

MAIN = "main"
LONGEST_TEXT = "muster.dev/longest-text"
"""Annotation of a template: how many characters each of its output parameters may have."""


class CannotRun(Exception):
    """The template asks for something that cannot be: the node is an Error with this message."""


def main_containers(template: Template) -> list[str]:
    """The containers whose end is the end of the Pod."""
    if "containerSet" in template:
        return [str(c.get("name") or "") for c in template["containerSet"].get("containers") or ()]
    return [MAIN]


def volume_mounts(template: Template) -> list[Mapping[str, Any]]:
    """Those that input and output artifacts may lie in."""
    for kind in ("container", "script", "containerSet"):
        if kind in template:
            return list(template[kind].get("volumeMounts") or ())
    return []


def output_parameters(template: Template) -> list[Mapping[str, Any]]:
    return list((template.get("outputs") or {}).get("parameters") or ())


def output_artifacts(template: Template) -> list[Mapping[str, Any]]:
    return list((template.get("outputs") or {}).get("artifacts") or ())


def input_artifacts(template: Template) -> list[Mapping[str, Any]]:
    return list((template.get("inputs") or {}).get("artifacts") or ())


def kept_paths(template: Template) -> dict[str, list[str]]:
    """By container, the files and folders that become outputs, each once. Where one is in its list says where the copy
    is; see `kept_files` of the agent.

    They are those of the container named main, or of any of a set that has none. In a volume that a whole set shares,
    others may write them, even after main has ended.
    """
    paths = _output_paths(template)
    if not paths:
        return {}
    names = main_containers(template)
    if MAIN not in names:
        return dict.fromkeys(names, paths)
    mounts = [str(m.get("mountPath") or "") for m in (template.get("containerSet") or {}).get("volumeMounts") or ()]
    shared = [path for path in paths if is_inside(path, mounts)]
    return {name: paths if name == MAIN else shared for name in names if name == MAIN or shared}


def _output_paths(template: Template) -> list[str]:
    outputs = template.get("outputs")
    if not outputs:
        return []
    paths = dict.fromkeys(
        [
            *(str((p.get("valueFrom") or {}).get("path") or "") for p in outputs.get("parameters") or ()),
            *(str(a.get("path") or "") for a in outputs.get("artifacts") or ()),
        ]
    )
    return [clean_path(path) for path in paths if path]


def clean_path(path: str) -> str:
    """Refuses the root, and one that leaves the folder it begins with."""
    cleaned = posixpath.normpath(path)
    if not path.startswith("/") or cleaned == "/":
        raise CannotRun(f'the path "{path}" of an artifact or output must be absolute, and below /')
    before, dots, _ = f"{path}/".partition("/../")
    if dots and not cleaned.startswith(f"{before}/"):
        raise CannotRun(f'the path "{path}" uses "..": directory traversal is not permitted')
    return cleaned


def is_inside(path: str, folders: Iterable[str]) -> bool:
    return any(f"{path}/".startswith(f"{folder.rstrip('/')}/") for folder in folders)


def archives_logs(template: Template, spec: Mapping[str, Any], repository: Mapping[str, Any]) -> bool:
    """What the repository says holds for all; a template may differ from the workflow."""
    if repository.get("archiveLogs"):
        return True
    own = (template.get("archiveLocation") or {}).get("archiveLogs")
    return bool(own if own is not None else spec.get("archiveLogs"))
