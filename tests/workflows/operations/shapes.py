"""Finished workflows, written as lines: name, type, phase and children."""

from __future__ import annotations

from typing import Any, cast

from muster.workflows.engine.node_tree import display_name, node_id
from muster.workflows.model import Node

LETTERS = {
    "+": "Succeeded", "-": "Failed", "!": "Error", "o": "Omitted", "s": "Skipped", ">": "Running", ".": "Pending",
}  # fmt: skip


def workflow(
    spec: dict[str, Any], nodes: str, *, phase: str = "Failed", name: str = "wf", **status: Any
) -> dict[str, Any]:
    """Each line is `phase Type name -> child, child`, the phase as a letter of LETTERS. The parts of a name say what it
    is part of; `*` after the type marks a hook, `~` an attempt."""
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": "u-1",
            "labels": {"workflows.argoproj.io/completed": "true", "workflows.argoproj.io/phase": phase, "mine": "x"},
        },
        "spec": spec,
        "status": {
            "phase": phase,
            "message": "child failed",
            "startedAt": "2026-01-01T00:00:00Z",
            "finishedAt": "2026-01-01T00:01:00Z",
            "conditions": [{"type": "PodRunning", "status": "False"}, {"type": "Completed", "status": "True"}],
            **status,
            "nodes": {node["id"]: node for node in _nodes(nodes, name)},
        },
    }


def names(found: dict[str, Any]) -> dict[str, str]:
    """Returns the nodes of a workflow: names to phases."""
    return {node["name"]: node["phase"] for node in found["status"]["nodes"].values()}


def _nodes(text: str, workflow: str) -> list[Node]:
    lines = [line.strip() for line in text.strip().splitlines()]
    boundaries = [line.split()[2] for line in lines if line.split()[1] in ("Steps", "DAG")]
    return [_node(line, workflow, boundaries) for line in lines]


def _node(line: str, workflow: str, boundaries: list[str]) -> Node:
    left, _, right = line.partition("->")
    sign, kind, rest = left.strip().split(maxsplit=2)
    name, _, template = rest.partition(" = ")
    inside = [b for b in boundaries if name.startswith(b) and name != b and name[len(b)] in ".[("]
    boundary = max(inside, key=len, default="")
    node: dict[str, Any] = {
        "id": node_id(workflow, name),
        "name": name,
        "displayName": display_name(name, boundary),
        "type": kind.rstrip("*~"),
        "phase": LETTERS[sign],
        "templateName": template or ("main" if name == workflow else "work"),
        "templateScope": f"local/{workflow}",
        "startedAt": "2026-01-01T00:00:00Z",
    }
    if boundary:
        node["boundaryID"] = node_id(workflow, boundary)
    if sign not in ">.":
        node["finishedAt"] = "2026-01-01T00:00:30Z"
    if kind.endswith("*"):
        node["nodeFlag"] = {"hooked": True}
    if kind.endswith("~"):
        node["nodeFlag"] = {"retried": True}
    children = [part.strip() for part in right.split(",") if part.strip()]
    if children:
        node["children"] = [node_id(workflow, child) for child in children]
    return cast(Node, node)
