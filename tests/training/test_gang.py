from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from muster.kube.objects import Object, parse_time, spec_of
from muster.training.gang import (
    GangMembership,
    GangSettings,
    gang_membership,
    needs_update,
    parse_scheduler,
    pod_group,
    seconds_to_wait_for_group,
    wants_gang,
)
from muster.training.kinds.mpi import Mpi
from muster.training.kinds.pytorch import PyTorch
from tests.training.sample_jobs import naming, training_job

MakeJob = Callable[..., Object]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("none", ("none", "")),
        ("volcano", ("volcano", "")),
        ("scheduler-plugins", ("scheduler-plugins", "")),
        ("scheduler-plugins:default-scheduler", ("scheduler-plugins", "default-scheduler")),
    ],
)
def test_which_scheduler(written: str, read: tuple[str, str]) -> None:
    assert parse_scheduler(written) == read


POLICY = {"runPolicy": {"schedulingPolicy": {"queue": "q"}}}


@pytest.mark.parametrize(
    ("roles", "spec", "settings", "is_one"),
    [
        (None, {}, GangSettings(), False),
        (None, {}, GangSettings(always=True), True),
        (None, POLICY, GangSettings(), True),
        (None, POLICY, GangSettings(by_policy=False), False),
        (None, {}, GangSettings(scheduler="volcano"), True),
        (naming("volcano"), {}, GangSettings(by_policy=False), True),
        (naming("scheduler-plugins-scheduler"), {}, GangSettings(), True),
        (naming("scheduler-plugins-scheduler"), {}, GangSettings(by_policy=False), False),
    ],
)
def test_which_jobs_are_gangs(
    pytorch_job: MakeJob, roles: dict[str, Any] | None, spec: dict[str, Any], settings: GangSettings, is_one: bool
) -> None:
    assert wants_gang(PyTorch().read(pytorch_job(roles, **spec)), settings) is is_one


@pytest.mark.parametrize(
    ("spec", "settings", "seconds"),
    [
        ({}, GangSettings(), 2.0),
        ({}, GangSettings(by_policy=False), 2.0),
        ({}, GangSettings(scheduler="volcano"), 0.0),
        ({}, GangSettings(always=True), 0.0),
        (POLICY, GangSettings(), 0.0),
    ],
)
def test_seconds_to_wait_for_a_group_of_the_user(
    pytorch_job: MakeJob, spec: dict[str, Any], settings: GangSettings, seconds: float
) -> None:
    job = PyTorch().read(pytorch_job(naming("volcano"), **spec))
    now = parse_time(job.object["metadata"]["creationTimestamp"]) + timedelta(seconds=1)
    assert seconds_to_wait_for_group(job, settings, now) == seconds


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("default-scheduler", "is written scheduler-plugins:default-scheduler"),
        ("Volcano", '"Volcano" is not one of none, volcano, scheduler-plugins'),
        ("volcano:mine", "write volcano; only after scheduler-plugins: comes a name"),
    ],
)
def test_invalid_gang_schedulers(written: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_scheduler(written)


@pytest.mark.parametrize(
    ("policy", "spec"),
    [
        ({}, {"minMember": 3, "minResources": {"cpu": "6"}}),
        ({"minAvailable": 2, "scheduleTimeoutSeconds": 7}, {"minMember": 2, "scheduleTimeoutSeconds": 7}),
        ({"minAvailable": 10}, {"minMember": 10, "minResources": {"cpu": "6"}}),
        ({"minResources": {"cpu": "1"}, "queue": "q", "priorityClass": "high"}, {"minResources": {"cpu": "1"}}),
    ],
)
def test_a_group_as_scheduler_plugins_has_it(pytorch_job: MakeJob, policy: dict[str, Any], spec: Object) -> None:
    container = {"name": "pytorch", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    role = {"template": {"spec": {"containers": [container]}}}
    roles = {"Master": {"replicas": 1, **role}, "Worker": {"replicas": 2, **role}}
    job = PyTorch().read(pytorch_job(roles, runPolicy={"schedulingPolicy": policy}))
    found = spec_of(pod_group(job, "scheduler-plugins"))
    assert found.items() >= spec.items()
    assert found.keys() <= {"minMember", "minResources", "scheduleTimeoutSeconds"}


@pytest.mark.parametrize(("asked", "waited_for"), [({}, 2), ({"minAvailable": 3}, 2), ({"minAvailable": 10}, 10)])
def test_workers_do_not_wait_for_a_launcher_that_waits_for_them(asked: dict[str, int], waited_for: int) -> None:
    roles = {"Launcher": 1, "Worker": 2}
    policy = {"schedulingPolicy": asked}
    obj = training_job("kubeflow.org/v1", "MPIJob", "mpiReplicaSpecs", "mpi", roles, runPolicy=policy)
    job = Mpi().read(obj)
    group = pod_group(job, "scheduler-plugins", late=Mpi().count_late_replicas(job))
    assert spec_of(group)["minMember"] == waited_for


@pytest.mark.parametrize(
    ("phase", "spec", "must"),
    [
        ("", {"minMember": 10, "queue": "q"}, True),
        ("Pending", {"minMember": 2, "queue": "q"}, True),
        ("Scheduling", {"minMember": 2, "queue": "q"}, True),
        ("Inqueue", {"minMember": 3, "queue": "other"}, True),
        ("Inqueue", {"minMember": 3, "queue": "q", "minTaskMember": {"worker": 1}}, False),
        ("Running", {"minMember": 2, "queue": "other"}, False),
        ("Running", {"minMember": 4, "queue": "q"}, True),
    ],
)
def test_when_a_group_follows_its_job(phase: str, spec: Object, must: bool) -> None:
    wanted = {"spec": {"minMember": 3, "queue": "q"}}
    assert needs_update({"spec": spec, "status": {"phase": phase}}, wanted) == must


def test_members(pytorch_job: MakeJob) -> None:
    job = PyTorch().read(pytorch_job())
    labels = {"scheduling.x-k8s.io/pod-group": "job"}
    assert gang_membership(job, "scheduler-plugins") == GangMembership("scheduler-plugins-scheduler", labels)
    assert gang_membership(job, "scheduler-plugins", "default-scheduler").scheduler == "default-scheduler"
    assert gang_membership(job, "volcano").annotations == {"scheduling.k8s.io/group-name": "job"}
