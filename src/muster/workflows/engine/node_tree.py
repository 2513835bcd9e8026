"""The nodes of one workflow, their phases, and counts over them; and the rest of its status. All changes to nodes are
made here.

A changed node is replaced by a new dictionary, once per step, so a node that was handed out never changes. The counts
follow every change, so no query walks over all nodes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, cast

from muster.kube.budgets import Budgets
from muster.workflows.engine.budget import NodeBudget, size_of_node
from muster.workflows.lang.limits import check_budget
from muster.workflows.model import FINISHED_PHASES, Node, Phase

# The names that Argo gives to nodes and Pods. Other tools rely on them.


_LONGEST_PREFIX = 253 - 10 - 1
_SEPARATOR = re.compile(r"^(\[\d+\])?\.")


def node_id(workflow: str, node_name: str) -> str:
    """Returns the key of a node in `status.nodes`."""
    return workflow if node_name == workflow else f"{workflow}-{_fnv32a(node_name)}"


def pod_name(workflow: str, node_name: str, template_name: str) -> str:
    """Returns the name of a node's Pod in Argo's naming version v2."""
    if node_name == workflow:
        return workflow
    prefix = f"{workflow}-{template_name}" if template_name else workflow
    return f"{prefix[:_LONGEST_PREFIX]}-{_fnv32a(node_name)}"


def display_name(node_name: str, boundary_name: str) -> str:
    """Returns a node's name without the name of the template around it."""
    return _SEPARATOR.sub("", node_name.removeprefix(boundary_name)) if boundary_name else node_name


def on_exit(node_name: str) -> str:
    return f"{node_name}.onExit"


def hook(node_name: str, event: str) -> str:
    return f"{node_name}.hooks.{event}"


def step_of(node_name: str) -> str:
    """Returns the step or task of a node: `wf[0].fan(0:x)(1)` is an attempt of `fan`."""
    end, closing = len(node_name), ""
    for at in range(len(node_name) - 1, -1, -1):
        char = node_name[at]
        if closing:
            closing = "" if char == closing else closing
        elif char in ")]":
            closing = "(" if char == ")" else "["
        else:
            end = at + 1
            break
    return node_name[:end].rpartition(".")[2]


def _fnv32a(text: str) -> int:
    value = 2166136261
    for byte in text.encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value


COMPLETED: frozenset[str] = frozenset(("Succeeded", "Failed", "Error"))
FAILED: frozenset[str] = frozenset(("Failed", "Error"))
ENDED: frozenset[str] = COMPLETED | {"Skipped", "Omitted"}
ACTIVE: frozenset[str] = frozenset(("Pending", "Running"))

WORKFLOW_PHASE: Mapping[str, str] = {
    "Pending": "Pending",
    "Running": "Running",
    "Succeeded": "Succeeded",
    "Skipped": "Succeeded",
    "Omitted": "Succeeded",
    "Failed": "Failed",
    "Error": "Error",
}
"""The phase of a workflow, by the phase of its first node."""


def is_ended(node: Node) -> bool:
    """Nothing of the node runs any more."""
    return node["phase"] in ENDED


def is_fulfilled(node: Node) -> bool:
    """What waits for the node can continue: it has ended, or it is a daemon that is ready."""
    phase = node["phase"]
    return phase in ENDED or (bool(node.get("daemoned")) and phase != "Pending")


def is_completed(node: Node) -> bool:
    return node["phase"] in COMPLETED


def has_failed(node: Node) -> bool:
    return node["phase"] in FAILED


def continues_on(continue_on: Mapping[str, Any] | None, phase: Phase) -> bool:
    """Whether a step's or task's `continueOn` tolerates a phase."""
    if not continue_on:
        return False
    return bool((continue_on.get("error") and phase == "Error") or (continue_on.get("failed") and phase == "Failed"))


_COUNTED_CHILDREN = frozenset(("Pod", "Steps", "DAG"))
_LEAVES = frozenset(("Pod", "Container", "HTTP", "Plugin", "Suspend"))
_COUNTED = _LEAVES | {"Steps", "DAG"}


_COMMON_PROGRESS: Mapping[str, tuple[int, int] | None] = {"": None, "0/1": (0, 1), "1/1": (1, 1)}


def parse_progress(text: str) -> tuple[int, int] | None:
    """Returns (done, total), or None if the text is not a progress."""
    if text in _COMMON_PROGRESS:
        return _COMMON_PROGRESS[text]
    done, _, total = text.partition("/")
    if not (done.isdecimal() and total.isdecimal()):
        return None
    n, m = int(done), int(total)
    return (n, m) if n <= m and m > 0 else None


def complete_progress(text: str) -> str:
    parsed = parse_progress(text)
    return f"{parsed[1]}/{parsed[1]}" if parsed else text


class BoundaryCounts:
    """Counts of what is inside a boundary: a Steps or DAG node, or the whole workflow."""

    __slots__ = ("active", "active_pods", "done", "durations", "failed", "total")

    def __init__(self) -> None:
        self.active = 0
        """Pods, Steps and DAGs that are Pending or Running; the template's `parallelism` limits them."""
        self.active_pods = 0
        self.failed = 0
        self.done = 0
        self.total = 0
        self.durations: dict[str, int] = {}

    @property
    def progress(self) -> str:
        return f"{self.done}/{self.total}" if self.total else ""


_LINKS_PER_CHECK = 64


class NodeTree:
    def __init__(self, workflow: str, nodes: dict[str, Node], budget: NodeBudget | None = None) -> None:
        self.workflow = workflow
        self.nodes = nodes
        self.budget = budget or NodeBudget(Budgets())
        self.now = ""
        self.changed: set[str] = set()
        self.counts: dict[str, BoundaryCounts] = defaultdict(BoundaryCounts)
        self.totals = BoundaryCounts()
        self.estimates: Mapping[str, int] = {}
        """How many seconds nodes will take, by their name without that of the workflow."""
        self.failures: set[str] = set()
        """Nodes that are Failed or Error."""
        self.running_pods = 0
        self._ids: dict[str, str] = {}
        self._fresh: set[str] = set()
        self._links: dict[str, set[str]] = {}
        for node in nodes.values():
            self._count(node, 1)
            self.budget.size += sum(len(child) + 3 for child in node.get("children") or ())

    def take_changed(self) -> set[str]:
        """Returns what has changed since the last call. These nodes are handed out and never changed again."""
        changed, self.changed = self.changed, set()
        self._fresh.clear()
        return changed

    def id_of(self, name: str) -> str:
        known = self._ids.get(name)
        if known is None:
            known = self._ids[name] = node_id(self.workflow, name)
        return known

    def find(self, name: str) -> Node | None:
        return self.nodes.get(self.id_of(name))

    def add(self, node: Node) -> Node:
        node_id = node["id"]
        if is_fulfilled(node):
            node.setdefault("finishedAt", node["startedAt"])
        if node["type"] in _LEAVES:
            node.setdefault("progress", "0/1")
        if self.estimates and (seconds := self.estimates.get(node["name"].removeprefix(self.workflow))):
            node["estimatedDuration"] = seconds
        self.nodes[node_id] = node
        self._fresh.add(node_id)
        self.changed.add(node_id)
        self._count(node, 1)
        self.check_budget()
        return node

    def check_budget(self) -> None:
        """Raises BudgetExceeded."""
        self.budget.check(len(self.nodes))
        check_budget()

    def change(self, node_id: str, **fields: Any) -> Node:
        """Sets fields of a node; None removes a field."""
        node = self.nodes[node_id]
        if all(node.get(name) == value for name, value in fields.items()):
            return node
        self._count(node, -1)
        if node_id not in self._fresh:
            node = self._copy(node)
        plain = cast(dict[str, Any], node)
        for name, value in fields.items():
            if value is None:
                plain.pop(name, None)
            else:
                plain[name] = value
        self._count(node, 1)
        self.changed.add(node_id)
        if "outputs" in fields:
            self.check_budget()
        return node

    def mark(self, node_id: str, phase: Phase, message: str | None = None) -> Node:
        """Sets the phase, and the message if given ('' removes it)."""
        node = self.nodes[node_id]
        fields: dict[str, Any] = {"phase": phase}
        if message is not None:
            fields["message"] = message or None
        if not node.get("finishedAt") and is_fulfilled({**node, "phase": phase}):
            fields["finishedAt"] = self.now
        if phase == "Succeeded" and node["type"] in _LEAVES:
            fields["progress"] = complete_progress(node.get("progress") or "0/1")
        return self.change(node_id, **fields)

    def close(self, node_id: str, phase: Phase, message: str | None = None) -> Node:
        """Ends a node that contains others, with the sums of their progress and durations."""
        content = self.counts.get(node_id)
        if content is not None:
            self.change(node_id, progress=content.progress or None, resourcesDuration=dict(content.durations) or None)
        return self.mark(node_id, phase, message)

    def update_progress(self, node_id: str) -> None:
        """Sets the progress of a node from that of its children."""
        done = total = 0
        durations: dict[str, int] = {}
        for child in self.children(node_id):
            parsed = parse_progress(child.get("progress") or "")
            done, total = (done + parsed[0], total + parsed[1]) if parsed else (done, total)
            for resource, amount in (child.get("resourcesDuration") or {}).items():
                durations[resource] = durations.get(resource, 0) + amount
        self.change(node_id, progress=f"{done}/{total}" if total else None, resourcesDuration=durations or None)

    def link(self, parent_id: str, child_id: str) -> None:
        """Adds a child to a node's `children`."""
        node = self.nodes.get(parent_id)
        if node is None:
            return
        known = self._links.get(parent_id)
        if known is None:
            known = self._links[parent_id] = set(node.get("children") or ())
        if child_id in known:
            return
        known.add(child_id)
        self.budget.size += len(child_id) + 3
        if not len(known) % _LINKS_PER_CHECK:
            self.check_budget()
        if parent_id not in self._fresh:
            node = self._copy(node)
        node.setdefault("children", []).append(child_id)
        self.changed.add(parent_id)

    def children(self, node_id: str) -> Iterator[Node]:
        """Yields the children that exist: a retry may have removed some."""
        for child_id in self.nodes[node_id].get("children") or ():
            child = self.nodes.get(child_id)
            if child is not None:
                yield child

    def outbound(self, node_id: str) -> list[str]:
        """Returns the outbound nodes of a node: those that link to whatever comes next."""
        found: list[str] = []
        pending = [node_id]
        while pending:
            current = pending.pop()
            node = self.nodes.get(current)
            if node is None:
                continue
            if node["type"] == "Retry":
                found.extend((node.get("children") or [])[-1:])
                continue
            inner = self._inner_outbound(node)
            if inner is None:
                found.append(current)
            else:
                pending.extend(reversed(inner))
        return found

    def _inner_outbound(self, node: Node) -> list[str] | None:
        """Returns where to look for the outbound nodes of a node; None if it is its own."""
        children = node.get("children") or []
        match node["type"]:
            case "Skipped" | "Suspend" | "HTTP" | "Plugin" | "StepGroup":
                return None
            case "Pod" | "Container":
                own = [id for id in children if self.nodes.get(id, {}).get("type") == "Container"]
                return own or None
            case "TaskGroup":
                return children or None
            case _:
                if (node.get("memoizationStatus") or {}).get("hit"):
                    return None
                return node.get("outboundNodes") or []

    def _copy(self, node: Node) -> Node:
        fresh = node.copy()
        if "children" in fresh:
            fresh["children"] = list(fresh["children"])
        self.nodes[fresh["id"]] = fresh
        self._fresh.add(fresh["id"])
        return fresh

    def _count(self, node: Node, sign: int) -> None:
        kind, phase = node["type"], node["phase"]
        self.budget.size += sign * size_of_node(node)
        if phase in FAILED:
            if sign > 0:
                self.failures.add(node["id"])
            else:
                self.failures.discard(node["id"])
        if kind not in _COUNTED:
            return
        boundary = node.get("boundaryID") or ""
        if kind == "Container":
            boundary = (self.nodes.get(boundary) or {}).get("boundaryID") or ""
        content = self.counts[boundary]
        if kind in _COUNTED_CHILDREN:
            if phase in ACTIVE:
                content.active += sign
                if kind == "Pod" and not (node.get("synchronizationStatus") or {}).get("waiting"):
                    content.active_pods += sign
                    self.totals.active_pods += sign
                    self.running_pods += sign if phase == "Running" else 0
            elif phase in FAILED:
                content.failed += sign
        self._count_amounts(node, content, sign)

    def _count_amounts(self, node: Node, content: BoundaryCounts, sign: int) -> None:
        contents = (content, self.totals) if node["type"] in _LEAVES else (content,)
        parsed = parse_progress(node.get("progress") or "")
        if parsed:
            for each in contents:
                each.done += sign * parsed[0]
                each.total += sign * parsed[1]
        for resource, amount in (node.get("resourcesDuration") or {}).items():
            for each in contents:
                each.durations[resource] = each.durations.get(resource, 0) + sign * amount


_ENGINE_FIELDS = frozenset(
    (
        "phase", "startedAt", "finishedAt", "progress", "message", "conditions", "outputs", "synchronization",
        "storedTemplates", "storedWorkflowTemplateSpec", "resourcesDuration", "nodes",
    )
)  # fmt: skip
"""Fields that the engine writes; others are written by the controllers of volumes and garbage collection."""


class StatusBuilder:
    """The fields are replaced, never changed in place, because they may be being written or sent."""

    def __init__(self, status: Mapping[str, Any]) -> None:
        self.fields: dict[str, Any] = {name: value for name, value in status.items() if name != "nodes"}
        self._changed = False

    @property
    def is_finished(self) -> bool:
        return self.fields.get("phase") in FINISHED_PHASES

    def set(self, **fields: Any) -> None:
        """Sets fields; None removes a field."""
        if all(self.fields.get(name) == value for name, value in fields.items()):
            return
        merged = {**self.fields, **fields}
        self.fields = {name: value for name, value in merged.items() if value is not None}
        self._changed = True

    def adopt(self, status: Mapping[str, Any]) -> None:
        """Takes over fields that others have written."""
        theirs = {name: value for name, value in status.items() if name not in _ENGINE_FIELDS}
        self.fields = {name: value for name, value in self.fields.items() if name in _ENGINE_FIELDS} | theirs

    def set_condition(self, kind: str, value: str) -> None:
        known = self.fields.get("conditions") or []
        others = [condition for condition in known if condition.get("type") != kind]
        if {"type": kind, "status": value} not in known:
            self.set(
                conditions=sorted([*others, {"type": kind, "status": value}], key=lambda c: c["type"] == "Completed")
            )

    def finish(self, phase: str, message: str, now: str) -> None:
        self.set(phase=phase, message=message or None, finishedAt=now)
        if not self.fields.get("startedAt"):
            self.set(startedAt=now)
        self.set_condition("Completed", "True")

    def take(self) -> dict[str, Any] | None:
        """Returns the status if it has changed since the last call."""
        changed, self._changed = self._changed, False
        return self.fields if changed else None
