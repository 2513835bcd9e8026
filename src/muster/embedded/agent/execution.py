"""A command inside a container that runs: `kubectl exec`."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import termios
from collections.abc import AsyncIterator, Sequence

from muster.embedded.agent.contract import Request
from muster.embedded.agent.control import Control, SupervisorGone
from muster.kube.errors import BadRequest, Unavailable

_CHUNK = 1 << 16


class Execution:
    """Implements `kube.cluster.Process`. Output is read only as fast as it is asked for."""

    def __init__(self, control: Control, pid: int, outputs: dict[int, int], stdin: int, terminal: int) -> None:
        self.pid = pid
        self._control = control
        self._outputs = outputs
        """1 for stdout, 2 for stderr -> a descriptor to read from."""
        self._stdin = stdin
        self._terminal = terminal
        self._closed = False
        self._code = asyncio.ensure_future(self._await_code())

    @classmethod
    async def start(cls, folder: str, container: str, command: Sequence[str], *, stdin: bool, tty: bool) -> Execution:
        if not command:
            raise BadRequest("you must specify at least one command for the container")
        request: Request = {"op": "exec", "container": container, "argv": list(command), "cwd": "", "tty": tty}
        request["env"] = {"TERM": "xterm"} if tty else {}
        ends = _Ends(stdin, tty)
        try:
            control = await Control.ask(folder, request, ends.theirs)
            try:
                answer = await control.answer()
                if "error" in answer:
                    raise BadRequest(f"cannot run {command[0]} in container {container}: {answer['error']}")
            except BaseException:
                control.close()
                raise
        except SupervisorGone:
            ends.close_ours()
            raise Unavailable(f"container {container} is not running") from None
        except BaseException:
            ends.close_ours()
            raise
        finally:
            ends.close_theirs()
        return cls(control, answer.get("pid", 0), ends.outputs, ends.stdin, ends.terminal)

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        loop = asyncio.get_running_loop()
        ready: asyncio.Event = asyncio.Event()
        for descriptor in self._outputs.values():
            loop.add_reader(descriptor, ready.set)
        try:
            while self._outputs:
                ready.clear()
                got = False
                for stream, descriptor in list(self._outputs.items()):
                    try:
                        data = os.read(descriptor, _CHUNK)
                    except BlockingIOError:
                        continue
                    except OSError:  # a terminal whose other end is closed
                        data = b""
                    if data:
                        got = True
                        yield stream, data
                    else:
                        loop.remove_reader(descriptor)
                        del self._outputs[stream]
                        if descriptor != self._terminal:
                            os.close(descriptor)
                if self._outputs and not got:
                    await ready.wait()
        finally:
            for descriptor in self._outputs.values():
                loop.remove_reader(descriptor)

    async def write(self, data: bytes) -> None:
        if self._stdin < 0:
            return
        if not data:
            if self._stdin == self._terminal:
                data = b"\x04"  # end of file, as a terminal says it
            else:
                self._close_stdin()
                return
        loop = asyncio.get_running_loop()
        view = memoryview(data)
        while view and self._stdin >= 0:
            try:
                view = view[os.write(self._stdin, view) :]
            except BlockingIOError:
                writable = loop.create_future()
                loop.add_writer(self._stdin, _done, writable)
                try:
                    await writable
                finally:
                    loop.remove_writer(self._stdin)
            except OSError:  # nobody reads any more
                self._close_stdin()

    async def resize(self, rows: int, columns: int) -> None:
        if self._terminal >= 0:
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def wait(self) -> int:
        return await asyncio.shield(self._code)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._control.close()
        if not self._code.done():
            self._code.cancel()
            await asyncio.gather(self._code, return_exceptions=True)
        terminal, self._terminal = self._terminal, -1
        if self._stdin != terminal:
            self._close_stdin()
        self._stdin = -1
        loop = asyncio.get_running_loop()
        for descriptor in {*self._outputs.values(), *([terminal] if terminal >= 0 else [])}:
            loop.remove_reader(descriptor)
            os.close(descriptor)
        self._outputs.clear()

    def _close_stdin(self) -> None:
        if self._stdin >= 0 and self._stdin != self._terminal:
            os.close(self._stdin)
        self._stdin = -1

    async def _await_code(self) -> int:
        try:
            answer = await self._control.answer()
        except SupervisorGone:
            return 137  # the Pod has ended, and everything in it
        return answer.get("code", 137)


class _Ends:
    """The pipes (or the terminal) between us and the command: our ends, and theirs."""

    def __init__(self, stdin: bool, tty: bool) -> None:
        self.outputs: dict[int, int] = {}
        self.stdin = self.terminal = -1
        self.theirs: list[int] = []
        if tty:
            self.terminal, slave = os.openpty()
            os.set_blocking(self.terminal, False)
            self.outputs = {1: self.terminal}
            self.stdin = self.terminal if stdin else -1
            self.theirs = [slave, slave, slave]
            return
        if stdin:
            theirs, self.stdin = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(self.stdin, False)
        else:
            theirs = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self.theirs.append(theirs)
        for stream in (1, 2):
            ours, theirs = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(ours, False)
            self.outputs[stream] = ours
            self.theirs.append(theirs)

    def close_theirs(self) -> None:
        for descriptor in set(self.theirs):
            os.close(descriptor)

    def close_ours(self) -> None:
        for descriptor in {*self.outputs.values(), self.stdin, self.terminal} - {-1}:
            os.close(descriptor)


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
