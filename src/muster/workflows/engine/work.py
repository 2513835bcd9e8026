"""The parts a run is made of while it lasts. Each stands for one node, or for one template in use; what they know can
be read again from the nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from muster.workflows.engine.scope import Scope
from muster.workflows.model import Node, NodeType, Phase, Template

if TYPE_CHECKING:
    from muster.workflows.engine.call import Call
    from muster.workflows.engine.run import Run


Place: TypeAlias = tuple[int, ...]
"""Where in the workflow something is: places that come first are smaller."""


class Advancing(ABC):
    """Something that can be told to go on as far as it can."""

    queued = False
    blocked = False

    @abstractmethod
    def advance(self) -> None: ...


class Owner(Advancing):
    """Uses templates, and wants to know what becomes of them."""

    @abstractmethod
    def notice(self, call: Call) -> None:
        """The node of a call has changed in a way that may matter."""


class Parent(ABC):
    """Who has a node's work done: a call, or the retries of one."""

    @abstractmethod
    def work_changed(self, work: Work) -> None: ...


class Work(Advancing):
    """Does what a template says, in one node."""

    def __init__(self, run: Run, call: Call, parent: Parent, name: str, template: Template) -> None:
        self.run = run
        self.call = call
        self.parent = parent
        self.name = name
        self.id = run.tree.id_of(name)
        self.template = template
        self.results: frozenset[str] | None = None
        """Those inside whose `outputs.result` is read, once that has been asked."""
        self.error = ""
        """Why it could not be done at all, rather than that it failed."""

    @property
    def node(self) -> Node:
        return self.run.tree.nodes[self.id]

    @abstractmethod
    def start(self) -> None:
        """Begins. Its node may be there already, if it had to wait for a lock."""

    @abstractmethod
    def restore(self) -> None:
        """Picks up what the nodes tell of it. Changes nothing."""

    def variables_for(self, text: Mapping[str, Any]) -> Scope:
        """What a text inside of the template may name."""
        return Scope(self.template)

    def open(self, kind: NodeType, phase: Phase) -> Node:
        """Makes its node, or sets the phase of the one that has been waiting."""
        if self.id in self.run.tree.nodes:
            return self.run.tree.mark(self.id, phase)
        return self.call.new_node(self.name, kind, phase, self.template)

    def end(self, phase: Phase, message: str | None = None) -> None:
        self.run.live.pop(self.id, None)
        self.run.tree.mark(self.id, phase, message)
        self.parent.work_changed(self)

    def fail(self, message: str) -> None:
        """It cannot be done: whoever wanted it has to know that this is no ordinary failure."""
        self.error = message
        self.run.live.pop(self.id, None)
        self.run.tree.mark(self.id, "Error", message)
        self.parent.work_changed(self)
