"""Runs one Pod of this machine, from its binding until its folder is removed.

`reconcile` compares the actual state with the desired one and acts on the difference. It can be called at any time, any
number of times.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import suppress
from math import inf
from typing import Any

import orjson

from muster.embedded.node.hosts import LOCALHOST, PodHost
from muster.embedded.node.image_engine import ImageEngine, ImagePulls
from muster.embedded.node.journal import (
    Journal,
    Progress,
    close_journal,
    has_supervisor,
    lock_pod,
    lost_its_folder,
    was_started,
)
from muster.embedded.node.listeners import can_tell_listeners, is_own_listener, listener_uid
from muster.embedded.node.log_files import drop_empty_logs
from muster.embedded.node.pod_context import (
    OUTPUTS,
    MachineError,
    NotReady,
    PodContext,
    requested_stop_grace,
)
from muster.embedded.node.pod_status import (
    PodPlace,
    WaitingReason,
    has_ended,
    journal_events,
    last_reported_time,
    pod_status,
    remaining_grace,
    start_time,
)
from muster.embedded.node.preparation import PodPaths, prepare, termination_grace, write_pod_file
from muster.embedded.node.python_environments import PodEnvironment
from muster.embedded.node.supervisor.contract import POD_FILE, JournalEntry, PreparedPod
from muster.embedded.node.supervisor.output_files import remove_tree
from muster.embedded.node.supervisor_client import SupervisorGone, ZygoteError, request_stop
from muster.embedded.node.volumes import Files, plan_volumes, references_of, token_seconds, write_files
from muster.embedded.node.worker_context import KeptPod, WorkerContext
from muster.kube.builtin import POD
from muster.kube.errors import ApiError, Conflict, NotFound
from muster.kube.objects import (
    Object,
    is_deleting,
    meta,
    name_of,
    namespace_of,
    spec_of,
    uid_of,
    version_of,
)

log = logging.getLogger(__name__)

_POLL, _SLOW_POLL, _KEPT_POLL = 0.05, 0.5, 30.0
_SCRATCH_FOLDERS = ("tmp-", "rootfs-", "private-", "work-")
_FEW = 50
"""The number of files and folders that can be removed without a thread."""
_DEADLINE = "Pod was active on the node longer than the specified deadline"


class PodWorker:
    def __init__(self, context: WorkerContext, uid: str, folder: str) -> None:
        self.uid = uid
        self.folder = folder
        self.progress = Progress()
        self.was_started = was_started(folder)
        self.files_outdated = False
        self.supervisor_lost = False
        self.eviction = ""
        """Why the Pod has to end, if it uses more than it may."""
        self.sessions = 0
        """The number of commands and forwarded ports that are open."""
        self.listeners: set[asyncio.Event] = set()
        """Each is set whenever the journal has grown."""
        self._context = context
        self._pod: Object = {}
        self._journal = Journal(folder)
        self._notes: dict[str, str] = {}
        self._waiting: WaitingReason | None = None
        self._last_message = ""
        self._address = ""
        self._engine = "process"
        self._is_allocated = False
        self._is_scratch_removed = False
        self._is_given_up = False
        self._reported_until = 0.0
        self._stop_grace: float | None = None
        self._tokens_refresh_at = inf
        self._pulls = ImagePulls()
        if self.was_started:
            self._restore()

    @property
    def is_finished(self) -> bool:
        return self.progress.finished is not None

    async def reconcile(self, pod: Object | None) -> float | None:
        """Acts on the difference between the Pod's object and its processes. `pod` is None if the object is deleted.
        Returns the seconds until the next call, None if only a change requires one, or -1 if nothing is left to do."""
        if pod is not None:
            self._pod = _newer(self._pod, pod)
        self._read_journal()
        if pod is None:
            return await self._remove_pod()
        if self.is_finished:
            self._release()
            if not await self._is_kept():
                await self._remove_scratch()
        if is_deleting(self._pod):
            return await self._terminate()
        if has_ended(self._pod):
            if self.was_started and not self.is_finished:
                # Another client has set the phase. Then the Pod has to end.
                return await self._ask_to_stop(termination_grace(spec_of(self._pod)))
            # Our own write may be newer than `pod`. Wait until it has come back: who reads an older object and finds no
            # folder concludes that the folder was lost.
            return await self._remove_files() if has_ended(pod) else None
        if not self.was_started:
            return await self._prepare_and_start()
        if self.supervisor_lost and not self.is_finished:
            again = await self._start()
        elif (grace := requested_stop_grace(self._pod)) is not None and not self.is_finished:
            again = await self._ask_to_stop(grace)
        elif self.eviction and not self.is_finished:
            again = await self._ask_to_stop(0.0, "Evicted", self.eviction)
        else:
            again = await self._enforce_deadline()
        if self.files_outdated:
            self._refresh_files()
        await self._report()
        return again

    @property
    def is_kept(self) -> bool:
        """Whether the Pod has failed, and commands can still be run among its files."""
        ended = self.progress.finished
        keeps = self._context.node.settings.keep_failed_seconds > 0 and self.was_started and not self._is_given_up
        return keeps and ended is not None and ended.get("phase") == "Failed" and has_supervisor(self.folder)

    @property
    def pod(self) -> Object:
        return self._pod

    @property
    def address(self) -> str:
        """'' if it has none yet."""
        return self._address

    def owns_listener(self, port: int) -> bool:
        """Returns whether the Pod's own server listens on a port of its address, as far as the kernel tells."""
        namespace = namespace_of(self._pod)
        first_id = self._context.node.first_id if self._engine == "process" else None
        if first_id is None or not can_tell_listeners():
            return True
        restricted = self._context.is_restricted(namespace)
        return is_own_listener(listener_uid(self._address, port), namespace, first_id, restricted=restricted)

    def evict(self, message: str) -> None:
        """The next `reconcile` ends the Pod."""
        if not self.eviction and not self.is_finished:
            self.eviction = message
            self._context.recorder.event(self._pod, "Warning", "Evicted", message)

    def lacks_supervisor(self) -> bool:
        """Returns whether the supervisor was killed. If so, the next `reconcile` requests another one."""
        if self.was_started and not self.is_finished and not has_supervisor(self.folder):
            self.supervisor_lost = True
        return self.supervisor_lost

    def has_old_tokens(self, now: float) -> bool:
        """Returns whether service account tokens have to be renewed. If so, the next `reconcile` renews them."""
        if self.was_started and not self.is_finished and now >= self._tokens_refresh_at:
            self.files_outdated = True
            return True
        return False

    def has_ended(self, container: str, attempt: int) -> bool:
        """Returns whether an attempt of a container will write no more output."""
        known = self.progress.containers.get(container)
        if self.is_finished:
            return True
        return known is not None and (known.attempt > attempt or (known.attempt == attempt and known.exit is not None))

    def _restore(self) -> None:
        """Continues with a Pod that was started before the server restarted."""
        try:
            with open(f"{self.folder}/{POD_FILE}", "rb") as file:
                prepared: PreparedPod = orjson.loads(file.read())
        except (OSError, orjson.JSONDecodeError):
            prepared = {}
        self._address = prepared.get("address", "")
        engine = next((c.get("engine") for c in prepared.get("containers") or ()), None)
        if engine:
            self._engine = os.path.basename(engine["exec"][0])
        for entry in self._journal.read():
            self.progress.apply(entry)
        if self.is_finished:
            return
        self._is_allocated = True
        if self._address and self._address != LOCALHOST:
            self._context.addresses.reserve(self._address)
        containers = prepared.get("containers") or ()  # an earlier release wrote the devices only into the environment
        self._context.devices.reserve(self.uid, [c.get("devices", c.get("env") or {}) for c in containers])
        self.supervisor_lost = not has_supervisor(self.folder)

    def adopt(self, pod: Object) -> None:
        """Completes `_restore` when the Pod's object is known: registers its names, and skips the events that were
        recorded."""
        self._pod = pod
        self._reported_until = last_reported_time(pod)
        self._journal = Journal(self.folder)
        self.progress = Progress()
        self._read_journal()
        if self._is_allocated:
            if self._address:
                self._context.hosts.add(PodHost.of(pod, self._address))
            self._context.references.register(self.uid, references_of(pod))
            # Its files may be outdated. The next check updates them; doing it here would delay the restart for all
            # Pods.
            self._tokens_refresh_at = 0.0

    def _read_journal(self) -> None:
        """Reads new journal entries and records events for them."""
        entries = self._journal.read() if self.was_started else []
        for entry in entries:
            self.progress.apply(entry)
            if self._pod and entry.get("t", 0.0) >= self._reported_until:
                self._record_events(entry)
        if entries:
            for listener in self.listeners:
                listener.set()

    def _record_events(self, entry: JournalEntry) -> None:
        for event in journal_events(self._pod, entry, self._notes):
            self._context.recorder.event(self._pod, event.type, event.reason, event.message)

    async def _prepare_and_start(self) -> float | None:
        pod, context = self._pod, self._context
        if lost_its_folder(pod):
            message = "The files of this Pod were removed from the node while it ran. It is not started again"
            await self._fail("PodFolderLost", message)
            return None
        start = start_time(pod, time.time())
        limit = spec_of(pod).get("activeDeadlineSeconds")
        deadline = start + float(limit) if limit is not None else None
        if deadline is not None and time.time() >= deadline:
            await self._fail("DeadlineExceeded", _DEADLINE)
            return None
        self._allocate()
        context.references.register(self.uid, references_of(pod))
        try:
            engine = await context.engine_for(pod)
            if engine is not None:
                await self._pulls.ensure(engine, pod, context.recorder)
            environment = await context.environments.ensure(pod) if engine is None else None
            self._prepare(engine, deadline, environment)
        except NotReady as problem:
            if problem.fails_pod:
                await self._fail(problem.reason, problem.message)
                return None
            return await self._wait(problem, deadline)
        except OSError as error:
            # The paths of the machine are not for everybody.
            shown = error.filename and not context.is_restricted(namespace_of(pod))
            where = f" ({error.filename})" if shown else ""
            return await self._wait(MachineError(f"{error.strerror or error}{where}"), deadline)
        except (ApiError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            # A value that no check has found. The Pod fails; the agent and the other Pods go on.
            log.exception("Pod %s/%s cannot be prepared", namespace_of(pod), name_of(pod))
            await self._fail("InvalidPod", f"The Pod cannot be prepared: {type(error).__name__}: {error}"[:1000])
            return None
        self._waiting = None
        self.was_started = True
        return await self._start()

    async def _start(self) -> float | None:
        self.supervisor_lost = True
        try:
            await self._context.starter.start(self.folder, "none" if self._engine != "process" else None)
        except ZygoteError as error:
            self._context.recorder.event(self._pod, "Warning", "FailedCreatePodSandBox", str(error))
            return 10.0
        self.supervisor_lost = False
        return None

    def _prepare(self, engine: ImageEngine | None, deadline: float | None, environment: PodEnvironment | None) -> None:
        pod, context = self._pod, self._context
        layout = PodPaths(
            self.folder,
            context.logs.folder(namespace_of(pod), name_of(pod), self.uid),
            context.hosts.add(PodHost.of(pod, self._address)),
            context.notify,
        )
        spec = spec_of(pod)
        devices = context.devices.allocate(self.uid, spec.get("containers") or (), spec.get("initContainers") or ())
        prepared = prepare(
            pod,
            self._pod_context(),
            layout,
            context.node,
            engine=engine,
            deadline=deadline,
            devices=devices,
            environment=environment,
        )
        if prepared.ignored:
            fields = ", ".join(prepared.ignored)
            context.recorder.event(
                pod, "Warning", "FieldIgnored", f"These fields have no effect on this machine: {fields}"
            )
        self._engine = engine.name if engine is not None else "process"
        self._notes = dict(prepared.notes)
        self._schedule_token_refresh()
        write_pod_file(self.folder, prepared.pod)

    async def _wait(self, problem: NotReady, deadline: float | None) -> float | None:
        """Reports the problem in status and event. Returns when to try again, even if nothing changes."""
        self._waiting = WaitingReason(problem.reason, problem.message, problem.container)
        if problem.message != self._last_message:
            self._last_message = problem.message
            self._context.recorder.event(self._pod, problem.event_type, problem.event, problem.event_message)
        await self._report()
        waits = [problem.retry_seconds, deadline - time.time() if deadline is not None else None]
        return min((max(w, 0.0) for w in waits if w is not None), default=None)

    async def _fail(self, reason: str, message: str) -> None:
        now = time.time()
        self.progress.apply({"t": now, "e": "finished", "phase": "Failed", "reason": reason, "message": message})
        self._context.recorder.event(self._pod, "Warning", reason, message)
        await self._report()
        self._release()

    async def _report(self) -> None:
        """Writes the status if it has changed."""
        place = PodPlace(self._address, engine=self._engine)
        status = pod_status(self._pod, self.progress, time.time(), place, self._waiting)
        if status != self._pod.get("status"):
            await self._write(status)

    async def _write(self, status: dict[str, Any]) -> None:
        try:
            self._pod = await self._context.cluster.update({**self._pod, "status": status}, subresource="status")
        except NotFound:
            return  # deleted; the watch will report it
        except Conflict:
            # Another client changed the Pod. Take its version and retry at once instead of waiting for the watch.
            fresh = await self._context.cluster.get(POD, name_of(self._pod), namespace_of(self._pod))
            if uid_of(fresh) != self.uid:
                return
            self._pod = fresh
            raise

    async def _enforce_deadline(self) -> float | None:
        """Enforces a deadline that was set, or changed, after the Pod started. The supervisor only knows the earlier
        one."""
        limit = spec_of(self._pod).get("activeDeadlineSeconds")
        if limit is None or self.is_finished:
            return None
        left = start_time(self._pod, time.time()) + float(limit) + 1.0 - time.time()
        if left > 0:
            return left
        return await self._ask_to_stop(termination_grace(spec_of(self._pod)), "DeadlineExceeded", _DEADLINE)

    async def _terminate(self) -> float | None:
        """The object is being deleted: waits for the Pod to end, then deletes the object."""
        if self.was_started and not self.is_finished:
            again = await self._ask_to_stop(remaining_grace(self._pod, time.time()))
            await self._report()
            return again
        if self.was_started and not has_ended(self._pod):
            await self._report()
        pod = self._pod
        if meta(pod).get("deletionGracePeriodSeconds") == 0:
            return None  # already released; finalizers hold the object
        try:
            await self._context.cluster.delete(POD, name_of(pod), namespace_of(pod), grace_seconds=0, uid=self.uid)
        except (NotFound, Conflict):
            return None  # deleted, and another Pod may already have the name
        return None

    async def _remove_pod(self) -> float | None:
        """The object is deleted: stops the Pod and removes its folder. Its logs stay."""
        if self.was_started and not self.is_finished:
            again = await self._ask_to_stop(0.0)
            if again is not None:
                return again
            if not self.is_finished:
                return None
        self._release()
        with lock_pod(self.folder) as taken:
            if not taken:
                await self._end_keeping()
                return _POLL  # its supervisor is about to exit
            await _remove(self.folder)
            await _remove(f"/dev/shm/muster-{self.uid}")
        return -1.0

    async def _ask_to_stop(self, grace: float, reason: str = "", message: str = "") -> float | None:
        """Sends a stop request once per grace. Returns when to look again."""
        if self._stop_grace is not None and self._stop_grace <= grace:
            return 10.0
        try:
            await request_stop(self.folder, grace, reason, message)
        except SupervisorGone:
            # The supervisor was killed, or has not started yet. In the latter case it will find the journal closed.
            if not close_journal(self.folder, reason, message):
                return _POLL
            self._read_journal()
            return 0.0 if self.is_finished else _POLL
        self._stop_grace = grace
        return 10.0

    def _allocate(self) -> None:
        """Allocates the Pod's address, once."""
        if self._is_allocated:
            return
        self._is_allocated = True
        self._address = LOCALHOST if spec_of(self._pod).get("hostNetwork") else self._context.addresses.allocate()

    def _release(self) -> None:
        if not self._is_allocated:
            return
        self._is_allocated = False
        self._context.hosts.remove(self.uid)
        self._context.references.unregister(self.uid)
        self._context.devices.release(self.uid)
        if self._address != LOCALHOST:
            self._context.addresses.release(self._address)

    async def _remove_files(self) -> float | None:
        """The Pod has ended, and its status says how: only the copies of its outputs are still needed. Its object may
        stay for long. Logs are elsewhere."""
        if self.was_started:
            if await self._is_kept():
                return _KEPT_POLL
            with lock_pod(self.folder) as taken:
                if not taken:
                    return _SLOW_POLL  # its supervisor is about to close the journal
                await _remove(self.folder, keep=OUTPUTS)
                await _remove(f"/dev/shm/muster-{self.uid}")
            self.was_started = False
            drop_empty_logs(self._context.logs.folder(namespace_of(self._pod), name_of(self._pod), self.uid))
        return -1.0

    async def _is_kept(self) -> bool:
        """The same as `is_kept`; gives up other Pods, or this one, if there are too many."""
        kept = self._context.kept
        if not self.is_kept:
            kept.pop(self.uid, None)
            return False
        kept.setdefault(self.uid, KeptPod(namespace_of(self._pod), self._end_keeping))
        await self._context.limit_kept(self._context.node.settings.keep_failed_pods)
        return self.is_kept

    async def _end_keeping(self) -> None:
        """Asks the supervisor of a Pod that has failed to give up its files."""
        self._context.kept.pop(self.uid, None)
        if self.is_kept:
            self._is_given_up = True
            with suppress(SupervisorGone):
                await request_stop(self.folder, 0.0)

    async def _remove_scratch(self) -> None:
        """Removes what cannot be read any more, once: /tmp, emptyDir volumes and layers."""
        if self._is_scratch_removed or not self.was_started:
            return
        self._is_scratch_removed = True
        has_own_volumes = any("emptyDir" in volume for volume in spec_of(self._pod).get("volumes") or ())
        for name in os.listdir(self.folder) if os.path.isdir(self.folder) else ():
            if name.startswith(_SCRATCH_FOLDERS) or (name == "volumes" and has_own_volumes):
                await _remove_folder(f"{self.folder}/{name}")

    def _refresh_files(self) -> None:
        """Updates the files of ConfigMaps, Secrets and the downward API in a running Pod."""
        self.files_outdated = False
        if self.is_finished:
            return
        self._schedule_token_refresh()
        self._context.hosts.add(PodHost.of(self._pod, self._address))
        group = (spec_of(self._pod).get("securityContext") or {}).get("fsGroup")
        if self._context.node.isolation != "namespaces":
            group = None
        try:
            volumes = plan_volumes(self._pod, self._pod_context(), self.folder, self._context.node.settings.nfs)
        except NotReady:
            return  # a running Pod keeps the files it has
        for volume in volumes.values():
            if isinstance(volume, Files):
                write_files(volume, group)

    def _schedule_token_refresh(self) -> None:
        """Tokens are renewed after four fifths of their lifetime, as kubelet does."""
        seconds = token_seconds(self._pod, self._context.node.settings.api is not None)
        self._tokens_refresh_at = time.time() + 0.8 * seconds if seconds is not None else inf

    def _pod_context(self) -> PodContext:
        return self._context.references.context_for(
            self._context.nodes.get(spec_of(self._pod).get("nodeName") or ""),
            self._address,
            restricted=self._context.is_restricted(namespace_of(self._pod)),
        )


async def _remove(folder: str, keep: str = "") -> None:
    """Removes the Pod's file first: without it, no supervisor can start. With `keep`, a folder with that name stays."""
    with suppress(OSError):
        os.unlink(f"{folder}/{POD_FILE}")
    try:
        with os.scandir(folder) as entries:
            found = list(entries)
    except FileNotFoundError:
        return
    if all(entry.name != keep for entry in found):
        await _remove_folder(folder)
        return
    for entry in found:
        if entry.name != keep and entry.is_dir(follow_symlinks=False):
            await _remove_folder(entry.path)
        elif entry.name != keep:
            os.unlink(entry.path)


async def _remove_folder(folder: str) -> None:
    """Removing a few files is faster than starting a thread, but a volume may contain many."""
    if not _remove_few(folder):
        await asyncio.to_thread(remove_tree, folder)


def _remove_few(folder: str) -> bool:
    """Removes a folder that contains only a few files and folders. The Pod decides what is in its /tmp."""
    folders, files = [folder], list[str]()
    try:
        for place in folders:  # grows meanwhile
            with os.scandir(place) as entries:
                for entry in entries:
                    (folders if entry.is_dir(follow_symlinks=False) else files).append(entry.path)
                    if len(folders) + len(files) > _FEW:
                        return False
        for file in files:
            os.unlink(file)
        for place in reversed(folders):
            os.rmdir(place)
    except OSError:
        return False
    return True


def _newer(known: Object, found: Object) -> Object:
    """Our own write may be newer than what the watch has delivered."""
    if known and uid_of(known) == uid_of(found) and int(version_of(known)) > int(version_of(found)):
        return known
    return found
