"""The programs that build images, and finding out which of them works here."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, TypeAlias

from muster.embedded.agent.engines import CHECK_IMAGE, Engine, NoEngine, find_engine
from muster.platform.modules.commands import clean_environment

BuilderName: TypeAlias = Literal["buildah", "podman", "docker"]

_CHECK_TAG = "localhost/muster-check-build:1"
_CHECK = f'FROM {CHECK_IMAGE}\nRUN ["/exit"]\n'
_CHECK_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ImageBuilder:
    """One that was tried and works, with the words it needs here."""

    name: BuilderName
    build: tuple[str, ...]
    """The program and all options that are always the same."""
    remove: tuple[str, ...]
    size: tuple[str, ...]
    """Prints the bytes of an image."""

    def build_command(self, image: str, dockerfile: Path, context: Path) -> list[str]:
        """Paths are absolute, so none of them is an option."""
        return [*self.build, "-t", image, "-f", str(dockerfile), str(context)]


async def find_builder(wanted: Sequence[BuilderName]) -> ImageBuilder | str:
    """The first that works; else why none does."""
    reasons: list[str] = []
    for name in wanted:
        engine = await find_engine("docker" if name == "docker" else "podman")
        if isinstance(engine, NoEngine):
            reasons.append(engine.message)
            continue
        for builder in candidates(name, engine):
            problem = await _try(builder)
            if not problem:
                return builder
            reasons.append(f"{name}: {problem}")
    return "; ".join(dict.fromkeys(reasons))


def candidates(name: BuilderName, engine: Engine) -> list[ImageBuilder]:
    """The better separated ones first: a chroot is none to speak of."""
    size = tuple(engine.command("image", "inspect", "--format", "{{.Size}}"))
    remove = tuple(engine.command("rmi", "--force"))
    if name == "docker":
        return [ImageBuilder(name, (engine.program, "build", "--force-rm"), remove, size)]
    program: list[str] | None = None
    if name == "podman":
        program = engine.command("build")
    elif (found := shutil.which("buildah")) is not None:
        program = [found, "bud"]
    if program is None:
        return []
    usual = ("--pull=false", "--force-rm", "--no-cache", "--ulimit", "nofile=1024:1024")
    return [
        ImageBuilder(name, (*program, "--isolation", isolation, *usual), remove, size)
        for isolation in ("oci", "chroot")
    ]


async def remove_images(builder: ImageBuilder, images: Sequence[str]) -> None:
    """As far as nothing runs from them."""
    for image in images:
        await _output([*builder.remove, image])


async def _try(builder: ImageBuilder) -> str:
    with TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "Dockerfile").write_text(_CHECK)
        return await _output(builder.build_command(_CHECK_TAG, place / "Dockerfile", place))


async def _output(command: Sequence[str]) -> str:
    """'' if it went well, else the last line that it printed."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=clean_environment(),
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        return "it gave no answer"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode == 0:
        return ""
    lines = [line for line in output.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"
