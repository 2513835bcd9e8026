"""The Node objects of this machine: their registration, and the status of Pods on simulated nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from zlib import crc32

from muster import __version__
from muster.embedded.node.journal import progress_of
from muster.embedded.node.machine import MachineInfo
from muster.embedded.node.pod_status import PodPlace, containers_of, format_time, pod_status
from muster.embedded.node.supervisor.contract import JournalEntry
from muster.embedded.settings import AgentSettings, NodeSettings
from muster.kube.builtin import LEASE, NODE
from muster.kube.cluster import Cluster
from muster.kube.errors import AlreadyExists, Conflict, NotFound
from muster.kube.objects import (
    Object,
    annotations_of,
    is_deleting,
    labels_of,
    micro_timestamp,
    name_of,
    owner_reference,
    parse_time,
    spec_of,
    status_of,
    timestamp,
    uid_of,
)

SIMULATED_ANNOTATION = "muster.dev/simulated"
"""Annotation of a node that runs nothing."""
DECLARED_ANNOTATION = "muster.dev/agent"
"""Annotation of the nodes that this agent creates. It deletes them when the settings no longer contain them."""
SIMULATED_SECONDS_ANNOTATION = "muster.dev/simulated-seconds"
"""Annotation: the Pod succeeds after so many seconds. Without it, the Pod runs until it is deleted."""
_PODS = "1000"
_LONGEST_SECONDS = 365 * 86400.0
"""A timer cannot wait for ever."""


def node_objects(settings: AgentSettings, machine: MachineInfo, version: str, runtime: str, now: str) -> list[Object]:
    """Returns the Node objects of the settings, this machine's own first."""
    own = NodeSettings(
        settings.node_name or machine.hostname,
        capacity=settings.capacity,
        labels=settings.labels,
        taints=settings.taints,
    )
    return [_node(node, machine, version, runtime, now, own=node is own) for node in (own, *settings.nodes)]


def merge_node(found: Object, wanted: Object) -> Object:
    """Updates a node that exists. Labels, taints and the cordon that users have added stay."""
    taints = list(spec_of(found).get("taints") or ())
    known = {(t.get("key"), t.get("effect")) for t in taints}
    taints += [t for t in spec_of(wanted).get("taints") or () if (t.get("key"), t.get("effect")) not in known]
    spec = {**spec_of(wanted), **spec_of(found), **({"taints": taints} if taints else {})}
    conditions = [c for c in status_of(found).get("conditions") or () if c.get("type") not in _conditions_of(wanted)]
    return {
        **found,
        "metadata": {
            **found["metadata"],
            "labels": {**labels_of(found), **labels_of(wanted)},
            "annotations": {**annotations_of(found), **annotations_of(wanted)},
        },
        "spec": spec,
        "status": {**status_of(wanted), "conditions": [*status_of(wanted)["conditions"], *conditions]},
    }


def is_simulated(node: Object) -> bool:
    return annotations_of(node).get(SIMULATED_ANNOTATION) == "true"


async def register_nodes(
    cluster: Cluster, settings: AgentSettings, machine: MachineInfo
) -> tuple[dict[str, Object], set[str]]:
    """Registers the nodes of the settings and deletes those the settings no longer contain. Returns the nodes whose
    Pods run here, by name, and the names of the simulated ones."""
    runtime = f"{settings.runtime}://{__version__}"
    wanted = node_objects(settings, machine, f"v{__version__}", runtime, timestamp())
    found = {name_of(node): node for node in (await cluster.list(NODE)).items}
    await asyncio.gather(*(_create_or_update(cluster, node, found.get(name_of(node))) for node in wanted))
    names = {name_of(node) for node in wanted}
    gone = [name for name, node in found.items() if annotations_of(node).get(DECLARED_ANNOTATION) and name not in names]
    await asyncio.gather(*(_remove(cluster, name) for name in gone))
    simulated = {name_of(node) for node in wanted if is_simulated(node)}
    return {name_of(node): node for node in wanted if name_of(node) not in simulated}, simulated


LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
RENEW_SECONDS = 10.0
STATUS_SECONDS = 300.0


class NodeHeartbeat:
    """Says that this machine's node is alive, as kubelets do: a Lease is renewed every ten seconds, the times in the
    node's conditions every five minutes. Simulated nodes have neither."""

    def __init__(self, cluster: Cluster, *, renew_seconds: float = RENEW_SECONDS) -> None:
        self._cluster = cluster
        self._renew_seconds = renew_seconds

    async def run(self) -> None:
        with suppress(AlreadyExists):
            await self._cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LEASE_NAMESPACE}})
        while True:
            nodes = (await self._cluster.list(NODE)).items
            own = [n for n in nodes if DECLARED_ANNOTATION in annotations_of(n) and not is_simulated(n)]
            for node in own:
                with suppress(Conflict, NotFound):
                    await self._renew(node)
            # Until the agent has registered its node, there is nothing to renew.
            await asyncio.sleep(self._renew_seconds if own else min(self._renew_seconds, 1.0))

    async def _renew(self, node: Object) -> None:
        name, now = name_of(node), datetime.now(UTC)
        renewed = {
            "holderIdentity": name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": micro_timestamp(now),
        }
        try:
            await self._cluster.patch(LEASE, name, LEASE_NAMESPACE, {"spec": renewed})
        except NotFound:
            owner = owner_reference(node, controller=False, block_deletion=False)
            metadata = {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]}
            lease = {"apiVersion": LEASE.api_version, "kind": "Lease", "metadata": metadata, "spec": renewed}
            await self._cluster.create(lease)
        conditions = status_of(node).get("conditions") or ()
        seen = max((c["lastHeartbeatTime"] for c in conditions if c.get("lastHeartbeatTime")), default="")
        if seen and (now - parse_time(seen)).total_seconds() >= STATUS_SECONDS:
            fresh = [{**condition, "lastHeartbeatTime": timestamp(now)} for condition in conditions]
            status = {**status_of(node), "conditions": fresh}
            await self._cluster.update({**node, "status": status}, subresource="status")


def simulated_status(pod: Object, now: float) -> tuple[dict[str, Any], float | None]:
    """Returns the current status, and the seconds until it changes or None."""
    started = _started(pod, now)
    seconds = _seconds(pod)
    end = started + seconds if seconds is not None else None
    if is_deleting(pod):
        end = now
    containers = containers_of(spec_of(pod))
    entries: list[JournalEntry] = [{"t": started, "e": "supervised"}]
    for container, role in containers:
        name = str(container.get("name") or "")
        entries.append({"t": started, "e": "started", "c": name, "a": 0})
        entries.append({"t": started, "e": "startup", "c": name, "a": 0})
        entries.append({"t": started, "e": "ready", "c": name, "a": 0, "ready": True})
        if role == "init":
            entries.append({"t": started, "e": "exited", "c": name, "a": 0, "code": 0})
    over = end is not None and now >= end
    if over:
        moment = end or now
        entries.extend(
            {"t": moment, "e": "exited", "c": str(c.get("name") or ""), "a": 0, "code": 0}
            for c, role in containers
            if role != "init"
        )
        entries.append({"t": moment, "e": "finished", "phase": "Succeeded"})
    status = pod_status(pod, progress_of(entries), now, PodPlace(_address(pod), "10.255.0.1", "simulated"))
    status["startTime"] = status_of(pod).get("startTime") or format_time(started)
    return status, None if over or end is None else end - now


def unreadable_seconds(pod: Object) -> str | None:
    """Returns the annotation if it is not a number."""
    text = annotations_of(pod).get(SIMULATED_SECONDS_ANNOTATION)
    return text if text is not None and _seconds(pod) is None else None


def _node(node: NodeSettings, machine: MachineInfo, version: str, runtime: str, now: str, *, own: bool) -> Object:
    capacity = {**_capacity(machine, with_devices=own), **node.capacity}
    annotations = {DECLARED_ANNOTATION: "true", **({SIMULATED_ANNOTATION: "true"} if node.simulated else {})}
    spec: dict[str, Any] = {"taints": [dict(t) for t in node.taints]} if node.taints else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": _labels(node, machine), "annotations": annotations},
        "spec": spec,
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": _conditions(now),
            "addresses": [
                {"type": "InternalIP", "address": "127.0.0.1"},
                {"type": "Hostname", "address": node.name},
            ],
            "nodeInfo": {
                "machineID": machine.machine_id,
                "systemUUID": machine.machine_id,
                "bootID": machine.boot_id,
                "kernelVersion": machine.kernel,
                "osImage": machine.os_image,
                "containerRuntimeVersion": "simulated://1" if node.simulated else runtime,
                "kubeletVersion": version,
                "kubeProxyVersion": version,
                "operatingSystem": "linux",
                "architecture": machine.architecture,
            },
        },
    }


def _labels(node: NodeSettings, machine: MachineInfo) -> dict[str, str]:
    return {
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": machine.architecture,
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": machine.architecture,
        **node.labels,
    }


def _capacity(machine: MachineInfo, *, with_devices: bool) -> dict[str, str]:
    found = {
        "cpu": str(machine.cores),
        "memory": f"{machine.memory_bytes // 1024}Ki",
        "ephemeral-storage": f"{machine.storage_bytes // 1024}Ki",
        "pods": _PODS,
    }
    if with_devices:
        found.update((resource, str(len(ids))) for resource, ids in machine.devices.items())
    return found


def _conditions(now: str) -> list[Mapping[str, str]]:
    good = (
        ("MemoryPressure", "False", "AgentHasSufficientMemory", "the agent has sufficient memory available"),
        ("DiskPressure", "False", "AgentHasNoDiskPressure", "the agent has no disk pressure"),
        ("PIDPressure", "False", "AgentHasSufficientPID", "the agent has sufficient PID available"),
        ("Ready", "True", "AgentReady", "the agent is ready to run Pods"),
    )
    return [
        {"type": t, "status": s, "reason": r, "message": m, "lastHeartbeatTime": now, "lastTransitionTime": now}
        for t, s, r, m in good
    ]


def _conditions_of(node: Object) -> set[str]:
    return {c["type"] for c in status_of(node)["conditions"]}


async def _create_or_update(cluster: Cluster, node: Object, found: Object | None) -> None:
    if found is None:
        stored = await cluster.create(node)
    else:
        node = merge_node(found, node)
        stored = await cluster.update(node)
    await cluster.update({**stored, "status": node["status"]}, subresource="status")


async def _remove(cluster: Cluster, name: str) -> None:
    with suppress(NotFound):
        await cluster.delete(NODE, name)


def _started(pod: Object, now: float) -> float:
    text = status_of(pod).get("startTime")
    return parse_time(text).timestamp() if text else now


def _seconds(pod: Object) -> float | None:
    try:
        return min(max(0.0, float(annotations_of(pod).get(SIMULATED_SECONDS_ANNOTATION, ""))), _LONGEST_SECONDS)
    except ValueError:
        return None


def _address(pod: Object) -> str:
    """An address for display only. It is derived from the uid, so it stays the same."""
    number = crc32(uid_of(pod).encode())
    return f"10.{number >> 16 & 127}.{number >> 8 & 255}.{number & 255}"
