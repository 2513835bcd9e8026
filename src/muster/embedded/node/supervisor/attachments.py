"""Clients that are attached to a container: they see what it writes from now on, and may write to its standard input.

The container's output goes to its log in any case. A client that does not read makes the container wait, as a terminal
does, but not for long: then it is disconnected.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Callable
from contextlib import suppress

from muster.embedded.node.supervisor.event_loop import WRITE, EventLoop, Timer

_READ_BYTES = 65536
_STALL_SECONDS = 30.0
_MOST_UNSENT = 4 << 20
"""While a container is ending, its output does not wait for clients."""
_LAST_PIPE_BYTES = 1 << 20
_SET_WINDOW_SIZE = 0x5414  # TIOCSWINSZ, without the import of termios
_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ


class ContainerInput:
    """The supervisor's end of a container's standard input: of a pipe or, if it `is_terminal`, of its terminal. It
    stays open while no client is attached. If it `is_for_one`, it is closed when the first client that writes has left
    (stdinOnce). A terminal that is not writable only has a size."""

    def __init__(
        self,
        loop: EventLoop,
        descriptor: int,
        *,
        is_terminal: bool = False,
        is_writable: bool = True,
        is_for_one: bool = False,
    ) -> None:
        self._loop, self._descriptor = loop, descriptor
        self.is_terminal, self.is_writable, self.is_for_one = is_terminal, is_writable, is_for_one
        self._unwritten = b""
        self._waiting: list[Callable[[], None]] = []
        self._is_ending = False
        os.set_blocking(descriptor, False)

    @property
    def is_open(self) -> bool:
        return self._descriptor >= 0 and not self._is_ending

    def write(self, data: bytes, when_written: Callable[[], None]) -> bool:
        """Returns whether all was written. Otherwise, `when_written` is called when it is."""
        self._unwritten += data
        if self._flush():
            return True
        self._waiting.append(when_written)
        return False

    def end(self) -> None:
        """Closes it once everything is written: the container reads an end of file."""
        self._is_ending = True
        if not self._unwritten:
            self.close()

    def resize(self, rows: int, columns: int) -> None:
        if self.is_terminal and self._descriptor >= 0:
            with suppress(OSError):
                fcntl.ioctl(self._descriptor, _SET_WINDOW_SIZE, struct.pack("HHHH", rows, columns, 0, 0))

    def close(self) -> None:
        if self._descriptor >= 0:
            self._loop.unwatch(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
            self._unwritten = b""

    def _flush(self) -> bool:
        try:
            while self._unwritten and self._descriptor >= 0:
                self._unwritten = self._unwritten[os.write(self._descriptor, self._unwritten) :]
        except BlockingIOError:
            self._loop.unwatch(self._descriptor)
            self._loop.watch(self._descriptor, self._continue, WRITE)
            return False
        except OSError:  # the container no longer reads
            self.close()
        return True

    def _continue(self) -> None:
        if not self._flush():
            return
        self._loop.unwatch(self._descriptor)
        if self._is_ending:
            self.close()
        waiting, self._waiting = self._waiting, []
        for when_written in waiting:
            when_written()


class Attachments:
    """All clients of one attempt of a container. `on_resume` is called when the container's output may be read
    again."""

    def __init__(self, loop: EventLoop, on_resume: Callable[[], None]) -> None:
        self._loop, self._on_resume = loop, on_resume
        self._clients: list[AttachedClient] = []
        self.input: ContainerInput | None = None

    def add(self, stdin: int, stdout: int, stderr: int, on_end: Callable[[], None]) -> AttachedClient:
        """Takes the descriptors. `stdin` is -1 if the client does not write. `on_end` is called when it is
        disconnected."""
        client = AttachedClient(self, self._loop, stdin, {"stdout": stdout, "stderr": stderr}, on_end)
        self._clients.append(client)
        client.read_input()
        return client

    def send(self, stream: str, data: bytes) -> bool:
        """Sends output to all clients. Returns whether all have taken it."""
        for client in list(self._clients):
            client.send(stream, data)
        return not any(client.is_behind for client in self._clients)

    def close(self) -> None:
        """The container has ended."""
        for client in list(self._clients):
            client.finish()
        if self.input is not None:
            self.input.close()

    def remove(self, client: AttachedClient) -> None:
        self._clients.remove(client)
        self.caught_up()

    def caught_up(self) -> None:
        if not any(client.is_behind for client in self._clients):
            self._on_resume()


class AttachedClient:
    def __init__(
        self,
        attachments: Attachments,
        loop: EventLoop,
        stdin: int,
        outputs: dict[str, int],
        on_end: Callable[[], None],
    ) -> None:
        self._attachments, self._loop, self._on_end = attachments, loop, on_end
        self._stdin, self._outputs = stdin, outputs
        self._unsent: dict[str, bytes] = {}
        self._stalled: Timer | None = None
        self._is_closed = False
        for descriptor in (stdin, *outputs.values()):
            if descriptor >= 0:
                os.set_blocking(descriptor, False)

    @property
    def is_behind(self) -> bool:
        return bool(self._unsent)

    def send(self, stream: str, data: bytes) -> None:
        unsent = self._unsent.get(stream)
        if unsent is not None:
            self._unsent[stream] = unsent + data
            if len(unsent) + len(data) > _MOST_UNSENT:
                self.close()
            return
        rest = self._write(stream, data)
        if rest:
            self._unsent[stream] = rest
            self._loop.watch(self._outputs[stream], lambda: self._continue(stream), WRITE)
            self._expect_progress()

    def resize(self, rows: int, columns: int) -> None:
        if self._attachments.input is not None:
            self._attachments.input.resize(rows, columns)

    def read_input(self) -> None:
        if self._stdin >= 0:
            self._loop.watch(self._stdin, self._read)

    def finish(self) -> None:
        """Disconnects it. What it has not read yet stays in its pipes, which are enlarged for that."""
        for stream, data in list(self._unsent.items()):
            with suppress(OSError):
                fcntl.fcntl(self._outputs[stream], _SET_PIPE_SIZE, _LAST_PIPE_BYTES)
            self._write(stream, data)
        self.close()

    def close(self) -> None:
        """Also called when the client disconnects."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._stalled is not None:
            self._stalled.cancel()
        self._end_input()
        for descriptor in self._outputs.values():
            self._loop.unwatch(descriptor)
            os.close(descriptor)
        self._unsent.clear()
        self._attachments.remove(self)
        self._on_end()

    def _read(self) -> None:
        target = self._attachments.input
        try:
            data = os.read(self._stdin, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            # Without stdinOnce, the input stays open for the next client, and the end of the input ends the session.
            self._end_input()
            if target is None or not target.is_for_one:
                self.close()
        elif target is not None and target.is_open and not target.write(data, self.read_input):
            self._loop.unwatch(self._stdin)

    def _end_input(self) -> None:
        if self._stdin < 0:
            return
        self._loop.unwatch(self._stdin)
        target = self._attachments.input
        if target is not None and target.is_open:
            self._pass_rest(target)
            if target.is_for_one:
                target.end()
        os.close(self._stdin)
        self._stdin = -1

    def _pass_rest(self, target: ContainerInput) -> None:
        """Passes on what the client wrote before it left."""
        rest = b""
        with suppress(OSError):
            while len(rest) < _LAST_PIPE_BYTES and (data := os.read(self._stdin, _READ_BYTES)):
                rest += data
        if rest:
            target.write(rest, self.read_input)

    def _write(self, stream: str, data: bytes) -> bytes:
        """Returns what could not be written."""
        try:
            while data:
                data = data[os.write(self._outputs[stream], data) :]
        except BlockingIOError:
            return data
        except OSError:  # the client no longer reads this stream
            return b""
        return b""

    def _continue(self, stream: str) -> None:
        rest = self._write(stream, self._unsent[stream])
        if rest:
            self._unsent[stream] = rest
            self._expect_progress()
            return
        del self._unsent[stream]
        self._loop.unwatch(self._outputs[stream])
        if not self._unsent:
            if self._stalled is not None:
                self._stalled.cancel()
            self._attachments.caught_up()

    def _expect_progress(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
        self._stalled = self._loop.at(time.time() + _STALL_SECONDS, self.close)
