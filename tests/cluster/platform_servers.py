"""Servers of the platform as processes beside a real cluster: on one PostgreSQL, one bucket and one set of users."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import uuid
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from muster.kube.manifests import dump
from muster.platform.users.credentials import local_token, platform_folder
from muster.server.pidfile import ServerInfo, running_server
from tests.platform.databases import PostgresServer, postgres_server
from tests.server.platform.served import Client
from tools.cluster import addons
from tools.cluster.cluster import Cluster as RealCluster
from tools.cluster.processes import Component

HOST = "10.77.0.1"
"""The node's address, at which Pods reach what runs beside the cluster."""
_START_SECONDS = 600.0


@dataclass
class PlatformServer:
    """`muster server --cluster kubernetes` in a process of its own."""

    real: RealCluster
    name: str
    home: Path
    environment: Mapping[str, str]
    options: Sequence[str] = ()
    earlier_logs: list[str] = field(default_factory=list)

    def launch(self) -> None:
        command = [sys.executable, "-m", "muster", "server", "--cluster", "kubernetes"]
        command += [f"--kubeconfig={self.real.kubeconfig_of('operator')}", *self.options]
        self.real.start(Component(self.name, command, {**self.environment, "MUSTER_HOME": str(self.home)}))

    async def start(self) -> None:
        await asyncio.to_thread(self.launch)
        async with asyncio.timeout(_START_SECONDS):
            while True:
                assert self.real.pid(self.name), self.real.log(self.name)
                if self.info is not None and (await Client(self.url)("GET", "health")).status == 200:
                    return
                await asyncio.sleep(0.1)

    def kill(self) -> None:
        """kill -9. The log of the process stays in `log`."""
        self.real.stop(self.name, force=True)
        self.earlier_logs.append(self.real.log(self.name))

    @property
    def info(self) -> ServerInfo | None:
        """None while it does not accept requests."""
        return running_server(self.home)

    @property
    def url(self) -> str:
        info = self.info
        if info is None:
            raise ConnectionError(f"{self.name} does not run")
        return info.web

    @property
    def admin(self) -> Client:
        return Client(self.url, local_token(platform_folder(self.home)))

    def log(self) -> str:
        return "\n".join([*self.earlier_logs, self.real.log(self.name)])


@dataclass(frozen=True)
class PlatformCrew:
    """Several servers of one platform."""

    real: RealCluster
    servers: tuple[PlatformServer, ...]
    postgres: PostgresServer
    suffix: str
    """The names of users, and so of their namespaces, end with it: they are those of no other platform."""

    @property
    def namespace(self) -> str:
        """Of the admin's runs."""
        return f"user-admin-{self.suffix}"


@contextmanager
def platform_crew(
    real: RealCluster,
    folder: Path,
    names: Sequence[str],
    *,
    budgets: Mapping[str, int] | None = None,
    with_s3: bool = True,
) -> Iterator[PlatformCrew]:
    """Starts PostgreSQL, and makes a bucket, but starts none of the servers. Afterwards, nothing is left of them."""
    suffix = uuid.uuid4().hex[:6]
    (real.layout.root / "s3" / "objects" / f"muster-{suffix}").mkdir(parents=True)
    access_key, secret_key = addons.S3_KEYS
    s3 = {"endpoint": f"http://{HOST}:{addons.S3_PORT}", "bucket": f"muster-{suffix}", "region": "us-east-1"}
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
    config: dict[str, Any] = {
        "web": {"port": 0},
        "artifacts": {"s3": {**s3, "accessKey": access_key, "secretKey": secret_key}},
        "database": f"postgresql://muster@{HOST}:{port}/postgres",
        # The start of a process that checks a graph counts, too, and the machine has a whole cluster to run.
        "budgets": {"checkSeconds": 300, **(budgets or {})},
    }
    if not with_s3:
        del config["artifacts"]
    # The first account is named after the user of the operating system.
    environment = {
        "LOGNAME": f"admin-{suffix}",
        "MUSTER_ENCRYPTION_KEY": b64encode(os.urandom(32)).decode(),
    }
    servers = []
    for name in names:
        home = folder / name
        home.mkdir()
        (home / "config.yaml").write_text(dump(config))
        servers.append(PlatformServer(real, f"muster-{name}-{suffix}", home, environment))
    with postgres_server(HOST, port) as postgres:
        try:
            yield PlatformCrew(real, tuple(servers), postgres, suffix)
        finally:
            for server in servers:
                real.stop(server.name)
            listed = real.kubectl("get", "namespaces", "--output=name").split()
            mine = [each for each in listed if each.endswith(suffix)]
            if mine:
                real.kubectl("delete", "--wait=false", *mine)
