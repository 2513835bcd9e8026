"""Runs one Pod to its end: a process of its own, which needs nobody once it has begun.

The shell around `lifecycle`: it carries out what that decides, notes it in the journal and tells the agent.
"""

from __future__ import annotations

import json
import os
import signal
import time
import traceback
from contextlib import suppress
from typing import cast

from muster.embedded.agent.attempt import Attempt, Exit
from muster.embedded.agent.bookkeeping import Books
from muster.embedded.agent.contract import POD_FILE, Arrangement, Entry, PreparedContainer, PreparedPod
from muster.embedded.agent.control_server import ControlServer
from muster.embedded.agent.lifecycle import (
    Action,
    BackOff,
    Container,
    EndPod,
    Finish,
    Order,
    Pod,
    Start,
    Stop,
    apply,
    decide,
    exited,
    wake_at,
)
from muster.embedded.agent.loop import Loop, Timer
from muster.embedded.agent.processes import Processes
from muster.embedded.agent.recovery import clear_away, restore
from muster.embedded.agent.sandbox import Base, Sandbox
from muster.embedded.agent.syscalls import adopt_orphans

CRASH_FILE = "supervisor.log"

_NOTHING = 0  # The zygote has opened /dev/null as descriptors 0, 1 and 2.
_LOOK_AT_FOLDER = 10.0
_RETRY_DISK = 1.0
_RETRY_TELLING = 0.02
_LAST_WORD_PATIENCE = 10.0
_SHUTDOWN = EndPod(0.0, "Terminated", "Pod was terminated in response to imminent node shutdown.")


class Workbench:
    """What a supervisor process keeps from one Pod to the next."""

    def __init__(self) -> None:
        self.loop = Loop((signal.SIGTERM, signal.SIGINT))
        own_namespace = os.getpid() == 1
        if not own_namespace:
            adopt_orphans()
        self.processes = Processes(own_namespace)
        self.base = Base()


def supervise(folder: str, bench: Workbench) -> bool:
    """Returns when the Pod has ended, or at once if somebody else sees to it or nothing is left to be done. False if
    this process cannot take on another Pod."""
    books = Books.open(folder)
    if books is None:
        return True
    try:
        entries = books.read()
        if (entries and entries[-1]["e"] == "finished") or not os.path.exists(f"{folder}/{POD_FILE}"):
            return True
        with open(f"{folder}/{POD_FILE}", "rb") as file:
            pod: PreparedPod = json.loads(file.read())
        books.tell_whom(pod["notify"], pod["uid"])
        supervisor = Supervisor(folder, pod, books, bench)
        supervisor.run(entries)
        return bench.loop.is_idle and supervisor.sandbox.leave()
    except Exception as error:
        # Not to be left half alive: this process ends, and what runs in the Pod first.
        bench.processes.kill_all()
        with suppress(OSError), open(f"{folder}/{CRASH_FILE}", "a") as file:
            traceback.print_exc(file=file)
        last: Entry = {"t": time.time(), "e": "finished", "phase": "Failed", "reason": "SupervisorFailed"}
        books.note({**last, "message": f"{type(error).__name__}: {error}"})
        books.write()
        books.tell(_LAST_WORD_PATIENCE)
        return False
    finally:
        bench.loop.clear()
        books.close()


class Supervisor:
    def __init__(self, folder: str, pod: PreparedPod, books: Books, bench: Workbench) -> None:
        self.pod = pod
        self.nothing = _NOTHING
        self.attempts: dict[str, Attempt] = {}
        self._folder = folder
        self._books = books
        self._containers: dict[str, PreparedContainer] = {c["name"]: c for c in pod["containers"]}
        self._state = _state_of(pod)
        self._is_finished = False
        self._news = False
        self._wake: Timer | None = None
        self._retry: Timer | None = None
        self.loop = bench.loop
        self.loop.on_signal = self._on_signal
        self.processes = bench.processes
        self.sandbox = Sandbox(pod, folder, bench.base)

    def run(self, entries: list[Entry]) -> None:
        now = time.time()
        if entries:
            clear_away(self.pod, self.sandbox, _NOTHING)
            for lost in restore(self._state, entries, now):
                self._books.note(lost)
        control = ControlServer(self._folder, self.loop, self.attempts, self._stop)
        # In the machine's /proc, `self` leads to the number that the machine knows this process by.
        self._books.note({"t": now, "e": "supervised", "pid": int(os.readlink("/proc/self"))})
        try:
            self._go_on()
            self.loop.at(now + _LOOK_AT_FOLDER, self._watch_folder)
            while not self._is_finished:
                self.loop.run_once()
                self._go_on()
        finally:
            control.close()

    def note(self, attempt: Attempt, event: str, **details: object) -> None:
        entry = {"t": time.time(), "e": event, "c": attempt.name, "a": attempt.number, **details}
        self._books.note(cast(Entry, entry))
        self._news = True

    def is_alone(self, attempt: Attempt) -> bool:
        return all(other is attempt for other in self.attempts.values())

    def has_passed(self, attempt: Attempt) -> None:
        self._state[attempt.name].passed = True

    def has_to_go(self, attempt: Attempt, reason: str, message: str, grace: float | None) -> None:
        self.note(attempt, "killing", reason=reason, message=message)
        self._stop_attempt(attempt, time.time() + (self.pod["grace"] if grace is None else grace))

    def has_ended(self, attempt: Attempt, outcome: Exit) -> None:
        self.attempts.pop(attempt.name, None)
        details = {name: value for name, value in outcome._asdict().items() if value or name == "code"}
        self.note(attempt, "exited", **details)
        exited(self._state, attempt.name, outcome.code, time.time())

    def _go_on(self) -> None:
        """Does what is to be done, until there is nothing but to wait."""
        now = time.time()
        while not self._is_finished and (actions := decide(self._state, now)):
            for action in actions:
                if not self._carry_out(action, now):
                    break
            else:
                continue
            break
        self._publish()
        when = wake_at(self._state)
        if self._wake is not None:
            self._wake.cancel()
        self._wake = self.loop.at(when, _nothing_else) if when is not None else None

    def _carry_out(self, action: Action, now: float) -> bool:
        """False if it has to wait, for room on the disk."""
        if isinstance(action, Start):
            return self._start(action, now)
        if isinstance(action, Finish):
            return self._finish(action)
        apply(self._state, action, now)
        if isinstance(action, BackOff):
            name, attempt, until = action
            self._books.note({"t": now, "e": "backoff", "c": name, "a": attempt, "until": until})
            self._news = True
        elif isinstance(action, Stop):
            self._ask_to_end(self.attempts[action.container], action.until)
        return True

    def _start(self, action: Start, now: float) -> bool:
        starting: Entry = {"t": now, "e": "starting", "c": action.container, "a": action.attempt}
        self._books.note(starting)
        if not self._books.write():
            self._books.take_back(starting)
            return False
        apply(self._state, action, now)
        attempt = Attempt(self, self._containers[action.container], action.attempt)
        self.attempts[action.container] = attempt
        attempt.start()
        return True

    def _ask_to_end(self, attempt: Attempt, until: float) -> None:
        ending = self._state.ending
        reason = (ending.reason if ending else "") or "Killing"
        self.note(attempt, "killing", reason=reason, message=f"Stopping container {attempt.name}")
        attempt.stop(until)

    def _stop_attempt(self, attempt: Attempt, until: float) -> None:
        apply(self._state, Stop(attempt.name, until), time.time())
        attempt.stop(until)

    def _finish(self, action: Finish) -> bool:
        self._end_everything()
        entry: Entry = {"t": time.time(), "e": "finished", "phase": action.phase}
        if action.reason:
            entry["reason"], entry["message"] = action.reason, action.message
        self._books.note(entry)
        if not self._books.write():
            self._books.take_back(entry)
            return False
        self._is_finished = True
        self._books.tell(_LAST_WORD_PATIENCE)
        return True

    def _publish(self) -> None:
        if self._is_finished:
            return
        if not self._books.write():
            self._try_again(_RETRY_DISK)
        elif self._news:
            self._news = False
            if not self._books.tell():
                self._news = True
                self._try_again(_RETRY_TELLING)

    def _try_again(self, seconds: float) -> None:
        if self._retry is not None:
            self._retry.cancel()
        self._retry = self.loop.at(time.time() + seconds, _nothing_else)

    def _watch_folder(self) -> None:
        """Whoever removes it cannot want the Pod, nor could anybody ever end it."""
        if self._books.is_removed:
            self._stop(None, "FolderRemoved", "The folder of the Pod was removed while it ran")
        else:
            self.loop.at(time.time() + _LOOK_AT_FOLDER, self._watch_folder)

    def _end_everything(self) -> None:
        """Whoever has fled from the containers."""
        pause = 0.001
        while self.loop.has_children:
            self.processes.kill_all()
            time.sleep(pause)
            pause = min(2 * pause, 0.1)
            self.loop.reap()

    def _stop(self, grace: float | None, reason: str, message: str) -> None:
        apply(self._state, EndPod(self.pod["grace"] if grace is None else grace, reason, message), time.time())

    def _on_signal(self, _number: int) -> None:
        apply(self._state, _SHUTDOWN._replace(grace=self.pod["grace"]), time.time())


def _state_of(pod: PreparedPod) -> Pod:
    return Pod(
        [Container(container["name"], container["role"]) for container in pod["containers"]],
        pod["restartPolicy"],
        grace=pod["grace"],
        deadline=pod.get("deadline"),
        backoff_base=pod["backoffBase"],
        backoff_max=pod["backoffMax"],
        order=_order_of(pod.get("arrangement")),
    )


def _order_of(arrangement: Arrangement | None) -> Order | None:
    if not arrangement:
        return None
    return Order(
        frozenset(arrangement["leading"]),
        arrangement.get("after") or {},
        arrangement.get("retries") or 0,
        arrangement.get("retrySeconds") or 0.0,
    )


def _nothing_else() -> None:
    """A timer whose only purpose is that the loop comes round."""
