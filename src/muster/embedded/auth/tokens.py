"""Bearer tokens: of users, stored as hashes, and of service accounts, which are signed."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from muster.embedded.auth.private_files import write_private
from muster.kube.errors import Unauthorized
from muster.kube.objects import parse_time, timestamp
from muster.kube.rbac import AUTHENTICATED, SERVICE_ACCOUNT_PREFIX, User

PREFIX = "muster_"
"""The prefix of every token, so that a token that leaked into a log or a repository can be recognised."""


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """What is stored of a token. `id` is public, for `revoke` and lists."""

    id: str
    digest: str
    user: User
    created: str
    expires: str = ""


class TokenFile:
    """The tokens of one cluster, in a file that only its owner can read. It contains hashes only."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._by_digest: dict[str, IssuedToken] = {}
        if path.exists():
            self._by_digest = {token.digest: token for token in _read_tokens(path)}

    def issue(self, user: str, groups: Iterable[str] = (), *, expires: datetime | None = None) -> str:
        """Returns a new token. Only its hash is stored, so this is the only time it can be shown."""
        token = PREFIX + secrets.token_urlsafe(32)
        issued = IssuedToken(
            id=secrets.token_hex(4),
            digest=_token_digest(token),
            user=User(user, frozenset((*groups, AUTHENTICATED))),
            created=timestamp(),
            expires=timestamp(expires) if expires else "",
        )
        self._replace({**self._by_digest, issued.digest: issued})
        return token

    def revoke(self, *, id: str = "", user: str = "") -> int:
        """Revokes the token with that id, or all tokens of a user. Returns how many there were."""
        kept = {d: t for d, t in self._by_digest.items() if not ((id and t.id == id) or (user and t.user.name == user))}
        gone = len(self._by_digest) - len(kept)
        if gone:
            self._replace(kept)
        return gone

    def verify(self, token: str, now: datetime | None = None) -> User | None:
        """Returns the owner of a valid token, or None."""
        digest = _token_digest(token)
        issued = self._by_digest.get(digest)
        if issued is None or not hmac.compare_digest(issued.digest, digest):
            return None
        if issued.expires and parse_time(issued.expires) <= (now or datetime.now(UTC)):
            return None
        return issued.user

    def list_issued(self) -> list[IssuedToken]:
        return sorted(self._by_digest.values(), key=lambda t: (t.created, t.id))

    def _replace(self, tokens: dict[str, IssuedToken]) -> None:
        stored = [
            {
                "id": t.id,
                "sha256": t.digest,
                "user": t.user.name,
                "groups": sorted(t.user.groups),
                "created": t.created,
                **({"expires": t.expires} if t.expires else {}),
            }
            for t in tokens.values()
        ]
        write_private(self._path, orjson.dumps({"tokens": stored}, option=orjson.OPT_INDENT_2))
        self._by_digest = tokens


def _token_digest(token: str) -> str:
    # A token is 256 random bits, so it cannot be guessed, and a slow password hash would only cost time.
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _read_tokens(path: Path) -> Iterable[IssuedToken]:
    try:
        stored: list[dict[str, Any]] = orjson.loads(path.read_bytes())["tokens"]
        return [
            IssuedToken(
                t["id"], t["sha256"], User(t["user"], frozenset(t["groups"])), t["created"], t.get("expires", "")
            )
            for t in stored
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} is damaged ({type(error).__name__}); delete it, and new tokens will be created"
        ) from None


ISSUER = "https://kubernetes.default.svc.cluster.local"
AUDIENCE = "https://kubernetes.default.svc.cluster.local"
SHORTEST_SECONDS = 600
LONGEST_SECONDS = 366 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of a service account token. `pod` and `pod_uid` are '' if the token is not bound to a Pod, `secret`
    and `secret_uid` if it is not in a Secret. `expires` is 0 for a token that is valid as long as its Secret."""

    namespace: str
    name: str
    uid: str
    expires: int
    pod: str = ""
    pod_uid: str = ""
    audiences: tuple[str, ...] = (AUDIENCE,)
    id: str = ""
    secret: str = ""
    secret_uid: str = ""


class ServiceAccountTokens:
    """Signs and verifies service account tokens with one secret key.

    They are short-lived and bound to the account and, optionally, to a Pod. They contain the same claims as in
    Kubernetes, because clients read the expiry and the namespace from them."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def issue(
        self,
        namespace: str,
        name: str,
        uid: str,
        *,
        seconds: int = 3600,
        pod: str = "",
        pod_uid: str = "",
        audiences: Sequence[str] = (),
        now: float | None = None,
    ) -> tuple[str, Claims]:
        issued = int(time.time() if now is None else now)
        claims = Claims(
            namespace,
            name,
            uid,
            issued + min(max(seconds, SHORTEST_SECONDS), LONGEST_SECONDS),
            pod,
            pod_uid,
            tuple(audiences) or (AUDIENCE,),
            secrets.token_hex(16),
        )
        return self._sign(_to_json(claims, issued)), claims

    def issue_for_secret(self, namespace: str, name: str, uid: str, *, secret: str, secret_uid: str) -> str:
        """Returns a token for a Secret of type kubernetes.io/service-account-token. It ends with the Secret."""
        claims = Claims(namespace, name, uid, 0, id=secrets.token_hex(16), secret=secret, secret_uid=secret_uid)
        return self._sign(_to_json(claims, int(time.time())))

    def read(self, token: str, now: float | None = None) -> Claims:
        """Returns the claims if we signed the token and it has not expired. Raises Unauthorized otherwise.

        The caller has to check that the account still exists."""
        signed, _, signature = token.rpartition(".")
        if not signed.startswith(_HEADER + ".") or not hmac.compare_digest(
            self._mac(signed).encode(), signature.encode("utf-8", "replace")
        ):
            raise Unauthorized("the token was not issued by this cluster")
        claims = _from_json(signed[len(_HEADER) + 1 :])
        never_expires = claims.expires == 0 and claims.secret != ""
        if not never_expires and claims.expires <= (time.time() if now is None else now):
            raise Unauthorized("the service account's token has expired")
        return claims

    def _sign(self, claims: dict[str, Any]) -> str:
        signed = f"{_HEADER}.{_encode(orjson.dumps(claims))}"
        return f"{signed}.{self._mac(signed)}"

    def _mac(self, signed: str) -> str:
        return _encode(hmac.digest(self._key, signed.encode("utf-8", "replace"), hashlib.sha256))


def is_service_account_token(token: str) -> bool:
    return token.startswith(_HEADER + ".")


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


# Only this header is accepted, so a token cannot choose its own algorithm.
_HEADER = _encode(b'{"alg":"HS256","typ":"JWT"}')


def _to_json(claims: Claims, issued: int) -> dict[str, Any]:
    about: dict[str, Any] = {
        "namespace": claims.namespace,
        "serviceaccount": {"name": claims.name, "uid": claims.uid},
    }
    if claims.pod:
        about["pod"] = {"name": claims.pod, "uid": claims.pod_uid}
    if claims.secret:
        about["secret"] = {"name": claims.secret, "uid": claims.secret_uid}
    return {
        "aud": list(claims.audiences),
        **({"exp": claims.expires} if claims.expires else {}),
        "iat": issued,
        "nbf": issued,
        "iss": ISSUER,
        "jti": claims.id,
        "kubernetes.io": about,
        "sub": f"{SERVICE_ACCOUNT_PREFIX}{claims.namespace}:{claims.name}",
    }


def _from_json(encoded: str) -> Claims:
    try:
        wire = orjson.loads(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
        about = wire["kubernetes.io"]
        account, pod, secret = about["serviceaccount"], about.get("pod") or {}, about.get("secret") or {}
        return Claims(
            about["namespace"],
            account["name"],
            account["uid"],
            int(wire.get("exp", 0)),
            pod.get("name", ""),
            pod.get("uid", ""),
            tuple(wire["aud"]),
            wire["jti"],
            secret.get("name", ""),
            secret.get("uid", ""),
        )
    except (ValueError, KeyError, TypeError, binascii.Error):
        raise Unauthorized("the token cannot be read") from None
