"""The dispatcher of the server: it runs beside the platform, on the platform's database.

It works only while there are jobs that have not ended, so that a server without such jobs costs nothing.
Servers that share a database share the work: each job is held by one of them, and the others take over what a server
leaves that is killed. Hooks run in a process of their own, and the database is used on threads, so that nothing here
blocks the server.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, exists, select

from muster.dispatch.adapter import DispatcherAdapter
from muster.dispatch.aihc.adapter import AihcAdapter
from muster.dispatch.dispatcher import Dispatcher
from muster.dispatch.errors import DispatchError, JobNotFound
from muster.dispatch.model import ENDED, Job, Line, Spec
from muster.dispatch.secrets import Secret
from muster.dispatch.store import get_job
from muster.dispatch.tables import jobs as job_table
from muster.kube.objects import Object
from muster.platform.database.database import Database
from muster.platform.errors import InvalidProblem, UnavailableProblem
from muster.platform.permissions import Actor
from muster.platform.records.dispatch import DispatchAdapter
from muster.server.dispatch.adapters import MemberClusterAdapter
from muster.server.dispatch.jobs import changed_since, remove_job
from muster.server.dispatch.progress import (
    Progress,
    check_token,
    ensure_progress_key,
    progress_variables,
    store_progress,
)
from muster.server.dispatch.types import JOB_TYPES
from muster.server.platform.event_feed import Event, EventFeed

log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 30.0
"""How late this server notices jobs that another one left."""
_IDLE_SECONDS: Final = 30.0
"""How long the dispatcher stays when there is nothing to do."""
_FEED_SECONDS: Final = 1.0
_END_SECONDS: Final = 0.2
_MOST_CHANGES: Final = 500
_OVERLAP: Final = timedelta(seconds=2)
"""A transaction may have begun before one that was seen already."""


class DispatchService:
    """`run()` runs until it is cancelled."""

    def __init__(
        self,
        database: Database,
        adapters: Sequence[DispatcherAdapter],
        folder: Path,
        feed: EventFeed,
        server_for: Callable[[str], str] = lambda adapter: "",
    ) -> None:
        """The first of the `adapters` is the default; it is this cluster, which takes manifests. `server_for` says at
        which address the programs of an adapter's jobs reach this server."""
        self._database, self.feed = database, feed
        self._default = adapters[0].name
        self._dispatcher = Dispatcher(database.url, adapters=adapters, folder=folder, env=self._variables)
        self._server_for, self._progress_key = server_for, ""
        for name, kind in JOB_TYPES.items():
            self._dispatcher.container(name)(kind)
        self._wake = asyncio.Event()
        self._watchers = 0
        self._followed = asyncio.Event()
        """Set while someone follows."""

    def adapters(self) -> list[DispatchAdapter]:
        """This cluster first. It is the only one that takes manifests."""
        names = self._dispatcher.adapters
        return [
            DispatchAdapter(name, is_default=name == self._default, takes_manifests=name == self._default)
            for name in names
        ]

    def adapter_for(self, name: str) -> DispatchAdapter:
        """Returns the adapter of this name; the default for ''. Raises Invalid."""
        for each in self.adapters():
            if each.name == name or (each.is_default and not name):
                return each
        known = list(self._dispatcher.adapters)
        raise InvalidProblem.field("adapter", "dispatch.adapter", name=name[:100], adapters=known)

    def is_this_cluster(self, adapter: str) -> bool:
        return adapter == self._default

    def request(self, job: Job, spec: Spec) -> Object | None:
        """What this cluster would be asked to create; None if it is not a Kubernetes. Raises DispatchError."""
        adapter = self._dispatcher.adapters[self._default]
        return adapter.request(job, spec, f"check-{job.id}") if isinstance(adapter, MemberClusterAdapter) else None

    @property
    def aihc(self) -> AihcAdapter | None:
        found = self._dispatcher.adapters.get("aihc")
        return found if isinstance(found, AihcAdapter) else None

    async def prepare(self) -> None:
        """Creates or upgrades the tables."""
        await asyncio.to_thread(self._dispatcher.database.ensure)
        self._progress_key = await self._database.write(ensure_progress_key)

    def _variables(self, job: Job) -> Mapping[str, str | Secret]:
        return progress_variables(job, self._progress_key, self._server_for(job.on))

    async def check_program(self, identifier: str, token: str) -> None:
        """Checks that a request comes from the job's own program. Raises Unauthenticated."""
        key = self._progress_key
        await self._database.read(lambda connection: check_token(connection, key, identifier, token))

    async def report(self, identifier: str, said: Progress) -> None:
        """Stores what the program says. Raises Conflict if its job has ended."""
        await self._database.write(lambda connection: store_progress(connection, identifier, said))

    def wake(self) -> None:
        """Says that there is something to do."""
        self._wake.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._publish())
            while True:
                await self._until(self._is_needed, _LOOK_SECONDS)
                working = asyncio.create_task(self._dispatcher.serve(), name="dispatcher")
                try:
                    await self._until(self._is_idle, _IDLE_SECONDS)
                finally:
                    working.cancel()
                    with suppress(asyncio.CancelledError):
                        await working

    async def close(self) -> None:
        await asyncio.to_thread(self._dispatcher.close)

    async def _until(self, holds: Callable[[], Awaitable[bool]], seconds: float) -> None:
        while True:
            self._wake.clear()  # before the look: what is said during it is not lost
            if await holds():
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._wake.wait()

    async def _is_needed(self) -> bool:
        unfinished = select(exists().where(job_table.c.state.not_in(ENDED)))
        return bool(await self._database.read(lambda connection: connection.execute(unfinished).scalar_one()))

    async def _is_idle(self) -> bool:
        return not await self._is_needed()

    async def delete(self, actor: Actor, identifier: str) -> None:
        """Deletes a job that has ended, with its history, its log and its folder."""
        job = await self._database.write(lambda connection: remove_job(connection, actor, identifier))
        await asyncio.to_thread(shutil.rmtree, self._dispatcher.folder / job.id, ignore_errors=True)
        self.feed.publish(job, "gone")

    # Following

    async def find(self, identifier: str) -> Job | None:
        def look(connection: Connection) -> Job | None:
            try:
                return get_job(connection, identifier)
            except JobNotFound:
                return None

        return await self._database.read(look)

    async def changes_after(self, last: str) -> AsyncIterator[Event]:
        """Yields changes of jobs after this event. The tables are looked at only while someone follows."""
        self._watchers += 1
        self._followed.set()
        try:
            async for event in self.feed.after(last):
                yield event
        finally:
            self._watchers -= 1
            if not self._watchers:
                self._followed.clear()

    async def until_ended(self, identifier: str, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    job = await self.find(identifier)
                    if job is None or job.has_ended:
                        return
                    await asyncio.sleep(_END_SECONDS)

    async def logs(self, identifier: str, *, follow: bool = False, tail: int | None = None) -> AsyncIterator[Line]:
        """Yields the log of the last attempt. Raises Unavailable if the cluster cannot be asked."""
        try:
            async for line in self._dispatcher.logs(identifier, follow=follow, tail=tail):
                yield line
        except JobNotFound:
            return
        except DispatchError as error:
            raise UnavailableProblem(error.message) from None

    async def _publish(self) -> None:
        """Publishes what changed, whichever server changed it."""
        since, known, most = datetime.now(UTC), dict[str, int](), _MOST_CHANGES
        while True:
            if not self._followed.is_set():
                await self._followed.wait()
                since, known = datetime.now(UTC), {}
            await asyncio.sleep(_FEED_SECONDS)
            look = partial(changed_since, since=since - _OVERLAP, most=most)
            found = await self._database.read(look)
            for job in found:
                if known.get(job.id) != job.version:
                    self.feed.publish(job, "job")
                since = max(since, job.changed or job.created)
            known = {job.id: job.version for job in found}
            # More may have changed within the overlap than one look returns. The next one must see beyond these.
            most = most * 2 if len(found) == most else _MOST_CHANGES

    # What only AIHC knows

    async def ask_aihc(self, question: Callable[[AihcAdapter], Awaitable[Mapping[str, Any]]]) -> dict[str, Any] | None:
        """Returns AIHC's own answer; None if it is not configured. Raises Unavailable."""
        if self.aihc is None:
            return None
        try:
            return dict(await question(self.aihc))
        except DispatchError as error:
            raise UnavailableProblem(error.message) from None
