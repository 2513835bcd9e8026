"""Starts supervisors by forking a small Python process, because starting Python takes too long.

It reads the folder of a Pod per line from its socket, replies `+PID` or `-MESSAGE` in the same order, and sends
`!STATUS FOLDER` when a supervisor was killed. It exits when the server has exited; supervisors stay until their Pods
have ended.

Even a fork is not cheap: every page that the child touches has to be copied. So a supervisor whose Pod has ended
cleanly waits for another Pod for a while, and only a few Pods are started at the same time: of many short ones, most
find a supervisor that has become free meanwhile. More at once would not start any sooner.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import time
from collections import deque
from contextlib import suppress
from errno import EAGAIN
from functools import partial

from muster.embedded.node.supervisor.confinement import ALL_CAPABILITIES, CAPABILITIES, confinement_of
from muster.embedded.node.supervisor.contract import Isolation
from muster.embedded.node.supervisor.pod_supervisor import SupervisorProcess, supervise
from muster.embedded.node.supervisor.processes import map_user
from muster.embedded.node.supervisor.resource_limits import enter_pods_group
from muster.embedded.node.supervisor.syscalls import (
    NEW_MOUNTS,
    NEW_PIDS,
    adopt_orphans,
    separate_mounts,
    setns,
    unshare,
    withhold_capabilities,
)

READY = b"ready\n"

_IDLE, _RUNNING = b"i", b"r"
"""What a supervisor reports: its Pod has ended, or has started as far as it can."""
_MAX_IDLE = 16
_MAX_CONNECTIONS = 256
"""The number of supervisors that the zygote stays connected to. More can run; they exit when their Pods have ended."""
_IDLE_MILLISECONDS = 10_000
_MAX_STARTING = 2 * (os.cpu_count() or 1)
_START_SECONDS = 0.25
"""A Pod that takes longer to start, perhaps because of a slow disk, does not hold up the others."""
_SCORE_OF_PODS = 500
"""As if a Pod used half of the machine's memory more than it does; the server has 0."""


def main(descriptor: int, isolation: Isolation, group: str = "", memory: int = 0) -> None:
    """Pods may use so much memory together, if it is not 0. `group` is the name of the control group for that."""
    for number in range(1, signal.NSIG):
        if number not in (signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE) and not 32 <= number < 34:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.umask(0o022)
    os.chdir("/")
    give_up_memory_first()
    if memory:
        enter_pods_group(group, memory)
    if isolation == "user-namespaces":
        enter_user_namespace()
    if isolation != "none":
        withhold_capabilities(ALL_CAPABILITIES - CAPABILITIES)
    for is_restricted in (False, True):
        confinement_of(is_restricted=is_restricted, allows_new_privileges=False)  # supervisors inherit the filters
    zygote = Zygote(socket.socket(fileno=descriptor), isolation)
    os.dup2(0, 2)  # Until here the server reads the errors.
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)
    zygote.serve()
    os._exit(0)


def give_up_memory_first() -> None:
    """Lets the kernel end a Pod, and not the server, when the machine has no memory left. Pods inherit it. They cannot
    take it back if the server has CAP_SYS_RESOURCE."""
    with suppress(OSError, ValueError):
        with open("/proc/self/oom_score_adj") as file:
            score = int(file.read())
        if score < _SCORE_OF_PODS:
            with open("/proc/self/oom_score_adj", "w") as file:
                file.write(f"{_SCORE_OF_PODS}")


def enter_user_namespace() -> None:
    """Enters a user namespace in which this user, with the same number, has root's rights. Programs do not inherit
    them: they are lost at exec."""
    map_user(os.getuid(), os.getgid())
    unshare(NEW_MOUNTS)
    separate_mounts()


class Zygote:
    def __init__(self, server: socket.socket, isolation: Isolation) -> None:
        self._server = server
        self._poll = select.poll()
        self._poll.register(server, select.POLLIN)
        self._pods: dict[int, bytes] = {}
        """Supervisor -> the folder of its latest Pod."""
        self._connections: dict[int, int] = {}
        """Descriptor -> the supervisor at its other end."""
        self._idle: list[int] = []
        """The connections whose supervisors wait for a Pod. The one that was busy last comes last."""
        self._starting: dict[int, float] = {}
        """Connection -> until when the start of its Pod counts."""
        self._waiting: deque[bytes] = deque()
        """The folders of Pods that are not started yet."""
        self._isolation: Isolation = isolation
        self._own_processes = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        if isolation == "user-namespaces":
            adopt_orphans()
        self._woken, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _handled_by_wakeup_descriptor)
        self._poll.register(self._woken, select.POLLIN)

    def serve(self) -> None:
        """Serves until the server has exited."""
        self._server.sendall(READY)
        rest = b""
        while True:
            ready = self._poll.poll(self._timeout())
            if not ready and not self._waiting:
                self._dismiss(self._idle[0])
            for descriptor, _ in ready:
                if descriptor == self._woken:
                    os.read(self._woken, 4096)
                    self._reap()
                    continue
                if descriptor != self._server.fileno():
                    self._receive(descriptor)
                    continue
                data = self._server.recv(65536)
                if not data:
                    return
                *folders, rest = (rest + data).split(b"\n")
                self._waiting += folders
            self._start_waiting()

    def _timeout(self) -> float | None:
        if self._waiting:
            return max(0.0, (next(iter(self._starting.values())) - time.monotonic()) * 1000)
        return _IDLE_MILLISECONDS if self._idle else None

    def _start_waiting(self) -> None:
        now = time.monotonic()
        for connection, until in list(self._starting.items()):
            if until <= now:
                del self._starting[connection]
        while self._waiting and len(self._starting) < _MAX_STARTING:
            self._server.sendall(self._start(self._waiting.popleft()))

    def _start(self, folder: bytes) -> bytes:
        while self._idle:
            connection = self._idle.pop()
            try:
                os.write(connection, folder)
            except OSError:
                self._dismiss(connection)
                continue
            pid = self._connections[connection]
            self._pods[pid] = folder
            self._starting[connection] = time.monotonic() + _START_SECONDS
            return b"+%d\n" % pid
        try:
            pid = self._make_supervisor(folder)
        except OSError as error:
            return b"-" + (error.strerror or str(error)).encode() + b"\n"
        self._pods[pid] = folder
        return b"+%d\n" % pid

    def _make_supervisor(self, folder: bytes) -> int:
        ours, theirs = -1, -1
        if len(self._connections) < _MAX_CONNECTIONS:
            ours, theirs = (end.detach() for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        try:
            pid = self._fork()
            if pid == 0:
                if ours >= 0:
                    os.close(ours)
                self._become_supervisor(folder, theirs)
        except OSError:
            if ours >= 0:
                os.close(ours)
            raise
        finally:
            if theirs >= 0:
                os.close(theirs)
        if ours >= 0:
            self._connections[ours] = pid
            self._starting[ours] = time.monotonic() + _START_SECONDS
            self._poll.register(ours, select.POLLIN)
        return pid

    def _fork(self) -> int:
        """Like `os.fork`, but the child is process 1 of its own namespace."""
        if self._isolation == "none":
            return os.fork()
        if self._isolation == "namespaces":
            unshare(NEW_PIDS)
            try:
                return os.fork()
            finally:
                if os.getpid() != 1:
                    setns(self._own_processes, NEW_PIDS)
        # A process in a user namespace cannot return to the machine's process namespace. So a child enters the new one
        # and forks.
        report, reported = os.pipe()
        between = os.fork()
        if between == 0:
            try:
                unshare(NEW_PIDS)
                pid = os.fork()
                if pid == 0:
                    os.close(report)
                    os.close(reported)
                    return 0
                os.write(reported, b"%d" % pid)
            finally:
                if os.getpid() != 1:
                    os._exit(0)
        os.close(reported)
        try:
            pid = int(os.read(report, 16) or 0)
        finally:
            os.close(report)
        os.waitpid(between, 0)
        if not pid:
            raise OSError(EAGAIN, os.strerror(EAGAIN))
        return pid

    def _become_supervisor(self, folder: bytes, connection: int) -> None:
        status = 1
        try:
            self._server.close()
            for descriptor in (*self._connections, self._woken, signal.set_wakeup_fd(-1)):
                os.close(descriptor)
            os.setsid()
            process = SupervisorProcess(partial(_report_running, connection))
            while folder and supervise(os.fsdecode(folder), process) and connection >= 0:
                os.write(connection, _IDLE)
                folder = os.read(connection, 65536)
            status = 0
        except OSError:
            status = 0  # The zygote has exited while this process was idle.
        finally:
            os._exit(status)

    def _receive(self, connection: int) -> None:
        """A supervisor reports, or has exited."""
        self._starting.pop(connection, None)
        try:
            news = os.read(connection, 16)
        except OSError:
            news = b""
        if news == _RUNNING:
            return
        if news:  # if it has exited, `_reap` still needs its Pod
            self._pods.pop(self._connections[connection], None)
        if news and len(self._idle) < _MAX_IDLE:
            self._idle.append(connection)
        else:
            self._dismiss(connection)

    def _dismiss(self, connection: int) -> None:
        with suppress(ValueError):
            self._idle.remove(connection)
        self._starting.pop(connection, None)
        self._poll.unregister(connection)
        del self._connections[connection]
        os.close(connection)

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                folder = self._pods.pop(pid, b"")
                if status and folder:
                    self._server.sendall(b"!%d %b\n" % (status, folder))


def _report_running(connection: int) -> None:
    with suppress(OSError):  # the zygote may have exited
        os.write(connection, _RUNNING)


def _handled_by_wakeup_descriptor(number: int, frame: object) -> None:
    pass
