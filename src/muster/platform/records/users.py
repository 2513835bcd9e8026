"""Users, teams, tokens, and the audit log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from muster.platform.records.common import Subject

Role: TypeAlias = Literal["admin", "leader", "member"]
TeamRole: TypeAlias = Literal["leader", "member"]
Scope: TypeAlias = Literal["read", "write", "admin", "run"]


@dataclass(frozen=True, slots=True)
class User:
    id: str
    name: str
    display_name: str
    role: Role
    """`leader` leads at least one team."""
    disabled: bool
    created: datetime
    revision: int
    """Increases with every change."""
    email: str | None
    """Only for admins and the user themselves, like the fields below; None for others."""
    last_login: datetime | None
    has_password: bool | None
    openid: bool | None
    """Whether the account comes from the OpenID provider."""

    @property
    def admin(self) -> bool:
        return self.role == "admin"

    @property
    def subject(self) -> Subject:
        return Subject("user", self.id, owner=self.id)


@dataclass(frozen=True, slots=True)
class Me:
    """The user who sends the request."""

    user: User
    teams: dict[str, str]
    """By team id: leader or member."""
    scopes: list[Scope]
    via: str
    """`session` or `token`."""


@dataclass(frozen=True, slots=True)
class Session:
    id: str
    created: datetime
    last_used: datetime
    expires: datetime
    address: str
    browser: str
    current: bool
    """Whether this request uses it."""


@dataclass(frozen=True, slots=True)
class Team:
    id: str
    name: str
    description: str
    created: datetime
    revision: int
    members: int
    """The number of members."""
    may: list[str]
    """What the caller may do: edit, set members, leave, delete."""

    @property
    def subject(self) -> Subject:
        return Subject("team", self.id, team=self.id)


@dataclass(frozen=True, slots=True)
class Member:
    """A user in a team."""

    user_id: str
    name: str
    display_name: str
    role: TeamRole
    since: datetime


@dataclass(frozen=True, slots=True)
class ApiToken:
    id: str
    user_id: str
    user_name: str
    name: str
    hint: str
    """The last characters of the secret."""
    scopes: list[Scope]
    created: datetime
    last_used: datetime | None
    expires: datetime | None
    revoked: datetime | None

    @property
    def subject(self) -> Subject:
        return Subject("token", self.id, owner=self.user_id)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    id: str
    at: datetime
    actor_id: str
    actor_name: str
    via: str
    address: str
    action: str
    kind: str
    subject_id: str
    subject_name: str
    details: dict[str, Any]
