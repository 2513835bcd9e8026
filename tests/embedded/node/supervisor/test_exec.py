"""Commands inside a running container."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from muster.embedded.node.supervisor.contract import ControlRequest

if TYPE_CHECKING:
    from tests.embedded.node.supervisor.conftest import Pods


def run(*argv: str, **more: Any) -> ControlRequest:
    request: ControlRequest = {"op": "exec", "container": "main", "argv": list(argv)}
    request.update(more)  # type: ignore[typeddict-item]
    return request


async def output_of(pods: Pods, folder: Path, request: ControlRequest, given: bytes = b"") -> tuple[str, int]:
    """Returns what a command prints, on both streams, and its exit code."""
    theirs_in, ours_in = os.pipe()
    ours_out, theirs_out = os.pipe()
    with await pods.ask(folder, request, theirs_in, theirs_out, theirs_out) as control:
        os.close(theirs_in)
        os.close(theirs_out)
        os.write(ours_in, given)
        os.close(ours_in)
        first = await control.answer()
        assert "error" not in first, first
        code = (await control.answer())["code"]
    with open(ours_out, "rb") as stream:
        return stream.read().decode(), code


@pytest.fixture(params=["namespaces", "user-namespaces", "none"])
def isolation(request: pytest.FixtureRequest) -> Any:
    if request.param == "namespaces" and os.getuid() != 0:
        pytest.skip("only root needs no user namespace")
    return request.param


async def test_a_command_runs_where_the_container_is(pods: Pods) -> None:
    folder = await pods.start(
        "pod", "sh", "-c", "echo secret > /tmp/mine; echo up; sleep 600", env={"A": "a"}, cwd="/usr"
    )
    await pods.printed(folder, "up")
    script = "cat /tmp/mine; pwd; echo $A $B; read line; echo got $line; exit 7"
    text, code = await output_of(pods, folder, run("sh", "-c", script, env={"B": "b"}), b"hello\n")
    assert (text, code) == ("secret\n/usr\na b\ngot hello\n", 7)
    text, code = await output_of(pods, folder, run("pwd", cwd="/etc"))
    assert (text, code) == ("/etc\n", 0)
    assert await output_of(pods, folder, run("sh", "-c", "kill -9 $$")) == ("", 137)


@pytest.mark.parametrize("uid", [None, 1234])
async def test_a_command_with_a_terminal(pods: Pods, uid: int | None) -> None:
    if uid is not None and (pods.isolation == "none" or os.getuid() != 0):
        pytest.skip("needs root, or a user namespace")
    folder = await pods.start("pod", "sleep", "600", uid=uid)
    await pods.event(folder, "started")
    ours, theirs = os.openpty()
    script = "test -t 0 && test -t 1 && echo terminal > /dev/tty; read x; echo $x"
    with await pods.ask(folder, run("sh", "-c", script, tty=True), theirs, theirs, theirs) as control:
        os.close(theirs)
        assert "pid" in await control.answer()
        os.write(ours, b"typed\n")
        assert await control.answer() == {"code": 0}
    text = b""
    try:
        while data := os.read(ours, 4096):
            text += data
    except OSError:
        os.close(ours)
    assert b"terminal\r\n" in text and text.endswith(b"typed\r\n")


async def test_disconnecting_kills_the_command(pods: Pods) -> None:
    folder = await pods.start("pod", "sleep", "600")
    await pods.event(folder, "started")
    ours, theirs = os.pipe()
    with await pods.ask(folder, run("sh", "-c", "sleep 6000 | sleep 6000"), theirs, theirs, theirs) as control:
        os.close(theirs)
        await control.answer()
    # The process that held the pipe has ended.
    reader = asyncio.get_running_loop().run_in_executor(None, os.read, ours, 1)
    assert await asyncio.wait_for(reader, 20) == b""
    os.close(ours)
    assert not any(e["e"] == "exited" for e in pods.journal(folder))


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (run("true", container="other"), 'container "other" is not running'),
        (run("no-such"), 'exec: "no-such": executable file not found in $PATH'),
        (run("true", cwd="/no/such"), 'working directory "/no/such": no such file or directory'),
        (run(), "an exec needs a command"),
        ({"op": "dance"}, 'unknown request "dance"'),
        ({}, "malformed request: KeyError('op')"),
        ({"op": "exec"}, "malformed request: KeyError('container')"),
    ],
)
async def test_impossible_requests_are_refused(pods: Pods, request_: ControlRequest, error: str) -> None:
    folder = await pods.start("pod", "sleep", "600")
    await pods.event(folder, "started")
    with await pods.ask(folder, request_, 0, 1, 2) as control:
        assert await control.answer() == {"error": error}
        with pytest.raises(EOFError):
            await control.answer()


async def test_a_container_that_has_ended_runs_nothing(pods: Pods) -> None:
    containers = [("done", "main", ["true"]), ("main", "main", ["sleep", "600"])]
    folder = await pods.start("pod", containers=containers)
    await pods.event(folder, "exited", c="done")
    with await pods.ask(folder, run("true", container="done"), 0, 1, 2) as control:
        assert await control.answer() == {"error": 'container "done" is not running'}


async def test_commands_end_with_the_container(pods: Pods) -> None:
    folder = await pods.start("pod", "sleep", "600")
    await pods.event(folder, "started")
    with await pods.ask(folder, run("sleep", "6000"), 0, 1, 2) as control:
        await control.answer()
        await pods.stop(folder, 5.0)
        assert await control.answer() in ({"code": 143}, {"code": 137})
    await pods.finished(folder)
