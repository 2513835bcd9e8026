"""Webhooks of processes that run beside the cluster: does what a Service and the kubelet do for Pods."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.cluster.kubectl import kubectl
from tools.cluster.layout import NODE_ADDRESS, Layout
from tools.cluster.processes import is_running, wait_until


def endpoint(namespace: str, service: str, ports: Mapping[str, int]) -> dict[str, Any]:
    """The endpoints of a Service without a selector. Ports have the names of the Service's ports."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "namespace": namespace,
            "name": f"{service}-process",
            "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": "IPv4",
        "ports": [{"name": name, "port": port, "protocol": "TCP"} for name, port in ports.items()],
        "endpoints": [{"addresses": [NODE_ADDRESS], "conditions": {"ready": True}}],
    }


def deliver_certificate(layout: Layout, component: str, namespace: str, secret: str, folder: Path) -> None:
    """Does what the kubelet would do for a Pod: a component that writes its certificate to a Secret waits for the
    files."""
    found: dict[str, str] = {}

    def is_written() -> bool:
        text = kubectl(layout, "get", "secret", secret, f"--namespace={namespace}", "--output=json")
        found.update(json.loads(text).get("data") or {})
        return "tls.crt" in found

    if not is_running(layout, component):
        return
    wait_until(layout, component, is_written, 60, "done with its certificate")
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in found.items():
        unfinished = folder / f".{name}"
        unfinished.write_bytes(base64.b64decode(content))
        unfinished.rename(folder / name)
