"""The state of runs and nodes, from their Workflows."""

from __future__ import annotations

from typing import Any

import pytest

from muster.kube.objects import Object
from muster.platform.graphs.bindings import NODE
from muster.platform.runs.status import NODES_LATER, READ_AGAIN_SECONDS, map_messages, read_status, while_unread

T0, T1 = "2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z"


def workflow(phase: str, *nodes: dict[str, Any], shutdown: str = "", **more: Any) -> Object:
    spec: dict[str, Any] = {"templates": more.pop("templates", [])}
    if shutdown:
        spec["shutdown"] = shutdown
    group = {"id": "wf", "name": "wf", "type": "DAG", "phase": phase}
    status = {"phase": phase, "nodes": {node["id"]: node for node in (group, *nodes)}, **more}
    return {"metadata": {"name": "wf", "resourceVersion": "7"}, "spec": spec, "status": status}


def pod(name: str, phase: str, **more: Any) -> dict[str, Any]:
    template = name.partition("(")[0]
    return {"id": f"id-{name}", "name": f"wf.{name}", "type": "Pod", "templateName": template, "phase": phase, **more}


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (workflow(""), "waiting"),
        (workflow("Pending"), "waiting"),
        (workflow("Running", pod("a", "Pending")), "waiting"),
        (workflow("Running", pod("a", "Running")), "running"),
        (workflow("Running", pod("a", "Succeeded"), pod("b", "Pending")), "running"),
        (workflow("Succeeded", pod("a", "Succeeded")), "succeeded"),
        (workflow("Failed", pod("a", "Failed")), "failed"),
        (workflow("Error", pod("a", "Error")), "failed"),
        (workflow("Failed", pod("a", "Failed"), shutdown="Stop"), "stopped"),
    ],
)
def test_the_state_of_a_run(found: Object, state: str) -> None:
    assert read_status(found).state == state


@pytest.mark.parametrize(
    ("phase", "message", "shutdown", "state"),
    [
        ("Pending", "", "", "waiting"),
        ("Running", "", "", "running"),
        ("Succeeded", "", "Stop", "succeeded"),
        ("Failed", "exit 1", "", "failed"),
        ("Error", "no output", "", "failed"),
        ("Failed", "workflow shutdown with strategy: Stop", "Stop", "stopped"),
        ("Failed", "exit 1", "Stop", "failed"),
        ("Omitted", "", "", "skipped"),
    ],
)
def test_the_state_of_a_node(phase: str, message: str, shutdown: str, state: str) -> None:
    (node,) = read_status(workflow("Running", pod("a", phase, message=message), shutdown=shutdown)).nodes
    assert node.state == state
    assert len(node.attempts) == (0 if phase == "Omitted" else 1)


def test_attempts_belong_to_the_retried_node() -> None:
    retry = {"id": "r", "name": "wf.a", "type": "Retry", "phase": "Running", "children": ["id-a(0)", "id-a(1)", "id-b"]}
    first = pod("a(0)", "Failed", outputs={"exitCode": "3"}, startedAt=T0, finishedAt=T1, message="exit 3")
    (a, b) = read_status(workflow("Running", retry, first, pod("a(1)", "Running"), pod("b", "Pending"))).nodes
    assert [(attempt.state, attempt.exit_code) for attempt in a.attempts] == [("failed", "3"), ("running", "")]
    assert a.attempts[0].pod != a.attempts[1].pod
    assert (a.name, a.state, b.name, b.state) == ("a", "running", "b", "waiting")


def test_nodes_have_the_names_of_their_authors() -> None:
    templates = [{"name": "node-1a2b3c", "annotations": {NODE: "数据"}, "script": {}}]
    (node,) = read_status(workflow("Running", pod("node-1a2b3c", "Running"), templates=templates)).nodes
    assert node.name == "数据"


def test_a_training_node_includes_the_tasks_for_its_files() -> None:
    templates = [
        {"name": "t-inputs", "annotations": {NODE: "t"}, "script": {}},
        {"name": "t", "resource": {}},
        {"name": "t-outputs", "annotations": {NODE: "t"}, "script": {}},
    ]
    parts = [
        pod("t-inputs", "Succeeded", startedAt=T0, finishedAt=T0),
        pod("t", "Failed", message="it broke", finishedAt=T1),
    ]
    (node,) = read_status(workflow("Failed", *parts, pod("t-outputs", "Omitted"), templates=templates)).nodes
    assert (node.name, node.state, node.message) == ("t", "failed", "it broke")
    assert [attempt.pod for attempt in node.attempts] == [""], "the job has its own Pods"


def test_the_message_names_the_node_that_failed_first() -> None:
    found = workflow(
        "Failed", pod("b", "Failed", message="late", finishedAt=T1), pod("a", "Failed", message="early", finishedAt=T0)
    )
    assert read_status(found).message == "a: early"
    assert map_messages(read_status(found), str.upper).nodes[0].attempts[0].message == "LATE"


def omitted(name: str) -> dict[str, Any]:
    return {"id": f"id-{name}", "name": f"wf.{name}", "type": "Skipped", "phase": "Omitted", "message": "omitted: ..."}


def test_an_omitted_node_names_the_node_whose_failure_prevented_it() -> None:
    retry = {"id": "r", "name": "wf.a", "type": "Retry", "phase": "Failed", "children": ["id-a(0)"]}
    attempt = pod("a(0)", "Failed", children=["id-b"])
    b = {**omitted("b"), "children": ["id-c"]}
    found = read_status(workflow("Failed", retry, attempt, b, omitted("c"), omitted("d")))
    assert found.cause == "a"
    assert [(node.name, node.state, node.message) for node in found.nodes[1:]] == [
        ("b", "skipped", "Skipped because a failed"),
        ("c", "skipped", "Skipped because a failed"),
        ("d", "skipped", "Skipped because its condition was not met"),
    ]


@pytest.mark.parametrize(
    ("code", "message", "shutdown", "state"),
    [
        ("143", "main: Error (exit code 143)", "Stop", "stopped"),
        ("137", "main: Error (exit code 137)", "Stop", "stopped"),
        ("137", "OOMKilled (exit code 137)", "Stop", "failed"),
        ("3", "main: Error (exit code 3)", "Stop", "failed"),
        ("143", "main: Error (exit code 143)", "", "failed"),
    ],
)
def test_argo_tells_only_how_a_stopped_container_ended(code: str, message: str, shutdown: str, state: str) -> None:
    ended = pod("a(0)", "Failed", message=message, outputs={"exitCode": code})
    retry = {"id": "r", "name": "wf.a", "type": "Retry", "phase": "Failed", "children": ["id-a(0)"]}
    for nodes in ([pod("a", "Failed", message=message, outputs={"exitCode": code})], [retry, ended]):
        (node,) = read_status(workflow("Failed", *nodes, shutdown=shutdown)).nodes
        assert (node.state, node.attempts[0].state) == (state, state)


def test_a_stopped_node_says_so_without_the_name_of_a_strategy() -> None:
    message = "workflow shutdown with strategy: Stop"
    found = read_status(workflow("Failed", pod("a", "Failed", message=message), shutdown="Stop", message="Stopped ..."))
    (node,) = found.nodes
    assert {node.message, node.attempts[0].message} == {"Stopped together with the run"}
    assert found.message == "", "who stopped it is not known here"


def test_a_waiting_run_says_what_it_waits_for() -> None:
    assert (
        read_status(workflow("Running", pod("a", "Pending", message="Unschedulable: full"))).message
        == "a: Unschedulable: full"
    )


def offloaded(phase: str, **more: Any) -> Object:
    """A Workflow whose nodes could not be read."""
    status = {"phase": phase, "offloadNodeStatusVersion": "fnv:1", "startedAt": T0, **more}
    return {"metadata": {"name": "wf", "resourceVersion": "7"}, "spec": {}, "status": status}


@pytest.mark.parametrize(
    ("phase", "seconds", "state", "message"),
    [
        ("Running", 0, "running", "why"),
        ("Running", READ_AGAIN_SECONDS, "running", "why"),
        ("Succeeded", 0, "running", NODES_LATER),
        ("Failed", READ_AGAIN_SECONDS - 1, "running", NODES_LATER),
        ("Succeeded", READ_AGAIN_SECONDS, "succeeded", "why"),
        ("Failed", READ_AGAIN_SECONDS, "failed", "why"),
    ],
)
def test_a_run_ends_when_its_nodes_can_be_read_or_after_a_while(
    phase: str, seconds: float, state: str, message: str
) -> None:
    ended = {"finishedAt": T1} if phase != "Running" else {}
    found = read_status(offloaded(phase, message="why", **ended))
    assert not found.has_nodes
    shown = while_unread(found, seconds)
    assert (shown.state, shown.message) == (state, message)
    assert (shown.finished is None) is (state == "running")


def test_nodes_that_were_read_end_a_run_at_once() -> None:
    found = read_status({**offloaded("Failed"), "status": {**workflow("Failed", pod("a", "Failed"))["status"]}})
    assert found.has_nodes
    assert while_unread(found, 0) is found
