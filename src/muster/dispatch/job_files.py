"""Files in a job's folder that the dispatcher reads and writes: reports of progress, and the log of each attempt."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path

import orjson

from muster.dispatch.context import REPORTS
from muster.dispatch.lifecycle import Reported
from muster.dispatch.model import Job

_LOG_TAIL, _TAIL_BYTES = 20, 16 << 10
_REPORT_BYTES = 1 << 20
_LOOK_SECONDS = 0.5


def log_path(job: Job) -> Path:
    return Path(job.folder) / f"log.{job.attempt}"


def write_log(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", "utf-8", errors="replace")


def read_tail(path: Path) -> tuple[str, ...]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            return tuple(line.decode(errors="replace") for line in file.read().splitlines()[-_LOG_TAIL:])
    except OSError:
        return ()


def read_report(job: Job) -> Reported | None:
    """Reads what was appended to `local_reporter.txt` since the last time. Lines that are not JSON are messages."""
    path, offset = Path(job.folder) / REPORTS, job.tracking.report_offset
    try:
        if path.stat().st_size <= offset:
            return None
        with path.open("rb") as file:
            file.seek(offset)
            complete, newline, _ = file.read(_REPORT_BYTES).rpartition(b"\n")
    except OSError:
        return None
    if not newline:
        return None
    progress: float | None = None
    message, metrics = "", dict[str, float]()
    for line in complete.splitlines():
        try:
            said = orjson.loads(line)
        except orjson.JSONDecodeError:
            message = line.decode(errors="replace").strip()[:500] or message
            continue
        if isinstance(said, dict):
            progress = _number(said.get("progress"), progress)
            message = str(said.get("message") or message)[:500]
            found = said.get("metrics")
            if isinstance(found, dict):
                metrics |= {str(k)[:100]: float(v) for k, v in found.items() if isinstance(v, int | float)}
    return Reported(offset + len(complete) + 1, progress, message, tuple(metrics.items()))


def _number(value: object, default: float | None) -> float | None:
    return float(value) if isinstance(value, int | float) else default


async def follow_file(path: Path, *, follow: bool = False, tail: int | None = None) -> AsyncIterator[str]:
    """Yields the lines of a file, which need not exist yet: the last `tail`, or all. With `follow`, goes on until the
    caller stops."""
    position = 0
    if path.exists():
        with path.open("rb") as file:
            lines = deque(file, maxlen=tail) if tail is not None else deque(file)
            position = file.tell()
        for line in lines:
            yield line.decode(errors="replace").rstrip("\r\n")
    rest = b""
    while follow:
        await asyncio.sleep(_LOOK_SECONDS)
        if not path.exists():
            continue
        with path.open("rb") as file:
            file.seek(position)
            read = file.read()
            position = file.tell()
        *complete, rest = (rest + read).split(b"\n")
        for line in complete:
            yield line.decode(errors="replace").rstrip("\r")
