"""Every route asks who you are. `Who` in its signature tells it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from muster.platform.errors import Forbidden, Unauthenticated
from muster.platform.rules import Actor
from muster.platform.users.credentials import csrf_token, same
from muster.server.platform.state import platform_of

SESSION_COOKIE, CSRF_COOKIE, CSRF_HEADER = "muster_session", "muster_csrf", "x-csrf-token"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


async def identify(request: Request) -> Actor:
    """By the token in the Authorization header, else by the session's cookie. Raises Unauthenticated, Forbidden."""
    known: Actor | None = getattr(request.state, "actor", None)
    if known is None:
        known = request.state.actor = await whoever_asks(request)
    return known


async def whoever_asks(request: Request) -> Actor:
    """The same, looked up again: a stream that goes on for long asks now and then."""
    header = request.headers.get("authorization")
    if header is not None:
        return await _by_token(request, header)
    secret = request.cookies.get(SESSION_COOKIE)
    if not secret:
        raise _unauthenticated("log in, or send an API token as `Authorization: Bearer mst_...`")
    if request.method not in SAFE and not same(request.headers.get(CSRF_HEADER, ""), csrf_token(secret)):
        raise Forbidden(f"a page has to send the value of its cookie {CSRF_COOKIE} as the header {CSRF_HEADER}")
    actor = await platform_of(request).identities.of_session(secret, address_of(request))
    if actor is None:
        raise _unauthenticated("this session is over; log in again")
    return actor


def address_of(request: Request) -> str:
    return request.client.host if request.client else ""


async def _by_token(request: Request, header: str) -> Actor:
    scheme, _, secret = header.partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise _unauthenticated("write `Authorization: Bearer mst_...`")
    actor = await platform_of(request).identities.of_token(secret.strip(), address_of(request))
    if actor is None:
        raise _unauthenticated("this token is not known, was revoked, or has expired")
    return actor


def _unauthenticated(detail: str) -> Unauthenticated:
    return Unauthenticated(detail, headers={"WWW-Authenticate": "Bearer"})


Who = Annotated[Actor, Depends(identify)]
