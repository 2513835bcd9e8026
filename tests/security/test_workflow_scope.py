"""What a workflow can reach besides its own nodes: caches, locks, reserved names, and the place of others in line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.budgets import Budgets
from muster.kube.builtin import CONFIG_MAP, new_catalogue
from muster.kube.controller import FairQueue
from muster.kube.errors import Forbidden, TooLarge
from muster.kube.objects import Key, Object, status_of
from muster.workflows.cluster_view import CACHE_LABELS, StoreView, store_memos
from muster.workflows.cron import plan
from muster.workflows.engine.errors import WorkflowError
from muster.workflows.engine.memoization import find_memo
from muster.workflows.engine.synchronization import LockTable
from muster.workflows.model import Memo, Outcome, Outputs
from tests.workflows.controlled_cluster import stage, task
from tests.workflows.engine.simulation import START, FakeView, Simulation

NOW = datetime(2026, 1, 2, tzinfo=UTC)
MEMOIZE = {"key": "k", "cache": {"configMap": {"name": "cache"}}}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(tmp_path, new_catalogue(), durability="process") as found:
        yield found


def config_map(name: str, namespace: str = "default", labels: dict[str, str] | None = None, **data: str) -> Object:
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def test_a_config_map_is_not_overwritten(cluster: EmbeddedCluster) -> None:
    """A workflow names a ConfigMap of the platform as its memoization cache, to add an entry to it"""
    await cluster.create(config_map("artifact-repositories", default="s3"))
    with pytest.raises(Forbidden, match="is not a memoization cache"):
        await store_memos(cluster, "default", [Memo("artifact-repositories", "k", "n", Outputs(result="x"))], NOW)
    assert (await cluster.get(CONFIG_MAP, "artifact-repositories", "default"))["data"] == {"default": "s3"}


async def test_a_config_map_is_not_read(cluster: EmbeddedCluster) -> None:
    """A workflow names any ConfigMap as its memoization cache, to read its values as outputs"""
    await cluster.create(config_map("cache", k=json.dumps({"nodeID": "n", "outputs": {"result": "secret"}})))
    with pytest.raises(WorkflowError, match="is not a memoization cache"):
        find_memo(MEMOIZE, StoreView(cluster, "default", LockTable()).cache, NOW, {})


async def test_a_cache_of_another_namespace(cluster: EmbeddedCluster) -> None:
    """A workflow reads the memoization cache of another member's namespace"""
    await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    entry = json.dumps({"nodeID": "n", "outputs": {"result": "theirs"}})
    await cluster.create(config_map("cache", "other", CACHE_LABELS, k=entry))
    for name in ("cache", "other/cache", "../other/cache"):
        memoize = {"key": "k", "cache": {"configMap": {"name": name}}}
        assert find_memo(memoize, StoreView(cluster, "default", LockTable()).cache, NOW, {})[1] is None


async def test_a_cache_that_grows_without_end(cluster: EmbeddedCluster) -> None:
    """Memoized results of megabytes fill a ConfigMap beyond what Kubernetes stores"""
    memos = [Memo("cache", f"k{n}", "n", Outputs(result="x" * 300_000)) for n in range(4)]
    with pytest.raises(TooLarge, match="more than 1048576"):
        await store_memos(cluster, "default", memos, NOW)


@pytest.mark.parametrize(
    "outputs",
    [
        pytest.param(["a"], id="a list instead of outputs"),
        pytest.param({"parameters": [{"value": "x"}]}, id="a parameter without a name"),
        pytest.param({"parameters": [{"name": "p", "value": {"a": 1}}]}, id="a parameter that is an object"),
        pytest.param({"artifacts": "x"}, id="artifacts that are no list"),
        pytest.param({"result": 3}, id="a result that is a number"),
        pytest.param({"other": 3}, id="a field that no node has"),
    ],
)
def test_an_entry_that_somebody_wrote(outputs: Any) -> None:
    """A member writes an entry with wrong types into a memoization cache"""
    entry = json.dumps({"nodeID": "n", "outputs": outputs})
    with pytest.raises(WorkflowError, match="malformed cache entry"):
        find_memo(MEMOIZE, lambda name: {"k": entry}, NOW, {})


def workflow(*templates: Object, **spec: Any) -> Object:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "wf", "namespace": "mine", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"entrypoint": "main", "templates": [*templates], **spec},
    }


P: Object = {"parameters": [{"name": "p", "value": "muster.dev/run"}]}
CONTAINER: Object = {"image": "i"}
RESERVED = {
    "a label of the template from a parameter": workflow(
        {"name": "main", "metadata": {"labels": {"{{workflow.parameters.p}}": "x"}}, "container": CONTAINER},
        arguments=P,
    ),
    "an annotation of the template from an expression": workflow(
        {
            "name": "main",
            "metadata": {"annotations": {"{{='muster.dev' + '/runtime'}}": "sandbox"}},
            "container": CONTAINER,
        }
    ),
    "an annotation from podMetadata": workflow(
        {"name": "main", "container": CONTAINER},
        podMetadata={"annotations": {"{{='muster.dev' + '/runtime' + pod.name[:0]}}": "sandbox"}},
    ),
    "a label that only an attempt of a retry has": workflow(
        {
            "name": "main",
            "retryStrategy": {"limit": "1"},
            "metadata": {"labels": {"{{='muster.dev/run' + retries[:0]}}": "x"}},
            "container": CONTAINER,
        }
    ),
    "a label of a manifest from a parameter": workflow(
        {
            "name": "main",
            "resource": {"action": "create", "manifest": "metadata: {labels: {'{{workflow.parameters.p}}': x}}"},
        },
        arguments=P,
    ),
}


@pytest.mark.parametrize("document", RESERVED.values(), ids=RESERVED)
def test_reserved_names_that_appear_later(document: Object) -> None:
    """A reserved label or annotation that the checks of the text do not see"""
    run = Simulation(document, lambda launch: Outcome("Failed"), view=FakeView(restricted=True)).finish()
    assert run.phase in ("Error", "Failed")
    texts = [run.message, *(str(node.get("message")) for node in run.run.nodes.values())]
    assert any("is reserved for the server" in text for text in texts)
    assert not any("muster.dev/run" in str(launch.template.get("metadata")) for launch in run.open.values())


def test_the_lock_of_another_namespace() -> None:
    """A member takes the mutex of another member's workflows and keeps it"""
    document = workflow(
        {"name": "main", "container": CONTAINER},
        synchronization={"mutexes": [{"name": "gpu", "namespace": "theirs"}]},
    )
    view = FakeView(restricted=True)
    run = Simulation(document, view=view).finish()
    assert run.phase == "Failed" and "is in another namespace" in run.message
    assert view.locks.holders("theirs/Mutex/gpu") == []


async def test_more_workflows_than_may_run(tmp_path: Path) -> None:
    """A member starts more workflows than may run at the same time; the others wait, and all of them run in the end"""
    async with stage(tmp_path, Budgets(member_running_workflows=2)) as found:
        labels = {"muster.dev/isolation": "restricted"}
        namespaces = await found.cluster.list(new_catalogue().of("v1", "Namespace"))
        new: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": labels}}
        if any(n["metadata"]["name"] == "default" for n in namespaces.items):
            await found.cluster.patch(
                new_catalogue().of("v1", "Namespace"), "default", "", {"metadata": {"labels": labels}}
            )
        else:
            await found.cluster.create(new)
        for number in range(4):
            await found.create(f"wf-{number}", task("main"))
        names = [f"wf-{number}" for number in range(4)]
        await found.until(lambda: len(found.executor.launched) == 2 and _waiting(found, names) == 2)
        assert "budgets.memberRunningWorkflows" in str([status_of(found.workflow(name)) for name in names])
        for name in sorted(found.executor.launched):
            found.executor.tell(name, name)
        await found.until(lambda: len(found.executor.launched) == 4)


def _waiting(found: Any, names: list[str]) -> int:
    return sum("postponed" in str(status_of(found.workflow(name)).get("message")) for name in names)


async def test_one_namespace_with_many_keys() -> None:
    """A member's thousand slow workflows wait in line before the one of another member"""
    queue = FairQueue[Key](lambda key: key.namespace, 2)
    for number in range(1000):
        queue.put(Key("mallory", str(number)))
    queue.put(Key("alice", "a"))
    first = [await queue.get() for _ in range(2)]
    assert {key.namespace for key in first} == {"mallory", "alice"}
    assert (await queue.get()).namespace == "mallory"
    blocked = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    assert not blocked.done()  # two of them are worked on, and no more
    queue.done(Key("mallory", "0"))
    assert (await blocked).namespace == "mallory"


CRON: Object = {"metadata": {"name": "c", "namespace": "mine"}, "spec": {}}


@pytest.mark.parametrize(
    ("spec", "older", "budget"),
    [
        pytest.param({"schedule": "@every 1s"}, 0, "budgets.memberCronSeconds", id="A schedule of every second"),
        pytest.param({"schedules": ["0 0 * * *", "@every 59s"]}, 0, "memberCronSeconds", id="One of many schedules"),
        pytest.param({"schedule": "0 0 * * *"}, 100, "budgets.memberCronWorkflows", id="Thousands of CronWorkflows"),
    ],
)
def test_cron_workflows_of_members(spec: Object, older: int, budget: str) -> None:
    """A CronWorkflow that runs too often"""
    cron = {**CRON, "spec": spec}
    assert budget in plan.member_problem(cron, plan.schedules_of(cron), older, Budgets())


def test_a_history_without_end() -> None:
    """A CronWorkflow keeps a million ended workflows"""
    cron = {**CRON, "spec": {"successfulJobsHistoryLimit": 1_000_000}}
    ended = [
        {
            "metadata": {"name": str(n), "labels": {plan.CRON_LABEL: "c"}},
            "status": {"phase": "Succeeded", "finishedAt": START.isoformat()},
        }
        for n in range(150)
    ]
    assert len(plan.workflows_to_delete(cron, ended, restricted=True)) == 50
