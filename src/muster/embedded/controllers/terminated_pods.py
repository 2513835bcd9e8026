"""Deletes the oldest Pods that have ended if there are too many, as Kubernetes' PodGC does.

Their logs stay. A Pod stays as long as its controller may still look at it: until the controller has finished, is gone,
or says by a label that it has recorded what became of the Pod. Pods without a controller belong to users, and stay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import POD
from muster.kube.errors import Conflict, NotFound
from muster.kube.objects import (
    Key,
    Object,
    controller_of,
    is_deleting,
    labels_of,
    meta,
    name_of,
    namespace_of,
    status_of,
    uid_of,
)

RECORDED_LABEL = "workflows.argoproj.io/completed"
"""Argo's controller sets it to "true" when it has stored the outcome of a Pod."""
_ENDED = ("Succeeded", "Failed")
_FINISHED_PHASES = frozenset({"Succeeded", "Failed", "Error"})
_FINISHED_CONDITIONS = frozenset({"Complete", "Completed", "Succeeded", "Failed"})
_PORTION = 100
_SECONDS = 5.0


def pods_to_collect(pods: Iterable[Object], owner_of: Callable[[Object], Object | None], most: int) -> list[Object]:
    """Returns the Pods to delete so that at most `most` that have ended stay, the oldest first. `owner_of` returns the
    controller of a Pod, or None if it is gone."""
    ended = [pod for pod in pods if status_of(pod).get("phase") in _ENDED and not is_deleting(pod)]
    surplus = len(ended) - most
    if surplus <= 0:
        return []
    ended.sort(key=lambda pod: (meta(pod).get("creationTimestamp") or "", name_of(pod)))
    found = (pod for pod in ended if _is_free(pod, owner_of))
    return [pod for pod, _ in zip(found, range(surplus), strict=False)]


def has_finished(owner: Object) -> bool:
    """Whether a controller of Pods (a Job, a training job, a workflow) will not look at them again."""
    status = status_of(owner)
    if status.get("phase") in _FINISHED_PHASES:
        return True
    conditions = status.get("conditions")
    return isinstance(conditions, list) and any(
        c.get("status") == "True" and c.get("type") in _FINISHED_CONDITIONS for c in conditions if isinstance(c, dict)
    )


def _is_free(pod: Object, owner_of: Callable[[Object], Object | None]) -> bool:
    if meta(pod).get("finalizers") or controller_of(pod) is None:
        return False
    if labels_of(pod).get(RECORDED_LABEL) == "true":
        return True
    owner = owner_of(pod)
    return owner is None or has_finished(owner)


class TerminatedPodCollector:
    """`most` Pods that have ended may stay; 0 for no limit."""

    def __init__(self, cluster: EmbeddedCluster, most: int, every: float = _SECONDS) -> None:
        self._cluster = cluster
        self._most = most
        self._every = every

    async def run(self) -> None:
        while self._most:
            await self.collect()
            await asyncio.sleep(self._every)

    async def collect(self) -> int:
        view = self._cluster.store.view
        if view.count(POD.resource) <= self._most:
            return 0
        pods = pods_to_collect(view.objects(POD.resource), self._owner_of, self._most)
        for start in range(0, len(pods), _PORTION):
            await asyncio.gather(*map(self._delete, pods[start : start + _PORTION]))
        return len(pods)

    async def _delete(self, pod: Object) -> None:
        try:
            await self._cluster.delete(POD, name_of(pod), namespace_of(pod), grace_seconds=0, uid=uid_of(pod))
        except (NotFound, Conflict):
            return

    def _owner_of(self, pod: Object) -> Object | None:
        owner = controller_of(pod)
        if owner is None:
            return None
        group = str(owner.get("apiVersion") or "").rpartition("/")[0]
        kind = self._cluster.catalogue.in_group(group, str(owner.get("kind")))
        if kind is None:
            return None
        found = self._cluster.store.get(kind.resource, Key(namespace_of(pod) if kind.namespaced else "", owner["name"]))
        return found if found is not None and uid_of(found) == owner.get("uid") else None
