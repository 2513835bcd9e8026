"""The agent's connection to supervisors: starts them through the zygote and sends requests to their control sockets."""

from __future__ import annotations

import array
import asyncio
import json
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import muster
from muster.embedded.node.supervisor.contract import CONTROL_SOCKET, ControlRequest, ControlResponse, Isolation
from muster.embedded.node.supervisor.zygote import READY


class SupervisorGone(Exception):
    """No supervisor listens, either not yet or no longer."""


class ControlConnection:
    """A connection for one request. Closing it kills the process of an exec, and detaches from a container."""

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
            content = json.dumps(request).encode() + b"\n"
            rest = content[connection.sendmsg([content], rights) :]
            if rest:  # otherwise the connection may be closed already, after the response
                await asyncio.get_running_loop().sock_sendall(connection, rest)
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

    def resize(self, rows: int, columns: int) -> None:
        """Sets the size of the terminal of an attached container. A size that cannot be sent at once is dropped."""
        request: ControlRequest = {"op": "resize", "rows": rows, "columns": columns}
        with suppress(OSError):
            self._socket.send(json.dumps(request).encode() + b"\n")

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
    "from muster.embedded.node.supervisor.confinement import seal_program; "
    "sys.argv[3] != 'namespaces' or seal_program(); "
    "from muster.embedded.node.supervisor.zygote import main; "
    "main(int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5]))"
)
_TRIES = 3
_ZYGOTE_VARIABLES = ("LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "TZ")


def zygote_environment() -> dict[str, str]:
    """Returns the variables of the zygote, which every supervisor has, too: those that Python itself needs. The
    server's own contain passwords, and Pods get theirs from their specs."""
    return {name: os.environ[name] for name in _ZYGOTE_VARIABLES if name in os.environ}


class SharedMemoryLimit(NamedTuple):
    """What all Pods may use together."""

    group: str = ""
    """Names the control group, apart from those of other servers."""
    memory: int = 0
    """In bytes; 0 for no limit."""


_NO_LIMIT = SharedMemoryLimit()


class ZygoteError(Exception):
    """No supervisor could be started. The message says why."""


class ZygoteClient:
    """Starts supervisors. Once they run, they need neither the zygote nor the server."""

    def __init__(
        self,
        isolation: Isolation,
        on_killed: Callable[[str], None] | None = None,
        *,
        limit: SharedMemoryLimit = _NO_LIMIT,
        python: str = sys.executable,
    ) -> None:
        """`on_killed` is called with the folder of a Pod whose supervisor was killed. Without it, another supervisor is
        started, which continues from the journal."""
        self._isolation = isolation
        self._on_killed = on_killed
        self._python = python
        self._limit = limit
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
                self._python, isolation, self._limit, lambda folder: self._was_killed(folder, isolation)
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

    def __init__(
        self, python: str, isolation: Isolation, limit: SharedMemoryLimit, on_killed: Callable[[str], None]
    ) -> None:
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
                [
                    python,
                    "-I",
                    "-S",
                    "-c",
                    _PROGRAM,
                    _SOURCES,
                    str(theirs.fileno()),
                    isolation,
                    limit.group,
                    str(limit.memory),
                ],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
                env=zygote_environment(),
            )  # fmt: skip
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
