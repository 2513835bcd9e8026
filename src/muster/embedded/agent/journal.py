"""A Pod's journal: read as it grows, written to only when no supervisor does, and what its entries add up to."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field

import orjson

from muster.embedded.agent.contract import JOURNAL, Entry


class Journal:
    """Reads on from where it stopped. A line that is not whole yet is left for the next time."""

    __slots__ = ("_offset", "_path")

    def __init__(self, folder: str) -> None:
        self._path = f"{folder}/{JOURNAL}"
        self._offset = 0

    def read(self) -> list[Entry]:
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


def append(folder: str, entries: Iterable[Entry]) -> None:
    """Only for who holds the Pod's lock."""
    descriptor = os.open(f"{folder}/{JOURNAL}", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        end = os.lseek(descriptor, 0, os.SEEK_END)
        # A supervisor that was killed in the middle of a line must not spoil ours.
        start = b"\n" if end and os.pread(descriptor, 1, end - 1) != b"\n" else b""
        os.write(descriptor, start + b"".join(orjson.dumps(entry) + b"\n" for entry in entries))
    finally:
        os.close(descriptor)


@dataclass(slots=True)
class Exit:
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
    """The latest one that was started, or was to be."""
    started: float = 0.0
    running: bool = False
    pid: int = 0
    startup_passed: bool = False
    ready: bool | None = None
    """What the readiness probe said last."""
    exit: Exit | None = None
    """Of the latest attempt, if that has ended."""
    last: Exit | None = None
    """Of the attempt before."""
    backoff_from: float = 0.0
    backoff_until: float = 0.0
    """Not 0 while the container waits for its next attempt."""


@dataclass(slots=True)
class Progress:
    """What a Pod has come to, by its journal."""

    containers: dict[str, ContainerProgress] = field(default_factory=dict)
    supervised: float = 0.0
    supervisor: int = 0
    finished: Entry | None = None

    def of(self, container: str) -> ContainerProgress:
        found = self.containers.get(container)
        if found is None:
            found = self.containers[container] = ContainerProgress()
        return found

    def apply(self, entry: Entry) -> None:
        kind, now = entry.get("e"), entry.get("t", 0.0)
        if kind == "supervised":
            self.supervised = self.supervised or now
            self.supervisor = entry.get("pid", 0)
        elif kind == "finished":
            self.finished = entry
            for name, attempt in self.unended():
                # Its supervisor has failed. It has gone with that, and nobody knows how.
                lost: Entry = {"t": now, "e": "exited", "c": name, "a": attempt, "code": 137}
                _apply_to_container(self.of(name), "exited", now, {**lost, "reason": "ContainerStatusUnknown"})
        elif "c" in entry:
            _apply_to_container(self.of(entry["c"]), kind or "", now, entry)

    def unended(self) -> list[tuple[str, int]]:
        """(container, attempt) of what is running, as far as the journal knows."""
        return [(name, c.attempt) for name, c in self.containers.items() if c.running]


def progress_of(entries: Iterable[Entry]) -> Progress:
    progress = Progress()
    for entry in entries:
        progress.apply(entry)
    return progress


def _apply_to_container(c: ContainerProgress, kind: str, now: float, entry: Entry) -> None:
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
        c.exit = Exit(
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


def _parse(line: bytes) -> Entry | None:
    try:
        entry: Entry = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None  # half a line of a supervisor that was killed while writing it
    return entry
