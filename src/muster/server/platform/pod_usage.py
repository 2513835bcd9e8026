"""What Pods use over time: measured every few seconds, and kept in memory and in a file.

The embedded cluster's node agent measures its Pods. On a real cluster the numbers come from metrics.k8s.io, if it is
installed there.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import orjson

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import POD
from muster.kube.cluster import Cluster
from muster.kube.errors import ApiError, Forbidden, NotFound
from muster.kube.metrics_api import POD_METRICS
from muster.kube.objects import Object, name_of, namespace_of
from muster.kube.quantity import parse_quantity, whole_value
from muster.platform.pod_usage import INTERVAL_SECONDS, PodKey, PodSample, PodSeries, UsageHistory

log = logging.getLogger(__name__)

_SAVE_SECONDS = 60.0
_MISSING_SECONDS = 60.0
"""How often to look for metrics.k8s.io, if it is not there."""


@dataclass(frozen=True, slots=True)
class PodUsageSeries:
    pod: str
    requests: dict[str, float]
    """Of all its containers: `cpu` in cores and `memory` in bytes."""
    limits: dict[str, float]
    times: list[float]
    """In seconds since 1970."""
    cpu: list[float]
    """In cores: the mean since the time before."""
    memory: list[float]
    """In bytes."""


@dataclass(frozen=True, slots=True)
class PodUsageReport:
    is_measured: bool
    """False if the cluster does not measure Pods: metrics.k8s.io is not installed."""
    seconds: float
    """How often it measures."""
    pods: list[PodUsageSeries]


class PodUsage:
    def __init__(self, cluster: Cluster, file: Path) -> None:
        self._cluster = cluster
        self._file = file
        self.history = UsageHistory()
        self.is_measured = True

    async def run(self) -> None:
        """Measures until it is cancelled."""
        await self._load()
        saved, has_news = time.monotonic(), False
        try:
            while True:
                await asyncio.sleep(INTERVAL_SECONDS if self.is_measured else _MISSING_SECONDS)
                samples = await self._measure()
                if samples:
                    self.history.add(time.time(), samples)
                    has_news = True
                if has_news and time.monotonic() - saved > _SAVE_SECONDS:
                    saved, has_news = time.monotonic(), False
                    content = self.history.dump()
                    await asyncio.to_thread(_write, self._file, content)
        finally:
            if has_news:
                _write(self._file, self.history.dump())

    def report(self, found: Mapping[str, PodSeries], since: datetime | str | None = None) -> PodUsageReport:
        """`since`: a Pod of the same name may have run before."""
        start = datetime.fromisoformat(since) if isinstance(since, str) else since
        first = start.timestamp() if start is not None else 0.0
        pods = [_answer(pod, series, first) for pod, series in sorted(found.items())]
        return PodUsageReport(self.is_measured, INTERVAL_SECONDS, [each for each in pods if each.times])

    async def _measure(self) -> list[PodSample]:
        if isinstance(self._cluster, EmbeddedCluster):
            node = self._cluster.node
            pods = node.pods() if node is not None else {}
            if node is None or not pods:
                return []
            rates, _ = await node.usage()
            return [PodSample(pod, rates[uid].cores, rates[uid].memory) for uid, pod in pods.items() if uid in rates]
        try:
            metrics = (await self._cluster.list(POD_METRICS)).items
        except (NotFound, Forbidden):
            self.is_measured = False
            return []
        except ApiError as error:
            log.debug("the usage of Pods cannot be read: %s", error)
            return []
        self.is_measured = True
        return [sample for each in metrics if (sample := await self._sample(each)) is not None]

    async def _sample(self, metrics: Object) -> PodSample | None:
        usage = [each.get("usage") or {} for each in metrics.get("containers") or ()]
        cores = float(sum(parse_quantity(each.get("cpu") or 0) for each in usage))
        memory = sum(whole_value(each.get("memory") or 0) for each in usage)
        key = PodKey(namespace_of(metrics), name_of(metrics))
        if self.history.knows(key):
            pod: Object = {"metadata": {"namespace": key.namespace, "name": key.pod}}
        else:
            try:
                pod = await self._cluster.get(POD, key.pod, key.namespace)
            except ApiError:
                return None
        return PodSample(pod, cores, memory)

    async def _load(self) -> None:
        try:
            content = orjson.loads(await asyncio.to_thread(self._file.read_bytes))
            self.history.load(content, time.time())
        except FileNotFoundError:
            return
        except (ValueError, KeyError, TypeError) as error:
            log.warning("the history of the usage of Pods in %s is not readable and starts anew: %s", self._file, error)


def _answer(pod: str, series: PodSeries, first: float) -> PodUsageSeries:
    start = next((place for place, at in enumerate(series.times) if at >= first), len(series.times))
    cpu = [round(cores, 4) for cores in series.cores[start:]]
    return PodUsageSeries(
        pod, series.requests, series.limits, list(series.times[start:]), cpu, list(series.memory[start:])
    )


def _write(file: Path, content: object) -> None:
    fresh = file.with_suffix(".new")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_bytes(orjson.dumps(content))
        fresh.replace(file)
    except OSError as error:
        log.warning("the history of the usage of Pods cannot be stored: %s", error)
