"""Webhooks of a complete Muster and a real receiver on this machine, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web

from muster.platform.settings import WebhookSettings
from muster.platform.webhooks.controller import send
from muster.platform.webhooks.deliveries import DueDelivery
from muster.platform.webhooks.webhooks import Target
from tests.http_server import serve_http
from tests.platform.graphs.samples import graph, node
from tests.server.platform.served import Client
from tests.server.platform.whole import ended, eventually, stored, whole_muster

KEY = b"0123456789abcdef0123456789abcdef"
SECRET = "whsec_" + base64.b64encode(KEY).decode()


@dataclass
class Receiver:
    """Answers with the next of `statuses`, and with 204 after them."""

    port: int = 0
    statuses: list[int] = field(default_factory=list)
    received: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    hangs: bool = False

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.received.append((dict(request.headers), await request.read()))
        if self.hangs:
            await asyncio.Event().wait()
        status = self.statuses.pop(0) if self.statuses else 204
        headers = {"Location": f"http://127.0.0.1:{self.port}/elsewhere"} if 300 <= status < 400 else {}
        return web.Response(status=status, headers=headers)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?token=hidden"

    def bodies(self) -> list[dict[str, Any]]:
        return [orjson.loads(body) for _, body in self.received]


def allowing(address: str) -> dict[str, Any]:
    # The first check of a graph imports a lot, which takes long on a busy machine.
    return {"webhooks": {"addresses": [address]}, "budgets": {"checkSeconds": 120}}


@asynccontextmanager
async def receiver() -> AsyncIterator[Receiver]:
    found = Receiver()
    async with serve_http(found.handle) as found.port:
        yield found


async def log(client: Client, webhook: str) -> list[dict[str, Any]]:
    page = await client.get(f"webhooks/{webhook}/deliveries")
    items: list[dict[str, Any]] = page["items"]
    return items


async def settled(client: Client, webhook: str) -> dict[str, Any]:
    """The newest message, once it has been tried."""

    async def is_tried() -> bool:
        entries = await log(client, webhook)
        return bool(entries) and entries[0]["attempts"] > 0

    await eventually(is_tried)
    return (await log(client, webhook))[0]


async def test_a_run_that_ends_is_told_to_its_webhooks(tmp_path: Path, database_url: str) -> None:
    async with (
        receiver() as there,
        whole_muster(tmp_path / "home", database_url, **allowing(f"127.0.0.1:{there.port}")) as muster,
    ):
        admin = muster.admin
        ann = await muster.member("ann")
        made = await ann.post("webhooks", {"name": "chat", "url": there.url, "secret": SECRET})
        assert "hidden" not in str(made) and SECRET not in str(made)
        assert made["may"] == ["edit", "delete"]
        other = await muster.member("bob")
        assert (await other("GET", f"webhooks/{made['id']}")).refused(404)

        await ann.post(f"webhooks/{made['id']}/test")
        entry = await settled(ann, made["id"])
        assert (entry["event"], entry["state"], entry["status"]) == ("test", "delivered", 204)

        await stored(ann, "quick", graph(node("say", command="exit $code", env=[{"name": "code", "value": "0"}])))
        run = await ann.post("runs", {"workflow": "quick", "name": "first", "tags": ["data=june"]})
        await ended(ann, run["id"])

        async def has_arrived() -> bool:
            return len(there.received) == 2

        await eventually(has_arrived)
        headers, body = there.received[1]
        message = orjson.loads(body)
        assert (message["type"], message["run"]["name"], message["run"]["state"]) == (
            "run.ended",
            "first",
            "succeeded",
        )
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.{body.decode()}".encode()
        expected = base64.b64encode(hmac.digest(KEY, signed, hashlib.sha256)).decode()
        assert headers["webhook-signature"] == f"v1,{expected}"
        assert headers["webhook-id"] == message["id"] == (await settled(ann, made["id"]))["id"]
        assert "Authorization" not in headers and "Cookie" not in headers

        # A receiver that is broken: the message is tried again, with the same id.
        there.statuses = [500]
        await ann.post(f"runs/{run['id']}/copy", {"tags": []})

        async def has_failed() -> bool:
            entry = (await log(ann, made["id"]))[0]
            return bool(entry["attempts"] == 1 and entry["state"] == "pending")

        await eventually(has_failed)
        entry = (await log(ann, made["id"]))[0]
        assert (entry["error_code"], entry["status"], entry["due"] > entry["tried"]) == ("webhook.status", 500, True)
        await ann.post(f"webhooks/{made['id']}/deliveries/{entry['id']}/redeliver")
        await eventually(_delivered(ann, made["id"], entry["id"]))
        assert [each["id"] for each in there.bodies()][-2:] == [entry["id"]] * 2

        # A redirect is not followed.
        there.statuses = [302]
        await ann.post(f"webhooks/{made['id']}/test")
        entry = await settled(ann, made["id"])
        assert (entry["state"], entry["error_code"]) == ("failed", "webhook.redirect")
        arrived = len(there.received)

        await ann("PATCH", f"webhooks/{made['id']}", {"enabled": False})
        copied = await ann.post(f"runs/{run['id']}/copy", {})
        await ended(ann, copied["id"])
        assert len(there.received) == arrived
        (await ann("DELETE", f"webhooks/{made['id']}")).ok()
        actions = {each["action"] for each in (await admin.get("audit?kind=webhook"))["items"]}
        assert actions == {"create", "edit", "delete"}
        assert "hidden" not in str(await admin.get("audit?kind=webhook"))


def _delivered(client: Client, webhook: str, delivery: str) -> Any:
    async def holds() -> bool:
        return any(each["id"] == delivery and each["state"] == "delivered" for each in await log(client, webhook))

    return holds


def due(url: str, identifier: str = "d", webhook: str = "w") -> DueDelivery:
    return DueDelivery(identifier, webhook, "ann", "run.ended", "{}", 0, Target(url, ""))


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/",
        "http://localhost:{port}/",
        "http://[::1]:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
        "http://0.0.0.0:{port}/",
        "http://2130706433:{port}/",
        "http://10.0.0.1/",
        "http://192.168.1.1/",
        "http://172.16.0.1/",
        "http://100.64.0.1/",
        "http://[fd00::1]/",
        "http://169.254.169.254/latest/meta-data/",
        "https://127.0.0.1:{port}/",
    ],
)
async def test_no_webhook_reaches_the_servers_own_network(url: str) -> None:
    async with receiver() as there:
        result = await send(due(url.format(port=there.port)), WebhookSettings())
        assert result.problem is not None and result.problem.code == "webhook.address"
        assert there.received == []


@pytest.mark.parametrize("allowed", ["127.0.0.1", "127.0.0.0/8", "127.0.0.1:{port}"])
async def test_a_setting_allows_addresses_of_the_own_network(allowed: str) -> None:
    async with receiver() as there:
        settings = WebhookSettings((allowed.format(port=there.port),))
        assert (await send(due(there.url), settings)).status == 204
        there.statuses = [307]
        result = await send(due(there.url), settings)
        assert result.problem is not None and result.problem.code == "webhook.redirect"
        assert len(there.received) == 2, "the address of the redirect got no request"


async def test_a_receiver_that_hangs_or_is_not_there() -> None:
    async with receiver() as there:
        there.hangs = True
        settings = WebhookSettings(("127.0.0.1",))
        slow = await send(due(there.url), settings, seconds=0.3)
        assert slow.problem is not None and slow.problem.code == "webhook.slow"
        port = there.port
    gone = await send(due(f"http://127.0.0.1:{port}/"), settings)
    assert gone.problem is not None and gone.problem.code == "webhook.connection"
    tls = await send(due(f"https://127.0.0.1:{port}/"), settings)
    assert tls.status is None and tls.problem is not None
    assert "hidden" not in str((slow, gone, tls))


async def test_what_one_server_leaves_the_next_one_sends(tmp_path: Path, database_url: str) -> None:
    """The message is in the database before it is sent, so a server that stops in between loses none."""
    async with receiver() as there:
        there.hangs = True
        async with whole_muster(tmp_path / "home", database_url, **allowing("127.0.0.1")) as muster:
            made = await muster.admin.post("webhooks", {"name": "chat", "url": there.url})
            await stored(muster.admin, "quick", graph(node("say", command="true")))
            run = await muster.admin.post("runs", {"workflow": "quick"})
            await ended(muster.admin, run["id"])

            async def is_sent() -> bool:
                return bool(there.received)

            await eventually(is_sent)
        there.hangs = False
        async with whole_muster(tmp_path / "home", database_url, **allowing("127.0.0.1")) as muster:
            entry = await settled(muster.admin, made["id"])
            assert (entry["state"], entry["run_id"]) == ("delivered", run["id"])
        ids = {each["id"] for each in there.bodies()}
        assert len(there.received) >= 2 and ids == {entry["id"]}, "sent again, with the same id"


async def test_a_receiver_that_hangs_holds_up_no_other(tmp_path: Path, database_url: str) -> None:
    async with (
        receiver() as slow,
        receiver() as quick,
        whole_muster(tmp_path / "home", database_url, **allowing("127.0.0.1")) as muster,
    ):
        slow.hangs = True
        admin = muster.admin
        hooks = [
            (await admin.post("webhooks", {"name": name, "url": there.url}))["id"]
            for name, there in (("slow", slow), ("quick", quick))
        ]
        for hook in hooks:
            await admin.post(f"webhooks/{hook}/test")
        assert (await settled(admin, hooks[1]))["state"] == "delivered"
        assert (await log(admin, hooks[0]))[0]["state"] == "pending"
