"""What an operator counts, in the text format that Prometheus reads."""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from yarl import URL

from muster.kube.errors import Conflict
from muster.kube.objects import Object, namespace_of
from muster.training.controller import Item, TrainingController
from muster.training.job_events import JobEvent
from muster.training.kinds.base import JobKind

Labels: TypeAlias = tuple[tuple[str, str], ...]
Samples: TypeAlias = Mapping[Labels, float]

PREFIX = "muster_operator_"
THEIR_PREFIX = "training_operator_jobs_"
"""Of what training-operator counts as well: dashboards that were made for it go on."""

_MILESTONES: Mapping[JobEvent, str] = {
    "created": "Jobs that were created.",
    "deleted": "Jobs that were deleted.",
    "successful": "Jobs that succeeded.",
    "failed": "Jobs that failed.",
    "restarted": "Times that members of jobs were started again.",
}
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Counter:
    def __init__(self, name: str, about: str) -> None:
        self.name, self.about = name, about
        self._samples: dict[Labels, float] = {}

    def add(self, amount: float = 1.0, **labels: str) -> None:
        key = tuple(labels.items())
        self._samples[key] = self._samples.get(key, 0.0) + amount

    def text(self) -> str:
        return family(self.name, "counter", self.about, self._samples)


class Histogram:
    def __init__(self, name: str, about: str) -> None:
        self.name, self.about = name, about
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, value: float, **labels: str) -> None:
        key = tuple(labels.items())
        counts = self._counts.setdefault(key, [0] * (len(_BUCKETS) + 1))
        counts[bisect_left(_BUCKETS, value)] += 1
        self._sums[key] = self._sums.get(key, 0.0) + value

    def text(self) -> str:
        lines = _heading(self.name, "histogram", self.about)
        for labels, counts in self._counts.items():
            sofar = 0
            for bound, count in zip((*map(str, _BUCKETS), "+Inf"), counts, strict=True):
                sofar += count
                lines.append(_line(f"{self.name}_bucket", (*labels, ("le", bound)), sofar))
            lines += [_line(f"{self.name}_sum", labels, self._sums[labels]), _line(f"{self.name}_count", labels, sofar)]
        return "\n".join(lines) + "\n"


class Metrics:
    """Of one process. `leads` and `controller` are asked when somebody looks."""

    def __init__(self) -> None:
        self.controller: TrainingController | None = None
        self.leads: Callable[[], bool] = lambda: False
        self._began = time.time()
        self._reconciles = Counter(f"{PREFIX}reconcile_total", "Looks at jobs, by how they ended.")
        self._errors = Counter(f"{PREFIX}reconcile_errors_total", "Looks at jobs that failed, by the error's kind.")
        self._seconds = Histogram(f"{PREFIX}reconcile_seconds", "How long looks at jobs took.")
        self._requests = Counter(f"{PREFIX}api_requests_total", "Requests to the API server, by verb and code.")
        self._answers = Histogram(f"{PREFIX}api_request_seconds", "How long the API server took to answer.")
        self._milestones = {
            milestone: Counter(f"{THEIR_PREFIX}{milestone}_total", about) for milestone, about in _MILESTONES.items()
        }

    def passed(self, dialect: JobKind, job: Object, milestone: JobEvent) -> None:
        # The container that trains is called after the framework.
        self._milestones[milestone].add(job_namespace=namespace_of(job), framework=dialect.container)

    def reconciled(self, item: Item, seconds: float, error: BaseException | None) -> None:
        kind = item[0].partition(".")[0]
        result = "success" if error is None else "conflict" if isinstance(error, Conflict) else "error"
        self._reconciles.add(kind=kind, result=result)
        self._seconds.observe(seconds, kind=kind)
        if error is not None:
            self._errors.add(kind=kind, error=type(error).__name__)

    def answered(self, method: str, url: URL, code: int, seconds: float) -> None:
        verb = verb_of(method, url)
        self._requests.add(verb=verb, code=str(code))
        if verb != "watch":
            self._answers.observe(seconds, verb=verb)

    def text(self) -> str:
        counted: list[Counter | Histogram] = [self._reconciles, self._errors, self._seconds, self._requests]
        counted += [self._answers, *self._milestones.values()]
        return "".join([*(one.text() for one in counted), *self._gauges(), *_process(self._began)])

    def _gauges(self) -> Iterable[str]:
        controller = self.controller
        jobs: dict[Labels, float] = {}
        for dialect, obj in controller.jobs() if controller is not None else ():
            progress = dialect.read_progress(obj)
            current = [c["type"] for c in progress.conditions if c["status"] == "True"]
            key = (("kind", dialect.kind.resource), ("state", current[-1] if current else "New"))
            jobs[key] = jobs.get(key, 0) + 1
        depth = float(controller.depth if controller is not None else 0)
        yield family(f"{PREFIX}jobs", "gauge", "Jobs there are, by kind and state.", jobs)
        yield family(f"{PREFIX}queue_depth", "gauge", "Jobs that wait to be looked at.", {(): depth})
        yield family(f"{PREFIX}leader", "gauge", "Whether it leads.", {(): float(self.leads())})


def verb_of(method: str, url: URL) -> str:
    """As Kubernetes names what a request does."""
    if method != "GET":
        return {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(method, method.lower())
    if url.query.get("watch") == "true":
        return "watch"
    parts = url.path.strip("/").split("/")
    below = parts[3:] if parts[0] == "apis" else parts[2:]
    if below[:1] == ["namespaces"] and len(below) > 2:
        below = below[2:]
    return "list" if len(below) == 1 else "get"


def family(name: str, type: str, about: str, samples: Samples) -> str:
    return "\n".join([*_heading(name, type, about), *(_line(name, *sample) for sample in samples.items())]) + "\n"


def _heading(name: str, type: str, about: str) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} {type}"]


def _line(name: str, labels: Labels, value: float) -> str:
    shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
    return f"{name}{{{shown}}} {value:.10g}" if shown else f"{name} {value:.10g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _process(began: float) -> Iterable[str]:
    """The names that every Prometheus client has for them."""
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    yield family("process_cpu_seconds_total", "counter", "CPU time used.", {(): time.process_time()})
    yield family("process_resident_memory_bytes", "gauge", "Memory in use.", {(): float(resident)})
    yield family("process_start_time_seconds", "gauge", "When it began.", {(): began})
