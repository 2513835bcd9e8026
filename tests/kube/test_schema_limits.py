from __future__ import annotations

from typing import Any

import pytest

from muster.kube.kinds import Schema
from muster.kube.schema import validate


@pytest.mark.parametrize(
    ("limits", "value", "complaint"),
    [
        ({"minimum": 1}, 1, ""),
        ({"minimum": 1}, 0, "must be greater than or equal to 1"),
        ({"minimum": 1, "exclusiveMinimum": True}, 1, "must be greater than 1"),
        ({"maximum": 3}, 3, ""),
        ({"maximum": 3}, 4, "must be less than or equal to 3"),
        ({"maximum": 3, "exclusiveMaximum": True}, 3, "must be less than 3"),
        ({"minimum": 1}, "not a number", ""),
        ({"multipleOf": 5}, 10, ""),
        ({"multipleOf": 5}, 11, "must be a multiple of 5"),
        ({"minLength": 2}, "x", "must have at least 2 characters"),
        ({"maxLength": 2}, "xyz", "must have at most 2 characters"),
        ({"minItems": 1}, [], "must have at least 1 items"),
        ({"maxItems": 1}, [1, 2], "must have at most 1 items"),
        ({"minProperties": 1}, {}, "must have at least 1 entries"),
        ({"maxProperties": 1}, {"a": 1, "b": 2}, "must have at most 1 entries"),
        ({"pattern": "^[a-z]+$"}, "abc", ""),
        ({"pattern": "^[a-z]+$"}, "a1", "must match ^[a-z]+$"),
        ({"pattern": r"\pL+"}, "what Python cannot compile is not checked", ""),
        ({"uniqueItems": True}, [1, 1], "must not have an item twice"),
        ({"uniqueItems": False}, [1, 1], ""),
    ],
)
def test_limits(limits: Schema, value: Any, complaint: str) -> None:
    messages = [cause.message for cause in validate(value, limits)]
    assert messages == ([] if not complaint else messages[:1])
    assert all(message.endswith(f": {complaint}") for message in messages)
    assert bool(messages) is bool(complaint)
