"""Keeps ResourceQuotas and LimitRanges inside the transactions of writes, so that no two writes can both take the last
of a quota. The decisions are in `kube/resource_quota.py`.

A write charges what it adds at once. What is given back, because an object was deleted or a Pod has ended, is counted
by the controller (`embedded/controllers/quotas.py`), which adds up everything again.
"""

from __future__ import annotations

from muster.embedded.store.view import Transaction
from muster.kube.errors import Forbidden
from muster.kube.kinds import Kind, invalid_object
from muster.kube.objects import Key, Object, name_of, namespace_of, spec_of, status_of
from muster.kube.resource_quota import (
    CLAIMS,
    PODS,
    SERVICES,
    charge,
    check_filled_resources,
    find_limit_violations,
    resources_limited_by,
    total_usage,
    with_limit_defaults,
)

QUOTAS = "resourcequotas"
LIMIT_RANGES = "limitranges"
_LIMITED = (PODS, CLAIMS)
_MAY_GROW = (SERVICES, CLAIMS)
"""Objects whose update can use more of a quota."""


def apply_limit_ranges(tx: Transaction, kind: Kind, obj: Object) -> Object:
    """Returns a new object with the defaults of its namespace's LimitRanges. Raises Forbidden if they forbid it."""
    if kind.resource not in _LIMITED:
        return obj
    limit_ranges = tx.committed(LIMIT_RANGES, namespace_of(obj))
    if not limit_ranges:
        return obj
    filled = with_limit_defaults(limit_ranges, obj) if kind.resource == PODS else obj
    if filled is not obj and (causes := check_filled_resources(filled)):
        raise invalid_object(kind, filled, causes)
    found = find_limit_violations(limit_ranges, kind.resource, filled)
    if found:
        told = found[0] if len(found) == 1 else f"[{', '.join(found)}]"
        raise Forbidden(f'{kind.resource} "{name_of(obj)}" is forbidden: {told}')
    return filled


def charge_quotas(tx: Transaction, kind: Kind, old: Object | None, new: Object) -> None:
    """Adds what a write uses to the quotas of its namespace. Raises Forbidden if one of them does not allow it."""
    if not kind.namespaced or (old is not None and kind.resource not in _MAY_GROW):
        return
    if old is not None and spec_of(old) is spec_of(new):
        return
    charged = []
    for known in tx.committed(QUOTAS, namespace_of(new)):
        quota = tx.get(QUOTAS, Key(namespace_of(known), name_of(known)))
        if quota is None:
            continue
        used, problem = charge(quota, kind.resource, old, new)
        if problem:
            raise Forbidden(f'{kind.resource} "{name_of(new)}" is forbidden: {problem}')
        if used is not None:
            charged.append((quota, used))
    for quota, used in charged:
        _store_usage(tx, quota, used)


def with_usage(tx: Transaction, quota: Object) -> Object:
    """Returns a quota that is about to be stored with its status: the limits, and what the namespace uses of them."""
    used = _count(tx, quota)
    hard = spec_of(quota).get("hard") or {}
    return {**quota, "status": {**status_of(quota), "hard": hard, "used": used}}


def recount(tx: Transaction, namespace: str) -> None:
    """Brings the status of all quotas of a namespace up to date with what is there."""
    for quota in tx.list_namespace(QUOTAS, namespace).values():
        used = _count(tx, quota)
        if used != status_of(quota).get("used") or (spec_of(quota).get("hard") or {}) != status_of(quota).get("hard"):
            _store_usage(tx, quota, used)


def _count(tx: Transaction, quota: Object) -> dict[str, str]:
    namespace = namespace_of(quota)
    objects = [
        (resource, obj)
        for resource in sorted(resources_limited_by(quota))
        for obj in tx.list_namespace(resource, namespace).values()
        if resource != QUOTAS or name_of(obj) != name_of(quota)
    ]
    return total_usage(quota, [*objects, (QUOTAS, quota)])


def _store_usage(tx: Transaction, quota: Object, used: dict[str, str]) -> None:
    status = {**status_of(quota), "hard": spec_of(quota).get("hard") or {}, "used": used}
    tx.put(QUOTAS, {**quota, "metadata": {**quota["metadata"]}, "status": status})
