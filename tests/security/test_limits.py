"""What a Pod can make grow on the machine: processes, files, disk space, sessions, logs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.node import scratch_space
from muster.embedded.node.isolation import probe_isolation
from muster.embedded.node.supervisor.resource_limits import ProcessLimit, enter_pods_group
from muster.kube.budgets import Budgets
from muster.kube.builtin import POD
from muster.kube.errors import Conflict, TooManyRequests
from muster.kube.objects import Object, name_of, status_of
from tests.embedded.node.harness import Node
from tests.embedded.waiting import wait_for

ISOLATION, WHY = probe_isolation()
pytestmark = pytest.mark.skipif(ISOLATION == "none", reason=WHY)
MEMBER = "member-ada"
SMALL = Budgets(
    member_pod_processes=40, pod_open_files=200, pod_scratch_megabytes=8, member_volume_megabytes=4, pod_sessions=3
)


def _can_limit_processes() -> bool:
    """Joining a group cannot be undone, so a child tries it."""
    child = os.fork()
    if child == 0:
        os._exit(0 if ProcessLimit().set(100) else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _can_share_memory() -> bool:
    child = os.fork()
    if child == 0:
        os._exit(0 if enter_pods_group("test", 1 << 30) else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


LIMITS_PROCESSES = _can_limit_processes()
SHARES_MEMORY = _can_share_memory()


@pytest.fixture
async def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    monkeypatch.setattr("muster.embedded.node.agent.is_restricted", lambda namespace: name_of(namespace) == MEMBER)
    monkeypatch.setattr("muster.embedded.node.agent.PERIOD_SECONDS", 0.2)
    monkeypatch.setattr(scratch_space, "PERIOD_SECONDS", 0.2)
    found = Node(tmp_path, budgets=SMALL)
    await found.start()
    await found.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": MEMBER}})
    yield found
    await found.clean_up()


async def run(node: Node, script: str, **more: Any) -> Object:
    await node.create("bomb", "sh", "-c", script, metadata={"namespace": MEMBER}, **more)
    return await wait_for(
        node.cluster, POD, "bomb", lambda pod: status_of(pod).get("phase") in ("Succeeded", "Failed"), MEMBER
    )


def ending(pod: Object) -> dict[str, Any]:
    found: dict[str, Any] = status_of(pod)["containerStatuses"][0]["state"]["terminated"]
    return found


BOMBS = {
    "processes": "import os, time\nfor i in range(500):\n    if os.fork() == 0: time.sleep(60); os._exit(0)",
    "threads": "import threading, time\n"
    "for i in range(500): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
    "processes that leave their session": "import os, time\nfor i in range(500):\n    if os.fork() == 0:\n"
    "        os.setsid()\n        if os.fork(): os._exit(0)\n        time.sleep(60); os._exit(0)",
}


@pytest.mark.skipif(not LIMITS_PROCESSES, reason="this machine allows no control group for processes")
@pytest.mark.parametrize("program", BOMBS.values(), ids=list(BOMBS))
async def test_a_fork_bomb_takes_all_processes_of_the_machine(node: Node, program: str) -> None:
    """A fork bomb takes all processes of the machine"""
    (node.home / "bomb.py").write_text(program)
    container = {"volumeMounts": [{"name": "code", "mountPath": "/code"}]}
    volumes = [{"name": "code", "hostPath": {"path": str(node.home / "bomb.py")}}]
    pod = await run(node, "python3 /code", container=container, volumes=volumes)
    assert status_of(pod)["phase"] == "Failed"
    assert "limit of 40 processes" in ending(pod)["message"]
    assert "budgets.memberPodProcesses" in ending(pod)["message"]


@pytest.mark.skipif(not LIMITS_PROCESSES, reason="this machine allows no control group for processes")
async def test_the_limit_of_one_pod_does_not_hit_the_next_one(node: Node) -> None:
    """Kept working: a supervisor that has run a fork bomb runs an honest Pod next"""
    await run(node, "for i in $(seq 200); do sleep 60 & done; wait")
    await node.create("honest", "sh", "-c", "for i in 1 2 3 4 5; do sleep 0 & done; wait; exit 3")
    pod = await node.ended("honest")
    assert ending(pod)["exitCode"] == 3
    assert "processes" not in ending(pod).get("message", "")


async def test_a_pod_opens_all_files_of_the_machine(node: Node) -> None:
    """A Pod opens all files of the machine"""
    pod = await run(node, "ulimit -Hn; ulimit -n 100000 2>/dev/null && exit 1; ulimit -n > /dev/termination-log")
    assert ending(pod)["exitCode"] == 0
    assert int(ending(pod)["message"]) <= 200


async def test_a_crash_writes_the_memory_of_a_process_to_the_disk(node: Node) -> None:
    """A crash writes the memory of a large process to the disk"""
    pod = await run(node, "ulimit -Hc > /dev/termination-log; ulimit -c unlimited 2>/dev/null && exit 1; exit 0")
    assert (ending(pod)["exitCode"], ending(pod)["message"]) == (0, "0\n")


FILLING = {
    "/tmp": "head -c 20000000 /dev/zero > /tmp/x; sleep 60",
    "an emptyDir": "head -c 20000000 /dev/zero > /work/x; sleep 60",
    "a hidden folder": "mkdir -p /tmp/.a/.b; head -c 20000000 /dev/zero > /tmp/.a/.b/.c; sleep 60",
    "many small files": "mkdir /tmp/x; cd /tmp/x; seq 4000 | xargs touch; sleep 60",
    "several files": "for i in 1 2 3; do head -c 5000000 /dev/zero > /tmp/$i; done; sleep 60",
    "a file that is deleted while it is open": "exec 3> /tmp/x; rm /tmp/x; head -c 20000000 /dev/zero >&3; sleep 60",
}


@pytest.mark.parametrize("script", FILLING.values(), ids=list(FILLING))
async def test_a_pod_fills_the_disk_of_the_server(node: Node, script: str) -> None:
    """A Pod fills the disk of the server"""
    container = {"volumeMounts": [{"name": "work", "mountPath": "/work"}]}
    pod = await run(node, script, container=container, volumes=[{"name": "work", "emptyDir": {}}])
    status = status_of(pod)
    assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
    assert "budgets.podScratchMegabytes" in status["message"]


async def test_a_pod_hides_its_files_from_being_measured(node: Node) -> None:
    """A Pod nests folders so deeply that they cannot be measured"""
    script = (
        "import os, time\nos.chdir('/tmp')\nfor i in range(3000):\n    os.mkdir('xy'); os.chdir('xy')\ntime.sleep(60)"
    )
    (node.home / "deep.py").write_text(script)
    container = {"volumeMounts": [{"name": "code", "mountPath": "/code"}]}
    volumes = [{"name": "code", "hostPath": {"path": str(node.home / "deep.py")}}]
    status = status_of(await run(node, "python3 /code", container=container, volumes=volumes))
    assert (status["phase"], status["reason"]) == ("Failed", "Evicted")


async def test_a_volume_exceeds_the_limit_that_the_pod_sets_itself(node: Node) -> None:
    """An emptyDir exceeds the limit that the Pod sets itself"""
    container = {"volumeMounts": [{"name": "work", "mountPath": "/work"}]}
    volumes = [{"name": "work", "emptyDir": {"sizeLimit": "1Mi"}}]
    status = status_of(
        await run(node, "head -c 3000000 /dev/zero > /work/x; sleep 60", container=container, volumes=volumes)
    )
    assert status["reason"] == "Evicted"
    assert status["message"] == 'Usage of EmptyDir volume "work" exceeds the limit "1Mi".'


async def test_pods_that_have_ended_keep_the_disk_full(node: Node) -> None:
    """A hundred short Pods fill the disk with files that stay as long as their objects"""
    container = {"volumeMounts": [{"name": "work", "mountPath": "/work"}]}
    script = "head -c 5000000 /dev/zero > /tmp/x; cp /tmp/x /work/x"
    pod = await run(node, script, container=container, volumes=[{"name": "work", "emptyDir": {}}])
    assert status_of(pod)["phase"] == "Succeeded"
    folder = node.folder(pod)
    await node.wait_until(lambda: not [p for p in folder.iterdir() if p.is_dir()])


async def test_a_claim_grows_beyond_its_size(node: Node) -> None:
    """A claim of 1Mi, which is a folder, fills the disk of the server"""
    folder = node.settings.home / "volumes" / MEMBER / "data-12345678"
    folder.mkdir(parents=True)
    await node.cluster.create({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "data"},
        "spec": {
            "capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": str(folder)},
        },
    })  # fmt: skip
    await node.cluster.create({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": MEMBER},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "volumeName": "data", "resources": {"requests": {"storage": "1Mi"}},
        },
    })  # fmt: skip
    container = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    pod = await run(node, "head -c 6000000 /dev/zero > /v/x; sleep 60", container=container, volumes=volumes)
    assert (status_of(pod)["phase"], status_of(pod)["reason"]) == ("Failed", "Evicted")
    assert "budgets.memberVolumeMegabytes" in status_of(pod)["message"]


async def test_a_probe_writes_events_without_end(node: Node) -> None:
    """A probe fails with another long message every second, each of which is an Event in the store"""
    script = "date +%N; head -c 9000 /dev/zero | tr '\\0' x; exit 1"
    probe = {"exec": {"command": ["sh", "-c", script]}, "periodSeconds": 1, "failureThreshold": 1000}
    container = {"readinessProbe": probe}
    await node.create("noisy", "sleep", "60", container=container)
    pod = await node.phase("noisy", "Running")
    folder = node.folder(pod)
    await node.wait_until(lambda: (folder / "journal").read_text().count("unhealthy") > 1)
    longest = max(len(line) for line in (folder / "journal").read_text().splitlines())
    assert longest < 2000
    await node.delete("noisy", grace=0)


async def test_one_pod_holds_thousands_of_sessions(node: Node) -> None:
    """A member holds thousands of exec sessions and forwarded ports"""
    await node.create("busy", "sleep", "60")
    await node.phase("busy", "Running")
    assert node.cluster.node is not None
    open_ones = [await node.cluster.exec("busy", "default", ["sleep", "60"]) for _ in range(2)]
    with node.cluster.node.forward("busy", "default") as address:
        assert address.startswith("127.")
        with pytest.raises(TooManyRequests, match=r"budgets\.podSessions"):
            await node.cluster.exec("busy", "default", ["true"])
        with pytest.raises(TooManyRequests), node.cluster.node.forward("busy", "default"):
            pass
    await asyncio.gather(*(process.close() for process in open_ones))
    process = await node.cluster.exec("busy", "default", ["true"])
    assert await process.wait() == 0
    await process.close()
    await node.delete("busy", grace=0)


async def test_the_status_of_a_pod_chooses_what_the_server_connects_to(node: Node) -> None:
    """The status of a Pod chooses what the server connects to for port-forward"""
    await node.create("fake", "sleep", "60")
    await node.phase("fake", "Running")
    await node.cluster.patch(POD, "fake", "default", {"status": {"podIP": "10.0.0.5"}}, subresource="status")
    assert node.cluster.node is not None
    with node.cluster.node.forward("fake", "default") as address:
        assert address.startswith("127.")
    await node.delete("fake", grace=0)
    with pytest.raises(Conflict), node.cluster.node.forward("gone", "default"):
        pass


@pytest.mark.skipif(not SHARES_MEMORY, reason="this machine allows no control group for memory")
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(
            "python3 -c 'x = bytearray(600_000_000)'", id="A Pod without a limit fills the memory of the machine"
        ),
        pytest.param(
            "head -c 600000000 /dev/zero > /dev/shm/x", id="A Pod without a limit fills the memory through /dev/shm"
        ),
    ],
)
async def test_pods_leave_memory_to_the_server(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.embedded.node.agent.usable_memory", lambda: 300 << 20)
    node = Node(tmp_path)
    await node.start()
    try:
        await node.create("bomb", "sh", "-c", f"exec {script}" if "python3" in script else script)
        pod = await node.ended("bomb")
        assert status_of(pod)["phase"] == "Failed"
        if "python3" in script:
            assert ending(pod)["reason"] == "OOMKilled"
            assert "all Pods of this machine together" in ending(pod)["message"]
            assert "budgets.podsMemoryPercent" in ending(pod)["message"]
        assert await node.output("other", "echo", "fine") == "fine\n"
    finally:
        await node.clean_up()
