"""Logs of a workflow's Pods, merged in order of time, including Pods that are gone if the cluster still has their
logs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from muster.kube import builtin
from muster.kube.cluster import Cluster, LogQuery, StatusRowsCluster
from muster.kube.errors import ApiError, BadRequest, Gone, NotFound
from muster.kube.objects import Object, annotations_of, name_of, namespace_of, owners_of, spec_of, status_of, uid_of
from muster.workflows.engine.node_tree import pod_name
from muster.workflows.executors.resource_actions import STEP_ANNOTATION
from muster.workflows.kinds import WORKFLOW
from muster.workflows.model import FINISHED_PHASES, WORKFLOW_LABEL

MAIN = "main"
_PARALLEL_READS = 8
_RETRIES, _RETRY_SECONDS = 25, 0.2
_BURST_SECONDS = 0.02
"""Lines that arrive within this time are sorted before they are shown."""
_MAX_HELD = 64 * 1024 * 1024
"""Characters that are held back to be sorted."""


class LogEntry(NamedTuple):
    """A log line."""

    stamp: str
    pod: str
    container: str
    text: str


@dataclass(frozen=True, slots=True)
class LogSelection:
    """Which of a workflow's logs to read."""

    pods: tuple[str, ...] = ()
    """Only these."""
    container: str = MAIN
    """For Pods without a container `main`, all containers."""
    selector: str = ""
    """Labels of the Pods."""
    jobs: bool = False
    """Include the jobs that the workflow has created, which Argo leaves out."""
    nodes: tuple[str, ...] = ()
    """Of those jobs, only the ones that these nodes have created, by node id. Used together with `pods`."""
    query: LogQuery = field(default_factory=LogQuery)


def pod_names_of(workflow: Object, *, ended: bool = False) -> list[str]:
    """Returns the Pods of a Workflow with its nodes, in the order in which they started. With `ended`, only those of
    nodes that have ended: the Pod of another node may be about to be created."""
    nodes = [
        node
        for node in (status_of(workflow).get("nodes") or {}).values()
        if node.get("type") == "Pod" and (not ended or node.get("phase") in FINISHED_PHASES)
    ]
    nodes.sort(key=lambda node: str(node.get("startedAt") or ""))
    return [pod_name_of(workflow, node) for node in nodes]


def pod_name_of(workflow: Object, node: Object) -> str:
    template = (node.get("templateRef") or {}).get("template") or node.get("templateName") or ""
    return pod_name(name_of(workflow), str(node.get("name") or ""), str(template))


def is_finished(workflow: Object) -> bool:
    return status_of(workflow).get("phase") in FINISHED_PHASES


def in_order(entries: Iterable[LogEntry]) -> list[LogEntry]:
    """Sorts by time. Lines of the same time stay as they came: those of one container in the order it wrote them."""
    return sorted(entries, key=lambda entry: entry.stamp)


async def read_log_lines(cluster: Cluster, workflow: Object, wanted: LogSelection) -> AsyncIterator[list[LogEntry]]:
    """Yields lines in batches. With `follow`, continues until the workflow is finished. `workflow` includes its
    nodes."""
    reading = _Reading(cluster, workflow, wanted)
    conductor = asyncio.create_task(reading.run(), name=f"logs of {name_of(workflow)}")
    try:
        async for bunch in reading.bunches():
            yield bunch
        await conductor
    finally:
        conductor.cancel()
        await asyncio.gather(conductor, return_exceptions=True)


class _Reading:
    def __init__(self, cluster: Cluster, workflow: Object, wanted: LogSelection) -> None:
        self._cluster = cluster
        self._workflow = workflow
        self._namespace = namespace_of(workflow)
        self._wanted = wanted
        self._follow = wanted.query.follow and not is_finished(workflow)
        self._query = replace(wanted.query, timestamps=True, follow=self._follow)
        self._lines: asyncio.Queue[list[LogEntry] | None] = asyncio.Queue(maxsize=256)
        self._slots = asyncio.Semaphore(_PARALLEL_READS)
        self._known: set[str] = set()
        self._ours: dict[str, bool] = {}
        """By uid of a Pod's owner: whether it is a job whose Pods are wanted."""
        self._jobs = wanted.jobs and (not wanted.pods or bool(wanted.nodes))
        own = f"{WORKFLOW_LABEL}={name_of(workflow)}"
        self._labels = f"{own},{wanted.selector}" if wanted.selector else own
        self._fields = f"metadata.name={wanted.pods[0]}" if len(wanted.pods) == 1 else ""

    async def bunches(self) -> AsyncIterator[list[LogEntry]]:
        held: list[LogEntry] = []
        size = 0
        while (found := await self._lines.get()) is not None:
            held += found
            size += sum(len(entry.text) for entry in found)
            if self._follow and self._lines.empty():
                await asyncio.sleep(_BURST_SECONDS)
            if (self._follow and self._lines.empty()) or size > _MAX_HELD:
                yield in_order(held)
                held, size = [], 0
        if held:
            yield in_order(held)

    async def run(self) -> None:
        failure: Exception | None = None
        try:
            async with asyncio.TaskGroup() as readers:
                await self._begin(readers)
                if self._follow:
                    await self._while_it_runs(readers)
                    await self._refresh()
                    await self._begin(readers)
        except ExceptionGroup as group:
            failure = group.exceptions[0]
        await self._lines.put(None)
        if failure is not None:
            raise failure

    async def _while_it_runs(self, readers: asyncio.TaskGroup) -> None:
        watches = [asyncio.create_task(self._watch_pods(readers))]
        if self._jobs:
            watches.append(asyncio.create_task(self._watch_pods_of_jobs(readers)))
        try:
            await self._until_over()
        finally:
            for watch in watches:
                watch.cancel()
            await asyncio.gather(*watches, return_exceptions=True)

    async def _refresh(self) -> None:
        """Reads the workflow again: when this began, it may have had no nodes yet."""
        try:
            workflow = await self._cluster.get(WORKFLOW, name_of(self._workflow), self._namespace)
        except ApiError:
            return
        if uid_of(workflow) == uid_of(self._workflow):
            if isinstance(self._cluster, StatusRowsCluster):
                workflow = self._cluster.with_status_rows(workflow, WORKFLOW)
            self._workflow = workflow

    async def _begin(self, readers: asyncio.TaskGroup) -> None:
        """Starts to read the logs of the Pods that exist, and of those that existed."""
        page = await self._cluster.list(builtin.POD, self._namespace, labels=self._labels, fields=self._fields)
        for pod in sorted(page.items, key=lambda pod: str(status_of(pod).get("startTime") or "")):
            self._add_pod(pod, readers)
        if self._jobs:
            for pod in (await self._cluster.list(builtin.POD, self._namespace, labels=f"!{WORKFLOW_LABEL}")).items:
                if await self._is_of_a_job(pod):
                    self._take(pod, readers)
        if self._wanted.selector:
            return
        there = {name_of(pod) for pod in page.items}
        for name in pod_names_of(self._workflow, ended=True):
            if name not in there and name not in self._known and self._is_wanted(name):
                self._known.add(name)
                readers.create_task(self._read_gone(name))

    def _is_wanted(self, pod: str) -> bool:
        return not self._wanted.pods or pod in self._wanted.pods

    def _add_pod(self, pod: Object, readers: asyncio.TaskGroup) -> None:
        if self._is_wanted(name_of(pod)):
            self._take(pod, readers)

    def _take(self, pod: Object, readers: asyncio.TaskGroup) -> None:
        if name_of(pod) in self._known:
            return
        if status_of(pod).get("phase") in (None, "", "Pending"):
            return
        self._known.add(name_of(pod))
        for container in _containers(pod, self._wanted.container):
            readers.create_task(self._read(name_of(pod), container))

    async def _watch_pods(self, readers: asyncio.TaskGroup) -> None:
        while True:
            try:
                async for event in self._cluster.watch(
                    builtin.POD, self._namespace, labels=self._labels, fields=self._fields
                ):
                    if event.type in ("ADDED", "MODIFIED"):
                        self._add_pod(event.object, readers)
            except Gone:
                continue

    async def _watch_pods_of_jobs(self, readers: asyncio.TaskGroup) -> None:
        while True:
            try:
                async for event in self._cluster.watch(builtin.POD, self._namespace, labels=f"!{WORKFLOW_LABEL}"):
                    if event.type in ("ADDED", "MODIFIED") and await self._is_of_a_job(event.object):
                        self._take(event.object, readers)
            except Gone:
                continue

    async def _is_of_a_job(self, pod: Object) -> bool:
        for ref in owners_of(pod):
            uid = str(ref.get("uid"))
            if uid not in self._ours:
                try:
                    kind = self._cluster.catalogue.of(str(ref.get("apiVersion")), str(ref.get("kind")))
                    owner = await self._cluster.get(kind, str(ref.get("name")), self._namespace)
                except ApiError:
                    continue
                self._ours[uid] = self._is_ours(owner)
            if self._ours[uid]:
                return True
        return False

    def _is_ours(self, job: Object) -> bool:
        maker, _, step = annotations_of(job).get(STEP_ANNOTATION, "").partition("/")
        if self._wanted.nodes:
            return maker == uid_of(self._workflow) and step.rpartition("/")[0] in self._wanted.nodes
        return maker == uid_of(self._workflow) or any(
            above.get("uid") == uid_of(self._workflow) for above in owners_of(job)
        )

    async def _until_over(self) -> None:
        fields = f"metadata.name={name_of(self._workflow)}"
        while True:
            try:
                async for event in self._cluster.watch(WORKFLOW, self._namespace, fields=fields):
                    if event.type == "DELETED" or is_finished(event.object):
                        return
            except Gone:
                continue

    async def _read(self, pod: str, container: str) -> None:
        for attempt in range(_RETRIES):
            try:
                await self._copy(pod, container)
                return
            except NotFound:
                return
            except BadRequest:
                # It has not started yet, or never will.
                if not self._follow or attempt == _RETRIES - 1:
                    return
                await asyncio.sleep(_RETRY_SECONDS)

    async def _read_gone(self, pod: str) -> None:
        for container in dict.fromkeys((self._wanted.container, "")):
            try:
                await self._copy(pod, container, follow=False)
                return
            except ApiError:
                continue

    async def _copy(self, pod: str, container: str, *, follow: bool = True) -> None:
        query = replace(self._query, container=container, follow=self._follow and follow)
        if query.follow:
            await self._copied(pod, query)
            return
        async with self._slots:
            await self._copied(pod, query)

    async def _copied(self, pod: str, query: LogQuery) -> None:
        rest = b""
        async for chunk in self._cluster.logs(pod, self._namespace, query):
            whole, newline, rest = (rest + chunk).rpartition(b"\n")
            if newline:
                await self._lines.put(list(_entries(whole, pod, query.container)))
        if rest:
            await self._lines.put(list(_entries(rest, pod, query.container)))


def _entries(data: bytes, pod: str, container: str) -> Iterator[LogEntry]:
    for line in data.decode(errors="replace").split("\n"):
        stamp, _, text = line.partition(" ")
        yield LogEntry(stamp, pod, container, text)


def _containers(pod: Object, wanted: str) -> list[str]:
    spec = spec_of(pod)
    names = [str(one["name"]) for one in spec.get("containers") or ()]
    first = [str(one["name"]) for one in spec.get("initContainers") or ()]
    if wanted in names or wanted in first:
        return [wanted]
    return names if wanted in (MAIN, "") else []
