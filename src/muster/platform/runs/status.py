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
from muster.platform.graphs.bindings import NODE, TOKEN
from muster.platform.records.runs import NodeState, RunState
from muster.workflows.engine.node_tree import pod_name
from muster.workflows.executors.resource import RETRIES

ENDED: frozenset[str] = frozenset(("succeeded", "failed", "stopped"))
DONE: frozenset[str] = frozenset(("succeeded", "skipped"))

_KILLED = frozenset(("137", "143"))
"""The exit codes of a container that was killed, or asked to end."""
_STOPPED_WITH_RUN = "Stopped together with the run"
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


def read_status(workflow: Object) -> RunStatus:
    status = status_of(workflow)
    stopped = bool(spec_of(workflow).get("shutdown"))
    nodes = tuple(_nodes(workflow, stopped))
    state = _state(str(status.get("phase") or ""), stopped, nodes)
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
    )


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
    return _called(node, name_of(workflow), _by_template(workflow))


def leaves_of(workflow: Object) -> dict[str, list[Mapping[str, Any]]]:
    """The attempts of the nodes of a Workflow, by original name."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for name, _, leaves in _grouped(workflow):
        found.setdefault(name, []).extend(leaves)
    return found


def skipped_message(cause: str, stopped: bool = False) -> str:
    """Why a node did not run. `cause`: the node whose failure prevented it, if any."""
    if stopped:
        return "Skipped because the run was stopped"
    return f"Skipped because {cause} failed" if cause else "Skipped because its condition was not met"


def _nodes(workflow: Object, stopped: bool) -> list[NodeStatus]:
    """One status for each node of the graph. The tasks before and after a training node are part of it."""
    grouped = _grouped(workflow)
    causes = _causes_of_omission(workflow, grouped)
    parts: dict[str, list[NodeStatus]] = {}
    for name, node, leaves in grouped:
        status = _node(workflow, name, node, leaves, stopped)
        if node.get("phase") == "Omitted":
            cause = causes.get(str(node.get("id")), "")
            status = replace(status, message=skipped_message(cause, stopped and not cause))
        parts.setdefault(name, []).append(status)
    return [_joined(name, some) for name, some in parts.items()]


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
    templates = _by_template(workflow)
    attempts_of: dict[str, list[str]] = {}
    for key, node in nodes.items():
        if node.get("type") == "Retry":
            attempts_of[key] = [child for child in node.get("children") or () if _is_attempt(node, nodes.get(child))]
    attempts = {child for children in attempts_of.values() for child in children}
    found = []
    for key, node in nodes.items():
        if node.get("type") in _GROUPS or key in attempts:
            continue
        own = attempts_of.get(key)
        if own is not None and own and all(nodes[child].get("type") in _GROUPS for child in own):
            continue  # what is inside of it speaks for itself
        leaves = [node] if own is None else [nodes[child] for child in own]
        found.append((_called(node, name_of(workflow), templates), node, leaves))
    return found


def _is_attempt(retry: Mapping[str, Any], child: Mapping[str, Any] | None) -> bool:
    return child is not None and str(child.get("name") or "").startswith(f"{retry.get('name')}(")


def _called(node: Mapping[str, Any], workflow: str, templates: Mapping[str, str]) -> str:
    path = str(node.get("name") or "").removeprefix(workflow).lstrip(".")
    return templates.get(path) or path or str(node.get("templateName") or node.get("displayName") or "")


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
        _STOPPED_WITH_RUN if state == "stopped" else str(leaf.get("message") or ""),
        str((leaf.get("outputs") or {}).get("exitCode") or ""),
        str(leaf.get("hostNodeName") or ""),
        _moment(leaf.get("startedAt")),
        _moment(leaf.get("finishedAt")),
    )


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


def _state(phase: str, stopped: bool, nodes: tuple[NodeStatus, ...]) -> RunState:
    if phase == "Succeeded":
        return "succeeded"
    if phase in ("Failed", "Error"):
        return "stopped" if stopped else "failed"
    return "waiting" if all(node.state == "waiting" for node in nodes) else "running"


def _failed_first(nodes: tuple[NodeStatus, ...]) -> NodeStatus | None:
    failed = sorted((n for n in nodes if n.state == "failed"), key=lambda n: (n.finished is None, n.finished))
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
