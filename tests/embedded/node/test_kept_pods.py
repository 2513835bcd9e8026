"""Pods that have failed and whose files are kept for a while: a shell finds them as they ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster.embedded.node import agent
from muster.embedded.node.journal import has_supervisor
from muster.embedded.node.worker_context import KeptPod, pods_to_give_up
from muster.kube.errors import BadRequest
from muster.kube.objects import status_of
from tests.embedded.node.harness import Node

_WRITES = "echo made > /tmp/made; mkdir -p /srv/out; echo deep > /srv/out/deep; echo $A > /data/env; exit 3"


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    node = Node(tmp_path, keep_failed_seconds=600.0, keep_failed_pods=2)
    await node.start()
    yield node
    await node.clean_up()


async def fail(node: Node, name: str, script: str = _WRITES) -> Path:
    """A Pod that writes to /tmp, to its own layer and to a volume, and fails."""
    pod = await node.create(
        name,
        "sh",
        "-c",
        script,
        container={
            "env": [{"name": "A", "value": "1"}],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            "workingDir": "/tmp",
        },
        volumes=[{"name": "data", "emptyDir": {}}],
    )
    await node.phase(name, "Failed")
    return node.folder(pod)


async def run(node: Node, name: str, script: str) -> tuple[int, str]:
    process = await node.cluster.exec(name, "default", ["sh", "-c", script])
    output = b"".join([data async for _, data in process.output()])
    code = await process.wait()
    await process.close()
    return code, output.decode()


async def test_a_shell_finds_files_variables_and_mounts(node: Node) -> None:
    folder = await fail(node, "p")
    status = status_of(await node.get("p"))
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    assert await run(node, "p", "pwd; cat made /srv/out/deep /data/env; echo $A") == (0, "/tmp\nmade\ndeep\n1\n1\n")
    # What one shell changes, the next one sees.
    await run(node, "p", "echo fixed > /srv/out/deep")
    assert await run(node, "p", "cat /srv/out/deep") == (0, "fixed\n")
    await node.restart()  # the server; the kept Pod needs none
    assert await run(node, "p", "cat /srv/out/deep") == (0, "fixed\n")
    await node.delete("p")
    await node.vanished("p")
    await node.wait_until(lambda: not folder.exists())


async def test_a_shell_has_the_limits_of_the_container(node: Node) -> None:
    limits = {"resources": {"limits": {"memory": "64Mi"}}}
    await node.create("p", "sh", "-c", "cat /proc/self/cgroup > /tmp/group; exit 1", container=limits)
    await node.phase("p", "Failed")
    assert await run(node, "p", "cat /proc/self/cgroup | diff - /tmp/group") == (0, "")


async def test_the_oldest_are_given_up(node: Node) -> None:
    folders = [await fail(node, name) for name in ("a", "b", "c")]
    await node.wait_until(lambda: not (folders[0] / "pod.json").exists())
    with pytest.raises(BadRequest, match="completed pod"):
        await run(node, "a", "true")
    assert (await run(node, "c", "cat /tmp/made"))[1] == "made\n"


@pytest.mark.parametrize(
    ("kept", "most", "given_up"),
    [
        ("a1 a2 b1", 3, ""),
        ("a1 a2 b1", 2, "a1"),
        ("b1 a1 a2 a3", 2, "a1 a2"),  # b1 is older, but a has more
        ("b1 a1 a2 b2", 3, "b1"),  # both have two: the one whose Pod is older
        ("a1 b1 c1", 2, "a1"),
        ("a1 b1", 0, "a1 b1"),
    ],
)
def test_the_namespace_with_most_pods_gives_up_its_oldest(kept: str, most: int, given_up: str) -> None:
    async def end() -> None: ...

    assert pods_to_give_up({uid: KeptPod(uid[0], end) for uid in kept.split()}, most) == given_up.split()


async def test_they_are_given_up_when_the_machine_is_short_of_space(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "PERIOD_SECONDS", 0.05)
    await node.restart()
    folder = await fail(node, "p")
    assert has_supervisor(str(folder))
    monkeypatch.setattr(agent, "memory_of_machine", lambda: (9, 100))
    await node.wait_until(lambda: not (folder / "pod.json").exists())


async def test_only_pods_that_failed_are_kept(node: Node) -> None:
    folder = await fail(node, "p")
    good = node.folder(await node.create("good", "true"))
    await node.phase("good", "Succeeded")
    missing = node.folder(await node.create("missing", "no-such-program"))
    await node.phase("missing", "Failed")
    await node.wait_until(lambda: not (good / "pod.json").exists() and not (missing / "pod.json").exists())
    assert has_supervisor(str(folder))


@pytest.mark.slow
async def test_it_ends_after_its_time_but_not_under_a_shell(node: Node) -> None:
    await node.restart(keep_failed_seconds=5.0)
    folder = await fail(node, "p")
    process = await node.cluster.exec("p", "default", ["sh", "-c", "echo here; read x; cat /tmp/made"], stdin=True)
    output = process.output()
    assert (await anext(output))[1] == b"here\n"
    await asyncio.sleep(6)  # longer than it is kept
    assert has_supervisor(str(folder))
    await process.write(b"go\n")
    assert (await anext(output))[1] == b"made\n"
    await process.close()
    await node.wait_until(lambda: not (folder / "pod.json").exists())
    with pytest.raises(BadRequest, match="completed pod"):
        await run(node, "p", "true")
