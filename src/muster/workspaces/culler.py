"""Stops notebooks and TensorBoards that are not used, after a warning, and records when each was last used.

Jupyter says when its kernels and terminals were last busy. A kernel that computes is activity, and so is an open
connection to a kernel that was used a moment ago. TensorBoard's server (tensorboard_server.py) says when it was last
asked for something. Any other server says nothing, and is never stopped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

import aiohttp
import orjson

from muster.kube.cluster import Cluster
from muster.kube.errors import ApiError
from muster.kube.kinds import Kind
from muster.kube.objects import (
    Object,
    annotations_of,
    is_deleting,
    name_of,
    namespace_of,
    parse_time,
    timestamp,
    uid_of,
)
from muster.workspaces.addresses import Upstream, find_upstream
from muster.workspaces.images import WorkspaceSettings
from muster.workspaces.kinds import (
    ACTIVITY_CHECK_ANNOTATION,
    CULL_AT_ANNOTATION,
    CULL_IDLE_ANNOTATION,
    CULLED_AT_ANNOTATION,
    LAST_ACTIVITY_ANNOTATION,
    NOTEBOOK,
    STOP_ANNOTATION,
    TENSORBOARD,
    is_stopped,
)
from muster.workspaces.plan import pod_name

log = logging.getLogger(__name__)

_PERIOD_SECONDS: Final = 60.0
_TIMEOUT_SECONDS: Final = 10.0
_MOST_AT_ONCE: Final = 16
"""How many workspaces are asked at the same time, so that slow ones hold up few others."""
_LARGEST_ANSWER: Final = 1_000_000
_BUSY: Final = frozenset({"busy", "starting", "restarting", "autorestarting"})


class EventSink(Protocol):
    def event(self, about: Object, type: Literal["Normal", "Warning"], reason: str, message: str) -> None: ...


class Activity(NamedTuple):
    """What the server of a workspace says."""

    busy: bool
    """Whether a kernel computes."""
    last: datetime | None
    """When a kernel, a terminal or the board was last used; None if there is none."""


@dataclass(frozen=True, slots=True)
class CullDecision:
    annotations: Mapping[str, str | None] = field(default_factory=dict)
    """What has to change."""
    warn: str = ""
    stop: str = ""
    """What the event says; '' for no event."""


def read_activity(kernels: Any, terminals: Any) -> Activity:
    """Reads the responses of /api/kernels and /api/terminals, which a user's program may have written."""
    found: list[datetime] = []
    busy = False
    for each in (*_entries(kernels), *_entries(terminals)):
        busy = busy or str(each.get("execution_state")) in _BUSY
        try:
            found.append(parse_time(str(each.get("last_activity"))))
        except ValueError:
            continue
    return Activity(busy, max(found, default=None))


def decide_culling(
    workspace: Object, activity: Activity, started: datetime, now: datetime, settings: WorkspaceSettings
) -> CullDecision:
    """`started` is when the workspace's server became ready: before that it cannot have been used."""
    notes = annotations_of(workspace)
    last = now if activity.busy else max(started, activity.last or started)
    last = min(last, now)  # a kernel's clock may be anything
    wanted: dict[str, str | None] = {LAST_ACTIVITY_ANNOTATION: timestamp(last)}
    allowed = idle_minutes(workspace, settings)
    if allowed <= 0:
        wanted[CULL_AT_ANNOTATION] = None
        return CullDecision(_changes(notes, wanted, now))
    ends = last + timedelta(minutes=allowed)
    if now >= ends:
        moment = timestamp(now)
        wanted |= {STOP_ANNOTATION: moment, CULLED_AT_ANNOTATION: moment, CULL_AT_ANNOTATION: None}
        return CullDecision(_changes(notes, wanted, now), stop=f"Stopped after {allowed:g} minutes without activity")
    if now >= ends - timedelta(minutes=min(settings.cull_warning_minutes, allowed / 2)):
        wanted[CULL_AT_ANNOTATION] = timestamp(ends)
        told = f"Idle since {timestamp(last)}; it will be stopped at {timestamp(ends)} unless it is used"
        return CullDecision(_changes(notes, wanted, now), warn="" if CULL_AT_ANNOTATION in notes else told)
    wanted[CULL_AT_ANNOTATION] = None
    return CullDecision(_changes(notes, wanted, now))


def idle_minutes(workspace: Object, settings: WorkspaceSettings) -> float:
    """How long a workspace may be idle; 0 for as long as it likes."""
    own = annotations_of(workspace).get(CULL_IDLE_ANNOTATION)
    try:
        return max(float(own), 0.0) if own is not None else settings.cull_idle_minutes
    except ValueError:
        return settings.cull_idle_minutes


def _changes(notes: Mapping[str, str], wanted: Mapping[str, str | None], now: datetime) -> dict[str, str | None]:
    changed = {name: value for name, value in wanted.items() if notes.get(name) != value}
    return {**changed, ACTIVITY_CHECK_ANNOTATION: timestamp(now)} if changed else {}


def _entries(answer: Any) -> Iterable[Mapping[str, Any]]:
    return [each for each in answer if isinstance(each, dict)] if isinstance(answer, list) else []


AddressOf: TypeAlias = Callable[[str, str, int], Awaitable[str]]
"""(namespace, Pod, port) -> the host. Raises OSError if nothing of this Pod listens there."""


class Culler:
    """Looks at every running workspace once a minute. `run()` runs until it is cancelled."""

    def __init__(
        self,
        cluster: Cluster,
        recorder: EventSink,
        settings: WorkspaceSettings,
        *,
        address_of: AddressOf | None = None,
        kinds: Sequence[Kind] = (NOTEBOOK, TENSORBOARD),
        namespaces: Sequence[str] = ("",),
        period: float = _PERIOD_SECONDS,
    ) -> None:
        """`address_of` knows addresses better than the status of Pods, which users may write. The namespace '' means
        all."""
        self._cluster = cluster
        self._address_of = address_of
        self._recorder = recorder
        self._settings = settings
        self._kinds = kinds
        self._namespaces = namespaces
        self._period = period

    async def run(self) -> None:
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session:
            while True:
                await asyncio.sleep(self._period)
                try:
                    await self.look(session)
                except ApiError as error:
                    log.warning("workspaces cannot be listed: %s", error)

    async def look(self, session: aiohttp.ClientSession) -> None:
        """Looks at all workspaces once."""
        room = asyncio.Semaphore(_MOST_AT_ONCE)
        found = [
            (kind, workspace)
            for kind in self._kinds
            for namespace in self._namespaces
            for workspace in (await self._cluster.list(kind, namespace)).items
        ]
        running = [(kind, each) for kind, each in found if not is_stopped(each) and not is_deleting(each)]
        async with asyncio.TaskGroup() as group:
            for kind, workspace in running:
                group.create_task(self._look_at(session, room, kind, workspace))

    async def _look_at(
        self, session: aiohttp.ClientSession, room: asyncio.Semaphore, kind: Kind, workspace: Object
    ) -> None:
        namespace, name = namespace_of(workspace), name_of(workspace)
        async with room:
            try:
                upstream = await find_upstream(self._cluster, kind, namespace, name)
                if upstream is not None and self._address_of is not None:
                    host = await self._address_of(namespace, pod_name(workspace), upstream.port)
                    upstream = upstream._replace(host=host)
                if upstream is not None:
                    await self._decide(kind, workspace, upstream, await _ask_activity(session, kind, upstream))
            except (ApiError, aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
                log.debug("the activity of %s %s/%s is unknown: %s", kind.kind, namespace, name, error)

    async def _decide(self, kind: Kind, workspace: Object, upstream: Upstream, activity: Activity) -> None:
        decision = decide_culling(workspace, activity, upstream.ready_since, datetime.now(UTC), self._settings)
        if not decision.annotations:
            return
        metadata = {"annotations": dict(decision.annotations), "uid": uid_of(workspace)}
        await self._cluster.patch(kind, name_of(workspace), namespace_of(workspace), {"metadata": metadata})
        if decision.warn:
            self._recorder.event(workspace, "Warning", "Idle", decision.warn)
        if decision.stop:
            self._recorder.event(workspace, "Normal", "Culled", decision.stop)


async def _ask_activity(session: aiohttp.ClientSession, kind: Kind, upstream: Upstream) -> Activity:
    if kind == TENSORBOARD:
        return read_activity([await _ask(session, upstream, "muster/activity")], [])
    kernels, terminals = [await _ask(session, upstream, f"api/{name}") for name in ("kernels", "terminals")]
    return read_activity(kernels, terminals)


async def _ask(session: aiohttp.ClientSession, upstream: Upstream, path: str) -> Any:
    """Raises ValueError if this is no answer of such a server."""
    url = f"http://{upstream.host}:{upstream.port}{upstream.prefix}{path}"
    async with session.get(url, headers=dict(upstream.headers), allow_redirects=False) as response:
        if response.status == 404 and path.endswith("terminals"):
            return []
        if response.status != 200:
            raise ValueError(f"{path}: status {response.status}")
        text = b""
        async for piece in response.content.iter_any():
            text += piece
            if len(text) > _LARGEST_ANSWER:
                raise ValueError(f"{path}: the answer is larger than {_LARGEST_ANSWER} bytes")
    return orjson.loads(text)
