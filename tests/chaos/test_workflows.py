"""kill -9 of the server while workflows run: no succeeded node runs again, nothing is lost, and the result is the same
as without kills."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from muster.kube.objects import Object, name_of, status_of
from muster.kube.remote.client import RemoteCluster
from muster.workflows.kinds import WORKFLOW
from tests.chaos.long_workflow import BOOK, LARGE, SMALL, Size, comparable_status, faults, long_workflow
from tests.chaos.real_server import PATIENCE, RealServer, eventually
from tests.chaos.storm import CONFIG

NewServer = Callable[..., RealServer]
ENDED = ("Succeeded", "Failed", "Error")


@pytest.mark.timeout(300)
@pytest.mark.slow
@pytest.mark.smoke
async def test_kills_of_the_server_while_a_workflow_runs(new_server: NewServer, tmp_path: Path) -> None:
    await _storm(new_server(**CONFIG), tmp_path, SMALL, kills=8)


@pytest.mark.smoke
@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_fifty_kills_of_the_server_while_a_workflow_of_two_hundred_nodes_runs(
    new_server: NewServer, tmp_path: Path
) -> None:
    nodes = await _storm(new_server(**CONFIG), tmp_path, LARGE, kills=50)
    assert nodes >= 200


async def _storm(server: RealServer, folder: Path, size: Size, kills: int) -> int:
    """Kills the server each time that more tasks have run: one time in four before it is ready."""
    seed = int(os.environ.get("MUSTER_CHAOS_SEED", "1789"))
    print(f"MUSTER_CHAOS_SEED={seed}")
    random = Random(seed)
    calm, stormy = _books(folder, "calm"), _books(folder, "stormy")
    await server.start()
    async with server.client() as cluster:
        await cluster.create(long_workflow("calm", calm, size))
        undisturbed = await _ended(cluster, "calm")
        tasks = _lines(calm)
        await cluster.create(long_workflow("stormy", stormy, size))
    server.kill()
    for kill in range(kills):
        server.launch()
        if random.random() < 0.25:
            await asyncio.sleep(random.uniform(0.0, 0.8))
        else:
            await server.ready()
            wanted = tasks * (kill + 1) // (kills + 1)
            await _grown(stormy, wanted)
            await asyncio.sleep(random.uniform(0.0, 0.1))
        server.kill()
    await server.start()
    async with server.client() as cluster:
        disturbed = await _ended(cluster, "stormy")
    assert faults(undisturbed, calm) == []
    assert faults(disturbed, stormy) == []
    assert comparable_status(undisturbed)["phase"] == "Succeeded"
    assert comparable_status(disturbed) == comparable_status(undisturbed)
    assert "Traceback" not in server.log()
    return len(status_of(disturbed)["nodes"])


async def test_kills_in_the_middle_of_a_retry(new_server: NewServer, tmp_path: Path) -> None:
    """After a kill at any point, running the same command again does what is left to do."""
    random, books = Random(11), _books(tmp_path, "books")
    gate = {"name": "gate", "template": "gate", "depends": "fan"}
    work = _workflow("again", books, [_fan("fan", 5), gate], gate="test -e /books/open")
    server = new_server(**CONFIG)
    await server.start()
    async with server.client() as cluster:
        await cluster.create(work)
        assert status_of(await _ended(cluster, "again"))["phase"] == "Failed"
    for _ in range(4):
        await _killed_during(server, random, "retry", "again")
        async with server.client() as cluster:
            assert status_of(await _ended(cluster, "again"))["phase"] == "Failed"
    (books / "open").touch()
    done = server.muster("retry", "again")
    assert done.returncode == 0, done.stderr
    async with server.client() as cluster:
        workflow = await _ended(cluster, "again")
    assert status_of(workflow)["phase"] == "Succeeded"
    ran = (books / BOOK).read_text().split()
    assert sorted(line for line in ran if line != "gate") == sorted(f"fan{n}" for n in range(5))
    assert 2 <= ran.count("gate") <= 6
    assert "Traceback" not in server.log()


async def test_kills_while_a_workflow_is_suspended_and_resumed(new_server: NewServer, tmp_path: Path) -> None:
    random, books = Random(12), _books(tmp_path, "books")
    tasks = [_fan("before", 3)]
    for number in range(3):
        earlier = f"after{number - 1}" if number else "before"
        tasks.append({"name": f"wait{number}", "template": "wait", "depends": earlier})
        tasks.append({**_fan(f"after{number}", 3), "depends": f"wait{number}"})
    server = new_server(**CONFIG)
    await server.start()
    async with server.client() as cluster:
        await cluster.create(_workflow("waits", books, tasks))
    for number in range(3):
        async with server.client() as cluster:
            await _waiting_at(cluster, f"wait{number}")
        await _killed_during(server, random, "resume", "waits")
        async with server.client() as cluster:
            if _phase_of(await cluster.get(WORKFLOW, "waits", "default"), f"wait{number}") == "Running":
                done = server.muster("resume", "waits")
                assert done.returncode == 0, done.stderr
    async with server.client() as cluster:
        workflow = await _ended(cluster, "waits")
    assert status_of(workflow)["phase"] == "Succeeded"
    names = [f"{name}{n}" for name in ("before", "after0", "after1", "after2") for n in range(3)]
    assert sorted((books / BOOK).read_text().split()) == sorted(names)
    assert "Traceback" not in server.log()


async def test_kills_while_many_workflows_wait_for_a_semaphore(new_server: NewServer, tmp_path: Path) -> None:
    """Some hold it as a whole workflow, others in a step. Never more than two run, and each gets its turn."""
    random, books = Random(13), _books(tmp_path, "books")
    (books / "inside").mkdir()
    semaphore = {"semaphores": [{"configMapKeyRef": {"name": "limits", "key": "two"}}]}
    count = 'ls /books/inside | wc -l >> /books/counts; sleep 0.2; rm "/books/inside/{{pod.name}}"'
    script = 'touch "/books/inside/{{pod.name}}"; ' + count
    server = new_server(**CONFIG)
    await server.start()
    names = [f"waits-{number}" for number in range(14)]
    async with server.client() as cluster:
        limits = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "limits", "namespace": "default"}}
        await cluster.create({**limits, "data": {"two": "2"}})
        for number, name in enumerate(names):
            work = _workflow(name, books, [{"name": "work", "template": "gate"}], gate=script)
            holder = work["spec"] if number % 2 else work["spec"]["templates"][-1]
            holder["synchronization"] = semaphore
            await cluster.create(work)
    for kill in range(5):
        await _grown(books, 2 * kill)
        await asyncio.sleep(random.uniform(0.0, 0.3))
        server.kill()
        await server.start()
    async with server.client() as cluster:
        for name in names:
            workflow = await _ended(cluster, name)
            assert status_of(workflow)["phase"] == "Succeeded", name
            assert "synchronization" not in status_of(workflow), name
    assert len((books / BOOK).read_text().split()) == len(names)
    assert max(map(int, (books / "counts").read_text().split())) <= 2
    assert "Traceback" not in server.log()


async def _killed_during(server: RealServer, random: Random, *words: str) -> None:
    """Kills the server while a command runs, then starts it again."""
    before = _open_files(server)
    command = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "muster", *words,
        env=server.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    await eventually(lambda: command.returncode is not None or _open_files(server) > before)
    await asyncio.sleep(random.uniform(0.0, 0.05))
    server.kill()
    async with asyncio.timeout(PATIENCE):
        await command.wait()
    await server.start()


def _open_files(server: RealServer) -> int:
    """One more than before when a client has connected."""
    assert server.process is not None
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def _workflow(name: str, books: Path, tasks: list[Object], *, gate: str = "true") -> Object:
    def template(name: str, who: str, script: str) -> Object:
        return {
            "name": name,
            "container": {
                "image": "busybox",
                "command": ["sh", "-ec", f"echo {who} >> /books/{BOOK}\n{script}"],
                "volumeMounts": [{"name": "books", "mountPath": "/books"}],
            },
        }

    task = template("task", "{{inputs.parameters.who}}", "true")
    return {
        "apiVersion": WORKFLOW.api_version,
        "kind": "Workflow",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "entrypoint": "main",
            "volumes": [{"name": "books", "hostPath": {"path": str(books), "type": "Directory"}}],
            "templates": [
                {"name": "main", "dag": {"tasks": tasks}},
                {**task, "inputs": {"parameters": [{"name": "who"}]}},
                {"name": "wait", "suspend": {}},
                template("gate", "gate", gate),
            ],
        },
    }


def _fan(name: str, count: int) -> Object:
    who = {"parameters": [{"name": "who", "value": f"{name}{{{{item}}}}"}]}
    return {"name": name, "template": "task", "withSequence": {"count": str(count)}, "arguments": who}


def _books(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


def _lines(books: Path) -> int:
    return (books / BOOK).read_text().count("\n") if (books / BOOK).exists() else 0


async def _grown(books: Path, lines: int) -> None:
    await eventually(lambda: _lines(books) >= lines)


async def _waiting_at(cluster: RemoteCluster, node: str) -> None:
    await _until(cluster, "waits", lambda workflow: _phase_of(workflow, node) == "Running")


def _phase_of(workflow: Object, name: str) -> str:
    nodes = status_of(workflow).get("nodes") or {}
    return next((str(node["phase"]) for node in nodes.values() if node["displayName"] == name), "")


async def _ended(cluster: RemoteCluster, name: str) -> Object:
    return await _until(cluster, name, lambda workflow: status_of(workflow).get("phase") in ENDED)


async def _until(cluster: RemoteCluster, name: str, so: Callable[[Object], bool]) -> Object:
    deadline = time.monotonic() + PATIENCE
    while not so(workflow := await cluster.get(WORKFLOW, name, "default")):
        nodes = (status_of(workflow).get("nodes") or {}).values()
        going = [(node["name"], node["phase"]) for node in nodes if node["phase"] in ("Pending", "Running")]
        assert time.monotonic() < deadline, f"{name_of(workflow)} did not reach that state: {going}"
        await asyncio.sleep(0.05)
    return workflow
