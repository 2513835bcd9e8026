"""Runs one Pod to its end, in a process of its own that needs no other process once it has started.

This is the shell around `lifecycle`: it carries out its decisions, records them in the journal and notifies the agent.
It also serves the control socket (exec and stop), and continues from the journal of a supervisor that was killed.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import cast

from muster.embedded.node.supervisor import resource_limits
from muster.embedded.node.supervisor.attachments import AttachedClient
from muster.embedded.node.supervisor.attempt import Attempt, AttemptOutcome, cgroup_prefix
from muster.embedded.node.supervisor.base_namespace import BaseNamespace
from muster.embedded.node.supervisor.contract import (
    CONTROL_SOCKET,
    POD_FILE,
    ContainerOrder,
    ControlRequest,
    ControlResponse,
    JournalEntry,
    PreparedContainer,
    PreparedPod,
)
from muster.embedded.node.supervisor.event_loop import EventLoop, Timer
from muster.embedded.node.supervisor.journal_and_logs import JournalWriter, short_socket_path
from muster.embedded.node.supervisor.lifecycle import (
    Action,
    BackOff,
    ContainerState,
    EndPod,
    Finish,
    PodState,
    Start,
    StartOrder,
    Stop,
    apply_action,
    decide,
    next_wakeup,
    record_exit,
)
from muster.embedded.node.supervisor.processes import Processes, StartError, kill_marked
from muster.embedded.node.supervisor.resource_limits import ResourceLimits
from muster.embedded.node.supervisor.sandbox import CONTAINER_MARK, Sandbox
from muster.embedded.node.supervisor.syscalls import adopt_orphans
from muster.embedded.node.supervisor.user_namespaces import UserNamespaces

CRASH_FILE = "supervisor.log"
_DEV_NULL = 0  # The zygote has opened /dev/null as descriptors 0, 1 and 2.
_FOLDER_CHECK_PERIOD = 10.0
_RETRY_DISK = 1.0
_RETRY_NOTIFY = 0.02
_LAST_NOTIFY_TIMEOUT = 10.0
_SHUTDOWN = EndPod(0.0, "Terminated", "Pod was terminated in response to imminent node shutdown.")
_LOST_CODE = 137
_LOST_SIGNAL = 9
_MAX_REQUEST = 1 << 20
_DESCRIPTORS = 3


class SupervisorProcess:
    """What a supervisor process keeps from one Pod to the next."""

    def __init__(self, report_running: Callable[[], None]) -> None:
        """`report_running` is called for each Pod when everything has started that can be started at once."""
        self.report_running = report_running
        self.loop = EventLoop((signal.SIGTERM, signal.SIGINT))
        own_namespace = os.getpid() == 1
        if not own_namespace:
            adopt_orphans()
        self.processes = Processes(own_namespace)
        self.base = BaseNamespace()
        self.user_namespaces = UserNamespaces()
        self.limits = ResourceLimits()


def supervise(folder: str, process: SupervisorProcess) -> bool:
    """Runs the Pod until it has ended. Returns at once if another process runs it or nothing is left to do. Returns
    False if this process cannot run another Pod."""
    journal = JournalWriter.open(folder)
    if journal is None:
        return True
    try:
        entries = journal.read()
        if (entries and entries[-1]["e"] == "finished") or not os.path.exists(f"{folder}/{POD_FILE}"):
            return True
        with open(f"{folder}/{POD_FILE}", "rb") as file:
            pod: PreparedPod = json.loads(file.read())
        journal.set_listener(pod["notify"], pod["uid"])
        process.limits.apply(pod.get("limits") or {})
        supervisor = Supervisor(folder, pod, journal, process)
        supervisor.run(entries)
        return process.loop.is_idle and supervisor.sandbox.leave()
    except Exception as error:
        # Do not stay half alive: kill the Pod's processes, then exit.
        process.processes.kill_all()
        with suppress(OSError), open(f"{folder}/{CRASH_FILE}", "a") as file:
            traceback.print_exc(file=file)
        last: JournalEntry = {"t": time.time(), "e": "finished", "phase": "Failed", "reason": "SupervisorFailed"}
        journal.add({**last, "message": f"{type(error).__name__}: {error}"})
        journal.write()
        journal.notify(_LAST_NOTIFY_TIMEOUT)
        return False
    finally:
        process.loop.clear()
        journal.close()


class Supervisor:
    def __init__(self, folder: str, pod: PreparedPod, journal: JournalWriter, process: SupervisorProcess) -> None:
        self.pod = pod
        self.dev_null = _DEV_NULL
        self.attempts: dict[str, Attempt] = {}
        self._kept: dict[str, Attempt] = {}
        """Containers that have failed, whose files are kept for a while."""
        self._folder = folder
        self._journal = journal
        self._containers: dict[str, PreparedContainer] = {c["name"]: c for c in pod["containers"]}
        self._state = _state_of(pod)
        self._is_finished = False
        self._is_released = False
        self._has_news = False
        self._wake: Timer | None = None
        self._retry: Timer | None = None
        self.loop = process.loop
        self.loop.on_signal = self._on_signal
        self.processes = process.processes
        self.limits = process.limits
        self._report_running = process.report_running
        self.sandbox = Sandbox(pod, folder, process.base, process.user_namespaces)

    def run(self, entries: list[JournalEntry]) -> None:
        now = time.time()
        if entries:
            kill_leftovers(self.pod, self.sandbox, _DEV_NULL)
            for lost in restore_state(self._state, entries, now):
                self._journal.add(lost)
        control = ControlServer(self._folder, self.loop, self.attempts, self._stop)
        # In the machine's /proc, `self` is the number of this process in the machine's namespace.
        self._journal.add({"t": now, "e": "supervised", "pid": int(os.readlink("/proc/self"))})
        try:
            self._advance()
            self._report_running()
            self.loop.at(now + _FOLDER_CHECK_PERIOD, self._watch_folder)
            while not self._is_finished:
                self.loop.run_once()
                self._advance()
            if self._kept:
                self._keep_failed(control)
        finally:
            control.close()

    def record(self, attempt: Attempt, event: str, **details: object) -> None:
        entry = {"t": time.time(), "e": event, "c": attempt.name, "a": attempt.number, **details}
        self._journal.add(cast(JournalEntry, entry))
        self._has_news = True

    def is_alone(self, attempt: Attempt) -> bool:
        return all(other is attempt for other in self.attempts.values())

    def startup_passed(self, attempt: Attempt) -> None:
        self._state[attempt.name].passed = True

    def stop_unhealthy(self, attempt: Attempt, reason: str, message: str, grace: float | None) -> None:
        self.record(attempt, "killing", reason=reason, message=message)
        self._stop_attempt(attempt, time.time() + (self.pod["grace"] if grace is None else grace))

    def keeps(self, attempt: Attempt, outcome: AttemptOutcome) -> bool:
        """Whether the files of a container that has ended are kept: it failed, and is retried among them, or nothing
        starts it again."""
        if attempt.container.get("engine"):
            return False
        order = self._state.order
        if order is not None and outcome.code and attempt.number < order.retries and attempt.name in order.leading:
            return True
        wanted = self.pod.get("keepFailedSeconds") and self.pod["restartPolicy"] == "Never"
        return bool(wanted and outcome.code and outcome.reason != "StartError")

    def attempt_ended(self, attempt: Attempt, outcome: AttemptOutcome) -> None:
        self.attempts.pop(attempt.name, None)
        earlier = self._kept.pop(attempt.name, None)
        if earlier is not None:
            earlier.release()
        if attempt.is_kept:
            self._kept[attempt.name] = attempt
        details = {name: value for name, value in outcome._asdict().items() if value or name == "code"}
        self.record(attempt, "exited", **details)
        record_exit(self._state, attempt.name, outcome.code, time.time())

    def _advance(self) -> None:
        """Carries out actions until it has to wait."""
        now = time.time()
        while not self._is_finished and (actions := decide(self._state, now)):
            for action in actions:
                if not self._execute(action, now):
                    break
            else:
                continue
            break
        self._write_and_notify()
        when = next_wakeup(self._state)
        if self._wake is not None:
            self._wake.cancel()
        self._wake = self.loop.at(when, _wake_up) if when is not None else None

    def _execute(self, action: Action, now: float) -> bool:
        """Returns False if it has to wait for space on the disk."""
        if isinstance(action, Start):
            return self._start(action, now)
        if isinstance(action, Finish):
            return self._finish(action)
        apply_action(self._state, action, now)
        if isinstance(action, BackOff):
            name, attempt, until = action
            self._journal.add({"t": now, "e": "backoff", "c": name, "a": attempt, "until": until})
            self._has_news = True
        elif isinstance(action, Stop):
            self._request_stop(self.attempts[action.container], action.until)
        return True

    def _start(self, action: Start, now: float) -> bool:
        starting: JournalEntry = {"t": now, "e": "starting", "c": action.container, "a": action.attempt}
        self._journal.add(starting)
        if not self._journal.write():
            self._journal.discard(starting)
            return False
        apply_action(self._state, action, now)
        # Only the retries of a containerSet find the files of the attempt before them.
        is_retry = self._state.order is not None and self._state.order.retries
        earlier = self._kept.pop(action.container, None) if is_retry else None
        attempt = Attempt(self, self._containers[action.container], action.attempt, earlier)
        self.attempts[action.container] = attempt
        attempt.start()
        return True

    def _request_stop(self, attempt: Attempt, until: float) -> None:
        ending = self._state.ending
        reason = (ending.reason if ending else "") or "Killing"
        self.record(attempt, "killing", reason=reason, message=f"Stopping container {attempt.name}")
        attempt.stop(until)

    def _stop_attempt(self, attempt: Attempt, until: float) -> None:
        apply_action(self._state, Stop(attempt.name, until), time.time())
        attempt.stop(until)

    def _finish(self, action: Finish) -> bool:
        self._kill_all_processes()
        entry: JournalEntry = {"t": time.time(), "e": "finished", "phase": action.phase}
        if action.reason:
            entry["reason"], entry["message"] = action.reason, action.message
        self._journal.add(entry)
        if not self._journal.write():
            self._journal.discard(entry)
            return False
        self._is_finished = True
        if action.phase != "Failed":
            self._release_kept()
        self._journal.notify(_LAST_NOTIFY_TIMEOUT, finished=True)
        return True

    def _keep_failed(self, control: ControlServer) -> None:
        """The Pod has ended. Its view of the file system stays for a while, so that commands can be run in it, and for
        as long as one of them runs."""
        control.attempts = self._kept
        until = time.time() + self.pod.get("keepFailedSeconds", 0.0)
        self.loop.at(until, _wake_up)
        while not self._is_released and (time.time() < until or control.connections):
            self.loop.run_once()  # a connection that ends wakes it, and so does a request to stop
        for connection in list(control.connections):
            connection.close()
        self._kill_all_processes()
        self._release_kept()
        self._journal.notify(_LAST_NOTIFY_TIMEOUT)

    def _release_kept(self) -> None:
        for attempt in self._kept.values():
            attempt.release()
        self._kept.clear()

    def _write_and_notify(self) -> None:
        if self._is_finished:
            return
        if not self._journal.write():
            self._try_again(_RETRY_DISK)
        elif self._has_news:
            self._has_news = False
            if not self._journal.notify():
                self._has_news = True
                self._try_again(_RETRY_NOTIFY)

    def _try_again(self, seconds: float) -> None:
        if self._retry is not None:
            self._retry.cancel()
        self._retry = self.loop.at(time.time() + seconds, _wake_up)

    def _watch_folder(self) -> None:
        """Without its folder, the Pod is not wanted any more and could not be stopped."""
        if self._journal.is_removed:
            self._stop(None, "FolderRemoved", "The folder of the Pod was removed while it ran")
        else:
            self.loop.at(time.time() + _FOLDER_CHECK_PERIOD, self._watch_folder)

    def _kill_all_processes(self) -> None:
        """Also kills processes that have escaped from their containers."""
        pause = 0.001
        while self.loop.has_children:
            self.processes.kill_all()
            time.sleep(pause)
            pause = min(2 * pause, 0.1)
            self.loop.reap()

    def _stop(self, grace: float | None, reason: str, message: str) -> None:
        self._is_released = True
        apply_action(self._state, EndPod(self.pod["grace"] if grace is None else grace, reason, message), time.time())

    def _on_signal(self, _number: int) -> None:
        self._is_released = True
        apply_action(self._state, _SHUTDOWN._replace(grace=self.pod["grace"]), time.time())


def _state_of(pod: PreparedPod) -> PodState:
    return PodState(
        [ContainerState(container["name"], container["role"]) for container in pod["containers"]],
        pod["restartPolicy"],
        grace=pod["grace"],
        deadline=pod.get("deadline"),
        backoff_base=pod["backoffBase"],
        backoff_max=pod["backoffMax"],
        order=_order_of(pod.get("arrangement")),
    )


def _order_of(arrangement: ContainerOrder | None) -> StartOrder | None:
    if not arrangement:
        return None
    return StartOrder(
        frozenset(arrangement["leading"]),
        arrangement.get("after") or {},
        arrangement.get("retries") or 0,
        arrangement.get("retrySeconds") or 0.0,
    )


def _wake_up() -> None:
    """A timer with this callback only wakes the loop."""


def restore_state(state: PodState, entries: Sequence[JournalEntry], now: float) -> list[JournalEntry]:
    """Replays the journal into the state. Returns the exits that were not recorded."""
    names = {container.name for container in state.containers}
    for entry in entries:
        name = entry.get("c")
        if name not in names or name is None:
            continue
        event, attempt, time = entry["e"], entry.get("a", 0), entry["t"]
        if event == "starting":
            apply_action(state, Start(name, attempt), time)
        elif event == "started":
            state[name].started = time
        elif event == "exited":
            record_exit(state, name, entry["code"], time)
        elif event == "backoff":
            apply_action(state, BackOff(name, attempt, entry["until"]), time)
    lost: list[JournalEntry] = []
    for container in state.containers:
        if container.is_active:
            record_exit(state, container.name, _LOST_CODE, now)
            lost.append(
                {
                    "t": now,
                    "e": "exited",
                    "c": container.name,
                    "a": container.attempt,
                    "code": _LOST_CODE,
                    "signal": _LOST_SIGNAL,
                    "reason": "ContainerStatusUnknown",
                    "message": "The container was killed together with the process that supervised it",
                }
            )
    return lost


def kill_leftovers(pod: PreparedPod, sandbox: Sandbox, dev_null: int) -> None:
    """Ends what may have outlived the earlier supervisor. If the Pod had a process namespace, the kernel has already
    done so."""
    resource_limits.remove_leftovers(cgroup_prefix(pod["uid"]))
    if pod["isolation"] == "none":
        kill_marked(f"{CONTAINER_MARK}={pod['uid']}/".encode())
    for container in pod["containers"]:
        engine = container.get("engine")
        if engine:
            with suppress(StartError, ChildProcessError):
                os.waitpid(sandbox.run_engine(container, 0, engine["remove"], [dev_null] * 3), 0)


class ControlServer:
    def __init__(
        self,
        folder: str,
        loop: EventLoop,
        attempts: Mapping[str, Attempt],
        stop: Callable[[float | None, str, str], None],
    ) -> None:
        self._loop = loop
        self.attempts = attempts
        self.stop = stop
        self.connections: set[_Connection] = set()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        with short_socket_path(f"{folder}/{CONTROL_SOCKET}") as path:
            try:
                self._socket.bind(path)
            except OSError:
                os.unlink(path)  # an earlier supervisor's
                self._socket.bind(path)
        self._socket.listen(64)
        loop.watch(self._socket.fileno(), self._accept)

    def close(self) -> None:
        """The file stays: connections to it are refused, and it is removed with the Pod's folder."""
        for connection in list(self.connections):
            connection.close()
        self._loop.unwatch(self._socket.fileno())
        self._socket.close()

    def _accept(self) -> None:
        with suppress(OSError):
            _Connection(self, self._socket.accept()[0], self._loop)


class _Connection:
    def __init__(self, server: ControlServer, connection: socket.socket, loop: EventLoop) -> None:
        self._server = server
        self._socket = connection
        self._loop = loop
        self._received = b""
        self._descriptors: list[int] = []
        self._pid = 0
        self._attached: AttachedClient | None = None
        server.connections.add(self)
        connection.setblocking(False)
        loop.watch(connection.fileno(), self._read)

    def _read(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._socket, 65536, _DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        self._descriptors += descriptors
        self._received += data
        if not data or len(self._received) > _MAX_REQUEST:
            self.close()
            return
        while self._socket.fileno() >= 0 and not self._pid and b"\n" in self._received:
            line, _, self._received = self._received.partition(b"\n")
            if self._attached is not None:
                self._resize(self._attached, line)
            else:
                self._handle(line)

    def _handle(self, line: bytes) -> None:
        try:
            request: ControlRequest = json.loads(line)
            if request["op"] == "exec":
                self._exec(request)
                return
            if request["op"] == "attach":
                self._attach(request)
                return
            if request["op"] != "stop":
                raise StartError(f'unknown request "{request["op"]}"')
            self._server.stop(request.get("grace"), request.get("reason") or "", request.get("message") or "")
            self._respond({})
        except StartError as error:
            self._respond({"error": str(error)})
        except (ValueError, KeyError, TypeError) as error:
            self._respond({"error": f"malformed request: {error!r}"})
        self.close()

    def _exec(self, request: ControlRequest) -> None:
        attempt = self._server.attempts.get(request["container"])
        if attempt is None or not (attempt.pid or attempt.is_kept):
            raise StartError(f'container "{request["container"]}" is not running')
        if len(self._descriptors) != _DESCRIPTORS:
            raise StartError("an exec needs three descriptors: stdin, stdout and stderr")
        if not request["argv"]:
            raise StartError("an exec needs a command")
        self._pid = attempt.run_inside(
            request["argv"],
            self._descriptors,
            env=request.get("env"),
            cwd=request.get("cwd") or "",
            terminal=bool(request.get("tty")),
        )
        self._loop.on_exit(self._pid, self._exited)
        self._close_descriptors()
        self._respond({"pid": self._pid})

    def _attach(self, request: ControlRequest) -> None:
        attempt = self._server.attempts.get(request["container"])
        if attempt is None or not attempt.pid:
            raise StartError(f'container "{request["container"]}" is not running')
        if len(self._descriptors) != _DESCRIPTORS:
            raise StartError("an attach needs three descriptors: stdin, stdout and stderr")
        stdin, stdout, stderr = self._descriptors
        if not request.get("stdin"):
            stdin = -1
        self._attached = attempt.attach(stdin, stdout, stderr, self._detached)
        self._descriptors = [] if stdin >= 0 else self._descriptors[:1]
        self._close_descriptors()
        self._respond({})

    def _resize(self, client: AttachedClient, line: bytes) -> None:
        with suppress(ValueError, KeyError, TypeError, OverflowError, struct.error):
            request: ControlRequest = json.loads(line)
            client.resize(request["rows"], request["columns"])

    def _detached(self) -> None:
        if self._attached is not None:
            self._attached = None
            self._respond({"code": 0})
            self.close()

    def _exited(self, status: int) -> None:
        self._pid = 0
        code = os.waitstatus_to_exitcode(status)
        self._respond({"code": code if code >= 0 else 128 - code})
        self.close()

    def _respond(self, response: ControlResponse) -> None:
        with suppress(OSError):
            self._socket.sendall(json.dumps(response).encode() + b"\n")

    def close(self) -> None:
        """Also called if the client disconnects: then the command is not needed any more."""
        if self._pid:
            with suppress(OSError):
                os.killpg(self._pid, signal.SIGKILL)
        attached, self._attached = self._attached, None
        if attached is not None:
            attached.close()
        self._close_descriptors()
        self._server.connections.discard(self)
        if self._socket.fileno() >= 0:
            self._loop.unwatch(self._socket.fileno())
            self._socket.close()

    def _close_descriptors(self) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()
