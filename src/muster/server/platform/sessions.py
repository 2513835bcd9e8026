"""Routes to log in and out: passwords, one-time links, OpenID."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from sqlalchemy import Connection
from starlette.responses import RedirectResponse

from muster.platform.errors import (
    InvalidProblem,
    NotFoundProblem,
    TooManyRequestsProblem,
    UnauthenticatedProblem,
    UnavailableProblem,
)
from muster.platform.permissions import Actor
from muster.platform.records.common import Page
from muster.platform.records.users import Me, Session, User
from muster.platform.users.accounts import get_user, password_hash_of, rehash_password, set_password
from muster.platform.users.audit import write_audit
from muster.platform.users.credentials import check_password, csrf_token, hash_password, needs_rehash, verify_password
from muster.platform.users.links import forget_used_link, link_user, use_link
from muster.platform.users.login_limits import (
    DEVICE_LIFETIME,
    Counted,
    LoginPlace,
    find_device,
    find_place,
    network_of,
    remember_device,
)
from muster.platform.users.openid import Attempt, OpenId, sign_in_user
from muster.platform.users.sessions import SESSION_LIFETIME, begin_session, end_session, list_sessions
from muster.server.platform.rest import ApiModel, Paging, RequestBody
from muster.server.platform.security import CSRF_COOKIE, SESSION_COOKIE, Who, client_address
from muster.server.platform.services import OPENID_CALLBACK, Here, Services

DEVICE_COOKIE = "muster_device"
router = APIRouter(tags=["session"])
open_router = APIRouter(tags=["session"])


class Login(RequestBody):
    name: Annotated[str, Field(max_length=200)]
    password: Annotated[str, Field(max_length=1000)]


class LinkSecret(RequestBody):
    secret: Annotated[str, Field(max_length=200)]


class NewPassword(RequestBody):
    secret: Annotated[str, Field(max_length=200)]
    password: Annotated[str, Field(max_length=1000)]


class PasswordChange(RequestBody):
    old: Annotated[str, Field(max_length=1000)]
    new: Annotated[str, Field(max_length=1000)]


class LinkAnswer(ApiModel):
    name: str
    """The account that the password is for."""


class LoginOptions(ApiModel):
    password: bool
    openid: str | None
    """The text of the login button for OpenID, which leads to /api/v1/openid/login; null if there is none."""


@open_router.get("/login-options")
async def login_options(here: Here) -> LoginOptions:
    return LoginOptions(password=True, openid=here.openid.settings.title if here.openid else None)


@open_router.post("/session")
async def log_in(body: Login, request: Request, response: Response, here: Here) -> User:
    """Sets the session cookie, and a CSRF cookie that pages must repeat as the header X-CSRF-Token with every
    change."""
    user = await verify_login(here, request, body.name, body.password)
    await open_session(here, user, request, response, "password")
    return user


async def verify_login(here: Services, request: Request, name: str, password: str) -> User:
    """Returns the user with this name and password. Raises Unauthenticated, or TooManyRequests after too many
    attempts."""
    address, device = client_address(request), request.cookies.get(DEVICE_COOKIE, "")
    network = network_of(address)
    user, stored, place = await here.database.read(lambda connection: _account(connection, name, device, network))
    # Nothing may wait between here and the count: guesses that arrive together are all counted before one is checked.
    counted = _allowed(here.logins.begin(name, place, time.monotonic()))
    is_known = bool(place.device or place.is_known)
    is_right = await verify_password(password, stored, is_known=is_known)
    if not is_right or user is None or user.disabled or _only_openid(here, user):
        if user is not None:
            here.do_later(_record_failure(here, user, address))
        raise UnauthenticatedProblem.of("login.wrong")
    here.logins.succeeded(counted)
    if stored is not None and needs_rehash(stored):
        stronger = await hash_password(password)
        await here.database.write(lambda connection: rehash_password(connection, user, stronger))
    return user


@router.delete("/session", status_code=204)
async def log_out(here: Here, who: Who, response: Response) -> None:
    if who.via != "session":
        raise NotFoundProblem.of("session.none")
    await here.database.write(lambda connection: end_session(connection, who, who.credential))
    for name in (SESSION_COOKIE, CSRF_COOKIE):
        response.delete_cookie(name, path="/")


@router.get("/session")
async def get_session(here: Here, who: Who) -> Me:
    """Returns the current user, their teams and scopes."""
    user = await here.database.read(lambda connection: get_user(connection, who.id))
    return Me(user=user, teams=dict(who.teams), scopes=sorted(who.scopes), via=who.via)


@router.get("/sessions", operation_id="list_sessions")
async def sessions_of_mine(here: Here, who: Who, paging: Paging) -> Page[Session]:
    """Lists your sessions."""
    page = await here.database.read(
        lambda connection: list_sessions(connection, who, get_user(connection, who.id), paging)
    )
    return page.map(lambda session: _session(session, who))


@router.delete("/sessions/{session_id}", status_code=204)
async def end_one_session(session_id: str, here: Here, who: Who) -> None:
    """Ends one of your sessions."""
    await here.database.write(lambda connection: end_session(connection, who, session_id))


@router.post("/password", status_code=204)
async def change_password(body: PasswordChange, here: Here, who: Who) -> None:
    """Changes your password. All your other sessions end."""
    if who.via != "session":
        raise UnauthenticatedProblem.of("password.session")
    counted = _allowed(here.logins.begin_password_change(who.credential, time.monotonic()))
    user, stored = await here.database.read(
        lambda connection: (get_user(connection, who.id), password_hash_of(connection, who.id))
    )
    if not await verify_password(body.old, stored):
        raise InvalidProblem.field("old", "password.wrong")
    here.logins.succeeded(counted)
    _check("new", body.new, user.name)
    new = await hash_password(body.new)
    await here.database.write(lambda connection: set_password(connection, who, user, new, keep_session=who.credential))


@open_router.post("/link")
async def look_at_link(body: LinkSecret, request: Request, here: Here) -> LinkAnswer:
    """Returns the account that a one-time link is for."""
    user = await _user_of_link(here, request, body.secret)
    return LinkAnswer(name=user.name)


@open_router.post("/link/use")
async def use_one_time_link(body: NewPassword, request: Request, response: Response, here: Here) -> User:
    """Sets the password and logs in. The link cannot be used again."""
    user = await _user_of_link(here, request, body.secret)
    _check("password", body.password, user.name)
    chosen = await hash_password(body.password)
    address = client_address(request)
    user = await here.database.write(lambda connection: use_link(connection, body.secret, chosen, address))
    await here.database.read(lambda connection: forget_used_link(connection, here.folder))
    await open_session(here, user, request, response, "link")
    return user


async def open_session(here: Services, user: User, request: Request, response: Response, how: str) -> None:
    """Sets the cookies. The session is always a new one, so that a prepared session cannot be taken over."""
    address, browser = client_address(request), request.headers.get("user-agent", "")
    known = request.cookies.get(DEVICE_COOKIE, "")

    def begin(connection: Connection) -> tuple[str, str]:
        secret = begin_session(connection, user, address, browser, how)
        return secret, remember_device(connection, user.id, known, network_of(address))

    secret, device = await here.database.write(begin)
    secure, seconds = here.url.startswith("https:"), int(SESSION_LIFETIME.total_seconds())
    response.set_cookie(SESSION_COOKIE, secret, max_age=seconds, path="/", secure=secure, httponly=True, samesite="lax")
    response.set_cookie(
        CSRF_COOKIE, csrf_token(secret), max_age=seconds, path="/", secure=secure, httponly=False, samesite="lax"
    )
    seconds = int(DEVICE_LIFETIME.total_seconds())
    response.set_cookie(
        DEVICE_COOKIE, device, max_age=seconds, path="/api/v1", secure=secure, httponly=True, samesite="lax"
    )


def _session(session: Session, who: Actor) -> Session:
    return replace(session, current=who.via == "session" and session.id == who.credential)


def _account(
    connection: Connection, name: str, device: str, network: str
) -> tuple[User | None, str | None, LoginPlace]:
    """The account, its password's hash, and whether the place is known. An unknown account takes the same queries."""
    try:
        user = get_user(connection, name)
    except NotFoundProblem:
        user = None
    if user is None or user.name != name:
        return None, password_hash_of(connection, ""), find_place(connection, "", device, network)
    return user, password_hash_of(connection, user.id), find_place(connection, user.id, device, network)


def _allowed(counted: Counted | float) -> Counted:
    if isinstance(counted, Counted):
        return counted
    seconds = int(counted) + 1
    raise TooManyRequestsProblem.of("login.often", seconds=seconds).with_headers({"Retry-After": str(seconds)})


def _only_openid(here: Services, user: User) -> bool:
    """Users of the provider log in there: a password would let them in after the provider has removed them."""
    return bool(user.openid) and here.openid is not None


async def _record_failure(here: Services, user: User, address: str) -> None:
    actor = Actor(user.id, user.name, address=address)
    await here.database.write(
        lambda connection: write_audit(connection, actor, "fail to log in", "user", user.id, user.name)
    )


async def _user_of_link(here: Services, request: Request, secret: str) -> User:
    counted = _allowed(here.logins.begin_secret("link", network_of(client_address(request)), time.monotonic()))
    user = await here.database.read(lambda connection: link_user(connection, secret))
    if _only_openid(here, user):
        raise NotFoundProblem.of("link.gone")
    here.logins.succeeded(counted)
    return user


def _check(field: str, password: str, name: str) -> None:
    wrong = check_password(field, password, name=name)
    if wrong:
        raise InvalidProblem.fields([wrong])


openid_router = APIRouter(prefix="/openid", tags=["session"])

_LOGIN_COOKIE, _LOGIN_SECONDS = "muster_login", 600


@openid_router.get("/login", response_class=RedirectResponse, status_code=302)
async def openid_login(
    here: Here, return_to: Annotated[str, Query(max_length=2000, description="The page to open after the login.")] = "/"
) -> Response:
    """Redirects the browser to the provider."""
    url, attempt = await _provider(here).begin(return_to)
    response = RedirectResponse(url, 302)
    response.set_cookie(
        _LOGIN_COOKIE,
        attempt.encode(),
        max_age=_LOGIN_SECONDS,
        path=OPENID_CALLBACK,
        secure=here.url.startswith("https:"),
        httponly=True,
        samesite="lax",
    )
    return response


@openid_router.get("/callback", response_class=RedirectResponse, status_code=302)
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
    """The provider redirects the browser here."""
    provider = _provider(here)
    attempt = Attempt.decode(request.cookies.get(_LOGIN_COOKIE, ""))
    said = {"state": state, "code": code, "iss": iss}
    cookie = request.cookies.get(DEVICE_COOKIE, "")
    device = await here.database.read(lambda connection: find_device(connection, cookie))
    counted = _allowed(here.logins.begin_openid(network_of(client_address(request)), device, time.monotonic()))
    if error:
        said.update(error=error, error_description=error_description)
    person = await provider.finish(attempt, said)
    user = await here.database.write(
        lambda connection: sign_in_user(connection, person, provider.settings.admin_groups)
    )
    with suppress(UnavailableProblem):  # it is tried again
        await here.namespaces.sync()  # the groups may have made the user an admin, or no longer
    here.logins.succeeded(counted)
    response = RedirectResponse(attempt.return_to, 302)
    await open_session(here, user, request, response, "openid")
    response.delete_cookie(_LOGIN_COOKIE, path=OPENID_CALLBACK)
    return response


def _provider(here: Services) -> OpenId:
    if here.openid is None:
        raise NotFoundProblem.of("openid.none")
    return here.openid
