"""A Pod from its start to its end, wherever it runs."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from muster.embedded.node.supervisor.contract import Isolation, JournalEntry
from tests.embedded.waiting import wait_until

if TYPE_CHECKING:
    from tests.embedded.node.supervisor.conftest import Pods

Exits = Callable[[list[JournalEntry]], list[tuple[str, int, int, str]]]

EVERYWHERE = pytest.mark.parametrize(
    "isolation",
    [
        pytest.param(
            "namespaces", marks=pytest.mark.skipif(os.getuid() != 0, reason="only root needs no user namespace")
        ),
        "user-namespaces",
        "none",
    ],
)

DAEMON_NAP, FUGITIVE_NAP, ORPHAN_NAP = (f"6000.{number}{os.getpid()}" for number in (1, 2, 3))
"""Sleeps that only this process starts: tests run side by side."""

DAEMON = f"""
import os, time
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
print("daemon", flush=True)  # and it holds on to the log
os.execvp("sleep", ["sleep", "{DAEMON_NAP}"])
"""


@EVERYWHERE
async def test_the_journal_records_everything(pods: Pods, isolation: Isolation) -> None:
    entries = await pods.run("pod", "true")
    assert [entry["e"] for entry in entries] == ["supervised", "starting", "started", "ready", "exited", "finished"]
    assert entries[2]["pid"] > 1
    assert entries[-2] == {**entries[-2], "c": "main", "a": 0, "code": 0, "reason": "Completed"}
    assert entries[-1] == {**entries[-1], "phase": "Succeeded"}
    assert [entry["t"] for entry in entries] == sorted(entry["t"] for entry in entries)


@EVERYWHERE
async def test_the_journal_has_the_machines_numbers(pods: Pods, isolation: Isolation) -> None:
    folder = await pods.start("pod", "sleep", "600")
    supervisor, started = await pods.event(folder, "supervised"), await pods.event(folder, "started")
    path = Path(f"/proc/{started['pid']}/cmdline")
    while not path.read_text():  # it is just becoming the program
        pass
    assert path.read_text() == "sleep\x00600\x00"
    with open(f"/proc/{started['pid']}/stat") as file:
        assert file.read().split()[3] == str(supervisor["pid"])


@EVERYWHERE
@pytest.mark.parametrize(
    ("script", "code", "number", "message"),
    [
        ("exit 3", 3, None, None),
        ("kill -KILL $$", 137, 9, None),
        ("kill -TERM $$", 143, 15, None),
        ("echo why > $MESSAGE; exit 1", 1, None, "why\n"),
        ("head -c 9000 /dev/zero | tr '\\0' x > $MESSAGE; exit 1", 1, None, "x" * 4096),
    ],
)
async def test_how_a_container_ends(
    pods: Pods, isolation: Isolation, script: str, code: int, number: int | None, message: str | None
) -> None:
    folder = pods.home / "pod"
    place = folder / "message-main" if isolation == "none" else "/dev/termination-log"
    mounts = [{"type": "bind", "source": str(folder / "message-main"), "target": "/dev/termination-log"}]
    *_, end, finished = await pods.run("pod", "sh", "-c", script, env={"MESSAGE": str(place)}, mounts=mounts)
    assert (end["code"], end.get("signal"), end["reason"], end.get("message")) == (code, number, "Error", message)
    assert finished["phase"] == "Failed"


@EVERYWHERE
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"argv": ["pyhton"]}, 'exec: "pyhton": executable file not found in $PATH'),
        ({"argv": ["/etc/passwd"]}, 'exec: "/etc/passwd": permission denied'),
        ({"cwd": "/no/such"}, 'working directory "/no/such": no such file or directory'),
    ],
)
async def test_what_cannot_start_says_why(
    pods: Pods, isolation: Isolation, fields: dict[str, Any], message: str
) -> None:
    entries = await pods.run("pod", **fields)
    assert [entry["e"] for entry in entries] == ["supervised", "starting", "exited", "finished"]
    end = entries[2]
    assert (end["code"], end["reason"], end["message"]) == (128, "StartError", message)


@EVERYWHERE
async def test_a_daemon_does_not_outlive_its_container(pods: Pods, isolation: Isolation, exits: Exits) -> None:
    main = ["sh", "-c", 'python3 -c "$DAEMON"; while ! test -e "$GO"; do sleep 0.01; done; exit 5']
    go = pods.home / "go"
    env = {"DAEMON": DAEMON, "GO": str(go)}
    mounts = [{"type": "bind", "source": str(pods.home), "target": str(pods.home)}]
    containers = [("main", "main", main, {"env": env, "mounts": mounts}), ("other", "main", ["sleep", "600"])]
    folder = await pods.start("pod", containers=containers)
    await pods.printed(folder, "daemon")
    await wait_until(lambda: _running(DAEMON_NAP))  # it becomes that after it has printed
    go.touch()
    await pods.event(folder, "exited", c="main", code=5)
    assert not _running(DAEMON_NAP)
    await pods.stop(folder, 5.0)
    assert exits(await pods.finished(folder)) == [("main", 0, 5, "Error"), ("other", 0, 143, "Error")]


@EVERYWHERE
async def test_a_process_that_escapes_is_killed_when_the_pod_ends(pods: Pods, isolation: Isolation) -> None:
    # Without its environment, and in its own mount namespace if it may create one, a process cannot be attributed to a
    # container.
    flee = f"env -i setsid unshare -m sleep {FUGITIVE_NAP} & env -i setsid sleep {FUGITIVE_NAP} & "
    flee += 'while ! test -e "$GO"; do sleep 0.01; done'
    env, mounts = {"GO": str(pods.home / "go")}, [{"type": "bind", "source": str(pods.home), "target": str(pods.home)}]
    folder = await pods.start("pod", "sh", "-c", flee, env=env, mounts=mounts)
    await pods.event(folder, "started")
    while not _running(FUGITIVE_NAP):
        pass
    (pods.home / "go").touch()
    await pods.finished(folder)
    assert not _running(FUGITIVE_NAP)


HOPPER = """
import os, time
if os.fork():
    time.sleep(0.1)
    os._exit(3)
os.setsid()
os.fork()
os.fork()
while True:  # no process is where it was when it was found
    if os.fork():
        os._exit(0)
"""


async def test_a_process_that_keeps_forking_is_killed(isolated: Pods) -> None:
    *_, end, finished = await isolated.run("pod", "python3", "-c", HOPPER)
    assert (end["code"], finished["phase"]) == (3, "Failed")


async def test_an_escaped_process_does_not_block_its_container(isolated: Pods) -> None:
    containers = [("main", "main", ["python3", "-c", HOPPER]), ("other", "main", ["sleep", "600"])]
    folder = await isolated.start("pod", containers=containers)
    await isolated.event(folder, "exited", c="main", code=3)
    await isolated.stop(folder, 5.0)
    await isolated.finished(folder)


@EVERYWHERE
async def test_starting_twice_runs_once(pods: Pods, isolation: Isolation) -> None:
    folder = pods.write("pod", "sh", "-c", "echo once; sleep 0.1")
    for _ in range(5):
        await pods.zygote.start(folder)
    await pods.finished(folder)
    await pods.zygote.start(folder)
    other = await pods.start("other")
    await pods.finished(other)
    assert pods.log(folder) == ["once"]
    assert [entry["e"] for entry in pods.journal(folder)].count("supervised") == 1


@EVERYWHERE
async def test_a_pod_with_limits_and_checks_ends_as_well(pods: Pods, isolation: Isolation) -> None:
    """Everything that makes a supervisor do more than the minimum."""
    probe = {"kind": "exec", "command": ["true"], "period": 0.05, "timeout": 5.0}
    fields = {"memoryLimit": 1 << 30, "cpuLimit": 1.5, "readinessProbe": probe, "startupProbe": probe}
    hooks = {"postStart": {"kind": "exec", "command": ["true"]}, "preStop": {"kind": "exec", "command": ["true"]}}
    folder = await pods.start("pod", "sleep", "600", **fields, **hooks)
    await pods.event(folder, "ready", ready=True)
    await pods.stop(folder, 5.0)
    entries = await pods.finished(folder)
    assert [e["e"] for e in entries][:4] == ["supervised", "starting", "started", "startup"]
    assert entries[-2] == {**entries[-2], "code": 143, "signal": 15, "reason": "Error"}


async def test_a_supervisor_that_fails_says_so_and_ends_its_pod(pods: Pods) -> None:
    folder = pods.write("pod", "true")
    (folder / "pod.json").write_text("{}")
    await pods.zygote.start(folder)
    await pods.zygote.start(await pods.start("another"))
    await pods.finished(pods.home / "another")
    (finished,) = await pods.until(folder, bool)
    assert (finished["e"], finished["phase"], finished["reason"]) == ("finished", "Failed", "SupervisorFailed")
    assert finished["message"] == "KeyError: 'notify'"
    assert "Traceback" in (folder / "supervisor.log").read_text()


@pytest.mark.slow
async def test_a_pod_whose_folder_is_removed_ends(pods: Pods) -> None:
    folder = await pods.start("pod", "sleep", ORPHAN_NAP)
    await pods.event(folder, "started")
    shutil.rmtree(folder)
    for _ in range(300):
        if not _running(ORPHAN_NAP):
            return
        await asyncio.sleep(0.1)
    raise TimeoutError


def _running(word: str) -> bool:
    """Whether a process has this word in its command line."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if word in file.read().decode(errors="replace").replace("\0", " ").split():
                    return True
        except OSError:
            continue
    return False
