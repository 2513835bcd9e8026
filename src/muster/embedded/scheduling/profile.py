"""Profiles: Pods that are equal to a scheduler (requests, selector, affinity, tolerations, ports) share one.

Everything expensive is then done once per profile instead of once per Pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from itertools import count
from typing import Any, NamedTuple

import orjson

from muster.embedded.scheduling.neighbours import (
    NO_NEIGHBOURS,
    Neighbours,
    Unsupported,
    has_neighbour_rules,
    neighbours_of,
)
from muster.kube.errors import BadRequest
from muster.kube.objects import Object, labels_of, namespace_of, spec_of
from muster.kube.quantity import QuantityError
from muster.kube.requests import Amounts, effective_requests
from muster.kube.selectors import LabelSelector, Requirement, compile_expressions, compile_requirements

NODE_NAME = "\0metadata.name"
"""Stands among a node's labels for its name, which matchFields selects by."""

_REMEMBERED = 8192


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
    """A node selector term: both parts must match. `names` are (whether the name must be among them, the names)."""

    labels: LabelSelector
    names: tuple[tuple[bool, frozenset[str]], ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        for wanted, names in self.names:
            if (labels.get(NODE_NAME) in names) is not wanted:
                return False
        return self.labels.matches(labels)


class HostPort(NamedTuple):
    """The address is '' for all of them."""

    protocol: str
    port: int
    address: str


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """Compared and hashed by identity: equal Pods get the very same profile from a `ProfileBook`."""

    number: int
    requests: Amounts = field(default_factory=lambda: {"pods": 1})
    selector: LabelSelector | None = None
    required: tuple[NodeTerm, ...] | None = None
    """One of these must match; None means no restriction."""
    preferred: tuple[tuple[int, NodeTerm], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    host_ports: frozenset[HostPort] = frozenset()
    neighbours: Neighbours = NO_NEIGHBOURS
    label_keys: frozenset[str] = frozenset()
    """The node labels on which the answer depends."""
    constraints: bytes = b""
    """All but the requests: two profiles that share it differ only in how much they ask for."""
    refusal: str = ""
    """Why Pods like this can never be placed: a rule that is malformed or not supported."""

    def tolerates(self, taint: Taint) -> bool:
        return any(t.tolerates(taint) for t in self.tolerations)

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether nodeSelector and required node affinity allow a node with these labels."""
        if self.selector is not None and not self.selector.matches(labels):
            return False
        return self.required is None or any(term.matches(labels) for term in self.required)


class ProfileBook:
    """Hands out profiles. Forgetting one only means that later Pods like it get another."""

    def __init__(self) -> None:
        self._known: dict[bytes, Profile] = {}
        self._numbers = count(1)

    def of(self, pod: Object) -> Profile:
        spec = spec_of(pod)
        likeness = _likeness(pod, spec)
        known = self._known.get(likeness)
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[likeness] = _read_profile(next(self._numbers), pod, spec)
        return known


def _likeness(pod: Object, spec: Mapping[str, Any]) -> bytes:
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
    if has_neighbour_rules(spec):
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
            requests=effective_requests(spec),
            selector=selector if selector else None,
            required=required,
            preferred=preferred,
            tolerations=tuple(_toleration(t) for t in spec.get("tolerations") or ()),
            host_ports=frozenset(
                HostPort(*found)
                for c in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
                for found in _host_ports(c, host)
            ),
            neighbours=neighbours_of(spec, namespace_of(pod), labels_of(pod)),
            constraints=_constraints(spec, host),
            label_keys=frozenset(keys | {NODE_NAME} if any(t.names for t in terms) else keys),
        )
    except (BadRequest, QuantityError, Unsupported) as error:
        return Profile(number=number, refusal=str(error))


def _host_ports(container: Mapping[str, Any], host_network: Any) -> list[tuple[str, int, str]]:
    """On the host's network every port a container names is a port of the host."""
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
        (int(wish.get("weight") or 0), _node_term(wish.get("preference") or {}))
        for wish in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        if wish.get("weight") and not _is_empty(wish.get("preference") or {})
    )


def _is_empty(term: Mapping[str, Any]) -> bool:
    """An empty term matches no node, as in Kubernetes."""
    return not term.get("matchExpressions") and not term.get("matchFields")


def _node_term(term: Mapping[str, Any]) -> NodeTerm:
    names = []
    for rule in term.get("matchFields") or ():
        key, operator = rule.get("key"), rule.get("operator")
        if key != "metadata.name" or operator not in ("In", "NotIn"):
            raise Unsupported(f'matchFields: "{key}" {operator}: only metadata.name with In or NotIn can be matched')
        names.append((operator == "In", frozenset(str(v) for v in rule.get("values") or ())))
    return NodeTerm(compile_expressions(term.get("matchExpressions") or ()), tuple(names))


def _toleration(toleration: Mapping[str, Any]) -> Toleration:
    return Toleration(
        toleration.get("key") or "",
        toleration.get("operator") or "Equal",
        toleration.get("value") or "",
        toleration.get("effect") or "",
    )
