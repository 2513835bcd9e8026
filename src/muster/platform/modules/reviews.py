"""Reviews: the author asks for one, another user decides, and the version is published or rejected."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import Connection, func, insert, or_, select, update

from muster.platform.database.queries import (
    AnyRow,
    PageRequest,
    as_record,
    contains_words,
    new_id,
    record_columns,
    select_page,
)
from muster.platform.database.tables import module_versions, modules, now, reviews, teams, users
from muster.platform.errors import (
    ConflictProblem,
    ForbiddenProblem,
    InvalidProblem,
    NotFoundProblem,
    PreconditionFailedProblem,
)
from muster.platform.modules.modules import get_module
from muster.platform.modules.versions import advance, find_version, version_label
from muster.platform.permissions import SYSTEM, Actor, may, require, visible
from muster.platform.records.common import Page
from muster.platform.records.modules import Decision, Review, ReviewState
from muster.platform.users.audit import write_audit

REVIEW_STATES: Final[tuple[ReviewState, ...]] = ("open", "approved", "rejected", "withdrawn")
_BECOMES: Final[dict[Decision, ReviewState]] = {
    "approve": "approved", "reject": "rejected", "withdraw": "withdrawn",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReviewFilter:
    q: str = ""
    state: str = ""
    module: str = ""
    author: str = ""
    mine: bool = False


def ask_review(connection: Connection, actor: Actor, module: str, version: str, message: str = "") -> Review:
    of = get_module(connection, actor, module)
    found = find_version(connection, actor, of, version)
    require(actor, "ask review", of.subject, of.name)
    advance(connection, found, "ask review", version_label(of, found), reason="")
    identifier = new_id()
    connection.execute(
        insert(reviews).values(
            id=identifier,
            module_id=of.id,
            version_id=found.id,
            author_id=actor.id,
            state="open",
            message=message,
            reason="",
            created=now(),
            revision=1,
        )
    )
    write_audit(connection, actor, "ask", "review", identifier, version_label(of, found))
    return get_review(connection, actor, identifier)


def get_review(connection: Connection, actor: Actor, identifier: str) -> Review:
    row = connection.execute(_REVIEWS.where(reviews.c.id == identifier)).first()
    if row is None:
        raise NotFoundProblem.named("review", identifier)
    review = _review(row, actor)
    require(actor, "view", review.subject, identifier)
    return review


def list_reviews(connection: Connection, actor: Actor, wanted: PageRequest, only: ReviewFilter) -> Page[Review]:
    """All reviews for admins, their team's for leaders, their own for others; the newest first."""
    query = _REVIEWS.where(visible(actor, "review", owner=reviews.c.author_id, team=modules.c.team_id))
    if only.q:
        query = query.where(contains_words(only.q, modules.c.name, reviews.c.message, reviews.c.reason))
    if only.state:
        if only.state not in REVIEW_STATES:
            raise InvalidProblem.field("state", "filter.value", value=only.state, choices=list(REVIEW_STATES))
        query = query.where(reviews.c.state == only.state)
    if only.module:
        query = query.where(or_(modules.c.id == only.module, modules.c.name == only.module))
    if only.author:
        query = query.where(or_(reviews.c.author_id == only.author, users.c.name == only.author))
    if only.mine:
        query = query.where(reviews.c.author_id == actor.id)
    sortable = {
        "created": reviews.c.created,
        "decided": func.coalesce(reviews.c.decided, 0),
        "module": modules.c.name,
        "author": users.c.name,
        "state": reviews.c.state,
    }
    page = select_page(connection, query, wanted, key=reviews.c.id, sortable=sortable, usual="-created")
    return page.map(lambda row: _review(row, actor))


def decide(
    connection: Connection, actor: Actor, identifier: str, decision: Decision, reason: str = "",
    revision: int | None = None,
) -> Review:  # fmt: skip
    """Stores the decision and the new state of the version in one transaction."""
    review = get_review(connection, actor, identifier)
    require(actor, "withdraw" if decision == "withdraw" else "decide", review.subject, identifier)
    PreconditionFailedProblem.check("review", review.module_name, review.revision, revision)
    if review.state != "open":
        raise ConflictProblem.of("review.over", state=review.state)
    if decision == "reject" and not reason.strip():
        raise InvalidProblem.field("reason", "review.reason")
    # The version under review may be invisible to the actor; the platform reads it for them.
    module = get_module(connection, SYSTEM, review.module_id)
    version = find_version(connection, SYSTEM, module, review.version_id)
    if decision != "withdraw" and version.author_id == actor.id:
        raise ForbiddenProblem.of("review.own")
    advance(
        connection, version, decision, version_label(module, version), reason=reason if decision == "reject" else ""
    )
    connection.execute(
        update(reviews)
        .where(reviews.c.id == review.id)
        .values(
            state=_BECOMES[decision], reason=reason, decided_by=actor.id, decided=now(), revision=review.revision + 1
        )
    )
    details = {"reason": reason} if reason else {}
    write_audit(connection, actor, decision, "review", review.id, version_label(module, version), details)
    return get_review(connection, actor, review.id)


_deciders = users.alias("deciders")
_REVIEWS = (
    select(
        *record_columns(
            Review,
            reviews,
            module_name=modules.c.name,
            number=module_versions.c.number,
            author_name=users.c.name,
            team_id=modules.c.team_id,
            team_name=teams.c.name,
            decided_by_name=_deciders.c.name,
        ),
        module_versions.c.author_id.label("version_author_id"),
    )
    .join(modules, modules.c.id == reviews.c.module_id)
    .join(module_versions, module_versions.c.id == reviews.c.version_id)
    .join(users, users.c.id == reviews.c.author_id)
    .outerjoin(teams, teams.c.id == modules.c.team_id)
    .outerjoin(_deciders, _deciders.c.id == reviews.c.decided_by)
)


def _review(row: AnyRow, actor: Actor) -> Review:
    review = as_record(row, Review, may=[])
    if review.state != "open":
        return review
    decides = may(actor, "decide", review.subject) and row.version_author_id != actor.id
    choices: list[Decision] = ["approve", "reject"] if decides else []
    return replace(review, may=[*choices, "withdraw"] if may(actor, "withdraw", review.subject) else choices)
