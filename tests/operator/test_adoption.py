"""Jobs that paddle-operator has started continue with its Pods. (tests/cluster/test_operator_adoption.py covers
training-operator with the real one.)"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.controllers.garbage import GarbageCollector
from muster.embedded.port_leases import PORT_LEASE, PortLeases
from muster.kube.builtin import POD, SERVICE, new_catalogue
from muster.kube.errors import NotFound
from muster.kube.events import EventRecorder
from muster.kube.objects import Object, name_of, owner_reference, status_of, uid_of
from muster.training.controller import TrainingController
from muster.training.kinds.paddlecloud import PaddleCloud
from muster.training.registry import JOB_KINDS, training_kinds
from tests.embedded.waiting import run_components, wait_for, wait_for_all

KIND = PaddleCloud.kind
TEMPLATE = {"spec": {"containers": [{"name": "paddle", "image": "i", "command": ["train"]}]}}
NAMES = ["job-ps-0", "job-worker-0", "job-worker-1"]


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    catalogue = new_catalogue()
    for kind in (*training_kinds(), PORT_LEASE):
        catalogue.register(kind)
    async with EmbeddedCluster(tmp_path / "cluster", catalogue, durability="process") as embedded:
        embedded.addresses = PortLeases(embedded)
        async with run_components(GarbageCollector(embedded)):
            yield embedded


async def begun(cluster: EmbeddedCluster, intranet: str) -> dict[str, str]:
    """Creates what paddle-operator leaves of a running job: its labels, its finalizer, a ConfigMap of the job's name,
    and Services with 20 ports if replicas meet by name. Returns the Pods' uids."""
    spec = {
        "intranet": intranet,
        "cleanPodPolicy": "Never",
        "ps": {"replicas": 1, "template": TEMPLATE},
        "worker": {"replicas": 2, "template": TEMPLATE},
    }
    metadata = {"name": "job", "namespace": "default", "finalizers": ["finalizers.paddlepaddle.org"]}
    job = await cluster.create({"apiVersion": KIND.api_version, "kind": KIND.kind, "metadata": metadata, "spec": spec})
    status = {"phase": "Running", "mode": "PS", "startTime": "2026-11-15T12:00:00Z"}
    await cluster.patch(KIND, "job", "default", {"status": status}, subresource="status")
    uids = {}
    for name in NAMES:
        role = name.split("-")[1]
        labels = {"paddle-res-name": name, "paddle-res-type": role}
        pod = await cluster.create(owned(job, "Pod", name, labels, TEMPLATE["spec"]))
        await say(cluster, name, "Running")
        uids[name] = uid_of(pod)
        if intranet == "Service":
            ports = [{"name": f"p-{n}", "port": 36000 + n} for n in range(20)]
            await cluster.create(owned(job, "Service", name, {}, {"clusterIP": "None", "ports": ports}))
    return uids


def owned(job: Object, kind: str, name: str, labels: dict[str, str], spec: Object) -> Object:
    reference = owner_reference(job)
    metadata = {"name": name, "namespace": "default", "labels": labels, "ownerReferences": [reference]}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec}


async def say(cluster: EmbeddedCluster, pod: str, phase: str) -> None:
    await cluster.patch(POD, pod, "default", {"status": {"phase": phase}}, subresource="status")


@pytest.mark.parametrize("intranet", ["PodIP", "Service"])
async def test_a_running_job_goes_on_to_its_end_with_the_pods_it_has(cluster: EmbeddedCluster, intranet: str) -> None:
    before = await begun(cluster, intranet)
    recorder = EventRecorder(cluster, "muster-operator")
    async with run_components(TrainingController(cluster, recorder, JOB_KINDS), recorder):
        await wait_for(cluster, KIND, "job", lambda job: status_of(job).get("worker", {}).get("running") == 2)
        for name in NAMES:
            await say(cluster, name, "Succeeded")
        done = await wait_for(cluster, KIND, "job", lambda job: status_of(job).get("phase") == "Completed")
    pods = (await cluster.list(POD)).items
    assert {name_of(pod): uid_of(pod) for pod in pods} == before
    assert status_of(done)["startTime"] == "2026-11-15T12:00:00Z"
    ports = {name_of(s): len(s["spec"]["ports"]) for s in (await cluster.list(SERVICE)).items if name_of(s) in NAMES}
    if intranet == "Service":
        assert set(ports.values()) == {20}, "existing ones are unchanged"


async def test_a_job_can_be_deleted_though_its_operator_is_gone(cluster: EmbeddedCluster) -> None:
    await begun(cluster, "PodIP")
    recorder = EventRecorder(cluster, "muster-operator")
    async with run_components(TrainingController(cluster, recorder, JOB_KINDS), recorder):
        await cluster.delete(KIND, "job", "default")
        await wait_for_all(cluster, KIND, lambda jobs: not jobs)
        await wait_for_all(cluster, POD, lambda pods: not pods)
    with pytest.raises(NotFound):
        await cluster.get(KIND, "job", "default")


async def test_a_finalizer_of_another_owner_is_kept(cluster: EmbeddedCluster) -> None:
    await begun(cluster, "PodIP")
    both = {"metadata": {"finalizers": ["finalizers.paddlepaddle.org", "example.com/mine"]}}
    await cluster.patch(KIND, "job", "default", both)
    recorder = EventRecorder(cluster, "muster-operator")
    async with run_components(TrainingController(cluster, recorder, JOB_KINDS), recorder):
        await cluster.delete(KIND, "job", "default")
        await wait_for(cluster, KIND, "job", lambda job: job["metadata"]["finalizers"] == ["example.com/mine"])
