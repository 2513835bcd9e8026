"""Jobs to plan with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from muster.kube.objects import Object
from tests.training.sample_jobs import training_job

MakeJob = Callable[..., Object]


@pytest.fixture
def pytorch_job() -> MakeJob:
    def make(roles: Mapping[str, Any] | None = None, **spec: Any) -> Object:
        wanted = roles if roles is not None else {"Master": 1, "Worker": 2}
        return training_job("kubeflow.org/v1", "PyTorchJob", "pytorchReplicaSpecs", "pytorch", wanted, **spec)

    return make
