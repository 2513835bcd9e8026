"""The engine's one extension point: who decides what a ready task of a DAG does.

A task of Argo's language is resolved from text: tags are replaced, `when` is evaluated, `withParam` is expanded. A
workflow may instead bring a TaskResolver, which decides from typed values. Everything else is the same for both:
dependencies, order, limits, retries, storing, restarting and stopping.

A resolver is asked when a task becomes ready, and again for tasks that have not ended when a run is loaded. It has to
give the same answer then, so it may look at nothing but the workflow and the nodes that have ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from muster.workflows.model import Outcome, Outputs

if TYPE_CHECKING:
    from muster.workflows.engine.dag import Dag
    from muster.workflows.engine.leaf_nodes import LeafNode


@dataclass(frozen=True, slots=True)
class StartTask:
    """The task runs."""

    step: Mapping[str, Any]
    """The task with its template (`template`, or `inline`) and `arguments`. Texts are literal: `mark_value` was applied
    where they may contain braces."""


@dataclass(frozen=True, slots=True)
class ExpandTask:
    """The task runs once for every item."""

    steps: Sequence[Mapping[str, Any]]
    limit: int = 0
    """How many items run at the same time; 0 for any number."""


@dataclass(frozen=True, slots=True)
class SkipTask:
    message: str


@dataclass(frozen=True, slots=True)
class CompleteTask:
    """The task has succeeded without running anything."""

    outputs: Outputs = field(default_factory=Outputs)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """What the node shows as its inputs."""


TaskDecision = StartTask | ExpandTask | SkipTask | CompleteTask


class TaskResolver(Protocol):
    def decide(self, dag: Dag, task: str) -> TaskDecision:
        """Decides what a task does whose dependencies hold. Raises WorkflowError; then the task is an Error. Raises
        BudgetExceeded; the items of a loop are counted (`NodeBudget.count_items`) before they are expanded."""
        ...

    def dag_outputs(self, dag: Dag) -> Outputs | None:
        """Returns the outputs of a DAG whose tasks have all ended well. Raises WorkflowError."""
        ...

    def outcome(self, leaf: LeafNode, outcome: Outcome) -> Outcome:
        """Returns what an end of a leaf means; its outputs are stored as they are returned."""
        ...
