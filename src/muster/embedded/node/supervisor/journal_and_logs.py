"""What a supervisor writes for the agent: the Pod's journal, and the logs of its containers.

The journal collects entries, writes them in one call, and then notifies the agent. It is also the Pod's lock (see
`contract`).

A log has the format of Kubernetes' container runtimes: `TIME stdout F text`. A line that is longer than 16 KiB, or has
no end, is written in parts: `P` means that it continues. `<N>.log` is the current file of attempt N; `<N>.log.1`, `.2`
... are older ones. `<N>.log.left-out` says how many bytes were dropped before the oldest file, and how much is kept:
`BYTES FILE-BYTES FILES`.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from muster.embedded.node.supervisor.contract import JOURNAL, JournalEntry, PreparedPod

_MAX_SOCKET_PATH = 107
_dump = json.JSONEncoder(separators=(",", ":")).encode  # json.dumps would create an encoder for each entry


class JournalWriter:
    """A Pod's journal and its lock, which is held from `open` to `close`."""

    def __init__(self, journal: int) -> None:
        self._journal = journal
        self._pending: list[JournalEntry] = []
        self._listener, self._uid = "", b""
        self._socket: socket.socket | None = None

    @classmethod
    def open(cls, folder: str) -> JournalWriter | None:
        """Returns None if another process holds the lock or the folder is missing."""
        try:
            journal = os.open(f"{folder}/{JOURNAL}", os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(journal)
            return None
        return cls(journal)

    def close(self) -> None:
        os.close(self._journal)
        if self._socket is not None:
            self._socket.close()

    @property
    def is_removed(self) -> bool:
        """Whether the journal was removed, so that no process will ever read it."""
        return os.fstat(self._journal).st_nlink == 0

    def set_listener(self, listener: str, uid: str) -> None:
        self._listener, self._uid = listener, uid.encode()

    def read(self) -> list[JournalEntry]:
        """Returns all entries. Cuts off an incomplete line of a supervisor that was killed."""
        size = os.fstat(self._journal).st_size
        if not size:
            return []
        text = os.pread(self._journal, size, 0)
        end = text.rfind(b"\n") + 1
        if end < len(text):
            os.ftruncate(self._journal, end)
        return [entry for line in text[:end].splitlines() if (entry := _parse(line)) is not None]

    def add(self, entry: JournalEntry) -> None:
        self._pending.append(entry)

    def discard(self, entry: JournalEntry) -> None:
        """Removes an entry that could not be written and will not happen."""
        self._pending.remove(entry)

    def write(self) -> bool:
        """Writes the collected entries. Returns False if the disk is full; then call it again later. (No sync is
        needed: data in the kernel survives any process.)"""
        if not self._pending:
            return True
        text = b"".join([_dump(entry).encode() + b"\n" for entry in self._pending])
        try:
            written = os.write(self._journal, text)
            if written < len(text):
                os.ftruncate(self._journal, os.fstat(self._journal).st_size - written)
                return False
        except OSError:
            return False
        self._pending.clear()
        return True

    def notify(self, patience: float = 0.0, *, finished: bool = False) -> bool:
        """Tells the agent that there is something to read, or that the Pod has finished. Returns False if an agent
        listens but is too busy; then call it again later. It does not matter if no agent listens."""
        had_connected = self._socket is not None
        try:
            if self._socket is None:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                with short_socket_path(self._listener) as path:
                    self._socket.connect(path)
            self._socket.settimeout(patience)
            self._socket.send(self._uid + b" finished" if finished else self._uid)
        except (BlockingIOError, TimeoutError):
            return False
        except OSError:
            # There is no agent now, or another one with a new socket.
            if self._socket is not None:
                self._socket.close()
                self._socket = None
            return self.notify(patience, finished=finished) if had_connected else True
        return True


@contextmanager
def short_socket_path(path: str) -> Iterator[str]:
    """Yields a path to the same socket that fits into the kernel's limit of 107 bytes."""
    if len(os.fsencode(path)) <= _MAX_SOCKET_PATH:
        yield path
        return
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{os.path.basename(path)}"
    finally:
        os.close(folder)


def _parse(line: bytes) -> JournalEntry | None:
    try:
        entry: JournalEntry = json.loads(line)
    except ValueError:
        return None
    return entry


PART_BYTES = 16384
"""Longer lines are written in parts."""

DROPPED_SUFFIX = ".left-out"
"""The suffix of the file that says how much of a log was dropped."""

_MOST_ATTEMPTS = 100
_TAIL_BYTES, _TAIL_LINES = 2048, 80


class LogWriter:
    """The log of one attempt, to which both of its streams are written. Never raises: what does not fit on the disk is
    dropped, and the log says so as soon as it can. The first attempt has no file before its first line: many Pods write
    nothing, and every file and folder takes the disk some time."""

    def __init__(
        self, folder: str, attempt: int, max_bytes: int, files: int, make_folders: Callable[[], None] | None = None
    ) -> None:
        """`make_folders` creates the folder and those of the other containers, if given."""
        self.path = f"{folder}/{attempt}.log"
        self._make_folders = make_folders
        self._max_bytes, self._older = max(max_bytes, 1), max(files - 1, 0)
        self._descriptor = -1
        self._size = 0
        self._lost = 0
        self._dropped = 0
        if attempt:
            drop_attempts(folder, self._max_bytes * (self._older + 1))
            with suppress(OSError):
                self._open()

    def write(self, lines: bytes) -> None:
        """Takes complete lines only, so that a file never ends within a line."""
        try:
            if self._descriptor < 0:
                self._open()
            if self._size and self._size + len(lines) > self._max_bytes:
                self._rotate()
            if self._lost:
                when = format_timestamp(time.time_ns())
                note = f"{when} stderr F [{self._lost} bytes of this log could not be written]\n"
                lines = note.encode() + lines
            self._append(lines)
            self._lost = 0
        except OSError:
            self._lost += len(lines)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> None:
        if self._make_folders is not None:
            self._make_folders()
            self._make_folders = None
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            self._descriptor = os.open(self.path, flags, 0o640)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            self._descriptor = os.open(self.path, flags, 0o640)
        self._size = os.fstat(self._descriptor).st_size

    def _append(self, lines: bytes) -> None:
        written = os.write(self._descriptor, lines)
        if written < len(lines):
            # The disk is full. Half a line would corrupt the next one.
            os.ftruncate(self._descriptor, self._size)
            raise OSError
        self._size += written

    def _rotate(self) -> None:
        self.close()
        self._record_drop(f"{self.path}.{self._older}" if self._older else self.path)
        for number in range(self._older, 0, -1):
            newer = self.path if number == 1 else f"{self.path}.{number - 1}"
            with suppress(FileNotFoundError):
                os.replace(newer, f"{self.path}.{number}")
        if not self._older:
            os.unlink(self.path)
        self._open()

    def _record_drop(self, oldest: str) -> None:
        """Records what will be dropped before it is, so that a reader cannot miss it."""
        with suppress(OSError):  # usually the oldest file does not exist yet
            self._dropped += os.stat(oldest).st_size
            note = f"{self.path}{DROPPED_SUFFIX}"
            with open(f"{note}.new", "w") as file:
                file.write(f"{self._dropped} {self._max_bytes} {self._older + 1}\n")
            os.replace(f"{note}.new", note)


def make_log_folders(pod: PreparedPod) -> None:
    """Creates the folders of all containers, so that those without output are known, too, and the links beside them."""
    folders = [container["logDir"] for container in pod["containers"]]
    for folder in folders:
        os.makedirs(folder, exist_ok=True)
    for name, target in (pod.get("logLinks") or {}).items():
        with suppress(FileExistsError):
            os.symlink(target, f"{os.path.dirname(folders[0])}/{name}")


def drop_attempts(folder: str, most_bytes: int) -> None:
    """Removes the logs of the oldest attempts of a container until the rest has at most so many bytes. A container may
    restart again and again."""
    files: dict[int, dict[str, int]] = {}
    with suppress(OSError):
        for name in os.listdir(folder):
            attempt = name.partition(".")[0]
            if attempt.isdigit():
                files.setdefault(int(attempt), {})[name] = os.stat(f"{folder}/{name}").st_size
        for oldest in sorted(files):
            if len(files) <= _MOST_ATTEMPTS and sum(sum(sizes.values()) for sizes in files.values()) <= most_bytes:
                return
            for name in files.pop(oldest):
                os.unlink(f"{folder}/{name}")


class LogStream:
    """stdout or stderr of a container: splits the output into lines."""

    __slots__ = ("_log", "_rest", "name")

    def __init__(self, log: LogWriter, name: str) -> None:
        self._log = log
        self.name = name
        self._rest = b""

    def feed(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        end = data.rfind(b"\n") + 1
        rest = data[end:]
        whole = f"{format_timestamp(time.time_ns())} {self.name} F ".encode()
        if _has_long_line(data, end):
            lines = _split_long_lines(data[:end], whole)
        elif end:
            lines = whole + data[: end - 1].replace(b"\n", b"\n" + whole) + b"\n"
        else:
            lines = b""
        if len(rest) >= PART_BYTES:
            cut = len(rest) - len(rest) % PART_BYTES
            lines += _split_line(rest[:cut], whole)
            rest = rest[cut:]
        self._rest = rest
        if lines:
            self._log.write(lines)

    def end(self) -> None:
        """Writes the last line if it has no end."""
        if self._rest:
            self._log.write(f"{format_timestamp(time.time_ns())} {self.name} P ".encode() + self._rest + b"\n")
            self._rest = b""


def format_timestamp(nanoseconds: int) -> str:
    """Formats a time as RFC 3339 with nanoseconds."""
    global _second, _text
    second, fraction = divmod(nanoseconds, 1_000_000_000)
    if second != _second:
        t = time.gmtime(second)
        _second, _text = second, f"{t[0]:04}-{t[1]:02}-{t[2]:02}T{t[3]:02}:{t[4]:02}:{t[5]:02}"
    return f"{_text}.{fraction:09}Z"


def read_tail(path: str) -> str:
    """Returns the end of a container's output for a termination message: at most 80 lines and 2048 bytes."""
    texts = []
    for line in [*_last_lines(f"{path}.1"), *_last_lines(path)]:
        _, _, rest = line.partition(b" ")
        _, _, rest = rest.partition(b" ")
        kind, _, text = rest.partition(b" ")
        texts.append(text if kind == b"P" else text + b"\n")
    kept = b"".join(texts).splitlines(keepends=True)[-_TAIL_LINES:]
    return b"".join(kept)[-_TAIL_BYTES:].decode("utf-8", "replace")


def _last_lines(path: str) -> list[bytes]:
    try:
        with open(path, "rb") as file:
            start = max(0, os.fstat(file.fileno()).st_size - 4 * PART_BYTES)
            file.seek(start)
            return file.read().split(b"\n")[1 if start else 0 : -1]
    except OSError:
        return []


_second = -1
_text = ""


def _has_long_line(data: bytes, end: int) -> bool:
    """Whether a line before `end` is over the limit. Checks only a few positions."""
    start = 0
    while end - start > PART_BYTES:
        last = data.rfind(b"\n", start, start + PART_BYTES + 1)
        if last < 0:
            return True
        start = last + 1
    return False


def _split_long_lines(data: bytes, whole: bytes) -> bytes:
    pieces = []
    for line in data[:-1].split(b"\n"):
        cut = 0
        if len(line) > PART_BYTES:
            cut = (len(line) - 1) // PART_BYTES * PART_BYTES
            pieces.append(_split_line(line[:cut], whole))
        pieces.append(b"%b%b\n" % (whole, line[cut:]))
    return b"".join(pieces)


def _split_line(data: bytes, whole: bytes) -> bytes:
    part = whole[:-2] + b"P "
    return b"".join(b"%b%b\n" % (part, data[i : i + PART_BYTES]) for i in range(0, len(data), PART_BYTES))
