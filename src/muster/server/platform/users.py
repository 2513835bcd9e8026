"""Routes of users, teams, API tokens and the audit log."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from pydantic import AwareDatetime, Field

from muster.platform.database.tables import now
from muster.platform.errors import ConflictProblem, InvalidProblem
from muster.platform.permissions import Actor, may
from muster.platform.records.common import Page
from muster.platform.records.users import ApiToken, AuditEntry, Member, Role, Team, TeamRole, User
from muster.platform.users.accounts import UserFilter, create_user, edit_user, get_user, list_users
from muster.platform.users.audit import AuditFilter, list_audit
from muster.platform.users.credentials import check_password, hash_password
from muster.platform.users.links import create_link
from muster.platform.users.teams import (
    create_team,
    delete_team,
    edit_team,
    get_team,
    list_members,
    list_teams,
    remove_member,
    set_member,
)
from muster.platform.users.tokens import create_token, list_tokens, revoke_token
from muster.server.platform.rest import ApiModel, IfMatch, Paging, RequestBody, Search, etag
from muster.server.platform.security import Who
from muster.server.platform.services import Here

users_router = APIRouter(prefix="/users", tags=["users"])


class NewUser(RequestBody):
    name: Annotated[str, Field(max_length=63)]
    display_name: Annotated[str, Field(max_length=200)] = ""
    email: Annotated[str, Field(max_length=200)] = ""
    role: Literal["admin", "member"] = "member"
    password: Annotated[str, Field(max_length=1000)] | None = None
    """If it is missing, the response has a link to choose one."""


class UserChange(RequestBody):
    display_name: Annotated[str, Field(max_length=200)] = ""
    email: Annotated[str, Field(max_length=200)] = ""
    role: Literal["admin", "member"] = "member"
    disabled: bool = False


class NewUserAnswer(ApiModel):
    user: User
    link: str | None
    """A one-time link to choose a password."""


class LinkCreated(ApiModel):
    link: str
    """A one-time link to choose a password."""


def visible_user(user: User, who: Actor) -> User:
    """The account as `who` may see it: some fields are only for admins and the user themselves."""
    if may(who, "inspect", user.subject):
        return user
    return replace(user, email=None, last_login=None, has_password=None, openid=None)


@users_router.get("", operation_id="list_users")
async def list_accounts(
    here: Here,
    who: Who,
    paging: Paging,
    q: Search = "",
    role: Annotated[Role | None, Query()] = None,
    team: Annotated[str, Query(description="The id of their team.")] = "",
    disabled: Annotated[bool | None, Query()] = None,
) -> Page[User]:
    only = UserFilter(q, role, team, disabled)
    page = await here.database.read(lambda connection: list_users(connection, paging, only))
    return page.map(lambda user: visible_user(user, who))


@users_router.post("", status_code=201, operation_id="create_user")
async def create_account(body: NewUser, here: Here, who: Who) -> NewUserAnswer:
    password = None
    if body.password is not None:
        fault = check_password("password", body.password, name=body.name)
        if fault:
            raise InvalidProblem.fields([fault])
        password = await hash_password(body.password)
    user = await here.database.write(
        lambda connection: create_user(
            connection,
            who,
            body.name,
            display_name=body.display_name,
            email=body.email,
            admin=body.role == "admin",
            password_hash=password,
        )
    )
    await here.namespaces.sync()
    link = None if password else await _link(here, who, user.id)
    return NewUserAnswer(user=visible_user(user, who), link=link)


@users_router.get("/{user_id}", operation_id="get_user")
async def get_account(user_id: str, here: Here, who: Who, response: Response) -> User:
    """By id or name."""
    user = await here.database.read(lambda connection: get_user(connection, user_id))
    response.headers["ETag"] = etag(user.id, user.revision)
    return visible_user(user, who)


@users_router.patch("/{user_id}", operation_id="edit_user")
async def edit_account(user_id: str, body: UserChange, here: Here, who: Who, seen: IfMatch, response: Response) -> User:
    """Changes the fields that are set. A new role ends the sessions of the account; disabling it stops its tokens,
    too."""
    changes = body.changes()
    if "role" in changes:
        changes["admin"] = changes.pop("role") == "admin"
    user = await here.database.write(lambda connection: edit_user(connection, who, user_id, changes, seen))
    if "admin" in changes:
        await here.namespaces.sync(user.id)  # what the account may do on the cluster follows before the answer
    response.headers["ETag"] = etag(user.id, user.revision)
    return visible_user(user, who)


@users_router.post("/{user_id}/link", operation_id="reset_password")
async def reset_password(user_id: str, here: Here, who: Who) -> LinkCreated:
    """Creates a link to choose a new password. The old one works until then. Users of an OpenID provider have none."""
    user = await here.database.read(lambda connection: get_user(connection, user_id))
    if user.openid and here.openid is not None:
        raise ConflictProblem.of("user.openid", name=user.name)
    return LinkCreated(link=await _link(here, who, user_id))


async def _link(here: Here, who: Actor, user_id: str) -> str:
    secret = await here.database.write(lambda connection: create_link(connection, who, user_id))
    return f"{here.url}/welcome#{secret}"


teams_router = APIRouter(prefix="/teams", tags=["teams"])

_TEAM_ACTIONS = ("edit", "set members", "leave", "delete")


class NewTeam(RequestBody):
    name: Annotated[str, Field(max_length=63)]
    description: Annotated[str, Field(max_length=2000)] = ""


class TeamChange(RequestBody):
    name: Annotated[str, Field(max_length=63)] = ""
    description: Annotated[str, Field(max_length=2000)] = ""


class MemberChange(RequestBody):
    role: TeamRole = "member"


@teams_router.get("", operation_id="list_teams")
async def all_teams(
    here: Here,
    who: Who,
    paging: Paging,
    q: Search = "",
    member: Annotated[str, Query(description="The id of a member.")] = "",
) -> Page[Team]:
    page = await here.database.read(lambda connection: list_teams(connection, paging, q=q, member=member))
    return page.map(lambda team: _visible_team(team, who))


@teams_router.post("", status_code=201, operation_id="create_team")
async def new_team(body: NewTeam, here: Here, who: Who) -> Team:
    team = await here.database.write(lambda connection: create_team(connection, who, body.name, body.description))
    await here.namespaces.sync()
    return _visible_team(team, who)


@teams_router.get("/{team_id}", operation_id="get_team")
async def one_team(team_id: str, here: Here, who: Who, response: Response) -> Team:
    """By id or name."""
    team = await here.database.read(lambda connection: get_team(connection, team_id))
    response.headers["ETag"] = etag(team.id, team.revision)
    return _visible_team(team, who)


@teams_router.patch("/{team_id}", operation_id="edit_team")
async def change_team(team_id: str, body: TeamChange, here: Here, who: Who, seen: IfMatch, response: Response) -> Team:
    team = await here.database.write(lambda connection: edit_team(connection, who, team_id, body.changes(), seen))
    response.headers["ETag"] = etag(team.id, team.revision)
    return _visible_team(team, who)


@teams_router.delete("/{team_id}", status_code=204, operation_id="delete_team")
async def drop_team(team_id: str, here: Here, who: Who) -> None:
    await here.database.write(lambda connection: delete_team(connection, who, team_id))
    await here.namespaces.sync()


@teams_router.get("/{team_id}/members", operation_id="list_members")
async def members_of_team(team_id: str, here: Here, who: Who, paging: Paging) -> Page[Member]:
    return await here.database.read(lambda connection: list_members(connection, get_team(connection, team_id), paging))


@teams_router.put("/{team_id}/members/{user_id}", status_code=204, operation_id="set_member")
async def put_member(team_id: str, user_id: str, body: MemberChange, here: Here, who: Who) -> None:
    """Adds the user to the team, or changes their role. Both by id or name."""
    await here.database.write(lambda connection: set_member(connection, who, team_id, user_id, body.role))
    await here.namespaces.sync()


@teams_router.delete("/{team_id}/members/{user_id}", status_code=204, operation_id="remove_member")
async def drop_member(team_id: str, user_id: str, here: Here, who: Who) -> None:
    await here.database.write(lambda connection: remove_member(connection, who, team_id, user_id))
    await here.namespaces.sync()


def _visible_team(team: Team, who: Actor) -> Team:
    return replace(team, may=[action for action in _TEAM_ACTIONS if may(who, action, team.subject)])


tokens_router = APIRouter(prefix="/tokens", tags=["tokens"])


class NewToken(RequestBody):
    name: Annotated[str, Field(min_length=1, max_length=200)]
    scopes: tuple[Literal["read", "write", "admin"], ...] = ("read", "write")
    days: Annotated[float, Field(gt=0, le=3660)] | None = 90
    """The lifetime; null for no limit."""


class TokenCreated(ApiModel):
    token: ApiToken
    secret: str
    """The secret to send as `Authorization: Bearer ...`. It is shown only here."""


@tokens_router.get("", operation_id="list_tokens")
async def tokens_one_may_see(
    here: Here,
    who: Who,
    paging: Paging,
    q: Search = "",
    user: Annotated[str, Query(description="The id or name of a user.")] = "",
    all: Annotated[bool, Query(description="Include revoked and expired ones.")] = False,
) -> Page[ApiToken]:
    """Lists your tokens; all tokens for admins."""
    return await here.database.read(
        lambda connection: list_tokens(
            connection, who, paging, user=get_user(connection, user).id if user else "", q=q, live=not all
        )
    )


@tokens_router.post("", status_code=201, operation_id="create_token")
async def new_token(body: NewToken, here: Here, who: Who) -> TokenCreated:
    """Creates a token for yourself."""
    expires = None if body.days is None else now() + timedelta(days=body.days)
    token, secret = await here.database.write(
        lambda connection: create_token(connection, who, body.name, scopes=body.scopes, expires=expires)
    )
    return TokenCreated(token=token, secret=secret)


@tokens_router.delete("/{token_id}", operation_id="revoke_token")
async def end_token(token_id: str, here: Here, who: Who) -> ApiToken:
    """Revokes a token. It is invalid from now on."""
    return await here.database.write(lambda connection: revoke_token(connection, who, token_id))


audit_router = APIRouter(prefix="/audit", tags=["audit"])


@audit_router.get("", operation_id="list_audit")
async def read_audit_log(
    here: Here,
    who: Who,
    paging: Paging,
    q: Search = "",
    actor: Annotated[str, Query(description="The id or name of a user.")] = "",
    kind: Annotated[str, Query()] = "",
    subject: Annotated[str, Query(description="The id of the subject.")] = "",
    action: Annotated[str, Query()] = "",
    since: Annotated[AwareDatetime | None, Query(description="At this time or later, with a time zone.")] = None,
    until: Annotated[AwareDatetime | None, Query(description="Before this time, with a time zone.")] = None,
) -> Page[AuditEntry]:
    """Lists all entries for admins, your own for other users."""
    only = AuditFilter(q, actor, kind, subject, action, since, until)
    return await here.database.read(lambda connection: list_audit(connection, who, paging, only))
