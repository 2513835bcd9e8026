"""The log of a build: a file that grows, without secrets, and that can be read on from any place."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

LONGEST_LINE = 8_000
MOST_BYTES = 20_000_000
_MASK = "***"
_SHORTEST_SECRET = 4
_URL_CREDENTIALS = re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^\s/@]+@", re.IGNORECASE)
_HEADER = re.compile(r"(authorization:\s*(?:basic|bearer)\s+)\S+", re.IGNORECASE)
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[@-_]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def masked(text: str, secrets: Iterable[str]) -> str:
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
        """What a program has printed; a line that is too long is cut into several."""
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
        text = masked(line.decode(errors="replace"), self._secrets)
        if self._size > MOST_BYTES:
            self._full = True
            text = "the log is full; what follows is left out"
        self._append(f"{text.rstrip()}\n".encode())

    def _append(self, content: bytes) -> None:
        self._file.write(content)
        self._size += len(content)


def read_from(path: Path, offset: int, most: int = 65_536) -> tuple[str, int]:
    """Whole lines from there on, and where the next ones begin. An offset that is no beginning of a line, or beyond
    the end, is taken for the beginning of everything."""
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
