"""Port leases: where a Pod's port can be reached, in a cluster whose Pods all share one network.

Two replicas of a job may both want port 2222, and many frameworks bind every interface, so each gets its own port on
the loopback interface. The lease is an object (PortLease), so it survives a restart of the server and is deleted with
its owner.
"""

from __future__ import annotations

import asyncio
import random
import socket

from muster.kube.cluster import Cluster, Endpoint
from muster.kube.errors import NotFound, Unavailable
from muster.kube.kinds import Column, Kind
from muster.kube.objects import Object, join_api_version, owner_reference, uid_of

_FIRST_PORT, _LAST_PORT = 20_000, 32_767
"""Below the ports that Linux uses for outgoing connections, so that no port is taken by chance."""

PORT_LEASE = Kind(
    group="muster.dev",
    version="v1",
    kind="PortLease",
    plural="portleases",
    has_status=False,
    schema={
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "spec": {
                "type": "object",
                "required": ["pod", "port", "host", "hostPort"],
                "properties": {
                    "pod": {"type": "string"},
                    "port": {"type": "integer"},
                    "host": {"type": "string"},
                    "hostPort": {"type": "integer"},
                },
            },
        },
    },
    columns=(
        Column("Pod", ".spec.pod"),
        Column("Port", ".spec.port", type="integer"),
        Column("Host", ".spec.host"),
        Column("Host Port", ".spec.hostPort", type="integer"),
    ),
)


class PortLeases:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._next = random.randint(_FIRST_PORT, _LAST_PORT)  # noqa: S311 (not a secret)
        self._lock = asyncio.Lock()

    async def endpoint(self, pod: str, namespace: str, port: int, *, owner: Object, attempt: int = 0) -> Endpoint:
        """Returns the endpoint of a Pod's port. It stays the same as long as `owner` exists."""
        # Includes the owner: a deleted owner of the same name may still have its leases.
        name = f"{pod}-{port}-{uid_of(owner)[:8]}" + (f"-{attempt}" if attempt else "")
        async with self._lock:
            existing = await self._find_lease(name, namespace)
            if existing is not None:
                return existing
            taken = {lease["spec"]["hostPort"] for lease in (await self._cluster.list(PORT_LEASE)).items}
            chosen = Endpoint("127.0.0.1", self._free_port(taken))
            lease = {
                "apiVersion": join_api_version(PORT_LEASE.group, PORT_LEASE.version),
                "kind": PORT_LEASE.kind,
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    "ownerReferences": [owner_reference(owner, controller=False, block_deletion=False)],
                },
                "spec": {"pod": pod, "port": port, "host": chosen.host, "hostPort": chosen.port},
            }
            await self._cluster.create(lease)
        return chosen

    async def _find_lease(self, name: str, namespace: str) -> Endpoint | None:
        try:
            spec = (await self._cluster.get(PORT_LEASE, name, namespace))["spec"]
        except NotFound:
            return None
        return Endpoint(spec["host"], spec["hostPort"])

    def _free_port(self, taken: set[int]) -> int:
        """Goes through the range in order, so that a port that was just used (and is still in TIME_WAIT) comes last."""
        for _ in range(_LAST_PORT - _FIRST_PORT + 1):
            self._next = self._next + 1 if self._next < _LAST_PORT else _FIRST_PORT
            if self._next not in taken and _can_bind(self._next):
                return self._next
        raise Unavailable(f"there is no free port between {_FIRST_PORT} and {_LAST_PORT} on this machine")


def _can_bind(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("0.0.0.0", port))  # noqa: S104 (closed at once; frameworks also bind every interface)
        except OSError:
            return False
    return True
