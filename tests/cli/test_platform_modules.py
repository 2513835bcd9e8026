"""`muster modules|categories|reviews ...` against a complete Muster, as users run them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import Muster
from tests.platform.modules.git_repositories import FILES, GitRepository


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    return GitRepository(tmp_path / "repository")


def test_the_life_of_a_module(cluster: Muster, repository: GitRepository) -> None:
    cluster("categories", "create", "文本", "--description", "texts").ok()
    assert cluster("categories", "list").ok().out.splitlines()[1].split() == ["文本", "0", "texts"]
    options = ["--category", "文本", "--git-url", str(repository.path), "--input", "text=what to hash"]
    outputs = ["--output", "digest=/tmp/workflow_space/digest.txt", "--output", "all=file:/tmp/workflow_space/all"]
    made = cluster("modules", "create", "hash-text", *options, *outputs, "--env", "MODE=fast").ok()
    assert made.out == "hash-text@1 is private\n"
    assert f"commit {repository.git('rev-parse', 'HEAD')}" in made.err

    listed = cluster("modules", "list", "--mine", "--usable").ok().out.splitlines()
    assert listed[0].split() == ["NAME", "VERSION", "STATE", "CATEGORY", "OWNER", "UPDATED"]
    assert listed[1].split()[:4] == ["hash-text", "1", "private", "文本"]
    shown = cluster("modules", "get", "hash-text").ok().out
    assert "Input:     --text  what to hash" in shown
    assert "Output:    all (file) /tmp/workflow_space/all" in shown
    assert json.loads(cluster("modules", "get", "hash-text@1", "--json").ok().out)["env"][0]["value"] == "fast"
    assert cluster("modules", "readme", "hash-text").ok().out == FILES["README.md"]
    assert cluster("modules", "log", "-f", "hash-text").ok().out in made.err

    assert cluster("modules", "edit", "hash-text", "--description", "hashes").ok().out == "hash-text updated\n"
    repository.commit({"Dockerfile": 'FROM a\nENTRYPOINT ["a"]\nCMD b\n'})
    failed = cluster("modules", "build", "hash-text")
    assert failed.code == 1
    assert "hash-text@2: Dockerfile: line 3: a module has no CMD" in failed.err
    repository.commit(FILES)
    assert cluster("modules", "retry", "hash-text@2").ok().out == "hash-text@2 is private\n"
    assert [line.split()[:2] for line in cluster("modules", "versions", "hash-text").ok().out.splitlines()[1:]] == [
        ["2", "private"],
        ["1", "private"],
    ]

    asked = cluster("modules", "review", "hash-text@2", "-m", "please").ok().out
    review = asked.split()[-1]
    assert asked.startswith("hash-text@2 is in review: ")
    assert review in cluster("reviews", "list", "--state", "open").ok().out
    refused = cluster("reviews", "approve", review)
    assert refused.code == 1
    assert "you may not decide your own review" in refused.err
    assert cluster("reviews", "withdraw", review).ok().out == "hash-text@2 is private again\n"
    assert cluster("modules", "deprecate", "hash-text@2").code == 1
    cluster("modules", "delete", "hash-text").ok()
    cluster("categories", "edit", "文本", "--name", "text").ok()
    cluster("categories", "delete", "text").ok()


def test_errors_name_the_field(cluster: Muster) -> None:
    cluster("categories", "create", "any").ok()
    refused = cluster("modules", "create", "Hash", "--category", "any", "--git-url", "ext::sh", "--git-ref", "-x")
    assert refused.code == 1
    assert "git_url: " in refused.err
    assert "git_ref: " in refused.err
    assert cluster("modules", "edit", "none").code == 1
    assert "--env must be NAME=VALUE" in cluster("modules", "edit", "none", "--env", "x").err
