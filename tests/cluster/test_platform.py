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
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from muster.kube.manifests import dump
from muster.platform.graphs.model import Document
from muster.platform.users.credentials import local_token, platform_folder
from muster.server.pidfile import ServerInfo, running_server
from tests.cluster.conftest import Needs
from tests.platform.graphs.samples import SEED_LOG, seed_example
from tests.server.platform.served import Client
from tools.cluster import addons, images
from tools.cluster.cluster import Cluster as RealCluster
from tools.cluster.processes import Component

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

PATIENCE = 240.0
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
    """`muster server` on the real cluster, with a bucket of its own."""
    real, home, suffix = needs("node", "argo", "s3"), tmp_path_factory.mktemp("argo"), uuid.uuid4().hex[:6]
    (real.layout.root / "s3" / "objects" / f"muster-{suffix}").mkdir()
    access_key, secret_key = addons.S3_KEYS
    s3 = {"endpoint": f"http://10.77.0.1:{addons.S3_PORT}", "bucket": f"muster-{suffix}", "region": "us-east-1"}
    config = {"web": {"port": 0}, "artifacts": {"s3": {**s3, "accessKey": access_key, "secretKey": secret_key}}}
    (home / "config.yaml").write_text(dump(config))
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
    nodes = [{**node, "image": images.BUSYBOX} for node in document["nodes"]]
    return {**document, "nodes": nodes}


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
