"""The supervisor's control socket: runs commands inside the Pod's containers, and ends the Pod, when asked to."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress

from muster.embedded.agent.attempt import Attempt
from muster.embedded.agent.bookkeeping import reachable
from muster.embedded.agent.contract import CONTROL_SOCKET, Answer, Request
from muster.embedded.agent.launching import StartError
from muster.embedded.agent.loop import Loop

_MAX_REQUEST = 1 << 20
_DESCRIPTORS = 3


class ControlServer:
    def __init__(
        self,
        folder: str,
        loop: Loop,
        attempts: Mapping[str, Attempt],
        stop: Callable[[float | None, str, str], None],
    ) -> None:
        self._loop = loop
        self.attempts = attempts
        self.stop = stop
        self.connections: set[_Connection] = set()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        with reachable(f"{folder}/{CONTROL_SOCKET}") as path:
            try:
                self._socket.bind(path)
            except OSError:
                os.unlink(path)  # an earlier supervisor's
                self._socket.bind(path)
        self._socket.listen(64)
        loop.watch(self._socket.fileno(), self._accept)

    def close(self) -> None:
        """The file stays: who connects to it is refused, and it goes with the Pod's folder."""
        for connection in list(self.connections):
            connection.close()
        self._loop.unwatch(self._socket.fileno())
        self._socket.close()

    def _accept(self) -> None:
        with suppress(OSError):
            _Connection(self, self._socket.accept()[0], self._loop)


class _Connection:
    def __init__(self, server: ControlServer, connection: socket.socket, loop: Loop) -> None:
        self._server = server
        self._socket = connection
        self._loop = loop
        self._received = b""
        self._descriptors: list[int] = []
        self._pid = 0
        server.connections.add(self)
        connection.setblocking(False)
        loop.watch(connection.fileno(), self._read)

    def _read(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._socket, 65536, _DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        self._descriptors += descriptors
        self._received += data
        if not data or len(self._received) > _MAX_REQUEST:
            self.close()
        elif not self._pid and b"\n" in self._received:
            self._handle(self._received.partition(b"\n")[0])

    def _handle(self, line: bytes) -> None:
        try:
            request: Request = json.loads(line)
            if request["op"] == "exec":
                self._exec(request)
                return
            if request["op"] != "stop":
                raise StartError(f'unknown request "{request["op"]}"')
            self._server.stop(request.get("grace"), request.get("reason") or "", request.get("message") or "")
            self._answer({})
        except StartError as error:
            self._answer({"error": str(error)})
        except (ValueError, KeyError, TypeError) as error:
            self._answer({"error": f"malformed request: {error!r}"})
        self.close()

    def _exec(self, request: Request) -> None:
        attempt = self._server.attempts.get(request["container"])
        if attempt is None or not attempt.pid:
            raise StartError(f'container "{request["container"]}" is not running')
        if len(self._descriptors) != _DESCRIPTORS:
            raise StartError("an exec needs three descriptors: stdin, stdout and stderr")
        if not request["argv"]:
            raise StartError("an exec needs a command")
        self._pid = attempt.run_inside(
            request["argv"],
            self._descriptors,
            env=request.get("env"),
            cwd=request.get("cwd") or "",
            terminal=bool(request.get("tty")),
        )
        self._loop.on_exit(self._pid, self._exited)
        self._close_descriptors()
        self._answer({"pid": self._pid})

    def _exited(self, status: int) -> None:
        self._pid = 0
        code = os.waitstatus_to_exitcode(status)
        self._answer({"code": code if code >= 0 else 128 - code})
        self.close()

    def _answer(self, answer: Answer) -> None:
        with suppress(OSError):
            self._socket.sendall(json.dumps(answer).encode() + b"\n")

    def close(self) -> None:
        """Also when the client has gone: nobody wants the command any more."""
        if self._pid:
            with suppress(OSError):
                os.killpg(self._pid, signal.SIGKILL)
        self._close_descriptors()
        self._server.connections.discard(self)
        if self._socket.fileno() >= 0:
            self._loop.unwatch(self._socket.fileno())
            self._socket.close()

    def _close_descriptors(self) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()
