"""Jobs to plan with, and a cluster to run them on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.port_leases import PORT_LEASE, PortLeases
from muster.kube.builtin import new_catalogue
from muster.kube.objects import Object
from muster.training.registry import training_kinds
from tests.training.sample_jobs import training_job

MakeJob = Callable[..., Object]


@pytest.fixture
def pytorch_job() -> MakeJob:
    def make(roles: Mapping[str, Any] | None = None, **spec: Any) -> Object:
        wanted = roles if roles is not None else {"Master": 1, "Worker": 2}
        return training_job("kubeflow.org/v1", "PyTorchJob", "pytorchReplicaSpecs", "pytorch", wanted, **spec)

    return make


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    """The API with training kinds and addresses, but no scheduler and no node: the test changes the Pods."""
    catalogue = new_catalogue()
    for kind in (*training_kinds(), PORT_LEASE):
        catalogue.register(kind)
    async with EmbeddedCluster(tmp_path / "cluster", catalogue, durability="process") as cluster:
        cluster.addresses = PortLeases(cluster)
        yield cluster
