"""What a pipeline run reports about its tasks: one entry for every task, iteration and nested pipeline. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from muster.kube.objects import Object, name_of, status_of
from muster.pipelines.inputs import collect_iterations
from muster.pipelines.model import Component
from muster.pipelines.resolver import node_inputs, node_outputs
from muster.pipelines.spec import Pipeline
from muster.pipelines.task import TaskInputs, TaskOutputs
from muster.workflows.engine.node_tree import pod_name
from muster.workflows.model import Node

State = Literal["PENDING", "RUNNING", "SUCCEEDED", "SKIPPED", "FAILED"]
_STATES: Mapping[str, State] = {
    "Pending": "PENDING",
    "Running": "RUNNING",
    "Succeeded": "SUCCEEDED",
    "Skipped": "SKIPPED",
    "Omitted": "SKIPPED",
    "Failed": "FAILED",
    "Error": "FAILED",
}

_NUMBER = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class TaskDetail:
    task_id: str
    """The id of the node."""
    display_name: str
    """The key of the task in its DAG; `root` for the pipeline itself."""
    kind: Literal["root", "dag", "loop", "container", "importer", "skipped"]
    state: State
    node_name: str
    """Unique in the run: `demo-abc.for-loop-1(3).print`."""
    component: str = ""
    parent_task_id: str = ""
    iteration: int | None = None
    """In the loop that `parent_task_id` is."""
    created: str = ""
    started: str = ""
    finished: str = ""
    pod_name: str = ""
    """Of the last attempt; empty if nothing ran for it."""
    attempts: tuple[str, ...] = ()
    """The Pods of all attempts, in order."""
    cached: bool = False
    error: str = ""
    inputs: TaskInputs = field(default_factory=TaskInputs)
    outputs: TaskOutputs = field(default_factory=TaskOutputs)


def task_details(workflow: Object, pipeline: Pipeline | None = None) -> list[TaskDetail]:
    """Returns the tasks of a run in the order in which they began. With the pipeline, loops have outputs, too."""
    tree = _Tree(workflow)
    return [_detail(node, tree, pipeline) for node in tree.tasks()]


class _Tree:
    def __init__(self, workflow: Object) -> None:
        self.workflow = name_of(workflow)
        self.nodes: Mapping[str, Node] = status_of(workflow).get("nodes") or {}
        self.by_name = {node["name"]: node for node in self.nodes.values()}
        self.members: dict[str, list[Node]] = {}
        """Iterations of loops, and attempts of tasks, by the id of the loop or task."""
        for node in self.nodes.values():
            group = self.group(node)
            if group is not None:
                self.members.setdefault(group["id"], []).append(node)
        for listed in self.members.values():
            listed.sort(key=_number)

    def tasks(self) -> Iterator[Node]:
        for node in sorted(self.nodes.values(), key=lambda n: (n.get("startedAt") or "", _natural(n["name"]))):
            group = self.group(node)
            if node["type"] != "Container" and (group is None or group["type"] != "Retry"):
                yield node

    def parent(self, node: Node) -> str:
        """Returns the id of the DAG that a task is in. One that is retried has a node for each attempt, in one task."""
        around = self.nodes.get(node.get("boundaryID") or "")
        if around is None:
            return ""
        group = self.group(around)
        return group["id"] if group is not None and group["type"] == "Retry" else around["id"]

    def group(self, node: Node) -> Node | None:
        """Returns the loop of an iteration, or the task of an attempt."""
        if not node["name"].endswith(")"):
            return None
        found = self.by_name.get(node["name"].rpartition("(")[0])
        return found if found is not None and found["type"] in ("TaskGroup", "Retry") else None


def _detail(node: Node, tree: _Tree, pipeline: Pipeline | None) -> TaskDetail:
    group = tree.group(node)
    is_root = node["name"] == tree.workflow
    attempts = [n for n in tree.members.get(node["id"], ()) if n["type"] == "Pod"] if node["type"] == "Retry" else []
    template = node.get("templateName") or ""
    hit = bool((node.get("memoizationStatus") or {}).get("hit"))
    if node["type"] == "Pod" and not hit:
        attempts = [node]
    pods = tuple(pod_name(tree.workflow, each["name"], template) for each in attempts)
    state = _STATES.get(node["phase"], "PENDING")
    return TaskDetail(
        task_id=node["id"],
        display_name="root" if is_root else _key(node if group is None else group),
        kind=_kind(node, tree),
        state=state,
        node_name=node["name"],
        component=template,
        parent_task_id=group["id"] if group is not None else tree.parent(node),
        iteration=_number(node) if group is not None else None,
        created=node.get("startedAt") or "",
        started=node.get("startedAt") or "",
        finished=node.get("finishedAt") or "",
        pod_name=pods[-1] if pods else "",
        attempts=pods,
        cached=hit,
        error=(node.get("message") or "the task failed") if state == "FAILED" else "",
        inputs=node_inputs(_first_with_inputs(node, attempts)),
        outputs=_outputs(node, tree, pipeline),
    )


def _outputs(node: Node, tree: _Tree, pipeline: Pipeline | None) -> TaskOutputs:
    if node["type"] != "TaskGroup" or pipeline is None:
        return node_outputs(node)
    component: Component | None = pipeline.spec.components.get(node.get("templateName") or "")
    iterations = [node_outputs(each) for each in tree.members.get(node["id"], ())]
    return collect_iterations(component, iterations) if component is not None else TaskOutputs()


def _first_with_inputs(node: Node, attempts: list[Node]) -> Node:
    return next((each for each in (node, *attempts) if each.get("inputs")), node)


def _kind(node: Node, tree: _Tree) -> Any:
    if node["name"] == tree.workflow:
        return "root"
    if any(member["type"] == "DAG" for member in tree.members.get(node["id"], ()) if node["type"] == "Retry"):
        return "dag"
    kinds = {"DAG": "dag", "TaskGroup": "loop", "Plugin": "importer", "Skipped": "skipped"}
    return kinds.get(node["type"], "container")


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorts `loop(2)` before `loop(10)`."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in _NUMBER.split(name)]


def _key(node: Node) -> str:
    """`demo.for-loop-1(3).print` -> `print`."""
    return node["name"].rpartition(".")[2]


def _number(node: Node) -> int:
    text = node["name"].rpartition("(")[2][:-1]
    return int(text) if text.isdecimal() else 0
