"""What continues when a process is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from muster.embedded.node.supervisor.contract import JournalEntry
from muster.embedded.node.supervisor_client import ZygoteClient, ZygoteError
from tests.embedded.waiting import wait_until

if TYPE_CHECKING:
    from tests.embedded.node.supervisor.conftest import Pods

NAP = f"6000.5{os.getpid()}"
"""A sleep that only this process starts: tests run side by side."""

Exits = Callable[[list[JournalEntry]], list[tuple[str, int, int, str]]]


@pytest.fixture(params=["namespaces", "user-namespaces", "none"])
def isolation(request: pytest.FixtureRequest) -> Any:
    if request.param == "namespaces" and os.getuid() != 0:
        pytest.skip("only root needs no user namespace")
    return request.param


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):  # gone before it was opened, or read
        return False


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


async def gone(pid: int) -> None:
    await wait_until(lambda: not is_alive(pid))


def output_of(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


async def test_pods_continue_when_the_zygote_is_killed(pods: Pods) -> None:
    first = await pods.start(
        "first", "sh", "-c", "while ! test -e /tmp/go; do sleep 0.01; done; echo went on", mounts=[]
    )
    started = await pods.event(first, "started")
    supervisor = await pods.event(first, "supervised")
    zygote = parent_of(supervisor["pid"])
    os.kill(zygote, signal.SIGKILL)
    await gone(zygote)
    assert is_alive(started["pid"])
    second = await pods.start("second", "echo", "new")
    await pods.finished(second)
    go = Path("/tmp/go") if pods.isolation == "none" else first / "tmp-main/go"
    go.touch()
    try:
        entries = await pods.finished(first)
    finally:
        go.unlink()
    assert entries[-1]["phase"] == "Succeeded"
    assert pods.log(first) == ["went on"]


async def test_pods_continue_when_the_server_exits(pods: Pods) -> None:
    folder = await pods.start("pod", "sh", "-c", "sleep 0.3; echo went on")
    idle = await pods.start("idle")
    await pods.finished(idle)
    zygote = parent_of((await pods.event(folder, "supervised"))["pid"])
    waiting = (await pods.event(idle, "supervised"))["pid"]
    pods.zygote.close()
    await gone(zygote)
    await gone(waiting)
    await pods.finished(folder)
    assert pods.log(folder) == ["went on"]


@pytest.mark.parametrize(
    ("policy", "ends", "phase"),
    [
        ("Never", [("main", 0, 137, "ContainerStatusUnknown")], "Failed"),
        ("OnFailure", [("main", 0, 137, "ContainerStatusUnknown"), ("main", 1, 0, "Completed")], "Succeeded"),
    ],
)
async def test_a_killed_supervisor_ends_its_processes_and_another_one_continues(
    pods: Pods, policy: str, ends: list[tuple[str, int, int, str]], phase: str, exits: Exits
) -> None:
    deaths = asyncio.Queue[str]()
    pods.zygote.close()
    pods.zygote = ZygoteClient(pods.isolation, deaths.put_nowait)
    marker = pods.home / "marker"
    mounts = [{"type": "bind", "source": str(pods.home), "target": str(pods.home)}]
    script = f"test -e {marker} && exit 0; touch {marker}; setsid sleep {NAP} & echo $! up; sleep {NAP}"
    folder = await pods.start("pod", "sh", "-c", script, mounts=mounts, restartPolicy=policy)
    started, supervisor = await pods.event(folder, "started"), await pods.event(folder, "supervised")
    await wait_until(marker.exists)
    os.kill(supervisor["pid"], signal.SIGKILL)
    assert await asyncio.wait_for(deaths.get(), 20) == str(folder)
    await gone(started["pid"])
    await pods.zygote.start(folder)
    entries = await pods.finished(folder)
    assert exits(entries) == ends
    assert entries[-1]["phase"] == phase
    assert output_of("pgrep", "-f", f"^sleep {NAP}$") == ""


async def test_a_killed_supervisor_is_replaced_by_itself(pods: Pods, exits: Exits) -> None:
    folder = await pods.start("pod", "sleep", "600")
    await pods.event(folder, "started")
    os.kill((await pods.event(folder, "supervised"))["pid"], signal.SIGKILL)
    entries = await pods.finished(folder)
    assert exits(entries) == [("main", 0, 137, "ContainerStatusUnknown")]


async def test_a_supervisor_that_is_terminated_ends_its_pod_first(pods: Pods, exits: Exits) -> None:
    folder = await pods.start("pod", "sh", "-c", "trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done")
    await pods.printed(folder, "up")
    os.kill((await pods.event(folder, "supervised"))["pid"], signal.SIGTERM)
    entries = await pods.finished(folder)
    assert exits(entries) == [("main", 0, 0, "Completed")]
    assert (entries[-1]["phase"], entries[-1]["reason"]) == ("Failed", "Terminated")


async def test_pods_that_start_together_share_supervisors(pods: Pods) -> None:
    folders = [pods.write(f"pod-{i}") for i in range(60)]
    await asyncio.gather(*(pods.zygote.start(folder) for folder in folders))
    supervisors = {(await pods.finished(folder))[0]["pid"] for folder in folders}
    assert len(supervisors) < len(folders)


async def test_pods_that_run_hold_up_no_others(pods: Pods) -> None:
    running = [await pods.start(f"running-{i}", "sleep", "60") for i in range(2 * (os.cpu_count() or 1) + 1)]
    await pods.run("last")
    assert not any(entry["e"] == "exited" for folder in running for entry in pods.journal(folder))


async def test_a_thousand_pods_leave_nothing(pods: Pods) -> None:
    warm = await pods.start("warm")
    await pods.finished(warm)
    zygote = parent_of((await pods.event(warm, "supervised"))["pid"])
    count = 1000 if pods.isolation == "namespaces" else 100
    seen: set[int] = set()
    for start in range(0, count, 20):
        folders = [await pods.start(f"pod-{i}") for i in range(start, start + 20)]
        for folder in folders:
            entries = await pods.finished(folder)
            assert entries[-1]["phase"] == "Succeeded"
            seen.add(entries[0]["pid"])
    await wait_until(lambda: sum(map(is_alive, seen)) <= 16)
    children = [pid for pid in seen if is_alive(pid)]
    # One connection per idle supervisor, and a few more. The last Pods' own are closed after their last entry.
    await wait_until(lambda: open_files(zygote) <= len(children) + 12)
    await wait_until(lambda: all(open_files(child) <= 12 for child in children))
    assert str(pods.home) not in Path("/proc/self/mountinfo").read_text()
    pods.zygote.close()
    for child in children:
        await gone(child)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount a small disk")
async def test_nothing_is_started_that_could_not_be_recorded(pods: Pods, exits: Exits) -> None:
    disk, home, marker = pods.home / "disk", pods.home, pods.home / "marker"
    disk.mkdir()
    assert output_of("mount", "-t", "tmpfs", "-o", "size=256k", "none", str(disk)) == ""
    try:
        pods.home = disk
        mounts = [{"type": "bind", "source": str(home), "target": str(home)}]
        folder = pods.write("pod", "touch", str(marker), notify=str(home / "agent.sock"), mounts=mounts)
        with suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(512))
        await pods.zygote.start(folder)
        await wait_until((folder / "control").exists)
        assert pods.journal(folder) == []
        (disk / "filler").unlink()
        assert exits(await pods.finished(folder)) == [("main", 0, 0, "Completed")]
        assert marker.exists()
    finally:
        output_of("umount", "-l", str(disk))


async def test_a_zygote_that_cannot_start_says_why(tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'no such module' >&2; exit 1\n")
    broken.chmod(0o755)
    zygote = ZygoteClient("none", python=str(broken))
    with pytest.raises(ZygoteError) as caught:
        await zygote.start(tmp_path)
    assert str(caught.value) == "the process that starts supervisors did not start: no such module"
    with pytest.raises(ZygoteError, match="must not contain a line break"):
        await zygote.start("a\nb")
    zygote.close()


def test_the_zygote_stays_small() -> None:
    """The zygote is forked for each Pod, so every import has a cost."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); before = set(sys.modules); "
        "import muster.embedded.node.supervisor.zygote; "
        "print(*sorted({m.partition('.')[0] for m in set(sys.modules) - before}))"
    )
    sources = str(Path(__file__).parents[4] / "src")
    modules = set(output_of(sys.executable, "-I", "-S", "-c", program, sources).split())
    heavy = {
        "asyncio",
        "dataclasses",
        "inspect",
        "logging",
        "orjson",
        "pathlib",
        "ssl",
        "subprocess",
        "tempfile",
        "threading",
    }
    assert "muster" in modules
    assert not heavy & modules
