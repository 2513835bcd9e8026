"""The server of a data directory: whether it runs, where it listens, and how it is started and stopped.

The server holds a lock on `server.json` for as long as it lives, and the file names its process. A process that can
take the lock knows that the file is out of date. The reverse does not hold: a server that was killed keeps its lock
until the kernel has freed its memory, which takes seconds for a large one. So a server counts only while its process
lives, and the next server waits for the lock of a dying one.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Protocol
from urllib.parse import urlsplit

import orjson

_LOOKING_SECONDS = 1.0
_DYING_SECONDS = 30.0
"""How long to wait for the lock of a server that has been killed."""
_CONNECT_SECONDS = 5.0
_EXITING = 0x4
"""The flag of a process that is about to end (PF_EXITING)."""
_LITTLE = 1 << 20
"""With less free disk space than this, a server cannot start."""


class ServerError(Exception):
    """A server could not be started or stopped. The message says why and what to do."""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    pid: int
    url: str
    """'' until it accepts requests."""
    kubeconfig: str
    """'' for a server on a real cluster."""
    started: float
    web: str = ""
    """The URL for browsers; '' if there is none."""


class Announce(Protocol):
    def __call__(self, url: str, kubeconfig: Path | None, web: str = "") -> ServerInfo: ...


def running_server(home: Path) -> ServerInfo | None:
    """The server that is at work in `home`, once it accepts requests."""
    try:
        file = (home / "server.json").open("rb")
    except FileNotFoundError:
        return None
    with file:
        if _take(file, fcntl.LOCK_SH):
            return None
        found = _read(file)
    return found if found is not None and found.url and is_alive(found) else None


def is_alive(server: ServerInfo) -> bool:
    """Whether the server's process lives: not if it has been killed and the kernel is still freeing its memory, nor if
    its number belongs to another process now."""
    try:
        fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
        status = Path(f"/proc/{server.pid}/status").read_text()
        booted = next(int(line.split()[1]) for line in Path("/proc/stat").read_text().splitlines() if "btime" in line)
    except (OSError, StopIteration):
        return False
    pending = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigPnd:", "ShdPnd:"))]
    is_killed = any(signals >> (signal.SIGKILL - 1) & 1 for signals in pending)
    began = booted + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return fields[0] not in "ZX" and not int(fields[6]) & _EXITING and not is_killed and began <= server.started + 2


@contextmanager
def claim_home(home: Path) -> Iterator[Announce]:
    """Locks `home` until the block or the process ends. Call the yielded function with the URL, the kubeconfig and the
    URL for browsers once requests are served."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (home / "server.json").open("ab+") as file:
        _make_private(home)
        _take_over(file, home)

        def announce(url: str, kubeconfig: Path | None, web: str = "") -> ServerInfo:
            info = ServerInfo(os.getpid(), url, str(kubeconfig or ""), time.time(), web)
            file.truncate(0)
            file.write(orjson.dumps(asdict(info)))
            file.flush()
            return info

        announce("", None)
        try:
            yield announce
        finally:
            file.truncate(0)


def _make_private(home: Path) -> None:
    """Others may have no access to the data directory, nor to what an older release created in it."""
    for name in ("", "store", "identity", "platform"):
        path = home / name
        with suppress(OSError):  # it does not exist, or belongs to another account
            if path.stat().st_mode & 0o077:
                path.chmod(0o700)
    for path in (*home.glob("*.json"), *home.glob("*.log"), *home.glob("*/*.db*")):
        with suppress(OSError):
            if path.stat().st_mode & 0o077:
                path.chmod(0o600)


def start_detached(home: Path, timeout: float = 60.0, options: Sequence[str] = ()) -> ServerInfo:
    """Starts a server in the background with these options of `muster up`, and waits until it responds."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    log = home / "server.log"
    # Private: a new server writes there how to log in as admin.
    with open(log, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as sink:
        before = sink.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "muster", "up", *options],
            env={**os.environ, "MUSTER_HOME": str(home), "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        info = running_server(home)
        if info is not None and info.pid == process.pid and _accepts_connections(info):
            return info
        if process.poll() is not None:
            said = log.read_bytes()[before:].decode(errors="replace").strip()
            if not said and shutil.disk_usage(home).free < _LITTLE:
                said = f"the disk of {home} is full; free some space"
            raise ServerError(said or f"the server ended with exit code {process.returncode}; see {log}")
        time.sleep(0.02)
    process.terminate()
    raise ServerError(f"the server did not respond within {timeout:.0f} s; see {log}")


def stop_server(home: Path, timeout: float = 30.0) -> ServerInfo | None:
    """Stops the server and waits for it. Running Pods continue; the next server adopts them."""
    info = running_server(home)
    if info is None:
        return None
    os.kill(info.pid, signal.SIGTERM)
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        now = running_server(home)
        if now is None or now.pid != info.pid:
            return info
        time.sleep(0.02)
    raise ServerError(f"process {info.pid} did not stop within {timeout:.0f} s; stop it with: kill -9 {info.pid}")


def stop_signal() -> asyncio.Event:
    """Returns an event that SIGINT and SIGTERM set from now on."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    return ended


def _accepts_connections(server: ServerInfo) -> bool:
    place = urlsplit(server.url)
    try:
        socket.create_connection((place.hostname or "", place.port or 443), timeout=_CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


def _take_over(file: IO[bytes], home: Path) -> None:
    """`running_server` holds the lock for a moment, and a killed server for longer, so a taken lock is tried again."""
    began = time.monotonic()
    while not _take(file, fcntl.LOCK_EX):
        file.seek(0)
        holder = _read(file)
        waited = time.monotonic() - began
        if holder is not None and not is_alive(holder):
            if waited > _DYING_SECONDS:
                raise ServerError(
                    f"the server of {home} has ended (process {holder.pid}), but another process still holds its lock, "
                    f"{home / 'server.json'}; find it with: fuser {home / 'server.json'}"
                )
        elif waited > _LOOKING_SECONDS or (holder is not None and holder.url):
            who = f" (process {holder.pid}{f', {holder.url}' if holder.url else ''})" if holder is not None else ""
            raise ServerError(f"a server already runs in {home}{who}")
        time.sleep(0.005)


def _read(file: IO[bytes]) -> ServerInfo | None:
    """Returns what the file says; None if it is empty or just being written."""
    try:
        return ServerInfo(**orjson.loads(file.read()))
    except (orjson.JSONDecodeError, TypeError):
        return None


def _take(file: IO[bytes], lock: int) -> bool:
    try:
        fcntl.flock(file, lock | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
