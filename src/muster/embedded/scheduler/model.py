"""Pods, nodes and priorities as the scheduler sees them, read once from their objects.

Pods that are equal to a scheduler (requests, selector, affinity, tolerations, ports) share a `Profile`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from itertools import count
from typing import Any, Literal, NamedTuple, TypeAlias

import orjson

from muster.embedded.scheduler.pod_affinity import (
    NO_RULES,
    PodAffinityRules,
    Unsupported,
    has_pod_affinity,
    read_pod_affinity,
)
from muster.kube.errors import BadRequest
from muster.kube.objects import (
    Key,
    Object,
    annotations_of,
    get_condition,
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
from muster.kube.quantity import Amounts, QuantityError, parse_amounts, pod_requests
from muster.kube.selectors import LabelSelector, Requirement, compile_expressions, compile_requirements

# Settings of the scheduler.


SCHEDULER_NAMES = frozenset({"", "default-scheduler", "volcano", "scheduler-plugins", "scheduler-plugins-scheduler"})


@dataclass(frozen=True)
class SchedulerSettings:
    """All times are in seconds."""

    reserve_after_seconds: float = 30.0
    """How long smaller jobs may overtake a waiting gang. After that, capacity is kept free for it."""

    hold_seconds: float = 30.0
    """How long capacity is held for the Pods of an admitted PodGroup. After a hold has expired, the group waits as long
    until it is admitted again, and twice as long each time after that."""

    report_again_seconds: float = 10.0
    """The minimum time between two reports of a changed reason to a waiting Pod."""

    patience_seconds: float = 2.0
    """How long a gang may be incomplete before this is reported: its Pods are created one after another."""

    queue_status_seconds: float = 1.0
    """The minimum time between two writes of a Queue's counts."""

    pods_per_cycle: int = 1000
    """How many Pods are placed before the rest of the process gets the event loop."""

    scheduler_names: frozenset[str] = SCHEDULER_NAMES
    """The values of schedulerName that this scheduler handles."""


NODE_NAME = "\0metadata.name"
"""The label that stands for a node's name, for matchFields."""

_CACHE_SIZE = 8192


class Taint(NamedTuple):
    key: str
    value: str
    effect: str


class Toleration(NamedTuple):
    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        return bool(self.key) and self.value == taint.value


class NodeTerm(NamedTuple):
    """A node selector term: both parts must match. `names` are pairs: whether the name must be in the set, and the
    set."""

    labels: LabelSelector
    names: tuple[tuple[bool, frozenset[str]], ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        for wanted, names in self.names:
            if (labels.get(NODE_NAME) in names) is not wanted:
                return False
        return self.labels.matches(labels)


class HostPort(NamedTuple):
    """An address of '' means all addresses."""

    protocol: str
    port: int
    address: str


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """What of a Pod matters to the scheduler. Expensive work is done once per profile instead of once per Pod.

    Compared and hashed by identity: equal Pods get the same object from a `ProfileBook`."""

    number: int
    requests: Amounts = field(default_factory=lambda: {"pods": 1})
    selector: LabelSelector | None = None
    required: tuple[NodeTerm, ...] | None = None
    """One of these must match; None means no restriction."""
    preferred: tuple[tuple[int, NodeTerm], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    host_ports: frozenset[HostPort] = frozenset()
    pod_affinity: PodAffinityRules = NO_RULES
    label_keys: frozenset[str] = frozenset()
    """The node labels that the profile depends on."""
    constraints: bytes = b""
    """Everything except the requests: profiles with equal constraints differ only in their requests."""
    refusal: str = ""
    """Why such Pods can never be placed: a rule is malformed or not supported."""

    def tolerates(self, taint: Taint) -> bool:
        return any(t.tolerates(taint) for t in self.tolerations)

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether nodeSelector and required node affinity allow a node with these labels."""
        if self.selector is not None and not self.selector.matches(labels):
            return False
        return self.required is None or any(term.matches(labels) for term in self.required)


class ProfileBook:
    """Returns the profile of a Pod. If a profile is dropped from the cache, later equal Pods get a new one."""

    def __init__(self) -> None:
        self._known: dict[bytes, Profile] = {}
        self._sequence = count(1)

    def of(self, pod: Object) -> Profile:
        spec = spec_of(pod)
        equivalence = _equivalence(pod, spec)
        known = self._known.get(equivalence)
        if known is None:
            if len(self._known) >= _CACHE_SIZE:
                self._known.clear()
            known = self._known[equivalence] = _read_profile(next(self._sequence), pod, spec)
        return known


def _equivalence(pod: Object, spec: Mapping[str, Any]) -> bytes:
    host = spec.get("hostNetwork")
    parts: list[Any] = [
        [(c.get("resources"), _host_ports(c, host)) for c in spec.get("containers") or ()],
        [
            (c.get("resources"), c.get("restartPolicy"), _host_ports(c, host))
            for c in spec.get("initContainers") or ()
        ],
        spec.get("nodeSelector"), spec.get("affinity"), spec.get("tolerations"), spec.get("overhead"),
        spec.get("resources"), spec.get("topologySpreadConstraints"),
    ]  # fmt: skip
    if has_pod_affinity(spec):
        parts += [namespace_of(pod), labels_of(pod)]
    return orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)


def _constraints(spec: Mapping[str, Any], host_network: Any) -> bytes:
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    ports = [port for container in containers for port in _host_ports(container, host_network)]
    parts = [spec.get("nodeSelector"), spec.get("affinity"), spec.get("tolerations"), ports]
    return orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)


def _read_profile(number: int, pod: Object, spec: Mapping[str, Any]) -> Profile:
    try:
        selector = compile_requirements(
            Requirement(str(k), "In", (str(v),)) for k, v in (spec.get("nodeSelector") or {}).items()
        )
        affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
        required = _required(affinity)
        preferred = _preferred(affinity)
        terms = [*(required or ()), *(term for _, term in preferred)]
        keys = {r.key for s in (selector, *(t.labels for t in terms)) for r in s.requirements}
        host = spec.get("hostNetwork")
        return Profile(
            number=number,
            requests=pod_requests(spec),
            selector=selector if selector else None,
            required=required,
            preferred=preferred,
            tolerations=tuple(_toleration(t) for t in spec.get("tolerations") or ()),
            host_ports=frozenset(
                HostPort(*found)
                for c in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
                for found in _host_ports(c, host)
            ),
            pod_affinity=read_pod_affinity(spec, namespace_of(pod), labels_of(pod)),
            constraints=_constraints(spec, host),
            label_keys=frozenset(keys | {NODE_NAME} if any(t.names for t in terms) else keys),
        )
    except (BadRequest, QuantityError, Unsupported) as error:
        return Profile(number=number, refusal=str(error))


def _host_ports(container: Mapping[str, Any], host_network: Any) -> list[tuple[str, int, str]]:
    """Returns the host ports of a container. With hostNetwork, every container port is a host port."""
    found = []
    for port in container.get("ports") or ():
        number = port.get("hostPort") or (port.get("containerPort") if host_network else 0)
        if number:
            found.append((port.get("protocol") or "TCP", int(number), _address(port.get("hostIP") or "")))
    return found


def _address(text: str) -> str:
    try:
        return "" if not text or ip_address(text).is_unspecified else text
    except ValueError:
        return text


def _required(affinity: Mapping[str, Any]) -> tuple[NodeTerm, ...] | None:
    rules = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if rules is None:
        return None
    return tuple(_node_term(t) for t in rules.get("nodeSelectorTerms") or () if not _is_empty(t))


def _preferred(affinity: Mapping[str, Any]) -> tuple[tuple[int, NodeTerm], ...]:
    return tuple(
        (int(rule.get("weight") or 0), _node_term(rule.get("preference") or {}))
        for rule in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        if rule.get("weight") and not _is_empty(rule.get("preference") or {})
    )


def _is_empty(term: Mapping[str, Any]) -> bool:
    """An empty term matches no node, as in Kubernetes."""
    return not term.get("matchExpressions") and not term.get("matchFields")


def _node_term(term: Mapping[str, Any]) -> NodeTerm:
    names = []
    for rule in term.get("matchFields") or ():
        key, operator = rule.get("key"), rule.get("operator")
        if key != "metadata.name" or operator not in ("In", "NotIn"):
            raise Unsupported(f'matchFields: "{key}" {operator}: only metadata.name with In or NotIn is supported')
        names.append((operator == "In", frozenset(str(v) for v in rule.get("values") or ())))
    return NodeTerm(compile_expressions(term.get("matchExpressions") or ()), tuple(names))


def _toleration(toleration: Mapping[str, Any]) -> Toleration:
    return Toleration(
        toleration.get("key") or "",
        toleration.get("operator") or "Equal",
        toleration.get("value") or "",
        toleration.get("effect") or "",
    )


DEFAULT_QUEUE = "default"

Flavour: TypeAlias = Literal["volcano", "plugin"]

FINISHED_PHASES = ("Succeeded", "Failed")
_VOLCANO_GROUP = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
_PLUGIN_GROUP = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io")
_QUEUE = "scheduling.volcano.sh/queue-name"
_TASK = "volcano.sh/task-spec"
_MOST_PODS = 110
_SYSTEM_CLASSES = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}


class GroupKey(NamedTuple):
    """Identifies a PodGroup. The two flavours are different kinds, so their names may be equal."""

    flavour: Flavour
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(slots=True, eq=False)
class Pod:
    """A Pod. `node` is where it runs, or where it is being bound to (then `assumed` is set)."""

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
    """The queue whose usage includes it."""
    last_reason: str = ""
    """The last reason that was reported for waiting."""
    reported_at: float = 0.0
    noticed: tuple[str, ...] = ()
    """The reasons of notices that were reported once."""

    @property
    def finished(self) -> bool:
        return self.phase in FINISHED_PHASES

    @property
    def occupies(self) -> bool:
        """Whether it uses resources of a node: from binding to its end, also while it is being deleted."""
        return bool(self.node) and not self.finished

    @property
    def waits(self) -> bool:
        """Whether it has to be placed."""
        return not self.node and not self.deleting and not self.gated and not self.finished


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """`labels` include the name, as NODE_NAME, so that node selectors only look at labels."""

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
        queue=read_queue_name(annotations),
        scheduler=spec.get("schedulerName") or "",
        node=spec.get("nodeName") or "",
        phase=status.get("phase") or "Pending",
        deleting=is_deleting(obj),
        gated=bool(spec.get("schedulingGates")),
        last_reason=_last_reason(status) if not spec.get("nodeName") else "",
    )


def read_node(obj: Object) -> NodeSpec:
    """A node that is not ready or is being deleted takes no new Pods. The default number of Pods is 110."""
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
    room = parse_amounts(status.get("allocatable") or status.get("capacity") or {})
    return NodeSpec(
        name=name_of(obj),
        labels={**labels_of(obj), NODE_NAME: name_of(obj)},
        taints=taints,
        unschedulable=bool(spec.get("unschedulable")) or is_deleting(obj),
        allocatable={"pods": _MOST_PODS, **room},
    )


def group_key_of(pod: Object) -> GroupKey | None:
    """Returns the PodGroup of a Pod: Volcano uses an annotation, scheduler-plugins a label."""
    annotations, labels = annotations_of(pod), labels_of(pod)
    for name in _VOLCANO_GROUP:
        if annotations.get(name):
            return GroupKey("volcano", namespace_of(pod), annotations[name])
    for name in _PLUGIN_GROUP:
        if labels.get(name):
            return GroupKey("plugin", namespace_of(pod), labels[name])
    return None


def read_queue_name(annotations: Mapping[str, str]) -> str:
    return annotations.get(_QUEUE) or DEFAULT_QUEUE


def created_at(obj: Object) -> float:
    written = meta(obj).get("creationTimestamp")
    return parse_time(written).timestamp() if written else 0.0


def _last_reason(status: Mapping[str, Any]) -> str:
    """Returns the reason that an earlier scheduler wrote to the Pod."""
    found = get_condition(status.get("conditions"), "PodScheduled")
    if found is None or found.get("reason") != "Unschedulable":
        return ""
    return found.get("message") or ""


class Priorities:
    """The values of PriorityClasses. A higher priority is placed first, but never evicts a running Pod, whatever its
    preemptionPolicy."""

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

    def is_known(self, name: str) -> bool:
        return not name or name in self._values
