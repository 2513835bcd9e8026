"""The processes of a Pod, found by looking: whatever they fork, whichever session they hide in."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from muster.embedded.agent.syscalls import new_filesystem

_PAGE = os.sysconf("SC_PAGE_SIZE")
_KILL_TRIES = 500
_MEMORY_FIELDS = (b"Pss_Anon:", b"Pss_Shmem:")


class Processes:
    """Those below this process. In a process namespace of our own, that is all there are."""

    def __init__(self, own_namespace: bool) -> None:
        self._own_namespace = own_namespace
        self._proc = -1

    @property
    def proc(self) -> int:
        """A /proc that numbers processes as `os.kill` does here."""
        if self._proc < 0:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
            if self._own_namespace:
                mount = new_filesystem(b"proc")
                self._proc = os.open(".", flags, dir_fd=mount)
                os.close(mount)
            else:
                self._proc = os.open("/proc", flags)
        return self._proc

    def all(self) -> Iterable[tuple[int, int]]:
        """(process, parent) of what is alive."""
        for name in os.listdir(self.proc):
            if name.isdigit():
                # The name in parentheses may hold anything, parentheses included.
                fields = self._read(f"{name}/stat").rpartition(b")")[2].split()
                if len(fields) > 1 and fields[0] not in (b"Z", b"X"):
                    yield int(name), int(fields[1])

    def parents(self) -> dict[int, int]:
        """Every living descendant -> its parent."""
        parents = dict(self.all())
        us = os.getpid()
        if self._own_namespace:
            parents.pop(us, None)
            return parents
        return {pid: parent for pid, parent in parents.items() if us in _ancestors(pid, parents)}

    def kill_all(self) -> None:
        """Where they have a namespace to themselves, at one blow, which no fork escapes."""
        if self._own_namespace:
            with suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        else:
            send(self.parents(), signal.SIGKILL)

    def owned(self, is_marked: Callable[[int], bool], roots: Iterable[int]) -> list[int]:
        """The living processes that are marked as a container's, or below one that is, or below one of `roots`."""
        parents = self.parents()
        below = set(roots)
        for pid in parents:
            if pid not in below and is_marked(pid):
                below.add(pid)
        return [pid for pid in parents if pid in below or not below.isdisjoint(_ancestors(pid, parents))]

    def is_in_mounts(self, pid: int, inode: int) -> bool:
        """Whether a process is in the mount namespace with this inode."""
        with suppress(OSError):
            return os.stat(f"{pid}/ns/mnt", dir_fd=self.proc).st_ino == inode
        return False

    def variables(self, pid: int) -> list[bytes]:
        """The environment that a process was started with, as `NAME=value`."""
        return self._read(f"{pid}/environ").split(b"\0")

    def memory(self, pids: Iterable[int], limit: int) -> int:
        """What they use, in bytes. Shared pages are told apart, which is work, only if it could be over `limit`."""
        pids = list(pids)
        resident = 0
        for pid in pids:
            fields = self._read(f"{pid}/statm").split()
            resident += int(fields[1]) * _PAGE if len(fields) > 1 else 0
        if resident <= limit:
            return resident
        exact = 0
        for pid in pids:
            for line in self._read(f"{pid}/smaps_rollup").splitlines():
                if line.startswith(_MEMORY_FIELDS):
                    exact += int(line.split()[1]) * 1024
        return exact

    def _read(self, path: str) -> bytes:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.proc)
        except OSError:
            return b""
        try:
            chunks = []
            while chunk := os.read(descriptor, 65536):
                chunks.append(chunk)
            return b"".join(chunks)
        except OSError:
            return b""
        finally:
            os.close(descriptor)


def host_pid(pid: int) -> int:
    """The number that the machine knows a process by: /proc here is the machine's, whatever our namespace."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return pid
    try:
        with open(f"/proc/self/fdinfo/{descriptor}") as file:
            return next((int(line[4:]) for line in file if line.startswith("Pid:")), pid)
    finally:
        os.close(descriptor)


def kill_marked(prefix: bytes) -> None:
    """Kills every process of the machine that was started with an environment variable that begins like this: what an
    earlier supervisor has left behind."""
    everyone = Processes(own_namespace=False)
    for _ in range(_KILL_TRIES):
        found = [pid for pid, _ in everyone.all() if any(v.startswith(prefix) for v in everyone.variables(pid))]
        if not found:
            return
        send(found, signal.SIGKILL)
        time.sleep(0.01)


def send(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, number)


def _ancestors(pid: int, parents: dict[int, int]) -> Iterable[int]:
    seen = set[int]()
    while pid in parents and pid not in seen:
        seen.add(pid)
        pid = parents[pid]
        yield pid
