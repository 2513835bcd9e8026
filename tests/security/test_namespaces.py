"""Members against members on a whole server: through the platform, and with their tokens at the Kubernetes API."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import aiohttp
import orjson
import pytest
import pytest_asyncio

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import CONFIG_MAP, NAMESPACE, PERSISTENT_VOLUME_CLAIM, SECRET
from muster.kube.builtin import POD as PODS
from muster.kube.errors import ApiError, Forbidden, NotFound
from muster.kube.kinds import Kind
from muster.kube.objects import Key, Object, annotations_of, labels_of, name_of
from muster.kube.rbac import User
from muster.platform.database.database import sqlite_url
from muster.platform.users.credentials import local_token, platform_folder
from muster.server.embedded_server import run_server
from muster.server.kubernetes.app import AccessControl
from muster.server.settings import read_settings
from muster.workflows.kinds import WORKFLOW
from tests.server.platform.served import Client

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATIENCE = 60.0
SECRET_RUN = "run-0000000000000000000000thr2"


@dataclass(frozen=True, slots=True)
class Member:
    name: str
    platform: Client
    token: str

    @property
    def namespace(self) -> str:
        return f"user-{self.name}"


@dataclass(frozen=True, slots=True)
class Shared:
    """A server with an admin, a team with alice and tom, and mallory, who is in no team."""

    cluster: EmbeddedCluster
    api: str
    admin: Client
    alice: Member
    tom: Member
    mallory: Member
    root: Path
    reference: Path

    async def kube(self, token: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """A request to the Kubernetes or Argo API."""
        patch = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {token}", "Content-Type": patch}
        data = None if body is None else orjson.dumps(body)
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, f"{self.api}{path}", data=data, headers=headers, ssl=False) as response,
        ):
            raw = await response.read()
            return response.status, orjson.loads(raw) if raw[:1] in b"{[" and raw else raw.decode()


async def new_member(url: str, admin: Client, name: str, team: str = "") -> Member:
    await admin.post("users", {"name": name, "password": "correct horse battery"})
    if team:
        (await admin("PUT", f"teams/{team}/members/{name}", {"role": "member"})).ok()
    browser = Client(url)
    await browser.post("session", {"name": name, "password": "correct horse battery"})
    token = (await browser.post("tokens", {"name": "script"}))["secret"]
    return Member(name, Client(url, token), token)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shared]:
    folder = tmp_path_factory.mktemp("shared")
    root, reference, home = folder / "data", folder / "reference", folder / "home"
    root.mkdir()
    reference.mkdir()
    settings = read_settings(
        home, {"durability": "process", "web": {"port": 0}, "database": sqlite_url(folder / "platform.db")}
    )
    async with run_server(settings, web=True) as server:
        url = server.info.web
        admin = Client(url, "")
        await admin("GET", "health")
        admin = Client(url, local_token(platform_folder(home)))
        await admin.post("teams", {"name": "vision"})
        await admin.post("storage", {"name": "data", "path": str(root)})
        await admin.post("storage", {"name": "reference", "path": str(reference), "read_only": True})
        await admin.post("clusters", {"name": "theirs", "sku": {"cpu": "1"}, "team": "vision"})
        alice, tom = await new_member(url, admin, "alice", "vision"), await new_member(url, admin, "tom", "vision")
        mallory = await new_member(url, admin, "mallory")
        made = Shared(server.cluster, server.info.url, admin, alice, tom, mallory, root, reference)
        yield made


def graph(command: str = "true", **node: Any) -> Any:
    return {"format": 1, "type": "graph", "nodes": [{"name": "a", "kind": "plain", "image": "busybox",
            "command": command, **node}]}  # fmt: skip


async def run_of(client: Client, name: str, document: Any, **more: Any) -> Any:
    await client.post("workflows", {"name": name, "version": {"document": document}})
    return await client.post("runs", {"workflow": name, **more})


async def ended(client: Client, run_id: str) -> Any:
    async with asyncio.timeout(PATIENCE):
        while True:
            run = await client.get(f"runs/{run_id}")
            if run["state"] in ("succeeded", "failed", "stopped"):
                return run
            await asyncio.sleep(0.05)


def manifest(spec: Any) -> Any:
    workflow = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"generateName": "w-"}}
    return {"format": 1, "type": "yaml", "manifest": orjson.dumps({**workflow, "spec": spec}).decode()}


def template(**more: Any) -> Any:
    return {"name": "main", "container": {"image": "busybox", "command": ["true"]}, **more}


async def test_runs_live_in_the_namespace_of_their_owner_or_team(box: Shared) -> None:
    """A member's run is in the member's own restricted namespace, a shared one in the team's, an admin's in default."""
    own = await run_of(box.alice.platform, "own", graph())
    shared = await box.alice.platform.post("runs", {"workflow": "own", "team": "vision"})
    admins = await run_of(box.admin, "admins", graph())
    assert (own["namespace"], shared["namespace"], admins["namespace"]) == ("user-alice", "team-vision", "default")
    for run in (own, shared, admins):
        done = await ended(box.admin, run["id"])
        assert done["state"] == "succeeded", done["message"]
        workflow = await box.cluster.get(WORKFLOW, f"run-{run['id']}", run["namespace"])
        assert labels_of(workflow)["muster.dev/run"] == run["id"]
    for name, restricted in (("user-alice", True), ("team-vision", True), ("default", False)):
        labels = labels_of(await box.cluster.get(NAMESPACE, name))
        assert (labels.get("muster.dev/isolation") == "restricted") is restricted
    log = await box.alice.platform.get(f"runs/{own['id']}/nodes/a/log")
    assert log == ""
    (await box.alice.platform("DELETE", f"runs/{own['id']}")).ok()
    with pytest.raises(NotFound):
        await box.cluster.get(WORKFLOW, f"run-{own['id']}", "user-alice")


TAGGED: list[tuple[str, Any, str]] = [
    (
        "uses the queue of another team's virtual cluster by a tag",
        {"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": "{{workflow.parameters.x}}"}}},
        "QUEUE",
    ),
    (
        "takes a system priority by a tag",
        {"priorityClassName": "{{workflow.parameters.x}}"},
        "system-node-critical",
    ),
]


@pytest.mark.parametrize(
    ("more", "value"), [pytest.param(more, value, id=f"A member's run {name}") for name, more, value in TAGGED]
)
async def test_a_tag_that_becomes_forbidden_fails_the_node(box: Shared, more: Any, value: str) -> None:
    if value == "QUEUE":
        found = await box.admin.get("clusters/theirs")
        value = f"vc-{found['id']}"
    spec = {
        "entrypoint": "main",
        "arguments": {"parameters": [{"name": "x", "value": value}]},
        "templates": [template(**more)],
    }
    run = await run_of(box.mallory.platform, f"tag-{value}", manifest(spec))
    done = await ended(box.mallory.platform, run["id"])
    assert done["state"] == "failed"
    assert "is forbidden in the restricted namespace" in done["message"], done["message"]


def hostile(**spec: Any) -> Any:
    parameters = [{"name": "x", "value": spec.pop("x", "")}]
    return {"entrypoint": "main", "arguments": {"parameters": parameters}, "templates": [template()], **spec}


def mount(path: str, **more: Any) -> Any:
    container = {"image": "busybox", "command": ["true"], "volumeMounts": [{"name": "v", "mountPath": "/v", **more}]}
    return {"volumes": [{"name": "v", "hostPath": {"path": path}}], "templates": [template(container=container)]}


HOSTILE: list[tuple[str, Any, str]] = [
    ("mounts a host path by a tag", hostile(x="/etc", **mount("{{workflow.parameters.x}}")), "hostPath.path"),
    ("leaves a storage root by a tag", hostile(x="/../etc", **mount("ROOT{{workflow.parameters.x}}")), "hostPath.path"),
    ("mounts a link inside a storage root", hostile(**mount("ROOT/link")), "hostPath.path"),
    ("writes to a read-only root", hostile(**mount("REFERENCE")), "is read-only"),
    (
        "becomes privileged by podSpecPatch",
        hostile(podSpecPatch='{"containers": [{"name": "main", "securityContext": {"privileged": true}}]}'),
        "privileged",
    ),
    (
        "uses the machine's network by podSpecPatch with a tag",
        hostile(x="true", podSpecPatch='{"hostNetwork": true, "hostname": "{{workflow.parameters.x}}"}'),
        "hostNetwork",
    ),
    (
        "chooses the runtime by podMetadata",
        hostile(podMetadata={"annotations": {"muster.dev/runtime": "sandbox"}}),
        "muster.dev/runtime",
    ),
    (
        "chooses the runtime by a template's annotation with a tag",
        hostile(x="sandbox", templates=[template(metadata={"annotations": {
            "muster.dev/runtime": "{{workflow.parameters.x}}"}})]),
        "muster.dev/runtime",
    ),
    ("takes the label of another run", hostile(podMetadata={"labels": {"muster.dev/run": "x"}}), "muster.dev/run"),
    ("runs as another service account by a tag",
     hostile(x="admin", serviceAccountName="{{workflow.parameters.x}}"), "service account"),
    (
        "reads the Secret of another run by a tag",
        hostile(
            x=SECRET_RUN,
            templates=[template(container={"image": "busybox", "command": ["true"], "env": [
                {"name": "T", "valueFrom": {"secretKeyRef": {"name": "{{workflow.parameters.x}}", "key": "k"}}}]})],
        ),
        "belongs to another run",
    ),
    (
        "binds a volume of its choice by volumeClaimTemplates",
        hostile(volumeClaimTemplates=[{"metadata": {"name": "c"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "any"}}]),
        "volumeName",
    ),
    (
        "reads the Secret of another run by a resource template",
        hostile(templates=[{"name": "main", "resource": {"action": "get", "manifest": orjson.dumps(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET_RUN}}).decode()}}]),
        "cannot get",
    ),
    (
        "creates a Pod that names another run by a resource template",
        hostile(templates=[{"name": "main", "resource": {"action": "create", "manifest": orjson.dumps(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "labels": {"muster.dev/run": "x"}},
             "spec": {"containers": [{"name": "a", "image": "x"}]}}).decode()}}]),
        "muster.dev/run",
    ),
    (
        "creates an object in another namespace by a resource template",
        hostile(templates=[{"name": "main", "resource": {"action": "create", "manifest": orjson.dumps(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "user-alice"}}
        ).decode()}}]),
        "cannot create",
    ),
    (
        "creates a privileged Pod by a resource template",
        hostile(templates=[{"name": "main", "resource": {"action": "create", "manifest": orjson.dumps(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "y"},
             "spec": {"hostPID": True, "containers": [{"name": "a", "image": "x"}]}}).decode()}}]),
        "hostPID",
    ),
    (
        "takes the name of another run's script by a resource template",
        hostile(templates=[{"name": "main", "resource": {"action": "create", "manifest": orjson.dumps(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{SECRET_RUN}-a-123"}}).decode()}}]),
        "reserved",
    ),
    (
        "changes an object of another run by a resource template",
        hostile(templates=[{"name": "main", "resource": {"action": "patch", "manifest": orjson.dumps(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "labels": {"muster.dev/run": "y"}}}
        ).decode()}}]),
        "cannot be patched",
    ),
    (
        "sends the Secret of another run to a server of its choice as an artifact's password",
        hostile(templates=[template(inputs={"artifacts": [{"name": "a", "path": "/tmp/a", "http": {
            "url": "http://127.0.0.1:1/x", "auth": {"basicAuth": {
                "usernameSecret": {"name": SECRET_RUN, "key": "k"},
                "passwordSecret": {"name": SECRET_RUN, "key": "k"}}}}}]})]),
        "belongs to a run",
    ),
    (
        "sends the Secret of another run to a server of its choice as a header",
        hostile(templates=[{"name": "main", "http": {"url": "http://127.0.0.1:1/x", "headers": [
            {"name": "X", "valueFrom": {"secretKeyRef": {"name": SECRET_RUN, "key": "k"}}}]}}]),
        "belongs to a run",
    ),
    (
        "holds a mutex of another member's namespace",
        hostile(synchronization={"mutexes": [{"name": "m", "namespace": "user-alice"}]}),
        "in another namespace",
    ),
    (
        "gives itself a role by a resource template",
        hostile(templates=[{"name": "main", "resource": {"action": "create", "manifest": orjson.dumps(
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "x"},
             "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
             "subjects": [{"kind": "ServiceAccount", "name": "default"}]}).decode()}}]),
        "is forbidden",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "told"), [pytest.param(spec, told, id=f"A member's Workflow {name}") for name, spec, told in HOSTILE]
)
async def test_a_workflow_of_kubectl_meets_the_same_wall(box: Shared, spec: Any, told: str) -> None:
    if not (box.root / "link").is_symlink():
        (box.root / "link").symlink_to("/etc")
    text = orjson.dumps(spec).decode().replace("REFERENCE", str(box.reference)).replace("ROOT", str(box.root))
    body = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"generateName": "hostile-"},
        "spec": orjson.loads(text),
    }
    path = "/apis/argoproj.io/v1alpha1/namespaces/user-mallory/workflows"
    status, made = await box.kube(box.mallory.token, "POST", path, body)
    assert status == 201, made
    async with asyncio.timeout(PATIENCE):
        while True:
            workflow = box.cluster.with_status_rows(await box.cluster.get(WORKFLOW, name_of(made), "user-mallory"))
            state = workflow.get("status") or {}
            if state.get("phase") in ("Failed", "Error", "Succeeded"):
                break
            await asyncio.sleep(0.05)
    messages = [state.get("message") or "", *(n.get("message") or "" for n in (state.get("nodes") or {}).values())]
    assert state["phase"] != "Succeeded"
    assert any(told in message for message in messages), messages


OWN = "/api/v1/namespaces/user-mallory"
ALICE = "/api/v1/namespaces/user-alice"
POD: Any = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "a", "image": "busybox", "command": ["true"]}]},
}


def config_map(**metadata: Any) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", **metadata}}


def secret(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}


REQUESTS: list[tuple[str, str, str, Any]] = [
    ("lists the Pods of another member", "GET", f"{ALICE}/pods", None),
    ("watches the Pods of another member", "GET", f"{ALICE}/pods?watch=true", None),
    ("reads the logs of another member", "GET", f"{ALICE}/pods/x/log", None),
    ("enters a Pod of another member", "GET", f"{ALICE}/pods/x/exec?command=id", None),
    ("lists the Secrets of another member", "GET", f"{ALICE}/secrets", None),
    ("reads a ConfigMap of another member", "GET", f"{ALICE}/configmaps/x", None),
    ("creates a Pod for another member", "POST", f"{ALICE}/pods", POD),
    ("creates a Service for another member", "POST", f"{ALICE}/services", None),
    ("claims storage of another member", "GET", f"{ALICE}/persistentvolumeclaims", None),
    ("lists the Workflows of another member", "GET",
     "/apis/argoproj.io/v1alpha1/namespaces/user-alice/workflows", None),
    ("lists Workflows of another member with argo", "GET", "/api/v1/workflows/user-alice", None),
    ("lists all Workflows with argo", "GET", "/api/v1/workflows/", None),
    ("submits a Workflow for another member with argo", "POST", "/api/v1/workflows/user-alice",
     {"workflow": {"metadata": {"generateName": "x-"}, "spec": hostile()}}),
    ("reads the training jobs of another member", "GET",
     "/apis/kubeflow.org/v1/namespaces/user-alice/pytorchjobs", None),
    ("works in a team they are not in", "GET", "/api/v1/namespaces/team-vision/pods", None),
    ("works in the namespace of the admins", "POST", "/api/v1/namespaces/default/pods", POD),
    ("reads the Secrets of the admins", "GET", "/api/v1/namespaces/default/secrets", None),
    ("lists all Pods", "GET", "/api/v1/pods", None),
    ("lists all Secrets", "GET", "/api/v1/secrets", None),
    ("lists all namespaces", "GET", "/api/v1/namespaces", None),
    ("creates a namespace", "POST", "/api/v1/namespaces",
     {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "free"}}),
    ("removes the restriction of their namespace", "PATCH", "/api/v1/namespaces/user-mallory",
     {"metadata": {"labels": {"muster.dev/isolation": None}}}),
    ("grants their namespace the machine's root", "PATCH", "/api/v1/namespaces/user-mallory",
     {"metadata": {"annotations": {"muster.dev/grants": '{"paths": {"/": false}}'}}}),
    ("deletes their namespace", "DELETE", "/api/v1/namespaces/user-mallory", None),
    ("lists nodes", "GET", "/api/v1/nodes", None),
    ("creates a volume of the machine's root", "POST", "/api/v1/persistentvolumes", None),
    ("lists volumes", "GET", "/api/v1/persistentvolumes", None),
    ("gives themselves a role", "POST",
     "/apis/rbac.authorization.k8s.io/v1/namespaces/user-mallory/rolebindings", None),
    ("defines a kind", "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", None),
    ("creates a queue", "POST", "/apis/scheduling.volcano.sh/v1beta1/queues", None),
    ("creates a cluster-wide template", "POST", "/apis/argoproj.io/v1alpha1/clusterworkflowtemplates", None),
    ("lists the Secrets of their namespace, with those of runs", "GET", f"{OWN}/secrets", None),
    ("reads the Secret of a run", "GET", f"{OWN}/secrets/{SECRET_RUN}", None),
    ("patches the Secret of a run to see it", "PATCH", f"{OWN}/secrets/{SECRET_RUN}", {}),
    ("creates a Secret with the name of a run's", "POST", f"{OWN}/secrets", secret(SECRET_RUN)),
    ("deletes everything of a kind", "DELETE", f"{OWN}/secrets", None),
    ("issues a token of a service account", "POST", f"{OWN}/serviceaccounts/default/token", None),
    ("creates a service account", "POST", f"{OWN}/serviceaccounts", None),
    ("forges an Event", "POST", f"{OWN}/events", None),
    ("takes ports of the machine", "POST", "/apis/muster.dev/v1/namespaces/user-mallory/portleases", None),
    ("writes the status of a Pod", "PATCH", f"{OWN}/pods/x/status", {}),
    ("labels an object with another run", "POST", f"{OWN}/configmaps", config_map(labels={"muster.dev/run": "x"})),
    ("labels an object as shared", "POST", f"{OWN}/configmaps", config_map(labels={"muster.dev/shared": "everybody"})),
    ("labels an object with another owner", "POST", f"{OWN}/configmaps", config_map(labels={"muster.dev/owner": "x"})),
    ("names an owner of an object", "POST", f"{OWN}/configmaps", config_map(ownerReferences=[
        {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x"}])),
    ("blocks the deletion of an object", "POST", f"{OWN}/configmaps", config_map(finalizers=["example.com/never"])),
    ("creates a Workflow with the name of a run", "POST",
     "/apis/argoproj.io/v1alpha1/namespaces/user-mallory/workflows",
     {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": SECRET_RUN}, "spec": hostile()}),
    ("takes the name of a run's script, which the run would then execute", "POST", f"{OWN}/configmaps",
     config_map(name=f"{SECRET_RUN}-a-1234567890")),
    ("takes the name of a run's volume", "POST", f"{OWN}/persistentvolumeclaims",
     {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": f"{SECRET_RUN}-workspace"},
      "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
    ("creates a privileged Pod", "POST", f"{OWN}/pods",
     {**POD, "spec": {"containers": [{"name": "a", "image": "x", "securityContext": {"privileged": True}}]}}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [pytest.param(method, path, body, id=f"A member {name}") for name, method, path, body in REQUESTS],
)
async def test_a_members_token_reaches_only_their_namespaces(box: Shared, method: str, path: str, body: Any) -> None:
    status, answer = await box.kube(box.mallory.token, method, path, body)
    assert status == 403, answer


async def test_a_member_acts_as_an_admin(box: Shared) -> None:
    """A member impersonates another user with kubectl --as."""
    headers = {"Authorization": f"Bearer {box.mallory.token}", "Impersonate-User": "system:admin"}
    headers["Impersonate-Group"] = "system:masters"
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{box.api}/api/v1/pods", headers=headers, ssl=False) as response,
    ):
        assert response.status == 403


async def test_members_use_their_own_namespace_with_kubectl(box: Shared) -> None:
    """What is not an attack works: Pods, ConfigMaps, Secrets by name, Workflows in the own and the team's namespace."""
    for path, body in (
        (f"{OWN}/pods", POD),
        (f"{OWN}/configmaps", config_map()),
        (f"{OWN}/secrets", secret("mine")),
        ("/apis/argoproj.io/v1alpha1/namespaces/user-mallory/workflowtemplates",
         {"apiVersion": "argoproj.io/v1alpha1", "kind": "WorkflowTemplate", "metadata": {"name": "t"},
          "spec": hostile()}),
    ):  # fmt: skip
        status, answer = await box.kube(box.mallory.token, "POST", path, body)
        assert status == 201, answer
    for path in (f"{OWN}/pods", f"{OWN}/pods/p", f"{OWN}/secrets/mine", "/api/v1/namespaces/user-mallory"):
        status, answer = await box.kube(box.mallory.token, "GET", path)
        assert status == 200, answer
    status, answer = await box.kube(box.tom.token, "GET", "/api/v1/namespaces/team-vision/pods")
    assert status == 200, answer


async def test_a_team_mate_takes_the_secrets_of_a_run(box: Shared) -> None:
    """A team mate enters a run of the team with kubectl: its Secret, its Workflow, its Pods and their logs."""
    document = graph("sleep 600", env=[{"name": "KEY", "value": "hunter2!", "secret": True}])
    run = await run_of(box.alice.platform, "secretive", document, team="vision")
    run_name, base = f"run-{run['id']}", "/api/v1/namespaces/team-vision"
    async with asyncio.timeout(PATIENCE):
        while True:
            pods = (await box.kube(box.tom.token, "GET", f"{base}/pods"))[1]["items"]
            if pods:
                break
            await asyncio.sleep(0.05)
    pod = name_of(pods[0])
    workflow = f"/apis/argoproj.io/v1alpha1/namespaces/team-vision/workflows/{run_name}"
    reading = {"name": "K", "valueFrom": {"secretKeyRef": {"name": run_name, "key": "AI_HUB_TOKEN"}}}
    owner = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": run_name, "controller": True}
    thief: Object = {**POD, "spec": {"containers": [{**POD["spec"]["containers"][0], "env": [reading]}]}}
    uid = (
        labels_of(await box.cluster.get(WORKFLOW, run_name, "team-vision"))
        and (await box.cluster.get(WORKFLOW, run_name, "team-vision"))["metadata"]["uid"]
    )
    for method, path, body in (
        ("GET", f"{base}/secrets/{run_name}", None),
        ("PATCH", workflow, {"spec": {"suspend": True}}),
        ("DELETE", workflow, None),
        ("PUT", f"/api/v1/workflows/team-vision/{run_name}/stop", {}),
        ("GET", f"/api/v1/workflows/team-vision/{run_name}/log", None),
        ("GET", f"{base}/pods/{pod}/log", None),
        ("PATCH", f"{base}/pods/{pod}", {"metadata": {"labels": {"a": "b"}}}),
        ("DELETE", f"{base}/pods/{pod}", None),
        ("POST", f"{base}/pods", thief),
        ("POST", f"{base}/pods", {**thief, "metadata": {"name": "thief", "ownerReferences": [{**owner, "uid": uid}]}}),
    ):
        status, answer = await box.kube(box.tom.token, method, path, body)
        assert status == 403, (method, path, answer)
    (await box.alice.platform("POST", f"runs/{run['id']}/stop")).ok()


async def test_the_launcher_of_a_job_enters_only_its_own_workers() -> None:
    """The launcher of an MPI job enters the Pods of another run with its service account."""

    class Peeking:
        def peek(self, kind: Kind, key: Key) -> Object:
            if kind is NAMESPACE:
                return {"metadata": {"name": key.name, "labels": {"muster.dev/isolation": "restricted"}}}
            job = key.name.removesuffix("-worker-0")
            owner = {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "name": job, "uid": job, "controller": True}
            metadata = {"name": key.name, "namespace": key.namespace, "labels": {"muster.dev/run": "x"}}
            return {**POD, "metadata": {**metadata, "ownerReferences": [owner]}}

    gate = AccessControl(cast(Any, None), cast(Any, Peeking()))
    launcher = User("system:serviceaccount:team-vision:mine-launcher")
    gate.protect_runs(launcher, PODS, "team-vision", "mine-worker-0")
    for user, pod in ((launcher, "theirs-worker-0"), (User("muster:tom"), "mine-worker-0")):
        with pytest.raises(Forbidden):
            gate.protect_runs(user, PODS, "team-vision", pod)


async def test_whoever_runs_a_workflow_gets_its_secrets_through_file_outputs(box: Shared) -> None:
    """A member runs another member's workflow to read its secret variables."""
    node = graph("echo $KEY > /tmp/out", env=[{"name": "KEY", "value": "hunter2!", "secret": True}])
    await box.alice.platform.post("workflows", {"name": "with-secret", "version": {"document": node}})
    refused = (await box.mallory.platform("POST", "runs", {"workflow": "with-secret"})).refused(422)
    assert refused["errors"][0]["code"] == "run.secret"
    assert "KEY" in refused["errors"][0]["message"]
    run = await box.alice.platform.post("runs", {"workflow": "with-secret"})
    assert (await ended(box.alice.platform, run["id"]))["state"] == "succeeded"


async def test_a_batch_job_mounts_the_machine(box: Shared) -> None:
    """A member's batch Job mounts a host path: it gets an event and no Pod."""
    spec = {**POD["spec"], "restartPolicy": "Never", "hostPID": True}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": spec}}}
    status, answer = await box.kube(
        box.mallory.token, "POST", "/apis/batch/v1/namespaces/user-mallory/jobs", job
    )  # fmt: skip
    assert status == 201, answer
    async with asyncio.timeout(PATIENCE):
        while True:
            _, found = await box.kube(box.mallory.token, "GET", f"{OWN}/events")
            messages = [event["message"] for event in found["items"] if event["involvedObject"]["name"] == "j"]
            if any("spec.hostPID" in message for message in messages):
                return
            await asyncio.sleep(0.05)


async def test_a_training_job_mounts_the_machine(box: Shared) -> None:
    """A member's training job asks for the machine's network: it fails with a condition that names the field."""
    container = {"name": "pytorch", "image": "busybox", "command": ["true"]}
    replica = {"replicas": 1, "template": {"spec": {"hostNetwork": True, "containers": [container]}}}
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "bad"},
        "spec": {"pytorchReplicaSpecs": {"Master": replica}},
    }
    path = "/apis/kubeflow.org/v1/namespaces/user-mallory/pytorchjobs"
    status, answer = await box.kube(box.mallory.token, "POST", path, job)
    assert status == 201, answer
    async with asyncio.timeout(PATIENCE):
        while True:
            _, found = await box.kube(box.mallory.token, "GET", f"{path}/bad")
            conditions = (found.get("status") or {}).get("conditions") or []
            failed = [each["message"] for each in conditions if each["type"] == "Failed"]
            if failed:
                break
            await asyncio.sleep(0.05)
    assert "spec.hostNetwork" in failed[0]


async def test_the_restriction_follows_the_role_before_the_answer(box: Shared) -> None:
    """A member who was an admin keeps an unrestricted namespace."""
    await box.admin.post("users", {"name": "ruth", "password": "correct horse battery", "role": "admin"})

    async def restricted() -> bool:
        return labels_of(await box.cluster.get(NAMESPACE, "user-ruth")).get("muster.dev/isolation") == "restricted"

    assert not await restricted()
    for role, expected in (("member", True), ("admin", False), ("member", True)):
        (await box.admin("PATCH", "users/ruth", {"role": role})).ok()
        assert await restricted() is expected


async def test_what_an_admin_shares_is_copied_and_taken_back(box: Shared) -> None:
    """A Secret that is shared with one team appears in another member's namespace."""
    team = (await box.admin.get("teams/vision"))["id"]
    for kind, label, name in ((SECRET, "everybody", "for-all"), (CONFIG_MAP, team, "for-vision")):
        await box.cluster.create(
            {
                "apiVersion": "v1",
                "kind": kind.kind,
                "metadata": {"name": name, "namespace": "default", "labels": {"muster.dev/shared": label}},
            }
        )
    await box.cluster.create(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "private", "namespace": "default"}}
    )

    async def there(kind: Any, namespace: str, name: str) -> bool:
        try:
            await box.cluster.get(kind, name, namespace)
        except NotFound:
            return False
        return True

    async def eventually(kind: Any, namespace: str, name: str, expected: bool) -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                if await there(kind, namespace, name) is expected:
                    return
                await asyncio.sleep(0.05)

    for namespace in ("user-mallory", "user-alice", "team-vision"):
        await eventually(SECRET, namespace, "for-all", True)
    for namespace in ("user-alice", "team-vision"):
        await eventually(CONFIG_MAP, namespace, "for-vision", True)
    assert not await there(CONFIG_MAP, "user-mallory", "for-vision")
    assert not await there(SECRET, "user-mallory", "private")
    await box.cluster.patch(SECRET, "for-all", "default", {"metadata": {"labels": {"muster.dev/shared": None}}})
    await eventually(SECRET, "user-mallory", "for-all", False)


async def test_a_shared_claim_is_the_same_storage(box: Shared) -> None:
    """A claim that an admin shares holds the same files in the namespaces of members; others cannot bind it."""
    claim: Any = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "datasets", "namespace": "default", "labels": {"muster.dev/shared": "everybody"}},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    await box.cluster.create(claim)
    volumes = box.cluster.catalogue.of("v1", "PersistentVolume")

    async def place(namespace: str) -> str:
        async with asyncio.timeout(2 * PATIENCE):
            while True:
                try:
                    found = await box.cluster.get(PERSISTENT_VOLUME_CLAIM, "datasets", namespace)
                    if (found.get("status") or {}).get("phase") == "Bound":
                        volume = await box.cluster.get(volumes, found["spec"]["volumeName"])
                        return str(volume["spec"]["hostPath"]["path"])
                except ApiError:
                    pass
                await asyncio.sleep(0.1)

    assert await place("user-mallory") == await place("default")
    stolen = {**claim, "metadata": {"name": "stolen"}}
    original = await box.cluster.get(PERSISTENT_VOLUME_CLAIM, "datasets", "default")
    stolen["spec"] = {**claim["spec"], "volumeName": original["spec"]["volumeName"]}
    status, answer = await box.kube(box.mallory.token, "POST", f"{OWN}/persistentvolumeclaims", stolen)
    assert status == 403, answer


async def test_storage_roots_follow_at_once(box: Shared) -> None:
    """A member keeps a storage root after an admin has taken it away."""
    made = await box.admin.post("storage", {"name": "short", "path": "/srv/short"})
    grants = annotations_of(await box.cluster.get(NAMESPACE, "user-mallory"))["muster.dev/grants"]
    assert "/srv/short" in grants
    (await box.admin("DELETE", f"storage/{made['id']}")).ok()
    grants = annotations_of(await box.cluster.get(NAMESPACE, "user-mallory"))["muster.dev/grants"]
    assert "/srv/short" not in grants


async def test_the_token_of_a_run_is_not_for_the_cluster(box: Shared) -> None:
    """A node uses AI_HUB_TOKEN at the Kubernetes API."""
    run = await run_of(box.mallory.platform, "sleeps", graph("sleep 600"))
    stored = await box.cluster.get(SECRET, f"run-{run['id']}", "user-mallory")
    token = base64.b64decode(stored["data"]["AI_HUB_TOKEN"]).decode()
    status, _ = await box.kube(token, "GET", f"{OWN}/pods")
    assert status == 401
    (await box.mallory.platform("POST", f"runs/{run['id']}/stop")).ok()


async def test_a_token_without_write_scope_has_no_rights_on_the_cluster(box: Shared) -> None:
    """A read-only token creates Pods with kubectl."""
    browser = Client(box.admin.url)
    await browser.post("session", {"name": "mallory", "password": "correct horse battery"})
    token = (await browser.post("tokens", {"name": "reader", "scopes": ["read"]}))["secret"]
    status, _ = await box.kube(token, "POST", f"{OWN}/pods", POD)
    assert status == 403


async def test_a_revoked_token_ends_at_once(box: Shared) -> None:
    """A member goes on with a token that was revoked."""
    browser = Client(box.admin.url)
    await browser.post("session", {"name": "mallory", "password": "correct horse battery"})
    made = await browser.post("tokens", {"name": "short"})
    assert (await box.kube(made["secret"], "GET", f"{OWN}/pods"))[0] == 200
    (await browser("DELETE", f"tokens/{made['token']['id']}")).ok()
    assert (await box.kube(made["secret"], "GET", f"{OWN}/pods"))[0] == 401


async def test_a_member_who_left_the_team_keeps_its_namespace(box: Shared) -> None:
    """A member who was removed from a team goes on with kubectl."""
    carl = await new_member(box.admin.url, box.admin, "carl", "vision")
    path = "/api/v1/namespaces/team-vision/pods"
    assert (await box.kube(carl.token, "GET", path))[0] == 200
    (await box.admin("DELETE", "teams/vision/members/carl")).ok()
    assert (await box.kube(carl.token, "GET", path))[0] == 403


async def test_the_namespace_of_a_deleted_team_goes_with_its_last_run(box: Shared) -> None:
    """A team is deleted; its runs stay with their owners, and a new team of the name gets another namespace."""
    await box.admin.post("teams", {"name": "gone"})
    (await box.admin("PUT", "teams/gone/members/alice", {"role": "member"})).ok()
    run = await run_of(box.alice.platform, "for-gone", graph(), team="gone")
    assert run["namespace"] == "team-gone"
    await ended(box.alice.platform, run["id"])
    (await box.admin("DELETE", "teams/gone")).ok()
    assert (await box.alice.platform.get(f"runs/{run['id']}"))["state"] == "succeeded"
    assert await box.alice.platform.get(f"runs/{run['id']}/nodes/a/log") == ""
    await box.admin.post("teams", {"name": "gone"})
    (await box.admin("PUT", "teams/gone/members/mallory", {"role": "member"})).ok()
    again = await box.mallory.platform.post("runs", {"workflow": "for-gone", "team": "gone"})
    assert again["namespace"].startswith("team-gone-")
    (await box.alice.platform("DELETE", f"runs/{run['id']}")).ok()
    (await box.admin("PUT", "teams/gone/members/tom", {"role": "member"})).ok()
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await box.cluster.get(NAMESPACE, "team-gone")
            except NotFound:
                break
            await asyncio.sleep(0.05)


async def test_a_workflow_of_another_namespace_speaks_for_a_run(box: Shared) -> None:
    """An object with the name and label of another member's run, in another namespace, changes the run's state."""
    run = await run_of(box.alice.platform, "target", graph("sleep 600"))
    forged = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": f"run-{run['id']}", "namespace": "user-mallory", "labels": {"muster.dev/run": run["id"]}},
        "spec": {
            "entrypoint": "main",
            "templates": [{"name": "main", "container": {"image": "x", "command": ["false"]}}],
        },
    }
    await box.cluster.create(forged)
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await box.cluster.get(WORKFLOW, f"run-{run['id']}", "user-mallory")
            if (found.get("status") or {}).get("phase") in ("Failed", "Error", "Succeeded"):
                break
            await asyncio.sleep(0.05)
    now = await box.alice.platform.get(f"runs/{run['id']}")
    assert now["state"] in ("waiting", "running")
    await box.cluster.delete(WORKFLOW, f"run-{run['id']}", "user-mallory")
    (await box.alice.platform("POST", f"runs/{run['id']}/stop")).ok()
