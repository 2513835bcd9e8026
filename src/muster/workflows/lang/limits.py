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
"""Nodes of an expression; expr-lang has the same limit."""
MAX_DEPTH = 100
"""Levels of nested parentheses, calls and the like."""
MAX_STEPS = 1_000_000
"""Nodes evaluated, counted again for each element that a predicate looks at."""
MEMORY = 1_000_000
"""Elements of the lists and maps that an expression creates, as expr-lang counts them."""
MAX_STRING = 10_000_000
"""Characters of a string that an expression creates, or of all strings in a list or a map together."""


def check_length(characters: int) -> int:
    """Returns the length of a string that is about to be created. Raises ExpressionError if it is too long."""
    if characters > MAX_STRING:
        raise ExpressionError(f"a string of {characters} characters is too long (at most {MAX_STRING})")
    return characters


def check_count(elements: int) -> int:
    """Returns the length of a list that is about to be created. Raises ExpressionError if it is too long."""
    if elements >= MEMORY:
        raise ExpressionError("memory budget exceeded")
    return elements


class SizeTracker:
    """Measures the lists and maps of one evaluation in characters and elements, counted each time they are reachable.

    A list that holds another list twice, which does the same, and so on, is small until it is printed or compared.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, int]] = {}

    def size_of(self, value: Any) -> int:
        """Raises ExpressionError if the value is too large."""
        if isinstance(value, str):
            return len(value) + 1
        if not isinstance(value, list | Mapping):
            return 1
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        inner = value.values() if isinstance(value, Mapping) else value
        size = 1 + sum(map(self.size_of, inner))
        if size > MAX_STRING:
            raise ExpressionError("memory budget exceeded")
        # Keep the value, so that no other one gets its id.
        self._known[id(value)] = (value, size)
        return size
