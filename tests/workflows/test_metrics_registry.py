from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter

from muster.workflows.metrics import MOST_SERIES, MetricRegistry
from muster.workflows.model import Node

NOW = datetime(2026, 1, 1, 0, 2, tzinfo=UTC)
WORKFLOW: dict[str, Any] = {
    "metadata": {"name": "flow", "uid": "u-1"},
    "status": {"phase": "Succeeded", "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:01:30Z"},
}
NODE = Node(
    id="n",
    phase="Failed",
    startedAt="2026-01-01T00:00:00Z",
    finishedAt="2026-01-01T00:00:10Z",
    resourcesDuration={"cpu": 7},
    inputs={"parameters": [{"name": "size", "value": "big"}]},
    outputs={"exitCode": "3", "result": "0.5", "parameters": [{"name": "loss", "value": "0.25"}]},
    children=["a", "b"],
)
SCOPE = {"workflow.name": "flow"}


def metric(name: str = "m", **more: Any) -> dict[str, Any]:
    return {"name": name, "help": "What it is", **more}


def shown(*metrics: dict[str, Any], node: Node | None = NODE, times: int = 1, has_ended: bool = True) -> list[str]:
    registry = MetricRegistry()
    for _ in range(times):
        assert registry.record(WORKFLOW, node, metrics, SCOPE, now=NOW, has_ended=has_ended) == []
    return [line for line in registry.text(NOW).splitlines() if not line.startswith("#")]


@pytest.mark.parametrize(
    ("definition", "times", "expected"),
    [
        (metric(counter={"value": "1"}), 2, ["argo_workflows_m 2.0"]),
        (metric("m_total", counter={"value": "1"}), 1, ["argo_workflows_m_total 1.0"]),
        (metric(gauge={"value": "{{duration}}"}), 2, ["argo_workflows_m 10.0"]),
        (metric(gauge={"value": "2", "operation": "Add"}), 3, ["argo_workflows_m 6.0"]),
        (metric(gauge={"value": "2", "operation": "Sub"}), 3, ["argo_workflows_m -6.0"]),
        (metric(gauge={"value": "{{outputs.parameters.loss}}"}), 1, ["argo_workflows_m 0.25"]),
        (metric(gauge={"value": "{{outputs.result}}"}), 1, ["argo_workflows_m 0.5"]),
        (metric(gauge={"value": "{{exitCode}}"}), 1, ["argo_workflows_m 3.0"]),
        (metric(gauge={"value": "{{retries}}"}), 1, ["argo_workflows_m 1.0"]),
        (metric(gauge={"value": "{{resourcesDuration.cpu}}"}), 1, ["argo_workflows_m 7.0"]),
        (metric(gauge={"value": "{{= asFloat(duration) * 2 }}"}), 1, ["argo_workflows_m 20.0"]),
        (metric(counter={"value": "1"}, when="{{status}} == Failed"), 1, ["argo_workflows_m 1.0"]),
        (metric(counter={"value": "1"}, when="{{status}} == Succeeded"), 1, []),
        (
            metric(
                counter={"value": "1"},
                labels=[
                    {"key": "size", "value": "{{inputs.parameters.size}}"},
                    {"key": "flow", "value": '"{{workflow.name}}"'},
                ],
            ),
            1,
            ['argo_workflows_m{flow="\\"flow\\"",size="big"} 1.0'],
        ),
        (
            metric(histogram={"value": "{{duration}}", "buckets": [5, 10, 20]}),
            2,
            [
                'argo_workflows_m_bucket{le="5"} 0.0',
                'argo_workflows_m_bucket{le="10"} 2.0',
                'argo_workflows_m_bucket{le="20"} 2.0',
                'argo_workflows_m_bucket{le="+Inf"} 2.0',
                "argo_workflows_m_sum 20.0",
                "argo_workflows_m_count 2.0",
            ],
        ),
    ],
)
def test_what_a_node_emits(definition: dict[str, Any], times: int, expected: list[str]) -> None:
    assert shown(definition, times=times) == expected


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        (metric(gauge={"value": "{{workflow.duration}}"}), ["argo_workflows_m 90.0"]),
        (metric(counter={"value": "1"}, when="{{workflow.status}} == Succeeded"), ["argo_workflows_m 1.0"]),
    ],
)
def test_what_a_workflow_emits(definition: dict[str, Any], expected: list[str]) -> None:
    assert shown(definition, node=None) == expected


def test_in_real_time() -> None:
    live = metric("live", gauge={"value": "{{duration}}", "realtime": True})
    late = metric("late", gauge={"value": "{{duration}}"})
    running = Node(id="n", phase="Running", startedAt="2026-01-01T00:00:00Z")
    assert shown(live, late, node=running, has_ended=False) == ["argo_workflows_live 120.0"]
    registry = MetricRegistry()
    registry.record(WORKFLOW, running, [live], SCOPE, now=NOW, has_ended=False)
    registry.record(WORKFLOW, NODE, [live], SCOPE, now=NOW)
    assert "argo_workflows_live 10.0\n" in registry.text(NOW)
    registry.forget(WORKFLOW)
    assert registry.text(NOW) == ""


def test_the_whole_text() -> None:
    registry = MetricRegistry()
    registry.record(WORKFLOW, NODE, [metric(counter={"value": "1"})], SCOPE, now=NOW)
    assert registry.text(NOW) == (
        "# HELP argo_workflows_m What it is\n# TYPE argo_workflows_m counter\nargo_workflows_m 1.0\n"
    )


@pytest.mark.parametrize(
    ("definition", "problem"),
    [
        ({"name": "m", "counter": {"value": "1"}}, "metric 'm' must contain a help string under 'help: ' field"),
        (metric("a-b", counter={"value": "1"}), "could not construct metric 'a-b': metric name is invalid"),
        (metric("gauge", gauge={"value": "1"}), "could not construct metric 'gauge': the controller has a metric"),
        (metric(), "metric 'm' must be one of gauge, histogram, counter"),
        (metric(counter={"value": "many"}), "could not construct metric 'm': \"many\" is not a number"),
        (metric(counter={"value": "{{nothing}}"}), "unable to substitute parameters for metric 'm': "),
        (metric(counter={"value": "1"}, when="(("), "unable to compute 'when' clause for metric 'm': "),
        (metric(gauge={"value": "1", "realtime": True}), "real time metrics can only be used with metric variables"),
        (metric(gauge={"value": "{{x}}", "realtime": True}), "'x' is not available as a real time metric"),
        (metric("known", gauge={"value": "1"}), "could not construct metric 'known': found existing counter for"),
        (
            {**metric("known", counter={"value": "1"}), "help": "Another"},
            "could not construct metric 'known': help for metric known is already set to What it is",
        ),
    ],
)
def test_mistakes_are_told_and_the_others_emitted(definition: dict[str, Any], problem: str) -> None:
    registry = MetricRegistry()
    good = metric("known", counter={"value": "1"})
    [found] = registry.record(WORKFLOW, NODE, [good, definition, good], SCOPE, now=NOW)
    assert found.startswith(problem)
    assert "argo_workflows_known 2.0" in registry.text(NOW)


def test_memory_is_bounded() -> None:
    registry = MetricRegistry()
    for number in range(MOST_SERIES + 10):
        labels = [{"key": "n", "value": str(number)}]
        registry.record(WORKFLOW, NODE, [metric(counter={"value": "1"}, labels=labels)], SCOPE, now=NOW)
    text = registry.text(NOW)
    assert text.count("\n") == MOST_SERIES + 2
    assert 'n="9"' not in text
    assert f'n="{MOST_SERIES + 9}"' in text


def test_series_of_a_metric_may_have_different_labels() -> None:
    """As in Argo. The classes of prometheus-client do not allow it, so the registry keeps the values itself."""
    registry = MetricRegistry()
    for labels in ([], [{"key": "a", "value": "1"}], [{"key": "b", "value": "2"}]):
        definition = metric(counter={"value": "1"}, labels=labels)
        assert registry.record(WORKFLOW, NODE, [definition], SCOPE, now=NOW) == []
    assert registry.text(NOW).splitlines()[2:] == [
        "argo_workflows_m 1.0",
        'argo_workflows_m{a="1"} 1.0',
        'argo_workflows_m{b="2"} 1.0',
    ]
    theirs = CollectorRegistry()
    Counter("m", "What it is", registry=theirs)
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        Counter("m", "What it is", ["a"], registry=theirs)
