"""The workflow controller: changes by others while a workflow runs, restarts and failures."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from muster.kube.builtin import CONFIG_MAP
from muster.kube.errors import Conflict, StorageFull
from muster.kube.objects import Key, Object, labels_of, status_of, version_of
from muster.workflows.kinds import WORKFLOW
from muster.workflows.operations import control
from muster.workflows.operations.apply import write
from tests.workflows.controlled_cluster import Stage, dag, stage, task

SEMAPHORE = {"semaphores": [{"configMapKeyRef": {"name": "limits", "key": "gpus"}}]}
MUTEX = {"mutexes": [{"name": "one"}]}


@pytest.fixture
async def s(tmp_path: Path) -> AsyncIterator[Stage]:
    async with stage(tmp_path) as found:
        yield found


async def test_a_workflow_runs_to_its_end_and_its_labels_tell(s: Stage) -> None:
    await s.create("wf", dag({"name": "a"}, {"name": "b", "depends": "a"}), task())
    await s.launched("a")
    await s.until(lambda: s.phase("wf") == "Running")
    assert labels_of(s.workflow("wf")) == {
        "workflows.argoproj.io/phase": "Running",
        "workflows.argoproj.io/completed": "false",
    }
    s.executor.tell("wf", "a")
    await s.launched("a", "b")
    s.executor.tell("wf", "b")
    assert await s.ended("wf") == "Succeeded"
    assert labels_of(s.workflow("wf")) == {
        "workflows.argoproj.io/phase": "Succeeded",
        "workflows.argoproj.io/completed": "true",
    }
    await s.until(lambda: s.recorder.events[-1][0] == "WorkflowSucceeded")  # they are recorded after the status
    reasons = [reason for reason, _ in s.recorder.events]
    assert (reasons[0], reasons[-1]) == ("WorkflowRunning", "WorkflowSucceeded")
    assert Counter(reasons[1:-1]) == {"WorkflowNodeRunning": 3, "WorkflowNodeSucceeded": 3}


async def test_durations_are_estimated_from_the_last_success_of_the_same_template(s: Stage) -> None:
    labels = {"workflows.argoproj.io/workflow-template": "train"}
    for number, name in enumerate(("first", "second", "other"), 1):
        await s.create(name, dag({"name": "a"}), task(), labels={} if name == "other" else labels)
        await s.launched(*["a"] * number)
        s.executor.tell(name, "a")
        assert await s.ended(name) == "Succeeded"
    first, second, other = (status_of(s.workflow(name)) for name in ("first", "second", "other"))
    assert "estimatedDuration" not in first and "estimatedDuration" not in other
    assert second["estimatedDuration"] >= 1
    assert all(node["estimatedDuration"] >= 1 for node in second["nodes"].values())


async def test_nodes_are_rows_of_their_own(s: Stage) -> None:
    await s.create("wf", dag({"name": "a"}), task())
    await s.launched("a")
    plain = s.cluster.store.get(WORKFLOW.resource, Key("default", "wf"))
    assert "nodes" not in status_of(plain or {})
    assert {node["displayName"] for node in status_of(s.workflow("wf"))["nodes"].values()} == {"wf", "a"}


async def test_a_workflow_that_is_wrong_is_refused_before_anything_runs(s: Stage) -> None:
    """Most mistakes are reported on creation. References to other objects are checked when it starts."""
    template = dag({"name": "a"})
    arguments = {"parameters": [{"name": "model"}]}
    await s.cluster.create({
        "apiVersion": WORKFLOW.api_version,
        "kind": "WorkflowTemplate",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"entrypoint": "main", "templates": [template, task()], "arguments": arguments},
    })  # fmt: skip
    said = {
        "gone": 'spec.workflowTemplateRef.name: workflowtemplates.argoproj.io "gone" not found',
        "train": "spec.arguments.parameters[0]: model.value or model.valueFrom is required",
    }
    for name, problem in said.items():
        await s.create(f"wf-{name}", task(), workflowTemplateRef={"name": name}, templates=None, entrypoint=None)
        assert await s.ended(f"wf-{name}") == "Failed"
        status = status_of(s.workflow(f"wf-{name}"))
        assert status["message"].startswith("invalid spec: ")
        assert problem in status["message"]
        assert status["finishedAt"] >= status["startedAt"]
        assert s.recorder.events[-1] == ("WorkflowFailed", status["message"])
    assert s.executor.launched == []


async def test_a_volume_that_cannot_be_claimed_is_the_end(s: Stage) -> None:
    claim = {"metadata": {"name": "work"}, "spec": {"accessModes": ["ReadSometimes"]}}
    await s.create("wf", dag({"name": "a"}), task(), volumeClaimTemplates=[claim])
    assert await s.ended("wf") == "Error"
    assert status_of(s.workflow("wf"))["message"].startswith("pvc create error: ")
    assert "spec.accessModes[0]" in status_of(s.workflow("wf"))["message"]
    assert s.executor.launched == []


async def test_a_change_of_labels_leaves_a_run_alone(s: Stage) -> None:
    await s.create("wf", dag({"name": "a"}, {"name": "b", "depends": "a"}), task())
    await s.launched("a")
    await s.patch("wf", {"metadata": {"labels": {"team": "x"}, "annotations": {"note": "y"}}})
    s.executor.tell("wf", "a")
    await s.launched("a", "b")
    s.executor.tell("wf", "b")
    assert await s.ended("wf") == "Succeeded"
    assert labels_of(s.workflow("wf"))["team"] == "x"


async def test_who_changes_it_all_the_time_neither_stops_it_nor_has_anything_done_twice(s: Stage) -> None:
    names = [f"t{number}" for number in range(40)]
    tasks = [{"name": name, **({"depends": names[i - 4]} if i > 3 else {})} for i, name in enumerate(names)]
    await s.create("wf", dag(*tasks), task())
    changes = 0

    async def change() -> None:
        nonlocal changes
        while True:
            await s.patch("wf", {"metadata": {"labels": {"changes": str(changes)}}})
            changes += 1

    storm = asyncio.create_task(change())
    for number in range(len(names)):
        await s.number_launched(number + 1)
        s.executor.tell("wf", s.executor.launched[number], "Running")
        s.executor.tell("wf", s.executor.launched[number])
    assert await s.ended("wf") == "Succeeded"
    storm.cancel()
    await asyncio.gather(storm, return_exceptions=True)
    assert sorted(s.executor.launched) == sorted(names)
    assert changes > 5
    assert int(labels_of(s.workflow("wf"))["changes"]) >= changes - 1


async def test_suspend_and_resume(s: Stage) -> None:
    await s.create("wf", dag({"name": "a"}, {"name": "b", "depends": "a"}), task())
    await s.launched("a")
    await s.patch("wf", {"spec": {"suspend": True}})
    s.executor.tell("wf", "a")
    await s.until(lambda: s.phase("wf", "a") == "Succeeded")
    await s.settled()
    assert s.executor.launched == ["a"]
    await s.patch("wf", {"spec": {"suspend": None}})
    await s.launched("a", "b")


async def test_stop_ends_what_runs_and_exit_handlers_run(s: Stage) -> None:
    await s.create("wf", dag({"name": "a"}, {"name": "b"}), task(), task("bye"), onExit="bye")
    await s.launched("a", "b")
    s.executor.tell("wf", "a", "Running")
    await s.until(lambda: s.phase("wf", "a") == "Running")
    await s.patch("wf", {"spec": {"shutdown": "Stop"}})
    await s.until(lambda: sorted(s.executor.stopped) == [("a", False), ("b", False)])
    s.executor.tell("wf", "a", "Failed", "killed")
    await s.until(lambda: "wf.onExit" in s.executor.launched)
    s.executor.tell("wf", "wf.onExit")
    assert await s.ended("wf") == "Failed"
    assert [s.phase("wf", name) for name in ("a", "b", "wf.onExit")] == ["Failed", "Failed", "Succeeded"]


async def test_terminate_ends_all_at_once(s: Stage) -> None:
    await s.create("wf", dag({"name": "a"}), task(), task("bye"), onExit="bye")
    await s.launched("a")
    s.executor.tell("wf", "a", "Running")
    await s.until(lambda: s.phase("wf", "a") == "Running")
    await s.patch("wf", {"spec": {"shutdown": "Terminate"}})
    await s.until(lambda: s.executor.stopped == [("a", True)])
    s.executor.tell("wf", "a", "Failed", "killed")
    assert await s.ended("wf") == "Failed"
    assert "wf.onExit" not in s.executor.launched


async def test_nodes_that_somebody_writes_are_taken_over_and_what_runs_goes_on(s: Stage) -> None:
    """As `argo node set` and `argo resume` do."""
    supplied = {"name": "answer", "valueFrom": {"supplied": {}}}
    ask = {"name": "ask", "suspend": {}, "outputs": {"parameters": [supplied]}}
    value = {"parameters": [{"name": "text", "value": "{{tasks.ask.outputs.parameters.answer}}"}]}
    use = task("use", inputs={"parameters": [{"name": "text"}]})
    last = {"name": "use", "template": "use", "depends": "ask && other", "arguments": value}
    await s.create("wf", dag({"name": "ask", "template": "ask"}, {"name": "other"}, last), task(), ask, use)
    await s.launched("other")
    await s.until(lambda: s.phase("wf", "ask") == "Running")
    s.executor.tell("wf", "other", "Running")
    await s.until(lambda: s.phase("wf", "other") == "Running")
    before = s.workflow("wf")
    answered = control.set_outputs(before, "displayName=ask", outputs={"answer": "42"})
    await write(s.cluster, before, answered)
    before = s.workflow("wf")
    await write(s.cluster, before, control.resume(before, "displayName=ask"))
    await s.until(lambda: s.phase("wf", "ask") == "Succeeded")
    s.executor.tell("wf", "other")
    await s.launched("other", "use")
    node = next(n for n in status_of(s.workflow("wf"))["nodes"].values() if n["displayName"] == "use")
    assert node["inputs"]["parameters"] == [{"name": "text", "value": "42"}]
    assert set(s.executor.begun) == {"other"}
    assert all(kept == ["other"] for kept in s.executor.kept)


async def test_what_was_heard_while_somebody_wrote_nodes_is_not_forgotten(s: Stage) -> None:
    """The step is discarded, because nodes were written meanwhile."""
    ask = {"name": "ask", "suspend": {}}
    tasks = [{"name": "ask", "template": "ask"}, *({"name": f"t{n}"} for n in range(20))]
    tasks.append({"name": "last", "depends": " && ".join(["ask", *(f"t{n}" for n in range(20))])})
    await s.create("wf", dag(*tasks), task(), ask)
    await s.launched(*(f"t{n}" for n in range(20)))
    before = s.workflow("wf")
    writing = asyncio.create_task(write(s.cluster, before, control.resume(before, "displayName=ask")))
    for number in range(20):
        s.executor.tell("wf", f"t{number}")
        await asyncio.sleep(0)
    await writing
    await s.until(lambda: "last" in s.executor.launched, lambda: s.workflow("wf"))


async def test_a_store_that_is_full_for_a_while_costs_nothing(s: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    await s.create("wf", dag({"name": "a"}, {"name": "b", "depends": "a"}), task())
    await s.launched("a")
    await s.until(lambda: s.phase("wf") == "Running")
    append, refused = s.cluster.store.database.append, 0

    def full(rows: Any, shared: Any) -> None:
        nonlocal refused
        refused += 1
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(s.cluster.store.database, "append", full)
    s.executor.tell("wf", "a")
    await s.until(lambda: refused > 1)
    assert set(s.executor.launched) == {"a"}
    monkeypatch.setattr(s.cluster.store.database, "append", append)
    await s.until(lambda: "b" in s.executor.launched)
    assert s.phase("wf", "a") == "Succeeded"


async def test_a_workflow_that_is_deleted_is_forgotten_and_a_namesake_begins_anew(s: Stage) -> None:
    await s.create("wf", dag({"name": "a"}), task(), synchronization=MUTEX)
    await s.launched("a")
    await s.cluster.delete(WORKFLOW, "wf", "default")
    await s.create("wf", dag({"name": "b"}), task(), synchronization=MUTEX)
    await s.launched("a", "b")
    s.executor.tell("wf", "b")
    assert await s.ended("wf") == "Succeeded"
    assert {n["displayName"] for n in status_of(s.workflow("wf"))["nodes"].values()} == {"wf", "b"}


async def test_a_launch_that_fails_is_tried_again_and_told(s: Stage) -> None:
    s.executor.trouble = Conflict("an earlier Pod is still being deleted")
    await s.create("wf", dag({"name": "a"}), task())
    await s.until(lambda: s.executor.failed >= 2)
    assert s.phase("wf", "a") == "Pending"
    assert (
        "WorkflowNodeRetry",
        "wf.a could not be started and will be retried: an earlier Pod is still being deleted",
    ) in (s.recorder.events)
    s.executor.trouble = None
    await s.launched("a")
    s.executor.tell("wf", "a")
    assert await s.ended("wf") == "Succeeded"


@pytest.mark.parametrize("how", ["Stop", "Terminate"])
async def test_a_launch_that_keeps_failing_can_be_stopped(s: Stage, how: str) -> None:
    s.executor.trouble = StorageFull("the disk is full")
    await s.create("wf", dag({"name": "a"}), task())
    await s.until(lambda: s.executor.failed)
    await s.patch("wf", {"spec": {"shutdown": how}})
    assert await s.ended("wf") == "Failed"
    failed = s.executor.failed
    await s.settled()
    await asyncio.sleep(0.3)  # twice the pause before another attempt
    assert s.executor.failed == failed


async def test_after_a_restart_what_is_unfinished_is_launched_again_and_all_else_is_ended(s: Stage) -> None:
    await s.create("wf", dag({"name": "a"}, {"name": "b"}, {"name": "c"}), task())
    await s.launched("a", "b", "c")
    s.executor.tell("wf", "a")
    s.executor.tell("wf", "b", "Running")
    await s.until(lambda: (s.phase("wf", "a"), s.phase("wf", "b")) == ("Succeeded", "Running"))
    await s.restart()
    await s.launched("c")
    assert s.executor.begun == ["b"]
    assert len(s.executor.kept) == 1
    assert len(s.executor.kept[0]) == 2
    s.executor.tell("wf", "b")
    s.executor.tell("wf", "c")
    assert await s.ended("wf") == "Succeeded"
    await s.restart()
    await s.until(lambda: s.executor.kept == [[]])  # it may have ended before it stopped everything
    assert s.executor.launched == s.executor.begun == []


async def test_a_semaphore_across_workflows_whose_limit_is_raised(s: Stage) -> None:
    await s.limit(1)
    for number in range(4):
        await s.create(f"wf-{number}", dag({"name": f"t{number}"}), task(), synchronization=SEMAPHORE)
        await s.until(partial(s.phase, f"wf-{number}"))
    await s.launched("t0")
    await s.settled()
    assert s.executor.launched == ["t0"]
    assert s.phase("wf-1") == "Pending"
    assert "Waiting for default/ConfigMap/limits/gpus lock" in status_of(s.workflow("wf-1"))["message"]
    await s.limit(3)
    await s.launched("t0", "t1", "t2")
    s.executor.tell("wf-1", "t1")
    await s.launched("t0", "t1", "t2", "t3")
    assert "synchronization" not in status_of(s.workflow("wf-1"))


async def test_templates_share_a_lock_with_those_of_other_workflows(s: Stage) -> None:
    for name in ("wf-0", "wf-1"):
        names = [{"name": f"{name}-{letter}"} for letter in "ab"]
        await s.create(name, dag(*names), task(synchronization=MUTEX))
    for count in range(1, 5):
        await s.number_launched(count)
        await s.settled()
        assert len(s.executor.launched) == count
        name = s.executor.launched[-1]
        s.executor.tell(name[:4], name)
    assert {await s.ended("wf-0"), await s.ended("wf-1")} == {"Succeeded"}


async def test_who_held_a_lock_holds_it_after_a_restart_whoever_is_looked_at_first(s: Stage) -> None:
    await s.create("zz", dag({"name": "first"}), task(), synchronization=MUTEX)
    await s.launched("first")
    await s.create("aa", dag({"name": "second"}), task(), synchronization=MUTEX)
    await s.until(lambda: s.phase("aa") == "Pending")
    await s.restart()
    await s.launched("first")
    await s.settled()
    assert s.executor.launched == ["first"]
    s.executor.tell("zz", "first")
    await s.launched("first", "second")


async def test_a_lock_is_on_the_disk_before_anybody_uses_it(s: Stage) -> None:
    """Even if the workflow's own row was written just before."""
    tasks = [{"name": "a", "template": "free"}, {"name": "b", "depends": "a"}]
    await s.create("wf", dag(*tasks), task("free"), task(synchronization=MUTEX))
    await s.launched("a")
    s.executor.tell("wf", "a", "Running")
    s.executor.tell("wf", "a", "Succeeded")
    await s.launched("a", "b")
    node = next(id for id, n in status_of(s.workflow("wf"))["nodes"].items() if n["displayName"] == "b")
    assert status_of(s.workflow("wf"))["synchronization"] == {
        "mutex": {"holding": [{"mutex": "default/Mutex/one", "holder": f"default/wf/{node}"}]}
    }


async def test_watchers_hear_of_progress_now_and_then_and_not_of_every_node(s: Stage) -> None:
    names = [f"t{number}" for number in range(200)]
    made = await s.create("wf", dag(*({"name": name} for name in names)), task())
    await s.launched(*names)
    clock = asyncio.get_running_loop().time
    began = clock()
    for name in names:
        s.executor.tell("wf", name, "Running")
        await asyncio.sleep(0.001)
        s.executor.tell("wf", name, "Succeeded")
        await asyncio.sleep(0.001)
    assert await s.ended("wf") == "Succeeded"
    took, seen = clock() - began, []
    async for event in s.cluster.watch(WORKFLOW, "default", resource_version=version_of(made)):
        seen.append(status_of(event.object).get("progress"))
        if status_of(event.object).get("phase") == "Succeeded":
            break
    assert len(seen) <= 4 + took / 0.1
    assert seen[-1] == "200/200"


async def test_what_a_memoized_template_has_answered_is_found_by_the_next_workflow(s: Stage) -> None:
    memoize = {"key": "{{inputs.parameters.n}}", "maxAge": "1h", "cache": {"configMap": {"name": "cache"}}}
    outputs = {"parameters": [{"name": "found", "valueFrom": {"path": "/tmp/found"}}]}
    work = task(inputs={"parameters": [{"name": "n"}]}, outputs=outputs, memoize=memoize)

    def each(name: str, n: str) -> Object:
        return {"name": name, "arguments": {"parameters": [{"name": "n", "value": n}]}}

    await s.create("first", dag(each("a", "1"), each("b", "2")), work)
    await s.launched("a", "b")
    s.executor.tell("first", "a", found="one")
    s.executor.tell("first", "b", found="two")
    assert await s.ended("first") == "Succeeded"
    cache = await s.cluster.get(CONFIG_MAP, "cache", "default")
    assert set(cache["data"]) == {"1", "2"}
    await s.create("second", dag(each("c", "2"), each("d", "3")), work)
    await s.launched("a", "b", "d")
    s.executor.tell("second", "d", found="three")
    assert await s.ended("second") == "Succeeded"
    node = next(n for n in status_of(s.workflow("second"))["nodes"].values() if n["displayName"] == "c")
    assert node["outputs"]["parameters"][0]["value"] == "two"
    assert node["memoizationStatus"] == {"hit": True, "key": "2", "cacheName": "cache"}


async def test_a_cache_that_cannot_be_written_is_told_and_does_no_harm(s: Stage) -> None:
    memoize = {"key": "{{inputs.parameters.n}}", "maxAge": "1h", "cache": {"configMap": {"name": "cache"}}}
    outputs = {"parameters": [{"name": "found", "valueFrom": {"path": "/tmp/found"}}]}
    work = task(inputs={"parameters": [{"name": "n"}]}, outputs=outputs, memoize=memoize)
    each = [{"name": n, "arguments": {"parameters": [{"name": "n", "value": n}]}} for n in ("a", "b")]
    await s.create("wf", dag(*each), work)
    await s.launched("a", "b")
    for node in ("a", "b"):
        s.executor.tell("wf", node, found="x" * 1_000_000)
    assert await s.ended("wf") == "Succeeded"
    assert [reason for reason, _ in s.recorder.events if "Memo" in reason] == ["WorkflowMemoizationFailed"]


async def test_a_workflow_that_can_not_be_stored_ends_and_says_why(s: Stage) -> None:
    await s.create("wf", dag({"name": "a"}, {"name": "b"}), task())
    await s.launched("a", "b")
    s.executor.tell("wf", "a", found="x" * 2_000_000)
    assert await s.ended("wf") == "Error"
    assert "bytes; the limit is" in status_of(s.workflow("wf"))["message"]
    await s.until(lambda: ("b", False) in s.executor.stopped)
