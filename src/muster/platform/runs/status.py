"""The status of a run and its nodes, read from its Workflow. Pure."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import orjson

from muster.kube.objects import Object, annotations_of, name_of, parse_time, spec_of, status_of, version_of
from muster.platform.graphs.bindings import ENTRYPOINT, NODE, TOKEN
from muster.platform.records.runs import NodeState, RunState
from muster.workflows.backend import lacks_nodes
from muster.workflows.engine.node_tree import pod_name
from muster.workflows.executors.resource import RETRIES

ENDED: frozenset[str] = frozenset(("succeeded", "failed", "stopped"))
READ_AGAIN_SECONDS = 300.0
"""How long an ended run waits for its nodes, if Argo keeps them elsewhere and they cannot be read."""
NODES_LATER = "The run has ended. Its nodes cannot be read yet; the server tries again"
NODES_UNKNOWN = "Not known: Argo did not return the nodes of this run"
DONE: frozenset[str] = frozenset(("succeeded", "skipped"))

_KILLED = frozenset(("137", "143"))
"""The exit codes of a container that was killed, or asked to end."""
_STOPPED_WITH_RUN = "Stopped together with the run"
_CONDITION = "Skipped because its condition was not met"
_DEADLINE = "Pod was active on the node longer than the specified deadline"
_ARGUMENT_TASK = re.compile(r"\{\{tasks\.([a-z0-9-]+)\.outputs\.")
_EXPRESSION_LIST = re.compile(r"\? tasks\['([a-z0-9-]+)'\]")
_ITERATION = re.compile(r"([a-z0-9-]+)\((\d+):(.*)\)", re.DOTALL)
_ITERATION_NAME = re.compile(r"(.+?)\((\d+):.*\)", re.DOTALL)
"""The name of an iteration, as `_Names` makes it: the node, the number of the item, the item."""
_LONGEST_ITEM = 40
_GROUPS = frozenset(("Steps", "StepGroup", "DAG", "TaskGroup"))
_STATES: Mapping[str, NodeState] = {
    "Pending": "waiting",
    "Running": "running",
    "Succeeded": "succeeded",
    "Failed": "failed",
    "Error": "failed",
    "Skipped": "skipped",
    "Omitted": "skipped",
}


@dataclass(frozen=True, slots=True)
class AttemptStatus:
    key: str
    """The id of the node in the Workflow."""
    pod: str
    """'' if it has none, as a training job's task."""
    state: NodeState
    message: str = ""
    exit_code: str = ""
    host: str = ""
    started: datetime | None = None
    finished: datetime | None = None


@dataclass(frozen=True, slots=True)
class NodeStatus:
    name: str
    state: NodeState
    message: str
    started: datetime | None
    finished: datetime | None
    attempts: tuple[AttemptStatus, ...]


@dataclass(frozen=True, slots=True)
class RunStatus:
    state: RunState
    message: str
    started: datetime | None
    finished: datetime | None
    round: int
    nodes: tuple[NodeStatus, ...]
    version: str
    """The resourceVersion of the Workflow."""
    cause: str = ""
    """The node that made the run fail: the one that failed first."""
    has_nodes: bool = True
    """False if its nodes could not be read."""


def read_status(workflow: Object) -> RunStatus:
    status = status_of(workflow)
    stopped = bool(spec_of(workflow).get("shutdown"))
    nodes = tuple(_nodes(workflow, stopped))
    has_nodes = not lacks_nodes(workflow)
    state = _state(str(status.get("phase") or ""), stopped, nodes, has_nodes)
    failed = _failed_first(nodes) if state == "failed" else None
    return RunStatus(
        state,
        _message(state, nodes, failed, str(status.get("message") or "")),
        _moment(status.get("startedAt")),
        _moment(status.get("finishedAt")),
        round_of(workflow),
        nodes,
        version_of(workflow),
        failed.name if failed is not None else "",
        has_nodes,
    )


def while_unread(found: RunStatus, seconds: float) -> RunStatus:
    """Returns the status to store if the nodes could not be read for so long: the run has not ended before they are
    known, unless that takes too long."""
    if found.has_nodes or found.state not in ENDED or seconds >= READ_AGAIN_SECONDS:
        return found
    return replace(found, state="running", message=NODES_LATER, finished=None)


def map_messages(found: RunStatus, change: Callable[[str], str]) -> RunStatus:
    """Returns the status with every message changed."""

    def attempt(one: AttemptStatus) -> AttemptStatus:
        return replace(one, message=change(one.message)) if one.message else one

    nodes = tuple(
        replace(node, message=change(node.message), attempts=tuple(map(attempt, node.attempts))) for node in found.nodes
    )
    return replace(found, message=change(found.message), nodes=nodes)


def has_messages(found: RunStatus) -> bool:
    return bool(found.message or any(n.message or any(a.message for a in n.attempts) for n in found.nodes))


def round_of(workflow: Object) -> int:
    """How often the run was retried."""
    said = annotations_of(workflow).get(RETRIES, "0")
    return int(said) if said.isdecimal() and len(said) < 10 else 0


def node_named(workflow: Object, node: Mapping[str, Any]) -> str:
    """The original name of a node of the Workflow that is neither a group nor an attempt."""
    return _Names(workflow).of(node)


def leaves_of(workflow: Object) -> dict[str, list[Mapping[str, Any]]]:
    """The attempts of the nodes of a Workflow, by original name."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for name, _, leaves in _grouped(workflow):
        found.setdefault(name, []).extend(leaves)
    return found


def split_iteration(name: str) -> tuple[str, int] | None:
    """Returns the node and the number of the item of an iteration, `train(0:red)`; None for other names."""
    found = _ITERATION_NAME.fullmatch(name)
    return (found[1], int(found[2])) if found is not None else None


def skipped_message(cause: str, stopped: bool = False) -> str:
    """Why a node did not run. `cause`: the node whose failure prevented it, if any."""
    if stopped:
        return "Skipped because the run was stopped"
    return f"Skipped because {cause} failed" if cause else _CONDITION


def _nodes(workflow: Object, stopped: bool) -> list[NodeStatus]:
    """One status for each node of the graph, and for each iteration of a loop. The tasks before and after a training
    node are part of it."""
    grouped = _grouped(workflow)
    causes = _causes_of_omission(workflow, grouped)
    skipped = _SkippedTasks(workflow) if is_compiled(workflow) else None
    parts: dict[str, list[NodeStatus]] = {}
    for name, node, leaves in grouped:
        status = _node(workflow, name, node, leaves, stopped)
        if node.get("phase") == "Omitted":
            cause = causes.get(str(node.get("id")), "")
            status = replace(status, message=skipped_message(cause, stopped and not cause))
        elif node.get("phase") == "Skipped" and skipped is not None:
            status = replace(status, message=skipped.message(node))
        parts.setdefault(name, []).append(status)
    return [_joined(name, some) for name, some in parts.items()]


def is_compiled(workflow: Object) -> bool:
    """Whether it was compiled from a graph, so that its tasks have the names of their templates."""
    spec = spec_of(workflow)
    entry: Mapping[str, Any] = next(iter(spec.get("templates") or ()), {})
    tasks = (entry.get("dag") or {}).get("tasks") or ()
    is_entry = spec.get("entrypoint") == entry.get("name") == ENTRYPOINT
    return bool(is_entry and tasks and all(task.get("name") == task.get("template") for task in tasks))


class _SkippedTasks:
    """Why tasks of a compiled Workflow were skipped although nothing failed."""

    def __init__(self, workflow: Object) -> None:
        self._tasks = {str(task["name"]): task for task in spec_of(workflow)["templates"][0]["dag"]["tasks"]}
        self._names = _Names(workflow)
        self._prefix = f"{name_of(workflow)}."
        nodes: Mapping[str, Mapping[str, Any]] = status_of(workflow).get("nodes") or {}
        self._skipped = {self._task(node) for node in nodes.values() if node.get("phase") == "Skipped"}

    def message(self, node: Mapping[str, Any]) -> str:
        task = self._tasks.get(self._task(node), {})
        written = orjson.dumps([task.get("arguments"), task.get("withParam")]).decode()
        for name in (*_ARGUMENT_TASK.findall(written), *_EXPRESSION_LIST.findall(str(task.get("withParam") or ""))):
            if name in self._skipped:
                return f"Skipped because {self._names.of_task(name)} was skipped"
        has_condition = "when" in task or str(task.get("withParam") or "").startswith("{{=")
        return _CONDITION if has_condition else "Skipped because its list is empty"

    def _task(self, node: Mapping[str, Any]) -> str:
        return str(node.get("name") or "").removeprefix(self._prefix)


def _causes_of_omission(
    workflow: Object, grouped: Iterable[tuple[str, Mapping[str, Any], list[Mapping[str, Any]]]]
) -> dict[str, str]:
    """By the ids of omitted nodes: the nearest node before it that failed, by its author's name."""
    nodes: Mapping[str, Mapping[str, Any]] = status_of(workflow).get("nodes") or {}
    omitted = [key for key, node in nodes.items() if node.get("phase") == "Omitted"]
    if not omitted:
        return {}
    names = {str(each.get("id")): name for name, node, leaves in grouped for each in (node, *leaves)}
    parents: dict[str, list[str]] = {}
    for key, node in nodes.items():
        for child in node.get("children") or ():
            parents.setdefault(child, []).append(key)
    found: dict[str, str] = {}
    for key in omitted:
        ahead, seen = deque(parents.get(key, ())), {key}
        while ahead and key not in found:
            parent = ahead.popleft()
            if parent in seen:
                continue
            seen.add(parent)
            phase = nodes[parent].get("phase")
            if phase in ("Failed", "Error") and parent in names:
                found[key] = names[parent]
            elif parent in found:
                found[key] = found[parent]
            elif phase == "Omitted":
                ahead += parents.get(parent, ())
        found.setdefault(key, "")
    return found


def _grouped(workflow: Object) -> list[tuple[str, Mapping[str, Any], list[Mapping[str, Any]]]]:
    """Per task: what its author calls it, the node that stands for it, and its attempts."""
    nodes: Mapping[str, Mapping[str, Any]] = status_of(workflow).get("nodes") or {}
    names = _Names(workflow)
    attempts_of: dict[str, list[str]] = {}
    for key, node in nodes.items():
        if node.get("type") == "Retry":
            attempts_of[key] = [child for child in node.get("children") or () if _is_attempt(node, nodes.get(child))]
    attempts = {child for children in attempts_of.values() for child in children}
    found: list[tuple[str, Mapping[str, Any], list[Mapping[str, Any]]]] = []
    has_loops = is_compiled(workflow)
    for key, node in nodes.items():
        if has_loops and node.get("type") == "TaskGroup":
            found.append((names.of(node), node, []))
        if node.get("type") in _GROUPS or key in attempts:
            continue
        own = attempts_of.get(key)
        if own is not None and own and all(nodes[child].get("type") in _GROUPS for child in own):
            continue  # what is inside of it speaks for itself
        leaves = [node] if own is None else [nodes[child] for child in own]
        found.append((names.of(node), node, leaves))
    return _in_order(found) if has_loops else found


def _in_order(
    found: list[tuple[str, Mapping[str, Any], list[Mapping[str, Any]]]],
) -> list[tuple[str, Mapping[str, Any], list[Mapping[str, Any]]]]:
    """Puts iterations behind their loop, by their numbers: the status has them in the order in which they started."""
    places: dict[str, int] = {}

    def place(name: str) -> tuple[int, int]:
        task, number = split_iteration(name) or (name, -1)
        return places.setdefault(task, len(places)), number

    return sorted(found, key=lambda each: place(each[0]))


def _is_attempt(retry: Mapping[str, Any], child: Mapping[str, Any] | None) -> bool:
    return child is not None and str(child.get("name") or "").startswith(f"{retry.get('name')}(")


class _Names:
    """What the nodes of a Workflow are called by its author."""

    def __init__(self, workflow: Object) -> None:
        self._workflow = name_of(workflow)
        self._originals = _by_template(workflow)
        self._is_compiled = is_compiled(workflow)

    def of(self, node: Mapping[str, Any]) -> str:
        path = str(node.get("name") or "").removeprefix(self._workflow).lstrip(".")
        found = _ITERATION.fullmatch(path) if self._is_compiled else None
        if found is not None:
            return f"{self.of_task(found[1])}({found[2]}:{_shown_item(found[3])})"
        return self.of_task(path) or str(node.get("templateName") or node.get("displayName") or "")

    def of_task(self, path: str) -> str:
        return self._originals.get(path) or path


def _shown_item(item: str) -> str:
    """The number of an iteration tells it apart. Of its item, the name has what is short and can be in an address."""
    plain = "".join(char if char.isprintable() and char not in "/\\%?#" else " " for char in item).strip()
    return plain if len(plain) <= _LONGEST_ITEM else f"{plain[: _LONGEST_ITEM - 1]}…"


def _by_template(workflow: Object) -> dict[str, str]:
    """Original names by template, where they differ."""
    templates = spec_of(workflow).get("templates") or ()
    return {
        str(template.get("name")): str(template["annotations"][NODE])
        for template in templates
        if NODE in (template.get("annotations") or {})
    }


def _node(
    workflow: Object, name: str, node: Mapping[str, Any], leaves: list[Mapping[str, Any]], stopped: bool
) -> NodeStatus:
    has_run = [leaf for leaf in leaves if leaf.get("phase") not in ("Skipped", "Omitted")]
    attempts = tuple(_attempt(workflow, leaf, stopped) for leaf in has_run)
    state = _node_state(node, stopped)
    if stopped and state == "failed" and attempts and attempts[-1].state == "stopped":
        state = "stopped"
    if state == "running" and attempts and all(attempt.state == "waiting" for attempt in attempts):
        state = "waiting"
    message = str(node.get("message") or (leaves[-1].get("message") if leaves else "") or "")
    message = _timeout_message(workflow, node, message)
    if state == "stopped":
        message = _STOPPED_WITH_RUN
    return NodeStatus(name, state, message, _moment(node.get("startedAt")), _moment(node.get("finishedAt")), attempts)


def _attempt(workflow: Object, leaf: Mapping[str, Any], stopped: bool) -> AttemptStatus:
    template = (leaf.get("templateRef") or {}).get("template") or leaf.get("templateName") or ""
    has_pod = leaf.get("type") == "Pod" and "resource" not in _template(workflow, str(template))
    state = _node_state(leaf, stopped)
    return AttemptStatus(
        str(leaf.get("id") or ""),
        pod_name(name_of(workflow), str(leaf.get("name") or ""), str(template)) if has_pod else "",
        state,
        _STOPPED_WITH_RUN if state == "stopped" else _timeout_message(workflow, leaf, str(leaf.get("message") or "")),
        str((leaf.get("outputs") or {}).get("exitCode") or ""),
        str(leaf.get("hostNodeName") or ""),
        _moment(leaf.get("startedAt")),
        _moment(leaf.get("finishedAt")),
    )


def _timeout_message(workflow: Object, node: Mapping[str, Any], message: str) -> str:
    """Returns the message of a node, in plainer words if it ran into its timeout. A training job has the timeout
    itself, and Argo tells only that it failed."""
    template = _template(workflow, str(node.get("templateName") or "")) if message else {}
    if "resource" in template and "failure condition" in message.lower():
        written = re.search(r'"?activeDeadlineSeconds"?: (\d+)', str(template["resource"].get("manifest") or ""))
        started, finished = _moment(node.get("startedAt")), _moment(node.get("finishedAt"))
        if written is None or started is None or finished is None:
            return message
        late = (finished - started).total_seconds() >= int(written[1])
        return f"Ran longer than its timeout of {written[1]} seconds" if late else message
    seconds = template.get("activeDeadlineSeconds")
    return f"Ran longer than its timeout of {seconds} seconds" if seconds and _DEADLINE in message else message


def _template(workflow: Object, name: str) -> Mapping[str, Any]:
    templates = spec_of(workflow).get("templates") or ()
    return next((template for template in templates if template.get("name") == name), {})


def _node_state(node: Mapping[str, Any], stopped: bool) -> NodeState:
    state = _STATES.get(str(node.get("phase") or ""), "waiting")
    return "stopped" if stopped and state == "failed" and _was_ended(node) else state


def _was_ended(node: Mapping[str, Any]) -> bool:
    """Whether a failed node of a stopped run was ended with it. Argo tells only how its container ended."""
    message = str(node.get("message") or "")
    killed = str((node.get("outputs") or {}).get("exitCode") or "") in _KILLED and "OOMKilled" not in message
    return killed or "shutdown" in message


def _joined(name: str, parts: list[NodeStatus]) -> NodeStatus:
    if len(parts) == 1:
        return parts[0]
    states = {part.state for part in parts}
    state: NodeState = "running"
    for worst in ("failed", "stopped"):
        if worst in states:
            state = worst
            break
    else:
        if len(states) == 1:
            state = parts[0].state
    started = [part.started for part in parts if part.started]
    finished = [part.finished for part in parts if part.finished]
    return NodeStatus(
        name,
        state,
        next((part.message for part in parts if part.state == state and part.message), ""),
        min(started, default=None),
        max(finished, default=None) if len(finished) == len(parts) else None,
        # The task in the middle is the job itself: it makes the attempts.
        next((part.attempts for part in parts if any(not a.pod for a in part.attempts)), parts[0].attempts),
    )


def _state(phase: str, stopped: bool, nodes: tuple[NodeStatus, ...], has_nodes: bool) -> RunState:
    if phase == "Succeeded":
        return "succeeded"
    if phase in ("Failed", "Error"):
        return "stopped" if stopped else "failed"
    return "waiting" if has_nodes and all(node.state == "waiting" for node in nodes) else "running"


def _failed_first(nodes: tuple[NodeStatus, ...]) -> NodeStatus | None:
    # A loop fails because one of its iterations did.
    own = [n for n in nodes if n.state == "failed" and n.attempts] or [n for n in nodes if n.state == "failed"]
    failed = sorted(own, key=lambda n: (n.finished is None, n.finished))
    return failed[0] if failed else None


def _message(state: RunState, nodes: tuple[NodeStatus, ...], failed: NodeStatus | None, own: str) -> str:
    if failed is not None:
        return f"{failed.name}: {failed.message}" if failed.message else f"{failed.name} failed"
    if state == "stopped":
        return ""  # who stopped it is in the database
    if state == "waiting":
        return next((f"{node.name}: {node.message}" for node in nodes if node.message), own)
    return own


def _moment(text: Any) -> datetime | None:
    return parse_time(text) if text else None


# Keeps secrets out of what is shown: logs, messages, values.
#
# Which texts are secret is written into the run's own Secret, and nowhere else.


MASK = "***"
KEY = "masked"
SHORTEST = 4
"""Shorter texts occur everywhere; masking them would reveal where."""

_TOKEN = re.compile(r"mst_[0-9a-f]{64}")


def with_masks(secret: Object, values: Iterable[str]) -> Object:
    """Adds the list of secret texts to the Secret of a run."""
    texts = sorted({line for value in values for line in (value, *value.splitlines()) if len(line) >= SHORTEST})
    data = {**secret["data"], KEY: _encoded(orjson.dumps(texts).decode())}
    return {**secret, "data": data}


def with_token(secret: Object, token: str) -> Object:
    return {**secret, "data": {**secret["data"], TOKEN: _encoded(token)}}


class Masks:
    def __init__(self, texts: Iterable[str] = ()) -> None:
        # The longest first: one text may be the start of another.
        longest = sorted((text for text in texts if len(text) >= SHORTEST), key=len, reverse=True)
        self._pattern = re.compile("|".join([*map(re.escape, longest), _TOKEN.pattern]))

    @classmethod
    def of(cls, secret: Object | None) -> Masks:
        data = (secret or {}).get("data") or {}
        texts = orjson.loads(b64decode(data[KEY])) if KEY in data else []
        if data.get(TOKEN):
            texts = [*texts, b64decode(data[TOKEN]).decode()]
        return cls(texts)

    def text(self, shown: str) -> str:
        return self._pattern.sub(MASK, shown)

    def anything(self, shown: Any) -> Any:
        """Masks all texts in a JSON value."""
        if isinstance(shown, str):
            return self.text(shown)
        if isinstance(shown, dict):
            return {key: self.anything(value) for key, value in shown.items()}
        if isinstance(shown, (list, tuple)):
            return [self.anything(value) for value in shown]
        return shown


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode()
