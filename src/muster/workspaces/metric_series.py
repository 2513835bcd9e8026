"""Series of scalars: stored in bounded memory, thinned out without losing extremes, and written as CSV. Pure.

A curve is thinned out by buckets: the points are divided into buckets of equal size, and of each bucket the first, the
smallest, the largest and the last one stay. So the smallest and the largest value of a curve are always shown, a spike
of one step is never lost, and thinning out again loses nothing more of either. (LTTB draws prettier lines, but drops
extremes.) NaN and infinity count: a bucket keeps its first value that is not finite.
"""

from __future__ import annotations

import csv
import io
import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from muster.workspaces.event_files import Restart, Scalar

Number: TypeAlias = float | str
"""A number, or "NaN", "Infinity" or "-Infinity", which JSON does not have."""
Point: TypeAlias = tuple[int, float, float]
"""Step, time in seconds since 1970, value."""

BUCKET_POINTS: Final = 5
"""The most points that stay of a bucket."""
STORED_POINTS: Final = 20_000
"""Of one series in memory. More are thinned out."""
EXACT_STEP: Final = 2**53
"""The largest integer that JavaScript has. Larger steps are cut off."""


class Series:
    """The points of one tag of one source, in the order in which they were written."""

    def __init__(self, most: int = STORED_POINTS) -> None:
        self.count = 0
        """All points that were added, including those that have been thinned out."""
        self.most = most
        self._steps, self._times, self._values = array("q"), array("d"), array("d")

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, step: int, time: float, value: float) -> None:
        self._steps.append(max(-EXACT_STEP, min(step, EXACT_STEP)))
        self._times.append(time)
        self._values.append(value)
        self.count += 1
        if len(self._steps) > 2 * self.most:
            self.thin_out(self.most)

    def thin_out(self, most: int) -> None:
        kept = choose_points(self._values, most)
        self._steps = array("q", [self._steps[at] for at in kept])
        self._times = array("d", [self._times[at] for at in kept])
        self._values = array("d", [self._values[at] for at in kept])

    def copy(self) -> Series:
        """For another thread: it does not change when points are added."""
        made = Series(self.most)
        made.count = self.count
        made._steps, made._times, made._values = self._steps[:], self._times[:], self._values[:]
        return made

    def points(self) -> list[Point]:
        return list(zip(self._steps, self._times, self._values, strict=True))


def choose_points(values: Sequence[float], most: int) -> Sequence[int]:
    """Returns the indices of at most `most` points (at least BUCKET_POINTS), in order."""
    count = len(values)
    if count <= most:
        return range(count)
    buckets = max(most // BUCKET_POINTS, 1)
    kept: list[int] = []
    for bucket in range(buckets):
        start, end = bucket * count // buckets, (bucket + 1) * count // buckets
        indices = range(start, end)
        chosen = {start, end - 1}
        finite = [at for at in indices if math.isfinite(values[at])]
        if finite:
            chosen |= {min(finite, key=values.__getitem__), max(finite, key=values.__getitem__)}
        if len(finite) < len(indices):
            chosen.add(next(at for at in indices if not math.isfinite(values[at])))
        kept += sorted(chosen)
    return kept


def downsample(points: Sequence[Point], most: int) -> list[Point]:
    return [points[at] for at in choose_points([value for _, _, value in points], most)]


def join_files(parts: Iterable[Sequence[Point]], restarts: Sequence[Restart]) -> list[Point]:
    """The points of several files of one folder as one series. What a program wrote before it continued from an earlier
    checkpoint is left out, as in TensorBoard."""
    found = [point for part in parts for point in part]
    for restart in restarts:
        found = [point for point in found if point[0] < restart.step or point[1] >= restart.time]
    return found


def add_scalars(series: dict[str, Series], scalars: Iterable[Scalar], most_tags: int, most_points: int) -> bool:
    """Adds scalars to the series of their tags. All of them together keep at most about `most_points`. Returns whether
    some were left out, because there are more than `most_tags` tags."""
    complete = True
    for tag, step, time, value in scalars:
        own = series.get(tag)
        if own is None:
            if len(series) >= most_tags:
                complete = False
                continue
            own = series[tag] = Series()
        own.add(step, time, value)
    if sum(map(len, series.values())) > most_points:
        share = max(most_points // (2 * len(series)), BUCKET_POINTS)
        for own in series.values():
            own.most = min(own.most, share)
            own.thin_out(own.most)
    return not complete


def to_number(value: float) -> Number:
    """The value for JSON."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


class NamedSeries(NamedTuple):
    """A series for a table of several."""

    of: str
    """The run or job."""
    source: str
    tag: str
    points: Sequence[Point]


def to_csv(series: Iterable[NamedSeries]) -> Iterator[str]:
    """Yields the lines of a table, one point each. Times are in seconds since 1970."""
    yield _row(("of", "source", "tag", "step", "time", "value"))
    for each in series:
        labels = tuple(map(_cell, each[:3]))
        for step, time, value in each.points:
            yield _row((*labels, step, repr(time), repr(value)))


def _cell(text: str) -> str:
    """Spreadsheets run a text that begins with one of these characters as a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _row(cells: Iterable[object]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()


_BARS: Final = "▁▂▃▄▅▆▇█"


def sparkline(points: Sequence[Point], width: int) -> str:
    """A curve of one line of text: the mean of each column, and `!` where no value is a number."""
    columns = min(width, len(points))
    means: list[float | None] = []
    for column in range(columns):
        part = points[column * len(points) // columns : (column + 1) * len(points) // columns]
        values = [value for _, _, value in part if math.isfinite(value)]
        means.append(math.fsum(values) / len(values) if values else None)
    known = [mean for mean in means if mean is not None]
    if not known:
        return "!" * columns
    low, span = min(known), max(known) - min(known)
    top = len(_BARS) - 1
    return "".join("!" if mean is None else _BARS[round((mean - low) / span * top) if span else 0] for mean in means)
