"""Counts Pods per topology domain (value of a node label), for pod affinity, anti-affinity and topology spread.

Terms are added when the first Pod with them appears. A cluster without such rules pays nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from muster.embedded.scheduler import reasons
from muster.embedded.scheduler.model import NodeSpec, Pod, Profile
from muster.embedded.scheduler.pod_affinity import PodTerm, Spread

NodeCheck = Callable[[NodeSpec], str]
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
