"""Objects to store."""

from __future__ import annotations

from typing import Any

from muster.kube.objects import Object


def config_map(name: str = "c", namespace: str = "default", **data: str) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def pod(name: str = "p", **spec: Any) -> Object:
    container = {"name": "main", "image": "busybox", "command": ["true"]}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}
