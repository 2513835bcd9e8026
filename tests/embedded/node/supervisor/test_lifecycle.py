from __future__ import annotations

from collections.abc import Sequence

import pytest

from muster.embedded.node.supervisor.contract import ContainerRole, RestartPolicy
from muster.embedded.node.supervisor.lifecycle import (
    DEADLINE_MESSAGE,
    Action,
    BackOff,
    ContainerState,
    EndPod,
    Finish,
    PodState,
    Start,
    StartOrder,
    Stop,
    apply_action,
    decide,
    next_wakeup,
    record_exit,
)


def pod_of(policy: RestartPolicy = "Never", deadline: float | None = None, **roles: ContainerRole) -> PodState:
    containers = [ContainerState(name, role) for name, role in roles.items()]
    return PodState(containers, policy, deadline=deadline, grace=30.0, backoff_base=10.0, backoff_max=300.0)


def go_on(pod: PodState, now: float) -> list[Action]:
    """Returns everything that is decided and done at this time."""
    done: list[Action] = []
    while not (done and isinstance(done[-1], Finish)) and (actions := decide(pod, now)):
        for action in actions:
            apply_action(pod, action, now)
        done += actions
    return done


@pytest.mark.parametrize(
    ("policy", "codes", "phase"),
    [
        ("Never", (0,), "Succeeded"),
        ("Never", (1,), "Failed"),
        ("Never", (0, 3), "Failed"),
        ("OnFailure", (0, 0), "Succeeded"),
    ],
)
def test_a_pod_ends_when_no_main_container_will_run_again(
    policy: RestartPolicy, codes: Sequence[int], phase: str
) -> None:
    pod = PodState([ContainerState(f"c{i}", "main") for i in range(len(codes))], policy)
    assert go_on(pod, 0.0) == [Start(f"c{i}", 0) for i in range(len(codes))]
    for i, code in enumerate(codes):
        assert decide(pod, 1.0) == []
        record_exit(pod, f"c{i}", code, 1.0)
    assert go_on(pod, 1.0)[-1] == Finish("Succeeded" if phase == "Succeeded" else "Failed")


@pytest.mark.parametrize(
    ("policy", "role", "code", "again"),
    [
        ("Always", "main", 0, True),
        ("Always", "main", 1, True),
        ("OnFailure", "main", 0, False),
        ("OnFailure", "main", 1, True),
        ("Never", "main", 1, False),
        ("Always", "init", 0, False),
        ("Always", "init", 1, True),
        ("OnFailure", "init", 1, True),
        ("Never", "init", 1, False),
        ("Never", "sidecar", 0, True),
        ("Never", "sidecar", 1, True),
    ],
)
def test_restart_policies(policy: RestartPolicy, role: ContainerRole, code: int, again: bool) -> None:
    pod = pod_of(policy, it=role, other="main")
    assert go_on(pod, 0.0)[0] == Start("it", 0)
    record_exit(pod, "it", code, 1.0)
    assert (Start("it", 1) in go_on(pod, 1.0)) is again


def test_the_first_restart_comes_at_once_and_then_the_wait_doubles() -> None:
    pod = pod_of("Always", c="main")
    now, waits = 0.0, []
    assert go_on(pod, now) == [Start("c", 0)]
    for attempt in range(1, 9):
        now += 1.0
        record_exit(pod, "c", 1, now)
        actions = go_on(pod, now)
        until = now
        if isinstance(actions[0], BackOff):
            assert actions == [BackOff("c", attempt, actions[0].until)]
            until = actions[0].until
            assert next_wakeup(pod) == until
            assert decide(pod, until - 0.1) == []
            actions = go_on(pod, until)
        assert actions == [Start("c", attempt)]
        waits.append(until - now)
        now = until
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300]


def test_a_long_run_ends_the_back_off() -> None:
    pod = pod_of("Always", c="main")
    go_on(pod, 0.0)
    for now in (1.0, 2.0):
        record_exit(pod, "c", 1, now)
        go_on(pod, now)
    assert go_on(pod, 12.0) == [Start("c", 2)]
    record_exit(pod, "c", 1, 12.0 + 600.0)
    assert go_on(pod, 612.0) == [Start("c", 3)]
    record_exit(pod, "c", 1, 613.0)
    assert go_on(pod, 613.0) == [BackOff("c", 4, 623.0)]


def test_init_containers_run_one_after_the_other_and_before_the_main_ones() -> None:
    pod = pod_of("Never", first="init", second="init", main="main")
    assert go_on(pod, 0.0) == [Start("first", 0)]
    assert go_on(pod, 1.0) == []
    record_exit(pod, "first", 0, 2.0)
    assert go_on(pod, 2.0) == [Start("second", 0)]
    record_exit(pod, "second", 0, 3.0)
    assert go_on(pod, 3.0) == [Start("main", 0)]


def test_a_failed_init_container_fails_the_pod_that_does_not_restart() -> None:
    pod = pod_of("Never", helper="sidecar", init="init", main="main")
    go_on(pod, 0.0)
    pod["helper"].passed = True
    assert go_on(pod, 0.0) == [Start("init", 0)]
    record_exit(pod, "init", 4, 1.0)
    assert go_on(pod, 1.0) == [EndPod(30.0), Stop("helper", 31.0)]
    record_exit(pod, "helper", 143, 2.0)
    assert go_on(pod, 2.0) == [Finish("Failed")]


def test_containers_wait_until_the_sidecars_before_them_are_up() -> None:
    pod = pod_of("Never", one="sidecar", two="sidecar", main="main")
    assert go_on(pod, 0.0) == [Start("one", 0)]
    assert go_on(pod, 1.0) == []
    pod["one"].passed = True
    assert go_on(pod, 2.0) == [Start("two", 0)]
    record_exit(pod, "one", 1, 3.0)
    assert go_on(pod, 3.0) == [Start("one", 1)]
    pod["two"].passed = True
    assert go_on(pod, 4.0) == [Start("main", 0)]


def test_sidecars_stop_last_and_in_reverse_order() -> None:
    pod = pod_of("Never", one="sidecar", two="sidecar", main="main")
    for name in ("one", "two"):
        go_on(pod, 0.0)
        pod[name].passed = True
    go_on(pod, 0.0)
    record_exit(pod, "main", 0, 5.0)
    assert go_on(pod, 5.0) == [EndPod(30.0), Stop("two", 35.0)]
    assert go_on(pod, 6.0) == []
    record_exit(pod, "two", 143, 7.0)
    assert go_on(pod, 7.0) == [Stop("one", 35.0)]
    record_exit(pod, "one", 137, 35.0)
    assert go_on(pod, 35.0) == [Finish("Succeeded")]


def test_a_request_to_stop_stops_the_main_containers_first() -> None:
    pod = pod_of("Always", helper="sidecar", a="main", b="main")
    go_on(pod, 0.0)
    pod["helper"].passed = True
    go_on(pod, 0.0)
    record_exit(pod, "b", 1, 1.0)
    apply_action(pod, EndPod(10.0), 1.0)
    assert go_on(pod, 1.0) == [Stop("a", 11.0)]
    record_exit(pod, "a", 0, 2.0)
    assert go_on(pod, 2.0) == [Stop("helper", 11.0)]
    record_exit(pod, "helper", 0, 3.0)
    assert go_on(pod, 3.0) == [Finish("Failed")]


def test_a_second_request_can_shorten_the_grace_period_but_not_extend_it() -> None:
    pod = pod_of("Never", c="main")
    go_on(pod, 0.0)
    apply_action(pod, EndPod(30.0, "Evicted", "why"), 0.0)
    assert go_on(pod, 0.0) == [Stop("c", 30.0)]
    apply_action(pod, EndPod(100.0), 1.0)
    assert go_on(pod, 1.0) == []
    apply_action(pod, EndPod(0.0, "Other", ""), 2.0)
    assert go_on(pod, 2.0) == [Stop("c", 2.0)]
    record_exit(pod, "c", 0, 2.0)
    assert go_on(pod, 2.0) == [Finish("Failed", "Evicted", "why")]


def test_a_pod_that_waits_for_its_back_off_can_be_stopped() -> None:
    pod = pod_of("Always", c="main")
    go_on(pod, 0.0)
    for now in (1.0, 2.0):
        record_exit(pod, "c", 1, now)
        go_on(pod, now)
    assert pod["c"].phase == "waiting"
    apply_action(pod, EndPod(30.0), 3.0)
    assert go_on(pod, 3.0) == [Finish("Failed")]


def test_the_deadline_fails_the_pod_however_its_containers_end() -> None:
    pod = pod_of("Never", deadline=100.0, c="main")
    go_on(pod, 0.0)
    assert next_wakeup(pod) == 100.0
    assert go_on(pod, 99.0) == []
    assert go_on(pod, 100.0) == [EndPod(30.0, "DeadlineExceeded", DEADLINE_MESSAGE), Stop("c", 130.0)]
    record_exit(pod, "c", 0, 101.0)
    assert go_on(pod, 101.0) == [Finish("Failed", "DeadlineExceeded", DEADLINE_MESSAGE)]


def test_the_deadline_of_work_that_is_done_does_not_matter() -> None:
    pod = pod_of("Never", deadline=100.0, helper="sidecar", c="main")
    go_on(pod, 0.0)
    pod["helper"].passed = True
    go_on(pod, 0.0)
    record_exit(pod, "c", 0, 99.0)
    assert go_on(pod, 99.0) == [EndPod(30.0), Stop("helper", 129.0)]
    record_exit(pod, "helper", 0, 101.0)
    assert go_on(pod, 101.0) == [Finish("Succeeded")]


def ordered(order: StartOrder, *names: str) -> PodState:
    return PodState([ContainerState(name, "main") for name in names], "Never", grace=30.0, order=order)


def test_containers_start_when_those_before_them_have_succeeded() -> None:
    pod = ordered(StartOrder(frozenset("abc"), {"b": ["a"], "c": ["a", "b"]}), "c", "b", "a")
    assert go_on(pod, 0.0) == [Start("a", 0)]
    record_exit(pod, "a", 0, 1.0)
    assert go_on(pod, 1.0) == [Start("b", 0)]
    record_exit(pod, "b", 0, 2.0)
    assert go_on(pod, 2.0) == [Start("c", 0)]
    record_exit(pod, "c", 0, 3.0)
    assert go_on(pod, 3.0) == [EndPod(30.0), Finish("Succeeded")]


def test_a_leading_container_that_fails_ends_the_others() -> None:
    pod = ordered(StartOrder(frozenset("abc"), {"b": ["a"]}), "a", "b", "c")
    assert go_on(pod, 0.0) == [Start("a", 0), Start("c", 0)]
    record_exit(pod, "a", 1, 1.0)
    assert go_on(pod, 1.0) == [EndPod(30.0), Stop("c", 31.0)]
    record_exit(pod, "c", 143, 2.0)
    assert go_on(pod, 2.0) == [Finish("Failed")]


@pytest.mark.parametrize(("stopped", "phase"), [(True, "Succeeded"), (False, "Failed")])
def test_a_helper_may_be_stopped_but_not_fail(stopped: bool, phase: str) -> None:
    pod = ordered(StartOrder(frozenset({"main"})), "main", "helper")
    go_on(pod, 0.0)
    if not stopped:
        record_exit(pod, "helper", 1, 1.0)
        assert go_on(pod, 1.0) == []
    record_exit(pod, "main", 0, 2.0)
    ended = go_on(pod, 2.0)
    if stopped:
        assert ended == [EndPod(30.0), Stop("helper", 32.0)]
        record_exit(pod, "helper", 143, 3.0)
        ended = go_on(pod, 3.0)
    assert ended[-1] == Finish("Succeeded" if phase == "Succeeded" else "Failed")


def test_a_leading_container_is_tried_again_as_often_as_it_says() -> None:
    pod = ordered(StartOrder(frozenset({"a"}), retries=1, retry_seconds=5.0), "a")
    go_on(pod, 0.0)
    record_exit(pod, "a", 1, 1.0)
    assert go_on(pod, 1.0) == [BackOff("a", 1, 6.0)]
    assert go_on(pod, 6.0) == [Start("a", 1)]
    record_exit(pod, "a", 1, 7.0)
    assert go_on(pod, 7.0) == [EndPod(30.0), Finish("Failed")]
