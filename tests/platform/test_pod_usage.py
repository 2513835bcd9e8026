"""The history of what Pods use: coarser when it is long, and bounded."""

from __future__ import annotations

from typing import Any

import pytest

from muster.kube.objects import Object
from muster.kube.pod_security import RUN_LABEL, TASK_LABEL
from muster.platform.pod_usage import INTERVAL_SECONDS, MOST_POINTS, PodSample, UsageHistory, describe


def pod(name: str, *resources: dict[str, Any], **labels: str) -> Object:
    containers = [{"name": str(index), "resources": each} for index, each in enumerate(resources or ({},))]
    return {"metadata": {"namespace": "ml", "name": name, "labels": labels}, "spec": {"containers": containers}}


def measured(history: UsageHistory, name: str, count: int, start: float = 0.0) -> None:
    for number in range(count):
        history.add(start + number * INTERVAL_SECONDS, [PodSample(pod(name), float(number), number)])


def test_a_series_has_a_point_for_each_sample() -> None:
    history = UsageHistory()
    measured(history, "a", 3)
    (series,) = history.find("ml", ["a", "other"]).values()
    assert (list(series.times), list(series.cores), list(series.memory)) == ([0, 5, 10], [0, 1, 2], [0, 1, 2])
    assert history.find("elsewhere", ["a"]) == {}


@pytest.mark.parametrize("count", [MOST_POINTS + 1, 5 * MOST_POINTS, 10_000])
def test_a_long_series_is_coarser_and_no_larger(count: int) -> None:
    history = UsageHistory()
    measured(history, "a", count)
    series = history.find("ml", ["a"])["a"]
    assert MOST_POINTS / 4 < len(series.times) <= MOST_POINTS
    assert sum(series.weights) == count
    assert list(series.times) == sorted(series.times)
    mean = sum(c * w for c, w in zip(series.cores, series.weights, strict=True)) / count
    assert mean == pytest.approx((count - 1) / 2, rel=1e-3)
    assert series.memory[-1] == count - 1  # the most of a point is kept


def test_the_series_that_ended_first_are_dropped_for_the_budget() -> None:
    history = UsageHistory(most_bytes=5000)
    for number, name in enumerate(("a", "b", "c", "d")):
        history.add(float(number), [PodSample(pod("runs"), 1.0, 1), PodSample(pod(name), 1.0, 1)])
    assert history.bytes <= 5000
    assert set(history.find("ml", ["runs", "a", "b", "c", "d"])) == {"runs", "c", "d"}


def test_a_series_outlives_its_pod_for_a_while() -> None:
    history = UsageHistory(longest=100.0)
    measured(history, "a", 2)
    history.add(90.0, [])
    assert history.find("ml", ["a"])
    history.add(110.0, [])
    assert not history.find("ml", ["a"]) and history.bytes == 0


def test_pods_of_a_node_of_a_run_are_found_in_its_namespace() -> None:
    history = UsageHistory()
    labels = {RUN_LABEL: "r1", TASK_LABEL: "train"}
    history.add(0.0, [PodSample(pod("train-0", **labels), 1.0, 1), PodSample(pod("other"), 1.0, 1)])
    assert set(history.find("ml", run="r1", task="train")) == {"train-0"}
    assert history.find("ml", run="r1", task="test") == {} == history.find("elsewhere", run="r1", task="train")
    assert history.find("ml", run="", task="") == {}


LIMITED = {"limits": {"cpu": "500m", "memory": "1Gi"}}
ASKED = {"requests": {"cpu": "2"}}


@pytest.mark.parametrize(
    ("resources", "requests", "limits"),
    [
        ([{}], {}, {}),
        ([LIMITED], {"cpu": 0.5, "memory": 2**30}, {"cpu": 0.5, "memory": 2**30}),
        ([LIMITED, LIMITED], {"cpu": 1.0, "memory": 2**31}, {"cpu": 1.0, "memory": 2**31}),
        ([LIMITED, ASKED], {"cpu": 2.5, "memory": 2**30}, {}),  # one container has no limit, so the Pod has none
        ([{"limits": {"cpu": "many"}}], {}, {}),
    ],
)
def test_requests_and_limits_are_those_of_all_containers(
    resources: list[dict[str, Any]], requests: dict[str, float], limits: dict[str, float]
) -> None:
    series = describe(pod("a", *resources))
    assert (series.requests, series.limits) == (requests, limits)


def test_it_is_the_same_after_a_restart() -> None:
    history, again = UsageHistory(), UsageHistory()
    history.add(0.0, [PodSample(pod("a", LIMITED, **{RUN_LABEL: "r", TASK_LABEL: "t"}), 1.5, 7)])
    measured(history, "b", 500)
    again.load(history.dump(), 2500.0)
    assert again.dump() == history.dump() and again.bytes == history.bytes
