"""Scalars in log lines, such as `step 10 loss=0.12`. Pure.

Without a pattern, names and numbers are found as training frameworks print them: `loss=0.12`, `loss: 0.12`,
`'loss': 0.12`, `Loss 0.12 (0.13)`, and `step 10`, `iter 10/500`, `[10]` at the beginning of a line.

A pattern of the user is a regular expression of RE2, which takes linear time whatever it is. Its named groups are the
names of metrics: `loss is (?P<loss>\\S+)`. A pattern with two groups without names finds a name and a value, as in
Katib: `(\\w+)\\s*=\\s*([-+.\\deE]+)`.

The step of a value is the last step that was printed, on this line or before. If there was none, the values of a metric
are counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Final, NamedTuple

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_regex import Regex, compile_regex
from muster.workspaces.event_files import Scalar

MAX_PATTERN_LENGTH: Final = 1000
MAX_LINE_LENGTH: Final = 4000
"""What is beyond is ignored."""
MAX_LINE_VALUES: Final = 100
_MAX_NAME_LENGTH = 100
_MAX_LINE_TAGS = 500
"""Different names in one log."""

_STEPS: Final = frozenset(("step", "steps", "global_step", "iteration", "iter", "it"))
_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?i:nan|inf(?:inity)?)"
_NOT_LONGER = r"(?![\w:]|[.-]\d)"
"""What follows a number that is not a time, a date, a version or an address."""
_PAIR = re.compile(
    rf"(?<![\w./@-])(?P<name>[A-Za-z_][\w./@-]{{0,{_MAX_NAME_LENGTH - 1}}})[\"']?"
    rf"(?:[ \t]{{0,8}}(?P<sign>[=:])[ \t]{{0,20}}|[ \t]{{1,20}})[\"'\[]?(?P<value>{_NUMBER}){_NOT_LONGER}"
)
_BARE_NAMES = re.compile(r"(?i)step|steps|global_step|iteration|iter|it|epoch|\w*loss|acc|accuracy|acc@\d+|lr|ppl")
"""Names that may be followed by a number without a sign between them."""
_LEADING_STEP = re.compile(r"\s*\[(\d{1,15})\]\s")
_FRACTION = re.compile(r"\.(\d{1,9})")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class LineState(NamedTuple):
    """What has to be remembered from one call to the next."""

    step: int | None = None
    """The last step that was printed."""
    counts: Mapping[str, int] = {}
    """How many values each metric has."""


class LineChunk(NamedTuple):
    scalars: list[Scalar]
    state: LineState
    problem: str = ""


class LogPosition(NamedTuple):
    """How far a log was read. Logs are asked for by time, so what was read already comes again."""

    time: str = ""
    """Of the last line, in a form that can be compared."""
    lines: int = 0
    """How many lines have this time."""


def check_pattern(pattern: str) -> str:
    """Returns what is wrong with a pattern of a user; '' if nothing."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        return f"the pattern has {len(pattern)} characters; {MAX_PATTERN_LENGTH} are allowed"
    try:
        regex = compile_regex(pattern)
    except ExpressionError as error:
        return str(error)
    if not any(regex.names) and len(regex.names) < 3:
        return (
            "the pattern needs a named group, as in loss=(?P<loss>\\S+), or two groups: for the name and for the value"
        )
    return ""


def read_lines(lines: Iterable[tuple[float, str]], pattern: str, state: LineState) -> LineChunk:
    """Returns the scalars in lines with their times. `pattern` is '' or a valid one."""
    regex = compile_regex(pattern) if pattern else None
    counts, step = dict(state.counts), state.step
    found: list[Scalar] = []
    problem = ""
    for time, line in lines:
        text = _ESCAPES.sub("", line[-MAX_LINE_LENGTH:] if "\r" in line else line[:MAX_LINE_LENGTH])
        text = text.rstrip("\r").rpartition("\r")[2]  # a progress bar overwrites its line
        try:
            pairs = list(_default_pairs(text) if regex is None else _pairs(regex, text))
        except ExpressionError as error:
            problem = str(error)
            continue
        step = next((_whole(value, step) for name, value in pairs if name.lower() in _STEPS), step)
        for name, value in pairs[:MAX_LINE_VALUES]:
            if name.lower() in _STEPS:
                continue
            count = counts.get(name, 0)
            if not count and len(counts) >= _MAX_LINE_TAGS:
                problem = f"the log has more than {_MAX_LINE_TAGS} different names of metrics; set a pattern"
                continue
            counts[name] = count + 1
            found.append(Scalar(name, count if step is None else step, time, value))
    return LineChunk(found, LineState(step, counts), problem)


def read_log(text: str, pattern: str, state: LineState, position: LogPosition) -> tuple[LineChunk, LogPosition]:
    """Reads whole lines that begin with their time, and skips those up to `position`."""
    last, count, again = position.time, position.lines, 0
    new: list[tuple[float, str]] = []
    for line in text.split("\n"):
        time, _, rest = line.partition(" ")
        moment = comparable_time(time)
        if not moment or moment < last:
            continue
        if moment == position.time and again < position.lines:
            again += 1
            continue
        last, count = moment, count + 1 if moment == last else 1
        new.append((_seconds(moment), rest))
    return read_lines(new, pattern, state), LogPosition(last, count)


def comparable_time(time: str) -> str:
    """RFC 3339 with nanoseconds, without a zone: Kubernetes leaves out zeros at the end. '' if it is no time."""
    if len(time) < 20 or time[10] != "T":
        return ""
    fraction = _FRACTION.match(time, 19)
    return time[:19] + "." + (fraction[1] if fraction is not None else "").ljust(9, "0")


def parse_number(text: str) -> float | None:
    """A number as programs print it; None for other texts."""
    try:
        return float(text) if len(text) < 64 and "_" not in text else None
    except ValueError:
        return None


def _default_pairs(text: str) -> Iterator[tuple[str, float]]:
    leading = _LEADING_STEP.match(text)
    if leading is not None:
        yield "step", float(leading[1])
    for match in _PAIR.finditer(text):
        name = match["name"].rstrip(".-/@")
        if name and (match["sign"] or _BARE_NAMES.fullmatch(name)):
            yield name, float(match["value"])


def _pairs(regex: Regex, text: str) -> Iterator[tuple[str, float]]:
    named = any(regex.names)
    for match in regex.find_all(text, MAX_LINE_VALUES):
        groups = [text[start:end] if start >= 0 else "" for start, end in match.groups]
        pairs = zip(regex.names, groups, strict=True) if named else [(groups[1], groups[2])]
        for name, group in pairs:
            value = parse_number(group.strip())
            if name and value is not None:
                yield name[:_MAX_NAME_LENGTH], value


@lru_cache(maxsize=16)
def _second(moment: str) -> float:
    try:
        return datetime.fromisoformat(moment + "+00:00").timestamp()
    except ValueError:
        return 0.0


def _seconds(moment: str) -> float:
    return _second(moment[:19]) + int(moment[20:]) / 1e9


def _whole(value: float, otherwise: int | None) -> int | None:
    return int(value) if abs(value) < 2**53 else otherwise  # NaN and infinity, too
