"""Workflows with nodes that a client wrote: `argo resubmit --memoized` over the Kubernetes API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster.kube.objects import Object
from muster.workflows.engine.node_tree import node_id
from muster.workflows.kinds import WORKFLOW
from tests.workflows.controlled_cluster import Stage, stage, task


@pytest.fixture
async def s(tmp_path: Path) -> AsyncIterator[Stage]:
    async with stage(tmp_path) as found:
        yield found


def memoized_copy(name: str) -> Object:
    """As Argo's FormulateResubmitWorkflow makes it of a workflow whose second step failed."""

    def node(path: str, type: str, phase: str, children: list[str], **more: object) -> Object:
        made = {
            "id": node_id(name, name + path),
            "name": name + path,
            "displayName": path.rpartition(".")[2] or name,
            "type": type,
            "phase": phase,
            "templateScope": f"local/{name}",
            "startedAt": "2026-01-01T00:00:00Z",
            "finishedAt": "2026-01-01T00:00:00Z",
            "children": [node_id(name, name + child) for child in children],
            **({"boundaryID": name} if path else {}),
            **more,
        }
        return {key: value for key, value in made.items() if value != []}

    ended = {"outputs": {"exitCode": "0"}, "message": "original pod: before"}
    nodes = [
        node("", "Steps", "Pending", ["[0]"], templateName="main", outboundNodes=[node_id(name, f"{name}[1].b")]),
        node("[0]", "StepGroup", "Pending", ["[0].a"], nodeFlag={}),
        node("[0].a", "Skipped", "Skipped", ["[1]"], templateName="task", **ended),
        node("[1]", "StepGroup", "Pending", ["[1].b"], nodeFlag={}),
        node("[1].b", "Pod", "Pending", [], templateName="task", startedAt=None, finishedAt=None),
    ]
    steps = [[{"name": "a", "template": "task"}], [{"name": "b", "template": "task"}]]
    return {
        "apiVersion": WORKFLOW.api_version,
        "kind": "Workflow",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"entrypoint": "main", "templates": [{"name": "main", "steps": steps}, task()]},
        "status": {
            "nodes": {made["id"]: made for made in nodes},
            "phase": "",
            "startedAt": None,
            "finishedAt": None,
            "conditions": [{"type": "Completed", "status": "False"}],
        },
    }


async def test_pending_nodes_that_a_client_wrote_are_launched(s: Stage) -> None:
    await s.cluster.create(memoized_copy("again"))
    await s.launched("b")
    s.executor.tell("again", "b")
    assert await s.ended("again") == "Succeeded"
    assert s.phase("again", "a") == "Skipped"
