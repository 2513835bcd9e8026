"""Logging in with an OpenID provider: the authorization code flow, with PKCE, state and nonce."""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import aiohttp
import orjson
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from sqlalchemy import Connection, select, update

from muster.platform.database.tables import sessions, users
from muster.platform.errors import ForbiddenProblem, UnauthenticatedProblem, UnavailableProblem
from muster.platform.permissions import SYSTEM
from muster.platform.records.users import User
from muster.platform.settings import OidcSettings
from muster.platform.users.accounts import free_name, get_user, insert_user, names_like
from muster.platform.users.audit import write_audit
from muster.platform.users.credentials import secrets_equal

_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Signatures only: `none` and those that share the client's secret are not among them."""
_LEEWAY_SECONDS = 60
_KNOWN_SECONDS = 3600.0
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One login attempt; the browser keeps it in a cookie."""

    state: str
    nonce: str
    verifier: str
    return_to: str

    def encode(self) -> str:
        said = [self.state, self.nonce, self.verifier, self.return_to]
        return base64.urlsafe_b64encode(orjson.dumps(said)).decode()

    @classmethod
    def decode(cls, text: str) -> Attempt:
        try:
            state, nonce, verifier, return_to = orjson.loads(base64.urlsafe_b64decode(text))
        except (ValueError, TypeError):
            raise UnauthenticatedProblem.of("openid.other") from None
        return cls(str(state), str(nonce), str(verifier), local_path(str(return_to)))


@dataclass(frozen=True, slots=True)
class Person:
    """A user of the provider."""

    issuer: str
    subject: str
    name: str
    display_name: str = ""
    email: str = ""
    groups: tuple[str, ...] = ()


class OpenId:
    """The provider, as its own documents describe it."""

    def __init__(self, settings: OidcSettings, redirect_url: str) -> None:
        self.settings = settings
        self.redirect_url = redirect_url
        self._metadata: tuple[Mapping[str, Any], float] | None = None
        self._keys: KeySet | None = None

    async def begin(self, return_to: str) -> tuple[str, Attempt]:
        """Returns the URL to send the browser to, and the attempt for its cookie."""
        attempt = Attempt(
            secrets.token_urlsafe(32), secrets.token_urlsafe(32), secrets.token_urlsafe(48), local_path(return_to)
        )
        metadata = await self._discover()
        return authorization_url(metadata, self.settings, self.redirect_url, attempt), attempt

    async def finish(self, attempt: Attempt, said: Mapping[str, str]) -> Person:
        """Returns the user, from the parameters that the browser brings back."""
        if not secrets_equal(said.get("state", ""), attempt.state):
            raise UnauthenticatedProblem.of("openid.other")
        if said.get("iss") and said["iss"].rstrip("/") != self.settings.issuer:
            # RFC 9207: the answer of another provider. Its code must not be sent to ours.
            raise UnauthenticatedProblem.of("openid.other")
        if "error" in said or not said.get("code"):
            reason = said.get("error_description") or said.get("error") or "it gave no code"
            raise UnauthenticatedProblem.of("openid.refused", provider=self.settings.title, reason=reason[:300])
        metadata = await self._discover()
        if metadata.get("authorization_response_iss_parameter_supported") is True and not said.get("iss"):
            raise UnauthenticatedProblem.of("openid.other")
        answer = await self._exchange(metadata, said["code"], attempt)
        claims = await self._claims(metadata, str(answer.get("id_token", "")), attempt.nonce)
        return read_person(claims, self.settings)

    async def _exchange(self, metadata: Mapping[str, Any], code: str, attempt: Attempt) -> Mapping[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_url,
            "client_id": self.settings.client_id,
            "code_verifier": attempt.verifier,
        }
        secret = self.settings.secret()
        methods = metadata.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        headers = {}
        if secret and "client_secret_basic" in methods:
            both = f"{quote(self.settings.client_id, safe='')}:{quote(secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(both.encode()).decode()}"
        elif secret:
            form["client_secret"] = secret
        return await self._ask("POST", str(metadata["token_endpoint"]), form, headers)

    async def _claims(self, metadata: Mapping[str, Any], token: str, nonce: str) -> Mapping[str, Any]:
        for fresh in (False, True):
            if self._keys is None or fresh:
                self._keys = KeySet.import_key_set(dict(await self._ask("GET", str(metadata["jwks_uri"]))))  # type: ignore[arg-type]
            try:
                return id_token_claims(token, self._keys, self.settings, nonce, time.time())
            except UnknownKey:
                continue  # the provider may have begun to use a new one
        raise UnauthenticatedProblem.of("openid.key", provider=self.settings.title)

    async def _discover(self) -> Mapping[str, Any]:
        if self._metadata is None or time.monotonic() > self._metadata[1]:
            issuer = self.settings.issuer
            if urlsplit(issuer).scheme != "https" and urlsplit(issuer).hostname not in _LOOPBACK:
                raise UnavailableProblem.of("openid.https", issuer=issuer)
            found = await self._ask("GET", f"{issuer}/.well-known/openid-configuration")
            if str(found.get("issuer", "")).rstrip("/") != issuer:
                raise UnavailableProblem.of("openid.issuer", issuer=issuer, name=str(found.get("issuer")))
            self._metadata = (found, time.monotonic() + _KNOWN_SECONDS)
        return self._metadata[0]

    async def _ask(
        self, method: str, url: str, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> Mapping[str, Any]:
        try:
            timeout, asked = aiohttp.ClientTimeout(total=15), {"Accept": "application/json", **(headers or {})}
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.request(method, url, data=form, headers=asked, allow_redirects=False) as response,
            ):
                answer = orjson.loads(await response.read())
                if response.status == 200 and isinstance(answer, dict):
                    return answer
                said = answer.get("error_description") or answer.get("error") if isinstance(answer, dict) else None
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise UnavailableProblem.of(
                "openid.unreachable", provider=self.settings.title, url=url, error=str(error)
            ) from None
        raise UnauthenticatedProblem.of(
            "openid.refused", provider=self.settings.title, reason=str(said or response.status)
        )


class UnknownKey(Exception):
    """The signature was made with an unknown key."""


def authorization_url(metadata: Mapping[str, Any], settings: OidcSettings, redirect_url: str, attempt: Attempt) -> str:
    challenge = base64.urlsafe_b64encode(hashlib.sha256(attempt.verifier.encode()).digest()).decode().rstrip("=")
    query = {
        "response_type": "code",
        "client_id": settings.client_id,
        "redirect_uri": redirect_url,
        "scope": " ".join(settings.scopes),
        "state": attempt.state,
        "nonce": attempt.nonce,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    endpoint = str(metadata["authorization_endpoint"])
    return f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{urlencode(query)}"


def id_token_claims(token: str, keys: KeySet, settings: OidcSettings, nonce: str, now: float) -> Mapping[str, Any]:
    """Returns the claims after checking that they come from the provider, for this client, now, and for this login."""
    try:
        claims = jwt.decode(token, keys, algorithms=_ALGORITHMS).claims
    except (ValueError, JoseError) as error:
        if _unknown_key(token, keys):
            raise UnknownKey from None
        raise UnauthenticatedProblem.of("openid.token", provider=settings.title, reason=str(error)) from None
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    faults = [
        (str(claims.get("iss", "")).rstrip("/") != settings.issuer, "it is by another issuer"),
        (settings.client_id not in audiences, "it is for another client"),
        (len(audiences) > 1 and claims.get("azp") != settings.client_id, "it is for another client"),
        (not _number(claims.get("exp")) or claims["exp"] + _LEEWAY_SECONDS < now, "it has expired"),
        (not _number(claims.get("iat")) or claims["iat"] - _LEEWAY_SECONDS > now, "it is from the future"),
        (not secrets_equal(str(claims.get("nonce", "")), nonce), "it belongs to another login"),
        (not isinstance(claims.get("sub"), str) or not claims["sub"], "it does not say who you are"),
    ]
    for wrong, why in faults:
        if wrong:
            raise UnauthenticatedProblem.of("openid.token", provider=settings.title, reason=why)
    return claims


def read_person(claims: Mapping[str, Any], settings: OidcSettings) -> Person:
    """Reads the user from the claims. Raises Forbidden if they are in none of the allowed groups."""
    said = claims.get(settings.groups_claim)
    groups = tuple(str(group) for group in said) if isinstance(said, list) else ()
    if settings.allowed_groups and not set(groups) & set(settings.allowed_groups):
        raise ForbiddenProblem.of("openid.group", provider=settings.title)
    wished = claims.get(settings.name_claim) or claims.get("email") or claims.get("name") or claims["sub"]
    verified = claims.get("email_verified", True)
    return Person(
        settings.issuer,
        claims["sub"],
        str(wished),
        str(claims.get("name") or "")[:200],
        str(claims.get("email") or "")[:200] if verified else "",
        groups,
    )


def sign_in_user(connection: Connection, person: Person, admin_groups: Sequence[str]) -> User:
    """Returns the account of a user, created at the first login. It is found only by the provider's subject: a local
    account with the same name or address belongs to someone else."""
    known = connection.execute(
        select(users.c.id).where(users.c.issuer == person.issuer, users.c.subject == person.subject)
    ).scalar_one_or_none()
    admin = bool(set(admin_groups) & set(person.groups))
    if known is None:
        return insert_user(
            connection,
            SYSTEM,
            free_name(person.name, names_like(connection, person.name)),
            display_name=person.display_name,
            email=person.email,
            admin=admin,
            issuer=person.issuer,
            subject=person.subject,
        )
    user = get_user(connection, known)
    if user.disabled:
        raise ForbiddenProblem.of("user.disabled")
    if admin_groups and user.admin != admin:
        connection.execute(update(users).where(users.c.id == user.id).values(admin=admin, revision=user.revision + 1))
        connection.execute(sessions.delete().where(sessions.c.user_id == user.id))
        write_audit(
            connection, SYSTEM, "edit", "user", user.id, user.name, {"admin": admin, "because": "openid groups"}
        )
        user = get_user(connection, user.id)
    return user


def local_path(text: str) -> str:
    """A local path; never another site."""
    plain = text.isprintable() and text.startswith("/") and not text.startswith("//") and "\\" not in text
    return text if plain else "/"


def _unknown_key(token: str, keys: KeySet) -> bool:
    try:
        head = token.partition(".")[0]
        key_id = orjson.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4))).get("kid")
    except (ValueError, AttributeError):
        return False
    return key_id is not None and key_id not in {key.kid for key in keys.keys}


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
