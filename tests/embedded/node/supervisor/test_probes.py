from __future__ import annotations

import pytest

from muster.embedded.node.supervisor.contract import PreparedContainer, Probe
from muster.embedded.node.supervisor.probes import ProbeCheck, active_checks, checks_of


@pytest.mark.parametrize(
    ("successes", "failures", "results", "verdicts"),
    [
        (1, 3, "+", [True]),
        (1, 3, "--", [None, None]),
        (1, 3, "---", [None, None, False]),
        (1, 3, "--+--", [None, None, True, None, None]),
        (2, 1, "+-++", [None, False, None, True]),
    ],
)
def test_thresholds_count_results_in_a_row(
    successes: int, failures: int, results: str, verdicts: list[bool | None]
) -> None:
    probe: Probe = {"kind": "tcp", "successThreshold": successes, "failureThreshold": failures}
    check = ProbeCheck("readiness", probe, 0.0)
    assert [check.record(result == "+") for result in results] == verdicts


def test_a_probe_is_due_after_its_delay_and_then_every_period() -> None:
    check = ProbeCheck("liveness", {"kind": "tcp", "initialDelay": 5.0, "period": 2.0}, 100.0)
    assert check.due == 105.0
    check.start(105.5)
    assert check.due == 107.5


def test_until_the_startup_probe_has_passed_the_others_wait() -> None:
    probe: Probe = {"kind": "tcp"}
    container: PreparedContainer = {"startupProbe": probe, "livenessProbe": probe, "readinessProbe": None}
    checks = checks_of(container, 0.0)
    assert [check.kind for check in checks] == ["startup", "liveness"]
    assert [check.kind for check in active_checks(checks)] == ["startup"]
    assert [check.kind for check in active_checks(checks[1:])] == ["liveness"]
