from __future__ import annotations

from typing import Any

import pytest

from muster.kube.quantity import format_amounts, parse_group_resources, pod_requests


def container(restart: str = "", limits: dict[str, str] | None = None, **requests: str) -> dict[str, Any]:
    found: dict[str, Any] = {"resources": {"requests": requests}}
    if limits is not None:
        found["resources"]["limits"] = limits
    return found | ({"restartPolicy": restart} if restart else {})


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [{}]}, {"pods": 1}),
        ({"containers": [container(cpu="500m", memory="1Gi"), container(cpu="1")]},
         {"cpu": 1500, "memory": 2**30, "pods": 1}),
        ({"containers": [container(cpu="1")], "initContainers": [container(cpu="3"), container(cpu="2")]},
         {"cpu": 3000, "pods": 1}),
        ({"containers": [container(cpu="1")], "initContainers": [container("Always", cpu="2"), container(cpu="3")]},
         {"cpu": 5000, "pods": 1}),
        ({"containers": [container(cpu="4")], "initContainers": [container(cpu="3"), container("Always", cpu="2")]},
         {"cpu": 6000, "pods": 1}),
        ({"containers": [container(cpu="1")], "overhead": {"cpu": "100m", "memory": "10"}},
         {"cpu": 1100, "memory": 10, "pods": 1}),
        ({"containers": [container(limits={"nvidia.com/gpu": "2", "cpu": "4"}, cpu="1")]},
         {"cpu": 1000, "nvidia.com/gpu": 2, "pods": 1}),
        ({"containers": [container(cpu="1", memory="1")], "resources": {"requests": {"cpu": "3"}}},
         {"cpu": 3000, "memory": 1, "pods": 1}),
        ({"containers": [container(cpu="0", memory="0.5")]}, {"memory": 1, "pods": 1}),
    ],
    ids=["nothing", "containers add up", "largest init container", "sidecar beside a later init container",
         "sidecar beside the containers", "overhead", "limits stand in for requests", "pod-level resources",
         "zero is left out, fractions count whole"],
)  # fmt: skip
def test_effective_requests(spec: dict[str, Any], expected: dict[str, int]) -> None:
    assert pod_requests(spec) == expected


def test_min_resources_as_volcano_writes_them() -> None:
    written = {"count/pods": "4", "cpu": "3500m", "limits.cpu": "8", "pods": "4", "requests.cpu": "4", "memory": "0"}
    assert parse_group_resources(written) == {"cpu": 4000, "pods": 4}


def test_amounts_are_written_as_resources_again() -> None:
    amounts = {"cpu": 2500, "memory": 3 * 2**30, "nvidia.com/gpu": 4, "pods": 1500}
    assert format_amounts(amounts) == {"cpu": "2500m", "memory": "3Gi", "nvidia.com/gpu": "4", "pods": "1500"}
