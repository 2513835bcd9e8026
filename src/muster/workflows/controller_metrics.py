"""The metrics of the workflow controller itself, with the names and labels of Argo's controller.

Counters start at zero with the server, which Prometheus expects. Gauges are computed when they are read. Metrics of
requests to the Kubernetes API do not exist: the controller makes none, because it runs in the process that serves it.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias, TypeVar

from muster.kube.objects import Object, labels_of, namespace_of, parse_time, spec_of, status_of
from muster.workflows.model import FINISHED_PHASES, WORKFLOW_LABEL

Labels: TypeAlias = tuple[tuple[str, str], ...]
Value = TypeVar("Value")


class Family(NamedTuple):
    """A metric in Prometheus' text format."""

    name: str
    help: str
    type: str
    samples: list[tuple[str, Labels, float]]

    def text(self) -> str:
        """prometheus-client would write other names for counters than Argo does, and another order of labels."""
        help = self.help.replace("\\", r"\\").replace("\n", r"\n")
        lines = [f"# HELP {self.name} {help}", f"# TYPE {self.name} {self.type}"]
        for name, labels, value in self.samples:
            written = ",".join(f'{key}="{_escape(text)}"' for key, text in labels)
            lines.append(f"{name}{{{written}}} {float(value)!r}" if written else f"{name} {float(value)!r}")
        return "\n".join(lines) + "\n"


def _escape(label: str) -> str:
    return label.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


COUNTERS: Final[Mapping[str, str]] = {
    "cronworkflows_concurrencypolicy_triggered": "How often the concurrencyPolicy of a CronWorkflow limited the "
    "workflows that run",
    "cronworkflows_triggered_total": "How often a CronWorkflow was triggered",
    "pod_pending_count": "Pods that started to wait, by reason",
    "pods_total_count": "Pods of workflows that have entered each phase",
    "total_count": "Workflows that have entered each phase, by namespace",
    "workflowtemplate_triggered_total": "Workflows with a workflowTemplateRef that have entered each phase",
}
HISTOGRAMS: Final[Mapping[str, tuple[str, tuple[float, ...]]]] = {
    "operation_duration_seconds": ("Durations of steps of workflows", (0.1, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 3)),
    "workflowtemplate_runtime": (
        "Durations of workflows with a workflowTemplateRef",
        (0, 5, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10000),
    ),
}
GAUGES: Final[Mapping[str, str]] = {
    "gauge": "Workflows that exist, by phase",
    "is_leader": "1: there is one controller",
    "pods_gauge": "Pods of workflows that exist, by phase",
    "queue_depth_gauge": "Workflows that wait for a step",
    "workers_busy_count": "Workflows that take a step",
    "workflow_condition": "Workflows with each condition",
}
NAMES: Final = frozenset((*COUNTERS, *HISTOGRAMS, *GAUGES))
"""Metrics that workflows define cannot have these."""

_PHASES = ("Pending", "Running", "Succeeded", "Failed", "Error")
_POD_PHASES = ("Pending", "Running", "Succeeded", "Failed")


class ControllerMetrics:
    """`workflows`, `pods` and `queue` say what there is; the server sets them."""

    def __init__(self) -> None:
        self.workflows: Callable[[], Iterable[Object]] = tuple
        self.pods: Callable[[], Iterable[Object]] = tuple
        self.queue: Callable[[], tuple[int, int]] = lambda: (0, 0)
        """Returns how many workflows wait for a step, and how many take one."""
        self._counts: Counter[tuple[str, Labels]] = Counter()
        self._observed: dict[tuple[str, Labels], list[float]] = {}
        """The number of values in each bucket, the number above all buckets, and the sum."""
        self._guard = threading.Lock()

    def count(self, name: str, /, **labels: str) -> None:
        assert name in COUNTERS, name
        with self._guard:
            self._counts[name, _sorted(labels)] += 1

    def observe(self, name: str, value: float, /, **labels: str) -> None:
        buckets = HISTOGRAMS[name][1]
        with self._guard:
            found = self._observed.setdefault((name, _sorted(labels)), [0.0] * (len(buckets) + 2))
            found[bisect_left(buckets, value)] += 1
            found[-1] += value

    def workflow_changed(self, before: Object | None, after: Object, now: datetime) -> None:
        """Counts a workflow that has entered a phase."""
        phase, was = _phase(after), "" if before is None else _phase(before)
        reference = spec_of(after).get("workflowTemplateRef") or {}
        namespace = namespace_of(after)
        template = {
            "name": str(reference.get("name") or ""),
            "namespace": namespace,
            "cluster_scope": str(bool(reference.get("clusterScope"))).lower(),
        }
        if before is None and reference:
            self.count("workflowtemplate_triggered_total", phase="New", **template)
        if not phase or phase == was:
            return
        self.count("total_count", phase=phase, namespace=namespace)
        if reference:
            self.count("workflowtemplate_triggered_total", phase=phase, **template)
            if phase in FINISHED_PHASES:
                self.observe("workflowtemplate_runtime", _duration(after, now), **template)

    def pod_changed(self, namespace: str, before: str, phase: str, message: str, *, is_news: bool) -> None:
        """Counts a Pod whose node goes from the phase `before` to `phase`, or waits for another reason than before."""
        if phase != before and phase in _POD_PHASES:
            if before == "Pending" and phase != "Running":  # it ended before it was seen running
                self.count("pods_total_count", phase="Running", namespace=namespace)
            self.count("pods_total_count", phase=phase, namespace=namespace)
        reason = message.partition(":")[0]
        if phase == "Pending" and is_news and reason and reason != "PodInitializing":
            self.count("pod_pending_count", reason=reason, namespace=namespace)

    def families(self, prefix: str) -> Iterator[Family]:
        with self._guard:
            counts, observed = dict(self._counts), {key: list(values) for key, values in self._observed.items()}
        gauges = self._gauges()
        for type, names, values in (("counter", COUNTERS, counts), ("gauge", GAUGES, gauges)):
            for name, help in names.items():
                full = prefix + name
                yield Family(full, help, type, [(full, labels, value) for labels, value in _of(name, values)])
        for name, (help, buckets) in HISTOGRAMS.items():
            found = _of(name, observed)
            samples = [bucket_samples(prefix + name, labels, buckets, v[:-1], v[-1]) for labels, v in found]
            yield Family(prefix + name, help, "histogram", [sample for each in samples for sample in each])

    def _gauges(self) -> Mapping[tuple[str, Labels], float]:
        found: Counter[tuple[str, Labels]] = Counter()
        found.update({("gauge", (("phase", phase),)): 0 for phase in _PHASES})
        for workflow in self.workflows():
            found["gauge", (("phase", _phase(workflow) or "Unknown"),)] += 1
            for condition in status_of(workflow).get("conditions") or ():
                labels = (("status", str(condition.get("status"))), ("type", str(condition.get("type"))))
                found["workflow_condition", labels] += 1
        for pod in self.pods():
            if WORKFLOW_LABEL in labels_of(pod):
                found["pods_gauge", (("phase", str(status_of(pod).get("phase") or "Pending")),)] += 1
        waiting, busy = self.queue()
        found["queue_depth_gauge", (("queue_name", "workflow_queue"),)] = waiting
        found["workers_busy_count", (("worker_type", "workflow_worker"),)] = busy
        found["is_leader", ()] = 1
        return found


def bucket_samples(
    name: str, labels: Labels, buckets: Sequence[float], counts: Sequence[float], total: float
) -> list[tuple[str, Labels, float]]:
    """Returns the samples of a histogram. `counts` has a number for each bucket, and one for values above all of them.
    Bounds are written as Go's library does: `5`, not `5.0`."""
    bounds = [*(repr(float(bound)).removesuffix(".0") for bound in buckets), "+Inf"]
    sums = list(accumulate(counts))
    return [
        *((f"{name}_bucket", (*labels, ("le", bound)), number) for bound, number in zip(bounds, sums, strict=True)),
        (f"{name}_sum", labels, total),
        (f"{name}_count", labels, sums[-1]),
    ]


def _of(name: str, values: Mapping[tuple[str, Labels], Value]) -> list[tuple[Labels, Value]]:
    return [(labels, value) for (found, labels), value in values.items() if found == name]


def _sorted(labels: Mapping[str, str]) -> Labels:
    return tuple(sorted(labels.items()))


def _phase(workflow: Object) -> str:
    return str(status_of(workflow).get("phase") or "")


def _duration(workflow: Object, now: datetime) -> float:
    """Times in the status are whole seconds, and many workflows take less."""
    started = status_of(workflow).get("startedAt")
    return max(0.0, (now - parse_time(started)).total_seconds()) if started else 0.0
