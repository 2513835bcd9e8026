"""On a full disk, writers get an error and nothing that was stored is lost."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from muster.kube.builtin import CONFIG_MAP
from muster.kube.errors import NotFound, StorageFull
from muster.kube.objects import Object, name_of, status_of
from muster.kube.remote.client import RemoteCluster
from tests.chaos.real_server import RealServer, has_ended, phase_of, until_pods
from tests.chaos.simple_objects import config_map, shell_pod

NewServer = Callable[..., RealServer]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mount = tmp_path / "disk"
    mount.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", mount], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("mounting a small disk takes root")
    yield mount
    subprocess.run(["umount", "--lazy", mount], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk takes root")
async def test_a_full_disk(small_disk: Path, new_server: NewServer) -> None:
    """Writers get an error and running Pods continue. Once there is room, everything works again."""
    server = new_server(small_disk / "home")
    await server.start()
    gate = small_disk.parent / "gates" / "gate"
    gate.parent.mkdir()
    talker = shell_pod("talker", "while [ ! -e /gates/gate ]; do echo still here; sleep 0.05; done; exit 3")
    talker["spec"]["volumes"] = [{"name": "gates", "hostPath": {"path": str(gate.parent)}}]
    talker["spec"]["containers"][0]["volumeMounts"] = [{"name": "gates", "mountPath": "/gates"}]
    async with server.client() as cluster:
        await cluster.create(config_map("before", "x"))
        await cluster.create(talker)
        await until_pods(cluster, lambda pods: phase_of(pods["talker"]) == "Running")
        ballast = fill(small_disk)
        with pytest.raises(StorageFull, match=r"the disk of .* is full"):
            for number in range(200):
                await cluster.create(config_map(f"more-{number}", "y" * 10_000))
        done = server.muster("create", "-f", "-", input=orjson.dumps(config_map("cli", "y" * 100_000)).decode())
        assert done.returncode == 1
        assert "is full: nothing was stored; free some space" in done.stderr
        assert name_of(await cluster.get(CONFIG_MAP, "before", "default")) == "before"
        stored = {name_of(one) for one in (await cluster.list(CONFIG_MAP, "default")).items}
        ballast.unlink()
        await until_stored(cluster, config_map("after", "z"))
        await cluster.create(shell_pod("late", "echo done"))
        gate.touch()
        pods = await until_pods(cluster, lambda pods: all(map(has_ended, pods.values())))
        assert {name: phase_of(pod) for name, pod in pods.items()} == {"talker": "Failed", "late": "Succeeded"}
        assert status_of(pods["talker"])["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    server.kill()
    await server.start()
    async with server.client() as cluster:
        again = {name_of(one) for one in (await cluster.list(CONFIG_MAP, "default")).items}
        assert again == stored | {"after"}
        with pytest.raises(NotFound):
            await cluster.get(CONFIG_MAP, "cli", "default")
    assert "Traceback" not in server.log()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk takes root")
async def test_a_pod_that_starts_on_a_full_disk(small_disk: Path, new_server: NewServer) -> None:
    """It says what it waits for, and runs once there is room."""
    server = new_server(small_disk / "home")
    await server.start()
    async with server.client() as cluster:
        await cluster.create(shell_pod("warm-up", "true"))
        await until_pods(cluster, lambda pods: has_ended(pods["warm-up"]))
        ballast = fill(small_disk, leave=100_000)
        accepted = []
        for number in range(30):
            try:
                await cluster.create(shell_pod(f"pod-{number}", "echo hello"))
            except StorageFull:
                continue
            accepted.append(f"pod-{number}")
        assert 0 < len(accepted) < 30
        ballast.unlink()
        pods = await until_pods(cluster, lambda pods: all(map(has_ended, pods.values())))
        assert {name: phase_of(pods[name]) for name in accepted} == dict.fromkeys(accepted, "Succeeded")
    assert "Traceback" not in server.log()


async def until_stored(cluster: RemoteCluster, obj: Object) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                await cluster.create(obj)
            except StorageFull:
                await asyncio.sleep(0.05)
            else:
                return


def fill(disk: Path, leave: int = 0) -> Path:
    """Uses up all free space on the disk."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        free = os.statvfs(disk)
        left = free.f_bavail * free.f_frsize - leave
        try:
            while left > 0:
                left -= file.write(b"x" * min(left, 1 << 16))
        except OSError:
            pass
    return ballast
