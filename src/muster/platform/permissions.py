"""Who may do what: one table of rules.

`may(actor, "edit", subject)` returns an `AccessDecision`, which is true or false and carries the reason. `require`
raises `Forbidden` or `NotFound` instead. `visible` is the same table as a filter in SQL, so that lists show only what
the actor may see.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from sqlalchemy import ColumnElement, and_, false, or_, true

from muster.platform.errors import ForbiddenProblem, NotFoundProblem
from muster.platform.messages import FieldError, field_error
from muster.platform.records.common import Kind, Subject
from muster.platform.records.users import Scope, TeamRole

FULL: frozenset[Scope] = frozenset({"read", "write", "admin"})
"""The scopes of a session; a token may have less."""


class Relation:
    """The relations of a user to a subject, as bit flags: lists check them for every row."""

    ADMIN = 1
    LEADER = 2
    """A leader of the team that the subject belongs to."""
    TEAM = 4
    """A member of that team, including leaders."""
    OWNER = 8
    """The user who created it; a user owns themselves."""
    PUBLIC = 16
    """All users, if the subject is public, as a published module."""
    ANYBODY = 32


@dataclass(frozen=True, slots=True)
class Actor:
    """The user who makes a request, and how they are authenticated."""

    id: str
    name: str
    admin: bool = False
    teams: Mapping[str, TeamRole] = field(default_factory=dict)
    """By team id."""
    scopes: frozenset[Scope] = FULL
    run: str = ""
    """The run that the token belongs to, if any: it cannot access other runs."""
    via: Literal["session", "token", "link", "system"] = "session"
    credential: str = ""
    """The id of the session or token."""
    address: str = ""


SYSTEM = Actor("", "system", admin=True, via="system")
"""The platform itself, for actions that no user requested: it finishes builds, ends runs, applies settings."""


class AccessDecision(NamedTuple):
    allowed: bool
    error: FieldError | None = None
    """Why not."""

    def __bool__(self) -> bool:
        return self.allowed


class Rule(NamedTuple):
    who: int
    scope: Scope
    not_owner: bool = False
    """Also if they are an admin or leader."""
    in_team: bool = False
    """Not for an owner who has left its team: something then runs, or others use it, in the team's namespace."""


_A, _L, _T, _O, _P, _ALL = (
    Relation.ADMIN,
    Relation.LEADER,
    Relation.TEAM,
    Relation.OWNER,
    Relation.PUBLIC,
    Relation.ANYBODY,
)

RULES: Mapping[tuple[Kind, str], Rule] = {
    # All users see and may run all workflows. A run belongs to the user who started it.
    ("workflow", "view"): Rule(_ALL, "read"),
    ("workflow", "create"): Rule(_ALL, "write"),
    ("workflow", "edit"): Rule(_A | _L | _O, "write"),
    ("workflow", "archive"): Rule(_A | _L | _O, "write"),
    ("workflow", "delete"): Rule(_A | _O, "write"),
    # A version belongs to its workflow: owner and team are those of the workflow.
    ("version", "view"): Rule(_ALL, "read"),
    ("version", "reveal"): Rule(_A | _L | _T | _O, "read"),  # the values of secret environment variables
    ("version", "create"): Rule(_A | _L | _T | _O, "write"),
    ("version", "copy"): Rule(_ALL, "write"),
    ("version", "run"): Rule(_ALL, "write"),
    ("version", "archive"): Rule(_A | _L | _O, "write"),
    # All users see runs and their states; their content is only for users they are shared with.
    ("run", "view"): Rule(_ALL, "read"),
    ("run", "inspect"): Rule(_A | _L | _T | _O, "read"),  # parameters, environment, logs, events, artifacts
    ("run", "create"): Rule(_ALL, "write"),
    ("run", "copy"): Rule(_A | _L | _T | _O, "write"),
    ("run", "edit"): Rule(_A | _O, "write"),
    ("run", "stop"): Rule(_A | _L | _O, "write"),
    ("run", "retry"): Rule(_A | _L | _O, "write", in_team=True),
    ("run", "delete"): Rule(_A | _O, "write"),
    ("run", "exec"): Rule(_A | _O, "write", in_team=True),  # its Pods hold a token that acts for its owner
    # A job that a run created belongs to the owner of the run. A job created outside the platform has no owner.
    ("job", "view"): Rule(_A | _L | _T | _O, "read"),
    ("job", "create"): Rule(_ALL, "write"),
    ("job", "suspend"): Rule(_A | _L | _O, "write"),
    ("job", "resume"): Rule(_A | _L | _O, "write", in_team=True),
    ("job", "delete"): Rule(_A | _O, "write"),
    # A job of the dispatcher. One that another program submitted to the same database has no owner.
    ("dispatch job", "view"): Rule(_A | _L | _T | _O, "read"),
    ("dispatch job", "create"): Rule(_ALL, "write"),
    ("dispatch job", "edit"): Rule(_A | _L | _O, "write"),  # its priority
    ("dispatch job", "cancel"): Rule(_A | _L | _O, "write"),
    ("dispatch job", "restart"): Rule(_A | _L | _O, "write"),  # the team is checked, too (server/dispatch)
    ("dispatch job", "resolve"): Rule(_A | _L | _O, "write", in_team=True),
    ("dispatch job", "delete"): Rule(_A | _O, "write"),
    # Kubeflow Pipelines. What is in the namespace of a team is shared with it, the rest is its owner's.
    ("experiment", "view"): Rule(_A | _L | _T | _O, "read"),
    ("experiment", "create"): Rule(_ALL, "write"),
    ("experiment", "archive"): Rule(_A | _L | _O, "write"),
    ("experiment", "delete"): Rule(_A | _O, "write"),
    # A version belongs to its pipeline; members of the team add versions, too.
    ("pipeline", "view"): Rule(_A | _L | _T | _O, "read"),
    ("pipeline", "create"): Rule(_ALL, "write"),
    ("pipeline", "edit"): Rule(_A | _L | _T | _O, "write", in_team=True),
    ("pipeline", "delete"): Rule(_A | _L | _O, "write"),
    ("pipeline run", "view"): Rule(_A | _L | _T | _O, "read"),
    ("pipeline run", "create"): Rule(_ALL, "write"),
    ("pipeline run", "stop"): Rule(_A | _L | _O, "write"),
    ("pipeline run", "retry"): Rule(_A | _L | _O, "write", in_team=True),
    ("pipeline run", "archive"): Rule(_A | _L | _O, "write"),
    ("pipeline run", "delete"): Rule(_A | _O, "write"),
    ("recurring run", "view"): Rule(_A | _L | _T | _O, "read"),
    ("recurring run", "create"): Rule(_ALL, "write"),
    ("recurring run", "edit"): Rule(_A | _L | _O, "write"),
    ("recurring run", "delete"): Rule(_A | _O, "write"),
    # Workflows and CronWorkflows of the cluster that are no runs of the platform belong to the user or the team of
    # their namespace. All members of the team may change them, as RBAC lets them do with argo and kubectl.
    ("argo workflow", "view"): Rule(_A | _L | _T | _O, "read"),
    ("argo workflow", "stop"): Rule(_A | _L | _T | _O, "write"),
    ("argo workflow", "suspend"): Rule(_A | _L | _T | _O, "write"),
    ("argo workflow", "resume"): Rule(_A | _L | _T | _O, "write"),
    ("argo workflow", "retry"): Rule(_A | _L | _T | _O, "write"),
    ("argo workflow", "copy"): Rule(_A | _L | _T | _O, "write"),
    ("argo workflow", "delete"): Rule(_A | _L | _T | _O, "write"),
    ("schedule", "view"): Rule(_A | _L | _T | _O, "read"),
    ("schedule", "create"): Rule(_ALL, "write"),
    ("schedule", "edit"): Rule(_A | _L | _T | _O, "write"),
    ("schedule", "run"): Rule(_A | _L | _T | _O, "write"),
    ("schedule", "delete"): Rule(_A | _L | _T | _O, "write"),
    # A notebook or TensorBoard runs what its visitors write, with all that the namespace of its user or team may use.
    ("workspace", "view"): Rule(_A | _L | _T | _O, "read"),
    ("workspace", "create"): Rule(_ALL, "write"),
    ("workspace", "open"): Rule(_A | _L | _T | _O, "write", in_team=True),
    ("workspace", "start"): Rule(_A | _L | _T | _O, "write", in_team=True),
    ("workspace", "stop"): Rule(_A | _L | _T | _O, "write"),
    ("workspace", "edit"): Rule(_A | _L | _O, "write"),
    ("workspace", "delete"): Rule(_A | _L | _O, "write"),
    ("pod", "exec"): Rule(_A | _L | _T | _O, "write", in_team=True),  # as RBAC has it for the members of a namespace
    # Published and deprecated modules are public.
    ("module", "view"): Rule(_A | _L | _O | _P, "read"),
    ("module", "use"): Rule(_O | _P, "write"),
    ("module", "inspect"): Rule(_A | _L | _O, "read"),  # the build log, and the values of the environment
    ("module", "create"): Rule(_ALL, "write"),
    ("module", "edit"): Rule(_A | _O, "write"),
    ("module", "ask review"): Rule(_O, "write"),
    ("module", "deprecate"): Rule(_A | _L | _O, "write"),
    ("module", "delete"): Rule(_A | _O, "write"),
    # A review belongs to the author of the module and to the module's team.
    ("review", "view"): Rule(_A | _L | _O, "read"),
    ("review", "decide"): Rule(_A | _L, "write", not_owner=True),
    ("review", "withdraw"): Rule(_O, "write"),
    ("category", "view"): Rule(_ALL, "read"),
    ("category", "create"): Rule(_A, "write"),
    ("category", "edit"): Rule(_A, "write"),
    ("category", "delete"): Rule(_A, "write"),
    # A webhook of a team reports the runs of the team, so a member who has left the team cannot use it any more.
    ("webhook", "view"): Rule(_A | _L | _T | _O, "read", in_team=True),
    ("webhook", "create"): Rule(_ALL, "write"),
    ("webhook", "edit"): Rule(_A | _L | _O, "write", in_team=True),
    ("webhook", "delete"): Rule(_A | _L | _O, "write"),
    ("virtual cluster", "view"): Rule(_ALL, "read"),
    ("virtual cluster", "use"): Rule(_A | _L | _T | _P, "write"),  # public are those that no team has for itself
    ("virtual cluster", "create"): Rule(_A, "write"),
    ("virtual cluster", "edit"): Rule(_A, "write"),
    ("virtual cluster", "delete"): Rule(_A, "write"),
    ("storage root", "view"): Rule(_ALL, "read"),
    ("storage root", "use"): Rule(_A | _L | _T | _P, "write"),
    ("storage root", "create"): Rule(_A, "write"),
    ("storage root", "edit"): Rule(_A, "write"),
    ("storage root", "delete"): Rule(_A, "write"),
    # A volume in the namespace of a user belongs to the user; one in the namespace of a team, to the team and to the
    # member who created it.
    ("volume", "view"): Rule(_A | _L | _T | _O, "read"),  # with its files
    ("volume", "create"): Rule(_ALL, "write"),
    ("volume", "write"): Rule(_A | _L | _T | _O, "write", in_team=True),  # files
    ("volume", "delete"): Rule(_A | _L | _O, "write"),
    # A user owns themselves. Users cannot revoke their own rights, so that one admin always remains.
    ("user", "view"): Rule(_ALL, "read"),
    ("user", "inspect"): Rule(_A | _O, "read"),  # mail address, last login, sessions
    ("user", "create"): Rule(_A, "write"),
    ("user", "edit"): Rule(_A | _O, "write"),
    ("user", "set role"): Rule(_A, "write", not_owner=True),
    ("user", "disable"): Rule(_A, "write", not_owner=True),
    ("user", "enable"): Rule(_A, "write"),
    ("user", "reset password"): Rule(_A, "write"),
    ("user", "change password"): Rule(_O, "write"),
    ("team", "view"): Rule(_ALL, "read"),
    ("team", "create"): Rule(_A, "write"),
    ("team", "edit"): Rule(_A | _L, "write"),
    ("team", "set members"): Rule(_A | _L, "write"),
    ("team", "leave"): Rule(_T, "write"),
    ("team", "delete"): Rule(_A, "write"),
    ("token", "view"): Rule(_A | _O, "read"),
    ("token", "create"): Rule(_O, "write"),
    ("token", "revoke"): Rule(_A | _O, "write"),
    ("audit", "view"): Rule(_A | _O, "read"),  # the owner of an entry is the user who did it
    ("settings", "view"): Rule(_A, "read"),
    ("settings", "edit"): Rule(_A, "write"),
    # All users see how full the nodes are; the names of Pods on them are for admins and their owners.
    ("node", "view"): Rule(_ALL, "read"),
    ("node", "inspect"): Rule(_A, "read"),
    ("queue", "view"): Rule(_ALL, "read"),
}

RUN_TOKEN: frozenset[tuple[Kind, str]] = frozenset({
    ("run", "view"), ("run", "inspect"), ("workflow", "view"), ("version", "view"), ("module", "view"),
    ("category", "view"), ("virtual cluster", "view"), ("storage root", "view"), ("user", "view"), ("team", "view"),
})  # fmt: skip
"""What the token of a run may do. It can access only its own run."""

_NAMES = {
    Relation.ADMIN: "an admin",
    Relation.LEADER: "a leader of its team",
    Relation.TEAM: "a member of its team",
    Relation.OWNER: "its owner",
}


def may(actor: Actor, action: str, subject: Subject) -> AccessDecision:
    rule = RULES[subject.kind, action]
    if "run" in actor.scopes:
        refused = _check_run_token(actor, action, subject)
        if refused is not None:
            return refused
    elif rule.scope not in actor.scopes:
        return _deny("permission.scope", scope=rule.scope, action=action)
    are = relations(actor, subject)
    if rule.in_team and subject.team and not are & Relation.TEAM:
        are &= ~Relation.OWNER
    if rule.not_owner and are & Relation.OWNER:
        return _deny("permission.own", action=action, kind=subject.kind)
    if rule.who & are:
        return AccessDecision(True)
    return _deny("permission.only", who=_listed(rule.who), action=action, kind=subject.kind)


def may_at_all(actor: Actor, kind: Kind, action: str) -> AccessDecision:
    """Whether there can be a subject that the actor may do this to: a first check, before the subject is known."""
    rule = RULES[kind, action]
    if "run" in actor.scopes:
        if (kind, action) not in RUN_TOKEN:
            return _deny("permission.run-token", action=action, kind=kind)
    elif rule.scope not in actor.scopes:
        return _deny("permission.scope", scope=rule.scope, action=action)
    possible = Relation.ANYBODY | Relation.PUBLIC | Relation.OWNER
    if actor.admin and "admin" in actor.scopes:
        possible |= Relation.ADMIN
    if actor.teams:
        possible |= Relation.TEAM
    if "leader" in actor.teams.values():
        possible |= Relation.LEADER
    if rule.who & possible:
        return AccessDecision(True)
    return _deny("permission.only", who=_listed(rule.who), action=action, kind=kind)


def relation_names(rule: Rule) -> str:
    """Who a rule is for, in words."""
    if rule.who & Relation.ANYBODY:
        return "all users"
    public = " or, if it is public, all users" if rule.who & Relation.PUBLIC else ""
    return f"{_listed(rule.who)}{public}{', never its owner' if rule.not_owner else ''}"


def require(actor: Actor, action: str, subject: Subject, name: str = "") -> None:
    """Raises Forbidden if the actor may not do this, or NotFound if they may not even see the subject."""
    decision = may(actor, action, subject)
    if decision:
        return
    if subject.id and (subject.kind, "view") in RULES and not may(actor, "view", subject):
        raise NotFoundProblem.named(subject.kind, name or subject.id)
    assert decision.error is not None
    raise ForbiddenProblem.from_error(decision.error)


def relations(actor: Actor, subject: Subject) -> int:
    """All relations of the actor to the subject."""
    are = Relation.ANYBODY
    if actor.admin and "admin" in actor.scopes:
        are |= Relation.ADMIN
    if actor.id and subject.owner == actor.id:
        are |= Relation.OWNER
    role = actor.teams.get(subject.team) if subject.team else None
    if role is not None:
        are |= Relation.TEAM
    if role == "leader":
        are |= Relation.LEADER
    if subject.public:
        are |= Relation.PUBLIC
    return are


def _check_run_token(actor: Actor, action: str, subject: Subject) -> AccessDecision | None:
    if (subject.kind, action) not in RUN_TOKEN:
        return _deny("permission.run-token", action=action, kind=subject.kind)
    if subject.kind == "run" and subject.id != actor.run:
        return _deny("permission.other-run")
    return None


def _deny(code: str, **arguments: str) -> AccessDecision:
    return AccessDecision(False, field_error("", code, **arguments))


def _listed(who: int) -> str:
    names = [name for flag, name in _NAMES.items() if flag & who]
    return " or ".join(names)


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
    """A condition on rows for which `may(actor, action, ...)` is true. Pass the columns that the table has; runs need
    `key`."""
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
    return and_(reach, _any_of(actor, rule, owner, team, public))


def _any_of(
    actor: Actor,
    rule: Rule,
    owner: ColumnElement[Any] | None,
    team: ColumnElement[Any] | None,
    public: ColumnElement[bool] | None,
) -> ColumnElement[bool]:
    who = rule.who
    if who & Relation.ANYBODY or (who & Relation.ADMIN and actor.admin and "admin" in actor.scopes):
        return true()
    allowed: list[ColumnElement[bool]] = [false()]
    if who & Relation.OWNER and owner is not None:
        is_in_team = or_(team.is_(None), team == "", team.in_(list(actor.teams))) if team is not None else true()
        allowed.append(and_(owner == actor.id, is_in_team) if rule.in_team else owner == actor.id)
    if who & Relation.PUBLIC and public is not None:
        allowed.append(public)
    if team is not None and who & (Relation.TEAM | Relation.LEADER):
        allowed.append(
            team.in_([name for name, role in actor.teams.items() if who & Relation.TEAM or role == "leader"])
        )
    return or_(*allowed)
