"""Which nodes run again, which are reopened, and which are left alone."""

from __future__ import annotations

from typing import Any

import pytest

from muster.kube.errors import BadRequest
from muster.workflows.executors.resource import RETRIES
from muster.workflows.operations.retry import retry
from tests.workflows.operations.shapes import names, workflow

WORK = {"name": "work", "container": {"image": "x"}}


def steps(*groups: list[dict[str, Any]], more: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {"entrypoint": "main", "templates": [{"name": "main", "steps": list(groups)}, WORK, *more]}


def dag(*tasks: dict[str, Any], more: tuple[dict[str, Any], ...] = (), **options: Any) -> dict[str, Any]:
    return {
        "entrypoint": "main",
        "templates": [{"name": "main", "dag": {"tasks": list(tasks), **options}}, WORK, *more],
    }


def step(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "template": "work", **more}


CONTINUE = {"continueOn": {"failed": True}}

CASES: dict[str, tuple[dict[str, Any], str, dict[str, str]]] = {
    "a single Pod": ({"entrypoint": "main", "templates": [{"name": "main", "container": {}}]}, "- Pod wf", {}),
    "steps: the group that failed is entered again, its failed step made again": (
        steps([step("a")], [step("b"), step("c")]),
        """
        - Steps     wf        -> wf[0]
        + StepGroup wf[0]     -> wf[0].a
        + Pod       wf[0].a   -> wf[1]
        - StepGroup wf[1]     -> wf[1].b, wf[1].c
        + Pod       wf[1].b
        - Pod       wf[1].c
        """,
        {"wf": "Running", "wf[0]": "Succeeded", "wf[0].a": "Succeeded", "wf[1]": "Running", "wf[1].b": "Succeeded"},
    ),
    "steps: a failure that continueOn tolerates stays, in an earlier group and beside the real one": (
        steps([step("a", **CONTINUE)], [step("b", **CONTINUE), step("c")]),
        """
        - Steps     wf        -> wf[0]
        + StepGroup wf[0]     -> wf[0].a
        - Pod       wf[0].a   -> wf[1]
        - StepGroup wf[1]     -> wf[1].b, wf[1].c
        - Pod       wf[1].b
        ! Pod       wf[1].c
        """,
        {"wf": "Running", "wf[0]": "Succeeded", "wf[0].a": "Failed", "wf[1]": "Running", "wf[1].b": "Failed"},
    ),
    "steps: continueOn failed does not tolerate an error": (
        steps([step("a", **CONTINUE)]),
        "- Steps wf -> wf[0]\n - StepGroup wf[0] -> wf[0].a\n ! Pod wf[0].a",
        {"wf": "Running", "wf[0]": "Running"},
    ),
    "steps: of a loop, only the items that failed": (
        steps([step("a", withItems=[1, 2])]),
        """
        - Steps     wf            -> wf[0]
        - StepGroup wf[0]         -> wf[0].a(0:1), wf[0].a(1:2)
        + Pod       wf[0].a(0:1)
        - Pod       wf[0].a(1:2)
        """,
        {"wf": "Running", "wf[0]": "Running", "wf[0].a(0:1)": "Succeeded"},
    ),
    "steps: a skipped step stays skipped": (
        steps([step("a", when="false"), step("b")]),
        """
        - Steps     wf        -> wf[0]
        - StepGroup wf[0]     -> wf[0].a, wf[0].b
        s Skipped   wf[0].a
        - Pod       wf[0].b
        """,
        {"wf": "Running", "wf[0]": "Running", "wf[0].a": "Skipped"},
    ),
    "steps: a step whose when could not be read": (
        steps([step("a", when="((")]),
        "- Steps wf -> wf[0]\n ! StepGroup wf[0] -> wf[0].a\n ! Skipped wf[0].a",
        {"wf": "Running", "wf[0]": "Running"},
    ),
    "steps: a suspended step that was stopped": (
        steps([step("a")]),
        "- Steps wf -> wf[0]\n - StepGroup wf[0] -> wf[0].a\n - Suspend wf[0].a",
        {"wf": "Running", "wf[0]": "Running"},
    ),
    "dag: what was left out because of the failure is decided anew": (
        dag(step("a"), step("b", depends="a"), step("c", depends="b"), step("d")),
        """
        - DAG     wf   -> wf.a, wf.d
        - Pod     wf.a -> wf.b
        o Skipped wf.b -> wf.c
        o Skipped wf.c
        + Pod     wf.d
        """,
        {"wf": "Running", "wf.d": "Succeeded"},
    ),
    "dag: a failure that a dependent went on from is kept, whether or not it is the last one": (
        dag(step("a"), step("b", depends="a.Failed"), step("c", depends="b")),
        """
        - DAG     wf   -> wf.a
        - Pod     wf.a -> wf.b
        + Pod     wf.b -> wf.c
        - Pod     wf.c
        """,
        {"wf": "Running", "wf.a": "Failed", "wf.b": "Succeeded"},
    ),
    "dag: unless it left out another one, which made the DAG fail": (
        dag(step("a"), step("b", depends="a.Failed"), step("c", depends="a")),
        """
        - DAG     wf   -> wf.a
        - Pod     wf.a -> wf.b, wf.c
        + Pod     wf.b
        o Skipped wf.c
        """,
        {"wf": "Running", "wf.b": "Succeeded"},
    ),
    "dag: a last task with continueOn is left alone": (
        dag(step("a", **CONTINUE), step("b")),
        "- DAG wf -> wf.a, wf.b\n - Pod wf.a\n - Pod wf.b",
        {"wf": "Running", "wf.a": "Failed"},
    ),
    "dag: failFast false: all failed branches are done again, the others kept": (
        dag(step("a"), step("b"), step("c", depends="b"), failFast=False),
        "- DAG wf -> wf.a, wf.b\n - Pod wf.a\n + Pod wf.b -> wf.c\n - Pod wf.c",
        {"wf": "Running", "wf.b": "Succeeded"},
    ),
    "dag: of a loop, only the items that failed, and what comes after": (
        dag(step("a", withItems=[1, 2]), step("b", depends="a")),
        """
        - DAG       wf          -> wf.a
        - TaskGroup wf.a        -> wf.a(0:1), wf.a(1:2)
        + Pod       wf.a(0:1)   -> wf.b
        - Pod       wf.a(1:2)   -> wf.b
        o Skipped   wf.b
        """,
        {"wf": "Running", "wf.a": "Running", "wf.a(0:1)": "Succeeded"},
    ),
    "retry: all attempts of a Pod go, so it has all of them again": (
        dag(step("a"), step("b", depends="a")),
        """
        - DAG     wf       -> wf.a
        - Retry   wf.a     -> wf.a(0), wf.a(1)
        - Pod~    wf.a(0)
        - Pod~    wf.a(1)  -> wf.b
        o Skipped wf.b
        """,
        {"wf": "Running", "wf.a": "Running"},
    ),
    "retry: what succeeded at a second attempt stays": (
        dag(step("a"), step("b", depends="a")),
        """
        - DAG     wf       -> wf.a
        + Retry   wf.a     -> wf.a(0), wf.a(1)
        - Pod~    wf.a(0)
        + Pod~    wf.a(1)  -> wf.b
        - Pod     wf.b
        """,
        {"wf": "Running", "wf.a": "Succeeded", "wf.a(0)": "Failed", "wf.a(1)": "Succeeded"},
    ),
    "retry: the last attempt of a template with parts goes on": (
        dag(step("a"), more=({"name": "inner", "dag": {"tasks": [step("x"), step("y")]}},)),
        """
        - DAG     wf          -> wf.a
        - Retry   wf.a        -> wf.a(0), wf.a(1)
        - DAG~    wf.a(0) = inner  -> wf.a(0).x, wf.a(0).y
        + Pod     wf.a(0).x
        - Pod     wf.a(0).y
        - DAG~    wf.a(1) = inner  -> wf.a(1).x, wf.a(1).y
        + Pod     wf.a(1).x
        - Pod     wf.a(1).y
        """,
        {
            "wf": "Running", "wf.a": "Running",
            "wf.a(0)": "Failed", "wf.a(0).x": "Succeeded", "wf.a(0).y": "Failed",
            "wf.a(1)": "Running", "wf.a(1).x": "Succeeded",
        },
    ),
    "nested: only what is on the way is entered": (
        dag(step("a"), step("b", depends="a"), step("c", depends="b")),
        """
        - DAG       wf            -> wf.a
        + Steps     wf.a = inner  -> wf.a[0]
        + StepGroup wf.a[0]       -> wf.a[0].x
        + Pod       wf.a[0].x     -> wf.b
        - Steps     wf.b = inner  -> wf.b[0]
        - StepGroup wf.b[0]       -> wf.b[0].x
        - Pod       wf.b[0].x     -> wf.c
        o Skipped   wf.c
        """,
        {
            "wf": "Running", "wf.a": "Succeeded", "wf.a[0]": "Succeeded", "wf.a[0].x": "Succeeded",
            "wf.b": "Running", "wf.b[0]": "Running",
        },
    ),
    "hooks go with what they belong to, and the workflow's always run again": (
        dag(step("a"), step("b")),
        """
        - DAG  wf          -> wf.a, wf.b
        + Pod  wf.a        -> wf.a.onExit
        + Pod* wf.a.onExit
        - Pod  wf.b        -> wf.b.onExit, wf.b.hooks.running
        + Pod* wf.b.onExit
        + Pod* wf.b.hooks.running
        + Steps* wf.onExit      -> wf.onExit[0]
        + StepGroup wf.onExit[0] -> wf.onExit[0].tell
        + Pod  wf.onExit[0].tell
        """,
        {"wf": "Running", "wf.a": "Succeeded", "wf.a.onExit": "Succeeded"},
    ),
    "an exit handler that failed is all that runs again": (
        dag(step("a")),
        "+ DAG wf -> wf.a\n + Pod wf.a\n - Pod* wf.onExit",
        {"wf": "Succeeded", "wf.a": "Succeeded"},
    ),
    "daemons are started again where something goes on that may need them": (
        steps(
            [{"name": "server", "template": "serve"}], [step("a"), step("b")],
            more=({"name": "serve", "daemon": True, "container": {}},),
        ),
        """
        - Steps     wf                   -> wf[0]
        + StepGroup wf[0]                -> wf[0].server
        + Pod       wf[0].server = serve -> wf[1]
        - StepGroup wf[1]                -> wf[1].a, wf[1].b
        + Pod       wf[1].a
        - Pod       wf[1].b
        """,
        {"wf": "Running", "wf[0]": "Running", "wf[1]": "Running", "wf[1].a": "Succeeded"},
    ),
    "a Pod of several containers is one thing": (
        {"entrypoint": "main", "templates": [{"name": "main", "containerSet": {}}]},
        "- Pod wf -> wf.one, wf.two\n + Container wf.one\n - Container wf.two",
        {},
    ),
    "what never ended is done again": (
        dag(step("a"), step("b")),
        "- DAG wf -> wf.a, wf.b\n > Pod wf.a\n + Pod wf.b",
        {"wf": "Running", "wf.b": "Succeeded"},
    ),
    "the template may be a copy of another object's": (
        {"workflowTemplateRef": {"name": "shared"}},
        "- Steps wf -> wf[0]\n - StepGroup wf[0] -> wf[0].a, wf[0].b\n - Pod wf[0].a\n - Pod wf[0].b",
        {"wf": "Running", "wf[0]": "Running", "wf[0].a": "Failed"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_becomes_of_the_nodes(case: str) -> None:
    spec, nodes, expected = CASES[case]
    stored: dict[str, Any] = {"storedWorkflowTemplateSpec": steps([step("a", **CONTINUE), step("b")])}
    before = workflow(spec, nodes, **(stored if "workflowTemplateRef" in spec else {}))
    assert names(retry(before).workflow) == expected


def test_nothing_points_to_a_node_that_is_gone() -> None:
    for spec, nodes, _ in CASES.values():
        after = retry(workflow(spec, nodes)).workflow["status"]["nodes"]
        assert all(child in after for node in after.values() for child in node.get("children") or ())


def test_the_pods_that_have_to_go() -> None:
    spec, nodes, _ = CASES["hooks go with what they belong to, and the workflow's always run again"]
    before = workflow(spec, nodes)
    gone = {n["name"] for n in before["status"]["nodes"].values()} - set(names(retry(before).workflow))
    assert gone == {
        "wf.b", "wf.b.onExit", "wf.b.hooks.running", "wf.onExit", "wf.onExit[0]", "wf.onExit[0].tell"
    }  # fmt: skip
    pods = retry(before).pods_to_delete
    assert len(pods) == 4
    assert all(pod.startswith("wf-work-") for pod in pods)


def test_a_node_that_is_entered_again_has_not_ended() -> None:
    spec, nodes, _ = CASES["dag: what was left out because of the failure is decided anew"]
    root = retry(workflow(spec, nodes), now="2026-02-02T00:00:00Z").workflow["status"]["nodes"]["wf"]
    assert "finishedAt" not in root
    assert root["startedAt"] == "2026-02-02T00:00:00Z"


def test_the_workflow_is_as_if_it_had_not_ended() -> None:
    spec = {**dag(step("a")), "shutdown": "Stop", "activeDeadlineSeconds": 0}
    after = retry(workflow(spec, "- DAG wf -> wf.a\n - Pod wf.a"), now="2026-02-02T00:00:00Z").workflow
    assert after["metadata"]["labels"] == {"mine": "x"}
    assert after["metadata"]["annotations"] == {RETRIES: "1"}
    assert after["spec"] == dag(step("a"))
    status = {name: value for name, value in after["status"].items() if name != "nodes"}
    assert status == {
        "startedAt": "2026-02-02T00:00:00Z",
        "conditions": [{"type": "PodRunning", "status": "False"}, {"type": "Completed", "status": "False"}],
    }


def test_a_stopped_workflow_goes_on_with_all_that_was_stopped() -> None:
    spec = {**dag(step("a"), step("b", depends="a.Failed"), step("c")), "shutdown": "Stop"}
    before = workflow(spec, "- DAG wf -> wf.a, wf.c\n - Pod wf.a\n + Pod wf.c")
    assert names(retry(before).workflow) == {"wf": "Running", "wf.c": "Succeeded"}


def test_a_long_chain_is_no_deep_one() -> None:
    size = 3000
    tasks = [step("t0"), *(step(f"t{n}", depends=f"t{n - 1}") for n in range(1, size))]
    lines = ["- DAG wf -> wf.t0", "- Pod wf.t0 -> wf.t1"]
    lines += [f"o Skipped wf.t{n} -> wf.t{n + 1}" for n in range(1, size - 1)] + [f"o Skipped wf.t{size - 1}"]
    assert names(retry(workflow(dag(*tasks), "\n".join(lines))).workflow) == {"wf": "Running"}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("displayName=b", {"wf": "Running", "wf.a": "Succeeded", "wf.x": "Succeeded"}),
        ("displayName=a", {"wf": "Running", "wf.x": "Succeeded"}),
        ("templateName=work", {"wf": "Running"}),
        ("phase=Succeeded,displayName!=b", {}),
        ("displayName=nobody", {"wf": "Succeeded", "wf.a": "Succeeded", "wf.b": "Succeeded", "wf.c": "Succeeded",
                                "wf.x": "Succeeded"}),
    ],
)  # fmt: skip
def test_what_succeeded_runs_again_if_it_is_asked_for(selector: str, expected: dict[str, str]) -> None:
    before = workflow(
        dag(step("a"), step("b", depends="a"), step("c", depends="b"), step("x")),
        "+ DAG wf -> wf.a, wf.x\n + Pod wf.a -> wf.b\n + Pod wf.b -> wf.c\n + Pod wf.c\n + Pod wf.x",
        phase="Succeeded",
    )
    after = retry(before, restart_successful=True, node_field_selector=selector).workflow
    assert names(after) == expected


def test_parameters_are_overridden_and_loops_over_them_are_expanded_anew() -> None:
    spec = {
        **dag(step("a", withParam="{{workflow.parameters.sizes}}"), step("b", withItems=[1, 2])),
        "arguments": {"parameters": [{"name": "sizes", "value": "[1, 2]"}, {"name": "other", "value": "x"}]},
    }
    before = workflow(
        spec,
        """
        - DAG       wf          -> wf.a, wf.b
        - TaskGroup wf.a        -> wf.a(0:1), wf.a(1:2)
        + Pod       wf.a(0:1)
        - Pod       wf.a(1:2)
        - TaskGroup wf.b        -> wf.b(0:1), wf.b(1:2)
        + Pod       wf.b(0:1)
        - Pod       wf.b(1:2)
        """,
    )
    after = retry(before, parameters=["sizes=[3]"]).workflow
    assert names(after) == {"wf": "Running", "wf.a": "Running", "wf.b": "Running", "wf.b(0:1)": "Succeeded"}
    assert after["spec"]["arguments"]["parameters"] == [
        {"name": "sizes", "value": "[3]"},
        {"name": "other", "value": "x"},
    ]


@pytest.mark.parametrize(
    ("phase", "options", "message"),
    [
        ("Running", {}, "Cannot retry a workflow in phase Running"),
        ("", {}, "Cannot retry a workflow in phase Pending"),
        ("Succeeded", {}, "To retry a succeeded workflow, set the options restartSuccessful and nodeFieldSelector"),
        ("Succeeded", {"restart_successful": True}, "To retry a succeeded workflow, set the options"),
        ("Failed", {"parameters": ["x"]}, 'expected a parameter of the form NAME=VALUE, not "x"'),
        ("Failed", {"restart_successful": True, "node_field_selector": "x"}, "unable to parse the field selector"),
    ],
)
def test_what_cannot_be_retried(phase: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequest) as raised:
        retry(workflow(dag(step("a")), "- DAG wf -> wf.a\n - Pod wf.a", phase=phase), **options)
    assert raised.value.message.startswith(message)
