"""Kubernetes quantities (`500m`, `1.5Gi`, `12e6`) and the resources that a Pod requests.

Quantities are exact numbers, never floats.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

Quantity: TypeAlias = str | int | float
"""A quantity as in a manifest. A number means the same as its decimal text."""

_NUMBER = re.compile(r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,3})?", re.ASCII)
_MAX_LENGTH = 64
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = {exponent: suffix for suffix, exponent in _BINARY.items()}
_SUFFIX_TYPOS = {suffix.lower(): suffix for suffix in ("k", "M", "G", "T", "P", *_BINARY)}
_NANO = 10**9
_MAX_BINARY = 2**63 - 1


class QuantityError(ValueError):
    """The text is not a quantity; the message says what one looks like."""


def parse_quantity(text: Quantity) -> Fraction:
    """Returns the exact value, as Kubernetes reads it: digits below nano are rounded away from zero, and a quantity
    with a binary suffix is at most 2^63 - 1."""
    if isinstance(text, str) and len(text) > _MAX_LENGTH:
        raise QuantityError(_explain(text))
    return _parse_quantity(text)


@lru_cache(maxsize=65536)
def _parse_quantity(text: Quantity) -> Fraction:
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise QuantityError(f"{text!r} is not a quantity; write a number with an optional suffix, such as 500m or 2Gi")
    written = text if isinstance(text, str) else repr(text)
    found = _NUMBER.fullmatch(written) if len(written) <= _MAX_LENGTH else None
    if found is None:
        raise QuantityError(_explain(written))
    sign, digits, suffix = found[1], found[2], found[3] or ""
    value = Fraction("0" + digits if digits[0] == "." else digits.removesuffix("."))
    if suffix in _BINARY:
        value = min(value * 2 ** _BINARY[suffix], Fraction(_MAX_BINARY))
    else:
        value *= Fraction(10) ** (_DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:]))
    value = _round_up_to_nano(value)
    return -value if sign == "-" else value


def format_quantity(value: Fraction, like: str = "") -> str:
    """Formats `value` as Kubernetes does: no fraction, and the largest suffix that loses nothing. The family of the
    suffix (decimal `k`, binary `Ki`, exponent `e3`) is that of `like`, a quantity or a suffix."""
    if value == 0:
        return "0"
    if like.endswith("i") and 1024 <= abs(value) <= _MAX_BINARY and value.denominator == 1:
        return _format_binary(value.numerator)
    return _format_decimal(value, exponents=re.search(r"[eE][+-]?[0-9]+$", like) is not None)


def canonical_quantity(text: Quantity) -> str:
    """Returns the canonical form: `1000m` -> `1`, `0.5` -> `500m`, `1024Mi` -> `1Gi`."""
    return format_quantity(parse_quantity(text), text if isinstance(text, str) else "")


@lru_cache(maxsize=65536)
def milli_value(text: Quantity) -> int:
    """Returns thousandths, rounded up (away from zero), as cpu is counted."""
    return _round_up(parse_quantity(text) * 1000)


@lru_cache(maxsize=65536)
def whole_value(text: Quantity) -> int:
    """Returns whole units, rounded up (away from zero), as memory and devices are counted."""
    return _round_up(parse_quantity(text))


ResourceList: TypeAlias = Mapping[str, Quantity]
"""Quantities by resource name, as in a container's `requests` or a node's `allocatable`."""


def sum_resources(lists: Iterable[ResourceList]) -> dict[str, str]:
    """Sums by name. A sum is formatted like its first quantity that is not zero."""
    total: dict[str, Fraction] = {}
    manner: dict[str, str] = {}
    for resources in lists:
        for name, text in resources.items():
            before = total.get(name)
            if not before:
                manner[name] = str(text)
            total[name] = parse_quantity(text) + (before or 0)
    return {name: format_quantity(value, manner[name]) for name, value in total.items()}


def multiply_resources(resources: ResourceList, times: int) -> dict[str, str]:
    """Multiplies exactly. A product is formatted like its quantity."""
    return {name: format_quantity(parse_quantity(amount) * times, str(amount)) for name, amount in resources.items()}


def subtract_resources(left: ResourceList, right: ResourceList) -> dict[str, str]:
    """Returns `left - right` by name; names that only `right` has are negative."""
    return {
        name: format_quantity(
            parse_quantity(left.get(name, 0)) - parse_quantity(right.get(name, 0)),
            str(left[name] if left.get(name) else right.get(name, "")),
        )
        for name in {**left, **right}
    }


def max_resources(lists: Iterable[ResourceList]) -> dict[str, str]:
    """Returns the largest quantity of every name, as for init containers, which run one after another."""
    largest: dict[str, Quantity] = {}
    for resources in lists:
        for name, text in resources.items():
            if name not in largest or parse_quantity(text) > parse_quantity(largest[name]):
                largest[name] = text
    return {name: canonical_quantity(text) for name, text in largest.items()}


def missing_resources(requests: ResourceList, available: ResourceList) -> list[str]:
    """Returns the sorted names of which `available` has too little. A request of zero is always met."""
    return sorted(
        name
        for name, text in requests.items()
        if (wanted := parse_quantity(text)) > 0 and wanted > parse_quantity(available.get(name, 0))
    )


def resources_fit(requests: ResourceList, available: ResourceList) -> bool:
    return not missing_resources(requests, available)


def _explain(written: str) -> str:
    if len(written) > _MAX_LENGTH:
        return f"a quantity of {len(written)} characters is too long; {_MAX_LENGTH} are allowed"
    number = re.match(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)", written)
    if number is None:
        return f'"{written}" is not a quantity; write a number with an optional suffix, such as 500m, 2Gi or 1e3'
    rest = written[number.end() :]
    if rest.strip() != rest or rest != rest.replace(" ", ""):
        return f'"{written}" is not a quantity: it must not contain spaces; write "{"".join(written.split())}"'
    near = _SUFFIX_TYPOS.get(rest.lower().removesuffix("b"))
    hint = f'; did you mean "{number[0]}{near}"?' if near else ""
    known = " ".join([*filter(None, _DECIMAL), *_BINARY])
    return f'"{written}" is not a quantity: unknown suffix "{rest}", expected one of {known}{hint}'


def _round_up(value: Fraction) -> int:
    size = -(-abs(value.numerator) // value.denominator)
    return size if value >= 0 else -size


def _round_up_to_nano(value: Fraction) -> Fraction:
    return value if _NANO % value.denominator == 0 else Fraction(_round_up(value * _NANO), _NANO)


def _format_binary(number: int) -> str:
    exponent = 0
    while number % 1024 == 0 and exponent < 60:
        number //= 1024
        exponent += 10
    return f"{number}{_BINARY_SUFFIX.get(exponent, '')}"


def _format_decimal(value: Fraction, *, exponents: bool) -> str:
    number, exponent = _round_up(value * _NANO), -9
    while number % 1000 == 0:
        number //= 1000
        exponent += 3
    if exponent and (exponents or exponent not in _DECIMAL_SUFFIX):
        return f"{number}e{exponent}"
    return f"{number}{_DECIMAL_SUFFIX[exponent]}"


# The resources that a Pod requests from a node, counted as Kubernetes counts them.


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
