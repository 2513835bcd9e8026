"""Training jobs on a real API server and KWOK's nodes: Muster's operator against Kubeflow's training-operator v1.9.3.

    python -m benchmarks.training_operator [JOBS] [CONTENDER ...]          (default: 100 shipped tuned muster)

Starts a cluster with these parts if there is none, which takes root and, the first time, some minutes of building.
MUSTER_CLUSTER names another cluster than the usual one.
PyTorchJobs of a Master and three Workers are submitted all at once; their Pods run for two seconds. Measured, from the
first submission on: until every Pod has been Running, until every job has Succeeded; CPU time and the most memory of
the operator's process; and its requests per job, from the API server's audit log (without watches and leases).
Contenders take turns on the same API server, each in a namespace of its own; none has a webhook, so that submitting
costs the same. One that is named several times has several turns, of which medians are compared: a machine is not as
fast in every minute (100 shipped tuned muster tuned muster tuned muster). 1,000 jobs are possible: there are enough
fake nodes, and progress is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import statistics
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from muster.kube.builtin import NAMESPACE, POD, SERVICE_ACCOUNT
from muster.kube.controller import Informer
from muster.kube.errors import NotFound
from muster.kube.objects import Object, is_condition_true, name_of, status_of, uid_of
from muster.kube.remote.client import RemoteCluster
from muster.kube.remote.kubeconfig import load_kubeconfig
from muster.operator.install_manifests import build_crds
from muster.training.kinds.pytorch import PyTorch
from tools.cluster import kwok
from tools.cluster.cluster import ROOT, Cluster
from tools.cluster.processes import Component, Health

PEER = "training-operator"
USERS = ("muster:operator", "muster:training-operator")
MEMBERS = 4
PARALLEL = 32
SECONDS = "2"
PODS_PER_NODE = 400
"""A fake node takes 1,000 Pods, so the scheduler always finds room."""
REST = 20
"""Seconds between progress messages."""
RAISED = ("--kube-api-qps=1000", "--kube-api-burst=2000", "--controller-threads=8")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Result:
    running: float
    succeeded: float
    cpu: float
    megabytes: float
    requests: float
    """Per job."""
    verbs: Counter[str]
    lags: tuple[float, float]
    """Median and worst seconds from the end of a job's Master to the end of the job."""


def main(jobs: int, contenders: Sequence[str]) -> None:
    name = os.environ.get("MUSTER_CLUSTER", "muster")
    cluster = Cluster(name)
    if not cluster.is_up():
        command = [sys.executable, "-m", "tools.cluster", "--name", name, "up", "kwok", PEER]
        subprocess.run(command, cwd=ROOT, check=True)
    with cluster.entered():
        kwok.fake_nodes(cluster.layout, max(4, math.ceil(jobs * MEMBERS / PODS_PER_NODE)))
        audit = listen(cluster, USERS)
        cluster.stop(PEER)
        cluster.kubectl(
            "delete", "validatingwebhookconfiguration", f"validator.{PEER}.kubeflow.org", "--ignore-not-found"
        )  # fmt: skip
        cluster.apply(*build_crds())
        results: dict[str, list[Result]] = {}
        for contender in contenders:
            result = asyncio.run(measure(cluster, contender, jobs, audit))
            results.setdefault(contender, []).append(result)
            print(line(contender, result, jobs), flush=True)
    report(results)


def listen(cluster: Cluster, users: Sequence[str]) -> Path:
    """Turns on the API server's audit log for the requests of these users, and returns its path."""
    policy = cluster.layout.configuration / "audit.yaml"
    rules = [{"level": "Metadata", "users": list(users)}, {"level": "None"}]
    stages = ["RequestReceived", "ResponseStarted"]
    policy.write_text(
        json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": stages, "rules": rules})
    )
    path = cluster.layout.root / "audit.log"
    path.unlink(missing_ok=True)
    cluster.restart(
        "kube-apiserver", f"--audit-policy-file={policy}", f"--audit-log-path={path}", "--audit-log-maxsize=4000"
    )  # fmt: skip
    cluster.reconnect()
    return path


def start(cluster: Cluster, contender: str) -> str:
    """Returns the name of its process."""
    if contender != "muster":
        cluster.restart(PEER, *(RAISED if contender == "tuned" else ()))
        return PEER
    command = [
        sys.executable, "-m", "muster", "operator", f"--kubeconfig={cluster.kubeconfig_of('operator')}",
        "--host=127.0.0.1", "--port=8086",
    ]  # fmt: skip
    cluster.start(Component("operator", command, health=Health(8086, "/readyz")))
    return "operator"


async def measure(cluster: Cluster, contender: str, jobs: int, audit: Path) -> Result:
    name = start(cluster, contender)
    await asyncio.sleep(5.0)  # both have started and settled by then
    namespace = f"bench-{uuid.uuid4().hex[:8]}"
    async with RemoteCluster(load_kubeconfig(cluster.kubeconfig)) as remote:
        await remote.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        await remote.discover()
        await _until_account(remote, namespace)
        seen = audit.stat().st_size if audit.exists() else 0
        pid = cluster.pid(name)
        assert pid is not None
        cpu = cpu_seconds(pid)
        running, succeeded, lags = await drive(remote, namespace, jobs)
        cpu = cpu_seconds(pid) - cpu
        memory = most_memory(pid)
        counted = Counter(map(what, await _all_told(audit, seen, namespace)))
        cluster.stop(name)
        say(f"{contender}: removing what it was given")
        await remote.delete(NAMESPACE, namespace)
        with suppress(NotFound):
            while True:
                await remote.get(NAMESPACE, namespace)
                await asyncio.sleep(0.5)
    return Result(running, succeeded, cpu, memory, sum(counted.values()) / jobs, counted, lags)


async def _all_told(audit: Path, seen: int, namespace: str) -> list[Object]:
    """Returns the requests about the namespace since this position in the log, once no more arrive: events may still
    be sent when the last job has ended."""
    told: list[Object] = []
    while True:
        await asyncio.sleep(6.0)
        with audit.open() as file:
            file.seek(seen)
            found = [json.loads(text) for text in file if namespace in text]
        found = [one for one in found if one["verb"] != "watch" and one["objectRef"].get("namespace") == namespace]
        if len(found) == len(told):
            return found
        told = found


def say(text: str) -> None:
    print(f"  {time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def what(request: Object) -> str:
    about = request["objectRef"]
    return f"{request['verb']} {'/'.join(filter(None, (about['resource'], about.get('subresource'))))}"


async def _until_account(remote: RemoteCluster, namespace: str) -> None:
    """Without it, Pods are refused."""
    while True:
        with suppress(NotFound):
            await remote.get(SERVICE_ACCOUNT, "default", namespace)
            return
        await asyncio.sleep(0.1)


async def drive(remote: RemoteCluster, namespace: str, jobs: int) -> tuple[float, float, tuple[float, float]]:
    """Submits and waits. Returns when all Pods had been Running, when all jobs had Succeeded, and how long that took
    after their Masters ended."""
    ran: set[str] = set()
    masters: dict[str, float] = {}
    done: dict[str, float] = {}
    moments: dict[str, float] = {}
    over = asyncio.Event()

    def pod_changed(_: Object | None, pod: Object | None) -> None:
        if pod is not None and status_of(pod).get("phase") in ("Running", "Succeeded"):
            ran.add(uid_of(pod))
            if status_of(pod)["phase"] == "Succeeded" and name_of(pod).endswith("-master-0"):
                masters.setdefault(name_of(pod).removesuffix("-master-0"), time.perf_counter())
            if len(ran) == jobs * MEMBERS:
                moments.setdefault("running", time.perf_counter())

    def job_changed(_: Object | None, job: Object | None) -> None:
        if job is not None and is_condition_true(status_of(job).get("conditions") or [], "Succeeded"):
            done.setdefault(name_of(job), time.perf_counter())
            if len(done) == jobs:
                moments.setdefault("succeeded", time.perf_counter())
                over.set()

    async def tell() -> None:
        while True:
            await asyncio.sleep(REST)
            say(f"{len(ran)} of {jobs * MEMBERS} Pods have run, {len(done)} of {jobs} jobs have succeeded")

    room = asyncio.Semaphore(PARALLEL)

    async def submit(number: int) -> None:
        async with room:
            await remote.create(job(namespace, number))

    async with (
        Informer(remote, POD, namespace, on_change=pod_changed),
        Informer(remote, PyTorch.kind, namespace, on_change=job_changed),
    ):
        telling = asyncio.create_task(tell())
        began = time.perf_counter()
        try:
            await asyncio.gather(*(submit(number) for number in range(jobs)))
            async with asyncio.timeout(1800 + 3 * jobs):
                await over.wait()
        finally:
            telling.cancel()
    lags = sorted(done[name] - masters.get(name, done[name]) for name in done)
    return moments["running"] - began, moments["succeeded"] - began, (lags[len(lags) // 2], lags[-1])


def job(namespace: str, number: int) -> Object:
    template = {
        "metadata": {"annotations": {kwok.SECONDS: SECONDS}},
        "spec": {
            "nodeSelector": {"type": kwok.FAKE_NODE},
            "tolerations": [kwok.FAKE_TOLERATION],
            "containers": [{"name": "pytorch", "image": "none:1"}],
        },
    }
    roles = {"Master": {"replicas": 1, "template": template}, "Worker": {"replicas": 3, "template": template}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": f"job-{number:04d}", "namespace": namespace},
        "spec": {"runPolicy": {"cleanPodPolicy": "None"}, "pytorchReplicaSpecs": roles},
    }


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def most_memory(pid: int) -> float:
    """In megabytes."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(row.split()[1]) for row in status if row.startswith("VmHWM")) / 1024


def line(contender: str, result: Result, jobs: int) -> str:
    verbs = ", ".join(f"{name} {count / jobs:.1f}" for name, count in result.verbs.most_common())
    return (
        f"{contender:8s} running {result.running:6.1f} s  succeeded {result.succeeded:6.1f} s"
        f" (lag {result.lags[0]:.1f}, at worst {result.lags[1]:.1f})  cpu {result.cpu:5.1f} s"
        f"  memory {result.megabytes:4.0f} MB  requests per job {result.requests:5.1f} ({verbs})"
    )


def report(results: dict[str, list[Result]]) -> None:
    """The medians of several turns."""

    def typical(contender: str, figure: Callable[[Result], float]) -> float:
        return statistics.median(map(figure, results[contender]))

    for name, goal in (("shipped", 5.0), ("tuned", 1.0)):
        if name not in results or "muster" not in results:
            continue
        verdicts = []
        for what, waited in (("Running", attrgetter("running")), ("Succeeded", attrgetter("succeeded"))):
            factor = typical(name, waited) / typical("muster", waited)
            verdicts.append(f"{factor:.2f} x as fast to all {what} (goal {goal:g}: {_verdict(factor >= goal)})")
        for what, used in (
            ("requests", attrgetter("requests")),
            ("CPU", attrgetter("cpu")),
            ("memory", attrgetter("megabytes")),
        ):
            share = typical("muster", used) / typical(name, used)
            verdicts.append(f"{what} {share:.2f} of theirs ({_verdict(share <= 1)})")
        print(f"against {name}: {'; '.join(verdicts)}")


def _verdict(reached: bool) -> str:
    return "ok" if reached else "MISSED"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", type=int, nargs="?", default=100)
    parser.add_argument("contenders", nargs="*", metavar="contender", help="shipped, tuned or muster; all by default")
    given = parser.parse_args()
    main(given.jobs, given.contenders or ["shipped", "tuned", "muster"])
