"""The nodes and what is free on them, kept up to date Pod by Pod; and whether a node fits a Pod, and how well.

Nodes are grouped by *class* (the labels that any Pod asks about, taints, size) and, within it, by *shape* (what is
free, and which host ports are taken). Nodes of one shape are interchangeable, so a decision costs as much as there are
shapes, not nodes: ten thousand equal machines with a few kinds of Pods on them have a few dozen shapes.

What depends only on labels and taints is decided once per profile and class (`judge_node`). The rest, free capacity and
ports, changes with every placement (`lacking_resources`, `ports_clash`, `score_node`).

The best node has the fewest PreferNoSchedule taints that the Pod does not tolerate, then the highest weight of
preferred node affinity, then it is the fullest. Filling nodes up leaves room in one piece, which a gang needs: a Pod
without GPUs goes where the fewest of them are idle, a Pod with GPUs goes where it leaves the fewest, and then cpu and
memory are packed the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from operator import add, sub
from typing import NamedTuple, TypeAlias

from muster.embedded.scheduler import reasons
from muster.embedded.scheduler.model import HostPort, NodeSpec, Pod, Profile, Taint
from muster.embedded.scheduler.pod_affinity import Topology
from muster.kube.quantity import Amounts

Vector: TypeAlias = tuple[int, ...]
"""Amounts of resources, in the order of the cache's axes."""

Score: TypeAlias = tuple[int, int, int, int, int]
"""A smaller score is better."""

AXES = ("pods", "cpu", "memory", "ephemeral-storage")
"""The resources that every node has. Extended resources follow."""

_PACKED = (1, 2)
_FIRST_EXTENDED = len(AXES)
_SCALE = 1_000_000
_UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


class NodeVerdict(NamedTuple):
    """Whether the labels and taints of a node allow a Pod. `reason` is '' if they do."""

    reason: str
    avoided_taints: int = 0
    preference: int = 0


def judge_node(
    profile: Profile, labels: Mapping[str, str], taints: Iterable[Taint], unschedulable: bool
) -> NodeVerdict:
    """Applies the filters in the order of Kubernetes. The first one that fails gives the reason."""
    if unschedulable and not profile.tolerates(_UNSCHEDULABLE):
        return NodeVerdict(reasons.UNSCHEDULABLE)
    avoided_taints = 0
    for taint in taints:
        if profile.tolerates(taint):
            continue
        if taint.effect in ("NoSchedule", "NoExecute"):
            return NodeVerdict(reasons.untolerated(taint.key, taint.value))
        avoided_taints += 1
    if not profile.selects(labels):
        return NodeVerdict(reasons.AFFINITY)
    return NodeVerdict("", avoided_taints, sum(weight for weight, term in profile.preferred if term.matches(labels)))


def fits(demand: Vector, free: Vector) -> bool:
    """Whether the demand fits. A resource that is not requested always fits, even on an overcommitted node."""
    return all(wanted <= left or not wanted for wanted, left in zip(demand, free, strict=True))


def lacking_resources(demand: Vector, free: Vector, axes: Sequence[str]) -> list[str]:
    return [axis for axis, wanted, left in zip(axes, demand, free, strict=True) if wanted > left and wanted]


def ports_clash(wanted: Iterable[HostPort], taken: Iterable[HostPort]) -> bool:
    """Whether a port is wanted and taken: same port and protocol, and the same address or all addresses."""
    for ours in wanted:
        for theirs in taken:
            if (
                ours.port == theirs.port
                and ours.protocol == theirs.protocol
                and (ours.address == theirs.address or not ours.address or not theirs.address)
            ):
                return True
    return False


def score_node(verdict: NodeVerdict, demand: Vector, free: Vector, allocatable: Vector) -> Score:
    idle = left = rest = 0
    for axis in range(_FIRST_EXTENDED, len(demand)):
        if not allocatable[axis]:
            continue
        if demand[axis]:
            left += (free[axis] - demand[axis]) * _SCALE // allocatable[axis]
        elif free[axis] > 0:
            idle += free[axis] * _SCALE // allocatable[axis]
    for axis in _PACKED:
        if allocatable[axis]:
            rest += (free[axis] - demand[axis]) * _SCALE // allocatable[axis]
    return (verdict.avoided_taints, -verdict.preference, idle, left, rest)


Ports: TypeAlias = frozenset[HostPort]
_NO_PORTS: Ports = frozenset()


def axes_of(vector: Vector) -> int:
    """Returns a bit mask of the axes with an amount above 0."""
    return sum(1 << axis for axis, amount in enumerate(vector) if amount > 0)


class NodeClass:
    """Nodes that are equal to every profile in labels and taints."""

    __slots__ = ("allocatable", "labels", "number", "taints", "unschedulable", "verdicts")

    def __init__(
        self, number: int, labels: Mapping[str, str], taints: tuple[Taint, ...], unschedulable: bool, size: Vector
    ) -> None:
        self.number = number
        self.labels = labels
        self.taints = taints
        self.unschedulable = unschedulable
        self.allocatable = size
        self.verdicts: dict[Profile, NodeVerdict] = {}

    def verdict(self, profile: Profile) -> NodeVerdict:
        found = self.verdicts.get(profile)
        if found is None:
            found = self.verdicts[profile] = judge_node(profile, self.labels, self.taints, self.unschedulable)
        return found


class Shape:
    """Nodes of one class with the same free amounts and host ports."""

    __slots__ = ("after", "free", "left", "node_class", "nodes", "number", "ports")

    def __init__(self, number: int, node_class: NodeClass, free: Vector, ports: Ports) -> None:
        self.number = number
        self.node_class = node_class
        self.free = free
        self.left = axes_of(free)
        self.ports = ports
        self.nodes: dict[NodeInfo, None] = {}
        self.after: dict[Profile, Shape] = {}
        """The shape that a node has after a Pod of that profile is placed on it."""


class NodeInfo:
    __slots__ = ("blocks", "name", "pods", "ports", "shape", "spec")

    def __init__(self, spec: NodeSpec) -> None:
        self.name = spec.name
        self.spec = spec
        self.pods: dict[str, Pod] = {}
        self.ports: Counter[HostPort] = Counter()
        self.blocks: dict[Hashable, Amounts] = {}
        """Capacity that is kept for an owner."""
        self.shape: Shape

    @property
    def free(self) -> Vector:
        return self.shape.free


class NodeCache:
    def __init__(self) -> None:
        self.axes: tuple[str, ...] = AXES
        self.nodes: dict[str, NodeInfo] = {}
        self.total: Amounts = {}
        self.size_epoch = 0
        """Changes when a node is added, removed or changed: what was impossible may be possible now."""
        self.epoch = 0
        """Changes when `log` starts again from the beginning."""
        self.shapes: dict[Shape, None] = {}
        """The shapes that have nodes."""
        self.shapes_by_left: dict[int, dict[Shape, None]] = {}
        """The same, by the axes with something left: a Pod with GPUs does not have to look at nodes without free
        ones."""
        self.log: list[Shape] = []
        """Shapes that got their first node, in order. A shape may be in it more than once."""
        self.blocked: dict[NodeInfo, None] = {}
        """The nodes with capacity that is kept for an owner."""
        self.topology = Topology(self._placed_pods)
        self._label_keys: frozenset[str] = frozenset()
        self._classes: dict[Hashable, NodeClass] = {}
        self._shapes: dict[tuple[int, Vector, Ports], Shape] = {}
        self._demands: dict[Profile, Vector] = {}
        self._pods_without_node: dict[str, dict[str, Pod]] = {}
        self._sequence = count(1)

    def put_node(self, spec: NodeSpec) -> bool:
        """Adds or updates a node. Returns False if nothing relevant has changed, as with a heartbeat."""
        node = self.nodes.get(spec.name)
        if node is not None and node.spec == spec:
            return False
        self.size_epoch += 1
        new_axes = sorted(set(spec.allocatable) - set(self.axes))
        if node is None:
            node = self.nodes[spec.name] = NodeInfo(spec)
            for pod in self._pods_without_node.pop(spec.name, {}).values():
                self._admit(node, pod)
        else:
            self._detach(node)
            self._count_in(node.spec.allocatable, -1)
            for pod in node.pods.values():
                self.topology.remove_pod(pod, node.spec)
                self.topology.add_pod(pod, spec)
            node.spec = spec
        if new_axes:
            self.axes = (*self.axes, *new_axes)
            self._reshape()
        else:
            self._attach(node, self._shape_of(node))
        self._count_in(spec.allocatable, +1)
        return True

    def drop_node(self, name: str) -> bool:
        node = self.nodes.pop(name, None)
        if node is None:
            return False
        self.size_epoch += 1
        self._detach(node)
        self.blocked.pop(node, None)
        for pod in node.pods.values():
            self.topology.remove_pod(pod, node.spec)
        if node.pods:
            self._pods_without_node[name] = dict(node.pods)
        self._count_in(node.spec.allocatable, -1)
        return True

    def demand(self, profile: Profile) -> Vector:
        """Returns the requests of a profile as a vector. Resources that no node has are in `unknown_resources` only."""
        found = self._demands.get(profile)
        if found is None:
            found = self._demands[profile] = self.vector(profile.requests)
        return found

    def vector(self, amounts: Mapping[str, int]) -> Vector:
        return tuple(amounts.get(axis, 0) for axis in self.axes)

    def unknown_resources(self, profile: Profile) -> list[str]:
        return [name for name in profile.requests if name not in self.axes]

    def learn(self, profile: Profile) -> None:
        """Groups the nodes by the labels that this profile asks about. Call it before placing the profile."""
        if not profile.label_keys <= self._label_keys:
            self._label_keys |= profile.label_keys
            self._reshape()

    def assign(self, pod: Pod, node_name: str) -> None:
        """Counts a Pod on its node, or, if the node is not known yet, as soon as it is."""
        node = self.nodes.get(node_name)
        if node is None:
            self._pods_without_node.setdefault(node_name, {})[pod.uid] = pod
            return
        shape = node.shape
        after = shape.after.get(pod.profile)
        self._admit(node, pod)
        if after is None:
            free = tuple(map(sub, shape.free, self.demand(pod.profile)))
            after = self._shape(shape.node_class, free, frozenset(node.ports) if node.ports else _NO_PORTS)
            if not pod.profile.host_ports:
                shape.after[pod.profile] = after
        self._move(node, after)

    def release(self, pod: Pod, node_name: str) -> None:
        node = self.nodes.get(node_name)
        if node is None or pod.uid not in node.pods:
            waiting_pods = self._pods_without_node.get(node_name, {})
            waiting_pods.pop(pod.uid, None)
            if not waiting_pods:
                self._pods_without_node.pop(node_name, None)
            return
        del node.pods[pod.uid]
        self.topology.remove_pod(pod, node.spec)
        for port in pod.profile.host_ports:
            node.ports[port] -= 1
            if not node.ports[port]:
                del node.ports[port]
        free = tuple(map(add, node.shape.free, self.demand(pod.profile)))
        self._move(node, self._shape(node.shape.node_class, free, frozenset(node.ports) if node.ports else _NO_PORTS))

    def block(self, owner: Hashable, kept: Mapping[str, Amounts]) -> None:
        """Keeps capacity on nodes for `owner` until `unblock`. It may be more than is free now."""
        for name, amounts in kept.items():
            node = self.nodes.get(name)
            if node is not None:
                node.blocks[owner] = amounts
                self.blocked[node] = None
                self._update_shape(node)

    def unblock(self, owner: Hashable, names: Iterable[str]) -> None:
        for name in names:
            node = self.nodes.get(name)
            if node is not None and node.blocks.pop(owner, None) is not None:
                if not node.blocks:
                    del self.blocked[node]
                self._update_shape(node)

    def free_total(self) -> Amounts:
        """Returns what is free on all schedulable nodes."""
        total = [0] * len(self.axes)
        for shape in self.shapes:
            if not shape.node_class.unschedulable:
                for axis, free in enumerate(shape.free):
                    if free > 0:
                        total[axis] += free * len(shape.nodes)
        return dict(zip(self.axes, total, strict=True))

    def all_specs(self) -> Iterator[NodeSpec]:
        return (node.spec for node in self.nodes.values())

    def _placed_pods(self) -> Iterator[tuple[Pod, NodeSpec]]:
        return ((pod, node.spec) for node in self.nodes.values() for pod in node.pods.values())

    def _admit(self, node: NodeInfo, pod: Pod) -> None:
        node.pods[pod.uid] = pod
        for port in pod.profile.host_ports:
            node.ports[port] += 1
        self.topology.add_pod(pod, node.spec)

    def _count_in(self, allocatable: Amounts, sign: int) -> None:
        for name, amount in allocatable.items():
            self.total[name] = self.total.get(name, 0) + sign * amount

    def _reshape(self) -> None:
        """Groups all nodes again, after a change of what classes depend on."""
        self._demands.clear()
        self._classes.clear()
        self._shapes.clear()
        self.shapes.clear()
        self.shapes_by_left.clear()
        self._restart_log()
        for node in self.nodes.values():
            self._attach(node, self._shape_of(node))

    def _restart_log(self) -> None:
        self.epoch += 1
        self.log = []

    def _shape_of(self, node: NodeInfo) -> Shape:
        node_class = self._class_of(node.spec)
        used = [0] * len(self.axes)
        taken = [self.demand(pod.profile) for pod in node.pods.values()]
        taken += [self.vector(kept) for kept in node.blocks.values()]
        for vector in taken:
            for axis, amount in enumerate(vector):
                used[axis] += amount
        free = tuple(map(sub, node_class.allocatable, used))
        return self._shape(node_class, free, frozenset(node.ports) if node.ports else _NO_PORTS)

    def _class_of(self, spec: NodeSpec) -> NodeClass:
        labels = {key: spec.labels[key] for key in sorted(self._label_keys) if key in spec.labels}
        size = self.vector(spec.allocatable)
        key = (tuple(labels.items()), spec.taints, spec.unschedulable, size)
        found = self._classes.get(key)
        if found is None:
            number = next(self._sequence)
            found = self._classes[key] = NodeClass(number, labels, spec.taints, spec.unschedulable, size)
        return found

    def _shape(self, node_class: NodeClass, free: Vector, ports: Ports) -> Shape:
        key = (node_class.number, free, ports)
        found = self._shapes.get(key)
        if found is None:
            found = self._shapes[key] = Shape(next(self._sequence), node_class, free, ports)
        return found

    def _move(self, node: NodeInfo, shape: Shape) -> None:
        self._detach(node)
        self._attach(node, shape)

    def _update_shape(self, node: NodeInfo) -> None:
        self._move(node, self._shape_of(node))

    def _detach(self, node: NodeInfo) -> None:
        nodes = node.shape.nodes
        del nodes[node]
        if not nodes:
            del self.shapes[node.shape]
            del self.shapes_by_left[node.shape.left][node.shape]

    def _attach(self, node: NodeInfo, shape: Shape) -> None:
        node.shape = shape
        if shape.nodes:
            shape.nodes[node] = None
            return
        shape.nodes[node] = None
        self.shapes[shape] = None
        self.shapes_by_left.setdefault(shape.left, {})[shape] = None
        self.log.append(shape)
        if len(self.log) > 4096 + 4 * len(self.nodes):
            self._tidy()

    def _tidy(self) -> None:
        """Drops shapes without nodes, and restarts the log with the others."""
        self._shapes = {key: shape for key, shape in self._shapes.items() if shape.nodes}
        for shape in self._shapes.values():
            shape.after.clear()
        self._restart_log()
        self.log.extend(self._shapes.values())
