"""Builds continue after a restart, and graphs may use their results: on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from muster.platform.database.database import Database
from muster.platform.graphs.model import Output, Variable
from muster.platform.modules.builds import Builds, Built
from muster.platform.modules.builds import claim_build as _br_claim
from muster.platform.modules.builds import resume_builds as _br_resume
from muster.platform.modules.builds import store_build as _br_finish
from muster.platform.modules.builds import store_failure as _br_fail
from muster.platform.modules.modules import NewModule, create_category, get_module
from muster.platform.modules.reviews import ask_review, decide
from muster.platform.modules.validation import ModuleInput, ModuleSource
from muster.platform.modules.versions import (
    StoredModuleVersion,
    build_again,
    create_module,
    find_version,
    take_step,
)
from muster.platform.permissions import SYSTEM, Actor
from muster.platform.settings import ModuleSettings
from muster.platform.users.accounts import insert_user
from muster.platform.workflows.graph_context import module_context
from muster.server.platform.services import IMAGE_ENGINES
from tests.platform.modules.git_repositories import GitRepository

SOURCE = ModuleSource(
    "https://git.example/x",
    "main",
    env=(Variable("A", "own"), Variable("KEY", "hunter2", True)),
    inputs=(ModuleInput("text"),),
    outputs=(Output("digest", "/tmp/digest"),),
)
BUILT = Built("a" * 40, "# It", ("python", "main.py"), "/app", {"A": "image", "B": "image"}, "/srv/code", 10)


def with_people(connection: Connection) -> dict[str, Actor]:
    create_category(connection, SYSTEM, "text")
    people = [insert_user(connection, SYSTEM, name, admin=name == "root") for name in ("ann", "eve", "root")]
    return {user.name: Actor(user.id, user.name, admin=user.name == "root") for user in people}


def latest(connection: Connection) -> StoredModuleVersion:
    return find_version(connection, SYSTEM, get_module(connection, SYSTEM, "hash"), "latest")


def context_of(actor: Actor, connection: Connection, version: str = "1") -> dict[str, Any]:
    """Returns the versions that a node may name, with whether they can be used."""
    document = {"nodes": [{"module": {"name": "hash", "version": version}}, {"module": None}, "x"]}
    found = module_context(connection, actor, document).modules
    return {number: (module.usable, module.deprecated) for (_, number), module in found.items()}


async def test_which_versions_are_available_in_every_state(database: Database) -> None:
    people = await database.write(with_people)
    ann, eve, root = people["ann"], people["eve"], people["root"]
    new = NewModule("hash", "text")

    def seen(connection: Connection) -> list[dict[str, Any]]:
        return [context_of(actor, connection) for actor in (ann, eve, root)]

    await database.write(lambda c: create_module(c, ann, new, SOURCE))
    assert await database.read(seen) == [{}, {}, {}]
    version = (await database.read(latest)).id
    claim = await database.write(lambda c: _br_claim(c, version))
    assert claim is not None
    assert "hunter2" in claim.order.secrets
    assert await database.write(lambda c: _br_finish(c, version, claim.attempt, BUILT))
    private: list[dict[str, Any]] = [{"1": (True, False)}, {}, {"1": (False, False)}]
    assert await database.read(seen) == private
    review = await database.write(lambda c: ask_review(c, ann, "hash", "1"))
    assert await database.read(seen) == private
    await database.write(lambda c: decide(c, root, review.id, "approve"))
    assert await database.read(seen) == [{"1": (True, False)}] * 3
    await database.write(lambda c: build_again(c, ann, "hash"))
    assert await database.read(seen) == [{"1": (True, False)}] * 3

    module = (await database.read(lambda c: module_context(c, eve, {"nodes": [{"module": {"name": "hash"}}]}))).modules[
        "hash", "1"
    ]
    assert (module.folder, module.entrypoint, module.working_dir) == ("/srv/code", ("python", "main.py"), "/app")
    assert module.inputs == ("text",)
    assert {variable.name: variable.value for variable in module.env} == {"A": "own", "B": "image", "KEY": "hunter2"}

    def deprecate(connection: Connection) -> None:
        of = get_module(connection, ann, "hash")
        take_step(connection, ann, of, find_version(connection, ann, of, "1"), "deprecate")

    await database.write(deprecate)
    assert await database.read(seen) == [{"1": (True, True)}] * 3


async def test_only_the_latest_attempt_counts_and_only_once(database: Database) -> None:
    ann = (await database.write(with_people))["ann"]
    await database.write(lambda c: create_module(c, ann, NewModule("hash", "text"), SOURCE))
    version = (await database.read(latest)).id
    first = await database.write(lambda c: _br_claim(c, version))
    again = await database.write(lambda c: _br_resume(c, lambda *_: False))
    second = await database.write(lambda c: _br_claim(c, version))
    assert first is not None
    assert second is not None
    assert again == [version]
    assert not await database.write(lambda c: _br_finish(c, version, first.attempt, BUILT))
    assert not await database.write(lambda c: _br_fail(c, version, first.attempt, "late"))
    assert await database.write(lambda c: _br_finish(c, version, second.attempt, BUILT))
    assert not await database.write(lambda c: _br_finish(c, version, second.attempt, BUILT))
    assert await database.write(lambda c: _br_claim(c, version)) is None
    assert (await database.read(latest)).state == "private"


async def begun(path: Path, times: int) -> bool:
    return path.exists() and path.read_text().count("begun") == times


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.02)


@asynccontextmanager
async def building(builds: Builds) -> AsyncIterator[None]:
    task = asyncio.create_task(builds.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_any_number_of_clean_restarts_is_allowed(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = (await database.write(with_people))["ann"]
    repository = GitRepository(tmp_path / "git")
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "git").write_text(f"#!/bin/sh\necho begun >> {tmp_path}/begun\nexec sleep 60\n")
    (programs / "git").chmod(0o755)
    create = partial(create_module, new=NewModule("hash", "text"), local=(tmp_path,))
    await database.write(lambda c: create(c, ann, source=ModuleSource(str(repository.path), "main")))
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{programs}:/usr/bin:/bin")
        for times in range(1, 6):
            async with building(Builds(database, tmp_path / "modules", ModuleSettings(), "sandbox", IMAGE_ENGINES)):
                await eventually(partial(begun, tmp_path / "begun", times))
    assert (await database.read(latest)).state == "building"

    async def built() -> bool:
        return (await database.read(latest)).state != "building"

    async with building(Builds(database, tmp_path / "modules", ModuleSettings(), "sandbox", IMAGE_ENGINES)):
        await eventually(built)
    assert (await database.read(latest)).state == "private"
