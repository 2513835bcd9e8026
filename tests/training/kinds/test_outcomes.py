"""When a job of each kind has succeeded, and when it counts as running."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from muster.training.kinds.base import JobKind
from muster.training.kinds.jax import Jax
from muster.training.kinds.mpi import Mpi
from muster.training.kinds.paddle import Paddle
from muster.training.kinds.paddlecloud import PaddleCloud
from muster.training.kinds.pytorch import PyTorch
from muster.training.kinds.tensorflow import AihcTensorFlow, TensorFlow
from muster.training.kinds.xgboost import XGBoost
from muster.training.model import ReplicaCount
from tests.training.sample_jobs import training_job

PYTORCH, TF, AIHC, XGB, PADDLE, JAX, MPI = (
    PyTorch(), TensorFlow(), AihcTensorFlow(), XGBoost(), Paddle(), Jax(), Mpi(),
)  # fmt: skip
ELASTIC = {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 3}}
ALL = {"successPolicy": "AllWorkers"}


def counts(states: Mapping[str, str]) -> dict[str, ReplicaCount]:
    """One letter per replica: Running, Pending, Succeeded."""
    return {
        role: ReplicaCount(
            active=letters.count("R") + letters.count("P"),
            running=letters.count("R"),
            succeeded=letters.count("S"),
            done=frozenset(i for i, letter in enumerate(letters) if letter == "S"),
        )
        for role, letters in states.items()
    }


@pytest.mark.parametrize(
    ("job_kind", "spec", "states", "succeeded"),
    [
        (PYTORCH, {}, {"Master": "S", "Worker": "RR"}, True),
        (PYTORCH, {}, {"Master": "R", "Worker": "SS"}, False),
        (PYTORCH, {}, {"Worker": "SR"}, False),
        (PYTORCH, {}, {"Worker": "SS"}, True),
        (PYTORCH, ELASTIC, {"Worker": "RS"}, True),
        (TF, {}, {"Chief": "S", "PS": "R", "Worker": "RR"}, True),
        (TF, {}, {"Master": "R", "Worker": "SS"}, False),
        (TF, {}, {"PS": "R", "Worker": "SR"}, True),
        (TF, {}, {"PS": "R", "Worker": "RS"}, False),
        (TF, ALL, {"PS": "R", "Worker": "SR"}, False),
        (TF, ALL, {"PS": "R", "Worker": "SS"}, True),
        (TF, ALL, {"Chief": "S", "Worker": "RR"}, True),
        (AIHC, {}, {"Worker": "SR"}, True),
        (XGB, {}, {"Master": "S", "Worker": "R"}, True),
        (XGB, {}, {"Master": "R", "Worker": "S"}, False),
        (MPI, {}, {"Launcher": "S", "Worker": "RR"}, True),
        (MPI, {}, {"Launcher": "R", "Worker": "SS"}, False),
        (PADDLE, {}, {"Master": "S", "Worker": "R"}, True),
        (PADDLE, {}, {"Worker": "SR"}, False),
        (PADDLE, ELASTIC, {"Worker": "SR"}, True),
        (JAX, {}, {"Worker": "SR"}, False),
        (JAX, {}, {"Worker": "SS"}, True),
    ],
)
def test_when_a_job_has_succeeded(job_kind: Any, spec: Any, states: dict[str, str], succeeded: bool) -> None:
    roles = {role: len(letters) for role, letters in states.items()}
    kind = job_kind.kind
    obj = training_job(kind.api_version, kind.kind, job_kind.replica_specs, job_kind.container, roles, **spec)
    verdict = job_kind.outcome(job_kind.read(obj), counts(states))
    assert (verdict is not None and verdict.succeeded) == succeeded


@pytest.mark.parametrize(
    ("job_kind", "states", "running"),
    [
        (PYTORCH, {"Master": "R", "Worker": "P"}, True),
        (PYTORCH, {"Master": "P", "Worker": "R"}, False),
        (TF, {"PS": "R", "Worker": "P"}, True),
        (TF, {"Chief": "P", "Worker": "R"}, False),
        (MPI, {"Launcher": "", "Worker": "RR"}, False),
        (JAX, {"Worker": "RP"}, True),
    ],
)
def test_when_a_job_counts_as_running(job_kind: Any, states: dict[str, str], running: bool) -> None:
    kind = job_kind.kind
    roles = {role: max(1, len(letters)) for role, letters in states.items()}
    obj = training_job(kind.api_version, kind.kind, job_kind.replica_specs, job_kind.container, roles)
    assert job_kind.is_running(job_kind.read(obj), counts(states)) == running


@pytest.mark.parametrize(
    ("states", "succeeded", "running"),
    [
        ({"ps": "RR", "worker": "RR"}, False, True),
        ({"ps": "RR", "worker": "RP"}, False, False),
        ({"ps": "RR", "worker": "SS"}, False, False),
        ({"ps": "SS", "worker": "SS"}, True, False),
    ],
)
def test_a_paddlecloud_job_is_complete_when_all_are(states: dict[str, str], succeeded: bool, running: bool) -> None:
    job_kind: JobKind = PaddleCloud()
    spec = {role: {"replicas": len(letters), "template": {}} for role, letters in states.items()}
    job = job_kind.read({"kind": "PaddleJob", "metadata": {"name": "job"}, "spec": spec})
    assert (job_kind.outcome(job, counts(states)) is not None) == succeeded
    assert job_kind.is_running(job, counts(states)) == running
