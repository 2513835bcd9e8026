"""Node field selectors: `displayName=train,phase!=Succeeded`, as `--node-field-selector` takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.kube.selectors import parse_fields
from muster.workflows.model import Node


class NodeSelector:
    """Of displayName, name, id, phase, templateName, templateRef.name, templateRef.template and
    inputs.parameters.NAME.value. Raises BadRequest for a text that is no selector."""

    def __init__(self, text: str) -> None:
        self._requirements = parse_fields(text).requirements

    def matches(self, node: Node) -> bool:
        return all((_field(node, path) == value) is equal for path, equal, value in self._requirements)


def template_name(node: Node) -> str:
    ref = node.get("templateRef")
    return str(ref.get("template") or "") if ref else str(node.get("templateName") or "")


def _field(node: Node, path: str) -> str:
    if path == "templateName":
        return template_name(node)
    found: Any = node
    if path.startswith("inputs.parameters.") and path.endswith(".value"):
        name = path.removeprefix("inputs.parameters.").removesuffix(".value")
        parameters = (node.get("inputs") or {}).get("parameters") or ()
        return next((str(p.get("value", "")) for p in parameters if p.get("name") == name), "")
    if path not in ("displayName", "name", "id", "phase", "templateRef.name", "templateRef.template"):
        return ""
    for step in path.split("."):
        found = found.get(step) if isinstance(found, Mapping) else None
    return "" if found is None else str(found)
