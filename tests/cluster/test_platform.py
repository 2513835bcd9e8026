"""The platform on a real cluster: its runs on the unmodified Argo controller, artifacts and logs in a real S3 server.

The same graphs give the same nodes, phases and outputs as on the embedded cluster.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from subprocess import run as run_process
from typing import Any
from urllib.parse import quote

import pytest

from muster.kube.builtin import NAMESPACE, POD
from muster.kube.errors import Forbidden
from muster.kube.manifests import dump
from muster.kube.objects import labels_of, name_of
from muster.kube.remote.client import RemoteCluster
from muster.platform.graphs.model import Document
from muster.platform.users.credentials import local_token, platform_folder
from muster.server.pidfile import ServerInfo, running_server
from muster.workflows.operations import apply
from tests.cluster.conftest import Needs
from tests.cluster.operating import operating, without_the_peer
from tests.cluster.platform_graphs import CASES, FAILING, Case, file, output, parameter, text
from tests.platform.graphs.samples import SEED_LOG, graph, node, seed_example, training
from tests.server.platform.served import Client
from tests.server.platform.whole import eventually, states
from tools.cluster import addons, images
from tools.cluster.cluster import Cluster as RealCluster
from tools.cluster.processes import Component

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

PATIENCE = 600.0
PASSWORD = "correct horse battery"


@dataclass(frozen=True, slots=True)
class Platform:
    url: str
    home: Path
    suffix: str
    """The names of all users and teams end with it: their namespaces are those of no other platform."""

    @property
    def admin(self) -> Client:
        return Client(self.url, local_token(platform_folder(self.home)))

    async def team(self, name: str) -> tuple[str, Client]:
        """A new team, and a client of its only member."""
        admin, team, user = self.admin, f"{name}-{self.suffix}", f"member-of-{name}-{self.suffix}"
        await admin.post("teams", {"name": team})
        await admin.post("users", {"name": user, "password": PASSWORD})
        (await admin("PUT", f"teams/{team}/members/{user}", {"role": "member"})).ok()
        browser = Client(self.url)
        await browser.post("session", {"name": user, "password": PASSWORD})
        made = await browser.post("tokens", {"name": "script"})
        return team, Client(self.url, made["secret"])


@pytest.fixture(scope="module")
def argo(needs: Needs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    with platform_on(needs("node", "argo", "s3"), tmp_path_factory.mktemp("argo")) as platform:
        yield platform


@contextmanager
def platform_on(real: RealCluster, home: Path, **settings: Any) -> Iterator[Platform]:
    """`muster server` on the real cluster, with a bucket of its own."""
    suffix = uuid.uuid4().hex[:6]
    (real.layout.root / "s3" / "objects" / f"muster-{suffix}").mkdir()
    access_key, secret_key = addons.S3_KEYS
    s3 = {"endpoint": f"http://10.77.0.1:{addons.S3_PORT}", "bucket": f"muster-{suffix}", "region": "us-east-1"}
    config = {"web": {"port": 0}, "artifacts": {"s3": {**s3, "accessKey": access_key, "secretKey": secret_key}}}
    # The node and its Pods take the CPUs that the checks of documents need.
    patient = {"budgets": {"checkSeconds": 300}}
    (home / "config.yaml").write_text(dump({**config, **patient, **settings}))
    command = [sys.executable, "-m", "muster", "server", "--cluster", "kubernetes"]
    command.append(f"--kubeconfig={real.kubeconfig_of('operator')}")
    name = f"muster-server-{suffix}"
    # The first account is named after the user of the operating system.
    real.start(Component(name, command, {"MUSTER_HOME": str(home), "LOGNAME": f"admin-{suffix}"}))
    try:
        yield Platform(served(home).web, home, suffix)
    finally:
        real.stop(name)
        listed = real.kubectl("get", "namespaces", "--output=name").split()
        mine = [each for each in listed if each.endswith(suffix)]
        if mine:
            real.kubectl("delete", "--wait=false", *mine)


@pytest.fixture(scope="module")
def laptop(real: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    home = tmp_path_factory.mktemp("laptop")
    environment = {**os.environ, "MUSTER_HOME": str(home)}
    command = [sys.executable, "-m", "muster", "server"]
    with (home / "log").open("wb") as output, Popen(command, env=environment, stdout=output, stderr=output) as server:
        try:
            yield Platform(served(home).web, home, "")
        finally:
            server.terminate()


def served(home: Path) -> ServerInfo:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = running_server(home)
        if found is not None:
            return found
        time.sleep(0.1)
    pytest.fail("the server did not start")


def with_local_images(document: Document) -> Document:
    """The same graph with an image that the node has."""
    if "nodes" not in document:
        return document
    return {**document, "nodes": [{**node, "image": images.BUSYBOX} for node in document["nodes"]]}


async def start(client: Client, document: Document, **more: Any) -> dict[str, Any]:
    name = f"graph-{uuid.uuid4().hex[:8]}"
    await client.post("workflows", {"name": name, "version": {"document": with_local_images(document)}})
    run: dict[str, Any] = await client.post("runs", {"workflow": name, **more})
    return run


async def until(client: Client, run: str, *wanted: str) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        while True:
            found: dict[str, Any] = await client.get(f"runs/{run}")
            if found["state"] in (wanted or ("succeeded", "failed", "stopped")):
                return found
            await asyncio.sleep(0.2)


async def finish(client: Client, document: Document, **more: Any) -> dict[str, Any]:
    return await until(client, (await start(client, document, **more))["id"])


async def log(client: Client, run: str, node: str, query: str = "") -> list[str]:
    return str(await client.get(f"runs/{run}/nodes/{node}/log{query}")).splitlines()


@pytest.mark.smoke
async def test_the_example_of_the_seed_prints_the_same_five_lines(argo: Platform, laptop: Platform) -> None:
    for platform in (argo, laptop):
        done = await finish(platform.admin, seed_example())
        assert (done["state"], done["message"]) == ("succeeded", "")
        assert await log(platform.admin, done["id"], "step2") == SEED_LOG
        file = await platform.admin("GET", f"runs/{done['id']}/nodes/step1/outputs/output_param2")
        assert (file.ok().strip(), file.headers["Content-Disposition"]) == (
            "outpraram2",
            'attachment; filename="outpraram2.txt"',
        )
        (pod,) = await platform.admin.get(f"runs/{done['id']}/nodes/step2/pods")
        assert pod["phase"] == "Succeeded"


async def essence(client: Client, run: dict[str, Any]) -> dict[str, Any]:
    """What has to be equal on both clusters, without what names the run."""
    found: dict[str, Any] = {"run": run["state"]}
    for each_node in run["node_states"]:
        name = each_node["name"]
        detail = await client.get(f"runs/{run['id']}/nodes/{quote(name, safe='')}")
        attempts = [(each["state"], each["exit_code"]) for each in detail["attempt_list"]]
        logs = [
            [line.replace(run["id"], "RUN").replace(run["owner_id"], "USER") for line in lines]
            for lines in [
                await log(client, run["id"], quote(name, safe=""), f"?attempt={number}")
                for number in range(1, len(attempts) + 1)
            ]
        ]
        found[name] = {
            "state": each_node["state"],
            "attempts": attempts,
            "logs": logs,
            "inputs": [(each["name"], each["type"], each["value"]) for each in detail["inputs"]],
            "outputs": [(each["name"], each["type"], each["value"], each["ready"]) for each in detail["outputs"]],
        }
    return found


async def test_graphs_give_the_same_on_both(argo: Platform, laptop: Platform) -> None:
    async def result(platform: Platform, gate: asyncio.Semaphore, case: Case) -> dict[str, Any]:
        async with gate:
            done = await finish(platform.admin, case.document, parameters=dict(case.values))
            return await essence(platform.admin, done)

    gates = asyncio.Semaphore(12), asyncio.Semaphore(4)
    pairs = await asyncio.gather(
        *(asyncio.gather(result(argo, gates[0], case), result(laptop, gates[1], case)) for case in CASES.values())
    )
    differing = {name: pair for name, pair in zip(CASES, pairs, strict=True) if pair[0] != pair[1]}
    assert not differing, "\n".join(f"{name}:\n  Argo   {a}\n  laptop {b}" for name, (a, b) in differing.items())
    assert {name for name, (found, _) in zip(CASES, pairs, strict=True) if found["run"] != "succeeded"} == FAILING


async def test_a_stopped_run_is_retried_from_where_it_was_and_copied(argo: Platform) -> None:
    admin = argo.admin
    document = graph(
        node("a", command="echo a $AI_HUB_WORKFLOW_RUN_ID"),
        node("b", command='echo waiting; [ -n "$quick" ] || sleep 600', inputs=[parameter("quick", "quick")]),
        node("c", command="echo c"),
        edges="a>b b>c",
        parameters=[{"name": "quick", "default": ""}],
    )
    run = (await start(admin, document))["id"]

    async def is_waiting() -> bool:
        return await log(admin, run, "b") == ["waiting"]

    await eventually(is_waiting)
    (await admin("POST", f"runs/{run}/stop")).ok()
    stopped = await until(admin, run)
    assert (stopped["state"], states(stopped)) == ("stopped", {"a": "succeeded", "b": "stopped", "c": "skipped"})
    first = (await admin.get(f"runs/{run}/nodes/a"))["attempt_list"]

    (await admin("POST", f"runs/{run}/retry")).ok()

    async def is_tried_again() -> bool:
        return len((await admin.get(f"runs/{run}/nodes/b"))["attempt_list"]) == 2

    await eventually(is_tried_again)
    (await admin("POST", f"runs/{run}/stop")).ok()
    assert (await until(admin, run))["state"] == "stopped"
    assert (await admin.get(f"runs/{run}/nodes/a"))["attempt_list"] == first, "what has succeeded is not run again"
    assert await log(admin, run, "b", "?attempt=1") == ["waiting"], "although a Pod of the same name replaced the first"

    copy = await admin.post(f"runs/{run}/copy", {"parameters": {"quick": "yes"}})
    done = await until(admin, copy["id"])
    assert (done["state"], done["copied_from"]) == ("succeeded", run)
    assert await log(admin, copy["id"], "a") == [f"a {copy['id']}"]


async def test_logs_and_files_outlive_their_pods(argo: Platform, remote: RemoteCluster) -> None:
    admin = argo.admin
    document = graph(
        node("a", command="echo one; echo two > /tmp/f", outputs=[file("f", "/tmp/f")]),
        node("b", command="echo failing; exit 1", retries=1),
        edges="a>b",
    )
    run = await finish(admin, document)
    assert run["state"] == "failed"
    pods = [pod for pod in (await remote.list(POD, run["namespace"])).items if run["id"] in name_of(pod)]
    assert len(pods) == 3
    await apply.delete_pods(remote, run["namespace"], [name_of(pod) for pod in pods])
    assert await log(admin, run["id"], "a") == ["one"]
    assert await log(admin, run["id"], "a", "?times=true") == [" one"]
    for attempt in (1, 2):
        assert await log(admin, run["id"], "b", f"?attempt={attempt}") == ["failing"]
    assert (await admin("GET", f"runs/{run['id']}/nodes/a/outputs/f")).ok() == "two\n"
    assert (await admin.get(f"runs/{run['id']}"))["state"] == "failed", "a Pod that is gone changes nothing"


async def test_a_workflow_moves_from_a_laptop_to_the_cluster(argo: Platform, laptop: Platform, tmp_path: Path) -> None:
    """By the commands of docs/cluster-platform.md. Afterwards it is the same version, and prints the same."""
    name, archive = f"moved-{argo.suffix}", tmp_path / "all.tar.gz"
    document = with_local_images(seed_example())
    await laptop.admin.post("workflows", {"name": name, "version": {"document": document}})

    async def muster(*words: str, given: str = "") -> str:
        environment = {**os.environ, "MUSTER_HOME": str(laptop.home), "XDG_CONFIG_HOME": str(tmp_path)}
        command = [sys.executable, "-m", "muster", *words]
        done = await asyncio.to_thread(
            run_process, command, env=environment, input=given, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    await muster("export", "-o", str(archive), "--workflow", name)
    await muster("login", argo.url, "--token", "-", given=argo.admin.token)
    assert "created" in await muster("import", str(archive))
    assert "created" not in await muster("import", str(archive)), "a second time, there is nothing to do"
    run = (await muster("runs", "create", name, "--wait")).strip()
    here, there = [(await each.admin.get(f"workflows/{name}/versions"))["items"] for each in (laptop, argo)]
    assert [each["hash"] for each in there] == [each["hash"] for each in here]
    assert await log(argo.admin, run, "step2") == SEED_LOG


async def test_two_teams_do_not_see_each_other(argo: Platform, remote: RemoteCluster) -> None:
    (vision, ann), (speech, bob) = await argo.team("vision"), await argo.team("speech")
    secret = [{"name": "KEY", "value": "of-vision-only", "secret": True}]
    document = graph(node("a", command="echo mine > /tmp/f", env=secret, outputs=[file("f", "/tmp/f")]))
    run = await finish(ann, document, team=vision)
    assert (run["state"], run["message"], run["namespace"]) == ("succeeded", "", f"team-{vision}")
    assert (await ann("GET", f"runs/{run['id']}/nodes/a/outputs/f")).ok() == "mine\n"
    for path in ("/nodes/a", "/nodes/a/log", "/nodes/a/pods", "/nodes/a/events", "/nodes/a/outputs/f"):
        assert (await bob("GET", f"runs/{run['id']}{path}")).status in (403, 404), path
    for action in ("stop", "retry", "copy"):
        assert (await bob("POST", f"runs/{run['id']}/{action}", {})).status in (403, 404), action

    theirs = await finish(bob, document, team=speech)
    assert theirs["namespace"] == f"team-{speech}"
    for namespace in (f"team-{vision}", f"team-{speech}"):
        found = await remote.get(NAMESPACE, namespace)
        assert labels_of(found)["pod-security.kubernetes.io/enforce"] == "baseline"
    token = {"secretKeyRef": {"name": f"run-{run['id']}", "key": "AI_HUB_TOKEN"}}
    host: list[dict[str, Any]] = [{"name": "host", "hostPath": {"path": "/"}}]
    stealing: dict[str, Any] = {"env": [{"name": "TOKEN", "valueFrom": token}]}
    looking: dict[str, Any] = {"volumeMounts": [{"name": "host", "mountPath": "/host"}]}
    for container in (stealing, looking):
        volumes = host if container is looking else []
        template = {"name": "main", "container": {"image": images.BUSYBOX, **container}, "volumes": volumes}
        spec = {"entrypoint": "main", "templates": [template]}
        manifest = dump(
            {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "x"}, "spec": spec}
        )
        document = {"format": 1, "type": "yaml", "manifest": manifest}
        refused = await bob("POST", "workflows", {"name": uuid.uuid4().hex, "version": {"document": document}})
        refused.refused(422)
    on_host = {"containers": [{"name": "a", "image": images.BUSYBOX}], "volumes": host}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": f"team-{speech}"}, "spec": on_host}
    with pytest.raises(Forbidden, match="PodSecurity"):
        await remote.create(pod)


async def test_a_training_node_is_a_job_of_our_operator(argo: Platform, real: RealCluster) -> None:
    """Its replicas, their events and their logs are in the panel of the node."""
    admin = argo.admin
    document = graph(
        node("prepare", command="echo 3 > /tmp/out", outputs=[text("epochs")]),
        training(
            "train",
            "PaddleJob",  # ends when all its workers have: none is removed while it still runs
            ("Worker", 2),
            command="echo worker ${HOSTNAME##*-} of $PADDLE_NNODES: $epochs epochs, '$$' $(echo once)",
            inputs=[output("epochs", "prepare", "epochs")],
        ),
        node("after", command="echo after"),
        edges="prepare>train train>after",
    )
    namespace = f"user-admin-{argo.suffix}"
    with without_the_peer(real), operating(real, f"--namespace={namespace}", name="platform-operator", port=8096):
        run = await finish(admin, document)
    assert (run["state"], run["message"]) == ("succeeded", "")
    assert states(run) == {"prepare": "succeeded", "train": "succeeded", "after": "succeeded"}
    pods = await admin.get(f"runs/{run['id']}/nodes/train/pods")
    assert [pod["phase"] for pod in pods] == ["Succeeded", "Succeeded"]
    logs = [await log(admin, run["id"], "train", f"?pod={pod['name']}") for pod in pods]
    assert sorted(logs) == [[f"worker {index} of 2: 3 epochs, $$ once"] for index in (0, 1)]
    assert await log(admin, run["id"], "train") == ["worker 0 of 2: 3 epochs, $$ once"], "the first one's"
    events = {event["reason"] for event in await admin.get(f"runs/{run['id']}/nodes/train/events")}
    assert {"Scheduled", "Started"} <= events
