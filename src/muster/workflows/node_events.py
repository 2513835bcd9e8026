"""The Kubernetes events of a workflow's nodes, as Argo's controller emits them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from muster.kube.objects import parse_time
from muster.workflows.model import Node

_PREFIX = "workflows.argoproj.io"
_COMPLETED = frozenset(("Succeeded", "Failed", "Error", "Skipped", "Omitted"))
_NORMAL = frozenset(("Running", "Succeeded"))


class NodeEvent(NamedTuple):
    severity: Literal["Normal", "Warning"]
    reason: str
    message: str
    annotations: Mapping[str, str]


def phase_events(nodes: Mapping[str, Node], before: Mapping[str, Node], changed: Iterable[str]) -> Iterator[NodeEvent]:
    """Yields the events of the changed nodes that have entered another phase. A node that ends without having been seen
    running has an event for that, too."""
    for name in changed:
        node, was = nodes[name], before.get(name)
        phase, earlier = node.get("phase"), None if was is None else was.get("phase")
        if phase == earlier or (phase == "Pending" and was is None):
            continue
        if phase in _COMPLETED and earlier in (None, "Pending"):
            yield _event(node, "Running", "")
        yield _event(node, str(phase), node.get("message") or "")


def _event(node: Node, phase: str, message: str) -> NodeEvent:
    text = f"{phase} node {node['name']}"
    started = node.get("startedAt")
    nanoseconds = int(parse_time(started).timestamp()) * 10**9 if started else 0
    return NodeEvent(
        "Normal" if phase in _NORMAL else "Warning",
        f"WorkflowNode{phase}",
        f"{text}: {message}" if message else text,
        {
            f"{_PREFIX}/node-type": str(node.get("type") or ""),
            f"{_PREFIX}/node-name": node["name"],
            f"{_PREFIX}/node-id": node["id"],
            f"{_PREFIX}/node-start-time": str(nanoseconds),
        },
    )
