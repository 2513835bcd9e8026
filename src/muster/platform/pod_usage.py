"""The history of what Pods use, with a budget in bytes and in age. Pure.

Each Pod has a series with a limited number of points. When it is full, two points become one, so that a long series is
coarser and has the same size. A series outlives its Pod. When the budget is used up, the series that ended first are
dropped.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from muster.kube.objects import Object, labels_of, name_of, namespace_of, spec_of
from muster.kube.pod_security import RUN_LABEL, TASK_LABEL
from muster.kube.quantity import QuantityError, parse_quantity

INTERVAL_SECONDS: Final = 5.0
MOST_POINTS: Final = 240
"""Of one Pod."""
MOST_BYTES: Final = 32 << 20
"""Of all Pods."""
LONGEST_SECONDS: Final = 7 * 86_400.0
"""How long a series is kept after its last point."""
_POINT_BYTES = 8 + 4 + 8 + 4
_SERIES_BYTES = 1500
"""Of a series without points, about."""
_RESOURCES = ("cpu", "memory")


class PodSample(NamedTuple):
    pod: Object
    cores: float
    memory: int


class PodKey(NamedTuple):
    namespace: str
    pod: str


@dataclass(slots=True)
class PodSeries:
    run: str = ""
    """The run whose Pod it is; '' for others."""
    task: str = ""
    """The name of the template of its node."""
    requests: dict[str, float] = field(default_factory=dict)
    """Of all its containers: cores and bytes."""
    limits: dict[str, float] = field(default_factory=dict)
    """Only if each of its containers has one."""
    step: float = INTERVAL_SECONDS
    """Samples within this time become one point."""
    times: array[float] = field(default_factory=lambda: array("d"))
    cores: array[float] = field(default_factory=lambda: array("f"))
    memory: array[float] = field(default_factory=lambda: array("d"))
    weights: array[int] = field(default_factory=lambda: array("I"))
    """The number of samples in each point."""
    last: float = 0.0

    @property
    def size(self) -> int:
        return _SERIES_BYTES + _POINT_BYTES * len(self.times)

    def add(self, at: float, cores: float, memory: float) -> None:
        """Of the samples in a point, the mean of the CPU and the most memory are kept."""
        self.last = at
        # A sample comes a little early or late.
        if self.times and at - self.times[-1] < self.step * 0.9:
            self._merge(len(self.times) - 1, cores, memory, 1)
            return
        self.times.append(at)
        self.cores.append(cores)
        self.memory.append(memory)
        self.weights.append(1)
        if len(self.times) > MOST_POINTS:
            self._halve()

    def _merge(self, place: int, cores: float, memory: float, weight: int) -> None:
        whole = self.weights[place] + weight
        self.cores[place] = (self.cores[place] * self.weights[place] + cores * weight) / whole
        self.memory[place] = max(self.memory[place], memory)
        self.weights[place] = whole

    def _halve(self) -> None:
        self.step *= 2
        for place in range(0, len(self.times) - 1, 2):
            self._merge(place, self.cores[place + 1], self.memory[place + 1], self.weights[place + 1])
        for column in (self.times, self.cores, self.memory, self.weights):
            del column[1::2]


class UsageHistory:
    def __init__(self, most_bytes: int = MOST_BYTES, longest: float = LONGEST_SECONDS) -> None:
        self._series: OrderedDict[PodKey, PodSeries] = OrderedDict()
        """The one whose last point is the oldest comes first."""
        self._most_bytes = most_bytes
        self._longest = longest
        self.bytes = 0

    def add(self, at: float, samples: Iterable[PodSample]) -> None:
        for pod, cores, memory in samples:
            key = PodKey(namespace_of(pod), name_of(pod))
            series = self._series.get(key)
            if series is None:
                series = self._series[key] = describe(pod)
                self.bytes += series.size
            before = series.size
            series.add(at, cores, memory)
            self.bytes += series.size - before
            self._series.move_to_end(key)
        self._drop(at)

    def knows(self, key: PodKey) -> bool:
        return key in self._series

    def find(self, namespace: str, pods: Iterable[str] = (), *, run: str = "", task: str = "") -> dict[str, PodSeries]:
        """Returns the series of these Pods, and of those of a node of a run, by the names of the Pods."""
        found = {pod: series for pod in pods if (series := self._series.get(PodKey(namespace, pod))) is not None}
        if run and task:
            for key, series in self._series.items():
                if key.namespace == namespace and series.run == run and series.task == task:
                    found[key.pod] = series
        return found

    def _drop(self, now: float) -> None:
        while self._series:
            key, oldest = next(iter(self._series.items()))
            if self.bytes <= self._most_bytes and now - oldest.last <= self._longest:
                return
            self.bytes -= oldest.size
            del self._series[key]

    def dump(self) -> list[dict[str, Any]]:
        return [
            {
                "pod": [*key],
                "of": [series.run, series.task],
                "requests": series.requests,
                "limits": series.limits,
                "step": series.step,
                "points": [[*column] for column in (series.times, series.cores, series.memory, series.weights)],
            }
            for key, series in self._series.items()
        ]

    def load(self, dumped: Iterable[Mapping[str, Any]], now: float) -> None:
        for each in dumped:
            times, cores, memory, weights = each["points"]
            run, task = each["of"]
            series = PodSeries(
                run=run,
                task=task,
                requests=dict(each["requests"]),
                limits=dict(each["limits"]),
                step=float(each["step"]),
                times=array("d", times),
                cores=array("f", cores),
                memory=array("d", memory),
                weights=array("I", weights),
                last=float(times[-1]) if times else 0.0,
            )
            self._series[PodKey(*each["pod"])] = series
            self.bytes += series.size
        self._drop(now)


def describe(pod: Object) -> PodSeries:
    """A series without points."""
    labels = labels_of(pod)
    containers = [each.get("resources") or {} for each in spec_of(pod).get("containers") or ()]
    given = [each.get("limits") or {} for each in containers]
    asked = [{**limits, **(each.get("requests") or {})} for limits, each in zip(given, containers, strict=True)]
    return PodSeries(
        labels.get(RUN_LABEL, ""),
        labels.get(TASK_LABEL, ""),
        {name: total for name in _RESOURCES if (total := _total(asked, name))},
        {name: total for name in _RESOURCES if all(name in each for each in given) and (total := _total(given, name))},
    )


def _total(containers: Iterable[Mapping[str, Any]], name: str) -> float:
    try:
        return float(sum(parse_quantity(each.get(name) or 0) for each in containers))
    except QuantityError:
        return 0.0
