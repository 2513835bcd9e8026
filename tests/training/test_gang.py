from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from muster.kube.objects import Object, spec_of
from muster.training.dialects.mpi import Mpi
from muster.training.dialects.pytorch import PyTorch
from muster.training.gang import Membership, membership, pod_group, read_scheduler
from tests.training.sample_jobs import training_job

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
    assert read_scheduler(written) == read


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("default-scheduler", "is written scheduler-plugins:default-scheduler"),
        ("Volcano", '"Volcano" is not one of none, volcano, scheduler-plugins'),
        ("volcano:mine", "write volcano; only after scheduler-plugins: comes a name"),
    ],
)
def test_what_is_no_gang_scheduler(written: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_scheduler(written)


@pytest.mark.parametrize(
    ("policy", "spec"),
    [
        ({}, {"minMember": 3, "minResources": {"cpu": "6"}}),
        ({"minAvailable": 2, "scheduleTimeoutSeconds": 7}, {"minMember": 2, "scheduleTimeoutSeconds": 7}),
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


def test_nobody_waits_for_a_launcher_that_waits_for_them() -> None:
    obj = training_job("kubeflow.org/v1", "MPIJob", "mpiReplicaSpecs", "mpi", {"Launcher": 1, "Worker": 2})
    job = Mpi().read(obj)
    assert spec_of(pod_group(job, "scheduler-plugins", late=Mpi().latecomers(job)))["minMember"] == 2


def test_members(pytorch_job: MakeJob) -> None:
    job = PyTorch().read(pytorch_job())
    labels = {"scheduling.x-k8s.io/pod-group": "job"}
    assert membership(job, "scheduler-plugins") == Membership("scheduler-plugins-scheduler", labels)
    assert membership(job, "scheduler-plugins", "default-scheduler").scheduler == "default-scheduler"
    assert membership(job, "volcano").annotations == {"scheduling.k8s.io/group-name": "job"}
