"""Metrics."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from muster.workflows.lint.findings import Findings
from muster.workflows.lint.syntax import when_problem

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_KINDS = ("counter", "gauge", "histogram")


def check_metrics(findings: Findings, metrics: Mapping[str, Any], path: str) -> None:
    for index, metric in enumerate(metrics.get("prometheus") or ()):
        _check_metric(findings, metric, f"{path}.prometheus[{index}]")


def _check_metric(findings: Findings, metric: Mapping[str, Any], path: str) -> None:
    name = metric.get("name") or ""
    if not _NAME.fullmatch(name):
        rule = "Metric names must contain alphanumeric characters or '_'"
        findings.add(f"{path}.name", f"metric name '{name}' is invalid. {rule}")
    for index, label in enumerate(metric.get("labels") or ()):
        if not _NAME.fullmatch(label.get("key") or ""):
            rule = "keys may only contain alphanumeric characters or '_'"
            findings.add(f"{path}.labels[{index}].key", f"metric label '{label.get('key')}' is invalid: {rule}")
    if not metric.get("help"):
        findings.add(f"{path}.help", f"metric '{name}' must contain a help string under 'help: ' field")
    used = [kind for kind in _KINDS if metric.get(kind) is not None]
    if not used:
        findings.add(path, f"metric '{name}' must have one of counter, gauge and histogram")
    for kind in used:
        if not metric[kind].get("value"):
            findings.add(f"{path}.{kind}.value", f"metric '{name}' error: missing {kind}.value")
    gauge = metric.get("gauge") or {}
    if gauge.get("realtime") and "resourcesDuration." in (gauge.get("value") or ""):
        message = "'resourcesDuration.*' metrics cannot be used in real-time"
        findings.add(f"{path}.gauge.value", f"metric '{name}' error: {message}")
    if gauge.get("operation") not in (None, "", "Set", "Add", "Sub"):
        findings.add(f"{path}.gauge.operation", f"'{gauge['operation']}' is not one of Set, Add, Sub")
    wrong = when_problem(metric.get("when") or "")
    if wrong:
        findings.add(f"{path}.when", wrong)
