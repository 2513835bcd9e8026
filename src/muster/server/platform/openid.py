"""Logging in with an OpenID provider."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from muster.platform.errors import NotFound
from muster.platform.users.openid import Attempt, OpenId, sign_in_user
from muster.server.platform.services import Here, Services
from muster.server.platform.sessions import open_session

router = APIRouter(prefix="/openid", tags=["session"])
open_router = APIRouter(prefix="/openid", tags=["session"])

CALLBACK = "/api/v1/openid/callback"
_COOKIE, _SECONDS = "muster_login", 600


@open_router.get("/login", response_class=RedirectResponse, status_code=302)
async def openid_login(
    here: Here, return_to: Annotated[str, Query(max_length=2000, description="The page to go on to.")] = "/"
) -> Response:
    """Sends the browser to the provider."""
    url, attempt = await _provider(here).begin(return_to)
    response = RedirectResponse(url, 302)
    response.set_cookie(
        _COOKIE,
        attempt.encode(),
        max_age=_SECONDS,
        path=CALLBACK,
        secure=here.url.startswith("https:"),
        httponly=True,
        samesite="lax",
    )
    return response


@open_router.get("/callback", response_class=RedirectResponse, status_code=302)
async def openid_callback(
    here: Here,
    request: Request,
    state: Annotated[str, Query(max_length=2000)] = "",
    code: Annotated[str, Query(max_length=10000)] = "",
    error: Annotated[str, Query(max_length=2000)] = "",
    error_description: Annotated[str, Query(max_length=10000)] = "",
    iss: Annotated[str, Query(max_length=2000)] = "",
    session_state: Annotated[str, Query(max_length=2000)] = "",
    scope: Annotated[str, Query(max_length=2000)] = "",
) -> Response:
    """Where the provider sends it back to."""
    provider = _provider(here)
    attempt = Attempt.decode(request.cookies.get(_COOKIE, ""))
    said = {"state": state, "code": code}
    if error:
        said.update(error=error, error_description=error_description)
    person = await provider.finish(attempt, said)
    user = await here.database.write(
        lambda connection: sign_in_user(connection, person, provider.settings.admin_groups)
    )
    response = RedirectResponse(attempt.return_to, 302)
    await open_session(here, user, request, response, "openid")
    response.delete_cookie(_COOKIE, path=CALLBACK)
    return response


def _provider(here: Services) -> OpenId:
    if here.openid is None:
        raise NotFound("no OpenID provider is set; write one under `oidc` in config.yaml")
    return here.openid
