"""A member keeps the server busy with what is slow: others still get a turn."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from muster.platform.database.database import Database
from muster.platform.modules import builds as module_builds
from muster.platform.modules.builds import BuildRequest, Builds, Built, WaitingBuild, next_build
from muster.platform.modules.modules import NewModule, create_category
from muster.platform.modules.validation import ModuleSource
from muster.platform.modules.versions import create_module
from muster.platform.permissions import SYSTEM, Actor
from muster.platform.settings import ModuleSettings, WebhookSettings
from muster.platform.users.accounts import insert_user
from muster.platform.webhooks import controller as webhook_controller
from muster.platform.webhooks.controller import SendResult, WebhookController
from muster.platform.webhooks.deliveries import DueDelivery, send_test
from muster.platform.webhooks.webhooks import WebhookFields, create_webhook
from muster.server.platform.services import IMAGE_ENGINES

on_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

SLOW = "https://tarpit.example/x"


def with_members(connection: Connection) -> tuple[Actor, Actor]:
    create_category(connection, SYSTEM, "text")
    eve, ann = (insert_user(connection, SYSTEM, name) for name in ("eve", "ann"))
    return Actor(eve.id, eve.name), Actor(ann.id, ann.name)


@on_sqlite
async def test_webhooks_with_slow_receivers(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member has a hundred webhooks whose receivers never respond, so that messages of others are never sent"""
    eve, ann = await database.write(with_members)
    sent = asyncio.Event()

    async def send(delivery: DueDelivery, settings: WebhookSettings, seconds: float) -> SendResult:
        if delivery.target.url == SLOW:
            await asyncio.sleep(3600)
        sent.set()
        return SendResult(200, None)

    def enqueue(connection: Connection) -> None:
        for number in range(100):
            fields = WebhookFields(f"slow {number}", SLOW, None, "", "", ("succeeded",), True)
            send_test(connection, eve, create_webhook(connection, eve, fields).id)
        fields = WebhookFields("mine", "https://fast.example/x", None, "", "", ("succeeded",), True)
        send_test(connection, ann, create_webhook(connection, ann, fields).id)

    await database.write(enqueue)
    monkeypatch.setattr(webhook_controller, "send", send)
    running = asyncio.create_task(WebhookController(database, WebhookSettings()).run())
    try:
        async with asyncio.timeout(20):
            await sent.wait()
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


@on_sqlite
async def test_builds_from_slow_repositories(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member has modules built from repositories that never respond, so that modules of others are never built"""
    eve, ann = await database.write(with_members)
    begun = asyncio.Event()

    async def build(order: BuildRequest, *more: Any) -> Built:
        if order.git_url != SLOW:
            begun.set()
        await asyncio.sleep(3600)
        raise AssertionError

    def create(connection: Connection) -> None:
        for number in range(5):
            create_module(connection, eve, NewModule(f"slow-{number}", "text"), ModuleSource(SLOW, "main"))
        create_module(connection, ann, NewModule("mine", "text"), ModuleSource("https://git.example/x", "main"))

    await database.write(create)
    monkeypatch.setattr(module_builds, "build_version", build)
    running = asyncio.create_task(Builds(database, tmp_path, ModuleSettings(), "sandbox", IMAGE_ENGINES).run())
    try:
        async with asyncio.timeout(20):
            await begun.wait()
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


def _waiting(*authors: str) -> list[WaitingBuild]:
    return [WaitingBuild(str(number), author, author == "root") for number, author in enumerate(authors)]


@pytest.mark.parametrize(
    ("waiting", "running", "at_once", "last", "expected"),
    [
        pytest.param(("eve", "eve", "ann"), {"0": "eve"}, 2, "eve", "2", id="one place is left for others"),
        pytest.param(("eve", "eve", "ann"), {}, 1, "eve", "2", id="with one place, authors take turns"),
        pytest.param(("eve", "eve"), {}, 1, "eve", "0", id="without others, the next one"),
        pytest.param(("eve", "eve"), {"0": "eve"}, 2, "eve", None, id="without others, one place stays free"),
        pytest.param(("root", "root"), {"0": "root"}, 2, "root", "1", id="an admin gets all places"),
        pytest.param(("ann", "eve"), {"8": "x", "9": "y"}, 2, "", None, id="no place"),
    ],
)
def test_which_build_is_next(
    waiting: tuple[str, ...], running: Mapping[str, str], at_once: int, last: str, expected: str | None
) -> None:
    """A member waits with many builds before the one of another member"""
    found = next_build(_waiting(*waiting), running, at_once, last)
    assert (found.version_id if found is not None else None) == expected
