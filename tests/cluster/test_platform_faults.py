"""Servers, the Argo controller, PostgreSQL and the API server are killed and restarted at random while runs are
submitted and run: nothing is lost, nothing runs twice, and every run ends as it should."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Literal

import pytest

from muster.kube.objects import name_of
from muster.kube.remote.client import RemoteCluster
from muster.workflows.kinds import WORKFLOW
from tests.chaos.test_platform_runs import CUT_OFF, random_of, with_book
from tests.cluster.conftest import Needs, running_argo
from tests.cluster.platform_servers import PlatformCrew, platform_crew
from tests.cluster.test_platform import with_local_images
from tests.platform.graphs.samples import graph, node
from tests.server.platform.served import Client, Reply
from tests.server.platform.whole import stored

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(3000)]

Fault = Literal["server one", "server two", "Argo controller", "PostgreSQL", "API server"]
FAULTS: tuple[Fault, ...] = ("server one", "server two", "Argo controller", "PostgreSQL", "API server")
Outcome = Literal["succeeded", "failed", "stopped"]
PATIENCE = 1200.0


@pytest.fixture
async def crew(needs: Needs, tmp_path: Path) -> AsyncIterator[PlatformCrew]:
    """Two servers. Afterwards, the cluster's controllers work again: each waits for up to minutes after it has lost its
    API server."""
    real = needs("node", "argo", "s3")
    with platform_crew(real, tmp_path, ("one", "two")) as crew:
        for server in crew.servers:
            await server.start()
        try:
            yield crew
        finally:
            await asyncio.to_thread(real.reconnect)


@dataclass
class Ledger:
    """What clients were told."""

    outcomes: dict[str, set[Outcome]] = field(default_factory=dict)
    """How each run that was acknowledged may end."""
    replies: Counter[str] = field(default_factory=Counter)


async def persist(crew: PlatformCrew, random: Random, ledger: Ledger, method: str, path: str, body: Any) -> Reply:
    """Sends a request to any server until one accepts or refuses it. A server that was killed closes the connection;
    one that misses its database or cluster says when to try again. Nothing else may happen."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                async with asyncio.timeout(90):
                    reply = await random.choice(crew.servers).admin(method, path, body)
            except CUT_OFF as error:
                ledger.replies[type(error).__name__] += 1
                await asyncio.sleep(0.5)
                continue
            ledger.replies[f"{method} {reply.status}"] += 1
            if reply.status != 503:
                assert reply.status < 500, f"{method} {path}: {reply.body}"
                return reply
            await asyncio.sleep(float(reply.headers["Retry-After"]))


async def submit(crew: PlatformCrew, random: Random, ledger: Ledger, workflow: str, *, stop: bool) -> None:
    made = await persist(crew, random, ledger, "POST", "runs", {"workflow": workflow})
    assert made.status == 201, made.body
    run, outcome = made.body["id"], ledger.outcomes.setdefault(made.body["id"], set())
    outcome.add("failed" if workflow == "fails" else "succeeded")
    if stop:
        await asyncio.sleep(random.uniform(0.0, 5.0))
        outcome.add("stopped")
        stopped = await persist(crew, random, ledger, "POST", f"runs/{run}/stop", None)
        assert stopped.status in (200, 409), stopped.body  # 409: it has ended


async def inject(crew: PlatformCrew, random: Random, fault: Fault) -> None:
    """Returns when what was killed works again."""
    real = crew.real
    match fault:
        case "server one" | "server two":
            server = crew.servers[fault == "server two"]
            await asyncio.to_thread(server.kill)
            await asyncio.sleep(random.uniform(0.0, 3.0))
            await server.start()
        case "Argo controller":
            controller, _ = running_argo(real)
            await asyncio.to_thread(real.stop, controller, force=True)
            await asyncio.sleep(random.uniform(0.0, 3.0))
            await asyncio.to_thread(real.restart, controller)
        case "PostgreSQL":
            await asyncio.to_thread(crew.postgres.stop, random.choice(("fast", "immediate")))
            await asyncio.sleep(random.uniform(0.0, 3.0))
            await asyncio.to_thread(crew.postgres.start)
        case "API server":
            await asyncio.to_thread(real.stop, "kube-apiserver", force=True)
            await asyncio.sleep(random.uniform(0.0, 3.0))
            await asyncio.to_thread(real.restart, "kube-apiserver")


@pytest.mark.parametrize("count", [5, 30])
async def test_random_faults(crew: PlatformCrew, remote: RemoteCluster, tmp_path: Path, count: int) -> None:
    random, ledger, admin = random_of(), Ledger(), crew.servers[0].admin
    book = await with_book(admin, tmp_path / "book")
    await define_workflows(admin, book)
    faults = list(itertools.islice(itertools.cycle(FAULTS), count))
    random.shuffle(faults)
    began, submitting = time.monotonic(), list[asyncio.Task[None]]()
    for number, fault in enumerate(faults, 1):
        workflow, stop = random.choice(("works", "works", "fails")), random.random() < 0.25
        submitting.append(asyncio.create_task(submit(crew, random, ledger, workflow, stop=stop)))
        await asyncio.sleep(random.uniform(0.0, 4.0))
        print(f"{time.monotonic() - began:5.0f} s  fault {number}: {fault}", flush=True)
        await inject(crew, random, fault)
    await asyncio.gather(*submitting)
    print(f"{time.monotonic() - began:5.0f} s  all submitted: {dict(ledger.replies)}", flush=True)
    # The reflectors of Kubernetes' controllers wait for up to minutes after an API server was away.
    await asyncio.to_thread(crew.real.reconnect)

    runs = await all_runs(crew, random, ledger)
    print(f"{time.monotonic() - began:5.0f} s  all ended: {dict(Counter(run['state'] for run in runs.values()))}")
    assert ledger.outcomes.keys() <= runs.keys(), "every run that was acknowledged exists"
    for run_id, run in runs.items():
        # A request whose server was killed may have created a run that no client knows of. It ends like the others.
        may_be = ledger.outcomes.get(run_id) or {"failed" if run["workflow_name"] == "fails" else "succeeded"}
        assert run["state"] in may_be, run["message"]
        assert {each["attempts"] for each in run["node_states"]} <= {0, 1}, run
    lines = Counter(book.read_text().splitlines())
    assert set(lines.values()) == {1}, f"these ran more than once: {[line for line in lines if lines[line] > 1]}"
    for run_id, run in runs.items():
        ran = {line.split()[1] for line in lines if line.startswith(run_id)}
        assert run["state"] == "stopped" or ran == {"a", "b"}, f"{run_id} ran {ran}"
    workflows = {name_of(each) for each in (await remote.list(WORKFLOW, crew.namespace)).items}
    assert {f"run-{each}" for each, run in runs.items() if run["state"] != "stopped"} <= workflows
    assert workflows <= {f"run-{each}" for each in runs}
    for server in crew.servers:
        assert "Traceback" not in server.log(), server.log()


async def define_workflows(admin: Client, book: Path) -> None:
    """Two nodes, each of which writes a line when it runs."""
    for name, end in (("works", "true"), ("fails", "exit 1")):
        nodes = [
            node(
                each,
                command=f'echo "$AI_HUB_WORKFLOW_RUN_ID {each}" >> {book}; sleep 1; {then}',
                storage=[{"root": "book"}],
            )
            for each, then in (("a", "true"), ("b", end))
        ]
        await stored(admin, name, with_local_images(graph(*nodes, edges="a>b")))


async def all_runs(crew: PlatformCrew, random: Random, ledger: Ledger) -> dict[str, dict[str, Any]]:
    """Returns all runs, once they have ended."""
    listed = (await persist(crew, random, ledger, "GET", "runs?limit=500", None)).ok()["items"]
    found: dict[str, dict[str, Any]] = {}
    async with asyncio.timeout(PATIENCE):
        for each in listed:
            while True:
                run = (await persist(crew, random, ledger, "GET", f"runs/{each['id']}", None)).ok()
                if run["state"] in ("succeeded", "failed", "stopped"):
                    found[run["id"]] = run
                    break
                await asyncio.sleep(0.5)
    return found
