"""What is asked of a node about its Pods: their logs, and commands to run in them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial

from muster.embedded.agent.execution import Execution
from muster.embedded.agent.logs import Logs
from muster.embedded.agent.metering import Meter
from muster.embedded.agent.podwork import PodWork
from muster.kube.cluster import LogQuery
from muster.kube.errors import BadRequest, NotFound
from muster.kube.informer import Informer
from muster.kube.metrics import Rates
from muster.kube.objects import Object, annotations_of, name_of, spec_of, status_of, uid_of

_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


class Operations:
    """Implements `muster.embedded.cluster.NodeOperations`. Nobody is answered before the agent is `ready`."""

    def __init__(
        self, name: str, pods: Informer, works: Mapping[str, PodWork], logs: Logs, meter: Meter, ready: asyncio.Event
    ) -> None:
        self.name = name
        self._meter = meter
        self._ready = ready
        self._pods = pods
        self._works = works
        self._logs = logs

    async def logs(self, pod: str, namespace: str, query: LogQuery) -> AsyncIterator[bytes]:
        """Of a Pod that exists, or of the latest one of that name that did."""
        await self._ready.wait()
        found = self._pods.get(namespace, pod)
        work = self._works.get(uid_of(found)) if found is not None else None
        if found is not None:
            folder = self._logs.folder(namespace, pod, uid_of(found))
            container = _chosen(found, query.container)
            attempt = _attempt(found, container, work)
        else:
            folder = self._logs.newest(namespace, pod)
            container = self._logs.container(folder, pod, query.container)
            attempt = self._logs.last_attempt(folder, container)
        if query.previous:
            attempt -= 1
            if attempt < 0:
                raise BadRequest(f'previous terminated container "{container}" in pod "{pod}" not found')
        ended: Callable[[], bool] = partial(work.has_ended, container, attempt) if work is not None else _long_since
        news = asyncio.Event()
        if work is not None:
            work.listeners.add(news)
        try:
            async for piece in self._logs.read(f"{folder}/{container}", attempt, query, ended, news):
                yield piece
        finally:
            if work is not None:
                work.listeners.discard(news)

    async def exec(
        self, pod: str, namespace: str, command: Sequence[str], *, container: str, stdin: bool, tty: bool
    ) -> Execution:
        await self._ready.wait()
        found = self._pods.get(namespace, pod)
        if found is None:
            raise NotFound(f'pods "{pod}" not found')
        work = self._works.get(uid_of(found))
        # The status follows what is the case by a moment.
        ending = work.progress.finished if work is not None else None
        phase = ending.get("phase") if ending is not None else status_of(found).get("phase")
        if phase in ("Succeeded", "Failed"):
            raise BadRequest(f"cannot exec into a container in a completed pod; current phase is {phase}")
        if work is None:
            raise BadRequest(f"pod {pod} does not have a host assigned, or runs on a simulated node")
        first = container or _default_container(found) or _container_names(found)[0]
        return await Execution.start(work.folder, _chosen(found, first), command, stdin=stdin, tty=tty)

    async def usage(self) -> tuple[Rates, float]:
        await self._ready.wait()
        return await self._meter.rates()


def _container_names(pod: Object) -> list[str]:
    spec = spec_of(pod)
    return [str(c.get("name")) for c in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))]


def _default_container(pod: Object) -> str:
    containers = spec_of(pod).get("containers") or []
    chosen = annotations_of(pod).get(_DEFAULT_CONTAINER)
    return chosen or (str(containers[0].get("name")) if len(containers) == 1 else "")


def _chosen(pod: Object, wanted: str) -> str:
    names, chosen = _container_names(pod), wanted or _default_container(pod)
    choose = f"choose one of: [{' '.join(names)}]"
    if not chosen:
        raise BadRequest(f"a container name must be specified for pod {name_of(pod)}, {choose}")
    if chosen not in names:
        raise BadRequest(f"container {chosen} is not valid for pod {name_of(pod)}, {choose}")
    return chosen


def _attempt(pod: Object, container: str, work: PodWork | None) -> int:
    """The latest one. Raises BadRequest, as kubelet does, when there is none yet: the reason for that is what one wants
    to know."""
    if work is not None and (known := work.progress.containers.get(container)) is not None and known.attempt >= 0:
        return known.attempt
    if not spec_of(pod).get("nodeName"):
        raise BadRequest(f"pod {name_of(pod)} does not have a host assigned")
    status, waiting = status_of(pod), "ContainerCreating"
    for found in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        if found.get("name") == container:
            if found.get("containerID"):
                return int(found.get("restartCount") or 0)
            detail = (found.get("state") or {}).get("waiting") or {}
            waiting = ": ".join(filter(None, (detail.get("reason") or waiting, detail.get("message"))))
    raise BadRequest(f'container "{container}" in pod "{name_of(pod)}" is waiting to start: {waiting}')


def _long_since() -> bool:
    return True
