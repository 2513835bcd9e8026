"""Series: thinning out keeps extremes, and memory and output are bounded."""

from __future__ import annotations

import csv
import math

from hypothesis import given
from hypothesis import strategies as st

from muster.workspaces.event_files import Restart, Scalar
from muster.workspaces.metric_series import (
    NamedSeries,
    Series,
    add_scalars,
    choose_points,
    downsample,
    join_files,
    sparkline,
    to_csv,
    to_number,
)

values = st.lists(st.floats(), min_size=1, max_size=300)


@given(values, st.integers(5, 100))
def test_extremes_ends_and_what_is_not_finite_survive(of: list[float], most: int) -> None:
    kept = choose_points(of, most)
    shown = [of[at] for at in kept]
    assert len(kept) <= max(most, 5) and list(kept) == sorted(set(kept))
    assert (kept[0], kept[-1]) == (0, len(of) - 1)
    finite = [value for value in of if math.isfinite(value)]
    if finite:
        assert min(finite) in shown and max(finite) in shown
    assert all(map(math.isfinite, shown)) == all(map(math.isfinite, of))


@given(values)
def test_thinning_out_again_loses_no_extremes(of: list[float]) -> None:
    series = Series(most=10)
    for step, value in enumerate(of):
        series.add(step, float(step), value)
    points = series.points()
    finite = [value for value in of if math.isfinite(value)]
    shown = [value for _, _, value in points]
    assert series.count == len(of) and len(points) <= 20
    assert not finite or (min(finite) in shown and max(finite) in shown)
    assert points[0][0] == 0 and points[-1][0] == len(of) - 1


def test_few_points_are_all_there() -> None:
    points = [(step, 0.0, float(step)) for step in range(100)]
    assert downsample(points, 100) == points


def test_a_spike_of_one_step_is_shown() -> None:
    points = [(step, 0.0, 1000.0 if step == 777 else 1.0) for step in range(10_000)]
    assert (777, 0.0, 1000.0) in downsample(points, 50)


def test_all_series_of_a_file_have_a_budget() -> None:
    series: dict[str, Series] = {}
    scalars = [Scalar(f"tag{number % 30}", number, 0.0, float(number)) for number in range(9000)]
    assert add_scalars(series, scalars, most_tags=20, most_points=1000)
    assert len(series) == 20 and sum(map(len, series.values())) <= 1000
    assert all(each.count == 300 for each in series.values())


def test_steps_beyond_what_a_browser_can_count_are_cut_off() -> None:
    series = Series()
    series.add(2**63 - 1, 0.0, 1.0)
    assert series.points() == [(2**53, 0.0, 1.0)]


def test_files_of_one_folder_are_one_series_without_what_a_restart_replaced() -> None:
    first = [(step, 10.0 + step, 1.0) for step in range(5)]
    second = [(step, 20.0 + step, 2.0) for step in range(3, 6)]
    joined = join_files([first, second], [Restart(3, 20.0)])
    assert [(step, value) for step, _, value in joined] == [(0, 1.0), (1, 1.0), (2, 1.0), (3, 2.0), (4, 2.0), (5, 2.0)]


def test_csv_has_exact_values_and_no_formulas() -> None:
    series = NamedSeries("run-1", "=cmd()", 'a "tag", with all', [(1, 1.5, 0.1), (2, 2.0, math.nan)])
    rows = list(csv.reader(to_csv([series])))
    assert rows == [
        ["of", "source", "tag", "step", "time", "value"],
        ["run-1", "'=cmd()", 'a "tag", with all', "1", "1.5", "0.1"],
        ["run-1", "'=cmd()", 'a "tag", with all', "2", "2.0", "nan"],
    ]


def test_numbers_that_json_lacks_are_texts() -> None:
    assert [to_number(value) for value in (1.5, math.nan, math.inf, -math.inf)] == [1.5, "NaN", "Infinity", "-Infinity"]


def test_sparklines() -> None:
    points = [(step, 0.0, float(step)) for step in range(8)]
    assert sparkline(points, 8) == "▁▂▃▄▅▆▇█"
    assert sparkline(points, 2) == "▁█"
    assert sparkline([(0, 0.0, math.nan), (1, 0.0, 1.0)], 10) == "!▁"
    assert sparkline([], 10) == ""
