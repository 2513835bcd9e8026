"""The controller on a real cluster: what is deleted, and what waits for something else to be deleted."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.node.operations import AgentFiles
from muster.embedded.settings import AgentSettings
from muster.kube.builtin import EVENT, PERSISTENT_VOLUME_CLAIM, POD, new_catalogue
from muster.kube.events import EventRecorder
from muster.kube.kinds import Kind
from muster.kube.objects import Object, name_of, owner_reference, timestamp
from muster.workflows.artifacts.client import ArtifactClient
from muster.workflows.cleanup import FINALIZER, CleanupController, Strategy
from muster.workflows.executors.pod_spec import claims_of
from muster.workflows.kinds import WORKFLOW, workflow_kinds
from muster.workflows.model import PREVIOUS_LABEL, Node
from tests.embedded.waiting import run_components, wait_for, wait_for_all, wait_until

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


async def test_only_so_many_workflows_stay_as_the_controller_s_settings_say(cluster: EmbeddedCluster) -> None:
    await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argo"}})
    metadata = {"name": "workflow-controller-configmap", "namespace": "argo"}
    data = {"retentionPolicy": "completed: 0"}
    await cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    async with run_components(controller(cluster)):
        await workflow(cluster)
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


class Stored:
    """Artifacts of workflows in the local repository, and the controller that deletes them."""

    def __init__(self, cluster: EmbeddedCluster, home: Path) -> None:
        self.cluster, self.home = cluster, home
        self.artifacts = ArtifactClient(cluster, home)

    async def save(self, flow: Object, key: str = "") -> str:
        source = self.home / "source"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text("x")
        location = {"s3": {"key": key}} if key else {}
        scope = {"workflow.name": name_of(flow), "pod.name": "pod"}
        kept = await self.artifacts.save(flow, {"name": "a", "path": "/a", **location}, source, scope)
        return str(kept["s3"]["key"])

    def files(self) -> list[str]:
        folder = self.home / "artifacts"
        return sorted(
            str(Path(place, name).relative_to(folder)) for place, _, names in os.walk(folder) for name in names
        )

    def controller(self) -> CleanupController:
        return controller(self.cluster, owners=self.artifacts.owners)

    async def until(self, files: list[str]) -> None:
        await wait_until(lambda: self.files() == files)


@pytest.fixture
def stored(cluster: EmbeddedCluster, tmp_path: Path) -> Stored:
    return Stored(cluster, tmp_path / "workflows")


async def test_what_a_workflow_stored_goes_with_it(cluster: EmbeddedCluster, stored: Stored) -> None:
    flow = await workflow(cluster)
    await stored.save(flow)
    await stored.save(flow, "models/best")
    async with run_components(stored.controller()):
        await cluster.delete(WORKFLOW, "flow", "default")
        await stored.until(["default/models/best"])
        await wait_until(lambda: stored.artifacts.owners.all() == [])


async def test_what_is_left_after_a_crash_is_deleted_at_the_next_start(
    cluster: EmbeddedCluster, stored: Stored
) -> None:
    await stored.save(await workflow(cluster))
    await cluster.delete(WORKFLOW, "flow", "default")
    stored.artifacts = ArtifactClient(cluster, stored.home)
    async with run_components(stored.controller()):
        await stored.until([])


async def test_what_others_stored_under_its_name_stays(cluster: EmbeddedCluster, stored: Stored) -> None:
    await stored.save(await workflow(cluster))
    other: Object = {"metadata": {"name": "other", "namespace": "default", "uid": "2"}, "spec": {}}
    await stored.save(other, "flow/of-another")
    async with run_components(stored.controller()):
        await cluster.delete(WORKFLOW, "flow", "default")
        await stored.until(["default/flow/of-another"])


async def test_never_means_never(cluster: EmbeddedCluster, stored: Stored) -> None:
    await stored.save(await workflow(cluster, artifactGC={"strategy": "Never"}))
    await cluster.delete(WORKFLOW, "flow", "default")
    async with run_components(stored.controller()):
        other = {**await workflow(cluster), "metadata": {"name": "other", "namespace": "default"}}
        await stored.save(await cluster.create(other))
        await stored.until(["default/flow/pod/a.tgz", "default/other/pod/a.tgz"])


async def test_what_a_resubmitted_workflow_uses_stays(cluster: EmbeddedCluster, stored: Stored) -> None:
    flow = await workflow(cluster)
    used = await stored.save(flow)
    await stored.save(flow, "flow/unused")
    again = {
        **{name: value for name, value in flow.items() if name != "metadata"},
        "metadata": {"name": "again", "namespace": "default", "labels": {PREVIOUS_LABEL: "flow"}},
    }
    node = {"id": "n", "name": "n", "type": "Pod", "outputs": {"artifacts": [{"name": "a", "s3": {"key": used}}]}}
    again["status"] = {**flow["status"], "nodes": {"n": node}}
    await cluster.create(again)
    async with run_components(stored.controller()):
        await cluster.delete(WORKFLOW, "flow", "default")
        await stored.until([f"default/{used}"])


async def test_a_namespace_that_is_made_again_is_empty(cluster: EmbeddedCluster, stored: Stored) -> None:
    """Its artifacts were left when the server ended."""
    await stored.save({"metadata": {"name": "flow", "namespace": "team"}, "spec": {}}, "models/best")
    await stored.save(await workflow(cluster), "models/best")
    async with run_components(stored.controller()):
        await stored.until(["default/models/best"])


def a_log(files: AgentSettings, pod: str, owner: Object) -> Path:
    folder = files.log_folder / "default" / pod / f"{pod}-uid"
    (folder / "main").mkdir(parents=True)
    (folder / "main/0.log").write_text("line")
    (folder / ".owner").symlink_to(f"Workflow@{owner['metadata']['uid']}")
    return folder


async def test_the_logs_of_a_workflow_go_with_it(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """Also those of Pods that were deleted before, and those that the last server left."""
    settings = AgentSettings(home=tmp_path / "home")
    flow = await workflow(cluster)
    other = await cluster.create(
        {
            **{name: flow[name] for name in ("apiVersion", "kind", "spec")},
            "metadata": {"name": "o", "namespace": "default"},
        }
    )
    logs = [a_log(settings, "flow-1", flow), a_log(settings, "gone-1", {"metadata": {"uid": "gone"}})]
    kept = a_log(settings, "other-1", other)
    async with run_components(controller(cluster, files=AgentFiles(settings))):
        await cluster.delete(WORKFLOW, "flow", "default")
        await wait_until(lambda: not any(log.parent.exists() for log in logs))
    assert (kept / "main/0.log").exists()
