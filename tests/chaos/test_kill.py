"""kill -9 of the server, the zygote and the supervisors. No acknowledged write is lost, no Pod runs twice without a
restart in its status, and every log is complete."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from muster.kube.objects import Object, name_of, status_of, uid_of
from tests.chaos.ledger import Ledger, Planned
from tests.chaos.real_server import RealServer, eventually, has_ended, phase_of, until_pods
from tests.chaos.storm import CONFIG, Storm
from tests.chaos.workload import GATE, steady_plan

NewServer = Callable[..., RealServer]


@pytest.mark.slow
@pytest.mark.smoke
@pytest.mark.timeout(600)
async def test_fifty_kills_of_the_server_while_two_hundred_pods_run(new_server: NewServer, tmp_path: Path) -> None:
    seed = int(os.environ.get("MUSTER_CHAOS_SEED", "1789"))
    print(f"MUSTER_CHAOS_SEED={seed}")
    storm = Storm(new_server(**CONFIG), tmp_path / "books", Random(seed), kills=50, steady=200, short=100)
    ledger = await storm.run()
    proof = await storm.proof(ledger)
    assert proof.faults == []
    assert len(storm.plans) > storm.steady
    assert any(entry.acknowledged > 0 for entry in ledger.maps.values())
    assert proof.lines > 10 * storm.steady


@pytest.mark.slow
@pytest.mark.smoke
async def test_kills_of_the_zygote(new_server: NewServer, tmp_path: Path) -> None:
    """The zygote is the parent of all running Pods, and gets new requests all the time."""
    books = tmp_path / "books"
    books.mkdir()
    random, ledger = Random(7), Ledger(Random(7))
    plans = {
        plan.name: plan for plan in (replace(steady_plan(n, random, books), pace=0.5, pause=0.1) for n in range(60))
    }
    server = new_server(**CONFIG)
    await server.start()
    async with server.client() as cluster:
        for number, plan in enumerate(plans.values()):
            creating = asyncio.create_task(ledger.place(cluster, Planned(plan.pod())))
            if number % 6 == 5:
                os.kill(await zygote(server), signal.SIGKILL)
            await creating
        await until_pods(cluster, lambda pods: [*map(phase_of, pods.values())] == ["Running"] * len(plans))
        (books / GATE).touch()
        pods = await until_pods(cluster, lambda pods: all(map(has_ended, pods.values())))
        faults = []
        for name, plan in plans.items():
            log = b"".join([part async for part in cluster.logs(name, "default")]).decode()
            faults += [*plan.faults(pods[name], (books / name).read_text()), *plan.log_faults(log)]
    assert faults == []
    assert "Traceback" not in server.log()


@pytest.mark.parametrize(
    "lost",
    ["nothing else", pytest.param("the zygote", marks=[pytest.mark.slow, pytest.mark.smoke]), "the server"],
)
async def test_kills_of_supervisors(new_server: NewServer, tmp_path: Path, lost: str) -> None:
    """Containers end with their supervisor. The Pod fails or restarts according to its restartPolicy, and an event says
    so."""
    books = tmp_path / "books"
    books.mkdir()
    server = new_server(**CONFIG)
    await server.start()
    async with server.client() as cluster:
        made = [
            await cluster.create(_waiting_pod(f"{policy.lower()}-{number}", policy, books))
            for policy in ("Never", "OnFailure", "Always")
            for number in range(3)
        ]
        await eventually(lambda: len(list(books.iterdir())) == len(made))
        before = await until_pods(cluster, lambda pods: [*map(phase_of, pods.values())] == ["Running"] * len(made))
    supervisors = server.supervisors()
    assert sorted(supervisors) == sorted(map(uid_of, before.values()))
    if lost == "the server":
        server.kill()
    elif lost == "the zygote":
        os.kill(await zygote(server), signal.SIGKILL)
    for pid in supervisors.values():
        os.kill(pid, signal.SIGKILL)
    if lost == "the server":
        await server.start()
    async with server.client() as cluster:
        pods = await until_pods(cluster, lambda pods: all(_has_noticed(pod) for pod in pods.values()))
        for name, pod in pods.items():
            container = status_of(pod)["containerStatuses"][0]
            ended = container["state"].get("terminated") or container["lastState"]["terminated"]
            assert (ended["exitCode"], ended["reason"]) == (137, "ContainerStatusUnknown"), name
            assert "supervised" in ended["message"], name
            starts = 1 if name.startswith("never") else 2
            await eventually(partial(_is_started, books / name, starts))
            assert container["restartCount"] == starts - 1, name
        assert {name: phase_of(pod) for name, pod in pods.items() if name.startswith("never")} == {
            f"never-{number}": "Failed" for number in range(3)
        }
        (books / GATE).touch()
        await until_pods(cluster, lambda pods: all(phase_of(pods[f"onfailure-{n}"]) == "Succeeded" for n in range(3)))
    assert "Traceback" not in server.log()


async def zygote(server: RealServer) -> int:
    """Returns the zygote. A new one is started only when it is needed."""
    found: list[int] = []

    def look() -> bool:
        found[:] = server.zygotes()
        return bool(found)

    await eventually(look)
    return found[0]


def _is_started(book: Path, times: int) -> bool:
    return book.read_text() == "start\n" * times


def _has_noticed(pod: Object) -> bool:
    """True if the status shows that the container ended, and a restarted one is running."""
    container: dict[str, Any] = (status_of(pod).get("containerStatuses") or [{}])[0]
    if name_of(pod).startswith("never"):
        return has_ended(pod)
    return container.get("restartCount") == 1 and "running" in container.get("state", {})


def _waiting_pod(name: str, policy: str, books: Path) -> Object:
    script = f"echo start >> /books/{name}; until test -e /books/{GATE}; do sleep 0.1; done"
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", script],
        "volumeMounts": [{"name": "books", "mountPath": "/books"}],
    }
    volumes = [{"name": "books", "hostPath": {"path": str(books), "type": "Directory"}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"restartPolicy": policy, "containers": [container], "volumes": volumes},
    }
