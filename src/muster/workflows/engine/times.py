"""Times and durations as they stand in manifests, in nodes and in messages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from muster.workflows.engine.errors import Refused
from muster.workflows.expressions.errors import ExpressionError
from muster.workflows.expressions.gotime import parse_duration

_FAR = timedelta(days=365 * 290)
"""About the longest duration Go knows."""
_UNITS = (("week", 604800), ("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))


def stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment_of(text: str) -> datetime:
    return datetime.fromisoformat(text)


def seconds_between(start: str, end: str) -> float:
    """0 unless both are known."""
    return (moment_of(end) - moment_of(start)).total_seconds() if start and end else 0.0


def duration(text: object, field: str) -> timedelta:
    """`30`, `"30"` (seconds), `"1h30m"`. Raises Refused naming the field."""
    written = str(text).strip()
    if written.lstrip("+-").isdecimal():
        return min(timedelta(seconds=min(int(written), 10**10)), _FAR)
    try:
        return min(timedelta(microseconds=parse_duration(written) / 1000), _FAR)
    except ExpressionError:
        raise Refused(
            f"unable to parse {written} as a duration ({field}): write seconds, or e.g. 30s, 5m, 1h"
        ) from None


def shown(span: timedelta) -> str:
    """As Argo tells how long it backs off: `5 seconds`, `2 minutes 30 seconds`."""
    total = int(span.total_seconds())
    if total < 60:
        return _counted(total, "second") if total else "0 seconds"
    rest = {"minute": ("second", total % 60), "hour": ("minute", total // 60 % 60)}
    unit, size = next((unit, size) for unit, size in _UNITS if total >= size)
    second, amount = rest.get(unit, ("hour", total // 3600 % 24))
    return f"{_counted(total // size, unit)} {amount} {second}s"


def _counted(amount: int, unit: str) -> str:
    return f"{amount} {unit}" if amount == 1 else f"{amount} {unit}s"
