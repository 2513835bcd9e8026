"""How the nodes of a workflow are drawn."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from muster.cli.workflow_tree import TreeLine, build_trees, clip_lines, count_phases, draw_trees, fold_trees
from muster.kube.objects import Object
from tests.cli.workflow_objects import node, workflow

NOW = datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)


def drawn(obj: Object, room: int = 1000) -> list[str]:
    found = draw_trees(fold_trees(build_trees(obj), room), NOW, lambda n: f"pod-{n['id']}")
    return [f"{one.branch}{one.mark} {one.name}" for one in found]


STEPS = workflow(
    node("wf", "Steps", "Running", children=["g0"]),
    node("g0", "StepGroup", displayName="[0]", boundaryID="wf", children=["a", "b"]),
    node("a", boundaryID="wf", children=["g1"]),
    node("b", boundaryID="wf", phase="Failed", children=["g1"]),
    node(
        "g1",
        "StepGroup",
        "Running",
        displayName="[1]",
        boundaryID="wf",
        children=["c"],
        startedAt="2026-01-01T00:00:09Z",
    ),
    node("c", "Suspend", "Running", boundaryID="wf", startedAt="2026-01-01T00:00:09Z"),
)
DAG = workflow(
    node("wf", "DAG", children=["first"]),
    node("last", boundaryID="wf", startedAt="2026-01-01T00:00:05Z"),
    node("first", boundaryID="wf", children=["inner"]),
    node("inner", "DAG", boundaryID="wf", startedAt="2026-01-01T00:00:02Z", children=["leaf"]),
    node("leaf", boundaryID="inner", phase="Skipped"),
    node("never", "Skipped", "Omitted", boundaryID="wf", startedAt="2026-01-01T00:00:06Z"),
)
RETRIES = workflow(
    node("wf", "DAG", children=["once", "twice"]),
    node("once", "Retry", boundaryID="wf", children=["once(0)"]),
    node("once(0)", boundaryID="wf"),
    node("twice", "Retry", boundaryID="wf", children=["twice(0)", "twice(1)"], startedAt="2026-01-01T00:00:01Z"),
    node("twice(0)", boundaryID="wf", phase="Error"),
    node("twice(1)", boundaryID="wf", phase="Pending"),
)
LOOP = workflow(
    node("wf", "DAG", children=["fan"]),
    node("fan", "TaskGroup", boundaryID="wf", children=["fan(10:x)", "fan(2:y)"]),
    node("fan(10:x)", boundaryID="wf"),
    node("fan(2:y)", boundaryID="wf"),
)
IN_A_SECOND = workflow(
    node("wf", "DAG", children=["z"]),
    node("b", boundaryID="wf", children=["a"]),
    node("a", boundaryID="wf"),
    node("z", boundaryID="wf", children=["b"]),
)
WITH_EXIT = workflow(node("wf-9", name="wf.onExit", displayName="wf.onExit"), node("wf", phase="Failed"))


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        pytest.param(STEPS, ["● wf", "├─┬─✔ a", "│ └─✖ b", "└───‖ c"], id="steps side by side, then one that waits"),
        pytest.param(
            DAG, ["✔ wf", "├─✔ first", "├─✔ inner", "│ └─○ leaf", "└─✔ last"], id="tasks in the order they began"
        ),
        pytest.param(
            RETRIES,
            ["✔ wf", "├─✔ once(0)", "└─✔ twice", "  ├─⚠ twice(0)", "  └─· twice(1)"],
            id="a retry with one attempt is that attempt",
        ),
        pytest.param(LOOP, ["✔ wf", "└─✔ fan", "  ├─✔ fan(2:y)", "  └─✔ fan(10:x)"], id="a loop in its own order"),
        pytest.param(IN_A_SECOND, ["✔ wf", "├─✔ z", "├─✔ b", "└─✔ a"], id="what follows from another stands below it"),
        pytest.param(WITH_EXIT, ["✖ wf", "✔ wf.onExit"], id="the exit handler stands by itself"),
        pytest.param(workflow(), [], id="nothing has begun"),
    ],
)
def test_trees(obj: Object, expected: list[str]) -> None:
    assert drawn(obj) == expected


def test_a_line_has_template_pod_duration_and_message() -> None:
    ref = {"name": "shared", "template": "train"}
    obj = workflow(node("wf", phase="Failed", templateName="", templateRef=ref, message="exit code\n1"))
    assert draw_trees(build_trees(obj), NOW, lambda n: "the-pod") == [
        TreeLine("", "✖", "wf", "Failed", "shared/train", "the-pod", "7s", "exit code 1")
    ]


def test_running_nodes_are_timed_until_now() -> None:
    assert draw_trees(build_trees(workflow(node("wf", phase="Running"))), NOW, str)[0].took == "30s"


def test_a_large_fan_out_is_folded() -> None:
    phases = ["Succeeded"] * 500 + ["Failed"] + ["Running"] * 2 + ["Pending"] * 400
    leaves = [node(f"n({i}:x)", phase=phase, boundaryID="wf") for i, phase in enumerate(phases)]
    obj = workflow(node("wf", "DAG", "Running", children=[leaf["id"] for leaf in leaves]), *leaves)
    assert len(drawn(obj, 1000)) == 904
    assert drawn(obj, 20) == [
        "● wf",
        "├─✔ 500 succeeded: n(0:x) ... n(499:x)",
        "├─✖ n(500:x)",
        "├─● n(501:x)",
        "├─● n(502:x)",
        "└─· 400 pending: n(503:x) ... n(902:x)",
    ]
    assert count_phases(build_trees(obj)) == {"Succeeded": 500, "Failed": 1, "Running": 2, "Pending": 400}


def test_a_tree_that_is_still_too_large_is_clipped() -> None:
    found = [
        TreeLine("", "", str(n), phase) for n, phase in enumerate(["Succeeded"] * 5 + ["Running"] * 3 + ["Failed"])
    ]
    kept, rest = clip_lines(found, 4)
    assert [one.name for one in kept] == ["5", "6", "8"]
    assert rest == "... and 6 more: 1 running, 5 succeeded"


def test_a_workflow_with_a_thousand_recursive_calls() -> None:
    deep = [node(f"n{i}", "DAG", "Running", boundaryID=f"n{i - 1}" if i else "") for i in range(3000)]
    obj = workflow(*deep, name="n0")
    assert len(drawn(obj, 10_000)) == 3000
    assert len(drawn(obj, 50)) < 3000
