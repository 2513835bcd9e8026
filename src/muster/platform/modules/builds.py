"""Builds what waits for it, for as long as the server runs; begins again what a server before has left unfinished."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from muster.embedded.node.settings import RuntimeName
from muster.platform.database.database import Database
from muster.platform.modules import build_records
from muster.platform.modules.build_log import BuildLog, read_from
from muster.platform.modules.build_process import BuildFailed, end_leftovers
from muster.platform.modules.building import LOG, build
from muster.platform.modules.images import BuilderName, ImageBuilder, find_builder, remove_images
from muster.platform.settings import ModuleSettings

log = logging.getLogger(__name__)

_LOOK_SECONDS = 5.0
"""How often it looks for work that nobody told it of (another server took it in, say)."""
_READ_SECONDS = 0.25
_PUT_OFF = "put-off"
"""A file in the folder of a build that was cut off in an orderly way."""


class Builds:
    """`folder` holds all files: of version 2 of a module, what is in folder/MODULE_ID/2."""

    def __init__(self, database: Database, folder: Path, settings: ModuleSettings, runtime: RuntimeName) -> None:
        self._database, self._folder, self._settings = database, folder, settings
        self._wanted = builders_for(settings, runtime)
        self._builder: ImageBuilder | None = None
        self._running: dict[str, asyncio.Task[None]] = {}
        self._modules: dict[str, str] = {}
        """Of the versions that are being built."""
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Until it is cancelled; what is being built then is begun again by the next server."""
        begun = await self._database.write(
            lambda connection: build_records.resume(
                connection, lambda module_id, number: (self._place(module_id, number) / _PUT_OFF).exists()
            )
        )
        if begun:
            killed = await asyncio.to_thread(end_leftovers, set(begun))
            log.info("%d builds are begun again; %d programs of theirs were still there", len(begun), len(killed))
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
        """There may be something to build, or to stop."""
        self._news.set()

    async def stop(self, version_id: str) -> None:
        """After the database says that it is not building any more."""
        task = self._running.get(version_id)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def forget(self, module_id: str, images: Sequence[str] = ()) -> None:
        """After the module was deleted."""
        for version_id in [each for each, module in self._modules.items() if module == module_id]:
            await self.stop(version_id)
        await asyncio.to_thread(shutil.rmtree, self._folder / module_id, ignore_errors=True)
        if images:
            with suppress(BuildFailed):
                builder = await self._image_builder()
                if builder is not None:
                    await remove_images(builder, images)

    def log_path(self, module_id: str, number: int) -> Path:
        return self._place(module_id, number) / LOG

    async def follow(self, version_id: str, path: Path, offset: int = 0) -> AsyncIterator[tuple[str, int, str]]:
        """The log from there on: text, and where it ends; until the build is over: then '' and the state."""
        while True:
            state = await self._database.read(lambda connection: build_records.state_of(connection, version_id))
            while True:
                text, end = await asyncio.to_thread(read_from, path, offset)
                if not text:
                    break
                offset = end
                yield text, offset, ""
            if state != "building":
                yield "", offset, state or "deleted"
                return
            await asyncio.sleep(_READ_SECONDS)

    async def _start_more(self) -> None:
        for version_id in await self._database.read(build_records.waiting):
            if len(self._running) >= self._settings.at_once:
                return
            if version_id in self._running:
                continue
            task = asyncio.create_task(self._build(version_id), name=f"build {version_id}")
            self._running[version_id] = task
            task.add_done_callback(self._ended(version_id))

    def _ended(self, version_id: str) -> Callable[[asyncio.Task[None]], None]:
        def ended(task: asyncio.Task[None]) -> None:
            self._running.pop(version_id, None)
            self._modules.pop(version_id, None)
            self._news.set()
            if not task.cancelled() and task.exception() is not None:
                log.error("the build %s could not be written down", version_id, exc_info=task.exception())

        return ended

    async def _build(self, version_id: str) -> None:
        claim = await self._database.write(lambda connection: build_records.claim(connection, version_id))
        if claim is None:
            return
        self._modules[version_id] = claim.module_id
        folder = self._place(claim.module_id, claim.number)
        (folder / _PUT_OFF).unlink(missing_ok=True)
        attempt = claim.attempt

        async def pin(commit: str) -> None:
            await self._database.write(lambda connection: build_records.pin(connection, version_id, attempt, commit))

        try:
            builder = await self._image_builder()
            if attempt > 1:
                _note(folder / LOG, "the build begins again")
            built = await build(claim.order, folder, self._settings, builder, pin)
        except asyncio.CancelledError:
            if folder.is_dir():
                (folder / _PUT_OFF).touch()
            raise
        except BuildFailed as error:
            reason = str(error)
        except OSError as error:
            log.exception("the build %s failed", version_id)
            reason = f"the server could not do it: {error.strerror or error}"
            _note(folder / LOG, f"error: {reason}")
        else:
            await self._database.write(lambda connection: build_records.finish(connection, version_id, attempt, built))
            return
        await self._database.write(lambda connection: build_records.fail(connection, version_id, attempt, reason))

    def _place(self, module_id: str, number: int) -> Path:
        return self._folder / module_id / str(number)

    async def _image_builder(self) -> ImageBuilder | None:
        """None: modules are folders here."""
        if not self._wanted or self._builder is not None:
            return self._builder
        found = await find_builder(self._wanted)
        if isinstance(found, str):
            raise BuildFailed(f"no image can be built on this machine: {found}")
        self._builder = found
        log.info("images of modules are built with %s", " ".join(found.build))
        return found

    async def _sweep(self) -> None:
        """Files of versions that are not there any more: the server ended between deleting the one and the other."""
        known = await self._database.read(build_records.known_versions)
        await asyncio.to_thread(_remove_unknown, self._folder, {module for module, _ in known})


def builders_for(settings: ModuleSettings, runtime: RuntimeName) -> tuple[BuilderName, ...]:
    """What to try, in this order; nothing means that modules are folders. What runs containers has to find the image
    in its own store, which buildah and podman share."""
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
