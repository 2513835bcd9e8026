"""Time and randomness for expressions, and durations and timestamps as text."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from muster.workflows.engine.errors import WorkflowError
from muster.workflows.lang.clock import Clock
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_time import parse_duration

_NANOSECONDS = 1_000_000_000


class _SeededRandom(random.Random):
    """Random numbers that depend only on the last seed. Few expressions use any, so seeding waits until one does."""

    next_seed: str | None = None

    def random(self) -> float:
        self._apply_seed()
        return super().random()

    def getrandbits(self, bits: int, /) -> int:
        self._apply_seed()
        return super().getrandbits(bits)

    def _apply_seed(self) -> None:
        seed, self.next_seed = self.next_seed, None
        if seed is not None:
            self.seed(seed)


class RunClock:
    """The time and the random numbers that the expressions of a run see.

    The time is that of the ClusterView of the current step. Random numbers are derived from the node's name: they are
    the same each time its text is evaluated, so a restart changes nothing.
    """

    def __init__(self) -> None:
        self._nanoseconds = 0
        self._random = _SeededRandom(0)
        self.expressions = Clock(lambda: self._nanoseconds, self._random)
        """What the functions of `muster.workflows.lang` take."""

    def set_time(self, now: datetime) -> None:
        self._nanoseconds = int(now.timestamp() * _NANOSECONDS)

    def seed(self, name: str) -> None:
        """From now on, random numbers are those of this node."""
        self._random.next_seed = name


_FAR = timedelta(days=365 * 290)
"""About the longest duration that Go can represent."""
_UNITS = (("week", 604800), ("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))


def format_timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_timestamp(text: str) -> datetime:
    return datetime.fromisoformat(text)


def seconds_between(start: str, end: str) -> float:
    """Returns 0 unless both are known."""
    return (parse_timestamp(end) - parse_timestamp(start)).total_seconds() if start and end else 0.0


def parse_duration_field(text: object, field: str) -> timedelta:
    """Parses `30`, `"30"` (seconds) or `"1h30m"`. Raises WorkflowError that names the field."""
    written = str(text).strip()
    if written.lstrip("+-").isdecimal():
        return min(timedelta(seconds=min(int(written), 10**10)), _FAR)
    try:
        return min(timedelta(microseconds=parse_duration(written) / 1000), _FAR)
    except ExpressionError:
        raise WorkflowError(
            f"unable to parse {written} as a duration ({field}): write seconds, or e.g. 30s, 5m, 1h"
        ) from None


def format_duration(span: timedelta) -> str:
    """Formats a duration as Argo does in backoff messages: `5 seconds`, `2 minutes 30 seconds`."""
    total = int(span.total_seconds())
    if total < 60:
        return _counted(total, "second") if total else "0 seconds"
    rest = {"minute": ("second", total % 60), "hour": ("minute", total // 60 % 60)}
    unit, size = next((unit, size) for unit, size in _UNITS if total >= size)
    second, amount = rest.get(unit, ("hour", total // 3600 % 24))
    return f"{_counted(total // size, unit)} {amount} {second}s"


def _counted(amount: int, unit: str) -> str:
    return f"{amount} {unit}" if amount == 1 else f"{amount} {unit}s"
