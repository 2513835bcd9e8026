"""Training jobs of every kind as the platform lists them: one job as plain data, filters and pages, and a watch that
keeps the list current.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from sqlalchemy import Connection, Table, select

from muster.kube.cluster import Cluster
from muster.kube.controller import Informer, OnChange
from muster.kube.kinds import Kind
from muster.kube.objects import (
    Object,
    is_deleting,
    labels_of,
    meta,
    name_of,
    namespace_of,
    owners_of,
    parse_time,
    status_of,
    uid_of,
)
from muster.platform.database.queries import PageRequest, find_row, paginate
from muster.platform.database.tables import runs, teams, users
from muster.platform.errors import InvalidProblem
from muster.platform.namespaces import OWNER_LABEL, TEAM_LABEL, NamespaceOwner
from muster.platform.records.common import Page, Subject
from muster.platform.records.jobs import Job, JobState
from muster.platform.records.runs import run_object_name
from muster.platform.users.namespace_names import SHARED_NAMESPACE
from muster.training.kinds.base import JobKind, KubeflowJobKind
from muster.training.model import Progress
from muster.training.registry import JOB_KINDS
from muster.workflows.kinds import WORKFLOW

STATES: Final[tuple[JobState, ...]] = ("waiting", "running", "restarting", "suspended", "succeeded", "failed")
ENDED: Final[frozenset[JobState]] = frozenset({"succeeded", "failed"})

_KUBEFLOW = "kubeflow.org"
_RUN = run_object_name("")


@dataclass(frozen=True, slots=True)
class RunOwner:
    """The owner and team of a run."""

    owner: str = ""
    team: str = ""
    namespace: str = SHARED_NAMESPACE


FindOwner: TypeAlias = Callable[[str], NamespaceOwner | None]
"""Returns who everything in a namespace belongs to."""


def describe_job(job_kind: JobKind, obj: Object) -> Job:
    progress = job_kind.read_progress(obj)
    job = job_kind.read(obj)
    run = run_of(obj)
    labels = {} if run else labels_of(obj)
    counts = [_count(status_of(obj), role.name) for role in job.roles]
    return Job(
        uid=uid_of(obj),
        namespace=namespace_of(obj),
        kind=job_kind.kind.kind,
        word=word_of(job_kind.kind),
        api_version=str(obj.get("apiVersion") or job_kind.kind.api_version),
        name=name_of(obj),
        state=state_of(progress),
        deleting=is_deleting(obj),
        owner_id=labels.get(OWNER_LABEL) or None,
        owner_name=None,
        team_id=labels.get(TEAM_LABEL) or None,
        team_name=None,
        run_id=run or None,
        run_name=None,
        workflow=workflow_of(obj),
        replicas=job.size,
        running=sum(count.get("active", count.get("running", 0)) for count in counts),
        succeeded=sum(count.get("succeeded", 0) for count in counts),
        failed=sum(count.get("failed", 0) for count in counts),
        created=parse_time(meta(obj)["creationTimestamp"]),
        started=_moment(progress.start),
        finished=_moment(progress.completion),
        may=[],
    )


def state_of(progress: Progress) -> JobState:
    if progress.has("Failed"):
        return "failed"
    if progress.has("Succeeded"):
        return "succeeded"
    if progress.has("Suspended"):
        return "suspended"
    if progress.has("Restarting"):
        return "restarting"
    return "running" if progress.has("Running") else "waiting"


def subject_of(job: Job, runs: Mapping[str, RunOwner], find_owner: FindOwner) -> Subject:
    """`runs` has the owners of runs that created jobs. A job of a deleted run belongs to no user. What a job says about
    itself counts only if it is in the namespace of the run, the user or the team."""
    if job.run_id:
        run = runs.get(job.run_id, RunOwner())
        mine = run.namespace == job.namespace
        return Subject("job", job.uid, owner=run.owner if mine else "", team=run.team if mine else "")
    place = find_owner(job.namespace)
    if place is not None and place.user:
        return Subject("job", job.uid, owner=place.user)
    team = job.team_id or "" if place is None else place.team
    return Subject("job", job.uid, owner=job.owner_id or "", team=team)


def run_of(obj: Object) -> str:
    """Returns the id of the run whose Workflow owns the job. A label proves nothing: any manifest may have one."""
    name = workflow_of(obj)
    return name.removeprefix(_RUN) if name.startswith(_RUN) else ""


def workflow_of(obj: Object) -> str:
    """Returns the name of the Workflow that owns the job; '' if none does."""
    for owner in owners_of(obj):
        if (owner.get("apiVersion"), owner.get("kind")) == (WORKFLOW.api_version, WORKFLOW.kind):
            return str(owner.get("name") or "")
    return ""


def word_of(kind: Kind) -> str:
    """The kind in URLs: `pytorchjob`. Two kinds are named PaddleJob; the one that is not Kubeflow's has its group
    appended."""
    return kind.singular if kind.group == _KUBEFLOW else f"{kind.singular}.{kind.group}"


def job_kind_named(word: str) -> JobKind | None:
    return next((job_kind for job_kind in JOB_KINDS if word_of(job_kind.kind) == word.lower()), None)


def job_kind_of(obj: Object) -> JobKind | None:
    """Finds the job kind by apiVersion and kind."""
    said = (obj.get("apiVersion"), obj.get("kind"))
    for job_kind in JOB_KINDS:
        if any(said == (kind.api_version, kind.kind) for kind in (job_kind.kind, *job_kind.other_versions)):
            return job_kind
    return None


def kind_names() -> list[str]:
    """Returns the kinds as they are written in manifests."""
    return [
        f"{kind.api_version} {kind.kind}"
        for job_kind in JOB_KINDS
        for kind in (job_kind.kind, *job_kind.other_versions)
    ]


def can_be_suspended(job_kind: JobKind) -> bool:
    return isinstance(job_kind, KubeflowJobKind)


def _count(status: Object, role: str) -> Mapping[str, Any]:
    return (status.get("replicaStatuses") or {}).get(role) or status.get(role) or {}


def _moment(text: str | None) -> datetime | None:
    return parse_time(text) if text else None


_NEVER = datetime(9999, 1, 1, tzinfo=UTC)
_SORTABLE: Mapping[str, Callable[[Job], Any]] = {
    "created": lambda job: job.created,
    "started": lambda job: job.started or job.created,
    "finished": lambda job: job.finished or _NEVER,
    "name": lambda job: job.name,
    "kind": lambda job: job.word,
    "state": lambda job: STATES.index(job.state),
    "namespace": lambda job: job.namespace,
}


@dataclass(frozen=True, slots=True)
class JobFilter:
    q: str = ""
    """Words that must occur in the name, the kind or the namespace."""
    kinds: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    owners: tuple[str, ...] | None = None
    """Ids of users; None for all."""
    run: str = ""
    namespace: str = ""
    since: datetime | None = None
    until: datetime | None = None


def filter_jobs(jobs: Iterable[Job], only: JobFilter, owner_of: Callable[[Job], str]) -> list[Job]:
    words = only.q.lower().split()
    return [job for job in jobs if _fits(job, only, words) and _belongs(job, only, owner_of)]


def page_of_jobs(jobs: Iterable[Job], wanted: PageRequest) -> Page[Job]:
    """Returns one page, the newest first by default."""
    # Times are whole seconds; what follows the first piece of a uid tells the rest, where the cluster is ours.
    return paginate(jobs, wanted, key=lambda job: job.uid[9:], sortable=_SORTABLE, usual="-created")


def check_filter(only: JobFilter, kinds: Iterable[str]) -> None:
    for name, written, known in (("state", only.states, STATES), ("kind", only.kinds, tuple(kinds))):
        unknown = [each for each in written if each not in known]
        if unknown:
            raise InvalidProblem.field(name, "filter.value", value=unknown[0], choices=list(known))


def _fits(job: Job, only: JobFilter, words: Iterable[str]) -> bool:
    if only.kinds and job.word not in only.kinds:
        return False
    if only.states and job.state not in only.states:
        return False
    if (only.run and job.run_id != only.run) or (only.namespace and job.namespace != only.namespace):
        return False
    if (only.since and job.created < only.since) or (only.until and job.created >= only.until):
        return False
    text = f"{job.namespace}/{job.word}/{job.name}".lower()
    return all(word in text for word in words)


def _belongs(job: Job, only: JobFilter, owner_of: Callable[[Job], str]) -> bool:
    return only.owners is None or owner_of(job) in only.owners


_PATIENCE_SECONDS = 5.0


class JobWatch:
    """A list of all training jobs that keeps itself current, of the kinds that the cluster had at the start. `run()`
    runs until it is cancelled. `tell` is called for every job that changed, with True if it was deleted."""

    def __init__(self, cluster: Cluster, tell: Callable[[Job, bool], None]) -> None:
        self._tell = tell
        self._jobs: dict[str, Job] = {}
        served = {(kind.api_version, kind.kind) for kind in cluster.catalogue}
        job_kinds = [each for each in JOB_KINDS if (each.kind.api_version, each.kind.kind) in served]
        self._informers = [Informer(cluster, each.kind, on_change=self._listener(each)) for each in job_kinds]

    async def run(self) -> None:
        self._jobs.clear()
        async with asyncio.TaskGroup() as group:
            for informer in self._informers:
                group.create_task(informer.run())

    async def jobs(self) -> Iterable[Job]:
        """Returns all known jobs. Right after the start it waits a moment for the first lists."""
        waiting = [asyncio.ensure_future(i.synced.wait()) for i in self._informers if not i.synced.is_set()]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=_PATIENCE_SECONDS)
            for each in late:
                each.cancel()
        return self._jobs.values()

    def _listener(self, job_kind: JobKind) -> OnChange:
        def changed(before: Object | None, after: Object | None) -> None:
            if after is None:
                gone = self._jobs.pop(uid_of(before or {}), None)
                if gone is not None:
                    self._tell(gone, True)
                return
            job = describe_job(job_kind, after)
            if before is not None and uid_of(before) != job.uid:
                self._jobs.pop(uid_of(before), None)
            if self._jobs.get(job.uid) != job:
                self._jobs[job.uid] = job
                self._tell(job, False)

        return changed


# Who owns a job: the run that created it, and the names of users, teams and runs.


_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Names:
    """By id."""

    users: dict[str, str] = field(default_factory=dict)
    teams: dict[str, str] = field(default_factory=dict)
    runs: dict[str, str] = field(default_factory=dict)


def find_run_owners(connection: Connection, run_ids: Iterable[str]) -> dict[str, RunOwner]:
    found: dict[str, RunOwner] = {}
    for piece in _pieces(run_ids):
        query = select(runs.c.id, runs.c.owner_id, runs.c.team_id, runs.c.namespace).where(runs.c.id.in_(piece))
        found |= {row.id: RunOwner(row.owner_id, row.team_id or "", row.namespace) for row in connection.execute(query)}
    return found


def find_names(
    connection: Connection, *, of_users: Iterable[str], of_teams: Iterable[str], of_runs: Iterable[str | None]
) -> Names:
    return Names(
        _names(connection, users, of_users), _names(connection, teams, of_teams), _names(connection, runs, of_runs)
    )


def user_ids(connection: Connection, id_or_name: str) -> tuple[str, ...]:
    found = find_row(connection, select(users.c.id), users, id_or_name)
    return () if found is None else (found.id,)


def _names(connection: Connection, table: Table, identifiers: Iterable[str | None]) -> dict[str, str]:
    found: dict[str, str] = {}
    for piece in _pieces(identifiers):
        query: Any = select(table.c.id, table.c.name).where(table.c.id.in_(piece))
        found |= {row.id: row.name for row in connection.execute(query)}
    return found


def _pieces(identifiers: Iterable[str | None]) -> Iterable[list[str]]:
    wanted = sorted({each for each in identifiers if each})
    return (wanted[begin : begin + _AT_ONCE] for begin in range(0, len(wanted), _AT_ONCE))
