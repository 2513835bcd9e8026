"""The agent's side of a Pod's supervisor: starts it through the zygote, talks to it, and reads its journal."""

from __future__ import annotations

import array
import asyncio
import fcntl
import json
import os
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import orjson

import muster
from muster.embedded.node.supervisor.contract import (
    CONTROL_SOCKET,
    JOURNAL,
    LOCK,
    POD_FILE,
    ControlRequest,
    ControlResponse,
    Isolation,
    JournalEntry,
)
from muster.embedded.node.supervisor.zygote import READY
from muster.kube.objects import Object, status_of

# A Pod's journal as the agent reads it, and the lock that decides who may run the Pod.
#
# A Pod never runs twice, whichever process is killed at whichever moment. The order of writes guarantees it:
#
# 1. The Pod's file (pod.json) is complete before a supervisor is requested, and is never written again.
# 2. A supervisor takes the lock before it reads the journal, and records `starting` before it starts a container. It
# exits at once if the lock is taken or the journal says `finished`. So any number of supervisors can be requested,
# and one runs.
# 3. The folder stays until the Pod's object is deleted. As long as the object exists, so does the journal, and a Pod
# with a journal is never started again.
# 4. Before a folder is removed, the process that removes it holds the lock and has read, or written, `finished` in
# the
# journal; then the Pod's file is removed first. A supervisor that starts late finds the one or misses the other.
# 5. A status is written after the journal entry it reports. A Pod whose status reports a container, and which has no
# folder, has lost its folder: it fails instead of running a second time.


class Journal:
    """Reads new entries. An incomplete line is left for the next call."""

    __slots__ = ("_offset", "_path")

    def __init__(self, folder: str) -> None:
        self._path = f"{folder}/{JOURNAL}"
        self._offset = 0

    def read(self) -> list[JournalEntry]:
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return []
        try:
            text = b""
            while chunk := os.pread(descriptor, 1 << 16, self._offset + len(text)):
                text += chunk
                if len(chunk) < 1 << 16:
                    break
        finally:
            os.close(descriptor)
        whole, newline, _ = text.rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        return [entry for line in whole.split(b"\n") if line and (entry := _parse(line)) is not None]


def append_entries(folder: str, entries: Iterable[JournalEntry]) -> None:
    """Appends entries. The caller must hold the Pod's lock."""
    descriptor = os.open(f"{folder}/{JOURNAL}", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        end = os.lseek(descriptor, 0, os.SEEK_END)
        # A supervisor may have been killed in the middle of a line.
        start = b"\n" if end and os.pread(descriptor, 1, end - 1) != b"\n" else b""
        os.write(descriptor, start + b"".join(orjson.dumps(entry) + b"\n" for entry in entries))
    finally:
        os.close(descriptor)


@dataclass(slots=True)
class ContainerExit:
    """How an attempt ended."""

    attempt: int
    started: float
    ended: float
    code: int
    signal: int = 0
    reason: str = ""
    message: str = ""


@dataclass(slots=True)
class ContainerProgress:
    attempt: int = -1
    """The latest attempt that was started or is about to be."""
    started: float = 0.0
    running: bool = False
    pid: int = 0
    startup_passed: bool = False
    ready: bool | None = None
    """The last result of the readiness probe."""
    exit: ContainerExit | None = None
    """The exit of the latest attempt, if it has ended."""
    last: ContainerExit | None = None
    """The exit of the attempt before."""
    backoff_from: float = 0.0
    backoff_until: float = 0.0
    """Not 0 while the container waits for its next attempt."""


@dataclass(slots=True)
class Progress:
    """The state of a Pod according to its journal."""

    containers: dict[str, ContainerProgress] = field(default_factory=dict)
    supervised: float = 0.0
    supervisor: int = 0
    finished: JournalEntry | None = None

    def of(self, container: str) -> ContainerProgress:
        found = self.containers.get(container)
        if found is None:
            found = self.containers[container] = ContainerProgress()
        return found

    def apply(self, entry: JournalEntry) -> None:
        kind, now = entry.get("e"), entry.get("t", 0.0)
        if kind == "supervised":
            self.supervised = self.supervised or now
            self.supervisor = entry.get("pid", 0)
        elif kind == "finished":
            self.finished = entry
            for name, attempt in self.running_attempts():
                # The supervisor has failed, and the container with it. How it ended is unknown.
                lost: JournalEntry = {"t": now, "e": "exited", "c": name, "a": attempt, "code": 137}
                _apply_to_container(self.of(name), "exited", now, {**lost, "reason": "ContainerStatusUnknown"})
        elif "c" in entry:
            _apply_to_container(self.of(entry["c"]), kind or "", now, entry)

    def running_attempts(self) -> list[tuple[str, int]]:
        """Returns (container, attempt) of all containers that run, according to the journal."""
        return [(name, c.attempt) for name, c in self.containers.items() if c.running]


def progress_of(entries: Iterable[JournalEntry]) -> Progress:
    progress = Progress()
    for entry in entries:
        progress.apply(entry)
    return progress


def _apply_to_container(c: ContainerProgress, kind: str, now: float, entry: JournalEntry) -> None:
    attempt = entry.get("a", c.attempt)
    if kind == "started":
        c.last, c.exit = c.exit or c.last, None
        c.attempt, c.started, c.running, c.pid = attempt, now, True, entry.get("pid", 0)
        c.startup_passed, c.ready = False, None
        c.backoff_from = c.backoff_until = 0.0
    elif kind == "exited":
        if c.exit is not None and c.exit.attempt != attempt:
            c.last = c.exit
        started = c.started if c.running else now
        c.exit = ContainerExit(
            attempt, started, now, entry.get("code", 0), entry.get("signal", 0) or 0,
            entry.get("reason") or "", entry.get("message") or "",
        )  # fmt: skip
        c.attempt, c.running, c.ready, c.startup_passed, c.pid = attempt, False, None, False, 0
    elif kind == "backoff":
        c.backoff_from, c.backoff_until = now, entry.get("until", now)
    elif kind == "startup" and attempt == c.attempt:
        c.startup_passed = True
    elif kind == "ready" and attempt == c.attempt:
        c.ready = bool(entry.get("ready", True))


def _parse(line: bytes) -> JournalEntry | None:
    try:
        entry: JournalEntry = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None  # an incomplete line of a supervisor that was killed
    return entry


def was_started(folder: str) -> bool:
    """Whether a supervisor may have been requested."""
    return os.path.exists(f"{folder}/{POD_FILE}")


def has_supervisor(folder: str) -> bool:
    """Whether the Pod has a supervisor. The check takes the lock for a moment, and a supervisor that starts just then
    exits. So a caller that gets False must request another one or end the Pod."""
    with lock_pod(folder) as taken:
        return not taken


@contextmanager
def lock_pod(folder: str) -> Iterator[bool]:
    """Yields whether the Pod's lock could be taken, and releases it."""
    try:
        descriptor = os.open(f"{folder}/{LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:  # even the folder is missing
        yield True
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


def close_journal(folder: str, reason: str, message: str) -> bool:
    """Ends a Pod that has no supervisor: its processes are gone, and none will be started. Returns False if it has one
    after all."""
    with lock_pod(folder) as taken:
        if not taken:
            return False
        progress = progress_of(Journal(folder).read())
        if progress.finished is None and os.path.isdir(folder):
            append_entries(folder, closing_entries(progress, reason, message, time.time()))
        return True


def closing_entries(progress: Progress, reason: str, message: str, now: float) -> list[JournalEntry]:
    """Returns the last entries for a journal whose supervisor was killed."""
    entries: list[JournalEntry] = [
        {
            "t": now,
            "e": "exited",
            "c": name,
            "a": attempt,
            "code": 137,
            "reason": "ContainerStatusUnknown",
            "message": "The container could not be located when the pod was terminated",
        }
        for name, attempt in progress.running_attempts()
    ]
    finished: JournalEntry = {"t": now, "e": "finished", "phase": "Failed"}
    if reason:
        finished["reason"], finished["message"] = reason, message
    return [*entries, finished]


def lost_its_folder(pod: Object) -> bool:
    """Whether the status of a Pod without a folder reports containers that were started."""
    status = status_of(pod)
    statuses = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    return any(s.get("containerID") for s in statuses)


class SupervisorGone(Exception):
    """No supervisor listens, either not yet or no longer."""


class ControlConnection:
    """A connection for one request. Closing it kills the process of an exec."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._rest = b""

    @classmethod
    async def send(cls, folder: str, request: ControlRequest, descriptors: Sequence[int] = ()) -> ControlConnection:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        connection.setblocking(False)
        try:
            await _connect(connection, folder)
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
            connection.sendmsg([json.dumps(request).encode() + b"\n"], rights)
        except (FileNotFoundError, ConnectionError) as error:
            connection.close()
            raise SupervisorGone(str(error)) from None
        except BaseException:
            connection.close()
            raise
        return cls(connection)

    async def receive(self) -> ControlResponse:
        loop = asyncio.get_running_loop()
        while b"\n" not in self._rest:
            try:
                data = await loop.sock_recv(self._socket, 4096)
            except ConnectionError as error:
                raise SupervisorGone(str(error)) from None
            if not data:
                raise SupervisorGone("the supervisor closed the connection")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        response: ControlResponse = json.loads(line)
        return response

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> ControlConnection:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()


async def request_stop(folder: str, grace: float, reason: str = "", message: str = "") -> None:
    """Asks the Pod to end; the journal says when it has. Raises SupervisorGone if there is no supervisor."""
    request: ControlRequest = {"op": "stop", "grace": grace}
    if reason:
        request["reason"], request["message"] = reason, message
    with await ControlConnection.send(folder, request) as control:
        await control.receive()


async def _connect(connection: socket.socket, folder: str) -> None:
    """Connects through the folder's descriptor: a socket's path is limited to 107 bytes, the path of a data directory
    is not."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        await asyncio.get_running_loop().sock_connect(connection, f"/proc/self/fd/{descriptor}/{CONTROL_SOCKET}")
    finally:
        os.close(descriptor)


_SOURCES = str(Path(muster.__file__).parent.parent)
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from muster.embedded.node.supervisor.zygote import main; main(int(sys.argv[2]), sys.argv[3])"
)
_TRIES = 3


class ZygoteError(Exception):
    """No supervisor could be started. The message says why."""


class ZygoteClient:
    """Starts supervisors. Once they run, they need neither the zygote nor the server."""

    def __init__(
        self, isolation: Isolation, on_killed: Callable[[str], None] | None = None, *, python: str = sys.executable
    ) -> None:
        """`on_killed` is called with the folder of a Pod whose supervisor was killed. Without it, another supervisor is
        started, which continues from the journal."""
        self._isolation = isolation
        self._on_killed = on_killed
        self._python = python
        self._connections: dict[Isolation, _Connection] = {}
        self._restarts: set[asyncio.Task[None]] = set()

    async def start(self, folder: str | os.PathLike[str], isolation: Isolation | None = None) -> int:
        """Starts a supervisor for the Pod in `folder`, unless it has one, and returns its process number. Pods of an
        image engine need the isolation 'none'."""
        path = os.fspath(folder)
        if "\n" in path:
            raise ZygoteError(f"{path!r}: the path of a Pod's folder must not contain a line break")
        for tried in range(_TRIES):
            connection = await self._connection(isolation or self._isolation)
            try:
                return await connection.start(path)
            except ConnectionError as error:
                if tried + 1 == _TRIES:
                    raise ZygoteError(f"the process that starts supervisors died {_TRIES} times: {error}") from None
        raise AssertionError("unreachable")

    def close(self) -> None:
        for task in self._restarts:
            task.cancel()
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    async def _connection(self, isolation: Isolation) -> _Connection:
        connection = self._connections.get(isolation)
        if connection is None or connection.is_closed:
            connection = self._connections[isolation] = _Connection(
                self._python, isolation, lambda folder: self._was_killed(folder, isolation)
            )
        await connection.is_ready()
        return connection

    def _was_killed(self, folder: str, isolation: Isolation) -> None:
        if self._on_killed is not None:
            self._on_killed(folder)
            return
        task = asyncio.ensure_future(self._start_again(folder, isolation))
        self._restarts.add(task)
        task.add_done_callback(self._restarts.discard)

    async def _start_again(self, folder: str, isolation: Isolation) -> None:
        await asyncio.sleep(1.0)  # The cause may still be there.
        with suppress(ZygoteError):
            await self.start(folder, isolation)


class _Connection:
    """The connection to one zygote process."""

    def __init__(self, python: str, isolation: Isolation, on_killed: Callable[[str], None]) -> None:
        self._on_killed = on_killed
        self._waiting: deque[asyncio.Future[int]] = deque()
        self._received = b""
        self._unsent = b""
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self.is_closed = False
        self._socket, theirs = socket.socketpair()
        self._socket.setblocking(False)
        with theirs:
            self._process = subprocess.Popen(
                [python, "-I", "-S", "-c", _PROGRAM, _SOURCES, str(theirs.fileno()), isolation],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        self._loop.add_reader(self._socket, self._read)

    async def is_ready(self) -> None:
        await asyncio.shield(self._ready)

    async def start(self, folder: str) -> int:
        if self.is_closed:
            raise ConnectionResetError("it has gone")
        response: asyncio.Future[int] = self._loop.create_future()
        self._waiting.append(response)
        self._send(os.fsencode(folder) + b"\n")
        return await response

    def close(self, reason: str = "closed") -> None:
        """The process exits by itself when the connection is closed."""
        if self.is_closed:
            return
        self.is_closed = True
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        for response in self._waiting:
            if not response.done():
                response.set_exception(ConnectionResetError(reason))
        self._waiting.clear()
        errors = self._errors()
        if not self._ready.done():
            self._ready.set_exception(ZygoteError(f"the process that starts supervisors did not start: {errors}"))
            self._ready.exception()

    def _errors(self) -> str:
        """Returns what the process printed before it was ready. Waits for its exit, which has happened or is about
        to."""
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            text = b"" if self._ready.done() else stream.read()
        self._process.wait()
        lines = text.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no reason given"

    def _send(self, data: bytes) -> None:
        self._unsent += data
        try:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError as error:
            self.close(str(error))
            return
        if self._unsent:
            self._loop.add_writer(self._socket, self._send, b"")
        else:
            self._loop.remove_writer(self._socket)

    def _read(self) -> None:
        try:
            data = self._socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close("the connection ended")
            return
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            self._handle_line(line)

    def _handle_line(self, line: bytes) -> None:
        kind, text = line[:1], line[1:]
        if kind == b"!":
            self._on_killed(os.fsdecode(text.partition(b" ")[2]))
        elif line + b"\n" == READY:
            self._ready.set_result(None)
        else:
            response = self._waiting.popleft()
            if response.done():
                return
            if kind == b"+":
                response.set_result(int(text))
            else:
                response.set_exception(ZygoteError(f"cannot start a supervisor: {text.decode(errors='replace')}"))
