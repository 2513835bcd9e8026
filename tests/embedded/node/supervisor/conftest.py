from __future__ import annotations

import array
import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

from muster.embedded.node.isolation import probe_isolation
from muster.embedded.node.supervisor.contract import (
    CONTROL_SOCKET,
    JOURNAL,
    POD_FILE,
    ControlRequest,
    ControlResponse,
    Isolation,
    JournalEntry,
    PreparedContainer,
)
from muster.embedded.node.supervisor_client import ZygoteClient
from tests.embedded.waiting import wait_until

SECONDS = 30.0

ISOLATION, WHY = probe_isolation()


class Pods:
    """Does what the agent does for supervisors: writes folders, requests supervisors and reads journals."""

    def __init__(self, home: Path, isolation: Isolation) -> None:
        self.home = home
        self.isolation: Isolation = isolation
        self.zygote = ZygoteClient(isolation)
        self.path = os.environ["PATH"]
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind(str(home / "agent.sock"))
        self._news = asyncio.Event()
        self._folders: list[Path] = []
        asyncio.get_running_loop().add_reader(self._socket, self._hear)

    def container(self, folder: Path, *argv: str, **more: Any) -> PreparedContainer:
        name = more.get("name", "main")
        message = folder / f"message-{name}"
        message.touch()
        scratch = folder / f"tmp-{name}"
        scratch.mkdir(exist_ok=True)
        scratch.chmod(0o1777)
        container = {
            "name": name,
            "role": "main",
            "argv": list(argv) or ["true"],
            "env": {"PATH": self.path, **more.pop("env", {})},
            "cwd": "/",
            "rootfs": "",
            "mounts": [{"type": "bind", "source": str(scratch), "target": "/tmp"}, *more.pop("mounts", [])],
            "logDir": str(folder / "logs" / name),
            "terminationMessageFile": str(message),
            "terminationMessageFromLogs": False,
            "stopSignal": "SIGTERM",
            **more,
        }
        return cast(PreparedContainer, container)

    def write(self, name: str, *argv: str, containers: list[tuple[Any, ...]] | None = None, **more: Any) -> Path:
        """A Pod with one container that runs `argv`, or with `containers`: (name, role, argv, further fields)."""
        folder = self.home / name
        folder.mkdir()
        fields = {
            key: more.pop(key) for key in list(more) if key in PreparedContainer.__annotations__ and key != "mounts"
        }
        mounts = more.pop("mounts", [])
        if containers is None:
            prepared = [self.container(folder, *argv, mounts=mounts, **fields)]
        else:
            prepared = [
                self.container(folder, *argv, name=name, role=role, **(further[0] if further else {}))
                for name, role, argv, *further in containers
            ]
        pod = {
            "uid": f"uid-{name}",
            "namespace": "default",
            "name": name,
            "hostname": name,
            "restartPolicy": "Never",
            "grace": 5.0,
            "deadline": None,
            "isolation": self.isolation,
            "mounts": more.pop("pod_mounts", []),
            "containers": prepared,
            "notify": str(self.home / "agent.sock"),
            "logFileBytes": 1 << 20,
            "logFiles": 3,
            "backoffBase": 0.05,
            "backoffMax": 0.2,
            **more,
        }
        (folder / POD_FILE).write_text(json.dumps(pod))
        self._folders.append(folder)
        return folder

    async def start(self, name: str, *argv: str, **more: Any) -> Path:
        folder = self.write(name, *argv, **more)
        await self.zygote.start(folder)
        return folder

    async def run(self, name: str, *argv: str, **more: Any) -> list[JournalEntry]:
        """Returns its whole journal."""
        return await self.finished(await self.start(name, *argv, **more))

    def journal(self, folder: Path) -> list[JournalEntry]:
        try:
            lines = (folder / JOURNAL).read_text().split("\n")
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines[:-1]]

    async def until(self, folder: Path, condition: Callable[[list[JournalEntry]], bool]) -> list[JournalEntry]:
        async with asyncio.timeout(SECONDS):
            while True:
                self._news.clear()
                entries = self.journal(folder)
                if condition(entries):
                    return entries
                # The journal is the source of truth; a notification may get lost.
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._news.wait(), 1.0)

    async def event(self, folder: Path, event: str, **details: Any) -> JournalEntry:
        """Returns the first matching entry."""

        def is_it(entry: JournalEntry) -> bool:
            return entry["e"] == event and details.items() <= entry.items()

        entries = await self.until(folder, lambda entries: any(map(is_it, entries)))
        return next(filter(is_it, entries))

    async def finished(self, folder: Path) -> list[JournalEntry]:
        entries = await self.until(folder, lambda entries: bool(entries) and entries[-1]["e"] == "finished")
        assert not (folder / "supervisor.log").exists(), (folder / "supervisor.log").read_text()
        return entries

    def log(self, folder: Path, container: str = "main", attempt: int = 0) -> list[str]:
        """Returns the lines, without times and streams. A container that prints nothing has no file."""
        path = folder / "logs" / container / f"{attempt}.log"
        return [line.split(" ", 3)[3] for line in path.read_text().splitlines()] if path.exists() else []

    async def printed(self, folder: Path, text: str, container: str = "main", attempt: int = 0) -> None:
        """Waits until a container has printed this line."""
        path = folder / "logs" / container / f"{attempt}.log"
        await wait_until(lambda: path.exists() and text in self.log(folder, container, attempt))

    async def ask(self, folder: Path, request: ControlRequest, *descriptors: int) -> Control:
        loop = asyncio.get_running_loop()
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            await loop.sock_connect(connection, str(folder / CONTROL_SOCKET))
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
            connection.sendmsg([json.dumps(request).encode() + b"\n"], rights)
        except BaseException:
            connection.close()
            raise
        return Control(connection)

    async def stop(self, folder: Path, grace: float, **more: Any) -> ControlResponse:
        with await self.ask(folder, cast(ControlRequest, {"op": "stop", "grace": grace, **more})) as control:
            return await control.answer()

    async def close(self) -> None:
        for folder in self._folders:
            entries = self.journal(folder)
            if entries and entries[-1]["e"] != "finished":
                try:
                    await self.stop(folder, 0.0)
                    await self.finished(folder)
                except (ConnectionError, FileNotFoundError):
                    continue
        self.zygote.close()
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()

    def _hear(self) -> None:
        while True:
            try:
                self._socket.recv(256)
            except BlockingIOError:
                return
            self._news.set()


class Control:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._rest = b""

    async def answer(self) -> ControlResponse:
        async with asyncio.timeout(SECONDS):
            while b"\n" not in self._rest:
                data = await asyncio.get_running_loop().sock_recv(self._connection, 4096)
                if not data:
                    raise EOFError
                self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        answer: ControlResponse = json.loads(line)
        return answer

    def __enter__(self) -> Control:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def exits(entries: list[JournalEntry]) -> list[tuple[str, int, int, str]]:
    """(container, attempt, code, reason) of each exit."""
    return [(e["c"], e["a"], e["code"], e["reason"]) for e in entries if e["e"] == "exited"]


@pytest.fixture(name="exits")
def _exits() -> Callable[[list[JournalEntry]], list[tuple[str, int, int, str]]]:
    return exits


@pytest.fixture
async def pods(tmp_path: Path, isolation: Isolation) -> AsyncIterator[Pods]:
    """In the best isolation that works here, unless a test sets another one."""
    found = Pods(tmp_path, isolation)
    yield found
    await found.close()


@pytest.fixture
def isolation() -> Isolation:
    return ISOLATION


@pytest.fixture
async def isolated(pods: Pods) -> Pods:
    if pods.isolation == "none":
        pytest.skip(f"needs isolation: {WHY}")
    return pods
