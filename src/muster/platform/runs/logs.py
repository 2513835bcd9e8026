"""Logs of nodes and jobs: while they are written, and after the Pod is deleted or replaced. Every line has a
number, so that a client that was cut off continues after the last line it has.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from muster.kube.cluster import Cluster, LogQuery
from muster.kube.errors import ApiError, BadRequest, NotFound

# Merged from keeping_logs: Logs of attempts whose Pods are about to be replaced by others of the same names.


_BLOCK = 1 << 16


async def save_logs(
    cluster: Cluster, folder: Path, run_id: str, round: int, namespace: str, pods: Iterable[str]
) -> None:
    """Copies what these Pods have written so far. Again, it is the same."""
    for pod in pods:
        target = saved_log(folder, run_id, round, pod)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = target.with_suffix(".coming")
        try:
            with draft.open("wb") as file:
                async for piece in cluster.logs(pod, namespace, LogQuery(container="main", timestamps=True)):
                    file.write(piece)
        except ApiError:
            draft.unlink(missing_ok=True)  # it never began
            continue
        draft.rename(target)


def saved_log(folder: Path, run_id: str, round: int, pod: str) -> Path:
    """Lines with the times they were written at."""
    return folder / "runs" / run_id / f"{round}-{pod}.log"


async def read_saved(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block


def delete_logs(folder: Path, run_id: str) -> None:
    shutil.rmtree(folder / "runs" / run_id, ignore_errors=True)


# Merged from logs: What an attempt of a node has written: now, as it grows, and after its Pod has gone. Every line
# has a number, so that
# whoever was cut off can go on after the last one they have.


_LOOK_SECONDS = 0.2
_TIMES = re.compile(rb"^[^ \n]* ?", re.MULTILINE)


class LogLine(NamedTuple):
    number: int
    """From 1."""
    time: str
    text: str


class LogChunk(NamedTuple):
    """Lines that follow each other, as one text."""

    last: int
    """The number of the last of them."""
    text: str
    """Each ends with a newline."""


class LogSource(NamedTuple):
    namespace: str
    pod: str
    container: str = ""
    kept: Path | None = None
    """Where it was copied to before the Pod was replaced."""


def find_log_source(
    folder: Path, run_id: str, round: int, namespace: str, pod: str, container: str = "main"
) -> LogSource:
    kept = saved_log(folder, run_id, round, pod)
    return LogSource(namespace, pod, container, kept if kept.exists() else None)


async def read_log_lines(
    cluster: Cluster, place: LogSource, *, follow: bool, ended: Callable[[], Awaitable[bool]], after: int = 0
) -> AsyncIterator[list[LogLine]]:
    """In bunches, those with numbers above `after`. With `follow`, until it has ended, which is asked as long as
    there is nothing to read."""
    number = 0
    async for whole in _whole_lines(_chunks(cluster, place, follow, ended)):
        found = _lines(whole, number)
        number += len(found)
        new = [line for line in found if line.number > after]
        if new:
            yield new


async def read_log_text(
    cluster: Cluster, place: LogSource, *, follow: bool, ended: Callable[[], Awaitable[bool]], after: int = 0
) -> AsyncIterator[LogChunk]:
    """The same without the times, for those who want a great many lines: a million of them are no million objects."""
    number = 0
    async for whole in _whole_lines(_chunks(cluster, place, follow, ended)):
        before, number = number, number + whole.count(b"\n") + 1
        if number <= after:
            continue
        new = whole if before >= after else whole.split(b"\n", after - before)[-1]
        yield LogChunk(number, _TIMES.sub(b"", new).decode(errors="replace") + "\n")


async def _whole_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """In bunches, the newline of the last of each left out."""
    begun: list[bytes] = []
    async for chunk in chunks:
        whole, newline, rest = chunk.rpartition(b"\n")
        if newline:
            yield b"".join((*begun, whole))
            begun = []
        if rest:
            begun.append(rest)
    if begun:
        yield b"".join(begun)


async def _chunks(
    cluster: Cluster, place: LogSource, follow: bool, ended: Callable[[], Awaitable[bool]]
) -> AsyncIterator[bytes]:
    if place.kept is not None:
        async for block in read_saved(place.kept):
            yield block
        return
    query = LogQuery(container=place.container, follow=follow, timestamps=True)
    while True:
        # Asked before reading: what ended before has written all that it ever will.
        over = not follow or await ended()
        try:
            async for chunk in cluster.logs(place.pod, place.namespace, query):
                yield chunk
            return
        except (BadRequest, NotFound):
            if over:
                return
        await asyncio.sleep(_LOOK_SECONDS)


def _lines(data: bytes, before: int) -> list[LogLine]:
    found = []
    for at, line in enumerate(data.decode(errors="replace").split("\n"), before + 1):
        time, _, text = line.partition(" ")
        found.append(LogLine(at, time, text))
    return found
