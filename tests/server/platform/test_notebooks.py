"""Notebooks and TensorBoards over HTTP. The controller is real; the test plays the node."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.controllers.claims import ClaimController
from muster.embedded.controllers.garbage import GarbageCollector
from muster.embedded.node.operations import AgentFiles
from muster.kube.budgets import Budgets
from muster.kube.builtin import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD
from muster.kube.errors import NotFound
from muster.kube.events import EventRecorder
from muster.kube.objects import Object, timestamp
from muster.platform.database.database import Database, sqlite_url
from muster.server.platform.tensorboard_logs import _copy_files
from muster.training.registry import training_kinds
from muster.workspaces.addresses import read_token
from muster.workspaces.controller import WorkspaceController
from muster.workspaces.kinds import CULLED_AT_ANNOTATION, NOTEBOOK, STOP_ANNOTATION, TENSORBOARD, workspace_kinds
from muster.workspaces.mounted_files import EventFile, MountedFolder
from tests.embedded.waiting import run_components, wait_for
from tests.server.platform.served import Client, Served, serving
from tests.server.platform.whole import eventually


@dataclass(frozen=True, slots=True)
class Workspaces:
    served: Served
    cluster: EmbeddedCluster

    async def start_pod(self, name: str, namespace: str) -> None:
        pod = await wait_for(self.cluster, POD, name, lambda pod: True, namespace)
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": timestamp()}
        status = {"phase": "Running", "podIP": "127.1.0.7", "conditions": [ready]}
        await self.cluster.update({**pod, "status": status}, subresource="status")


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Workspaces]:
    kinds = (*workspace_kinds(), *training_kinds())
    database = await Database.open(sqlite_url(tmp_path / "platform.db"))
    async with serving(database, tmp_path / "home", kinds=kinds) as served:
        cluster = served.platform.cluster
        assert isinstance(cluster, EmbeddedCluster)
        recorder = EventRecorder(cluster, "workspace-controller")
        controller = WorkspaceController(cluster, recorder)
        claims = ClaimController(cluster, recorder, tmp_path / "home/volumes")
        parts = (controller, recorder, claims, GarbageCollector(cluster), served.platform.namespaces)
        async with run_components(*parts):
            yield Workspaces(served, cluster)
    database.close()


async def until(client: Client, path: str, **expected: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}

    async def holds() -> bool:
        nonlocal found
        found = await client.get(path)
        return all(found[name] == value for name, value in expected.items())

    await eventually(holds)
    return found


async def test_a_notebook_from_the_form_to_its_end(here: Workspaces) -> None:
    ann = await here.served.user("ann")
    images = await ann.get("workspaces/images")
    assert [each["name"] for each in images] == ["minimal", "pytorch", "tensorflow", "paddle", "xgboost"]
    made = await ann.post("notebooks", {"name": "research", "image": "pytorch", "cpu": "2", "memory": "4Gi", "gpus": 1})
    assert made["namespace"] == "user-ann"
    assert (made["owner_name"], made["image_name"], made["gpus"]) == ("ann", "pytorch", 1)
    assert made["resources"] == {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1"}
    assert made["home"] == "research-home"
    assert made["mounts"] == [
        {"path": "/home/jovyan", "claim": "research-home", "folder": "", "sub_path": "", "read_only": False}
    ]
    assert (made["state"], made["may"]) == ("starting", ["stop", "restart", "edit", "delete"])
    claim = await here.cluster.get(PERSISTENT_VOLUME_CLAIM, "research-home", "user-ann")
    assert claim["spec"]["resources"]["requests"]["storage"] == "10Gi"

    path = "notebooks/user-ann/research"
    await here.start_pod("research-0", "user-ann")
    running = await until(ann, path, state="running")
    assert running["may"] == ["open", "stop", "restart", "edit", "delete"]
    assert running["ready_since"] is not None
    notebook = await here.cluster.get(NOTEBOOK, "research", "user-ann")
    assert await read_token(here.cluster, notebook) not in str(running)
    happened = await ann.get(f"{path}/happenings")
    assert "Created" in [each["reason"] for each in happened] or happened == []

    (await ann("POST", f"{path}/start")).refused(409)
    stopped = await ann.post(f"{path}/stop")
    assert stopped["state"] == "stopped"
    stopped = await until(ann, path, reason="")
    assert stopped["may"] == ["start", "edit", "delete"]
    changed = (await ann("PATCH", path, {"image": "minimal", "cull_idle_minutes": 30})).ok()
    assert (changed["image_name"], changed["cull_idle_minutes"]) == ("minimal", 30)
    assert changed["resources"]["memory"] == "4Gi"
    await ann.post(f"{path}/start")
    pod = await wait_for(here.cluster, POD, "research-0", lambda pod: True, "user-ann")
    assert pod["spec"]["containers"][0]["image"] == changed["image"]

    assert (await ann("DELETE", path)).status == 204
    (await ann("GET", path)).refused(404)
    await here.cluster.get(PERSISTENT_VOLUME_CLAIM, "research-home", "user-ann")
    # The files of an earlier notebook of this name are there again, and go away when that is asked for.
    await ann.post("notebooks", {"name": "research"})
    await ann.post("notebooks", {"name": "other", "home_claim": "research-home"})
    assert (await ann("DELETE", f"{path}?home=true")).refused(409)["code"] == "volume.used"
    await ann.get(path)
    (await ann("DELETE", path.replace("research", "other"))).ok()
    (await ann("DELETE", f"{path}?home=true")).ok()
    with pytest.raises(NotFound):
        await here.cluster.get(PERSISTENT_VOLUME_CLAIM, "research-home", "user-ann")
    actions = [each["action"] for each in (await here.served.admin.get("audit?kind=workspace"))["items"]]
    assert actions == ["delete", "delete", "create", "create", "delete", "start", "edit", "stop", "create"]


async def test_who_may_see_and_change_a_notebook(here: Workspaces) -> None:
    ann, bob, eve = [await here.served.user(name) for name in ("ann", "bob", "eve")]
    team = await here.served.admin.post("teams", {"name": "vision"})
    for name in ("ann", "bob"):
        (await here.served.admin("PUT", f"teams/{team['id']}/members/{name}", {"role": "member"})).ok()
    await ann.post("notebooks", {"name": "mine"})
    shared = await ann.post("notebooks", {"name": "ours", "team": "vision"})
    assert (shared["namespace"], shared["team_name"], shared["owner_name"]) == ("team-vision", "vision", "ann")
    for client, names in ((ann, {"mine", "ours"}), (bob, {"ours"}), (eve, set())):
        assert {each["name"] for each in (await client.get("notebooks"))["items"]} == names
    for method, path in (
        ("GET", ""), ("PATCH", ""), ("DELETE", ""), ("POST", "/start"), ("POST", "/stop"), ("POST", "/restart"),
        ("GET", "/events"), ("GET", "/happenings"), ("GET", "/log"), ("GET", "/log/events"),
    ):  # fmt: skip
        body = {"image": "minimal"} if method == "PATCH" else None
        for client in (bob, eve):
            (await client(method, f"notebooks/user-ann/mine{path}", body)).refused(404)
    # A member of the team opens, stops and starts it; the owner and the leaders change it.
    assert (await bob.get("notebooks/team-vision/ours"))["may"] == ["stop", "restart"]
    assert (await bob.post("notebooks/team-vision/ours/stop"))["state"] == "stopped"
    (await bob("DELETE", "notebooks/team-vision/ours")).refused(403)
    (await eve("POST", "notebooks", {"name": "spy", "team": "vision"})).refused(403)
    assert (await here.served.admin.get("notebooks"))["total"] == 2


async def test_what_is_wrong_with_a_form_is_said_for_each_field(here: Workspaces) -> None:
    ann = await here.served.user("ann")
    body = {
        "name": "Not_Valid", "image": "pytorhc", "cluster": "nowhere", "home_size": "much", "home_claim": "missing",
        "cpu": "-1", "mounts": [{"root": "x", "claim": "y"}, {"root": "nfs"}, {"claim": "other", "path": "/proc/x"}],
        "env": {"A=B": "1"},
    }  # fmt: skip
    problem = (await ann("POST", "notebooks", body)).refused(422)
    assert {each["field"] for each in problem["errors"]} == {
        "name", "image", "cluster", "cpu", "mounts[0]", "mounts[1].root", "mounts[2].claim", "mounts[2].path",
        "env.A=B", "home_claim", "home_size",
    }  # fmt: skip
    (await ann("POST", "notebooks", {"name": "nb", "privileged": True})).refused(422)
    await ann.post("notebooks", {"name": "nb"})
    assert (await ann("POST", "notebooks", {"name": "nb"})).refused(409)["errors"][0]["field"] == "name"


async def test_resources_of_a_virtual_cluster_and_mounts_of_storage_roots(here: Workspaces) -> None:
    admin, ann = here.served.admin, await here.served.user("ann")
    await admin.post("teams", {"name": "other"})
    sku = {"gpu": 1, "cpu": "4", "memory": "16Gi"}
    await admin.post("clusters", {"name": "gpus", "sku": sku, "node_selector": {"zone": "a"}})
    await admin.post("clusters", {"name": "theirs", "sku": sku, "team": "other"})
    await admin.post("storage", {"name": "data", "path": "/nfs/data", "host_path": "/mnt/data", "read_only": True})
    form = {"name": "nb", "cluster": "gpus", "skus": 2, "mounts": [{"root": "data", "path": "/data"}], "home": False}
    made = await ann.post("notebooks", form)
    assert (made["cluster"], made["skus"], made["gpus"], made["home"]) == ("gpus", 2, 2, "")
    assert made["resources"] == {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "2"}
    assert made["mounts"] == [{"path": "/data", "claim": "", "folder": "/mnt/data", "sub_path": "", "read_only": True}]
    pod = await wait_for(here.cluster, POD, "nb-0", lambda pod: True, "user-ann")
    assert pod["spec"]["nodeSelector"] == {"zone": "a"}
    refused = (await ann("POST", "notebooks", {**form, "name": "no", "cluster": "theirs"})).refused(422)
    assert [each["code"] for each in refused["errors"]] == ["task.forbidden"]
    changed = (await ann("PATCH", "notebooks/user-ann/nb", {"cpu": "1"})).ok()
    assert (changed["cluster"], changed["gpus"], changed["resources"]["cpu"]) == ("", 0, "1")


async def test_a_culled_notebook_says_so_until_it_is_started(here: Workspaces) -> None:
    ann = await here.served.user("ann")
    await ann.post("notebooks", {"name": "nb"})
    notes = {STOP_ANNOTATION: timestamp(), CULLED_AT_ANNOTATION: timestamp()}
    await here.cluster.patch(NOTEBOOK, "nb", "user-ann", {"metadata": {"annotations": notes}})
    assert (await ann.get("notebooks/user-ann/nb"))["culled_at"] is not None
    assert (await ann.post("notebooks/user-ann/nb/start"))["culled_at"] is None


async def test_a_tensorboard_on_a_folder_of_a_notebook_and_on_several_paths(here: Workspaces) -> None:
    admin, ann = here.served.admin, await here.served.user("ann")
    await admin.post("storage", {"name": "data", "path": "/nfs/data", "host_path": "/mnt/data"})
    await ann.post("notebooks", {"name": "nb"})
    folder = {"namespace": "user-ann", "name": "nb", "path": "logs/fit"}
    board = await ann.post("tensorboards", {"notebook": folder})
    assert (board["namespace"], board["name"]) == ("user-ann", "nb")
    assert board["logs"] == [{"name": "", "path": "pvc://nb-home/logs/fit"}]
    assert (await ann.post("tensorboards", {"notebook": folder}))["uid"] == board["uid"]
    await here.start_pod("nb-tensorboard-0", "user-ann")
    await until(ann, "tensorboards/user-ann/nb", state="running")

    elsewhere = (await ann("POST", "tensorboards", {"notebook": {**folder, "path": "/var/log"}})).refused(422)
    assert elsewhere["errors"][0]["code"] == "tensorboard.mounted"
    paths = [{"name": "a", "path": "pvc://nb-home/a"}, {"path": "/nfs/data/b"}]
    several = await ann.post("tensorboards", {"name": "both", "logs": paths})
    assert several["logs"] == [{"name": "a", "path": "pvc://nb-home/a"}, {"name": "2", "path": "/mnt/data/b"}]
    wrong = [{"path": "pvc://missing/a"}, {"path": "/etc"}, {"path": "ftp://x/y"}]
    problem = (await ann("POST", "tensorboards", {"logs": wrong})).refused(422)
    assert [each["field"] for each in problem["errors"]] == ["logs[0].path", "logs[1].path", "logs[2].path"]
    assert (await ann("POST", "tensorboards", {})).refused(422)["errors"][0]["code"] == "tensorboard.what"

    path = "tensorboards/user-ann/both"
    assert (await ann.post(f"{path}/stop"))["state"] == "stopped"
    changed = (await ann("PATCH", path, {"logs": [{"path": "pvc://nb-home/c"}]})).ok()
    assert changed["logs"] == [{"name": "", "path": "pvc://nb-home/c"}]
    assert {each["name"] for each in (await ann.get("tensorboards?state=stopped"))["items"]} == {"both"}
    (await (await here.served.user("eve"))("GET", path)).refused(404)
    (await ann("DELETE", path)).ok()
    with pytest.raises(NotFound):
        await here.cluster.get(TENSORBOARD, "both", "user-ann")


async def test_a_tensorboard_of_a_job_shows_the_claims_that_its_pods_mount(here: Workspaces) -> None:
    ann = await here.served.user("ann")
    await ann.post("notebooks", {"name": "nb"})  # makes the namespace, and a claim
    job = await here.cluster.create(_job("train", "user-ann"))
    (await ann("POST", "tensorboards", {"job": "user-ann/pytorchjob/train"})).refused(422)
    await here.cluster.create(_pod_of(job))
    board = await ann.post("tensorboards", {"job": "user-ann/pytorchjob/train"})
    assert board["logs"] == [{"name": "", "path": "pvc://nb-home"}]
    (await (await here.served.user("eve"))("POST", "tensorboards", {"job": "user-ann/pytorchjob/train"})).refused(404)


async def test_event_files_that_only_a_pod_has_are_copied(here: Workspaces, monkeypatch: pytest.MonkeyPatch) -> None:
    ann = await here.served.user("ann")
    await ann.post("notebooks", {"name": "nb"})  # makes the namespace
    job = await here.cluster.create(_job("train", "user-ann"))
    pod = _pod_of(job)
    pod["spec"] = {"containers": [{"name": "pytorch", "image": "python", "command": ["true"]}]}
    pod = await here.cluster.create(pod)
    scratch = Path(AgentFiles(here.served.platform.settings.agent).scratch_folder(pod, "pytorch"))
    (scratch / "runs").mkdir(parents=True)
    written = scratch / "runs" / "events.out.tfevents.1700000000.train-master-0"
    written.write_bytes(b"first")
    board = await ann.post("tensorboards", {"job": "user-ann/pytorchjob/train"})
    (folder,) = board["logs"]
    claim = folder["path"].removeprefix("pvc://").partition("/")[0]
    stored = await here.cluster.get(PERSISTENT_VOLUME_CLAIM, claim, "user-ann")
    volume = await here.cluster.get(PERSISTENT_VOLUME, stored["spec"]["volumeName"])
    copied = Path(volume["spec"]["hostPath"]["path"], "job/train-master-0/tmp/runs", written.name)
    assert copied.read_bytes() == b"first"
    # A second request brings the copy up to date.
    written.write_bytes(b"first and second")
    assert (await ann.post("tensorboards", {"job": "user-ann/pytorchjob/train"}))["uid"] == board["uid"]
    assert copied.read_bytes() == b"first and second"
    # Copies count as what her volumes hold.
    platform = here.served.platform
    settings = replace(platform.settings, budgets=Budgets(member_volume_megabytes=0))
    monkeypatch.setattr(platform, "settings", settings)
    written.write_bytes(b"first, second and third")
    refused = (await ann("POST", "tensorboards", {"job": "user-ann/pytorchjob/train"})).refused(413)
    assert (refused["code"], copied.read_bytes()) == ("volume.full", b"first and second")
    (await ann("DELETE", f"tensorboards/user-ann/{board['name']}")).ok()

    async def is_gone() -> bool:
        names = [each["metadata"]["name"] for each in (await here.cluster.list(PERSISTENT_VOLUME_CLAIM)).items]
        return claim not in names

    await eventually(is_gone)


def _job(name: str, namespace: str) -> Object:
    template = {"spec": {"containers": [{"name": "pytorch", "image": "python", "command": ["true"]}]}}
    specs = {"Master": {"replicas": 1, "restartPolicy": "Never", "template": template}}
    return {
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name, "namespace": namespace},
        "spec": {"pytorchReplicaSpecs": specs},
    }  # fmt: skip


def _pod_of(job: Object) -> Object:
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "train", "uid": job["metadata"]["uid"]}
    mount = {"name": "data", "mountPath": "/data"}
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "train-master-0", "namespace": "user-ann", "labels": {"training.kubeflow.org/job-name": "train"},
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {
            "containers": [{"name": "pytorch", "image": "python", "command": ["true"], "volumeMounts": [mount]}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "nb-home"}}],
        },
    }  # fmt: skip


def test_a_log_that_grows_while_it_is_copied_does_not_fill_the_disk(tmp_path: Path) -> None:
    source, target = tmp_path / "pod", tmp_path / "claim"
    source.mkdir()
    target.mkdir()
    (source / "events.out.tfevents.1").write_bytes(b"as it was found, and more")
    folder = MountedFolder(str(source), "", "/logs", "pod", "pod", 0.0, is_private=True)
    _copy_files(str(target), {"run/pod/events": EventFile(folder, "events.out.tfevents.1", 15)})
    assert (target / "run/pod/events").read_bytes() == b"as it was found"
    assert [each.name for each in (target / "run/pod").iterdir()] == ["events"]
