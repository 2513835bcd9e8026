"""The table of rules as a filter in SQL, so that lists show what one may see and no more."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, and_, false, or_, true

from muster.platform.rules import RULES, RUN_TOKEN, Actor, Kind, Who


def visible(
    actor: Actor,
    kind: Kind,
    *,
    owner: ColumnElement[Any] | None = None,
    team: ColumnElement[Any] | None = None,
    public: ColumnElement[bool] | None = None,
    key: ColumnElement[Any] | None = None,
    action: str = "view",
) -> ColumnElement[bool]:
    """Holds for the rows on which `may(actor, action, ...)`. A column that such things do not have is left out; runs
    need their `key`."""
    rule = RULES[kind, action]
    reach: ColumnElement[bool] = true()
    if "run" in actor.scopes:
        if (kind, action) not in RUN_TOKEN:
            return false()
        if kind == "run":
            if key is None:
                raise ValueError("say which column holds the id of the run")
            reach = key == actor.run
    elif rule.scope not in actor.scopes:
        return false()
    if rule.not_owner and owner is not None:
        reach = owner != actor.id
    return and_(reach, _any_of(actor, rule.who, owner, team, public))


def _any_of(
    actor: Actor,
    who: int,
    owner: ColumnElement[Any] | None,
    team: ColumnElement[Any] | None,
    public: ColumnElement[bool] | None,
) -> ColumnElement[bool]:
    if who & Who.ANYBODY or (who & Who.ADMIN and actor.admin and "admin" in actor.scopes):
        return true()
    allowed: list[ColumnElement[bool]] = [false()]
    if who & Who.OWNER and owner is not None:
        allowed.append(owner == actor.id)
    if who & Who.PUBLIC and public is not None:
        allowed.append(public)
    if team is not None and who & (Who.TEAM | Who.LEADER):
        allowed.append(team.in_([name for name, role in actor.teams.items() if who & Who.TEAM or role == "leader"]))
    return or_(*allowed)
