from __future__ import annotations

from typing import Any

import pytest

from muster.workflows.engine.errors import WorkflowError
from muster.workflows.engine.synchronization import HeldLocks, Lock, limit_of, locks_of
from muster.workflows.model import Outcome
from tests.workflows.engine.simulation import FakeView, Simulation, manifest, run_to_end

REF = {"configMapKeyRef": {"name": "limits", "key": "gpu"}}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"mutex": {"name": "m"}}, ["default/Mutex/m"]),
        ({"mutexes": [{"name": "m"}, {"name": "n", "namespace": "other"}]}, ["default/Mutex/m", "other/Mutex/n"]),
        ({"semaphore": REF}, ["default/ConfigMap/limits/gpu"]),
        ({"semaphores": [REF], "mutexes": [{"name": "m"}]}, ["default/ConfigMap/limits/gpu", "default/Mutex/m"]),
        ({"mutexes": [{"name": "m", "database": True}]}, ["default/Database/m"]),
    ],
)
def test_locks_in_all_spellings(written: dict[str, Any], expected: list[str]) -> None:
    assert [lock.name for lock in locks_of(written, "default")] == expected


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ({"semaphores": [{"database": {"key": "k"}}]}, "takes its limit from a database"),
        ({"semaphores": [{}]}, "without a configMapKeyRef"),
        ({"mutexes": [{"name": "m"}, {"name": "m"}]}, "duplicate synchronization item"),
    ],
)
def test_locks_that_cannot_be(written: dict[str, Any], problem: str) -> None:
    with pytest.raises(WorkflowError, match=problem):
        locks_of(written, "default")


@pytest.mark.parametrize(
    ("maps", "expected"),
    [
        ({"limits": {"gpu": "3"}}, 3),
        ({}, "does not exist"),
        ({"limits": {}}, "no key 'gpu'"),
        ({"limits": {"gpu": "x"}}, "'x'"),
    ],
)
def test_limits_of_semaphores(maps: dict[str, dict[str, str]], expected: int | str) -> None:
    lock = Lock("default/ConfigMap/limits/gpu", "semaphore", "limits", "gpu")
    if isinstance(expected, int):
        assert limit_of(lock, maps.get) == expected
        return
    with pytest.raises(WorkflowError, match=expected):
        limit_of(lock, maps.get)


def test_the_status_tells_who_holds_what_and_can_be_read_again() -> None:
    holdings = HeldLocks(None)
    mutex, semaphore = Lock("default/Mutex/m", "mutex"), Lock("default/ConfigMap/c/k", "semaphore")
    holdings.hold(mutex, "default/wf/1")
    holdings.wait(semaphore, "default/wf/2")
    holdings.hold(semaphore, "default/wf/3")
    status = holdings.status()
    assert status == {
        "mutex": {"holding": [{"mutex": "default/Mutex/m", "holder": "default/wf/1"}]},
        "semaphore": {
            "holding": [{"semaphore": "default/ConfigMap/c/k", "holders": ["default/wf/3"]}],
            "waiting": [{"semaphore": "default/ConfigMap/c/k", "holders": ["default/wf/2"]}],
        },
    }
    assert HeldLocks(status).status() == status
    for holder in ("default/wf/1", "default/wf/2", "default/wf/3"):
        for lock in holdings.of(holder):
            holdings.release(lock, holder)
    assert holdings.status() is None


NODES = """
entrypoint: main
templates:
- name: main
  steps: [[{name: a, template: locked, withItems: [1, 2, 3]}]]
- name: locked
  synchronization: {mutexes: [{name: gpu}]}
  container: {image: busybox}
"""


def test_nodes_take_turns() -> None:
    sim = Simulation(NODES)
    sim.step()
    assert sim.launched == ["wf[0].a(0:1)"]
    waiting = sim.node("a(1:2)")
    assert (waiting["phase"], waiting["type"]) == ("Pending", "Pod")
    assert waiting["message"] == "Waiting for default/Mutex/gpu lock. Lock status: 0/1"
    assert waiting["synchronizationStatus"] == {"waiting": "default/Mutex/gpu"}
    held = sim.run.status["synchronization"]["mutex"]["holding"]
    assert held == [{"mutex": "default/Mutex/gpu", "holder": f"default/wf/{sim.node('a(0:1)')['id']}"}]
    sim.round()
    assert sim.launched == ["wf[0].a(0:1)", "wf[0].a(1:2)"]
    assert "synchronizationStatus" not in sim.node("a(1:2)")
    assert "message" not in sim.node("a(1:2)")
    assert sim.finish().phase == "Succeeded"
    assert "synchronization" not in sim.run.status
    assert sim.view.locks.holders("default/Mutex/gpu") == []


def test_a_semaphore_lets_more_in() -> None:
    text = NODES.replace("mutexes: [{name: gpu}]", "semaphore: {configMapKeyRef: {name: limits, key: gpu}}")
    view = FakeView(config_maps={"limits": {"gpu": "2"}})
    sim = Simulation(text, view=view)
    sim.step()
    assert len(sim.open) == 2
    assert sim.finish().phase == "Succeeded"
    assert "ConfigMap 'limits' does not exist" in run_to_end(text).message


WHOLE = (
    "entrypoint: main\nsynchronization: {mutex: {name: gpu}}\ntemplates:\n- {name: main, container: {image: busybox}}"
)


def test_workflows_take_turns() -> None:
    view = FakeView()
    first, second = Simulation(manifest(WHOLE, "one"), view=view), Simulation(manifest(WHOLE, "two"), view=view)
    first.step()
    second.step()
    assert (second.phase, second.message) == ("Pending", "Waiting for default/Mutex/gpu lock. Lock status: 0/1")
    assert second.launched == []
    assert second.run.status["synchronization"]["mutex"]["waiting"] == [
        {"mutex": "default/Mutex/gpu", "holder": "default/two"}
    ]
    view.locks.waiting_for_turn()
    first.round()
    assert first.phase == "Succeeded"
    assert view.locks.waiting_for_turn() == ["default/two"]
    second.step()
    assert (second.phase, second.message) == ("Running", "")
    assert second.finish().phase == "Succeeded"


def test_a_workflow_that_waits_can_be_terminated() -> None:
    view = FakeView()
    view.locks.acquire("default/Mutex/gpu", "default/other", limit=1, priority=0, since="")
    sim = Simulation(WHOLE, view=view)
    sim.step()
    sim.workflow = {**sim.workflow, "spec": {**sim.workflow["spec"], "shutdown": "Terminate"}}
    sim.run.update(sim.workflow)
    sim.step()
    assert sim.phase == "Succeeded"


def test_a_lock_that_cannot_be_is_the_end_of_the_workflow() -> None:
    sim = run_to_end(WHOLE.replace("mutex: {name: gpu}", "semaphores: [{database: {key: k}}]"))
    assert sim.phase == "Failed"
    assert sim.message.startswith("Failed to acquire the synchronization lock. semaphore 'default/k'")


def test_a_mutex_in_a_database_is_kept_in_memory_and_said_so() -> None:
    sim = run_to_end(WHOLE.replace("{name: gpu}", "{name: gpu, database: true}"))
    assert sim.phase == "Succeeded"
    assert [n.reason for n in sim.news if n.type == "Warning"] == ["DatabaseLock"]


def test_all_locks_or_none() -> None:
    text = NODES.replace("mutexes: [{name: gpu}]", "mutexes: [{name: gpu}, {name: disk}]")
    view = FakeView()
    view.locks.acquire("default/Mutex/disk", "default/other", limit=1, priority=0, since="")
    sim = Simulation(text, view=view)
    sim.step()
    assert sim.launched == []
    assert view.locks.holders("default/Mutex/gpu") == []
    view.locks.release("default/Mutex/disk", "default/other")
    assert sim.finish().phase == "Succeeded"


def test_stopping_ends_those_who_wait() -> None:
    sim = Simulation(NODES, lambda launch: Outcome("Running"))
    sim.step()
    sim.round()
    sim.workflow = {**sim.workflow, "spec": {**sim.workflow["spec"], "shutdown": "Stop"}}
    sim.run.update(sim.workflow)
    sim.finish()
    assert sim.phase == "Failed"
    assert sim.node("a(2:3)")["message"] == "workflow shutdown with strategy: Stop"
    assert sim.view.locks.holders("default/Mutex/gpu") == []


def test_what_is_held_is_held_after_a_restart() -> None:
    sim = Simulation(NODES)
    sim.step()
    sim.view.locks = type(sim.view.locks)()
    sim.restart()
    assert len(sim.view.locks.holders("default/Mutex/gpu")) == 1
    sim.step()
    assert sim.launched == ["wf[0].a(0:1)"]
    assert sim.finish().phase == "Succeeded"
