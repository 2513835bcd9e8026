"""Modules as real images, where an image builder is installed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import get_args

import pytest

from muster.embedded.node.image_engine import CHECK_IMAGE, ImageEngine
from muster.embedded.settings import RuntimeName
from muster.platform.modules.build_process import BuildFailed
from muster.platform.modules.builds import BuildRequest, Built, build_version, builders_for
from muster.platform.modules.images import BuilderName, ImageBuilder, candidates, find_builder, remove_images
from muster.platform.settings import BuilderChoice, ModuleSettings
from muster.server.platform.services import IMAGE_ENGINES
from tests.platform.modules.git_repositories import GitRepository

IMAGE = "localhost/muster-modules/test-of-modules:1"
DOCKERFILE = f'FROM {CHECK_IMAGE}\nWORKDIR /app\nCOPY . /app\nLABEL by=hunter2\nRUN ["/exit"]\nENTRYPOINT ["/exit"]\n'
README = {"README.md": "# Nothing"}


@pytest.fixture(params=["buildah", "podman"])
async def builder(request: pytest.FixtureRequest) -> AsyncIterator[ImageBuilder]:
    found = await find_builder((request.param,), IMAGE_ENGINES)
    if isinstance(found, str):
        pytest.skip(f"no images can be built here: {found}")
    yield found
    await remove_images(found, [IMAGE])


async def built(
    builder: ImageBuilder, tmp_path: Path, files: dict[str, str], settings: ModuleSettings | None = None
) -> Built:
    repository = GitRepository(tmp_path / "repository", files)
    order = BuildRequest("v1", str(repository.path), "main", "", "Dockerfile", "", "README.md", IMAGE, ("hunter2",))

    async def pin(_: str) -> None:
        return

    return await build_version(order, tmp_path / "v1", settings or ModuleSettings(), builder, pin)


async def words_of(*command: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    return output.decode().strip() if process.returncode == 0 else f"ended with {process.returncode}"


async def test_a_module_becomes_an_image(builder: ImageBuilder, tmp_path: Path) -> None:
    result = await built(builder, tmp_path, {"Dockerfile": DOCKERFILE, **README})
    assert (result.folder, result.entrypoint, result.working_dir) == ("", ("/exit",), "/app")
    assert result.size > 0
    asked = (*builder.size[:-1], "{{.Config.Entrypoint}} {{.Config.WorkingDir}}", IMAGE)
    assert await words_of(*asked) == "[/exit] /app"
    log = (tmp_path / "v1" / "build.log").read_text()
    assert f"building {IMAGE} with {builder.name}" in log
    assert "LABEL by=***" in log
    assert "hunter2" not in log
    assert not (tmp_path / "v1" / "work").exists()


async def test_errors_of_the_builder_are_in_the_log(builder: ImageBuilder, tmp_path: Path) -> None:
    wrong = DOCKERFILE.replace("COPY . /app", "COPY missing /app")
    with pytest.raises(BuildFailed, match=rf"{builder.name} ended with \d+; see the log"):
        await built(builder, tmp_path, {"Dockerfile": wrong, **README})
    assert "missing" in (tmp_path / "v1" / "build.log").read_text()


async def test_an_image_that_is_too_large_is_removed(builder: ImageBuilder, tmp_path: Path) -> None:
    twice = DOCKERFILE.replace("COPY . /app", "COPY zeros /one\nCOPY zeros /two")
    files = {"Dockerfile": twice, "zeros": "0" * 700_000, **README}
    with pytest.raises(BuildFailed, match=r"at most 1 MB are allowed|it takes more than 1 MB"):
        await built(builder, tmp_path, files, ModuleSettings(megabytes=1))
    assert (await words_of(*builder.size, IMAGE)).startswith("ended with")


@pytest.mark.parametrize(
    ("choice", "runtime", "tried"),
    [
        ("auto", "sandbox", ()),
        ("auto", "podman", ("buildah", "podman")),
        ("auto", "docker", ("docker",)),
        ("folder", "podman", ()),
        ("buildah", "sandbox", ("buildah",)),
        ("docker", "docker", ("docker",)),
    ],
)
def test_which_builders_are_tried(choice: BuilderChoice, runtime: RuntimeName, tried: tuple[BuilderName, ...]) -> None:
    assert builders_for(ModuleSettings(builder=choice), runtime) == tried


@pytest.mark.parametrize("name", get_args(BuilderName))
def test_only_the_name_and_two_paths_vary(name: BuilderName) -> None:
    engine = ImageEngine("docker" if name == "docker" else "podman", f"/usr/bin/{name}")
    for builder in candidates(name, engine):
        command = builder.build_command(IMAGE, Path("/w/$(x) --y/Dockerfile"), Path("/w/;z"))
        assert command == [*builder.build, "-t", IMAGE, "-f", "/w/$(x) --y/Dockerfile", "/w/;z"]
        assert not any(word.startswith("--build-arg") for word in command)
