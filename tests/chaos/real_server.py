"""A server in its own process, which a test can kill."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
import yaml

from muster.kube.builtin import POD
from muster.kube.objects import Object, name_of, status_of
from muster.kube.remote.client import RemoteCluster
from muster.kube.remote.kubeconfig import load_kubeconfig
from muster.server.pidfile import running_server

PATIENCE = 60.0


class RealServer:
    """`muster up` with its own data directory."""

    def __init__(self, home: Path, **config: Any) -> None:
        self.home = home
        self.process: subprocess.Popen[bytes] | None = None
        home.mkdir(parents=True, exist_ok=True)
        if config:
            (home / "config.yaml").write_text(yaml.safe_dump(config))

    def launch(self, *options: str) -> None:
        """Starts the process without waiting until it is ready."""
        assert self.process is None
        with (self.home / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "muster", "up", *options],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )

    async def ready(self) -> None:
        assert self.process is not None
        process = self.process

        def is_up() -> bool:
            assert process.poll() is None, f"the server ended with {process.returncode}:\n{self.log()}"
            info = running_server(self.home)
            return info is not None and info.pid == process.pid

        await eventually(is_up)

    async def start(self, *options: str) -> None:
        self.launch(*options)
        await self.ready()

    def kill(self) -> None:
        """Kills it as the kernel does when memory runs out, without a clean shutdown."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process = None

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()
            self.process = None

    @asynccontextmanager
    async def client(self, token: str | None = None) -> AsyncIterator[RemoteCluster]:
        """A client with the given token, by default the admin's."""
        path = self.home / "kubeconfig"
        if token is not None:
            config = yaml.safe_load(path.read_text())
            config["users"][0]["user"] = {"token": token} if token else {}
            path = self.home / "other-kubeconfig"
            path.write_text(yaml.safe_dump(config))
        async with RemoteCluster(load_kubeconfig(path)) as cluster:
            yield cluster

    def muster(self, *words: str, input: str = "") -> subprocess.CompletedProcess[str]:
        """Runs the command as a user types it."""
        return subprocess.run(
            [sys.executable, "-m", "muster", *words],
            input=input,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=self.environment,
            cwd=self.home.parent,
            check=False,
        )

    def log(self) -> str:
        with suppress(FileNotFoundError):
            return (self.home / "server.log").read_text(errors="replace")
        return ""

    def supervisors(self) -> dict[str, int]:
        """The supervisor process of each Pod that has not ended, by the uid of the Pod."""
        found: dict[str, int] = {}
        for journal in (self.home / "pods").glob("*/journal"):
            entries = [orjson.loads(line) for line in journal.read_bytes().splitlines()]
            pids = [entry["pid"] for entry in entries if entry["e"] == "supervised"]
            if pids and entries[-1]["e"] != "finished":
                found[journal.parent.name] = pids[-1]
        return found

    def zygotes(self) -> list[int]:
        """The processes that start supervisors: none before the first Pod, then one."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        found = []
        for pid in children:
            with suppress(FileNotFoundError, ProcessLookupError):
                if b"supervisor.zygote" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(int(pid))
        return found

    def end(self) -> None:
        """Stops every process and removes what it left, whatever state the test ended in."""
        self.stop()
        for pid in self.supervisors().values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    @property
    def environment(self) -> dict[str, str]:
        """Python may write compiled files, as it does by default. A server that compiles itself at every start takes
        four times as long to start."""
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return {**kept, "MUSTER_HOME": str(self.home), "COLUMNS": "200", "NO_COLOR": "1"}


async def eventually(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Polls, for conditions that no watch reports."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not true within {seconds:.0f} s"
        await asyncio.sleep(0.01)


async def until_pods(
    cluster: RemoteCluster, so: Callable[[dict[str, Object]], bool], seconds: float = PATIENCE
) -> dict[str, Object]:
    """Returns all Pods by name as soon as `wanted` holds for them."""
    there = await cluster.list(POD, "default")
    pods = {name_of(pod): pod for pod in there.items}
    if so(pods):
        return pods
    try:
        async with asyncio.timeout(seconds):
            async for event in cluster.watch(POD, "default", resource_version=there.resource_version):
                if event.type == "DELETED":
                    pods.pop(name_of(event.object), None)
                else:
                    pods[name_of(event.object)] = event.object
                if so(pods):
                    return pods
    except TimeoutError:
        phases = {name: phase_of(pod) for name, pod in pods.items()}
        raise AssertionError(f"that did not come within {seconds:.0f} s: {phases}") from None
    raise AssertionError("the watch ended")


def phase_of(pod: Object) -> str:
    return str(status_of(pod).get("phase", ""))


def has_ended(pod: Object) -> bool:
    return phase_of(pod) in ("Succeeded", "Failed")
