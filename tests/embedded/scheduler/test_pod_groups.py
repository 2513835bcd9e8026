"""Gangs are placed as a whole or not at all; the status of their PodGroups."""

from __future__ import annotations

from typing import Any

import pytest

from muster.embedded.scheduler.cycle import run_cycle
from muster.embedded.scheduler.model import group_key_of
from muster.embedded.scheduler.pod_groups import plugin_status, volcano_status
from muster.embedded.scheduler.state import GroupState
from muster.kube.objects import Object
from tests.embedded.scheduler.objects import Bench, a_group, a_node, a_plugin_group, a_pod


def gang(count: int, name: str = "gang", **pod: Any) -> list[Object]:
    return [a_pod(f"{name}-{n}", group=name, **pod) for n in range(count)]


def the_group(bench: Bench) -> GroupState:
    [group] = bench.state.groups.values()
    return group


def status_of_group(bench: Bench, old: dict[str, Any] | None = None) -> dict[str, Any]:
    group = the_group(bench)
    assert group.spec is not None
    assert group.members is not None
    return volcano_status(
        group.spec, group.members, old or {},
        admitted=group.admitted, problem=group.problem, now="2024-01-01T00:00:00Z", transition="id",
    )  # fmt: skip


def test_six_on_one_gpu_wait_together() -> None:
    bench = Bench(a_node(gpu=1), a_group(min_member=6), *gang(6, gpu=1))
    assert bench.run() == {}
    words = "pod group is not ready, 6 Pending, 6 minAvailable; 0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    assert set(bench.reasons.values()) == {words}
    assert len(bench.reasons) == 6
    assert status_of_group(bench) == {
        "phase": "Pending",
        "conditions": [
            {
                "type": "Unschedulable",
                "status": "True",
                "reason": "NotEnoughResources",
                "message": f"6/6 tasks in gang unschedulable: {words}",
                "transitionID": "id",
                "lastTransitionTime": "2024-01-01T00:00:00Z",
            }
        ],
    }


def test_the_same_without_a_group_start_as_they_fit() -> None:
    bench = Bench(a_node(gpu=1), *(a_pod(f"p{n}", gpu=1) for n in range(6)))
    assert len(bench.run()) == 1
    assert set(bench.reasons.values()) == {"0/1 nodes are available: 1 Insufficient nvidia.com/gpu."}


def test_all_at_once_in_one_binding() -> None:
    bench = Bench(a_node(gpu=6), a_group(min_member=6), *gang(6, gpu=1))
    assert len(bench.run()) == 6
    [placement] = bench.result.placements
    assert len(placement.assignments) == 6
    assert status_of_group(bench)["phase"] == "Running"


def test_it_packs_a_gang_onto_few_nodes() -> None:
    bench = Bench(*(a_node(f"n{n}", gpu=4) for n in range(4)), a_group(min_member=8), *gang(8, gpu=1))
    assert len(set(bench.run().values())) == 2


def test_it_prefers_the_tightest_node_that_takes_all_of_it() -> None:
    nodes = [a_node("one", gpu=1), a_node("eight", gpu=8), a_node("six", gpu=6)]
    for order in (nodes, nodes[::-1]):
        bench = Bench(*order, a_group(min_member=5), *gang(5, gpu=1))
        assert set(bench.run().values()) == {"six"}


def test_a_gang_of_several_kinds_of_pods() -> None:
    chief = a_pod("chief", group="gang", cpu=6)
    bench = Bench(a_node("a", cpu=8), a_node("b", cpu=8), a_group(min_member=6), chief, *gang(5, cpu=2))
    assert len(bench.run()) == 6


def test_members_beyond_the_minimum_come_singly() -> None:
    bench = Bench(a_node(cpu=4), a_group(min_member=2), *gang(6, cpu=1))
    assert len(bench.run()) == 4
    assert [len(p.assignments) for p in bench.result.placements] == [2, 1, 1]
    assert set(bench.reasons.values()) == {"0/1 nodes are available: 1 Insufficient cpu."}
    assert status_of_group(bench)["phase"] == "Running"


def test_a_gang_waits_for_its_pods_and_reports_when_none_come() -> None:
    bench = Bench(a_node(), a_group(min_member=3), *gang(2))
    assert bench.run(0.5) == {}
    assert bench.reasons == {}
    assert bench.result.wake_at == 2.0
    assert bench.run(2.0) == {}
    assert set(bench.reasons.values()) == {"Not enough valid tasks for gang-scheduling, valid: 2, min: 3"}
    assert the_group(bench).problem == (
        "NotEnoughTasks",
        "Not enough valid tasks for gang-scheduling, valid: 2, min: 3",
    )
    bench.put(a_pod("gang-2", group="gang"))
    assert len(bench.run()) == 3


def test_pods_of_a_group_that_does_not_exist_wait_for_it() -> None:
    bench = Bench(a_node(), *gang(1))
    assert bench.run(2.0) == {}
    assert bench.reasons == {"gang-0": "PodGroup default/gang not found"}
    bench.put(a_group(min_member=1))
    assert bench.run() == {"gang-0": "node"}


def test_a_failed_member_is_replaced_next_to_running_ones() -> None:
    bench = Bench(a_node(cpu=4), a_group(min_member=3), *gang(3, cpu=1))
    bench.run()
    bench.phase("Running", "gang-0", "gang-1")
    bench.remove("gang-2")
    bench.put(a_pod("gang-3", group="gang", cpu=1))
    assert bench.run() == {"gang-3": "node"}


def test_some_run_and_the_rest_finds_no_room() -> None:
    bench = Bench(a_node(cpu=3), a_group(min_member=3), *gang(3, cpu=1))
    bench.run()
    bench.phase("Running", "gang-0", "gang-1")
    bench.remove("gang-2")
    bench.put(a_pod("gang-3", group="gang", cpu=2))
    assert bench.run() == {}
    found = status_of_group(bench)
    assert found["phase"] == "Unknown"
    assert found["conditions"][0]["message"].startswith(
        "1/3 tasks in gang unschedulable: pod group is not ready, 1 Pending, 2 Running, 3 minAvailable; 0/1 nodes"
    )


@pytest.mark.parametrize(
    ("phases", "expected"),
    [
        (["Running", "Running"], {"phase": "Running", "running": 2}),
        (["Running", "Succeeded"], {"phase": "Running", "running": 1, "succeeded": 1}),
        (["Succeeded", "Succeeded"], {"phase": "Completed", "succeeded": 2}),
        (["Succeeded", "Failed"], {"phase": "Completed", "succeeded": 1, "failed": 1}),
    ],
)
def test_phases_after_placement(phases: list[str], expected: dict[str, Any]) -> None:
    bench = Bench(a_node(), a_group(min_member=2), *gang(2))
    bench.run()
    for number, phase in enumerate(phases):
        bench.phase(phase, f"gang-{number}")
    bench.run()
    found = status_of_group(bench)
    found.pop("conditions", None)
    assert found == expected


def test_an_unchanged_condition_is_not_written_again() -> None:
    bench = Bench(a_node(gpu=1), a_group(min_member=6), *gang(6, gpu=1))
    bench.run()
    first = status_of_group(bench)
    assert status_of_group(bench, first) == first


@pytest.mark.parametrize(
    ("tasks", "placed"),
    [(["worker", "worker", "worker"], 0), (["ps", "worker", "worker"], 3), (["ps", "ps", "worker", "worker"], 4)],
)
def test_min_task_member(tasks: list[str], placed: int) -> None:
    pods = [a_pod(f"p{n}", group="gang", task=task) for n, task in enumerate(tasks)]
    bench = Bench(a_node(), a_group(min_member=3, minTaskMember={"ps": 1, "worker": 2}), *pods)
    assert len(bench.run(10.0)) == placed
    if not placed:
        assert set(bench.reasons.values()) == {"Not enough valid pods of each task for gang-scheduling"}


def test_members_for_min_task_member_come_first() -> None:
    pods = [*(a_pod(f"w{n}", group="gang", task="worker", cpu=1) for n in range(4)),
            a_pod("z-ps", group="gang", task="ps", cpu=1)]  # fmt: skip
    bench = Bench(a_node(cpu=2), a_group(min_member=2, minTaskMember={"ps": 1, "worker": 1}), *pods)
    assert sorted(bench.run()) == ["w0", "z-ps"]


def test_min_resources_beyond_what_the_pods_ask_for() -> None:
    bench = Bench(a_node(cpu=4), a_group(min_member=2, minResources={"cpu": "8"}), *gang(2, cpu=1))
    assert bench.run() == {}
    assert "minResources not met: cpu: 8000m asked, 4000m free" in bench.reasons["gang-0"]
    bench.put(a_node("second", cpu=4))
    assert len(bench.run()) == 2


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({}, None),
        ({"annotations": {"scheduling.k8s.io/group-name": "g"}}, ("volcano", "ns", "g")),
        ({"annotations": {"scheduling.volcano.sh/group-name": "g"}}, ("volcano", "ns", "g")),
        ({"labels": {"scheduling.x-k8s.io/pod-group": "g"}}, ("plugin", "ns", "g")),
        ({"labels": {"pod-group.scheduling.sigs.k8s.io": "g"}}, ("plugin", "ns", "g")),
    ],
)
def test_group_of_a_pod(metadata: dict[str, Any], expected: tuple[str, str, str] | None) -> None:
    assert group_key_of({"metadata": {"namespace": "ns", **metadata}}) == expected


def test_a_gated_member_does_not_count_until_the_gate_opens() -> None:
    pods = [*gang(1), a_pod("gated", group="gang", schedulingGates=[{"name": "later"}])]
    bench = Bench(a_node(), a_group(min_member=2), *pods)
    assert bench.run() == {}
    [notice] = bench.result.notices
    assert (notice.pod.key.name, notice.reason) == ("gated", "SchedulingGated")
    bench.change("gated", spec={"containers": pods[1]["spec"]["containers"]})
    assert len(bench.run()) == 2


@pytest.mark.parametrize(
    ("phases", "expected"),
    [
        ([], {"phase": "Pending"}),
        (["Pending"], {"phase": "Pending"}),
        (["Pending", "Pending"], {"phase": "Scheduling", "scheduleStartTime": "now"}),
        (["Running", "Pending"], {"phase": "Scheduling", "running": 1, "scheduleStartTime": "now"}),
        (["Running", "Running"], {"phase": "Running", "running": 2, "scheduleStartTime": "now"}),
        (["Running", "Failed"], {"phase": "Failed", "running": 1, "failed": 1, "scheduleStartTime": "now"}),
        (["Succeeded", "Succeeded"], {"phase": "Finished", "succeeded": 2, "scheduleStartTime": "now"}),
    ],
)
def test_the_status_of_a_scheduler_plugins_group(phases: list[str], expected: dict[str, Any]) -> None:
    pods = [a_pod(f"p{n}", plugin_group="gang", phase=phase, nodeName="node") for n, phase in enumerate(phases)]
    bench = Bench(a_node(), a_plugin_group(min_member=2), *pods)
    bench.run()
    group = the_group(bench)
    assert group.spec is not None
    assert group.members is not None
    assert plugin_status(group.spec, group.members, {}, owner="", now="now") == expected


def test_a_scheduler_plugins_gang_is_placed_whole() -> None:
    pods = [a_pod(f"p{n}", plugin_group="gang", cpu=4) for n in range(3)]
    bench = Bench(a_node(cpu=8), a_plugin_group(min_member=3), *pods)
    assert bench.run() == {}
    bench.put(a_node("second", cpu=8))
    assert len(bench.run()) == 3


def test_a_binding_that_failed_frees_the_whole_gang() -> None:
    bench = Bench(a_node(cpu=2), a_group(min_member=2), *gang(2, cpu=1), a_pod("other", cpu=2, created=9.0))
    [placement] = run_cycle(bench.state, 0.0).placements
    for pod, _ in placement.assignments:
        bench.state.give_up(pod.key, pod.uid)
    bench.remove("gang-1")
    assert bench.run() == {"other": "node"}
