"""Tokens of service accounts: signed, short-lived, bound to the account and, where it is for one, to a Pod.

They have the claims that Kubernetes puts into them, because clients read the expiry and the namespace out of them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from muster.embedded.identity.users import SERVICE_ACCOUNT_PREFIX
from muster.kube.errors import Unauthorized

ISSUER = "https://kubernetes.default.svc.cluster.local"
AUDIENCE = "https://kubernetes.default.svc.cluster.local"
SHORTEST_SECONDS = 600
LONGEST_SECONDS = 366 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Claims:
    """What a token says. A pod or its uid is '' where the token is not bound to one."""

    namespace: str
    name: str
    uid: str
    expires: int
    pod: str = ""
    pod_uid: str = ""
    audiences: tuple[str, ...] = (AUDIENCE,)
    id: str = ""


class ServiceAccountTokens:
    """Signs and reads tokens with one secret key."""

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
        return self._sign(_to_wire(claims, issued)), claims

    def read(self, token: str, now: float | None = None) -> Claims:
        """What the token says, if we signed it and it has not expired. Whether the account still exists, the caller
        has to look up."""
        signed, _, signature = token.rpartition(".")
        if not signed.startswith(_HEADER + ".") or not hmac.compare_digest(
            self._mac(signed).encode(), signature.encode("utf-8", "replace")
        ):
            raise Unauthorized("the token is not one of this cluster's")
        claims = _from_wire(signed[len(_HEADER) + 1 :])
        if claims.expires <= (time.time() if now is None else now):
            raise Unauthorized("the service account's token has expired")
        return claims

    def _sign(self, claims: dict[str, Any]) -> str:
        signed = f"{_HEADER}.{_encode(orjson.dumps(claims))}"
        return f"{signed}.{self._mac(signed)}"

    def _mac(self, signed: str) -> str:
        return _encode(hmac.digest(self._key, signed.encode("utf-8", "replace"), hashlib.sha256))


def looks_like_one(token: str) -> bool:
    return token.startswith(_HEADER + ".")


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


# The one header we write is the one header we read: a token cannot choose its own algorithm.
_HEADER = _encode(b'{"alg":"HS256","typ":"JWT"}')


def _to_wire(claims: Claims, issued: int) -> dict[str, Any]:
    about: dict[str, Any] = {
        "namespace": claims.namespace,
        "serviceaccount": {"name": claims.name, "uid": claims.uid},
    }
    if claims.pod:
        about["pod"] = {"name": claims.pod, "uid": claims.pod_uid}
    return {
        "aud": list(claims.audiences),
        "exp": claims.expires,
        "iat": issued,
        "nbf": issued,
        "iss": ISSUER,
        "jti": claims.id,
        "kubernetes.io": about,
        "sub": f"{SERVICE_ACCOUNT_PREFIX}{claims.namespace}:{claims.name}",
    }


def _from_wire(encoded: str) -> Claims:
    try:
        wire = orjson.loads(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
        about = wire["kubernetes.io"]
        account, pod = about["serviceaccount"], about.get("pod") or {}
        return Claims(
            about["namespace"],
            account["name"],
            account["uid"],
            int(wire["exp"]),
            pod.get("name", ""),
            pod.get("uid", ""),
            tuple(wire["aud"]),
            wire["jti"],
        )
    except (ValueError, KeyError, TypeError, binascii.Error):
        raise Unauthorized("the token cannot be read") from None
