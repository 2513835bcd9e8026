from __future__ import annotations

import pytest
from yarl import URL

from muster.kube.errors import Conflict, Unavailable
from muster.kube.objects import Key
from muster.operator.metrics import Counter, Histogram, Metrics, verb_of
from muster.training.job_events import JobEvent
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
    assert verb_of(method, URL(API + path)) == verb


def test_a_counter() -> None:
    counter = Counter("things_total", "Things.")
    counter.add(kind="a")
    counter.add(2, kind="a")
    counter.add(kind='with "quotes"')
    assert counter.text() == (
        "# HELP things_total Things.\n# TYPE things_total counter\n"
        'things_total{kind="a"} 3\nthings_total{kind="with \\"quotes\\""} 1\n'
    )


def test_a_histogram_counts_what_is_at_most_each_bound() -> None:
    histogram = Histogram("seconds", "Seconds.")
    for value in (0.001, 0.2, 99.0):
        histogram.observe(value, kind="a")
    lines = histogram.text().splitlines()
    assert 'seconds_bucket{kind="a",le="0.001"} 1' in lines
    assert 'seconds_bucket{kind="a",le="0.1"} 1' in lines
    assert 'seconds_bucket{kind="a",le="0.25"} 2' in lines
    assert 'seconds_bucket{kind="a",le="30.0"} 2' in lines
    assert lines[-3:] == [
        'seconds_bucket{kind="a",le="+Inf"} 3',
        'seconds_sum{kind="a"} 99.201',
        'seconds_count{kind="a"} 3',
    ]


def test_what_happens_to_jobs_has_training_operator_s_names() -> None:
    metrics = Metrics()
    job = {"kind": "PyTorchJob", "metadata": {"name": "job", "namespace": "team"}}
    steps: list[JobEvent] = ["created", "restarted", "restarted", "failed", "deleted"]
    for milestone in steps:
        metrics.passed(PyTorch(), job, milestone)
    metrics.passed(TensorFlow(), job, "successful")
    lines = metrics.text().splitlines()
    for name, framework, number in (
        ("created", "pytorch", 1),
        ("restarted", "pytorch", 2),
        ("failed", "pytorch", 1),
        ("deleted", "pytorch", 1),
        ("successful", "tensorflow", 1),
    ):
        labels = f'{{job_namespace="team",framework="{framework}"}}'
        assert f"training_operator_jobs_{name}_total{labels} {number}" in lines
        assert f"# TYPE training_operator_jobs_{name}_total counter" in lines


def test_frameworks_are_called_as_training_operator_calls_them() -> None:
    names = {"pytorch", "tensorflow", "xgboost", "mpi", "paddle", "jax"}
    assert {dialect.container for dialect in JOB_KINDS} == names


def test_what_an_operator_counts() -> None:
    metrics = Metrics()
    item = ("pytorchjobs.kubeflow.orgv1", Key("default", "job"))
    for error in (None, None, Conflict("changed"), Unavailable("away")):
        metrics.reconciled(item, 0.01, error)
    metrics.answered("POST", URL(f"{API}/api/v1/namespaces/default/pods"), 201, 0.01)
    metrics.leads = lambda: True
    lines = metrics.text().splitlines()
    for line in (
        'muster_operator_reconcile_total{kind="pytorchjobs",result="success"} 2',
        'muster_operator_reconcile_total{kind="pytorchjobs",result="conflict"} 1',
        'muster_operator_reconcile_errors_total{kind="pytorchjobs",error="Unavailable"} 1',
        'muster_operator_reconcile_seconds_count{kind="pytorchjobs"} 4',
        'muster_operator_api_requests_total{verb="create",code="201"} 1',
        "muster_operator_queue_depth 0",
        "muster_operator_leader 1",
    ):
        assert line in lines
