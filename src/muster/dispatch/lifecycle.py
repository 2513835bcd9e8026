"""The life of one job, as pure functions on plain data.

`advance` says what a job becomes when something is observed; `next_act` says what the dispatcher has to do about a job
in its present state. Neither knows the clock, the database or a cluster. A dispatcher that takes over a job reads its
state and goes on from there: nothing depends on having seen every event.

    waiting ──admitted──▶ starting ──▶ preparing ⇄ running ──▶ submitting ──▶ succeeded
       ▲                     │              │
       │                     └──────┬───────┴──▶ stopping ──▶ failed
    restarting ◀── Retry ───────────┤
                                    └─ cancel ─▶ cancelling ──▶ cancelled
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

from muster.dispatch.errors import DispatchError, JobError, NoCapacity, Refused, Transient, Unclear
from muster.dispatch.model import ENDED, Job, JobDescription, JobFault, OnUnclear, State, Tracking

Act: TypeAlias = Literal["start", "prioritize", "find", "stop", "finish", "clean"]
"""`start`: initialize, prepare, start. `prioritize`: tell the cluster a new priority. `find`: look for a job whose
start is not clear. `stop`: ask the cluster to stop it. `finish`: submit, clean. `clean`: clean after a job that did not
succeed."""

STOP_AGAIN = 15.0
"""Seconds after which an unanswered stop is sent again."""
LOST_AFTER = 60.0
"""Seconds for which a cluster may not know a job before the job counts as lost."""
MOST_METRICS = 100
"""Of a job. Those that were reported last are kept."""
_CAPACITY_BACKOFF, _CALL_BACKOFF, _LONGEST_BACKOFF = 3.0, 1.0, 60.0


@dataclass(frozen=True, slots=True)
class Sending:
    """`start` is about to be called."""


@dataclass(frozen=True, slots=True)
class Started:
    external_id: str


@dataclass(frozen=True, slots=True)
class StartFailed:
    error: DispatchError
    fault: JobFault
    """What the job fails with, if this error makes it fail."""
    finds: bool = True
    on_unclear: OnUnclear = "hold"
    settle: float = 2


@dataclass(frozen=True, slots=True)
class Described:
    """The cluster was asked. None: it does not know the job."""

    description: JobDescription | None


@dataclass(frozen=True, slots=True)
class Found:
    """The cluster was asked for the name of a job that must stop."""

    external_id: str | None


@dataclass(frozen=True, slots=True)
class StopSent:
    error: DispatchError | None = None


@dataclass(frozen=True, slots=True)
class PrioritySent:
    priority: int
    error: DispatchError | None = None


@dataclass(frozen=True, slots=True)
class HookFailed:
    """A hook raised, hung, or ended its process."""

    fault: JobFault


@dataclass(frozen=True, slots=True)
class Finished:
    """`submit` and `clean` have run."""

    result: Any = None
    fault: JobFault | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Cleaned:
    note: str = ""


@dataclass(frozen=True, slots=True)
class CancelRequested:
    pass


@dataclass(frozen=True, slots=True)
class Reported:
    """The job reported progress."""

    offset: int
    progress: float | None = None
    message: str = ""
    metrics: tuple[tuple[str, float], ...] = ()


Observation: TypeAlias = (
    Sending | Started | StartFailed | Described | Found | StopSent | PrioritySent | HookFailed | Finished | Cleaned
    | CancelRequested | Reported
)  # fmt: skip


def next_act(job: Job, now: datetime) -> Act | None:
    """Returns what is to be done about a job now; None: nothing but to look at it from time to time."""
    due = job.next_at is None or job.next_at <= now
    match job.state:
        case "starting":
            return "start" if due and not job.tracking.on_hold else None
        case "preparing":
            is_told = job.tracking.priority in (None, job.priority)
            return "prioritize" if due and not is_told else None
        case "submitting":
            return "finish"
        case "stopping" | "cancelling":
            if job.tracking.off_cluster:
                return "clean"
            if not due:
                return None
            return "find" if job.external_id is None else "stop"
    return None


def advance(job: Job, observed: Observation, now: datetime, *, lost_after: float = LOST_AFTER) -> Job:
    """Returns the job after an observation. An observation that does not fit the state changes nothing: it is late."""
    if job.state in ENDED:
        return job
    after = _advance(job, observed, now, lost_after)
    return after if after == job else replace(after, changed=now)


def backoff(tries: int, first: float, longest: float = _LONGEST_BACKOFF) -> float:
    """Returns the seconds before the next try: doubled each time, up to the longest."""
    return float(min(longest, first * 2 ** min(max(tries - 1, 0), 30)))


def external_name(job: Job, attempt: int) -> str:
    """Returns the name of an attempt on its cluster: a DNS label, unique by the job's id and the attempt."""
    slug = "".join(c if c.isascii() and c.isalnum() else "-" for c in job.type.lower()).strip("-")[:24].strip("-")
    return f"{slug or 'job'}-{job.id}-{attempt}"


def admitted(job: Job, now: datetime) -> Job:
    """Returns a waiting job that is about to start. Store it before anything is done."""
    attempt = job.attempt + 1
    tracking = Tracking(
        retries=job.tracking.retries,
        tries=job.tracking.tries,
        kept=job.tracking.kept,
        report_offset=job.tracking.report_offset,
    )
    return replace(
        job,
        state="starting",
        reason="",
        attempt=attempt,
        external_name=external_name(job, attempt),
        external_id=None,
        cluster_status="",
        fault=None,
        started=None,
        next_at=None,
        changed=now,
        tracking=tracking,
    )


def restarted(job: Job, now: datetime) -> Job:
    """Returns an ended job that waits again, by a user's wish."""
    return replace(
        job,
        state="waiting",
        reason="restarted; waits for a dispatcher",
        cancel_requested=None,
        result=None,
        fault=None,
        progress=None,
        message="",
        started=None,
        ended=None,
        next_at=None,
        changed=now,
        tracking=Tracking(kept=job.tracking.kept, report_offset=job.tracking.report_offset),
    )


def taken_over(job: Job, failed: StartFailed, now: datetime) -> Job:
    """Returns a job that another dispatcher takes over. If the former one ended while it called `start`, the cluster
    may have the job, or not. Dispatchers that end one after the other are no reason to look for it less often."""
    if job.state != "starting" or not job.tracking.sent or job.tracking.on_hold:
        return job
    if not job.tracking.unclear:
        return advance(job, failed, now)
    settled = now + timedelta(seconds=failed.settle)
    return replace(job, next_at=max(job.next_at or settled, settled), changed=now)


def resolved(job: Job, how: Literal["again", "fail", "adopt"], external_id: str, now: datetime) -> Job:
    """Returns a job whose start was unclear, after a user has looked on the cluster."""
    clear = replace(job.tracking, unclear=False, on_hold=False)
    match how:
        case "again":
            tracking = replace(clear, sent=False)
            return replace(job, reason="starts again, as a user decided", next_at=None, tracking=tracking, changed=now)
        case "adopt":
            return replace(
                job, state="preparing", external_id=external_id, reason="adopted by a user", next_at=None,
                tracking=clear, changed=now,
            )  # fmt: skip
    fault = JobFault("Dispatch.StartUnclear", "the start was unclear, and a user decided that it failed", "dispatch")
    return replace(_failing(job, fault, off_cluster=True), changed=now)


def _advance(job: Job, observed: Observation, now: datetime, lost_after: float) -> Job:
    match observed:
        case Sending():
            sent = replace(job.tracking, sent=True, prepared=True, priority=job.priority)
            return replace(job, tracking=sent) if job.state == "starting" else job
        case Started(external_id):
            return _started(job, external_id)
        case StartFailed():
            return _start_failed(job, observed, now) if job.state == "starting" else job
        case Described(description):
            return _described(job, description, now, lost_after)
        case Found(external_id):
            if job.state not in {"stopping", "cancelling"} or job.external_id is not None:
                return job
            if external_id is None:
                return _off_cluster(job)
            return replace(job, external_id=external_id, next_at=None)
        case StopSent(error):
            return _stop_sent(job, error, now)
        case PrioritySent():
            return _priority_sent(job, observed, now)
        case HookFailed(fault):
            off = job.state == "starting" and not job.tracking.sent
            return _failing(job, fault, off_cluster=off) if job.state in _MAY_FAIL else job
        case Finished(result, fault, note):
            if job.state != "submitting":
                return job
            if fault is not None:
                return _end_failed(replace(job, fault=fault, reason=fault.message), now)
            return _end(replace(job, result=result, fault=None, reason=note), "succeeded", now)
        case Cleaned(note):
            return _cleaned(job, note, now)
        case CancelRequested():
            return _cancelled(job, now)
        case Reported():
            return _reported(job, observed)


_MAY_FAIL: frozenset[State] = frozenset({"starting", "preparing", "running"})


def _started(job: Job, external_id: str) -> Job:
    if job.state == "starting":
        tracking = replace(job.tracking, unclear=False, on_hold=False, tries=0)
        return replace(job, state="preparing", reason="", external_id=external_id, next_at=None, tracking=tracking)
    if job.state in {"stopping", "cancelling"} and job.external_id is None:
        return replace(job, external_id=external_id, next_at=None)  # it has to stop, and now it can be named
    return job


def _start_failed(job: Job, failed: StartFailed, now: datetime) -> Job:
    error, tries = failed.error, job.tracking.tries + 1
    tracking = replace(job.tracking, tries=tries)
    match error:
        case JobError() | Refused():
            return _failing(job, failed.fault, off_cluster=True)
        case NoCapacity():
            return _wait_again(job, f"no room on {job.on}: {error.message}", error, _CAPACITY_BACKOFF, tries, now)
        case Transient() if not job.tracking.unclear:
            return _wait_again(job, error.message, error, _CALL_BACKOFF, tries, now)
        case Transient():
            # An earlier, unclear call may have created it: look for it until the cluster answers.
            delay = error.retry_after or backoff(tries, _CALL_BACKOFF)
            return replace(job, reason=error.message, next_at=now + timedelta(seconds=delay), tracking=tracking)
    tracking = replace(tracking, unclear=True)
    if failed.finds or failed.on_unclear == "again":
        delay = max(failed.settle, error.retry_after or 0.0, backoff(tries, _CALL_BACKOFF))
        look = f"looks for {job.external_name} on {job.on}" if failed.finds else "starts it again, as configured"
        reason = f"start unclear: {error.message}; {look}"
        return replace(job, reason=reason, next_at=now + timedelta(seconds=delay), tracking=tracking)
    if failed.on_unclear == "fail":
        fault = JobFault("Dispatch.StartUnclear", f"start unclear: {error.message}", "dispatch")
        return _failing(job, fault, off_cluster=True)
    reason = (
        f"start unclear: {error.message}; look for {job.external_name} on {job.on}, then run "
        f"`muster dispatch resolve {job.id} adopt|again|fail`"
    )
    return replace(job, reason=reason, next_at=None, tracking=replace(tracking, on_hold=True))


def _wait_again(job: Job, reason: str, error: DispatchError, first: float, tries: int, now: datetime) -> Job:
    """Back to the queue. Nothing exists on the cluster, so it was no attempt."""
    delay = error.retry_after or backoff(tries, first)
    return replace(
        job,
        state="waiting",
        reason=reason,
        attempt=job.attempt - 1,
        next_at=now + timedelta(seconds=delay),
        tracking=replace(job.tracking, sent=False, tries=tries),
    )


def _described(job: Job, description: JobDescription | None, now: datetime, lost_after: float) -> Job:
    stopping = job.state in {"stopping", "cancelling"}
    if not stopping and job.state not in {"preparing", "running"}:
        return job
    if description is None:
        return _off_cluster(job) if stopping else _unknown(job, now, lost_after)
    job = replace(
        job,
        cluster_status=description.status,
        hosts=description.hosts or job.hosts,
        started=description.started or job.started,
        tracking=replace(job.tracking, lost_since=None, tries=0),
    )
    if stopping:
        if description.state == "succeeded" and job.state == "cancelling":
            return _submitting(job)  # it was faster than the cancel
        return _off_cluster(job) if description.state in {"succeeded", "failed", "cancelled"} else job
    match description.state:
        case "succeeded":
            return _submitting(job)
        case "failed":
            fault = description.fault or JobFault("Job.Failed", description.reason or "the cluster says it failed")
            return _failing(job, fault, off_cluster=True)
        case "cancelled":
            reason = description.reason or f"stopped on {job.on}, not by the dispatcher"
            return _off_cluster(replace(job, state="cancelling", reason=reason, next_at=None))
        case "running" | "stopping":
            job = replace(job, state="running", reason=description.reason, started=job.started or now)
            return _check_timeout(job, now)
    return replace(job, state="preparing", reason=description.reason)


def _check_timeout(job: Job, now: datetime) -> Job:
    if job.timeout is None or job.started is None or (now - job.started).total_seconds() <= job.timeout:
        return job
    message = f"it ran for more than {job.timeout:g} seconds, its timeout"
    return _failing(job, JobFault("Job.Timeout", message, retryable=True), off_cluster=False)


def _unknown(job: Job, now: datetime, lost_after: float) -> Job:
    since = job.tracking.lost_since or now
    gone = (now - since).total_seconds()
    if gone >= lost_after:
        message = f"{job.on} has not known {job.external_id} for {gone:.0f} seconds; was it deleted there?"
        fault = JobFault("Dispatch.Lost", message, "dispatch", retryable=True)
        return _failing(job, fault, off_cluster=True)
    return replace(job, reason=f"{job.on} does not know it", tracking=replace(job.tracking, lost_since=since))


def _submitting(job: Job) -> Job:
    return replace(
        job, state="submitting", reason="", next_at=None, tracking=replace(job.tracking, off_cluster=True, tries=0)
    )


def _failing(job: Job, fault: JobFault, *, off_cluster: bool) -> Job:
    tracking = replace(job.tracking, off_cluster=off_cluster, on_hold=False, tries=0)
    return replace(job, state="stopping", fault=fault, reason=fault.message, next_at=None, tracking=tracking)


def _off_cluster(job: Job) -> Job:
    return replace(job, next_at=None, tracking=replace(job.tracking, off_cluster=True, tries=0))


def _stop_sent(job: Job, error: DispatchError | None, now: datetime) -> Job:
    if job.state not in {"stopping", "cancelling"}:
        return job
    if error is None:
        return replace(job, next_at=now + timedelta(seconds=max(STOP_AGAIN, job.grace + STOP_AGAIN)))
    tries = job.tracking.tries + 1
    delay = error.retry_after or backoff(tries, _CALL_BACKOFF)
    return replace(
        job,
        reason=f"cannot be stopped yet: {error.message}",
        next_at=now + timedelta(seconds=delay),
        tracking=replace(job.tracking, tries=tries),
    )


def _priority_sent(job: Job, sent: PrioritySent, now: datetime) -> Job:
    """If the cluster cannot be reached, the call is repeated later; if it refuses, it is not."""
    if job.state not in {"preparing", "running"}:
        return job
    if isinstance(sent.error, Transient | Unclear):
        tries = job.tracking.tries + 1
        delay = sent.error.retry_after or backoff(tries, _CALL_BACKOFF)
        return replace(job, next_at=now + timedelta(seconds=delay), tracking=replace(job.tracking, tries=tries))
    return replace(job, next_at=None, tracking=replace(job.tracking, priority=sent.priority))


def _cleaned(job: Job, note: str, now: datetime) -> Job:
    if not job.tracking.off_cluster:
        return job
    if job.state == "cancelling":
        return _end(replace(job, reason="; ".join(filter(None, [job.reason, note]))), "cancelled", now)
    if job.state != "stopping":
        return job
    return _end_failed(replace(job, reason="; ".join(filter(None, [job.reason, note]))), now)


def _end_failed(job: Job, now: datetime) -> Job:
    """Ends the job as failed, unless `Retry` starts it again."""
    if not _may_retry(job):
        return _end(job, "failed", now)
    retries = job.tracking.retries + 1
    delay = backoff(retries, job.retry.backoff, job.retry.backoff_max)
    message = job.fault.message if job.fault else ""
    return replace(
        job,
        state="restarting",
        reason=f"retry {retries} of {job.retry.times} after: {message}",
        next_at=now + timedelta(seconds=delay),
        tracking=Tracking(retries=retries, kept=job.tracking.kept, report_offset=job.tracking.report_offset),
    )


def _may_retry(job: Job) -> bool:
    fault = job.fault
    if fault is None or job.cancel_requested is not None or job.tracking.retries >= job.retry.times:
        return False
    return job.retry.on(fault) if job.retry.on is not None else fault.retryable


def _cancelled(job: Job, now: datetime) -> Job:
    job = replace(job, cancel_requested=job.cancel_requested or now)
    match job.state:
        case "waiting" | "restarting" if job.tracking.prepared:
            return _off_cluster(replace(job, state="cancelling", reason="cancelled before it started"))
        case "waiting" | "restarting":
            return _end(replace(job, reason="cancelled before it started"), "cancelled", now)
        case "submitting" | "cancelling":
            return job  # it succeeded before it was cancelled, or was cancelled already
        case "starting" if job.tracking.on_hold:
            reason = f"cancelled; whether it was started on {job.on} is unclear: look for {job.external_name} there"
            return _off_cluster(replace(job, state="cancelling", reason=reason))
        case "starting":
            tracking = replace(job.tracking, off_cluster=not job.tracking.sent)
            return replace(job, state="cancelling", reason="cancelled while it started", tracking=tracking)
    return replace(job, state="cancelling", reason="cancelled", next_at=None)


def _end(job: Job, state: State, now: datetime) -> Job:
    return replace(job, state=state, ended=now, next_at=None, tracking=replace(job.tracking, on_hold=False))


def _reported(job: Job, report: Reported) -> Job:
    progress = job.progress if report.progress is None else min(1.0, max(0.0, report.progress))
    reported = dict(report.metrics)
    others = {name: value for name, value in job.metrics.items() if name not in reported}
    return replace(
        job,
        progress=progress,
        message=report.message or job.message,
        metrics=dict(list({**others, **reported}.items())[-MOST_METRICS:]),
        tracking=replace(job.tracking, report_offset=report.offset),
    )
