from __future__ import annotations

from typing import Any

import pytest

from muster.kube.errors import BadRequest
from muster.workflows.operations.control import resume, set_outputs, stop, suspend, terminate
from tests.workflows.operations.shapes import names, workflow

NODES = "> DAG wf -> wf.a, wf.b\n > Suspend wf.a\n > Suspend wf.b\n > Pod wf.c"
NOW = "2026-02-02T00:00:00Z"
ASKED = {"parameters": [{"name": "answer", "valueFrom": {"supplied": {}, "default": "no"}, "globalName": "all"}]}


def running(**status: Any) -> dict[str, Any]:
    return workflow({"suspend": True}, NODES, phase="Running", **status)


def asking(outputs: dict[str, Any] | None = None) -> dict[str, Any]:
    found = running()
    found["status"]["nodes"] = {
        key: {**node, "outputs": outputs or ASKED} if node["name"] == "wf.a" else node
        for key, node in found["status"]["nodes"].items()
    }
    return found


def node(found: dict[str, Any], name: str) -> dict[str, Any]:
    [match] = [n for n in found["status"]["nodes"].values() if n["name"] == name]
    return dict(match)


def test_stop_and_terminate_are_words_in_the_spec() -> None:
    assert stop(running())["spec"]["shutdown"] == "Stop"
    assert terminate(running())["spec"]["shutdown"] == "Terminate"
    assert suspend(workflow({}, NODES, phase="Running"))["spec"] == {"suspend": True}


@pytest.mark.parametrize("operation", [stop, terminate, suspend])
def test_what_has_ended_cannot_be_stopped(operation: Any) -> None:
    with pytest.raises(BadRequest, match="cannot"):
        operation(workflow({}, NODES, phase="Succeeded"))


def test_a_suspended_node_can_be_stopped_alone() -> None:
    after = stop(running(), "displayName=a", "no way", now=NOW)
    assert names(after) == {"wf": "Running", "wf.a": "Failed", "wf.b": "Running", "wf.c": "Running"}
    assert node(after, "wf.a")["message"] == "no way"
    assert node(after, "wf.a")["finishedAt"] == NOW
    assert "shutdown" not in after["spec"]


def test_resuming_lets_the_workflow_and_its_suspended_nodes_go_on() -> None:
    after = resume(running(), message="Resumed by: me", now=NOW)
    assert names(after) == {"wf": "Running", "wf.a": "Succeeded", "wf.b": "Succeeded", "wf.c": "Running"}
    assert after["spec"] == {}
    assert node(after, "wf.a")["message"] == "Resumed by: me"


def test_or_only_the_nodes_that_are_chosen() -> None:
    after = resume(running(), "displayName=b", now=NOW)
    assert names(after) == {"wf": "Running", "wf.a": "Running", "wf.b": "Succeeded", "wf.c": "Running"}
    assert after["spec"] == {"suspend": True}


def test_outputs_that_nobody_supplied_get_their_defaults() -> None:
    parameter = node(resume(asking(), now=NOW), "wf.a")["outputs"]["parameters"][0]
    assert parameter == {"name": "answer", "value": "no", "globalName": "all"}


def test_a_resume_needs_them() -> None:
    asked = asking({"parameters": [{"name": "answer", "valueFrom": {"supplied": {}}}]})
    with pytest.raises(BadRequest, match="raw output parameter 'answer' has not been set"):
        resume(asked)


def test_outputs_are_supplied_and_the_node_still_waits() -> None:
    after = set_outputs(asking(), "displayName=a", outputs={"answer": "yes"}, message="asked")
    found = node(after, "wf.a")
    assert found["outputs"]["parameters"] == [{"name": "answer", "value": "yes", "globalName": "all"}]
    assert (found["phase"], found["message"]) == ("Running", "asked")
    assert after["status"]["outputs"] == {"parameters": [{"name": "all", "value": "yes"}]}


@pytest.mark.parametrize(
    ("selector", "outputs", "message"),
    [
        ("", {"answer": "yes"}, "'set' currently only targets suspend nodes, use a node field selector"),
        ("displayName=c", {}, "currently, set only targets suspend nodes: no suspend nodes matching"),
        ("displayName=b", {"answer": "yes"}, "cannot set output parameters because node is not expecting any raw"),
        ("displayName=a", {"other": "yes"}, "node is not expecting output parameter 'other'"),
    ],
)
def test_answers_nobody_waits_for(selector: str, outputs: dict[str, str], message: str) -> None:
    with pytest.raises(BadRequest) as raised:
        set_outputs(asking(), selector, outputs=outputs)
    assert raised.value.message.startswith(message)


def test_an_answer_is_given_once() -> None:
    answered = set_outputs(asking(), "displayName=a", outputs={"answer": "yes"})
    with pytest.raises(BadRequest, match="cannot set output parameter 'answer' because"):
        set_outputs(answered, "displayName=a", outputs={"answer": "no"})


def test_nothing_that_was_given_is_changed() -> None:
    before = asking()
    nodes = {key: dict(found) for key, found in before["status"]["nodes"].items()}
    resume(before)
    set_outputs(before, "displayName=a", outputs={"answer": "yes"})
    assert before["status"]["nodes"] == nodes
