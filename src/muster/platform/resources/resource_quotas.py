"""The totals of virtual clusters on a real cluster without queues: a ResourceQuota in every namespace.

A quota counts the Pods with the PriorityClass of the virtual cluster. It cannot span namespaces: each of those that may
use the virtual cluster can use up to its total. Kubernetes refuses a Pod beyond it, and Argo's controller and our
operator try again until there is room.
"""

from __future__ import annotations

from typing import Final

from muster.kube.builtin import PRIORITY_CLASS
from muster.kube.objects import Object, status_of
from muster.kube.quantity import multiply_resources, subtract_resources, sum_resources
from muster.platform.records.resources import VirtualCluster

EXECUTOR: Final = {"cpu": "10m", "memory": "32Mi"}
"""What containers request that request nothing, such as those that Argo adds. A Pod in a quota must request
something."""
LIMIT_RANGE_NAME: Final = "muster"
_REQUESTS: Final = "requests."


def priority_class(cluster: VirtualCluster) -> Object:
    """It marks the Pods of a virtual cluster. It gives them no priority."""
    return {
        "apiVersion": PRIORITY_CLASS.api_version,
        "kind": PRIORITY_CLASS.kind,
        "metadata": {"name": cluster.queue},
        "value": 0,
        "description": f'Pods of the virtual cluster "{cluster.name}", whose total is limited by ResourceQuotas',
    }


def quota_spec(cluster: VirtualCluster) -> Object:
    """As many SKUs as there are, with room for Argo's container in every Pod: a Pod has at least one SKU."""
    total = cluster.total or 0
    room = {name: amount for name, amount in EXECUTOR.items() if name in cluster.sku}
    amounts = sum_resources([multiply_resources(cluster.sku, total), multiply_resources(room, total)])
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": [cluster.queue]}
    return {
        "hard": {"pods": str(total), **{f"{_REQUESTS}{name}": amount for name, amount in sorted(amounts.items())}},
        "scopeSelector": {"matchExpressions": [scope]},
    }


def limit_range_spec() -> Object:
    return {"limits": [{"type": "Container", "defaultRequest": dict(EXECUTOR)}]}


def usage_of(quota: Object) -> dict[str, str]:
    """What Pods use of a quota, without the containers beside the user's."""
    used = status_of(quota).get("used") or {}
    amounts = {name.removeprefix(_REQUESTS): amount for name, amount in used.items() if name.startswith(_REQUESTS)}
    pods = int(used.get("pods") or 0)
    return subtract_resources(amounts, {n: a for n, a in multiply_resources(EXECUTOR, pods).items() if n in amounts})
