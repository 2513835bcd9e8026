"""Specs laid over one another: a Workflow over its WorkflowTemplate, a template over `templateDefaults`."""

from __future__ import annotations

from typing import Any

from muster.kube.objects import Object

_KEYS = {
    "templates": "name",
    "parameters": "name",
    "artifacts": "name",
    "volumes": "name",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "sidecars": "name",
    "containers": "name",
    "tasks": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "hostAliases": "ip",
    "tolerations": "key",
}
"""Lists that are merged item by item, and what tells their items apart. Other lists are replaced."""


def merged(base: Any, over: Any, name: str = "") -> Any:
    """`over` laid over `base`; neither is changed."""
    if isinstance(base, dict) and isinstance(over, dict):
        out = dict(base)
        for field, value in over.items():
            out[field] = merged(base[field], value, field) if field in base else value
        return out
    key = _KEYS.get(name)
    if key is not None and isinstance(base, list) and isinstance(over, list):
        return _merged_list(base, over, key)
    return base if over is None else over


def merged_workflow_spec(spec: Object, template_spec: Object) -> Object:
    """What a Workflow with a `workflowTemplateRef` runs: its own spec over that of the template. Of an argument's
    value, valueFrom and default only those count that stand in one place."""
    out: Object = merged(template_spec, spec)
    hooks = {**(template_spec.get("hooks") or {}), **(spec.get("hooks") or {})}
    if hooks:
        out["hooks"] = hooks
    out.pop("suspend", None)
    if spec.get("suspend") is not None:
        out["suspend"] = spec["suspend"]
    parameters = (out.get("arguments") or {}).get("parameters")
    if parameters:
        mine = {p["name"]: p for source in (template_spec, spec) for p in _with_value(source)}
        out["arguments"] = {**out["arguments"], "parameters": [mine.get(p["name"], p) for p in parameters]}
    return out


def _with_value(spec: Object) -> list[Object]:
    parameters = (spec.get("arguments") or {}).get("parameters") or []
    return [p for p in parameters if any(p.get(f) is not None for f in ("value", "valueFrom", "default"))]


def _merged_list(base: list[Any], over: list[Any], key: str) -> list[Any]:
    mine = {item.get(key): item for item in over if isinstance(item, dict)}
    known = {item.get(key) for item in base if isinstance(item, dict)}
    kept = [
        merged(item, mine[item.get(key)]) if isinstance(item, dict) and item.get(key) in mine else item for item in base
    ]
    return kept + [item for item in over if not (isinstance(item, dict) and item.get(key) in known)]
