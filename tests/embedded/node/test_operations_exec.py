"""Logs of a Pod on a real node, and commands that are executed in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from muster.embedded.node.operations import ExecProcess
from muster.embedded.node.supervisor.contract import CONTROL_SOCKET
from muster.kube.cluster import LogQuery
from muster.kube.errors import BadRequest, NotFound, Unavailable
from muster.kube.objects import status_of
from tests.embedded.node.harness import Node


async def test_logs_can_be_followed(node: Node) -> None:
    await node.create("p", "sh", "-c", "for i in 1 2 3; do echo $i; sleep 0.1; done")
    await node.phase("p", "Running", "Succeeded")
    pieces = [piece async for piece in node.cluster.logs("p", "default", LogQuery(follow=True))]
    assert b"".join(pieces) == b"1\n2\n3\n"
    assert await node.logs("p", tail_lines=1) == "3\n"


async def test_a_silent_pod_has_an_empty_log(node: Node) -> None:
    assert await node.output("p", "true") == ""
    with pytest.raises(BadRequest, match=r"container nope is not valid for pod p, choose one of: \[main\]"):
        await node.logs("p", container="nope")
    with pytest.raises(NotFound):
        await node.logs("never-was")


async def test_exec(node: Node) -> None:
    await node.create(
        "p", "sleep", "60", terminationGracePeriodSeconds=0, container={"env": [{"name": "A", "value": "1"}]}
    )
    await node.phase("p", "Running")
    process = await node.cluster.exec("p", "default", ["sh", "-c", "echo $A; cat; echo err >&2; exit 7"], stdin=True)
    await process.write(b"in\n")
    await process.write(b"")
    output: dict[int, bytes] = {1: b"", 2: b""}
    async for stream, data in process.output():
        output[stream] += data
    assert output == {1: b"1\nin\n", 2: b"err\n"}
    assert await process.wait() == 7
    await process.close()
    await process.close()


async def test_exec_with_a_terminal(node: Node) -> None:
    await node.create("p", "sleep", "60", terminationGracePeriodSeconds=0)
    await node.phase("p", "Running")
    process = await node.cluster.exec(
        "p", "default", ["sh", "-c", "read x; stty size; test -t 1"], stdin=True, tty=True
    )
    await process.resize(40, 132)
    await process.write(b"go\n")
    text = b"".join([data async for _, data in process.output()])
    assert b"40 132" in text
    assert await process.wait() == 0
    await process.close()


async def seen_until(output: AsyncIterator[tuple[int, bytes]], text: bytes) -> bytes:
    seen = b""
    async with asyncio.timeout(20):
        async for _, data in output:
            seen += data
            if text in seen:
                return seen
    raise AssertionError(f"the output ended: {seen!r}")


async def test_attach_is_possible_again_after_a_restart(node: Node) -> None:
    await node.create("p", "sh", "-c", "echo $TERM; while read x; do stty size; echo $x; done",
                      container={"stdin": True, "stdinOnce": True, "tty": True},
                      terminationGracePeriodSeconds=0)  # fmt: skip
    await node.phase("p", "Running")
    first = await node.cluster.attach("p", "default", stdin=True)
    await first.resize(40, 132)
    await first.write(b"one\n")
    await seen_until(first.output(), b"40 132\r\none\r\n")
    await first.close()
    await node.restart()
    second = await node.cluster.attach("p", "default", stdin=True)
    await second.write(b"two\n")
    output = second.output()
    await seen_until(output, b"40 132\r\ntwo\r\n")
    await second.write(b"\x04")
    async for _ in output:
        pass
    assert await second.wait() == 0
    await second.close()
    assert status_of(await node.ended("p"))["phase"] == "Succeeded"
    assert (await node.logs("p")).startswith("xterm\r\n")
    with pytest.raises(BadRequest, match="cannot attach to a container in a completed pod"):
        await node.cluster.attach("p", "default")


async def test_attach_sees_both_streams(node: Node) -> None:
    await node.create("p", "sh", "-c", "cat; echo out; echo err >&2", container={"stdin": True, "stdinOnce": True})
    await node.phase("p", "Running")
    process = await node.cluster.attach("p", "default", stdin=True)
    await process.write(b"in\n")
    await process.write(b"")
    output: dict[int, bytes] = {1: b"", 2: b""}
    async for stream, data in process.output():
        output[stream] += data
    assert (output, await process.wait()) == ({1: b"in\nout\n", 2: b"err\n"}, 0)
    await process.close()


async def test_an_exec_ends_when_the_client_disconnects(node: Node) -> None:
    await node.create("p", "sleep", "60", terminationGracePeriodSeconds=0)
    await node.phase("p", "Running")
    process = await node.cluster.exec("p", "default", ["sh", "-c", "echo $$; sleep 600"])
    async for _ in process.output():
        break
    await process.close()
    check = await node.cluster.exec(
        "p",
        "default",
        ["sh", "-c", "for i in $(seq 100); do pgrep -f '[s]leep 600' || exit 0; sleep 0.02; done; exit 1"],
    )
    assert await check.wait() == 0
    await check.close()


async def test_exec_is_refused_with_a_reason(node: Node) -> None:
    with pytest.raises(NotFound):
        await node.cluster.exec("none", "default", ["true"])
    await node.create("done")
    await node.ended("done")
    with pytest.raises(BadRequest, match="completed pod"):
        await node.cluster.exec("done", "default", ["true"])
    await node.create("p", "sleep", "60", terminationGracePeriodSeconds=0)
    await node.phase("p", "Running")
    with pytest.raises(BadRequest, match="not valid for pod p"):
        await node.cluster.exec("p", "default", ["true"], container="nope")
    with pytest.raises(BadRequest, match="no-such-command"):
        await node.cluster.exec("p", "default", ["no-such-command"])


@asynccontextmanager
async def silent_supervisor(folder: Path) -> AsyncIterator[asyncio.Queue[bytes]]:
    """Listens as a supervisor does, and yields the requests that it gets."""
    requests: asyncio.Queue[bytes] = asyncio.Queue()
    left = asyncio.Event()

    async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.put_nowait(await reader.readline())
        await reader.read()
        writer.close()
        await writer.wait_closed()
        left.set()

    async with await asyncio.start_unix_server(read, folder / CONTROL_SOCKET, limit=1 << 21):
        yield requests
        await left.wait()


async def test_exec_does_not_wait_for_a_silent_supervisor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.embedded.node.operations._ANSWER_SECONDS", 0.1)
    closed: list[bool] = []
    async with silent_supervisor(tmp_path), asyncio.timeout(20):
        with pytest.raises(Unavailable, match="main: its supervisor does not respond"):
            await ExecProcess.start(
                str(tmp_path), "main", ["true"], stdin=False, tty=False, on_close=lambda: closed.append(True)
            )
    assert not closed, "the caller counts sessions that never began"


async def test_a_long_command_arrives_as_a_whole(tmp_path: Path) -> None:
    async with silent_supervisor(tmp_path) as requests, asyncio.timeout(20):
        command = ["echo", "a" * 900_000]
        start = asyncio.create_task(ExecProcess.start(str(tmp_path), "main", command, stdin=False, tty=False))
        assert len(await requests.get()) > 900_000
        start.cancel()
