"""Curves that runs and jobs have written."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MetricSeries:
    """The scalars with one name of one source."""

    subject: str
    """What wrote it: `node:RUN/NODE` or `job:NAMESPACE/KIND/NAME`."""
    name: str
    """The name of the node or job."""
    run: str
    """The name of the run that the node belongs to; '' for a job."""
    source: str
    """`POD` for a log, `POD:FOLDER` for event files."""
    tag: str
    count: int
    """How many points were written. There are fewer in `points` if the curve is thinned out; its first, last, smallest
    and largest points are always there."""
    points: list[tuple[int, float, float | str]]
    """Step, time in seconds since 1970, value. A value that is not finite is "NaN", "Infinity" or "-Infinity"."""


@dataclass(frozen=True, slots=True)
class MetricProblem:
    """A file that cannot be read to its end, or a limit that was reached."""

    subject: str
    source: str
    message: str


@dataclass(frozen=True, slots=True)
class Metrics:
    series: list[MetricSeries]
    problems: list[MetricProblem]
    patterns: dict[str, str]
    """The pattern of log lines by subject, where one is set."""
    cursor: str
    """For `since` of the next request."""
    live: bool
    """Whether something still runs, so that more may come."""
