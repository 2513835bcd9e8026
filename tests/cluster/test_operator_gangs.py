"""Our operator with the real scheduler-plugins: a gang starts as a whole or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import pytest

from muster.kube.builtin import NODE, PLUGIN_POD_GROUP
from muster.kube.objects import Object, get_condition, labels_of, name_of, spec_of, status_of
from muster.kube.remote.client import RemoteCluster
from tests.cluster.conftest import OnDemand
from tests.cluster.operating import KINDS, operating, until_pods, without_the_peer
from tests.cluster.waiting import has, phase_of, until
from tools.cluster import kwok
from tools.cluster.cluster import Cluster as RealCluster

pytestmark = [pytest.mark.cluster, pytest.mark.smoke, pytest.mark.timeout(300)]

PYTORCH = KINDS["kubeflow.org/v1", "PyTorchJob"]
MPI = KINDS["kubeflow.org/v1", "MPIJob"]
GPU = "nvidia.com/gpu"
MEMBERS = ("job-master-0", "job-worker-0", "job-worker-1")


@pytest.fixture(scope="module")
def operator(on_demand: OnDemand) -> Iterator[RealCluster]:
    with (
        without_the_peer(on_demand("scheduler-plugins", "kwok")) as ours,
        operating(ours, "--gang-scheduler-name=scheduler-plugins"),
    ):
        yield ours


@pytest.fixture
async def two_nodes(operator: RealCluster, remote: RemoteCluster, namespace: str) -> AsyncIterator[str]:
    """Two fake nodes for this test, with room for one member each. Returns the value of their label."""
    for number in range(2):
        await remote.create(gpu_node(namespace, number))
    yield namespace
    for node in (await remote.list(NODE, labels=f"of={namespace}")).items:
        await remote.delete(NODE, name_of(node))


def gpu_node(namespace: str, number: int, gpus: int = 4) -> Object:
    return kwok.fake_node(f"{namespace}-{number}", gpus=gpus, labels={"of": namespace})


def role(replicas: int, container: str, of: str, seconds: str = "") -> Object:
    """Members that need three GPUs each, so that most nodes have room for one."""
    template = {
        "metadata": {"annotations": {kwok.SECONDS: seconds} if seconds else {}},
        "spec": {
            "nodeSelector": {"of": of},
            "tolerations": [kwok.FAKE_TOLERATION],
            "containers": [{"name": container, "image": "none:1", "resources": {"limits": {GPU: 3}}}],
        },
    }
    return {"replicas": replicas, "template": template}


def pytorch(namespace: str, seconds: str = "", workers: int = 2, policy: Mapping[str, Any] | None = None) -> Object:
    roles = {
        "Master": role(1, "pytorch", namespace, seconds),
        "Worker": role(workers, "pytorch", namespace, seconds),
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "job", "namespace": namespace},
        "spec": {"pytorchReplicaSpecs": roles, "runPolicy": {"schedulingPolicy": dict(policy or {})}},
    }


def passer_by(node: str, namespace: str) -> Object:
    """A small Pod for that node. The scheduler retries a rejected gang when any Pod gets a node, which happens all the
    time in a busy cluster. In a quiet one it retries after five minutes."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "passer-by", "namespace": namespace},
        "spec": {
            "schedulerName": "scheduler-plugins-scheduler",
            "nodeSelector": {"kubernetes.io/hostname": node},
            "tolerations": [kwok.FAKE_TOLERATION],
            "containers": [{"name": "main", "image": "none:1"}],
        },
    }


def unschedulable_message(pod: Object) -> str:
    """Returns the scheduler's message about a Pod that it could not place."""
    found = get_condition(status_of(pod).get("conditions") or [], "PodScheduled")
    return str(found["message"]) if found is not None and found["status"] == "False" else ""


def are_rejected(pods: Mapping[str, Object]) -> bool:
    """All three are unschedulable, the last one because there is no room for the whole gang. Others may have been tried
    before it existed."""
    told = [unschedulable_message(pod) for pod in pods.values()]
    return len(told) == 3 and all(told) and any("resource gap" in why for why in told)


async def test_a_job_that_does_not_fit_waits_and_starts_as_a_whole(
    operator: RealCluster, remote: RemoteCluster, two_nodes: str
) -> None:
    await remote.create(pytorch(two_nodes, "1"))
    pods = await until_pods(remote, two_nodes, are_rejected)
    assert not any(spec_of(pod).get("nodeName") for pod in pods.values()), "two of them would fit"
    assert {labels_of(pod)["scheduling.x-k8s.io/pod-group"] for pod in pods.values()} == {"job"}
    group = await until(remote, PLUGIN_POD_GROUP, "job", two_nodes, lambda g: phase_of(g) == "Scheduling")
    assert spec_of(group) == {"minMember": 3, "minResources": {GPU: "9"}}

    await remote.create(gpu_node(two_nodes, 2))
    await remote.create(passer_by(f"{two_nodes}-2", two_nodes))
    await until(remote, PYTORCH, "job", two_nodes, has("Succeeded"))
    pods = await until_pods(remote, two_nodes, lambda pods: len(pods) == 4)
    assert len({spec_of(pods[name])["nodeName"] for name in MEMBERS}) == 3


async def test_a_gang_that_does_not_fit_into_the_cluster_is_rejected(
    operator: RealCluster, remote: RemoteCluster, two_nodes: str
) -> None:
    await remote.create(pytorch(two_nodes, policy={"minAvailable": 2, "minResources": {GPU: "999"}}))
    pods = await until_pods(remote, two_nodes, are_rejected)
    assert not any(spec_of(pod).get("nodeName") for pod in pods.values()), "minMember of them would fit"
    group = await remote.get(PLUGIN_POD_GROUP, "job", two_nodes)
    assert spec_of(group) == {"minMember": 2, "minResources": {GPU: "999"}}


async def test_placed_members_wait_for_the_others_until_the_job_s_timeout(
    operator: RealCluster, remote: RemoteCluster, two_nodes: str
) -> None:
    """Ten of eleven have a place. That close to the minimum, the scheduler rejects no Pod before the timeout."""
    await remote.create(gpu_node(two_nodes, 2, gpus=24))
    policy = {"minResources": {GPU: "1"}, "scheduleTimeoutSeconds": 2}
    await remote.create(pytorch(two_nodes, workers=10, policy=policy))
    pods = await until_pods(
        remote,
        two_nodes,
        lambda pods: any("after waiting 2s at plugin Coscheduling" in unschedulable_message(p) for p in pods.values()),
    )
    assert not any(spec_of(pod).get("nodeName") for pod in pods.values())


async def test_the_launcher_of_a_gang_starts_when_its_workers_run(
    operator: RealCluster, remote: RemoteCluster, two_nodes: str
) -> None:
    await remote.create(gpu_node(two_nodes, 2))
    roles = {"Launcher": role(1, "mpi", two_nodes, "1"), "Worker": role(2, "mpi", two_nodes)}
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "MPIJob",
        "metadata": {"name": "job", "namespace": two_nodes},
        "spec": {"mpiReplicaSpecs": roles},
    }
    await remote.create(job)
    await until(remote, MPI, "job", two_nodes, has("Succeeded"))
    pods = await until_pods(remote, two_nodes, lambda pods: len(pods) == 3)
    assert {spec_of(pod)["schedulerName"] for pod in pods.values()} == {"scheduler-plugins-scheduler"}
