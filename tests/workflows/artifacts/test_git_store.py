from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from muster.workflows.artifacts.locations import ArtifactError
from tests.workflows.artifacts.conftest import Shop

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


class Repository:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")
        self.first = self.commit("one")

    def git(self, *words: str) -> str:
        env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z"}
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        command = ["git", "-C", str(self.folder), *who, *words]
        return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, text: str) -> str:
        (self.folder / "file").write_text(text)
        self.git("add", "file")
        self.git("commit", "--quiet", "-m", text)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    found = Repository(tmp_path / "repository")
    found.git("tag", "v1")
    found.git("checkout", "--quiet", "-b", "topic")
    found.commit("topic")
    found.git("checkout", "--quiet", "main")
    found.commit("two")
    return found


def artifact(repository: Repository, **more: Any) -> dict[str, Any]:
    return {"name": "src", "path": "/src", "git": {"repo": f"file://{repository.folder}", **more}}


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, "two"),
        ({"revision": "topic"}, "topic"),
        ({"revision": "v1"}, "one"),
        ({"revision": "v1", "depth": 1}, "one"),
        ({"revision": "topic", "depth": 1}, "topic"),
        ({"branch": "topic", "singleBranch": True}, "topic"),
        ({"depth": 1}, "two"),
    ],
)
async def test_what_is_checked_out(shop: Shop, repository: Repository, settings: dict[str, Any], text: str) -> None:
    folder = await shop.fetched(artifact(repository, **settings))
    assert (folder / "file").read_text() == text


async def test_a_commit_is_checked_out(shop: Shop, repository: Repository) -> None:
    folder = await shop.fetched(artifact(repository, revision=repository.first))
    assert (folder / "file").read_text() == "one"
    assert (folder / ".git").is_dir()


async def test_what_is_not_there_is_named(shop: Shop, repository: Repository) -> None:
    with pytest.raises(ArtifactError, match="none"):
        await shop.fetched(artifact(repository, revision="none"))
    with pytest.raises(ArtifactError, match="git clone of"):
        await shop.fetched({"name": "a", "git": {"repo": f"file://{shop.home}/nowhere"}})


@pytest.mark.parametrize(
    "settings", [{"repo": "--upload-pack=touch /tmp/x"}, {"repo": "x", "revision": "--help"}, {"repo": "ext::sh -c x"}]
)
async def test_a_repository_is_no_command(shop: Shop, settings: dict[str, Any]) -> None:
    with pytest.raises(ArtifactError):
        await shop.fetched({"name": "a", "git": settings})


async def test_nothing_can_be_saved_to_git(shop: Shop, repository: Repository) -> None:
    with pytest.raises(ArtifactError, match="cannot be saved to"):
        await shop.artifacts.save({"metadata": {}}, artifact(repository), shop.file("x"), {})
