"""Users, teams, tokens and the audit log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal
from urllib.parse import quote

from muster.platform.records.users import ApiToken, AuditEntry, Me, Member, Team, TeamRole, User
from muster.sdk.transport import Transport, parse_record


class Users:
    """Users are named by id or name."""

    def __init__(self, transport: Transport) -> None:
        self._ask = transport.request
        self._pages = transport.pages

    def me(self) -> Me:
        return parse_record(Me, self._ask("GET", "session"))

    def list(
        self, *, q: str = "", role: str = "", team: str = "", disabled: bool | None = None, most: int | None = None
    ) -> Iterator[User]:
        """`team` is the id of a team."""
        only = None if disabled is None else str(disabled).lower()
        query = {"q": q, "role": role, "team": team, "disabled": only}
        return (parse_record(User, item) for item in self._pages("users", query, most))

    def get(self, user: str) -> User:
        return parse_record(User, self._ask("GET", _path("users", user)))

    def create(
        self,
        name: str,
        *,
        display_name: str = "",
        email: str = "",
        role: Literal["admin", "member"] = "member",
        password: str | None = None,
    ) -> tuple[User, str | None]:
        """Returns the account, and a link to choose a password if it has none."""
        body = {"name": name, "display_name": display_name, "email": email, "role": role, "password": password}
        answer = self._ask("POST", "users", body)
        return parse_record(User, answer["user"]), answer["link"]

    def edit(self, user: str, **changes: Any) -> User:
        """`changes`: display_name, email, role, disabled."""
        return parse_record(User, self._ask("PATCH", _path("users", user), changes))

    def reset_password(self, user: str) -> str:
        """Returns a link to choose a new password."""
        return str(self._ask("POST", f"{_path('users', user)}/link")["link"])


class Teams:
    """Teams and users are named by id or name."""

    def __init__(self, transport: Transport) -> None:
        self._ask = transport.request
        self._pages = transport.pages

    def list(self, *, q: str = "", member: str = "", most: int | None = None) -> Iterator[Team]:
        """`member` is the id of a user."""
        return (parse_record(Team, item) for item in self._pages("teams", {"q": q, "member": member}, most))

    def get(self, team: str) -> Team:
        return parse_record(Team, self._ask("GET", _path("teams", team)))

    def create(self, name: str, description: str = "") -> Team:
        return parse_record(Team, self._ask("POST", "teams", {"name": name, "description": description}))

    def edit(self, team: str, **changes: Any) -> Team:
        """`changes`: name, description."""
        return parse_record(Team, self._ask("PATCH", _path("teams", team), changes))

    def delete(self, team: str) -> None:
        self._ask("DELETE", _path("teams", team))

    def members(self, team: str) -> Iterator[Member]:
        return (parse_record(Member, item) for item in self._pages(f"{_path('teams', team)}/members", {}))

    def set_member(self, team: str, user: str, role: TeamRole = "member") -> None:
        self._ask("PUT", f"{_path('teams', team)}/{_path('members', user)}", {"role": role})

    def remove_member(self, team: str, user: str) -> None:
        self._ask("DELETE", f"{_path('teams', team)}/{_path('members', user)}")


class Tokens:
    def __init__(self, transport: Transport) -> None:
        self._ask = transport.request
        self._pages = transport.pages

    def list(self, *, user: str = "", all: bool = False, most: int | None = None) -> Iterator[ApiToken]:
        """Lists valid tokens; with `all`, also revoked and expired ones."""
        return (
            parse_record(ApiToken, item)
            for item in self._pages("tokens", {"user": user, "all": str(all).lower()}, most)
        )

    def create(
        self, name: str, *, scopes: Sequence[str] = ("read", "write"), days: float | None = 90
    ) -> tuple[ApiToken, str]:
        """Returns the token and its secret, which cannot be shown again. With `days` None it does not expire."""
        answer = self._ask("POST", "tokens", {"name": name, "scopes": [*scopes], "days": days})
        return parse_record(ApiToken, answer["token"]), answer["secret"]

    def revoke(self, token_id: str) -> ApiToken:
        return parse_record(ApiToken, self._ask("DELETE", _path("tokens", token_id)))


class Audit:
    def __init__(self, transport: Transport) -> None:
        self._pages = transport.pages

    def list(
        self, *, q: str = "", actor: str = "", kind: str = "", subject: str = "", most: int | None = None
    ) -> Iterator[AuditEntry]:
        """The newest first."""
        query = {"q": q, "actor": actor, "kind": kind, "subject": subject}
        return (parse_record(AuditEntry, item) for item in self._pages("audit", query, most))


def _path(kind: str, name: str) -> str:
    return f"{kind}/{quote(name, safe='')}"
