"""Small objects that several tests need."""

from __future__ import annotations

from muster.kube.objects import Object


def config_map(name: str, text: str) -> Object:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": text}}


def shell_pod(name: str, script: str) -> Object:
    container: Object = {"name": "main", "image": "busybox", "command": ["sh", "-c", script]}
    spec = {"restartPolicy": "Never", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
