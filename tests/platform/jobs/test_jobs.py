"""Jobs of every kind as the platform shows them."""

from __future__ import annotations

from typing import Any

import pytest

from muster.platform.jobs.jobs import Belonging, dialect_for, dialect_of, run_of, seen, subject_of
from muster.training.dialects.paddlecloud import PaddleCloud
from muster.training.dialects.pytorch import PyTorch

NOW = "2026-01-01T00:00:00Z"
WORKFLOW = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "run-r1", "uid": "u"}


def pytorch(status: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "pytorch", "image": "x"}]}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "j", "namespace": "default", "uid": "1", "creationTimestamp": NOW, **metadata},
        "spec": {"pytorchReplicaSpecs": {"Master": {"template": template}, "worker": {"replicas": 3}}},
        "status": status or {},
    }


def condition(type: str, status: str = "True") -> dict[str, str]:
    return {"type": type, "status": status, "reason": "", "lastTransitionTime": NOW}


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ([], "waiting"),
        (["Created"], "waiting"),
        (["Created", "Running"], "running"),
        (["Created", "Restarting"], "restarting"),
        (["Created", "Suspended"], "suspended"),
        (["Created", "Succeeded"], "succeeded"),
        (["Created", "Failed"], "failed"),
    ],
)
def test_conditions_are_one_state(conditions: list[str], state: str) -> None:
    assert seen(PyTorch(), pytorch({"conditions": [condition(type) for type in conditions]})).state == state


def test_a_condition_that_does_not_hold_counts_for_nothing() -> None:
    told = [condition("Created"), condition("Suspended", "False"), condition("Running")]
    assert seen(PyTorch(), pytorch({"conditions": told})).state == "running"


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        ("Pending", "waiting"),
        ("Starting", "waiting"),
        ("Running", "running"),
        ("Completed", "succeeded"),
        ("Failed", "failed"),
    ],
)
def test_the_phases_of_paddlecloud_are_the_same_states(phase: str, state: str) -> None:
    obj = {
        **pytorch({"phase": phase, "worker": {"running": 2, "failed": 1}}),
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "spec": {"worker": {"replicas": 3, "template": {}}},
    }
    job = seen(PaddleCloud(), obj)
    assert (job.state, job.replicas, job.running, job.failed) == (state, 3, 2, 1)
    assert job.word == "paddlejob.batch.paddlepaddle.org"


def test_members_are_counted_over_all_roles() -> None:
    told = {"Master": {"active": 1}, "Worker": {"active": 1, "succeeded": 1, "failed": 1}}
    job = seen(PyTorch(), pytorch({"replicaStatuses": told}))
    assert (job.replicas, job.running, job.succeeded, job.failed) == (4, 2, 1, 1)


@pytest.mark.parametrize(
    ("metadata", "owner", "team"),
    [
        ({}, "", ""),
        ({"labels": {"muster.dev/owner": "ann", "muster.dev/team": "vision"}}, "ann", "vision"),
        ({"ownerReferences": [WORKFLOW]}, "bob", "nlp"),
        ({"ownerReferences": [WORKFLOW], "labels": {"muster.dev/owner": "eve"}}, "bob", "nlp"),
        ({"labels": {"muster.dev/run": "r1"}}, "", ""),
        ({"ownerReferences": [{**WORKFLOW, "name": "run-gone"}], "labels": {"muster.dev/owner": "eve"}}, "", ""),
        ({"ownerReferences": [{**WORKFLOW, "apiVersion": "v1"}]}, "", ""),
        ({"ownerReferences": [{**WORKFLOW, "name": "somebody-elses"}]}, "", ""),
    ],
)
def test_whose_a_job_is(metadata: dict[str, Any], owner: str, team: str) -> None:
    subject = subject_of(seen(PyTorch(), pytorch(**metadata)), {"r1": Belonging("bob", "nlp")})
    assert (subject.kind, subject.owner, subject.team) == ("job", owner, team)


def test_the_run_is_that_of_the_workflow() -> None:
    assert run_of(pytorch(ownerReferences=[WORKFLOW])) == "r1"
    assert run_of(pytorch()) == ""


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("pytorchjob", "PyTorchJob"),
        ("tfjob", "TFJob"),
        ("xgboostjob", "XGBoostJob"),
        ("mpijob", "MPIJob"),
        ("paddlejob", "PaddleJob"),
        ("paddlejob.batch.paddlepaddle.org", "PaddleJob"),
        ("jaxjob", "JAXJob"),
    ],
)
def test_every_kind_has_an_address(word: str, kind: str) -> None:
    dialect = dialect_of(word)
    assert dialect is not None and dialect.kind.kind == kind


def test_both_versions_of_mpi_jobs_are_known() -> None:
    for version in ("v1", "v2beta1"):
        assert dialect_for({"apiVersion": f"kubeflow.org/{version}", "kind": "MPIJob"}) is dialect_of("mpijob")
    assert dialect_for({"apiVersion": "kubeflow.org/v9", "kind": "MPIJob"}) is None
