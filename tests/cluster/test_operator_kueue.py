"""Our operator with the real Kueue, which suspends jobs and resumes them when there is quota."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from muster.kube.builtin import POD
from muster.kube.kinds import Kind
from muster.kube.objects import Object, get_condition, name_of, owners_of, spec_of, status_of, uid_of
from muster.kube.remote.client import RemoteCluster
from tests.cluster.conftest import OnDemand
from tests.cluster.operating import KINDS, operating, until_pods, without_the_peer
from tests.cluster.waiting import has, until, until_all
from tools.cluster import kwok
from tools.cluster.cluster import Cluster as RealCluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

KUEUE = "kueue.x-k8s.io/v1beta2"
MULTIKUEUE = "kueue.x-k8s.io/multikueue"
FOREVER = ""


@pytest.fixture(scope="module")
def operator(on_demand: OnDemand) -> Iterator[RealCluster]:
    with without_the_peer(on_demand("kueue", "kwok")) as ours:
        # It looks for CRDs that were missing at its start again after a minute or two, so restart it.
        ours.restart("kueue")
        with operating(ours):
            yield ours


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue for the test, with a quota of CPUs on KWOK's nodes."""

    cluster: RemoteCluster
    name: str
    """The name of its namespace and its ClusterQueue, and the prefix of other names."""

    def kind(self, kind: str) -> Kind:
        return self.cluster.catalogue.of(KUEUE, kind)

    async def make(self, cpus: int, **spec: Any) -> None:
        flavor = {"nodeLabels": {"type": kwok.FAKE_NODE}, "tolerations": [kwok.FAKE_TOLERATION]}
        quota = {"name": self.name, "resources": [{"name": "cpu", "nominalQuota": cpus}]}
        group = {"coveredResources": ["cpu"], "flavors": [quota]}
        for kind, content in (
            ("ResourceFlavor", flavor),
            ("ClusterQueue", {"namespaceSelector": {}, "resourceGroups": [group], **spec}),
        ):
            await self.create(kind, self.name, content)
        await self.create("LocalQueue", "queue", {"clusterQueue": self.name}, self.name)

    async def create(self, kind: str, name: str, spec: Mapping[str, Any], namespace: str = "", **more: Any) -> None:
        place = {"namespace": namespace} if namespace else {}
        obj = {"apiVersion": KUEUE, "kind": kind, "metadata": {"name": name, **place}, **more}
        await self.cluster.create({**obj, "spec": dict(spec)} if spec else obj)

    async def submit(self, job: Object, name: str, priority: str = "") -> Object:
        labels = {"kueue.x-k8s.io/queue-name": "queue"}
        if priority:
            labels["kueue.x-k8s.io/priority-class"] = priority
        return await self.cluster.create({**job, "metadata": {"name": name, "namespace": self.name, "labels": labels}})

    async def until(self, job: Object, condition: str) -> Object:
        """Returns the job as soon as `wanted` holds."""
        return await until(self.cluster, kind_of(job), name_of(job), self.name, has(condition))

    async def until_workload(self, job: Object, condition: str, *, so: bool = True) -> Object:
        """Returns the job's Workload as soon as `wanted` holds."""

        def found(workloads: Mapping[str, Object]) -> list[Object]:
            return [
                workload
                for workload in workloads.values()
                if any(owner["uid"] == uid_of(job) for owner in owners_of(workload))
                and has_condition(workload, condition, so=so)
            ]

        return found(await until_all(self.cluster, self.kind("Workload"), self.name, lambda w: bool(found(w))))[0]

    async def finish(self, job: Object) -> None:
        """Lets its members succeed."""
        for pod in (await self.cluster.list(POD, self.name)).items:
            if any(owner["uid"] == uid_of(job) for owner in owners_of(pod)):
                soon = {"metadata": {"annotations": {kwok.SECONDS: "0"}}}
                await self.cluster.patch(POD, name_of(pod), self.name, soon)


@pytest.fixture
async def queue(operator: RealCluster, remote: RemoteCluster, namespace: str) -> AsyncIterator[Queue]:
    await remote.discover()
    made = Queue(remote, namespace)
    yield made
    for kind in ("clusterqueues", "resourceflavors", "workloadpriorityclasses", "admissionchecks"):
        names = operator.kubectl("get", f"{kind}.kueue.x-k8s.io", "--output=name").split()
        mine = [name for name in names if name.partition("/")[2].startswith(namespace)]
        if mine:
            operator.kubectl("delete", "--wait=false", *mine)


def has_condition(obj: Object, condition: str, *, so: bool) -> bool:
    found = get_condition(status_of(obj).get("conditions") or [], condition)
    return found is not None and found["status"] == str(so)


def kind_of(job: Object) -> Kind:
    return KINDS[job["apiVersion"], job["kind"]]


def training(
    kind: str, specs: str, container: str, roles: Mapping[str, tuple[int, str]], version: str = "v1", **policy: Any
) -> Object:
    """Roles with their number of replicas and the seconds that each runs. Kueue decides where it runs."""

    def role(number: int, seconds: str) -> Object:
        resources = {"requests": {"cpu": "1"}}
        template = {
            "metadata": {"annotations": {kwok.SECONDS: seconds} if seconds else {}},
            "spec": {"containers": [{"name": container, "image": "none:1", "resources": resources}]},
        }
        return {"replicas": number, "template": template}

    replicas = {name: role(number, seconds) for name, (number, seconds) in roles.items()}
    spec = {specs: replicas, **({"runPolicy": policy} if policy else {})}
    return {"apiVersion": f"kubeflow.org/{version}", "kind": kind, "spec": spec}


def pytorch(seconds: str, **policy: Any) -> Object:
    roles = {"Master": (1, seconds), "Worker": (1, seconds)}
    return training("PyTorchJob", "pytorchReplicaSpecs", "pytorch", roles, **policy)


MPI_ROLES = {"Launcher": (1, "1"), "Worker": (2, FOREVER)}
JOBS = {
    "pytorch": pytorch("1"),
    "tensorflow": training("TFJob", "tfReplicaSpecs", "tensorflow", {"PS": (1, FOREVER), "Worker": (2, "1")}),
    "xgboost": training("XGBoostJob", "xgbReplicaSpecs", "xgboost", {"Master": (1, "1"), "Worker": (1, "1")}),
    "paddle": training("PaddleJob", "paddleReplicaSpecs", "paddle", {"Worker": (2, "1")}),
    "jax": training("JAXJob", "jaxReplicaSpecs", "jax", {"Worker": (2, "1")}),
    "mpi": training("MPIJob", "mpiReplicaSpecs", "mpi", MPI_ROLES),
    "mpi-v2beta1": training("MPIJob", "mpiReplicaSpecs", "mpi", MPI_ROLES, "v2beta1"),
}


@pytest.mark.parametrize("which", list(JOBS))
async def test_a_job_waits_then_runs_on_its_flavor_and_frees_its_quota(queue: Queue, which: str) -> None:
    await queue.make(cpus=3, stopPolicy="Hold")
    job = await queue.submit(JOBS[which], "job")
    assert spec_of(job)["runPolicy"]["suspend"] is True
    held = await queue.until(job, "Suspended")
    await queue.until_workload(job, "QuotaReserved", so=False)
    assert (await queue.cluster.list(POD, queue.name)).items == []
    assert "startTime" not in status_of(held)

    await queue.cluster.patch(queue.kind("ClusterQueue"), queue.name, "", {"spec": {"stopPolicy": "None"}})
    done = await queue.until(job, "Succeeded")
    assert has_condition(done, "Suspended", so=False)
    assert status_of(done)["completionTime"] >= status_of(done)["startTime"]
    pods = (await queue.cluster.list(POD, queue.name)).items
    assert {spec_of(pod)["nodeSelector"]["type"] for pod in pods} == {kwok.FAKE_NODE}
    finished = await queue.until_workload(job, "Finished")
    reasons = {c["type"]: c["reason"] for c in status_of(finished)["conditions"]}
    assert reasons["Finished"] == "Succeeded"


async def test_the_second_job_starts_when_the_first_has_ended(queue: Queue) -> None:
    await queue.make(cpus=2)
    first = await queue.submit(pytorch(FOREVER), "first")
    await queue.until(first, "Running")
    second = await queue.submit(pytorch("1"), "second")
    await queue.until(second, "Suspended")
    await queue.until_workload(second, "QuotaReserved", so=False)
    assert {name_of(pod) for pod in (await queue.cluster.list(POD, queue.name)).items} == {
        "first-master-0",
        "first-worker-0",
    }
    await queue.finish(first)
    await queue.until(second, "Succeeded")
    await queue.until_workload(first, "Finished")


async def test_a_job_that_is_preempted_runs_again(queue: Queue) -> None:
    await queue.make(cpus=2, preemption={"withinClusterQueue": "LowerPriority"})
    for name, value in (("low", 1), ("high", 1000)):
        await queue.create("WorkloadPriorityClass", f"{queue.name}-{name}", {}, value=value)
    low = await queue.submit(pytorch(FOREVER), "low", f"{queue.name}-low")
    began = status_of(await queue.until(low, "Running"))["startTime"]
    high = await queue.submit(pytorch(FOREVER), "high", f"{queue.name}-high")

    evicted = await queue.until(low, "Suspended")
    assert [(c["type"], c["status"], c["reason"]) for c in status_of(evicted)["conditions"]] == [
        ("Created", "True", "PyTorchJobCreated"),
        ("Running", "False", "PyTorchJobSuspended"),
        ("Suspended", "True", "PyTorchJobSuspended"),
    ]
    assert "startTime" not in status_of(evicted)
    await until_pods(queue.cluster, queue.name, lambda pods: set(pods) == {"high-master-0", "high-worker-0"})
    await queue.until(high, "Running")
    waiting = await queue.cluster.get(kind_of(low), "low", queue.name)
    assert spec_of(waiting)["runPolicy"]["suspend"] is True
    template = spec_of(waiting)["pytorchReplicaSpecs"]["Worker"]["template"]
    assert "nodeSelector" not in template["spec"], "the next run may use another flavor"

    await queue.finish(high)
    again = await queue.until(low, "Running")
    assert status_of(again)["startTime"] >= began
    await queue.finish(low)
    done = await queue.until(low, "Succeeded")
    assert [(c["type"], c["status"]) for c in status_of(done)["conditions"]] == [
        ("Created", "True"), ("Suspended", "False"), ("Running", "False"), ("Succeeded", "True"),
    ]  # fmt: skip
    await queue.until_workload(low, "Finished")


async def test_a_job_that_kueue_sends_to_another_cluster_is_left_alone(queue: Queue) -> None:
    check = f"{queue.name}-elsewhere"
    await queue.create("AdmissionCheck", check, {"controllerName": MULTIKUEUE})
    await queue.make(cpus=2, admissionChecksStrategy={"admissionChecks": [{"name": check}]})
    await until(
        queue.cluster, queue.kind("ClusterQueue"), queue.name, "", lambda q: has_condition(q, "Active", so=False)
    )
    theirs = await queue.submit(pytorch("1"), "theirs")
    assert spec_of(theirs)["runPolicy"] == {"managedBy": MULTIKUEUE, "suspend": True}
    ours = await queue.cluster.create({**pytorch("1"), "metadata": {"name": "ours", "namespace": queue.name}})
    await until(queue.cluster, kind_of(ours), "ours", queue.name, has("Created"))
    assert not status_of(await queue.cluster.get(kind_of(theirs), "theirs", queue.name))
    assert all(name_of(pod).startswith("ours-") for pod in (await queue.cluster.list(POD, queue.name)).items)
