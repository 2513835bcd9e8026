"""What the platform adds to Argo on a real cluster: its runs against `argo submit` of the same Workflows.

    python -m benchmarks.cluster_platform [RUNS] [CONTENDER ...]          (default: 200 muster argo streams)

Starts a cluster with Argo and KWOK if there is none, which takes root and, the first time, some minutes of building.
MUSTER_CLUSTER names another cluster than the usual one. RUNS runs of five nodes are submitted at once:

muster   to the platform's API, with a server outside of Pods and PostgreSQL
argo     the same Workflows with `argo submit`, one command for each, eight at a time
streams  as muster, while 200 clients follow the events of all runs

The Pods run on KWOK's nodes for a second, and this program reports their results as Argo's executor would. So what is
measured is the control: CPU time of the server, of PostgreSQL, of the `argo` commands, of Argo's controller, of the API
server with etcd; requests of each user, from the API server's audit log (without watches and leases); memory of the
server; transactions, rows and size of the database. All figures but memory are per run. They are CPU time and counts: a
machine that is busy with other things changes them little.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import psycopg
from benchmarks.training_operator import listen
from psycopg import sql

from muster.kube.builtin import NAMESPACE, POD, SERVICE_ACCOUNT
from muster.kube.controller import Informer
from muster.kube.errors import AlreadyExists
from muster.kube.objects import Object, annotations_of, labels_of, spec_of, status_of, uid_of
from muster.kube.remote.client import RemoteCluster
from muster.kube.remote.kubeconfig import load_kubeconfig
from muster.workflows.backend import RUN_ACCOUNT
from muster.workflows.kinds import API_VERSION, WORKFLOW, WORKFLOW_TASK_RESULT
from tests.cluster.admission import argo_pods_on_fake_nodes
from tests.cluster.platform_servers import HOST, PlatformCrew, PlatformServer, platform_crew
from tests.platform.graphs.samples import graph, node
from tools.cluster import kwok
from tools.cluster.build import program
from tools.cluster.cluster import PARTS, ROOT, Cluster
from tools.cluster.sources import ARGO

PARALLEL = 8
NODES = 5
STREAMS = 200
PODS_PER_NODE = 400
REST = 20.0
"""Seconds between progress messages."""
SERVER_USER, ARGO_USER, CLIENT_USER = "muster:operator", "muster:argo", "muster:kueue"
"""The `argo` commands use an account that nothing else uses here."""
_TICKS = os.sysconf("SC_CLK_TCK")
_WORKFLOW = "workflows.argoproj.io/workflow"
_COMPLETED = "workflows.argoproj.io/completed"
_NODE_ID = "workflows.argoproj.io/node-id"
_REPORTED = "workflows.argoproj.io/report-outputs-completed"


@dataclass
class Result:
    submitted: float
    """Seconds until the last one was accepted."""
    ended: float
    """Seconds until the last one had succeeded."""
    cpu: dict[str, float] = field(default_factory=dict)
    requests: dict[str, Counter[str]] = field(default_factory=dict)
    """By user."""
    transactions: float = 0.0
    database_bytes: float = 0.0
    rows: Counter[str] = field(default_factory=Counter)
    """New rows by table."""
    memory: tuple[float, float] = (0.0, 0.0)
    """Bytes of the server before, and at most."""
    events: int = 0
    """Which all streams received together."""


def main(runs: int, contenders: Sequence[str]) -> None:
    if os.geteuid():
        print("skipped: a cluster needs root")
        return
    name = os.environ.get("MUSTER_CLUSTER", "muster")
    cluster = Cluster(name)
    parts = ("kwok", "argo")
    if not cluster.is_up() or any(not cluster.pid(each) for part in parts for each in PARTS[part].components):
        subprocess.run([sys.executable, "-m", "tools.cluster", "--name", name, "up", *parts], cwd=ROOT, check=True)
    with cluster.entered():
        kwok.fake_nodes(cluster.layout, max(4, math.ceil(runs * NODES / PODS_PER_NODE)))
        audit = listen(cluster, [SERVER_USER, ARGO_USER, CLIENT_USER])
        try:
            with argo_pods_on_fake_nodes(cluster, "1"):
                results = asyncio.run(measure_all(cluster, runs, contenders, audit))
        finally:
            cluster.restart("kube-apiserver")  # without the audit log
            cluster.reconnect()
    report(results, runs)


async def measure_all(cluster: Cluster, runs: int, contenders: Sequence[str], audit: Path) -> dict[str, Result]:
    results: dict[str, Result] = {}
    workflow: Object | None = None
    async with RemoteCluster(load_kubeconfig(cluster.kubeconfig)) as remote:
        for contender in contenders:
            if contender == "argo":
                if workflow is None:
                    raise SystemExit("name muster before argo: it submits the Workflows of the platform")
                results[contender] = await measure_argo(cluster, remote, workflow, runs, audit)
            else:
                with tempfile.TemporaryDirectory() as folder:
                    found = await measure_platform(cluster, remote, Path(folder), runs, audit, contender)
                results[contender], workflow = found
            print(line(contender, results[contender], runs), flush=True)
    return results


async def measure_platform(
    cluster: Cluster, remote: RemoteCluster, folder: Path, runs: int, audit: Path, contender: str
) -> tuple[Result, Object]:
    """Returns also one of its Workflows."""
    # One user submits everything and follows it many times.
    budgets = {"userRequestsPerSecond": 10_000, "userChecks": 1_000, "userStreams": 2 * STREAMS}
    with platform_crew(cluster, folder, ("bench",), budgets=budgets, with_s3=False) as crew:
        (server,) = crew.servers
        await server.start()
        await define(server)
        received: Counter[str] = Counter()
        async with (
            reported_results(remote, crew.namespace),
            followers(server, STREAMS if contender == "streams" else 0, received),
        ):
            await one_run(server)  # the first one makes its namespace
            await asyncio.sleep(5.0)
            with psycopg.connect(
                f"host={HOST} port={port_of(crew)} user=muster dbname=postgres", autocommit=True
            ) as db:
                before, seen = cpu_of(cluster, crew), audit.stat().st_size
                (transactions, size), rows = database_figures(db), count_rows(db)
                resting = memory_of(cluster, server, "VmRSS")
                began = time.perf_counter()
                await submit_to_platform(server, runs)
                submitted = time.perf_counter() - began
                await until_rows(db, runs + 1)
                ended = time.perf_counter() - began
                cpu = {name: seconds - before[name] for name, seconds in cpu_of(cluster, crew).items()}
                after, new_rows = database_figures(db), count_rows(db) - rows
                memory = resting, memory_of(cluster, server, "VmHWM")
        requests = await told(audit, seen, crew.namespace)
        workflows = (await remote.list(WORKFLOW, crew.namespace)).items
        assert len(workflows) == runs + 1
        await remove(remote, crew.namespace)
        written = after[0] - transactions, after[1] - size, new_rows
        result = Result(submitted, ended, cpu, requests, *written, memory, received["event"])
        return result, workflows[0]


@asynccontextmanager
async def reported_results(remote: RemoteCluster, namespace: str) -> AsyncIterator[None]:
    """KWOK's Pods run no executor, and the controller waits for its reports: they are made here, when a Pod runs."""
    running: asyncio.Queue[Object] = asyncio.Queue()
    seen = set[str]()

    def on_change(_: Object | None, pod: Object | None) -> None:
        if pod and status_of(pod).get("phase") in ("Running", "Succeeded") and uid_of(pod) not in seen:
            seen.add(uid_of(pod))
            running.put_nowait(pod)

    async def report() -> None:
        while True:
            pod = await running.get()
            labels = {_WORKFLOW: labels_of(pod)[_WORKFLOW], _REPORTED: "false"}
            name = annotations_of(pod)[_NODE_ID]
            metadata = {"name": name, "namespace": namespace, "labels": labels}
            await remote.create({"apiVersion": API_VERSION, "kind": WORKFLOW_TASK_RESULT.kind, "metadata": metadata})
            done = {"metadata": {"labels": {_REPORTED: "true"}}}
            await remote.patch(WORKFLOW_TASK_RESULT, name, namespace, done)

    async with asyncio.TaskGroup() as group, Informer(remote, POD, namespace, labels=_WORKFLOW, on_change=on_change):
        reporting = [group.create_task(report()) for _ in range(PARALLEL)]
        yield
        for task in reporting:
            task.cancel()


async def define(server: PlatformServer) -> None:
    """Five nodes: one, three beside one another, and one after them."""
    nodes = [node(name, image="none:1", command="true") for name in "abcde"]
    document = graph(*nodes, edges="a>b a>c a>d b>e c>e d>e")
    await server.admin.post("workflows", {"name": "five", "version": {"document": document}})


async def one_run(server: PlatformServer) -> None:
    run = await server.admin.post("runs", {"workflow": "five"})
    async with asyncio.timeout(300):
        while (found := await server.admin.get(f"runs/{run['id']}"))["state"] != "succeeded":
            assert found["state"] in ("waiting", "running"), found["message"]
            await asyncio.sleep(0.5)


async def submit_to_platform(server: PlatformServer, runs: int) -> None:
    headers = server.admin._headers
    async with aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=600)) as session:

        async def submit() -> None:
            async with session.post(f"{server.url}/api/v1/runs", json={"workflow": "five"}) as response:
                assert response.status == 201, await response.text()

        await asyncio.gather(*(submit() for _ in range(runs)))


@asynccontextmanager
async def followers(server: PlatformServer, count: int, received: Counter[str]) -> AsyncIterator[None]:
    """Clients that follow the events of all runs."""
    opened = asyncio.Semaphore(0)

    async def follow(session: aiohttp.ClientSession) -> None:
        async with session.get(f"{server.url}/api/v1/runs/events") as stream:
            assert stream.status == 200, await stream.text()
            opened.release()
            async for text in stream.content:
                received["event"] += text.startswith(b"data:")

    connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(headers=server.admin._headers, connector=connector, timeout=timeout) as session:
        following = [asyncio.create_task(follow(session)) for _ in range(count)]
        for _ in following:
            await opened.acquire()
        try:
            yield
        finally:
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)


async def until_rows(db: psycopg.Connection[Any], runs: int) -> None:
    """Waits for the platform's own record, without a request to it."""
    reported = time.monotonic()
    while True:
        states = dict(db.execute("SELECT state, count(*) FROM runs GROUP BY state").fetchall())
        if states.get("succeeded", 0) == runs:
            return
        assert not states.keys() & {"failed", "stopped"}, states
        if time.monotonic() - reported > REST:
            reported = time.monotonic()
            say(f"runs: {states}")
        await asyncio.sleep(0.5)


async def measure_argo(cluster: Cluster, remote: RemoteCluster, workflow: Object, runs: int, audit: Path) -> Result:
    namespace = f"bench-{uuid.uuid4().hex[:8]}"
    await remote.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": RUN_ACCOUNT, "namespace": namespace}}
    try:
        await remote.create(account)
    except AlreadyExists:
        await remote.get(SERVICE_ACCOUNT, RUN_ACCOUNT, namespace)
    plain = {
        "apiVersion": workflow["apiVersion"],
        "kind": workflow["kind"],
        "metadata": {"generateName": "five-", "namespace": namespace},
        "spec": spec_of(workflow),
    }
    await asyncio.sleep(5.0)
    async with reported_results(remote, namespace):
        result = await submit_and_wait(cluster, remote, plain, namespace, runs, audit)
    await remove(remote, namespace)
    return result


async def submit_and_wait(
    cluster: Cluster, remote: RemoteCluster, workflow: Object, namespace: str, runs: int, audit: Path
) -> Result:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(workflow, file)
        file.flush()
        before, seen = cpu_of(cluster, None), audit.stat().st_size
        began = time.perf_counter()
        commands = resource.getrusage(resource.RUSAGE_CHILDREN)
        await submit_with_argo(cluster, file.name, namespace, runs)
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        submitted = time.perf_counter() - began
        reported = time.monotonic()
        while True:
            found = (await remote.list(WORKFLOW, namespace, labels=f"{_COMPLETED}=true")).items
            assert all(status_of(each).get("phase") == "Succeeded" for each in found)
            if len(found) == runs:
                break
            if time.monotonic() - reported > REST:
                reported = time.monotonic()
                say(f"{len(found)} of {runs} Workflows have succeeded")
            await asyncio.sleep(2.0)
        ended = time.perf_counter() - began
        cpu = {name: seconds - before[name] for name, seconds in cpu_of(cluster, None).items()}
    cpu["argo submit"] = now.ru_utime + now.ru_stime - commands.ru_utime - commands.ru_stime
    return Result(submitted, ended, cpu, await told(audit, seen, namespace))


async def submit_with_argo(cluster: Cluster, file: str, namespace: str, runs: int) -> None:
    room = asyncio.Semaphore(PARALLEL)
    command = [str(program(ARGO, "argo")), "submit", file, f"--namespace={namespace}", "--output=name"]
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig_of("kueue"))}

    async def submit() -> None:
        async with room:
            process = await asyncio.create_subprocess_exec(
                *command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
            _, said = await process.communicate()
            assert process.returncode == 0, said.decode()

    await asyncio.gather(*(submit() for _ in range(runs)))


async def remove(remote: RemoteCluster, namespace: str) -> None:
    """Deletes the Workflows first: the controller remembers those that exist."""
    for workflow in (await remote.list(WORKFLOW, namespace)).items:
        await remote.delete(WORKFLOW, workflow["metadata"]["name"], namespace)
    await remote.delete(NAMESPACE, namespace)


async def told(audit: Path, seen: int, namespace: str) -> dict[str, Counter[str]]:
    """Returns the requests about the namespace since this position in the log, by user, once no more arrive
    of the server or the commands."""
    found: dict[str, Counter[str]] = {}
    while True:
        await asyncio.sleep(6.0)
        before, found = found, {}
        with audit.open() as file:
            file.seek(seen)
            for text in file:
                request = json.loads(text)
                about = request.get("objectRef") or {}
                is_own = about.get("namespace") == namespace or about.get("name") == namespace
                if request["verb"] == "watch" or (not is_own and request["user"]["username"] != CLIENT_USER):
                    continue
                what = f"{request['verb']} {'/'.join(filter(None, (about.get('resource'), about.get('subresource'))))}"
                found.setdefault(request["user"]["username"], Counter())[what.strip()] += 1
        # Argo's controller goes on for minutes: it labels two Pods per second.
        if all(found.get(user) == before.get(user) for user in (SERVER_USER, CLIENT_USER)):
            return found


def cpu_of(cluster: Cluster, crew: PlatformCrew | None) -> dict[str, float]:
    """Seconds so far of each process, with its children."""
    pids = {
        "Argo controller": cluster.pid("workflow-controller"),
        "API server": cluster.pid("kube-apiserver"),
        "etcd": cluster.pid("etcd"),
    }
    if crew is not None:
        pids["server"] = cluster.pid(crew.servers[0].name)
        pids["PostgreSQL"] = int((crew.postgres.socket_folder / "data" / "postmaster.pid").read_text().split()[0])
    return {name: cpu_seconds(pid) for name, pid in pids.items() if pid is not None}


def cpu_seconds(pid: int) -> float:
    """Of a process, its children, and those of its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS + sum(cpu_seconds(int(child)) for child in children)


def memory_of(cluster: Cluster, server: PlatformServer, what: str) -> float:
    """Bytes of the server, without the processes that check documents: VmRSS now, or VmHWM at most."""
    lines = Path(f"/proc/{cluster.pid(server.name)}/status").read_text().splitlines()
    return sum(1024.0 * float(line.split()[1]) for line in lines if line.startswith(f"{what}:"))


def port_of(crew: PlatformCrew) -> int:
    return int((crew.postgres.socket_folder / "data" / "postmaster.pid").read_text().splitlines()[3])


def database_figures(db: psycopg.Connection[Any]) -> tuple[float, float]:
    """The number of transactions so far, and the size in bytes."""
    query = "SELECT xact_commit + xact_rollback, pg_database_size(datname) FROM pg_stat_database WHERE datname = %s"
    row = db.execute(query, ["postgres"]).fetchone()
    assert row is not None
    return float(row[0]), float(row[1])


def count_rows(db: psycopg.Connection[Any]) -> Counter[str]:
    tables = db.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    counted = {name: db.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(name))) for (name,) in tables}
    return Counter({name: row[0] for name, cursor in counted.items() if (row := cursor.fetchone())})


def say(text: str) -> None:
    print(f"  {time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def line(contender: str, result: Result, runs: int) -> str:
    cpu = ", ".join(f"{name} {1000 * seconds / runs:.0f}" for name, seconds in result.cpu.items())
    requests = "; ".join(
        f"{user.removeprefix('muster:')} {sum(counted.values()) / runs:.1f} "
        f"({', '.join(f'{what} {count / runs:.1f}' for what, count in counted.most_common(8))})"
        for user, counted in sorted(result.requests.items())
    )
    more = ""
    if result.transactions:
        rows = ", ".join(f"{name} {count / runs:.1f}" for name, count in result.rows.most_common())
        size, (before, most) = result.database_bytes / runs / 1024, (each / 2**20 for each in result.memory)
        more = (
            f"\n  database: {result.transactions / runs:.1f} transactions, {size:.1f} kB, "
            f"{result.rows.total() / runs:.1f} rows ({rows})\n  server: {before:.0f} MB before, {most:.0f} MB at most"
        )
    if result.events:
        more += f"\n  events: {result.events} received by {STREAMS} streams"
    return (
        f"{contender}: submitted in {result.submitted:.1f} s, all succeeded after {result.ended:.1f} s "
        f"({60 * runs / result.ended:.0f} per minute)\n"
        f"  CPU per run in ms: {cpu}\n  requests per run: {requests}{more}"
    )


def report(results: Mapping[str, Result], runs: int) -> None:
    muster, argo, streams = (results.get(name) for name in ("muster", "argo", "streams"))
    if muster is not None and argo is not None:
        own = (muster.cpu["server"] + muster.cpu["PostgreSQL"]) / runs
        theirs = argo.cpu["argo submit"] / runs
        asked = [
            sum(r.requests.get(u, Counter()).values()) / runs for r, u in ((muster, SERVER_USER), (argo, CLIENT_USER))
        ]
        print(
            f"server and database against argo submit: {1000 * own:.0f} ms of CPU per run to {1000 * theirs:.0f} "
            f"({own / theirs:.2f}), {asked[0]:.1f} requests to {asked[1]:.1f}; "
            f"Argo's controller takes {1000 * argo.cpu['Argo controller'] / runs:.0f} ms of CPU per run"
        )
        print(f"one core of a server is enough for {60 / own:.0f} runs per minute, one of Argo's controller for "
              f"{60 * runs / argo.cpu['Argo controller']:.0f}")  # fmt: skip
    if muster is not None and streams is not None and streams.events:
        more = streams.cpu["server"] - muster.cpu["server"]
        print(f"an event for one more stream: {1e6 * more / streams.events:.0f} µs of CPU")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=int, nargs="?", default=200)
    parser.add_argument("contenders", nargs="*", metavar="contender", help="muster, argo or streams; all by default")
    given = parser.parse_args()
    main(given.runs, given.contenders or ["muster", "argo", "streams"])
