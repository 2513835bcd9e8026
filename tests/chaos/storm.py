"""Kills the server many times while Pods run and clients write, then checks that nothing was lost."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from muster.kube.builtin import CONFIG_MAP, JOB, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD
from muster.kube.cluster import LogQuery
from muster.kube.errors import Unavailable
from muster.kube.objects import Object, controller_of, is_condition_true, is_deleting, name_of, spec_of, status_of
from muster.kube.remote.client import RemoteCluster
from tests.chaos.ledger import Ledger, Planned
from tests.chaos.real_server import PATIENCE, RealServer, eventually, has_ended, phase_of, until_pods
from tests.chaos.workload import GATE, Plan, a_job, job_faults, short_plan, steady_plan

CONFIG = {
    "node": {"capacity": {"cpu": "10000", "memory": "10Ti", "pods": "10000"}},
    "restarts": {"backoffSeconds": 0.1},
}
"""Room for all Pods, and a short backoff for those that fail at first."""

_CLAIM = "books"
_WRITERS = 3
_PODS_PER_JOB = 6


@dataclass
class Proof:
    """What is wrong at the end. Every list should be empty."""

    writes: list[str] = field(default_factory=list)
    """Acknowledged writes that are lost."""
    pods: list[str] = field(default_factory=list)
    """Pods that ran too often, not often enough, or ended in the wrong phase."""
    logs: list[str] = field(default_factory=list)
    """Logs that are incomplete."""
    lines: int = 0
    """The number of log lines that were checked."""

    @property
    def faults(self) -> list[str]:
        return [*self.writes, *self.pods, *self.logs]


@dataclass
class Storm:
    """`steady` Pods run from the first kill until shortly before the last. `short` Pods start and end in between."""

    server: RealServer
    books: Path
    """A directory for the volume of the steady Pods."""
    random: Random
    kills: int = 50
    steady: int = 200
    short: int = 100
    longest_life: float = 1.0
    """In seconds, from when the server is ready."""
    restarts: list[float] = field(default_factory=list)
    """Seconds until the server was ready again, for each restart."""
    kills_before_ready: int = 0
    plans: dict[str, Plan] = field(default_factory=dict)

    async def run(self) -> Ledger:
        """Runs all kills. The server is up afterwards."""
        self.books.mkdir()
        ledger = Ledger(self.random)
        await self.server.start()
        async with self.server.client() as cluster:
            await cluster.create(_claim())
            steady = [steady_plan(number, self.random, self.books) for number in range(self.steady)]
            self.plans.update((plan.name, plan) for plan in steady)
            await asyncio.gather(*(ledger.place(cluster, Planned(plan.pod())) for plan in steady))
            await until_pods(cluster, lambda pods: _running(pods) == self.steady)
        self.server.kill()
        for kill in range(self.kills):
            if kill == self.kills * 4 // 5:
                (self.books / GATE).touch()
            await self._start_and_kill(ledger, self.short * (kill + 1) // self.kills)
        await self.server.start()
        async with self.server.client() as cluster:
            await ledger.place_open(cluster)
            await _until_all_finished(cluster)
        return ledger

    async def _start_and_kill(self, ledger: Ledger, pods_by_now: int) -> None:
        """Starts the server and kills it: one time in four before it is ready."""
        self.server.launch()
        began = time.monotonic()
        if self.random.random() < 0.25:
            await asyncio.sleep(self.random.uniform(0.0, 0.5))
            self.kills_before_ready += 1
            self.server.kill()
            return
        await self.server.ready()
        self.restarts.append(time.monotonic() - began)
        async with self.server.client() as cluster:
            writers = [asyncio.create_task(self._write(ledger, cluster, f"writer{n}")) for n in range(_WRITERS)]
            writers.append(asyncio.create_task(self._create_pods(ledger, cluster, pods_by_now)))
            await asyncio.sleep(self.random.uniform(0.0, self.longest_life))
            self.server.kill()
            await asyncio.gather(*writers)

    async def _write(self, ledger: Ledger, cluster: RemoteCluster, writer: str) -> None:
        try:
            while True:
                await ledger.write_something(cluster, writer)
                await asyncio.sleep(0.005)
        except Unavailable:
            return

    async def _create_pods(self, ledger: Ledger, cluster: RemoteCluster, by_now: int) -> None:
        try:
            await ledger.place_open(cluster)
            while (number := len(self.plans) - self.steady) < by_now:
                plan = self.plans[f"short-{number}"] = short_plan(number, self.random, _CLAIM)
                await ledger.place(cluster, Planned(plan.pod(), plan.doomed))
                if number % _PODS_PER_JOB == 0:
                    await ledger.place(cluster, Planned(a_job(f"job-{number}", self.random.randint(1, 3), _CLAIM)))
        except Unavailable:
            return

    async def proof(self, ledger: Ledger) -> Proof:
        async with self.server.client() as cluster:
            maps = (await cluster.list(CONFIG_MAP, "default")).items
            jobs = (await cluster.list(JOB, "default")).items
            pods = {name_of(pod): pod for pod in (await cluster.list(POD, "default")).items}
            folder = await _claim_folder(cluster)
            proof = Proof(ledger.faults(maps, [*jobs, *pods.values()]))
            free = {name for name, pod in pods.items() if controller_of(pod) is None}
            proof.pods += [f"{name} was never asked for" for name in free - self.plans.keys()]
            for job in jobs:
                books = {path.name: path.read_text() for path in folder.glob(f"{name_of(job)}.*")}
                proof.pods += job_faults(job, books)
            for name, plan in self.plans.items():
                book = (self.books if plan.steady else folder) / name
                proof.pods += plan.faults(pods.get(name, {}), book.read_text() if book.exists() else "")
                if not plan.doomed:
                    await self._prove_logs(cluster, plan, proof)
        if "Traceback" in self.server.log():
            proof.pods.append(f"the server's log has a traceback:\n{self.server.log()}")
        await eventually(lambda: not self.server.supervisors())
        return proof

    async def _prove_logs(self, cluster: RemoteCluster, plan: Plan, proof: Proof) -> None:
        for query in (LogQuery(), LogQuery(previous=True))[: plan.failures + 1]:
            log = b"".join([part async for part in cluster.logs(plan.name, "default", query)]).decode()
            proof.logs += plan.log_faults(log)
            proof.lines += log.count("\n")


async def _until_all_finished(cluster: RemoteCluster) -> None:
    """Waits until every Job is complete, every Pod has ended, and every deleted Pod is gone."""

    def is_quiet(pods: dict[str, Object]) -> bool:
        return all(has_ended(pod) and not is_deleting(pod) for pod in pods.values())

    async with asyncio.timeout(PATIENCE):
        while True:
            await until_pods(cluster, is_quiet)
            jobs = (await cluster.list(JOB, "default")).items
            if all(is_condition_true(status_of(job).get("conditions") or (), "Complete") for job in jobs):
                return
            await asyncio.sleep(0.05)


def _running(pods: dict[str, Object]) -> int:
    return sum(phase_of(pod) == "Running" for pod in pods.values())


def _claim() -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": _CLAIM, "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Mi"}}},
    }


async def _claim_folder(cluster: RemoteCluster) -> Path:
    claim = await cluster.get(PERSISTENT_VOLUME_CLAIM, _CLAIM, "default")
    assert status_of(claim)["phase"] == "Bound"
    volume = await cluster.get(PERSISTENT_VOLUME, spec_of(claim)["volumeName"])
    return Path(spec_of(volume)["hostPath"]["path"])
