"""Stop, terminate, suspend, resume, and set the outputs of suspended nodes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from muster.kube.errors import BadRequest
from muster.kube.objects import Object, name_of, namespace_of, spec_of, status_of, timestamp
from muster.kube.selectors import parse_fields
from muster.workflows.model import FINISHED_PHASES, Node, Outputs, Phase


class NodeSelector:
    """Selects nodes by displayName, name, id, phase, templateName, templateRef.name, templateRef.template and
    inputs.parameters.NAME.value, as `--node-field-selector` does: `displayName=train,phase!=Succeeded`. Raises
    BadRequest for an invalid selector."""

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


def stop(workflow: Object, node_field_selector: str = "", message: str = "", *, now: str = "") -> Object:
    """Starts nothing new, stops what runs, and runs exit handlers. With a selector, the selected suspended nodes fail
    and the rest continues. Raises BadRequest."""
    if node_field_selector:
        return set_outputs(workflow, node_field_selector, phase="Failed", message=message, now=now)
    return _shut_down(workflow, "Stop")


def terminate(workflow: Object) -> Object:
    """Ends everything now, without exit handlers. Raises BadRequest."""
    return _shut_down(workflow, "Terminate")


def suspend(workflow: Object) -> Object:
    """Starts nothing new. Raises BadRequest."""
    if status_of(workflow).get("phase") in FINISHED_PHASES:
        raise BadRequest("cannot suspend completed workflows")
    return {**workflow, "spec": {**spec_of(workflow), "suspend": True}}


def resume(workflow: Object, node_field_selector: str = "", *, message: str = "", now: str = "") -> Object:
    """Resumes the workflow and all suspended nodes; with a selector, only the selected nodes. Outputs that were not
    supplied get their defaults. Raises BadRequest."""
    moment = now or timestamp()
    if node_field_selector:
        chosen = _node_filter(workflow, node_field_selector)
        return _with_nodes(workflow, chosen, lambda node: _resume_node(node, message, moment))
    changed = _with_nodes(workflow, is_suspended, lambda node: _resume_node(node, message, moment))
    return {**changed, "spec": {n: v for n, v in spec_of(changed).items() if n != "suspend"}}


def set_outputs(
    workflow: Object,
    node_field_selector: str,
    *,
    outputs: Mapping[str, str] | None = None,
    phase: Phase | None = None,
    message: str = "",
    now: str = "",
) -> Object:
    """Sets the outputs, message or phase of the selected suspended nodes; with a phase they continue. Raises
    BadRequest."""
    if not node_field_selector:
        raise BadRequest("'set' currently only targets suspend nodes, use a node field selector to target them")
    chosen = _node_filter(workflow, node_field_selector)
    moment = now or timestamp()

    def answered(node: Node) -> Node:
        new = Node(**node)
        if message:
            new["message"] = message
        if outputs:
            new["outputs"] = _supply_outputs(node, outputs)
        if phase is not None:
            new["phase"] = phase
            if phase in FINISHED_PHASES:
                new["finishedAt"] = moment
        return new

    return _with_global_outputs(
        _with_nodes(workflow, chosen, answered), filter(chosen, nodes_of(workflow)), outputs or {}
    )


def is_suspended(node: Node) -> bool:
    return node.get("type") == "Suspend" and node.get("phase") == "Running"


def _shut_down(workflow: Object, strategy: str) -> Object:
    if status_of(workflow).get("phase") in FINISHED_PHASES:
        raise BadRequest(
            f'cannot shutdown a completed workflow: workflow: "{name_of(workflow)}", namespace: '
            f'"{namespace_of(workflow)}"'
        )
    return {**workflow, "spec": {**spec_of(workflow), "shutdown": strategy}}


def _resume_node(node: Node, message: str, now: str) -> Node:
    new = Node(**node)
    new["phase"], new["finishedAt"] = "Succeeded", now
    said = "; ".join(text for text in (node.get("message"), message) if text)
    if said:
        new["message"] = said
    outputs = node.get("outputs")
    if outputs:
        new["outputs"] = Outputs(
            **{**outputs, "parameters": [_with_default(p) for p in outputs.get("parameters") or ()]}
        )
    return new


def _with_default(parameter: dict[str, Any]) -> dict[str, Any]:
    source = parameter.get("valueFrom") or {}
    if "supplied" not in source:
        return parameter
    if source.get("default") is None:
        raise BadRequest(
            f"raw output parameter '{parameter.get('name')}' has not been set and does not have a default value"
        )
    return {**{n: v for n, v in parameter.items() if n != "valueFrom"}, "value": source["default"]}


def _supply_outputs(node: Node, values: Mapping[str, str]) -> Outputs:
    outputs = node.get("outputs")
    if not outputs:
        raise BadRequest("cannot set output parameters because node is not expecting any raw parameters")
    parameters = [dict(parameter) for parameter in outputs.get("parameters") or ()]
    for name, value in values.items():
        parameter = next((p for p in parameters if p.get("name") == name), None)
        if parameter is None:
            raise BadRequest(f"node is not expecting output parameter '{name}'")
        if "supplied" not in (parameter.get("valueFrom") or {}):
            raise BadRequest(
                f"cannot set output parameter '{name}' because it does not use valueFrom.raw or it was already set"
            )
        del parameter["valueFrom"]
        parameter["value"] = value
    return Outputs(**{**outputs, "parameters": parameters})


def _with_global_outputs(workflow: Object, answered: Iterable[Node], values: Mapping[str, str]) -> Object:
    """Parameters with a globalName also become outputs of the workflow."""
    named: dict[str, str] = {}
    for node in answered:
        for parameter in (node.get("outputs") or {}).get("parameters") or ():
            if parameter.get("globalName") and parameter.get("name") in values:
                named[parameter["globalName"]] = values[parameter["name"]]
    if not named:
        return workflow
    outputs = status_of(workflow).get("outputs") or {}
    others = [p for p in outputs.get("parameters") or () if p.get("name") not in named]
    parameters = [*others, *({"name": name, "value": value} for name, value in named.items())]
    return {**workflow, "status": {**status_of(workflow), "outputs": {**outputs, "parameters": parameters}}}


def nodes_of(workflow: Object) -> list[Node]:
    return list((status_of(workflow).get("nodes") or {}).values())


def _node_filter(workflow: Object, node_field_selector: str) -> Callable[[Node], bool]:
    selector = NodeSelector(node_field_selector)

    def chosen(node: Node) -> bool:
        return is_suspended(node) and selector.matches(node)

    if not any(map(chosen, nodes_of(workflow))):
        raise BadRequest(
            "currently, set only targets suspend nodes: no suspend nodes matching nodeFieldSelector: "
            f"{node_field_selector}"
        )
    return chosen


def _with_nodes(workflow: Object, chosen: Callable[[Node], bool], change: Callable[[Node], Node]) -> Object:
    nodes: Mapping[str, Node] = status_of(workflow).get("nodes") or {}
    if not nodes:
        return dict(workflow)
    changed = {key: change(node) if chosen(node) else node for key, node in nodes.items()}
    return {**workflow, "status": {**status_of(workflow), "nodes": changed}}
