"""Trims watched objects to what the controller needs, to save memory and needless reconciles.

On a real cluster every object is a copy in our memory, and most of a Pod is never read here: what its template says,
managed fields, the progress of its node. None of that is kept, and if nothing else has changed there is no reconcile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from muster.kube.objects import Object, annotations_of, controller_of, labels_of, meta, spec_of, status_of
from muster.training.labels import ATTEMPT_ANNOTATION, PADDLE_ROLE, REPLICA_INDEX, REPLICA_TYPE

_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_IDENTITY = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp")


def trimmer_for(kind: str) -> Callable[[Object], Object]:
    """Returns the function that trims objects of that kind. Pods and Services lose their resourceVersion, because they
    are never updated as a whole."""
    return {"Pod": _trim_pod, "Service": _trim_service}.get(kind, _trim_other)


def _trim_pod(pod: Object) -> Object:
    status = status_of(pod)
    kept_status = _pick(status, ("phase", "reason", "message"))
    if PADDLE_ROLE in labels_of(pod):
        # Other kinds never read it, and need no reconcile when it changes.
        kept_status |= _pick(status, ("podIP",))
    for name in ("initContainerStatuses", "containerStatuses"):
        if status.get(name):
            kept_status[name] = [_trim_container(container) for container in status[name]]
    return {
        "apiVersion": pod["apiVersion"],
        "kind": pod["kind"],
        "metadata": {
            **_identity(pod),
            "labels": _pick(labels_of(pod), (REPLICA_TYPE, REPLICA_INDEX)),
            "annotations": _pick(annotations_of(pod), (ATTEMPT_ANNOTATION,)),
        },
        "spec": {"containers": [{"name": container["name"]} for container in spec_of(pod).get("containers") or ()]},
        "status": kept_status,
    }


def _trim_service(service: Object) -> Object:
    return {"apiVersion": service["apiVersion"], "kind": service["kind"], "metadata": _identity(service)}


def _trim_other(obj: Object) -> Object:
    metadata = {name: value for name, value in meta(obj).items() if name != "managedFields"}
    if _APPLIED in annotations_of(obj):
        metadata["annotations"] = {name: text for name, text in annotations_of(obj).items() if name != _APPLIED}
    return {**obj, "metadata": metadata}


def _identity(obj: Object) -> Object:
    owner = controller_of(obj)
    return {**_pick(meta(obj), _IDENTITY), "ownerReferences": [owner] if owner is not None else []}


def _trim_container(status: Mapping[str, Any]) -> Object:
    """Keeps how the container ended and its restarts. The Pod's phase says whether it waits or runs."""
    kept: Object = {"name": status["name"], "restartCount": status.get("restartCount", 0)}
    for name in ("state", "lastState"):
        ended = (status.get(name) or {}).get("terminated")
        if ended:
            kept[name] = {"terminated": ended}
    return kept


def _pick(values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: values[name] for name in names if name in values}
