"""Resource templates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from muster.workflows.lint.scope import Scope
from muster.workflows.lint.walk import Frame

_ACTIONS = ("get", "create", "apply", "delete", "replace", "patch")
_STRATEGIES = ("strategic", "merge", "json")


def check_resource(frame: Frame, scope: Scope) -> None:
    resource, path, findings = frame.template["resource"], f"{frame.path}.resource", frame.holder.findings
    action = frame.filled(resource.get("action") or "")
    if action not in _ACTIONS and "{{" not in action:
        findings.add(f"{path}.action", f"resource.action must be one of: {', '.join(_ACTIONS)}")
    strategy = resource.get("mergeStrategy") or ""
    if strategy and strategy not in _STRATEGIES and "{{" not in strategy:
        findings.add(f"{path}.mergeStrategy", f"resource.mergeStrategy must be one of: {', '.join(_STRATEGIES)}")
    if action in ("delete", "get"):
        return
    manifest, source = resource.get("manifest") or "", resource.get("manifestFrom")
    if not manifest and source is None:
        findings.add(path, "either resource.manifest or resource.manifestFrom must be specified")
    if manifest and source is not None:
        message = "shouldn't have both `manifest` and `manifestFrom` specified in `Manifest` for resource template"
        findings.add(f"{path}.manifestFrom", f"{message}; keep one of them")
    artifact = (source or {}).get("artifact")
    if artifact is not None:
        name = artifact.get("name") or ""
        known = [a.get("name") or "" for a in (frame.template.get("inputs") or {}).get("artifacts") or ()]
        if name not in known:
            message = f"artifact {name} in `manifestFrom` refer to a non-exist artifact"
            findings.add(f"{path}.manifestFrom.artifact.name", f"{message}{findings.meant(name, known)}")
    if manifest:
        wrong = _yaml_problem(scope.without_known(manifest))
        if wrong:
            findings.add(f"{path}.manifest", f"resource.manifest must be a valid yaml: {wrong}")


def _yaml_problem(text: str) -> str:
    try:
        line = _line_of_a_key_that_is_none(yaml.parse(text, getattr(yaml, "CBaseLoader", yaml.BaseLoader)))
    except yaml.MarkedYAMLError as error:
        place = f"line {error.problem_mark.line + 1} of it: " if error.problem_mark else ""
        return f"{place}{error.problem}"
    except yaml.YAMLError as error:
        return str(error)
    return f"line {line} of it: a key must be plain text; put a tag in quotes" if line else ""


def _line_of_a_key_that_is_none(events: Iterable[Any]) -> int:
    """`{{x}}` without quotes is a mapping in a mapping, and that cannot be a key. 0 if all keys are good."""
    places: list[bool | None] = []
    """For every list and mapping that is open: whether a key comes next; None in lists."""
    for event in events:
        if isinstance(event, yaml.CollectionEndEvent):
            places.pop()
            continue
        if not isinstance(event, yaml.NodeEvent):
            continue
        if places and places[-1] is not None:
            if places[-1] and isinstance(event, yaml.CollectionStartEvent):
                return event.start_mark.line + 1 if event.start_mark else 1
            places[-1] = not places[-1]
        if isinstance(event, yaml.CollectionStartEvent):
            places.append(True if isinstance(event, yaml.MappingStartEvent) else None)
    return 0
