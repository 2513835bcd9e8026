"""Jobs of every kind as the platform shows them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from muster.platform.database.queries import PageRequest
from muster.platform.errors import InvalidProblem
from muster.platform.jobs.jobs import (
    JobFilter,
    RunOwner,
    check_filter,
    describe_job,
    filter_jobs,
    job_kind_named,
    job_kind_of,
    page_of_jobs,
    run_of,
    subject_of,
)
from muster.platform.records.jobs import Job
from muster.training.kinds.paddlecloud import PaddleCloud
from muster.training.kinds.pytorch import PyTorch

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
def test_conditions_map_to_one_state(conditions: list[str], state: str) -> None:
    assert describe_job(PyTorch(), pytorch({"conditions": [condition(type) for type in conditions]})).state == state


def test_false_conditions_are_ignored() -> None:
    told = [condition("Created"), condition("Suspended", "False"), condition("Running")]
    assert describe_job(PyTorch(), pytorch({"conditions": told})).state == "running"


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
def test_the_phases_of_paddlecloud_map_to_the_same_states(phase: str, state: str) -> None:
    obj = {
        **pytorch({"phase": phase, "worker": {"running": 2, "failed": 1}}),
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "spec": {"worker": {"replicas": 3, "template": {}}},
    }
    job = describe_job(PaddleCloud(), obj)
    assert (job.state, job.replicas, job.running, job.failed) == (state, 3, 2, 1)
    assert job.word == "paddlejob.batch.paddlepaddle.org"


def test_members_are_counted_over_all_roles() -> None:
    told = {"Master": {"active": 1}, "Worker": {"active": 1, "succeeded": 1, "failed": 1}}
    job = describe_job(PyTorch(), pytorch({"replicaStatuses": told}))
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
def test_the_owner_of_a_job(metadata: dict[str, Any], owner: str, team: str) -> None:
    runs = {"r1": RunOwner("bob", "nlp")}
    subject = subject_of(describe_job(PyTorch(), pytorch(**metadata)), runs, lambda namespace: None)
    assert (subject.kind, subject.owner, subject.team) == ("job", owner, team)


def test_the_run_of_a_job_is_that_of_its_workflow() -> None:
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
def test_every_kind_has_a_url(word: str, kind: str) -> None:
    job_kind = job_kind_named(word)
    assert job_kind is not None and job_kind.kind.kind == kind


def test_both_versions_of_mpi_jobs_are_known() -> None:
    for version in ("v1", "v2beta1"):
        assert job_kind_of({"apiVersion": f"kubeflow.org/{version}", "kind": "MPIJob"}) is job_kind_named("mpijob")
    assert job_kind_of({"apiVersion": "kubeflow.org/v9", "kind": "MPIJob"}) is None


def job(number: int, **more: Any) -> Job:
    return replace(
        describe_job(PyTorch(), pytorch()),
        uid=f"00000000-{number:04}",
        name=f"job-{number}",
        created=datetime(2026, 1, number, tzinfo=UTC),
        **more,
    )


JOBS = [
    job(1, state="running", owner_id="ann"),
    job(2, state="failed", owner_id="bob", word="tfjob"),
    job(3, state="waiting", run_id="r1", namespace="other"),
]


@pytest.mark.parametrize(
    ("only", "numbers"),
    [
        (JobFilter(), [1, 2, 3]),
        (JobFilter(q="JOB-2"), [2]),
        (JobFilter(q="tfjob job"), [2]),
        (JobFilter(q="other"), [3]),
        (JobFilter(kinds=("pytorchjob",)), [1, 3]),
        (JobFilter(states=("failed", "waiting")), [2, 3]),
        (JobFilter(owners=("ann",)), [1]),
        (JobFilter(owners=()), []),
        (JobFilter(run="r1"), [3]),
        (JobFilter(namespace="default"), [1, 2]),
        (JobFilter(since=datetime(2026, 1, 2, tzinfo=UTC)), [2, 3]),
        (JobFilter(until=datetime(2026, 1, 2, tzinfo=UTC)), [1]),
    ],
)
def test_filters(only: JobFilter, numbers: list[int]) -> None:
    assert [int(found.name[-1]) for found in filter_jobs(JOBS, only, lambda each: each.owner_id or "")] == numbers


@pytest.mark.parametrize(
    ("sort", "numbers"),
    [("", [3, 2, 1]), ("created", [1, 2, 3]), ("name", [1, 2, 3]), ("-kind", [2, 3, 1]), ("state", [3, 1, 2])],
)
def test_pages_are_in_the_same_order_as_the_whole_list(sort: str, numbers: list[int]) -> None:
    assert [int(found.name[-1]) for found in page_of_jobs(JOBS, PageRequest(sort=sort)).items] == numbers
    pieces, cursor = [], ""
    for _ in numbers:
        page = page_of_jobs(JOBS, PageRequest(limit=1, cursor=cursor, sort=sort))
        assert page.total == 3
        pieces += page.items
        cursor = page.next or ""
    assert [int(found.name[-1]) for found in pieces] == numbers
    assert cursor == ""


def test_a_cursor_stays_valid_when_jobs_are_added_and_removed() -> None:
    page = page_of_jobs(JOBS, PageRequest(limit=1))
    later = [job(4), *JOBS[:2]]
    assert [found.name for found in page_of_jobs(later, PageRequest(cursor=page.next or "")).items] == [
        "job-2",
        "job-1",
    ]


@pytest.mark.parametrize("wanted", [PageRequest(sort="colour"), PageRequest(limit=0), PageRequest(cursor="x")])
def test_invalid_options_are_refused(wanted: PageRequest) -> None:
    with pytest.raises(InvalidProblem):
        page_of_jobs(JOBS, wanted)


def test_unknown_kinds_and_states_are_refused() -> None:
    check_filter(JobFilter(kinds=("tfjob",), states=("running",)), ["tfjob"])
    for only in (JobFilter(kinds=("podjob",)), JobFilter(states=("gone",))):
        with pytest.raises(InvalidProblem):
            check_filter(only, ["tfjob"])
