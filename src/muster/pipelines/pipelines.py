"""Pipelines and their versions. A version has the compiled pipeline (IR) and never changes, apart from its labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

import orjson
from sqlalchemy import Connection, delete, exists, func, insert, or_, select, union, update
from sqlalchemy.exc import IntegrityError

from muster.kube.budgets import setting_name
from muster.pipelines.experiments import check_description, check_name, find_place, in_namespace
from muster.pipelines.list_query import ListFields, ListRequest, list_rows
from muster.pipelines.records import PIPELINE, PipelineRecord, PipelineVersion, new_uuid
from muster.platform.database.pipeline_tables import (
    pipeline_runs,
    pipeline_specs,
    pipeline_versions,
    pipelines,
    recurring_runs,
)
from muster.platform.database.queries import as_record, record_columns
from muster.platform.database.tables import now
from muster.platform.errors import (
    BadRequestProblem,
    ConflictProblem,
    InvalidProblem,
    NotFoundProblem,
    conflict_on_duplicate,
)
from muster.platform.messages import field_error
from muster.platform.permissions import Actor, require
from muster.platform.quotas import budgets_of, check_count
from muster.platform.records.common import Page, Subject
from muster.platform.users.audit import write_audit

_MOST_TAGS: Final = 50
_LONGEST_URL: Final = 2000


@dataclass(frozen=True, slots=True)
class NewNames:
    """What a user says about a pipeline or a version."""

    name: str = ""
    display_name: str = ""
    description: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    code_source_url: str = ""

    def checked(self) -> NewNames:
        """Returns them with both names: each defaults to the other. Raises Invalid."""
        name, shown = self.name or self.display_name, self.display_name or self.name
        check_name(name, "name" if self.name else "display_name")
        check_name(shown)
        check_description(self.description)
        if len(self.code_source_url) > _LONGEST_URL or not self.code_source_url.isprintable():
            raise InvalidProblem.field("code_source_url", "field.long", most=_LONGEST_URL)
        if len(self.tags) > _MOST_TAGS or any(len(key) > 63 or len(value) > 256 for key, value in self.tags.items()):
            raise InvalidProblem.field("tags", "pipelines.tags", most=_MOST_TAGS)
        return NewNames(name, shown, self.description, self.tags, self.code_source_url)


def create_pipeline(connection: Connection, actor: Actor, new: NewNames, namespace: str = "") -> PipelineRecord:
    require(actor, "create", Subject(PIPELINE, owner=actor.id))
    named = new.checked()
    place = find_place(connection, actor, namespace)
    check_count(connection, "user_pipelines", pipelines.c.owner_id == actor.id, "pipelines")
    identifier = new_uuid()
    with conflict_on_duplicate(field_error("", "pipelines.taken", kind="pipeline", name=named.name)):
        connection.execute(
            insert(pipelines).values(
                id=identifier,
                name=named.name,
                display_name=named.display_name,
                description=named.description,
                tags=dict(named.tags),
                namespace=place.namespace,
                owner_id=actor.id,
                team_id=place.team_id,
                created=now(),
            )
        )
    write_audit(connection, actor, "create", PIPELINE, identifier, named.name)
    return get_pipeline(connection, actor, identifier)


def get_pipeline(connection: Connection, actor: Actor, identifier: str, action: str = "view") -> PipelineRecord:
    row = connection.execute(_PIPELINES.where(pipelines.c.id == identifier)).first()
    if row is None:
        raise NotFoundProblem.named(PIPELINE, identifier[:200])
    pipeline = as_record(row, PipelineRecord)
    require(actor, action, pipeline.subject, identifier)
    return pipeline


def get_pipeline_by_name(connection: Connection, actor: Actor, name: str, namespace: str) -> PipelineRecord:
    conditions = in_namespace(connection, actor, PIPELINE, pipelines, namespace)
    row = connection.execute(_PIPELINES.where(pipelines.c.name == name, *conditions)).first()
    if row is None:
        raise NotFoundProblem.named(PIPELINE, name[:200])
    return as_record(row, PipelineRecord)


def list_pipelines(connection: Connection, actor: Actor, wanted: ListRequest, namespace: str) -> Page[PipelineRecord]:
    conditions = in_namespace(connection, actor, PIPELINE, pipelines, namespace)
    page = list_rows(connection, _PIPELINES.where(*conditions), wanted, _PIPELINE_FIELDS)
    return page.map(lambda row: as_record(row, PipelineRecord))


def edit_pipeline(connection: Connection, actor: Actor, identifier: str, changes: Mapping[str, Any]) -> PipelineRecord:
    """`changes` may contain display_name, description and tags."""
    pipeline = get_pipeline(connection, actor, identifier, "edit")
    _edit(connection, pipelines, pipeline, changes)
    write_audit(connection, actor, "edit", PIPELINE, identifier, pipeline.name)
    return get_pipeline(connection, actor, identifier)


def delete_pipeline(connection: Connection, actor: Actor, identifier: str, *, cascade: bool = False) -> None:
    """Raises BadRequest while it has versions, unless they are to be deleted with it."""
    pipeline = get_pipeline(connection, actor, identifier, "delete")
    of_pipeline = pipeline_versions.c.pipeline_id == identifier
    count = connection.execute(select(func.count()).where(of_pipeline)).scalar_one()
    if count and not cascade:
        raise BadRequestProblem.of("pipelines.has-versions", name=pipeline.name, count=count)
    hashes = list(connection.execute(select(pipeline_versions.c.spec_hash).where(of_pipeline)).scalars())
    connection.execute(delete(pipeline_versions).where(of_pipeline))
    connection.execute(delete(pipelines).where(pipelines.c.id == identifier))
    for each in hashes:
        forget_spec(connection, each)
    write_audit(connection, actor, "delete", PIPELINE, identifier, pipeline.name)


def create_version(
    connection: Connection, actor: Actor, pipeline_id: str, new: NewNames, spec: Mapping[str, Any]
) -> PipelineVersion:
    """`spec` is the IR, or `{pipeline_spec, platform_spec}`; it has been checked."""
    pipeline = get_pipeline(connection, actor, pipeline_id, "edit")
    named = new.checked()
    check_count(connection, "pipeline_versions", pipeline_versions.c.pipeline_id == pipeline_id, "versions")
    spec_hash = store_spec(connection, spec, pipeline.owner_id)
    identifier = new_uuid()
    with conflict_on_duplicate(field_error("", "pipelines.taken", kind="pipeline version", name=named.name)):
        connection.execute(
            insert(pipeline_versions).values(
                id=identifier,
                pipeline_id=pipeline.id,
                name=named.name,
                display_name=named.display_name,
                description=named.description,
                tags=dict(named.tags),
                code_source_url=named.code_source_url,
                spec_hash=spec_hash,
                created=now(),
            )
        )
    write_audit(connection, actor, "create version", PIPELINE, pipeline.id, pipeline.name, {"version": named.name})
    return get_version(connection, actor, pipeline_id, identifier)


def get_version(
    connection: Connection, actor: Actor, pipeline_id: str, identifier: str, action: str = "view"
) -> PipelineVersion:
    """`pipeline_id` may be '': a version is found by its own id, too."""
    which = pipeline_versions.c.id == identifier
    if pipeline_id:
        get_pipeline(connection, actor, pipeline_id, action)
        which = which & (pipeline_versions.c.pipeline_id == pipeline_id)
    row = connection.execute(_VERSIONS.where(which)).first()
    if row is None:
        raise NotFoundProblem.named("pipeline version", identifier[:200])
    version = as_record(row, PipelineVersion)
    get_pipeline(connection, actor, version.pipeline_id, action)
    return version


def newest_version(connection: Connection, actor: Actor, pipeline_id: str) -> PipelineVersion:
    pipeline = get_pipeline(connection, actor, pipeline_id)
    newest = (pipeline_versions.c.created.desc(), pipeline_versions.c.id.desc())
    row = connection.execute(
        _VERSIONS.where(pipeline_versions.c.pipeline_id == pipeline_id).order_by(*newest).limit(1)
    ).first()
    if row is None:
        raise BadRequestProblem.of("pipelines.no-version", name=pipeline.name)
    return as_record(row, PipelineVersion)


def list_versions(connection: Connection, actor: Actor, pipeline_id: str, wanted: ListRequest) -> Page[PipelineVersion]:
    get_pipeline(connection, actor, pipeline_id)
    query = _VERSIONS.where(pipeline_versions.c.pipeline_id == pipeline_id)
    return list_rows(connection, query, wanted, _VERSION_FIELDS).map(lambda row: as_record(row, PipelineVersion))


def edit_version(
    connection: Connection, actor: Actor, pipeline_id: str, identifier: str, changes: Mapping[str, Any]
) -> PipelineVersion:
    version = get_version(connection, actor, pipeline_id, identifier, "edit")
    _edit(connection, pipeline_versions, version, changes)
    write_audit(connection, actor, "edit version", PIPELINE, pipeline_id, version.name)
    return get_version(connection, actor, pipeline_id, identifier)


def delete_version(connection: Connection, actor: Actor, pipeline_id: str, identifier: str) -> None:
    """Runs of the version keep its spec."""
    version = get_version(connection, actor, pipeline_id, identifier, "edit")
    connection.execute(delete(pipeline_versions).where(pipeline_versions.c.id == version.id))
    forget_spec(connection, version.spec_hash)
    write_audit(connection, actor, "delete version", PIPELINE, version.pipeline_id, version.name)


# Specs


def store_spec(connection: Connection, spec: Mapping[str, Any], owner: str) -> str:
    """Stores a spec once, however many versions and runs have it. Returns its hash. Raises Conflict if the owner would
    have too many bytes of them."""
    raw = orjson.dumps(spec, option=orjson.OPT_SORT_KEYS)
    digest = sha256(raw).hexdigest()
    if not connection.execute(select(exists().where(pipeline_specs.c.hash == digest))).scalar_one():
        most = budgets_of(connection).user_pipeline_megabytes
        if spec_bytes(connection, owner) + len(raw) > most << 20:
            raise ConflictProblem.of("pipelines.specs", most=most, setting=setting_name("user_pipeline_megabytes"))
        try:
            with connection.begin_nested():
                connection.execute(insert(pipeline_specs).values(hash=digest, document=dict(spec), size=len(raw)))
        except IntegrityError:
            pass  # another server has just stored it
    return digest


def spec_bytes(connection: Connection, owner: str) -> int:
    """The size of all specs that what belongs to a user refers to."""
    of_versions = select(pipeline_versions.c.spec_hash).where(
        pipeline_versions.c.pipeline_id == pipelines.c.id, pipelines.c.owner_id == owner
    )
    of_others = [select(each.c.spec_hash).where(each.c.owner_id == owner) for each in (pipeline_runs, recurring_runs)]
    used = union(of_versions, *of_others).subquery()
    query = select(func.coalesce(func.sum(pipeline_specs.c.size), 0)).where(pipeline_specs.c.hash == used.c.spec_hash)
    return int(connection.execute(query).scalar_one())


def get_spec(connection: Connection, digest: str) -> dict[str, Any]:
    found: dict[str, Any] = connection.execute(
        select(pipeline_specs.c.document).where(pipeline_specs.c.hash == digest)
    ).scalar_one()
    return found


def get_specs(connection: Connection, digests: list[str], most_bytes: int) -> dict[str, dict[str, Any]]:
    """Returns specs by hash, in this order, as long as they have at most so many bytes together."""
    wanted = list(dict.fromkeys(digests))
    sizes = dict(
        connection.execute(
            select(pipeline_specs.c.hash, pipeline_specs.c.size).where(pipeline_specs.c.hash.in_(wanted))
        ).all()
    )
    chosen = []
    for digest in wanted:
        most_bytes -= sizes.get(digest, 0)
        if most_bytes < 0:
            break
        chosen.append(digest)
    rows = connection.execute(select(pipeline_specs).where(pipeline_specs.c.hash.in_(chosen)))
    return {row.hash: row.document for row in rows}


def forget_spec(connection: Connection, digest: str | None) -> None:
    """Deletes a spec that nothing refers to any more."""
    if digest is None:
        return
    users = [
        exists().where(table.c.spec_hash == digest) for table in (pipeline_versions, pipeline_runs, recurring_runs)
    ]
    connection.execute(delete(pipeline_specs).where(pipeline_specs.c.hash == digest, ~or_(*users)))


def _edit(
    connection: Connection, table: Any, before: PipelineRecord | PipelineVersion, changes: Mapping[str, Any]
) -> None:
    after = NewNames(
        before.name,
        changes.get("display_name", before.display_name),
        changes.get("description", before.description),
        changes.get("tags", before.tags),
    ).checked()
    values = {"display_name": after.display_name, "description": after.description, "tags": dict(after.tags)}
    connection.execute(update(table).where(table.c.id == before.id).values(**values))


_PIPELINES = select(*record_columns(PipelineRecord, pipelines))
_VERSIONS = select(*record_columns(PipelineVersion, pipeline_versions))
_PIPELINE_FIELDS = ListFields(
    {
        "pipeline_id": pipelines.c.id,
        "id": pipelines.c.id,
        "display_name": pipelines.c.display_name,
        "name": pipelines.c.name,
        "description": pipelines.c.description,
        "namespace": pipelines.c.namespace,
        "created_at": pipelines.c.created,
    },
    key=pipelines.c.id,
)
_VERSION_FIELDS = ListFields(
    {
        "pipeline_version_id": pipeline_versions.c.id,
        "id": pipeline_versions.c.id,
        "display_name": pipeline_versions.c.display_name,
        "name": pipeline_versions.c.name,
        "description": pipeline_versions.c.description,
        "code_source_url": pipeline_versions.c.code_source_url,
        "created_at": pipeline_versions.c.created,
    },
    key=pipeline_versions.c.id,
)
