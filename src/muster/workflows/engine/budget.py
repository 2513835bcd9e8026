"""What a workflow may use of the server: nodes, bytes of status, depth and CPU time.

The engine raises BudgetExceeded in the middle of a step, from wherever it is. The decisions of that step are dropped,
and the workflow ends as it was stored: `set_aside` reads none of its templates, so it cannot be made to loop again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from typing import Any

from muster.kube.budgets import Budgets, setting_name
from muster.kube.objects import Object, status_of
from muster.workflows.engine.clock import format_timestamp
from muster.workflows.lang.limits import BudgetExceeded, WorkMeter
from muster.workflows.model import FINISHED_PHASES, Node

_MEGABYTE = 1024 * 1024
_ENDED = FINISHED_PHASES | {"Skipped", "Omitted"}
NODES_PER_STEP = 500
"""A step that has created so many nodes ends, and the next one continues: steps are stored and launched as a whole, and
others have to get their turn."""
ITEMS_PER_STEP = 5000
"""The same for items of loops."""
TEXT_PER_STEP = 16 * _MEGABYTE
"""The same for the characters of filled-in templates."""


def exceeded(what: str, field: str) -> BudgetExceeded:
    """Returns the error of a budget: `what` says what the workflow did."""
    return BudgetExceeded(f"the workflow {what}: see {setting_name(field)} in config.yaml")


def new_meter(budgets: Budgets, used: float) -> WorkMeter:
    """Returns the meter of the next step of a workflow that has used so many seconds."""
    left = budgets.workflow_seconds - used
    if left < budgets.workflow_step_seconds:
        seconds, field, share = left, "workflow_seconds", f"{budgets.workflow_seconds} s in total"
    else:
        seconds, field, share = budgets.workflow_step_seconds, "workflow_step_seconds", "one step"
        share = f"{budgets.workflow_step_seconds} s for {share}"
    megabytes = budgets.workflow_status_megabytes
    return WorkMeter(
        max(seconds, 0.0),
        str(exceeded(f"takes too much of the server's time (at most {share})", field)),
        characters=megabytes * _MEGABYTE,
        text_problem=str(
            exceeded(f"creates more than {megabytes} MiB of text in one step", "workflow_status_megabytes")
        ),
    )


class NodeBudget:
    """The nodes of a run and their size, as estimated: what their texts have in common with the stored JSON."""

    def __init__(self, budgets: Budgets) -> None:
        self._most, self._largest = budgets.workflow_nodes, budgets.workflow_status_megabytes * _MEGABYTE
        self.size = 0
        self.expanded = 0
        """Items of loops that the current step has expanded."""

    def check(self, nodes: int, live_text: int = 0) -> None:
        """Raises BudgetExceeded."""
        if nodes > self._most:
            raise exceeded(f"has more than {self._most} nodes", "workflow_nodes")
        if self.size + live_text > self._largest:
            raise exceeded(
                f"needs more than {self._largest // _MEGABYTE} MiB for the state of its nodes",
                "workflow_status_megabytes",
            )

    def count_items(self, items: int) -> None:
        """Counts the items of a loop before they are expanded. Raises BudgetExceeded."""
        self.expanded += items
        if items > self._most:
            raise exceeded(f"has a loop of {items} items, more than {self._most} nodes", "workflow_nodes")


_NODE = 400
"""Bytes of a node without texts."""


def size_of_node(node: Node) -> int:
    """Returns about how many bytes a node takes, without its `children`."""
    size = _NODE + 2 * len(node["name"]) + len(node.get("message") or "")
    inputs, outputs = node.get("inputs"), node.get("outputs")
    if inputs:
        size += _size_of(inputs)
    if outputs:
        size += _size_of(outputs)
    return size


def _size_of(value: Any) -> int:
    if isinstance(value, str):
        return len(value) + 3
    if isinstance(value, dict):
        return sum(len(name) + 4 + _size_of(inner) for name, inner in value.items())
    if isinstance(value, list):
        return sum(map(_size_of, value))
    return 8


KEPT_NODES = 1000
"""Of a workflow that was set aside: enough to see what it did."""


def set_aside(workflow: Object, nodes: Mapping[str, Node], message: str, now: datetime) -> dict[str, Any]:
    """Returns the status, with nodes, of a workflow that ends because it has exceeded a budget.

    It keeps its first nodes. Exit handlers do not run: they are a part of what took too much.
    """
    ended = format_timestamp(now)
    kept: dict[str, Node] = {}
    for name, node in islice(nodes.items(), KEPT_NODES):
        if node["phase"] not in _ENDED:
            node = node.copy()
            node["phase"], node["finishedAt"] = "Error", ended
            node["message"] = "the workflow has exceeded a budget"
            node.pop("daemoned", None)
        kept[name] = node
    if len(nodes) > len(kept):
        message += f" (the first {len(kept)} of its {len(nodes)} nodes are kept)"
    known = {field: value for field, value in status_of(workflow).items() if field not in ("nodes", "synchronization")}
    conditions = [c for c in known.get("conditions") or () if c.get("type") not in ("Completed", "PodRunning")]
    return {
        **known,
        "nodes": kept,
        "phase": "Error",
        "message": message,
        "startedAt": known.get("startedAt") or ended,
        "finishedAt": ended,
        "conditions": [*conditions, {"type": "PodRunning", "status": "False"}, {"type": "Completed", "status": "True"}],
    }
