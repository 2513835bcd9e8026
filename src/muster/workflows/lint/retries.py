"""How often, how soon and when something is tried again; locks; what is remembered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.workflows.lint.findings import Findings
from muster.workflows.lint.syntax import duration_problem, expression_problem, integer_problem

_POLICIES = ("Always", "OnFailure", "OnError", "OnTransientError")


def check_retry_strategy(findings: Findings, strategy: Mapping[str, Any], path: str) -> None:
    policy = strategy.get("retryPolicy") or ""
    if policy and policy not in _POLICIES:
        meant = findings.meant(policy, _POLICIES) or f"; it is one of {', '.join(_POLICIES)}"
        findings.add(f"{path}.retryPolicy", f"{policy} is not a valid RetryPolicy{meant}")
    limit = strategy.get("limit")
    if limit is not None:
        wrong = integer_problem(limit)
        if wrong:
            findings.add(f"{path}.limit", wrong)
    expression = strategy.get("expression") or ""
    wrong = expression_problem(expression) if expression else ""
    if wrong:
        findings.add(f"{path}.expression", wrong)
    backoff = strategy.get("backoff")
    if backoff is None:
        return
    if not backoff.get("duration"):
        findings.add(f"{path}.backoff.duration", 'no base duration specified for retryStrategy; write "10s", "1m"')
    for field in ("duration", "maxDuration", "cap"):
        wrong = duration_problem(backoff[field]) if backoff.get(field) else ""
        if wrong:
            findings.add(f"{path}.backoff.{field}", wrong)
    factor = backoff.get("factor")
    wrong = integer_problem(factor) if factor is not None else ""
    if wrong:
        findings.add(f"{path}.backoff.factor", wrong)


def check_synchronization(findings: Findings, synchronization: Mapping[str, Any], path: str) -> None:
    for field, mutex in _each(synchronization, "mutex", "mutexes", path):
        if not mutex.get("name"):
            findings.add(f"{field}.name", "a mutex needs a name")
    for field, semaphore in _each(synchronization, "semaphore", "semaphores", path):
        sources = [name for name in ("configMapKeyRef", "database") if semaphore.get(name) is not None]
        if len(sources) != 1:
            message = "cannot get LockName for a Semaphore without a ConfigMapRef or Database"
            findings.add(field, message if not sources else "a semaphore has either configMapKeyRef or database")
            continue
        for key in ("name", "key") if sources == ["configMapKeyRef"] else ("key",):
            if not semaphore[sources[0]].get(key):
                findings.add(f"{field}.{sources[0]}.{key}", f"a semaphore needs the {key} of where its limit stands")


def check_memoize(findings: Findings, memoize: Mapping[str, Any], path: str) -> None:
    if not memoize.get("key"):
        findings.add(f"{path}.key", "memoize.key is required: what tells one result from another")
    if not ((memoize.get("cache") or {}).get("configMap") or {}).get("name"):
        findings.add(f"{path}.cache", "memoize.cache.configMap.name is required: where results are kept")
    age = memoize.get("maxAge") or ""
    wrong = duration_problem(age, plain_seconds=False) if age else ""
    if wrong:
        findings.add(f"{path}.maxAge", wrong)


def _each(synchronization: Mapping[str, Any], one: str, many: str, path: str) -> list[tuple[str, Mapping[str, Any]]]:
    found = [(f"{path}.{many}[{index}]", lock) for index, lock in enumerate(synchronization.get(many) or ())]
    if synchronization.get(one) is not None:
        found.append((f"{path}.{one}", synchronization[one]))
    return found
