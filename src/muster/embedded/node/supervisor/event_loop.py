"""The supervisor's event loop: descriptors, timers and child processes in one thread. It does not use asyncio, whose
import alone costs more than a whole Pod may."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from heapq import heappop, heappush

READ = select.POLLIN
WRITE = select.POLLOUT

_LONGEST_WAIT = 60.0


class Timer:
    __slots__ = ("callback", "when")

    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        self.when = when
        self.callback: Callable[[], None] | None = callback

    def __lt__(self, other: Timer) -> bool:
        return self.when < other.when

    def cancel(self) -> None:
        self.callback = None


class EventLoop:
    """One per process: it handles the given signals and SIGCHLD."""

    def __init__(self, signals: tuple[int, ...] = ()) -> None:
        self._poll = select.poll()
        self._watched: dict[int, Callable[[], None]] = {}
        self._timers: list[Timer] = []
        self._children: dict[int, Callable[[int], None]] = {}
        self.on_signal: Callable[[int], None] = _ignore_signal
        self.has_children = False
        """Whether there were child processes, including adopted orphans, at the last check."""
        self._woken, wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, *signals):
            signal.signal(number, _handled_by_wakeup_descriptor)
        self._poll.register(self._woken, READ)

    def watch(self, descriptor: int, callback: Callable[[], None], events: int = READ) -> None:
        """Calls `callback` while the descriptor is readable (or writable), or the other side has closed."""
        self._watched[descriptor] = callback
        self._poll.register(descriptor, events)

    def unwatch(self, descriptor: int) -> None:
        if self._watched.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def at(self, when: float, callback: Callable[[], None]) -> Timer:
        """`when` is in seconds since the epoch. Setting the clock later does not change the delay."""
        timer = Timer(time.monotonic() + when - time.time(), callback)
        heappush(self._timers, timer)
        return timer

    def on_exit(self, pid: int, callback: Callable[[int], None]) -> None:
        """`callback` gets the status that `waitpid` returns."""
        self._children[pid] = callback
        self.has_children = True

    @property
    def is_idle(self) -> bool:
        """Whether nothing is waited for."""
        return not self._watched and not self._children and not self.has_children

    def clear(self) -> None:
        self._timers.clear()
        self.on_signal = _ignore_signal

    def run_once(self) -> None:
        """Waits for an event and calls its callbacks."""
        for descriptor, _ in self._poll.poll(self._poll_timeout()):
            if descriptor == self._woken:
                self._handle_signals()
            elif (callback := self._watched.get(descriptor)) is not None:
                callback()
        now = time.monotonic()
        while self._timers and self._timers[0].when <= now:
            due = heappop(self._timers).callback
            if due is not None:
                due()

    def reap(self) -> None:
        """Calls back for every child that has ended. Adopted orphans are only reaped."""
        ended = []
        self.has_children = True
        try:
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                ended.append(found)
        except ChildProcessError:
            self.has_children = False
        for pid, status in ended:
            callback = self._children.pop(pid, None)
            if callback is not None:
                callback(status)

    def _handle_signals(self) -> None:
        with suppress(BlockingIOError):
            for number in set(os.read(self._woken, 4096)):
                if number != signal.SIGCHLD:
                    self.on_signal(number)
        self.reap()

    def _poll_timeout(self) -> int:
        while self._timers and self._timers[0].callback is None:
            heappop(self._timers)
        wait = _LONGEST_WAIT
        if self._timers:
            wait = max(0.0, min(wait, self._timers[0].when - time.monotonic()))
        return int(wait * 1000) + 1


def _ignore_signal(number: int) -> None:
    pass


def _handled_by_wakeup_descriptor(number: int, frame: object) -> None:
    pass
