"""When a cron workflow runs."""

from __future__ import annotations

from muster.kube.objects import Object, meta
from muster.workflows.cron.schedule import ScheduleError, parse_schedule
from muster.workflows.expressions.errors import ExpressionError
from muster.workflows.expressions.gotime import load_zone
from muster.workflows.lint.findings import Findings
from muster.workflows.lint.syntax import expression_problem

_LONGEST_NAME = 52


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
    """'' if it can be read."""
    try:
        parse_schedule(text)
    except ScheduleError as error:
        return str(error)
    return ""
