"""What an expression may cost. Expressions come with workflows, and one process runs everybody's."""

from __future__ import annotations

from muster.workflows.expressions.errors import ExpressionError

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


def checked_length(characters: int) -> int:
    """The length of a string about to be made, refused if nobody can mean it."""
    if characters > MAX_STRING:
        raise ExpressionError(f"a string of {characters} characters is too long (at most {MAX_STRING})")
    return characters


def checked_count(elements: int) -> int:
    """The length of a list about to be made, refused if nobody can mean it."""
    if elements >= MEMORY:
        raise ExpressionError("memory budget exceeded")
    return elements
