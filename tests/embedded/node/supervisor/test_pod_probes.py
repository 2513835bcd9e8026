"""Probes, hooks and limits."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from muster.embedded.node.supervisor import resource_limits
from muster.embedded.node.supervisor.contract import JournalEntry

if TYPE_CHECKING:
    from tests.embedded.node.supervisor.conftest import Pods

Exits = Callable[[list[JournalEntry]], list[tuple[str, int, int, str]]]

QUICK = {"period": 0.05, "timeout": 5.0, "failureThreshold": 1}


class Server:
    """Responds to HTTP requests with `status`, and stores the last one."""

    def __init__(self) -> None:
        self.status = 200
        self.request = ""
        self.port = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.request = (await reader.readuntil(b"\r\n\r\n")).decode()
            writer.write(f"HTTP/1.1 {self.status} Whatever\r\nContent-Length: 2\r\n\r\nok".encode())
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    found = Server()
    listening = await asyncio.start_server(found.answer, "127.0.0.1", 0)
    found.port = listening.sockets[0].getsockname()[1]
    yield found
    listening.close()


@pytest.fixture
def certificate(tmp_path: Path) -> ssl.SSLContext:
    subprocess.run(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=x "
        f"-keyout {tmp_path}/key.pem -out {tmp_path}/cert.pem".split(),
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    return context


@pytest.fixture
async def secure(certificate: ssl.SSLContext) -> AsyncIterator[Server]:
    found = Server()
    listening = await asyncio.start_server(found.answer, "127.0.0.1", 0, ssl=certificate)
    found.port = listening.sockets[0].getsockname()[1]
    yield found
    listening.close()


async def test_readiness_comes_and_goes(pods: Pods, server: Server) -> None:
    probe = {
        "kind": "http",
        "host": "127.0.0.1",
        "port": server.port,
        "path": "/healthz",
        "headers": [["X-A", "b"]],
        **QUICK,
    }
    server.status = 503
    folder = await pods.start("pod", "sleep", "600", readinessProbe=probe)
    unhealthy = await pods.event(folder, "unhealthy")
    assert unhealthy["probe"] == "readiness"
    assert unhealthy["message"] == "Readiness probe failed: HTTP probe failed with statuscode: 503"
    assert not any(e["e"] == "ready" for e in pods.journal(folder))
    server.status = 302
    await pods.event(folder, "ready", ready=True)
    server.status = 500
    await pods.event(folder, "ready", ready=False)
    assert server.request.startswith("GET /healthz HTTP/1.1\r\n")
    assert "\r\nX-A: b\r\n" in server.request
    assert f"\r\nHost: 127.0.0.1:{server.port}\r\n" in server.request


async def test_https_is_asked_without_checking_who_it_is(pods: Pods, secure: Server) -> None:
    probe = {"kind": "http", "scheme": "HTTPS", "host": "127.0.0.1", "port": secure.port, "path": "/", **QUICK}
    folder = await pods.start("pod", "sleep", "600", readinessProbe=probe)
    await pods.event(folder, "ready", ready=True)


@pytest.mark.parametrize(
    ("probe", "message"),
    [
        ({"kind": "tcp", "host": "127.0.0.1", "port": 1}, "dial tcp 127.0.0.1:1: connection refused"),
        (
            {"kind": "http", "host": "127.0.0.1", "port": 1, "path": "/x"},
            'Get "http://127.0.0.1:1/x": connection refused',
        ),
        ({"kind": "exec", "command": ["sh", "-c", "echo broken; exit 3"]}, "broken"),
        ({"kind": "exec", "command": ["sh", "-c", "exit 3"]}, "exit code 3"),
        ({"kind": "exec", "command": ["no-such"]}, 'exec: "no-such": executable file not found in $PATH'),
        ({"kind": "exec", "command": ["sleep", "600"], "timeout": 0.1}, "timed out after 0.1s"),
    ],
)
async def test_a_probe_that_fails_says_why(pods: Pods, probe: dict[str, Any], message: str) -> None:
    folder = await pods.start("pod", "sleep", "600", readinessProbe={**QUICK, **probe})
    unhealthy = await pods.event(folder, "unhealthy")
    assert unhealthy["message"] == f"Readiness probe failed: {message}"


async def test_a_listening_port_is_enough_for_tcp(pods: Pods, server: Server) -> None:
    folder = await pods.start(
        "pod", "sleep", "600", startupProbe={"kind": "tcp", "host": "127.0.0.1", "port": server.port, **QUICK}
    )
    await pods.event(folder, "startup")
    await pods.event(folder, "ready", ready=True)


async def test_a_failed_liveness_probe_restarts_the_container(pods: Pods, exits: Exits) -> None:
    probe = {"kind": "exec", "command": ["test", "!", "-e", "/tmp/sick"], **QUICK}
    script = "test -e /tmp/sick && { rm /tmp/sick; exec sleep 600; }; sleep 0.1; touch /tmp/sick; sleep 600"
    folder = await pods.start("pod", "sh", "-c", script, livenessProbe=probe, restartPolicy="Always")
    await pods.event(folder, "started", a=1)
    entries = pods.journal(folder)
    # On a slow machine the second attempt may fail its probe as well, before the cause is removed.
    assert exits(entries)[0] == ("main", 0, 143, "Error")
    killing = next(e for e in entries if e["e"] == "killing")
    assert killing["reason"] == "Unhealthy"
    assert killing["message"] == "Container main failed liveness probe, will be restarted"


async def test_until_it_is_up_only_the_startup_probe_is_made(pods: Pods, exits: Exits) -> None:
    probe = {"kind": "exec", "command": ["false"], **QUICK}
    never = {**probe, "failureThreshold": 3, "grace": 0.0}
    entries = await pods.run("pod", "sh", "-c", "trap '' TERM; sleep 600", startupProbe=never, livenessProbe=probe)
    assert {e["probe"] for e in entries if e["e"] == "unhealthy"} == {"startup"}
    assert exits(entries) == [("main", 0, 137, "Error")]


async def test_hooks_run_in_the_container(pods: Pods) -> None:
    hooks = {
        "postStart": {"kind": "exec", "command": ["sh", "-c", "echo began >> /tmp/story"]},
        "preStop": {"kind": "exec", "command": ["sh", "-c", "echo ending >> /tmp/story"]},
    }
    script = "trap 'echo asked >> /tmp/story; cat /tmp/story; exit 0' TERM; while :; do sleep 0.01; done"
    if pods.isolation == "none":
        pytest.skip("they would share /tmp with the machine")
    folder = await pods.start("pod", "sh", "-c", script, **hooks)
    await pods.event(folder, "ready")
    await pods.stop(folder, 20.0)
    await pods.finished(folder)
    assert [line for line in pods.log(folder) if line != "Terminated"] == ["began", "ending", "asked"]


async def test_a_failed_post_start_hook_ends_the_container(pods: Pods, exits: Exits) -> None:
    entries = await pods.run(
        "pod", "sleep", "600", postStart={"kind": "exec", "command": ["sh", "-c", "echo no; exit 1"]}
    )
    # On a slow machine the second attempt may fail its probe as well, before the cause is removed.
    assert exits(entries)[0] == ("main", 0, 143, "Error")
    killing = next(e for e in entries if e["e"] == "killing")
    assert (killing["reason"], killing["message"]) == ("FailedPostStartHook", "PostStartHook failed: no")
    assert not any(e["e"] == "ready" for e in entries)


async def test_a_pre_stop_hook_may_take_the_grace_but_not_more(pods: Pods, exits: Exits) -> None:
    script = "trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done"
    folder = await pods.start("pod", "sh", "-c", script, preStop={"kind": "sleep", "seconds": 600})
    await pods.printed(folder, "up")
    await pods.stop(folder, 0.2)
    assert exits(await pods.finished(folder)) == [("main", 0, 7, "Error")]


HUNGRY = "x = [bytearray(1 << 20) for _ in range(%d)]; print('full', flush=True); import time; time.sleep(600)"


async def test_too_much_memory_kills_the_container(pods: Pods, exits: Exits) -> None:
    entries = await pods.run("pod", "python3", "-c", HUNGRY % 300, memoryLimit=64 << 20)
    assert exits(entries) == [("main", 0, 137, "OOMKilled")]


async def test_enough_memory_does_not_kill_the_container(pods: Pods) -> None:
    folder = await pods.start("pod", "python3", "-c", HUNGRY % 20, memoryLimit=256 << 20)
    await pods.printed(folder, "full")
    await asyncio.sleep(0.5)  # longer than a check takes
    assert not any(e["e"] == "exited" for e in pods.journal(folder))


async def test_a_groups_limits_hold_for_what_is_run_beside_it_and_leave_nothing(pods: Pods) -> None:
    if resource_limits.can_limit() != (True, True):
        pytest.skip("this user may not make control groups here")
    await pods.run("pod", "true", memoryLimit=64 << 20, cpuLimit=0.5)
    places = resource_limits.find_parents(
        Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text()
    )
    left = [name for found in places.values() for _, place in found for name in os.listdir(place) if "uid-pod" in name]
    assert left == []
