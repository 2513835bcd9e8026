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
    """A Pod's journal, which one process appends to: it has the lock from `open` to `close`."""

    def __init__(self, journal: int) -> None:
        self._journal = journal
        self._pending: list[JournalEntry] = []
        self._listener, self._uid = "", b""
        self._socket: socket.socket | None = None

    @classmethod
    def open(cls, folder: str) -> JournalWriter | None:
        """None if somebody else has the lock, or the folder is gone."""
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
        """Whether somebody has removed the journal: nobody will ever read it."""
        return os.fstat(self._journal).st_nlink == 0

    def set_listener(self, listener: str, uid: str) -> None:
        self._listener, self._uid = listener, uid.encode()

    def read(self) -> list[JournalEntry]:
        """What has been written so far. Half a line, of a supervisor that was killed, is cut off."""
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
        """What could not be written, and is not going to happen."""
        self._pending.remove(entry)

    def write(self) -> bool:
        """False if the disk is full: to be tried again. (No sync: what the kernel has got survives any process.)"""
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
        """Hints to the agent that there is something to read. Nobody has to listen, so False only means that somebody
        does who is too busy to take it: to be tried again."""
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
            # No agent now, or another one, which has another socket of that name.
            if self._socket is not None:
                self._socket.close()
                self._socket = None
            return self.notify(patience) if had_connected else True
        return True


@contextmanager
def short_socket_path(path: str) -> Iterator[str]:
    """A path for the same socket that is short enough for the kernel, which takes 107 bytes."""
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
