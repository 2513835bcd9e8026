from __future__ import annotations

from typing import Any

import pytest

from muster.cli.errors import CommandError
from muster.cli.wait import Goal, is_reached, parse_goal

OBJECT: dict[str, Any] = {
    "status": {
        "phase": "Running",
        "ready": True,
        "replicas": 3,
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "Failed", "status": "False"}],
    }
}


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("delete", Goal("delete")),
        ("create", Goal("create")),
        ("condition=Ready", Goal("condition", "Ready", "true")),
        ("condition=Ready=False", Goal("condition", "Ready", "false")),
        ("jsonpath={.status.phase}=Running", Goal("jsonpath", "{.status.phase}", "Running")),
        ("jsonpath={.status.phase}", Goal("jsonpath", "{.status.phase}", None)),
        ("jsonpath=.status.phase=Running", Goal("jsonpath", ".status.phase", "Running")),
        (
            'jsonpath={.status.conditions[?(@.type=="Ready")].status}=True',
            Goal("jsonpath", '{.status.conditions[?(@.type=="Ready")].status}', "True"),
        ),
    ],
)
def test_parsing_of_conditions(text: str, goal: Goal) -> None:
    assert parse_goal(text) == goal


@pytest.mark.parametrize("text", ["", "ready", "condition=", "jsonpath={.status", "jsonpath={.a}b", "delete=now"])
def test_invalid_conditions_are_refused(text: str) -> None:
    with pytest.raises(CommandError, match="--for"):
        parse_goal(text)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("condition=Ready", True),
        ("condition=ready", True),
        ("condition=Failed", False),
        ("condition=Failed=false", True),
        ("condition=Sunshine=false", False),
        ("jsonpath={.status.phase}=Running", True),
        ("jsonpath={.status.phase}=Pending", False),
        ("jsonpath={.status.ready}=true", True),
        ("jsonpath={.status.replicas}=3", True),
        ("jsonpath={.status.podIP}", False),
        ("jsonpath={.status.phase}", True),
    ],
)
def test_reached(text: str, answer: bool) -> None:
    assert is_reached(parse_goal(text), OBJECT) is answer
