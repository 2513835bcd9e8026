"""Log lines: what is found without a pattern in the lines of common frameworks, and with patterns of users."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.workspaces.metric_lines import (
    MAX_LINE_VALUES,
    LineState,
    LogPosition,
    check_pattern,
    comparable_time,
    read_lines,
    read_log,
)

FRAMEWORK_LINES = [
    ("loss=0.12", {"loss": 0.12}, 0),
    ("loss: 0.12", {"loss": 0.12}, 0),
    ("step 10 loss=0.12", {"loss": 0.12}, 10),
    ("epoch=3, acc = 91.5%", {"epoch": 3, "acc": 91.5}, 0),
    ("{'loss': 0.6931, 'grad_norm': 1.5, 'learning_rate': 5e-05, 'epoch': 0.5}",
     {"loss": 0.6931, "grad_norm": 1.5, "learning_rate": 5e-05, "epoch": 0.5}, 0),
    ('{"step": 20, "train/loss": "8.25"}', {"train/loss": 8.25}, 20),
    ("Epoch 3/10", {"Epoch": 3}, 0),
    ("10/10 [=====] - 1s 5ms/step - loss: 0.5 - val_loss: 0.75", {"loss": 0.5, "val_loss": 0.75}, 0),
    ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.25", {"Epoch": 1, "Loss": 2.25}, 0),
    ("Epoch: [0][ 10/100]\tTime 0.1 ( 0.2)\tLoss 6.9e+00 (7.0e+00)\tAcc@1 0.50 (0.1)",
     {"Epoch": 0, "Loss": 6.9, "Acc@1": 0.5}, 0),
    ("INFO:tensorflow:loss = 0.5, step = 100 (1.2 sec)", {"loss": 0.5}, 100),
    ("[10]\ttrain-rmse:0.125\teval-rmse:0.25", {"train-rmse": 0.125, "eval-rmse": 0.25}, 10),
    ("iteration       10/     100 | lm loss: 9.8E+00 | loss scale: 1.0", {"loss": 9.8, "scale": 1.0}, 10),
    ("global_step: 7, loss: nan, lr: -inf", {"loss": math.nan, "lr": -math.inf}, 7),
    ("\x1b[32mloss\x1b[0m: 1.5", {"loss": 1.5}, 0),
    ("50%|###  | loss=3.0\r60%|#### | loss=2.0\r", {"loss": 2.0}, 0),
    ("2026-11-17T18:00:00Z ready at 10.0.0.1:8080, version: 1.2.3, time: 12:30:15", {}, 0),
    ("date: 2026-11-17 mask: 0x1f sha: 12ab", {}, 0),
    ("saved 3 files in 2 seconds", {}, 0),
]  # fmt: skip


@pytest.mark.parametrize(("line", "values", "step"), FRAMEWORK_LINES)
def test_lines_of_common_frameworks(line: str, values: dict[str, float], step: int) -> None:
    found = read_lines([(1.0, line)], "", LineState()).scalars
    assert {each.tag: each.value for each in found} == pytest.approx(values, nan_ok=True)
    assert all(each.step == step and each.time == 1.0 for each in found)


def test_the_last_step_counts_until_there_is_another_one() -> None:
    first = read_lines([(1.0, "step 10"), (2.0, "loss=3"), (3.0, "loss=2 step=20")], "", LineState())
    assert [(s.step, s.value) for s in first.scalars] == [(10, 3.0), (20, 2.0)]
    second = read_lines([(4.0, "loss=1")], "", first.state)
    assert [(s.step, s.value) for s in second.scalars] == [(20, 1.0)]


def test_without_steps_the_values_of_each_metric_are_counted() -> None:
    chunk = read_lines([(1.0, "loss=3 acc=1"), (2.0, "loss=2")], "", LineState())
    more = read_lines([(3.0, "loss=1")], "", chunk.state)
    assert [(s.tag, s.step) for s in chunk.scalars + more.scalars] == [
        ("loss", 0), ("acc", 0), ("loss", 1), ("loss", 2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "line", "found"),
    [
        (r"it (?P<step>\d+) l (?P<loss>\S+)", "it 5 l 0.25", [("loss", 5, 0.25)]),
        (r"([\w|-]+)\s*=\s*([+-]?\d*(\.\d+)?([Ee][+-]?\d+)?)", "a=1 b-c = 2.5", [("a", 0, 1.0), ("b-c", 0, 2.5)]),
        (r"loss (?P<loss>\S+)", "loss unknown", []),
    ],
)
def test_patterns_of_users(pattern: str, line: str, found: list[tuple[str, int, float]]) -> None:
    assert check_pattern(pattern) == ""
    assert [(s.tag, s.step, s.value) for s in read_lines([(1.0, line)], pattern, LineState()).scalars] == found


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("loss=(", "missing closing )"),
        ("loss", "needs a named group"),
        ("(a)", "needs a named group"),
        ("(?P<a>x)" * 200, "1000 are allowed"),
        (r"(?P<a>x)\1", "invalid escape"),
        ("(?P<a>((x{100}){100}){100})", "repeat count"),
    ],
)
def test_patterns_that_are_refused(pattern: str, message: str) -> None:
    assert message in check_pattern(pattern)


def test_hostile_lines_and_patterns_take_linear_time() -> None:
    """Each of these takes hours with a backtracking engine, so the test would not end."""
    line = "a" * 3000
    assert read_lines([(1.0, line)] * 20, r"(?P<loss>(a|aa)+)$b", LineState()).scalars == []
    assert read_lines([(1.0, line + "=" * 900), (2.0, "1" * 4000), (3.0, "a=" * 2000)], "", LineState()).scalars == []


def test_one_line_has_a_limited_number_of_values_and_a_log_of_names() -> None:
    many = " ".join(f"a{number}=1" for number in range(500))
    assert len(read_lines([(1.0, many)], "", LineState()).scalars) == MAX_LINE_VALUES
    lines = [(1.0, f"name{number}=1") for number in range(501)]
    chunk = read_lines(lines, "", LineState())
    assert len(chunk.scalars) == 500 and "set a pattern" in chunk.problem


@given(st.text(max_size=60), st.sampled_from(["", r"(?P<x>[^ ]+)", r"(\w+)=(\w+)"]))
def test_no_line_raises(line: str, pattern: str) -> None:
    read_lines([(1.0, line)], pattern, LineState())


LOG = [
    "2026-11-17T18:00:00.1Z loss=1",
    "2026-11-17T18:00:00.12Z loss=2",
    "2026-11-17T18:00:00.12Z loss=3",
    "2026-11-17T18:00:00.12Z loss=4",
    "2026-11-17T18:00:01Z loss=5",
    "2026-11-17T18:00:01Z loss=6",
]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), max_size=6))
def test_a_log_is_read_once_although_it_is_asked_for_by_time(reads: list[tuple[int, int]]) -> None:
    """Each read sees the log up to some line, from the second of the last line that was read, or earlier."""
    state, position, found, written = LineState(), LogPosition(), [], 0
    for more, earlier in [*reads, (6, 0)]:
        start = next((at for at, line in enumerate(LOG) if comparable_time(line.split()[0]) >= position.time), 0)
        written = min(max(written, start) + more, len(LOG))
        chunk, position = read_log("\n".join(LOG[max(start - earlier, 0) : written]), "", state, position)
        state = chunk.state
        found += [scalar.value for scalar in chunk.scalars]
    assert found == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_times_of_log_lines_are_exact() -> None:
    chunk, _ = read_log("2026-11-17T18:00:00.25Z loss=1\nno time here\n", "", LineState(), LogPosition())
    assert [scalar.time for scalar in chunk.scalars] == [1794938400.25]
