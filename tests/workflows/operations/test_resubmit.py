from __future__ import annotations

from typing import Any

import pytest

from muster.kube.errors import BadRequest
from muster.workflows.engine.node_tree import node_id
from muster.workflows.executors.resource import RETRIES
from muster.workflows.operations.resubmit import resubmit
from tests.workflows.operations.shapes import names, workflow

SPEC: dict[str, Any] = {
    "entrypoint": "main",
    "shutdown": "Stop",
    "arguments": {"parameters": [{"name": "size", "value": "1"}]},
    "templates": [
        {
            "name": "main",
            "dag": {"tasks": [{"name": "a", "template": "work"}, {"name": "b", "template": "work", "depends": "a"}]},
        },
        {"name": "work", "container": {}},
    ],
}
NODES = "- DAG wf -> wf.a\n + Pod wf.a -> wf.b\n - Pod wf.b\n + Pod* wf.onExit"


def test_a_new_workflow_of_the_same_kind() -> None:
    old = workflow(SPEC, NODES)
    old["metadata"]["annotations"] = {"mine": "y", RETRIES: "3"}
    new = resubmit(old, parameters=["size=2"])
    assert new == {
        "apiVersion": old["apiVersion"],
        "kind": "Workflow",
        "metadata": {
            "namespace": "default",
            "generateName": "wf-",
            "labels": {"mine": "x", "workflows.argoproj.io/resubmitted-from-workflow": "wf"},
            "annotations": {"mine": "y"},
        },
        "spec": {
            "entrypoint": "main",
            "arguments": {"parameters": [{"name": "size", "value": "2"}]},
            "templates": SPEC["templates"],
        },
    }


def test_its_name_is_made_from_what_the_first_one_was_made_from() -> None:
    old = workflow(SPEC, NODES, name="train-x7k2q")
    old["metadata"]["generateName"] = "train-"
    assert resubmit(old)["metadata"]["generateName"] == "train-"
    assert resubmit(old, memoized=True)["metadata"]["name"].startswith("train-")
    assert resubmit(old, name="mine")["metadata"]["name"] == "mine"


def test_a_memoized_one_begins_with_what_succeeded() -> None:
    new = resubmit(workflow(SPEC, NODES), memoized=True, name="again", now="2026-02-02T00:00:00Z")
    assert names(new) == {"again": "Running", "again.a": "Succeeded"}
    nodes = new["status"]["nodes"]
    assert nodes.keys() == {"again", node_id("again", "again.a")}
    assert nodes["again"]["children"] == [node_id("again", "again.a")]
    assert nodes["again"]["displayName"] == "again"
    done = nodes[node_id("again", "again.a")]
    assert done["boundaryID"] == "again"
    assert done["message"] == f"original pod: {node_id('wf', 'wf.a')}"
    assert done["startedAt"] == done["finishedAt"] == "2026-02-02T00:00:00Z"
    assert "phase" not in new["status"]


def test_only_what_failed_can_be_memoized() -> None:
    with pytest.raises(BadRequest, match="workflow must be Failed/Error to resubmit in memoized mode"):
        resubmit(workflow(SPEC, NODES, phase="Succeeded"), memoized=True)
