"""Bearer tokens of people and programs. Only their hashes are stored; a token is seen once, when it is issued."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from muster.embedded.identity.private_files import write_private
from muster.embedded.identity.users import AUTHENTICATED, User
from muster.kube.objects import parse_time, timestamp

PREFIX = "muster_"
"""What every token starts with, so that one that leaked into a log or a repository can be recognised."""


@dataclass(frozen=True, slots=True)
class Issued:
    """What is kept of a token. `id` names it in public, for `revoke` and listings."""

    id: str
    digest: str
    user: User
    created: str
    expires: str = ""


class TokenFile:
    """The tokens of one cluster, kept in a file that only its owner can read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._by_digest: dict[str, Issued] = {}
        if path.exists():
            self._by_digest = {token.digest: token for token in _read(path)}

    def issue(self, user: str, groups: Iterable[str] = (), *, expires: datetime | None = None) -> str:
        """A new token. It is not stored, so this is the only time it can be shown."""
        token = PREFIX + secrets.token_urlsafe(32)
        issued = Issued(
            id=secrets.token_hex(4),
            digest=_digest(token),
            user=User(user, frozenset((*groups, AUTHENTICATED))),
            created=timestamp(),
            expires=timestamp(expires) if expires else "",
        )
        self._replace({**self._by_digest, issued.digest: issued})
        return token

    def revoke(self, *, id: str = "", user: str = "") -> int:
        """Forgets the token of that id, or all of a user's. Answers how many there were."""
        kept = {d: t for d, t in self._by_digest.items() if not ((id and t.id == id) or (user and t.user.name == user))}
        gone = len(self._by_digest) - len(kept)
        if gone:
            self._replace(kept)
        return gone

    def verify(self, token: str, now: datetime | None = None) -> User | None:
        """Whose token this is, if anyone's."""
        digest = _digest(token)
        issued = self._by_digest.get(digest)
        if issued is None or not hmac.compare_digest(issued.digest, digest):
            return None
        if issued.expires and parse_time(issued.expires) <= (now or datetime.now(UTC)):
            return None
        return issued.user

    def issued(self) -> list[Issued]:
        return sorted(self._by_digest.values(), key=lambda t: (t.created, t.id))

    def _replace(self, tokens: dict[str, Issued]) -> None:
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


def _digest(token: str) -> str:
    # A token is 256 random bits: there is nothing to guess, so a slow password hash would only cost time.
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _read(path: Path) -> Iterable[Issued]:
    try:
        stored: list[dict[str, Any]] = orjson.loads(path.read_bytes())["tokens"]
        return [
            Issued(t["id"], t["sha256"], User(t["user"], frozenset(t["groups"])), t["created"], t.get("expires", ""))
            for t in stored
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged ({type(error).__name__}); remove it and new tokens will be made") from None
