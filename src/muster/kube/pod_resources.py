"""The resources that a Pod requests from a node, counted as Kubernetes counts them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, TypeAlias

from muster.kube.quantity import Quantity, format_quantity, milli_value, whole_value

Amounts: TypeAlias = dict[str, int]
"""Amounts by resource: cpu in thousandths, everything else in whole units."""

_POD_LEVEL = ("cpu", "memory")


def pod_requests(spec: Mapping[str, Any]) -> Amounts:
    """Returns the larger of what the init containers need in sequence and what all containers need together, plus
    overhead. Sidecars (init containers that restart always) run along with everything after them. A container with only
    a limit requests as much. Every Pod requests one of `pods`; amounts of zero are left out."""
    together: Amounts = {}
    for container in spec.get("containers") or ():
        _add(together, container_requests(container))
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = container_requests(container)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, own)
            needed = sidecars
        else:
            needed = dict(sidecars)
            _add(needed, own)
        for name, amount in needed.items():
            if amount > starting.get(name, 0):
                starting[name] = amount
    _add(together, sidecars)
    total = {name: max(together.get(name, 0), starting.get(name, 0)) for name in {**together, **starting}}
    total.update(_pod_level(spec.get("resources") or {}))
    _add(total, parse_amounts(spec.get("overhead") or {}))
    total["pods"] = 1
    return {name: total[name] for name in sorted(total) if total[name] > 0}


def container_requests(container: Mapping[str, Any]) -> Amounts:
    return _requests_or_limits(container.get("resources") or {})


def parse_amounts(resources: Mapping[str, Quantity]) -> Amounts:
    """Converts a resource list to the scheduler's units."""
    return {name: parse_amount(name, text) for name, text in resources.items()}


def parse_amount(name: str, text: Quantity) -> int:
    return milli_value(text) if name == "cpu" else whole_value(text)


def parse_group_resources(resources: Mapping[str, Quantity]) -> Amounts:
    """Parses a PodGroup's minResources. Volcano's controllers also write quota names: `requests.cpu` means cpu, while
    limits and object counts do not concern a scheduler."""
    found: Amounts = {}
    for name, text in resources.items():
        if name.startswith(("limits.", "count/")):
            continue
        plain = name.removeprefix("requests.")
        found[plain] = max(found.get(plain, 0), parse_amount(plain, text))
    return {name: amount for name, amount in sorted(found.items()) if amount > 0}


def format_amounts(found: Mapping[str, int]) -> dict[str, str]:
    """The inverse: formats amounts as a resource list."""
    return {
        name: format_quantity(Fraction(amount, 1000)) if name == "cpu" else format_quantity(Fraction(amount), "Ki")
        for name, amount in found.items()
    }


def sum_amounts(parts: Iterable[Mapping[str, int]]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        _add(total, part)
    return total


def _requests_or_limits(resources: Mapping[str, Any]) -> Amounts:
    limits, requests = resources.get("limits"), resources.get("requests")
    if not limits:
        return parse_amounts(requests) if requests else {}
    return parse_amounts({**limits, **(requests or {})})


def _pod_level(resources: Mapping[str, Any]) -> Amounts:
    """Returns `spec.resources`, which replaces the sum of the containers for the resources it names."""
    if not resources:
        return {}
    asked = _requests_or_limits(resources)
    return {name: n for name, n in asked.items() if name in _POD_LEVEL or name.startswith("hugepages-")}


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount
