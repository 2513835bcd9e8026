from __future__ import annotations

import base64
import json

import pytest

from muster.embedded.auth.tokens import (
    AUDIENCE,
    LONGEST_SECONDS,
    SHORTEST_SECONDS,
    ServiceAccountTokens,
    is_service_account_token,
)
from muster.kube.errors import Unauthorized

TOKENS = ServiceAccountTokens(b"k" * 32)
NOW = 1_800_000_000


def claims_in(token: str) -> dict[str, object]:
    """Reads the claims as a client does, without checking the signature."""
    middle = token.split(".")[1]
    found: dict[str, object] = json.loads(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))
    return found


def test_issued_tokens_can_be_read() -> None:
    token, issued = TOKENS.issue("team", "bot", "uid-1", pod="web", pod_uid="uid-2", now=NOW)
    assert is_service_account_token(token)
    read = TOKENS.read(token, NOW + 3599)
    assert read == issued
    assert (read.namespace, read.name, read.uid) == ("team", "bot", "uid-1")
    assert (read.pod, read.pod_uid, read.audiences) == ("web", "uid-2", (AUDIENCE,))


def test_clients_find_the_claims_where_kubernetes_puts_them() -> None:
    claims = claims_in(TOKENS.issue("team", "bot", "uid-1", pod="web", pod_uid="uid-2", now=NOW)[0])
    assert claims["sub"] == "system:serviceaccount:team:bot"
    assert claims["exp"] == NOW + 3600 and claims["iat"] == NOW
    assert claims["kubernetes.io"] == {
        "namespace": "team",
        "serviceaccount": {"name": "bot", "uid": "uid-1"},
        "pod": {"name": "web", "uid": "uid-2"},
    }


@pytest.mark.parametrize(("wanted", "given"), [(10, SHORTEST_SECONDS), (7200, 7200), (10**12, LONGEST_SECONDS)])
def test_lifetime_of_a_token(wanted: int, given: int) -> None:
    assert TOKENS.issue("n", "a", "u", seconds=wanted, now=NOW)[1].expires == NOW + given


def test_an_expired_token_is_refused() -> None:
    token, claims = TOKENS.issue("n", "a", "u", now=NOW)
    with pytest.raises(Unauthorized, match="expired"):
        TOKENS.read(token, claims.expires)


def tampered(token: str, part: int, text: str) -> str:
    parts = token.split(".")
    parts[part] = text
    return ".".join(parts)


def test_only_what_we_signed_is_believed() -> None:
    token, _ = TOKENS.issue("n", "a", "u", now=NOW)
    none = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').rstrip(b"=").decode()
    admin = claims_in(token) | {"sub": "system:serviceaccount:kube-system:root"}
    forged = base64.urlsafe_b64encode(json.dumps(admin).encode()).rstrip(b"=").decode()
    for bad in (
        tampered(token, 1, forged),
        tampered(token, 0, none),
        tampered(token, 0, none).rpartition(".")[0] + ".",
        tampered(token, 2, ""),
        tampered(token, 2, "ÿ"),
        ServiceAccountTokens(b"x" * 32).issue("n", "a", "u", now=NOW)[0],
        "a.b.c",
        "..",
        "",
    ):
        with pytest.raises(Unauthorized):
            TOKENS.read(bad, NOW)
