"""A small scope, and functions that return a value or an error message for it."""

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
"""2023-11-14T22:13:20Z, the time of every test that asks for it."""


def fixed_clock() -> Clock:
    """Returns a clock that stands still, with fixed random numbers."""
    return Clock(lambda: NOON, random.Random(7))


def value_of(expression: str, scope: Mapping[str, Any] = SCOPE) -> Any:
    return evaluate_in(expression, scope, fixed_clock())


def error_message(expression: str, scope: Mapping[str, Any] = SCOPE) -> str:
    """Returns the first line of the error: the message and the position."""
    with pytest.raises(ExpressionError) as caught:
        evaluate_in(expression, scope, fixed_clock())
    return str(caught.value).split("\n")[0]
