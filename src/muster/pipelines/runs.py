"""Runs as they are stored: created, found, listed, archived; and the state that the controller stores.

A run is stored together with the Workflow to create, in one transaction. Creating it may be interrupted at any point,
and is repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, and_, delete, false, func, insert, or_, select, update

from muster.kube.objects import Key, Object, timestamp
from muster.pipelines.experiments import (
    check_description,
    check_name,
    check_not_archived,
    ensure_default,
    find_place,
    get_experiment,
    in_namespace,
    storage_state,
)
from muster.pipelines.list_query import ListFields, ListRequest, list_rows
from muster.pipelines.pipelines import forget_spec, get_spec, get_version, newest_version, store_spec
from muster.pipelines.records import ENDED, RUN, ArtifactRecord, Experiment, PipelineRun, State, new_uuid
from muster.platform.database.pipeline_tables import (
    experiments,
    pipeline_artifacts,
    pipeline_run_tasks,
    pipeline_runs,
    pipelines,
)
from muster.platform.database.queries import (
    AnyRow,
    PageRequest,
    as_record,
    contains_words,
    record_columns,
    select_page,
)
from muster.platform.database.tables import now, teams, users
from muster.platform.errors import BadRequestProblem, ConflictProblem, InvalidProblem, NotFoundProblem
from muster.platform.permissions import Actor, require, visible
from muster.platform.quotas import check_count
from muster.platform.records.argo import AnyRunState
from muster.platform.records.common import Page, Subject
from muster.platform.users.audit import write_audit

_MOST_HISTORY: Final = 100
"""Entries of the state history that are kept."""
_LONGEST_ERROR: Final = 10_000


@dataclass(frozen=True, slots=True)
class NewRun:
    """What a request asks for. It names either a spec, or a pipeline and perhaps a version."""

    name: str
    description: str = ""
    experiment_id: str = ""
    spec: Mapping[str, Any] | None = None
    pipeline_id: str = ""
    version_id: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    pipeline_root: str = ""
    service_account: str = ""


@dataclass(frozen=True, slots=True)
class RunSource:
    """Everything that a run is compiled from. Plain data, for a worker process."""

    id: str
    new: NewRun
    spec: Mapping[str, Any]
    experiment_id: str
    namespace: str
    team_id: str | None
    owner: str
    """The id of the user to whom the run belongs."""
    created: datetime
    scheduled: datetime
    pipeline_id: str = ""
    version_id: str = ""
    recurring_run_id: str = ""
    launcher: Mapping[str, str] = field(default_factory=dict)
    """The data of the ConfigMap `kfp-launcher` of the namespace."""


def load_run(connection: Connection, actor: Actor, new: NewRun) -> RunSource:
    """Finds what a new run refers to. Writes at most the experiment "Default". Raises Problem."""
    require(actor, "create", Subject(RUN, owner=actor.id))
    check_name(new.name)
    check_description(new.description)
    experiment = find_experiment(connection, actor, new.experiment_id)
    check_not_archived(experiment)
    spec, pipeline_id, version_id = find_spec(connection, actor, new)
    moment = now()
    return RunSource(
        new_uuid(),
        new,
        spec,
        experiment.id,
        experiment.namespace,
        experiment.team_id,
        actor.id,
        moment,
        moment,
        pipeline_id,
        version_id,
    )


def find_experiment(connection: Connection, actor: Actor, identifier: str) -> Experiment:
    """Finds the experiment of a new run, for which the user must be able to use its namespace."""
    if not identifier:
        identifier = ensure_default(connection, actor, find_place(connection, actor))
    experiment = get_experiment(connection, actor, identifier)
    find_place(connection, actor, experiment.namespace)
    return experiment


def find_spec(connection: Connection, actor: Actor, new: NewRun) -> tuple[Mapping[str, Any], str, str]:
    """Returns the spec, and the ids of the pipeline and the version."""
    if (new.spec is not None) == bool(new.pipeline_id or new.version_id):
        raise InvalidProblem.field("pipeline_spec", "pipelines.source")
    if new.spec is not None:
        return new.spec, "", ""
    if new.version_id:
        version = get_version(connection, actor, new.pipeline_id, new.version_id)
    else:
        version = newest_version(connection, actor, new.pipeline_id)
    return get_spec(connection, version.spec_hash), version.pipeline_id, version.id


def store_run(connection: Connection, actor: Actor, source: RunSource, workflow: Object) -> PipelineRun:
    """Stores the run and the Workflow to create. The experiment is looked at again: it may be archived by now."""
    check_count(connection, "user_pipeline_runs", pipeline_runs.c.owner_id == source.owner, "pipeline runs")
    experiment = get_experiment(connection, actor, source.experiment_id)
    check_not_archived(experiment)
    insert_run(connection, source, workflow)
    write_audit(connection, actor, "create", RUN, source.id, source.new.name)
    return get_run(connection, actor, source.id)


def insert_run(connection: Connection, source: RunSource, workflow: Object) -> None:
    new = source.new
    connection.execute(
        insert(pipeline_runs).values(
            id=source.id,
            name=new.name,
            description=new.description,
            experiment_id=source.experiment_id,
            namespace=source.namespace,
            owner_id=source.owner,
            team_id=source.team_id,
            pipeline_id=source.pipeline_id,
            version_id=source.version_id,
            spec_hash=store_spec(connection, source.spec, source.owner),
            recurring_run_id=source.recurring_run_id,
            parameters=dict(new.parameters),
            pipeline_root=new.pipeline_root,
            service_account=new.service_account,
            workflow=workflow["metadata"]["name"],
            request=workflow,
            state="PENDING",
            history=[_entry("PENDING", source.created)],
            error="",
            archived=False,
            created=source.created,
            scheduled=source.scheduled,
            stopped_by="",
            deleted=False,
            retries=0,
            seen="",
        )
    )
    connection.execute(
        update(experiments).where(experiments.c.id == source.experiment_id).values(last_run=source.created)
    )


def get_run(connection: Connection, actor: Actor, identifier: str, action: str = "view") -> PipelineRun:
    run = find_run(connection, identifier)
    if run is None:
        raise NotFoundProblem.named(RUN, identifier[:200])
    require(actor, action, run.subject, identifier)
    return run


def find_run(connection: Connection, identifier: str) -> PipelineRun | None:
    """Finds a run without checking permissions."""
    row = connection.execute(_RUNS.where(pipeline_runs.c.id == identifier)).first()
    return None if row is None else as_record(row, PipelineRun)


def list_runs(
    connection: Connection, actor: Actor, wanted: ListRequest, *, experiment_id: str = "", namespace: str = ""
) -> Page[PipelineRun]:
    if experiment_id:
        get_experiment(connection, actor, experiment_id)
        seen = visible(actor, RUN, owner=pipeline_runs.c.owner_id, team=pipeline_runs.c.team_id)
        conditions = [seen, pipeline_runs.c.experiment_id == experiment_id]
    else:
        conditions = in_namespace(connection, actor, RUN, pipeline_runs, namespace)
    return list_rows(connection, _RUNS.where(*conditions), wanted, _FIELDS).map(_run)


@dataclass(frozen=True, slots=True)
class RecentFilter:
    """What is left of all pipeline runs in the list of everything that ran."""

    q: str = ""
    states: tuple[AnyRunState, ...] = ()
    """Empty for all."""
    owner: str = ""
    """The id or name of a user."""
    recurring_run_id: str = ""
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class RecentRun:
    run: PipelineRun
    state: AnyRunState
    pipeline_name: str
    """'' if it was created from a spec, or if the pipeline was deleted."""
    owner_name: str
    team_name: str | None


def list_recent(connection: Connection, actor: Actor, wanted: PageRequest, only: RecentFilter) -> Page[RecentRun]:
    """Lists the runs of all namespaces that the user may see, without archived ones, by created."""
    table = pipeline_runs.c
    conditions = [visible(actor, RUN, owner=table.owner_id, team=table.team_id), ~table.archived]
    if only.q:
        conditions.append(contains_words(only.q, table.name))
    if only.states:
        conditions.append(or_(false(), *(_STATE_CONDITIONS[each] for each in only.states if each in _STATE_CONDITIONS)))
    if only.owner:
        conditions.append(or_(table.owner_id == only.owner, users.c.name == only.owner))
    if only.recurring_run_id:
        conditions.append(table.recurring_run_id == only.recurring_run_id)
    if only.since is not None:
        conditions.append(table.created >= only.since)
    if only.until is not None:
        conditions.append(table.created < only.until)
    query = (
        _RUNS.add_columns(
            pipelines.c.display_name.label("pipeline_name"),
            users.c.name.label("owner_name"),
            teams.c.name.label("team_name"),
        )
        .outerjoin(pipelines, pipelines.c.id == table.pipeline_id)
        .outerjoin(users, users.c.id == table.owner_id)
        .outerjoin(teams, teams.c.id == table.team_id)
        .where(*conditions)
    )
    page = select_page(connection, query, wanted, key=table.id, sortable={"created": table.created}, usual="-created")
    return page.map(_recent)


def _recent(row: AnyRow) -> RecentRun:
    run = _run(row)
    state: AnyRunState = "stopped" if run.state == "FAILED" and run.stopped_by else _STATES[run.state]
    return RecentRun(run, state, row.pipeline_name or "", row.owner_name or "", row.team_name)


_STATES: Final[Mapping[str, AnyRunState]] = {
    "PENDING": "waiting",
    "RUNNING": "running",
    "CANCELING": "running",
    "SUCCEEDED": "succeeded",
    "FAILED": "failed",
}
_STATE_CONDITIONS: Final[Mapping[AnyRunState, ColumnElement[bool]]] = {
    "waiting": pipeline_runs.c.state == "PENDING",
    "running": pipeline_runs.c.state.in_(["RUNNING", "CANCELING"]),
    "succeeded": pipeline_runs.c.state == "SUCCEEDED",
    "failed": and_(pipeline_runs.c.state == "FAILED", pipeline_runs.c.stopped_by == ""),
    "stopped": and_(pipeline_runs.c.state == "FAILED", pipeline_runs.c.stopped_by != ""),
}


def archive_run(connection: Connection, actor: Actor, identifier: str, *, archived: bool) -> None:
    """Raises BadRequest for a run of an archived experiment: it cannot be unarchived alone."""
    run = get_run(connection, actor, identifier, "archive")
    if not archived:
        state = connection.execute(select(experiments.c.archived).where(experiments.c.id == run.experiment_id)).scalar()
        if state:
            raise BadRequestProblem.of("pipelines.unarchive-experiment")
    connection.execute(update(pipeline_runs).where(pipeline_runs.c.id == identifier).values(archived=archived))
    write_audit(connection, actor, "archive" if archived else "unarchive", RUN, run.id, run.name)


# What the controller does


def ask_to_stop(connection: Connection, actor: Actor, identifier: str) -> PipelineRun:
    run = get_run(connection, actor, identifier, "stop")
    if run.state in ENDED:
        raise ConflictProblem.of("pipelines.ended", state=run.state)
    if run.state != "CANCELING":
        set_state(connection, run, "CANCELING", stopped_by=actor.name)
        write_audit(connection, actor, "stop", RUN, run.id, run.name)
    return get_run(connection, actor, identifier)


def ask_to_delete(connection: Connection, actor: Actor, identifier: str) -> None:
    """Hides the run. Its row goes when its Workflow is gone."""
    run = get_run(connection, actor, identifier, "delete")
    connection.execute(update(pipeline_runs).where(pipeline_runs.c.id == identifier).values(deleted=True, request=None))
    write_audit(connection, actor, "delete", RUN, run.id, run.name)


def delete_row(connection: Connection, identifier: str) -> None:
    which = pipeline_runs.c.id == identifier
    digest = connection.execute(select(pipeline_runs.c.spec_hash).where(which)).scalar_one_or_none()
    connection.execute(delete(pipeline_runs).where(which))
    forget_spec(connection, digest)


def set_state(
    connection: Connection,
    run: PipelineRun,
    state: State,
    *,
    error: str = "",
    finished: datetime | None = None,
    **others: Any,
) -> None:
    """Stores a state, if it is another one. `others` are columns."""
    values: dict[str, Any] = {**others, "error": error[:_LONGEST_ERROR], "finished": finished}
    if run.state != state or run.error != values["error"]:
        entry = _entry(state, finished or now(), values["error"])
        values |= {"state": state, "history": [*run.history, entry][-_MOST_HISTORY:]}
    connection.execute(update(pipeline_runs).where(pipeline_runs.c.id == run.id).values(**values))


def store_end(
    connection: Connection,
    identifier: str,
    state: State,
    error: str,
    finished: datetime,
    tasks: Sequence[Mapping[str, Any]],
    artifacts: Iterable[ArtifactRecord],
    seen: str,
) -> None:
    """Stores how a run ended, with its tasks and their artifacts."""
    run = find_run(connection, identifier)
    if run is None:
        return
    set_state(connection, run, state, error=error, finished=finished, seen=seen, request=None)
    for table in (pipeline_run_tasks, pipeline_artifacts):
        connection.execute(delete(table).where(table.c.run_id == identifier))
    rows = [
        {"run_id": identifier, "id": task["task_id"], "position": position, "details": dict(task)}
        for position, task in enumerate(tasks)
    ]
    if rows:
        connection.execute(insert(pipeline_run_tasks), rows)
    made = [{column.name: getattr(each, column.name) for column in pipeline_artifacts.c} for each in artifacts]
    if made:
        connection.execute(insert(pipeline_artifacts), made)


def stored_tasks(connection: Connection, identifier: str) -> list[dict[str, Any]]:
    """The tasks of a run that ended."""
    query = select(pipeline_run_tasks.c.details).where(pipeline_run_tasks.c.run_id == identifier)
    return list(connection.execute(query.order_by(pipeline_run_tasks.c.position)).scalars())


def stored_artifacts(connection: Connection, *conditions: Any) -> list[ArtifactRecord]:
    query = select(*record_columns(ArtifactRecord, pipeline_artifacts)).where(*conditions)
    return [as_record(row, ArtifactRecord) for row in connection.execute(query.order_by(pipeline_artifacts.c.created))]


@dataclass(frozen=True, slots=True)
class RunRequest:
    run_id: str
    workflow: Object


def find_requests(connection: Connection, run_id: str = "") -> list[RunRequest]:
    """Workflows that are still to be created."""
    query = select(pipeline_runs.c.id, pipeline_runs.c.request).where(
        pipeline_runs.c.state.in_(["PENDING", "CANCELING"]), ~pipeline_runs.c.deleted
    )
    if run_id:
        query = query.where(pipeline_runs.c.id == run_id)
    return [RunRequest(row.id, row.request) for row in connection.execute(query) if row.request is not None]


def close_request(connection: Connection, run_id: str) -> None:
    connection.execute(update(pipeline_runs).where(pipeline_runs.c.id == run_id).values(request=None))


def find_runs(connection: Connection, *, deleted: bool = False, states: Sequence[str] = ()) -> list[PipelineRun]:
    """Runs of all users: those that were deleted, or those in one of these states."""
    query = _ALL_RUNS.where(pipeline_runs.c.deleted == deleted)
    if states:
        query = query.where(pipeline_runs.c.state.in_(states))
    return [as_record(row, PipelineRun) for row in connection.execute(query)]


def find_workflows(connection: Connection) -> set[Key]:
    """The Workflows of all runs, also of those that are about to be deleted."""
    query = select(pipeline_runs.c.namespace, pipeline_runs.c.workflow)
    return {Key(row.namespace, row.workflow) for row in connection.execute(query)}


def count_active(connection: Connection, recurring_run_id: str) -> int:
    """The runs of a recurring run that have not ended."""
    which = (pipeline_runs.c.recurring_run_id == recurring_run_id) & pipeline_runs.c.state.not_in(ENDED)
    return int(connection.execute(select(func.count()).where(which, ~pipeline_runs.c.deleted)).scalar_one())


def owner_name(connection: Connection, owner_id: str) -> str:
    return str(connection.execute(select(users.c.name).where(users.c.id == owner_id)).scalar_one_or_none() or "")


def _entry(state: State, at: datetime, error: str = "") -> dict[str, Any]:
    entry = {"update_time": timestamp(at), "state": state}
    return {**entry, "error": error} if error else entry


_ALL_RUNS = select(*record_columns(PipelineRun, pipeline_runs))
_RUNS = _ALL_RUNS.where(~pipeline_runs.c.deleted)
_FIELDS = ListFields(
    {
        "run_id": pipeline_runs.c.id,
        "id": pipeline_runs.c.id,
        "display_name": pipeline_runs.c.name,
        "name": pipeline_runs.c.name,
        "description": pipeline_runs.c.description,
        "experiment_id": pipeline_runs.c.experiment_id,
        "namespace": pipeline_runs.c.namespace,
        "pipeline_id": pipeline_runs.c.pipeline_id,
        "pipeline_version_id": pipeline_runs.c.version_id,
        "recurring_run_id": pipeline_runs.c.recurring_run_id,
        "service_account": pipeline_runs.c.service_account,
        "state": pipeline_runs.c.state,
        "status": pipeline_runs.c.state,
        "storage_state": storage_state(pipeline_runs.c.archived),
        "created_at": pipeline_runs.c.created,
        "scheduled_at": pipeline_runs.c.scheduled,
        "finished_at": pipeline_runs.c.finished,
    },
    key=pipeline_runs.c.id,
)


def _run(row: AnyRow) -> PipelineRun:
    return as_record(row, PipelineRun)
