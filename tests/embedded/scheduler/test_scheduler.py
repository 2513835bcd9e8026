"""The scheduler on an embedded cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.scheduler.model import SchedulerSettings
from muster.embedded.scheduler.scheduler import BindingCluster, Scheduler
from muster.kube.builtin import EVENT, PLUGIN_POD_GROUP, POD, POD_GROUP, QUEUE, new_catalogue
from muster.kube.events import EventRecorder
from muster.kube.objects import Key, Object, get_condition, name_of, spec_of, status_of
from tests.embedded.scheduler.objects import a_group, a_node, a_plugin_group, a_pod, a_queue

SETTINGS = SchedulerSettings(patience_seconds=0.0, queue_status_seconds=0.0, report_again_seconds=0.1)


@asynccontextmanager
async def scheduling(cluster: BindingCluster, **settings: Any) -> AsyncIterator[EventRecorder]:
    recorder = EventRecorder(cluster, "default-scheduler")
    chosen = SchedulerSettings(**{**vars(SETTINGS), **settings})
    task = asyncio.create_task(Scheduler(cluster, recorder, chosen).run())
    try:
        yield recorder
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def create(cluster: EmbeddedCluster, *objects: Object) -> None:
    for obj in objects:
        metadata = {k: v for k, v in obj["metadata"].items() if k not in ("uid", "creationTimestamp")}
        await cluster.create({**obj, "metadata": metadata})


async def eventually(condition: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    for _ in range(2000):
        if await condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"never: {condition.__name__}")


async def pods_of(cluster: EmbeddedCluster) -> list[Object]:
    return (await cluster.list(POD, "default")).items


async def bound(cluster: EmbeddedCluster) -> dict[str, str]:
    return {name_of(p): spec_of(p)["nodeName"] for p in await pods_of(cluster) if spec_of(p).get("nodeName")}


async def reasons_given(cluster: EmbeddedCluster) -> dict[str, str]:
    found = {}
    for pod in await pods_of(cluster):
        condition = get_condition(status_of(pod).get("conditions"), "PodScheduled")
        if condition is not None and condition["status"] == "False":
            found[name_of(pod)] = f"{condition['reason']}: {condition['message']}"
    return found


async def events_about(cluster: EmbeddedCluster, recorder: EventRecorder, name: str) -> set[tuple[str, str, str]]:
    await recorder.flush()
    events = (await cluster.list(EVENT, "default")).items
    return {(e["type"], e["reason"], e["message"]) for e in events if e["involvedObject"]["name"] == name}


async def phase(cluster: EmbeddedCluster, name: str = "gang") -> str:
    return str(status_of(await cluster.get(POD_GROUP, name, "default")).get("phase"))


def gang(count: int, **pod: Any) -> list[Object]:
    return [a_pod(f"gang-{n}", group="gang", **pod) for n in range(count)]


GPU_REASON = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


async def test_a_gang_of_six_on_one_gpu_waits_with_its_group(cluster: EmbeddedCluster) -> None:
    await create(cluster, a_node(gpu=1), a_group(min_member=6), *gang(6, gpu=1))
    detail = f"pod group is not ready, 6 Pending, 6 minAvailable; {GPU_REASON}"
    async with scheduling(cluster) as recorder:

        async def all_told() -> bool:
            return await reasons_given(cluster) == {f"gang-{n}": f"Unschedulable: {detail}" for n in range(6)}

        await eventually(all_told)
        assert await bound(cluster) == {}
        assert ("Warning", "FailedScheduling", detail) in await events_about(cluster, recorder, "gang-3")

        async def group_told() -> bool:
            return await phase(cluster) == "Pending"

        await eventually(group_told)
        [condition] = status_of(await cluster.get(POD_GROUP, "gang", "default"))["conditions"]
        assert condition["reason"] == "NotEnoughResources"
        assert condition["message"] == f"6/6 tasks in gang unschedulable: {detail}"

        await create(cluster, a_node("large", gpu=8))

        async def all_bound() -> bool:
            return await bound(cluster) == {f"gang-{n}": "large" for n in range(6)}

        await eventually(all_bound)

        async def running() -> bool:
            return await phase(cluster) == "Running"

        await eventually(running)
        reported_problem = await events_about(cluster, recorder, "gang-0")
        assert ("Normal", "Scheduled", "Successfully assigned default/gang-0 to large") in reported_problem
        assert ("Normal", "Scheduled", "pod group is ready") in await events_about(cluster, recorder, "gang")
    assert await reasons_given(cluster) == {}


async def test_the_same_pods_without_a_group_run_as_they_fit(cluster: EmbeddedCluster) -> None:
    await create(cluster, a_node(gpu=2), *(a_pod(f"p{n}", gpu=1) for n in range(6)))
    async with scheduling(cluster):

        async def settled() -> bool:
            return len(await bound(cluster)) == 2 and len(await reasons_given(cluster)) == 4

        await eventually(settled)
    assert set((await reasons_given(cluster)).values()) == {f"Unschedulable: {GPU_REASON}"}


async def test_a_finished_pod_makes_room_for_the_next(cluster: EmbeddedCluster) -> None:
    await create(cluster, a_node(cpu=1), a_pod("first", cpu=1), a_pod("second", cpu=1))
    async with scheduling(cluster):

        async def one() -> bool:
            return len(await bound(cluster)) == 1

        await eventually(one)
        [name] = await bound(cluster)
        await cluster.patch(POD, name, "default", {"status": {"phase": "Succeeded"}}, subresource="status")

        async def both() -> bool:
            return len(await bound(cluster)) == 2

        await eventually(both)


async def test_an_empty_group_is_admitted_first_and_its_pods_then_find_their_room(cluster: EmbeddedCluster) -> None:
    await create(cluster, a_node(gpu=2), a_group(min_member=2, minResources={"nvidia.com/gpu": "2"}))
    async with scheduling(cluster):

        async def admitted() -> bool:
            return await phase(cluster) == "Inqueue"

        await eventually(admitted)
        await create(cluster, a_pod("thief", gpu=1))

        async def refused() -> bool:
            return "thief" in await reasons_given(cluster)

        await eventually(refused)
        await create(cluster, *gang(2, gpu=1))

        async def placed() -> bool:
            return sorted(await bound(cluster)) == ["gang-0", "gang-1"] and await phase(cluster) == "Running"

        await eventually(placed)


async def test_an_admission_without_pods_lapses(cluster: EmbeddedCluster) -> None:
    await create(cluster, a_node(gpu=2), a_group(min_member=2, minResources={"nvidia.com/gpu": "2"}))
    async with scheduling(cluster, hold_seconds=0.3):

        async def admitted() -> bool:
            return await phase(cluster) == "Inqueue"

        await eventually(admitted)
        await create(cluster, a_pod("other", gpu=2))

        async def other() -> bool:
            return "other" in await bound(cluster) and await phase(cluster) == "Pending"

        await eventually(other)


async def test_the_story_of_a_gang_in_its_status(cluster: EmbeddedCluster) -> None:
    await create(cluster, a_node(), a_group(min_member=2), *gang(2))
    async with scheduling(cluster):
        for pod_phase, expected in (
            ("Running", {"phase": "Running", "running": 2}),
            ("Succeeded", {"phase": "Completed", "succeeded": 2}),
        ):

            async def placed() -> bool:
                return len(await bound(cluster)) == 2

            await eventually(placed)
            for number in range(2):
                change = {"status": {"phase": pod_phase}}
                await cluster.patch(POD, f"gang-{number}", "default", change, subresource="status")

            async def written(expected: dict[str, Any] = expected) -> bool:
                status = status_of(await cluster.get(POD_GROUP, "gang", "default"))
                return {k: v for k, v in status.items() if k != "conditions"} == expected

            await eventually(written)

        async def counted() -> bool:
            return status_of(await cluster.get(QUEUE, "default")) == {"state": "Open", "completed": 1}

        await eventually(counted)


async def test_a_scheduler_plugins_gang(cluster: EmbeddedCluster) -> None:
    pods = [a_pod(f"p{n}", plugin_group="gang", schedulerName="scheduler-plugins-scheduler") for n in range(2)]
    await create(cluster, a_node(), a_plugin_group(min_member=2), *pods)
    async with scheduling(cluster):

        async def scheduled() -> bool:
            status = status_of(await cluster.get(PLUGIN_POD_GROUP, "gang", "default"))
            return status.get("phase") == "Scheduling" and len(await bound(cluster)) == 2

        await eventually(scheduled)


async def test_gates_and_strangers(cluster: EmbeddedCluster) -> None:
    gated = a_pod("gated", schedulingGates=[{"name": "example.com/wait"}])
    await create(cluster, a_node(), gated, a_pod("strange", schedulerName="mine"), a_pod("plain"))
    async with scheduling(cluster) as recorder:

        async def settled() -> bool:
            return await reasons_given(cluster) == {
                "gated": "SchedulingGated: Scheduling is blocked due to non-empty scheduling gates"
            } and list(await bound(cluster)) == ["plain"]

        await eventually(settled)
        [(_, reason, message)] = await events_about(cluster, recorder, "strange")
        assert reason == "FailedScheduling"
        assert 'no scheduler named "mine"' in message
        await cluster.patch(POD, "gated", "default", {"spec": {"schedulingGates": None}})

        async def opened() -> bool:
            return "gated" in await bound(cluster)

        await eventually(opened)


async def test_the_default_queue_comes_back_when_it_is_deleted(cluster: EmbeddedCluster) -> None:
    await create(cluster, a_node())
    async with scheduling(cluster):

        async def there() -> bool:
            return [name_of(q) for q in (await cluster.list(QUEUE)).items] == ["default"]

        await eventually(there)
        await cluster.delete(QUEUE, "default")
        await create(cluster, a_pod())

        async def placed() -> bool:
            return await there() and len(await bound(cluster)) == 1

        await eventually(placed)


async def test_unconsidered_fields_are_named_in_an_event(cluster: EmbeddedCluster) -> None:
    async with scheduling(cluster) as recorder:
        await create(cluster, a_queue("team", reclaimable=True))

        async def noted() -> bool:
            return any("reclaimable" in message for _, _, message in await events_about(cluster, recorder, "team"))

        await eventually(noted)


class Contested(EmbeddedCluster):
    """A cluster that deletes a member of the first gang right before it is bound."""

    attempts = 0

    async def bind(self, bindings: Sequence[tuple[Key, str, str]]) -> list[Object]:
        self.attempts += 1
        if self.attempts == 1:
            await self.delete(POD, bindings[0][0].name, "default", grace_seconds=0)
        return await super().bind(bindings)


async def test_a_gang_that_loses_a_member_while_being_bound_is_not_bound_in_part(tmp_path: Path) -> None:
    async with Contested(tmp_path / "cluster", new_catalogue(), durability="process") as cluster:
        await create(cluster, a_node(cpu=2), a_group(min_member=2), *gang(2, cpu=1))
        async with scheduling(cluster):

            async def waits() -> bool:
                return any("valid: 1, min: 2" in text for text in (await reasons_given(cluster)).values())

            await eventually(waits)
            assert await bound(cluster) == {}
            await create(cluster, a_pod("gang-9", group="gang", cpu=1))

            async def placed() -> bool:
                return len(await bound(cluster)) == 2

            await eventually(placed)


async def test_a_restarted_scheduler_continues(cluster: EmbeddedCluster) -> None:
    await create(cluster, a_node(cpu=2), *(a_pod(f"p{n}", cpu=1) for n in range(3)))
    for _ in range(3):
        async with scheduling(cluster):

            async def settled() -> bool:
                return len(await bound(cluster)) == 2 and len(await reasons_given(cluster)) == 1

            await eventually(settled)
    [left] = await reasons_given(cluster)
    [done, _] = await bound(cluster)
    await cluster.delete(POD, done, "default", grace_seconds=0)
    async with scheduling(cluster):

        async def next_one() -> bool:
            return left in await bound(cluster)

        await eventually(next_one)


async def test_many_pods_at_once(cluster: EmbeddedCluster) -> None:
    await create(cluster, *(a_node(f"n{n}", cpu=10) for n in range(5)))
    async with scheduling(cluster):
        await asyncio.gather(*(create(cluster, a_pod(f"p{n}", cpu=1)) for n in range(50)))

        async def all_bound() -> bool:
            return len(await bound(cluster)) == 50

        await eventually(all_bound)
    per_node = list((await bound(cluster)).values())
    assert {per_node.count(f"n{n}") for n in range(5)} == {10}


async def test_a_pod_without_its_claim_is_not_placed_until_the_claim_exists(cluster: EmbeddedCluster) -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    reader = a_pod("reader")
    await create(cluster, a_node("n"), {**reader, "spec": {**reader["spec"], "volumes": volumes}}, a_pod("plain"))
    why = '0/1 nodes are available: persistentvolumeclaim "data" not found.'
    async with scheduling(cluster) as recorder:

        async def told() -> bool:
            return await reasons_given(cluster) == {"reader": f"Unschedulable: {why}"}

        await eventually(told)
        assert ("Warning", "FailedScheduling", why) in await events_about(cluster, recorder, "reader")
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        metadata = {"name": "data", "namespace": "default"}
        await cluster.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})

        async def placed() -> bool:
            return await bound(cluster) == {"reader": "n", "plain": "n"}

        await eventually(placed)
