"""One build, from the repository to something that runs: an image, or a folder where there is no engine for images."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from posixpath import normpath

from muster.platform.graphs.model import WORKSPACE
from muster.platform.modules.build_log import BuildLog
from muster.platform.modules.build_process import BuildContext, BuildFailed, run_command, size_of
from muster.platform.modules.git_source import (
    CheckoutError,
    credentials_in,
    fetch,
    outside_link,
    read_readme,
    read_repository,
    read_text,
    resolve_inside,
)
from muster.platform.modules.images import USUAL_FOLDER, DockerfileError, ImageBuilder, ImagePlan, RuleError, plan_image
from muster.platform.settings import ModuleSettings

LOG, CODE = "build.log", "code"
_WORK = "work"
_LONGEST_DOCKERFILE = 200_000
_NOT_OURS = frozenset({
    "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/proc", "/root", "/run", "/sbin", "/sys",
    "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/local/bin", "/usr/sbin", "/var",
})  # fmt: skip
"""Folders that a container needs as they are."""


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """What is to be built."""

    version_id: str
    git_url: str
    git_ref: str
    commit: str
    """The one that is pinned already; '' for what the branch or tag is now."""
    dockerfile: str
    build_dir: str
    readme_path: str
    image: str
    """What the image is to be called."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """What must not be in the log."""


@dataclass(frozen=True, slots=True)
class Built:
    commit: str
    readme: str
    entrypoint: tuple[str, ...]
    working_dir: str
    env: dict[str, str]
    """Of the Dockerfile, for those who run it without its image."""
    folder: str
    """'' if there is an image."""
    size: int


async def build(
    order: BuildRequest,
    folder: Path,
    settings: ModuleSettings,
    builder: ImageBuilder | None,
    pin: Callable[[str], Awaitable[None]],
) -> Built:
    """In a folder of the version's own, which may hold the remains of a build that was cut off. `pin` is told the
    commit as soon as it is known. Raises BuildFailed."""
    work = folder / _WORK
    await asyncio.to_thread(_clear, folder)
    log = BuildLog(folder / LOG, (*order.secrets, *credentials_in(order.git_url)))
    deadline = asyncio.get_running_loop().time() + settings.minutes * 60
    here = BuildContext(order.version_id, log, deadline, work, settings.megabytes * 1_000_000)
    try:
        commit = await fetch(read_repository(order.git_url), order.git_ref, order.commit, work / "repository", here)
        await pin(commit)
        root = work / "repository"
        await asyncio.to_thread(shutil.rmtree, root / ".git")
        readme, plan = await asyncio.to_thread(check, order, root)
        log.say(f"the rules are kept: {order.readme_path} is there, the entry point is {list(plan.entrypoint)}")
        if builder is not None:
            return await _image(order, root, plan, builder, here, commit, readme)
        return await _folder(order, root, folder, plan, here, commit, readme)
    except (CheckoutError, DockerfileError, RuleError) as error:
        log.say(f"error: {error}")
        raise BuildFailed(str(error)) from None
    except BuildFailed as error:
        log.say(f"error: {error}")
        raise
    finally:
        log.close()
        await asyncio.to_thread(shutil.rmtree, work, ignore_errors=True)


def check(order: BuildRequest, root: Path) -> tuple[str, ImagePlan]:
    """The readme, and what the Dockerfile says. Raises CheckoutError, DockerfileError, RuleError."""
    link = outside_link(root)
    if link:
        raise CheckoutError(link)
    text = read_text(root, order.dockerfile, "Dockerfile", _LONGEST_DOCKERFILE)
    try:
        plan = plan_image(text)
    except (DockerfileError, RuleError) as error:
        raise CheckoutError(f"{order.dockerfile}: {error}") from None
    if not resolve_inside(root, order.build_dir).is_dir():
        raise CheckoutError(f'build directory: there is no folder "{order.build_dir or "/"}" in the repository')
    return read_readme(root, order.readme_path), plan


def place_of_code(plan: ImagePlan) -> str:
    """Where a container finds the code if it is mounted. Raises RuleError."""
    place = normpath(plan.working_dir or plan.target or USUAL_FOLDER)
    if place == "/":
        place = plan.target or USUAL_FOLDER
    covered = (*_NOT_OURS, WORKSPACE, normpath(f"{WORKSPACE}/.."))
    if place in covered or place.startswith(("/proc/", "/sys/", "/dev/")):
        raise RuleError(f"WORKDIR {place}: the code cannot be put there without an image engine; write WORKDIR /app")
    return place


async def _image(
    order: BuildRequest,
    root: Path,
    plan: ImagePlan,
    builder: ImageBuilder,
    here: BuildContext,
    commit: str,
    readme: str,
) -> Built:
    here.log.say(f"building {order.image} with {builder.name}")
    command = builder.build_command(
        order.image, resolve_inside(root, order.dockerfile), resolve_inside(root, order.build_dir)
    )
    temporary = here.folder / "tmp"
    temporary.mkdir()
    code, _ = await run_command(command, here, cwd=root, env={"TMPDIR": str(temporary)})
    if code != 0:
        raise BuildFailed(f"{builder.name} ended with {code}; see the log")
    code, printed = await run_command([*builder.size, order.image], here, cwd=root, quiet=True)
    size = int(printed) if code == 0 and printed.strip().isdigit() else 0
    if size > here.most_bytes:
        await run_command([*builder.remove, order.image], here, cwd=root)
        raise BuildFailed(
            f"the image has {size // 1_000_000} MB; at most {here.most_bytes // 1_000_000} MB are allowed"
        )
    here.log.say(f"built {order.image} ({size / 1_000_000:.1f} MB)")
    return Built(commit, readme, plan.entrypoint, plan.working_dir, {}, "", size)


async def _folder(
    order: BuildRequest, root: Path, folder: Path, plan: ImagePlan, here: BuildContext, commit: str, readme: str
) -> Built:
    place = place_of_code(plan)
    code = resolve_inside(root, order.build_dir)
    source = resolve_inside(code, plan.source)
    if plan.source and source.is_dir() and place == plan.target:
        code = source
    here.log.say("no image engine is in use: the folder itself runs, in this machine's environment")
    if plan.ignored:
        here.log.say(f"not carried out: {', '.join(plan.ignored)}")
    size = await asyncio.to_thread(_keep, code, folder / CODE)
    here.log.say(f"kept {order.image} as a folder ({size / 1_000_000:.1f} MB)")
    return Built(commit, readme, plan.entrypoint, place, dict(plan.env), str(folder / CODE), size)


def _keep(code: Path, target: Path) -> int:
    """Moved as a whole, so that it is there or not. A link that led inside the repository may lead out of this part
    of it."""
    link = outside_link(code)
    if link:
        raise CheckoutError(f"{link.removesuffix('the repository')}the build directory")
    code.rename(target)
    return size_of(target)


def _clear(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name in (_WORK, CODE):
        shutil.rmtree(folder / name, ignore_errors=True)
    (folder / _WORK).mkdir()
