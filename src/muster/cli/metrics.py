"""`muster metrics`: the scalars of runs and jobs as a table with a small curve each, or as CSV."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from muster.cli.errors import CommandError
from muster.cli.output import echo, format_table, warn
from muster.cli.platform import JsonOption, connect_platform, print_json
from muster.platform.records.metrics import Metrics, MetricSeries
from muster.workspaces.metric_series import Point, sparkline

_HEADERS = ("METRIC", "OF", "CURVE", "LAST", "MIN", "MAX", "STEP", "POINTS")
_CURVE_WIDTH = 32
_MOST_OTHERS = 90
"""Columns that the rest of a line needs."""


def metrics(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="JOB | RUN...",
            help="The id or name of a run, RUN/NODE, the name of a job, KIND/NAME or NAMESPACE/KIND/NAME; up to 20.",
        ),
    ],
    tag: Annotated[str, typer.Option("--tag", help="Show only metrics with this text in their names.")] = "",
    pattern: Annotated[
        str, typer.Option("--pattern", help="A regular expression (RE2) for log lines; named groups are metrics.")
    ] = "",
    csv: Annotated[bool, typer.Option("--csv", help="Print all points as a table for other programs.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the losses and other scalars that runs and jobs have written.

    They are found in TensorBoard event files and in log lines such as `loss=0.12`."""
    if len(names) > 20:
        raise CommandError(f"{len(names)} runs and jobs are too many to compare; name up to 20")
    with connect_platform() as muster:
        subjects = [muster.metrics.find(name) for name in names]
        if csv:
            for line in muster.metrics.csv(*subjects, pattern=pattern):
                sys.stdout.write(line)
            return
        found = muster.metrics.get(*subjects, pattern=pattern, points=5000 if as_json else 500)
    if as_json:
        print_json(asdict(found))
        return
    for problem in found.problems:
        warn(f"warning: {' '.join(filter(None, (problem.source or problem.subject, problem.message)))}")
    series = [each for each in found.series if tag.lower() in each.tag.lower()]
    if not series:
        warn("no metrics yet" if not found.series else f'no metric has "{tag}" in its name')
        return
    width = min(_CURVE_WIDTH, max(8, shutil.get_terminal_size((120, 24)).columns - _MOST_OTHERS))
    echo("\n".join(format_table(_HEADERS, [_row(each, found, width) for each in _sort_series(series)])))


def _sort_series(series: Sequence[MetricSeries]) -> list[MetricSeries]:
    return sorted(series, key=lambda each: (each.tag, each.subject, each.source))


def _row(series: MetricSeries, among: Metrics, width: int) -> tuple[str, ...]:
    points: list[Point] = [(step, time, float(value)) for step, time, value in series.points]
    values = [value for _, _, value in points if value - value == 0]  # finite
    several = len({each.source for each in among.series if each.subject == series.subject}) > 1
    whose = f"{series.run}/{series.name}" if series.run else series.name
    return (
        series.tag,
        f"{whose} {series.source}" if several else whose,
        sparkline(points, width),
        _number(points[-1][2]) if points else "",
        _number(min(values)) if values else "",
        _number(max(values)) if values else "",
        str(points[-1][0]) if points else "",
        str(series.count),
    )


def _number(value: float) -> str:
    return f"{value:.5g}"
