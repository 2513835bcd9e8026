"""The Node objects this agent answers for: the machine's own, and further ones the settings declare. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.embedded.agent.machine import Machine
from muster.embedded.agent.settings import AgentSettings, NodeSettings
from muster.kube.objects import Object, annotations_of, labels_of, spec_of, status_of

SIMULATED = "muster.dev/simulated"
"""Annotation of a node that runs nothing."""
DECLARED = "muster.dev/agent"
"""Annotation of the nodes that this agent has made, and takes away when the settings no longer have them."""

_PODS = "1000"


def node_objects(settings: AgentSettings, machine: Machine, version: str, runtime: str, now: str) -> list[Object]:
    """The machine's own node first."""
    own = NodeSettings(
        settings.node_name or machine.hostname,
        capacity=settings.capacity,
        labels=settings.labels,
        taints=settings.taints,
    )
    return [_node(node, machine, version, runtime, now, own=node is own) for node in (own, *settings.nodes)]


def merged(found: Object, wanted: Object) -> Object:
    """A node that exists, brought up to date: what users have added (labels, taints, cordon) stays."""
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
    return annotations_of(node).get(SIMULATED) == "true"


def _conditions_of(node: Object) -> set[str]:
    return {c["type"] for c in status_of(node)["conditions"]}


def _node(node: NodeSettings, machine: Machine, version: str, runtime: str, now: str, *, own: bool) -> Object:
    capacity = {**_capacity(machine, with_devices=own), **node.capacity}
    annotations = {DECLARED: "true", **({SIMULATED: "true"} if node.simulated else {})}
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


def _labels(node: NodeSettings, machine: Machine) -> dict[str, str]:
    return {
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": machine.architecture,
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": machine.architecture,
        **node.labels,
    }


def _capacity(machine: Machine, *, with_devices: bool) -> dict[str, str]:
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
