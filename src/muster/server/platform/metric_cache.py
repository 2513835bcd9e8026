"""The scalars of event files and logs, read once and continued where reading stopped.

What users wrote is parsed in worker processes, or on a thread if it is small. The cache holds a limited number of
points; what was not asked for longest is dropped and read again if needed. Who may see a file or a log is decided by
the callers: the cache only knows what it has read.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from muster.kube.cluster import Cluster, LogQuery
from muster.kube.errors import ApiError
from muster.kube.objects import parse_time
from muster.platform.database.queries import new_id
from muster.platform.runs.logs import LogSource, read_saved
from muster.platform.runs.status import Masks
from muster.server.workers import SMALL_BYTES
from muster.workspaces.event_files import Restart, Scalar, read_events
from muster.workspaces.metric_lines import LineState, LogPosition, read_log
from muster.workspaces.metric_series import Point, Series, add_scalars, join_files
from muster.workspaces.mounted_files import EventFile, EventFiles, MountedFolder, event_files_of

T = TypeVar("T")

MAX_TAGS: Final = 500
"""Of one file or log."""
MAX_FILE_POINTS: Final = 500_000
"""Of one file or log in memory."""
MAX_CACHED_POINTS: Final = 4_000_000
"""Of all files and logs: about 100 MB."""
MAX_SOURCES: Final = 2000
"""Files and logs in memory. A log counts once for each pattern that it is read with."""
MAX_RESTARTS: Final = 100
"""Of one file. A program that starts again more often has the earliest forgotten."""
MAX_READ_BYTES: Final = 16 << 20
"""Of one file or log in one request. The next request continues."""
_BLOCK = 2 << 20
"""More than the largest record."""
_SEARCH_SECONDS = 5.0
"""How long it is known which event files a Pod has."""
_SEARCHES = 2
"""At the same time. Others need threads, too."""


class Run(Protocol):
    """Calls a function on what a user wrote, in a process with limits."""

    def __call__(self, function: Callable[..., T], *args: Any) -> Coroutine[Any, Any, T]: ...


class MetricLog(NamedTuple):
    name: str
    """As it is shown: the Pod."""
    place: LogSource
    attempt: str
    """What tells logs of one name apart: the uid of the Pod or the number of the attempt."""


class SourceSeries(NamedTuple):
    source: str
    tag: str
    points: list[Point]
    written: int
    """All points that were written, including those that are no longer stored."""
    version: int


class SourceProblem(NamedTuple):
    source: str
    message: str


@dataclass(slots=True)
class _State:
    """What was read of one file or log."""

    series: dict[str, Series] = field(default_factory=dict)
    restarts: list[Restart] = field(default_factory=list)
    problem: str = ""
    overflow: str = ""
    """Says that there are more tags than are kept."""
    version: int = 0
    used: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    offset: int = 0
    size: int = 0
    inode: int = 0
    scalar_tags: frozenset[str] = frozenset()
    lines: LineState = field(default_factory=LineState)
    position: LogPosition = field(default_factory=LogPosition)
    is_read: bool = False
    """A saved log, which never changes."""

    points: int = 0
    """That are stored. It is asked for often, and there may be many series."""

    def start_again(self) -> None:
        self.series, self.restarts, self.scalar_tags = {}, [], frozenset()
        self.offset = self.size = self.points = 0
        self.problem = self.overflow = ""


class _Unparsed(Exception):
    """A worker refused: it takes too long, or too many requests wait."""


class MetricCache:
    def __init__(self) -> None:
        self.epoch = new_id()
        """Versions of another server, or from before a restart, mean nothing."""
        self.version = 0
        self._states: dict[tuple[str, ...], _State] = {}
        self._found: dict[tuple[MountedFolder, ...], tuple[float, EventFiles]] = {}
        self._searching = asyncio.Semaphore(_SEARCHES)

    async def find_files(self, folders: Iterable[MountedFolder]) -> EventFiles:
        """Finds event files, at most every few seconds."""
        key = tuple(folders)
        known = self._known_files(key)
        if known is None:
            async with self._searching:
                known = self._known_files(key)
                if known is None:
                    known = await asyncio.to_thread(event_files_of, key)
                    self._found[key] = (time.monotonic(), known)
        return known

    def _known_files(self, key: tuple[MountedFolder, ...]) -> EventFiles | None:
        now = time.monotonic()
        self._found = {each: value for each, value in self._found.items() if now - value[0] < _SEARCH_SECONDS}
        return self._found[key][1] if key in self._found else None

    async def read_files(self, run: Run, files: Iterable[EventFile]) -> tuple[list[SourceSeries], list[SourceProblem]]:
        """Reads what is new in the files. The files of one folder of a Pod are one source."""
        sources: dict[str, list[_State]] = {}
        problems: list[SourceProblem] = []
        for file in files:
            state = self._state("file", file.folder.path, file.folder.inside, file.name)
            try:
                async with state.lock:
                    await self._continue_file(run, file, state)
            except OSError:
                continue  # removed, or replaced by something that may not be read
            except _Unparsed as error:
                state.problem = str(error)
            if state.problem:
                problems.append(SourceProblem(f"{file.folder.pod}:{file.seen_as}", state.problem))
            sources.setdefault(f"{file.folder.pod}:{posixpath.dirname(file.seen_as)}", []).append(state)
        self._evict()
        return await _join(sources), problems

    async def read_log(
        self, run: Run, cluster: Cluster, log: MetricLog, pattern: str, masks: Masks
    ) -> tuple[list[SourceSeries], list[SourceProblem]]:
        """Reads what is new in a log."""
        place = log.place
        state = self._state("log", place.namespace, place.pod, place.container, log.attempt, pattern)
        try:
            async with state.lock:
                await self._continue_log(run, cluster, place, state, pattern, masks)
        except _Unparsed as error:
            state.problem = str(error)
        except ApiError:
            pass  # it has not started, or its log was deleted; what was read stays
        self._evict()
        problems = [SourceProblem(log.name, state.problem)] if state.problem else []
        return await _join({log.name: [state]}), problems

    def _state(self, *key: str) -> _State:
        state = self._states.setdefault(key, _State())
        state.used = time.monotonic()
        return state

    async def _continue_file(self, run: Run, file: EventFile, state: _State) -> None:
        end = MAX_READ_BYTES
        while end > 0:
            data, size, inode = await asyncio.to_thread(_read_block, file, state.offset)
            if state.size and (inode != state.inode or size < state.size):  # another file of the same name
                state.start_again()
                continue
            state.size, state.inode = size, inode
            if not data:
                return
            chunk = await _parse(run, len(data), read_events, data, state.scalar_tags, state.offset)
            state.offset += chunk.consumed
            state.scalar_tags = chunk.scalar_tags
            state.restarts = (state.restarts + chunk.restarts)[-MAX_RESTARTS:]
            end -= len(data)
            self._add(state, chunk.scalars)
            state.problem = chunk.problem or state.overflow
            if not chunk.consumed:
                return

    async def _continue_log(
        self, run: Run, cluster: Cluster, place: LogSource, state: _State, pattern: str, masks: Masks
    ) -> None:
        if state.is_read:
            return
        left = MAX_READ_BYTES
        async for text in _whole_lines(_log_bytes(cluster, place, state.position)):
            masked = masks.text(text.decode(errors="replace"))
            chunk, state.position = await _parse(run, len(text), read_log, masked, pattern, state.lines, state.position)
            state.lines = chunk.state
            self._add(state, chunk.scalars)
            state.problem = chunk.problem or state.problem or state.overflow
            left -= len(text)
            if left < 0 and place.kept is None:
                return
        state.is_read = place.kept is not None

    def _add(self, state: _State, scalars: list[Scalar]) -> None:
        if add_scalars(state.series, scalars, MAX_TAGS, MAX_FILE_POINTS):
            state.overflow = f"only the first {MAX_TAGS} tags are shown"
        state.points = sum(map(len, state.series.values()))
        if scalars:
            self.version += 1
            state.version = self.version

    def _evict(self) -> None:
        total = sum(state.points for state in self._states.values())
        if total <= MAX_CACHED_POINTS and len(self._states) <= MAX_SOURCES:
            return
        for key, state in sorted(self._states.items(), key=lambda item: item[1].used):
            if total <= MAX_CACHED_POINTS and len(self._states) <= MAX_SOURCES:
                break
            if not state.lock.locked():
                total -= state.points
                del self._states[key]


class _Snapshot(NamedTuple):
    """What was read of one file or log, for another thread."""

    series: dict[str, Series]
    restarts: list[Restart]
    version: int


async def _join(sources: Mapping[str, list[_State]]) -> list[SourceSeries]:
    """The series of each source. There may be many points, so they are joined on a thread."""
    copies = {
        source: [
            _Snapshot({tag: each.copy() for tag, each in state.series.items()}, state.restarts, state.version)
            for state in states
        ]
        for source, states in sources.items()
    }
    return await asyncio.to_thread(lambda: [each for item in copies.items() for each in _join_series(*item)])


def _join_series(source: str, states: list[_Snapshot]) -> Iterable[SourceSeries]:
    restarts = [restart for state in states for restart in state.restarts][-MAX_RESTARTS:]
    tags = dict.fromkeys(tag for state in states for tag in state.series)
    for tag in tags:
        own = [(state, state.series[tag]) for state in states if tag in state.series]
        points = join_files([series.points() for _, series in own], restarts)
        written = sum(series.count for _, series in own)
        yield SourceSeries(source, tag, points, written, max(state.version for state, _ in own))


async def _parse(run: Run, size: int, function: Callable[..., T], *args: Any) -> T:
    if size <= SMALL_BYTES:
        return await asyncio.to_thread(function, *args)
    try:
        return await run(function, *args)
    except ApiError as error:
        raise _Unparsed(error.message) from None


def _read_block(file: EventFile, offset: int) -> tuple[bytes, int, int]:
    """Returns the bytes at the offset, the size of the file, and its inode."""
    with file.open() as opened:
        status = os.fstat(opened.fileno())
        return os.pread(opened.fileno(), _BLOCK, offset), status.st_size, status.st_ino


def _log_bytes(cluster: Cluster, place: LogSource, position: LogPosition) -> AsyncIterator[bytes]:
    if place.kept is not None:
        return read_saved(place.kept)
    since = None
    if position.time:
        # A second more than needed, because `position` has no zone of its own and clocks are not exact.
        since = max(time.time() - parse_time(f"{position.time[:19]}Z").timestamp(), 0.0) + 1
    query = LogQuery(container=place.container, timestamps=True, controller=place.controller, since_seconds=since)
    return cluster.logs(place.pod, place.namespace, query)


async def _whole_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yields blocks of whole lines. A line that is not complete is left for the next time."""
    pending = bytearray()
    async for chunk in chunks:
        pending += chunk
        if len(pending) >= _BLOCK:
            whole, newline, rest = bytes(pending).rpartition(b"\n")
            if newline:
                yield whole
                pending = bytearray(rest)
            elif len(pending) > 2 * _BLOCK:
                pending.clear()  # no line of a log has so many bytes
    whole, newline, _ = bytes(pending).rpartition(b"\n")
    if newline:
        yield whole
