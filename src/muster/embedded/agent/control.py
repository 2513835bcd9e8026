"""Talking to a Pod's supervisor over its control socket: one request per connection, answers as they come."""

from __future__ import annotations

import array
import asyncio
import os
import socket
from collections.abc import Sequence
from types import TracebackType

import orjson

from muster.embedded.agent.contract import CONTROL_SOCKET, Answer, Request


class SupervisorGone(Exception):
    """Nobody listens there (any more, or yet)."""


class Control:
    """A connection that carries one request. Closing it ends what an exec has started."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._rest = b""

    @classmethod
    async def ask(cls, folder: str, request: Request, descriptors: Sequence[int] = ()) -> Control:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        connection.setblocking(False)
        try:
            await _connect(connection, folder)
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
            connection.sendmsg([orjson.dumps(request) + b"\n"], rights)
        except (FileNotFoundError, ConnectionError) as error:
            connection.close()
            raise SupervisorGone(str(error)) from None
        except BaseException:
            connection.close()
            raise
        return cls(connection)

    async def answer(self) -> Answer:
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
        answer: Answer = orjson.loads(line)
        return answer

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Control:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()


async def stop(folder: str, grace: float, reason: str = "", message: str = "") -> None:
    """Asks the Pod to end; the journal tells when it has. Raises SupervisorGone when there is nobody to ask."""
    request: Request = {"op": "stop", "grace": grace}
    if reason:
        request["reason"], request["message"] = reason, message
    with await Control.ask(folder, request) as control:
        await control.answer()


async def _connect(connection: socket.socket, folder: str) -> None:
    """Through the folder's descriptor: a socket's path must be short, and a data directory need not be."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        await asyncio.get_running_loop().sock_connect(connection, f"/proc/self/fd/{descriptor}/{CONTROL_SOCKET}")
    finally:
        os.close(descriptor)
