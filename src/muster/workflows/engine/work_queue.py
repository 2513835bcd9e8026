"""The parts of a run, one per node or per use of a template, and the queue of those to look at next."""

from __future__ import annotations

import heapq
import itertools
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from muster.workflows.engine.node_tree import is_ended
from muster.workflows.engine.scope import Scope
from muster.workflows.lang.limits import check_budget
from muster.workflows.model import Node, NodeType, Phase, Template

if TYPE_CHECKING:
    from muster.workflows.engine.call import Call
    from muster.workflows.engine.run import Run


Position: TypeAlias = tuple[int, ...]
"""A position in the workflow: earlier ones are smaller."""


class Advanceable(ABC):
    """Something that can be advanced as far as possible."""

    queued = False
    blocked = False

    @abstractmethod
    def advance(self) -> None: ...


class Caller(Advanceable):
    """Calls templates and is notified of their changes."""

    @abstractmethod
    def call_changed(self, call: Call) -> None:
        """The node of a call has changed."""


class Parent(ABC):
    """What runs a node: a call, or the retries of a call."""

    @abstractmethod
    def work_changed(self, work: Work) -> None: ...


class Work(Advanceable):
    """Runs a template in one node."""

    def __init__(self, run: Run, call: Call, parent: Parent, name: str, template: Template) -> None:
        self.run = run
        self.call = call
        self.parent = parent
        self.name = name
        self.id = run.tree.id_of(name)
        self.template = template
        self.results: frozenset[str] | None = None
        """The inner steps or tasks whose `outputs.result` is used, once computed."""
        self.error = ""
        """Why it could not run at all, as opposed to failing."""

    @property
    def node(self) -> Node:
        return self.run.tree.nodes[self.id]

    @abstractmethod
    def start(self) -> None:
        """Starts. Its node may exist already if it waited for a lock."""

    @abstractmethod
    def restore(self) -> None:
        """Restores the state from the nodes. Changes nothing."""

    def variables_for(self, text: Mapping[str, Any]) -> Scope:
        """Returns the variables that a text in the template can refer to."""
        return Scope(self.template)

    def open(self, kind: NodeType, phase: Phase) -> Node:
        """Creates its node, or sets the phase of a node that was waiting."""
        if self.id in self.run.tree.nodes:
            return self.run.tree.mark(self.id, phase)
        return self.call.new_node(self.name, kind, phase, self.template)

    def end(self, phase: Phase, message: str | None = None) -> None:
        self.run.live.pop(self.id, None)
        self.run.tree.mark(self.id, phase, message)
        self.parent.work_changed(self)

    def fail(self, message: str) -> None:
        """It cannot run: this is an error, not an ordinary failure."""
        self.error = message
        self.run.live.pop(self.id, None)
        self.run.tree.mark(self.id, "Error", message)
        self.parent.work_changed(self)


class WorkQueue:
    def __init__(self) -> None:
        self._queue: deque[Advanceable] = deque()
        self._times: list[tuple[datetime, int, Advanceable]] = []
        self._number = itertools.count()
        self._blocked: list[tuple[Position, int, Advanceable]] = []
        self._is_granted = False
        self._postponed: dict[Advanceable, None] = {}

    def postpone(self, item: Advanceable) -> None:
        """The item is advanced in the next step."""
        self._postponed[item] = None

    @property
    def has_postponed(self) -> bool:
        return bool(self._postponed)

    def add_postponed(self) -> None:
        for item in self._postponed:
            self.add(item)
        self._postponed.clear()

    def add(self, item: Advanceable) -> None:
        if not item.queued:
            item.queued = True
            self._queue.append(item)

    def add_at(self, moment: datetime, item: Advanceable) -> None:
        heapq.heappush(self._times, (moment, next(self._number), item))

    def may_begin(self, item: Advanceable, position: Position) -> bool:
        """Whether one more Pod may run now. If not, the item is advanced once it may.

        The order is that of the workflow, not of the requests, so a restart does not change it.
        """
        if self._is_granted:
            self._is_granted = False
            return True
        if not item.blocked:
            item.blocked = True
            heapq.heappush(self._blocked, (position, next(self._number), item))
        return False

    def add_due(self, now: datetime) -> None:
        while self._times and self._times[0][0] <= now:
            self.add(heapq.heappop(self._times)[2])

    def next_time(self) -> datetime | None:
        while self._times and _is_over(self._times[0][2]):
            heapq.heappop(self._times)
        return self._times[0][0] if self._times else None

    def drain(self, is_full: Callable[[], bool]) -> None:
        """Advances items until nothing is left to do now."""
        while True:
            while self._queue:
                item = self._queue.popleft()
                item.queued = False
                check_budget()
                item.advance()
            if not self._blocked or is_full():
                return
            item = heapq.heappop(self._blocked)[2]
            item.blocked = False
            self._is_granted = True
            check_budget()
            item.advance()
            self._is_granted = False


def _is_over(item: Advanceable) -> bool:
    if not isinstance(item, Work):
        return False
    node = item.run.tree.nodes.get(item.id)
    return node is None or is_ended(node)
