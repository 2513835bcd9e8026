"""The operator against our own API server over HTTP. The test plays the node."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from muster.embedded.controllers.garbage import GarbageCollector
from muster.kube.builtin import CONFIG_MAP, EVENT, LEASE, NAMESPACE, POD, POD_GROUP, SERVICE
from muster.kube.controller import Informer
from muster.kube.objects import Object, labels_of, name_of, namespace_of, owners_of, spec_of, status_of, uid_of
from muster.kube.remote.kubeconfig import Access, load_kubeconfig
from muster.operator.election import ElectionSettings
from muster.operator.run import Operator
from muster.operator.settings import OperatorSettings, with_election
from muster.training.kinds.pytorch import PyTorch
from muster.training.registry import training_kinds
from tests.embedded.waiting import run_components, wait_for, wait_for_all
from tests.operator.flaky_proxy import FlakyProxy, line_to
from tests.server.kubernetes.served import Served, serving
from tests.training.sample_jobs import training_job

SETTINGS = OperatorSettings(host="127.0.0.1", port=0, discovery_seconds=0.05)
NAMES = ["job-master-0", "job-worker-0"]


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as running:
        for kind in training_kinds():
            running.cluster.catalogue.register(kind)
        async with run_components(GarbageCollector(running.cluster)):
            yield running


@asynccontextmanager
async def operating(served: Served | Access, settings: OperatorSettings = SETTINGS) -> AsyncIterator[Operating]:
    access = load_kubeconfig(served.kubeconfig) if isinstance(served, Served) else served
    stop = asyncio.Event()
    operator = Operator(access, settings)
    task = asyncio.create_task(operator.run(stop))
    try:
        async with asyncio.timeout(10):
            port = await operator.port
        yield Operating(f"http://127.0.0.1:{port}", stop, task)
        stop.set()
        async with asyncio.timeout(20):
            await task
    finally:
        task.cancel()
        await asyncio.wait([task])


class Operating:
    def __init__(self, url: str, stop: asyncio.Event, task: asyncio.Task[None]) -> None:
        self.url, self.stop, self.task = url, stop, task

    async def ask(self, path: str) -> tuple[int, str]:
        async with aiohttp.ClientSession() as http, http.get(self.url + path) as answer:
            return answer.status, await answer.text()

    async def wait_for(self, path: str, so: Callable[[int, str], bool]) -> str:
        async with asyncio.timeout(20):
            while True:
                code, text = await self.ask(path)
                if so(code, text):
                    return text
                await asyncio.sleep(0.02)

    async def metric(self, name: str) -> float:
        _, text = await self.ask("/metrics")
        return next(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(f"{name} "))


def elected(identity: str) -> OperatorSettings:
    # Longer than this machine can be busy: no term expires here.
    election = ElectionSettings("muster-operator", "default", identity, 60.0, 40.0, 0.05)
    return replace(SETTINGS, election=election)


def job(name: str = "job", namespace: str = "default", **spec: Any) -> Object:
    made = training_job(
        "kubeflow.org/v1", "PyTorchJob", "pytorchReplicaSpecs", "pytorch", {"Master": 1, "Worker": 1}, **spec
    )
    return {**made, "metadata": {"name": name, "namespace": namespace}}


def have(*names: str) -> Callable[[list[Object]], bool]:
    return lambda found: sorted(map(name_of, found)) == sorted(names)


def ends(state: str) -> Callable[[Object], bool]:
    return lambda obj: (status_of(obj).get("conditions") or [{}])[-1].get("type") == state


async def say(served: Served, pod: str, phase: str) -> None:
    await served.cluster.patch(POD, pod, "default", {"status": {"phase": phase}}, subresource="status")


async def told(served: Served, reason: str) -> str:
    events = await wait_for_all(served.cluster, EVENT, lambda found: any(e["reason"] == reason for e in found))
    return str(next(e["message"] for e in events if e["reason"] == reason))


async def test_a_job_from_its_submission_to_its_end(served: Served) -> None:
    async with operating(served) as operator:
        await operator.wait_for("/readyz", lambda code, _: code == 200)
        await served.cluster.create(job())
        pods = await wait_for_all(served.cluster, POD, have(*NAMES))
        services = await wait_for_all(served.cluster, SERVICE, have(*NAMES))
        told_to = {e["name"]: e.get("value") for e in spec_of(pods[0])["containers"][0]["env"]}
        assert (told_to["MASTER_ADDR"], told_to["MASTER_PORT"]) == ("job-master-0", "23456")
        assert all(spec_of(s)["clusterIP"] == "None" for s in services)
        assert {owners_of(thing)[0]["kind"] for thing in (*pods, *services)} == {"PyTorchJob"}
        for name in NAMES:
            await say(served, name, "Running")
        await wait_for(served.cluster, PyTorch.kind, "job", ends("Running"))
        await say(served, "job-master-0", "Succeeded")
        await wait_for(served.cluster, PyTorch.kind, "job", ends("Succeeded"))
        assert await told(served, "PyTorchJobSucceeded")

        text = await operator.wait_for("/metrics", lambda _, text: 'state="Succeeded"} 1' in text)
        assert 'muster_operator_jobs{kind="pytorchjobs.kubeflow.org",state="Succeeded"} 1' in text
        assert 'muster_operator_reconcile_total{kind="pytorchjobs",result="success"}' in text
        assert 'muster_operator_api_requests_total{code="201",verb="create"}' in text
        assert await operator.metric("muster_operator_leader") == 1
        assert await operator.ask("/healthz") == (200, "ok\n")


def counted(text: str) -> dict[str, float]:
    """Returns the metrics of jobs by training-operator's names."""
    return {
        line.partition("{")[0].removeprefix("training_operator_jobs_").removesuffix("_total"): float(line.split()[-1])
        for line in text.splitlines()
        if line.startswith("training_operator_jobs_")
    }


async def test_the_outcome_of_a_job_is_counted_once_across_leaders(served: Served) -> None:
    async with operating(served) as first:
        await served.cluster.create(job())
        await wait_for_all(served.cluster, POD, have(*NAMES))
        text = await first.wait_for("/metrics", lambda _, text: "created_total{" in text)
        assert 'training_operator_jobs_created_total{framework="pytorch",job_namespace="default"} 1' in text
    async with operating(served) as second:
        await say(served, "job-worker-0", "Failed")
        await second.wait_for("/metrics", lambda _, text: "restarted_total{" in text)
        await say(served, "job-master-0", "Succeeded")
        await wait_for(served.cluster, PyTorch.kind, "job", ends("Succeeded"))
        text = await second.wait_for("/metrics", lambda _, text: "successful_total{" in text)
        assert counted(text) == {"restarted": 1, "successful": 1}
    async with operating(served) as third:
        await third.wait_for("/readyz", lambda code, _: code == 200)
        await served.cluster.delete(PyTorch.kind, "job", "default")
        text = await third.wait_for("/metrics", lambda _, text: "deleted_total{" in text)
        assert counted(text) == {"deleted": 1}


async def test_no_more_requests_than_needed(served: Served) -> None:
    """Two Pods, two Services and three events: 7 creates. Three status writes, collected counts, no reads and no
    conflicts."""
    async with operating(served) as operator:
        await operator.wait_for("/readyz", lambda code, _: code == 200)
        await served.cluster.create(job())
        await wait_for_all(served.cluster, POD, have(*NAMES))
        for phase in ("Running", "Succeeded"):
            for name in NAMES[::-1]:
                await say(served, name, phase)
            await wait_for(served.cluster, PyTorch.kind, "job", ends(phase))
        await told(served, "PyTorchJobSucceeded")
        text = await operator.wait_for(
            "/metrics", lambda _, text: 'api_requests_total{code="201",verb="create"} 7.0' in text
        )
        requests = {
            line.partition("{")[2].partition("}")[0]: float(line.rpartition(" ")[2])
            for line in text.splitlines()
            if line.startswith("muster_operator_api_requests_total{")
        }
        assert requests['code="201",verb="create"'] == 7
        assert 3 <= requests['code="200",verb="patch"'] <= 5
        assert not any("409" in which or 'code="4' in which for which in requests), requests


async def test_of_two_one_leads_and_the_other_takes_over_at_once_when_that_one_goes(served: Served) -> None:
    async with operating(served, elected("first")) as first:
        await wait_for(served.cluster, LEASE, "muster-operator", lambda lease: spec_of(lease)["holderIdentity"] != "")
        async with operating(served, elected("other")) as other:
            await other.wait_for("/readyz", lambda code, _: code == 200)
            assert await first.metric("muster_operator_leader") == 1
            assert await other.metric("muster_operator_leader") == 0
            await served.cluster.create(job())
            pods = {uid_of(pod) for pod in await wait_for_all(served.cluster, POD, have(*NAMES))}
            first.stop.set()
            await first.task
            await other.wait_for("/metrics", lambda _, text: "muster_operator_leader 1" in text)
            await served.cluster.create(job("next"))
            await wait_for_all(served.cluster, POD, have(*NAMES, "next-master-0", "next-worker-0"))
            assert pods < {uid_of(pod) for pod in (await served.cluster.list(POD)).items}, "the same Pods as before"
    lease = await served.cluster.get(LEASE, "muster-operator", "default")
    assert spec_of(lease)["holderIdentity"] == "", "given back"


async def test_one_that_loses_its_lease_writes_no_more(served: Served) -> None:
    async with operating(served, elected("me")) as operator:
        await operator.wait_for("/metrics", lambda _, text: "muster_operator_leader 1" in text)
        stolen = {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 60}}
        await served.cluster.patch(LEASE, "muster-operator", "default", stolen)
        await operator.wait_for("/metrics", lambda _, text: "muster_operator_leader 0" in text)
        await served.cluster.create(job())
        assert await operator.ask("/readyz") == (200, "ok\n")
        assert (await served.cluster.list(POD)).items == []
        await served.cluster.patch(LEASE, "muster-operator", "default", {"spec": {"holderIdentity": ""}})
        await wait_for_all(served.cluster, POD, have(*NAMES))


async def test_only_the_configured_namespaces(served: Served) -> None:
    for name in ("a", "b", "c"):
        await served.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        await wait_for(served.cluster, NAMESPACE, name, lambda _: True)
    async with operating(served, replace(SETTINGS, namespaces=("a", "b"))):
        for name in ("c", "a", "b"):
            await served.cluster.create(job(namespace=name))
        pods = await wait_for_all(served.cluster, POD, lambda found: len(found) == 4)
        assert {namespace_of(pod) for pod in pods} == {"a", "b"}


async def test_two_that_share_the_namespaces_among_themselves_both_lead(served: Served) -> None:
    for name in ("a", "b"):
        await served.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    of_a, of_b = (with_election(replace(SETTINGS, namespaces=(name,)), "default") for name in ("a", "b"))
    async with operating(served, of_a) as first, operating(served, of_b) as second:
        for operator in (first, second):
            await operator.wait_for("/metrics", lambda _, text: "muster_operator_leader 1" in text)
        for name in ("a", "b"):
            await served.cluster.create(job(namespace=name))
        pods = await wait_for_all(served.cluster, POD, lambda found: len(found) == 4)
        assert sorted(namespace_of(pod) for pod in pods) == ["a", "a", "b", "b"]
        for operator, name in ((first, "a"), (second, "b")):
            text = await operator.wait_for("/metrics", lambda _, text: "created_total{" in text)
            assert counted(text) == {"created": 1}
            assert f'job_namespace="{name}"' in text
    leases = (await served.cluster.list(LEASE)).items
    assert len({name_of(lease) for lease in leases}) == 2


async def test_a_line_that_breaks_all_the_time(served: Served) -> None:
    """Watches break in the middle of an event, and requests without a response may have been executed."""
    names = [f"job-{n}" for n in range(3)]
    wanted = [f"{name}-{role}-0" for name in names for role in ("master", "worker")]
    made: list[str] = []
    chance = random.Random(5)
    async with (
        line_to(load_kubeconfig(served.kubeconfig)) as line,
        Informer(served.cluster, POD, on_change=lambda before, after: made.append("") if before is None else None),
        operating(line.access),
    ):
        for name in names:
            await served.cluster.create(job(name))
            await cut(line, chance)
        await wait_for_all(served.cluster, POD, have(*wanted))
        await wait_for_all(served.cluster, SERVICE, have(*wanted))
        for phase in ("Running", "Succeeded"):
            for pod in wanted:
                await say(served, pod, phase)
                if pod.endswith("-master-0"):
                    await cut(line, chance)
            for name in names:
                await wait_for(served.cluster, PyTorch.kind, name, ends(phase))
        assert line.cuts
        assert len(made) == len(wanted), "no Pod was created twice"


async def cut(line: FlakyProxy, chance: random.Random) -> None:
    """Cuts the line at a random moment of the current requests."""
    await asyncio.sleep(0.05 * chance.random())
    line.cut()


async def test_kinds_that_come_later_are_looked_after_as_well(served: Served) -> None:
    for kind in training_kinds():
        served.cluster.catalogue.unregister(kind)
    async with operating(served) as operator:
        await operator.wait_for("/readyz", lambda code, _: code == 200)
        served.cluster.catalogue.register(PyTorch.kind)
        await served.cluster.create(job())
        await wait_for_all(served.cluster, POD, have(*NAMES))


async def test_gangs_where_there_is_no_gang_scheduler(served: Served) -> None:
    served.cluster.catalogue.unregister(POD_GROUP)
    async with operating(served):
        await served.cluster.create(job(runPolicy={"schedulingPolicy": {"minAvailable": 2}}))
        await wait_for_all(served.cluster, POD, have(*NAMES))
        gang = job("gang")
        for role in gang["spec"]["pytorchReplicaSpecs"].values():
            role["template"]["spec"]["schedulerName"] = "volcano"
        await served.cluster.create(gang)
        assert "install the gang scheduler" in await told(served, "NoPodGroups")


@pytest.mark.parametrize("scheduler", ["volcano", "scheduler-plugins"])
async def test_gangs(served: Served, scheduler: Any) -> None:
    async with operating(served, replace(SETTINGS, gang=scheduler)):
        await served.cluster.create(job())
        if scheduler == "volcano":
            await wait_for(served.cluster, POD_GROUP, "job", lambda group: spec_of(group)["minMember"] == 2)
            assert (await served.cluster.list(POD)).items == []
            await served.cluster.patch(
                POD_GROUP, "job", "default", {"status": {"phase": "Inqueue"}}, subresource="status"
            )
        for pod in await wait_for_all(served.cluster, POD, have(*NAMES)):
            if scheduler == "volcano":
                assert spec_of(pod)["schedulerName"] == "volcano"
                assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "job"
            else:
                assert spec_of(pod)["schedulerName"] == "scheduler-plugins-scheduler"
                assert labels_of(pod)["scheduling.x-k8s.io/pod-group"] == "job"


async def test_objects_of_another_operator_are_adopted(served: Served) -> None:
    mpi = training_job("kubeflow.org/v1", "MPIJob", "mpiReplicaSpecs", "mpi", {"Launcher": 1, "Worker": 1})
    made = await served.cluster.create({**mpi, "metadata": {"name": "mpi", "namespace": "default"}})
    owner = {
        "apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "name": "mpi", "uid": uid_of(made), "controller": True,
    }  # fmt: skip
    metadata = {"name": "mpi-config", "namespace": "default", "ownerReferences": [owner]}
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"hostfile": "old"}}
    await served.cluster.create(theirs)
    async with operating(served):
        await wait_for(
            served.cluster, CONFIG_MAP, "mpi-config",
            lambda found: "kubexec.py" in found["data"] and found["data"]["hostfile"] == "mpi-worker-0 slots=1\n",
        )  # fmt: skip


async def test_a_job_of_another_manager_is_left_alone(served: Served) -> None:
    async with operating(served):
        await served.cluster.create(job("theirs", runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"}))
        await served.cluster.create(job(runPolicy={"managedBy": "kubeflow.org/training-operator"}))
        await wait_for_all(served.cluster, POD, have(*NAMES))
        assert "status" not in await served.cluster.get(PyTorch.kind, "theirs", "default")


async def test_without_an_api_server_it_waits_and_says_so() -> None:
    async with operating(Access("http://127.0.0.1:9")) as operator:
        assert await operator.ask("/readyz") == (503, "waiting for the API server\n")
        assert (await operator.ask("/healthz"))[0] == 200
