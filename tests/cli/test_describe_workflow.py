from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from muster.cli.describe import describe_workflow
from muster.cli.output import render_sections
from tests.cli.workflow_objects import node, workflow

NOW = datetime(2026, 1, 1, 0, 10, tzinfo=UTC)


def text(of: Any, pods: Any = (), lines: Any = None) -> str:
    return "\n".join(render_sections(describe_workflow(of, pods, [], lines or {}, NOW)))


def test_a_failed_workflow_names_the_failed_node_and_its_last_lines() -> None:
    state = {"terminated": {"exitCode": 3, "reason": "Error"}}
    pod = {
        "metadata": {"name": "wf-fit", "uid": "p"},
        "spec": {},
        "status": {"phase": "Failed", "containerStatuses": [{"name": "main", "state": state}]},
    }
    failed = workflow(node("fit", phase="Failed", message="main: Error (exit code 3)"), phase="Failed")
    shown = text(failed, [pod], {"p": {"main": ["ValueError: no data"]}})
    assert "fit: main: Error (exit code 3)" in shown
    assert 'pod/wf-fit: container "main" exited with code 3' in shown
    assert "ValueError: no data" in shown
    assert "✖ fit" in shown


def test_a_waiting_workflow_names_the_lock_holder() -> None:
    waiting = workflow(node("approve", "Suspend", "Running"))
    assert "waits at approve; continue with `muster resume wf`" in text(waiting)


def test_a_healthy_workflow_has_no_reasons() -> None:
    assert "Why" not in text(workflow(node("fit"), phase="Succeeded"))
