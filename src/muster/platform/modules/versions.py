"""Versions of modules: their sources, builds and states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

from sqlalchemy import Connection, insert, select, update

from muster.platform.database.encrypted_columns import env_place, keys_of, seal_env, seal_url, unseal_env, unseal_url
from muster.platform.database.queries import AnyRow, PageRequest, as_record, new_id, select_page
from muster.platform.database.tables import module_versions, now, users
from muster.platform.errors import InvalidProblem, NotFoundProblem, PreconditionFailedProblem
from muster.platform.graphs.model import Output, Variable
from muster.platform.modules.modules import (
    PUBLIC,
    NewModule,
    State,
    Step,
    edit_module_row,
    get_module,
    insert_module,
    next_state,
    refresh,
    steps_from,
)
from muster.platform.modules.validation import (
    ModuleInput,
    ModuleSource,
    validate_source,
    with_previous_secrets,
)
from muster.platform.permissions import Actor, may, require
from muster.platform.quotas import check_budget
from muster.platform.records.common import Page
from muster.platform.records.modules import Module, ModuleOutput, ModuleVariable, ModuleVersion
from muster.platform.records.modules import ModuleInput as ModuleInputRecord
from muster.platform.users.audit import write_audit
from muster.workflows.artifacts.git_addresses import local_problem, read_repository, without_credentials

LATEST = "latest"
SOURCE_FIELDS = ("git_url", "git_ref", "dockerfile", "build_dir", "readme_path", "env", "inputs", "outputs")


@dataclass(frozen=True, slots=True)
class StoredModuleVersion:
    """A version with what only builds and runs need to know."""

    id: str
    module_id: str
    number: int
    author_id: str
    author_name: str
    source: ModuleSource
    state: State
    reason: str
    """Why it failed or was rejected."""
    attempts: int
    git_commit: str
    """The commit that was built; '' before it is known."""
    image: str
    entrypoint: tuple[str, ...]
    working_dir: str
    image_env: Mapping[str, str]
    folder: str
    size: int
    created: datetime
    updated: datetime
    built: datetime | None
    revision: int

    def seen_by(self, actor: Actor, module: Module) -> StoredModuleVersion:
        """The version without credentials, and without values of variables for users who may not see them."""
        source = replace(self.source, git_url=without_credentials(self.source.git_url))
        if not may(actor, "inspect", module.subject):
            source = replace(source, env=tuple(v._replace(value="") for v in source.env))
        return replace(self, source=source)


def version_record(version: StoredModuleVersion) -> ModuleVersion:
    """The version as the API shows it."""
    source = version.source
    return ModuleVersion(
        id=version.id,
        module_id=version.module_id,
        number=version.number,
        author_id=version.author_id,
        author_name=version.author_name,
        git_url=source.git_url,
        git_ref=source.git_ref,
        git_commit=version.git_commit,
        dockerfile=source.dockerfile,
        build_dir=source.build_dir or "/",
        readme_path=source.readme_path,
        env=[ModuleVariable(*variable) for variable in source.env],
        inputs=[ModuleInputRecord(given.name, given.description) for given in source.inputs],
        outputs=[ModuleOutput(*output) for output in source.outputs],
        state=version.state,
        reason=version.reason,
        steps=[step for step in steps_from(version.state) if step not in ("built", "fail")],
        runs_as="" if version.built is None else "folder" if version.folder else "image",
        image=version.image,
        entrypoint=list(version.entrypoint),
        size=version.size,
        created=version.created,
        updated=version.updated,
        built=version.built,
    )


def create_module(
    connection: Connection, actor: Actor, new: NewModule, source: ModuleSource, local: tuple[Path, ...] = ()
) -> tuple[Module, StoredModuleVersion]:
    """Creates a module with its first version, which waits for its build. `local` are folders from which all users may
    build."""
    source = validate_source(source)
    _check_local(actor, source, local)
    module = insert_module(connection, actor, new)
    return _added(connection, actor, module, source)


def edit_module(
    connection: Connection,
    actor: Actor,
    identifier: str,
    changes: Mapping[str, Any],
    *,
    revision: int | None = None,
    local: tuple[Path, ...] = (),
) -> tuple[Module, StoredModuleVersion | None]:
    """Description, category and team are changed in place; any other change creates a new version, which is built."""
    module = get_module(connection, actor, identifier)
    require(actor, "edit", module.subject, module.name)
    PreconditionFailedProblem.check("module", module.name, module.revision, revision)
    edit_module_row(connection, actor, module, changes)
    base = find_version(connection, actor, module, LATEST).source
    written = {name: changes[name] for name in SOURCE_FIELDS if name in changes}
    source = validate_source(with_previous_secrets(replace(base, **written), base))
    if source == base:
        return get_module(connection, actor, module.id), None
    if source.git_url != base.git_url:
        _check_local(actor, source, local)
    return _added(connection, actor, module, source)


def build_again(
    connection: Connection, actor: Actor, identifier: str, revision: int | None = None
) -> tuple[Module, StoredModuleVersion]:
    """Creates a new version of the current state of the branch or tag."""
    module = get_module(connection, actor, identifier)
    require(actor, "edit", module.subject, module.name)
    PreconditionFailedProblem.check("module", module.name, module.revision, revision)
    return _added(connection, actor, module, find_version(connection, actor, module, LATEST).source)


def find_version(connection: Connection, actor: Actor, module: Module, word: str) -> StoredModuleVersion:
    """Finds a version by number or id, or `latest`, the newest one that the actor may see. It includes secrets: see
    `seen_by`."""
    query = _VERSIONS.where(module_versions.c.module_id == module.id)
    if not may(actor, "inspect", module.subject):
        query = query.where(module_versions.c.state.in_(PUBLIC))
    if word == LATEST:
        query = query.order_by(module_versions.c.number.desc()).limit(1)
    elif word.isdecimal() and len(word) < 10:
        query = query.where(module_versions.c.number == int(word))
    else:
        query = query.where(module_versions.c.id == word)
    row = connection.execute(query).first()
    if row is None:
        raise NotFoundProblem.of("module.no-version", module=module.name, name=word)
    return read_version(connection, row)


def list_versions(
    connection: Connection, actor: Actor, module: Module, wanted: PageRequest, state: str = ""
) -> Page[StoredModuleVersion]:
    query = _VERSIONS.where(module_versions.c.module_id == module.id)
    if not may(actor, "inspect", module.subject):
        query = query.where(module_versions.c.state.in_(PUBLIC))
    if state:
        query = query.where(module_versions.c.state == state)
    sortable = {"number": module_versions.c.number, "state": module_versions.c.state}
    page = select_page(connection, query, wanted, key=module_versions.c.id, sortable=sortable, usual="-number")
    return page.map(lambda row: read_version(connection, row).seen_by(actor, module))


def readme_of(connection: Connection, version: StoredModuleVersion) -> str:
    """Markdown as the author wrote it. A page that shows it must remove scripts."""
    text: str = connection.execute(
        select(module_versions.c.readme).where(module_versions.c.id == version.id)
    ).scalar_one()
    return text


_RULES: Mapping[Step, str] = {"stop": "edit", "retry": "edit", "deprecate": "deprecate", "restore": "deprecate"}


def take_step(
    connection: Connection, actor: Actor, module: Module, version: StoredModuleVersion, step: Step
) -> StoredModuleVersion:
    """stop, retry, deprecate or restore."""
    require(actor, _RULES[step], module.subject, module.name)
    more: dict[str, Any] = {}
    if step == "stop":
        more = {"reason": f"{actor.name} stopped it"}
    elif step == "retry":
        # Nothing was built from the commit, and the branch may have been fixed.
        more = {"reason": "", "git_commit": "", "interruptions": 0}
    advance(connection, version, step, version_label(module, version), **more)
    write_audit(connection, actor, step, "module", module.id, version_label(module, version))
    return find_version(connection, actor, module, version.id)


def advance(connection: Connection, version: StoredModuleVersion, step: Step, name: str, **values: Any) -> None:
    """Raises Conflict if the version is in no state for it."""
    state = next_state(version.state, step, name)
    connection.execute(
        update(module_versions)
        .where(module_versions.c.id == version.id)
        .values(state=state, updated=now(), revision=version.revision + 1, **values)
    )
    refresh(connection, version.module_id)


def version_label(module: Module, version: StoredModuleVersion) -> str:
    return f"{module.name} {version.number}"


def _added(
    connection: Connection, actor: Actor, module: Module, source: ModuleSource
) -> tuple[Module, StoredModuleVersion]:
    moment, identifier, number = now(), new_id(), module.versions + 1
    check_budget(connection, "module_versions", module.versions, "versions")
    keys = keys_of(connection)
    connection.execute(
        insert(module_versions).values(
            id=identifier,
            module_id=module.id,
            number=number,
            author_id=actor.id,
            git_url=seal_url(keys, source.git_url, identifier),
            git_ref=source.git_ref,
            dockerfile=source.dockerfile,
            build_dir=source.build_dir,
            readme_path=source.readme_path,
            env=seal_env(keys, [variable._asdict() for variable in source.env], env_place(identifier)),
            inputs=[{"name": given.name, "description": given.description} for given in source.inputs],
            outputs=[output._asdict() for output in source.outputs],
            state="building",
            reason="",
            attempts=0,
            interruptions=0,
            git_commit="",
            # Names of modules can be reused, and servers may share an engine, so the id makes the image unique. Any Pod
            # can run an image whose name it knows, so that of a version which is not published cannot be guessed.
            image=f"localhost/muster-modules/{module.name}-{module.id[-8:]}:{number}-{token_hex(8)}",
            entrypoint=[],
            working_dir="",
            image_env={},
            folder="",
            size=0,
            readme="",
            created=moment,
            updated=moment,
            revision=1,
        )
    )
    refresh(connection, module.id)
    details = {"number": number, "git_url": without_credentials(source.git_url), "git_ref": source.git_ref}
    write_audit(connection, actor, "build", "module", module.id, f"{module.name} {number}", details)
    module = get_module(connection, actor, module.id)
    return module, find_version(connection, actor, module, identifier)


def _check_local(actor: Actor, source: ModuleSource, local: tuple[Path, ...]) -> None:
    is_admin = actor.admin and "admin" in actor.scopes
    problem = local_problem(read_repository(source.git_url), local, is_admin=is_admin)
    if problem:
        raise InvalidProblem.field("git_url", "source.repository", detail=problem)


VERSION_COLUMNS = [column for column in module_versions.c if column.name not in ("readme", "interruptions")]
_VERSIONS = select(*VERSION_COLUMNS, users.c.name.label("author_name")).join(
    users, users.c.id == module_versions.c.author_id
)


def read_version(connection: Connection, row: AnyRow) -> StoredModuleVersion:
    keys = keys_of(connection)
    source = ModuleSource(
        unseal_url(keys, row.git_url, row.id),
        row.git_ref,
        row.dockerfile,
        row.build_dir,
        row.readme_path,
        tuple(Variable(**variable) for variable in unseal_env(keys, row.env, env_place(row.id))),
        tuple(ModuleInput(**given) for given in row.inputs),
        tuple(Output(**output) for output in row.outputs),
    )
    return as_record(row, StoredModuleVersion, source=source, entrypoint=tuple(row.entrypoint))
