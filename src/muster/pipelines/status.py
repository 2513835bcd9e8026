"""What a pipeline run reports: its state, and one entry for every task, iteration and nested pipeline. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Literal

from muster.kube.objects import Object, name_of, parse_time, status_of, version_of
from muster.pipelines.inputs import collect_iterations
from muster.pipelines.model import Component
from muster.pipelines.records import ArtifactRecord, PipelineRun
from muster.pipelines.records import State as RunState
from muster.pipelines.resolver import node_inputs, node_outputs
from muster.pipelines.spec import Pipeline
from muster.pipelines.task import Artifact, TaskInputs, TaskOutputs
from muster.workflows.engine.node_tree import pod_name
from muster.workflows.model import FINISHED_PHASES, Node

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
class RunStatus:
    """How far a Workflow is."""

    state: RunState
    error: str = ""
    finished: datetime | None = None
    version: str = ""


def read_status(workflow: Object, run: PipelineRun) -> RunStatus:
    """Says how far a run is. One that was canceled ends as FAILED, because kfp.Client waits for ever on CANCELED."""
    status, version = status_of(workflow), version_of(workflow)
    phase = status.get("phase") or ""
    if phase not in FINISHED_PHASES:
        if run.state == "CANCELING":
            return RunStatus("CANCELING", version=version)
        return RunStatus("RUNNING" if phase == "Running" else "PENDING", version=version)
    finished = parse_time(status["finishedAt"]) if status.get("finishedAt") else run.finished or datetime.now(UTC)
    if phase == "Succeeded":
        return RunStatus("SUCCEEDED", "", finished, version)
    message = str(status.get("message") or "the run failed")
    error = f"The run was canceled by {run.stopped_by}." if run.stopped_by else message
    return RunStatus("FAILED", error, finished, version)


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


def task_document(run_id: str, task: TaskDetail) -> dict[str, Any]:
    """Returns a task as the API has it. `node` is what Kubeflow Pipelines leaves out: parameters, attempts, kind."""
    found: dict[str, Any] = {
        "run_id": run_id,
        "task_id": task.task_id,
        "display_name": task.display_name,
        "create_time": task.created,
        "start_time": task.started,
        "end_time": task.finished,
        "state": task.state,
        "parent_task_id": task.parent_task_id,
        "pod_name": task.pod_name,
        "child_tasks": [{"pod_name": pod} for pod in task.attempts],
        "error": {"code": 13, "message": task.error} if task.error else None,
        "node": {
            "name": task.node_name,
            "kind": task.kind,
            "component": task.component,
            "iteration": task.iteration,
            "cached": task.cached,
            "attempts": list(task.attempts),
            "inputs": task.inputs.to_json(),
            "outputs": task.outputs.to_json(),
        },
    }
    return {name: value for name, value in found.items() if value not in (None, "", [])}


def artifact_records(run_id: str, tasks: list[TaskDetail]) -> Iterator[ArtifactRecord]:
    """The artifacts that the tasks of a run made and used. A nested pipeline only passes on what is inside of it."""
    for task in tasks:
        if task.kind not in ("container", "importer"):
            continue
        moment = parse_time(task.finished or task.created) if task.finished or task.created else datetime.now(UTC)
        for direction, named in (("input", task.inputs.artifacts), ("output", task.outputs.artifacts)):
            for key, listed in named.items():
                for position, artifact in enumerate(listed):
                    yield ArtifactRecord(
                        run_id,
                        task.task_id,
                        "input" if direction == "input" else "output",
                        key,
                        position,
                        artifact_id(artifact),
                        artifact.name,
                        artifact.type.schema_title,
                        artifact.uri,
                        dict(artifact.metadata),
                        moment,
                    )


def artifact_id(artifact: Artifact) -> str:
    """Equal wherever the same artifact is used: its uri contains the run and the task that made it."""
    return sha256(artifact.uri.encode()).hexdigest()[:32]


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
