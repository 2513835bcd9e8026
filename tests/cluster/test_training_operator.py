"""Kubeflow's training-operator, the counterpart of our own, runs jobs on fake nodes."""

from __future__ import annotations

from typing import Any

import pytest

from muster.kube.builtin import POD
from muster.kube.errors import ApiError
from muster.kube.objects import status_of
from muster.kube.remote.client import RemoteCluster
from tests.cluster.conftest import Needs
from tests.cluster.waiting import has, until
from tools.cluster import kwok

pytestmark = pytest.mark.cluster


def job(namespace: str, container: str = "pytorch", seconds: str = "1") -> dict[str, Any]:
    template = {
        "metadata": {"annotations": {kwok.SECONDS: seconds}},
        "spec": {
            "nodeSelector": {"type": kwok.FAKE_NODE},
            "tolerations": [kwok.FAKE_TOLERATION],
            "containers": [{"name": container, "image": "none:1"}],
        },
    }
    replicas = {"Master": {"replicas": 1, "template": template}, "Worker": {"replicas": 3, "template": template}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "job", "namespace": namespace},
        "spec": {"runPolicy": {"cleanPodPolicy": "None"}, "pytorchReplicaSpecs": replicas},
    }


async def test_a_job_runs_and_succeeds(needs: Needs, remote: RemoteCluster, namespace: str) -> None:
    needs("kwok", "training-operator")
    kind = await remote.find("pytorchjobs.kubeflow.org")
    await remote.create(job(namespace))
    done = await until(remote, kind, "job", namespace, has("Succeeded"))
    assert status_of(done)["replicaStatuses"]["Master"]["succeeded"] == 1
    pods = (await remote.list(POD, namespace)).items
    assert sorted(pod["metadata"]["name"] for pod in pods) == [
        "job-master-0", "job-worker-0", "job-worker-1", "job-worker-2",
    ]  # fmt: skip


async def test_its_webhook_is_called(needs: Needs, remote: RemoteCluster, namespace: str) -> None:
    needs("kwok", "training-operator")
    await remote.find("pytorchjobs.kubeflow.org")
    with pytest.raises(ApiError, match="must have at least one container with name pytorch"):
        await remote.create(job(namespace, container="main"))
