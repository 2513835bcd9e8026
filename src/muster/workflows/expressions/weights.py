"""How much a value is in all. A list that holds another one twice, which does the same, and so on, is small until
somebody prints or compares it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.workflows.expressions.errors import ExpressionError
from muster.workflows.expressions.limits import MAX_STRING


class Weights:
    """Characters and elements of the lists and maps of one evaluation, each counted as often as it can be reached."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, int]] = {}

    def of(self, value: Any) -> int:
        """Raises ExpressionError for a value that is too much to handle."""
        if isinstance(value, str):
            return len(value) + 1
        if not isinstance(value, list | Mapping):
            return 1
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        inner = value.values() if isinstance(value, Mapping) else value
        weight = 1 + sum(map(self.of, inner))
        if weight > MAX_STRING:
            raise ExpressionError("memory budget exceeded")
        # The value is kept with its weight: another one must not get its id meanwhile.
        self._known[id(value)] = (value, weight)
        return weight
