"""Where a Service can be reached, for parts of the server that get its name from a user: `minio:9000` in an artifact
repository leads to a Pod, as it does inside of Pods.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from muster.kube.builtin import NAMESPACE, POD, SERVICE
from muster.kube.cluster import Cluster
from muster.kube.errors import NotFound
from muster.kube.objects import Object, spec_of, status_of
from muster.kube.pod_security import is_restricted

_LABEL = re.compile(r"[a-z][a-z0-9-]*", re.ASCII)
_SUFFIXES = (".svc.cluster.local", ".svc")


async def resolve_service(cluster: Cluster, namespace: str, host: str, port: int) -> tuple[str, int] | None:
    """Returns the address and port of a Pod of the Service that `host` names, seen from `namespace`; None if there is
    no such Service. Prefers Pods that are ready; one that is not may be so soon. Never returns a Pod of a restricted
    namespace: its users choose what the status says."""
    found = split_name(host, namespace)
    if found is None:
        return None
    name, where = found
    try:
        if is_restricted(await cluster.get(NAMESPACE, where)):
            return None
        service = await cluster.get(SERVICE, name, where)
    except NotFound:
        return None
    selector = spec_of(service).get("selector")
    if not selector:
        return None
    labels = ",".join(f"{key}={value}" for key, value in selector.items())
    pods = (await cluster.list(POD, where, labels=labels)).items
    for pod in sorted(pods, key=_is_ready, reverse=True):
        address = str(status_of(pod).get("podIP") or "")
        target = target_port(service, port, pod)
        if address and target and status_of(pod).get("phase") == "Running":
            return address, target
    return None


def split_name(host: str, namespace: str) -> tuple[str, str] | None:
    """Returns the name and the namespace of the Service that a host name may stand for."""
    for suffix in _SUFFIXES:
        host = host.removesuffix(suffix)
    parts = host.split(".")
    if len(parts) > 2 or not all(_LABEL.fullmatch(part) for part in parts):
        return None
    return parts[0], parts[1] if len(parts) == 2 else namespace


def target_port(service: Object, port: int, pod: Object) -> int | None:
    """Returns the port of the Pod for a port of the Service."""
    for each in spec_of(service).get("ports") or ():
        if each.get("port") == port:
            target = each.get("targetPort") or port
            return target if isinstance(target, int) else _named_port(spec_of(pod), str(target))
    return None


def _named_port(spec: Mapping[str, Any], name: str) -> int | None:
    ports = [port for container in spec.get("containers") or () for port in container.get("ports") or ()]
    return next((int(port["containerPort"]) for port in ports if port.get("name") == name), None)


def _is_ready(pod: Object) -> bool:
    conditions = status_of(pod).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
