"""What the definition of a metric may name besides the workflow's own variables. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from muster.kube.objects import Object, parse_time, status_of
from muster.workflows.model import Node

_ENDED = frozenset(("Succeeded", "Failed", "Error", "Skipped", "Omitted"))


def node_variables(node: Node, now: datetime) -> dict[str, str]:
    """`duration`, `status`, `exitCode`, `retries`, `inputs.*`, `outputs.*` and `resourcesDuration.*` of a node."""
    outputs = node.get("outputs") or {}
    found = {
        "duration": f"{seconds_of(node.get('startedAt'), _end(node), now):f}",
        "status": str(node.get("phase") or "Pending"),
        "resourcesDuration.cpu": "0",
        "resourcesDuration.memory": "0",
        **{f"resourcesDuration.{name}": str(value) for name, value in (node.get("resourcesDuration") or {}).items()},
        **_parameters("inputs", (node.get("inputs") or {}).get("parameters")),
        **_parameters("outputs", outputs.get("parameters")),
    }
    if node.get("children"):
        found["retries"] = str(len(node["children"]) - 1)
    if outputs.get("result") is not None:
        found["outputs.result"] = str(outputs["result"])
    if outputs.get("exitCode") is not None:
        found["exitCode"] = str(outputs["exitCode"])
    return found


def workflow_variables(workflow: Object, now: datetime) -> dict[str, str]:
    """`workflow.duration` and `workflow.status`, and the durations and outputs that a workflow's metrics may name."""
    status = status_of(workflow)
    seconds = seconds_of(status.get("startedAt"), status.get("finishedAt"), now)
    return {
        "workflow.duration": f"{seconds:f}",
        "workflow.status": str(status.get("phase") or "Pending"),
        "duration": f"{seconds:f}",
        "status": str(status.get("phase") or "Pending"),
        "resourcesDuration.cpu": "0",
        "resourcesDuration.memory": "0",
        **{f"resourcesDuration.{name}": str(value) for name, value in (status.get("resourcesDuration") or {}).items()},
        **_parameters("workflow.outputs", (status.get("outputs") or {}).get("parameters")),
    }


def seconds_of(started: str | None, finished: str | None, now: datetime) -> float:
    if not started:
        return 0.0
    end = parse_time(finished) if finished else now
    return (end - parse_time(started)).total_seconds()


def _end(node: Node) -> str | None:
    return node.get("finishedAt") if node.get("phase") in _ENDED else None


def _parameters(prefix: str, parameters: list[dict[str, Any]] | None) -> dict[str, str]:
    return {f"{prefix}.parameters.{p.get('name')}": str(p.get("value") or "") for p in parameters or ()}
