"""Limits on what an expression may cost.

Expressions come from users, and one process evaluates all of them. Evaluation counts steps, elements and
characters, and stops with an ExpressionError when a limit is reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.workflows.lang.errors import ExpressionError

MAX_TEXT = 100_000
"""Characters of an expression."""
MAX_NODES = 10_000
"""Parts of an expression; expr-lang has the same limit."""
MAX_DEPTH = 100
"""How deep parentheses, calls and the like may be nested."""
MAX_STEPS = 1_000_000
"""Parts evaluated, counting each round of a predicate."""
MEMORY = 1_000_000
"""Elements of the lists and maps an expression makes, as expr-lang counts them."""
MAX_STRING = 10_000_000
"""Characters of a string an expression makes, or of all strings in a list or a map together."""


def check_length(characters: int) -> int:
    """The length of a string about to be made, refused if nobody can mean it."""
    if characters > MAX_STRING:
        raise ExpressionError(f"a string of {characters} characters is too long (at most {MAX_STRING})")
    return characters


def check_count(elements: int) -> int:
    """The length of a list about to be made, refused if nobody can mean it."""
    if elements >= MEMORY:
        raise ExpressionError("memory budget exceeded")
    return elements


class SizeTracker:
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
