"""The `scale` subresource: any kind with a number of replicas, seen as an autoscaling/v1 Scale."""

from __future__ import annotations

from typing import Any

from muster.kube.errors import Cause, Invalid, NotFound
from muster.kube.kinds import Kind, Scale
from muster.kube.objects import Object


def scale_of(kind: Kind, obj: Object) -> Object:
    """The Scale of an object; NotFound for a kind that has none."""
    scale = _scale(kind)
    metadata = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Object = {"replicas": _at(obj, scale.status_replicas) or 0}
    if scale.selector and (selector := _at(obj, scale.selector)):
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: metadata[field] for field in kept if field in metadata},
        "spec": {"replicas": _at(obj, scale.replicas) or 0},
        "status": status,
    }


def scaled(kind: Kind, obj: Object, wanted: Object) -> Object:
    """The object with the number of replicas that a Scale asks for."""
    scale = _scale(kind)
    replicas = (wanted.get("spec") or {}).get("replicas", 0)
    if type(replicas) is not int or replicas < 0:
        why = f"Invalid value: {replicas!r}: must be a whole number, 0 or more"
        raise Invalid(
            f'Scale "{obj["metadata"]["name"]}" is invalid: spec.replicas: {why}', causes=[Cause("spec.replicas", why)]
        )
    result = _with(obj, _steps(scale.replicas), replicas)
    assert isinstance(result, dict)
    return result


def _scale(kind: Kind) -> Scale:
    if kind.scale is None:
        raise NotFound(f"{kind.resource} cannot be scaled: the kind says nothing of replicas")
    return kind.scale


def _steps(path: str) -> list[str]:
    return [step for step in path.split(".") if step]


def _at(obj: Any, path: str) -> Any:
    for step in _steps(path):
        obj = obj.get(step) if isinstance(obj, dict) else None
    return obj


def _with(obj: Any, steps: list[str], value: Any) -> Any:
    if not steps:
        return value
    inner = obj if isinstance(obj, dict) else {}
    return {**inner, steps[0]: _with(inner.get(steps[0]), steps[1:], value)}
