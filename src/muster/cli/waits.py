"""What a run waits for where its objects do not say so themselves: their events, and PodGroups without room."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AsyncExitStack

from muster.kube.cluster import Cluster
from muster.kube.errors import ApiError
from muster.kube.happenings import in_order
from muster.kube.informer import Informer
from muster.kube.objects import Object

_GROUPS = ("scheduling.volcano.sh/v1beta1", "scheduling.x-k8s.io/v1alpha1")


class Waits:
    """Asks the cluster nothing before `listen`: most runs never wait for long."""

    def __init__(
        self,
        cluster: Cluster,
        namespaces: Collection[str],
        *,
        on_event: Callable[[str], None],
        on_group: Callable[[Object], None],
    ) -> None:
        """`on_event` is told the uid of an object with news, `on_group` the PodGroup that has changed."""
        self.listening = False
        self._cluster = cluster
        self._namespaces = namespaces
        self._on_event = on_event
        self._on_group = on_group
        self._events: list[Informer] = []

    def events_of(self, uid: str) -> list[Object]:
        """What is known of the object with this uid, in the order of time."""
        return in_order(event for informer in self._events for event in informer.by("about", uid))

    async def listen(self, stack: AsyncExitStack) -> None:
        """From now on, until the stack is closed."""
        self.listening = True
        for namespace in self._namespaces:
            await self._hear_events(stack, namespace)
            for version in _GROUPS:
                await self._watch_groups(stack, version, namespace)

    async def _hear_events(self, stack: AsyncExitStack, namespace: str) -> None:
        def on_change(_: Object | None, after: Object | None) -> None:
            if after is not None:
                self._on_event(_involved(after))

        kind = self._cluster.catalogue.of("v1", "Event")
        events = Informer(
            self._cluster,
            kind,
            namespace,
            on_change=on_change,
            indexers={"about": lambda event: [_involved(event)]},
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
        """Unless the cluster does not have the kind, or does not let us see it."""
        try:
            await self._cluster.list(informer.kind, namespace, limit=1)
        except (ApiError, OSError):
            return
        await stack.enter_async_context(informer)


def _involved(event: Object) -> str:
    return str((event.get("involvedObject") or {}).get("uid") or "")
