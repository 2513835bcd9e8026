"""Workflows of the cluster as the platform lists them: those that `muster submit`, argo, kubectl and CronWorkflows
created. Who sees one is decided by its namespace: the user or the team that the namespace belongs to, and admins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, select, tuple_

from muster.kube.cluster import Cluster
from muster.kube.controller import Informer
from muster.kube.objects import (
    Object,
    is_deleting,
    labels_of,
    meta,
    name_of,
    namespace_of,
    parse_time,
    spec_of,
    status_of,
    uid_of,
)
from muster.kube.pod_security import RUN_LABEL
from muster.platform.database.pipeline_tables import pipeline_runs
from muster.platform.database.tables import runs
from muster.platform.jobs.jobs import FindOwner
from muster.platform.permissions import Actor, may
from muster.platform.records.argo import AnyRunState, ArgoWorkflow
from muster.platform.records.common import Subject
from muster.platform.records.runs import run_object_name
from muster.workflows.cron.plan import CRON_LABEL
from muster.workflows.kinds import WORKFLOW
from muster.workflows.model import PIPELINE_RUN_LABEL

ENDED: Final[frozenset[str]] = frozenset(("succeeded", "failed", "stopped"))
CREATOR_LABEL: Final = "workflows.argoproj.io/creator"
_ACTIONS: Final = ("stop", "suspend", "resume", "retry", "copy", "delete")
_AT_ONCE: Final = 400
_PATIENCE_SECONDS: Final = 5.0


def describe_workflow(workflow: Object) -> ArgoWorkflow:
    spec, status = spec_of(workflow), status_of(workflow)
    state = state_of(workflow)
    done, nodes = _progress(str(status.get("progress") or ""))
    labels = labels_of(workflow)
    return ArgoWorkflow(
        uid=uid_of(workflow),
        namespace=namespace_of(workflow),
        name=name_of(workflow),
        state=state,
        message="" if state in ("succeeded", "stopped") else str(status.get("message") or ""),
        creator=labels.get(CREATOR_LABEL, ""),
        schedule=labels.get(CRON_LABEL, ""),
        template=str((spec.get("workflowTemplateRef") or {}).get("name") or ""),
        done=done,
        nodes=nodes,
        created=parse_time(meta(workflow)["creationTimestamp"]),
        started=moment(status.get("startedAt")),
        finished=moment(status.get("finishedAt")),
        owner_id=None,
        owner_name=None,
        team_id=None,
        team_name=None,
        may=[],
    )


def state_of(workflow: Object) -> AnyRunState:
    spec, phase = spec_of(workflow), str(status_of(workflow).get("phase") or "")
    if phase == "Succeeded":
        return "succeeded"
    if phase in ("Failed", "Error"):
        return "stopped" if spec.get("shutdown") else "failed"
    if spec.get("suspend"):
        return "suspended"
    return "running" if phase == "Running" else "waiting"


def subject_of(namespace: str, uid: str, find_owner: FindOwner) -> Subject:
    """What is in a namespace that belongs to no user and no team is for admins only."""
    place = find_owner(namespace)
    if place is None:
        return Subject("argo workflow", uid)
    return Subject("argo workflow", uid, owner=place.user, team=place.team)


def list_actions(actor: Actor, workflow: Object, subject: Subject) -> list[str]:
    """The actions that are permitted and possible now."""
    state = state_of(workflow)
    over, gone = state in ENDED, is_deleting(workflow)
    is_stopping = bool(spec_of(workflow).get("shutdown"))
    possible = {
        "stop": not over and not is_stopping,
        "suspend": not over and not is_stopping and state != "suspended",
        "resume": state == "suspended",
        "retry": state in ("failed", "stopped"),
        "copy": True,
        "delete": True,
    }
    return [action for action in _ACTIONS if possible[action] and not gone and may(actor, action, subject)]


def moment(text: Any) -> datetime | None:
    return parse_time(text) if text else None


def _progress(text: str) -> tuple[int, int]:
    """`2/5`, as Argo writes it."""
    done, _, nodes = text.partition("/")
    return (int(done), int(nodes)) if done.isdecimal() and nodes.isdecimal() and len(text) < 20 else (0, 0)


@dataclass(frozen=True, slots=True)
class WorkflowFilter:
    q: str = ""
    """Words that must occur in the name or the namespace."""
    states: tuple[str, ...] = ()
    schedule: str = ""
    namespace: str = ""
    owners: tuple[str, ...] | None = None
    """Ids of users; None for all."""
    since: datetime | None = None
    until: datetime | None = None


def matches(workflow: ArgoWorkflow, only: WorkflowFilter, subject: Subject) -> bool:
    if only.states and workflow.state not in only.states:
        return False
    if (only.schedule and workflow.schedule != only.schedule) or (
        only.namespace and workflow.namespace != only.namespace
    ):
        return False
    if only.owners is not None and subject.owner not in only.owners:
        return False
    if (only.since and workflow.created < only.since) or (only.until and workflow.created >= only.until):
        return False
    text = f"{workflow.namespace}/{workflow.name}/{workflow.schedule}".lower()
    return all(word in text for word in only.q.lower().split())


# Workflows of runs of the platform and of pipelines are in lists of their own. A label alone proves nothing: users
# write labels, too. So the database says whether there is such a run, and whether this is its Workflow.


def may_be_managed(workflow: Object) -> bool:
    labels = labels_of(workflow)
    return RUN_LABEL in labels or PIPELINE_RUN_LABEL in labels


def find_managed(connection: Connection, workflows: Iterable[Object]) -> frozenset[str]:
    """The uids of those that belong to a run of the platform or of a pipeline."""
    of_runs: dict[tuple[str, str], str] = {}
    of_pipelines: dict[tuple[str, str, str], str] = {}
    for workflow in workflows:
        labels, namespace, name = labels_of(workflow), namespace_of(workflow), name_of(workflow)
        run = labels.get(RUN_LABEL, "")
        if run and name == run_object_name(run):
            of_runs[run, namespace] = uid_of(workflow)
        pipeline_run = labels.get(PIPELINE_RUN_LABEL, "")
        if pipeline_run:
            of_pipelines[pipeline_run, namespace, name] = uid_of(workflow)
    found: set[str] = set()
    for piece in _pieces(of_runs):
        query = select(runs.c.id, runs.c.namespace).where(tuple_(runs.c.id, runs.c.namespace).in_(piece))
        found |= {of_runs[row.id, row.namespace] for row in connection.execute(query)}
    table = pipeline_runs.c
    for piece in _pieces(of_pipelines):
        columns = (table.id, table.namespace, table.workflow)
        rows = connection.execute(select(*columns).where(tuple_(*columns).in_(piece)))
        found |= {of_pipelines[row.id, row.namespace, row.workflow] for row in rows}
    return frozenset(found)


def _pieces(keys: Collection[Any]) -> Iterable[list[Any]]:
    listed = list(keys)
    return (listed[begin : begin + _AT_ONCE] for begin in range(0, len(listed), _AT_ONCE))


class WorkflowWatch:
    """A list of all Workflows that keeps itself current. `run()` runs until it is cancelled. `tell` is called with the
    namespace and uid of every Workflow that changed."""

    def __init__(self, cluster: Cluster, tell: Callable[[str, str], None]) -> None:
        self._tell = tell
        self._objects: dict[str, Object] = {}
        self._described: dict[str, ArgoWorkflow] = {}
        self._managed: dict[str, bool] = {}
        """By uid, of those with a label of a run. It never changes: runs are stored before their Workflows."""
        self._informer = Informer(cluster, WORKFLOW, on_change=self._changed)

    async def run(self) -> None:
        self._objects.clear()
        self._described.clear()
        await self._informer.run()

    async def workflows(self) -> Mapping[str, Object]:
        """All known Workflows by uid, without their nodes. Right after the start it waits a moment for the list."""
        if not self._informer.synced.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._informer.synced.wait(), _PATIENCE_SECONDS)
        return self._objects

    def described(self, uid: str) -> ArgoWorkflow:
        found = self._described.get(uid)
        if found is None:
            found = self._described[uid] = describe_workflow(self._objects[uid])
        return found

    def is_managed(self, uid: str) -> bool | None:
        """Whether it belongs to a run of the platform or of a pipeline; None if the database has to be asked."""
        if not may_be_managed(self._objects[uid]):
            return False
        return self._managed.get(uid)

    def remember_managed(self, asked: Iterable[str], managed: frozenset[str]) -> None:
        self._managed |= {uid: uid in managed for uid in asked if uid in self._objects}

    def _changed(self, before: Object | None, after: Object | None) -> None:
        if before is not None and (after is None or uid_of(before) != uid_of(after)):
            for known in (self._objects, self._described, self._managed):
                known.pop(uid_of(before), None)
        if after is not None:
            self._objects[uid_of(after)] = after
            self._described.pop(uid_of(after), None)
        of = after if after is not None else before
        if of is not None:
            self._tell(namespace_of(of), uid_of(of))


def with_owner(
    workflow: ArgoWorkflow, subject: Subject, users: Mapping[str, str], teams: Mapping[str, str]
) -> ArgoWorkflow:
    return replace(
        workflow,
        owner_id=subject.owner or None,
        owner_name=users.get(subject.owner),
        team_id=subject.team or None,
        team_name=teams.get(subject.team),
    )
