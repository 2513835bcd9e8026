"""Runs the programs of a build, and writes its log.

Programs run with a clean environment, in a session of their own, with limits on time and disk space. Secrets are
masked in the log. A client can read the log from any position on.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

LONGEST_LINE = 8_000
MOST_BYTES = 20_000_000
_MASK = "***"
_SHORTEST_SECRET = 4
_URL_CREDENTIALS = re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^\s/@]+@", re.IGNORECASE)
_HEADER = re.compile(r"(authorization:\s*(?:basic|bearer)\s+)\S+", re.IGNORECASE)
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[@-_]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def mask_line(text: str, secrets: Iterable[str]) -> str:
    """Without the secrets, credentials in addresses, and what would move a terminal's cursor."""
    text = _CONTROL.sub("", text)
    for secret in sorted({s for s in secrets if len(s) >= _SHORTEST_SECRET}, key=len, reverse=True):
        text = text.replace(secret, _MASK)
    return _HEADER.sub(rf"\g<1>{_MASK}", _URL_CREDENTIALS.sub(rf"\g<1>{_MASK}@", text))


class BuildLog:
    """Only whole lines are in the file, so that half a secret is never written."""

    def __init__(self, path: Path, secrets: Iterable[str] = ()) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._secrets = [line for secret in secrets for line in (secret, *secret.splitlines())]
        self._rest = b""
        self._full = False
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(descriptor, "ab", buffering=0)
        self._size = os.fstat(descriptor).st_size
        if self._size and os.pread(descriptor, 1, self._size - 1) != b"\n":
            self._append(b"\n")  # the server was killed in the middle of a line

    def say(self, line: str) -> None:
        self.write(f"{line}\n".encode())

    def write(self, chunk: bytes) -> None:
        """Writes what a program printed. A line that is too long is split."""
        *lines, self._rest = (self._rest + chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")).split(b"\n")
        for line in lines:
            self._line(line)
        while len(self._rest) > LONGEST_LINE:
            # A little is held back, so that no secret is cut in two.
            held = max((len(secret.encode()) for secret in self._secrets), default=0)
            cut = max(LONGEST_LINE - held, 1)
            self._line(self._rest[:cut])
            self._rest = self._rest[cut:]

    def close(self) -> None:
        if self._rest:
            self._line(self._rest)
            self._rest = b""
        self._file.close()

    def _line(self, line: bytes) -> None:
        if self._full:
            return
        text = mask_line(line.decode(errors="replace"), self._secrets)
        if self._size > MOST_BYTES:
            self._full = True
            text = "the log is full; what follows is left out"
        self._append(f"{text.rstrip()}\n".encode())

    def _append(self, content: bytes) -> None:
        self._file.write(content)
        self._size += len(content)


def read_log(path: Path, offset: int, most: int = 65_536) -> tuple[str, int]:
    """Returns whole lines from an offset on, and the next offset. An offset that is not at the start of a line, or
    beyond the end, means the beginning."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if not 0 <= offset <= size or (offset and os.pread(file.fileno(), 1, offset - 1) != b"\n"):
                offset = 0
            file.seek(offset)
            content = file.read(most)
    except FileNotFoundError:
        return "", 0
    end = content.rfind(b"\n") + 1
    return content[:end].decode(errors="replace"), offset + end


MARK = "MUSTER_BUILD"
"""An environment variable of every program of a build: the id of the version. It identifies programs that outlived the
server."""

_PASSED_ON = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "XDG_RUNTIME_DIR", "XDG_DATA_HOME", "DOCKER_HOST",
              "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
              "SSL_CERT_FILE", "SSL_CERT_DIR", "SSH_AUTH_SOCK")  # fmt: skip
_LOOK_SECONDS = 0.5


class BuildFailed(Exception):
    """The build failed. The message is for the author of the module."""


@dataclass(frozen=True, slots=True)
class GuestAccess:
    """What authors who are not admins may use of this host."""

    addresses: tuple[str, ...] = ()
    """Hosts, or hosts with ports, that are on this machine."""
    ssh_hosts: tuple[str, ...] = ()
    """Hosts to which the server's own ssh key opens the way."""


@dataclass(frozen=True, slots=True)
class BuildContext:
    """What all programs of one build share."""

    mark: str
    log: BuildLog
    deadline: float
    """On the event loop's clock."""
    folder: Path
    """What the size limit is for."""
    most_bytes: int
    guest: GuestAccess | None = None
    """For the build of an author who is not an admin."""
    env: Mapping[str, str] = field(default_factory=dict)


async def run_command(
    command: Sequence[str], here: BuildContext, *, cwd: Path, env: Mapping[str, str] | None = None, quiet: bool = False
) -> tuple[int, bytes]:
    """Runs a program. Returns its exit code and, if it is quiet, its stdout; other output goes to the log. Raises
    BuildFailed if it exceeds the limits on time or disk space."""
    if shutil.which(command[0]) is None:
        raise BuildFailed(f"{command[0]} is not installed on the server; ask an admin to install it")
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE if quiet else asyncio.subprocess.STDOUT,
        cwd=cwd,
        env={**clean_environment(), **here.env, **(env or {}), MARK: here.mark},
        start_new_session=True,
    )
    printed: list[bytes] = []
    readers = [asyncio.create_task(_drain(process.stdout, None if quiet else here.log, printed))]
    if quiet:
        readers.append(asyncio.create_task(_drain(process.stderr, here.log, [])))
    watch = asyncio.create_task(_too_large(here.folder, here.most_bytes))
    ended = asyncio.create_task(process.wait())
    try:
        left = max(0.0, here.deadline - asyncio.get_running_loop().time())
        await asyncio.wait({ended, watch}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if watch.done():
            raise BuildFailed(f"the build uses more than {here.most_bytes // 1_000_000} MB")
        if not ended.done():
            raise BuildFailed("the build took too long")
        await asyncio.gather(*readers)
    finally:
        watch.cancel()
        if not ended.done():
            _kill_session(process.pid)
        await ended
        for task in (watch, *readers):
            task.cancel()
        await asyncio.gather(watch, *readers, return_exceptions=True)
    return await ended, b"".join(printed)


def clean_environment() -> dict[str, str]:
    """An environment without secrets of the server and without settings that change what git does."""
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ}


def end_leftovers(marks: set[str]) -> list[int]:
    """Kills programs that builds of an earlier server left running. Returns their process ids."""
    wanted = {f"{MARK}={mark}".encode() for mark in marks}
    found: list[int] = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            variables = Path(entry.path, "environ").read_bytes().split(b"\0")
            if wanted.intersection(variables):
                os.kill(int(entry.name), signal.SIGKILL)
                found.append(int(entry.name))
    return found


async def _drain(stream: asyncio.StreamReader | None, log: BuildLog | None, printed: list[bytes]) -> None:
    assert stream is not None
    while chunk := await stream.read(65_536):
        if log is not None:
            log.write(chunk)
        elif sum(map(len, printed)) < 50_000_000:
            printed.append(chunk)


async def _too_large(folder: Path, most: int) -> None:
    """Ends when it is."""
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        if await asyncio.to_thread(size_of, folder) > most:
            return


def size_of(folder: Path) -> int:
    total = 0
    for place, _, files in os.walk(folder):
        for name in files:
            with suppress(OSError):
                total += Path(place, name).lstat().st_size
    return total


def _kill_session(leader: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
