"""Gangs on a real server with real processes: they start as a whole or not at all, and all of them run in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Literal

import pytest

from muster.kube.builtin import EVENT, PLUGIN_POD_GROUP, POD_GROUP
from muster.kube.objects import Object, name_of, spec_of, status_of
from muster.kube.remote.client import RemoteCluster
from tests.chaos.real_server import PATIENCE, RealServer, has_ended, phase_of, until_pods

NewServer = Callable[..., RealServer]
GroupKind = Literal["volcano", "scheduler-plugins"]


@pytest.mark.parametrize("kind", ["volcano", "scheduler-plugins"])
async def test_six_pods_of_a_group_do_not_start_where_there_is_one_gpu(
    new_server: NewServer, tmp_path: Path, kind: GroupKind
) -> None:
    server = new_server(node={"capacity": {"nvidia.com/gpu": 1}})
    await server.start()
    book = tmp_path / "book"
    async with server.client() as cluster:
        await cluster.create(a_group("gang", 6, kind))
        for number in range(6):
            await cluster.create(a_pod(f"member-{number}", "exit 0", book, gpus=1, group="gang", kind=kind))
        await scheduler_messages(cluster, [f"member-{number}" for number in range(6)])
        # A Pod without a GPU runs, so the scheduler has tried all Pods since.
        await cluster.create(a_pod("other", "exit 0", book))
        pods = await until_pods(cluster, lambda pods: phase_of(pods["other"]) == "Succeeded")
        members = [pod for name, pod in pods.items() if name.startswith("member")]
        assert [phase_of(pod) for pod in members] == ["Pending"] * 6
        assert [spec_of(pod).get("nodeName") for pod in members] == [None] * 6
        group = await cluster.get(POD_GROUP if kind == "volcano" else PLUGIN_POD_GROUP, "gang", "default")
        assert status_of(group)["phase"] in ("Pending", "Inqueue", "PreScheduling", "Scheduling")
    assert book.read_text().split() == ["other+", "other-"]
    assert "Traceback" not in server.log()


async def test_the_same_pods_without_a_group_run_as_far_as_there_are_gpus(
    new_server: NewServer, tmp_path: Path
) -> None:
    server = new_server(node={"capacity": {"nvidia.com/gpu": 1}})
    await server.start()
    book, gate = tmp_path / "book", tmp_path / "gate"
    names = [f"single-{number}" for number in range(6)]
    async with server.client() as cluster:
        for name in names:
            await cluster.create(a_pod(name, f"until test -e {gate}; do sleep 0.05; done", book, gpus=1))
        pods = await until_pods(
            cluster, lambda pods: sorted(map(phase_of, pods.values())) == ["Pending"] * 5 + ["Running"]
        )
        waiting = [name for name, pod in pods.items() if phase_of(pod) == "Pending"]
        assert len(waiting) == 5
        told = await scheduler_messages(cluster, waiting)
        assert {told[name] for name in waiting} == {"0/1 nodes are available: 1 Insufficient nvidia.com/gpu."}
        gate.touch()
        await until_pods(cluster, lambda pods: all(phase_of(pod) == "Succeeded" for pod in pods.values()))
    assert most_at_once(book) == 1
    assert sorted(book.read_text().split()) == sorted([f"{name}{sign}" for name in names for sign in "+-"])


@pytest.mark.parametrize(
    "order",
    ["left left left right right right", "right right right left left left", "left right left right left right"],
)
async def test_two_gangs_of_sixty_percent_both_finish(new_server: NewServer, tmp_path: Path, order: str) -> None:
    server = new_server(node={"capacity": {"cpu": 10}})
    await server.start()
    book = tmp_path / "book"
    async with server.client() as cluster:
        for gang in ("left", "right"):
            await cluster.create(a_group(gang, 3))
        numbers = count()
        for gang in order.split():
            await cluster.create(a_pod(f"{gang}-{next(numbers)}", together(tmp_path, gang, 3), book, cpu=2, group=gang))
        pods = await until_pods(cluster, lambda pods: all(map(has_ended, pods.values())))
        assert {phase_of(pod) for pod in pods.values()} == {"Succeeded"}
    assert most_at_once(book) <= 5


async def test_a_stream_of_small_pods_does_not_starve_a_gang(new_server: NewServer, tmp_path: Path) -> None:
    server = new_server(node={"capacity": {"cpu": 4}}, scheduler={"reserveAfterSeconds": 0.5})
    await server.start()
    book = tmp_path / "book"
    async with server.client() as cluster:
        stream = asyncio.create_task(keep_busy(cluster, book, waiting=6))
        await until_pods(cluster, lambda pods: sum(phase_of(pod) == "Running" for pod in pods.values()) == 4)
        await cluster.create(a_group("gang", 4))
        for number in range(4):
            await cluster.create(a_pod(f"gang-{number}", together(tmp_path, "gang", 4), book, cpu=1, group="gang"))
        pods = await until_pods(
            cluster, lambda pods: all(phase_of(pods[f"gang-{number}"]) == "Succeeded" for number in range(4))
        )
        # Small Pods are still waiting: the gang was scheduled because it was its turn.
        assert any(phase_of(pod) == "Pending" for name, pod in pods.items() if name.startswith("small"))
        stream.cancel()
        await asyncio.gather(stream, return_exceptions=True)
    assert most_at_once(book) <= 4


def a_group(name: str, members: int, kind: GroupKind = "volcano") -> Object:
    version = "scheduling.volcano.sh/v1beta1" if kind == "volcano" else "scheduling.x-k8s.io/v1alpha1"
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": version, "kind": "PodGroup", "metadata": metadata, "spec": {"minMember": members}}


def a_pod(
    name: str,
    script: str,
    book: Path,
    *,
    cpu: float = 0,
    gpus: int = 0,
    group: str = "",
    kind: GroupKind = "volcano",
) -> Object:
    """Writes `name+` to the book when it starts and `name-` when it ends."""
    resources: dict[str, Any] = {"requests": {"cpu": str(cpu)}} if cpu else {}
    if gpus:
        resources["limits"] = {"nvidia.com/gpu": str(gpus)}
    metadata: dict[str, Any] = {"name": name, "namespace": "default"}
    if group and kind == "volcano":
        metadata["annotations"] = {"scheduling.k8s.io/group-name": group}
    elif group:
        metadata["labels"] = {"scheduling.x-k8s.io/pod-group": group}
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", f"echo {name}+ >> {book}\n({script})\necho {name}- >> {book}"],
        "resources": resources,
        "volumeMounts": [{"name": "here", "mountPath": str(book.parent)}],
    }
    volumes = [{"name": "here", "hostPath": {"path": str(book.parent)}}]
    spec = {"restartPolicy": "Never", "containers": [container], "volumes": volumes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def together(folder: Path, gang: str, members: int) -> str:
    """Exits only when all members of the gang run at the same time."""
    present = f"{folder}/present-{gang}-"
    return f"touch {present}$(hostname); until [ $(ls -d {present}* | wc -l) -eq {members} ]; do sleep 0.05; done"


async def keep_busy(cluster: RemoteCluster, book: Path, waiting: int) -> None:
    """Creates small Pods, so that some are always waiting."""
    for number in count():
        await cluster.create(a_pod(f"small-{number}", "sleep 0.3", book, cpu=1))
        await until_pods(cluster, lambda pods: _waiting(pods.values()) < waiting)


def _waiting(pods: Any) -> int:
    return sum(phase_of(pod) == "Pending" for pod in pods if name_of(pod).startswith("small"))


async def scheduler_messages(cluster: RemoteCluster, names: Sequence[str]) -> dict[str, str]:
    """Waits until the scheduler has reported on each of the Pods, and returns the messages."""
    told: dict[str, str] = {}
    async with asyncio.timeout(PATIENCE):
        async for event in cluster.watch(EVENT, "default"):
            said = event.object
            if said.get("reason") == "FailedScheduling":
                told[said["involvedObject"]["name"]] = said["message"]
            if set(names) <= told.keys():
                return told
    raise AssertionError("the watch ended")


def most_at_once(book: Path) -> int:
    running, most = 0, 0
    for entry in book.read_text().split():
        running += 1 if entry.endswith("+") else -1
        most = max(most, running)
    return most
