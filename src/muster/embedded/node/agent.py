"""The node agent: runs the Pods that are bound to this machine's nodes and reports their status."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import shutil
import socket
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.node.hosts import AddressPool, HostsFiles, service_address_pool
from muster.embedded.node.id_ranges import IdRanges
from muster.embedded.node.image_engine import ImageEngine
from muster.embedded.node.images import machine_environment, make_shims
from muster.embedded.node.isolation import probe_isolation
from muster.embedded.node.journal import was_started
from muster.embedded.node.log_files import drop_old_logs
from muster.embedded.node.logs import Logs
from muster.embedded.node.machine import (
    DeviceAllocator,
    MachineInfo,
    Usage,
    UsageMeter,
    child_processes,
    inspect_machine,
    measure_usage,
    memory_of_machine,
    processes_below,
    usable_memory,
)
from muster.embedded.node.nodes import (
    SIMULATED_SECONDS_ANNOTATION,
    register_nodes,
    simulated_status,
    unreadable_seconds,
)
from muster.embedded.node.operations import PodOperations
from muster.embedded.node.pod_context import ReferencedObjects
from muster.embedded.node.pod_status import has_ended
from muster.embedded.node.pod_worker import PodWorker
from muster.embedded.node.preparation import NodeContext
from muster.embedded.node.python_environments import PythonEnvironments
from muster.embedded.node.scratch_space import (
    PERIOD_SECONDS,
    ScratchSchedule,
    claims_message,
    eviction_message,
    is_scarce,
    measure_scratch,
    uses_claims,
)
from muster.embedded.node.service_proxy import ServiceAddresses
from muster.embedded.node.supervisor.contract import Isolation
from muster.embedded.node.supervisor.journal_and_logs import short_socket_path
from muster.embedded.node.supervisor.resource_limits import can_limit
from muster.embedded.node.supervisor_client import SharedMemoryLimit, ZygoteClient
from muster.embedded.node.worker_context import WorkerContext
from muster.embedded.settings import AgentSettings
from muster.kube.builtin import NAMESPACE, POD
from muster.kube.controller import Controller, Informer
from muster.kube.errors import Conflict, NotFound
from muster.kube.events import EventRecorder
from muster.kube.file_names import path_component
from muster.kube.objects import (
    Key,
    Object,
    annotations_of,
    is_deleting,
    labels_of,
    meta,
    name_of,
    namespace_of,
    spec_of,
    uid_of,
)
from muster.kube.pod_security import is_restricted

log = logging.getLogger(__name__)

_CHECK_SECONDS = 15.0
_LOG_SECONDS = 600.0
_HOSTS_SECONDS = 0.05
_FEW_PODS = 8
_ENVIRONMENTS_SECONDS = 3600.0


class Agent:
    """Run it as a task with `run()`. `ready` is set when it has adopted the Pods that an earlier server started."""

    def __init__(
        self,
        cluster: EmbeddedCluster,
        recorder: EventRecorder,
        settings: AgentSettings,
        *,
        isolation: Isolation | None = None,
        machine: MachineInfo | None = None,
        engine: ImageEngine | None = None,
    ) -> None:
        """`isolation`, `machine` and `engine` can be given if they are already known."""
        self.settings = settings
        self.isolation: Isolation = isolation or probe_isolation()[0]
        self.machine = machine or inspect_machine(settings.home)
        self.ready = asyncio.Event()
        self._cluster = cluster
        self._recorder = recorder
        self._pods: dict[str, Object] = {}
        """The Pods that are bound to this agent's nodes, by uid."""
        self._workers: dict[str, PodWorker] = {}
        self._simulated: set[str] = set()
        """The names of the nodes that run nothing."""
        self._dirty: set[str] = set()
        self._flush_timer: asyncio.TimerHandle | None = None
        self._hosts_timer: asyncio.TimerHandle | None = None
        self._hosts_seconds = 0.0
        self._controller: Controller[str] = Controller("agent", self._reconcile, workers=32)
        self._informer = Informer(cluster, POD, on_change=self._pod_changed)
        for folder in (settings.home, settings.pods, settings.log_folder, settings.run):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        shims = settings.run / "shims"
        make_shims(shims)
        self._zygote = ZygoteClient(self.isolation, self._supervisor_killed, limit=_shared_memory_limit(settings))
        services = service_address_pool()
        self._service_addresses = ServiceAddresses(services.allocate, services.release, self._service_problem)
        self._hosts = HostsFiles(
            settings.run / "hosts",
            self._hosts_outdated,
            is_restricted=self._is_restricted,
            reserved=[settings.api.host] if settings.api is not None else [],
            addresses=self._service_addresses,
        )
        self._references = ReferencedObjects(cluster, self._hosts, settings.api, self._reference_changed)
        self._logs = Logs(str(settings.log_folder))
        environment = machine_environment(shims, settings.environment)
        self._environments = PythonEnvironments(
            cluster, settings, self.isolation, environment.get("PATH", ""), self._pods.values
        )
        id_ranges = IdRanges(settings.home / "id-ranges.json")
        self._context = WorkerContext(
            cluster=cluster,
            recorder=recorder,
            node=NodeContext(
                settings,
                self.isolation,
                environment,
                limits_cpu=can_limit()[1],
                shims=str(shims),
                first_id=id_ranges.first_id if self.isolation == "namespaces" else None,
            ),
            references=self._references,
            hosts=self._hosts,
            addresses=AddressPool(),
            devices=DeviceAllocator(self.machine.devices),
            logs=self._logs,
            starter=self._zygote,
            environments=self._environments,
            nodes={},
            is_restricted=self._is_restricted,
            notify=str(settings.run / "agent.sock"),
            engines={engine.name: engine} if engine is not None else {},
        )

        name = settings.node_name or self.machine.hostname
        cluster.node = PodOperations(
            name,
            self._informer,
            self._workers,
            self._logs,
            UsageMeter(self.usage),
            self.ready,
            settings.budgets.pod_sessions,
        )

    async def run(self) -> None:
        running, self._simulated = await register_nodes(self._cluster, self.settings, self.machine)
        self._context.nodes.update(running)
        hints = self._listen()
        try:
            async with asyncio.TaskGroup() as group:
                for informer in self._references.informers:
                    group.create_task(informer.run(), name=f"agent informer {informer.kind.plural}")
                await self._references.synced()
                group.create_task(self._informer.run(), name="agent informer pods")
                await self._informer.synced.wait()
                self._adopt_running_pods()
                self._hosts.flush()
                group.create_task(self._controller.run(), name="agent")
                group.create_task(self._check_periodically(), name="agent check")
                group.create_task(self._drop_old_logs(), name="agent logs")
                group.create_task(self._watch_scratch_space(), name="agent scratch space")
                group.create_task(self._sweep_environments(), name="agent environments")
                self.ready.set()
        finally:
            asyncio.get_running_loop().remove_reader(hints)
            hints.close()
            await self._service_addresses.close()
            self._zygote.close()
            self._logs.close()
            for timer in (self._flush_timer, self._hosts_timer):
                if timer is not None:
                    timer.cancel()

    def _service_problem(self, service: Object, message: str) -> None:
        self._recorder.event(service, "Warning", "PortNotForwarded", message)

    def usage(self) -> dict[str, Usage]:
        """Returns the usage of each running Pod, by uid."""
        return measure_usage(
            {
                uid: w.progress.supervisor
                for uid, w in self._workers.items()
                if w.progress.supervisor and not w.is_finished
            }
        )

    def _adopt_running_pods(self) -> None:
        """Adopts the Pods that an earlier server started: those that have a folder. Each one first reserves the address
        and devices it holds, so that no other Pod gets them."""
        for entry in os.scandir(self.settings.pods):
            pod = self._pods.get(entry.name)
            if pod is not None and has_ended(pod) and not is_deleting(pod):
                if was_started(entry.path):
                    self._controller.enqueue(entry.name)  # its files are not needed any more
                continue
            worker = self._workers[entry.name] = PodWorker(self._context, entry.name, entry.path)
            if pod is not None:
                worker.adopt(pod)
            self._controller.enqueue(entry.name)

    async def _reconcile(self, uid: str) -> float | None:
        pod = self._pods.get(uid)
        if pod is not None and spec_of(pod).get("nodeName") in self._simulated:
            return await self._simulate(pod)
        worker = self._workers.get(uid)
        if worker is None:
            if pod is None and not os.path.isdir(self._folder(uid)):
                return None
            worker = self._workers[uid] = PodWorker(self._context, uid, self._folder(uid))
        again = await worker.reconcile(pod)
        if again is not None and again < 0:
            known = self._pods.get(uid)
            if known is None or has_ended(known):
                self._workers.pop(uid, None)
            return None
        return again

    async def _simulate(self, pod: Object) -> float | None:
        if not has_ended(pod):
            bad = unreadable_seconds(pod)
            if bad is not None:
                message = (
                    f'{SIMULATED_SECONDS_ANNOTATION}: "{bad}" is not a number of seconds; '
                    "the Pod runs until it is deleted"
                )
                self._recorder.event(pod, "Warning", "BadAnnotation", message)
            status, again = simulated_status(pod, time.time())
            if status != pod.get("status"):
                with suppress(NotFound):
                    await self._cluster.update({**pod, "status": status}, subresource="status")
            if again is not None:
                return again
        if is_deleting(pod) and meta(pod).get("deletionGracePeriodSeconds") != 0:
            with suppress(NotFound, Conflict):
                await self._cluster.delete(POD, name_of(pod), namespace_of(pod), grace_seconds=0, uid=uid_of(pod))
        return None

    def _pod_changed(self, before: Object | None, after: Object | None) -> None:
        if before is not None and (after is None or uid_of(after) != uid_of(before)):
            uid = uid_of(before)
            if self._pods.pop(uid, None) is not None:
                self._controller.enqueue(uid)
            before = None
        if after is None:
            return
        node = spec_of(after).get("nodeName")
        if not node:
            return
        uid = uid_of(after)
        if uid not in self._pods and not self._is_ours(node, uid):
            return
        known, worker = self._pods.get(uid), self._workers.get(uid)
        self._pods[uid] = after
        if known is None or (_needs_reconcile(known, after) and not _is_over(known, after)):
            if known is not None and worker is not None and _changes_files(known, after):
                worker.files_outdated = True
            self._controller.enqueue(uid)
        elif worker is not None and has_ended(after):
            self._controller.enqueue(uid)  # its files can be removed; or another client says that it has ended
        if has_ended(after):
            for waiting in self._environments.stop_waiting(after):
                self._controller.enqueue(waiting)

    def _is_ours(self, node: str, uid: str) -> bool:
        """A Pod that runs here stays ours, even if the settings no longer contain its node."""
        return node in self._context.nodes or node in self._simulated or os.path.isdir(self._folder(uid))

    def _reference_changed(self, uid: str) -> None:
        worker = self._workers.get(uid)
        if worker is not None:
            worker.files_outdated = worker.was_started
            self._controller.enqueue(uid)

    def _is_restricted(self, namespace: str) -> bool:
        """A namespace that is gone counts as restricted."""
        found = self._cluster.store.get(NAMESPACE.resource, Key("", namespace))
        return found is None or is_restricted(found)

    def _folder(self, uid: str) -> str:
        return f"{self.settings.pods}/{path_component(uid)}"

    def _listen(self) -> socket.socket:
        """Opens the socket on which supervisors say that a journal has grown."""
        hints = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        with suppress(FileNotFoundError):
            os.unlink(self._context.notify)
        with short_socket_path(self._context.notify) as path:
            hints.bind(path)
        asyncio.get_running_loop().add_reader(hints, self._receive_hints, hints)
        return hints

    def _receive_hints(self, hints: socket.socket) -> None:
        """Most Pods report several changes in a row, and many Pods at the same time: they are looked at together."""
        has_ended = False
        with suppress(BlockingIOError):
            while True:
                uid, _, ended = hints.recv(128).decode().partition(" ")
                self._dirty.add(uid)
                has_ended = has_ended or bool(ended)
        if has_ended and self._expects_no_hints():
            if self._flush_timer is not None:
                self._flush_timer.cancel()
            self._enqueue_dirty()
        elif self._flush_timer is None:
            loop = asyncio.get_running_loop()
            self._flush_timer = loop.call_later(self.settings.coalesce_seconds, self._enqueue_dirty)

    def _expects_no_hints(self) -> bool:
        """Whether all Pods that run have sent hints, so that the next step of a workflow need not wait for others."""
        if len(self._workers) > _FEW_PODS:
            return False
        return all(
            uid in self._dirty or worker.is_finished or not worker.was_started for uid, worker in self._workers.items()
        )

    def _enqueue_dirty(self) -> None:
        self._flush_timer = None
        dirty, self._dirty = self._dirty, set()
        for uid in dirty:
            if uid in self._workers:
                self._controller.enqueue(uid)

    def _hosts_outdated(self) -> None:
        """Schedules a write. It is called often; the longer a write takes, the less often it happens."""
        if self._hosts_timer is None:
            delay = max(_HOSTS_SECONDS, 20 * self._hosts_seconds)
            self._hosts_timer = asyncio.get_running_loop().call_later(delay, self._write_hosts)

    def _write_hosts(self) -> None:
        self._hosts_timer = None
        began = time.monotonic()
        self._hosts.flush()
        self._hosts_seconds = time.monotonic() - began

    def _supervisor_killed(self, folder: str) -> None:
        """Schedules another supervisor, which continues from the journal. Not at once, because the cause may still be
        there."""
        worker = self._workers.get(os.path.basename(folder))
        if worker is not None:
            log.warning("the supervisor of Pod %s was killed", worker.uid)
            worker.supervisor_lost = True
            self._controller.enqueue_after(worker.uid, 1.0)

    async def _check_periodically(self) -> None:
        """Finds what no event reports: killed supervisors of an earlier server's zygote, and tokens that are about to
        expire."""
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            now = time.time()
            for uid, worker in list(self._workers.items()):
                if worker.lacks_supervisor() or worker.has_old_tokens(now):
                    self._controller.enqueue(uid)
                await asyncio.sleep(0)

    async def _watch_scratch_space(self) -> None:
        """Evicts Pods that use more disk space than they may, alone or with the claims of their namespace. Gives up the
        files of Pods that have failed if the disk or the memory is almost full."""
        budgets = self.settings.budgets
        own, shared = (
            ScratchSchedule(megabytes << 20)
            for megabytes in (budgets.pod_scratch_megabytes, budgets.member_volume_megabytes)
        )
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            running = {uid: w for uid, w in self._workers.items() if w.was_started and not w.is_finished and w.pod}
            disk = shutil.disk_usage(self.settings.pods)
            if is_scarce(disk.free, disk.total) or is_scarce(*memory_of_machine()):
                await self._context.limit_kept(0)
            await self._check_scratch_space(running, own, disk.free)
            await self._check_claims(running, shared, disk.free)

    async def _check_scratch_space(self, running: Mapping[str, PodWorker], due: ScratchSchedule, free: int) -> None:
        chosen = due.choose(running, free, time.monotonic())
        children = await asyncio.to_thread(child_processes) if chosen else {}
        for uid in chosen:
            began = time.monotonic()
            worker, supervisor = running[uid], running[uid].progress.supervisor
            processes = processes_below(supervisor, children) if supervisor else []
            more = [f"/dev/shm/muster-{uid}", *self._environments.scratch_folders(worker.pod)]
            usage = await asyncio.to_thread(measure_scratch, worker.folder, more, processes)
            due.measured(uid, usage, time.monotonic() - began, time.monotonic())
            self._evict([worker], eviction_message(worker.pod, usage, self.settings.budgets))

    async def _check_claims(self, running: Mapping[str, PodWorker], due: ScratchSchedule, free: int) -> None:
        users: dict[str, list[PodWorker]] = {}
        for worker in running.values():
            namespace = namespace_of(worker.pod)
            if uses_claims(worker.pod) and self._is_restricted(namespace):
                users.setdefault(namespace, []).append(worker)
        for namespace in due.choose(users, free, time.monotonic()):
            began = time.monotonic()
            folder = f"{self.settings.home}/volumes/{path_component(namespace)}"
            usage = await asyncio.to_thread(measure_scratch, folder)
            due.measured(namespace, usage, time.monotonic() - began, time.monotonic())
            self._evict(users[namespace], claims_message(namespace, usage, self.settings.budgets))

    def _evict(self, workers: Iterable[PodWorker], message: str) -> None:
        for worker in workers if message else ():
            worker.evict(message)
            self._controller.enqueue(worker.uid)

    async def _drop_old_logs(self) -> None:
        while True:
            await asyncio.sleep(_LOG_SECONDS / 60)
            pods = list(self._informer.objects.values())
            live, ended = {uid_of(pod) for pod in pods}, {uid_of(pod) for pod in pods if has_ended(pod)}
            folder, limits = str(self.settings.log_folder), self.settings.logs
            await asyncio.to_thread(drop_old_logs, folder, live, limits, time.time(), ended)
            await asyncio.sleep(_LOG_SECONDS)

    async def _sweep_environments(self) -> None:
        while True:
            namespaces = (await self._cluster.list(NAMESPACE)).items
            await self._environments.sweep({name_of(namespace) for namespace in namespaces})
            await asyncio.sleep(_ENVIRONMENTS_SECONDS)


def _shared_memory_limit(settings: AgentSettings) -> SharedMemoryLimit:
    percent = settings.budgets.pods_memory_percent
    if percent >= 100:
        return SharedMemoryLimit()
    group = hashlib.blake2b(os.fsencode(settings.home.absolute()), digest_size=8).hexdigest()
    return SharedMemoryLimit(group, usable_memory() * percent // 100)


def _needs_reconcile(before: Object, after: Object) -> bool:
    """Our own status writes come back through the watch; they need no work."""
    old, new = meta(before), meta(after)
    return (
        old.get("deletionTimestamp") != new.get("deletionTimestamp")
        or old.get("deletionGracePeriodSeconds") != new.get("deletionGracePeriodSeconds")
        or spec_of(before) != spec_of(after)
        or _changes_files(before, after)
        or bool(spec_of(after).get("readinessGates"))
    )


def _is_over(before: Object, after: Object) -> bool:
    """Whether the Pod had ended before, and is not being deleted: nothing is left to do."""
    return has_ended(before) and has_ended(after) and not is_deleting(after)


def _changes_files(before: Object, after: Object) -> bool:
    return labels_of(before) != labels_of(after) or annotations_of(before) != annotations_of(after)
