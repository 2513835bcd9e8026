"""Keeps making the probes of one attempt of a container, and tells what comes of them."""

from __future__ import annotations

import time
from typing import Protocol

from muster.embedded.agent import probing
from muster.embedded.agent.contract import PreparedContainer
from muster.embedded.agent.health import Check, CheckKind, active, checks_of, probe_number
from muster.embedded.agent.loop import Loop, Timer

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
        self, loop: Loop, container: PreparedContainer, patient: Patient, run_inside: probing.RunInside
    ) -> None:
        self._loop = loop
        self._patient = patient
        self._run_inside = run_inside
        self._checks = checks_of(container, time.time())
        self._timers: dict[CheckKind, Timer] = {}
        self._under_way: dict[CheckKind, probing.Probing] = {}
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
        self._under_way[check.kind] = probing.begin(
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
