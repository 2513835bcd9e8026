"""Acknowledged writes survive, whatever happens to the process or the disk."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.store.database import StoreUnreadable
from muster.kube.builtin import CONFIG_MAP, new_catalogue
from muster.kube.errors import NotFound, StorageFull
from muster.kube.objects import Object, name_of, version_of

WRITER = """
import asyncio, os, pathlib, sys

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import CONFIG_MAP, new_catalogue

directory, durability, start = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])


def config_map(name, step):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"step": str(step)}}


async def step_through(cluster, name):
    # A cycle of five: created, changed three times, deleted. An acknowledged step is printed at once.
    step = start
    while True:
        if step % 5 == 0:
            answer = await cluster.create(config_map(name, step))
        elif step % 5 == 4:
            answer = await cluster.delete(CONFIG_MAP, name)
        else:
            answer = await cluster.update(config_map(name, step))
        os.write(1, f"{name} {step} {answer['metadata']['resourceVersion']}\\n".encode())
        step += 1


async def twins(cluster):
    step = start
    while True:
        def both(tx):
            for name in ("twin-a", "twin-b"):
                old = tx.get("configmaps", ("default", name)) or config_map(name, 0)
                meta = {**old["metadata"], "namespace": "default"}
                tx.put("configmaps", {**old, "metadata": meta, "data": {"step": str(step)}})
        await cluster.store.write(both)
        os.write(1, f"twins {step} 0\\n".encode())
        step += 1


async def main():
    async with EmbeddedCluster(directory, new_catalogue(), durability=durability, history=60) as cluster:
        await asyncio.gather(twins(cluster), *(step_through(cluster, f"c{number}") for number in range(20)))


asyncio.run(main())
"""


def state_after(step: int) -> str | None:
    """Returns the expected state after this step."""
    return None if step % 5 == 4 else str(step)


async def steps(directory: Path) -> tuple[dict[str, str], int]:
    async with EmbeddedCluster(directory, new_catalogue(), durability="process") as cluster:
        page = await cluster.list(CONFIG_MAP)
        return {name_of(o): o["data"]["step"] for o in page.items}, int(page.resource_version)


@pytest.mark.parametrize("durability", ["power", "process"])
def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path, durability: str) -> None:
    random = Random(durability)
    last_version = 0
    for round in range(5):
        start = round * 1_000_000
        command = [sys.executable, "-c", WRITER, str(tmp_path), durability, str(start)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            first = writer.stdout.readline()
            time.sleep(random.uniform(0.0, 0.5))
            writer.send_signal(signal.SIGKILL)
            lines = [first, *writer.stdout]
        assert writer.returncode == -signal.SIGKILL
        acknowledged: dict[str, int] = {}
        for line in lines:
            if line.endswith(b"\n") and line.strip():
                name, step, version = line.decode().split()
                acknowledged[name] = int(step)
                last_version = max(last_version, int(version))
        assert acknowledged
        found, version_now = asyncio.run(steps(tmp_path))
        assert version_now >= last_version
        last_version = version_now
        assert found.get("twin-a") == found.get("twin-b")
        twins = acknowledged.pop("twins", None)
        if twins is not None:
            assert found["twin-a"] in (str(twins), str(twins + 1))
        for name, step in acknowledged.items():
            assert found.get(name) in (state_after(step), state_after(step + 1)), (name, step)
        asyncio.run(clear(tmp_path))


async def clear(directory: Path) -> None:
    async with EmbeddedCluster(directory, new_catalogue(), durability="process") as cluster:
        for obj in (await cluster.list(CONFIG_MAP)).items:
            await cluster.delete(CONFIG_MAP, name_of(obj))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mount = tmp_path / "disk"
    mount.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", mount], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("mounting a small disk takes root")
    yield mount
    subprocess.run(["umount", "--lazy", mount], check=True)


def config_map(name: str, size: int) -> Object:
    data = {"payload": "x" * size}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk takes root")
async def test_a_full_disk_is_survived(small_disk: Path) -> None:
    kept: dict[str, str] = {}
    async with EmbeddedCluster(small_disk, new_catalogue()) as cluster:

        async def fill(names: list[str]) -> list[type[BaseException]]:
            results = await asyncio.gather(
                *(cluster.create(config_map(name, 20_000)) for name in names), return_exceptions=True
            )
            kept.update((name_of(r), version_of(r)) for r in results if isinstance(r, dict))
            return [type(r) for r in results if isinstance(r, BaseException)]

        refused: list[type[BaseException]] = []
        for number in range(100):
            refused += await fill([f"c{number}-{part}" for part in range(7)])
        assert set(refused) == {StorageFull}
        assert len(kept) > 20
        page = await cluster.list(CONFIG_MAP)
        assert {name_of(o): version_of(o) for o in page.items} == kept

        more = await asyncio.create_subprocess_exec("mount", "-o", "remount,size=40m", str(small_disk))
        assert await more.wait() == 0
        assert await fill(["after"]) == []
        await cluster.delete(CONFIG_MAP, "c0-0")
        del kept["c0-0"]
    async with EmbeddedCluster(small_disk, new_catalogue()) as cluster:
        page = await cluster.list(CONFIG_MAP)
        assert {name_of(o): version_of(o) for o in page.items} == kept
        with pytest.raises(NotFound):
            await cluster.get(CONFIG_MAP, "c0-0")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk takes root")
async def test_a_new_store_on_a_full_disk_fails_and_an_existing_one_can_be_read(small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(b"x" * (4 << 20))
    with pytest.raises(StoreUnreadable, match="the disk is full; free some space"):
        EmbeddedCluster(small_disk, new_catalogue())
    (small_disk / "ballast").unlink()
    async with EmbeddedCluster(small_disk, new_catalogue()) as cluster:
        await cluster.create(config_map("c", 1))
    (small_disk / "ballast").touch()
    with (small_disk / "ballast").open("wb", buffering=0) as ballast, pytest.raises(OSError, match="No space left"):
        while True:
            ballast.write(b"x" * 4096)
    async with EmbeddedCluster(small_disk, new_catalogue()) as cluster:
        assert name_of(await cluster.get(CONFIG_MAP, "c")) == "c"
        with pytest.raises(StorageFull):
            await cluster.create(config_map("d", 100_000))
