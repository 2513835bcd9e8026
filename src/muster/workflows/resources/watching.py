"""Watches objects of any kind for any number of waiting steps: one watch per kind, none per step."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from muster.kube.cluster import Cluster
from muster.kube.errors import ApiError, NotFound
from muster.kube.informer import Informer
from muster.kube.kinds import Kind
from muster.kube.objects import Key, Object, annotations_of, key_of, uid_of, version_of
from muster.workflows.resources.actions import MARK
from muster.workflows.resources.orders import Target

Look: TypeAlias = Callable[[Object | None], bool]
"""Is shown the object whenever it changes, None once it is gone; True: it has seen enough."""

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Wait:
    target: Target
    uid: str
    since: int
    """The resourceVersion that what we did has led to: earlier news is old."""
    look: Look


class ObjectWatch:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._waits: dict[tuple[str, Key], list[Wait]] = {}
        self._informers: dict[str, Informer] = {}
        self._new: asyncio.Queue[Informer] = asyncio.Queue()

    async def run(self) -> None:
        self._new = asyncio.Queue()
        async with asyncio.TaskGroup() as group:
            for informer in self._informers.values():
                group.create_task(self._follow(informer))
            while True:
                informer = await self._new.get()
                group.create_task(self._follow(informer), name=f"resources {informer.kind.plural}")

    async def made_by(self, kind: Kind, mark: str) -> Object | None:
        """What a step has created, whenever that was. Waits until `run` follows the kind."""
        informer = await self._informer(kind)
        return next(iter(informer.by("mark", mark)), None)

    async def current(self, target: Target) -> Object | None:
        try:
            return await self._cluster.get(target.kind, target.name, target.namespace)
        except NotFound:
            return None

    async def until(self, target: Target, obj: Object, look: Look) -> Wait:
        """Shows `look` the object, from the state that is at hand on, until it has seen enough. `obj` says which one is
        meant (another one of that name is not it), and since when."""
        await self._informer(target.kind)
        wait = Wait(target, uid_of(obj), _number(version_of(obj)), look)
        self._waits.setdefault(_place(target), []).append(wait)
        # What the watch has told before this is in the state we get now; what it tells later, it tells.
        self._show(wait, await self.current(target))
        return wait

    def forget(self, wait: Wait) -> None:
        place = _place(wait.target)
        waiting = self._waits.get(place, [])
        if wait in waiting:
            waiting.remove(wait)
        if not waiting:
            self._waits.pop(place, None)

    async def _informer(self, kind: Kind) -> Informer:
        name = kind.resource + kind.version
        informer = self._informers.get(name)
        if informer is None:
            informer = Informer(
                self._cluster, kind, on_change=lambda old, new: self._changed(kind, old, new), indexers={"mark": _mark}
            )
            self._informers[name] = informer
            self._new.put_nowait(informer)
        await informer.synced.wait()
        return informer

    async def _follow(self, informer: Informer) -> None:
        try:
            await informer.run()
        except ApiError as error:
            log.warning("%s cannot be watched: %s", informer.kind.plural, error)
            informer.synced.set()

    def _changed(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        for wait in list(self._waits.get((kind.resource, key_of(after or before or {})), ())):
            self._show(wait, after)

    def _show(self, wait: Wait, obj: Object | None) -> None:
        if wait not in self._waits.get(_place(wait.target), ()):
            return
        if obj is not None and _number(version_of(obj)) < wait.since:
            return
        if wait.look(obj if obj is not None and uid_of(obj) == wait.uid else None):
            self.forget(wait)


def _place(target: Target) -> tuple[str, Key]:
    return target.kind.resource, Key(target.namespace, target.name)


def _mark(obj: Object) -> list[str]:
    mark = annotations_of(obj).get(MARK)
    return [mark] if mark else []


def _number(version: str) -> int:
    return int(version) if version.isdigit() else 0
