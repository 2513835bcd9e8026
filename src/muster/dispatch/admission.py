"""Which waiting jobs start now, as a pure function: dependencies, times, limits, capacity, priority."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from muster.dispatch.model import Capacity, JobFault, Resources, State

Limits: TypeAlias = Mapping[str | tuple[str, str], int]
"""How many jobs may be under way: by type, or by (project, type)."""
Demand: TypeAlias = Mapping[str, float]

RESERVE_AFTER = 600.0
"""Seconds after which room is kept for a job that does not fit, so that smaller ones cannot overtake it for ever."""


class Candidate(NamedTuple):
    """A waiting job, as far as admission is concerned."""

    id: str
    type: str
    project: str
    on: str
    priority: int
    created: datetime
    demand: Demand
    after: tuple[str, ...] = ()
    at: datetime | None = None
    next_at: datetime | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Admission:
    starts: list[str] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)
    """Why each of the others waits."""
    faults: dict[str, JobFault] = field(default_factory=dict)
    """Jobs that can never start, because a job they come after has failed."""


@lru_cache(maxsize=1024)
def _demand(cpu: float, memory: str, gpu: float, gpu_type: str, nodes: int) -> Demand:
    needed = {"cpu": cpu * nodes, "memory": Resources(memory=memory).memory_bytes * nodes}
    if gpu:
        needed["gpu"] = gpu * nodes
        if gpu_type:
            needed[f"gpu/{gpu_type}"] = gpu * nodes
    return needed


def demand_of(resources: Resources) -> Demand:
    """Returns what a job takes from a cluster's capacity, all its nodes together."""
    return _demand(resources.cpu, resources.memory, resources.gpu, resources.gpu_type, resources.nodes)


def admit(
    waiting: Iterable[Candidate],
    *,
    now: datetime,
    capacity: Mapping[str, Capacity | None],
    limits: Limits | None = None,
    active: Mapping[tuple[str, str], int] | None = None,
    held: Mapping[str, Sequence[Demand]] | None = None,
    dependencies: Mapping[str, State] | None = None,
    at_most: int | None = None,
) -> Admission:
    """Decides about all waiting jobs, the highest priority first, then the oldest.

    `capacity` is what each adapter reported (None: not known; not in it: unreachable or not served by this process).
    `active` counts jobs under way by (project, type). `held` are demands that the capacity does not show yet, because
    their jobs are only just starting. `dependencies` are the states of the jobs that others come after."""
    admission = Admission()
    count = _Counts(limits or {}, active or {})
    room = {name: _Room(name, found, (held or {}).get(name, ())) for name, found in capacity.items()}
    for job in sorted(waiting, key=lambda job: (-job.priority, job.created, job.id)):
        fault, reason = _after(job, dependencies or {})
        if fault is not None:
            admission.faults[job.id] = fault
            continue
        reason = reason or _too_early(job, now) or _not_served(job, room) or count.reason(job)
        reason = reason or room[job.on].reason(job, now)
        if not reason and at_most is not None and len(admission.starts) >= at_most:
            reason = "starts in the next round"
        if reason:
            admission.reasons[job.id] = reason
            continue
        count.add(job)
        room[job.on].take(job.demand)
        admission.starts.append(job.id)
    return admission


class _Room:
    """What is left of one cluster in this round."""

    def __init__(self, name: str, capacity: Capacity | None, held: Sequence[Demand]) -> None:
        self.name = name
        self.total = dict(capacity.total) if capacity is not None else None
        self.free = dict(capacity.free) if capacity is not None else {}
        self._verdicts: dict[int, str] = {}
        """Why a demand did not fit. Room only shrinks within a round, so what did not fit once does not fit later."""
        self._types_known = any(resource.startswith("gpu/") for resource in self.free | (self.total or {}))
        for demand in held:
            self.take(demand)

    def reason(self, job: Candidate, now: datetime) -> str:
        if self.total is None:
            return ""
        reason = self._verdicts.get(id(job.demand))
        if reason is None:
            reason = self._compare(job.demand, self.total)
            if reason:
                self._verdicts[id(job.demand)] = reason
        if reason and now - job.created > timedelta(seconds=RESERVE_AFTER):
            self.take(job.demand)
        return reason

    def _compare(self, demand: Demand, total: Demand) -> str:
        short = [r for r, amount in self._limited(demand) if amount > total.get(r, 0)]
        if short:
            return f"can never start on {self.name}: it needs more {_words(short)} than there is in total"
        short = [r for r, amount in self._limited(demand) if amount > self.free.get(r, 0)]
        return f"waits for {_words(short)} on {self.name}" if short else ""

    def take(self, demand: Demand) -> None:
        if self.total is not None:
            for resource, amount in self._limited(demand):
                self.free[resource] = self.free.get(resource, 0) - amount

    def _limited(self, demand: Demand) -> list[tuple[str, float]]:
        """A resource that the cluster does not name is not limited. A cluster that names no cards has none; one that
        does not tell types of cards apart is trusted to find the right one."""
        return [(resource, amount) for resource, amount in demand.items() if amount and self._is_limited(resource)]

    def _is_limited(self, resource: str) -> bool:
        if resource in (self.total or {}) or resource == "gpu":
            return True
        return resource.startswith("gpu/") and self._types_known


class _Counts:
    def __init__(self, limits: Limits, active: Mapping[tuple[str, str], int]) -> None:
        self._limits = limits
        self._by_project = Counter(dict(active))
        self._by_type: Counter[str] = Counter()
        for (_, type), number in active.items():
            self._by_type[type] += number

    def reason(self, job: Candidate) -> str:
        limit = self._limits.get(job.type)
        if limit is not None and self._by_type[job.type] >= limit:
            return f"waits: at most {limit} jobs of type {job.type} run at a time"
        limit = self._limits.get((job.project, job.type))
        if limit is not None and self._by_project[job.project, job.type] >= limit:
            return f"waits: at most {limit} jobs of type {job.type} run at a time in project {job.project}"
        return ""

    def add(self, job: Candidate) -> None:
        self._by_type[job.type] += 1
        self._by_project[job.project, job.type] += 1


def _after(job: Candidate, states: Mapping[str, State]) -> tuple[JobFault | None, str]:
    open_jobs = []
    for id in job.after:
        state = states.get(id)
        if state is None or state in {"failed", "cancelled"}:
            said = f"was {state}" if state == "cancelled" else state or "does not exist"
            message = f"job {id}, which it comes after, {said}"
            return JobFault("Dispatch.Dependency", message, "dispatch"), ""
        if state != "succeeded":
            open_jobs.append(id)
    if not open_jobs:
        return None, ""
    more = f" and {len(open_jobs) - 1} more" if len(open_jobs) > 1 else ""
    return None, f"waits for job {open_jobs[0]}{more}"


def _too_early(job: Candidate, now: datetime) -> str:
    if job.at is not None and job.at > now:
        return f"starts at {job.at:%Y-%m-%d %H:%M:%S} UTC"
    if job.next_at is not None and job.next_at > now:
        return job.reason or "waits for its next try"
    return ""


def _not_served(job: Candidate, room: Mapping[str, _Room]) -> str:
    return "" if job.on in room else f"waits: {job.on} is not served by a running dispatcher, or cannot be reached"


def _words(resources: Sequence[str]) -> str:
    return " and ".join({"gpu": "GPUs"}.get(r, r.replace("gpu/", "GPUs of type ")) for r in resources)
