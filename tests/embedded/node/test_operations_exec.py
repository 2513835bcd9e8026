"""Logs of a Pod on a real node, and commands that are executed in it."""

from __future__ import annotations

import pytest

from muster.kube.cluster import LogQuery
from muster.kube.errors import BadRequest, NotFound
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
