"""The platform as a Deployment with its own permissions: two servers on a real PostgreSQL and a real S3 store, and runs
on the Argo controller. A server that is killed leaves its work to the other one."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import uuid
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import urandom
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from muster.kube.builtin import POD
from muster.kube.manifests import dump
from muster.kube.objects import name_of
from muster.kube.remote.client import RemoteCluster
from muster.operator.platform_manifests import HOME, SELECTOR
from tests.cluster.conftest import Needs
from tests.cluster.test_platform import PASSWORD, finish, log, start, until
from tests.platform.databases import postgres_server
from tests.platform.graphs.samples import SEED_LOG, graph, node, seed_example
from tests.server.platform.served import Client
from tools.cluster import addons
from tools.cluster.cluster import Cluster as RealCluster
from tools.cluster.operator_image import server_image

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]

HOST = "10.77.0.1"
"""The node's address, at which Pods reach what runs beside the cluster."""
MUSTER = [sys.executable, "-m", "muster"]


@dataclass(frozen=True, slots=True)
class Deployed:
    real: RealCluster
    namespace: str
    suffix: str

    @property
    def url(self) -> str:
        return f"http://{self.kubectl('get', 'service', 'muster', '--output=jsonpath={.spec.clusterIP}')}"

    def kubectl(self, *words: str) -> str:
        return self.real.kubectl(f"--namespace={self.namespace}", *words)

    def pods(self) -> list[str]:
        labels = ",".join(f"{name}={value}" for name, value in SELECTOR.items())
        return self.kubectl("get", "pods", f"--selector={labels}", "--output=name").split()

    async def member(self) -> Client:
        """A client of a new account, whose namespace is that of no other platform."""
        token = self.kubectl("exec", self.pods()[0], "--", "cat", f"{HOME}/platform/local-token").strip()
        admin, name = Client(self.url, token), f"member-{self.suffix}"
        await admin.post("users", {"name": name, "password": PASSWORD})
        browser = Client(self.url)
        await browser.post("session", {"name": name, "password": PASSWORD})
        made = await browser.post("tokens", {"name": "script"})
        return Client(self.url, made["secret"])


@pytest.fixture
def deployed(needs: Needs, namespace: str, tmp_path: Path) -> Iterator[Deployed]:
    with deployed_by(needs("node", "argo", "s3"), namespace, tmp_path) as platform:
        yield platform


@contextmanager
def deployed_by(
    real: RealCluster, namespace: str, tmp_path: Path, *, with_operator: bool = False
) -> Iterator[Deployed]:
    suffix = uuid.uuid4().hex[:6]
    real.load(server_image())
    (real.layout.root / "s3" / "objects" / f"muster-{suffix}").mkdir()
    s3 = {"endpoint": f"http://{HOST}:{addons.S3_PORT}", "bucket": f"muster-{suffix}", "region": "us-east-1"}
    settings = tmp_path / "settings.yaml"
    settings.write_text(dump({"artifacts": {"s3": s3}}))
    before = real.kubectl("get", "namespaces", "--output=name").split()
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
    with postgres_server(HOST, port) as postgres:
        access_key, secret_key = addons.S3_KEYS
        database = f"postgresql://muster@{HOST}:{port}/postgres"
        values = {
            "database-url": database,
            "encryption-key": b64encode(urandom(32)).decode(),
            "s3-access-key": access_key,
            "s3-secret-key": secret_key,
        }
        assert postgres.socket_folder.exists()
        literals = [f"--from-literal={name}={value}" for name, value in values.items()]
        real.kubectl("create", "secret", "generic", "muster", f"--namespace={namespace}", *literals)
        words = ["deploy", f"--namespace={namespace}", f"--config={settings}", "--timeout=5m", f"--egress-port={port}"]
        if not with_operator:
            words.append("--without-operator")
        done = real.run([*MUSTER, *words], seconds=600)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.splitlines()[-1] == f"{namespace}/muster: 2 of 2 replicas available"
        try:
            yield Deployed(real, namespace, suffix)
        finally:
            for kind in ("deployment", "clusterrolebinding", "clusterrole"):
                real.kubectl("delete", kind, "muster", f"--namespace={namespace}", "--ignore-not-found", "--wait")
            if with_operator:
                real.run([*MUSTER, "operator", "uninstall", f"--namespace={namespace}"], seconds=240)
            listed = real.kubectl("get", "namespaces", "--output=name").split()
            mine = [each for each in listed if each.endswith(suffix) or each in {"namespace/user-admin"} - set(before)]
            if mine:
                real.kubectl("delete", "--wait=false", *mine)


async def until_ended(client: Client, run: str) -> dict[str, Any]:
    """Asks again if a server is killed while it answers."""
    while True:
        try:
            return await until(client, run)
        except (aiohttp.ClientError, ConnectionError):
            await asyncio.sleep(0.5)


async def test_two_servers_run_workflows_and_either_may_be_killed(deployed: Deployed, remote: RemoteCluster) -> None:
    member = await deployed.member()
    done = await finish(member, seed_example())
    assert done["state"] == "succeeded", json.dumps(done["node_states"])
    assert await log(member, done["id"], "step2") == SEED_LOG

    before = deployed.pods()
    assert len(before) == 2
    for pod in before:
        run = (await start(member, graph(node("a", command="sleep 5; echo done"))))["id"]
        await remote.delete(POD, pod.removeprefix("pod/"), deployed.namespace, grace_seconds=0)
        deployed.kubectl("rollout", "status", "deployment/muster", "--timeout=240s")
        assert (await until_ended(member, run))["state"] == "succeeded"
    after = {name_of(pod) for pod in (await remote.list(POD, deployed.namespace)).items}
    for name in after:
        said = deployed.kubectl("logs", name)
        assert "forbidden" not in said.lower(), said
        assert "Traceback" not in said, said
    port = "http://127.0.0.1:8080"
    fetch = f"import urllib.request; print(urllib.request.urlopen('{port}/metrics').read().decode())"
    metrics = [deployed.kubectl("exec", name, "--", "python3", "-c", fetch) for name in after]
    assert sum("muster_platform_leader 1.0" in each for each in metrics) == 1
