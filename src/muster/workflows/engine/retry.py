"""Retries: runs a template until it succeeds, and decides after each failed attempt whether and when to try again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from muster.workflows.engine.clock import (
    format_duration,
    parse_duration_field,
    parse_timestamp,
    seconds_between,
)
from muster.workflows.engine.errors import WorkflowError, error_message
from muster.workflows.engine.leaf_nodes import LeafNode
from muster.workflows.engine.node_tree import has_failed, is_ended
from muster.workflows.engine.templates import POD_TYPES, check_reserved_names, node_type, substitute_template, type_of
from muster.workflows.engine.work_queue import Parent, Work
from muster.workflows.lang.clock import Clock
from muster.workflows.lang.environment import evaluate_bool
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_numbers import format_float
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
"""Whether to retry (Failed, Error)."""


class Decision(NamedTuple):
    retry: bool = False
    message: str = ""
    """The message of the node that ends or waits."""
    until: datetime | None = None
    """The earliest time of the next attempt."""


def decide(strategy: Mapping[str, Any], attempts: Sequence[Node], now: datetime, clock: Clock) -> Decision:
    """Decides what to do after the last attempt has failed. Raises WorkflowError and ExpressionError."""
    last = attempts[-1]
    limit = _limit(strategy)
    backoff = strategy.get("backoff")
    if backoff:
        longest = (
            parse_duration_field(backoff["maxDuration"], "backoff.maxDuration") if backoff.get("maxDuration") else None
        )
        over = parse_timestamp(attempts[0]["startedAt"]) + longest if longest is not None else None
        if over is not None and now > over:
            return Decision(message="Max duration limit exceeded")
        wait = _backoff(backoff, len(attempts))
        until = _add_duration(parse_timestamp(last.get("finishedAt") or last["startedAt"]), wait)
        if over is not None and until > over:
            return Decision(message="Backoff would exceed max duration limit")
        if now < until and limit is not None and len(attempts) <= limit:
            return Decision(retry=True, message=f"Backoff for {format_duration(wait)}", until=until)
    if not _is_retried(strategy, last):
        return Decision(message=last.get("message") or "")
    if limit is not None and len(attempts) > limit:
        return Decision(message="No more retries left")
    known = last_retry(attempts, default_exit_code="-1")
    if strategy.get("expression") and not evaluate_bool(str(strategy["expression"]), known, clock):
        return Decision(message="retryStrategy.expression evaluated to false")
    return Decision(retry=True)


def seconds_left(strategy: Mapping[str, Any], attempts: Sequence[Node]) -> int | None:
    """Returns the seconds that `backoff.maxDuration` leaves for the last attempt. Attempts start in order of time."""
    longest = (strategy.get("backoff") or {}).get("maxDuration")
    if not longest or len(attempts) < 2:
        return None
    spent = seconds_between(attempts[0]["startedAt"], attempts[-1]["startedAt"])
    return max(1, int(parse_duration_field(longest, "backoff.maxDuration").total_seconds() - spent))


def last_retry(attempts: Sequence[Node], default_exit_code: str = "0") -> dict[str, str]:
    """Returns `retries` and `lastRetry.*` as the next attempt, or the strategy's expression, sees them."""
    if not attempts:
        empty = {"lastRetry.exitCode": "0", "lastRetry.duration": "0", "lastRetry.status": "", "lastRetry.message": ""}
        return {"retries": "0", **empty}
    last = attempts[-1]
    seconds = seconds_between(last["startedAt"], last.get("finishedAt") or "")
    return {
        # The strategy counts the retries so far, the attempt counts the attempts before it.
        "retries": str(len(attempts) - 1 if default_exit_code == "-1" else len(attempts)),
        "lastRetry.exitCode": (last.get("outputs") or {}).get("exitCode") or default_exit_code,
        "lastRetry.status": last["phase"],
        "lastRetry.duration": format_float(seconds),
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
        raise WorkflowError(f"{policy} is not a valid RetryPolicy: use one of {known}")
    on_failed, on_error = _POLICIES[policy]
    return on_error if last["phase"] == "Error" else on_failed


def _limit(strategy: Mapping[str, Any]) -> int | None:
    limit = strategy.get("limit")
    if limit is None:
        return None
    try:
        return int(str(limit))
    except ValueError:
        raise WorkflowError(f"retryStrategy.limit must be an integer, not '{limit}'") from None


def _backoff(backoff: Mapping[str, Any], attempts: int) -> timedelta:
    if not backoff.get("duration"):
        raise WorkflowError("no base duration specified for retryStrategy: write backoff.duration")
    wait = parse_duration_field(backoff["duration"], "backoff.duration")
    factor = backoff.get("factor")
    if factor is not None:
        try:
            number = int(str(factor))
        except ValueError:
            raise WorkflowError(f"retryStrategy.backoff.factor must be an integer, not '{factor}'") from None
        if number > 0:
            try:
                wait = min(wait * number ** min(attempts - 1, 200), _FAR)
            except OverflowError:
                wait = _FAR
    if backoff.get("cap"):
        wait = min(wait, parse_duration_field(backoff["cap"], "backoff.cap"))
    return wait


def _add_duration(moment: datetime, span: timedelta) -> datetime:
    try:
        return moment + span
    except OverflowError:
        return datetime.max.replace(tzinfo=moment.tzinfo)


class Retry(Work, Parent):
    attempt: Work | None = None

    @property
    def strategy(self) -> dict[str, Any]:
        return self.run.retry_strategy(self.template) or {}

    def start(self) -> None:
        if self.id in self.run.tree.nodes:
            self.run.tree.change(self.id, type="Retry")
        flag = None if self.call.flag is None else {**self.call.flag, "retried": True}
        if self.id in self.run.tree.nodes:
            self.run.tree.mark(self.id, "Running")
        else:
            self.call.new_node(self.name, "Retry", "Running", self.template, flag=flag)
        if self.strategy.get("affinity"):
            self.run.warn_once(
                "RetryAffinity", "retryStrategy.affinity is ignored: attempts run on any node with free resources"
            )
        self.advance()

    def restore(self) -> None:
        attempts = self._attempts()
        if attempts and not is_ended(attempts[-1]):
            self.attempt = self._attempt(len(attempts) - 1, attempts[:-1])
            if isinstance(self.attempt, LeafNode):
                self.attempt.deadline_seconds = seconds_left(self.strategy, attempts)
            if self.attempt is not None:
                self.attempt.restore()
            if self.node.get("daemoned"):
                self.run.daemons.add(self)
        else:
            self.run.queue.add(self)

    def advance(self) -> None:
        """Starts the next attempt if it is due."""
        if is_ended(self.node):
            return
        attempts = self._attempts()
        if attempts and not is_ended(attempts[-1]):
            return
        if attempts and not has_failed(attempts[-1]):
            self._succeed(attempts[-1])
            return
        if attempts:
            stop = self.run.no_retry_reason
            if stop and not (self.call.on_exit and self.run.may_execute(True)):
                self._fail_retries(attempts[-1], stop)
                return
            try:
                decision = decide(self.strategy, attempts, self.run.now, self.run.clock.expressions)
            except (WorkflowError, ExpressionError) as error:
                self.fail(error_message(error))
                return
            if not decision.retry:
                self._fail_retries(attempts[-1], decision.message)
                return
            if decision.until is not None:
                self.run.tree.change(self.id, message=decision.message)
                self.run.queue.add_at(decision.until, self)
                return
            self.run.tree.change(self.id, message=None)
        if attempts and not self.run.may_begin(self, self.call.position):
            return
        self._begin(attempts)

    def work_changed(self, work: Work) -> None:
        node = work.node
        if node.get("daemoned"):
            self.run.tree.change(self.id, daemoned=True, podIP=node.get("podIP"))
            self.run.daemons.add(self)
            self.parent.work_changed(self)
        elif is_ended(node):
            if work.error and policy_of(self.strategy) == "OnFailure":
                self.error = work.error
            self.run.queue.add(self)
            self.run.queue.add(self.call.caller)

    def dismiss(self) -> None:
        """A daemon that is no longer needed."""
        self.run.tree.change(self.id, daemoned=None)
        self.run.tree.mark(self.id, "Succeeded")

    def _begin(self, attempts: list[Node]) -> None:
        self.attempt = self._attempt(len(attempts), attempts)
        if self.attempt is None:
            return
        self.run.tree.link(self.id, self.attempt.id)
        flag = {**(self.call.flag or {}), "retried": True}
        node = self.call.new_node(
            self.attempt.name, node_type(self.template), "Pending", self.attempt.template, flag=flag
        )
        if isinstance(self.attempt, LeafNode):
            self.attempt.deadline_seconds = seconds_left(self.strategy, [*attempts, node])
        self.attempt.start()

    def _attempt(self, number: int, before: list[Node]) -> Work | None:
        name = f"{self.name}({number})"
        own = {"node.name": self.call.name, **last_retry(before), "retries": str(number)}
        if type_of(self.template) in POD_TYPES:
            own["pod.name"] = self.run.pod_name(name, self.template)
        try:
            self.run.clock.seed(self.run.tree.id_of(name))
            template = substitute_template(self.template, self.run.variables, own, self.run.clock.expressions)
            if self.run.view.restricted:
                check_reserved_names(self.template, template)
        except (WorkflowError, ExpressionError) as error:
            self.fail(error_message(error))
            return None
        return self.run.new_work(self.call, self, name, template)

    def _attempts(self) -> list[Node]:
        return [c for c in self.run.tree.children(self.id) if c["name"] == f"{self.name}({_number(c['name'])})"]

    def _succeed(self, last: Node) -> None:
        self.run.tree.change(self.id, outputs=last.get("outputs"), daemoned=None)
        self.run.tree.update_progress(self.id)
        self.end("Succeeded", "")

    def _fail_retries(self, last: Node, message: str) -> None:
        self.run.tree.change(self.id, outputs=last.get("outputs"), daemoned=None)
        self.run.tree.update_progress(self.id)
        self.run.daemons.drop(self)
        self.end(last["phase"], message)


def _number(name: str) -> str:
    return name[name.rfind("(") + 1 : -1]
