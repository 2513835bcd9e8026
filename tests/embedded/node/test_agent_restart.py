"""Pods survive restarts of the server, and none of them runs twice."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.settings import NodeSettings
from muster.kube.builtin import NODE, POD
from muster.kube.errors import NotFound
from muster.kube.objects import Object, annotations_of, meta, name_of, status_of


def container(pod: Object) -> dict[str, Any]:
    found: dict[str, Any] = status_of(pod)["containerStatuses"][0]
    return found


def counting(path: Path) -> dict[str, Any]:
    """The fields of a container that appends a line to `path` at every start."""
    return {"volumeMounts": [{"name": "out", "mountPath": "/out"}]}


def volumes(path: Path) -> list[dict[str, Any]]:
    return [{"name": "out", "hostPath": {"path": str(path), "type": "DirectoryOrCreate"}}]


def supervisor(node: Any, pod: Object) -> int:
    pid: int = node.agent._workers[meta(pod)["uid"]].progress.supervisor
    return pid


def process(node: Any, pod: Object) -> int:
    pid: int = node.agent._workers[meta(pod)["uid"]].progress.of("main").pid
    return pid


async def test_running_pods_continue_and_ended_ones_are_reported_after_a_restart(node: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = "echo start >> /out/{0}; until test -e /out/end-{0}; do sleep 0.02; done; echo end >> /out/{0}; exit {1}"
    for name, code in (("early", 3), ("late", 0)):
        await node.create(
            name, "sh", "-c", script.format(name, code), container=counting(out), volumes=volumes(out)
        )  # fmt: skip
        await node.phase(name, "Running")
    address = status_of(await node.get("late"))["podIP"]
    await node.stop()
    (out / "end-early").touch()
    await node.wait_until(lambda: (out / "early").read_text() == "start\nend\n")
    await node.start()
    early = await node.ended("early")
    assert container(early)["state"]["terminated"]["exitCode"] == 3
    assert status_of(await node.get("late"))["phase"] == "Running"
    await node.create("new", "sleep", "60", terminationGracePeriodSeconds=0)
    assert status_of(await node.phase("new", "Running"))["podIP"] != address
    (out / "end-late").touch()
    assert status_of(await node.ended("late"))["phase"] == "Succeeded"
    assert (out / "late").read_text() == (out / "early").read_text() == "start\nend\n"
    assert [e for e in await node.events("late") if e.startswith("Started")] == ["Started: Started container main"]


async def test_a_pod_bound_while_the_server_was_away_is_started(node: Any) -> None:
    await node.stop()
    await node.start()
    await node.create("p", "echo", "hi")
    await node.ended("p")
    assert await node.logs("p") == "hi\n"


async def test_logs_and_exec_work_after_a_restart(node: Any) -> None:
    await node.create("p", "sh", "-c", "echo before; sleep 60", terminationGracePeriodSeconds=0)
    await node.phase("p", "Running")
    await node.restart()
    assert await node.logs("p") == "before\n"
    process = await node.cluster.exec("p", "default", ["echo", "hi"])
    assert [data async for _, data in process.output()] == [b"hi\n"]
    await process.close()


async def test_a_pod_deleted_while_the_server_was_away_ends(node: Any) -> None:
    pod = await node.create("p", "sleep", "600", terminationGracePeriodSeconds=0)
    await node.phase("p", "Running")
    pid = process(node, pod)
    await node.stop()
    await node.start()
    await node.delete("p", grace=0)
    await node.wait_until(lambda: not os.path.exists(f"/proc/{pid}"))


async def test_folders_of_deleted_pods_are_removed(node: Any, tmp_path: Path) -> None:
    pod = await node.create("p", "sleep", "600")
    await node.phase("p", "Running")
    pid = process(node, pod)
    await node.stop()
    shutil.rmtree(tmp_path / "store")  # the object is lost, the process is not
    assert os.path.exists(f"/proc/{pid}")
    await node.start()
    await node.wait_until(lambda: not node.folder(pod).exists())
    await node.wait_until(lambda: not os.path.exists(f"/proc/{pid}"))


@pytest.mark.parametrize("server_is_away", [False, True])
async def test_a_pod_whose_supervisor_was_killed_fails(node: Any, tmp_path: Path, server_is_away: bool) -> None:
    out = tmp_path / "out"
    pod = await node.create(
        "p", "sh", "-c", "echo start >> /out/n; sleep 600", container=counting(out), volumes=volumes(out)
    )  # fmt: skip
    await node.phase("p", "Running")
    pid = supervisor(node, pod)
    if server_is_away:
        await node.stop()
    os.kill(pid, signal.SIGKILL)
    if server_is_away:
        await node.start()
    ended = await node.ended("p")
    assert status_of(ended)["phase"] == "Failed"
    assert container(ended)["state"]["terminated"]["reason"] == "ContainerStatusUnknown"
    assert container(ended)["state"]["terminated"]["exitCode"] == 137
    assert (out / "n").read_text() == "start\n"


async def test_one_that_may_restart_goes_on_counting(node: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    pod = await node.create(
        "p", "sh", "-c", "echo start >> /out/n; sleep 600", restartPolicy="Always",
        container=counting(out), volumes=volumes(out), terminationGracePeriodSeconds=0,
    )  # fmt: skip
    await node.phase("p", "Running")
    os.kill(supervisor(node, pod), signal.SIGKILL)
    again = await node.until("p", lambda p: container(p)["restartCount"] == 1 and "running" in container(p)["state"])
    assert container(again)["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"
    await node.wait_until(lambda: (out / "n").read_text() == "start\nstart\n")


async def test_a_pod_that_has_lost_its_folder_is_not_run_again(node: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    pod = await node.create(
        "p", "sh", "-c", "echo start >> /out/n; sleep 600", container=counting(out), volumes=volumes(out)
    )  # fmt: skip
    await node.phase("p", "Running")
    pid = supervisor(node, pod)
    await node.stop()
    os.kill(pid, signal.SIGKILL)
    await node.wait_until(lambda: not os.path.exists(f"/proc/{pid}"))
    shutil.rmtree(node.folder(pod))
    await node.start()
    lost = await node.ended("p")
    assert (status_of(lost)["phase"], status_of(lost)["reason"]) == ("Failed", "PodFolderLost")
    assert (out / "n").read_text() == "start\n"


async def test_asking_for_many_supervisors_starts_one(node: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    pod = await node.create(
        "p", "sh", "-c", "echo start >> /out/n; sleep 600", container=counting(out), volumes=volumes(out)
    )  # fmt: skip
    await node.phase("p", "Running")
    for _ in range(5):
        await node.agent._zygote.start(str(node.folder(pod)))
    await node.delete("p", grace=1)
    await node.vanished("p")
    assert (out / "n").read_text() == "start\n"


async def test_declared_nodes_come_and_go_with_the_settings(new_node: Callable[..., Any]) -> None:
    node = new_node()
    await node.start(nodes=(NodeSettings("twin", labels={"kind": "twin"}), NodeSettings("far", simulated=True)))
    assert {name_of(n) for n in (await node.cluster.list(NODE)).items} == {"node", "twin", "far"}
    assert await node.output("here", "echo", "hi", nodeName="twin") == "hi\n"
    await node.cluster.patch(NODE, "node", "", {"metadata": {"labels": {"mine": "1"}}, "spec": {"unschedulable": True}})
    await node.restart(nodes=())
    (only,) = (await node.cluster.list(NODE)).items
    assert (name_of(only), only["spec"]["unschedulable"]) == ("node", True)
    assert meta(only)["labels"]["mine"] == "1" and annotations_of(only)
    await node.stop()


async def test_simulated_pods(new_node: Callable[..., Any]) -> None:
    node = new_node()
    await node.start(nodes=(NodeSettings("far", simulated=True),))
    await node.create("idle", nodeName="far")
    await node.create("brief", nodeName="far", metadata={"annotations": {"muster.dev/simulated-seconds": "1"}})
    await node.create("odd", nodeName="far", metadata={"annotations": {"muster.dev/simulated-seconds": "soon"}})
    running = await node.phase("idle", "Running")
    assert container(running)["ready"] is True
    assert not any(node.settings.pods.iterdir())
    await node.restart()
    await node.phase("brief", "Succeeded")
    assert any(event.startswith("BadAnnotation") for event in await node.events("odd"))
    await node.delete("idle")
    await node.vanished("idle")
    with pytest.raises(NotFound):
        await node.cluster.get(POD, "idle", "default")
    await node.stop()
