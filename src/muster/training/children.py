"""Creates and deletes the objects that belong to a job, records events about it, and expects to see the result.

`Expectations` remembers what the controller created or wrote until an informer shows it. Until then a Pod would seem
to be missing, or a status outdated. If the notification is lost, looking again a while later does no harm: an object
that exists is not created twice, and one that has changed is not overwritten.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, Literal, NamedTuple, Protocol, TypeVar

from muster.kube.cluster import Cluster
from muster.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from muster.kube.kinds import Kind
from muster.kube.objects import Object, controller_of, labels_of, name_of, namespace_of, uid_of


class EventSink(Protocol):
    def event(self, about: Object, type: Literal["Normal", "Warning"], reason: str, message: str) -> None: ...


class JobChildren:
    def __init__(self, cluster: Cluster, recorder: EventSink) -> None:
        self._cluster = cluster
        self._recorder = recorder

    async def create(self, job: Object, objects: Sequence[Object], on_created: Callable[[Object], None]) -> None:
        """Creates Services and ConfigMaps before the Pods that look for them, each group concurrently. Records one
        event for all of them: with many jobs, events would be most of the work."""
        created: list[Object] = []
        try:
            for are_pods in (False, True):
                wanted = [obj for obj in objects if (obj["kind"] == "Pod") is are_pods]
                results = await asyncio.gather(
                    *(self._create(job, obj, on_created) for obj in wanted), return_exceptions=True
                )
                created += [result for result in results if isinstance(result, dict)]
                for result in results:
                    if isinstance(result, BaseException):
                        raise result
        finally:
            if created:
                self._recorder.event(
                    job, "Normal", f"SuccessfulCreate{created[-1]['kind']}", f"Created {_format_names(created)}"
                )

    async def delete(self, job: Object, obj: Object) -> None:
        kind = self._cluster.catalogue.of_object(obj)
        await ignore_not_found(self._cluster.delete(kind, name_of(obj), namespace_of(obj), uid=uid_of(obj)))
        what = obj["kind"].lower()
        self._recorder.event(job, "Normal", f"SuccessfulDelete{obj['kind']}", f"Deleted {what}: {name_of(obj)}")

    async def _create(self, job: Object, obj: Object, on_created: Callable[[Object], None]) -> Object | None:
        if not find_kind(self._cluster, (obj["apiVersion"], obj["kind"])):
            reason, message = _MISSING_KINDS[obj["kind"]]
            self._recorder.event(job, "Warning", reason, message)
            return None
        try:
            created = await self._cluster.create(obj)
        except AlreadyExists:
            await self._check_owner(job, obj)
            return None
        except ApiError as error:
            message = f"Error creating {obj['kind'].lower()} {name_of(obj)}: {error.message}"
            self._recorder.event(job, "Warning", f"FailedCreate{obj['kind']}", message)
            raise
        on_created(created)
        return created

    async def _check_owner(self, job: Object, obj: Object) -> None:
        """An object of that name exists. If it is not ours, say so, because waiting silently would look like a hang.
        Only a PodGroup may belong to the user."""
        kind = self._cluster.catalogue.of_object(obj)
        existing = await self._cluster.get(kind, name_of(obj), namespace_of(obj))
        owner = controller_of(existing)
        if owner is None and kind.kind == "PodGroup":
            return
        if owner is None or owner.get("uid") != uid_of(job):
            message = (
                f"{kind.singular} {name_of(obj)} already exists and belongs to something else; delete or rename it"
            )
            self._recorder.event(job, "Warning", f"FailedCreate{obj['kind']}", message)
            raise Conflict(message)
        wanted, found = labels_of(obj), labels_of(existing)
        if any(found.get(name) != value for name, value in wanted.items()):
            # Created by another operator before us. Our labels make it visible to our informers.
            await self._cluster.patch(kind, name_of(existing), namespace_of(existing), {"metadata": {"labels": wanted}})


def find_kind(cluster: Cluster, names: tuple[str, str]) -> list[Kind]:
    """Returns the kind of that (apiVersion, kind), if the cluster has it."""
    try:
        return [cluster.catalogue.of(*names)]
    except NotFound:
        return []


async def ignore_not_found(call: Awaitable[Object]) -> None:
    try:
        await call
    except NotFound:
        return


def _format_names(objects: Sequence[Object]) -> str:
    """Returns text such as "configmap: job-config; 2 services and pods: job-worker-0, job-worker-1"."""
    names: dict[str, list[str]] = {}
    for obj in objects:
        names.setdefault(obj["kind"].lower(), []).append(name_of(obj))
    kinds: dict[tuple[str, ...], list[str]] = {}
    for kind, named in names.items():
        kinds.setdefault(tuple(named), []).append(kind)
    return "; ".join(
        f"{' and '.join(alike)}: {named[0]}"
        if len(named) == 1
        else f"{len(named)} {' and '.join(f'{kind}s' for kind in alike)}: {', '.join(named)}"
        for named, alike in kinds.items()
    )


_MISSING_KINDS = {
    "HorizontalPodAutoscaler": (
        "NoAutoscaler",
        "elasticPolicy.metrics: this cluster has no HorizontalPodAutoscaler; scale by changing replicas",
    ),
    "PodGroup": (
        "NoPodGroups",
        "this cluster has no PodGroups, so nothing can hold a gang together: install the gang scheduler that the job "
        "asks for, or remove schedulerName and schedulingPolicy",
    ),
}


K = TypeVar("K", bound=Hashable)

TIMEOUT = 5.0


class _Expected(NamedTuple):
    things: set[str]
    until: float


class Expectations(Generic[K]):
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._expected: dict[K, _Expected] = {}

    def expect(self, key: K, what: str) -> None:
        known = self._expected.get(key)
        self._expected[key] = _Expected({*(known.things if known else ()), what}, self._clock() + TIMEOUT)

    def observe(self, key: K, what: str) -> None:
        expected = self._expected.get(key)
        if expected is not None:
            expected.things.discard(what)

    def seconds_left(self, key: K) -> float:
        """Returns the seconds that are worth waiting; 0 if nothing is missing or the wait has timed out."""
        expected = self._expected.get(key)
        left = expected.until - self._clock() if expected is not None and expected.things else 0.0
        if left <= 0:
            self._expected.pop(key, None)
            return 0.0
        return left

    def forget(self, key: K) -> None:
        self._expected.pop(key, None)
