"""Watches the objects of a run and their Pods until all work is done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import NamedTuple

from muster.cli.pod_logs import LogFollower
from muster.cli.run_display import Display, ProgressBoard
from muster.cli.run_objects import AppliedObject, Outcome, find_outcome, is_service, is_workload
from muster.cli.workflow_objects import failure_cause, is_workflow, with_full_status
from muster.kube.cluster import Cluster
from muster.kube.controller import Informer, OnChange
from muster.kube.errors import ApiError
from muster.kube.events import sort_events
from muster.kube.kinds import Kind
from muster.kube.objects import Object, name_of, namespace_of, owners_of, status_of, uid_of
from muster.training.diagnosis import waiting_message

_POD_GROUP_VERSIONS = ("scheduling.volcano.sh/v1beta1", "scheduling.x-k8s.io/v1alpha1")


class WaitReasons:
    """Finds out what a run waits for from events and PodGroups. It asks the cluster only after `listen`: most runs
    never wait for long."""

    def __init__(
        self,
        cluster: Cluster,
        namespaces: Collection[str],
        *,
        on_event: Callable[[str], None],
        on_group: Callable[[Object], None],
    ) -> None:
        """`on_event` gets the uid of an object with a new event, `on_group` a PodGroup that has changed."""
        self.listening = False
        self._cluster = cluster
        self._namespaces = namespaces
        self._on_event = on_event
        self._on_group = on_group
        self._events: list[Informer] = []

    def events_of(self, uid: str) -> list[Object]:
        """Returns the known events of the object with this uid, oldest first."""
        return sort_events(event for informer in self._events for event in informer.by("about", uid))

    async def listen(self, stack: AsyncExitStack) -> None:
        """Watches events and PodGroups until the stack is closed."""
        self.listening = True
        for namespace in self._namespaces:
            await self._watch_events(stack, namespace)
            for version in _POD_GROUP_VERSIONS:
                await self._watch_groups(stack, version, namespace)

    async def _watch_events(self, stack: AsyncExitStack, namespace: str) -> None:
        def on_change(_: Object | None, after: Object | None) -> None:
            if after is not None:
                self._on_event(_involved_uid(after))

        kind = self._cluster.catalogue.of("v1", "Event")
        events = Informer(
            self._cluster,
            kind,
            namespace,
            on_change=on_change,
            indexers={"about": lambda event: [_involved_uid(event)]},
        )
        self._events.append(events)
        await self._enter(stack, events, namespace)

    async def _watch_groups(self, stack: AsyncExitStack, version: str, namespace: str) -> None:
        def on_change(_: Object | None, after: Object | None) -> None:
            if after is not None:
                self._on_group(after)

        try:
            kind = self._cluster.catalogue.of(version, "PodGroup")
        except ApiError:
            return
        await self._enter(stack, Informer(self._cluster, kind, namespace, on_change=on_change), namespace)

    async def _enter(self, stack: AsyncExitStack, informer: Informer, namespace: str) -> None:
        """Starts the informer, unless the cluster does not have the kind or denies access to it."""
        try:
            await self._cluster.list(informer.kind, namespace, limit=1)
        except (ApiError, OSError):
            return
        await stack.enter_async_context(informer)


def _involved_uid(event: Object) -> str:
    return str((event.get("involvedObject") or {}).get("uid") or "")


_TICK = 0.25
_LISTEN_AFTER_SECONDS = 2.0
"""After this many seconds, an unfinished workload may be waiting for something: events and PodGroups are watched, too.
"""
_LOG_TIMEOUT = 10.0


class Finished(NamedTuple):
    """A workload, how it ended, and the last state of its Pods."""

    work: AppliedObject
    outcome: Outcome
    pods: list[Object]


class RunWatch:
    def __init__(self, cluster: Cluster, applied: Sequence[AppliedObject], display: Display) -> None:
        self.board = ProgressBoard()
        self.outcomes: dict[str, Outcome] = {}
        self.pods: dict[str, Object] = {}
        """By uid: the last state of the Pods of this run."""
        self._cluster = cluster
        self._applied = {uid_of(one.object): one for one in applied}
        self._work = {uid for uid, one in self._applied.items() if is_workload(one.object)}
        self._display = display
        self._follower = LogFollower(cluster, display.logs)
        self._pod_kind = cluster.catalogue.of("v1", "Pod")
        self._roots: dict[str, str] = {}
        """The uid of an owner -> the uid of its applied object, or ''."""
        self._searches: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._namespaces = {namespace_of(one.object) for one in applied} - {""}
        self._waits = WaitReasons(cluster, self._namespaces, on_event=self._on_event, on_group=self._on_group)
        self._seen: dict[str, tuple[Kind, Object]] = {}
        """By uid: the objects with a row on the board."""
        self._groups: dict[str, str] = {}
        """The uid of a PodGroup -> the last message about it."""
        self._stack = AsyncExitStack()

    @property
    def has_work(self) -> bool:
        return bool(self._work)

    @property
    def stays(self) -> bool:
        """Whether an object runs until it is stopped."""
        return any(is_service(one.object) for one in self._applied.values())

    @property
    def done(self) -> bool:
        return self._work <= self.outcomes.keys()

    @property
    def failed(self) -> bool:
        return any(not outcome.succeeded for outcome in self.outcomes.values())

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        kinds = {
            (one.kind, namespace_of(one.object))
            for uid, one in self._applied.items()
            if one.kind is not self._pod_kind and (uid in self._work or is_service(one.object))
        }
        try:
            async with self._stack as stack:
                for kind, namespace in kinds:
                    informer = Informer(self._cluster, kind, namespace, on_change=self._on_work(kind))
                    await stack.enter_async_context(informer)
                for namespace in self._namespaces:
                    informer = Informer(self._cluster, self._pod_kind, namespace, on_change=self._on_pod)
                    await stack.enter_async_context(informer)
                yield
        finally:
            for search in self._searches:
                search.cancel()
            await self._follower.close()

    async def wait_until_done(self, *, fail_fast: bool = False) -> None:
        """Updates the display until all workloads are done. Services are watched until this is cancelled."""
        began = time.monotonic()
        while not ((self.done and self.has_work) or (fail_fast and self.failed)):
            self._changed.clear()
            self._display.update(self.board, time.monotonic())
            with suppress(TimeoutError):
                async with asyncio.timeout(_TICK):
                    await self._changed.wait()
            if not self._waits.listening and time.monotonic() - began > _LISTEN_AFTER_SECONDS:
                await self._waits.listen(self._stack)
        await self.settle()

    async def settle(self) -> None:
        """Shows the remaining log lines. Stops only after a time without any line."""
        await self._follower.drain(_LOG_TIMEOUT)
        self._display.settle(self.board, time.monotonic())

    def finished(self) -> list[Finished]:
        return [
            Finished(self._applied[uid], outcome, [p for p in self.pods.values() if self._root_of(p) == uid])
            for uid, outcome in self.outcomes.items()
        ]

    def unfinished(self) -> list[tuple[AppliedObject, list[Object]]]:
        return [
            (self._applied[uid], [p for p in self.pods.values() if self._root_of(p) == uid])
            for uid in self._applied
            if uid in self._work and uid not in self.outcomes
        ]

    def _on_work(self, kind: Kind) -> OnChange:
        def on_change(before: Object | None, after: Object | None) -> None:
            obj = after or before
            if obj is None or uid_of(obj) not in self._applied:
                return
            self._add(kind, obj, deleted=after is None)

        return on_change

    def _on_pod(self, before: Object | None, after: Object | None) -> None:
        pod = after or before
        if pod is None:
            return
        root = self._root_of(pod)
        if root is None:
            self._start_root_search(pod, lambda: self._on_pod(None, self.pods.get(uid_of(pod), pod)))
        if not root:
            return
        self.pods[uid_of(pod)] = pod
        self._follower.update(pod)
        if after is None:
            self._follower.finish(pod)
        self._add(self._pod_kind, pod, deleted=after is None, owner="" if root == uid_of(pod) else root)

    def _on_event(self, uid: str) -> None:
        row, seen = self.board.rows.get(uid), self._seen.get(uid)
        if row is not None and seen is not None and row.stage == "Pending":
            self.board.put(*seen, time.monotonic(), events=self._waits.events_of(uid))
            self._changed.set()

    def _on_group(self, group: Object) -> None:
        root = self._root_of(group)
        if root is None:
            self._start_root_search(group, lambda: self._on_group(group))
        reason = waiting_message(group) if status_of(group).get("phase") in (None, "", "Pending") else ""
        if root and reason and self._groups.get(uid_of(group)) != reason:
            self._groups[uid_of(group)] = reason
            self._display.say(f"podgroup/{name_of(group)} waits for room: {reason}", "yellow")

    def _add(self, kind: Kind, obj: Object, *, deleted: bool, owner: str = "") -> None:
        uid, now = uid_of(obj), time.monotonic()
        if is_workflow(obj):
            obj = self.board.workflows[uid] = with_full_status(self._cluster, obj)
        self._seen[uid] = kind, obj
        self.board.put(kind, obj, now, owner, self._waits.events_of(uid))
        if deleted:
            self.board.remove(uid, now)
        if uid in self._work and uid not in self.outcomes:
            outcome = find_outcome(obj)
            if outcome is not None and not outcome.succeeded and is_workflow(obj):
                outcome = outcome._replace(message=failure_cause(obj))
            if outcome is None and deleted:
                outcome = Outcome(False, "Deleted", "it was deleted before it finished")
            if outcome is not None:
                self.outcomes[uid] = outcome
        self._changed.set()

    def _root_of(self, obj: Object) -> str | None:
        """Returns the uid of the applied object that owns this one; '' if there is none, None if not known yet."""
        if uid_of(obj) in self._applied:
            return uid_of(obj)
        answer: str | None = ""
        for ref in owners_of(obj):
            uid = str(ref.get("uid"))
            if uid in self._applied:
                return uid
            known = self._roots.get(uid)
            if known:
                return known
            if known is None:
                answer = None
        return answer

    def _start_root_search(self, obj: Object, then: Callable[[], None]) -> None:
        search = asyncio.create_task(self._find_root(obj, then))
        self._searches.add(search)
        search.add_done_callback(self._searches.discard)

    async def _find_root(self, obj: Object, then: Callable[[], None]) -> None:
        """Follows the owners of a Pod or PodGroup until one is known."""
        pending = [(namespace_of(obj), ref) for ref in owners_of(obj)]
        visited: list[str] = []
        root = ""
        while pending and not root and len(visited) < 32:
            namespace, ref = pending.pop()
            uid = str(ref.get("uid"))
            if uid in self._applied:
                root = uid
                break
            if uid in visited:
                continue
            visited.append(uid)
            try:
                kind = self._cluster.catalogue.of(str(ref.get("apiVersion")), str(ref.get("kind")))
                owner = await self._cluster.get(kind, str(ref.get("name")), namespace if kind.namespaced else "")
            except ApiError:
                continue
            root = self._root_of(owner) or ""
            pending += [(namespace, above) for above in owners_of(owner)]
        self._roots.update((uid, root) for uid in visited)
        then()
