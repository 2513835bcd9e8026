"""Routes of users, teams, API tokens and the audit log."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Query, Response
from pydantic import AwareDatetime, Field

from muster.platform.database.tables import now
from muster.platform.errors import Invalid
from muster.platform.permissions import Actor, may
from muster.platform.records import Scope, TeamRole
from muster.platform.users.accounts import Role, User, UserFilter, create_user, edit_user, get_user, list_users
from muster.platform.users.audit import AuditFilter, list_audit
from muster.platform.users.credentials import check_password, hash_password
from muster.platform.users.links import create_link
from muster.platform.users.teams import (
    Team,
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
from muster.server.platform.rest import ApiModel, IfMatch, PageOf, Paging, RequestBody, Search, etag, page_of
from muster.server.platform.security import Who
from muster.server.platform.services import Here

# Merged from users: Accounts.


users_router = APIRouter(prefix="/users", tags=["users"])


class NewUser(RequestBody):
    name: Annotated[str, Field(max_length=63)]
    display_name: Annotated[str, Field(max_length=200)] = ""
    email: Annotated[str, Field(max_length=200)] = ""
    role: Literal["admin", "member"] = "member"
    password: Annotated[str, Field(max_length=1000)] | None = None
    """If there is none, the answer has a link by which the person chooses one."""


class UserChange(RequestBody):
    display_name: Annotated[str, Field(max_length=200)] = ""
    email: Annotated[str, Field(max_length=200)] = ""
    role: Literal["admin", "member"] = "member"
    disabled: bool = False


class UserAnswer(ApiModel):
    id: str
    name: str
    display_name: str
    role: Role
    disabled: bool
    created: datetime
    revision: int
    email: str | None
    """For admins and for the person themselves, as are the fields below."""
    last_login: datetime | None
    has_password: bool | None
    openid: bool | None

    @classmethod
    def whole(cls, user: User) -> Self:
        return cls._of(user, whole=True)

    @classmethod
    def to(cls, who: Actor, user: User) -> Self:
        return cls._of(user, whole=bool(may(who, "inspect", user.subject)))

    @classmethod
    def _of(cls, user: User, *, whole: bool) -> Self:
        return cls(
            id=user.id,
            name=user.name,
            display_name=user.display_name,
            role=user.role,
            disabled=user.disabled,
            created=user.created,
            revision=user.revision,
            email=user.email if whole else None,
            last_login=user.last_login if whole else None,
            has_password=user.has_password if whole else None,
            openid=bool(user.issuer) if whole else None,
        )


class NewUserAnswer(ApiModel):
    user: UserAnswer
    link: str | None
    """Where the person chooses a password, once."""


class LinkCreated(ApiModel):
    link: str
    """Where the person chooses a password, once."""


@users_router.get("", operation_id="list_users")
async def list_accounts(
    here: Here,
    who: Who,
    paging: Paging,
    q: Search = "",
    role: Annotated[Role | None, Query()] = None,
    team: Annotated[str, Query(description="The id of a team they are in.")] = "",
    disabled: Annotated[bool | None, Query()] = None,
) -> PageOf[UserAnswer]:
    only = UserFilter(q, role, team, disabled)
    page = await here.database.read(lambda connection: list_users(connection, paging, only))
    return page_of(page, lambda user: UserAnswer.to(who, user))


@users_router.post("", status_code=201, operation_id="create_user")
async def create_account(body: NewUser, here: Here, who: Who) -> NewUserAnswer:
    password = None
    if body.password is not None:
        fault = check_password("password", body.password, name=body.name)
        if fault:
            raise Invalid.fields([fault])
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
    link = None if password else await _link(here, who, user.id)
    return NewUserAnswer(user=UserAnswer.to(who, user), link=link)


@users_router.get("/{user_id}", operation_id="get_user")
async def get_account(user_id: str, here: Here, who: Who, response: Response) -> UserAnswer:
    """By id or name."""
    user = await here.database.read(lambda connection: get_user(connection, user_id))
    response.headers["ETag"] = etag(user.id, user.revision)
    return UserAnswer.to(who, user)


@users_router.patch("/{user_id}", operation_id="edit_user")
async def edit_account(
    user_id: str, body: UserChange, here: Here, who: Who, seen: IfMatch, response: Response
) -> UserAnswer:
    """Changes what is written and leaves the rest. Disabling an account ends its sessions and stops its tokens."""
    changes = body.changes()
    if "role" in changes:
        changes["admin"] = changes.pop("role") == "admin"
    user = await here.database.write(lambda connection: edit_user(connection, who, user_id, changes, seen))
    response.headers["ETag"] = etag(user.id, user.revision)
    return UserAnswer.to(who, user)


@users_router.post("/{user_id}/link", operation_id="reset_password")
async def reset_password(user_id: str, here: Here, who: Who) -> LinkCreated:
    """A link by which the person chooses a new password. The old one works until then."""
    return LinkCreated(link=await _link(here, who, user_id))


async def _link(here: Here, who: Actor, user_id: str) -> str:
    secret = await here.database.write(lambda connection: create_link(connection, who, user_id))
    return f"{here.url}/welcome#{secret}"


# Merged from teams: Teams and who is in them.


teams_router = APIRouter(prefix="/teams", tags=["teams"])

_ACTIONS = ("edit", "set members", "leave", "delete")


class NewTeam(RequestBody):
    name: Annotated[str, Field(max_length=63)]
    description: Annotated[str, Field(max_length=2000)] = ""


class TeamChange(RequestBody):
    name: Annotated[str, Field(max_length=63)] = ""
    description: Annotated[str, Field(max_length=2000)] = ""


class MemberChange(RequestBody):
    role: TeamRole = "member"


class TeamAnswer(ApiModel):
    id: str
    name: str
    description: str
    created: datetime
    revision: int
    members: int
    may: list[str]
    """What whoever asks may do with it."""


class TeamMember(ApiModel):
    user_id: str
    name: str
    display_name: str
    role: TeamRole
    since: datetime


@teams_router.get("", operation_id="list_teams")
async def all_teams(
    here: Here,
    who: Who,
    paging: Paging,
    q: Search = "",
    member: Annotated[str, Query(description="The id of a user who is in them.")] = "",
) -> PageOf[TeamAnswer]:
    page = await here.database.read(lambda connection: list_teams(connection, paging, q=q, member=member))
    return page_of(page, lambda team: _answer(team, who))


@teams_router.post("", status_code=201, operation_id="create_team")
async def new_team(body: NewTeam, here: Here, who: Who) -> TeamAnswer:
    team = await here.database.write(lambda connection: create_team(connection, who, body.name, body.description))
    return _answer(team, who)


@teams_router.get("/{team_id}", operation_id="get_team")
async def one_team(team_id: str, here: Here, who: Who, response: Response) -> TeamAnswer:
    """By id or name."""
    team = await here.database.read(lambda connection: get_team(connection, team_id))
    response.headers["ETag"] = etag(team.id, team.revision)
    return _answer(team, who)


@teams_router.patch("/{team_id}", operation_id="edit_team")
async def change_team(
    team_id: str, body: TeamChange, here: Here, who: Who, seen: IfMatch, response: Response
) -> TeamAnswer:
    team = await here.database.write(lambda connection: edit_team(connection, who, team_id, body.changes(), seen))
    response.headers["ETag"] = etag(team.id, team.revision)
    return _answer(team, who)


@teams_router.delete("/{team_id}", status_code=204, operation_id="delete_team")
async def drop_team(team_id: str, here: Here, who: Who) -> None:
    await here.database.write(lambda connection: delete_team(connection, who, team_id))


@teams_router.get("/{team_id}/members", operation_id="list_members")
async def members_of_team(team_id: str, here: Here, who: Who, paging: Paging) -> PageOf[TeamMember]:
    page = await here.database.read(lambda connection: list_members(connection, get_team(connection, team_id), paging))
    return page_of(page, TeamMember.model_validate)


@teams_router.put("/{team_id}/members/{user_id}", status_code=204, operation_id="set_member")
async def put_member(team_id: str, user_id: str, body: MemberChange, here: Here, who: Who) -> None:
    """Joins the user to the team, or changes what they are in it. Both by id or name."""
    await here.database.write(lambda connection: set_member(connection, who, team_id, user_id, body.role))


@teams_router.delete("/{team_id}/members/{user_id}", status_code=204, operation_id="remove_member")
async def drop_member(team_id: str, user_id: str, here: Here, who: Who) -> None:
    await here.database.write(lambda connection: remove_member(connection, who, team_id, user_id))


def _answer(team: Team, who: Actor) -> TeamAnswer:
    own = {name: getattr(team, name) for name in TeamAnswer.model_fields if name != "may"}
    return TeamAnswer(**own, may=[action for action in _ACTIONS if may(who, action, team.subject)])


# Merged from tokens: API tokens.


tokens_router = APIRouter(prefix="/tokens", tags=["tokens"])


class NewToken(RequestBody):
    name: Annotated[str, Field(min_length=1, max_length=200)]
    scopes: tuple[Literal["read", "write", "admin"], ...] = ("read", "write")
    days: Annotated[float, Field(gt=0, le=3660)] | None = 90
    """How long it lasts; null for ever."""


class TokenAnswer(ApiModel):
    id: str
    user_id: str
    user_name: str
    name: str
    hint: str
    """Its last characters."""
    scopes: list[Scope]
    created: datetime
    last_used: datetime | None
    expires: datetime | None
    revoked: datetime | None


class TokenCreated(ApiModel):
    token: TokenAnswer
    secret: str
    """What to send as `Authorization: Bearer ...`. It is shown here and never again."""


@tokens_router.get("", operation_id="list_tokens")
async def tokens_one_may_see(
    here: Here,
    who: Who,
    paging: Paging,
    q: Search = "",
    user: Annotated[str, Query(description="The id or name of whose tokens are wanted.")] = "",
    all: Annotated[bool, Query(description="Those that were revoked or have expired, too.")] = False,
) -> PageOf[TokenAnswer]:
    """One's own; all for an admin."""
    page = await here.database.read(
        lambda connection: list_tokens(
            connection, who, paging, user=get_user(connection, user).id if user else "", q=q, live=not all
        )
    )
    return page_of(page, TokenAnswer.model_validate)


@tokens_router.post("", status_code=201, operation_id="create_token")
async def new_token(body: NewToken, here: Here, who: Who) -> TokenCreated:
    """For oneself."""
    expires = None if body.days is None else now() + timedelta(days=body.days)
    token, secret = await here.database.write(
        lambda connection: create_token(connection, who, body.name, scopes=body.scopes, expires=expires)
    )
    return TokenCreated(token=TokenAnswer.model_validate(token), secret=secret)


@tokens_router.delete("/{token_id}", operation_id="revoke_token")
async def end_token(token_id: str, here: Here, who: Who) -> TokenAnswer:
    """It opens nothing any more, from now on."""
    token = await here.database.write(lambda connection: revoke_token(connection, who, token_id))
    return TokenAnswer.model_validate(token)


# Merged from audit: What was changed, by whom.


audit_router = APIRouter(prefix="/audit", tags=["audit"])


class AuditAnswer(ApiModel):
    id: str
    at: datetime
    actor_id: str
    actor_name: str
    via: str
    address: str
    action: str
    kind: str
    subject_id: str
    subject_name: str
    details: dict[str, Any]


@audit_router.get("", operation_id="list_audit")
async def read_audit_log(
    here: Here,
    who: Who,
    paging: Paging,
    q: Search = "",
    actor: Annotated[str, Query(description="The id or name of a user.")] = "",
    kind: Annotated[str, Query()] = "",
    subject: Annotated[str, Query(description="The id of what it is about.")] = "",
    action: Annotated[str, Query()] = "",
    since: Annotated[AwareDatetime | None, Query(description="Not before; with its time zone.")] = None,
    until: Annotated[AwareDatetime | None, Query(description="Before; with its time zone.")] = None,
) -> PageOf[AuditAnswer]:
    """Everything for an admin, what one did oneself for others."""
    only = AuditFilter(q, actor, kind, subject, action, since, until)
    page = await here.database.read(lambda connection: list_audit(connection, who, paging, only))
    return page_of(page, AuditAnswer.model_validate)
