"""One small scope, and short ways to ask for a value or a complaint over it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from muster.workflows.lang.clock import Clock
from muster.workflows.lang.environment import evaluate_in
from muster.workflows.lang.errors import ExpressionError

SCOPE: dict[str, Any] = {
    "name": "ada",
    "size": 5.0,
    "ratio": 2.5,
    "ready": True,
    "nothing": None,
    "user": {"name": "Ada", "age": 36.0, "langs": ["go", "python"], "home": None},
    "items": [{"name": "a", "price": 3.0}, {"name": "b", "price": 1.0}, {"name": "c", "price": 2.0}],
    "inputs.parameters.count": "3",
    "inputs.parameters.my-param": "x",
    "workflow.status": "Succeeded",
}
NOON = 1_700_000_000 * 10**9
"""A moment, 2023-11-14T22:13:20Z, at which every test happens that asks for the time."""


def fixed_clock() -> Clock:
    """A standing clock and loaded dice."""
    return Clock(lambda: NOON, random.Random(7))


def value_of(expression: str, scope: Mapping[str, Any] = SCOPE) -> Any:
    return evaluate_in(expression, scope, fixed_clock())


def complaint_about(expression: str, scope: Mapping[str, Any] = SCOPE) -> str:
    """The first line of what is said: the message and the place."""
    with pytest.raises(ExpressionError) as caught:
        evaluate_in(expression, scope, fixed_clock())
    return str(caught.value).split("\n")[0]
