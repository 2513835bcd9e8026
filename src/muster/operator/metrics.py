"""The operator's metrics for Prometheus."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector
from yarl import URL

from muster.kube.errors import Conflict
from muster.kube.objects import Object, namespace_of
from muster.training.controller import Item, JobEvent, TrainingController
from muster.training.kinds.base import JobKind

PREFIX = "muster_operator_"
TRAINING_OPERATOR_PREFIX = "training_operator_jobs_"
"""The prefix of what training-operator counts as well, so that its dashboards keep working."""

_JOB_EVENTS: Mapping[JobEvent, str] = {
    "created": "Jobs that were created.",
    "deleted": "Jobs that were deleted.",
    "successful": "Jobs that succeeded.",
    "failed": "Jobs that failed.",
    "restarted": "Restarts of replicas of jobs.",
}
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

disable_created_metrics()  # type: ignore[no-untyped-call]  # a timestamp for every series, which no dashboard asks for


class Metrics(Collector):
    """The metrics of one process. `leads` and `controller` are read when Prometheus scrapes."""

    def __init__(self) -> None:
        self.controller: TrainingController | None = None
        self.leads: Callable[[], bool] = lambda: False
        self._registry = CollectorRegistry()
        self._reconciles = self._counter("reconcile", "Reconciles of jobs, by result.", "kind", "result")
        self._errors = self._counter("reconcile_errors", "Failed reconciles of jobs, by error.", "kind", "error")
        self._seconds = self._histogram("reconcile_seconds", "Duration of reconciles of jobs.", "kind")
        self._requests = self._counter("api_requests", "Requests to the API server, by verb and code.", "verb", "code")
        self._latency = self._histogram("api_request_seconds", "Response time of the API server.", "verb")
        self._job_events = {
            event: Counter(
                f"{TRAINING_OPERATOR_PREFIX}{event}", about, ("job_namespace", "framework"), registry=self._registry
            )
            for event, about in _JOB_EVENTS.items()
        }
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def count_job_event(self, job_kind: JobKind, job: Object, event: JobEvent) -> None:
        # The training container is named after its framework.
        self._job_events[event].labels(namespace_of(job), job_kind.container).inc()

    def observe_reconcile(self, item: Item, seconds: float, error: BaseException | None) -> None:
        kind = item[0].partition(".")[0]
        result = "success" if error is None else "conflict" if isinstance(error, Conflict) else "error"
        self._reconciles.labels(kind, result).inc()
        self._seconds.labels(kind).observe(seconds)
        if error is not None:
            self._errors.labels(kind, type(error).__name__).inc()

    def observe_request(self, method: str, url: URL, code: int, seconds: float) -> None:
        verb = request_verb(method, url)
        self._requests.labels(verb, str(code)).inc()
        if verb != "watch":
            self._latency.labels(verb).observe(seconds)

    def render(self) -> bytes:
        """The response to a scrape."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        controller = self.controller
        states: Tally[tuple[str, str]] = Tally()
        for job_kind, obj in controller.jobs() if controller is not None else ():
            progress = job_kind.read_progress(obj)
            current = [c["type"] for c in progress.conditions if c["status"] == "True"]
            states[job_kind.kind.resource, current[-1] if current else "New"] += 1
        jobs = GaugeMetricFamily(f"{PREFIX}jobs", "Existing jobs, by kind and state.", labels=("kind", "state"))
        for labels, number in states.items():
            jobs.add_metric(labels, number)
        yield jobs
        depth = controller.depth if controller is not None else 0
        yield GaugeMetricFamily(f"{PREFIX}queue_depth", "Jobs that wait for a reconcile.", value=depth)
        yield GaugeMetricFamily(f"{PREFIX}leader", "Whether this operator leads.", value=float(self.leads()))

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(f"{PREFIX}{name}", about, labels, registry=self._registry)

    def _histogram(self, name: str, about: str, *labels: str) -> Histogram:
        return Histogram(f"{PREFIX}{name}", about, labels, registry=self._registry, buckets=_BUCKETS)


def request_verb(method: str, url: URL) -> str:
    """The Kubernetes verb of a request."""
    if method != "GET":
        return {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(method, method.lower())
    if url.query.get("watch") == "true":
        return "watch"
    parts = url.path.strip("/").split("/")
    below = parts[3:] if parts[0] == "apis" else parts[2:]
    if below[:1] == ["namespaces"] and len(below) > 2:
        below = below[2:]
    return "list" if len(below) == 1 else "get"
