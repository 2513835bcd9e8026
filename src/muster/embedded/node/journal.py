"""A Pod's journal as the agent reads it, and the lock that decides who may run the Pod.

A Pod never runs twice, whichever process is killed at whichever moment. The order of writes guarantees it:

1. The Pod's file (pod.json) is complete before a supervisor is requested, and is never written again.
2. A supervisor takes the lock before it reads the journal, and records `starting` before it starts a container. It
   exits at once if the lock is taken or the journal says `finished`. So any number of supervisors can be requested,
   and one runs.
3. The folder stays until the Pod's object is deleted, or its status says that the Pod has ended. Until then there is a
   journal, and a Pod with a journal is never started again; nor is a Pod that has ended.
4. Before a folder is removed, the process that removes it holds the lock and has read, or written, `finished` in the
   journal; then the Pod's file is removed first. A supervisor that starts late finds the one or misses the other.
5. A status is written after the journal entry it reports. A Pod whose status reports a container, and which has no
   folder, has lost its folder: it fails instead of running a second time.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import orjson

from muster.embedded.node.supervisor.contract import JOURNAL, LOCK, POD_FILE, JournalEntry
from muster.kube.objects import Object, status_of


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
