"""Rules of a Pod about other Pods: required pod affinity and anti-affinity, and topology spread."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from muster.kube.selectors import LabelSelector, Requirement, compile_requirements, label_selector_from

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
