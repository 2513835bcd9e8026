"""What comes after an attempt that failed: another one, now or later, or the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from muster.workflows.engine.dice import CHANCE
from muster.workflows.engine.errors import Refused
from muster.workflows.engine.times import duration, moment_of, seconds_between, shown
from muster.workflows.expressions.environment import evaluate_bool
from muster.workflows.expressions.numbers import shown_float
from muster.workflows.model import Node

_FAR = timedelta(days=365 * 290)
_TRANSIENT = (
    "Connection closed by foreign host",
    "net/http: TLS handshake timeout",
    "i/o timeout",
    "connection timed out",
    "connection reset by peer",
    "http2: client connection lost",
    "http2: server sent GOAWAY and closed the connection",
    "connect: connection refused",
    "invalid connection",
    "etcdserver: leader changed",
    "etcdserver: request timed out",
    "etcdserver: too many requests",
)
_POLICIES = {
    "Always": (True, True),
    "OnFailure": (True, False),
    "OnError": (False, True),
}
"""Whether to retry what is (Failed, in Error)."""


class Decision(NamedTuple):
    retry: bool = False
    message: str = ""
    """Of the end, or of the wait."""
    until: datetime | None = None
    """Not before then."""


def decide(strategy: Mapping[str, Any], attempts: Sequence[Node], now: datetime) -> Decision:
    """What to do after the last of the attempts has failed. Raises Refused and ExpressionError."""
    last = attempts[-1]
    limit = _limit(strategy)
    backoff = strategy.get("backoff")
    if backoff:
        longest = duration(backoff["maxDuration"], "backoff.maxDuration") if backoff.get("maxDuration") else None
        over = moment_of(attempts[0]["startedAt"]) + longest if longest is not None else None
        if over is not None and now > over:
            return Decision(message="Max duration limit exceeded")
        wait = _wait(backoff, len(attempts))
        until = _later(moment_of(last.get("finishedAt") or last["startedAt"]), wait)
        if over is not None and until > over:
            return Decision(message="Backoff would exceed max duration limit")
        if now < until and limit is not None and len(attempts) <= limit:
            return Decision(retry=True, message=f"Backoff for {shown(wait)}", until=until)
    if not _is_retried(strategy, last):
        return Decision(message=last.get("message") or "")
    if limit is not None and len(attempts) > limit:
        return Decision(message="No more retries left")
    known = last_retry(attempts, default_exit_code="-1")
    if strategy.get("expression") and not evaluate_bool(str(strategy["expression"]), known, CHANCE):
        return Decision(message="retryStrategy.expression evaluated to false")
    return Decision(retry=True)


def seconds_left(strategy: Mapping[str, Any], attempts: Sequence[Node]) -> int | None:
    """How long the last of the attempts may take until `backoff.maxDuration` is over. Attempts begin in time."""
    longest = (strategy.get("backoff") or {}).get("maxDuration")
    if not longest or len(attempts) < 2:
        return None
    spent = seconds_between(attempts[0]["startedAt"], attempts[-1]["startedAt"])
    return max(1, int(duration(longest, "backoff.maxDuration").total_seconds() - spent))


def last_retry(attempts: Sequence[Node], default_exit_code: str = "0") -> dict[str, str]:
    """`retries` and `lastRetry.*` as the next attempt, or the strategy's expression, sees them."""
    if not attempts:
        empty = {"lastRetry.exitCode": "0", "lastRetry.duration": "0", "lastRetry.status": "", "lastRetry.message": ""}
        return {"retries": "0", **empty}
    last = attempts[-1]
    seconds = seconds_between(last["startedAt"], last.get("finishedAt") or "")
    return {
        # The strategy asks how often it has been tried again, the attempt how many came before it.
        "retries": str(len(attempts) - 1 if default_exit_code == "-1" else len(attempts)),
        "lastRetry.exitCode": (last.get("outputs") or {}).get("exitCode") or default_exit_code,
        "lastRetry.status": last["phase"],
        "lastRetry.duration": shown_float(seconds),
        "lastRetry.message": last.get("message") or "",
    }


def policy_of(strategy: Mapping[str, Any]) -> str:
    return str(strategy.get("retryPolicy") or ("Always" if strategy.get("expression") else "OnFailure"))


def _is_retried(strategy: Mapping[str, Any], last: Node) -> bool:
    policy = policy_of(strategy)
    if policy == "OnTransientError":
        return any(pattern in (last.get("message") or "") for pattern in _TRANSIENT)
    if policy not in _POLICIES:
        known = ", ".join((*_POLICIES, "OnTransientError"))
        raise Refused(f"{policy} is not a valid RetryPolicy: it may be one of {known}")
    on_failed, on_error = _POLICIES[policy]
    return on_error if last["phase"] == "Error" else on_failed


def _limit(strategy: Mapping[str, Any]) -> int | None:
    limit = strategy.get("limit")
    if limit is None:
        return None
    try:
        return int(str(limit))
    except ValueError:
        raise Refused(f"retryStrategy.limit must be a whole number, not '{limit}'") from None


def _wait(backoff: Mapping[str, Any], attempts: int) -> timedelta:
    if not backoff.get("duration"):
        raise Refused("no base duration specified for retryStrategy: write backoff.duration")
    wait = duration(backoff["duration"], "backoff.duration")
    factor = backoff.get("factor")
    if factor is not None:
        try:
            number = int(str(factor))
        except ValueError:
            raise Refused(f"retryStrategy.backoff.factor must be a whole number, not '{factor}'") from None
        if number > 0:
            try:
                wait = min(wait * number ** min(attempts - 1, 200), _FAR)
            except OverflowError:
                wait = _FAR
    if backoff.get("cap"):
        wait = min(wait, duration(backoff["cap"], "backoff.cap"))
    return wait


def _later(moment: datetime, span: timedelta) -> datetime:
    try:
        return moment + span
    except OverflowError:
        return datetime.max.replace(tzinfo=moment.tzinfo)
