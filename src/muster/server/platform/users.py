"""Accounts."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, Self

from fastapi import APIRouter, Query, Response
from pydantic import Field

from muster.platform.errors import Invalid
from muster.platform.permissions import Actor, may
from muster.platform.users.accounts import Role, User, UserFilter, create_user, edit_user, get_user, list_users
from muster.platform.users.credentials import check_password, hash_password
from muster.platform.users.links import create_link
from muster.server.platform.rest import Answer, Body, IfMatch, PageOf, Paging, Search, etag, page_of
from muster.server.platform.security import Who
from muster.server.platform.services import Here

router = APIRouter(prefix="/users", tags=["users"])


class NewUser(Body):
    name: Annotated[str, Field(max_length=63)]
    display_name: Annotated[str, Field(max_length=200)] = ""
    email: Annotated[str, Field(max_length=200)] = ""
    role: Literal["admin", "member"] = "member"
    password: Annotated[str, Field(max_length=1000)] | None = None
    """If there is none, the answer has a link by which the person chooses one."""


class UserChange(Body):
    display_name: Annotated[str, Field(max_length=200)] = ""
    email: Annotated[str, Field(max_length=200)] = ""
    role: Literal["admin", "member"] = "member"
    disabled: bool = False


class UserAnswer(Answer):
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


class NewUserAnswer(Answer):
    user: UserAnswer
    link: str | None
    """Where the person chooses a password, once."""


class LinkCreated(Answer):
    link: str
    """Where the person chooses a password, once."""


@router.get("", operation_id="list_users")
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


@router.post("", status_code=201, operation_id="create_user")
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


@router.get("/{user_id}", operation_id="get_user")
async def get_account(user_id: str, here: Here, who: Who, response: Response) -> UserAnswer:
    """By id or name."""
    user = await here.database.read(lambda connection: get_user(connection, user_id))
    response.headers["ETag"] = etag(user.id, user.revision)
    return UserAnswer.to(who, user)


@router.patch("/{user_id}", operation_id="edit_user")
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


@router.post("/{user_id}/link", operation_id="reset_password")
async def reset_password(user_id: str, here: Here, who: Who) -> LinkCreated:
    """A link by which the person chooses a new password. The old one works until then."""
    return LinkCreated(link=await _link(here, who, user_id))


async def _link(here: Here, who: Actor, user_id: str) -> str:
    secret = await here.database.write(lambda connection: create_link(connection, who, user_id))
    return f"{here.url}/welcome#{secret}"
