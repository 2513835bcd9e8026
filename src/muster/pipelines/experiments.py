"""Experiments: groups of runs. Every namespace has the experiment "Default"."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection, case, delete, insert, literal, select, update
from sqlalchemy.exc import IntegrityError

from muster.pipelines.list_query import ListFields, ListRequest, list_rows
from muster.pipelines.records import DEFAULT_EXPERIMENT, EXPERIMENT, Experiment, Place, new_uuid
from muster.platform.database.pipeline_tables import experiments, pipeline_runs, recurring_runs
from muster.platform.database.queries import AnyRow, as_record, record_columns
from muster.platform.database.tables import namespaces, now
from muster.platform.errors import BadRequestProblem, InvalidProblem, NotFoundProblem, conflict_on_duplicate
from muster.platform.messages import field_error
from muster.platform.permissions import Actor, require, visible
from muster.platform.quotas import check_count
from muster.platform.records.common import Kind, Page, Subject
from muster.platform.users.audit import write_audit
from muster.platform.users.namespace_names import namespace_of

LONGEST_NAME: Final = 256
LONGEST_DESCRIPTION: Final = 10_000
ALL_NAMESPACES: Final = "-"
"""Instead of a namespace: everything that the user may see. Kubeflow Pipelines has no such list."""


def find_place(connection: Connection, actor: Actor, namespace: str = "") -> Place:
    """Returns the namespace in which a user works: their own, unless they name that of a team. Raises NotFound for one
    that is not theirs."""
    if not namespace:
        return Place(namespace_of(connection, user=actor.id))
    row = connection.execute(select(namespaces).where(namespaces.c.name == namespace)).first()
    if row is not None and row.user_id == actor.id:
        return Place(namespace)
    if row is not None and row.team_id in actor.teams:
        return Place(namespace, row.team_id)
    raise NotFoundProblem.named("namespace", namespace[:200])


def in_namespace(connection: Connection, actor: Actor, kind: Kind, table: Any, namespace: str) -> list[Any]:
    """The conditions of a list: what the user may see, in one namespace."""
    found = [visible(actor, kind, owner=table.c.owner_id, team=table.c.team_id)]
    if namespace != ALL_NAMESPACES:
        is_admin = actor.admin and "admin" in actor.scopes and namespace
        name = namespace if is_admin else find_place(connection, actor, namespace).namespace
        found.append(table.c.namespace == name)
    return found


def check_name(name: str, field: str = "display_name") -> None:
    if not 0 < len(name) <= LONGEST_NAME or name.strip() != name or not name.isprintable():
        raise InvalidProblem.field(field, "pipelines.name", name=name[:LONGEST_NAME], most=LONGEST_NAME)


def check_description(text: str) -> None:
    if len(text) > LONGEST_DESCRIPTION or "\0" in text:
        raise InvalidProblem.field("description", "field.long", most=LONGEST_DESCRIPTION)


def create_experiment(
    connection: Connection, actor: Actor, name: str, description: str = "", namespace: str = ""
) -> Experiment:
    require(actor, "create", Subject(EXPERIMENT, owner=actor.id))
    check_name(name)
    check_description(description)
    place = find_place(connection, actor, namespace)
    check_count(connection, "user_experiments", experiments.c.owner_id == actor.id, "experiments")
    with conflict_on_duplicate(field_error("", "pipelines.taken", kind="experiment", name=name)):
        identifier = _insert(connection, actor, place, name, description)
    write_audit(connection, actor, "create", EXPERIMENT, identifier, name)
    return get_experiment(connection, actor, identifier)


def has_default(connection: Connection, place: Place) -> bool:
    which = (experiments.c.namespace == place.namespace) & (experiments.c.name == DEFAULT_EXPERIMENT)
    return connection.execute(select(experiments.c.id).where(which)).first() is not None


def ensure_default(connection: Connection, actor: Actor, place: Place) -> str:
    """Returns the id of the experiment "Default" of a namespace. Creates it if it is missing."""
    which = (experiments.c.namespace == place.namespace) & (experiments.c.name == DEFAULT_EXPERIMENT)
    found = connection.execute(select(experiments.c.id).where(which)).scalar_one_or_none()
    if found is not None:
        return str(found)
    try:
        with connection.begin_nested():
            return _insert(connection, actor, place, DEFAULT_EXPERIMENT, "")
    except IntegrityError:
        return str(connection.execute(select(experiments.c.id).where(which)).scalar_one())


def get_experiment(connection: Connection, actor: Actor, identifier: str, action: str = "view") -> Experiment:
    row = connection.execute(_EXPERIMENTS.where(experiments.c.id == identifier)).first()
    if row is None:
        raise NotFoundProblem.named(EXPERIMENT, identifier[:200])
    experiment = as_record(row, Experiment)
    require(actor, action, experiment.subject, identifier)
    return experiment


def list_experiments(connection: Connection, actor: Actor, wanted: ListRequest, namespace: str) -> Page[Experiment]:
    conditions = in_namespace(connection, actor, EXPERIMENT, experiments, namespace)
    return list_rows(connection, _EXPERIMENTS.where(*conditions), wanted, _FIELDS).map(_experiment)


def archive_experiment(connection: Connection, actor: Actor, identifier: str) -> None:
    """Archives an experiment with its runs, and disables its recurring runs."""
    experiment = get_experiment(connection, actor, identifier, "archive")
    connection.execute(update(experiments).where(experiments.c.id == identifier).values(archived=True))
    connection.execute(update(pipeline_runs).where(pipeline_runs.c.experiment_id == identifier).values(archived=True))
    connection.execute(
        update(recurring_runs)
        .where(recurring_runs.c.experiment_id == identifier, recurring_runs.c.enabled)
        .values(enabled=False, updated=now())
    )
    write_audit(connection, actor, "archive", EXPERIMENT, identifier, experiment.name)


def unarchive_experiment(connection: Connection, actor: Actor, identifier: str) -> None:
    """Its runs stay archived and its recurring runs disabled, as in Kubeflow Pipelines."""
    experiment = get_experiment(connection, actor, identifier, "archive")
    connection.execute(update(experiments).where(experiments.c.id == identifier).values(archived=False))
    write_audit(connection, actor, "unarchive", EXPERIMENT, identifier, experiment.name)


def delete_experiment(connection: Connection, actor: Actor, identifier: str) -> None:
    """Its runs stay, as in Kubeflow Pipelines; its recurring runs stop. Raises BadRequest for "Default"."""
    experiment = get_experiment(connection, actor, identifier, "delete")
    if experiment.name == DEFAULT_EXPERIMENT:
        raise BadRequestProblem.of("pipelines.default-experiment")
    connection.execute(
        update(recurring_runs)
        .where(recurring_runs.c.experiment_id == identifier)
        .values(enabled=False, error=f'the experiment "{experiment.name}" was deleted', updated=now())
    )
    connection.execute(delete(experiments).where(experiments.c.id == identifier))
    write_audit(connection, actor, "delete", EXPERIMENT, identifier, experiment.name)


def check_not_archived(experiment: Experiment) -> None:
    if experiment.archived:
        raise BadRequestProblem.of("pipelines.experiment-archived", name=experiment.name)


def storage_state(archived: Any) -> Any:
    """The column of `archived` in the words of the API."""
    return case((archived, literal("ARCHIVED")), else_=literal("AVAILABLE"))


def _insert(connection: Connection, actor: Actor, place: Place, name: str, description: str) -> str:
    identifier = new_uuid()
    connection.execute(
        insert(experiments).values(
            id=identifier,
            name=name,
            description=description,
            namespace=place.namespace,
            owner_id=actor.id,
            team_id=place.team_id,
            archived=False,
            created=now(),
        )
    )
    return identifier


_EXPERIMENTS = select(*record_columns(Experiment, experiments))
_FIELDS = ListFields(
    {
        "experiment_id": experiments.c.id,
        "id": experiments.c.id,
        "display_name": experiments.c.name,
        "name": experiments.c.name,
        "description": experiments.c.description,
        "namespace": experiments.c.namespace,
        "storage_state": storage_state(experiments.c.archived),
        "created_at": experiments.c.created,
        "last_run_created_at": experiments.c.last_run,
    },
    key=experiments.c.id,
)


def _experiment(row: AnyRow) -> Experiment:
    return as_record(row, Experiment)
