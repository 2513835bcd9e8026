"""Lists of jobs, from what is known of the cluster. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from muster.platform.database.paging import Page, PageRequest, cut
from muster.platform.errors import Invalid
from muster.platform.jobs.jobs import STATES, Job

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
    """Words, each of which has to occur in the name, the kind or the namespace."""
    kinds: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    owners: tuple[str, ...] | None = None
    """Ids of users; None for anybody."""
    run: str = ""
    namespace: str = ""
    since: datetime | None = None
    until: datetime | None = None


def chosen(jobs: Iterable[Job], only: JobFilter, owner_of: Callable[[Job], str]) -> list[Job]:
    words = only.q.lower().split()
    return [job for job in jobs if _fits(job, only, words) and _belongs(job, only, owner_of)]


def page_of_jobs(jobs: Iterable[Job], wanted: PageRequest) -> Page[Job]:
    """Sorted by what is asked for, the newest first if nothing is."""
    # Times are whole seconds; what follows the first piece of a uid tells the rest, where the cluster is ours.
    return cut(jobs, wanted, key=lambda job: job.uid[9:], sortable=_SORTABLE, usual="-created")


def check_filter(only: JobFilter, kinds: Iterable[str]) -> None:
    for name, written, known in (("state", only.states, STATES), ("kind", only.kinds, tuple(kinds))):
        unknown = [each for each in written if each not in known]
        if unknown:
            raise Invalid.field(name, f'"{unknown[0]}" is not one of {", ".join(known)}')


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
