"""A node that has a template run until it succeeds, one attempt after the other."""

from __future__ import annotations

from typing import Any

from muster.workflows.engine.arguments import substituted
from muster.workflows.engine.dice import throw_for
from muster.workflows.engine.errors import Refused, message_of
from muster.workflows.engine.leaf import Leaf
from muster.workflows.engine.phases import has_failed, is_ended
from muster.workflows.engine.retry_policy import decide, last_retry, policy_of, seconds_left
from muster.workflows.engine.templates import POD_TYPES, node_type, type_of
from muster.workflows.engine.work import Parent, Work
from muster.workflows.expressions.errors import ExpressionError
from muster.workflows.model import Node


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
                "RetryAffinity", "retryStrategy.affinity is ignored: attempts run wherever there is room"
            )
        self.advance()

    def restore(self) -> None:
        attempts = self._attempts()
        if attempts and not is_ended(attempts[-1]):
            self.attempt = self._attempt(len(attempts) - 1, attempts[:-1])
            if isinstance(self.attempt, Leaf):
                self.attempt.deadline_seconds = seconds_left(self.strategy, attempts)
            if self.attempt is not None:
                self.attempt.restore()
            if self.node.get("daemoned"):
                self.run.daemons.add(self)
        else:
            self.run.agenda.add(self)

    def advance(self) -> None:
        """Makes the next attempt, if it is time."""
        if is_ended(self.node):
            return
        attempts = self._attempts()
        if attempts and not is_ended(attempts[-1]):
            return
        if attempts and not has_failed(attempts[-1]):
            self._succeed(attempts[-1])
            return
        if attempts:
            stop = self.run.why_no_retry
            if stop and not (self.call.on_exit and self.run.may_execute(True)):
                self._give_up(attempts[-1], stop)
                return
            try:
                decision = decide(self.strategy, attempts, self.run.now)
            except (Refused, ExpressionError) as error:
                self.fail(message_of(error))
                return
            if not decision.retry:
                self._give_up(attempts[-1], decision.message)
                return
            if decision.until is not None:
                self.run.tree.change(self.id, message=decision.message)
                self.run.agenda.add_at(decision.until, self)
                return
            self.run.tree.change(self.id, message=None)
        if attempts and not self.run.may_begin(self, self.call.place):
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
            self.run.agenda.add(self)
            self.run.agenda.add(self.call.owner)

    def dismiss(self) -> None:
        """A daemon whose users are done."""
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
        if isinstance(self.attempt, Leaf):
            self.attempt.deadline_seconds = seconds_left(self.strategy, [*attempts, node])
        self.attempt.start()

    def _attempt(self, number: int, before: list[Node]) -> Work | None:
        name = f"{self.name}({number})"
        own = {"node.name": self.call.name, **last_retry(before), "retries": str(number)}
        if type_of(self.template) in POD_TYPES:
            own["pod.name"] = self.run.pod_name(name, self.template)
        try:
            throw_for(self.run.tree.id_of(name))
            template = substituted(self.template, self.run.variables, own)
        except (Refused, ExpressionError) as error:
            self.fail(message_of(error))
            return None
        return self.run.new_work(self.call, self, name, template)

    def _attempts(self) -> list[Node]:
        return [c for c in self.run.tree.children(self.id) if c["name"] == f"{self.name}({_number(c['name'])})"]

    def _succeed(self, last: Node) -> None:
        self.run.tree.change(self.id, outputs=last.get("outputs"), daemoned=None)
        self.run.tree.sum_up(self.id)
        self.end("Succeeded", "")

    def _give_up(self, last: Node, message: str) -> None:
        self.run.tree.change(self.id, outputs=last.get("outputs"), daemoned=None)
        self.run.tree.sum_up(self.id)
        self.run.daemons.drop(self)
        self.end(last["phase"], message)


def _number(name: str) -> str:
    return name[name.rfind("(") + 1 : -1]
