"""Builders of nodes, Pods, PodGroups and Queues, and a scheduler without a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import count
from typing import Any

from muster.embedded.scheduler.cycle import CycleResult, run_cycle
from muster.embedded.scheduler.model import GroupKey, SchedulerSettings
from muster.embedded.scheduler.state import SchedulerState
from muster.kube.objects import Object, key_of, timestamp

_uids = count(1)


def metadata(name: str, created: float = 0.0, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{next(_uids)}",
        "creationTimestamp": timestamp(datetime.fromtimestamp(created, UTC)),
        **more,
    }


def a_node(
    name: str = "node",
    *,
    cpu: Any = "8",
    memory: Any = "32Gi",
    gpu: int = 0,
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
    **more: Any,
) -> Object:
    """`more` are further resources, or `conditions`."""
    conditions = more.pop("conditions", None)
    room = {"cpu": str(cpu), "memory": str(memory), "pods": str(pods), **{k: str(v) for k, v in more.items()}}
    if gpu:
        room["nvidia.com/gpu"] = str(gpu)
    status: dict[str, Any] = {"allocatable": room}
    if conditions is not None:
        status["conditions"] = conditions
    meta = metadata(name, labels={"kubernetes.io/hostname": name, **(labels or {})})
    del meta["namespace"]
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": dict(spec or {}), "status": status}


def a_pod(
    name: str = "pod",
    *,
    cpu: Any = None,
    memory: Any = None,
    gpu: int = 0,
    group: str = "",
    plugin_group: str = "",
    queue: str = "",
    task: str = "",
    created: float = 0.0,
    labels: Mapping[str, str] | None = None,
    phase: str = "Pending",
    **spec: Any,
) -> Object:
    """`spec` are further fields of the Pod's spec."""
    requests = {resource: str(n) for resource, n in (("cpu", cpu), ("memory", memory)) if n is not None}
    limits = {"nvidia.com/gpu": str(gpu)} if gpu else {}
    annotations = {
        "scheduling.k8s.io/group-name": group,
        "scheduling.volcano.sh/queue-name": queue,
        "volcano.sh/task-spec": task,
    }
    labels = {**(labels or {}), **({"scheduling.x-k8s.io/pod-group": plugin_group} if plugin_group else {})}
    container = {"name": "main", "image": "busybox", "resources": {"requests": requests, "limits": limits}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(
            name, created, labels=labels, annotations={key: value for key, value in annotations.items() if value}
        ),
        "spec": {"containers": [container], **spec},
        "status": {"phase": phase},
    }


def a_group(name: str = "gang", min_member: int = 2, *, created: float = 0.0, **spec: Any) -> Object:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": metadata(name, created),
        "spec": {"minMember": min_member, **spec},
    }


def a_plugin_group(name: str = "gang", min_member: int = 2, *, created: float = 0.0, **spec: Any) -> Object:
    return a_group(name, min_member, created=created, **spec) | {"apiVersion": "scheduling.x-k8s.io/v1alpha1"}


def a_queue(name: str = "default", weight: int = 1, *, state: str = "", **spec: Any) -> Object:
    meta = metadata(name)
    del meta["namespace"]
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": meta,
        "spec": {"weight": weight, **spec},
        "status": {"state": state} if state else {},
    }


class Bench:
    """The core of the scheduler for tests: takes objects, runs cycles by hand, and binds at once."""

    def __init__(self, *objects: Object, **settings: Any) -> None:
        self.settings = SchedulerSettings(**settings)
        self.state = SchedulerState(self.settings)
        self.objects: dict[str, Object] = {}
        """The Pods by name; everything else by kind and name."""
        self.put(a_queue(), *objects)

    def restart(self) -> None:
        """Starts a new scheduler, which reads the stored objects in another order."""
        self.state = SchedulerState(self.settings)
        self.put(*reversed(list(self.objects.values())))

    def put(self, *objects: Object) -> None:
        for obj in objects:
            name = obj["metadata"]["name"]
            self.objects[name if obj["kind"] == "Pod" else f"{obj['kind']} {name}"] = obj
            if obj["kind"] == "Pod":
                self.state.put_pod(obj)
            elif obj["kind"] == "Node":
                self.state.put_node(obj)
            elif obj["kind"] == "Queue":
                self.state.put_queue(obj)
            else:
                plugin = obj["apiVersion"].startswith("scheduling.x-k8s.io")
                self.state.put_group("plugin" if plugin else "volcano", obj)

    def run(self, now: float = 0.0) -> dict[str, str]:
        """Runs one cycle. Returns the node of each Pod that was placed."""
        self.result: CycleResult = run_cycle(self.state, now)
        placed = {pod.key.name: node for p in self.result.placements for pod, node in p.assignments}
        for name, node in placed.items():
            self.change(name, spec={**self.objects[name]["spec"], "nodeName": node})
        return placed

    def change(self, name: str, **parts: Any) -> None:
        self.put({**self.objects[name], **parts})

    def phase(self, phase: str, *names: str) -> None:
        for name in names:
            self.change(name, status={"phase": phase})

    def remove(self, *names: str) -> None:
        for name in names:
            self.state.drop_pod(key_of(self.objects.pop(name)))

    def remove_group(self, name: str) -> None:
        self.objects.pop(f"PodGroup {name}", None)
        self.state.drop_group(GroupKey("volcano", "default", name))

    @property
    def reasons(self) -> dict[str, str]:
        """The reasons that the last cycle reported, by Pod."""
        return {pod.key.name: message for pod, message in self.result.new_reasons}
