"""One attempt of a container: from its start until it has ended and none of its processes is left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Protocol

from muster.embedded.node.supervisor import output_files, resource_limits
from muster.embedded.node.supervisor.attachments import AttachedClient, Attachments, ContainerInput
from muster.embedded.node.supervisor.contract import EngineCommands, PreparedContainer, PreparedPod
from muster.embedded.node.supervisor.event_loop import EventLoop, Timer
from muster.embedded.node.supervisor.journal_and_logs import LogStream, LogWriter, make_log_folders, read_tail
from muster.embedded.node.supervisor.probes import CheckKind, ProbeRun, ProbeRunner, start_probe
from muster.embedded.node.supervisor.processes import Processes, ProgramMissing, StartError, host_pid, send_signal
from muster.embedded.node.supervisor.resource_limits import ResourceLimits
from muster.embedded.node.supervisor.sandbox import CONTAINER_MARK, Sandbox

START_ERROR_CODE = 128
_SHELL_NOT_FOUND_CODE = 127
"""A shell exits with it if it cannot find a command."""
_READ_BYTES = 65536
_MESSAGE_BYTES = 4096
_MEMORY_PERIOD = 0.2
_LEFTOVER_PERIOD = 0.01
_MAX_LEFTOVER_TRIES = 200
"""Processes that survive this many tries are killed when the Pod ends."""
_KILL_PERIOD, _ENGINE_KILL_PERIOD = 0.1, 5.0
_DRAIN_TIMEOUT = 1.0
_ENTRIES_AT_ONCE, _BYTES_AT_ONCE = 100, 4 << 20
"""The supervisor itself copies at most this much. More would block its other containers."""
_HOOK_TIMEOUT = 3600.0
_AFTER_HOOK = 2.0
"""How long a container may take to end if its preStop hook has used up the grace period."""
_MACHINE_FULL = (
    "the kernel ended it, because all Pods of this machine together used more memory than they may; set memory limits, "
    "or raise budgets.podsMemoryPercent"
)


class AttemptOutcome(NamedTuple):
    code: int
    signal: int
    reason: str
    message: str


class AttemptHost(Protocol):
    """What an attempt needs from the supervisor."""

    pod: PreparedPod
    loop: EventLoop
    sandbox: Sandbox
    processes: Processes
    limits: ResourceLimits
    dev_null: int
    """A descriptor of /dev/null."""

    def record(self, attempt: Attempt, event: str, **details: object) -> None: ...
    def is_alone(self, attempt: Attempt) -> bool: ...
    def startup_passed(self, attempt: Attempt) -> None: ...
    def stop_unhealthy(self, attempt: Attempt, reason: str, message: str, grace: float | None) -> None: ...
    def keeps(self, attempt: Attempt, outcome: AttemptOutcome) -> bool: ...
    def attempt_ended(self, attempt: Attempt, outcome: AttemptOutcome) -> None: ...


class Attempt:
    def __init__(
        self, host: AttemptHost, container: PreparedContainer, number: int, earlier: Attempt | None = None
    ) -> None:
        """An attempt that repeats an `earlier` one runs among the files that it has left."""
        self.container, self.number = container, number
        self.name = container["name"]
        self.pid = 0
        """0 before the start and after the end."""
        self.is_kept = False
        """Whether it has ended, and its view of the file system is kept."""
        self._host, self._loop = host, host.loop
        self._engine = container.get("engine")
        self._namespace = earlier.hand_over() if earlier is not None else -1
        self._inode = -1
        self._streams: dict[int, LogStream] = {}
        self._log: LogWriter | None = None
        self._attachments = Attachments(host.loop, self._resume_reading)
        self._is_paused = False
        self._cgroup: resource_limits.Cgroup | None = None
        self._probes: ProbeRunner | None = None
        self._hook: ProbeRun | None = None
        self._ready = self._out_of_memory = self._is_clean = False
        self._leftover_tries = 0
        self._status: int | None = None
        self._kill_timer: Timer | None = None
        self._timer: Timer | None = None
        """For the next check of its memory, and after its end, of its leftovers."""

    def start(self) -> None:
        pod, container = self._host.pod, self.container
        self._log = LogWriter(
            container["logDir"], self.number, pod["logFileBytes"], pod["logFiles"], partial(make_log_folders, pod)
        )
        clear_termination_message(container.get("terminationMessageFile"), self.number)
        memory, cpu = container.get("memoryLimit"), container.get("cpuLimit")
        if (memory or cpu) and not self._engine:
            processes = (pod.get("limits") or {}).get("processes") or 0
            self._cgroup = resource_limits.create_cgroup(
                f"{cgroup_prefix(pod['uid'])}{self.name}", memory, cpu, processes
            )
        stdio, outputs = self._open_streams()
        try:
            self.pid, self._namespace = self._host.sandbox.start(
                container, self.number, stdio, self._cgroup_descriptors, namespace=self._namespace
            )
        except StartError as error:
            self._attachments.close()
            for output in outputs.values():
                os.close(output)
            message = str(error)
            if isinstance(error, ProgramMissing) and (advice := container.get("missingProgram")):
                message = f"{message}: {advice}"
            self._report_outcome(AttemptOutcome(START_ERROR_CODE, 0, "StartError", message))
            return
        finally:
            for descriptor in set(stdio) - {self._host.dev_null}:
                os.close(descriptor)
        self._loop.on_exit(self.pid, self._exited)
        for name, output in outputs.items():
            self._follow(output, name)
        isolated = self._namespace >= 0
        self._host.record(self, "started", pid=host_pid(self.pid) if isolated else self.pid)
        if memory and not self._engine and not (self._cgroup and self._cgroup.limits_memory):
            self._watch_memory()
        hook = container.get("postStart")
        if hook:
            self._hook = start_probe(self._loop, hook, _HOOK_TIMEOUT, self._run_probe, self._post_started)
        else:
            self._post_started(True, "")

    def stop(self, until: float) -> None:
        """Asks the container to end and kills it at `until`. Can be called again with an earlier time."""
        if self._status is not None:
            return
        now = time.time()
        if self._kill_timer is not None:
            self._kill_timer.cancel()
            self._kill_timer = self._loop.at(until, self._grace_expired)
            return
        self._kill_timer = self._loop.at(until, self._grace_expired)
        self._stop_probes()
        hook = self.container.get("preStop")
        if hook and until > now:
            self._hook = start_probe(self._loop, hook, _HOOK_TIMEOUT, self._run_probe, self._pre_stopped)
        elif until > now:
            self._signal(signal_number(self.container.get("stopSignal")))

    def run_inside(
        self,
        argv: list[str],
        stdio: Sequence[int],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        terminal: bool = False,
    ) -> int:
        """Starts another process in the container."""
        sandbox, container = self._host.sandbox, self.container
        if self._engine:
            argv = exec_command(self._engine, argv, env or {}, cwd, terminal=terminal)
            return sandbox.run_engine(container, self.number, argv, stdio, terminal=terminal)
        return sandbox.run_inside(
            container,
            self.number,
            self._namespace,
            argv,
            stdio,
            env=env,
            cwd=cwd,
            terminal=terminal,
            cgroups=self._cgroup_descriptors,
        )

    def attach(self, stdin: int, stdout: int, stderr: int, on_end: Callable[[], None]) -> AttachedClient:
        """Connects a client to its streams. Takes the descriptors; `stdin` is -1 if the client does not write."""
        target = self._attachments.input
        if stdin >= 0 and (target is None or not target.is_writable):
            raise StartError(f'container "{self.name}" has no standard input: set its stdin to true')
        return self._attachments.add(stdin, stdout, stderr, on_end)

    def on_startup_passed(self) -> None:
        if self.container.get("startupProbe"):
            self._host.record(self, "startup")
        self._host.startup_passed(self)

    def on_readiness(self, ready: bool) -> None:
        if ready != self._ready:
            self._ready = ready
            self._host.record(self, "ready", ready=ready)

    def on_probe_failed(self, check: CheckKind, message: str) -> None:
        self._host.record(self, "unhealthy", probe=check, message=f"{check.capitalize()} probe failed: {message}")

    def on_unhealthy(self, check: CheckKind, grace: float | None) -> None:
        message = f"Container {self.name} failed {check} probe, will be restarted"
        self._host.stop_unhealthy(self, "Unhealthy", message, grace)

    @property
    def _cgroup_descriptors(self) -> list[int]:
        return self._cgroup.procs if self._cgroup is not None else []

    def _run_probe(self, argv: list[str], output: int) -> int:
        return self.run_inside(argv, (self._host.dev_null, output, output))

    def _post_started(self, passed: bool, message: str) -> None:
        self._hook = None
        if not passed:
            self._host.stop_unhealthy(self, "FailedPostStartHook", f"PostStartHook failed: {message}", None)
            return
        self._probes = ProbeRunner(self._loop, self.container, self, self._run_probe)
        self._probes.start()

    def _pre_stopped(self, passed: bool, message: str) -> None:
        self._hook = None
        if not passed:
            self._host.record(self, "unhealthy", probe="preStop", message=f"PreStopHook failed: {message}")
        self._signal(signal_number(self.container.get("stopSignal")))

    def _grace_expired(self) -> None:
        if self._hook is not None:
            self._stop_probes()
            self._signal(signal_number(self.container.get("stopSignal")))
            self._kill_timer = self._loop.at(time.time() + _AFTER_HOOK, self._kill)
        else:
            self._kill()

    def _kill(self) -> None:
        """Repeats until the main process has ended: it may fork while its processes are listed."""
        if self._status is None:
            self._signal(signal.SIGKILL)
            period = _ENGINE_KILL_PERIOD if self._engine else _KILL_PERIOD
            self._kill_timer = self._loop.at(time.time() + period, self._kill)

    def _signal(self, number: int) -> None:
        if self._engine:
            with suppress(StartError):
                argv = kill_command(self._engine, number)
                self._host.sandbox.run_engine(self.container, self.number, argv, [self._host.dev_null] * 3)
        else:
            send_signal(self._own_processes(), number)

    def _own_processes(self) -> list[int]:
        processes, roots = self._host.processes, [self.pid] if self.pid else []
        if self._namespace >= 0:
            if self._inode < 0:
                self._inode = os.fstat(self._namespace).st_ino
            return processes.find_owned(lambda pid: processes.is_in_mounts(pid, self._inode), roots)
        mark = f"{CONTAINER_MARK}={self._host.sandbox.mark(self.container, self.number)}".encode()
        return processes.find_owned(lambda pid: mark in processes.variables(pid), roots)

    def _watch_memory(self) -> None:
        limit = self.container.get("memoryLimit") or 0
        if self._status is not None:
            return
        if self._host.processes.memory(self._own_processes(), limit) > limit:
            self._out_of_memory = True
            self._kill()
        else:
            self._timer = self._loop.at(time.time() + _MEMORY_PERIOD, self._watch_memory)

    def _open_streams(self) -> tuple[tuple[int, int, int], dict[str, int]]:
        """Returns the container's standard streams, and the other ends of those that it writes to."""
        container = self.container
        if container.get("tty"):
            terminal, theirs = os.openpty()
            ours, is_writable = os.dup(terminal), bool(container.get("stdin"))
            self._attachments.input = ContainerInput(self._loop, ours, is_terminal=True, is_writable=is_writable)
            return (theirs, theirs, theirs), {"stdout": terminal}
        stdin = self._host.dev_null
        if container.get("stdin"):
            stdin, ours = os.pipe()
            is_for_one = bool(container.get("stdinOnce"))
            self._attachments.input = ContainerInput(self._loop, ours, is_for_one=is_for_one)
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        return (stdin, out_end, err_end), {"stdout": out, "stderr": err}

    def _follow(self, pipe: int, name: str) -> None:
        assert self._log is not None
        os.set_blocking(pipe, False)
        self._streams[pipe] = LogStream(self._log, name)
        self._watch(pipe)

    def _read(self, pipe: int) -> None:
        try:
            data = os.read(pipe, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:  # a terminal whose other end is closed
            data = b""
        if data:
            stream = self._streams[pipe]
            stream.feed(data)
            if not self._attachments.send(stream.name, data) and self._status is None:
                self._pause_reading()
            return
        self._loop.unwatch(pipe)
        os.close(pipe)
        self._streams.pop(pipe).end()
        if self._is_clean and not self._streams:
            self._finish()

    def _pause_reading(self) -> None:
        """An attached client cannot keep up."""
        self._is_paused = True
        for pipe in self._streams:
            self._loop.unwatch(pipe)

    def _resume_reading(self) -> None:
        if self._is_paused:
            self._is_paused = False
            for pipe in self._streams:
                self._watch(pipe)

    def _watch(self, pipe: int) -> None:
        self._loop.watch(pipe, lambda: self._read(pipe))

    def _exited(self, status: int) -> None:
        self._status, self.pid = status, 0
        self._resume_reading()
        self._stop_probes()
        self._cancel_timers()
        if self._engine:
            self._copy_from_engine(0)
        else:
            self._kill_leftovers()

    def _copy_from_engine(self, number: int) -> None:
        """Copies the output paths one after the other, then removes the container."""
        assert self._engine is not None
        paths = self.container.get("keep") or ()
        if number == len(paths) and not paths:
            self._remove_from_engine()
            return
        folder = self.container["keepFolder"]
        if number == len(paths):
            child = output_files.check_copies_in_child(folder, self._output_budget())
            self._loop.on_exit(child, lambda _status: self._remove_from_engine())
            return
        source, target = f"{self._engine['name']}:{paths[number]}", f"{folder}/{number}"
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            argv = [*self._engine["copy"], source, target]
            pid = self._host.sandbox.run_engine(self.container, self.number, argv, [self._host.dev_null] * 3)
        except (OSError, StartError) as error:
            output_files.write_problem(folder, str(error))
            self._remove_from_engine()
        else:
            self._loop.on_exit(pid, lambda _status: self._copy_from_engine(number + 1))

    def _remove_from_engine(self) -> None:
        assert self._engine is not None
        try:
            argv = self._engine["remove"]
            pid = self._host.sandbox.run_engine(self.container, self.number, argv, [self._host.dev_null] * 3)
        except StartError:
            self._kill_leftovers()
        else:
            self._loop.on_exit(pid, lambda _status: self._kill_leftovers())

    def _kill_leftovers(self) -> None:
        """Kills what the main process has left behind, until nothing is left. Then reads the rest of the output."""
        if self._loop.has_children:
            left = self._own_processes()
            if left and self._host.is_alone(self):
                self._host.processes.kill_all()
            elif left:
                send_signal(left, signal.SIGKILL)
            self._leftover_tries += 1
            if left and self._leftover_tries < _MAX_LEFTOVER_TRIES:
                self._timer = self._loop.at(time.time() + _LEFTOVER_PERIOD, self._kill_leftovers)
                return
        self._is_clean = True
        # Only processes that have escaped from the container can still hold the other end. Do not wait for them.
        self._timer = self._loop.at(time.time() + _DRAIN_TIMEOUT, self._stop_reading)
        if not self._streams:
            self._finish()

    def _stop_reading(self) -> None:
        for pipe, stream in self._streams.items():
            self._loop.unwatch(pipe)
            os.close(pipe)
            stream.end()
        self._streams.clear()
        self._finish()

    def _finish(self) -> None:
        """No process of the container is left, and its output is read."""
        self._cancel_timers()
        self._attachments.close()
        outcome = self._outcome()
        paths = self.container.get("keep")
        if not paths or self._engine:
            self._report_outcome(outcome)
            return
        folder = self.container["keepFolder"]
        root = self._host.sandbox.root_of(self._namespace)
        budget, reader = self._output_budget(), self._reader()
        # What the container runs from is there because it runs on this machine, and is not one of its files.
        own = [mount["target"] for mount in self.container.get("mounts") or () if mount["type"] == "own"]
        at_once = output_files.CopyBudget(_ENTRIES_AT_ONCE, min(_BYTES_AT_ONCE, budget.left))
        try:
            output_files.copy_outputs(root, paths, folder, at_once, reader, excluded=own, is_last=False)
        except output_files.BudgetExceeded:
            child = output_files.copy_outputs_in_child(root, paths, folder, budget, reader, excluded=own)
            self._loop.on_exit(child, lambda _status: self._report_outcome(outcome))
        else:
            self._report_outcome(outcome)
        finally:
            os.close(root)

    def _output_budget(self) -> output_files.CopyBudget:
        limits = self._host.pod.get("limits") or {}
        return output_files.CopyBudget(limits.get("outputFiles", 100_000), limits.get("outputBytes", 10 << 30))

    def _reader(self) -> output_files.Reader:
        """Outputs are read with the rights of the container's user."""
        if self._host.sandbox.isolation != "namespaces":
            return output_files.ANYONE
        container, first = self.container, self._host.pod.get("firstId")
        uid, gid, groups = container.get("uid"), container.get("gid"), container.get("groups") or ()
        if first is not None:
            uid, gid, groups = first + (uid or 0), first + (gid or 0), [first + group for group in groups]
        return output_files.Reader(uid, gid, groups)

    def _outcome(self) -> AttemptOutcome:
        assert self._status is not None and self._log is not None
        code = os.waitstatus_to_exitcode(self._status)
        number = -code if code < 0 else 0
        code = 128 + number if number else code
        out_of_memory = self._out_of_memory or bool(code and self._cgroup and self._cgroup.was_out_of_memory())
        shares_memory = bool(number == signal.SIGKILL and not out_of_memory and self._host.limits.memory_was_exhausted)
        out_of_memory = out_of_memory or shares_memory
        reason = "OOMKilled" if out_of_memory else "Error" if code else "Completed"
        message = read_termination_message(self.container.get("terminationMessageFile"))
        if not message and code and self.container.get("terminationMessageFromLogs"):
            message = read_tail(self._log.path)
        if not message and shares_memory:
            message = _MACHINE_FULL
        if not message and code:
            message = self._host.limits.explanation
        if not message and code == _SHELL_NOT_FOUND_CODE:
            message = self.container.get("missingProgram") or ""
        return AttemptOutcome(code, number, reason, message)

    def _report_outcome(self, outcome: AttemptOutcome) -> None:
        self._cancel_timers()
        if self._log is not None:
            self._log.close()
        self.is_kept = self._host.keeps(self, outcome)
        if not self.is_kept:
            self.release()
        self._host.attempt_ended(self, outcome)

    def hand_over(self) -> int:
        """Returns the descriptor of its mount namespace, and releases the rest."""
        namespace, self._namespace = self._namespace, -1
        self.release()
        return namespace

    def release(self) -> None:
        """Gives up the container's view of the file system, and the limits of what was run there."""
        self.is_kept = False
        if self._cgroup is not None:
            self._cgroup.remove()
            self._cgroup = None
        if self._namespace >= 0:
            os.close(self._namespace)
            self._namespace = -1

    def _stop_probes(self) -> None:
        if self._probes is not None:
            self._probes.stop()
        if self._hook is not None:
            self._hook.cancel()
            self._hook = None

    def _cancel_timers(self) -> None:
        for timer in (self._timer, self._kill_timer):
            if timer is not None:
                timer.cancel()


def cgroup_prefix(uid: str) -> str:
    return f"muster-{uid}-"


def signal_number(name: str | None) -> int:
    """Returns the number of SIGTERM, TERM or SIGRTMIN+3. An unknown name means SIGTERM."""
    name = (name or "SIGTERM").upper()
    name = name if name.startswith("SIG") else f"SIG{name}"
    base, sign, offset = name.partition("+") if "+" in name else name.partition("-")
    number = getattr(signal, base, signal.SIGTERM)
    return int(number) + (int(f"{sign}{offset}") if offset.isdigit() else 0)


def exec_command(
    engine: EngineCommands, argv: list[str], env: Mapping[str, str], cwd: str, *, terminal: bool
) -> list[str]:
    prefix = engine["exec"]
    cut = prefix.index("exec") + 1 if "exec" in prefix else len(prefix) - 1
    options = ["-i", "-t"] if terminal else ["-i"]
    for name, value in env.items():
        options += ["-e", f"{name}={value}"]
    if cwd:
        options += ["-w", cwd]
    return [*prefix[:cut], *options, *prefix[cut:], *argv]


def kill_command(engine: EngineCommands, number: int) -> list[str]:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = str(number)
    return [*engine["kill"], name, engine["name"]]


def clear_termination_message(path: str | None, attempt: int) -> None:
    """Removes the message of an earlier attempt."""
    if path and attempt:
        with suppress(OSError):
            os.truncate(path, 0)


def read_termination_message(path: str | None) -> str:
    if not path:
        return ""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(descriptor, _MESSAGE_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)
