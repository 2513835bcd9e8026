"""Clients that are attached to a container's own streams."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from muster.embedded.node.isolation import probe_isolation
from muster.embedded.node.supervisor import attachments
from muster.embedded.node.supervisor.attachments import Attachments, ContainerInput
from muster.embedded.node.supervisor.contract import ControlRequest
from muster.embedded.node.supervisor.event_loop import Timer
from tests.embedded.waiting import wait_until

if TYPE_CHECKING:
    from tests.embedded.node.supervisor.conftest import Control, Pods

SHELL = "while read line; do test $line = size && stty size; test $line = end && exit 4; echo got $line; done"


class Client:
    """An attached client: it writes to `stdin`, and collects both outputs."""

    def __init__(self, control: Control, stdin: int, outputs: tuple[int, int]) -> None:
        self.control = control
        self.stdin = stdin
        self.seen: dict[str, bytes] = {"stdout": b"", "stderr": b""}
        self._readers = [
            asyncio.create_task(self._read(name, descriptor))
            for name, descriptor in zip(self.seen, outputs, strict=True)
        ]

    async def _read(self, name: str, descriptor: int) -> None:
        while data := await asyncio.to_thread(os.read, descriptor, 65536):
            self.seen[name] += data
        os.close(descriptor)

    def write(self, data: bytes) -> None:
        os.write(self.stdin, data)

    def close_input(self) -> None:
        os.close(self.stdin)
        self.stdin = -1

    async def sees(self, text: bytes) -> None:
        await wait_until(lambda: text in self.seen["stdout"])

    async def leave(self) -> None:
        self.control.__exit__()
        await self.end()

    async def end(self) -> None:
        """All output was received."""
        await asyncio.wait_for(asyncio.gather(*self._readers), 20)
        self.control.__exit__()
        if self.stdin >= 0:
            self.close_input()


async def attach(pods: Pods, folder: Path, *, stdin: bool = True) -> Client:
    await pods.event(folder, "started")
    theirs_in, ours_in = os.pipe()
    (ours_out, theirs_out), (ours_err, theirs_err) = os.pipe(), os.pipe()
    request: ControlRequest = {"op": "attach", "container": "main", "stdin": stdin}
    control = await pods.ask(folder, request, theirs_in, theirs_out, theirs_err)
    for descriptor in (theirs_in, theirs_out, theirs_err):
        os.close(descriptor)
    assert await control.answer() == {}
    return Client(control, ours_in, (ours_out, ours_err))


def resize(client: Client, rows: Any, columns: Any) -> None:
    request = {"op": "resize", "rows": rows, "columns": columns}
    client.control._connection.send(json.dumps(request).encode() + b"\n")


@pytest.fixture
def isolation(request: pytest.FixtureRequest) -> Any:
    """The best one, unless a test names others."""
    wanted = getattr(request, "param", probe_isolation()[0])
    if wanted == "namespaces" and os.getuid() != 0:
        pytest.skip("only root needs no user namespace")
    return wanted


EVERY_ISOLATION = pytest.mark.parametrize("isolation", ["namespaces", "user-namespaces", "none"], indirect=True)


@EVERY_ISOLATION
async def test_a_terminal_can_be_left_and_entered_again(pods: Pods) -> None:
    folder = await pods.start("pod", "sh", "-c", SHELL, tty=True, stdin=True, stdinOnce=True, env={"TERM": "xterm"})
    first = await attach(pods, folder)
    first.write(b"one\n")
    await first.sees(b"got one\r\n")
    resize(first, 30, 90)
    first.write(b"size\n")
    await first.sees(b"30 90\r\n")
    await first.leave()
    second = await attach(pods, folder)
    resize(second, "no", None)
    second.write(b"three\n")
    await second.sees(b"got three\r\n")
    assert b"one" not in second.seen["stdout"]
    second.write(b"end\n")
    assert await second.control.answer() == {"code": 0}
    await second.end()
    assert (await pods.event(folder, "exited"))["code"] == 4
    assert "got three\r" in (folder / "logs/main/0.log").read_bytes().decode().replace("\r\n", "\r")


@EVERY_ISOLATION
async def test_the_process_has_the_terminal_as_its_own(pods: Pods) -> None:
    script = "test -t 0 && test -t 1 && test -t 2 && echo all > /dev/tty"
    assert (await pods.run("pod", "sh", "-c", script, tty=True))[-1].get("phase") == "Succeeded"


@pytest.mark.parametrize("once", [False, True])
async def test_input_ends_with_the_first_client_only_if_stdin_once(pods: Pods, once: bool) -> None:
    folder = await pods.start("pod", "sh", "-c", "cat; echo end; echo err >&2", stdin=True, stdinOnce=once)
    client = await attach(pods, folder)
    client.write(b"one\n")
    await client.sees(b"one\n")
    client.close_input()
    if not once:
        # The session ends, and the container waits for the next one.
        assert await client.control.answer() == {"code": 0}
        await client.end()
        client = await attach(pods, folder)
        client.write(b"two\n")
        await client.sees(b"two\n")
        assert not any(entry["e"] == "exited" for entry in pods.journal(folder))
        await pods.stop(folder, 0.0)
    assert await client.control.answer() == {"code": 0}
    await client.end()
    if once:
        assert client.seen == {"stdout": b"one\nend\n", "stderr": b"err\n"}
    await pods.finished(folder)


async def test_input_ends_if_the_connection_of_the_only_client_is_lost(pods: Pods) -> None:
    folder = await pods.start("pod", "sh", "-c", "cat; echo end", stdin=True, stdinOnce=True)
    client = await attach(pods, folder)
    client.write(b"one\n")
    await client.leave()
    await pods.finished(folder)
    assert pods.log(folder) == ["one", "end"]


async def test_several_clients_see_the_same(pods: Pods) -> None:
    folder = await pods.start("pod", "cat", stdin=True)
    clients = [await attach(pods, folder), await attach(pods, folder, stdin=False)]
    clients[0].write(b"hello\n")
    for client in clients:
        await client.sees(b"hello\n")
        await client.leave()


async def test_a_slow_client_loses_nothing(pods: Pods) -> None:
    """Far more output than pipes can hold, with an end that comes at once."""
    size = 5_000_000
    script = f"read x; head -c {size} /dev/zero; head -c 1000 /dev/zero >&2"
    folder = await pods.start("pod", "sh", "-c", script, stdin=True)
    client = await attach(pods, folder)
    client.write(b"go\n")
    assert await client.control.answer() == {"code": 0}
    await client.end()
    assert {name: len(data) for name, data in client.seen.items()} == {"stdout": size, "stderr": 1000}


async def test_more_input_than_a_pipe_holds(pods: Pods) -> None:
    folder = await pods.start("pod", "sh", "-c", "sleep 0.2; wc -c", stdin=True, stdinOnce=True)
    client = await attach(pods, folder)
    await asyncio.to_thread(_write_all, client.stdin, b"x" * 1_000_000)
    client.close_input()
    await client.end()
    assert client.seen["stdout"].strip() == b"1000000"


async def test_without_stdin_a_container_reads_nothing_and_cannot_be_written_to(pods: Pods) -> None:
    folder = await pods.start("pod", "sh", "-c", "cat; echo up; sleep 600")
    await pods.printed(folder, "up")
    request: ControlRequest = {"op": "attach", "container": "main", "stdin": True}
    with await pods.ask(folder, request, 0, 1, 2) as control:
        assert await control.answer() == {"error": 'container "main" has no standard input: set its stdin to true'}
    with await pods.ask(folder, {"op": "attach", "container": "other"}, 0, 1, 2) as control:
        assert await control.answer() == {"error": 'container "other" is not running'}
    client = await attach(pods, folder, stdin=False)
    await client.leave()


def test_a_client_that_does_not_read_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop()
    monkeypatch.setattr(attachments, "_STALL_SECONDS", 60.0)
    resumed, ended = list[bool](), list[bool]()
    found = Attachments(loop, lambda: resumed.append(True))  # type: ignore[arg-type]
    with pipe() as (ours, out), pipe() as (_, err):
        found.add(-1, os.dup(out), os.dup(err), lambda: ended.append(True))
        assert found.send("stdout", b"x" * 1000)
        assert not found.send("stdout", b"x" * 1_000_000)
        assert (resumed, ended) == ([], [])
        loop.pass_time(time.time() + 61.0)
        assert (resumed, ended) == ([True], [True])
        assert found.send("stdout", b"more")
        assert os.read(ours, 2_000_000).strip(b"x") == b""


def test_what_a_container_does_not_read_waits() -> None:
    loop = Loop()
    with pipe() as (theirs, ours):
        target = ContainerInput(loop, os.dup(ours), is_for_one=True)  # type: ignore[arg-type]
        written = list[int]()
        assert not target.write(b"x" * 70_000, lambda: written.append(1))
        assert not target.write(b"y", lambda: written.append(2))
        target.end()
        assert not target.is_open
        assert len(os.read(theirs, 70_000)) == 65536 and written == []
        loop.ready()
        assert written == [1, 2]
        assert os.read(theirs, 70_000) == b"x" * (70_000 - 65536) + b"y"


class Loop:
    """Calls back when a test says so."""

    def __init__(self) -> None:
        self.watched: dict[int, Any] = {}
        self.timers: list[tuple[float, Any]] = []

    def watch(self, descriptor: int, callback: Any, events: int = 0) -> None:
        self.watched[descriptor] = callback

    def unwatch(self, descriptor: int) -> None:
        self.watched.pop(descriptor, None)

    def at(self, when: float, callback: Any) -> Any:
        timer = Timer(when, callback)
        self.timers.append((when, timer))
        return timer

    def ready(self) -> None:
        for callback in list(self.watched.values()):
            callback()

    def pass_time(self, now: float) -> None:
        for when, timer in self.timers:
            if when <= now and timer.callback is not None:
                timer.callback()


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    try:
        yield ends
    finally:
        for end in ends:
            os.close(end)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
