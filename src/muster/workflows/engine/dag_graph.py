"""The dependency graph of a DAG's tasks, and the phase of a DAG once nothing in it runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from muster.workflows.engine.errors import WorkflowError
from muster.workflows.engine.node_tree import COMPLETED, FAILED, NodeTree, continues_on, is_fulfilled
from muster.workflows.lang import depends
from muster.workflows.model import Node, Phase


class Graph:
    def __init__(self, dag: Mapping[str, Any]) -> None:
        """Raises WorkflowError and ExpressionError."""
        self.tasks: dict[str, Mapping[str, Any]] = {str(t["name"]): t for t in dag.get("tasks") or ()}
        self.order = {name: index for index, name in enumerate(self.tasks)}
        self.conditions: dict[str, depends.Depends | None] = {name: _condition(t) for name, t in self.tasks.items()}
        self.needs: dict[str, list[str]] = {}
        self.needed_by: dict[str, list[str]] = {name: [] for name in self.tasks}
        for name, condition in self.conditions.items():
            self.needs[name] = list(depends.tasks(condition)) if condition is not None else []
            for need in self.needs[name]:
                if need not in self.tasks:
                    raise WorkflowError(f"task '{name}' depends on '{need}', but there is no such task")
                self.needed_by[need].append(name)
        target = str(dag.get("target") or "")
        self.targets = target.split() if target else sorted(name for name in self.tasks if not self.needed_by[name])
        for name in self.targets:
            if name not in self.tasks:
                raise WorkflowError(f"target '{name}' is not a task of the DAG")
        self.wanted = self._wanted() if target else set(self.tasks)
        self._check_cycles()
        self.tolerated = {name: _tolerated(t) for name, t in self.tasks.items() if t.get("continueOn")}

    def _wanted(self) -> set[str]:
        """The targets and everything they depend on."""
        found: set[str] = set()
        pending = list(self.targets)
        while pending:
            name = pending.pop()
            if name not in found:
                found.add(name)
                pending.extend(self.needs[name])
        return found

    def _check_cycles(self) -> None:
        unmet = {name: len(needs) for name, needs in self.needs.items()}
        free = [name for name, count in unmet.items() if not count]
        for name in free:
            for waiting in self.needed_by[name]:
                unmet[waiting] -= 1
                if not unmet[waiting]:
                    free.append(waiting)
        if len(free) < len(unmet):
            circle = ", ".join(name for name, count in unmet.items() if count)
            raise WorkflowError(f"these tasks depend on each other in a cycle: {circle}")

    def holds(self, name: str, results: Mapping[str, Collection[str]]) -> bool:
        """Whether a task runs, given the results of its dependencies. Raises ExpressionError."""
        condition = self.conditions[name]
        return condition is None or depends.evaluate(condition, results, self.tolerated)


def task_results(node: Node, tree: NodeTree) -> frozenset[str]:
    """Returns the results of a task's node, in the vocabulary of `depends`."""
    phase = node["phase"]
    found = {"Errored" if phase == "Error" else str(phase)}
    if node.get("daemoned") and phase != "Pending":
        found.add("Daemoned")
    if node["type"] == "TaskGroup":
        phases = [child["phase"] for child in tree.children(node["id"])]
        if "Succeeded" in phases:
            found.add("AnySucceeded")
        if phases and all(each == "Failed" for each in phases):
            found.add("AllFailed")
    return frozenset(found)


def _condition(task: Mapping[str, Any]) -> depends.Depends | None:
    if task.get("depends"):
        return depends.parse(str(task["depends"]))
    return depends.from_dependencies(task["dependencies"]) if task.get("dependencies") else None


def _tolerated(task: Mapping[str, Any]) -> tuple[str, ...]:
    on = task["continueOn"]
    return (*(("Errored",) if on.get("error") else ()), *(("Failed",) if on.get("failed") else ()))


def dag_phase(graph: Graph, tree: NodeTree, boundary: Node, *, fail_fast: bool) -> Phase:
    """Running while a target has not been visited. A target that did not run takes the phase of its predecessors, and
    failure outweighs success."""
    found = _target_phases(graph, tree, boundary)
    result: Phase = "Succeeded"
    for name in graph.targets:
        phase = found[tree.id_of(f"{boundary['name']}.{name}")]
        if phase is None:
            result = "Running"
            if not fail_fast:
                break
        elif phase in FAILED:
            if continues_on(graph.tasks[name].get("continueOn"), phase):
                continue
            result = phase
            if fail_fast:
                break
    return result


def _target_phases(graph: Graph, tree: NodeTree, boundary: Node) -> dict[str, Phase | None]:
    targets: dict[str, Phase | None] = {tree.id_of(f"{boundary['name']}.{name}"): None for name in graph.targets}
    seen: set[tuple[str, Phase]] = set()
    queue: deque[tuple[str, Phase]] = deque()

    def add(ids: Iterable[str], phase: Phase) -> None:
        for node_id in ids:
            if (node_id, phase) not in seen and node_id in tree.nodes:
                seen.add((node_id, phase))
                queue.append((node_id, phase))

    add(boundary.get("children") or (), "Succeeded")
    while queue:
        node_id, branch = queue.popleft()
        node = tree.nodes[node_id]
        if not is_fulfilled(node):
            continue
        if node["phase"] in COMPLETED:
            branch = node["phase"]
        if node_id in targets and targets[node_id] not in FAILED:
            targets[node_id] = branch
        add(_successors(node, tree), branch)
    return targets


def _successors(node: Node, tree: NodeTree) -> list[str]:
    """Returns what follows a node. For a node with retries, what follows its attempts; the attempts themselves do not
    count."""
    if node["type"] != "Retry":
        return node.get("children") or []
    found: list[str] = []
    for child in reversed(list(tree.children(node["id"]))):
        flag = child.get("nodeFlag") or {}
        if flag.get("hooked") and not flag.get("retried"):
            found.append(child["id"])
        else:
            found.extend(child.get("children") or ())
    return found
