"""Time and randomness for expressions, and durations and timestamps as text."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from muster.workflows.engine.errors import WorkflowError
from muster.workflows.lang.clock import Clock
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_time import parse_duration

_EPOCH_UNITS = 1_000_000_000


class _Moment:
    nanoseconds = 0


class _Dice(random.Random):
    """Fall the same way for the same name. Hardly any text throws them, so they are shaken only then."""

    name: str | None = None

    def random(self) -> float:
        self._shake()
        return super().random()

    def getrandbits(self, bits: int, /) -> int:
        self._shake()
        return super().getrandbits(bits)

    def _shake(self) -> None:
        name, self.name = self.name, None
        if name is not None:
            self.seed(name)


_dice = _Dice(0)
CHANCE = Clock(lambda: _Moment.nanoseconds, _dice)


def set_time(now: datetime) -> None:
    _Moment.nanoseconds = int(now.timestamp() * _EPOCH_UNITS)


def throw_for(name: str) -> None:
    """From here on, chance is that of this node."""
    _dice.name = name


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
