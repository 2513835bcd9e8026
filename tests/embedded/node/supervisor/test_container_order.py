"""Init containers, sidecars, restarts and deadlines: what runs when."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from muster.embedded.node.supervisor.contract import JournalEntry

if TYPE_CHECKING:
    from tests.embedded.node.supervisor.conftest import Pods

Exits = Callable[[list[JournalEntry]], list[tuple[str, int, int, str]]]

STAY = ["sh", "-c", "trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.01; done"]


def story(entries: list[JournalEntry]) -> list[str]:
    """Returns the starts, passed startup probes and exits."""
    return [f"{e['e']} {e['c']}" for e in entries if e["e"] in ("started", "startup", "exited")]


async def test_init_containers_then_sidecars_then_the_work(pods: Pods) -> None:
    up = {"startupProbe": {"kind": "exec", "command": ["true"], "period": 0.02, "timeout": 5.0}}
    containers = [
        ("prepare", "init", ["true"]),
        ("proxy", "sidecar", STAY, up),
        ("logger", "sidecar", STAY),
        ("check", "init", ["true"]),
        ("work", "main", ["sh", "-c", "sleep 0.1"]),
    ]
    entries = await pods.run("pod", containers=containers)
    assert story(entries) == [
        "started prepare",
        "exited prepare",
        "started proxy",
        "startup proxy",
        "started logger",
        "started check",
        "exited check",
        "started work",
        "exited work",
        "exited logger",
        "exited proxy",
    ]
    assert entries[-1]["phase"] == "Succeeded"


async def test_a_failed_init_container_is_the_end(pods: Pods, exits: Exits) -> None:
    entries = await pods.run("pod", containers=[("init", "init", ["false"]), ("work", "main", ["true"])])
    assert exits(entries) == [("init", 0, 1, "Error")]
    assert entries[-1]["phase"] == "Failed"


async def test_a_container_is_restarted_until_it_succeeds(pods: Pods, exits: Exits) -> None:
    script = "echo x >> /tmp/tries; test $(wc -l < /tmp/tries) -ge 4"
    entries = await pods.run("pod", "sh", "-c", script, restartPolicy="OnFailure")
    assert exits(entries) == [("main", a, 1, "Error") for a in range(3)] + [("main", 3, 0, "Completed")]
    assert [e["a"] for e in entries if e["e"] == "backoff"] == [2, 3]
    assert [e["a"] for e in entries if e["e"] == "starting"] == [0, 1, 2, 3]


@pytest.mark.parametrize("retries", [0, 2])
async def test_a_retry_of_a_container_set_finds_the_files_of_the_attempt_before(
    isolated: Pods, exits: Exits, retries: int
) -> None:
    """As in Argo, where the executor repeats the command in the same container. A restart by restartPolicy does not."""
    script = "test -e /mnt/tried && exit 0; touch /mnt/tried; exit 3"
    order = {"leading": ["main"], "after": {}, "retries": retries, "retrySeconds": 0.01}
    entries = await isolated.run(
        "pod", "sh", "-c", script, mounts=[{"type": "tmpfs", "target": "/mnt"}], arrangement=order if retries else None,
        restartPolicy="Never" if retries else "OnFailure", deadline=time.time() + 3.0,
    )  # fmt: skip
    if retries:
        assert exits(entries) == [("main", 0, 3, "Error"), ("main", 1, 0, "Completed")]
        assert entries[-1]["phase"] == "Succeeded"
    else:
        assert {code for _, _, code, _ in exits(entries)} == {3}


async def test_each_attempt_has_its_own_log_and_termination_message(pods: Pods) -> None:
    folder = pods.home / "pod"
    mounts = [{"type": "bind", "source": str(folder / "message-main"), "target": "/dev/termination-log"}]
    script = "n=$(cat /tmp/n 2>/dev/null || echo 0); echo $((n+1)) > /tmp/n; echo try $n; "
    script += 'test $n = 0 && echo bad > "$M"; test $n = 1'
    where = str(folder / "message-main") if pods.isolation == "none" else "/dev/termination-log"
    await pods.run("pod", "sh", "-c", script, restartPolicy="OnFailure", mounts=mounts, env={"M": where})
    assert [pods.log(folder, attempt=n) for n in (0, 1)] == [["try 0"], ["try 1"]]
    ends = [e.get("message") for e in pods.journal(folder) if e["e"] == "exited"]
    assert ends == ["bad\n", None]


async def test_a_sidecar_is_kept_up(pods: Pods) -> None:
    flaky = ["sh", "-c", "test -e /tmp/once && exec sleep 600; touch /tmp/once; sleep 0.05"]
    folder = await pods.start("pod", containers=[("helper", "sidecar", flaky), ("work", "main", ["sleep", "600"])])
    await pods.event(folder, "started", c="work")
    await pods.event(folder, "started", c="helper", a=1)
    assert not any(e["e"] == "exited" and e["c"] == "work" for e in pods.journal(folder))


async def test_the_deadline(pods: Pods, exits: Exits) -> None:
    await pods.run("first")  # so that the next one starts at once
    entries = await pods.run("pod", "sleep", "600", deadline=time.time() + 1.0)
    assert exits(entries) == [("main", 0, 143, "Error")]
    finished = entries[-1]
    assert (finished["phase"], finished["reason"]) == ("Failed", "DeadlineExceeded")


async def test_a_stop_lets_the_work_end_first_and_the_sidecars_last(pods: Pods, exits: Exits) -> None:
    containers = [("one", "sidecar", STAY), ("two", "sidecar", STAY), ("work", "main", STAY)]
    folder = await pods.start("pod", containers=containers)
    for name in ("one", "two", "work"):
        await pods.printed(folder, "up", name)
    assert await pods.stop(folder, 20.0) == {}
    entries = await pods.finished(folder)
    assert exits(entries) == [(name, 0, 0, "Completed") for name in ("work", "two", "one")]
    assert [e["c"] for e in entries if e["e"] == "killing"] == ["work", "two", "one"]
    assert entries[-1]["phase"] == "Succeeded"


async def test_a_container_is_killed_after_its_grace_period(pods: Pods, exits: Exits) -> None:
    stubborn = ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.01; done"]
    folder = await pods.start("pod", *stubborn, restartPolicy="Always")
    await pods.printed(folder, "up")
    await pods.stop(folder, 0.2)
    assert exits(await pods.finished(folder)) == [("main", 0, 137, "Error")]


async def test_a_second_stop_shortens_the_grace_period(pods: Pods, exits: Exits) -> None:
    folder = await pods.start("pod", "sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.01; done")
    await pods.printed(folder, "up")
    await pods.stop(folder, 600.0, reason="Evicted", message="too big")
    await pods.event(folder, "killing")
    await pods.stop(folder, 0.0)
    entries = await pods.finished(folder)
    assert exits(entries) == [("main", 0, 137, "Error")]
    assert (entries[-1]["reason"], entries[-1]["message"]) == ("Evicted", "too big")


async def test_every_process_gets_the_stop_signal(pods: Pods) -> None:
    child = "trap 'echo child; exit 0' TERM; echo up; while :; do sleep 0.01; done"
    script = f'setsid sh -c "{child}" & trap "echo parent; wait; exit 0" TERM; while :; do sleep 0.01; done'
    folder = await pods.start("pod", "sh", "-c", script)
    await pods.printed(folder, "up")
    await pods.stop(folder, 20.0)
    await pods.finished(folder)
    assert sorted(set(pods.log(folder)) - {"Terminated"}) == ["child", "parent", "up"]  # so a shell says of a sleep


@pytest.mark.parametrize(("name", "printed"), [("SIGUSR1", "usr1"), ("INT", "int"), ("SIGRTMIN+2", "rt")])
async def test_the_stop_signal_can_be_another(pods: Pods, name: str, printed: str) -> None:
    program = """
import os, signal
names = {signal.SIGUSR1: b"usr1", signal.SIGINT: b"int", signal.SIGRTMIN + 2: b"rt"}
signal.pthread_sigmask(signal.SIG_BLOCK, names)
os.write(1, b"up\\n")
os.write(1, names[signal.sigwait(names)] + b"\\n")
"""
    folder = await pods.start("pod", "python3", "-c", program, stopSignal=name)
    await pods.printed(folder, "up")
    await pods.stop(folder, 20.0)
    await pods.finished(folder)
    assert pods.log(folder) == ["up", printed]


async def test_a_pod_can_be_stopped_while_it_waits_to_restart(pods: Pods, exits: Exits) -> None:
    folder = await pods.start("pod", "false", restartPolicy="Always", backoffBase=600.0, backoffMax=600.0)
    await pods.event(folder, "backoff")
    await pods.stop(folder, 5.0)
    assert exits(await pods.finished(folder)) == [("main", 0, 1, "Error"), ("main", 1, 1, "Error")]
