"""One server per data directory: a lock that dies with the process that holds it."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path


class DirectoryInUse(RuntimeError):
    """Another server works in this directory; `pid` names it where it is known."""

    def __init__(self, directory: Path, pid: int | None) -> None:
        who = f"process {pid}" if pid else "another process"
        super().__init__(
            f"{directory} is in use by {who}, a Muster server that still runs; "
            "stop it with `muster down`, or choose another directory with MUSTER_HOME"
        )
        self.directory = directory
        self.pid = pid


class DirectoryLock:
    """Held from construction until `release`, or until the process ends, however it ends."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / "lock"
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._file, 32, 0).strip()
            os.close(self._file)
            raise DirectoryInUse(directory, int(holder) if holder.isdigit() else None) from None
        # The note only makes another server's error message better; a full disk is no reason to do without the lock.
        with suppress(OSError):
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
