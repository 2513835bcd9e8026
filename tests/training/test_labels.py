from __future__ import annotations

import pytest

from muster.training.kinds.mpi import Mpi
from muster.training.kinds.paddlecloud import PaddleCloud
from muster.training.kinds.pytorch import PyTorch
from tests.training.sample_jobs import training_job


@pytest.mark.parametrize(
    ("length", "workers", "told"),
    [
        (54, 10, ""),  # -worker-9 has 9
        (54, 11, 'is 1 characters too long: the Service "{name}-worker-10" is named after it, and may have 63'),
        (60, 1, 'is 6 characters too long: the Service "{name}-worker-0" is named after it, and may have 63'),
    ],
)
def test_a_name_that_leaves_no_room_for_its_services_is_refused(length: int, workers: int, told: str) -> None:
    name = "n" * length
    job = training_job("kubeflow.org/v1", "PyTorchJob", "pytorchReplicaSpecs", "pytorch", {"Worker": workers})
    job["metadata"]["name"] = name
    problems = [cause.message for cause in PyTorch().validate(job)]
    assert problems == ([f'"{name}" {told.format(name=name)}'] if told else [])


def test_so_is_one_of_paddlecloud() -> None:
    name = "n" * 60
    role = {"replicas": 2, "template": {"spec": {"containers": [{"name": "paddle", "image": "i"}]}}}
    (cause,) = PaddleCloud().validate({"metadata": {"name": name, "namespace": "default"}, "spec": {"worker": role}})
    assert f'the Service "{name}-worker-0" is named after it' in cause.message


def test_jobs_without_services_may_have_longer_names() -> None:
    job = training_job("kubeflow.org/v1", "MPIJob", "mpiReplicaSpecs", "mpi", {"Launcher": 1, "Worker": 2})
    job["metadata"]["name"] = "n" * 63
    assert Mpi().validate(job) == []
