"""When a cron workflow runs."""

from __future__ import annotations

import re
from collections.abc import Mapping

from muster.kube.objects import Object, meta
from muster.workflows.expressions.errors import ExpressionError
from muster.workflows.expressions.gotime import load_zone, parse_duration
from muster.workflows.lint.findings import Findings
from muster.workflows.lint.syntax import expression_problem

_LONGEST_NAME = 52
_NAMED = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_MONTHS = dict(
    zip(("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), range(1, 13), strict=True)
)
_DAYS = dict(zip(("sun", "mon", "tue", "wed", "thu", "fri", "sat"), range(7), strict=True))
_NO_NAMES: Mapping[str, int] = {}
_FIELDS = (
    ("minute", 0, 59, _NO_NAMES),
    ("hour", 0, 23, _NO_NAMES),
    ("day of month", 1, 31, _NO_NAMES),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 6, _DAYS),
)


def check_cron(findings: Findings, obj: Object) -> None:
    """What a CronWorkflow has besides the workflow it makes."""
    name, spec = meta(obj).get("name") or "", obj.get("spec") or {}
    if len(name) > _LONGEST_NAME:
        message = f'cron workflow name "{name}" must not be more than {_LONGEST_NAME} characters long'
        findings.add("metadata.name", f"{message} (currently {len(name)}): the time is added to it")
    schedules = [(f"spec.schedules[{index}]", text) for index, text in enumerate(spec.get("schedules") or ())]
    if spec.get("schedule"):
        schedules.append(("spec.schedule", spec["schedule"]))
        if spec.get("schedules"):
            findings.add("spec.schedule", "schedule and schedules are both given; keep schedules")
    if not schedules:
        findings.add("spec.schedules", 'cron workflow must have at least one schedule, such as ["0 2 * * *"]')
    for field, text in schedules:
        wrong = schedule_problem(text)
        if wrong:
            findings.add(field, f"cron schedule {text} is malformed: {wrong}")
    zone = spec.get("timezone") or ""
    try:
        load_zone(zone)
    except ExpressionError as error:
        findings.add("spec.timezone", f'invalid timezone "{zone}": {error.message}; write one like Europe/Zurich')
    for field, expression in (
        ("spec.when", spec.get("when") or ""),
        ("spec.stopStrategy.expression", (spec.get("stopStrategy") or {}).get("expression") or ""),
    ):
        wrong = expression_problem(expression.removeprefix("{{=").removesuffix("}}")) if expression else ""
        if wrong:
            findings.add(field, wrong)


def schedule_problem(text: str) -> str:
    """Of a schedule of five fields, or one like @daily or @every 1h; '' if it can be read."""
    if not text:
        return "empty spec string"
    if text.startswith(("TZ=", "CRON_TZ=")):
        zone, _, text = text.partition(" ")
        try:
            load_zone(zone.partition("=")[2])
        except ExpressionError as error:
            return f"provided bad location {zone.partition('=')[2]}: {error.message}"
        text = text.strip()
    if text.startswith("@every "):
        try:
            parse_duration(text.removeprefix("@every "))
        except ExpressionError as error:
            return f"failed to parse duration {text}: {error.message}"
        return ""
    if text.startswith("@"):
        return "" if text in _NAMED else f"unrecognized descriptor: {text}; it is one of {', '.join(_NAMED)}"
    fields = text.split()
    if len(fields) != len(_FIELDS):
        wanted = ", ".join(field[0] for field in _FIELDS)
        return f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]; they are {wanted}"
    for written, (name, low, high, names) in zip(fields, _FIELDS, strict=True):
        for part in written.split(","):
            wrong = _range_problem(part, low, high, names) if part else ""
            if wrong:
                return f"{wrong} ({name})"
    return ""


def _range_problem(text: str, low: int, high: int, names: Mapping[str, int]) -> str:
    span, *steps = text.split("/")
    if len(steps) > 1:
        return f"too many slashes: {text}"
    if span in ("*", "?"):
        start, end = low, high
    else:
        bounds = span.split("-")
        if len(bounds) > 2:
            return f"too many hyphens: {text}"
        numbers = [_number(bound, names) for bound in bounds]
        for number, bound in zip(numbers, bounds, strict=True):
            if number is None:
                return f'failed to parse int from {bound}: strconv.Atoi: parsing "{bound}": invalid syntax'
        start = numbers[0] or 0
        end = high if steps and len(bounds) == 1 else numbers[-1] or 0
    if steps and _number(steps[0], _NO_NAMES) is None:
        return f'failed to parse int from {steps[0]}: strconv.Atoi: parsing "{steps[0]}": invalid syntax'
    if start < low:
        return f"beginning of range ({start}) below minimum ({low}): {text}"
    if end > high:
        return f"end of range ({end}) above maximum ({high}): {text}"
    if start > end:
        return f"beginning of range ({start}) beyond end of range ({end}): {text}"
    if steps and _number(steps[0], _NO_NAMES) == 0:
        return f"step of range should be a positive number: {text}"
    return ""


def _number(text: str, names: Mapping[str, int]) -> int | None:
    if text.lower() in names:
        return names[text.lower()]
    return int(text) if re.fullmatch(r"\+?[0-9]+", text) else None
