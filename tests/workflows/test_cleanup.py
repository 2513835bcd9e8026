"""The controller on a real cluster: what is deleted, and what waits for something else to be deleted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import EVENT, PERSISTENT_VOLUME_CLAIM, POD, new_catalogue
from muster.kube.events import EventRecorder
from muster.kube.kinds import Kind
from muster.kube.objects import Object, name_of, owner_reference, timestamp
from muster.workflows.cleanup import FINALIZER, CleanupController, Strategy
from muster.workflows.executors.pod_spec import claims_of
from muster.workflows.kinds import WORKFLOW, workflow_kinds
from muster.workflows.model import Node
from tests.embedded.waiting import run_components, wait_for, wait_for_all

TEMPLATES = [{"name": "main", "container": {"image": "busybox", "command": ["true"]}}]


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    catalogue = new_catalogue()
    for kind in workflow_kinds():
        catalogue.register(kind)
    async with EmbeddedCluster(tmp_path, catalogue, durability="process") as cluster:
        yield cluster


async def workflow(cluster: EmbeddedCluster, phase: str = "Succeeded", **spec: Any) -> Object:
    obj = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "flow", "namespace": "default"},
        "spec": {"entrypoint": "main", "templates": TEMPLATES, **spec},
        "status": {"phase": phase, **({"finishedAt": timestamp()} if phase != "Running" else {})},
    }
    return await cluster.create(obj)


async def pod(cluster: EmbeddedCluster, owner: Object, name: str, phase: str) -> None:
    metadata = {
        "name": name,
        "namespace": "default",
        "labels": {"workflows.argoproj.io/workflow": name_of(owner)},
        "annotations": {"workflows.argoproj.io/node-id": name},
        "ownerReferences": [owner_reference(owner)],
    }
    spec = {"containers": [{"name": "main", "image": "busybox"}]}
    await cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    await cluster.patch(POD, name, "default", {"status": {"phase": phase}}, subresource="status")


async def gone(cluster: EmbeddedCluster, kind: Kind, so: Callable[[list[str]], bool]) -> None:
    await wait_for_all(cluster, kind, lambda objects: so([name_of(obj) for obj in objects]))


def controller(cluster: EmbeddedCluster, **options: Any) -> CleanupController:
    return CleanupController(cluster, EventRecorder(cluster, "cleanup"), **options)


async def test_a_workflow_goes_when_its_time_is_over(cluster: EmbeddedCluster) -> None:
    await workflow(cluster, ttlStrategy={"secondsAfterSuccess": 1, "secondsAfterFailure": 3600})
    async with run_components(controller(cluster)):
        await gone(cluster, WORKFLOW, lambda names: not names)


async def test_a_pod_goes_once_its_node_has_ended(cluster: EmbeddedCluster) -> None:
    owner = await workflow(cluster, "Running", podGC={"strategy": "OnPodCompletion", "deleteDelayDuration": "0s"})
    for name, phase in (("ended", "Succeeded"), ("collecting", "Succeeded"), ("running", "Running")):
        await pod(cluster, owner, name, phase)
    nodes: dict[str, Node] = {
        "ended": Node(id="ended", phase="Succeeded", finishedAt=timestamp()),
        "collecting": Node(id="collecting", phase="Running"),
    }
    await cluster.write_status_rows(WORKFLOW, owner, nodes)
    async with run_components(controller(cluster)):
        await gone(cluster, POD, lambda names: "ended" not in names)
        assert {name_of(p) for p in (await cluster.list(POD)).items} == {"collecting", "running"}
        now = await cluster.get(WORKFLOW, "flow", "default")
        await cluster.write_status_rows(WORKFLOW, now, {"collecting": Node(phase="Failed", finishedAt=timestamp())})
        await gone(cluster, POD, lambda names: names == ["running"])


async def test_volumes_go_with_a_success(cluster: EmbeddedCluster) -> None:
    claim = {
        "metadata": {"name": "work"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    }
    owner = await workflow(cluster, "Running", volumeClaimTemplates=[claim])
    for wanted in claims_of(owner):
        await cluster.create(wanted)
    async with run_components(controller(cluster)):
        await cluster.patch(WORKFLOW, "flow", "default", {"status": {"phase": "Succeeded", "finishedAt": timestamp()}})

        def leaves(claims: list[Object]) -> bool:
            return all(c["metadata"].get("deletionTimestamp") for c in claims)

        await wait_for_all(cluster, PERSISTENT_VOLUME_CLAIM, leaves)


class Store:
    """Artifacts by node; deleting one of them may fail."""

    def __init__(self) -> None:
        self.deleted: list[tuple[str, Strategy]] = []
        self.is_down = False

    async def collect(
        self, workflow: Object, nodes: Mapping[str, Node], strategy: Strategy
    ) -> tuple[Mapping[str, Node], list[str]]:
        if self.is_down:
            return {}, ["the store is down"]
        changed = {}
        for key, node in nodes.items():
            if node.get("message") == strategy:
                self.deleted.append((key, strategy))
                changed[key] = Node(**{**node, "message": "deleted"})
        return changed, []


async def test_artifacts_go_at_the_end_and_when_the_workflow_goes(cluster: EmbeddedCluster) -> None:
    store = Store()
    cleanup = controller(cluster, collect=store.collect, wants_collection=lambda workflow: True)
    owner = await workflow(cluster, "Running")
    nodes = {"a": Node(id="a", message="OnWorkflowCompletion"), "b": Node(id="b", message="OnWorkflowDeletion")}
    await cluster.write_status_rows(WORKFLOW, owner, nodes)
    async with run_components(cleanup):
        await wait_for(
            cluster, WORKFLOW, "flow", lambda found: FINALIZER in (found["metadata"].get("finalizers") or ())
        )
        version = (await cluster.list(WORKFLOW)).resource_version
        await cluster.patch(WORKFLOW, "flow", "default", {"status": {"phase": "Succeeded", "finishedAt": timestamp()}})
        async for _ in cluster.watch(WORKFLOW, "default", resource_version=version):
            if cluster.status_rows(WORKFLOW, owner["metadata"]["uid"])["a"]["message"] == "deleted":
                break
        assert store.deleted == [("a", "OnWorkflowCompletion")]
        await cluster.delete(WORKFLOW, "flow", "default")
        await gone(cluster, WORKFLOW, lambda names: not names)
        assert store.deleted == [("a", "OnWorkflowCompletion"), ("b", "OnWorkflowDeletion")]


@pytest.mark.parametrize("force", [False, True])
async def test_a_store_that_is_down_holds_the_workflow_unless_told_otherwise(
    cluster: EmbeddedCluster, force: bool
) -> None:
    store = Store()
    store.is_down = True
    recorder = EventRecorder(cluster, "cleanup")
    cleanup = CleanupController(cluster, recorder, collect=store.collect, wants_collection=lambda workflow: True)
    await workflow(cluster, "Running", artifactGC={"strategy": "OnWorkflowDeletion", "forceFinalizerRemoval": force})
    async with run_components(cleanup, recorder):
        await wait_for(
            cluster, WORKFLOW, "flow", lambda found: FINALIZER in (found["metadata"].get("finalizers") or ())
        )
        await cluster.delete(WORKFLOW, "flow", "default")
        if force:
            await gone(cluster, WORKFLOW, lambda names: not names)
        else:
            await wait_for_all(cluster, EVENT, lambda events: any(e["reason"] == "ArtifactGCError" for e in events))
            assert FINALIZER in (await cluster.get(WORKFLOW, "flow", "default"))["metadata"]["finalizers"]


async def test_what_asks_for_nothing_keeps_everything(cluster: EmbeddedCluster) -> None:
    owner = await workflow(cluster)
    await pod(cluster, owner, "ended", "Succeeded")
    await cluster.write_status_rows(
        WORKFLOW, owner, {"ended": Node(phase="Succeeded", finishedAt="2020-01-01T00:00:00Z")}
    )
    other = {**owner, "metadata": {"name": "other", "namespace": "default"}}
    spec = {**owner["spec"], "ttlStrategy": {"secondsAfterCompletion": 0}}
    async with run_components(controller(cluster)):
        await cluster.create({**other, "spec": spec})
        await gone(cluster, WORKFLOW, lambda names: names == ["flow"])
        assert [name_of(p) for p in (await cluster.list(POD)).items] == ["ended"]
