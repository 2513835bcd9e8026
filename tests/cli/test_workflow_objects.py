"""The status of a workflow as a word or a line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from muster.cli.errors import CommandError
from muster.cli.workflow_commands import WorkflowFilter, matches_filter, sort_workflows, workflow_row
from muster.cli.workflow_follow import find_pods_below, format_end
from muster.cli.workflow_objects import format_seconds, status_word, summary_fields
from muster.cli.workflow_tree import find_changes, format_workflow
from muster.kube.objects import Object, name_of
from muster.workflows.engine.node_tree import pod_name
from tests.cli.workflow_objects import node, workflow

NOW = datetime(2026, 1, 1, 0, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("obj", "word"),
    [
        (workflow(phase=""), "Pending"),
        (workflow(), "Running"),
        (workflow(spec={"suspend": True}), "Running (Suspended)"),
        (workflow(node("x", "Suspend", "Running")), "Running (Suspended)"),
        (workflow(node("x", "Suspend", "Succeeded")), "Running"),
        (workflow(phase="Failed"), "Failed"),
        (workflow(phase="Failed", spec={"shutdown": "Stop"}), "Failed (Terminated)"),
        (workflow(phase="Error"), "Error"),
    ],
)
def test_status(obj: Object, word: str) -> None:
    assert status_word(obj) == word


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (-3, "0s"), (59.9, "59s"), (65, "1m05s"), (3600, "1h00m"), (7599, "2h06m"), (180000, "2d2h")],
)
def test_durations(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (WorkflowFilter(), ["run", "bad", "ok"]),
        (WorkflowFilter(running=True), ["run"]),
        (WorkflowFilter(completed=True), ["bad", "ok"]),
        (WorkflowFilter(phases=("Failed", "Error")), ["bad"]),
        (WorkflowFilter(prefix="o"), ["ok"]),
        (WorkflowFilter(since=datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)), ["bad"]),
        (WorkflowFilter(older=NOW), ["bad", "ok"]),
        (WorkflowFilter(older=datetime(2026, 1, 1, tzinfo=UTC)), []),
    ],
)
def test_list_filters(wanted: WorkflowFilter, names: list[str]) -> None:
    all_ = [
        workflow(name="ok", phase="Succeeded"),
        workflow(name="run"),
        workflow(
            name="bad",
            phase="Failed",
            finishedAt="2026-01-01T00:01:30Z",
            metadata={"creationTimestamp": "2026-01-01T00:01:00Z"},
        ),
    ]
    assert [name_of(one) for one in sort_workflows(all_) if matches_filter(one, wanted)] == names


def test_list_rows() -> None:
    spec = {"priority": 3, "arguments": {"parameters": [{"name": "a", "value": "1"}, {"name": "b"}]}}
    obj = workflow(phase="Failed", spec=spec, message="child\nfailed", progress="1/2")
    assert workflow_row(obj, NOW) == ["wf", "Failed", "2m00s", "1m00s", "3", "child failed"]
    assert workflow_row(obj, NOW, wide=True, with_namespace=True) == [
        "default", "wf", "Failed", "2m00s", "1m00s", "3", "1/2", "a=1", "child failed",
    ]  # fmt: skip


def test_headline() -> None:
    obj = workflow(
        phase="Succeeded",
        progress="2/2",
        spec={"arguments": {"parameters": [{"name": "lr", "value": "0.1"}]}},
        outputs={"parameters": [{"name": "loss", "value": "3"}]},
        conditions=[{"type": "Completed", "status": "True"}, {"type": "SpecWarning", "message": "odd"}],
    )
    found = dict(summary_fields(obj, NOW))
    assert found["Started"] == "2026-01-01 00:00:00 UTC (2m00s ago)"
    assert {label: found[label] for label in ("Status", "Duration", "Progress", "SpecWarning", "  lr", "  loss")} == {
        "Status": "Succeeded",
        "Duration": "1m00s",
        "Progress": "2/2",
        "SpecWarning": "odd",
        "  lr": "0.1",
        "  loss": "3",
    }


def test_the_whole_text() -> None:
    text = format_workflow(workflow(node("wf"), phase="Succeeded"), NOW)
    assert text[0] == "Name:                wf"
    assert [line.split() for line in text[-2:]] == [
        ["STEP", "TEMPLATE", "POD", "DURATION", "MESSAGE"],
        ["✔", "wf", "t", "wf", "7s"],
    ]


def test_changes_are_printed_once() -> None:
    obj = workflow(node("a", phase="Running"), node("b", phase="Pending"), node("g", "StepGroup"))
    news, told = find_changes(obj, {})
    assert news == ["a Running"]
    assert find_changes(obj, told)[0] == []
    obj = workflow(node("a"), node("b", phase="Failed", message="exit\n1"), node("g", "StepGroup"))
    assert find_changes(obj, told)[0] == ["a Succeeded", "b Failed: exit 1"]


TREE = workflow(
    node("wf", "DAG", children=["wf-1"]),
    node("wf-1", "Retry", name="wf.train", displayName="train", boundaryID="wf", children=["wf-2"]),
    node("wf-2", name="wf.train(0)", displayName="train(0)", boundaryID="wf"),
    node("wf-3", name="wf.eval", displayName="eval", boundaryID="wf"),
    node("wf-4", "Suspend", name="wf.wait", displayName="wait", boundaryID="wf"),
)
TRAIN, EVAL = pod_name("wf", "wf.train(0)", "t"), pod_name("wf", "wf.eval", "t")


@pytest.mark.parametrize(
    ("word", "pods"),
    [
        ("eval", {"wf-3": EVAL}),
        ("wf-3", {"wf-3": EVAL}),
        (EVAL, {"wf-3": EVAL}),
        ("wf.eval", {"wf-3": EVAL}),
        ("train", {"wf-2": TRAIN}),
        ("wf", {"wf-2": TRAIN, "wf-3": EVAL}),
    ],
)
def test_a_node_is_found_by_any_of_its_names(word: str, pods: dict[str, str]) -> None:
    assert find_pods_below(TREE, word) == pods


@pytest.mark.parametrize(
    ("word", "told"), [("evla", "did you mean eval?"), ("wait", "has no Pod"), ("nonsense", 'has no node "nonsense"')]
)
def test_a_node_without_a_log_is_explained(word: str, told: Any) -> None:
    with pytest.raises(CommandError, match=told.replace("?", r"\?")):
        find_pods_below(TREE, word)


FAILED = node("main", "Pod", "Failed", message="Error (exit code 7)")
MORE = "; `muster describe workflow wf` shows more"


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (workflow(phase="Succeeded", message="unused"), ""),
        (workflow(FAILED, phase="Failed", message="child 'wf-1' failed"), ": main: Error (exit code 7)" + MORE),
        (workflow(FAILED, phase="Failed"), ": main: Error (exit code 7)" + MORE),
        (
            workflow(FAILED, phase="Failed", message="Max duration limit exceeded"),
            ": Max duration limit exceeded" + MORE,
        ),
        (workflow(phase="Error", message="child 'wf-1' failed"), ": child 'wf-1' failed" + MORE),
        (workflow(phase="Failed"), MORE),
    ],
)
def test_the_end_says_why_a_workflow_failed(end: Object, said: str) -> None:
    assert format_end(end, end) == f"wf {status_word(end)} at 2026-01-01T00:01:00Z{said}"


def test_a_workflow_that_was_deleted_says_so() -> None:
    assert format_end(workflow(), None) == "wf was deleted before it finished"
