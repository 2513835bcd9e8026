from __future__ import annotations

from muster.embedded.node.supervisor.contract import JournalEntry, RestartPolicy
from muster.embedded.node.supervisor.lifecycle import (
    BackOff,
    ContainerState,
    Finish,
    PodState,
    Start,
    apply_action,
    decide,
)
from muster.embedded.node.supervisor.pod_supervisor import restore_state


def pod_of(policy: RestartPolicy) -> PodState:
    return PodState(
        [ContainerState("init", "init"), ContainerState("main", "main")], policy, backoff_base=10.0, backoff_max=300.0
    )


STARTING: JournalEntry = {"t": 3.0, "e": "starting", "c": "main", "a": 0}
STARTED: JournalEntry = {"t": 3.5, "e": "started", "c": "main", "a": 0, "pid": 1}
INIT: list[JournalEntry] = [
    {"t": 1.0, "e": "supervised", "pid": 1},
    {"t": 1.0, "e": "starting", "c": "init", "a": 0},
    {"t": 1.1, "e": "started", "c": "init", "a": 0, "pid": 2},
    {"t": 2.0, "e": "exited", "c": "init", "a": 0, "code": 0},
]


def test_an_ended_pod_is_not_run_again() -> None:
    pod = pod_of("OnFailure")
    assert restore_state(pod, INIT, 10.0) == []
    assert decide(pod, 10.0) == [Start("main", 0)]


def test_what_was_running_or_about_to_is_lost() -> None:
    for entries in ([STARTING], [STARTING, STARTED]):
        pod = pod_of("Never")
        (lost,) = restore_state(pod, [*INIT, *entries], 10.0)
        assert (lost["c"], lost["a"], lost["code"], lost["reason"]) == ("main", 0, 137, "ContainerStatusUnknown")
        for action in decide(pod, 10.0):
            apply_action(pod, action, 10.0)
        assert decide(pod, 10.0) == [Finish("Failed")]


def test_what_was_lost_is_restarted_where_the_policy_says_so() -> None:
    pod = pod_of("OnFailure")
    restore_state(pod, [*INIT, STARTING, STARTED], 10.0)
    assert decide(pod, 10.0) == [Start("main", 1)]


def test_the_back_off_goes_on_where_it_was() -> None:
    pod = pod_of("Always")
    crashed: list[JournalEntry] = [
        *INIT,
        STARTING,
        {"t": 4.0, "e": "exited", "c": "main", "a": 0, "code": 1},
        {"t": 4.0, "e": "starting", "c": "main", "a": 1},
        {"t": 5.0, "e": "exited", "c": "main", "a": 1, "code": 1},
    ]
    assert restore_state(pod, crashed, 6.0) == []
    assert decide(pod, 6.0) == [BackOff("main", 2, 15.0)]
    pod = pod_of("Always")
    restore_state(pod, [*crashed, {"t": 5.0, "e": "backoff", "c": "main", "a": 2, "until": 15.0}], 6.0)
    assert decide(pod, 6.0) == []
    assert decide(pod, 15.0) == [Start("main", 2)]


def test_a_pod_whose_containers_have_ended_is_finished_after_a_crash() -> None:
    pod = pod_of("Never")
    done: list[JournalEntry] = [*INIT, STARTING, STARTED, {"t": 4.0, "e": "exited", "c": "main", "a": 0, "code": 0}]
    assert restore_state(pod, done, 6.0) == []
    for action in decide(pod, 6.0):
        apply_action(pod, action, 6.0)
    assert decide(pod, 6.0) == [Finish("Succeeded")]
