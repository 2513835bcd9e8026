"""Logs of nodes and jobs: while they are written, and after the Pod is deleted or replaced.

Every line has a number, so that a client that was cut off continues after the last line it has.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from muster.kube.budgets import setting_name
from muster.kube.cluster import Cluster, LogQuery
from muster.kube.errors import ApiError, BadRequest, NotFound, Unavailable
from muster.kube.file_names import fit_component, path_component
from muster.kube.objects import timestamp

_BLOCK = 1 << 16


async def save_logs(
    cluster: Cluster, folder: Path, run_id: str, round: int, namespace: str, pods: Iterable[str], most_bytes: int
) -> None:
    """Copies the logs of Pods that are about to be replaced by Pods of the same names. It may be repeated. All saved
    logs of the run together have at most so many bytes; a log that is cut off says so."""
    targets = {pod: saved_log(folder, run_id, round, pod) for pod in pods}
    if not targets:
        return
    place = folder / "runs" / path_component(run_id)
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    again = {fit_component(f"{target.name}.coming") for target in targets.values()}
    again |= {target.name for target in targets.values()}
    left = most_bytes - sum(each.stat().st_size for each in place.iterdir() if each.name not in again)
    for pod, target in targets.items():
        draft = target.with_name(fit_component(f"{target.name}.coming"))
        try:
            with draft.open("wb") as file:
                async for piece in cluster.logs(pod, namespace, LogQuery(container="main", timestamps=True)):
                    file.write(piece[: max(left, 0)])
                    left -= len(piece)
                    if left < 0:
                        file.write(_cut_off())
                        break
        except ApiError:
            draft.unlink(missing_ok=True)  # it never began
            continue
        draft.rename(target)


def _cut_off() -> bytes:
    return f"\n{timestamp()} [the rest is not kept: {setting_name('run_log_megabytes')} is used up]\n".encode()


def saved_log(folder: Path, run_id: str, round: int, pod: str) -> Path:
    """The file of a saved log; each line starts with its time."""
    return folder / "runs" / path_component(run_id) / fit_component(f"{round}-{pod}.log")


async def read_saved(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block


def delete_logs(folder: Path, run_id: str) -> None:
    shutil.rmtree(folder / "runs" / path_component(run_id), ignore_errors=True)


_LOOK_SECONDS = 0.2
_TIMES = re.compile(rb"^[^ \n]* ?", re.MULTILINE)


class LogLine(NamedTuple):
    number: int
    """From 1."""
    time: str
    text: str


class LogChunk(NamedTuple):
    """Consecutive lines as one text."""

    last: int
    """The number of the last line."""
    text: str
    """Each ends with a newline."""


class LogSource(NamedTuple):
    namespace: str
    pod: str
    """'' if it is known to be gone."""
    container: str = ""
    kept: Path | None = None
    """The saved copy, if the Pod was replaced."""
    controller: str = ""
    """The uid of the object that controls the Pod; '' for any."""
    has_executor_lines: bool = False
    """Whether Argo's executor writes lines of its own into the log of the Pod."""
    read_archived: Callable[[], AsyncIterator[bytes]] | None = None
    """Reads the log once the Pod is gone, if the cluster does not keep it."""


def find_log_source(
    folder: Path, run_id: str, round: int, namespace: str, pod: str, container: str = "main"
) -> LogSource:
    kept = saved_log(folder, run_id, round, pod)
    return LogSource(namespace, pod, container, kept if kept.exists() else None)


async def read_log_lines(
    cluster: Cluster, place: LogSource, *, follow: bool, ended: Callable[[], Awaitable[bool]], after: int = 0
) -> AsyncIterator[list[LogLine]]:
    """Yields chunks of lines with numbers above `after`. With `follow`, until `ended` returns True and all is read."""
    number = 0
    async for whole in _own_lines(cluster, place, follow, ended):
        found = _lines(whole, number)
        number += len(found)
        new = [line for line in found if line.number > after]
        if new:
            yield new


async def read_log_text(
    cluster: Cluster, place: LogSource, *, follow: bool, ended: Callable[[], Awaitable[bool]], after: int = 0
) -> AsyncIterator[LogChunk]:
    """The same as text without times, which is faster for a large number of lines."""
    number = 0
    async for whole in _own_lines(cluster, place, follow, ended):
        before, number = number, number + whole.count(b"\n") + 1
        if number <= after:
            continue
        new = whole if before >= after else whole.split(b"\n", after - before)[-1]
        yield LogChunk(number, _TIMES.sub(b"", new).decode(errors="replace") + "\n")


async def _own_lines(
    cluster: Cluster, place: LogSource, follow: bool, ended: Callable[[], Awaitable[bool]]
) -> AsyncIterator[bytes]:
    """Yields chunks of whole lines that the program itself has written."""
    drop = ExecutorLines().drop if place.has_executor_lines else None
    async for whole in _whole_lines(_chunks(cluster, place, follow, ended)):
        own = drop(whole) if drop is not None else whole
        if own is not None:
            yield own


_EXECUTOR_LINE = re.compile(rb'[^ ]* time=("[^"]*"|[^ ]+) level=[A-Za-z]+ msg=.* argo=true( .*)?')
_EXECUTOR_END = re.compile(
    rb'[^ ]* (Error: (exit status [0-9]+|signal: .*)|time="[^"]*" level=info msg="(Taring |archived [0-9]+ files).*")'
)
"""Lines without `argo=true`, after the program has ended: its exit status, and, in 3.7, the archives of its files."""


class ExecutorLines:
    """Finds the lines that Argo's executor writes into the log of the program that it starts. `argo logs` leaves out
    those with `argo=true`; here its last lines are left out, too, so that a log is the same on every
    cluster."""

    def __init__(self) -> None:
        self._has_ended = False

    def drop(self, lines: bytes) -> bytes | None:
        """Returns lines, each with its time, without those of the executor; None if there are no others."""
        if not self._has_ended and b" argo=true" not in lines:
            return lines
        own = [line for line in lines.split(b"\n") if not self._is_of_executor(line)]
        return b"\n".join(own) if own else None

    def _is_of_executor(self, line: bytes) -> bool:
        if _EXECUTOR_LINE.fullmatch(line):
            self._has_ended = self._has_ended or b' msg="sub-process exited" ' in line
            return True
        return self._has_ended and _EXECUTOR_END.fullmatch(line) is not None


async def _whole_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yields chunks that end with a whole line, without its newline."""
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
    query = LogQuery(container=place.container, follow=follow, timestamps=True, controller=place.controller)
    while place.pod:
        # Checked before reading: what has ended has written everything.
        over = not follow or await ended()
        try:
            async for chunk in cluster.logs(place.pod, place.namespace, query):
                yield chunk
            return
        except (BadRequest, NotFound, Unavailable):
            if over:
                break
        await asyncio.sleep(_LOOK_SECONDS)
    if place.read_archived is not None:
        async for chunk in place.read_archived():
            yield chunk


def _lines(data: bytes, before: int) -> list[LogLine]:
    found = []
    for at, line in enumerate(data.decode(errors="replace").split("\n"), before + 1):
        time, _, text = line.partition(" ")
        found.append(LogLine(at, time, text))
    return found
