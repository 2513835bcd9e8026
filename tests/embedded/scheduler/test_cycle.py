"""Scheduling cycles: queues, priorities, admission, reservations, and reasons that are reported once."""

from __future__ import annotations

from typing import Any

import pytest

from muster.embedded.scheduler.cycle import run_cycle
from muster.embedded.scheduler.queue import default_queue, read_queue
from muster.embedded.scheduler.state import GroupState
from muster.kube import defaults
from muster.kube.objects import Object
from tests.embedded.scheduler.objects import Bench, a_group, a_node, a_plugin_group, a_pod, a_queue

SIX_GPUS: dict[str, Any] = {"minResources": {"nvidia.com/gpu": "6"}}


def priority_class(name: str, value: int, **more: Any) -> Object:
    return {"metadata": {"name": name}, "value": value, **more}


def gang(name: str, count: int, **pod: Any) -> list[Object]:
    created = pod.get("created", 0.0)
    group = a_group(name, count, created=created)
    return [group, *(a_pod(f"{name}-{n}", group=name, **pod) for n in range(count))]


def group_named(bench: Bench, name: str = "gang") -> GroupState:
    return next(g for g in bench.state.groups.values() if g.key.name == name)


class TestOrder:
    def test_the_older_first(self) -> None:
        bench = Bench(a_node(cpu=1), a_pod("young", cpu=1, created=2.0), a_pod("old", cpu=1, created=1.0))
        assert list(bench.run()) == ["old"]

    def test_priority_before_age(self) -> None:
        bench = Bench(a_node(cpu=1), a_pod("old", cpu=1), a_pod("vip", cpu=1, created=5.0, priorityClassName="high"))
        bench.state.set_priority_classes([priority_class("high", 10)])
        assert list(bench.run()) == ["vip"]

    @pytest.mark.parametrize(
        ("spec", "first"),
        [
            ({"priority": -1}, False),
            ({"priority": 1, "priorityClassName": "low"}, True),
            ({"priorityClassName": "low"}, False),
            ({"priorityClassName": "system-node-critical"}, True),
            ({}, False),
        ],
    )
    def test_values_of_priority_classes(self, spec: dict[str, Any], first: bool) -> None:
        bench = Bench(a_node(cpu=1), a_pod("other", cpu=1, priority=0), a_pod("it", cpu=1, created=1.0, **spec))
        bench.state.set_priority_classes([priority_class("low", -10)])
        assert list(bench.run()) == (["it"] if first else ["other"])

    def test_the_global_default(self) -> None:
        bench = Bench(a_node(cpu=1), a_pod("zero", cpu=1, priority=0), a_pod("it", cpu=1, created=1.0))
        bench.state.set_priority_classes([priority_class("usual", 5, globalDefault=True)])
        assert list(bench.run()) == ["it"]

    def test_a_groups_own_priority_class(self) -> None:
        vip = a_group("vip", 1, created=9.0, priorityClassName="high")
        bench = Bench(a_node(cpu=1), a_pod("old", cpu=1), vip, a_pod("vip-0", cpu=1, created=9.0, group="vip"))
        bench.state.set_priority_classes([priority_class("high", 10)])
        assert list(bench.run()) == ["vip-0"]

    def test_an_unknown_priority_class_is_named(self) -> None:
        bench = Bench(a_node(), a_pod(priorityClassName="missing"))
        assert bench.run() == {"pod": "node"}
        [notice] = bench.result.notices
        assert 'no PriorityClass with name "missing"' in notice.message

    def test_pods_of_other_schedulers_are_left_alone_and_reported_once(self) -> None:
        bench = Bench(a_node(), a_pod(schedulerName="my-scheduler"))
        assert bench.run() == {}
        [notice] = bench.result.notices
        assert 'no scheduler named "my-scheduler" runs in this cluster' in notice.message
        bench.change("pod", metadata={**bench.objects["pod"]["metadata"], "labels": {"new": "label"}})
        bench.run()
        assert bench.result.notices == []

    @pytest.mark.parametrize("name", ["default-scheduler", "volcano", "scheduler-plugins-scheduler"])
    def test_names_that_mean_us(self, name: str) -> None:
        assert Bench(a_node(), a_pod(schedulerName=name)).run() == {"pod": "node"}


class TestQueues:
    def test_shares_by_weight(self) -> None:
        pods = [a_pod(f"{q}{n}", cpu=1, queue=q, created=float(q == "b")) for q in "ab" for n in range(12)]
        bench = Bench(a_node(cpu=12), a_queue("a", 1), a_queue("b", 3), *pods)
        placed = list(bench.run())
        assert (sum(p[0] == "a" for p in placed), sum(p[0] == "b" for p in placed)) == (3, 9)

    def test_the_dominant_resource_counts(self) -> None:
        thin = [a_pod(f"thin{n}", cpu=1, memory="1Gi", queue="thin") for n in range(20)]
        fat = [a_pod(f"fat{n}", cpu=1, memory="4Gi", queue="fat") for n in range(20)]
        bench = Bench(a_node(cpu=20, memory="40Gi"), a_queue("thin"), a_queue("fat"), *thin, *fat)
        placed = list(bench.run())
        # x thin at x/20 of the cpu, y fat at y/10 of the memory: equal shares at x = 2y, and memory ends it.
        assert (sum(p.startswith("thin") for p in placed), sum(p.startswith("fat") for p in placed)) == (12, 7)

    def test_capability_is_a_hard_cap(self) -> None:
        pods = [a_pod(f"p{n}", cpu=1, queue="small") for n in range(4)]
        bench = Bench(a_node(cpu=8), a_queue("small", capability={"cpu": "2"}), *pods)
        assert len(bench.run()) == 2
        assert set(bench.reasons.values()) == {
            'queue "small" resource quota insufficient: cpu: 1000m asked, 2000m used, capability 2000m'
        }
        bench.remove("p0")
        assert len(bench.run()) == 1

    def test_a_closed_queue_takes_nothing_until_it_opens(self) -> None:
        bench = Bench(a_node(), a_queue("q", state="Closed"), a_pod(queue="q"))
        assert bench.run() == {}
        assert bench.reasons == {"pod": 'queue "q" is Closed: it accepts no new work'}
        bench.put(a_queue("q", state="Open"))
        assert bench.run() == {"pod": "node"}

    def test_a_queue_that_does_not_exist(self) -> None:
        bench = Bench(a_node(), a_pod(queue="q"))
        assert bench.run() == {}
        assert bench.reasons == {"pod": 'queue "q" not found'}

    def test_the_queue_of_a_group_is_that_of_its_pods(self) -> None:
        bench = Bench(a_node(), a_queue("q", capability={"cpu": "1"}), a_group("g", 1, queue="q"))
        bench.put(a_pod("p", cpu=2, group="g"))
        assert bench.run() == {}
        assert 'queue "q" resource quota insufficient' in bench.reasons["p"]

    def test_nothing_overtakes_in_a_fifo_queue(self) -> None:
        pods = [a_pod("big", cpu=9, queue="q"), a_pod("small", cpu=1, queue="q", created=1.0)]
        bench = Bench(a_node(cpu=8), a_queue("q", dequeueStrategy="fifo"), *pods)
        assert bench.run() == {}
        assert "waits behind Pod default/big" in bench.reasons["small"]

    def test_a_queue_of_higher_priority_is_served_first(self) -> None:
        pods = [a_pod("a", cpu=1, queue="a"), a_pod("z", cpu=1, queue="z", created=1.0)]
        bench = Bench(a_node(cpu=1), a_queue("a"), a_queue("z", priority=1), *pods)
        assert list(bench.run()) == ["z"]

    def test_ignored_fields_are_noted(self) -> None:
        bench = Bench(a_queue("q", reclaimable=True, guarantee={"resource": {"cpu": "1"}}))
        spec = bench.state.queues["q"].spec
        assert spec is not None
        assert len(spec.notes) == 2

    def test_a_new_cluster_begins_without_a_warning_about_its_own_queue(self) -> None:
        assert read_queue(defaults.default_queue(default_queue())).notes == ()


class TestAdmission:
    def test_a_group_without_pods_is_let_in_when_it_would_fit(self) -> None:
        bench = Bench(a_node(gpu=8), a_group("gang", 6, **SIX_GPUS))
        bench.run()
        assert group_named(bench).admitted
        assert bench.result.wake_at == 30.0

    def test_and_waits_when_it_would_not(self) -> None:
        bench = Bench(a_node(gpu=1), a_group("gang", 6, **SIX_GPUS))
        bench.run()
        assert not group_named(bench).admitted
        problem = group_named(bench).problem
        assert problem == (
            "NotEnoughResources",
            "6/0 tasks in gang unschedulable: pod group is not ready, 6 minAvailable; "
            "minResources not met: nvidia.com/gpu: 6 asked, 1 free",
        )

    def test_without_min_resources_only_the_queue_must_be_open(self) -> None:
        bench = Bench(a_queue("shut", state="Closed"), a_group("in", 6), a_group("out", 6, queue="shut"))
        bench.run()
        assert group_named(bench, "in").admitted
        assert not group_named(bench, "out").admitted

    def test_the_room_is_held_for_its_pods(self) -> None:
        bench = Bench(a_node(gpu=8), a_group("gang", 6, **SIX_GPUS))
        bench.run(0.0)
        bench.put(a_pod("thief", gpu=4, created=1.0))
        assert bench.run(1.0) == {}
        assert bench.reasons == {
            "thief": "0/1 nodes are available: 1 node(s) had capacity kept for waiting PodGroup default/gang."
        }
        bench.put(*(a_pod(f"p{n}", group="gang", gpu=1, created=2.0) for n in range(6)))
        assert sorted(bench.run(2.0)) == [f"p{n}" for n in range(6)]

    def test_two_groups_are_not_let_in_onto_the_same_room(self) -> None:
        bench = Bench(a_node(gpu=8), a_group("one", 6, **SIX_GPUS), a_group("two", 6, created=1.0, **SIX_GPUS))
        bench.run(1.0)
        assert [group_named(bench, n).admitted for n in ("one", "two")] == [True, False]

    def test_the_hold_ends_and_others_get_their_turn(self) -> None:
        bench = Bench(a_node(gpu=8), a_group("gang", 6, **SIX_GPUS))
        bench.run(0.0)
        bench.put(a_pod("other", gpu=4, created=1.0))
        bench.run(1.0)
        assert bench.run(30.0) == {"other": "node"}
        assert not group_named(bench).admitted
        assert bench.result.wake_at == 60.0
        bench.remove("other")
        bench.run(40.0)
        assert not group_named(bench).admitted
        bench.run(60.0)
        assert group_named(bench).admitted
        bench.run(90.0)
        assert not group_named(bench).admitted
        assert bench.result.wake_at == 150.0

    def test_a_held_group_counts_for_its_queue(self) -> None:
        bench = Bench(a_node(gpu=8), a_queue("q", capability={"nvidia.com/gpu": "6"}))
        bench.put(a_group("gang", 6, queue="q", **SIX_GPUS), a_pod("other", gpu=1, queue="q", created=1.0))
        assert bench.run(1.0) == {}
        assert "resource quota insufficient" in bench.reasons["other"]

    def test_after_a_restart_an_admitted_group_is_looked_at_again(self) -> None:
        admitted = a_group("gang", 6, **SIX_GPUS) | {"status": {"phase": "Inqueue"}}
        full = Bench(a_node(gpu=8), admitted, a_pod("other", gpu=4, nodeName="node"))
        full.run()
        assert not group_named(full).admitted
        free = Bench(a_node(gpu=8), admitted)
        free.run()
        assert group_named(free).admitted

    def test_an_admission_that_waited_long_is_kept_room_for(self) -> None:
        bench = Bench(a_node(gpu=8), a_pod("now", gpu=4, nodeName="node"), a_group("gang", 6, **SIX_GPUS))
        bench.run(30.0)
        bench.put(a_pod("small", gpu=1, created=31.0))
        assert bench.run(31.0) == {}
        bench.remove("now")
        assert bench.run(32.0) == {"small": "node"}
        assert group_named(bench).admitted


class TestReservation:
    def test_smaller_ones_pass_until_the_gang_has_waited_long(self) -> None:
        bench = Bench(a_node(cpu=8), a_pod("running", cpu=4, nodeName="node"), *gang("gang", 2, cpu=4))
        bench.put(a_pod("small", cpu=1, created=1.0))
        assert bench.run(1.0) == {"small": "node"}
        assert bench.result.wake_at == 30.0
        bench.run(30.0)
        bench.put(a_pod("late", cpu=1, created=31.0))
        assert bench.run(31.0) == {}
        words = "0/1 nodes are available: 1 node(s) had capacity kept for waiting PodGroup default/gang."
        assert bench.reasons == {"late": words}
        bench.remove("running")
        assert bench.run(32.0) == {}
        bench.remove("small")
        assert sorted(bench.run(33.0)) == ["gang-0", "gang-1"]

    def test_only_the_nodes_it_needs_are_kept(self) -> None:
        bench = Bench(a_node("a", cpu=8), a_node("b", cpu=8), *gang("gang", 1, cpu=8))
        bench.put(*(a_pod(f"r{node}", cpu=cpu, nodeName=node) for node, cpu in (("a", 1), ("b", 4))))
        bench.run(30.0)
        bench.put(a_pod("small", cpu=2, created=31.0))
        assert bench.run(31.0) == {"small": "b"}

    def test_an_item_that_can_never_fit_gets_no_reservation(self) -> None:
        bench = Bench(a_node(cpu=8), *gang("gang", 3, cpu=4), a_pod("small", cpu=1, created=1.0))
        assert bench.run(100.0) == {"small": "node"}
        bench.put(a_pod("next", cpu=7, created=2.0))
        assert bench.run(101.0) == {"next": "node"}

    def test_a_gang_its_queue_will_never_allow_gets_none(self) -> None:
        bench = Bench(a_node(cpu=8), a_queue("q", capability={"cpu": "2"}), a_group("gang", 2, queue="q"))
        bench.put(*(a_pod(f"g{n}", group="gang", cpu=2) for n in range(2)), a_pod("small", cpu=8, created=1.0))
        assert bench.run(100.0) == {"small": "node"}

    def test_within_a_capped_queue_the_cap_is_kept_as_well(self) -> None:
        bench = Bench(a_node(cpu=80), a_queue("q", capability={"cpu": "4"}), a_group("gang", 2, queue="q"))
        bench.put(*(a_pod(f"g{n}", group="gang", cpu=2) for n in range(2)))
        bench.put(a_pod("running", cpu=1, queue="q", nodeName="node"))
        bench.run(30.0)
        bench.put(a_pod("small", cpu=1, queue="q", created=31.0))
        assert bench.run(31.0) == {}
        bench.remove("running")
        assert sorted(bench.run(32.0)) == ["g0", "g1"]

    def test_a_higher_priority_is_still_placed_first(self) -> None:
        bench = Bench(a_node(cpu=8), a_pod("running", cpu=4, nodeName="node"), *gang("gang", 2, cpu=4))
        bench.run(30.0)
        bench.put(a_pod("vip", cpu=4, created=31.0, priority=1))
        assert bench.run(31.0) == {"vip": "node"}

    def test_it_holds_against_other_queues_too(self) -> None:
        bench = Bench(a_node(cpu=8), a_queue("other"), a_pod("running", cpu=4, nodeName="node"))
        bench.put(*gang("gang", 2, cpu=4))
        bench.run(30.0)
        bench.put(a_pod("stranger", cpu=1, queue="other", created=31.0))
        assert bench.run(31.0) == {}

    def test_it_moves_away_from_a_removed_node(self) -> None:
        bench = Bench(a_node("a", cpu=8), a_node("b", cpu=8), *gang("gang", 1, cpu=8))
        bench.put(*(a_pod(f"r{node}", cpu=cpu, nodeName=node) for node, cpu in (("a", 1), ("b", 4))))
        bench.run(30.0)
        bench.state.drop_node("a")
        bench.put(a_pod("small", cpu=2, created=31.0))
        assert bench.run(31.0) == {}

    def test_it_ends_with_the_gang(self) -> None:
        bench = Bench(a_node(cpu=8), a_pod("running", cpu=4, nodeName="node"), *gang("gang", 2, cpu=4))
        bench.put(a_pod("small", cpu=2, created=1.0, schedulingGates=[{"name": "g"}]))
        bench.run(30.0)
        bench.remove("gang-0", "gang-1")
        bench.change("small", spec={"containers": bench.objects["small"]["spec"]["containers"]})
        assert bench.run(31.0) == {"small": "node"}

    def test_a_large_single_pod_is_not_starved_either(self) -> None:
        bench = Bench(a_node(gpu=8), a_pod("running", gpu=1, nodeName="node"), a_pod("large", gpu=8))
        bench.run(30.0)
        bench.put(a_pod("small", gpu=1, created=31.0))
        assert bench.run(31.0) == {}

    def test_the_schedule_timeout_of_a_plugin_group_gives_it_back(self) -> None:
        group = a_plugin_group("gang", 2, scheduleTimeoutSeconds=40)
        pods = [a_pod(f"g{n}", plugin_group="gang", cpu=4) for n in range(2)]
        bench = Bench(a_node(cpu=8), a_pod("running", cpu=4, nodeName="node"), group, *pods)
        bench.run(30.0)
        bench.put(a_pod("small", cpu=1, created=31.0))
        assert bench.run(31.0) == {}
        assert bench.run(40.0) == {"small": "node"}
        assert [g.key.name for g in bench.result.timed_out] == ["gang"]


def test_a_cycle_may_be_cut_short_and_the_next_continues() -> None:
    bench = Bench(a_node(), *(a_pod(f"p{n}") for n in range(5)), *gang("gang", 3, created=1.0))
    sizes = []
    while True:
        result = run_cycle(bench.state, 1.0, at_most=2)
        sizes.append(sum(len(p.assignments) for p in result.placements))
        if result.wake_at is None:
            break
    assert sizes == [2, 2, 4, 0]


class TestTelling:
    def test_a_reason_is_reported_once(self) -> None:
        bench = Bench(a_node(cpu=1), a_pod(cpu=2))
        bench.run(0.0)
        assert list(bench.reasons) == ["pod"]
        bench.run(20.0)
        assert bench.reasons == {}

    def test_a_changed_reason_is_reported_after_a_while(self) -> None:
        bench = Bench(a_node(cpu=1), a_pod(cpu=2))
        bench.run(0.0)
        bench.put(a_node("second", cpu=1))
        bench.run(1.0)
        assert bench.reasons == {}
        assert bench.result.wake_at == 10.0
        bench.run(10.0)
        assert bench.reasons == {"pod": "0/2 nodes are available: 2 Insufficient cpu."}

    def test_equals_share_one_look(self) -> None:
        bench = Bench(a_node(cpu=1), *(a_pod(f"p{n}", cpu=2) for n in range(1000)))
        bench.run(0.0)
        assert len(bench.reasons) == 1000
        assert len(bench.state.queues["default"].waiting_line.buckets) == 1
        bench.put(a_pod("new", cpu=2, created=1.0))
        bench.run(1.0)
        assert list(bench.reasons) == ["new"]

    def test_nothing_to_do_means_nothing_to_wake_for(self) -> None:
        bench = Bench(a_node(), a_pod())
        bench.run()
        assert bench.result.wake_at is None
