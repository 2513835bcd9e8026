"""What controllers are made of: informers, which keep local copies of objects current, and the work queue.

An informer lists, watches, and lists again when the watch has expired. The queue calls `reconcile(key)`, once per key
at
a time, with back-off after failures.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Generic, TypeAlias, TypeVar

from muster.kube.cluster import Cluster
from muster.kube.errors import ApiError, BadRequest, Conflict, Gone, TooManyRequests, Unavailable
from muster.kube.kinds import Kind
from muster.kube.objects import Key, Object, controller_of, key_of, meta, version_of

# Local copies of the objects of one kind that stay current: list, watch, and list again when
# the watch has expired.
#
# `Informer` follows one namespace and one selector. `InformerSet` combines several informers of one kind.


OnChange: TypeAlias = Callable[[Object | None, Object | None], None]
"""(before, after): None before the object exists and after it is deleted."""

Indexer: TypeAlias = Callable[[Object], Collection[Hashable]]

Trim: TypeAlias = Callable[[Object], Object]
"""Returns the part of an object to keep, as an object of its own."""

log = logging.getLogger(__name__)

_FIRST_DELAY, _LONGEST_DELAY = 0.05, 5.0
_LASTING = 1.0
"""Seconds after which a watch counts as successful even without events."""
_CONNECTION_TROUBLE = (Unavailable, TooManyRequests, OSError)


class Informer:
    """Use it with `async with`, or run `run()` as a task and await `synced`.

    `on_change` is called for every change, including those found by a new list; it must not block. Its errors are
    logged, and the copy stays current. With `keep`, only what that function returns is cached, and a change of anything
    else is ignored.
    """

    def __init__(
        self,
        cluster: Cluster,
        kind: Kind,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        on_change: OnChange | None = None,
        indexers: Mapping[str, Indexer] | None = None,
        keep: Trim | None = None,
    ) -> None:
        self.kind = kind
        self.objects: dict[Key, Object] = {}
        self.synced = asyncio.Event()
        self._cluster = cluster
        self._scope = {"namespace": namespace, "labels": labels, "fields": fields}
        self._on_change = on_change
        self._keep = keep
        self._indexers = dict(indexers or {})
        self._indices: dict[str, dict[Hashable, dict[Key, Object]]] = {name: {} for name in self._indexers}
        self._filed: dict[str, dict[Key, Collection[Hashable]]] = {name: {} for name in self._indexers}
        """Under which values each object is filed."""
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Informer:
        self._task = asyncio.create_task(self.run(), name=f"informer {self.kind.plural}")
        self._task.add_done_callback(lambda _: self.synced.set())  # no waiter may hang on an informer that has ended
        try:
            await self.synced.wait()
            if self._task.done():
                self._task.result()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        failure = await self._stop()
        if failure is not None:
            raise failure

    def get(self, namespace: str, name: str) -> Object | None:
        return self.objects.get(Key(namespace, name))

    def by(self, index: str, value: Hashable) -> list[Object]:
        """Returns the objects that an indexer filed under `value`."""
        return list(self._indices[index].get(value, {}).values())

    async def run(self) -> None:
        """Runs until cancelled. Raises BadRequest if the cluster rejects the request, which a retry cannot change."""
        version = ""
        delay = _FIRST_DELAY
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                version = version or await self._list()
                async for event in self._cluster.watch(
                    self.kind, **self._scope, resource_version=version, bookmarks=True
                ):
                    version = meta(event.object)["resourceVersion"]
                    delay = _FIRST_DELAY
                    if event.type != "BOOKMARK":
                        self._put(key_of(event.object), None if event.type == "DELETED" else event.object)
            except Gone:
                version = ""
            except BadRequest:
                if not version:
                    raise
                version = ""
            except (ApiError, OSError) as error:
                if not isinstance(error, _CONNECTION_TROUBLE):
                    version = ""
                log.warning("watch of %s: %s; retrying in %.1f s", self.kind.plural, error, delay)
            # A watch that just ends continues where it was; not at once, because one that always ends would keep the
            # loop busy.
            if loop.time() - began > _LASTING:
                delay = _FIRST_DELAY
            await asyncio.sleep(delay)
            delay = min(delay * 2, _LONGEST_DELAY)

    async def _list(self) -> str:
        found: dict[Key, Object] = {}
        token = ""
        while True:
            page = await self._cluster.list(self.kind, **self._scope, limit=5000, continue_=token)
            found.update((key_of(o), o) for o in page.items)
            token = page.continue_
            if not token:
                break
        for key in [k for k in self.objects if k not in found]:
            self._put(key, None)
        for key, obj in found.items():
            known = self.objects.get(key)
            if known is None or version_of(known) != version_of(obj):
                self._put(key, obj)
        self.synced.set()
        return page.resource_version

    def _put(self, key: Key, obj: Object | None) -> None:
        before = self.objects.get(key)
        if before is None and obj is None:
            return
        if self._keep is not None and obj is not None:
            obj = self._keep(obj)
            if obj == before:
                return
        for name, indexer in self._indexers.items():
            index, filed = self._indices[name], self._filed[name]
            values = indexer(obj) if obj is not None else ()
            for value in filed.pop(key, ()):
                if value not in values:
                    del index[value][key]
                    if not index[value]:
                        del index[value]
            if obj is not None and values:
                filed[key] = values
                for value in values:
                    index.setdefault(value, {})[key] = obj
        if obj is None:
            del self.objects[key]
        else:
            self.objects[key] = obj
        if self._on_change is not None:
            try:
                self._on_change(before, obj)
            except Exception:
                log.exception("on_change failed for %s %s", self.kind.plural, key)

    async def _stop(self) -> BaseException | None:
        """Returns the error that ended it, if there is one."""
        if self._task is None:
            return None
        self._task.cancel()
        await asyncio.wait([self._task])
        return None if self._task.cancelled() else self._task.exception()


def index_by_controller(obj: Object) -> Collection[Hashable]:
    """Indexer: the uid of the controlling owner."""
    owner = controller_of(obj)
    return [] if owner is None else [owner["uid"]]


class InformerSet:
    """One informer per namespace ("" means all) and selector. No object may match two of them."""

    def __init__(
        self,
        cluster: Cluster,
        kind: Kind,
        namespaces: Sequence[str] = ("",),
        *,
        selectors: Sequence[str] = ("",),
        on_change: OnChange | None = None,
        indexers: Mapping[str, Indexer] | None = None,
        keep: Trim | None = None,
    ) -> None:
        self._parts = [
            Informer(cluster, kind, namespace, labels=labels, on_change=on_change, indexers=indexers, keep=keep)
            for namespace in namespaces
            for labels in selectors
        ]

    def get(self, namespace: str, name: str) -> Object | None:
        key = Key(namespace, name)
        return next((part.objects[key] for part in self._parts if key in part.objects), None)

    def by(self, index: str, value: Hashable) -> list[Object]:
        return [obj for part in self._parts for obj in part.by(index, value)]

    def __iter__(self) -> Iterator[Object]:
        return chain.from_iterable(list(part.objects.values()) for part in self._parts)

    @property
    def is_synced(self) -> bool:
        return all(part.synced.is_set() for part in self._parts)

    async def wait_synced(self) -> None:
        for part in self._parts:
            await part.synced.wait()

    async def run(self) -> None:
        """Runs until cancelled."""
        async with asyncio.TaskGroup() as group:
            for part in self._parts:
                group.create_task(part.run())


K = TypeVar("K")

OnDone: TypeAlias = Callable[[K, float, BaseException | None], None]
"""(key, seconds, error): called after every reconcile."""

_FIRST_RETRY = 0.01
_MAX_URGENT_IN_A_ROW = 4
"""How many urgent keys may come before one that is not."""
_MAX_BACKOFF_UNAVAILABLE = 5.0
"""The maximum delay while the cluster does not respond, so that work resumes soon after it is back."""


class Controller(Generic[K]):
    """`enqueue` may be called at any time, from the event loop's thread. `reconcile` observes and acts. It returns the
    seconds until the next reconcile, or None. A requested reconcile is never cancelled: one too many does no harm, one
    too few may leave something stuck."""

    def __init__(
        self,
        name: str,
        reconcile: Callable[[K], Awaitable[float | None]],
        *,
        workers: int = 4,
        max_backoff: float = 30.0,
        on_done: OnDone[K] | None = None,
        queue: PriorityQueue[K] | FairQueue[K] | None = None,
    ) -> None:
        self._name = name
        self._reconcile = reconcile
        self._workers = workers
        self._max_backoff = max_backoff
        self._on_done = on_done
        self._closing = False
        self._idle = asyncio.Event()
        self._queue = queue if queue is not None else PriorityQueue[K]()
        self._active: set[K] = set()
        self._again: dict[K, bool] = {}
        self._failures: dict[K, int] = {}
        self._requested: _Timers[K] = {}
        self._retries: _Timers[K] = {}

    def enqueue(self, key: K, *, urgent: bool = False) -> None:
        """Requests a reconcile of `key`. If one is running, another follows. Urgent keys mostly come first, so that a
        thousand new keys do not delay work in progress."""
        if key in self._active:
            self._again[key] = self._again.get(key, False) or urgent
        else:
            self._queue.put(key, urgent=urgent)

    def enqueue_after(self, key: K, seconds: float) -> None:
        """Of several requests for one key, the earliest wins."""
        self._schedule(self._requested, key, seconds)

    @property
    def depth(self) -> int:
        """The number of keys that wait for a reconcile."""
        return len(self._queue)

    @property
    def busy(self) -> int:
        """The number of reconciles that run."""
        return len(self._active)

    async def finish(self) -> None:
        """Starts no more reconciles, and waits for those that run."""
        self._closing = True
        while self._active:
            self._idle.clear()
            await self._idle.wait()

    async def run(self) -> None:
        """Runs until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._workers):
                    group.create_task(self._work(), name=f"{self._name} {number}")
        finally:
            for timers in (self._requested, self._retries):
                for _, timer in timers.values():
                    timer.cancel()
                timers.clear()

    def _schedule(self, timers: _Timers[K], key: K, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if seconds <= 0:
            loop.call_soon(self.enqueue, key)  # uvloop has no timer for a time in the past
            return
        at = loop.time() + seconds
        timer = timers.get(key)
        if timer is not None:
            if timer[0] <= at:
                return
            timer[1].cancel()
        timers[key] = at, loop.call_at(at, self._due, timers, key)

    def _due(self, timers: _Timers[K], key: K) -> None:
        timers.pop(key, None)
        self.enqueue(key)

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            if self._closing:
                return
            self._active.add(key)
            try:
                await self._attempt(key)
            finally:
                self._active.discard(key)
                self._queue.done(key)
                if not self._active:
                    self._idle.set()
                if key in self._again:
                    self.enqueue(key, urgent=self._again.pop(key))

    async def _attempt(self, key: K) -> None:
        retry = self._retries.pop(key, None)
        if retry is not None:
            retry[1].cancel()  # this call is the retry, whatever caused it
        began = time.perf_counter()
        try:
            again = await self._reconcile(key)
        except asyncio.CancelledError as error:
            if _is_being_cancelled():
                raise
            self._retry(key, error)  # something that it awaited was cancelled: that must not end the worker
            self._report(key, began, error)
        except Exception as error:
            self._retry(key, error)
            self._report(key, began, error)
        else:
            self._report(key, began, None)
            self._failures.pop(key, None)
            if again is not None:
                self.enqueue_after(key, again)

    def _report(self, key: K, began: float, error: BaseException | None) -> None:
        if self._on_done is not None:
            self._on_done(key, time.perf_counter() - began, error)

    def _retry(self, key: K, error: BaseException) -> None:
        failures = self._failures[key] = min(self._failures.get(key, 0) + 1, 30)  # 2**1024 would overflow a float
        delay = backoff(failures, error, self._max_backoff)
        if isinstance(error, Conflict):
            log.debug("%s %s: %s", self._name, key, error)
        elif isinstance(error, ApiError):
            log.warning("%s %s: %s; retrying in %.2f s", self._name, key, error, delay)
        else:
            log.error("%s %s failed; retrying in %.2f s", self._name, key, delay, exc_info=error)
        self._schedule(self._retries, key, delay)


class PriorityQueue(Generic[K]):
    """A queue in which each key waits once. Urgent keys come first, but never starve the others."""

    def __init__(self) -> None:
        self._urgent: dict[K, None] = {}
        self._others: dict[K, None] = {}
        self._filled: asyncio.Queue[None] = asyncio.Queue()
        self._in_a_row = 0

    def __len__(self) -> int:
        return len(self._urgent) + len(self._others)

    def put(self, key: K, *, urgent: bool = False) -> None:
        if key in self._urgent:
            return
        if key not in self._others:
            self._filled.put_nowait(None)
        elif urgent:
            del self._others[key]
        else:
            return
        (self._urgent if urgent else self._others)[key] = None

    async def get(self) -> K:
        await self._filled.get()
        is_urgent = bool(self._urgent) and (self._in_a_row < _MAX_URGENT_IN_A_ROW or not self._others)
        self._in_a_row = self._in_a_row + 1 if is_urgent else 0
        lane = self._urgent if is_urgent else self._others
        key = next(iter(lane))
        del lane[key]
        return key

    def done(self, key: K) -> None:
        """The key that `get` returned is not worked on any more."""


class FairQueue(Generic[K]):
    """A queue in which each key waits once, in a lane, such as its namespace. Lanes take turns, and at most `per_lane`
    keys of one are worked on at the same time: one with a thousand slow keys does not delay the others."""

    def __init__(self, lane_of: Callable[[K], Hashable], per_lane: int) -> None:
        self._lane_of = lane_of
        self._per_lane = per_lane
        self._lanes: dict[Hashable, dict[K, None]] = {}
        self._busy: dict[Hashable, int] = {}
        self._idle: deque[asyncio.Future[None]] = deque()
        """Those that wait in `get`. One is woken for each key, not all of them."""

    def __len__(self) -> int:
        return sum(map(len, self._lanes.values()))

    def put(self, key: K, *, urgent: bool = False) -> None:
        self._lanes.setdefault(self._lane_of(key), {}).setdefault(key)
        self._wake_one()

    async def get(self) -> K:
        while True:
            lane = next((name for name in self._lanes if self._busy.get(name, 0) < self._per_lane), None)
            if lane is not None:
                return self._take(lane)
            turn = asyncio.get_running_loop().create_future()
            self._idle.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done():
                    self._wake_one()  # another one takes the turn
                raise

    def done(self, key: K) -> None:
        """The key that `get` returned is not worked on any more."""
        lane = self._lane_of(key)
        self._busy[lane] -= 1
        if not self._busy[lane]:
            del self._busy[lane]
        if self._lanes:
            self._wake_one()

    def _wake_one(self) -> None:
        while self._idle:
            turn = self._idle.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def _take(self, lane: Hashable) -> K:
        waiting = self._lanes.pop(lane)
        key = next(iter(waiting))
        del waiting[key]
        if waiting:
            self._lanes[lane] = waiting  # at the end: the others are next
        self._busy[lane] = self._busy.get(lane, 0) + 1
        return key


def backoff(failures: int, error: BaseException, longest: float) -> float:
    """Returns the seconds until the next attempt."""
    longest = min(longest, _MAX_BACKOFF_UNAVAILABLE) if isinstance(error, Unavailable) else longest
    return min(_FIRST_RETRY * 2.0 ** (failures - 1), longest)


_Timers: TypeAlias = dict[K, tuple[float, asyncio.Handle]]
"""When a timer is due, and the handle that cancels it. uvloop's handles of less than a millisecond do not know when."""


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
