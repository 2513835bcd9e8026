"""Runs the probes and hooks of a container: when a probe is due, how it is made, and what its results mean.

Nothing blocks. A probe or hook under way is a small object that the event loop calls, and that calls `done(passed,
message)` once. Probes are an exec in the container, an HTTP request or a TCP connection; hooks can also sleep.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, cast

from muster.embedded.node.supervisor.contract import Hook, PreparedContainer, Probe
from muster.embedded.node.supervisor.event_loop import READ, WRITE, EventLoop, Timer
from muster.embedded.node.supervisor.processes import StartError

if TYPE_CHECKING:
    import ssl

Done: TypeAlias = Callable[[bool, str], None]
RunInside: TypeAlias = Callable[[list[str], int], int]
"""(argv, descriptor of its output) -> the process number. Raises StartError."""

_OUTPUT_BYTES = 10 * 1024
_READ_BYTES = 65536

CheckKind: TypeAlias = Literal["startup", "liveness", "readiness"]

KINDS: tuple[CheckKind, ...] = ("startup", "liveness", "readiness")


class ProbeCheck:
    """One probe of one attempt. Thresholds count consecutive results."""

    __slots__ = ("_failures", "_successes", "due", "kind", "probe")

    def __init__(self, kind: CheckKind, probe: Probe, started: float) -> None:
        self.kind = kind
        self.probe = probe
        self.due = started + (probe.get("initialDelay") or 0.0)
        self._successes = self._failures = 0

    def start(self, now: float) -> None:
        """Records that the probe is started; the next one is due a period later."""
        self.due = now + (probe_number(self.probe, "period", 10.0))

    def record(self, passed: bool) -> bool | None:
        """Records a result. Returns True or False when the threshold is reached, None before."""
        if passed:
            self._successes, self._failures = self._successes + 1, 0
            return True if self._successes >= (self.probe.get("successThreshold") or 1) else None
        self._successes, self._failures = 0, self._failures + 1
        return False if self._failures >= (self.probe.get("failureThreshold") or 3) else None


def checks_of(container: PreparedContainer, started: float) -> list[ProbeCheck]:
    probes = cast("Mapping[str, Probe | None]", container)
    return [ProbeCheck(kind, probe, started) for kind in KINDS if (probe := probes.get(f"{kind}Probe"))]


def active_checks(checks: list[ProbeCheck]) -> list[ProbeCheck]:
    """Until the startup probe has passed (and was removed), the others wait."""
    return [check for check in checks if check.kind == "startup"] or checks


def probe_number(probe: Probe, name: Literal["period", "timeout"], default: float) -> float:
    value = probe.get(name)
    return default if value is None or value <= 0 else value


_REPEAT_AFTER = 60.0
"""The same failure is reported again only after this many seconds."""
_MOST_REPORTS = 20
"""After this many reports, a different failure also waits that long. A container writes its messages itself."""
_MESSAGE_CHARACTERS = 1024


class ProbeListener(Protocol):
    """Is notified of the results of a container's probes."""

    def on_startup_passed(self) -> None: ...
    def on_readiness(self, ready: bool) -> None: ...
    def on_probe_failed(self, check: CheckKind, message: str) -> None: ...
    def on_unhealthy(self, check: CheckKind, grace: float | None) -> None: ...


class ProbeRunner:
    def __init__(
        self, loop: EventLoop, container: PreparedContainer, listener: ProbeListener, run_inside: RunInside
    ) -> None:
        self._loop = loop
        self._listener = listener
        self._run_inside = run_inside
        self._checks = checks_of(container, time.time())
        self._timers: dict[CheckKind, Timer] = {}
        self._runs: dict[CheckKind, ProbeRun] = {}
        self._reported: dict[CheckKind, tuple[str, float]] = {}
        self._reports = 0

    def start(self) -> None:
        """A probe that does not exist counts as passed."""
        if not any(check.kind == "startup" for check in self._checks):
            self._listener.on_startup_passed()
            if not any(check.kind == "readiness" for check in self._checks):
                self._listener.on_readiness(True)
        for check in active_checks(self._checks):
            self._schedule(check)

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        for run in self._runs.values():
            run.cancel()
        self._checks.clear()

    def _schedule(self, check: ProbeCheck) -> None:
        self._timers[check.kind] = self._loop.at(check.due, lambda: self._probe(check))

    def _probe(self, check: ProbeCheck) -> None:
        check.start(time.time())
        self._runs[check.kind] = start_probe(
            self._loop,
            check.probe,
            probe_number(check.probe, "timeout", 1.0),
            self._run_inside,
            lambda passed, message: self._on_result(check, passed, message),
        )

    def _on_result(self, check: ProbeCheck, passed: bool, message: str) -> None:
        self._runs.pop(check.kind, None)
        if not passed:
            self._report_failure(check, message)
        result = check.record(passed)
        if result is True and check.kind == "startup":
            self._checks.remove(check)
            self.start()
            return
        self._schedule(check)
        if result is not None and check.kind == "readiness":
            self._listener.on_readiness(result)
        elif result is False:
            self.stop()
            self._listener.on_unhealthy(check.kind, check.probe.get("grace"))

    def _report_failure(self, check: ProbeCheck, message: str) -> None:
        message = message[:_MESSAGE_CHARACTERS]
        reported, when = self._reported.get(check.kind, ("", 0.0))
        is_new = message != reported and self._reports < _MOST_REPORTS
        if is_new or time.time() - when >= _REPEAT_AFTER:
            self._reports += 1
            self._reported[check.kind] = (message, time.time())
            self._listener.on_probe_failed(check.kind, message)


def start_probe(loop: EventLoop, what: Probe | Hook, timeout: float, run_inside: RunInside, done: Done) -> ProbeRun:
    """Starts a probe or hook. `done` is called later, never from here, and not at all after `cancel`."""
    kind = what["kind"]
    if kind == "exec":
        return _Exec(loop, what.get("command") or [], timeout, run_inside, done)
    if kind == "sleep":
        return _Sleep(loop, _seconds(what), done)
    return _Connection(loop, what, timeout, done)


class ProbeRun:
    """A probe or hook that is under way."""

    def __init__(self, loop: EventLoop, timeout: float, done: Done) -> None:
        self._loop = loop
        self._done: Done | None = done
        self._timeout = timeout
        self._timer: Timer = loop.at(time.time() + timeout, self._timed_out)

    def cancel(self) -> None:
        self._done = None
        self._timer.cancel()
        self._close()

    def _finish(self, passed: bool, message: str) -> None:
        done = self._done
        self.cancel()
        if done is not None:
            done(passed, message)

    def _timed_out(self) -> None:
        self._finish(False, f"timed out after {self._timeout:g}s")

    def _close(self) -> None:
        pass


class _Sleep(ProbeRun):
    def _timed_out(self) -> None:
        self._finish(True, "")


class _Exec(ProbeRun):
    def __init__(self, loop: EventLoop, argv: list[str], timeout: float, run_inside: RunInside, done: Done) -> None:
        super().__init__(loop, timeout, done)
        self._pid = 0
        self._text = b""
        self._output, write = os.pipe()
        os.set_blocking(self._output, False)
        try:
            self._pid = run_inside(argv, write)
        except (StartError, OSError) as error:
            message = str(error)
            loop.at(0.0, lambda: self._finish(False, message))
            return
        finally:
            os.close(write)
        loop.on_exit(self._pid, self._exited)
        loop.watch(self._output, self._read)

    def _read(self) -> None:
        with suppress(BlockingIOError):
            data = os.read(self._output, _READ_BYTES)
            self._text = (self._text + data)[:_OUTPUT_BYTES]
            if not data:
                self._loop.unwatch(self._output)

    def _exited(self, status: int) -> None:
        self._pid = 0
        if self._output >= 0:
            self._read()
        text = self._text.decode("utf-8", "replace").strip()
        code = os.waitstatus_to_exitcode(status)
        self._finish(code == 0, text or (f"exit code {code}" if code >= 0 else f"killed by signal {-code}"))

    def _close(self) -> None:
        if self._pid:
            # It leads its own process group.
            with suppress(OSError):
                os.killpg(self._pid, signal.SIGKILL)
        if self._output >= 0:
            self._loop.unwatch(self._output)
            os.close(self._output)
            self._output = -1


class _Connection(ProbeRun):
    """TCP: connects. HTTP: sends a request; a status from 200 to 399 is a success."""

    def __init__(self, loop: EventLoop, what: Probe | Hook, timeout: float, done: Done) -> None:
        super().__init__(loop, timeout, done)
        self._what = what
        self._socket: socket.socket | None = None
        self._reply = b""
        self._request = _request(what) if what["kind"] == "http" else b""
        self._tls: ssl.SSLSocket | None = None
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                what.get("host") or "127.0.0.1", what.get("port") or 0, type=socket.SOCK_STREAM
            )[0]
            self._socket = socket.socket(family, kind, protocol)
            self._socket.setblocking(False)
            with suppress(BlockingIOError):
                self._socket.connect(address)
            loop.watch(self._socket.fileno(), self._connected, WRITE)
        except OSError as error:
            message = self._failure(error)
            loop.at(0.0, lambda: self._finish(False, message))

    def _connected(self) -> None:
        assert self._socket is not None
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code or not self._request:
            self._finish(not code, self._failure(OSError(code, os.strerror(code))) if code else "")
            return
        self._loop.unwatch(self._socket.fileno())
        try:
            if (self._what.get("scheme") or "").upper() == "HTTPS":
                self._socket = self._tls = _wrap_tls(self._socket)
        except OSError as error:
            self._finish(False, self._failure(error))
        else:
            self._loop.watch(self._socket.fileno(), self._exchange, WRITE)

    def _exchange(self) -> None:
        assert self._socket is not None
        try:
            if self._tls is not None:
                self._tls.do_handshake()
                self._tls = None
            while self._request:
                self._request = self._request[self._socket.send(self._request) :]
            data = self._socket.recv(_READ_BYTES)
        except OSError as error:
            self._wait_or_fail(error)
            return
        self._reply += data
        if b"\n" in self._reply or not data or len(self._reply) > _READ_BYTES:
            self._check_status()

    def _wait_or_fail(self, error: OSError) -> None:
        assert self._socket is not None
        # With TLS, either side may have to read or write first.
        wanted = {"SSLWantReadError": READ, "SSLWantWriteError": WRITE}.get(type(error).__name__, 0)
        if isinstance(error, BlockingIOError):
            wanted = WRITE if self._request else READ
        if not wanted:
            self._finish(False, self._failure(error))
            return
        self._loop.unwatch(self._socket.fileno())
        self._loop.watch(self._socket.fileno(), self._exchange, wanted)

    def _check_status(self) -> None:
        line = self._reply.partition(b"\n")[0].split()
        if len(line) < 2 or not line[0].startswith(b"HTTP/") or not line[1].isdigit():
            self._finish(False, f"{_describe_target(self._what)}: malformed HTTP response")
            return
        passed = 200 <= int(line[1]) < 400
        self._finish(passed, "" if passed else f"HTTP probe failed with statuscode: {int(line[1])}")

    def _failure(self, error: OSError) -> str:
        return f"{_describe_target(self._what)}: {(error.strerror or str(error)).lower()}"

    def _close(self) -> None:
        if self._socket is not None:
            self._loop.unwatch(self._socket.fileno())
            self._socket.close()
            self._socket = None


def _seconds(what: Probe | Hook) -> float:
    value = what.get("seconds")
    return float(value) if isinstance(value, int | float) else 0.0


def _describe_target(what: Probe | Hook) -> str:
    host, port = what.get("host") or "127.0.0.1", what.get("port") or 0
    if what["kind"] == "tcp":
        return f"dial tcp {host}:{port}"
    scheme = (what.get("scheme") or "http").lower()
    return f'Get "{scheme}://{host}:{port}{_path(what)}"'


def _path(what: Probe | Hook) -> str:
    path = what.get("path") or "/"
    return path if path.startswith("/") else f"/{path}"


def _request(what: Probe | Hook) -> bytes:
    headers = {"host": f"Host: {what.get('host') or '127.0.0.1'}:{what.get('port') or 0}"}
    headers["user-agent"] = "User-Agent: kube-probe/1.0 (muster)"
    headers["accept"] = "Accept: */*"
    for name, value in what.get("headers") or ():
        headers[name.lower()] = f"{name}: {value}"
    lines = [f"GET {_path(what)} HTTP/1.1", *headers.values(), "Connection: close", "", ""]
    return "\r\n".join(lines).encode("latin-1", "replace")


def _wrap_tls(connection: socket.socket) -> ssl.SSLSocket:
    import ssl  # Large, and rarely needed.

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(connection, do_handshake_on_connect=False)
