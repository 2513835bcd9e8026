"""Limits on what an expression may cost, and the meter of all evaluation that one piece of work causes.

Expressions come from users, and one process evaluates all of them. Evaluation counts steps, elements and
characters, and stops with an ExpressionError when a limit of one expression is reached.

Many cheap expressions cost as much as an expensive one. Work that evaluates them, such as a step of a workflow, runs
under a `WorkMeter`, which every evaluator here reports to. When its budget is used up, BudgetExceeded ends the work.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from muster.workflows.lang.errors import ExpressionError

MAX_TEXT = 100_000
"""Characters of an expression."""
MAX_NODES = 10_000
"""Nodes of an expression; expr-lang has the same limit."""
MAX_DEPTH = 100
"""Levels of nested parentheses, calls and the like."""
MAX_STEPS = 200_000
"""Nodes evaluated, counted again for each element that a predicate looks at: about half a second."""
MEMORY = 1_000_000
"""Elements of the lists and maps that an expression creates, as expr-lang counts them."""
MAX_STRING = 1_000_000
"""Characters of a string that an expression creates, or of all strings in a list or a map together."""
MAX_CREATED = 10 * MAX_STRING
"""Characters and elements of everything that an expression creates, intermediate results included."""


P = ParamSpec("P")
R = TypeVar("R")
_LONGEST_CACHED = 4000


def cache_short_texts(
    maxsize: int,
) -> Callable[[Callable[Concatenate[str, P], R]], Callable[Concatenate[str, P], R]]:
    """Caches the results for short texts. A long text is parsed each time: thousands of them would fill the memory."""

    def decorate(function: Callable[Concatenate[str, P], R]) -> Callable[Concatenate[str, P], R]:
        cached = cast(Callable[Concatenate[str, P], R], lru_cache(maxsize=maxsize)(function))

        @wraps(function)
        def call(text: str, /, *args: P.args, **kwargs: P.kwargs) -> R:
            return (cached if len(text) <= _LONGEST_CACHED else function)(text, *args, **kwargs)

        return call

    return decorate


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


# -- The meter of a piece of work


class BudgetExceeded(Exception):
    """A piece of work has used up its budget. The message names the budget and its setting.

    This is not an ExpressionError: those are often expected, and the work continues without the value.
    """


_SLICE = 0.002
"""Seconds after which long work makes room for other threads."""
_PAUSE = 0.001
_FREE = 0.05
"""Seconds that work may take without making room."""
_turn = threading.Lock()
"""Of all long work, one thread computes at a time."""


class WorkMeter:
    """Counts the CPU time and the text of one piece of work, in the thread that does it.

    Work that takes long pauses often, and of all such work only one piece computes at a time: the event loop of the
    process has to answer requests meanwhile.
    """

    def __init__(self, seconds: float, problem: str, *, characters: int, text_problem: str) -> None:
        self.characters = 0
        self._seconds, self._problem = seconds, problem
        self._most_characters, self._text_problem = characters, text_problem
        self._began = time.thread_time()
        self._pause_at = _FREE
        self._has_turn = False

    @property
    def used(self) -> float:
        return time.thread_time() - self._began

    def check(self) -> None:
        """Raises BudgetExceeded."""
        used = time.thread_time() - self._began
        if used > self._seconds:
            raise BudgetExceeded(self._problem)
        if used > self._pause_at:
            self._make_room()
            self._pause_at = used + _SLICE

    def count(self, characters: int) -> None:
        self.characters += characters
        if self.characters > self._most_characters:
            raise BudgetExceeded(self._text_problem)

    def cancel(self) -> None:
        """Ends the work at its next check, from any thread."""
        self._seconds = -1.0

    def close(self) -> None:
        if self._has_turn:
            self._has_turn = False
            _turn.release()

    def _make_room(self) -> None:
        self.close()
        time.sleep(_PAUSE)
        _turn.acquire()
        self._has_turn = True


_meter: ContextVar[WorkMeter | None] = ContextVar("meter", default=None)


@contextmanager
def metered(meter: WorkMeter) -> Iterator[WorkMeter]:
    """Everything evaluated inside, in this thread, counts."""
    token = _meter.set(meter)
    try:
        yield meter
    finally:
        _meter.reset(token)
        meter.close()


def check_budget() -> None:
    """Called by everything whose cost depends on a user's text. Raises BudgetExceeded."""
    meter = _meter.get()
    if meter is not None:
        meter.check()


def count_text(characters: int) -> None:
    """Counts text that substitution creates. Raises BudgetExceeded."""
    meter = _meter.get()
    if meter is not None:
        meter.count(characters)
        meter.check()


def text_created() -> int:
    """Returns the characters that the current work has created so far."""
    meter = _meter.get()
    return 0 if meter is None else meter.characters
