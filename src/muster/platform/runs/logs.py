"""What an attempt of a node has written: now, as it grows, and after its Pod has gone. Every line has a number, so that
whoever was cut off can go on after the last one they have."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from muster.kube.cluster import Cluster, LogQuery
from muster.kube.errors import BadRequest, NotFound
from muster.platform.runs.keeping_logs import kept_log, read_kept

_LOOK_SECONDS = 0.2
_TIMES = re.compile(rb"^[^ \n]* ?", re.MULTILINE)


class Line(NamedTuple):
    number: int
    """From 1."""
    time: str
    text: str


class Bunch(NamedTuple):
    """Lines that follow each other, as one text."""

    last: int
    """The number of the last of them."""
    text: str
    """Each ends with a newline."""


class LogPlace(NamedTuple):
    namespace: str
    pod: str
    container: str = ""
    kept: Path | None = None
    """Where it was copied to before the Pod was replaced."""


def place_of(folder: Path, run_id: str, round: int, namespace: str, pod: str, container: str = "main") -> LogPlace:
    kept = kept_log(folder, run_id, round, pod)
    return LogPlace(namespace, pod, container, kept if kept.exists() else None)


async def log_lines(
    cluster: Cluster, place: LogPlace, *, follow: bool, ended: Callable[[], Awaitable[bool]], after: int = 0
) -> AsyncIterator[list[Line]]:
    """In bunches, those with numbers above `after`. With `follow`, until it has ended, which is asked as long as
    there is nothing to read."""
    number = 0
    async for whole in _whole_lines(_chunks(cluster, place, follow, ended)):
        found = _lines(whole, number)
        number += len(found)
        new = [line for line in found if line.number > after]
        if new:
            yield new


async def log_texts(
    cluster: Cluster, place: LogPlace, *, follow: bool, ended: Callable[[], Awaitable[bool]], after: int = 0
) -> AsyncIterator[Bunch]:
    """The same without the times, for those who want a great many lines: a million of them are no million objects."""
    number = 0
    async for whole in _whole_lines(_chunks(cluster, place, follow, ended)):
        before, number = number, number + whole.count(b"\n") + 1
        if number <= after:
            continue
        new = whole if before >= after else whole.split(b"\n", after - before)[-1]
        yield Bunch(number, _TIMES.sub(b"", new).decode(errors="replace") + "\n")


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
    cluster: Cluster, place: LogPlace, follow: bool, ended: Callable[[], Awaitable[bool]]
) -> AsyncIterator[bytes]:
    if place.kept is not None:
        async for block in read_kept(place.kept):
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


def _lines(data: bytes, before: int) -> list[Line]:
    found = []
    for at, line in enumerate(data.decode(errors="replace").split("\n"), before + 1):
        time, _, text = line.partition(" ")
        found.append(Line(at, time, text))
    return found
