"""Custom metrics that workflows and templates define (`metrics.prometheus`), beside those of the controller.

They are kept in memory. prometheus-client's Counter, Gauge and Histogram are not used, because they fix the label names
of a metric: in Argo, its series may have different labels.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

from muster.kube.objects import Object, parse_time, status_of, uid_of
from muster.workflows.controller_metrics import NAMES, ControllerMetrics, Family, bucket_samples
from muster.workflows.engine.errors import WorkflowError
from muster.workflows.engine.run import Run
from muster.workflows.engine.templates import Context
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.govaluate import evaluate_when
from muster.workflows.lang.tags import substitute
from muster.workflows.model import FINISHED_PHASES, Node

PREFIX = "argo_workflows_"
MOST_SERIES = 10_000
"""A label may be anything, even the name of each workflow: the series that were not updated for longest are dropped."""
_LONGEST = 10_000
"""Characters of a metric's name, help and labels."""
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

Type: TypeAlias = Literal["counter", "gauge", "histogram"]
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_TYPES: tuple[Type, ...] = ("gauge", "histogram", "counter")


class MetricError(ValueError):
    """A metric that cannot be emitted; the message goes into the workflow's MetricsError condition."""


@dataclass(slots=True)
class _Span:
    """A value that changes with time: the seconds between a start and an end."""

    started: str | None
    finished: str | None


@dataclass(slots=True)
class _Series:
    value: float = 0.0
    span: _Span | None = None
    owner: str = ""
    """The uid of the workflow whose duration it shows."""
    counts: list[int] = field(default_factory=list)
    """By bucket; the last one is for values above all buckets."""


_Labels: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _CustomMetric:
    type: Type
    help: str
    buckets: tuple[float, ...] = ()
    series: dict[_Labels, _Series] = field(default_factory=dict)


class MetricRegistry:
    """The custom metrics of all workflows.

    They are kept in memory, as in Argo's controller: after a restart they start again, which Prometheus expects.
    """

    def __init__(self) -> None:
        self._metrics: dict[str, _CustomMetric] = {}
        self._recent: dict[tuple[str, _Labels], None] = {}
        self._guard = threading.Lock()
        """Steps of workflows, which run in threads, add to them."""

    def record(
        self,
        workflow: Object,
        node: Node | None,
        metrics: Sequence[Mapping[str, Any]],
        scope: Mapping[str, Any],
        *,
        now: datetime,
        has_ended: bool = True,
    ) -> list[str]:
        """Emits the `metrics.prometheus` of a template or, without a node, of the workflow.

        Call it with `has_ended` False when something starts, for realtime metrics, and once when it has ended. `scope`
        has the workflow's variables. Returns the problems; the other metrics are emitted all the same.
        """
        if not metrics:
            return []
        variables = {**scope, **workflow_variables(workflow, now), **(node_variables(node, now) if node else {})}
        problems = []
        for metric in metrics:
            if not has_ended and not _is_realtime(metric):
                continue
            try:
                self._emit(workflow, node, metric, variables)
            except MetricError as error:
                problems.append(str(error))
        return problems

    def forget(self, workflow: Object) -> None:
        """The workflow has been deleted: its realtime metrics end."""
        uid = uid_of(workflow)
        with self._guard:
            for name, metric in self._metrics.items():
                for labels in [labels for labels, series in metric.series.items() if series.owner == uid]:
                    del metric.series[labels]
                    self._recent.pop((name, labels), None)

    def text(self, now: datetime, controller: ControllerMetrics | None = None) -> str:
        """Returns the metrics in Prometheus' text format, with Argo's prefix; before them those of the controller."""
        with self._guard:
            custom = list(self._families(now))
        return "".join(family.text() for family in (*(controller.families(PREFIX) if controller else ()), *custom))

    def _families(self, now: datetime) -> Iterator[Family]:
        for name, metric in sorted(self._metrics.items()):
            samples = [
                sample
                for labels, series in metric.series.items()
                for sample in _samples(PREFIX + name, metric, labels, series, now)
            ]
            if samples:
                yield Family(PREFIX + name, metric.help, metric.type, samples)

    def _emit(self, workflow: Object, node: Node | None, metric: Mapping[str, Any], scope: Mapping[str, Any]) -> None:
        said = metric.get("name") or ""
        if not metric.get("help"):
            raise MetricError(f"metric '{said}' must contain a help string under 'help: ' field")
        try:
            filled = substitute({k: metric[k] for k in ("name", "help", "labels", "when") if metric.get(k)}, scope)
        except ExpressionError as error:
            raise MetricError(f"unable to substitute parameters for metric '{said}': {error}") from None
        try:
            if filled.get("when") and not evaluate_when(str(filled["when"])):
                return
        except ExpressionError as error:
            raise MetricError(f"unable to compute 'when' clause for metric '{said}': {error}") from None
        name = str(filled["name"])
        if not _NAME.fullmatch(name):
            raise MetricError(
                f"could not construct metric '{name}': metric name is invalid: use letters, digits and _, and "
                "do not start with a digit"
            )
        if name in NAMES:
            raise MetricError(f"could not construct metric '{name}': the controller has a metric of this name")
        kind = _type_of(metric)
        labels = tuple(sorted((str(label["key"]), str(label.get("value", ""))) for label in filled.get("labels") or ()))
        if sum(len(key) + len(value) for key, value in labels) + len(name) + len(str(filled["help"])) > _LONGEST:
            raise MetricError(f"metric '{name[:100]}' has more than {_LONGEST} characters of labels and help")
        if _is_realtime(metric):
            span = _span(workflow, node, str(metric["gauge"].get("value") or ""))
            with self._guard:
                found = self._metric(name, kind, str(filled["help"]), metric[kind])
                series = self._series(found, name, labels)
                series.span, series.owner = span, uid_of(workflow)
            return
        value = _value(said, str(metric[kind].get("value", "")), scope)
        with self._guard:
            found = self._metric(name, kind, str(filled["help"]), metric[kind])
            _apply(self._series(found, name, labels), found, value, str(metric[kind].get("operation") or "Set"))

    def _metric(self, name: str, kind: Type, help: str, spec: Mapping[str, Any]) -> _CustomMetric:
        known = self._metrics.get(name)
        if known is None:
            buckets = tuple(sorted(float(b) for b in spec.get("buckets") or ())) or BUCKETS
            known = self._metrics[name] = _CustomMetric(kind, help, buckets if kind == "histogram" else ())
        where = f"could not construct metric '{name}'"
        if known.type != kind:
            raise MetricError(f"{where}: found existing {known.type} for custom metric {name} of type {kind}")
        if known.help != help:
            raise MetricError(f"{where}: help for metric {name} is already set to {known.help}, it cannot be changed")
        return known

    def _series(self, metric: _CustomMetric, name: str, labels: _Labels) -> _Series:
        series = metric.series.get(labels)
        if series is None:
            series = metric.series[labels] = _Series(counts=[0] * (len(metric.buckets) + 1))
        self._recent.pop((name, labels), None)
        self._recent[name, labels] = None
        if len(self._recent) > MOST_SERIES:
            oldest = next(iter(self._recent))
            del self._recent[oldest]
            metric_of_oldest = self._metrics[oldest[0]]
            metric_of_oldest.series.pop(oldest[1], None)
            if not metric_of_oldest.series:
                del self._metrics[oldest[0]]
        return series


def _is_realtime(metric: Mapping[str, Any]) -> bool:
    return bool((metric.get("gauge") or {}).get("realtime"))


def _type_of(metric: Mapping[str, Any]) -> Type:
    for kind in _TYPES:
        if metric.get(kind) is not None:
            return kind
    raise MetricError(f"metric '{metric.get('name')}' must be one of gauge, histogram, counter")


def _span(workflow: Object, node: Node | None, value: str) -> _Span:
    if not (value.startswith("{{") and value.endswith("}}")):
        raise MetricError("real time metrics can only be used with metric variables")
    name = value[2:-2].strip()
    status = status_of(workflow)
    if name == "workflow.duration" or (name == "duration" and node is None):
        return _Span(status.get("startedAt"), status.get("finishedAt"))
    if name == "duration" and node is not None:
        return _Span(node.get("startedAt"), node.get("finishedAt"))
    raise MetricError(f"'{name}' is not available as a real time metric")


def _value(name: str, text: str, scope: Mapping[str, Any]) -> float:
    try:
        filled = str(substitute(text, scope))
    except ExpressionError as error:
        raise MetricError(f"unable to substitute parameters for metric '{name}': {error}") from None
    try:
        return float(filled)
    except ValueError:
        raise MetricError(f"could not construct metric '{name}': \"{filled}\" is not a number") from None


def _apply(series: _Series, metric: _CustomMetric, value: float, operation: str) -> None:
    if metric.type == "histogram":
        series.counts[bisect_left(metric.buckets, value)] += 1
        series.value += value
    elif metric.type == "counter" or operation == "Add":
        series.value += value
    elif operation == "Sub":
        series.value -= value
    else:
        series.value = value


def _samples(
    name: str, metric: _CustomMetric, labels: _Labels, series: _Series, now: datetime
) -> list[tuple[str, _Labels, float]]:
    if metric.type == "histogram":
        return bucket_samples(name, labels, metric.buckets, series.counts, series.value)
    value = series.value if series.span is None else seconds_of(series.span.started, series.span.finished, now)
    return [(name, labels, value)]


_SILENT = frozenset(("StepGroup", "TaskGroup", "Skipped", "Container"))


class Emitter:
    """Reports to the registry what starts and ends in a run; used after every step. One per loaded run: what ended
    before was counted before."""

    def __init__(self, registry: MetricRegistry, run: Run) -> None:
        self._registry = registry
        self._begun = {key for key, node in run.nodes.items() if node.get("startedAt")}
        self._ended = {key for key, node in run.nodes.items() if node.get("phase") in FINISHED_PHASES}
        self._is_begun = bool(run.nodes)
        self._known: dict[tuple[str, ...], Sequence[Mapping[str, Any]]] = {}

    def has_metrics(self, run: Run) -> bool:
        """Whether any template of the run, or the workflow, may define metrics."""
        spec = run.spec
        sources = (spec, spec.get("templateDefaults") or {}, *(spec.get("templates") or ()))
        return any(source.get("metrics") for source in sources) or any(
            template.get("metrics") for template in run.templates.stored.values()
        )

    def emit(self, workflow: Object, run: Run, changed: Iterable[str], now: datetime) -> list[str]:
        """Emits the metrics of the nodes that a step has changed, and of the workflow. Returns the problems."""
        problems: list[str] = []
        told = {**workflow, "status": run.status}
        for key in changed:
            node = run.nodes[key]
            has_ended = node.get("phase") in FINISHED_PHASES
            if node.get("type") in _SILENT or not _counts(run, node, has_ended):
                continue
            if key in (self._ended if has_ended else self._begun):
                continue
            (self._ended if has_ended else self._begun).add(key)
            metrics = self._metrics_of(run, node)
            if metrics:
                problems += self._registry.record(told, node, metrics, run.variables, now=now, has_ended=has_ended)
        own = (run.spec.get("metrics") or {}).get("prometheus") or ()
        if own and (run.finished or not self._is_begun):
            problems += self._registry.record(told, None, own, run.variables, now=now, has_ended=run.finished)
        self._is_begun = True
        return problems

    def _metrics_of(self, run: Run, node: Node) -> Sequence[Mapping[str, Any]]:
        """Returns the metrics of a node's template, looked up once per template."""
        ref = node.get("templateRef") or {}
        place = (
            str(node.get("templateScope")),
            str(node.get("templateName") or ""),
            str(ref.get("name") or ""),
            str(ref.get("template") or ""),
        )
        if place not in self._known:
            kind, _, name = place[0].partition("/")
            holder = {"templateRef": ref} if ref else {"template": place[1]}
            try:
                _, template = run.templates.resolve(holder, Context(kind, name))
                self._known[place] = (template.get("metrics") or {}).get("prometheus") or ()
            except WorkflowError:  # an inline template has no name to look up
                self._known[place] = ()
        return self._known[place]


def _counts(run: Run, node: Node, has_ended: bool) -> bool:
    """Whether a node emits metrics of its own. An attempt does if another one follows; for the last one, its Retry node
    does."""
    if not (node.get("nodeFlag") or {}).get("retried"):
        return True
    retry = run.tree.find(node["name"].rpartition("(")[0])
    return has_ended and retry is not None and retry["phase"] not in FINISHED_PHASES


_ENDED = frozenset(("Succeeded", "Failed", "Error", "Skipped", "Omitted"))


def node_variables(node: Node, now: datetime) -> dict[str, str]:
    """Returns `duration`, `status`, `exitCode`, `retries`, `inputs.*`, `outputs.*` and `resourcesDuration.*` of a
    node."""
    outputs = node.get("outputs") or {}
    found = {
        "duration": f"{seconds_of(node.get('startedAt'), _end(node), now):f}",
        "status": str(node.get("phase") or "Pending"),
        "resourcesDuration.cpu": "0",
        "resourcesDuration.memory": "0",
        **{f"resourcesDuration.{name}": str(value) for name, value in (node.get("resourcesDuration") or {}).items()},
        **_parameters("inputs", (node.get("inputs") or {}).get("parameters")),
        **_parameters("outputs", outputs.get("parameters")),
    }
    if (node.get("nodeFlag") or {}).get("retried"):
        found["retries"] = node["name"].rpartition("(")[2].removesuffix(")")
    elif node.get("children"):
        found["retries"] = str(len(node["children"]) - 1)
    if outputs.get("result") is not None:
        found["outputs.result"] = str(outputs["result"])
    if outputs.get("exitCode") is not None:
        found["exitCode"] = str(outputs["exitCode"])
    return found


def workflow_variables(workflow: Object, now: datetime) -> dict[str, str]:
    """Returns `workflow.duration` and `workflow.status`, and the durations and outputs that a workflow's metrics may
    refer to."""
    status = status_of(workflow)
    seconds = seconds_of(status.get("startedAt"), status.get("finishedAt"), now)
    return {
        "workflow.duration": f"{seconds:f}",
        "workflow.status": str(status.get("phase") or "Pending"),
        "duration": f"{seconds:f}",
        "status": str(status.get("phase") or "Pending"),
        "resourcesDuration.cpu": "0",
        "resourcesDuration.memory": "0",
        **{f"resourcesDuration.{name}": str(value) for name, value in (status.get("resourcesDuration") or {}).items()},
        **_parameters("workflow.outputs", (status.get("outputs") or {}).get("parameters")),
    }


def seconds_of(started: str | None, finished: str | None, now: datetime) -> float:
    if not started:
        return 0.0
    end = parse_time(finished) if finished else now
    return (end - parse_time(started)).total_seconds()


def _end(node: Node) -> str | None:
    return node.get("finishedAt") if node.get("phase") in _ENDED else None


def _parameters(prefix: str, parameters: list[dict[str, Any]] | None) -> dict[str, str]:
    return {f"{prefix}.parameters.{p.get('name')}": str(p.get("value") or "") for p in parameters or ()}
