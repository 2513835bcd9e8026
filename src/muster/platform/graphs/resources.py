"""What a node takes of the machines: requests, where it may run, what it mounts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Final

from muster.kube.quantity import format_quantity, parse_quantity
from muster.platform.graphs.context import AvailableRoot, Context
from muster.platform.graphs.model import Mount, Task

MONITOR: Final[Mapping[str, str]] = {"cpu": "100m", "memory": "1000M"}
QUEUE = "scheduling.volcano.sh/queue-name"

_PLAIN = re.compile(r"[a-z0-9]([-a-z0-9]{0,48}[a-z0-9])?")


def resources_of(task: Task, context: Context) -> dict[str, Any]:
    """A container's `resources`: all it asks for it gets, and no more."""
    amounts = dict(MONITOR)
    if task.type == "compute":
        amounts = multiply_resources(context.clusters[task.cluster].sku, task.skus)
    return {"requests": amounts, "limits": dict(amounts)}


def node_selector_of(task: Task, context: Context) -> dict[str, str]:
    return dict(context.clusters[task.cluster].node_selector) if task.type == "compute" else {}


def queue_of(task: Task, context: Context) -> str:
    return context.clusters[task.cluster].queue if task.type == "compute" else ""


def multiply_resources(resources: Mapping[str, str], times: int) -> dict[str, str]:
    """So many times a SKU, exactly."""
    return {name: format_quantity(parse_quantity(amount) * times, str(amount)) for name, amount in resources.items()}


def mounts_of(storage: Iterable[Mount], context: Context) -> list[dict[str, Any]]:
    found = []
    for mount in storage:
        root = context.roots[mount.root]
        made: dict[str, Any] = {"name": volume_name(mount.root), "mountPath": mount.path or root.path}
        if mount.read_only or root.read_only:
            made["readOnly"] = True
        found.append(made)
    return found


def volumes_of(roots: Iterable[str], context: Context) -> list[dict[str, Any]]:
    """One for each root, in the order of their first use."""
    return [{"name": volume_name(name), **_source(context.roots[name])} for name in dict.fromkeys(roots)]


def volume_name(root: str) -> str:
    """Valid whatever the root is called."""
    plain = root if _PLAIN.fullmatch(root) else sha256(root.encode()).hexdigest()[:12]
    return f"storage-{plain}"


def _source(root: AvailableRoot) -> dict[str, Any]:
    if root.claim:
        return {"persistentVolumeClaim": {"claimName": root.claim}}
    return {"hostPath": {"path": root.host_path or root.path, "type": "Directory"}}
