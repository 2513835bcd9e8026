"""Builds of modules: from the repository to an image, or to a folder if there is no image engine.

`Builds` runs for as long as the server does. It starts the builds that wait, and starts again what an earlier server
left unfinished. Every start of a build gets a number; only the latest may store a result, and only once.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from posixpath import normpath
from typing import NamedTuple

from sqlalchemy import Connection, select, update

from muster.kube.file_names import path_component
from muster.platform.database.database import Database
from muster.platform.database.encrypted_columns import env_place, keys_of, unseal_env, unseal_url
from muster.platform.database.tables import module_versions, modules, now, users
from muster.platform.graphs.model import WORKSPACE
from muster.platform.modules.build_process import (
    BuildContext,
    BuildFailed,
    BuildLog,
    GuestAccess,
    end_leftovers,
    read_log,
    run_command,
    size_of,
)
from muster.platform.modules.cluster_builds import BuildSource, JobBuilder
from muster.platform.modules.git_source import (
    CheckoutError,
    fetch,
    outside_link,
    read_readme,
    read_text,
    resolve_inside,
)
from muster.platform.modules.images import (
    USUAL_FOLDER,
    BuilderName,
    DockerfileError,
    ImageBuilder,
    ImageEngines,
    ImagePlan,
    RuleError,
    find_builder,
    plan_image,
    remove_images,
)
from muster.platform.modules.modules import State, next_state, refresh
from muster.platform.modules.source_snapshot import store_snapshot
from muster.platform.permissions import SYSTEM
from muster.platform.settings import ModuleSettings
from muster.platform.users.audit import write_audit
from muster.workflows.artifacts.git_addresses import credentials_in, read_repository

LOG, CODE, SOURCE = "build.log", "code", "source.json.gz"
_WORK = "work"
_LONGEST_DOCKERFILE = 200_000
_NOT_OURS = frozenset({
    "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/proc", "/root", "/run", "/sbin", "/sys",
    "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/local/bin", "/usr/sbin", "/var",
})  # fmt: skip
"""Folders that a container needs unchanged."""


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """What to build."""

    version_id: str
    git_url: str
    git_ref: str
    commit: str
    """The pinned commit; '' for the current one of the branch or tag."""
    dockerfile: str
    build_dir: str
    readme_path: str
    image: str
    """The name of the image."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Values that the log must not show."""
    by_admin: bool = True
    """Whether the author is an admin."""


@dataclass(frozen=True, slots=True)
class Built:
    commit: str
    readme: str
    entrypoint: tuple[str, ...]
    working_dir: str
    env: dict[str, str]
    """The variables of the Dockerfile, for runs without its image."""
    folder: str
    """'' if there is an image."""
    size: int
    image: str = ""
    """Its name with its digest, if it was pushed to a registry."""


async def build_version(
    order: BuildRequest,
    folder: Path,
    settings: ModuleSettings,
    builder: ImageBuilder | JobBuilder | None,
    pin: Callable[[str], Awaitable[None]],
) -> Built:
    """Builds a version in its own folder, which may contain remains of an interrupted build. Calls `pin` with the
    commit as soon as it is known. Raises BuildFailed."""
    work = folder / _WORK
    await asyncio.to_thread(_clear, folder)
    log = BuildLog(folder / LOG, (*order.secrets, *credentials_in(order.git_url)))
    deadline = asyncio.get_running_loop().time() + settings.minutes * 60
    guest = None if order.by_admin else GuestAccess(settings.addresses, settings.ssh_hosts)
    here = BuildContext(order.version_id, log, deadline, work, settings.megabytes * 1_000_000, guest)
    try:
        commit = await fetch(read_repository(order.git_url), order.git_ref, order.commit, work / "repository", here)
        await pin(commit)
        root = work / "repository"
        await asyncio.to_thread(shutil.rmtree, root / ".git")
        readme, plan = await asyncio.to_thread(check_source, order, root)
        await asyncio.to_thread(store_snapshot, root, folder / SOURCE)
        log.say(f"the source is valid: {order.readme_path} exists, the entry point is {list(plan.entrypoint)}")
        if isinstance(builder, JobBuilder):
            source = BuildSource(order.version_id, order.image, root, order.dockerfile, order.build_dir)
            pushed = await builder.build(source, here)
            log.say(f"pushed {pushed.image} ({pushed.size / 1_000_000:.1f} MB)")
            return Built(commit, readme, plan.entrypoint, plan.working_dir, {}, "", pushed.size, pushed.image)
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


def check_source(order: BuildRequest, root: Path) -> tuple[str, ImagePlan]:
    """Returns the readme, and what the Dockerfile says. Raises CheckoutError, DockerfileError or RuleError."""
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
    """Where the code is mounted in a container. Raises RuleError."""
    place = normpath(plan.working_dir or plan.target or USUAL_FOLDER)
    if place == "/":
        place = plan.target or USUAL_FOLDER
    covered = (*_NOT_OURS, WORKSPACE, normpath(f"{WORKSPACE}/.."))
    if place in covered or place.startswith(("/proc/", "/sys/", "/dev/")):
        raise RuleError(f"WORKDIR {place}: the code cannot be mounted there without an image engine; use WORKDIR /app")
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
    here.log.say("there is no image engine: the folder runs in the environment of this host")
    if plan.ignored:
        here.log.say(f"not executed: {', '.join(plan.ignored)}")
    size = await asyncio.to_thread(_keep, code, folder / CODE)
    here.log.say(f"stored {order.image} as a folder ({size / 1_000_000:.1f} MB)")
    return Built(commit, readme, plan.entrypoint, place, dict(plan.env), str(folder / CODE), size)


def _keep(code: Path, target: Path) -> int:
    """Moves the code atomically. A link inside the repository may lead out of this part of it, so links are checked
    again."""
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


MOST_INTERRUPTIONS = 3


class Claim(NamedTuple):
    module_id: str
    number: int
    attempt: int
    order: BuildRequest


class WaitingBuild(NamedTuple):
    version_id: str
    author_id: str
    by_admin: bool


def find_waiting_builds(connection: Connection) -> list[WaitingBuild]:
    """The versions that wait for a build, and those that are being built, the oldest first."""
    query = (
        select(module_versions.c.id, module_versions.c.author_id, users.c.admin)
        .join(users, users.c.id == module_versions.c.author_id)
        .where(module_versions.c.state == "building")
        .order_by(module_versions.c.id)
    )
    return [WaitingBuild(*row) for row in connection.execute(query)]


def next_build(
    waiting: Sequence[WaitingBuild], running: Mapping[str, str], at_once: int, last_author: str
) -> WaitingBuild | None:
    """Returns the build to start next; None if there is none, or no place. `running` has the authors by version.

    A repository may be as slow as its author likes. So authors take turns, and one who is not an admin gets all places
    but one. A pure function."""
    busy = Counter(running.values())
    free = [
        each
        for each in waiting
        if each.version_id not in running and busy[each.author_id] < (at_once if each.by_admin else max(1, at_once - 1))
    ]
    if len(running) >= at_once:
        return None
    return min(free, key=lambda each: (busy[each.author_id], each.author_id == last_author), default=None)


def resume_builds(connection: Connection, was_put_off: Callable[[str, int], bool]) -> list[str]:
    """Called when a server starts. Returns the versions whose builds were interrupted; they are built again, unless the
    server stopped too often during the build. Builds that were put off in an orderly shutdown do not count."""
    begun = connection.execute(
        select(module_versions).where(module_versions.c.state == "building", module_versions.c.attempts > 0)
    ).all()
    for row in begun:
        if was_put_off(row.module_id, row.number):
            continue
        connection.execute(
            update(module_versions)
            .where(module_versions.c.id == row.id)
            .values(interruptions=row.interruptions + 1, attempts=row.attempts + 1)
        )
        if row.interruptions + 1 > MOST_INTERRUPTIONS:
            told = f"the server stopped {row.interruptions + 1} times during this build; does it have enough memory?"
            store_failure(connection, row.id, row.attempts + 1, told)
    return [row.id for row in begun]


def claim_build(connection: Connection, version_id: str) -> Claim | None:
    """Starts a build; None if the version does not wait for one."""
    row = connection.execute(
        select(module_versions, modules.c.name.label("module_name"), users.c.admin.label("by_admin"))
        .join(modules, modules.c.id == module_versions.c.module_id)
        .join(users, users.c.id == module_versions.c.author_id)
        .where(module_versions.c.id == version_id, module_versions.c.state == "building")
    ).first()
    if row is None:
        return None
    connection.execute(
        update(module_versions).where(module_versions.c.id == version_id).values(attempts=row.attempts + 1)
    )
    keys = keys_of(connection)
    env = unseal_env(keys, row.env, env_place(row.id))
    secrets = tuple(variable["value"] for variable in env if variable["secret"])
    order = BuildRequest(
        row.id, unseal_url(keys, row.git_url, row.id), row.git_ref, row.git_commit, row.dockerfile, row.build_dir,
        row.readme_path, row.image, secrets, bool(row.by_admin),
    )  # fmt: skip
    return Claim(row.module_id, row.number, row.attempts + 1, order)


def pin_commit(connection: Connection, version_id: str, attempt: int, commit: str) -> None:
    connection.execute(
        update(module_versions)
        .where(module_versions.c.id == version_id, module_versions.c.attempts == attempt)
        .values(git_commit=commit)
    )


def store_build(connection: Connection, version_id: str, attempt: int, built: Built) -> bool:
    """Stores the result. Returns False if a later build replaced this one."""
    return _end(
        connection, version_id, attempt, "built",
        reason="", git_commit=built.commit, entrypoint=list(built.entrypoint), working_dir=built.working_dir,
        image_env=built.env, folder=built.folder, size=built.size, readme=built.readme, built=now(),
        **({"image": built.image} if built.image else {}),
    )  # fmt: skip


def store_failure(connection: Connection, version_id: str, attempt: int, reason: str) -> bool:
    return _end(connection, version_id, attempt, "fail", reason=reason)


def build_state(connection: Connection, version_id: str) -> State | None:
    found: State | None = connection.execute(
        select(module_versions.c.state).where(module_versions.c.id == version_id)
    ).scalar()
    return found


def find_known_versions(connection: Connection) -> set[tuple[str, int]]:
    """All versions, by module and number."""
    return {tuple(row) for row in connection.execute(select(module_versions.c.module_id, module_versions.c.number))}


def _end(connection: Connection, version_id: str, attempt: int, step: str, **values: object) -> bool:
    row = connection.execute(
        select(module_versions, modules.c.name.label("module_name"))
        .join(modules, modules.c.id == module_versions.c.module_id)
        .where(
            module_versions.c.id == version_id,
            module_versions.c.state == "building",
            module_versions.c.attempts == attempt,
        )
    ).first()
    if row is None:
        return False
    name = f"{row.module_name} {row.number}"
    state = next_state("building", "built" if step == "built" else "fail", name)
    connection.execute(
        update(module_versions)
        .where(module_versions.c.id == version_id)
        .values(state=state, updated=now(), revision=row.revision + 1, **values)
    )
    refresh(connection, row.module_id)
    details = {name: values[name] for name in ("git_commit", "reason") if values.get(name)}
    write_audit(
        connection, SYSTEM, "built" if step == "built" else "build failed", "module", row.module_id, name, details
    )
    return True


log = logging.getLogger(__name__)

_LOOK_SECONDS = 5.0
"""How often it checks for builds that another server accepted."""
_READ_SECONDS = 0.25
_PUT_OFF = "put-off"
"""A file in the folder of a build that was interrupted by an orderly shutdown."""


class Builds:
    """`folder` contains all files: those of version 2 of a module are in folder/MODULE_ID/2."""

    def __init__(
        self,
        database: Database,
        folder: Path,
        settings: ModuleSettings,
        runtime: str,
        engines: ImageEngines,
        job_builder: JobBuilder | None = None,
    ) -> None:
        """`runtime` is what runs containers: sandbox, podman or docker. On a real cluster, `job_builder` builds
        there."""
        self._database, self._folder, self._settings = database, folder, settings
        self._wanted = builders_for(settings, runtime)
        self._engines = engines
        self._builder: ImageBuilder | JobBuilder | None = job_builder
        self._running: dict[str, asyncio.Task[None]] = {}
        self._authors: dict[str, str] = {}
        """The author of each version that is being built, and who started the last build."""
        self._last_author = ""
        self._modules: dict[str, str] = {}
        """The module of each version that is being built."""
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Runs until it is cancelled. The next server continues what is being built then."""
        begun = await self._database.write(
            lambda connection: resume_builds(
                connection, lambda module_id, number: (self._place(module_id, number) / _PUT_OFF).exists()
            )
        )
        if begun:
            killed = await asyncio.to_thread(end_leftovers, set(begun))
            log.info("%d builds start again; %d of their programs were still running", len(begun), len(killed))
        await self._sweep()
        try:
            while True:
                self._news.clear()
                await self._start_more()
                try:
                    async with asyncio.timeout(_LOOK_SECONDS):
                        await self._news.wait()
                except TimeoutError:
                    continue
        finally:
            for task in self._running.values():
                task.cancel()
            await asyncio.gather(*self._running.values(), return_exceptions=True)

    def look(self) -> None:
        """Checks for builds to start or stop."""
        self._news.set()

    async def stop(self, version_id: str) -> None:
        """Stops a build. The database must say first that the version is not building."""
        task = self._running.get(version_id)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def forget(self, module_id: str, images: Sequence[str] = ()) -> None:
        """Deletes files and images of a deleted module."""
        for version_id in [each for each, module in self._modules.items() if module == module_id]:
            await self.stop(version_id)
        await asyncio.to_thread(shutil.rmtree, self._folder / path_component(module_id), ignore_errors=True)
        if images:
            with suppress(BuildFailed):
                builder = await self._image_builder()
                if isinstance(builder, ImageBuilder):
                    await remove_images(builder, images)

    def log_path(self, module_id: str, number: int) -> Path:
        return self._place(module_id, number) / LOG

    def source_path(self, module_id: str, number: int) -> Path:
        """The file with the source of a version (source_snapshot.py)."""
        return self._place(module_id, number) / SOURCE

    async def follow(self, version_id: str, path: Path, offset: int = 0) -> AsyncIterator[tuple[str, int, str]]:
        """Yields the log from an offset on: text and its end; when the build is over, '' and the state."""
        while True:
            state = await self._database.read(lambda connection: build_state(connection, version_id))
            while True:
                text, end = await asyncio.to_thread(read_log, path, offset)
                if not text:
                    break
                offset = end
                yield text, offset, ""
            if state != "building":
                yield "", offset, state or "deleted"
                return
            await asyncio.sleep(_READ_SECONDS)

    async def _start_more(self) -> None:
        waiting = await self._database.read(find_waiting_builds)
        while build := next_build(waiting, self._authors, self._settings.at_once, self._last_author):
            version_id = build.version_id
            task = asyncio.create_task(self._build(version_id), name=f"build {version_id}")
            self._running[version_id] = task
            self._authors[version_id] = self._last_author = build.author_id
            task.add_done_callback(self._ended(version_id))

    def _ended(self, version_id: str) -> Callable[[asyncio.Task[None]], None]:
        def ended(task: asyncio.Task[None]) -> None:
            self._running.pop(version_id, None)
            self._authors.pop(version_id, None)
            self._modules.pop(version_id, None)
            self._news.set()
            if not task.cancelled() and task.exception() is not None:
                log.error("the result of the build %s could not be stored", version_id, exc_info=task.exception())

        return ended

    async def _build(self, version_id: str) -> None:
        claim = await self._database.write(lambda connection: claim_build(connection, version_id))
        if claim is None:
            return
        self._modules[version_id] = claim.module_id
        folder = self._place(claim.module_id, claim.number)
        (folder / _PUT_OFF).unlink(missing_ok=True)
        attempt = claim.attempt

        async def pin(commit: str) -> None:
            await self._database.write(lambda connection: pin_commit(connection, version_id, attempt, commit))

        try:
            builder = await self._image_builder()
            if attempt > 1:
                _note(folder / LOG, "the build starts again")
            built = await build_version(claim.order, folder, self._settings, builder, pin)
        except asyncio.CancelledError:
            if folder.is_dir():
                (folder / _PUT_OFF).touch()
            raise
        except BuildFailed as error:
            reason = str(error)
        except OSError as error:
            log.exception("the build %s failed", version_id)
            reason = f"the operating system refused it: {error.strerror or error}"
            _note(folder / LOG, f"error: {reason}")
        else:
            await self._database.write(lambda connection: store_build(connection, version_id, attempt, built))
            return
        await self._database.write(lambda connection: store_failure(connection, version_id, attempt, reason))

    def _place(self, module_id: str, number: int) -> Path:
        return self._folder / path_component(module_id) / str(number)

    async def _image_builder(self) -> ImageBuilder | JobBuilder | None:
        """Returns the image builder; None if modules run as folders."""
        if self._builder is not None or not self._wanted:
            return self._builder
        found = await find_builder(self._wanted, self._engines)
        if isinstance(found, str):
            raise BuildFailed(f"no image can be built on this host: {found}")
        self._builder = found
        log.info("images of modules are built with %s", " ".join(found.build))
        return found

    async def _sweep(self) -> None:
        """Deletes files of versions that no longer exist, because the server stopped while it deleted them."""
        known = await self._database.read(find_known_versions)
        await asyncio.to_thread(_remove_unknown, self._folder, {module for module, _ in known})


def builders_for(settings: ModuleSettings, runtime: str) -> tuple[BuilderName, ...]:
    """The builders to try, in this order; none means that modules run as folders. The engine that runs containers must
    find the image in its own store, which buildah and podman share."""
    if settings.builder == "folder":
        return ()
    if settings.builder != "auto":
        return (settings.builder,)
    if runtime == "podman":
        return ("buildah", "podman")
    return ("docker",) if runtime == "docker" else ()


def _note(path: Path, line: str) -> None:
    written = BuildLog(path)
    written.say(line)
    written.close()


def _remove_unknown(folder: Path, known: set[str]) -> None:
    if not folder.is_dir():
        return
    for entry in folder.iterdir():
        if entry.name not in known:
            shutil.rmtree(entry, ignore_errors=True)
