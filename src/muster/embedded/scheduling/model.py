"""Pods, nodes and priorities as the scheduler sees them: read once from their objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from muster.embedded.scheduling.profile import NODE_NAME, Profile, ProfileBook, Taint
from muster.kube.conditions import get_condition
from muster.kube.objects import (
    Key,
    Object,
    annotations_of,
    is_deleting,
    key_of,
    labels_of,
    meta,
    name_of,
    namespace_of,
    parse_time,
    spec_of,
    status_of,
    uid_of,
)
from muster.kube.requests import Amounts, amounts

DEFAULT_QUEUE = "default"

Flavour: TypeAlias = Literal["volcano", "plugin"]

_VOLCANO_GROUP = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
_PLUGIN_GROUP = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io")
_QUEUE = "scheduling.volcano.sh/queue-name"
_TASK = "volcano.sh/task-spec"
_MOST_PODS = 110
_SYSTEM_CLASSES = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}


class GroupKey(NamedTuple):
    """Which PodGroup; the two flavours are kinds of their own and may share names."""

    flavour: Flavour
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(slots=True, eq=False)
class Pod:
    """A Pod that exists. `node` is where it is, or is just being bound to (then `assumed`)."""

    key: Key
    uid: str
    profile: Profile
    labels: Mapping[str, str]
    created: float
    priority: int | None
    priority_class: str
    group: GroupKey | None
    task: str
    queue: str
    scheduler: str
    node: str
    phase: str
    deleting: bool
    gated: bool
    seq: int = 0
    assumed: bool = False
    charged: str = ""
    """The queue that pays for it."""
    told: str = ""
    """The last reason it was given for waiting."""
    told_at: float = 0.0
    noticed: tuple[str, ...] = ()
    """What was said about it once, by reason."""

    @property
    def finished(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def occupies(self) -> bool:
        """Whether it takes room on a node: from its binding to its end, also while it is being deleted."""
        return bool(self.node) and not self.finished

    @property
    def waits(self) -> bool:
        """Whether it is to be placed."""
        return not self.node and not self.deleting and not self.gated and not self.finished


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """`labels` also hold the name, under NODE_NAME, so that all of a node selector is about labels."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: Amounts = field(default_factory=dict)


def read_pod(obj: Object, book: ProfileBook) -> Pod:
    spec, status, annotations = spec_of(obj), status_of(obj), annotations_of(obj)
    return Pod(
        key=key_of(obj),
        uid=uid_of(obj),
        profile=book.of(obj),
        labels=labels_of(obj),
        created=created_at(obj),
        priority=spec.get("priority"),
        priority_class=spec.get("priorityClassName") or "",
        group=group_key_of(obj),
        task=annotations.get(_TASK) or "",
        queue=queue_named_by(annotations),
        scheduler=spec.get("schedulerName") or "",
        node=spec.get("nodeName") or "",
        phase=status.get("phase") or "Pending",
        deleting=is_deleting(obj),
        gated=bool(spec.get("schedulingGates")),
        told=_told(status) if not spec.get("nodeName") else "",
    )


def read_node(obj: Object) -> NodeFacts:
    """A node that is not ready, or is being deleted, takes no new Pods. One that names no number of pods takes 110."""
    spec, status = spec_of(obj), status_of(obj)
    taints = tuple(
        Taint(str(t.get("key") or ""), str(t.get("value") or ""), str(t.get("effect") or ""))
        for t in spec.get("taints") or ()
    )
    ready = get_condition(status.get("conditions"), "Ready")
    if ready is not None and ready.get("status") != "True":
        cause = "not-ready" if ready.get("status") == "False" else "unreachable"
        implied = Taint(f"node.kubernetes.io/{cause}", "", "NoSchedule")
        taints = taints if any(t.key == implied.key for t in taints) else (*taints, implied)
    room = amounts(status.get("allocatable") or status.get("capacity") or {})
    return NodeFacts(
        name=name_of(obj),
        labels={**labels_of(obj), NODE_NAME: name_of(obj)},
        taints=taints,
        unschedulable=bool(spec.get("unschedulable")) or is_deleting(obj),
        allocatable={"pods": _MOST_PODS, **room},
    )


def group_key_of(pod: Object) -> GroupKey | None:
    """The PodGroup a Pod says it belongs to: Volcano's by annotation, the scheduler plugins' by label."""
    annotations, labels = annotations_of(pod), labels_of(pod)
    for name in _VOLCANO_GROUP:
        if annotations.get(name):
            return GroupKey("volcano", namespace_of(pod), annotations[name])
    for name in _PLUGIN_GROUP:
        if labels.get(name):
            return GroupKey("plugin", namespace_of(pod), labels[name])
    return None


def queue_named_by(annotations: Mapping[str, str]) -> str:
    return annotations.get(_QUEUE) or DEFAULT_QUEUE


def created_at(obj: Object) -> float:
    written = meta(obj).get("creationTimestamp")
    return parse_time(written).timestamp() if written else 0.0


def _told(status: Mapping[str, Any]) -> str:
    """What an earlier scheduler has told the Pod."""
    found = get_condition(status.get("conditions"), "PodScheduled")
    if found is None or found.get("reason") != "Unschedulable":
        return ""
    return found.get("message") or ""


class Priorities:
    """What a PriorityClass name is worth. Nothing is ever evicted for a higher priority, whatever preemptionPolicy
    says: a higher priority means to be served first, and to wait until something ends."""

    def __init__(self, classes: Iterable[Object] = ()) -> None:
        self._values: dict[str, int] = dict(_SYSTEM_CLASSES)
        self._default = 0
        for obj in classes:
            value = int(obj.get("value") or 0)
            self._values[name_of(obj)] = value
            if obj.get("globalDefault"):
                self._default = value

    def of(self, number: int | None, name: str) -> int:
        if number is not None:
            return number
        return self._values.get(name, 0) if name else self._default

    def knows(self, name: str) -> bool:
        return not name or name in self._values
