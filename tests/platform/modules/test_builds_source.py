"""Real builds of real repositories, as source directories."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muster.platform.modules.build_process import BuildFailed
from muster.platform.modules.builds import BuildRequest, Built, build_version
from muster.platform.settings import ModuleSettings
from tests.platform.modules.git_repositories import DOCKERFILE, FILES, GitRepository


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    return GitRepository(tmp_path / "repository")


def order(repository: GitRepository, **more: Any) -> BuildRequest:
    usual = BuildRequest(
        "v1", str(repository.path), "main", "", "Dockerfile", "", "README.md", "localhost/modules/hash:1"
    )
    return replace(usual, **more)


async def built(wanted: BuildRequest, folder: Path, settings: ModuleSettings | None = None) -> Built:
    async def pin(commit: str) -> None:
        (folder / "pinned").write_text(commit)

    return await build_version(wanted, folder, settings or ModuleSettings(), None, pin)


async def test_a_repository_becomes_a_directory_at_a_pinned_commit(repository: GitRepository, tmp_path: Path) -> None:
    first = repository.git("rev-parse", "HEAD")
    result = await built(order(repository), tmp_path / "v1")
    assert result.commit == first == (tmp_path / "v1" / "pinned").read_text()
    assert result.readme == FILES["README.md"]
    assert (result.entrypoint, result.working_dir) == (("python3", "main.py"), "/app")
    assert {path.name for path in Path(result.folder).iterdir()} == set(FILES)
    log = (tmp_path / "v1" / "build.log").read_text()
    assert f"commit {first}" in log
    assert "there is no image engine" in log
    assert not (tmp_path / "v1" / "work").exists()

    # Built again after the branch has moved: the commit stays pinned.
    second = repository.commit({"main.py": "print(2)"})
    again = await built(order(repository, commit=first), tmp_path / "v1")
    assert again.commit == first
    assert (Path(again.folder) / "main.py").read_text() == FILES["main.py"]
    assert (await built(order(repository), tmp_path / "v2")).commit == second


async def test_tags_commits_and_folders_of_a_repository(repository: GitRepository, tmp_path: Path) -> None:
    tagged = repository.git("rev-parse", "HEAD")
    repository.git("tag", "-a", "v1.0", "-m", "first")
    repository.git("tag", "main")  # a branch of the same name takes precedence
    moved = {f"modules/hash/{name}": text for name, text in FILES.items()}
    newest = repository.commit({**moved, "modules/hash/Dockerfile": DOCKERFILE.replace("COPY . /app", "COPY src/ .")})
    newest = repository.commit({"modules/hash/src/main.py": "print('src')"})
    assert (await built(order(repository, git_ref="v1.0"), tmp_path / "tag")).commit == tagged
    assert (await built(order(repository, git_ref=tagged), tmp_path / "commit")).commit == tagged
    inner = order(
        repository,
        dockerfile="modules/hash/Dockerfile",
        build_dir="modules/hash",
        readme_path="modules/hash/README.md",
    )
    result = await built(inner, tmp_path / "inner")
    assert result.commit == newest
    assert (Path(result.folder) / "main.py").read_text() == "print('src')"


@pytest.mark.parametrize(
    ("files", "more", "message"),
    [
        ({"Dockerfile": "FROM a\n"}, {}, "Dockerfile: there is no ENTRYPOINT; write one"),
        ({"Dockerfile": f"{DOCKERFILE}CMD [\"x\"]\n"}, {}, "Dockerfile: line 5: a module has no CMD"),
        ({"Dockerfile": "FROM a\nENTRYPOINT python main.py\n"}, {}, "loses the arguments"),
        ({"Dockerfile": "HELLO"}, {}, '"HELLO" is not a known instruction'),
        ({"Dockerfile": DOCKERFILE.replace("/app", "/usr")}, {}, "cannot be mounted there without an image engine"),
        ({"README.md": "  \n"}, {}, "is empty"),
        ({}, {"readme_path": "main.py"}, "is not Markdown"),
        ({}, {"readme_path": "docs/README.md"}, "there is no file"),
        ({}, {"dockerfile": "docker/Dockerfile"}, "there is no file"),
        ({}, {"build_dir": "src"}, 'there is no folder "src"'),
        ({}, {"git_ref": "nowhere"}, 'no branch or tag "nowhere"'),
        ({}, {"git_ref": "0" * 40}, "could not be fetched"),
        ({}, {"git_url": "/nonexistent"}, "git ls-remote failed"),
    ],
)  # fmt: skip
async def test_a_broken_rule_fails_the_build_and_says_what_to_write(
    repository: GitRepository, tmp_path: Path, files: dict[str, str], more: dict[str, str], message: str
) -> None:
    repository.commit(files)
    with pytest.raises(BuildFailed) as failure:
        await built(order(repository, **more), tmp_path / "v1")
    assert message in str(failure.value)
    assert f"error: {failure.value}" in (tmp_path / "v1" / "build.log").read_text()
    assert not (tmp_path / "v1" / "code").exists()


@pytest.mark.parametrize(
    "target", ["/etc/passwd", "../../../etc/passwd", "..", "sub/../../outside", "loop", "/", "../repository/main.py"]
)
async def test_links_out_of_the_repository_are_refused(repository: GitRepository, tmp_path: Path, target: str) -> None:
    repository.commit(link=target)
    if target == "loop":
        repository.commit(loop="/etc")
    with pytest.raises(BuildFailed, match="outside of the repository"):
        await built(order(repository), tmp_path / "v1")


async def test_a_readme_may_be_a_link_inside_the_build_directory_only(
    repository: GitRepository, tmp_path: Path
) -> None:
    repository.commit({"docs/text.md": "# Text"}, **{"LINK.md": "docs/text.md"})
    assert (await built(order(repository, readme_path="LINK.md"), tmp_path / "v1")).readme == "# Text"
    repository.commit({"part/main.py": ""}, **{"part/up.py": "../main.py"})
    with pytest.raises(BuildFailed, match="outside of the build directory"):
        await built(order(repository, build_dir="part"), tmp_path / "v2")


async def test_hooks_filters_and_submodules_of_a_repository_are_not_run(
    repository: GitRepository, tmp_path: Path
) -> None:
    marker = tmp_path / "marker"
    hook = repository.path / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
    hook.chmod(0o755)
    repository.git("config", "filter.evil.smudge", f"touch {marker}; cat")
    repository.git("config", "core.fsmonitor", f"touch {marker}")
    inner = GitRepository(tmp_path / "inner")
    repository.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.path), "sub")
    repository.commit({".gitattributes": "*.py filter=evil\n"})
    marker.unlink(missing_ok=True)  # the author's own git runs all of them
    result = await built(order(repository), tmp_path / "v1")
    assert os.listdir(Path(result.folder) / "sub") == []
    assert not marker.exists()


async def test_limits_on_size_and_time(repository: GitRepository, tmp_path: Path) -> None:
    repository.commit({"zeros": "0" * 3_000_000})
    with pytest.raises(BuildFailed, match="it is larger than 1 MB"):
        await built(order(repository), tmp_path / "v1", ModuleSettings(megabytes=1))
    with pytest.raises(BuildFailed, match="took too long"):
        await built(order(repository), tmp_path / "v1", ModuleSettings(minutes=0))


async def test_secrets_are_not_in_the_log(repository: GitRepository, tmp_path: Path) -> None:
    wanted = order(repository, git_ref="hunter2-branch", secrets=("hunter2", ""))
    with pytest.raises(BuildFailed):
        await built(wanted, tmp_path / "v1")
    log = (tmp_path / "v1" / "build.log").read_text()
    assert "***-branch" in log
    assert "hunter2" not in log
