"""`muster export` and `import`: from one real platform into another, and archives that are not what they seem."""

from __future__ import annotations

import asyncio
import io
import json
import tarfile
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from muster.kube.encryption import KEY_FILE, KeyRing
from muster.platform.database.database import Database, sqlite_url
from muster.platform.users.credentials import local_token
from muster.sdk import Muster
from muster.sdk import archive as module
from muster.sdk.archive import (
    SETTING_FIELDS,
    ArchiveError,
    Import,
    SecretKey,
    export_platform,
    read_archive,
    read_secrets,
    write_archive,
    write_secrets,
)
from muster.server.platform.modules import CategoryBody
from muster.server.platform.resources import ClusterBody, RootBody
from tests.platform.graphs.samples import graph, node, seed_example
from tests.server.platform.served import Served, serving

on_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
async def other(tmp_path: Path) -> AsyncIterator[Served]:
    """A second, empty platform."""
    home = tmp_path / "other"
    home.mkdir()
    database = await Database.open(
        sqlite_url(home / "platform.db"), keys=KeyRing.load(home / KEY_FILE), survives_power_cut=False
    )
    try:
        async with serving(database, home) as served:
            yield served
    finally:
        database.close()


def admin(served: Served) -> Muster:
    return Muster(served.url, local_token(served.folder))


def fill(muster: Muster) -> None:
    muster.teams.create("vision", "sees")
    muster.categories.create("data")
    muster.clusters.create(
        "a100", {"nvidia.com/gpu": 1, "cpu": 8}, total=16, node_selector={"gpu": "a100"}, team="vision"
    )
    muster.storage.create("sets", "/data/sets", read_only=True)
    source: dict[str, Any] = {"git_url": "https://git.example/clean.git", "inputs": [{"name": "rows"}]}
    env = [{"name": "LEVEL", "value": "3"}, {"name": "TOKEN", "value": "s3cret", "secret": True}]
    muster.modules.create("clean", category="data", git_ref="v1", env=env, team="vision", **source)
    muster.modules.edit("clean", git_ref="v2")
    muster.modules.build("clean")
    muster.workflows.create("数据 demo", seed_example(), description="the seed's", version_name="first")
    muster.workflows.add_version(
        "数据 demo", graph(node("a", storage=[{"root": "sets", "readOnly": True}])), description="with data"
    )
    secret = [{"name": "PASSWORD", "value": "hunter2", "secret": True}]
    muster.workflows.create("login", graph(node("a", env=secret)), team="vision")
    muster.workflows.create("old", graph(node("a")))
    muster.workflows.archive("old")


def counts(muster: Muster, *arguments: Any, **more: Any) -> Counter[str]:
    return Counter(step.result for step in Import(muster, *arguments, wait_seconds=0, **more).run())


@on_sqlite
async def test_another_platform_gets_equal_workflows_modules_and_settings(
    served: Served, other: Served, tmp_path: Path
) -> None:
    def story() -> None:
        source, target = admin(served), admin(other)
        fill(source)
        exported, secrets = export_platform(source)
        with (tmp_path / "a.tar.gz").open("wb") as file:
            write_archive(exported, file)
        write_secrets(secrets, tmp_path / "secrets.json")
        assert (tmp_path / "secrets.json").stat().st_mode & 0o077 == 0
        for value in (b"hunter2", b"s3cret"):
            with tarfile.open(tmp_path / "a.tar.gz") as tar:
                assert not any(value in (tar.extractfile(name) or io.BytesIO()).read() for name in tar.getnames())

        archive = read_archive(tmp_path / "a.tar.gz")
        without = [step for step in Import(target, archive, wait_seconds=0).run() if step.result == "skipped"]
        assert [(step.what, "PASSWORD" in step.why) for step in without] == [("workflow login@1", True)]
        assert counts(target, archive, read_secrets(tmp_path / "secrets.json"))["created"] == 1, "only what was missing"
        assert set(counts(target, archive)) == {"unchanged"}, "it can be repeated"

        again, values = export_platform(target)
        assert {**again.about, "exported": ""} == {**exported.about, "exported": ""}
        assert {key: value for key, value in values.items() if key.kind == "workflow"} == {
            SecretKey("workflow", "login", 1, "a", "PASSWORD"): "hunter2"
        }
        for part in ("teams", "categories", "clusters", "storage", "workflows"):
            assert getattr(again, part) == getattr(exported, part), part
        assert [v["number"] for v in again.modules[0]["versions"]] == [1, 2, 3]

    await asyncio.to_thread(story)


@on_sqlite
async def test_members_export_what_is_theirs_and_import_no_settings(served: Served, other: Served) -> None:
    bob = await served.user("bob")
    token = (await bob.post("tokens", {"name": "script"}))["secret"]
    guest = await other.user("guest")
    other_token = (await guest.post("tokens", {"name": "script"}))["secret"]

    def story() -> None:
        fill(admin(served))
        member = Muster(served.url, token)
        member.workflows.create("own", graph(node("a")))
        exported, secrets = export_platform(member)
        assert [each["name"] for each in exported.workflows] == ["own"]
        assert (exported.clusters, exported.modules, secrets) == ((), (), {})
        chosen, hidden = export_platform(member, workflows=["login"])
        assert [each["name"] for each in chosen.workflows] == ["login"]
        assert list(hidden.values()) == [""], "a value that the user may not see"

        everything, _ = export_platform(admin(served))
        steps = list(Import(Muster(other.url, other_token), everything, wait_seconds=0).run())
        created = {step.what for step in steps if step.result == "created"}
        assert created == {"workflow 数据 demo@1", "workflow old@1", "workflow own@1"}
        assert {step.why for step in steps if step.what.startswith("cluster")} == {"only admins create it"}

    await asyncio.to_thread(story)


@on_sqlite
async def test_what_differs_is_reported_and_changed_only_on_request(served: Served, other: Served) -> None:
    def story() -> None:
        source, target = admin(served), admin(other)
        source.clusters.create("a100", {"cpu": 8}, total=16)
        source.workflows.create("w", graph(node("a")))
        target.clusters.create("a100", {"cpu": 8}, total=4)
        target.workflows.create("w", graph(node("b")))
        archive, _ = export_platform(source)
        steps = {step.what: step for step in Import(target, archive, wait_seconds=0).run()}
        assert (steps["cluster a100"].result, "differs in total" in steps["cluster a100"].why) == ("skipped", True)
        assert steps["workflow w@1"].why == "it exists and differs; rename or delete the workflow there"
        assert target.clusters.get("a100").total == 4
        assert counts(target, archive, overwrite=True)["updated"] == 1
        assert target.clusters.get("a100").total == 16

    await asyncio.to_thread(story)


def test_all_fields_of_settings_are_exported() -> None:
    bodies: dict[str, type[BaseModel]] = {"categories": CategoryBody, "clusters": ClusterBody, "storage": RootBody}
    for part, body in bodies.items():
        assert set(SETTING_FIELDS[part]) == set(body.model_fields) - {"name"}, part


def packed(path: Path, files: dict[str, bytes | None]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            if content is None:
                entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
            else:
                entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content or b""))
    return path


ABOUT = json.dumps({"format": "muster-export", "version": 1}).encode()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "muster-export.json is missing"),
        ({"muster-export.json": b'{"format": "other"}'}, 'the format is "other"'),
        ({"muster-export.json": b'{"format": "muster-export", "version": 9}'}, "newer than this Muster"),
        ({"muster-export.json": ABOUT, "../../etc/cron.d/x": b"{}"}, "does not belong to an export"),
        ({"muster-export.json": ABOUT, "workflows/00001.json": None}, "does not belong to an export"),
        ({"muster-export.json": ABOUT, "workflows/00001.json": b"{"}, "not valid JSON"),
        ({"muster-export.json": ABOUT, "workflows/00001.json": b"[" * 200_000}, "not valid JSON"),
        ({"muster-export.json": ABOUT, "workflows/00001.json": b'{"name": "x", "versions": []}'}, "lacks its name"),
        ({"muster-export.json": ABOUT, "workflows/00001.json": b"0" * 3000}, "is too large"),
    ],
)
def test_bad_archives_are_refused(
    files: dict[str, bytes | None], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if message == "is too large":
        monkeypatch.setattr(module, "MOST_BYTES", 2000)
    with pytest.raises(ArchiveError, match=message):
        read_archive(packed(tmp_path / "a.tar.gz", files))


def test_a_file_that_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello")
    with pytest.raises(ArchiveError, match="not a readable tar"):
        read_archive(tmp_path / "x")
