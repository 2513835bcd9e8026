"""Operations on the Pods of a node: logs, exec, and the files that the agent keeps."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import struct
import termios
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Literal

from muster.embedded.node.log_files import DroppedLog, LineReader, log_files, read_dropped, read_last_output
from muster.embedded.node.logs import Logs, owned_logs, pod_log_folder
from muster.embedded.node.machine import UsageMeter
from muster.embedded.node.pod_context import output_folder, scratch_folder
from muster.embedded.node.pod_worker import PodWorker
from muster.embedded.node.supervisor.contract import ControlRequest, ControlResponse
from muster.embedded.node.supervisor.output_files import PROBLEM_FILE
from muster.embedded.node.supervisor_client import ControlConnection, SupervisorGone
from muster.embedded.settings import AgentSettings
from muster.kube.budgets import setting_name
from muster.kube.cluster import LogQuery, NodeFilesError
from muster.kube.controller import Informer
from muster.kube.errors import BadRequest, Conflict, NotFound, TooManyRequests, Unavailable
from muster.kube.file_names import path_component
from muster.kube.metrics_api import UsageByPod
from muster.kube.objects import (
    Object,
    annotations_of,
    controller_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
)

_CHUNK = 1 << 16
_ANSWER_SECONDS = 30.0
"""How long a supervisor may take to start a command."""
_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


class PodOperations:
    """Implements `muster.embedded.cluster.NodeOperations`. Every call waits until the agent is `ready`."""

    def __init__(
        self,
        name: str,
        pods: Informer,
        workers: Mapping[str, PodWorker],
        logs: Logs,
        meter: UsageMeter,
        ready: asyncio.Event,
        most_sessions: int,
    ) -> None:
        self.name = name
        self._most_sessions = most_sessions
        self._meter = meter
        self._ready = ready
        self._pods = pods
        self._workers = workers
        self._logs = logs

    async def logs(self, pod: str, namespace: str, query: LogQuery) -> AsyncIterator[bytes]:
        """Returns the log of a Pod that exists, or of the latest deleted one with that name."""
        await self._ready.wait()
        found = self._pods.get(namespace, pod)
        if found is not None and query.controller and (controller_of(found) or {}).get("uid") != query.controller:
            found = None
        worker = self._workers.get(uid_of(found)) if found is not None else None
        if found is not None:
            folder = self._logs.folder(namespace, pod, uid_of(found))
            container = _choose_container(found, query.container)
            attempt = _latest_attempt(found, container, worker)
        else:
            folder = self._logs.newest(namespace, pod, query.controller)
            container = self._logs.container(folder, pod, query.container)
            attempt = self._logs.last_attempt(folder, container)
        if query.previous:
            attempt -= 1
            if attempt < 0:
                raise BadRequest(f'previous terminated container "{container}" in pod "{pod}" not found')
        ended: Callable[[], bool] = partial(worker.has_ended, container, attempt) if worker is not None else _always
        news = asyncio.Event()
        if worker is not None:
            worker.listeners.add(news)
        try:
            async for piece in self._logs.read(f"{folder}/{container}", attempt, query, ended, news):
                yield piece
        finally:
            if worker is not None:
                worker.listeners.discard(news)

    async def exec(
        self, pod: str, namespace: str, command: Sequence[str], *, container: str, stdin: bool, tty: bool
    ) -> ExecProcess:
        worker, chosen = await self._find_container(pod, namespace, container, "exec into")
        with self._session(worker) as closed:
            return await ExecProcess.start(worker.folder, chosen, command, stdin=stdin, tty=tty, on_close=closed)

    async def attach(self, pod: str, namespace: str, *, container: str, stdin: bool) -> ExecProcess:
        worker, chosen = await self._find_container(pod, namespace, container, "attach to")
        with self._session(worker) as closed:
            return await ExecProcess.attach(worker.folder, chosen, stdin=stdin, on_close=closed)

    @contextmanager
    def forward(self, pod: str, namespace: str) -> Iterator[str]:
        found = self._pods.get(namespace, pod)
        worker = self._workers.get(uid_of(found)) if found is not None else None
        if worker is None or worker.is_finished or not worker.address:
            raise Conflict(f'the Pod "{pod}" does not run here: it has no open ports')
        self._open_session(worker)
        try:
            yield worker.address
        finally:
            worker.sessions -= 1

    def check_listener(self, pod: str, namespace: str, port: int) -> None:
        found = self._pods.get(namespace, pod)
        worker = self._workers.get(uid_of(found)) if found is not None else None
        if worker is not None and not worker.owns_listener(port):
            raise Conflict(
                f'on port {port} of the Pod "{pod}", nothing listens, or what listens belongs to another namespace'
            )

    async def _find_container(
        self, pod: str, namespace: str, container: str, action: Literal["exec into", "attach to"]
    ) -> tuple[PodWorker, str]:
        await self._ready.wait()
        found = self._pods.get(namespace, pod)
        if found is None:
            raise NotFound(f'pods "{pod}" not found')
        worker = self._workers.get(uid_of(found))
        # The status lags behind the journal.
        ending = worker.progress.finished if worker is not None else None
        phase = ending.get("phase") if ending is not None else status_of(found).get("phase")
        is_kept = worker is not None and worker.is_kept and action == "exec into"
        if phase in ("Succeeded", "Failed") and not is_kept:
            raise BadRequest(f"cannot {action} a container in a completed pod; current phase is {phase}")
        if worker is None:
            raise BadRequest(f"pod {pod} does not have a host assigned, or runs on a simulated node")
        first = container or _default_container(found) or _container_names(found)[0]
        return worker, _choose_container(found, first)

    @contextmanager
    def _session(self, worker: PodWorker) -> Iterator[Callable[[], None]]:
        """Yields what ends it. A session that fails to start is ended here."""
        self._open_session(worker)

        def closed() -> None:
            worker.sessions -= 1

        try:
            yield closed
        except BaseException:
            closed()
            raise

    def _open_session(self, worker: PodWorker) -> None:
        if worker.sessions >= self._most_sessions:
            raise TooManyRequests(
                f"{worker.sessions} commands and forwarded ports are open in this Pod; close some, or raise "
                f"{setting_name('pod_sessions')}"
            )
        worker.sessions += 1

    async def usage(self) -> tuple[UsageByPod, float]:
        await self._ready.wait()
        return await self._meter.rates()

    def pods(self) -> Mapping[str, Object]:
        return {uid: worker.pod for uid, worker in self._workers.items() if worker.pod and not worker.is_finished}


class ExecProcess:
    """A command that runs in a container, or the container itself. Implements `kube.cluster.Process`. Output is read
    only as fast as it is consumed."""

    def __init__(
        self,
        control: ControlConnection,
        pid: int,
        outputs: dict[int, int],
        stdin: int,
        terminal: int,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self.pid = pid
        """0 if it is the container itself."""
        self._on_close = on_close
        self._control = control
        self._outputs = outputs
        """1 for stdout, 2 for stderr -> a descriptor to read from."""
        self._stdin = stdin
        self._terminal = terminal
        self._closed = False
        self._code = asyncio.ensure_future(self._await_code())

    @classmethod
    async def start(
        cls,
        folder: str,
        container: str,
        command: Sequence[str],
        *,
        stdin: bool,
        tty: bool,
        on_close: Callable[[], None] | None = None,
    ) -> ExecProcess:
        if not command:
            raise BadRequest("you must specify at least one command for the container")
        request: ControlRequest = {"op": "exec", "container": container, "argv": list(command), "cwd": "", "tty": tty}
        request["env"] = {"TERM": "xterm"} if tty else {}
        streams = _Streams(stdin, tty)
        control, response = await streams.connect(folder, request, f"run {command[0]} in")
        return cls(control, response.get("pid", 0), streams.outputs, streams.stdin, streams.terminal, on_close)

    @classmethod
    async def attach(
        cls, folder: str, container: str, *, stdin: bool, on_close: Callable[[], None] | None = None
    ) -> ExecProcess:
        """Connects to the container itself. Closing it leaves the container running."""
        request: ControlRequest = {"op": "attach", "container": container, "stdin": stdin}
        streams = _Streams(stdin, tty=False)
        control, _ = await streams.connect(folder, request, "attach to")
        return cls(control, 0, streams.outputs, streams.stdin, -1, on_close)

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        loop = asyncio.get_running_loop()
        ready: asyncio.Event = asyncio.Event()
        for descriptor in self._outputs.values():
            loop.add_reader(descriptor, ready.set)
        try:
            while self._outputs:
                ready.clear()
                got = False
                for stream, descriptor in list(self._outputs.items()):
                    try:
                        data = os.read(descriptor, _CHUNK)
                    except BlockingIOError:
                        continue
                    except OSError:  # a terminal whose other end is closed
                        data = b""
                    if data:
                        got = True
                        yield stream, data
                    else:
                        loop.remove_reader(descriptor)
                        del self._outputs[stream]
                        if descriptor != self._terminal:
                            os.close(descriptor)
                if self._outputs and not got:
                    await ready.wait()
        finally:
            for descriptor in self._outputs.values():
                loop.remove_reader(descriptor)

    async def write(self, data: bytes) -> None:
        if self._stdin < 0:
            return
        if not data:
            if self._stdin == self._terminal:
                data = b"\x04"  # end of file on a terminal
            else:
                self._close_stdin()
                return
        loop = asyncio.get_running_loop()
        view = memoryview(data)
        while view and self._stdin >= 0:
            try:
                view = view[os.write(self._stdin, view) :]
            except BlockingIOError:
                writable = loop.create_future()
                loop.add_writer(self._stdin, _done, writable)
                try:
                    await writable
                finally:
                    loop.remove_writer(self._stdin)
            except OSError:  # the command no longer reads
                self._close_stdin()

    async def resize(self, rows: int, columns: int) -> None:
        if self._terminal >= 0:
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        elif not self.pid and not self._closed:
            self._control.resize(rows, columns)

    async def wait(self) -> int:
        return await asyncio.shield(self._code)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._on_close is not None:
            self._on_close()
        self._control.close()
        if not self._code.done():
            self._code.cancel()
            await asyncio.gather(self._code, return_exceptions=True)
        terminal, self._terminal = self._terminal, -1
        if self._stdin != terminal:
            self._close_stdin()
        self._stdin = -1
        loop = asyncio.get_running_loop()
        for descriptor in {*self._outputs.values(), *([terminal] if terminal >= 0 else [])}:
            loop.remove_reader(descriptor)
            os.close(descriptor)
        self._outputs.clear()

    def _close_stdin(self) -> None:
        if self._stdin >= 0 and self._stdin != self._terminal:
            os.close(self._stdin)
        self._stdin = -1

    async def _await_code(self) -> int:
        try:
            response = await self._control.receive()
        except SupervisorGone:
            return 137 if self.pid else 0  # the Pod has ended, and all its processes
        return response.get("code", 137)


class _Streams:
    """The pipes (or the terminal) between the server and the command, with both streams."""

    def __init__(self, stdin: bool, tty: bool) -> None:
        self.outputs: dict[int, int] = {}
        self.stdin = self.terminal = -1
        self.theirs: list[int] = []
        if tty:
            self.terminal, slave = os.openpty()
            os.set_blocking(self.terminal, False)
            self.outputs = {1: self.terminal}
            self.stdin = self.terminal if stdin else -1
            self.theirs = [slave, slave, slave]
            return
        if stdin:
            theirs, self.stdin = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(self.stdin, False)
        else:
            theirs = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self.theirs.append(theirs)
        for stream in (1, 2):
            ours, theirs = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(ours, False)
            self.outputs[stream] = ours
            self.theirs.append(theirs)

    async def connect(
        self, folder: str, request: ControlRequest, action: str
    ) -> tuple[ControlConnection, ControlResponse]:
        """Passes the other ends on to the supervisor with a request, and returns its response."""
        container = request["container"]
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                control = await ControlConnection.send(folder, request, self.theirs)
                try:
                    response = await control.receive()
                except BaseException:
                    control.close()
                    raise
            if "error" in response:
                control.close()
                raise BadRequest(f"cannot {action} container {container}: {response['error']}")
        except SupervisorGone:
            self.close_ours()
            raise Unavailable(f"container {container} is not running") from None
        except TimeoutError:
            self.close_ours()
            raise Unavailable(f"cannot {action} container {container}: its supervisor does not respond") from None
        except BaseException:
            self.close_ours()
            raise
        finally:
            self.close_theirs()
        return control, response

    def close_theirs(self) -> None:
        for descriptor in set(self.theirs):
            os.close(descriptor)

    def close_ours(self) -> None:
        for descriptor in {*self.outputs.values(), self.stdin, self.terminal} - {-1}:
            os.close(descriptor)


def _container_names(pod: Object) -> list[str]:
    spec = spec_of(pod)
    return [str(c.get("name")) for c in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))]


def _default_container(pod: Object) -> str:
    containers = spec_of(pod).get("containers") or []
    chosen = annotations_of(pod).get(_DEFAULT_CONTAINER)
    return chosen or (str(containers[0].get("name")) if len(containers) == 1 else "")


def _choose_container(pod: Object, wanted: str) -> str:
    names, chosen = _container_names(pod), wanted or _default_container(pod)
    choose = f"choose one of: [{' '.join(names)}]"
    if not chosen:
        raise BadRequest(f"a container name must be specified for pod {name_of(pod)}, {choose}")
    if chosen not in names:
        raise BadRequest(f"container {chosen} is not valid for pod {name_of(pod)}, {choose}")
    return chosen


def _latest_attempt(pod: Object, container: str, worker: PodWorker | None) -> int:
    """Returns the latest attempt of a container. If there is none yet, raises BadRequest with the reason, as kubelet
    does."""
    if worker is not None and (known := worker.progress.containers.get(container)) is not None and known.attempt >= 0:
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


def _always() -> bool:
    return True


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


# The files of Pods that this machine's node agent keeps. Implements
# `muster.kube.cluster.NodeFiles`.


class AgentFiles:
    def __init__(self, settings: AgentSettings) -> None:
        self._home = settings.home
        self._pods = settings.pods
        self._logs = str(settings.log_folder)
        self._nfs = settings.nfs

    def output(self, pod: Object, container: str, index: int) -> Path | None:
        folder = output_folder(self._pods, uid_of(pod), container)
        problem = folder / PROBLEM_FILE
        if problem.exists():
            raise NodeFilesError(problem.read_text())
        copy = folder / str(index)
        if copy.is_symlink():
            raise NodeFilesError("it is a link")
        return copy if copy.exists() else None

    def outputs_written_at(self, pod: Object, container: str) -> int:
        try:
            return output_folder(self._pods, uid_of(pod), container).stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def last_output(self, pod: Object, container: str, limit: int) -> bytes:
        return read_last_output(self._log_folder(pod, container), limit)

    def write_log(self, pod: Object, container: str, target: Path) -> None:
        folder = self._log_folder(pod, container)
        files = log_files(folder)
        reader = LineReader(timestamps=False)
        with target.open("wb") as text:
            dropped = read_dropped(folder, files[-1].attempt) if files else DroppedLog()
            if dropped.size:
                text.write(reader.feed(dropped.line()))
            for file in files:
                if file.attempt == files[-1].attempt:
                    text.write(reader.feed(Path(file.path).read_bytes()))

    def scratch_folder(self, pod: Object, container: str) -> str:
        return scratch_folder(f"{self._pods}/{path_component(uid_of(pod))}", container)

    def volume_folder(self, pod: Object, volume: str) -> str:
        return f"{self._pods}/{path_component(uid_of(pod))}/volumes/{path_component(volume)}"

    def nfs_folder(self, server: str, path: str) -> str:
        return self._nfs.get(f"{server}:{path}", "")

    def is_own(self, folder: str) -> bool:
        return folder.startswith(f"{self._home}/")

    def log_owners(self, kind: str) -> set[tuple[str, str]]:
        return {(namespace, uid) for namespace, uid, _ in owned_logs(self._logs, kind)}

    def drop_logs(self, kind: str, owners: Collection[str]) -> None:
        for _, uid, folder in owned_logs(self._logs, kind):
            if uid in owners:
                shutil.rmtree(folder, ignore_errors=True)
                with suppress(OSError):
                    os.rmdir(os.path.dirname(folder))  # another Pod of the same name may have logs, too

    def _log_folder(self, pod: Object, container: str) -> str:
        folder = pod_log_folder(self._logs, namespace_of(pod), name_of(pod), uid_of(pod))
        return f"{folder}/{path_component(container)}"
