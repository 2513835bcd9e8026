from __future__ import annotations

import pytest
from yarl import URL

from muster.kube.errors import Conflict, Unavailable
from muster.kube.objects import Key
from muster.operator.metrics import Metrics, request_verb
from muster.training.controller import JobEvent
from muster.training.kinds.pytorch import PyTorch
from muster.training.kinds.tensorflow import TensorFlow
from muster.training.registry import JOB_KINDS

API = "https://host:6443"


@pytest.mark.parametrize(
    ("method", "path", "verb"),
    [
        ("GET", "/api/v1/pods", "list"),
        ("GET", "/api/v1/pods?watch=true", "watch"),
        ("GET", "/api/v1/namespaces", "list"),
        ("GET", "/api/v1/namespaces/team", "get"),
        ("GET", "/api/v1/namespaces/team/pods", "list"),
        ("GET", "/api/v1/namespaces/team/pods/a", "get"),
        ("GET", "/apis/kubeflow.org/v1/pytorchjobs", "list"),
        ("GET", "/apis/coordination.k8s.io/v1/namespaces/team/leases/a", "get"),
        ("POST", "/api/v1/namespaces/team/pods", "create"),
        ("PUT", "/api/v1/namespaces/team/pods/a/status", "update"),
        ("PATCH", "/api/v1/namespaces/team/pods/a", "patch"),
        ("DELETE", "/api/v1/namespaces/team/pods/a", "delete"),
        ("GET", "/apis", "get"),
        ("GET", "/version", "get"),
    ],
)
def test_verbs(method: str, path: str, verb: str) -> None:
    assert request_verb(method, URL(API + path)) == verb


def test_what_happens_to_jobs_has_training_operator_s_names() -> None:
    metrics = Metrics()
    job = {"kind": "PyTorchJob", "metadata": {"name": "job", "namespace": "team"}}
    steps: list[JobEvent] = ["created", "restarted", "restarted", "failed", "deleted"]
    for event in steps:
        metrics.count_job_event(PyTorch(), job, event)
    metrics.count_job_event(TensorFlow(), job, "successful")
    lines = metrics.render().decode().splitlines()
    for name, framework, number in (
        ("created", "pytorch", 1),
        ("restarted", "pytorch", 2),
        ("failed", "pytorch", 1),
        ("deleted", "pytorch", 1),
        ("successful", "tensorflow", 1),
    ):
        labels = f'{{framework="{framework}",job_namespace="team"}}'
        assert f"training_operator_jobs_{name}_total{labels} {number}.0" in lines
        assert f"# TYPE training_operator_jobs_{name}_total counter" in lines


def test_frameworks_are_called_as_training_operator_calls_them() -> None:
    names = {"pytorch", "tensorflow", "xgboost", "mpi", "paddle", "jax"}
    assert {job_kind.container for job_kind in JOB_KINDS} == names


def test_what_an_operator_counts() -> None:
    metrics = Metrics()
    item = ("pytorchjobs.kubeflow.orgv1", Key("default", "job"))
    for error in (None, None, Conflict("changed"), Unavailable("away")):
        metrics.observe_reconcile(item, 0.01, error)
    metrics.observe_request("POST", URL(f"{API}/api/v1/namespaces/default/pods"), 201, 0.01)
    metrics.leads = lambda: True
    lines = metrics.render().decode().splitlines()
    for line in (
        'muster_operator_reconcile_total{kind="pytorchjobs",result="success"} 2.0',
        'muster_operator_reconcile_total{kind="pytorchjobs",result="conflict"} 1.0',
        'muster_operator_reconcile_errors_total{error="Unavailable",kind="pytorchjobs"} 1.0',
        'muster_operator_reconcile_seconds_bucket{kind="pytorchjobs",le="0.005"} 0.0',
        'muster_operator_reconcile_seconds_bucket{kind="pytorchjobs",le="0.01"} 4.0',
        'muster_operator_reconcile_seconds_count{kind="pytorchjobs"} 4.0',
        'muster_operator_api_requests_total{code="201",verb="create"} 1.0',
        "muster_operator_queue_depth 0.0",
        "muster_operator_leader 1.0",
    ):
        assert line in lines
    for name in ("process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds"):
        assert any(line.startswith(f"{name} ") for line in lines), name
    assert not any("_created" in line and line.startswith("muster_operator") for line in lines)
