"""Versions: what a workflow is, unchangeable from the moment it is stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from sqlalchemy import Connection, insert, select, update

from muster.platform.database.encrypted_columns import keys_of, seal_document, unseal_document
from muster.platform.database.queries import (
    AnyRow,
    PageRequest,
    as_record,
    contains_words,
    find_row,
    new_id,
    select_page,
)
from muster.platform.database.tables import now, users, versions
from muster.platform.errors import InvalidProblem, NotFoundProblem, PreconditionFailedProblem, conflict_on_duplicate
from muster.platform.graphs.argo_import import from_manifest
from muster.platform.graphs.context import Context, retire
from muster.platform.graphs.document import Change, content_hash, diff, mask_secrets, restore_secrets, to_canonical
from muster.platform.graphs.model import Document
from muster.platform.graphs.validation import only_errors, shape_problems, validate_graph
from muster.platform.messages import FieldError, field_error
from muster.platform.permissions import Actor, may, require
from muster.platform.records.common import Page
from muster.platform.records.workflows import Finding, StoredVersion, Version, Workflow
from muster.platform.users.audit import write_audit
from muster.platform.workflows.workflows import (
    NewWorkflow,
    check_not_archived,
    count_version,
    create_workflow,
    get_workflow,
)

ContextLoader: TypeAlias = Callable[[Connection, Actor, Document], Context]
"""Finds what a document refers to: virtual clusters, storage roots, modules, and whether the actor may use them."""

LATEST = "latest"
_LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class NewVersion:
    """Has either `document` or `manifest`."""

    name: str = ""
    """Defaults to vN."""
    description: str = ""
    document: Document | None = None
    manifest: str = ""
    """An Argo Workflow. It becomes a graph if possible."""


class Stored(NamedTuple):
    """A version that was just stored, with its workflow."""

    workflow: Workflow
    version: Version
    notes: list[Finding]
    """Warnings."""

    @property
    def record(self) -> StoredVersion:
        return StoredVersion(self.workflow.id, self.workflow.name, self.workflow.revision, self.version, self.notes)


@dataclass(frozen=True, slots=True)
class CheckedVersion:
    """The content of a new version after all checks: the document to store, its hash, and warnings."""

    document: Document
    hash: str
    """All users see it, so that it must not depend on secrets: they could be guessed."""
    notes: list[Finding]


def check_version(document: Document, base: Document | None, context: Context, prefix: str = "") -> CheckedVersion:
    """Fills in the secrets of `base` and checks everything. Raises Invalid for errors. It may take long for a large
    document, so it is called before the transaction begins."""
    wrong = shape_problems(document)
    if wrong:
        raise InvalidProblem.fields([_fault(problem, f"{prefix}document.") for problem in wrong])
    document = restore_secrets(document, base or {})
    notes = check_document(document, retire(context, base), f"{prefix}document.")
    document = to_canonical(document)
    return CheckedVersion(document, content_hash(mask_secrets(document)), notes)


def create_with_version(
    connection: Connection,
    actor: Actor,
    new: NewWorkflow,
    version: NewVersion,
    look: ContextLoader,
    *,
    checked: CheckedVersion | None = None,
) -> Stored:
    """A workflow and its first version, or neither. Without `checked`, it is checked inside the transaction."""
    workflow = create_workflow(connection, actor, new)
    return _stored(connection, actor, workflow, version, look, prefix="version.", checked=checked)


def add_version(
    connection: Connection,
    actor: Actor,
    workflow_id: str,
    new: NewVersion,
    look: ContextLoader,
    revision: int | None = None,
    *,
    checked: CheckedVersion | None = None,
) -> Stored:
    """Adds a version. Secrets without a value are taken from the latest version. With a `revision`, fails if the
    workflow has another one."""
    workflow = get_workflow(connection, actor, workflow_id)
    require(actor, "create", workflow.version_subject, workflow.name)
    PreconditionFailedProblem.check("workflow", workflow.name, workflow.revision, revision)
    check_not_archived(workflow)
    base = latest_document(connection, actor, workflow) if checked is None else None
    return _stored(connection, actor, workflow, new, look, base=base, checked=checked)


def latest_document(connection: Connection, actor: Actor, workflow: Workflow) -> Document | None:
    """Returns the document of the last version as the actor may see it."""
    before = find_version(connection, workflow, str(workflow.versions)) if workflow.versions else None
    return document_for(connection, actor, workflow, before) if before else None


def copy_version(
    connection: Connection,
    actor: Actor,
    source: tuple[Workflow, Version],
    into: NewWorkflow | str,
    new: NewVersion,
    look: ContextLoader,
    *,
    checked: CheckedVersion | None = None,
) -> Stored:
    """Copies a version into a new or existing workflow. What `new` leaves out is taken from the source, including
    secrets that the actor may see."""
    workflow, version = source
    require(actor, "copy", workflow.version_subject, workflow.name)
    base = document_for(connection, actor, workflow, version)
    if new.document is None and not new.manifest:
        new = NewVersion(new.name, new.description or version.description, base)
    if isinstance(into, NewWorkflow):
        target = create_workflow(connection, actor, into)
    else:
        target = get_workflow(connection, actor, into)
        require(actor, "create", target.version_subject, target.name)
        check_not_archived(target)
    return _stored(
        connection, actor, target, new, look, base=base, copied_from=version.id, prefix="version.", checked=checked
    )


def find_version(connection: Connection, workflow: Workflow, word: str) -> Version:
    """Finds a version by number, name or id, or `latest`: the newest one that is not archived."""
    query = _VERSIONS.where(versions.c.workflow_id == workflow.id)
    if word == LATEST:
        newest = query.where(versions.c.archived.is_(None)).order_by(versions.c.number.desc()).limit(1)
        row = connection.execute(newest).first()
    elif word.isdecimal() and len(word) < 10:
        row = connection.execute(query.where(versions.c.number == int(word))).first()
    else:
        row = find_row(connection, query, versions, word)
    if row is None:
        raise NotFoundProblem.of("version.missing", workflow=workflow.name, name=word)
    return _version(row)


def get_version(connection: Connection, actor: Actor, identifier: str) -> tuple[Workflow, Version]:
    """By its id alone."""
    row = connection.execute(_VERSIONS.where(versions.c.id == identifier)).first()
    if row is None:
        raise NotFoundProblem.named("version", identifier)
    workflow = get_workflow(connection, actor, row.workflow_id)
    require(actor, "view", workflow.version_subject, identifier)
    return workflow, _version(row)


def document_of(connection: Connection, version_id: str) -> Document:
    """Returns the document with secrets: for running it, not for showing it."""
    stored = connection.execute(select(versions.c.document).where(versions.c.id == version_id)).scalar_one()
    return unseal_document(keys_of(connection), stored, version_id)


def document_for(connection: Connection, actor: Actor, workflow: Workflow, version: Version) -> Document:
    """Returns the document as the actor may see it."""
    document = document_of(connection, version.id)
    return document if may(actor, "reveal", workflow.version_subject) else mask_secrets(document)


def list_versions(
    connection: Connection, workflow: Workflow, wanted: PageRequest, *, q: str = "", archived: bool | None = None
) -> Page[Version]:
    query = _VERSIONS.where(versions.c.workflow_id == workflow.id)
    if q:
        query = query.where(contains_words(q, versions.c.name, versions.c.description))
    if archived is not None:
        query = query.where(versions.c.archived.is_not(None) if archived else versions.c.archived.is_(None))
    sortable = {"number": versions.c.number, "name": versions.c.name, "author": users.c.name}
    return select_page(connection, query, wanted, key=versions.c.id, sortable=sortable, usual="-number").map(_version)


def archive_version(
    connection: Connection, actor: Actor, workflow: Workflow, version: Version, *, archived: bool
) -> Version:
    """Archives or restores a version. An archived version cannot be run and is never the latest."""
    require(actor, "archive", workflow.version_subject, workflow.name)
    if (version.archived is not None) == archived:
        return version
    moment = now() if archived else None
    connection.execute(update(versions).where(versions.c.id == version.id).values(archived=moment))
    write_audit(
        connection,
        actor,
        "archive" if archived else "restore",
        "version",
        version.id,
        _format_version(workflow, version),
    )
    return find_version(connection, workflow, version.id)


def diff_versions(connection: Connection, old: Version, new: Version) -> list[Change]:
    """The differences, without values of secrets."""
    return diff(document_of(connection, old.id), document_of(connection, new.id))


def check_document(document: Document, context: Context, prefix: str = "") -> list[Finding]:
    """Returns the warnings. Raises Invalid for errors."""
    found = validate_graph(document, context)
    wrong = only_errors(found)
    if wrong:
        raise InvalidProblem.fields([_fault(problem, prefix) for problem in wrong])
    return found


def _stored(
    connection: Connection,
    actor: Actor,
    workflow: Workflow,
    new: NewVersion,
    look: ContextLoader,
    *,
    base: Document | None = None,
    copied_from: str = "",
    prefix: str = "",
    checked: CheckedVersion | None = None,
) -> Stored:
    if checked is None:
        given, imported = _document(connection, actor, new, look, prefix)
        checked = check_version(given, base, look(connection, actor, given), prefix)
        checked = replace(checked, notes=[*imported, *checked.notes])
    document = checked.document
    number = count_version(connection, workflow)
    name = new.name or f"v{number}"
    _check_name(name, prefix)
    identifier = new_id()
    with conflict_on_duplicate(field_error(f"{prefix}name", "version.taken", workflow=workflow.name, name=name)):
        connection.execute(
            insert(versions).values(
                id=identifier,
                workflow_id=workflow.id,
                number=number,
                name=name,
                description=new.description,
                type=document.get("type", "graph"),
                document=seal_document(keys_of(connection), document, identifier),
                hash=checked.hash,
                nodes=len(document.get("nodes") or ()),
                author_id=actor.id,
                copied_from=copied_from,
                created=now(),
            )
        )
    version = find_version(connection, workflow, identifier)
    details = {"number": number, "hash": version.hash, **({"copied from": copied_from} if copied_from else {})}
    write_audit(connection, actor, "create", "version", identifier, _format_version(workflow, version), details)
    return Stored(get_workflow(connection, actor, workflow.id), version, checked.notes)


def check_has_content(new: NewVersion, prefix: str = "") -> None:
    """Raises Invalid unless it has either a document or a manifest."""
    if new.manifest and new.document is not None:
        raise InvalidProblem.field(f"{prefix}manifest", "field.either", other="document")
    if new.document is None and not new.manifest:
        raise InvalidProblem.field(f"{prefix}document", "version.content")


def _document(
    connection: Connection, actor: Actor, new: NewVersion, look: ContextLoader, prefix: str
) -> tuple[Document, list[Finding]]:
    check_has_content(new, prefix)
    if new.document is not None:
        return new.document, []
    return document_in(new.manifest, look(connection, actor, {}), prefix)


def document_in(manifest: str, context: Context, prefix: str = "") -> tuple[Document, list[Finding]]:
    """Returns what an Argo Workflow is as a document, and warnings. Raises Invalid."""
    imported = from_manifest(manifest, context)
    if imported.document is None:
        raise InvalidProblem.fields([_fault(problem, prefix) for problem in imported.problems])
    return imported.document, imported.problems


def _fault(problem: Finding, prefix: str) -> FieldError:
    message = f"{problem.message}; {problem.fix}" if problem.fix else problem.message
    return FieldError(f"{prefix}{problem.path}".rstrip("."), message, problem.code, problem.arguments)


def _format_version(workflow: Workflow, version: Version) -> str:
    return f"{workflow.name} {version.name}"


def _check_name(name: str, prefix: str) -> None:
    if len(name) > _LONGEST_NAME or name.strip() != name or not name.isprintable() or "/" in name:
        raise InvalidProblem.field(f"{prefix}name", "version.name", name=name, most=_LONGEST_NAME)
    if name == LATEST or name.isdecimal():
        raise InvalidProblem.field(f"{prefix}name", "version.other", name=name)


_VERSIONS = select(
    versions.c.id,
    versions.c.workflow_id,
    versions.c.number,
    versions.c.name,
    versions.c.description,
    versions.c.type,
    versions.c.hash,
    versions.c.nodes,
    versions.c.author_id,
    users.c.name.label("author_name"),
    versions.c.copied_from,
    versions.c.created,
    versions.c.archived,
).join(users, users.c.id == versions.c.author_id)


def _version(row: AnyRow) -> Version:
    return as_record(row, Version)
