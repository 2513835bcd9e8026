"""The supervisor's side of a Pod's journal: collects entries, writes them in one call, and then notifies the agent.

The journal is also the Pod's lock (see `contract`).
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from muster.embedded.node.supervisor.contract import JOURNAL, JournalEntry

_MAX_SOCKET_PATH = 107


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
        text = b"".join([json.dumps(entry, separators=(",", ":")).encode() + b"\n" for entry in self._pending])
        try:
            written = os.write(self._journal, text)
            if written < len(text):
                os.ftruncate(self._journal, os.fstat(self._journal).st_size - written)
                return False
        except OSError:
            return False
        self._pending.clear()
        return True

    def notify(self, patience: float = 0.0) -> bool:
        """Tells the agent that there is something to read. Returns False if an agent listens but is too busy; then call
        it again later. It does not matter if no agent listens."""
        had_connected = self._socket is not None
        try:
            if self._socket is None:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                with short_socket_path(self._listener) as path:
                    self._socket.connect(path)
            self._socket.settimeout(patience)
            self._socket.send(self._uid)
        except (BlockingIOError, TimeoutError):
            return False
        except OSError:
            # There is no agent now, or another one with a new socket.
            if self._socket is not None:
                self._socket.close()
                self._socket = None
            return self.notify(patience) if had_connected else True
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
