"""SKUs: the smallest unit that a virtual cluster hands out, and how many of them something is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import ceil
from typing import Any

from muster.kube.quantity import QuantityError, format_quantity, parse_quantity
from muster.platform.errors import FieldError
from muster.platform.sentences import fault

GPU = "nvidia.com/gpu"
_RESOURCE = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_SHORT = {"gpu": GPU}


def read_sku(given: Mapping[str, Any]) -> dict[str, str]:
    """By resource, without what there is none of: `gpu` stands for nvidia.com/gpu. Of a SKU without faults."""
    found = {_SHORT.get(name, name): str(amount) for name, amount in given.items()}
    return {name: amount for name, amount in found.items() if parse_quantity(amount) > 0}


def sku_faults(given: Mapping[str, Any], field: str = "sku") -> list[FieldError]:
    found = []
    seen: set[str] = set()
    for name, amount in given.items():
        where, full = f"{field}.{name}", _SHORT.get(name, name)
        if not _RESOURCE.fullmatch(full) or full in seen:
            found.append(fault(where, "sku.resource"))
            continue
        seen.add(full)
        try:
            value = parse_quantity(str(amount))
        except QuantityError as error:
            found.append(fault(where, "sku.amount", detail=str(error)))
            continue
        if value < 0:
            found.append(fault(where, "sku.negative", amount=amount))
        elif full not in ("cpu", "memory") and value.denominator != 1:
            found.append(fault(where, "sku.whole", amount=amount))
    if not found and not read_sku(given):
        found.append(fault(field, "sku.empty"))
    return found


def selector_faults(given: Mapping[str, str], field: str = "node_selector") -> list[FieldError]:
    return [
        fault(f"{field}.{name}", "cluster.selector")
        for name, value in given.items()
        if not _RESOURCE.fullmatch(name) or not _LABEL.fullmatch(value)
    ]


def times(sku: Mapping[str, str], count: int) -> dict[str, str]:
    """So many SKUs, by resource."""
    return {name: format_quantity(parse_quantity(amount) * count, amount) for name, amount in sku.items()}


def skus_in(amounts: Mapping[str, Any], sku: Mapping[str, str]) -> int:
    """How many SKUs have to be handed out for that much."""
    parts = (parse_quantity(amounts.get(name, 0)) / parse_quantity(amount) for name, amount in sku.items())
    return max((ceil(part) for part in parts), default=0)
