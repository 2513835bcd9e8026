"""Recurring runs: stored, enabled and disabled, and the controller that starts a run at each tick.

A run of a tick and the fact that the tick was played are stored in one transaction. So a server that is killed at any
moment neither loses a tick nor plays one twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection, case, delete, func, insert, literal, select, update

from muster.kube.budgets import Budgets, setting_name
from muster.kube.errors import ApiError, BadRequest, TooManyRequests, Unavailable
from muster.kube.objects import Object, parse_time, timestamp
from muster.pipelines.controller import PipelineController
from muster.pipelines.experiments import check_description, check_name, check_not_archived, get_experiment, in_namespace
from muster.pipelines.list_query import ListFields, ListRequest, list_rows
from muster.pipelines.pipelines import forget_spec, get_spec, store_spec
from muster.pipelines.records import ENDED, RECURRING_RUN, RecurringRun, new_uuid
from muster.pipelines.runs import NewRun, RunSource, count_active, find_experiment, find_spec, insert_run
from muster.pipelines.ticks import Trigger, fill_macros, next_tick, shortest_gap, ticks
from muster.platform.database.database import Database
from muster.platform.database.pipeline_tables import pipeline_runs, pipelines, recurring_runs
from muster.platform.database.queries import AnyRow, as_record, record_columns
from muster.platform.database.tables import now, teams, users
from muster.platform.errors import (
    InvalidProblem,
    NotFoundProblem,
    Problem,
    TooManyRequestsProblem,
    UnavailableProblem,
)
from muster.platform.permissions import Actor, require, visible
from muster.platform.quotas import budgets_of, check_count
from muster.platform.records.common import Page, Subject
from muster.platform.users.audit import write_audit
from muster.platform.users.teams import roles_of
from muster.workflows.cron.schedule import ScheduleError

log = logging.getLogger(__name__)

_LONGEST_SLEEP: Final = 10.0
"""Seconds after which the controller looks again: another server may have changed something."""
_SHORTEST_SLEEP: Final = 0.05
_LONGEST_ROUND: Final = 2.0
"""Seconds for which a round waits for the ticks of one user."""
_AGAIN_SECONDS: Final = 5.0
_MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class NewRecurringRun:
    run: NewRun
    trigger: Mapping[str, Any]
    """As in a request: `cron_schedule` or `periodic_schedule`."""
    max_concurrency: int = 1
    no_catchup: bool = False
    enabled: bool = True


def read_trigger(given: Mapping[str, Any]) -> Trigger:
    """Raises Invalid."""
    cron, periodic = given.get("cron_schedule"), given.get("periodic_schedule")
    try:
        if cron is not None and periodic is not None:
            raise ScheduleError("a trigger has either a cron_schedule or a periodic_schedule")
        chosen: Mapping[str, Any] = cron or periodic or {}
        start, end = (_moment(chosen.get(name)) for name in ("start_time", "end_time"))
        if cron is not None:
            return Trigger(str(cron.get("cron") or ""), start=start, end=end)
        try:
            interval = timedelta(seconds=int(chosen.get("interval_second") or 0))
        except OverflowError:
            interval = timedelta.max
        return Trigger(interval=interval, start=start, end=end)
    except ScheduleError as error:
        raise InvalidProblem.field("trigger", "pipelines.trigger", detail=str(error)) from None


def check_interval(connection: Connection, actor: Actor, trigger: Trigger) -> None:
    """Raises Invalid if a user who is not an admin wants runs more often than the budget allows."""
    least, gap = budgets_of(connection).member_recurring_seconds, shortest_gap(trigger, now())
    if not actor.admin and gap < timedelta(seconds=least):
        setting = setting_name("member_recurring_seconds")
        given = gap // timedelta(seconds=1)
        raise InvalidProblem.field("trigger", "pipelines.often", given=given, least=least, setting=setting)


def stored_trigger(trigger: Trigger) -> dict[str, Any]:
    """Returns the trigger as the API returns it, which `read_trigger` reads."""
    times = {"start_time": trigger.start, "end_time": trigger.end}
    written = {name: timestamp(moment) for name, moment in times.items() if moment is not None}
    if trigger.cron:
        return {"cron_schedule": {"cron": trigger.cron, **written}}
    seconds = str(trigger.interval // timedelta(seconds=1))
    return {"periodic_schedule": {"interval_second": seconds, **written}}


def create_recurring_run(connection: Connection, actor: Actor, new: NewRecurringRun) -> RecurringRun:
    """The pipeline of `new.run` has been checked, if it is a spec."""
    require(actor, "create", Subject(RECURRING_RUN, owner=actor.id))
    check_name(new.run.name)
    check_description(new.run.description)
    trigger = read_trigger(new.trigger)
    check_interval(connection, actor, trigger)
    if not 1 <= new.max_concurrency <= 10:
        raise InvalidProblem.field("max_concurrency", "pipelines.concurrency", given=new.max_concurrency)
    experiment = find_experiment(connection, actor, new.run.experiment_id)
    check_not_archived(experiment)
    find_spec(connection, actor, new.run)
    check_count(connection, "user_recurring_runs", recurring_runs.c.owner_id == actor.id, "recurring runs")
    identifier, moment = new_uuid(), now()
    connection.execute(
        insert(recurring_runs).values(
            id=identifier,
            name=new.run.name,
            description=new.run.description,
            experiment_id=experiment.id,
            namespace=experiment.namespace,
            owner_id=actor.id,
            team_id=experiment.team_id,
            pipeline_id=new.run.pipeline_id,
            version_id=new.run.version_id,
            spec_hash=store_spec(connection, new.run.spec, actor.id) if new.run.spec is not None else None,
            parameters=dict(new.run.parameters),
            pipeline_root=new.run.pipeline_root,
            service_account=new.run.service_account,
            trigger=stored_trigger(trigger),
            max_concurrency=new.max_concurrency,
            no_catchup=new.no_catchup,
            enabled=new.enabled,
            error="",
            created=moment,
            updated=moment,
            ticks=0,
        )
    )
    write_audit(connection, actor, "create", RECURRING_RUN, identifier, new.run.name)
    return get_recurring_run(connection, actor, identifier)


def get_recurring_run(connection: Connection, actor: Actor, identifier: str, action: str = "view") -> RecurringRun:
    row = connection.execute(_RECURRING.where(recurring_runs.c.id == identifier)).first()
    if row is None:
        raise NotFoundProblem.named(RECURRING_RUN, identifier[:200])
    found = as_record(row, RecurringRun)
    require(actor, action, found.subject, identifier)
    return found


def list_recurring_runs(
    connection: Connection, actor: Actor, wanted: ListRequest, *, experiment_id: str = "", namespace: str = ""
) -> Page[RecurringRun]:
    if experiment_id:
        get_experiment(connection, actor, experiment_id)
        seen = visible(actor, RECURRING_RUN, owner=recurring_runs.c.owner_id, team=recurring_runs.c.team_id)
        conditions = [seen, recurring_runs.c.experiment_id == experiment_id]
    else:
        conditions = in_namespace(connection, actor, RECURRING_RUN, recurring_runs, namespace)
    return list_rows(connection, _RECURRING.where(*conditions), wanted, _FIELDS).map(_recurring)


def list_all_recurring_runs(
    connection: Connection, actor: Actor
) -> list[tuple[RecurringRun, str, str, str | None, int]]:
    """Those of all namespaces that the user may see, with the names of the pipeline, the owner and the team, and the
    number of runs that have not ended."""
    table = recurring_runs.c
    active = (
        select(func.count())
        .where(
            pipeline_runs.c.recurring_run_id == table.id, pipeline_runs.c.state.not_in(ENDED), ~pipeline_runs.c.deleted
        )
        .correlate(recurring_runs)
        .scalar_subquery()
    )
    query = (
        _RECURRING.add_columns(
            pipelines.c.display_name.label("pipeline_name"),
            users.c.name.label("owner_name"),
            teams.c.name.label("team_name"),
            active.label("active"),
        )
        .outerjoin(pipelines, pipelines.c.id == table.pipeline_id)
        .outerjoin(users, users.c.id == table.owner_id)
        .outerjoin(teams, teams.c.id == table.team_id)
        .where(visible(actor, RECURRING_RUN, owner=table.owner_id, team=table.team_id))
    )
    return [
        (_recurring(row), row.pipeline_name or "", row.owner_name or "", row.team_name, row.active)
        for row in connection.execute(query)
    ]


def enable_recurring_run(connection: Connection, actor: Actor, identifier: str, *, enabled: bool) -> None:
    """Ticks that were missed while it was disabled are played, unless it has `no_catchup`."""
    found = get_recurring_run(connection, actor, identifier, "edit")
    if enabled:
        check_not_archived(get_experiment(connection, actor, found.experiment_id))
    values = {"enabled": enabled, "error": "", "updated": now()}
    connection.execute(update(recurring_runs).where(recurring_runs.c.id == identifier).values(**values))
    write_audit(connection, actor, "enable" if enabled else "disable", RECURRING_RUN, identifier, found.name)


def delete_recurring_run(connection: Connection, actor: Actor, identifier: str) -> None:
    """Its runs stay."""
    found = get_recurring_run(connection, actor, identifier, "delete")
    connection.execute(delete(recurring_runs).where(recurring_runs.c.id == identifier))
    forget_spec(connection, found.spec_hash)
    write_audit(connection, actor, "delete", RECURRING_RUN, identifier, found.name)


# Ticks


class RecurringController:
    """Starts a run at each tick. `run()` runs until it is cancelled."""

    def __init__(
        self,
        database: Database,
        runs: PipelineController,
        compile: Callable[[str, RunSource], Awaitable[Object]],
        budgets: Budgets = Budgets(),  # noqa: B008
    ) -> None:
        """`compile` makes the Workflow of a run of this user, with limits on what that may cost."""
        self._database = database
        self._runs = runs
        self._compile = compile
        self._news = asyncio.Event()
        self._playing: dict[str, asyncio.Task[None]] = {}
        """By the ids of owners."""
        self._rates = StartRates(budgets.member_recurring_runs_per_minute)

    def look_again(self) -> None:
        """A recurring run was created, enabled or disabled."""
        self._news.set()

    async def run(self) -> None:
        try:
            while True:
                await self._round()
        finally:
            for each in self._playing.values():
                each.cancel()
            await asyncio.gather(*self._playing.values(), return_exceptions=True)

    async def _round(self) -> None:
        self._news.clear()
        self._runs.ended.clear()
        try:
            pause = await self.play(datetime.now(UTC))
        except ApiError as error:
            log.warning("recurring runs: %s; trying again in %.0f s", error, _AGAIN_SECONDS)
            pause = _AGAIN_SECONDS
        waits = [asyncio.create_task(event.wait()) for event in (self._news, self._runs.ended)]
        try:
            await asyncio.wait(waits, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()

    async def play(self, moment: datetime) -> float:
        """Starts the runs of all ticks that are due. Returns the seconds until the next one. A user whose pipelines
        take long to compile makes no other user wait: their ticks go on beside the next rounds."""
        by_owner: dict[str, list[RecurringRun]] = {}
        admins = await self._database.read(find_admins)
        for recurring in await self._database.read(find_enabled):
            by_owner.setdefault(recurring.owner_id, []).append(recurring)
        for owner, theirs in by_owner.items():
            if owner not in self._playing:
                # Those that have waited for the longest time come first: the rate may not be enough for all.
                theirs.sort(key=lambda each: each.last_tick or each.created)
                task = self._playing[owner] = asyncio.create_task(self._play_all(theirs, moment, owner in admins))
                task.add_done_callback(partial(self._played, owner))
        if self._playing:
            await asyncio.wait(self._playing.values(), timeout=_LONGEST_ROUND)
        enabled = await self._database.read(find_enabled)
        coming = [next_tick(read_trigger(each.trigger), each.created, each.last_tick) for each in enabled]
        # What is due already waits for a run to end, which is noticed.
        left = [(each - moment).total_seconds() for each in coming if each is not None and each > moment]
        left += [self._rates.seconds_until_next(owner, moment) for owner in by_owner if owner not in admins]
        return max(_SHORTEST_SLEEP, min([*left, _LONGEST_SLEEP]))

    def _played(self, owner: str, _: asyncio.Task[None]) -> None:
        del self._playing[owner]

    async def _play_all(self, theirs: Sequence[RecurringRun], moment: datetime, is_admin: bool) -> None:
        for recurring in theirs:
            try:
                await self._play(recurring, moment, is_admin)
            except (TooManyRequests, Unavailable, TooManyRequestsProblem, UnavailableProblem) as error:
                log.warning("recurring run %s: %s; trying again", recurring.id, error)
            except (Problem, BadRequest) as problem:
                await self._refuse(recurring, str(problem))
            except Exception:
                log.exception("recurring run %s failed to be played; trying again", recurring.id)

    async def _play(self, recurring: RecurringRun, moment: datetime, is_admin: bool) -> None:
        active = await self._database.read(lambda connection: count_active(connection, recurring.id))
        most = recurring.max_concurrency - active
        due = ticks(
            read_trigger(recurring.trigger),
            recurring.created,
            recurring.last_tick,
            moment,
            most if is_admin else min(most, self._rates.left(recurring.owner_id, moment)),
            no_catchup=recurring.no_catchup,
        )
        for number, tick in enumerate(due):
            index = recurring.ticks + number + 1
            source = await self._database.read(
                lambda connection: load_tick(connection, recurring, tick, index, moment)  # noqa: B023
            )
            workflow = await self._compile(recurring.owner_id, source)
            last = recurring.last_tick if number == 0 else due[number - 1]
            stored = await self._database.write(
                lambda connection: store_tick(connection, recurring, last, tick, source, workflow)  # noqa: B023
            )
            if not stored:
                return  # another server has played it, or it was disabled meanwhile
            self._rates.add(recurring.owner_id, moment)
            await self._runs.begin(source.id)

    async def _refuse(self, recurring: RecurringRun, error: str) -> None:
        """A recurring run that cannot be started, such as one without a pipeline, is disabled and says why."""
        log.warning("recurring run %s is disabled: %s", recurring.id, error)
        values = {"enabled": False, "error": error, "updated": now()}
        await self._database.write(
            lambda connection: connection.execute(
                update(recurring_runs).where(recurring_runs.c.id == recurring.id).values(**values)
            )
        )


class StartRates:
    """How many runs the recurring runs of each user have started in the last minute. Kept in memory: after a restart
    it begins again."""

    def __init__(self, per_minute: int) -> None:
        self._most = per_minute
        self._started: dict[str, deque[datetime]] = {}

    def add(self, owner: str, moment: datetime) -> None:
        self._started.setdefault(owner, deque(maxlen=self._most)).append(moment)

    def left(self, owner: str, moment: datetime) -> int:
        """Returns how many may be started now."""
        started = self._started.get(owner)
        if started is None:
            return self._most
        while started and started[0] <= moment - _MINUTE:
            started.popleft()
        if not started:
            del self._started[owner]
        return self._most - len(started)

    def seconds_until_next(self, owner: str, moment: datetime) -> float:
        """Returns when the next one may be started if none may be started now."""
        if self.left(owner, moment) > 0:
            return _LONGEST_SLEEP
        return (self._started[owner][0] + _MINUTE - moment).total_seconds()


def find_admins(connection: Connection) -> set[str]:
    return set(connection.execute(select(users.c.id).where(users.c.admin)).scalars())


def find_enabled(connection: Connection) -> list[RecurringRun]:
    return [as_record(row, RecurringRun) for row in connection.execute(_RECURRING.where(recurring_runs.c.enabled))]


def load_tick(
    connection: Connection, recurring: RecurringRun, tick: datetime, index: int, moment: datetime
) -> RunSource:
    """Finds what the run of a tick refers to, with the rights of the owner. Raises Problem."""
    owner = owner_actor(connection, recurring)
    experiment = get_experiment(connection, owner, recurring.experiment_id)
    check_not_archived(experiment)
    find_experiment(connection, owner, experiment.id)
    spec = get_spec(connection, recurring.spec_hash) if recurring.spec_hash is not None else None
    run = NewRun(
        f"{recurring.name}-{index}",
        recurring.description,
        experiment.id,
        spec,
        recurring.pipeline_id,
        recurring.version_id,
        recurring.parameters,
        recurring.pipeline_root,
        recurring.service_account,
    )
    found, pipeline_id, version_id = find_spec(connection, owner, run)
    identifier = new_uuid()
    filled = fill_macros(recurring.parameters, run_id=identifier, index=index, scheduled=tick, now=moment)
    return RunSource(
        identifier,
        replace(run, parameters=filled),
        found,
        experiment.id,
        recurring.namespace,
        recurring.team_id,
        recurring.owner_id,
        moment,
        tick,
        pipeline_id,
        version_id,
        recurring.id,
    )


def store_tick(
    connection: Connection,
    recurring: RecurringRun,
    last: datetime | None,
    tick: datetime,
    source: RunSource,
    workflow: Object,
) -> bool:
    """Stores the run of a tick, and that the tick was played. Returns False if `last` is not the last one any more."""
    check_count(connection, "user_pipeline_runs", pipeline_runs.c.owner_id == recurring.owner_id, "pipeline runs")
    same = recurring_runs.c.last_tick.is_(None) if last is None else recurring_runs.c.last_tick == last
    which = (recurring_runs.c.id == recurring.id) & recurring_runs.c.enabled & same
    values = {"last_tick": tick, "ticks": recurring_runs.c.ticks + 1, "error": ""}
    if not connection.execute(update(recurring_runs).where(which).values(**values)).rowcount:
        return False
    insert_run(connection, source, workflow)
    return True


def owner_actor(connection: Connection, recurring: RecurringRun) -> Actor:
    """The owner, with the rights they have now. Raises NotFound for an account that is gone or disabled."""
    row = connection.execute(select(users).where(users.c.id == recurring.owner_id)).first()
    if row is None or row.disabled:
        raise NotFoundProblem.named("user", recurring.owner_id)
    return Actor(row.id, row.name, bool(row.admin), roles_of(connection, row.id), via="system")


def _moment(value: datetime | str | None) -> datetime | None:
    return parse_time(value) if isinstance(value, str) else value


_RECURRING = select(*record_columns(RecurringRun, recurring_runs))
_FIELDS = ListFields(
    {
        "recurring_run_id": recurring_runs.c.id,
        "id": recurring_runs.c.id,
        "display_name": recurring_runs.c.name,
        "name": recurring_runs.c.name,
        "description": recurring_runs.c.description,
        "experiment_id": recurring_runs.c.experiment_id,
        "namespace": recurring_runs.c.namespace,
        "pipeline_id": recurring_runs.c.pipeline_id,
        "pipeline_version_id": recurring_runs.c.version_id,
        "service_account": recurring_runs.c.service_account,
        "max_concurrency": recurring_runs.c.max_concurrency,
        "status": case((recurring_runs.c.enabled, literal("ENABLED")), else_=literal("DISABLED")),
        "created_at": recurring_runs.c.created,
        "updated_at": recurring_runs.c.updated,
    },
    key=recurring_runs.c.id,
)


def _recurring(row: AnyRow) -> RecurringRun:
    return as_record(row, RecurringRun)
