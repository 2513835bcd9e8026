"""The controller of workspaces on a real store. The test plays the node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.controllers.garbage import GarbageCollector
from muster.kube.builtin import EVENT, POD, SECRET, SERVICE, new_catalogue
from muster.kube.errors import NotFound
from muster.kube.events import EventRecorder
from muster.kube.manifests import load_manifests
from muster.kube.objects import Object, annotations_of, name_of, status_of, timestamp, uid_of
from muster.workspaces.addresses import find_upstream
from muster.workspaces.controller import WorkspaceController
from muster.workspaces.culler import Culler
from muster.workspaces.environments import READY, EnvironmentStatus
from muster.workspaces.images import WorkspaceSettings
from muster.workspaces.kinds import (
    LAST_ACTIVITY_ANNOTATION,
    NOTEBOOK,
    RESTART_ANNOTATION,
    STOP_ANNOTATION,
    TENSORBOARD,
    workspace_kinds,
)
from tests.embedded.waiting import run_components, wait_for, wait_for_all
from tests.http_server import serve_http
from tests.workspaces.sample_workspaces import SAMPLES


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    catalogue = new_catalogue()
    for kind in workspace_kinds():
        catalogue.register(kind)
    async with EmbeddedCluster(tmp_path / "cluster", catalogue, durability="process") as cluster:
        yield cluster


@asynccontextmanager
async def controlling(cluster: EmbeddedCluster) -> AsyncIterator[WorkspaceController]:
    recorder = EventRecorder(cluster, "workspace-controller")
    controller = WorkspaceController(cluster, recorder, environment=lambda image: STATUS["now"])
    async with run_components(controller, recorder, GarbageCollector(cluster)):
        yield controller


STATUS: dict[str, EnvironmentStatus] = {"now": READY}


def notebook(name: str = "nb", **metadata: object) -> Object:
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "Notebook",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {"template": {"spec": {"containers": [{"name": name, "image": "jupyter/base-notebook"}]}}},
    }


async def start_pod(cluster: EmbeddedCluster, name: str, address: str = "127.1.0.7") -> Object:
    """As a node does."""
    pod = await wait_for(cluster, POD, name, lambda pod: True)
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": timestamp()}
    status = {"phase": "Running", "podIP": address, "conditions": [ready]}
    return await cluster.update({**pod, "status": status}, subresource="status")


async def test_a_notebook_runs_is_found_by_the_proxy_stops_and_starts_again(cluster: EmbeddedCluster) -> None:
    async with controlling(cluster):
        made = await cluster.create(notebook())
        pod = await start_pod(cluster, "nb-0")
        await wait_for(cluster, NOTEBOOK, "nb", lambda nb: status_of(nb).get("readyReplicas") == 1)
        upstream = await find_upstream(cluster, NOTEBOOK, "default", "nb")
        assert upstream is not None
        assert (upstream.host, upstream.port, upstream.prefix, upstream.uid) == ("127.1.0.7", 8888, "/", uid_of(pod))
        ((name, value),) = upstream.headers
        token = value.removeprefix("token ")
        assert (name, len(token) > 40) == ("authorization", True)
        assert token not in repr(upstream)
        assert token not in str(made)
        service = await wait_for(cluster, SERVICE, "nb", lambda each: True)
        assert service["spec"]["selector"] == {"notebook-name": "nb"}

        stop = {"metadata": {"annotations": {STOP_ANNOTATION: timestamp()}}}
        await cluster.patch(NOTEBOOK, "nb", "default", stop)
        await wait_for_all(cluster, POD, lambda pods: not pods)
        assert await find_upstream(cluster, NOTEBOOK, "default", "nb") is None
        await wait_for(cluster, NOTEBOOK, "nb", lambda nb: status_of(nb).get("readyReplicas") == 0)

        await cluster.patch(NOTEBOOK, "nb", "default", {"metadata": {"annotations": {STOP_ANNOTATION: None}}})
        again = await wait_for(cluster, POD, "nb-0", lambda each: True)
        assert uid_of(again) != uid_of(pod)


async def test_a_restart_replaces_the_pod_once(cluster: EmbeddedCluster) -> None:
    async with controlling(cluster):
        await cluster.create(notebook())
        pod = await start_pod(cluster, "nb-0")
        await cluster.patch(NOTEBOOK, "nb", "default", {"metadata": {"annotations": {RESTART_ANNOTATION: "true"}}})
        await wait_for(cluster, POD, "nb-0", lambda each: uid_of(each) != uid_of(pod))
        restarted = await wait_for(
            cluster, NOTEBOOK, "nb", lambda nb: RESTART_ANNOTATION not in (nb["metadata"].get("annotations") or {})
        )
        assert not restarted["metadata"].get("annotations")


async def test_the_progress_of_an_environment_is_in_the_status_until_the_pod_can_start(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(STATUS, "now", EnvironmentStatus("minimal", "installing", "Downloading x (package 1)", 0.1))
    async with controlling(cluster) as controller:
        await cluster.create(notebook())
        waiting = await wait_for(cluster, NOTEBOOK, "nb", lambda nb: bool(status_of(nb)))
        assert status_of(waiting)["environment"]["fraction"] == 0.1
        assert not (await cluster.list(POD)).items
        monkeypatch.setitem(STATUS, "now", READY)
        controller.environments_changed()
        await wait_for(cluster, POD, "nb-0", lambda each: True)
        await wait_for(cluster, NOTEBOOK, "nb", lambda nb: "environment" not in status_of(nb))


async def test_what_belongs_to_a_deleted_notebook_is_deleted(cluster: EmbeddedCluster) -> None:
    async with controlling(cluster):
        await cluster.create(notebook())
        await wait_for(cluster, SERVICE, "nb", lambda each: True)
        await cluster.delete(NOTEBOOK, "nb", "default")
        for kind in (POD, SERVICE, SECRET):
            await wait_for_all(cluster, kind, lambda found: not found)


async def test_a_secret_of_somebody_else_is_not_used_as_the_token(cluster: EmbeddedCluster) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "notebook-nb-token", "namespace": "default"}}
    await cluster.create({**secret, "stringData": {"token": "known to everyone"}})
    async with controlling(cluster):
        await cluster.create(notebook())
        refused = await wait_for(cluster, NOTEBOOK, "nb", lambda nb: bool(status_of(nb).get("conditions")))
        assert "belongs to something else" in status_of(refused)["conditions"][0]["message"]
        assert not (await cluster.list(POD)).items
        await wait_for_all(cluster, EVENT, lambda events: any(e["reason"] == "FailedCreate" for e in events))


async def test_the_samples_of_kubeflow_are_accepted_in_every_version(cluster: EmbeddedCluster) -> None:
    async with controlling(cluster):
        for document in load_manifests(SAMPLES, "samples.yaml"):
            await cluster.create(document.object)
        await wait_for_all(cluster, POD, lambda pods: len(pods) == 4)
        pods = {name_of(pod) for pod in (await cluster.list(POD)).items}
        assert pods == {
            "notebook-sample-v1-0", "notebook-sample-v1beta1-0", "notebook-sample-v1alpha1-0",
            "tensorboard-sample-tensorboard-0",
        }  # fmt: skip
        await start_pod(cluster, "tensorboard-sample-tensorboard-0")
        board = await wait_for(
            cluster, TENSORBOARD, "tensorboard-sample", lambda each: status_of(each).get("readyReplicas") == 1
        )
        assert status_of(board)["conditions"][-1]["deploymentState"] == "Available"
        with pytest.raises(NotFound):
            await find_upstream(cluster, NOTEBOOK, "default", "tensorboard-sample")


async def test_the_culler_asks_the_pod_itself_and_not_the_address_in_its_status(cluster: EmbeddedCluster) -> None:
    asked: list[str] = []

    async def jupyter(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.json_response([])

    async def nobody(namespace: str, pod: str, port: int) -> str:
        raise OSError(f"{namespace}/{pod}: what listens on port {port} belongs to somebody else")

    async def there(namespace: str, pod: str, port: int) -> str:
        return "127.0.0.1"

    async with controlling(cluster), serve_http(jupyter) as port, aiohttp.ClientSession() as session:
        made = notebook()
        made["spec"]["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": port}]
        await cluster.create(made)
        await start_pod(cluster, "nb-0", "127.0.0.1")
        await wait_for(cluster, NOTEBOOK, "nb", lambda nb: status_of(nb).get("readyReplicas") == 1)
        recorder = EventRecorder(cluster, "culler")
        await Culler(cluster, recorder, WorkspaceSettings(), address_of=nobody).look(session)
        assert asked == []
        await Culler(cluster, recorder, WorkspaceSettings(), address_of=there).look(session)
        assert asked == ["/api/kernels", "/api/terminals"]


async def test_the_culler_asks_workspaces_at_the_same_time(cluster: EmbeddedCluster) -> None:
    other_was_asked = asyncio.Event()

    async def slow(request: web.Request) -> web.Response:
        await other_was_asked.wait()
        return web.json_response([])

    async def quick(request: web.Request) -> web.Response:
        other_was_asked.set()
        return web.json_response([])

    async with (
        controlling(cluster),
        serve_http(slow) as slow_port,
        serve_http(quick) as quick_port,
        aiohttp.ClientSession() as session,
        asyncio.timeout(20),
    ):
        for name, port in (("a", slow_port), ("b", quick_port)):
            made = notebook(name)
            made["spec"]["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": port}]
            await cluster.create(made)
            await start_pod(cluster, f"{name}-0", "127.0.0.1")
            await wait_for(cluster, NOTEBOOK, name, lambda nb: status_of(nb).get("readyReplicas") == 1)
        await Culler(cluster, EventRecorder(cluster, "culler"), WorkspaceSettings()).look(session)
        for name in ("a", "b"):
            assert LAST_ACTIVITY_ANNOTATION in annotations_of(await cluster.get(NOTEBOOK, name, "default"))
