"""When a recurring run is due, and what its runs get as parameters. Pure.

A tick is a point in time for which there has to be one run. Which ticks there are depends on the trigger and on the
last tick that was played, and on nothing else, so a server that was killed continues where it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from typing import Any, Final

from muster.workflows.cron.schedule import Schedule, ScheduleError, parse_schedule_with_seconds
from muster.workflows.lang.go_time import SECOND, UTC_ZONE, to_civil
from muster.workflows.lang.go_time_layout import format_time

_TIME_LAYOUT: Final = "20060102150405"
_MACRO: Final = re.compile(r"\[\[(RunUUID|Index|(?:ScheduledTime|CurrentTime)(?:\.[^\[\]]{1,100})?)\]\]")
_WINDOWS: Final = (
    timedelta(minutes=1),
    timedelta(hours=1),
    timedelta(days=1),
    timedelta(days=32),
    timedelta(days=400),
    timedelta(days=366 * 6),
)
"""Where the last tick before a moment is searched, so that few of the ticks in between are looked at."""
_YEARS: Final = range(1970, 3000)
"""Around every tick, times can be computed with: the calendar of Python ends at the years 1 and 9999."""
_LOOK_AHEAD: Final = timedelta(days=400)
_MOST_GAPS: Final = 121
"""Two minutes of ticks, if there is one each second."""
LONGEST_INTERVAL: Final = timedelta(days=3650)


@dataclass(frozen=True, slots=True)
class Trigger:
    """A cron schedule or an interval."""

    cron: str = ""
    interval: timedelta = timedelta(0)
    start: datetime | None = None
    end: datetime | None = None

    def __post_init__(self) -> None:
        """Raises ScheduleError."""
        if bool(self.cron) == bool(self.interval):
            raise ScheduleError("a trigger has either a cron_schedule or a periodic_schedule")
        if self.cron:
            self.schedule  # noqa: B018 (it raises)
        elif not timedelta(seconds=1) <= self.interval <= LONGEST_INTERVAL:
            raise ScheduleError(f"interval_second: use a whole number from 1 to {LONGEST_INTERVAL // _ONE_SECOND}")
        for name, moment in (("start_time", self.start), ("end_time", self.end)):
            if moment is not None and moment.year not in _YEARS:
                raise ScheduleError(f"{name}: use a year from {_YEARS[0]} to {_YEARS[-1]}")
        if self.start is not None and self.end is not None and self.end < self.start:
            raise ScheduleError("end_time is before start_time")

    @property
    def schedule(self) -> Schedule:
        return parse_schedule_with_seconds(self.cron, "UTC")


_ONE_SECOND: Final = timedelta(seconds=1)


def ticks(
    trigger: Trigger, created: datetime, last: datetime | None, now: datetime, most: int, *, no_catchup: bool = False
) -> list[datetime]:
    """Returns the ticks that are due at `now` and were not played yet, at most so many, in their order. `last` is the
    tick that was played last. With `no_catchup` only the latest is due, and those before it are left out for good."""
    if most < 1:
        return []
    if not no_catchup:
        return list(islice(_due(trigger, created, last, now), most))
    latest = _latest(trigger, created, last, now)
    return [] if latest is None else [latest]


def next_tick(trigger: Trigger, created: datetime, last: datetime | None) -> datetime | None:
    """Returns the first tick after `last`; None if there is none any more."""
    found = _next(trigger, created, last)
    return None if found is None or (trigger.end is not None and found > trigger.end) else found


def shortest_gap(trigger: Trigger, now: datetime) -> timedelta:
    """Returns the shortest time between two of the next ticks."""
    if trigger.interval:
        return trigger.interval
    begin = max(now, trigger.start or now)
    found = list(islice(_due(trigger, begin, None, begin + _LOOK_AHEAD), _MOST_GAPS))
    return min((after - before for before, after in pairwise(found)), default=timedelta.max)


def _due(trigger: Trigger, created: datetime, last: datetime | None, now: datetime) -> Iterator[datetime]:
    found = next_tick(trigger, created, last)
    while found is not None and found <= now:
        yield found
        found = next_tick(trigger, created, found)


def _next(trigger: Trigger, created: datetime, last: datetime | None) -> datetime | None:
    if trigger.interval:
        if last is not None:
            return last + trigger.interval
        return trigger.start or created + trigger.interval
    if last is not None:
        return trigger.schedule.next_after(last)
    # A schedule with a start may be due at the very start.
    return trigger.schedule.next_after(trigger.start - _ONE_SECOND if trigger.start else created)


def _latest(trigger: Trigger, created: datetime, last: datetime | None, now: datetime) -> datetime | None:
    first = next_tick(trigger, created, last)
    until = now if trigger.end is None else min(now, trigger.end)
    if first is None or first > until:
        return None
    if trigger.interval:
        return first + (until - first) // trigger.interval * trigger.interval
    if trigger.schedule.every:
        step = timedelta(microseconds=trigger.schedule.every // 1000)
        return first + (until - first) // step * step
    for window in _WINDOWS:
        begin = max(first - _ONE_SECOND, until - window)
        found = list(_due(trigger, created, begin, until))
        if found:
            return found[-1]
    return first


def fill_macros(
    parameters: Mapping[str, Any], *, run_id: str, index: int, scheduled: datetime, now: datetime
) -> dict[str, Any]:
    """Replaces `[[RunUUID]]`, `[[Index]]`, `[[ScheduledTime]]` and `[[CurrentTime]]` in parameters that are text. A
    time may have a layout of Go: `[[ScheduledTime.2006-01-02]]`."""

    def value(found: re.Match[str]) -> str:
        name, _, layout = found[1].partition(".")
        match name:
            case "RunUUID":
                return run_id
            case "Index":
                return str(index)
            case _:
                moment = scheduled if name == "ScheduledTime" else now
                civil = to_civil(int(moment.astimezone(UTC).timestamp()) * SECOND, UTC_ZONE)
                return format_time(civil, layout or _TIME_LAYOUT)

    return {name: _MACRO.sub(value, given) if isinstance(given, str) else given for name, given in parameters.items()}
