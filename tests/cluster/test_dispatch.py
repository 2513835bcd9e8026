"""`ClusterAdapter` runs jobs of every kind on a real Kubernetes, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.dispatch import ClusterAdapter, Dispatcher, JobCancelled, JobFailed, JobHandle, Resources
from muster.dispatch.kubernetes_objects import JOB_LABEL
from muster.kube.builtin import POD, SECRET
from muster.kube.objects import labels_of
from muster.kube.remote.client import RemoteCluster
from tests.cluster.conftest import Needs
from tests.cluster.operating import KINDS, operating, without_the_peer
from tests.cluster.waiting import until_all
from tests.dispatch import shop
from tools.cluster.cluster import Cluster as RealCluster

pytestmark = [pytest.mark.cluster, pytest.mark.smoke, pytest.mark.timeout(300)]

PATIENCE = 120.0
SMALL = Resources(cpu=0.1, memory="32Mi", labels={"kubernetes.io/hostname": "muster-node"})
PYTORCH_JOB = KINDS["kubeflow.org/v1", "PyTorchJob"]


@pytest.fixture(scope="module")
def ours(real: RealCluster) -> Iterator[RealCluster]:
    with without_the_peer(real) as cluster:
        yield cluster


@pytest.fixture
def dispatcher(needs: Needs, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Dispatcher]:
    cluster = needs("node")
    monkeypatch.setenv("SHOP_KEY", "hunter2")
    adapter = ClusterAdapter(cluster.kubeconfig_of("operator"), namespace)
    made = Dispatcher(f"sqlite:///{tmp_path}/shop.db", adapters=[adapter], folder=tmp_path / "jobs", interval=0.1)
    made.container("script", resources=SMALL)(shop.Script)
    made.container("pair", resources=Resources(cpu=0.1, memory="32Mi", nodes=2, labels=SMALL.labels))(shop.Script)
    with made:
        yield made
    made.close()


async def result_of(job: JobHandle) -> Any:
    return await asyncio.to_thread(job.result, PATIENCE)


async def log_of(job: JobHandle) -> list[str]:
    return await asyncio.to_thread(lambda: list(job.logs()))


async def until_nothing_is_left(remote: RemoteCluster, namespace: str) -> None:
    """The kubelet takes a moment to remove a deleted Pod."""
    for kind in (POD, SECRET):
        await until_all(
            remote, kind, namespace, lambda found: not any(JOB_LABEL in labels_of(obj) for obj in found.values())
        )


async def test_a_program_runs_with_its_key(dispatcher: Dispatcher, remote: RemoteCluster, namespace: str) -> None:
    job = dispatcher.submit("script", {"script": "echo the key has ${#SHOP_KEY} letters"})
    await result_of(job)
    assert await log_of(job) == ["the key has 7 letters"]
    assert job.refresh().hosts == ("muster-node",)
    await until_nothing_is_left(remote, namespace)


async def test_a_failure_is_told_with_its_code_and_log(
    dispatcher: Dispatcher, remote: RemoteCluster, namespace: str
) -> None:
    with pytest.raises(JobFailed) as failed:
        await result_of(dispatcher.submit("script", {"script": "echo out of luck; exit 3"}))
    fault = failed.value.fault
    assert (fault.code, fault.exit_code, fault.log_tail) == ("Job.ExitCode", 3, ("out of luck",))
    await until_nothing_is_left(remote, namespace)


async def test_a_running_job_is_cancelled(dispatcher: Dispatcher, remote: RemoteCluster, namespace: str) -> None:
    job = dispatcher.submit("script", {"script": "echo waiting; sleep 600"})
    await asyncio.to_thread(lambda: next(line for line in follow(job) if line == "waiting"))
    job.cancel(grace=1)
    with pytest.raises(JobCancelled):
        await result_of(job)
    assert await log_of(job) == ["waiting"]
    await until_nothing_is_left(remote, namespace)


def follow(job: JobHandle) -> Iterator[str]:
    """Yields the log's lines as soon as there is a log."""
    while not job.refresh().has_ended:
        yield from job.logs(follow=True)


@pytest.mark.parametrize(("type", "args", "ranks"), [("script", {"manifest": True}, 1), ("pair", {}, 2)])
async def test_a_training_job(
    dispatcher: Dispatcher, remote: RemoteCluster, namespace: str, ours: RealCluster, type: str, args: Any, ranks: int
) -> None:
    with operating(ours, f"--namespace={namespace}"):
        job = dispatcher.submit(type, {"script": "echo rank $RANK of $WORLD_SIZE", **args})
        await result_of(job)
        said = sorted(line.rpartition(" | ")[2] for line in await log_of(job))
        assert said == [f"rank {rank} of {ranks}" for rank in range(ranks)]
        assert str(job.refresh().external_id).startswith(f"{PYTORCH_JOB.resource}/{namespace}/")
        await until_all(remote, PYTORCH_JOB, namespace, lambda found: not found)
        await until_nothing_is_left(remote, namespace)
