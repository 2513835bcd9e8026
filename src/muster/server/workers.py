"""Checks text of users in processes of their own, with limits on time and memory.

Parsing, linting and compiling what a user sends may take seconds, and a mistake in these functions may take forever.
Here it blocks neither the event loop nor a transaction. A function that is called here must be found by its name in a
module, and its arguments and result must be plain data that can be pickled.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, ParamSpec, Self, TypeAlias, TypeVar

from muster.kube.budgets import Budgets, setting_name
from muster.kube.errors import BadRequest, TooManyRequests, Unavailable
from muster.server.worker_process import LENGTH, OK, OUT_OF_MEMORY

P = ParamSpec("P")
T = TypeVar("T")

WORKERS = 2
SMALL_BYTES = 16 * 1024
"""What is smaller may be checked in the server: all checks are linear, so it takes milliseconds."""
_IDLE_SECONDS = 120.0
_WAIT_SECONDS = 120.0
_SHORTEST_LOOK = 0.05
_CPU_CLOCK = 2  # the kernel's CPUCLOCK_SCHED
_Answer: TypeAlias = tuple[str, Any, float]
"""What became of a call, its result or exception, and the seconds of CPU time it took."""
_KEPT_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV", "HOME")


class WorkerPool:
    """Use it with `async with`. Processes are started when they are needed, and end when they are idle.

    One user has one process at a time, and a limited number of calls that wait for it. On a busy machine, a call waits
    up to `wait_seconds` for the CPU time that it may take."""

    def __init__(
        self, budgets: Budgets | None = None, *, workers: int = WORKERS, wait_seconds: float = _WAIT_SECONDS
    ) -> None:
        self._budgets = budgets or Budgets()
        self._free: list[_Worker] = []
        self._slots = asyncio.Semaphore(workers)
        self._users: dict[str, asyncio.Lock] = {}
        self._waiting: Counter[str] = Counter()
        self._retiring: set[asyncio.Task[None]] = set()
        self._wait_seconds = wait_seconds
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closed = True
        free, self._free = self._free, []
        await asyncio.gather(*(worker.stop() for worker in free), *self._retiring)

    async def run(self, user: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Returns what the function returns, or raises what it raises. Raises BadRequest if it takes too long or too
        much memory, TooManyRequests if too many calls of the user wait, and Unavailable if the machine is too busy."""
        assert not kwargs, "pass all arguments by position"
        result, _ = await self.measure(user, function, *args)
        found: T = result
        return found

    async def measure(self, user: str, function: Callable[..., Any], *args: Any) -> tuple[Any, float]:
        """Returns also the seconds of CPU time that it took."""
        async with self._turn(user):
            worker = await self._worker()
            try:
                outcome, value, seconds = await self._call(worker, function, args)
            except (asyncio.IncompleteReadError, ConnectionError, EOFError, pickle.UnpicklingError):
                await worker.kill()
                raise _too_large(self._budgets) from None
            except BaseException:
                await worker.kill()
                raise
            if outcome == OUT_OF_MEMORY:
                await worker.kill()
                raise _too_large(self._budgets)
            self._release(worker)
        if outcome != OK:
            try:
                raise value
            finally:
                # A frame that keeps the exception is a cycle, and garbage with the text until the next collection.
                del value
        return value, seconds

    async def _call(self, worker: _Worker, function: Callable[..., Any], args: tuple[Any, ...]) -> _Answer:
        """The budget is CPU time: on a busy machine, a small text must not fail because its check waits for a turn."""
        budget = self._budgets.check_seconds
        give_up = time.monotonic() + budget + self._wait_seconds
        began, left = worker.cpu_seconds(), float(budget)
        call = asyncio.ensure_future(worker.call(function, args))
        try:
            while left > 0:
                if time.monotonic() >= give_up:
                    raise Unavailable("the server is too busy to check this; try again later", retry_after=budget)
                await asyncio.wait({call}, timeout=max(left, _SHORTEST_LOOK))
                if call.done():
                    return call.result()
                left = budget - (worker.cpu_seconds() - began)
        finally:
            call.cancel()
        raise _too_long(budget, "check_seconds")

    async def run_again_soon(self, user: str, function: Callable[..., T], *args: Any) -> T:
        """The same for what the server itself does again right afterwards, such as storing an object: raises BadRequest
        also if it took so long that doing it again would block the server."""
        result, seconds = await self.measure(user, function, *args)
        if seconds > self._budgets.object_check_seconds:
            raise _too_long(self._budgets.object_check_seconds, "object_check_seconds")
        found: T = result
        return found

    @asynccontextmanager
    async def _turn(self, user: str) -> AsyncIterator[None]:
        if self._closed:
            raise Unavailable("the server is shutting down")
        if self._waiting[user] >= self._budgets.user_checks:
            raise TooManyRequests(
                f"{self._budgets.user_checks} of your requests are being checked; wait for them "
                f"({setting_name('user_checks')})",
                retry_after=1,
            )
        self._waiting[user] += 1
        lock = self._users.setdefault(user, asyncio.Lock())
        try:
            async with lock, self._slots:
                yield
        finally:
            self._waiting[user] -= 1
            if not self._waiting[user]:
                del self._waiting[user]
                self._users.pop(user, None)

    async def _worker(self) -> _Worker:
        while self._free:
            worker = self._free.pop()
            if worker.is_running:
                return worker
            await worker.kill()
        return await _Worker.start(self._budgets.check_megabytes)

    def _release(self, worker: _Worker) -> None:
        self._free.append(worker)
        worker.retire_in(_IDLE_SECONDS, lambda: self._retire(worker))
        if self._closed:
            self._retire(worker)

    def _retire(self, worker: _Worker) -> None:
        if worker in self._free:
            self._free.remove(worker)
            task = asyncio.create_task(worker.stop(), name="stop an idle worker")
            self._retiring.add(task)
            task.add_done_callback(self._retiring.discard)


class _Worker:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    async def start(cls, megabytes: int) -> _Worker:
        # Nothing of the server's environment is needed, and it may contain passwords.
        environment = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
        return cls(
            await asyncio.create_subprocess_exec(
                # -P: nothing is imported from the directory in which the server was started.
                sys.executable, "-P", "-m", "muster.server.worker_process", str(megabytes),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env=environment, start_new_session=True,
            )
        )  # fmt: skip

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    def cpu_seconds(self) -> float:
        """The CPU time of the process so far. Linux has a clock for each process, whose number contains its id."""
        with suppress(OSError):  # it has just ended
            return time.clock_gettime(~self._process.pid << 3 | _CPU_CLOCK)
        return 0.0

    async def call(self, function: Callable[..., Any], args: tuple[Any, ...]) -> _Answer:
        if self._timer is not None:
            self._timer.cancel()
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        request = pickle.dumps((function.__module__, function.__qualname__, args), pickle.HIGHEST_PROTOCOL)
        stdin.write(LENGTH.pack(len(request)) + request)
        await stdin.drain()
        (length,) = LENGTH.unpack(await stdout.readexactly(LENGTH.size))
        answer: _Answer = pickle.loads(await stdout.readexactly(length))  # noqa: S301 (we wrote it)
        return answer

    def retire_in(self, seconds: float, action: Callable[[], None]) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, action)

    async def stop(self) -> None:
        """Lets it end by itself: nothing runs in it."""
        if self._timer is not None:
            self._timer.cancel()
        stdin = self._process.stdin
        assert stdin is not None
        stdin.close()
        try:
            async with asyncio.timeout(5):
                await self._process.wait()
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        with suppress(ProcessLookupError):
            self._process.kill()
        stdin = self._process.stdin
        assert stdin is not None
        stdin.close()
        await self._process.wait()


def _too_long(seconds: int, budget: str) -> BadRequest:
    return BadRequest(
        f"checking this took longer than {seconds} seconds ({setting_name(budget)}); make it smaller or simpler"
    )


def _too_large(budgets: Budgets) -> BadRequest:
    return BadRequest(
        f"checking this took more than {budgets.check_megabytes} MB of memory ({setting_name('check_megabytes')}); "
        "make it smaller or simpler"
    )
