"""Names: of users who choose the id of another thing, and of images that others could guess."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, select, update

from muster.platform.database.database import Database
from muster.platform.database.tables import module_versions, users
from muster.platform.modules.modules import NewModule, create_category
from muster.platform.modules.validation import ModuleSource
from muster.platform.modules.versions import build_again, create_module
from muster.platform.permissions import SYSTEM, Actor
from muster.platform.users.accounts import get_user, insert_user
from muster.platform.users.openid import Person, sign_in_user
from tests.platform.graphs.samples import graph, node
from tests.server.platform.served import Served, serving


@pytest.fixture
async def served(database: Database, tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(database, tmp_path / "home") as running:
        yield running


async def test_a_workflow_named_like_the_id_of_another(served: Served) -> None:
    """A member names a workflow like the id of another member's, so that others run it instead"""
    ann, eve = await served.user("ann"), await served.user("eve")
    wanted = await ann.post("workflows", {"name": "payroll", "version": {"document": graph(node("good"))}})
    bait = {"name": wanted["workflow_id"], "version": {"document": graph(node("evil"))}}
    await eve.post("workflows", bait)
    for name in ("wages", "salaries"):
        assert (await ann.get(f"workflows/{wanted['workflow_id']}"))["owner_name"] == "ann"
        (await ann("PATCH", f"workflows/{wanted['workflow_id']}", {"name": name})).ok()  # moves the row in PostgreSQL


async def test_a_version_named_like_the_id_of_another(served: Served) -> None:
    """A member names a version like the id of another version of the workflow"""
    ann = await served.user("ann")
    first = await ann.post("workflows", {"name": "w", "version": {"name": "a", "document": graph(node("one"))}})
    wanted = first["version"]["id"]
    await ann.post("workflows/w/versions", {"name": wanted, "document": graph(node("two"))})
    assert (await ann.get(f"workflows/w/versions/{wanted}"))["number"] == 1


async def test_the_image_of_a_version_that_is_not_published(database: Database) -> None:
    """A member guesses the name of the image of another member's version, from that of a published one"""

    def create(connection: Connection) -> list[str]:
        create_category(connection, SYSTEM, "text")
        user = insert_user(connection, SYSTEM, "ann")
        ann = Actor(user.id, user.name)
        create_module(connection, ann, NewModule("hash", "text"), ModuleSource("https://git.example/x", "main"))
        build_again(connection, ann, "hash")
        return list(connection.execute(select(module_versions.c.image).order_by(module_versions.c.number)).scalars())

    first, second = await database.write(create)
    name, _, tag = first.rpartition(":")
    assert second.startswith(f"{name}:2-")
    assert len(tag.removeprefix("1-")) == len(second.removeprefix(f"{name}:2-")) == 16
    assert tag.removeprefix("1-") != second.removeprefix(f"{name}:2-")


async def test_an_account_named_like_the_id_of_another(database: Database) -> None:
    """A user of the OpenID provider has the name that is the id of another account"""

    def attack(connection: Connection) -> list[str]:
        admin = insert_user(connection, SYSTEM, "root", admin=True)
        sign_in_user(connection, Person("https://id.example", "eve", admin.id), ())
        found = [get_user(connection, admin.id).name]
        connection.execute(update(users).where(users.c.id == admin.id).values(name="boss"))  # moves the row
        return [*found, get_user(connection, admin.id).name]

    assert await database.write(attack) == ["root", "boss"]
