"""When a container's probes are due and what their results add up to. Pure."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Literal, Protocol, TypeAlias, cast

from muster.embedded.node.supervisor import probe_runs
from muster.embedded.node.supervisor.contract import PreparedContainer, Probe
from muster.embedded.node.supervisor.event_loop import EventLoop, Timer

CheckKind: TypeAlias = Literal["startup", "liveness", "readiness"]

KINDS: tuple[CheckKind, ...] = ("startup", "liveness", "readiness")


class Check:
    """One probe of one attempt. Thresholds count results in a row."""

    __slots__ = ("_failures", "_successes", "due", "kind", "probe")

    def __init__(self, kind: CheckKind, probe: Probe, started: float) -> None:
        self.kind = kind
        self.probe = probe
        self.due = started + (probe.get("initialDelay") or 0.0)
        self._successes = self._failures = 0

    def begin(self, now: float) -> None:
        """Notes that the probe is being made; the next one is due a period later."""
        self.due = now + (probe_number(self.probe, "period", 10.0))

    def note(self, passed: bool) -> bool | None:
        """Notes a result. True or False once there are enough of a kind, None before."""
        if passed:
            self._successes, self._failures = self._successes + 1, 0
            return True if self._successes >= (self.probe.get("successThreshold") or 1) else None
        self._successes, self._failures = 0, self._failures + 1
        return False if self._failures >= (self.probe.get("failureThreshold") or 3) else None


def checks_of(container: PreparedContainer, started: float) -> list[Check]:
    probes = cast("Mapping[str, Probe | None]", container)
    return [Check(kind, probe, started) for kind in KINDS if (probe := probes.get(f"{kind}Probe"))]


def active(checks: list[Check]) -> list[Check]:
    """Until the startup probe has passed (and was removed), the others wait."""
    return [check for check in checks if check.kind == "startup"] or checks


def probe_number(probe: Probe, name: Literal["period", "timeout"], default: float) -> float:
    value = probe.get(name)
    return default if value is None or value <= 0 else value


_REPEAT_AFTER = 60.0
"""The same complaint again is only passed on after so many seconds."""


class Patient(Protocol):
    """Who is being watched, and wants to know."""

    def has_started_up(self) -> None: ...
    def is_ready(self, ready: bool) -> None: ...
    def is_unhealthy(self, check: CheckKind, message: str) -> None: ...
    def has_to_go(self, check: CheckKind, grace: float | None) -> None: ...


class HealthWatch:
    def __init__(
        self, loop: EventLoop, container: PreparedContainer, patient: Patient, run_inside: probe_runs.RunInside
    ) -> None:
        self._loop = loop
        self._patient = patient
        self._run_inside = run_inside
        self._checks = checks_of(container, time.time())
        self._timers: dict[CheckKind, Timer] = {}
        self._under_way: dict[CheckKind, probe_runs.Probing] = {}
        self._said: dict[CheckKind, tuple[str, float]] = {}

    def begin(self) -> None:
        """What has no probe is taken for granted."""
        if not any(check.kind == "startup" for check in self._checks):
            self._patient.has_started_up()
            if not any(check.kind == "readiness" for check in self._checks):
                self._patient.is_ready(True)
        for check in active(self._checks):
            self._arm(check)

    def end(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        for under_way in self._under_way.values():
            under_way.cancel()
        self._checks.clear()

    def _arm(self, check: Check) -> None:
        self._timers[check.kind] = self._loop.at(check.due, lambda: self._probe(check))

    def _probe(self, check: Check) -> None:
        check.begin(time.time())
        self._under_way[check.kind] = probe_runs.begin(
            self._loop,
            check.probe,
            probe_number(check.probe, "timeout", 1.0),
            self._run_inside,
            lambda passed, message: self._probed(check, passed, message),
        )

    def _probed(self, check: Check, passed: bool, message: str) -> None:
        self._under_way.pop(check.kind, None)
        if not passed:
            self._complain(check, message)
        verdict = check.note(passed)
        if verdict is True and check.kind == "startup":
            self._checks.remove(check)
            self.begin()
            return
        self._arm(check)
        if verdict is not None and check.kind == "readiness":
            self._patient.is_ready(verdict)
        elif verdict is False:
            self.end()
            self._patient.has_to_go(check.kind, check.probe.get("grace"))

    def _complain(self, check: Check, message: str) -> None:
        said, when = self._said.get(check.kind, ("", 0.0))
        if message != said or time.time() - when >= _REPEAT_AFTER:
            self._said[check.kind] = (message, time.time())
            self._patient.is_unhealthy(check.kind, message)
