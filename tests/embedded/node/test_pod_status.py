from __future__ import annotations

from typing import Any

import pytest

from muster.embedded.node.journal import progress_of
from muster.embedded.node.pod_status import PodPlace, WaitingReason, go_duration, pod_status
from muster.embedded.node.supervisor.contract import JournalEntry
from muster.kube.defaults import qos_class
from muster.kube.objects import Object

SUPERVISED: JournalEntry = {"t": 1.0, "e": "supervised", "pid": 1}


def pod(
    inits: list[dict[str, Any]] | None = None,
    containers: list[dict[str, Any]] | None = None,
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> Object:
    return {
        "metadata": {"name": "p", "namespace": "team", "uid": "u"},
        "spec": {
            "initContainers": inits or [],
            "containers": containers or [{"name": "main", "image": "img"}],
            "restartPolicy": "Never",
            **spec,
        },
        "status": status or {},
    }


def started(name: str, attempt: int = 0, t: float = 2.0) -> JournalEntry:
    return {"t": t, "e": "started", "c": name, "a": attempt, "pid": 9}


def exited(name: str, code: int = 0, attempt: int = 0, t: float = 3.0, **more: Any) -> JournalEntry:
    entry: dict[str, Any] = {"t": t, "e": "exited", "c": name, "a": attempt, "code": code, **more}
    return entry  # type: ignore[return-value]


def finished(phase: str, **more: Any) -> JournalEntry:
    entry: dict[str, Any] = {"t": 4.0, "e": "finished", "phase": phase, **more}
    return entry  # type: ignore[return-value]


def status(
    p: Object, *entries: JournalEntry, waiting: WaitingReason | None = None, now: float = 10.0
) -> dict[str, Any]:
    return pod_status(p, progress_of(entries), now, PodPlace("127.1.0.1"), waiting)


def brief(found: dict[str, Any]) -> dict[str, str]:
    """Conditions as `True` or `False reason`."""
    return {c["type"]: " ".join(filter(None, (c["status"], c.get("reason")))) for c in found["conditions"]}


def state(found: dict[str, Any], index: int = 0, key: str = "containerStatuses") -> str:
    """`running`, `waiting Reason`, `terminated Reason code`."""
    (kind, detail), = found[key][index]["state"].items()  # fmt: skip
    return " ".join(filter(None, (kind, detail.get("reason"), str(detail.get("exitCode", "")))))


INIT, SIDECAR = {"name": "init", "image": "i"}, {"name": "side", "image": "s", "restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("p", "entries", "phase", "states"),
    [
        (pod(), [], "Pending", ["waiting ContainerCreating"]),
        (pod(), [SUPERVISED], "Pending", ["waiting ContainerCreating"]),
        (pod(), [SUPERVISED, started("main")], "Running", ["running"]),
        (pod(), [started("main"), exited("main")], "Running", ["terminated Completed 0"]),
        (pod(), [started("main"), exited("main"), finished("Succeeded")], "Succeeded", ["terminated Completed 0"]),
        (pod(), [started("main"), exited("main", 3), finished("Failed")], "Failed", ["terminated Error 3"]),
        (
            pod(),
            [started("main"), exited("main", 137, reason="OOMKilled"), finished("Failed")],
            "Failed",
            ["terminated OOMKilled 137"],
        ),
        (
            pod(),
            [exited("main", 128, reason="StartError"), finished("Failed")],
            "Failed",
            ["terminated StartError 128"],
        ),
        (
            pod(),
            [started("main"), exited("main", 1), {"t": 3.0, "e": "backoff", "c": "main", "a": 1, "until": 13.0}],
            "Running",
            ["waiting CrashLoopBackOff"],
        ),
        (pod([INIT]), [SUPERVISED, started("init")], "Pending", ["waiting PodInitializing"]),
        (pod([INIT]), [started("init"), exited("init")], "Pending", ["waiting PodInitializing"]),
        (pod([INIT]), [started("init"), exited("init"), started("main")], "Running", ["running"]),
        (
            pod([INIT]),
            [started("init"), exited("init", 1), finished("Failed")],
            "Failed",
            ["waiting PodInitializing"],
        ),
        (pod([SIDECAR]), [started("side")], "Pending", ["waiting PodInitializing"]),
        (pod([SIDECAR]), [started("side"), started("main")], "Running", ["running"]),
        (
            pod(containers=[{"name": "a"}, {"name": "b"}]),
            [started("a"), exited("a"), started("b")],
            "Running",
            ["terminated Completed 0", "running"],
        ),
        (
            pod(containers=[{"name": "a"}, {"name": "b"}]),
            [started("a")],
            "Running",
            ["running", "waiting ContainerCreating"],
        ),
    ],
)
def test_phase_and_states(p: Object, entries: list[JournalEntry], phase: str, states: list[str]) -> None:
    found = status(p, *entries)
    assert found["phase"] == phase
    assert [state(found, i) for i in range(len(found["containerStatuses"]))] == states


TRUE_ALL = {
    "PodReadyToStartContainers": "True",
    "Initialized": "True",
    "Ready": "True",
    "ContainersReady": "True",
    "PodScheduled": "True",
}


@pytest.mark.parametrize(
    ("p", "entries", "expected"),
    [
        (
            pod(),
            [],
            {
                "PodReadyToStartContainers": "False",
                "Ready": "False ContainersNotReady",
                "ContainersReady": "False ContainersNotReady",
            },
        ),
        (pod(), [SUPERVISED, started("main")], {}),
        (
            pod(),
            [SUPERVISED, started("main"), exited("main"), finished("Succeeded")],
            {
                "PodReadyToStartContainers": "False",
                "Initialized": "True PodCompleted",
                "Ready": "False PodCompleted",
                "ContainersReady": "False PodCompleted",
            },
        ),
        (
            pod(),
            [SUPERVISED, started("main"), exited("main", 1), finished("Failed")],
            {
                "PodReadyToStartContainers": "False",
                "Ready": "False PodFailed",
                "ContainersReady": "False PodFailed",
            },
        ),
        (
            pod([INIT]),
            [SUPERVISED, started("init")],
            {
                "Initialized": "False ContainersNotInitialized",
                "Ready": "False ContainersNotReady",
                "ContainersReady": "False ContainersNotReady",
            },
        ),
        (
            pod([SIDECAR]),
            [SUPERVISED, started("main"), started("side"), exited("side", 1)],
            {"Ready": "False ContainersNotReady", "ContainersReady": "False ContainersNotReady"},
        ),
        (
            pod(readinessGates=[{"conditionType": "x/y"}]),
            [SUPERVISED, started("main")],
            {"Ready": "False ReadinessGatesNotReady"},
        ),
        (
            pod(
                readinessGates=[{"conditionType": "x/y"}],
                status={"conditions": [{"type": "x/y", "status": "True"}]},
            ),
            [SUPERVISED, started("main")],
            {"x/y": "True"},
        ),
    ],
)
def test_conditions(p: Object, entries: list[JournalEntry], expected: dict[str, str]) -> None:
    assert brief(status(p, *entries)) == {**TRUE_ALL, **expected}


READY: JournalEntry = {"t": 3.0, "e": "ready", "c": "main", "a": 0, "ready": True}
UNREADY: JournalEntry = {"t": 4.0, "e": "ready", "c": "main", "a": 0, "ready": False}
STARTUP: JournalEntry = {"t": 2.5, "e": "startup", "c": "main", "a": 0}


@pytest.mark.parametrize(
    ("probes", "entries", "began", "ready"),
    [
        ((), [], True, True),
        (("readinessProbe",), [], True, False),
        (("readinessProbe",), [READY], True, True),
        (("readinessProbe",), [READY, UNREADY], True, False),
        (("startupProbe",), [], False, False),
        (("startupProbe",), [STARTUP], True, True),
        (("startupProbe", "readinessProbe"), [STARTUP], True, False),
        (("livenessProbe",), [], True, True),
    ],
)
def test_probes_decide_about_started_and_ready(
    probes: tuple[str, ...], entries: list[JournalEntry], began: bool, ready: bool
) -> None:
    container = {"name": "main", **{probe: {"exec": {}} for probe in probes}}
    found = status(pod(containers=[container]), started("main"), *entries)["containerStatuses"][0]
    assert (found["started"], found["ready"]) == (began, ready)


def test_a_whole_status() -> None:
    found = status(
        pod([INIT]), SUPERVISED, started("init"), exited("init"), started("main", t=5.0),
        exited("main", 2, t=7.0, message="no data", signal=0), finished("Failed"),
    )  # fmt: skip
    assert found["startTime"] == "1970-01-01T00:00:01Z"
    assert (found["podIP"], found["podIPs"]) == ("127.1.0.1", [{"ip": "127.1.0.1"}])
    assert (found["hostIP"], found["qosClass"]) == ("127.0.0.1", "BestEffort")
    assert found["initContainerStatuses"][0]["ready"] is True
    assert found["containerStatuses"] == [
        {
            "name": "main",
            "state": {
                "terminated": {
                    "exitCode": 2,
                    "reason": "Error",
                    "message": "no data",
                    "startedAt": "1970-01-01T00:00:05Z",
                    "finishedAt": "1970-01-01T00:00:07Z",
                    "containerID": "process://u/main/0",
                }
            },
            "lastState": {},
            "ready": False,
            "restartCount": 0,
            "image": "img",
            "imageID": "",
            "started": False,
            "containerID": "process://u/main/0",
        }
    ]


def test_back_off_tells_what_went_before() -> None:
    entries: list[JournalEntry] = [
        started("main"),
        exited("main", 1),
        {"t": 3.0, "e": "backoff", "c": "main", "until": 83.0},
    ]
    waiting = status(pod(), *entries)["containerStatuses"][0]
    assert waiting["state"]["waiting"]["message"] == "back-off 1m20s restarting failed container=main pod=p_team(u)"
    assert waiting["lastState"]["terminated"]["exitCode"] == 1
    assert waiting["restartCount"] == 0
    running = status(pod(), *entries, started("main", 1, 83.0))["containerStatuses"][0]
    assert running["restartCount"] == 1
    assert running["lastState"]["terminated"]["exitCode"] == 1
    assert running["containerID"] == "process://u/main/1"


def test_the_status_says_why_the_pod_ended() -> None:
    found = status(pod(), started("main"), finished("Failed", reason="DeadlineExceeded", message="too long"))
    assert (found["phase"], found["reason"], found["message"]) == ("Failed", "DeadlineExceeded", "too long")


def test_a_pod_that_was_refused_has_a_reason_and_no_containers() -> None:
    p = pod(inits=[{"name": "first"}])
    found = status(p, finished("Failed", reason="SysctlForbidden", message="forbidden sysctl"))
    assert (found["phase"], found["reason"]) == ("Failed", "SysctlForbidden")
    assert "containerStatuses" not in found and "initContainerStatuses" not in found
    assert state(status(p, SUPERVISED, finished("Failed"))) == "waiting PodInitializing"


def test_the_status_says_which_generation_of_the_spec_it_is_about() -> None:
    p = pod()
    assert "observedGeneration" not in status(p, SUPERVISED)
    changed = {**p, "metadata": {**p["metadata"], "generation": 3}}
    assert status(changed, SUPERVISED)["observedGeneration"] == 3


def test_waiting_names_the_container_in_question() -> None:
    p = pod(containers=[{"name": "a"}, {"name": "b"}])
    found = status(p, waiting=WaitingReason("CreateContainerConfigError", 'secret "s" not found', "b"))
    assert [state(found, 0), state(found, 1)] == ["waiting ContainerCreating", "waiting CreateContainerConfigError"]
    assert found["containerStatuses"][1]["state"]["waiting"]["message"] == 'secret "s" not found'
    assert "containerID" not in found["containerStatuses"][1]


def test_times_stay_until_something_changes() -> None:
    first = status(pod(), SUPERVISED, started("main"), now=10.0)
    second = status(pod(status=first), SUPERVISED, started("main"), exited("main"), finished("Succeeded"), now=20.0)
    times = {c["type"]: c["lastTransitionTime"] for c in second["conditions"]}
    assert times["PodScheduled"] == times["Initialized"] == "1970-01-01T00:00:10Z"
    assert times["Ready"] == times["ContainersReady"] == "1970-01-01T00:00:20Z"
    assert second["startTime"] == first["startTime"]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ([{}], "BestEffort"),
        ([{"requests": {"cpu": "1"}}], "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}], "Guaranteed"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}}], "Guaranteed"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}], "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}, {}], "Burstable"),
        ([{"limits": {"nvidia.com/gpu": "1"}}], "BestEffort"),
    ],
)
def test_qos_class(resources: list[dict[str, Any]], expected: str) -> None:
    assert qos_class({"containers": [{"resources": r} for r in resources]}) == expected


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.25, "250ms"), (10, "10s"), (80, "1m20s"), (300, "5m0s"), (3661, "1h1m1s")],
)
def test_go_duration(seconds: float, text: str) -> None:
    assert go_duration(seconds) == text
