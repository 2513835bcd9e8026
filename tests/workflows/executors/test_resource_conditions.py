from __future__ import annotations

from typing import Any

import pytest

from muster.workflows.executors.resource_conditions import ResourceError, evaluate_conditions, parse_conditions

JOB: dict[str, Any] = {
    "metadata": {"name": "train", "labels": {"app": "x"}},
    "status": {
        "phase": "Running",
        "succeeded": 10,
        "ready": False,
        "share": 1.5,
        "nothing": None,
        "conditions": [{"type": "Complete", "status": "True"}],
    },
}


@pytest.mark.parametrize(
    ("success", "failure", "expected"),
    [
        ("status.phase == Running", "", ""),
        ("status.phase = Running", "", ""),
        ("status.phase == Done", "", None),
        ("status.succeeded > 9", "", ""),
        ("status.succeeded > 10", "", None),
        ("status.succeeded < 11", "status.failed > 0", ""),
        ("status.conditions.0.type == Complete", "", ""),
        ("status.conditions.1.type == Complete", "", None),
        ("status.conditions.type == Complete", "", None),
        ("status.ready == false", "", ""),
        ("status.share == 1.5", "", ""),
        ("status.nothing", "", ""),  # null is present
        ("status.missing", "", None),
        ("!status.missing", "", ""),
        ("status.missing != x", "", ""),
        ("status.phase notin (Done)", "", ""),
        ("status.phase in (Done, Running), status.succeeded > 9", "", ""),
        ("status.phase == Running, status.succeeded > 99", "", None),
        ("", "status.phase == Failed", ""),  # without a success condition, what has not failed has succeeded
        (
            "status.phase == Running",
            "status.phase == Running",
            "failure condition 'status.phase==Running' evaluated true",
        ),
        ("", "status.phase = Running", "failure condition 'status.phase=Running' evaluated true"),
        ("", "status.phase in (Running)", "failure condition 'status.phase in (Running)' evaluated true"),
        ("", "status.phase in (Running, Error)", "failure condition 'status.phase in (Error,Running)' evaluated true"),
        ("", "status.failed > 0, status.succeeded > 0", "failure condition 'status.succeeded>0' evaluated true"),
    ],
)
def test_an_object_is_judged_as_argo_does(success: str, failure: str, expected: str | None) -> None:
    assert evaluate_conditions(parse_conditions(success, failure), JOB) == expected


@pytest.mark.parametrize(
    ("success", "failure", "start"),
    [
        ("status.phase ==== x", "", "success condition 'status.phase ==== x' failed to parse: "),
        ("", "a in b", "fail condition 'a in b' failed to parse: "),
    ],
)
def test_a_bad_condition_names_itself(success: str, failure: str, start: str) -> None:
    with pytest.raises(ResourceError) as raised:
        parse_conditions(success, failure)
    assert str(raised.value).startswith(start)


def test_without_conditions_there_is_nothing_to_wait_for() -> None:
    assert not parse_conditions("", "")
    assert parse_conditions("status.phase == x", "")
