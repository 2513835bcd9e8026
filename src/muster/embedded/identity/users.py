"""Someone who has shown who they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MASTERS = "system:masters"
"""Members of this group may do everything, whatever the roles say."""

AUTHENTICATED = "system:authenticated"
SERVICE_ACCOUNTS = "system:serviceaccounts"
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class User:
    name: str
    groups: frozenset[str] = frozenset()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False, compare=False)

    @property
    def is_master(self) -> bool:
        return MASTERS in self.groups


def service_account_user(namespace: str, name: str, uid: str = "") -> User:
    return User(
        f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}",
        frozenset((SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}", AUTHENTICATED)),
        uid,
    )
