"""Sample objects."""

from __future__ import annotations

from typing import Any

from muster.kube.kinds import Kind, Scale
from muster.kube.objects import Object
from muster.kube.schema import INT32, obj, root

CREW = Kind(
    "x.dev",
    "v1",
    "Crew",
    "crews",
    scale=Scale(),
    schema=root({"spec": obj({"replicas": INT32}), "status": obj({"replicas": INT32})}),
)
"""A custom kind that can be scaled."""


def config_map(name: str = "c", namespace: str = "default", **data: str) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def pod(name: str = "p", **spec: Any) -> Object:
    container = {"name": "main", "image": "busybox", "command": ["true"]}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}
