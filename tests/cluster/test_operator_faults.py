"""Whatever happens to the operator, the API server or the objects of a job: every job reaches its correct end, once."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager

import pytest

from muster.kube.builtin import EVENT, POD, SERVICE
from muster.kube.controller import Informer
from muster.kube.kinds import Kind
from muster.kube.objects import Object, labels_of, name_of, owners_of, spec_of, uid_of
from muster.kube.remote.client import RemoteCluster
from muster.kube.remote.kubeconfig import load_kubeconfig
from muster.operator.run import Operator
from muster.operator.settings import OperatorSettings
from muster.training.model import JOB_NAME
from tests.cluster.conftest import Needs
from tests.cluster.operating import KINDS, PORT, component, on_fake_nodes, operating, until_pods, without_the_peer
from tests.cluster.waiting import has, phase_of, until
from tests.operator.flaky_proxy import line_to
from tools.cluster import kwok
from tools.cluster.cluster import Cluster as RealCluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

PYTORCH = KINDS["kubeflow.org/v1", "PyTorchJob"]
ELECTION = ("--lease-duration=4", "--renew-deadline=2", "--retry-period=0.4")


@pytest.fixture(scope="module")
def ours(real: RealCluster) -> Iterator[RealCluster]:
    with without_the_peer(real) as cluster:
        yield cluster


def job(namespace: str, name: str, *, seconds: str = "1", code: int = 0, workers: int = 2) -> Object:
    """With a `code`, the Workers fail with it and the job fails; its Master alone would run forever."""

    def role(replicas: int, code: int, seconds: str) -> Object:
        template = on_fake_nodes(seconds)
        template["metadata"]["annotations"] |= {kwok.EXIT_CODE: str(code)} if code else {}
        template["spec"]["containers"] = [{"name": "pytorch", "image": "none:1"}]
        return {"replicas": replicas, "restartPolicy": "ExitCode", "template": template}

    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "pytorchReplicaSpecs": {
                "Master": role(1, 0, "" if code else seconds),
                "Worker": role(workers, code, seconds),
            }
        },
    }


def is_not(other: Object) -> Callable[[Object], bool]:
    return lambda obj: uid_of(obj) != uid_of(other)


class Witness:
    """Records every Pod and every job that ever existed in a namespace."""

    def __init__(self, remote: RemoteCluster, namespace: str) -> None:
        self.made: dict[str, set[str]] = {}
        self.changed = asyncio.Event()
        self.jobs = Informer(remote, PYTORCH, namespace, on_change=lambda *_: self.changed.set())
        self.pods = Informer(remote, POD, namespace, on_change=self._pod)

    def _pod(self, before: Object | None, after: Object | None) -> None:
        if after is not None:
            self.made.setdefault(name_of(after), set()).add(uid_of(after))
        self.changed.set()

    def left(self) -> list[str]:
        """Returns the jobs that have not ended."""
        return [name_of(j) for j in self.jobs.objects.values() if not (has("Succeeded")(j) or has("Failed")(j))]

    async def all_ended(self, seconds: float = 300.0) -> None:
        try:
            async with asyncio.timeout(seconds):
                while self.left():
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            raise AssertionError(f"these have not ended: {self.left()}") from None


@asynccontextmanager
async def watching(real: RealCluster, namespace: str) -> AsyncIterator[Witness]:
    async with RemoteCluster(load_kubeconfig(real.kubeconfig)) as remote:
        witness = Witness(remote, namespace)
        async with witness.jobs, witness.pods:
            yield witness


async def check(
    remote: RemoteCluster, namespace: str, witness: Witness, jobs: dict[str, str], *, cut_off: bool = False
) -> None:
    """Every job has ended as expected, each of its members was one Pod, and every object has a job that owns it."""
    ended = {
        name_of(j): next(state for state in ("Succeeded", "Failed") if has(state)(j))
        for j in witness.jobs.objects.values()
    }
    assert ended == jobs
    twice = {name: uids for name, uids in witness.made.items() if len(uids) > 1}
    assert not twice, "a Pod was created twice"
    owners = {uid_of(j) for j in witness.jobs.objects.values()}
    wanted = {f"{name}-{suffix}" for name in jobs for suffix in ("master-0", "worker-0", "worker-1")}
    for kind in (POD, SERVICE):
        found = (await remote.list(kind, namespace)).items
        assert all({o["uid"] for o in owners_of(thing)} <= owners and owners_of(thing) for thing in found)
        there = {name_of(thing) for thing in found}
        # If the end of a member decided the job while no operator was running, the other members may be missing.
        assert there <= wanted if cut_off else there == wanted, kind.kind


@pytest.mark.parametrize("seed", [1])
async def test_killed_at_fifty_random_moments(
    needs: Needs, ours: RealCluster, remote: RemoteCluster, namespace: str, seed: int
) -> None:
    needs("kwok")
    chance = random.Random(seed)
    process = component(ours, f"--namespace={namespace}", "--no-leader-elect")
    jobs = {f"job-{n}": "Failed" if n % 5 == 4 else "Succeeded" for n in range(50)}
    await remote.discover()
    async with watching(ours, namespace) as witness:
        for name, end in jobs.items():
            await remote.create(job(namespace, name, code=3 if end == "Failed" else 0))
            await asyncio.to_thread(ours.start, process)
            await asyncio.sleep(chance.random() * 0.5)
            await asyncio.to_thread(ours.stop, "operator", force=True)
        await asyncio.to_thread(ours.start, process)
        try:
            await witness.all_ended()
            await check(remote, namespace, witness, jobs, cut_off=True)
        finally:
            ours.stop("operator")


@pytest.mark.parametrize("what", ["kube-apiserver", "etcd"])
async def test_the_api_server_and_its_database_restart(
    needs: Needs, ours: RealCluster, remote: RemoteCluster, namespace: str, what: str
) -> None:
    needs("kwok")
    jobs = {f"job-{n}": "Succeeded" for n in range(12)}
    await remote.discover()
    with operating(ours, f"--namespace={namespace}", f"--leader-election-namespace={namespace}", *ELECTION):
        async with watching(ours, namespace) as witness:
            for name in list(jobs)[:6]:
                await remote.create(job(namespace, name))
            await asyncio.to_thread(ours.stop, what, force=True)
            await asyncio.sleep(3.0)  # longer than the renew deadline: it must not continue as leader
            await asyncio.to_thread(ours.restart, what)
            await asyncio.to_thread(ours.wait_ready, "kube-apiserver")
            await asyncio.to_thread(ours.reconnect)
            for name in list(jobs)[6:]:
                await remote.create(job(namespace, name))
            await witness.all_ended()
            await check(remote, namespace, witness, jobs, cut_off=True)


async def test_objects_deleted_by_hand_are_created_again(
    needs: Needs, ours: RealCluster, remote: RemoteCluster, namespace: str
) -> None:
    needs("kwok")
    await remote.discover()
    members = {"job-master-0", "job-worker-0", "job-worker-1"}
    with operating(ours, f"--namespace={namespace}"):
        await remote.create(job(namespace, "job", seconds=""))

        def all_run(pods: Mapping[str, Object]) -> bool:
            return set(pods) == members and all(phase_of(pod) == "Running" for pod in pods.values())

        before = await until_pods(remote, namespace, all_run)
        old = {uid_of(pod) for pod in before.values()}
        for name in members:
            service = await remote.get(SERVICE, name, namespace)
            await remote.delete(SERVICE, name, namespace)
            await until(remote, SERVICE, name, namespace, is_not(service))
        there = (await remote.list(POD, namespace)).items
        assert {uid_of(pod) for pod in there} == old, "a Service is created again without touching its Pod"
        for kind in (POD, SERVICE):
            for name in members:
                await remote.delete(kind, name, namespace, grace_seconds=0)
        after = await until_pods(
            remote, namespace, lambda pods: all_run(pods) and not old & {uid_of(pod) for pod in pods.values()}
        )
        assert set(after) == members
        services = {name_of(s) for s in (await remote.list(SERVICE, namespace)).items}
        assert services == members
        ours.kubectl("-n", namespace, "annotate", "pods", "--all", f"{kwok.SECONDS}=0")
        async with watching(ours, namespace) as witness:
            await witness.all_ended()


async def test_connections_to_the_api_server_break_repeatedly(
    needs: Needs, ours: RealCluster, remote: RemoteCluster, namespace: str
) -> None:
    """Watches end in the middle of an event, and requests without a response may or may not have taken effect."""
    needs("kwok")
    chance = random.Random(3)
    jobs = {f"job-{n}": "Failed" if n % 4 == 3 else "Succeeded" for n in range(12)}
    await remote.discover()
    stop = asyncio.Event()
    settings = OperatorSettings(namespaces=(namespace,), host="127.0.0.1", port=0)
    async with (
        line_to(load_kubeconfig(ours.kubeconfig_of("operator"))) as line,
        watching(ours, namespace) as witness,
    ):
        operating_here = asyncio.create_task(Operator(line.access, settings).run(stop))
        try:
            for name, end in jobs.items():
                await remote.create(job(namespace, name, code=3 if end == "Failed" else 0))
                await asyncio.sleep(chance.random() * 0.5)
                line.cut()
            await witness.all_ended()
            await check(remote, namespace, witness, jobs, cut_off=True)
        finally:
            stop.set()
            await operating_here
    assert line.cuts


async def test_others_change_our_objects(
    needs: Needs, ours: RealCluster, remote: RemoteCluster, namespace: str
) -> None:
    """A user changes the status and spec of jobs while they are reconciled, and removes the labels of Pods and
    Services. The labels are restored, and no object is created twice."""
    needs("kwok")
    jobs = {f"job-{n}": "Succeeded" for n in range(8)}
    await remote.discover()
    with operating(ours, f"--namespace={namespace}"):
        async with watching(ours, namespace) as witness:
            for name in jobs:
                await remote.create(job(namespace, name, seconds=""))
            await until_pods(
                remote, namespace, lambda pods: [phase_of(p) for p in pods.values()] == ["Running"] * 3 * len(jobs)
            )
            meddling = [asyncio.create_task(meddle(remote, namespace, name, n)) for n, name in enumerate(jobs)]
            await asyncio.gather(*meddling)
            for kind in (POD, SERVICE):
                for name in jobs:
                    await until(remote, kind, f"{name}-worker-1", namespace, lambda o: JOB_NAME in labels_of(o))
            ours.kubectl("-n", namespace, "annotate", "pods", "--all", f"{kwok.SECONDS}=0")
            await witness.all_ended()
            await check(remote, namespace, witness, jobs)
            for name in jobs:
                await remote.delete(PYTORCH, name, namespace)
            for kind in (POD, SERVICE):
                await all_gone(remote, kind, namespace)


async def all_gone(remote: RemoteCluster, kind: Kind, namespace: str) -> None:
    changed = asyncio.Event()
    informer = Informer(remote, kind, namespace, on_change=lambda *_: changed.set())
    async with asyncio.timeout(90), informer:
        while informer.objects:
            changed.clear()
            await changed.wait()


async def meddle(remote: RemoteCluster, namespace: str, name: str, number: int) -> None:
    wrong: Object = {"replicaStatuses": {"Worker": {"active": 7}}, "conditions": [] if number % 2 else None}
    for turn in range(3):
        await remote.patch(PYTORCH, name, namespace, {"status": wrong}, subresource="status")
        await remote.patch(PYTORCH, name, namespace, {"spec": {"runPolicy": {"ttlSecondsAfterFinished": 900 + turn}}})
        for kind in (POD, SERVICE):
            await remote.patch(kind, f"{name}-worker-1", namespace, {"metadata": {"labels": {JOB_NAME: None}}})


async def test_two_replicas_are_killed_while_a_user_writes(
    needs: Needs, ours: RealCluster, remote: RemoteCluster, namespace: str
) -> None:
    """Of two operators, one at a time is killed, in turns. A user labels jobs and changes their status. A third
    operator works at the same time without the lease."""
    needs("kwok")
    chance = random.Random(7)
    await remote.discover()
    jobs = {f"job-{n}": "Succeeded" for n in range(20)}
    options = (f"--namespace={namespace}", f"--leader-election-namespace={namespace}", *ELECTION)
    one, two = (component(ours, *options, name=f"operator-{n}", port=PORT + n) for n in (1, 2))
    rogue = component(ours, f"--namespace={namespace}", "--no-leader-elect", name="operator-3", port=PORT + 3)
    processes = (one, two, rogue)
    try:
        for process in processes:
            await asyncio.to_thread(ours.start, process)
        async with watching(ours, namespace) as witness:
            for n, name in enumerate(jobs):
                await remote.create(job(namespace, name))
                meddling = {"metadata": {"labels": {"seen": str(n)}}}
                await remote.patch(PYTORCH, name, namespace, meddling)
                await asyncio.sleep(chance.random() * 0.3)
                if n % 4 == 3:
                    victim = chance.choice(processes)
                    await asyncio.to_thread(ours.stop, victim.name, force=True)
                    await asyncio.to_thread(ours.start, victim)
            await witness.all_ended()
            await check(remote, namespace, witness, jobs, cut_off=True)
    finally:
        for process in processes:
            ours.stop(process.name)
    events = Counter(
        (e["involvedObject"]["name"], e["message"])
        for e in (await remote.list(EVENT, namespace)).items
        if e["reason"] == "SuccessfulCreatePod"
    )
    assert max(events.values()) == 1, "no Pod was created twice"
    assert all(spec_of(s)["clusterIP"] == "None" for s in (await remote.list(SERVICE, namespace)).items)
