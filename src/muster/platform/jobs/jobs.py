"""A training job as the platform shows it, whatever its kind. Pure: an object in, plain data out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

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
from muster.platform.rules import Subject
from muster.platform.runs.runs import object_name
from muster.training.dialect import Dialect, KubeflowDialect
from muster.training.progress import Progress
from muster.training.registry import DIALECTS
from muster.workflows.kinds import WORKFLOW

State: TypeAlias = Literal["waiting", "running", "restarting", "suspended", "succeeded", "failed"]
STATES: Final[tuple[State, ...]] = ("waiting", "running", "restarting", "suspended", "succeeded", "failed")
ENDED: Final[frozenset[State]] = frozenset({"succeeded", "failed"})

OWNER_LABEL = "muster.dev/owner"
TEAM_LABEL = "muster.dev/team"
"""Ids, set by the platform on jobs that were submitted to it; nobody else may."""

_KUBEFLOW = "kubeflow.org"
_RUN = object_name("")


@dataclass(frozen=True, slots=True)
class Job:
    uid: str
    namespace: str
    kind: str
    word: str
    """The kind as addresses have it."""
    api_version: str
    name: str
    state: State
    deleting: bool
    owner_id: str
    """'' for those that nobody submitted here, and for those that a run made."""
    team_id: str
    run_id: str
    """The run that made it; then it belongs to whoever the run belongs to."""
    replicas: int
    running: int
    succeeded: int
    failed: int
    created: datetime
    started: datetime | None
    finished: datetime | None


@dataclass(frozen=True, slots=True)
class Belonging:
    """Whose a run is."""

    owner: str = ""
    team: str = ""


def seen(dialect: Dialect, obj: Object) -> Job:
    progress = dialect.read_progress(obj)
    job = dialect.read(obj)
    run = run_of(obj)
    labels = {} if run else labels_of(obj)
    counts = [_count(status_of(obj), role.name) for role in job.roles]
    return Job(
        uid=uid_of(obj),
        namespace=namespace_of(obj),
        kind=dialect.kind.kind,
        word=word_of(dialect.kind),
        api_version=str(obj.get("apiVersion") or dialect.kind.api_version),
        name=name_of(obj),
        state=state_of(progress),
        deleting=is_deleting(obj),
        owner_id=labels.get(OWNER_LABEL, ""),
        team_id=labels.get(TEAM_LABEL, ""),
        run_id=run,
        replicas=job.size,
        running=sum(count.get("active", count.get("running", 0)) for count in counts),
        succeeded=sum(count.get("succeeded", 0) for count in counts),
        failed=sum(count.get("failed", 0) for count in counts),
        created=parse_time(meta(obj)["creationTimestamp"]),
        started=_moment(progress.start),
        finished=_moment(progress.completion),
    )


def state_of(progress: Progress) -> State:
    if progress.has("Failed"):
        return "failed"
    if progress.has("Succeeded"):
        return "succeeded"
    if progress.has("Suspended"):
        return "suspended"
    if progress.has("Restarting"):
        return "restarting"
    return "running" if progress.has("Running") else "waiting"


def subject_of(job: Job, runs: Mapping[str, Belonging]) -> Subject:
    """`runs` has those that made jobs, by id; a job of a run that is gone belongs to nobody."""
    if job.run_id:
        run = runs.get(job.run_id, Belonging())
        return Subject("job", job.uid, owner=run.owner, team=run.team)
    return Subject("job", job.uid, owner=job.owner_id, team=job.team_id)


def run_of(obj: Object) -> str:
    """The id of the run whose Workflow owns it. A label alone proves nothing: anybody's manifest may have one."""
    for owner in owners_of(obj):
        if (owner.get("apiVersion"), owner.get("kind")) == (WORKFLOW.api_version, WORKFLOW.kind):
            name = str(owner.get("name") or "")
            return name.removeprefix(_RUN) if name.startswith(_RUN) else ""
    return ""


def word_of(kind: Kind) -> str:
    """`pytorchjob`; two kinds share the name PaddleJob, so the other one has its group behind it."""
    return kind.singular if kind.group == _KUBEFLOW else f"{kind.singular}.{kind.group}"


def dialect_of(word: str) -> Dialect | None:
    return next((dialect for dialect in DIALECTS if word_of(dialect.kind) == word.lower()), None)


def dialect_for(obj: Object) -> Dialect | None:
    """By apiVersion and kind."""
    said = (obj.get("apiVersion"), obj.get("kind"))
    for dialect in DIALECTS:
        if any(said == (kind.api_version, kind.kind) for kind in (dialect.kind, *dialect.also)):
            return dialect
    return None


def kind_names() -> list[str]:
    """As one writes them in manifests."""
    return [f"{kind.api_version} {kind.kind}" for dialect in DIALECTS for kind in (dialect.kind, *dialect.also)]


def can_be_suspended(dialect: Dialect) -> bool:
    return isinstance(dialect, KubeflowDialect)


def _count(status: Object, role: str) -> Mapping[str, Any]:
    return (status.get("replicaStatuses") or {}).get(role) or status.get(role) or {}


def _moment(text: str | None) -> datetime | None:
    return parse_time(text) if text else None
