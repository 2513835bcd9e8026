"""Is a server at work in this data directory, where does it listen, and how is it started and stopped?

The server holds a lock on `server.json` for as long as it lives. Whoever can take the lock knows that what the file
says is out of date, even if the process id has been given to somebody else since.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Protocol

import orjson

_LOOKING_SECONDS = 1.0
_LITTLE = 1 << 20
"""With less free disk space than this, a server cannot start."""


class ServerError(Exception):
    """A server could not be started or stopped. The message says why and what to do."""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    pid: int
    url: str
    kubeconfig: str
    started: float
    web: str = ""
    """The URL for browsers; '' if there is none."""


class Announce(Protocol):
    def __call__(self, url: str, kubeconfig: Path, web: str = "") -> ServerInfo: ...


def running_server(home: Path) -> ServerInfo | None:
    """The server that is at work in `home`, once it accepts requests."""
    try:
        file = (home / "server.json").open("rb")
    except FileNotFoundError:
        return None
    with file:
        if _take(file, fcntl.LOCK_SH):
            return None
        text = file.read()
    return ServerInfo(**orjson.loads(text)) if text else None


@contextmanager
def claim_home(home: Path) -> Iterator[Announce]:
    """Locks `home` until the block or the process ends. Call the yielded function with the URL, the kubeconfig and the
    URL for browsers once requests are served."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (home / "server.json").open("ab+") as file:
        _make_private(home)
        _take_over(file, home)
        file.truncate(0)

        def announce(url: str, kubeconfig: Path, web: str = "") -> ServerInfo:
            info = ServerInfo(os.getpid(), url, str(kubeconfig), time.time(), web)
            file.write(orjson.dumps(asdict(info)))
            file.flush()
            return info

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
        if info is not None:
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


def _take_over(file: IO[bytes], home: Path) -> None:
    """`running_server` holds the lock for a moment, so a taken lock is tried again."""
    deadline = time.monotonic() + _LOOKING_SECONDS
    while not _take(file, fcntl.LOCK_EX):
        other = running_server(home)
        if other is not None or time.monotonic() > deadline:
            who = f" (process {other.pid}, {other.url})" if other else ""
            raise ServerError(f"a server already runs in {home}{who}")
        time.sleep(0.005)


def _take(file: IO[bytes], lock: int) -> bool:
    try:
        fcntl.flock(file, lock | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
