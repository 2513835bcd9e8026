"""When a container's probes are due and what their results add up to. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, cast

from muster.embedded.agent.contract import PreparedContainer, Probe

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
