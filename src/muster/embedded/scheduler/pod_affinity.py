"""Rules of a Pod about other Pods (required pod affinity and anti-affinity, topology spread), and the Pods per topology
domain (value of a node label) that they are checked against.

Terms are counted from the first Pod with them on. A cluster without such rules pays nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from muster.embedded.scheduler import reasons
from muster.kube.selectors import LabelSelector, Requirement, compile_requirements, label_selector_from

if TYPE_CHECKING:
    from muster.embedded.scheduler.model import NodeSpec, Pod, Profile

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class Unsupported(Exception):
    """A rule that the scheduler does not support. The message names the field. The Pod is not placed."""


@dataclass(frozen=True, slots=True, eq=False)
class PodTerm:
    """Selects Pods by namespace and labels, to be counted per value of a node label. Equal terms have equal
    identities."""

    identity: Hashable
    namespaces: frozenset[str] | None
    """None means all namespaces."""
    selector: LabelSelector | None
    """None matches no Pod."""
    topology_key: str

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        if self.selector is None or (self.namespaces is not None and namespace not in self.namespaces):
            return False
        return self.selector.matches(labels)

    @property
    def label_keys(self) -> frozenset[str]:
        return frozenset(r.key for r in self.selector.requirements) if self.selector is not None else frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """At most `max_skew` more matching Pods in one topology domain than in the domain with the fewest."""

    term: PodTerm
    max_skew: int
    min_domains: int
    honor_affinity: bool
    honor_taints: bool


@dataclass(frozen=True, slots=True, eq=False)
class PodAffinityRules:
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    spread: tuple[Spread, ...] = ()
    ignored: tuple[str, ...] = ()
    """Fields with preferences, which are ignored."""

    def __bool__(self) -> bool:
        return bool(self.affinity or self.anti_affinity or self.spread)

    @property
    def terms(self) -> tuple[PodTerm, ...]:
        return (*self.affinity, *self.anti_affinity, *(s.term for s in self.spread))


NO_RULES = PodAffinityRules()


def has_pod_affinity(spec: Mapping[str, Any]) -> bool:
    if spec.get("topologySpreadConstraints"):
        return True
    affinity = spec.get("affinity") or {}
    return bool(affinity.get("podAffinity") or affinity.get("podAntiAffinity"))


def read_pod_affinity(spec: Mapping[str, Any], namespace: str, labels: Mapping[str, str]) -> PodAffinityRules:
    """Reads the rules of a Pod. Raises Unsupported. `labels` are those of the Pod, for matchLabelKeys."""
    if not has_pod_affinity(spec):
        return NO_RULES
    ignored: list[str] = []
    sides: dict[str, tuple[PodTerm, ...]] = {}
    for side in ("podAffinity", "podAntiAffinity"):
        rules = (spec.get("affinity") or {}).get(side) or {}
        sides[side] = tuple(
            _pod_term(term, f"spec.affinity.{side}.{_REQUIRED}[{number}]", namespace, labels)
            for number, term in enumerate(rules.get(_REQUIRED) or ())
        )
        if rules.get(_PREFERRED):
            ignored.append(f"spec.affinity.{side}.{_PREFERRED}")
    spread = []
    for number, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        where = f"spec.topologySpreadConstraints[{number}]"
        if constraint.get("whenUnsatisfiable") == "ScheduleAnyway":
            ignored.append(where)
            continue
        spread.append(_spread(constraint, where, namespace, labels))
    return PodAffinityRules(sides["podAffinity"], sides["podAntiAffinity"], tuple(spread), tuple(ignored))


def _pod_term(term: Mapping[str, Any], where: str, namespace: str, labels: Mapping[str, str]) -> PodTerm:
    chosen = term.get("namespaceSelector")
    if chosen:
        raise Unsupported(
            f"{where}.namespaceSelector: this cluster selects namespaces by name only; list them in {where}.namespaces"
        )
    named = term.get("namespaces") or ()
    namespaces = None if chosen is not None else frozenset(named) or frozenset({namespace})
    return _term(term, namespaces, labels)


def _term(term: Mapping[str, Any], namespaces: frozenset[str] | None, labels: Mapping[str, str]) -> PodTerm:
    selector = None
    if term.get("labelSelector") is not None:
        own = [
            Requirement(key, operator, (labels[key],))
            for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
            for key in term.get(field) or ()
            if key in labels
        ]
        selector = compile_requirements([*label_selector_from(term["labelSelector"]).requirements, *own])
    key = str(term.get("topologyKey") or "")
    identity = (key, namespaces, frozenset(selector.requirements) if selector is not None else None)
    return PodTerm(identity, namespaces, selector, key)


def _spread(constraint: Mapping[str, Any], where: str, namespace: str, labels: Mapping[str, str]) -> Spread:
    unknown = constraint.get("whenUnsatisfiable")
    if unknown not in (None, "DoNotSchedule"):
        raise Unsupported(f'{where}.whenUnsatisfiable: "{unknown}" is not DoNotSchedule or ScheduleAnyway')
    return Spread(
        term=_term(constraint, frozenset({namespace}), labels),
        max_skew=int(constraint.get("maxSkew") or 1),
        min_domains=int(constraint.get("minDomains") or 1),
        honor_affinity=constraint.get("nodeAffinityPolicy", "Honor") == "Honor",
        honor_taints=constraint.get("nodeTaintsPolicy", "Ignore") == "Honor",
    )


NodeCheck: TypeAlias = "Callable[[NodeSpec], str]"
"""Returns why a node does not fit, or '' if it does."""


@dataclass(slots=True)
class _Tally:
    """Where the Pods that match one term are, and where Pods are that have this term as anti-affinity."""

    term: PodTerm
    per_node: Counter[str] = field(default_factory=Counter)
    per_value: Counter[str] = field(default_factory=Counter)
    repelled: Counter[str] = field(default_factory=Counter)


class Topology:
    """`placed_pods` returns all Pods that have a node, with the node."""

    def __init__(self, placed_pods: Callable[[], Iterable[tuple[Pod, NodeSpec]]]) -> None:
        self._placed_pods = placed_pods
        self._tallies: dict[Hashable, _Tally] = {}
        self._label_keys: tuple[str, ...] = ()

    @property
    def is_idle(self) -> bool:
        """Whether no Pod has had a rule yet."""
        return not self._tallies

    def learn(self, profile: Profile) -> bool:
        """Adds the terms of a profile. Returns True if Pods that were equal before may differ now."""
        new = [t for t in profile.pod_affinity.terms if t.identity not in self._tallies]
        for term in new:
            tally = self._tallies[term.identity] = _Tally(term)
            for pod, node in self._placed_pods():
                _count(tally, pod, node, +1)
        if not new:
            return False
        keys = {key for tally in self._tallies.values() for key in tally.term.label_keys}
        self._label_keys = tuple(sorted(keys))
        return True

    def label_view(self, pod: Pod) -> Hashable:
        """Returns what of a Pod matters to the rules of other Pods. Pods with equal views are treated the same."""
        if not self._tallies:
            return None
        return (pod.key.namespace, *(pod.labels.get(key) for key in self._label_keys))

    def add_pod(self, pod: Pod, node: NodeSpec) -> None:
        for tally in self._tallies.values():
            _count(tally, pod, node, +1)

    def remove_pod(self, pod: Pod, node: NodeSpec) -> None:
        for tally in self._tallies.values():
            _count(tally, pod, node, -1)

    def check_for(self, pod: Pod, nodes: Callable[[], Iterable[NodeSpec]]) -> NodeCheck | None:
        """Returns a check of nodes for this Pod, or None if no rule applies to it."""
        if not self._tallies:
            return None
        pod_affinity = pod.profile.pod_affinity
        hostile = [t for t in self._tallies.values() if t.repelled and t.term.matches(pod.key.namespace, pod.labels)]
        if not pod_affinity and not hostile:
            return None
        spreads = _spread_rules(self._tallies, pod, nodes()) if pod_affinity.spread else []
        affinity = [self._tallies[t.identity] for t in pod_affinity.affinity]
        anti = [self._tallies[t.identity] for t in pod_affinity.anti_affinity]
        companions = self._companions(pod, affinity)
        alone = bool(affinity) and not any(companions.values())
        first = alone and all(t.term.matches(pod.key.namespace, pod.labels) for t in affinity)

        def check(node: NodeSpec) -> str:
            for rule in spreads:
                refused = rule(node)
                if refused:
                    return refused
            for tally in affinity:
                value = node.labels.get(tally.term.topology_key)
                if value is None or not (first or companions[tally.term.topology_key, value]):
                    return reasons.POD_AFFINITY
            for tally in anti:
                value = node.labels.get(tally.term.topology_key)
                if value is not None and tally.per_value[value]:
                    return reasons.POD_ANTI_AFFINITY
            for tally in hostile:
                value = node.labels.get(tally.term.topology_key)
                if value is not None and tally.repelled[value]:
                    return reasons.EXISTING_ANTI_AFFINITY
            return ""

        return check

    def _companions(self, pod: Pod, affinity: list[_Tally]) -> Counter[tuple[str, str]]:
        """Returns, per key and value, the number of Pods that match all affinity terms."""
        found: Counter[tuple[str, str]] = Counter()
        if len(affinity) == 1:
            tally = affinity[0]
            found.update({(tally.term.topology_key, value): n for value, n in tally.per_value.items() if n})
        elif affinity:
            for other, node in self._placed_pods():
                if all(t.term.matches(other.key.namespace, other.labels) for t in affinity):
                    found.update(
                        (t.term.topology_key, node.labels[t.term.topology_key])
                        for t in affinity
                        if t.term.topology_key in node.labels
                    )
        return found


def _count(tally: _Tally, pod: Pod, node: NodeSpec, step: int) -> None:
    value = node.labels.get(tally.term.topology_key)
    if tally.term.matches(pod.key.namespace, pod.labels):
        tally.per_node[node.name] += step
        if value is not None:
            _step(tally.per_value, value, step)
    if value is not None and any(t.identity == tally.term.identity for t in pod.profile.pod_affinity.anti_affinity):
        _step(tally.repelled, value, step)


def _step(counter: Counter[str], value: str, step: int) -> None:
    counter[value] += step
    if not counter[value]:
        del counter[value]


def _spread_rules(tallies: Mapping[Hashable, _Tally], pod: Pod, nodes: Iterable[NodeSpec]) -> list[NodeCheck]:
    spreads = pod.profile.pod_affinity.spread
    keys = [s.term.topology_key for s in spreads]
    known = [n for n in nodes if all(k in n.labels for k in keys)]
    return [_spread_rule(spread, tallies[spread.term.identity], pod, known) for spread in spreads]


def _spread_rule(spread: Spread, tally: _Tally, pod: Pod, nodes: list[NodeSpec]) -> NodeCheck:
    key = spread.term.topology_key
    found: Counter[str] = Counter()
    for node in nodes:
        if _counts_for(spread, pod.profile, node):
            found[node.labels[key]] += tally.per_node[node.name]
    fewest = 0 if len(found) < spread.min_domains else min(found.values(), default=0)
    itself = int(spread.term.matches(pod.key.namespace, pod.labels))

    def check(node: NodeSpec) -> str:
        value = node.labels.get(key)
        if value is None:
            return reasons.SPREAD_NO_LABEL
        return reasons.SPREAD if found[value] + itself - fewest > spread.max_skew else ""

    return check


def _counts_for(spread: Spread, profile: Profile, node: NodeSpec) -> bool:
    if spread.honor_affinity and not profile.selects(node.labels):
        return False
    return not spread.honor_taints or all(
        profile.tolerates(t) for t in node.taints if t.effect in ("NoSchedule", "NoExecute")
    )
