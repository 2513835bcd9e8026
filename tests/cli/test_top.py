from __future__ import annotations

from typing import Any

from muster.cli.top import node_rows, pod_rows


def pod(name: str, **containers: tuple[str, str]) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "containers": [{"name": c, "usage": {"cpu": cpu, "memory": memory}} for c, (cpu, memory) in containers.items()],
    }


def test_a_pod_is_the_sum_of_its_containers() -> None:
    busy = pod("busy", main=("1500m", "64Mi"), side=("250000000n", "1024Ki"))
    assert pod_rows([busy]) == (["NAME", "CPU(cores)", "MEMORY(bytes)"], [["busy", "1750m", "65Mi"]])
    assert pod_rows([busy], containers=True, namespaces=True) == (
        ["NAMESPACE", "POD", "NAME", "CPU(cores)", "MEMORY(bytes)"],
        [["default", "busy", "main", "1500m", "64Mi"], ["default", "busy", "side", "250m", "1Mi"]],
    )


def test_a_node_is_measured_by_its_allocatable_resources() -> None:
    measured = {"metadata": {"name": "here"}, "usage": {"cpu": "500m", "memory": "2Gi"}}
    node = {"status": {"allocatable": {"cpu": "4", "memory": "8Gi"}}}
    assert node_rows([measured], {"here": node})[1] == [["here", "500m", "12%", "2048Mi", "25%"]]
    assert node_rows([measured], {})[1] == [["here", "500m", "<unknown>", "2048Mi", "<unknown>"]]
