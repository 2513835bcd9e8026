"""The log files of containers: their format, how to find a position in them, and how long they are kept.

A line is `TIME STREAM TAG TEXT`. The tag P means that the text continues in the next line of the same stream, F that it
ends here. `N.log` is the current file of attempt N; `N.log.1`, `.2` ... are its older files, the higher the older.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from muster.embedded.node.supervisor.journal_and_logs import DROPPED_SUFFIX
from muster.embedded.settings import LogLimits

BLOCK = 1 << 16


class LogFile(NamedTuple):
    path: str
    attempt: int
    age: int
    """0 for the file that is being written."""


class LogPosition(NamedTuple):
    """A file, by its index, and the offset of a line in it."""

    file: int
    offset: int


class DroppedLog(NamedTuple):
    """How much of an attempt's log was dropped, and how much is kept."""

    size: int = 0
    file_bytes: int = 0
    files: int = 0

    def line(self, before: bytes = b"") -> bytes:
        """Returns a log line that says what is missing, with the time of the line that follows."""
        time, _, _ = before.partition(b" ")
        kept = f"{self.files} x {_mebibytes(self.file_bytes)}"
        text = f"[{_mebibytes(self.size)} of this log were dropped here: only the last {kept} are kept]"
        return b"%b stderr F %b\n" % (time, text.encode())


class PodLogs(NamedTuple):
    """The logs of one Pod."""

    path: str
    uid: str
    bytes: int
    written: float
    """The time of the last write, in epoch seconds."""


def log_files(folder: str) -> list[LogFile]:
    """Returns all files of a container's log, the oldest first."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = []
    for name in names:
        attempt, _, rest = name.partition(".log")
        age = rest[1:] or "0"
        if attempt.isdigit() and age.isdigit() and rest[:1] in ("", "."):
            found.append(LogFile(f"{folder}/{name}", int(attempt), int(age)))
    return sorted(found, key=lambda f: (f.attempt, -f.age))


def read_dropped(folder: str, attempt: int) -> DroppedLog:
    try:
        with open(f"{folder}/{attempt}.log{DROPPED_SUFFIX}") as file:
            return DroppedLog(*map(int, file.read().split()))
    except (OSError, ValueError, TypeError):
        return DroppedLog()


def find_tail(files: list[LogFile], lines: int) -> LogPosition:
    """Returns where the last `lines` lines start. Reads backwards, so the cost depends only on these lines."""
    missing = lines
    for index in reversed(range(len(files))):
        offset, missing = _tail_of(files[index].path, missing, last=index == len(files) - 1)
        if missing < 0:
            return LogPosition(index, offset)
    return LogPosition(0, 0)


def find_since(files: list[LogFile], moment: float) -> LogPosition:
    """Returns where the lines written at or after `moment` start, by binary search."""
    text = datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f").encode()
    for index, file in enumerate(files):
        offset, size = _since_of(file.path, text)
        if offset < size:
            return LogPosition(index, offset)
    if not files:
        return LogPosition(0, 0)
    return LogPosition(len(files) - 1, size_of(files[-1].path))


def read_last_output(folder: str, limit: int, stream: str = "stdout") -> bytes:
    """Returns the end of what a container's last attempt wrote to a stream, at most `limit` bytes. Reads backwards, so
    earlier output costs nothing."""
    files = log_files(folder)
    pieces, size = list[bytes](), 0
    wanted = stream.encode()
    for file in reversed([f for f in files if f.attempt == files[-1].attempt]):
        try:
            descriptor = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            for _, line in _backwards(descriptor):
                _, of, tag, text = (*line.split(b" ", 3), b"")[:4]
                if of == wanted:
                    pieces.append(text + b"\n" if tag == b"F" else text)
                    size += len(pieces[-1])
                    if size > limit:
                        break
        finally:
            os.close(descriptor)
        if size > limit:
            break
    return b"".join(reversed(pieces))[-limit:]


class LineReader:
    """Turns the bytes of log files into what the container wrote: joins partial lines, with or without timestamps.
    Parts of the two streams may alternate. Each part is passed on as it comes, so only the start of a line matters."""

    def __init__(self, timestamps: bool) -> None:
        self._timestamps = timestamps
        self._rest = b""
        self._in_line = False

    def feed(self, data: bytes) -> bytes:
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        output = []
        for line in lines:
            time, _, tagged = line.partition(b" ")
            tag, text = tagged[7:8], tagged[9:]
            if self._timestamps and not self._in_line:
                output.append(time + b" ")
            if tag == b"P":
                self._in_line = True
                output.append(text)
            else:
                self._in_line = False
                output.append(text + b"\n")
        return b"".join(output)


def read_blocks(descriptor: int, offset: int) -> Iterator[bytes]:
    """Yields the content from `offset` to the current end."""
    while block := os.pread(descriptor, BLOCK, offset):
        offset += len(block)
        yield block


def size_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def list_pod_logs(root: str) -> Iterable[PodLogs]:
    for namespace in _folders(root):
        for pod in _folders(namespace):
            for path in _folders(pod):
                size, written = 0, _mtime(path)
                for container in _folders(path):
                    written = max(written, _mtime(container))
                    with suppress(OSError), os.scandir(container) as files:
                        for file in files:
                            found = file.stat()
                            size += found.st_size
                            written = max(written, found.st_mtime)
                yield PodLogs(path, os.path.basename(path), size, written)


def select_logs_to_drop(
    kept: Iterable[PodLogs], live: Collection[str], limits: LogLimits, now: float, ended: Collection[str] = ()
) -> list[PodLogs]:
    """`live` are the uids of existing Pods, `ended` those of them that have ended. Logs of existing Pods count towards
    the total. They are only dropped if the Pod has ended and the others do not suffice."""
    drop: list[PodLogs] = []
    total = 0
    candidates: list[PodLogs] = []
    for logs in kept:
        if logs.uid not in live and now - logs.written > limits.keep_seconds:
            drop.append(logs)
            continue
        total += logs.bytes
        if logs.uid not in live or logs.uid in ended:
            candidates.append(logs)
    for logs in sorted(candidates, key=lambda found: (found.uid in live, found.written)):
        if total <= limits.total_bytes:
            break
        total -= logs.bytes
        drop.append(logs)
    return drop


def drop_old_logs(root: str, live: Collection[str], limits: LogLimits, now: float, ended: Collection[str] = ()) -> int:
    """Drops logs that are too old or too many. Returns the number of Pods. Slow on large folders: do not call it on the
    event loop."""
    drop = select_logs_to_drop(list(list_pod_logs(root)), live, limits, now, ended)
    for logs in drop:
        shutil.rmtree(logs.path, ignore_errors=True)
        for parent in (os.path.dirname(logs.path), os.path.dirname(os.path.dirname(logs.path))):
            with suppress(OSError):
                os.rmdir(parent)  # fails if it is not empty
    return len(drop)


def drop_empty_logs(folder: str) -> None:
    """Removes the logs of a Pod that has ended if it has written nothing. Empty folders are not free: each one has a
    block on the disk."""
    with suppress(OSError):
        containers = _folders(folder)
        empty: list[os.DirEntry[str]] = []
        for container in containers:
            with os.scandir(container) as files:
                empty += files
        if any(file.stat(follow_symlinks=False).st_size for file in empty):
            return
        for file in empty:
            os.unlink(file)
        for container in containers:
            os.rmdir(container)
        with os.scandir(folder) as entries:
            links = [entry.path for entry in entries if entry.is_symlink()]
        for link in links:
            os.unlink(link)
        os.rmdir(folder)
        os.rmdir(os.path.dirname(folder))  # another Pod of the same name may have logs


def _tail_of(path: str, lines: int, *, last: bool) -> tuple[int, int]:
    """Returns (offset, -1) if the line starts in this file, otherwise (0, number of lines still missing)."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0, lines
    try:
        for begin, line in _backwards(descriptor):
            # The very last line may be unfinished.
            if last or _ends_line(line):
                if lines == 0:
                    return begin + len(line) + 1, -1
                lines -= 1
            last = False
        return 0, lines
    finally:
        os.close(descriptor)


def _backwards(descriptor: int) -> Iterator[tuple[int, bytes]]:
    """Yields the complete lines of a file from its end, with their offsets."""
    position = os.fstat(descriptor).st_size
    rest = b""
    while position > 0:
        begin = max(0, position - BLOCK)
        block = os.pread(descriptor, position - begin, begin) + rest
        end = block.rfind(b"\n") + 1
        while end > 0:
            start = block.rfind(b"\n", 0, end - 1) + 1
            if start == 0:
                break
            yield begin + start, block[start : end - 1]
            end = start
        rest, position = block[:end], begin
    if rest:
        yield 0, rest[:-1]


def _ends_line(piece: bytes) -> bool:
    space = piece.find(b" ")
    return piece[space + 8 : space + 9] == b"F"


def _since_of(path: str, text: bytes) -> tuple[int, int]:
    """Returns (offset of the first line that is not earlier, size of the file)."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0, 0
    try:
        size = os.fstat(descriptor).st_size
        low, high = 0, size
        while low < high:
            middle = (low + high) // 2
            begin, line = _line_after(descriptor, middle, size)
            if begin >= high or line >= text:
                high = middle
            else:
                low = begin + 1
        begin, _ = _line_after(descriptor, low, size)
        return begin, size
    finally:
        os.close(descriptor)


def _line_after(descriptor: int, offset: int, size: int) -> tuple[int, bytes]:
    """Returns the offset and the first bytes of the first line that starts at or after `offset`."""
    begin = offset
    if offset > 0:
        # A line starts at `offset` itself if the byte before it ends one.
        begin = offset - 1
        while begin < size:
            block = os.pread(descriptor, 4096, begin)
            newline = block.find(b"\n")
            if newline >= 0:
                begin += newline + 1
                break
            begin += len(block)
            if not block:
                break
    return begin, os.pread(descriptor, 26, begin)


def _mebibytes(size: int) -> str:
    return f"{size / 1024**2:.4g} MiB" if size >= 1024**2 / 10 else f"{size} bytes"


def _folders(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _mtime(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
