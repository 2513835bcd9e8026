"""API tokens."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from muster.platform.database.tables import now
from muster.platform.permissions import Scope
from muster.platform.users.accounts import get_user
from muster.platform.users.tokens import create_token, list_tokens, revoke_token
from muster.server.platform.rest import Answer, Body, PageOf, Paging, Search, page_of
from muster.server.platform.security import Who
from muster.server.platform.services import Here

router = APIRouter(prefix="/tokens", tags=["tokens"])


class NewToken(Body):
    name: Annotated[str, Field(min_length=1, max_length=200)]
    scopes: tuple[Literal["read", "write", "admin"], ...] = ("read", "write")
    days: Annotated[float, Field(gt=0, le=3660)] | None = 90
    """How long it lasts; null for ever."""


class TokenAnswer(Answer):
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


class TokenCreated(Answer):
    token: TokenAnswer
    secret: str
    """What to send as `Authorization: Bearer ...`. It is shown here and never again."""


@router.get("", operation_id="list_tokens")
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


@router.post("", status_code=201, operation_id="create_token")
async def new_token(body: NewToken, here: Here, who: Who) -> TokenCreated:
    """For oneself."""
    expires = None if body.days is None else now() + timedelta(days=body.days)
    token, secret = await here.database.write(
        lambda connection: create_token(connection, who, body.name, scopes=body.scopes, expires=expires)
    )
    return TokenCreated(token=TokenAnswer.model_validate(token), secret=secret)


@router.delete("/{token_id}", operation_id="revoke_token")
async def end_token(token_id: str, here: Here, who: Who) -> TokenAnswer:
    """It opens nothing any more, from now on."""
    token = await here.database.write(lambda connection: revoke_token(connection, who, token_id))
    return TokenAnswer.model_validate(token)
