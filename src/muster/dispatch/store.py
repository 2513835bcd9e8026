"""Reads and writes of jobs, as functions on a connection.

Every write of a dispatcher says `where id = ? and version = ?`. A lease (`held_by`, `held_until`) is per job, so that
dispatchers share the work; taking a lease over counts the version up, so the former holder cannot write any more.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import Connection, and_, delete, func, insert, or_, select, update
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from muster.dispatch.admission import Admission, Candidate, Demand, demand_of
from muster.dispatch.codec import from_row, storable, to_row
from muster.dispatch.database import notify
from muster.dispatch.errors import InvalidJob, JobNotFound
from muster.dispatch.lifecycle import CancelRequested, admitted, advance
from muster.dispatch.model import ENDED, STATES, Job, Resources, State
from muster.dispatch.tables import SHARED, events, from_microseconds, jobs, to_microseconds

T = TypeVar("T")
QUEUED: tuple[State, ...] = ("waiting", "restarting")
UNDER_WAY: tuple[State, ...] = tuple(s for s in STATES if s not in ENDED and s not in QUEUED)
_ROUND_LOCK = 0x6D64_726F_756E
_MOST_CANDIDATES = 20_000
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PARAMETERS = 500
"""How many ids go into one statement."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    items: tuple[T, ...]
    cursor: str | None = None
    """Requests the next page; None: there is none."""


@dataclass(frozen=True, slots=True)
class Event:
    """A change of a job."""

    id: int
    job_id: str
    time: datetime
    attempt: int
    state: State
    reason: str


def new_id(now: datetime) -> str:
    """Returns an id that sorts by time, in letters that every cluster accepts in a name."""
    number = (to_microseconds(now) // 1000 << 35) | secrets.randbits(35)
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(75, -5, -5))


def insert_job(connection: Connection, job: Job) -> str:
    """Stores a new job. Returns its id, or the id of the job that has the same key already."""
    row = to_row(job)
    if job.key is None:
        connection.execute(insert(jobs).values(row))
    else:
        make = postgres_insert if connection.dialect.name == "postgresql" else sqlite_insert
        adding = make(jobs).values(row).on_conflict_do_nothing(index_elements=["key"]).returning(jobs.c.id)
        if connection.execute(adding).first() is None:
            found: str = connection.execute(select(jobs.c.id).where(jobs.c.key == job.key)).scalar_one()
            return found
    _record(connection, [job])
    notify(connection)
    return job.id


def get_job(connection: Connection, id: str) -> Job:
    row = connection.execute(select(jobs).where(jobs.c.id == id)).mappings().one_or_none()
    if row is None:
        raise JobNotFound(f'there is no job "{id}"')
    return from_row(dict(row))


def list_jobs(
    connection: Connection,
    *,
    state: State | Iterable[State] | None = None,
    type: str | None = None,
    project: str | None = None,
    on: str | None = None,
    creator: str | None = None,
    labels: dict[str, str] | None = None,
    limit: int = 100,
    cursor: str | None = None,
) -> Page[Job]:
    """Returns jobs, the newest first."""
    query = select(jobs).order_by(jobs.c.created.desc(), jobs.c.id.desc()).limit(limit + 1)
    if state is not None:
        query = query.where(jobs.c.state.in_([state] if isinstance(state, str) else list(state)))
    for column, wanted in (("type", type), ("project", project), ("adapter", on), ("creator", creator)):
        if wanted is not None:
            query = query.where(jobs.c[column] == wanted)
    for label, value in (labels or {}).items():
        query = query.where(jobs.c.labels[label].as_string() == value)
    if cursor is not None:
        number, _, id = cursor.partition(".")
        if not number.isdecimal():
            raise InvalidJob(f'"{cursor}" is not a cursor of this list')
        created = from_microseconds(int(number))
        older = and_(jobs.c.created == created, jobs.c.id < id)
        query = query.where(or_(jobs.c.created < created, older))
    found = [from_row(dict(row)) for row in connection.execute(query).mappings()]
    last = found[limit - 1] if len(found) > limit else None
    return Page(tuple(found[:limit]), None if last is None else f"{to_microseconds(last.created)}.{last.id}")


def list_events(connection: Connection, id: str, after: int = 0, limit: int = 1000) -> list[Event]:
    query = select(events).where(events.c.job_id == id, events.c.id > after).order_by(events.c.id).limit(limit)
    return [Event(**dict(row)) for row in connection.execute(query).mappings()]


def change_job(connection: Connection, id: str, change: Callable[[Job], Job]) -> Job:
    """Changes a job as a user asked, also if a dispatcher holds it. Raises what `change` raises."""
    while True:
        before = get_job(connection, id)
        after = change(before)
        if after == before:
            return before
        columns: dict[str, Any] = {}
        if after.cancel_requested != before.cancel_requested:
            columns["cancel_requested"] = after.cancel_requested  # a restart takes a cancel back
        if _write(connection, before, after, **columns):
            notify(connection)
            return replace(after, version=before.version + 1)


def delete_job(connection: Connection, id: str) -> None:
    job = get_job(connection, id)
    if not job.has_ended:
        raise InvalidJob(f"job {id} is {job.state}; cancel it first")
    connection.execute(delete(events).where(events.c.job_id == id))
    connection.execute(delete(jobs).where(jobs.c.id == id))


def set_priority(connection: Connection, id: str, priority: int) -> None:
    changed = connection.execute(update(jobs).where(jobs.c.id == id).values(priority=priority))
    if changed.rowcount == 0:
        raise JobNotFound(f'there is no job "{id}"')
    notify(connection)


def request_cancel(connection: Connection, id: str, grace: float, now: datetime) -> Job:
    """Cancels a waiting job at once, and marks any other for the dispatcher that holds it. Idempotent."""
    while True:
        job = get_job(connection, id)
        if job.has_ended or job.cancel_requested is not None:
            return job
        marked = update(jobs).where(jobs.c.id == id, jobs.c.cancel_requested.is_(None))
        connection.execute(marked.values(cancel_requested=now, grace=grace))
        notify(connection)
        if job.state not in QUEUED:
            return replace(job, cancel_requested=now, grace=grace)
        after = advance(replace(job, grace=grace), CancelRequested(), now)
        if _write(connection, job, after):
            return replace(after, version=job.version + 1)


def save_job(connection: Connection, before: Job, after: Job, holder: str) -> bool:
    """Stores what a dispatcher made of a job it holds. False: it has lost the lease, and nothing was written."""
    done = _write(connection, before, after, jobs.c.held_by == holder)
    if done and (after.has_ended or after.state in QUEUED):
        notify(connection)  # others may wait for it: a job that comes after it, a limit, capacity
    return done


class Queue(NamedTuple):
    """What admission needs to know."""

    waiting: list[Candidate]
    active: dict[tuple[str, str], int]
    held: dict[str, list[Demand]]
    dependencies: dict[str, State]
    cancelled: list[str]


def lock_round(connection: Connection) -> bool:
    """Only one dispatcher at a time decides which jobs start. SQLite's write transactions exclude each other anyway."""
    if connection.dialect.name != "postgresql":
        return True
    locked: bool = connection.execute(select(func.pg_try_advisory_xact_lock(_ROUND_LOCK))).scalar_one()
    return locked


def is_any_queued(connection: Connection) -> bool:
    return connection.execute(select(jobs.c.id).where(jobs.c.state.in_(QUEUED)).limit(1)).first() is not None


def read_queue(connection: Connection, adapters: Iterable[str], asked: datetime) -> Queue:
    """Reads the queue. Jobs that reached their cluster after its capacity was `asked` count as held."""
    c = jobs.c
    columns = (c.id, c.type, c.project, c.adapter, c.priority, c.created, c.resources, c.after, c.at, c.next_at,
               c.reason, c.cancel_requested)  # fmt: skip
    query = select(*columns).where(c.state.in_(QUEUED)).order_by(c.priority.desc(), c.created).limit(_MOST_CANDIDATES)
    waiting, cancelled = [], []
    for *found, cancel_requested in connection.execute(query):
        if cancel_requested is not None:
            cancelled.append(found[0])
            continue
        waiting.append(_candidate(*found))
    active: Counter[tuple[str, str]] = Counter()
    held: dict[str, list[Demand]] = {name: [] for name in adapters}
    busy = select(c.project, c.type, c.adapter, c.resources, c.state, c.changed).where(c.state.in_(UNDER_WAY))
    for project, type, adapter, resources, state, changed in connection.execute(busy):
        active[project, type] += 1
        unseen = state == "starting" or (state == "preparing" and changed >= asked)
        if unseen and adapter in held:
            held[adapter].append(_demand(resources))
    needed = {id for job in waiting for id in job.after}
    return Queue(waiting, dict(active), held, _states(connection, needed), cancelled)


def apply_admission(
    connection: Connection, queue: Queue, admission: Admission, holder: str, until: datetime, now: datetime
) -> list[Job]:
    """Stores the decisions of a round. Returns the jobs that start; this dispatcher holds them."""
    started = []
    for job in _load(connection, admission.starts):
        after = admitted(job, now)
        if _write(connection, job, after, held_by=holder, held_until=until):
            started.append(replace(after, version=job.version + 1))
    for id, fault in admission.faults.items():
        (job,) = _load(connection, [id])
        ended = replace(job, state="failed", fault=fault, reason=fault.message, ended=now, next_at=None, changed=now)
        _write(connection, job, ended)
    for job in _load(connection, queue.cancelled):
        _write(connection, job, advance(job, CancelRequested(), now))
    if admission.faults or queue.cancelled:
        notify(connection)
    before = {job.id: job.reason for job in queue.waiting}
    by_reason: dict[str, list[str]] = {}
    for id, reason in admission.reasons.items():
        if before[id] != reason:
            by_reason.setdefault(reason, []).append(id)
    for reason, ids in by_reason.items():  # a reason is not a change: no version, no event
        for some in _chunks(ids):
            connection.execute(update(jobs).where(jobs.c.id.in_(some), jobs.c.state.in_(QUEUED)).values(reason=reason))
    return started


def claim_jobs(
    connection: Connection,
    adapters: Iterable[str],
    types: Iterable[str],
    holder: str,
    now: datetime,
    until: datetime,
    limit: int,
) -> list[Job]:
    """Takes over jobs under way that no living dispatcher holds."""
    c = jobs.c
    free = or_(c.held_by.is_(None), c.held_until < now)
    mine = and_(c.adapter.in_(list(adapters)), c.type.in_(list(types)))
    query = select(jobs).where(c.state.in_(UNDER_WAY), free, mine).limit(limit)
    if connection.dialect.name == "postgresql":
        query = query.with_for_update(skip_locked=True)
    taken = []
    for row in connection.execute(query).mappings().all():
        job = from_row(dict(row))
        taking = update(jobs).where(c.id == job.id, c.version == job.version)
        done = connection.execute(taking.values(held_by=holder, held_until=until, version=job.version + 1))
        if done.rowcount:
            taken.append(replace(job, version=job.version + 1))
    return taken


def renew_leases(connection: Connection, holder: str, until: datetime) -> None:
    c = jobs.c
    connection.execute(update(jobs).where(c.state.in_(UNDER_WAY), c.held_by == holder).values(held_until=until))


def release_leases(connection: Connection, holder: str) -> None:
    """Called by a dispatcher that ends, so that others need not wait for its leases to expire."""
    c = jobs.c
    mine = update(jobs).where(c.state.in_(UNDER_WAY), c.held_by == holder)
    connection.execute(mine.values(held_by=None, held_until=None))
    notify(connection)


class Wish(NamedTuple):
    """What users asked of a job that a dispatcher holds."""

    id: str
    version: int
    cancel_requested: datetime | None
    grace: float
    priority: int


def read_wishes(connection: Connection, holder: str) -> list[Wish]:
    """Returns the jobs of a holder, with what users may have changed."""
    c = jobs.c
    query = select(c.id, c.version, c.cancel_requested, c.grace, c.priority)
    return [Wish(*row) for row in connection.execute(query.where(c.state.in_(UNDER_WAY), c.held_by == holder))]


def load_jobs(connection: Connection, ids: Sequence[str]) -> list[Job]:
    return _load(connection, ids)


def _write(connection: Connection, before: Job, after: Job, *conditions: Any, **columns: Any) -> bool:
    new, old = to_row(after), to_row(before)
    values = {name: value for name, value in new.items() if name not in SHARED and value != old[name]}
    if after.has_ended or after.state in QUEUED:
        columns = {"held_by": None, "held_until": None, **columns}
    statement = update(jobs).where(and_(jobs.c.id == before.id, jobs.c.version == before.version, *conditions))
    done = connection.execute(statement.values(**values, **columns, version=before.version + 1))
    if done.rowcount == 0:
        return False
    if (after.state, after.attempt) != (before.state, before.attempt) or _is_news(before, after):
        _record(connection, [after])
    return True


def _is_news(before: Job, after: Job) -> bool:
    return bool(after.reason) and after.reason != before.reason


def _record(connection: Connection, changed: Sequence[Job]) -> None:
    connection.execute(
        insert(events),
        [
            {
                "job_id": job.id,
                "time": job.changed or job.created,
                "attempt": job.attempt,
                "state": job.state,
                "reason": storable(job.reason),
            }
            for job in changed
        ],
    )


def _load(connection: Connection, ids: Sequence[str]) -> list[Job]:
    """Returns jobs in the given order."""
    found: dict[str, Job] = {}
    for some in _chunks(list(ids)):
        query = select(jobs).where(jobs.c.id.in_(some))
        found.update((row["id"], from_row(dict(row))) for row in connection.execute(query).mappings())
    return [found[id] for id in ids if id in found]


def _candidate(
    id: str, type: str, project: str, on: str, priority: int, created: datetime, resources: dict[str, Any],
    after: list[str], at: datetime | None, next_at: datetime | None, reason: str,
) -> Candidate:  # fmt: skip
    demand = _demand(resources)
    return Candidate(id, type, project, on, priority, created, demand, tuple(after), at, next_at, reason)


_DEFAULT_DEMAND = demand_of(Resources())


def _demand(resources: dict[str, Any]) -> Demand:
    if not resources:
        return _DEFAULT_DEMAND
    return _demand_of_fields(tuple((name, value) for name, value in resources.items() if name != "labels"))


@lru_cache(maxsize=1024)
def _demand_of_fields(resources: tuple[tuple[str, Any], ...]) -> Demand:
    return demand_of(Resources(**dict(resources)))


def _states(connection: Connection, ids: set[str]) -> dict[str, State]:
    found: dict[str, State] = {}
    for some in _chunks(sorted(ids)):
        query = select(jobs.c.id, jobs.c.state).where(jobs.c.id.in_(some))
        found.update((id, state) for id, state in connection.execute(query))
    return found


def _chunks(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    return (ids[start : start + _PARAMETERS] for start in range(0, len(ids), _PARAMETERS))
