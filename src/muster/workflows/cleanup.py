"""Deletes what workflows leave behind: the workflow itself, its Pods, volume claims and artifacts.

Each workflow says what to delete and when (`ttlStrategy`, `podGC`, `volumeClaimGC`, `artifactGC`). Without such a
field nothing is deleted. The rules are pure functions; the controller applies them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple, TypeAlias

from muster.kube.builtin import CONFIG_MAP, NAMESPACE, PERSISTENT_VOLUME_CLAIM, POD
from muster.kube.cluster import NodeFiles, StatusRowsCluster
from muster.kube.controller import Controller, Informer
from muster.kube.errors import BadRequest, Conflict, NotFound, is_count
from muster.kube.kinds import Kind
from muster.kube.objects import (
    Key,
    Object,
    annotations_of,
    controller_of,
    is_deleting,
    key_of,
    labels_of,
    meta,
    name_of,
    namespace_of,
    owners_of,
    parse_time,
    spec_of,
    status_of,
    uid_of,
    version_of,
)
from muster.kube.selectors import LabelSelector, label_selector_from
from muster.workflows.artifacts.client import ArtifactClient
from muster.workflows.artifacts.local_store import ArtifactOwners, keys_used
from muster.workflows.artifacts.locations import ArtifactError, is_supplied
from muster.workflows.controller_config import controller_config
from muster.workflows.executors.pod_spec import claims_of
from muster.workflows.kinds import WORKFLOW
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_time import SECOND, parse_duration
from muster.workflows.model import FINISHED_PHASES, NODE_ID, PREVIOUS_LABEL, WORKFLOW_LABEL, EventRecorder, Node

DELAY = timedelta(seconds=5)
"""How long a Pod is kept after its end, unless deleteDelayDuration says otherwise, so that watchers see how it
ended."""
_RETENTION = Key("", "retention")
"""In the queue: not a workflow, but the number of workflows."""
_FULFILLED = frozenset(("Succeeded", "Failed", "Error", "Skipped", "Omitted"))


def resolved_spec(workflow: Object) -> Object:
    """Returns the spec that runs: for a workflow that runs a template, its own spec merged over the template's."""
    stored: Object = status_of(workflow).get("storedWorkflowTemplateSpec") or {}
    return {**stored, **spec_of(workflow)} if stored else spec_of(workflow)


def expires_at(workflow: Object) -> datetime | None:
    """Returns when ttlStrategy deletes the workflow, or None if it stays or has not ended."""
    phase, finished = status_of(workflow).get("phase"), status_of(workflow).get("finishedAt")
    if phase not in FINISHED_PHASES or not finished:
        return None
    ttl = resolved_spec(workflow).get("ttlStrategy") or {}
    seconds = ttl.get("secondsAfterSuccess" if phase == "Succeeded" else "secondsAfterFailure")
    if seconds is None:
        seconds = ttl.get("secondsAfterCompletion")
    return None if seconds is None else parse_time(finished) + timedelta(seconds=int(seconds))


def beyond_retention(workflows: Iterable[Object], kept: Mapping[str, int]) -> list[Object]:
    """Returns the workflows that the controller's retentionPolicy deletes: of each phase, the oldest."""
    by_phase: dict[str, list[Object]] = {phase: [] for phase in kept}
    for workflow in workflows:
        phase = str(status_of(workflow).get("phase"))
        if phase in by_phase and not is_deleting(workflow):
            by_phase[phase].append(workflow)
    found = []
    for phase, ended in by_phase.items():
        ended.sort(key=lambda workflow: (str(meta(workflow).get("creationTimestamp")), name_of(workflow)))
        found += ended[: max(0, len(ended) - kept[phase])]
    return found


class PodPolicy(NamedTuple):
    strategy: str
    selector: LabelSelector
    delay: timedelta

    @property
    def looks_at_pods(self) -> bool:
        """Whether Pods may be deleted before their workflow has ended."""
        return self.strategy in ("OnPodCompletion", "OnPodSuccess")


def pod_policy(workflow: Object) -> PodPolicy | None:
    """Returns None if Pods are kept: by default, and where podGC is invalid."""
    wanted = resolved_spec(workflow).get("podGC") or {}
    strategy = str(wanted.get("strategy") or "")
    if not strategy:
        return None
    try:
        selector = label_selector_from(wanted.get("labelSelector") or {})
        return PodPolicy(strategy, selector, _delay(wanted.get("deleteDelayDuration")))
    except (BadRequest, ExpressionError):
        return None


class PodDeletion(NamedTuple):
    pod: Object
    at: datetime


def pods_to_delete(workflow: Object, nodes: Mapping[str, Node], pods: Iterable[Object]) -> list[PodDeletion]:
    """Returns which Pods to delete, and when. Never a Pod whose node has not ended: its outputs may not be collected
    yet."""
    policy = pod_policy(workflow)
    if policy is None:
        return []
    phase, finished = status_of(workflow).get("phase"), status_of(workflow).get("finishedAt")
    if not policy.looks_at_pods and not (
        phase == "Succeeded" or (phase in FINISHED_PHASES and policy.strategy == "OnWorkflowCompletion")
    ):
        return []
    found = []
    for pod in pods:
        node = nodes.get(annotations_of(pod).get(NODE_ID, ""))
        if node is None or node.get("phase") not in _FULFILLED or node.get("daemoned"):
            continue
        if policy.strategy == "OnPodSuccess" and status_of(pod).get("phase") != "Succeeded":
            continue
        if not policy.selector.matches(labels_of(pod)):
            continue
        since = node.get("finishedAt") if policy.looks_at_pods else finished
        if since:
            found.append(PodDeletion(pod, parse_time(since) + policy.delay))
    return found


def claims_to_delete(workflow: Object) -> list[Object]:
    """Returns the claims that the workflow no longer needs. After a failure they are kept by default, because a retry
    needs them."""
    phase = status_of(workflow).get("phase")
    strategy = (resolved_spec(workflow).get("volumeClaimGC") or {}).get("strategy") or "OnWorkflowSuccess"
    if phase == "Succeeded" or (phase in FINISHED_PHASES and strategy == "OnWorkflowCompletion"):
        return claims_of(workflow, resolved_spec(workflow))
    return []


def _delay(text: Any) -> timedelta:
    if not text:
        return DELAY
    seconds = int(text) if is_count(str(text)) else parse_duration(str(text)) / SECOND
    return timedelta(seconds=seconds)


FINALIZER = "workflows.argoproj.io/artifact-gc"
Strategy: TypeAlias = Literal["OnWorkflowCompletion", "OnWorkflowDeletion"]
_TERMINAL = frozenset(("Succeeded", "Failed"))
_SOON = 0.5
"""Time for a Pod's end to reach its node."""
_RETRY = 60.0
_LATER = 3600.0
_LOG_SECONDS = 3.0
_CACHES = "workflows.argoproj.io/configmap-type=Cache"


Collect: TypeAlias = Callable[[Object, Mapping[str, Node], Strategy], Awaitable[tuple[Mapping[str, Node], list[str]]]]
"""Deletes a workflow's artifacts of one strategy; returns the changed nodes and the problems."""


class CleanupController:
    """Deletes what workflows leave behind.

    `collect` deletes artifacts; without it they stay. `wants_collection` says whether a workflow has artifacts to
    delete; a finalizer then holds it until they are deleted. `owners` knows what workflows stored in the local
    repository, and `files` has the logs of their Pods; both are deleted after them.
    """

    def __init__(
        self,
        cluster: StatusRowsCluster,
        recorder: EventRecorder,
        *,
        collect: Collect | None = None,
        wants_collection: Callable[[Object], bool] = lambda workflow: False,
        owners: ArtifactOwners | None = None,
        files: NodeFiles | None = None,
    ) -> None:
        self._owners = owners
        self._files = files
        self._deleted: set[str] = set()
        """The uids of workflows whose logs have to be deleted."""
        self._cluster = cluster
        self._recorder = recorder
        self._collect = collect
        self._wants_collection = wants_collection
        self._queue: Controller[Key] = Controller("cleanup", self._reconcile)
        self._workflows = Informer(cluster, WORKFLOW, on_change=self._workflow_changed)
        self._namespaces = Informer(cluster, NAMESPACE, on_change=self._namespace_changed)
        self._pods = Informer(
            cluster, POD, labels=WORKFLOW_LABEL, on_change=self._pod_changed, indexers={"workflow": _workflow_of}
        )

    def artifacts_released(self, workflow: Key) -> None:
        """Something that kept the artifacts of a workflow is gone. They go at once if the workflow is gone, too."""
        self._queue.enqueue(workflow)

    async def run(self) -> None:
        async with self._pods, self._workflows, self._namespaces:
            await self._find_orphans()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._queue.run())
                group.create_task(self._drop_logs())

    async def _reconcile(self, key: Key) -> float | None:
        if key == _RETENTION:
            kept = controller_config(self._cluster).retention
            for surplus in beyond_retention(self._workflows.objects.values(), kept):
                await self._delete(WORKFLOW, surplus)
            return None
        if not key.name:
            await self._delete_namespace(key.namespace)
            return None
        workflow = self._workflows.get(*key)
        if workflow is None:
            return await self._delete_artifacts(key)
        try:
            return await self._clean(key, workflow)
        except Conflict:  # it has changed, so it will be reconciled again
            return _SOON

    async def _clean(self, key: Key, workflow: Object) -> float | None:
        if is_deleting(workflow):
            return await self._release(workflow)
        workflow = await self._add_finalizer(workflow)
        waits = [await self._clean_pods(key, workflow)]
        if status_of(workflow).get("phase") in FINISHED_PHASES:
            await asyncio.gather(*(self._delete_claim(workflow, claim) for claim in claims_to_delete(workflow)))
            workflow, is_done = await self._collect_artifacts(workflow, "OnWorkflowCompletion")
            waits += [None if is_done else _RETRY, await self._expire(workflow)]
        return min((wait for wait in waits if wait is not None), default=None)

    async def _find_orphans(self) -> None:
        """Finds what the last server could not delete any more."""
        if self._files is not None:
            alive = {uid_of(workflow) for workflow in self._workflows.objects.values()}
            found = await asyncio.to_thread(self._files.log_owners, WORKFLOW.kind)
            self._deleted |= {uid for _, uid in found if uid not in alive}
        if self._owners is None:
            return
        for workflow in await asyncio.to_thread(self._owners.all):
            if self._workflows.get(*workflow) is None:
                self._queue.enqueue(workflow)
        for namespace in await asyncio.to_thread(self._owners.namespaces):
            if self._namespaces.get("", namespace) is None:
                self._queue.enqueue(Key(namespace, ""))

    async def _drop_logs(self) -> None:
        """Deletes the logs of the Pods of deleted workflows, as soon as the Pods are gone. Many at once, because all
        logs are looked at."""
        while self._files is not None:
            await asyncio.sleep(_LOG_SECONDS)
            if not self._deleted:
                continue
            running = {str((controller_of(pod) or {}).get("uid")) for pod in self._pods.objects.values()}
            owners = frozenset(self._deleted - running)
            await asyncio.to_thread(self._files.drop_logs, WORKFLOW.kind, owners)
            self._deleted -= owners

    async def _delete_artifacts(self, key: Key) -> float | None:
        """The workflow is gone: deletes what it stored in the local repository, except what others use."""
        if self._owners is None or not self._owners.has_stored(key):
            return None
        used: set[str] = set()
        for other in self._workflows.objects.values():
            if namespace_of(other) == key.namespace and PREVIOUS_LABEL in labels_of(other):
                used |= keys_used(self._cluster.status_rows(WORKFLOW, uid_of(other)), key.name)
        for cache in (await self._cluster.list(CONFIG_MAP, key.namespace, labels=_CACHES)).items:
            used |= {match for text in (cache.get("data") or {}).values() for match in _keys_in(text, key.name)}
        is_done = await asyncio.to_thread(self._owners.delete, key, used)
        return None if is_done else _LATER

    async def _delete_namespace(self, name: str) -> None:
        """The next namespace of this name must not contain anything."""
        if self._owners is not None and self._namespaces.get("", name) is None and name != "default":
            await asyncio.to_thread(self._owners.delete_namespace, name)

    async def _clean_pods(self, key: Key, workflow: Object) -> float | None:
        policy = pod_policy(workflow)
        if policy is None:
            return None
        pods = [pod for pod in self._pods.by("workflow", key) if not is_deleting(pod) and _belongs_to(pod, workflow)]
        nodes: dict[str, Node] = self._cluster.status_rows(WORKFLOW, uid_of(workflow))
        going = pods_to_delete(workflow, nodes, pods)
        now = datetime.now(UTC)
        await asyncio.gather(*(self._delete(POD, pod) for pod, at in going if at <= now))
        waits = [(at - now).total_seconds() for _, at in going if at > now]
        ended = sum(status_of(pod).get("phase") in _TERMINAL for pod in pods)
        if policy.looks_at_pods and ended > len(going) and status_of(workflow).get("phase") not in FINISHED_PHASES:
            waits.append(_SOON)
        return min(waits, default=None)

    async def _expire(self, workflow: Object) -> float | None:
        at = expires_at(workflow)
        if at is None:
            return None
        left = (at - datetime.now(UTC)).total_seconds()
        if left > 0:
            return left
        # With its resourceVersion, so a workflow that was retried just now stays.
        await self._delete(WORKFLOW, workflow, resource_version=version_of(workflow))
        return None

    async def _add_finalizer(self, workflow: Object) -> Object:
        finalizers = meta(workflow).get("finalizers") or []
        if self._collect is None or FINALIZER in finalizers or not self._wants_collection(workflow):
            return workflow
        change = {**meta(workflow), "finalizers": [*finalizers, FINALIZER]}
        return await self._cluster.update({**workflow, "metadata": change})

    async def _release(self, workflow: Object) -> float | None:
        """The workflow is being deleted: its artifacts are deleted first."""
        finalizers = meta(workflow).get("finalizers") or []
        if FINALIZER not in finalizers:
            return None
        is_done = True
        for strategy in ("OnWorkflowCompletion", "OnWorkflowDeletion"):
            workflow, good = await self._collect_artifacts(workflow, strategy)
            is_done = is_done and good
        if not is_done and not (resolved_spec(workflow).get("artifactGC") or {}).get("forceFinalizerRemoval"):
            return _RETRY
        left = [name for name in finalizers if name != FINALIZER]
        await self._cluster.update({**workflow, "metadata": {**meta(workflow), "finalizers": left}})
        return None

    async def _collect_artifacts(self, workflow: Object, strategy: Strategy) -> tuple[Object, bool]:
        """Returns the workflow as stored afterwards, and whether nothing is left to delete."""
        if self._collect is None or FINALIZER not in (meta(workflow).get("finalizers") or ()):
            return workflow, True
        nodes: dict[str, Node] = self._cluster.status_rows(WORKFLOW, uid_of(workflow))
        changed, problems = await self._collect(workflow, nodes, strategy)
        for problem in problems:
            self._recorder.event(workflow, "Warning", "ArtifactGCError", problem)
        wanted = dict(workflow) if problems else with_processed(workflow, strategy)
        if changed or wanted != workflow:
            workflow = await self._cluster.write_status_rows(WORKFLOW, workflow, changed, update=wanted)
        return workflow, not problems

    async def _delete_claim(self, workflow: Object, claim: Object) -> None:
        """Only claims that were created for this workflow."""
        try:
            there = await self._cluster.get(PERSISTENT_VOLUME_CLAIM, name_of(claim), namespace_of(claim))
        except NotFound:
            return
        if _belongs_to(there, workflow) and not is_deleting(there):
            await self._delete(PERSISTENT_VOLUME_CLAIM, there)

    async def _delete(self, kind: Kind, obj: Object, *, resource_version: str = "") -> None:
        try:
            await self._cluster.delete(
                kind, name_of(obj), namespace_of(obj), uid=uid_of(obj), resource_version=resource_version
            )
        except NotFound:
            return

    def _namespace_changed(self, before: Object | None, after: Object | None) -> None:
        if after is None and before is not None:
            self._queue.enqueue(Key(name_of(before), ""))

    def _workflow_changed(self, before: Object | None, after: Object | None) -> None:
        if after is None:
            if before is not None:
                if self._files is not None:
                    self._deleted.add(uid_of(before))
                self._queue.enqueue(key_of(before))
            return
        begins = before is None or status_of(before).get("phase") != status_of(after).get("phase")
        if begins and status_of(after).get("phase") in FINISHED_PHASES:
            self._queue.enqueue(_RETENTION)
        if begins or is_deleting(after) or status_of(after).get("phase") in FINISHED_PHASES:
            self._queue.enqueue(key_of(after))

    def _pod_changed(self, before: Object | None, after: Object | None) -> None:
        if after is None or status_of(after).get("phase") not in _TERMINAL:
            return
        for key in _workflow_of(after):
            workflow = self._workflows.get(*key)
            policy = pod_policy(workflow) if workflow is not None else None
            if policy is not None and policy.looks_at_pods:
                self._queue.enqueue_after(key, _SOON)


def _workflow_of(pod: Object) -> list[Key]:
    name = labels_of(pod).get(WORKFLOW_LABEL)
    return [Key(namespace_of(pod), name)] if name else []


def _keys_in(memo: str, owner: str) -> set[str]:
    """Returns the keys of a workflow that an entry of a cache names."""
    return set(re.findall(rf'"({re.escape(owner)}/[^"\\]+)"', memo))


def _belongs_to(obj: Object, workflow: Object) -> bool:
    return any(owner.get("uid") == uid_of(workflow) for owner in owners_of(obj))


# Artifact garbage collection: deletes the artifacts that a workflow does not keep (`artifactGC`).


class Collected(NamedTuple):
    nodes: dict[str, Node]
    """The changed nodes: their artifacts are marked as deleted."""
    problems: list[str]


def strategy_of(workflow: Object, artifact: Mapping[str, Any]) -> str:
    """Returns the artifact's own strategy, else the workflow's, else Never."""
    for settings in (artifact.get("artifactGC"), _spec(workflow).get("artifactGC")):
        if settings and settings.get("strategy"):
            return str(settings["strategy"])
    return "Never"


def with_processed(workflow: Object, strategy: Strategy) -> Object:
    """Returns the workflow with `status.artifactGCStatus` saying that the artifacts of a strategy are deleted."""
    status = status_of(workflow)
    known = (status.get("artifactGCStatus") or {}).get("strategiesProcessed") or {}
    return {**workflow, "status": {**status, "artifactGCStatus": {"strategiesProcessed": {**known, strategy: True}}}}


def needs_finalizer(workflow: Object) -> bool:
    """Whether the workflow or any template asks for a strategy other than Never."""
    spec = _spec(workflow)
    wishes = [spec.get("artifactGC")]
    stored = status_of(workflow).get("storedTemplates") or {}  # those that a templateRef leads to
    for template in (*(spec.get("templates") or ()), *stored.values()):
        wishes += [a.get("artifactGC") for a in (template.get("outputs") or {}).get("artifacts") or ()]
    return any(wish and (wish.get("strategy") or "Never") != "Never" for wish in wishes)


async def collect_garbage(
    artifacts: ArtifactClient, workflow: Object, nodes: Mapping[str, Node], strategy: Strategy
) -> Collected:
    """Deletes every artifact of the strategy that is not deleted yet. May be repeated: failed deletions are tried
    again."""
    changed: dict[str, Node] = {}
    problems: list[str] = []
    for node, index, artifact in _of_strategy(workflow, nodes, strategy):
        try:
            await artifacts.delete(workflow, artifact)
        except (ArtifactError, OSError) as error:
            problems.append(f"artifact {artifact.get('name')} of node {node['id']} was not deleted: {error}")
            continue
        known = changed.get(node["id"], node)
        listed = list(known["outputs"]["artifacts"])
        listed[index] = {**artifact, "deleted": True}
        changed[node["id"]] = {**known, "outputs": {**known["outputs"], "artifacts": listed}}
    return Collected(changed, problems)


def is_clean(workflow: Object, nodes: Mapping[str, Node]) -> bool:
    """Whether no strategy has anything left to delete, so the finalizer can be removed."""
    return not any(
        True
        for strategy in ("OnWorkflowCompletion", "OnWorkflowDeletion")
        for _ in _of_strategy(workflow, nodes, strategy)
    )


def _of_strategy(
    workflow: Object, nodes: Mapping[str, Node], strategy: str
) -> Iterator[tuple[Node, int, Mapping[str, Any]]]:
    for node in nodes.values():
        if node.get("type") != "Pod":
            continue
        for index, artifact in enumerate((node.get("outputs") or {}).get("artifacts") or ()):
            if not artifact.get("deleted") and is_supplied(artifact) and strategy_of(workflow, artifact) == strategy:
                yield node, index, artifact


def _spec(workflow: Object) -> Mapping[str, Any]:
    """Returns the spec that runs: for a workflow that refers to a template, the one stored in its status."""
    stored: Mapping[str, Any] | None = status_of(workflow).get("storedWorkflowTemplateSpec")
    return stored or spec_of(workflow)
