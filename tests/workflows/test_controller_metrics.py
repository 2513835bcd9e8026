"""The metrics of the controller have the names, labels and meaning of Argo's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from muster.kube.objects import Object
from muster.workflows.controller_metrics import ControllerMetrics
from muster.workflows.metrics import MetricRegistry

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def workflow(phase: str = "", *, reference: dict[str, Any] | None = None, **status: Any) -> Object:
    spec = {"workflowTemplateRef": reference} if reference else {"entrypoint": "main"}
    return {"metadata": {"name": "w", "namespace": "argo"}, "spec": spec, "status": {"phase": phase, **status}}


def samples(metrics: ControllerMetrics, name: str) -> dict[str, float]:
    """By what follows `argo_workflows_`, the samples whose names begin with `name`."""
    lines = [line for line in MetricRegistry().text(NOW, metrics).splitlines() if not line.startswith("#")]
    pairs = [line.removeprefix("argo_workflows_").rpartition(" ") for line in lines]
    return {key: float(value) for key, _, value in pairs if key.startswith(name)}


def test_workflows_are_counted_when_they_enter_a_phase() -> None:
    metrics = ControllerMetrics()
    new, running, done = workflow(), workflow("Running"), workflow("Succeeded")
    for before, after in ((None, new), (new, running), (running, running), (running, done)):
        metrics.workflow_changed(before, after, NOW)
    assert samples(metrics, "total_count") == {
        'total_count{namespace="argo",phase="Running"}': 1,
        'total_count{namespace="argo",phase="Succeeded"}': 1,
    }
    assert samples(metrics, "workflowtemplate") == {}


def test_workflows_of_a_template_are_counted_and_timed() -> None:
    metrics = ControllerMetrics()
    reference = {"name": "basic", "clusterScope": True}
    done = workflow("Failed", reference=reference, startedAt="2026-01-01T00:00:00Z", finishedAt="2026-01-01T00:00:07Z")
    metrics.workflow_changed(None, done, NOW + timedelta(seconds=7))
    labels = 'cluster_scope="true",name="basic",namespace="argo"'
    found = samples(metrics, "workflowtemplate")
    assert found[f'workflowtemplate_triggered_total{{{labels},phase="New"}}'] == 1
    assert found[f'workflowtemplate_triggered_total{{{labels},phase="Failed"}}'] == 1
    assert found[f'workflowtemplate_runtime_bucket{{{labels},le="5"}}'] == 0
    assert found[f"workflowtemplate_runtime_sum{{{labels}}}"] == 7


def test_pods_are_counted_by_phase_and_by_what_they_wait_for() -> None:
    metrics = ControllerMetrics()
    waits = "Unschedulable: 0/1 nodes are available"
    metrics.pod_changed("argo", "Pending", "Pending", waits, is_news=True)
    metrics.pod_changed("argo", "Pending", "Pending", waits, is_news=False)
    metrics.pod_changed("argo", "Pending", "Pending", "PodInitializing", is_news=True)
    metrics.pod_changed("argo", "Pending", "Running", "", is_news=True)
    metrics.pod_changed("argo", "Pending", "Failed", "", is_news=True)
    assert samples(metrics, "pod_pending_count") == {'pod_pending_count{namespace="argo",reason="Unschedulable"}': 1}
    assert samples(metrics, "pods_total_count") == {
        'pods_total_count{namespace="argo",phase="Running"}': 2,
        'pods_total_count{namespace="argo",phase="Failed"}': 1,
    }


def test_gauges_show_what_there_is_when_they_are_read() -> None:
    metrics = ControllerMetrics()
    pod = {"metadata": {"name": "p", "labels": {"workflows.argoproj.io/workflow": "w"}}, "status": {"phase": "Running"}}
    conditions = [{"type": "PodRunning", "status": "True"}]
    metrics.workflows = lambda: [workflow("Running", conditions=conditions), workflow("Running")]
    metrics.pods = lambda: [pod, {"metadata": {"name": "of-no-workflow"}}]
    metrics.queue = lambda: (3, 1)
    found = {key: value for name in ("gauge", "pods", "queue", "work") for key, value in samples(metrics, name).items()}
    assert found == {
        'gauge{phase="Pending"}': 0,
        'gauge{phase="Running"}': 2,
        'gauge{phase="Succeeded"}': 0,
        'gauge{phase="Failed"}': 0,
        'gauge{phase="Error"}': 0,
        'pods_gauge{phase="Running"}': 1,
        'queue_depth_gauge{queue_name="workflow_queue"}': 3,
        'workers_busy_count{worker_type="workflow_worker"}': 1,
        'workflow_condition{status="True",type="PodRunning"}': 1,
    }
