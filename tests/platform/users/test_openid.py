"""A provider's response is accepted only if it is signed by the provider, for us, in time, and for this login."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey
from sqlalchemy import Connection

from muster.platform.database.database import Database
from muster.platform.errors import ForbiddenProblem, UnauthenticatedProblem
from muster.platform.permissions import SYSTEM
from muster.platform.records.users import User
from muster.platform.settings import OidcSettings
from muster.platform.users.accounts import edit_user, get_user, insert_user
from muster.platform.users.openid import (
    Attempt,
    Person,
    UnknownKey,
    authorization_url,
    id_token_claims,
    local_path,
    read_person,
    sign_in_user,
)

SETTINGS = OidcSettings("https://id.example", "muster", title="Example")
KEY = RSAKey.generate_key(2048, {"kid": "k1", "use": "sig"}, auto_kid=True)
OTHER = RSAKey.generate_key(2048, {"kid": "k1", "use": "sig"})
CURVE = ECKey.generate_key("P-256", {"kid": "k2", "use": "sig"})
KEYS = KeySet([KEY, CURVE])
NOW = 1_800_000_000
CLAIMS: dict[str, Any] = {
    "iss": "https://id.example", "aud": "muster", "sub": "s-1", "exp": NOW + 300, "iat": NOW, "nonce": "n",
}  # fmt: skip


def token(changes: dict[str, Any] | None = None, key: Any = KEY, alg: str = "RS256", kid: str = "k1") -> str:
    claims = {name: value for name, value in {**CLAIMS, **(changes or {})}.items() if value is not None}
    return jwt.encode({"alg": alg, "kid": kid}, claims, key, algorithms=[alg])


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"aud": ["muster"]},
        {"aud": ["muster", "other"], "azp": "muster"},
        {"iss": "https://id.example/"},
        {"exp": NOW - 30},
        {"iat": NOW + 30},
    ],
)
def test_a_valid_response_is_accepted(changes: dict[str, Any]) -> None:
    assert id_token_claims(token(changes), KEYS, SETTINGS, "n", NOW)["sub"] == "s-1"


def test_other_signature_algorithms() -> None:
    signed = token(key=CURVE, alg="ES256", kid="k2")
    assert id_token_claims(signed, KEYS, SETTINGS, "n", NOW)["sub"] == "s-1"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"iss": "https://evil.example"}, "it is by another issuer"),
        ({"iss": None}, "it is by another issuer"),
        ({"aud": "other"}, "it is for another client"),
        ({"aud": ["muster", "other"]}, "it is for another client"),
        ({"aud": None}, "it is for another client"),
        ({"exp": NOW - 3600}, "it has expired"),
        ({"exp": None}, "it has expired"),
        ({"iat": NOW + 3600}, "it is from the future"),
        ({"nonce": "of another login"}, "it belongs to another login"),
        ({"nonce": None}, "it belongs to another login"),
        ({"sub": None}, "it does not say who you are"),
        ({"sub": ""}, "it does not say who you are"),
    ],
)
def test_an_invalid_response_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(UnauthenticatedProblem, match=f"the ID token of Example is not valid: {why}"):
        id_token_claims(token(changes), KEYS, SETTINGS, "n", NOW)


def _unsigned() -> str:
    head, body, _ = token().split(".")
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
    assert head
    return f"{none}.{body}."


def _signed_with_the_public_key() -> str:
    """A known attack: the public key, used as a shared secret."""
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"k1"}').decode().rstrip("=")
    signed = f"{head}.{token().split('.')[1]}"
    signature = hmac.digest(KEY.as_pem(private=False), signed.encode(), "sha256")
    return f"{signed}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


@pytest.mark.parametrize(
    "forge",
    [
        lambda: token(key=OTHER),
        _unsigned,
        _signed_with_the_public_key,
        lambda: "",
        lambda: "a.b.c",
        lambda: token()[:-4],
    ],
    ids=["another key", "no signature", "the public key as a secret", "nothing", "garbage", "cut off"],
)
def test_a_forgery_is_refused(forge: Any) -> None:
    with pytest.raises(UnauthenticatedProblem, match="is not valid"):
        id_token_claims(forge(), KEYS, SETTINGS, "n", NOW)


def test_an_unknown_key_is_fetched() -> None:
    with pytest.raises(UnknownKey):
        id_token_claims(token(key=OTHER, kid="k9"), KEYS, SETTINGS, "n", NOW)


def test_the_browser_is_sent_with_a_pkce_challenge() -> None:
    attempt = Attempt("state", "nonce", "verifier", "/runs")
    url = authorization_url({"authorization_endpoint": "https://id.example/a?x=1"}, SETTINGS, "https://m/cb", attempt)
    query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    challenge = base64.urlsafe_b64encode(hashlib.sha256(b"verifier").digest()).decode().rstrip("=")
    assert query == {
        "x": "1",
        "response_type": "code",
        "client_id": "muster",
        "redirect_uri": "https://m/cb",
        "scope": "openid profile email",
        "state": "state",
        "nonce": "nonce",
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/runs?x=1#y", "/runs?x=1#y"),
        ("", "/"),
        ("runs", "/"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("/a\r\nSet-Cookie: x", "/"),
    ],
)
def test_redirects_stay_on_this_site(text: str, path: str) -> None:
    assert local_path(text) == path
    assert Attempt.decode(Attempt("s", "n", "v", text).encode()).return_to == path


@pytest.mark.parametrize("cookie", ["", "garbage", "W10=", "bm90IGpzb24="])
def test_a_login_that_did_not_start_here_is_refused(cookie: str) -> None:
    with pytest.raises(UnauthenticatedProblem, match="did not start here"):
        Attempt.decode(cookie)


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ({}, ("s-1", "", "", ())),
        ({"preferred_username": "ann", "name": "Ann", "email": "a@x"}, ("ann", "Ann", "a@x", ())),
        ({"email": "a@x", "email_verified": False}, ("a@x", "", "", ())),
        ({"groups": ["ml", "ops"]}, ("s-1", "", "", ("ml", "ops"))),
        ({"groups": "ml"}, ("s-1", "", "", ())),
    ],
)
def test_claims_become_a_user(claims: dict[str, Any], expected: tuple[str, str, str, tuple[str, ...]]) -> None:
    found = read_person({"sub": "s-1", **claims}, SETTINGS)
    assert (found.name, found.display_name, found.email, found.groups) == expected


def test_only_some_groups_may_log_in() -> None:
    settings = OidcSettings("https://id.example", "muster", allowed_groups=("ml",))
    assert read_person({"sub": "s", "groups": ["x", "ml"]}, settings).groups == ("x", "ml")
    with pytest.raises(ForbiddenProblem, match="not in any of the groups"):
        read_person({"sub": "s", "groups": ["x"]}, settings)


async def test_an_account_is_found_by_issuer_and_subject_never_by_name(database: Database) -> None:
    def story(connection: Connection) -> list[User]:
        local = insert_user(connection, SYSTEM, "ann", admin=True, email="ann@x")
        ann = Person("https://id.example", "s-1", "ann", email="ann@x")
        return [
            local,
            sign_in_user(connection, ann, ()),
            sign_in_user(connection, Person("https://id.example", "s-1", "renamed"), ()),
            sign_in_user(connection, Person("https://other.example", "s-1", "ann"), ()),
        ]

    local, first, again, other = await database.write(story)
    assert [user.name for user in (local, first, again, other)] == ["ann", "ann-2", "ann-2", "ann-3"]
    assert first.id == again.id
    assert (first.admin, first.has_password) == (False, False)


async def test_groups_grant_and_revoke_admin(database: Database) -> None:
    def come(groups: tuple[str, ...], admin_groups: tuple[str, ...]) -> Any:
        return lambda connection: sign_in_user(connection, Person("i", "s", "ann", groups=groups), admin_groups).admin

    assert await database.write(come(("ops",), ("ops",))) is True
    assert await database.write(come((), ("ops",))) is False
    await database.write(
        lambda connection: edit_user(connection, SYSTEM, get_user(connection, "ann").id, {"admin": True})
    )
    assert await database.write(come((), ())) is True, "without groups in the settings, admins decide"


async def test_a_disabled_account_cannot_log_in(database: Database) -> None:
    await database.write(lambda connection: sign_in_user(connection, Person("i", "s", "ann"), ()))
    await database.write(lambda connection: edit_user(connection, SYSTEM, "ann", {"disabled": True}))
    with pytest.raises(ForbiddenProblem, match="disabled"):
        await database.write(lambda connection: sign_in_user(connection, Person("i", "s", "ann"), ()))
