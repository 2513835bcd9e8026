"""Runs whose nodes do not fit into their Workflow: the real controller compresses them, or offloads them to its
database, from where the real Argo server reads them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from muster.kube.manifests import dump
from muster.kube.objects import status_of
from muster.kube.remote.client import RemoteCluster
from muster.platform.records.runs import run_object_name
from muster.platform.runs.status import NODES_LATER
from muster.workflows.backend import OFFLOADED, unpack_nodes
from muster.workflows.kinds import WORKFLOW
from tests.cluster.conftest import Needs, running_argo
from tests.cluster.platform_graphs import text
from tests.cluster.test_platform import finish, log, platform_on, start, until
from tests.platform.databases import postgres_server
from tests.platform.graphs.samples import graph, node
from tests.server.platform.whole import eventually, states
from tools.cluster import addons
from tools.cluster.cluster import Cluster as RealCluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

HOST, SERVER_PORT = "10.77.0.1", 2746
LARGE = r"head -c 200000 /dev/zero | tr '\000' x > /tmp/out"


async def stored(remote: RemoteCluster, run: dict[str, Any]) -> Any:
    """The status of the run's Workflow, as it is stored."""
    return status_of(await remote.get(WORKFLOW, run_object_name(run["id"]), run["namespace"]))


async def test_compressed_nodes_are_read_and_written(needs: Needs, remote: RemoteCluster, tmp_path: Path) -> None:
    """Seven texts of 200 kB are more than an object of Kubernetes may have."""
    large = [node(f"large-{number}", command=LARGE, outputs=[text("out")]) for number in range(7)]
    last = node("last", command='test -n "$1" || exit 3')
    edges = " ".join(f"large-{number}>last" for number in range(7))
    with platform_on(needs("node", "argo", "s3"), tmp_path) as platform:
        admin = platform.admin
        run = await finish(admin, graph(*large, last, edges=edges))
        assert (run["state"], states(run)["last"], states(run)["large-6"]) == ("failed", "failed", "succeeded")
        status = await stored(remote, run)
        assert not status.get("nodes")
        assert len(unpack_nodes(status["compressedNodes"])) == 9
        (output,) = (await admin.get(f"runs/{run['id']}/nodes/large-3"))["outputs"]
        assert output["value"].startswith("xxx")
        first = (await admin.get(f"runs/{run['id']}/nodes/large-3"))["attempt_list"]

        (await admin("POST", f"runs/{run['id']}/retry")).ok()

        async def is_tried_again() -> bool:
            return len((await admin.get(f"runs/{run['id']}/nodes/last"))["attempt_list"]) == 2

        await eventually(is_tried_again)
        assert (await until(admin, run["id"]))["state"] == "failed"
        assert (await admin.get(f"runs/{run['id']}/nodes/large-3"))["attempt_list"] == first


@contextmanager
def offloading(real: RealCluster, port: int) -> Iterator[None]:
    """The controller keeps the nodes of all Workflows in this PostgreSQL, and the Argo server reads them there."""
    name, version = running_argo(real)
    where = f"--namespace={addons.WORKFLOWS}"
    keys = {key: {"name": "argo-postgres", "key": key} for key in ("user", "password")}
    persistence = {
        "nodeStatusOffLoad": True,
        "postgresql": {
            "host": HOST,
            "port": port,
            "database": "postgres",
            "tableName": "argo_workflows",
            "userNameSecret": keys["user"],
            "passwordSecret": keys["password"],
        },
    }
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": addons.WORKFLOWS, "name": "workflow-controller-configmap"},
    }
    literals = ["--from-literal=user=muster", "--from-literal=password=not-asked-for"]
    real.kubectl("create", "secret", "generic", "argo-postgres", where, *literals)
    try:
        real.apply({**config, "data": {**addons.ARGO_CONFIG, "persistence": dump(persistence)}})
        real.restart(name, environment={"ALWAYS_OFFLOAD_NODE_STATUS": "true"})
        real.start(addons.argo_server(real.layout, version, SERVER_PORT))
        yield
    finally:
        real.stop("argo-server")
        real.apply({**config, "data": addons.ARGO_CONFIG})
        real.kubectl("delete", "secret", "argo-postgres", where)
        real.restart(name)


@contextmanager
def reader(real: RealCluster, file: Path) -> Iterator[None]:
    """A token for the Argo server, of an account that may read Workflows and nothing else."""
    where = f"--namespace={addons.WORKFLOWS}"
    real.kubectl("create", "serviceaccount", "reader", where)
    real.kubectl("create", "clusterrole", "workflow-reader", "--verb=get", "--resource=workflows.argoproj.io")
    account = f"--serviceaccount={addons.WORKFLOWS}:reader"
    real.kubectl("create", "clusterrolebinding", "workflow-reader", "--clusterrole=workflow-reader", account)
    try:
        file.write_text(real.kubectl("create", "token", "reader", where))
        yield
    finally:
        real.kubectl("delete", "serviceaccount", "reader", where)
        real.kubectl("delete", "clusterrole,clusterrolebinding", "workflow-reader")


@pytest.fixture
def offloaded(needs: Needs, tmp_path: Path) -> Iterator[tuple[RealCluster, int]]:
    real = needs("node", "argo", "s3")
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
    with postgres_server(HOST, port), offloading(real, port):
        yield real, port


async def test_offloaded_nodes_are_read_from_the_argo_server(
    offloaded: tuple[RealCluster, int], remote: RemoteCluster, tmp_path: Path
) -> None:
    real, port = offloaded
    token, home = tmp_path / "token", tmp_path / "home"
    home.mkdir()
    kubernetes = {"argoServer": f"http://{HOST}:{SERVER_PORT}", "argoTokenFile": str(token)}
    document = graph(
        node("a", command="echo said; echo told > /tmp/out", outputs=[text("out")]),
        node("b", command="exit 3"),
        edges="a>b",
    )
    with reader(real, token), platform_on(real, home, kubernetes=kubernetes) as platform:
        admin = platform.admin
        run = await finish(admin, document)
        status = await stored(remote, run)
        assert status["offloadNodeStatusVersion"]
        assert not status.get("nodes")
        assert not status.get("compressedNodes")
        with psycopg.connect(f"postgresql://muster@{HOST}:{port}/postgres") as database:
            (rows,) = database.execute("SELECT count(*) FROM argo_workflows").fetchone() or (0,)
        assert rows > 0
        assert (run["state"], run["message"]) != ("failed", OFFLOADED)
        assert states(run) == {"a": "succeeded", "b": "failed"}
        (output,) = (await admin.get(f"runs/{run['id']}/nodes/a"))["outputs"]
        assert output["value"] == "told"
        assert await log(admin, run["id"], "a") == ["said"]

        (await admin("POST", f"runs/{run['id']}/retry")).ok()

        async def is_tried_again() -> bool:
            return len((await admin.get(f"runs/{run['id']}/nodes/b"))["attempt_list"]) == 2

        await eventually(is_tried_again)
        again = await until(admin, run["id"])
        assert states(again) == {"a": "succeeded", "b": "failed"}
        assert (await stored(remote, again))["offloadNodeStatusVersion"]


async def test_a_run_waits_for_nodes_that_the_argo_server_does_not_return(
    offloaded: tuple[RealCluster, int], tmp_path: Path
) -> None:
    real, _ = offloaded
    token, home = tmp_path / "token", tmp_path / "home"
    home.mkdir()
    kubernetes = {"argoServer": f"http://{HOST}:{SERVER_PORT}", "argoTokenFile": str(token)}
    with reader(real, token), platform_on(real, home, kubernetes=kubernetes) as platform:
        real.stop("argo-server")
        run = await start(platform.admin, graph(node("a", command="echo said")))

        async def waits() -> bool:
            return bool((await platform.admin.get(f"runs/{run['id']}"))["message"] == NODES_LATER)

        await eventually(waits)
        real.start(addons.argo_server(real.layout, running_argo(real)[1], SERVER_PORT))
        ended = await until(platform.admin, run["id"])
        assert (ended["state"], ended["message"], states(ended)) == ("succeeded", "", {"a": "succeeded"})


async def test_without_the_argo_server_a_run_says_what_is_missing(
    offloaded: tuple[RealCluster, int], tmp_path: Path
) -> None:
    real, _ = offloaded
    home = tmp_path / "home"
    home.mkdir()
    with platform_on(real, home) as platform:
        run = await start(platform.admin, graph(node("a", command="sleep 3")))

        async def says_why() -> bool:
            return bool((await platform.admin.get(f"runs/{run['id']}"))["message"] == OFFLOADED)

        await eventually(says_why)
        assert (await until(platform.admin, run["id"]))["state"] == "succeeded"
