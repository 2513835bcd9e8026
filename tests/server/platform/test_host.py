"""The platform beside the cluster: its port opens at once, it is loaded on first use, and it recovers from failures."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.settings import AgentSettings
from muster.kube.builtin import new_catalogue
from muster.platform.settings import WebSettings
from muster.platform.users.credentials import local_token, platform_folder, waiting_link
from muster.server.platform import host
from muster.server.settings import Settings
from tests.platform.databases import PostgresServer
from tests.server.platform.served import PASSWORD, Client


@asynccontextmanager
async def hosted(home: Path, web: WebSettings | None = None) -> AsyncIterator[Client]:
    home.mkdir(exist_ok=True)
    settings = Settings(home, AgentSettings(home), web=web or WebSettings(), durability="process")
    async with (
        EmbeddedCluster(home / "store", new_catalogue(), durability="process") as cluster,
        host.host_platform(settings, cluster) as url,
    ):
        yield Client(url, local_token(platform_folder(home)))


async def test_modules_are_loaded_on_the_first_request(tmp_path: Path) -> None:
    file = platform_folder(tmp_path) / "platform.db"
    async with hosted(tmp_path) as client:
        assert waiting_link(platform_folder(tmp_path)), "the first link exists nevertheless"
        await asyncio.sleep(0)
        assert not file.exists()
        replies = await asyncio.gather(*(client.get("health") for _ in range(5)))
        assert {reply["status"] for reply in replies} == {"ok"}
        assert file.exists()


async def test_a_restarted_server_keeps_its_data_and_address(tmp_path: Path) -> None:
    async with hosted(tmp_path) as client:
        secret, first = waiting_link(platform_folder(tmp_path)), client.url
        me = await client.get("session")
    async with hosted(tmp_path) as client:
        assert client.url == first
        assert waiting_link(platform_folder(tmp_path)) == secret, "it is loaded on first use"
        assert await client.get("session") == me
        await Client(client.url).post("link/use", {"secret": secret, "password": PASSWORD})
    async with hosted(tmp_path) as client:
        assert waiting_link(platform_folder(tmp_path)) == ""
        (await Client(client.url)("POST", "link", {"secret": secret})).refused(404)
        await Client(client.url).post("session", {"name": me["user"]["name"], "password": PASSWORD})


async def test_two_clusters_share_one_database_and_one_user(postgres: PostgresServer, tmp_path: Path) -> None:
    web = WebSettings(database=postgres.url(postgres.new_database()))
    async with hosted(tmp_path / "a", web) as one, hosted(tmp_path / "b", web) as two:
        first, second = await one.get("session"), await two.get("session")
        assert first["user"]["id"] == second["user"]["id"]
        await one.post("teams", {"name": "crew"})
        assert (await two.get("teams/crew"))["name"] == "crew"


async def test_an_unavailable_database_is_reported_and_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(host, "_TRY_AGAIN_SECONDS", 0.05)
    blocked = tmp_path / "platform"
    with caplog.at_level(logging.CRITICAL):
        blocked.write_text("in the way")
        async with hosted(tmp_path / "home", WebSettings(database=f"sqlite:///{blocked}/x.db")) as client:
            problem = (await client("GET", "health")).refused(503)
            assert f"the database {blocked}/x.db cannot be used" in problem["detail"]
            blocked.unlink()
            for _ in range(1000):
                if (await client("GET", "health")).status == 200:
                    return
                await asyncio.sleep(0.02)
            pytest.fail("it did not come back")


async def test_probes_and_metrics_have_a_port_of_their_own(tmp_path: Path, postgres: PostgresServer) -> None:
    web = WebSettings(database=postgres.url(postgres.new_database()), monitoring_port=0)
    async with hosted(tmp_path / "home", web) as client:
        port = (tmp_path / "home" / "monitoring-port").read_text()
        probes = Client(f"http://127.0.0.1:{port}")
        assert (await probes("GET", "/healthz")).status == 200
        await client.get("health")
        assert (await probes("GET", "/readyz")).body == "ok\n"
        metrics: list[str] = []
        async with asyncio.timeout(30):
            while "muster_platform_leader 1.0" not in metrics:
                metrics = str((await probes("GET", "/metrics")).body).splitlines()
        assert 'muster_platform_requests_total{code="200",method="GET"} 1.0' in metrics
        assert "muster_platform_open_streams 0.0" in metrics
        assert any(line.startswith("process_resident_memory_bytes ") for line in metrics)
        assert (await client("GET", "/metrics")).status != 200 or "muster_platform" not in str(
            (await client("GET", "/metrics")).body
        ), "not on the port of users"


async def test_a_server_without_its_database_is_alive_but_not_ready(tmp_path: Path) -> None:
    web = WebSettings(database=f"postgresql://muster:hunter2@/none?host={tmp_path}", monitoring_port=0)
    async with hosted(tmp_path / "home", web) as client:
        port = (tmp_path / "home" / "monitoring-port").read_text()
        probes = Client(f"http://127.0.0.1:{port}")
        await client("GET", "health")
        reply = await probes("GET", "/readyz")
        assert (reply.status, "cannot be used" in reply.body) == (503, True)
        assert "hunter2" not in reply.body
        assert (await probes("GET", "/healthz")).status == 200
