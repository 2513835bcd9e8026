"""What the database knows of builds. Whoever begins one gets a number; how it ended is written down only by the latest,
and only once: a build that was believed dead can finish as often as it likes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sqlalchemy import Connection, select, update

from muster.platform.database.tables import module_versions, modules, now
from muster.platform.modules.building import BuildRequest, Built
from muster.platform.modules.modules import State, next_state, refresh
from muster.platform.permissions import SYSTEM
from muster.platform.users.audit import write_audit

MOST_INTERRUPTIONS = 3


class Claim(NamedTuple):
    module_id: str
    number: int
    attempt: int
    order: BuildRequest


def waiting(connection: Connection) -> list[str]:
    """The versions that are to be built, the oldest first."""
    query = select(module_versions.c.id).where(module_versions.c.state == "building").order_by(module_versions.c.id)
    return list(connection.execute(query).scalars())


def resume(connection: Connection, was_put_off: Callable[[str, int], bool]) -> list[str]:
    """When a server starts: those whose build it, or the one before, had begun. They are begun again, unless the server
    has ended too often meanwhile; what it has put off (by module and number) because it was to end does not count."""
    begun = connection.execute(
        select(module_versions).where(module_versions.c.state == "building", module_versions.c.attempts > 0)
    ).all()
    for row in begun:
        if was_put_off(row.module_id, row.number):
            continue
        connection.execute(
            update(module_versions)
            .where(module_versions.c.id == row.id)
            .values(interruptions=row.interruptions + 1, attempts=row.attempts + 1)
        )
        if row.interruptions + 1 > MOST_INTERRUPTIONS:
            told = f"the server ended {row.interruptions + 1} times during this build; is there enough memory for it?"
            fail(connection, row.id, row.attempts + 1, told)
    return [row.id for row in begun]


def claim(connection: Connection, version_id: str) -> Claim | None:
    """None if there is nothing to build (any more)."""
    row = connection.execute(
        select(module_versions, modules.c.name.label("module_name"))
        .join(modules, modules.c.id == module_versions.c.module_id)
        .where(module_versions.c.id == version_id, module_versions.c.state == "building")
    ).first()
    if row is None:
        return None
    connection.execute(
        update(module_versions).where(module_versions.c.id == version_id).values(attempts=row.attempts + 1)
    )
    secrets = tuple(variable["value"] for variable in row.env if variable["secret"])
    order = BuildRequest(
        row.id, row.git_url, row.git_ref, row.git_commit, row.dockerfile, row.build_dir, row.readme_path, row.image,
        secrets,
    )  # fmt: skip
    return Claim(row.module_id, row.number, row.attempts + 1, order)


def pin(connection: Connection, version_id: str, attempt: int, commit: str) -> None:
    connection.execute(
        update(module_versions)
        .where(module_versions.c.id == version_id, module_versions.c.attempts == attempt)
        .values(git_commit=commit)
    )


def finish(connection: Connection, version_id: str, attempt: int, built: Built) -> bool:
    """Whether it counts."""
    return _end(
        connection, version_id, attempt, "built",
        reason="", git_commit=built.commit, entrypoint=list(built.entrypoint), working_dir=built.working_dir,
        image_env=built.env, folder=built.folder, size=built.size, readme=built.readme, built=now(),
    )  # fmt: skip


def fail(connection: Connection, version_id: str, attempt: int, reason: str) -> bool:
    return _end(connection, version_id, attempt, "fail", reason=reason)


def state_of(connection: Connection, version_id: str) -> State | None:
    found: State | None = connection.execute(
        select(module_versions.c.state).where(module_versions.c.id == version_id)
    ).scalar()
    return found


def known_versions(connection: Connection) -> set[tuple[str, int]]:
    """By module and number, all there are."""
    return {tuple(row) for row in connection.execute(select(module_versions.c.module_id, module_versions.c.number))}


def _end(connection: Connection, version_id: str, attempt: int, step: str, **values: object) -> bool:
    row = connection.execute(
        select(module_versions, modules.c.name.label("module_name"))
        .join(modules, modules.c.id == module_versions.c.module_id)
        .where(
            module_versions.c.id == version_id,
            module_versions.c.state == "building",
            module_versions.c.attempts == attempt,
        )
    ).first()
    if row is None:
        return False
    name = f"{row.module_name} {row.number}"
    state = next_state("building", "built" if step == "built" else "fail", name)
    connection.execute(
        update(module_versions)
        .where(module_versions.c.id == version_id)
        .values(state=state, updated=now(), revision=row.revision + 1, **values)
    )
    refresh(connection, row.module_id)
    details = {name: values[name] for name in ("git_commit", "reason") if values.get(name)}
    write_audit(
        connection, SYSTEM, "built" if step == "built" else "build failed", "module", row.module_id, name, details
    )
    return True
