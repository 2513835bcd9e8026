"""Reads the logs of many Pods at once: every container, every attempt, from the first line to the last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from muster.kube.cluster import Cluster, LogQuery
from muster.kube.errors import ApiError
from muster.kube.objects import Object, labels_of, name_of, namespace_of, spec_of, status_of, uid_of
from muster.kube.pod_diagnosis import find_failed_containers

_TAIL_TIMEOUT = 5.0


async def read_log_tails(cluster: Cluster, pod: Object, count: int) -> dict[str, list[str]]:
    """Returns the last lines of each failed container, which usually contain the reason. A log that cannot be read is
    left out."""
    ends = find_failed_containers(pod)
    found = await asyncio.gather(*(_tail(cluster, pod, end.container, count, end.running_again) for end in ends))
    return {end.container: lines for end, lines in zip(ends, found, strict=True) if lines}


async def _tail(cluster: Cluster, pod: Object, container: str, count: int, previous: bool) -> list[str]:
    query = LogQuery(container=container, tail_lines=count, previous=previous)
    try:
        async with asyncio.timeout(_TAIL_TIMEOUT):
            data = b"".join([chunk async for chunk in cluster.logs(name_of(pod), namespace_of(pod), query)])
    except (ApiError, OSError, TimeoutError):
        return []
    return decode_lines(data)[-count:]


def decode_lines(data: bytes) -> list[str]:
    """Returns the lines of a log. A line that redraws itself, such as a progress bar, is reduced to its last state."""
    lines = data.decode(errors="replace").split("\n")
    if not lines[-1]:
        lines.pop()
    return [visible_text(line) for line in lines]


def visible_text(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[2]


_RETRIES = 12
_STATUS_TIMEOUT = 1.0


class LogSource(NamedTuple):
    namespace: str
    pod: str
    container: str
    alone: bool
    """Whether the Pod has no other container. Then the Pod's name identifies the source."""

    def __str__(self) -> str:
        return self.pod if self.alone else f"{self.pod}/{self.container}"


class LogLine(NamedTuple):
    stamp: str
    text: str


Emit: TypeAlias = Callable[[LogSource, list[LogLine]], None]


class LogFollower:
    """Follows the logs of many Pods and emits their lines.

    Call `update` when a Pod changes and `finish` when it ends; `drain` waits for the last lines. Lines are requested
    with timestamps, so that a stream which is opened again continues after the last line.
    """

    def __init__(
        self,
        cluster: Cluster,
        emit: Emit,
        *,
        container: str = "",
        tail_lines: int | None = None,
        since_seconds: float | None = None,
    ) -> None:
        self._cluster = cluster
        self._show = emit
        self._emitted = 0
        self._container = container
        self._first = LogQuery(follow=True, timestamps=True, tail_lines=tail_lines, since_seconds=since_seconds)
        self._streams: dict[tuple[str, str], _Stream] = {}

    def update(self, pod: Object) -> None:
        executor = executor_containers(pod)
        alone = len(_container_names(pod) - executor) == 1
        ended = status_of(pod).get("phase") in ("Succeeded", "Failed")
        for attempt in container_attempts(pod):
            if attempt.container != self._container if self._container else attempt.container in executor:
                continue
            stream = self._streams.get((uid_of(pod), attempt.container))
            if stream is None:
                source = LogSource(namespace_of(pod), name_of(pod), attempt.container, alone)
                stream = _Stream(self._cluster, source, self._emit, self._first, has_executor_lines=bool(executor))
                self._streams[uid_of(pod), attempt.container] = stream
            stream.update(attempt)
        if ended:
            self.finish(pod)

    def _emit(self, source: LogSource, lines: list[LogLine]) -> None:
        self._emitted += 1
        self._show(source, lines)

    def finish(self, pod: Object) -> None:
        """Call this when the Pod has ended or was deleted: its containers do not restart any more."""
        for (uid, _), stream in self._streams.items():
            if uid == uid_of(pod):
                stream.finish()

    async def drain(self, silence: float | None = None) -> None:
        """Returns when all lines of finished Pods are emitted, or after `silence` seconds without a line."""
        waiting = {stream.task for stream in self._streams.values() if stream.ending}
        while waiting:
            before = self._emitted
            _, waiting = await asyncio.wait(waiting, timeout=silence)
            if self._emitted == before:
                return

    async def close(self) -> None:
        for stream in self._streams.values():
            stream.task.cancel()
        await asyncio.gather(*(stream.task for stream in self._streams.values()), return_exceptions=True)


class ContainerAttempt(NamedTuple):
    container: str
    number: int
    over: bool


_EXECUTOR = frozenset({"init", "wait"})
"""The containers that Argo adds to the Pods of workflows on a real cluster. No other may have these names there."""


def executor_containers(pod: Object) -> frozenset[str]:
    """Returns the containers of Argo's executor, whose logs are not the user's; none for Pods without one."""
    is_argo = "wait" in _container_names(pod) and "workflows.argoproj.io/workflow" in labels_of(pod)
    return _EXECUTOR if is_argo else frozenset()


def _container_names(pod: Object) -> set[str]:
    spec = spec_of(pod)
    return {str(each.get("name")) for each in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))}


def container_attempts(pod: Object) -> Iterator[ContainerAttempt]:
    """Yields the latest attempt of every container that has started, in start order."""
    status = status_of(pod)
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        state, last = container.get("state") or {}, container.get("lastState") or {}
        if "running" in state or "terminated" in state or "terminated" in last:
            number = int(container.get("restartCount") or 0)
            yield ContainerAttempt(str(container.get("name")), number, "running" not in state)


def split_timestamp(line: str) -> LogLine:
    stamp, _, text = line.partition(" ")
    return LogLine(stamp, visible_text(text))


def _executor_lines() -> Callable[[bytes], bytes | None]:
    from muster.platform.runs.logs import ExecutorLines  # only for real clusters

    return ExecutorLines().drop


class _Stream:
    """Reads the log of one container, attempt by attempt."""

    def __init__(
        self, cluster: Cluster, source: LogSource, emit: Emit, first: LogQuery, *, has_executor_lines: bool = False
    ) -> None:
        """`has_executor_lines`: Argo's executor writes lines of its own into the log, which are left out."""
        self._drop = _executor_lines() if has_executor_lines else None
        self._cluster = cluster
        self._source = source
        self._emit = emit
        self._first = first
        self._begun = -1
        self._over = -1
        self._read = -1
        self._seen = ""
        self._changed = asyncio.Event()
        self.ending = False
        self.task = asyncio.create_task(self._run(), name=f"log of {source}")

    def update(self, attempt: ContainerAttempt) -> None:
        if attempt.number > self._begun or (attempt.over and attempt.number > self._over):
            self._begun = attempt.number
            self._over = attempt.number if attempt.over else attempt.number - 1
            self._changed.set()

    def finish(self) -> None:
        self.ending = True
        self._changed.set()

    async def _run(self) -> None:
        while True:
            while self._read < self._begun:
                await self._read_next()
            if self.ending:
                return
            self._changed.clear()
            await self._changed.wait()

    async def _read_next(self) -> None:
        latest = self._begun
        if self._read < latest - 1 and self._read >= 0:
            # An attempt ended before it was noticed. Its log is still available as the previous one.
            await self._follow(previous=True)
        await self._follow(previous=False)
        while not (self._over >= latest or self.ending):
            # A log ends with its container, or because the connection broke. Only the status tells which.
            self._changed.clear()
            try:
                async with asyncio.timeout(_STATUS_TIMEOUT):
                    await self._changed.wait()
            except TimeoutError:
                await self._follow(previous=False)
        self._read = latest

    async def _follow(self, *, previous: bool) -> None:
        for attempt in range(_RETRIES):
            try:
                await self._copy(previous)
                return
            except (ApiError, OSError, TimeoutError):
                # The log does not exist yet, or the connection broke. Lines that were emitted are not emitted again.
                await asyncio.sleep(min(0.05 * 2**attempt, 2.0))

    async def _copy(self, previous: bool) -> None:
        first = self._first
        query = LogQuery(
            container=self._source.container,
            follow=not previous,
            previous=previous,
            timestamps=True,
            tail_lines=first.tail_lines if not self._seen else None,
            since_seconds=first.since_seconds if not self._seen else None,
        )
        already = self._seen
        rest = b""
        async for chunk in self._cluster.logs(self._source.pod, self._source.namespace, query):
            whole, newline, rest = (rest + chunk).rpartition(b"\n")
            if newline:
                self._put(whole, already)
        if rest:
            self._put(rest, already)

    def _put(self, data: bytes, already: str) -> None:
        own = data if self._drop is None else self._drop(data)
        if own is None:
            return
        data = own
        lines = [split_timestamp(line) for line in data.decode(errors="replace").split("\n")]
        fresh = [line for line in lines if line.stamp > already]
        if fresh:
            self._seen = fresh[-1].stamp
            self._emit(self._source, fresh)
