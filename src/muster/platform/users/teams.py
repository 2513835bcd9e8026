"""Teams, their members and leaders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from sqlalchemy import Connection, delete, func, insert, select, update

from muster.platform.database.queries import (
    AnyRow,
    PageRequest,
    as_record,
    contains_words,
    find_row,
    new_id,
    select_page,
)
from muster.platform.database.tables import memberships, now, teams, users
from muster.platform.errors import (
    ForbiddenProblem,
    InvalidProblem,
    NotFoundProblem,
    PreconditionFailedProblem,
    conflict_on_duplicate,
)
from muster.platform.messages import field_error
from muster.platform.permissions import Actor, require
from muster.platform.records.common import Page, Subject
from muster.platform.records.users import Member, Team, TeamRole
from muster.platform.users.accounts import NAME, get_user
from muster.platform.users.audit import write_audit
from muster.platform.users.namespace_names import add_namespace


def create_team(connection: Connection, actor: Actor, name: str, description: str = "") -> Team:
    require(actor, "create", Subject("team"))
    _check_name(name)
    identifier = new_id()
    with conflict_on_duplicate(field_error("name", "team.taken", name=name)):
        connection.execute(
            insert(teams).values(id=identifier, name=name, description=description, created=now(), revision=1)
        )
    add_namespace(connection, team=identifier, name=name)
    write_audit(connection, actor, "create", "team", identifier, name)
    return get_team(connection, identifier)


def get_team(connection: Connection, id_or_name: str) -> Team:
    row = find_row(connection, _TEAMS, teams, id_or_name)
    if row is None:
        raise NotFoundProblem.named("team", id_or_name)
    return _team(row)


def team_to_share_with(
    connection: Connection, actor: Actor, id_or_name: str, now_with: str | None = None
) -> str | None:
    """The id of the team to share something with: one that the actor is in, or that has it already. '' means none."""
    if not id_or_name:
        return None
    team = get_team(connection, id_or_name)
    is_admin = actor.admin and "admin" in actor.scopes
    if team.id not in actor.teams and team.id != now_with and not is_admin:
        raise ForbiddenProblem.of("team.foreign", name=team.name)
    return team.id


def list_teams(connection: Connection, wanted: PageRequest, *, q: str = "", member: str = "") -> Page[Team]:
    """`member` is the id of a user; only their teams are listed."""
    query = _TEAMS
    if q:
        query = query.where(contains_words(q, teams.c.name, teams.c.description))
    if member:
        query = query.where(teams.c.id.in_(select(memberships.c.team_id).where(memberships.c.user_id == member)))
    sortable = {"name": teams.c.name, "created": teams.c.created}
    return select_page(connection, query, wanted, key=teams.c.id, sortable=sortable, usual="name").map(_team)


def edit_team(
    connection: Connection, actor: Actor, identifier: str, changes: Mapping[str, Any], revision: int | None = None
) -> Team:
    """`changes` may contain name and description. With a `revision`, fails if the team has another one."""
    team = get_team(connection, identifier)
    require(actor, "edit", team.subject, team.name)
    PreconditionFailedProblem.check("team", team.name, team.revision, revision)
    changed = {name: value for name, value in changes.items() if value != getattr(team, name)}
    if not changed:
        return team
    if "name" in changed:
        _check_name(changed["name"])
    with conflict_on_duplicate(field_error("name", "team.taken", name=changed.get("name"))):
        connection.execute(update(teams).where(teams.c.id == team.id).values(**changed, revision=team.revision + 1))
    write_audit(connection, actor, "edit", "team", team.id, team.name, changed)
    return get_team(connection, team.id)


def delete_team(connection: Connection, actor: Actor, identifier: str) -> None:
    """Deletes the team. What was shared with it then belongs to its owners alone."""
    team = get_team(connection, identifier)
    require(actor, "delete", team.subject, team.name)
    with conflict_on_duplicate(field_error("", "team.owns", name=team.name)):
        connection.execute(delete(teams).where(teams.c.id == team.id))
    write_audit(connection, actor, "delete", "team", team.id, team.name)


def list_members(connection: Connection, team: Team, wanted: PageRequest) -> Page[Member]:
    query = (
        select(
            memberships.c.user_id,
            users.c.name,
            users.c.display_name,
            memberships.c.role,
            memberships.c.created.label("since"),
        )
        .join(users, users.c.id == memberships.c.user_id)
        .where(memberships.c.team_id == team.id)
    )
    sortable = {"name": users.c.name, "role": memberships.c.role, "since": memberships.c.created}
    page = select_page(connection, query, wanted, key=users.c.id, sortable=sortable, usual="name")
    return page.map(lambda row: as_record(row, Member))


def set_member(connection: Connection, actor: Actor, team_id: str, user_id: str, role: TeamRole) -> None:
    """Adds the user to the team, or changes their role."""
    team, user = get_team(connection, team_id), get_user(connection, user_id)
    require(actor, "set members", team.subject, team.name)
    which = (memberships.c.team_id == team.id) & (memberships.c.user_id == user.id)
    before = connection.execute(select(memberships.c.role).where(which)).scalar_one_or_none()
    if before == role:
        return
    if before is None:
        connection.execute(insert(memberships).values(team_id=team.id, user_id=user.id, role=role, created=now()))
    else:
        connection.execute(update(memberships).where(which).values(role=role))
    write_audit(connection, actor, "set member", "team", team.id, team.name, {"user": user.name, "role": role})


def remove_member(connection: Connection, actor: Actor, team_id: str, user_id: str) -> None:
    team, user = get_team(connection, team_id), get_user(connection, user_id)
    require(actor, "leave" if user.id == actor.id else "set members", team.subject, team.name)
    gone = connection.execute(
        delete(memberships).where(memberships.c.team_id == team.id, memberships.c.user_id == user.id)
    )
    if not gone.rowcount:
        raise NotFoundProblem.of("team.member", user=user.name, team=team.name)
    write_audit(connection, actor, "remove member", "team", team.id, team.name, {"user": user.name})


def roles_of(connection: Connection, user_id: str) -> dict[str, TeamRole]:
    """By team id."""
    rows = connection.execute(select(memberships.c.team_id, memberships.c.role).where(memberships.c.user_id == user_id))
    return {team: cast(TeamRole, role) for team, role in rows}


_TEAMS = select(
    teams.c.id,
    teams.c.name,
    teams.c.description,
    teams.c.created,
    teams.c.revision,
    select(func.count())
    .select_from(memberships)
    .where(memberships.c.team_id == teams.c.id)
    .correlate(teams)
    .scalar_subquery()
    .label("members"),
)


def _team(row: AnyRow) -> Team:
    return as_record(row, Team, may=[])


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise InvalidProblem.field("name", "team.name", name=name)
