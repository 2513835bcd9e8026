"""Reviews, by which modules are published."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from pydantic import Field

from muster.platform.modules.reviews import Decision, Review, ReviewFilter, decide, get_review, list_reviews
from muster.platform.permissions import Actor
from muster.server.platform.rest import Answer, Body, IfMatch, PageOf, Paging, Search, etag, page_of
from muster.server.platform.security import Who
from muster.server.platform.services import Here, Services

router = APIRouter(prefix="/reviews", tags=["reviews"])


class DecisionBody(Body):
    reason: Annotated[str, Field(max_length=10_000)] = ""
    """Who rejects has to say why."""


class ReviewAnswer(Answer):
    id: str
    module_id: str
    module_name: str
    version_id: str
    number: int
    """Of the version."""
    author_id: str
    author_name: str
    team_id: str | None
    team_name: str | None
    state: Literal["open", "approved", "rejected", "withdrawn"]
    message: str
    reason: str
    decided_by: str | None
    decided_by_name: str | None
    created: datetime
    decided: datetime | None
    revision: int
    may: list[Decision]
    """What whoever asks may decide."""

    @classmethod
    def of(cls, review: Review, who: Actor) -> ReviewAnswer:
        return cls.model_validate({**asdict(review), "may": review.choices(who)})


@router.get("", operation_id="list_reviews")
async def all_reviews(
    here: Here,
    who: Who,
    paging: Paging,
    q: Search = "",
    state: Annotated[str, Query(description="open, approved, rejected or withdrawn.")] = "",
    module: Annotated[str, Query(description="The id or name of a module.")] = "",
    author: Annotated[str, Query(description="The id or name of a user.")] = "",
    mine: Annotated[bool, Query(description="Only those that I asked for.")] = False,
) -> PageOf[ReviewAnswer]:
    """One's own; those of the team for its leader; all for an admin. Sorted by created, decided, module, author or
    state; the newest first."""
    only = ReviewFilter(q, state, module, author, mine)
    page = await here.database.read(lambda connection: list_reviews(connection, who, paging, only))
    return page_of(page, lambda review: ReviewAnswer.of(review, who))


@router.get("/{review}", operation_id="get_review")
async def one_review(review: str, here: Here, who: Who, response: Response) -> ReviewAnswer:
    found = await here.database.read(lambda connection: get_review(connection, who, review))
    return review_answer(found, who, response)


@router.post("/{review}/approve", operation_id="approve_review")
async def approve(
    review: str, here: Here, who: Who, seen: IfMatch, response: Response, body: DecisionBody | None = None
) -> ReviewAnswer:
    """The version is published with it. Nobody approves what is their own."""
    return await _decided(here, who, review, "approve", body, seen, response)


@router.post("/{review}/reject", operation_id="reject_review")
async def reject(
    review: str, body: DecisionBody, here: Here, who: Who, seen: IfMatch, response: Response
) -> ReviewAnswer:
    return await _decided(here, who, review, "reject", body, seen, response)


@router.post("/{review}/withdraw", operation_id="withdraw_review")
async def withdraw(review: str, here: Here, who: Who, seen: IfMatch, response: Response) -> ReviewAnswer:
    """By whoever asked for it: the version is private again."""
    return await _decided(here, who, review, "withdraw", None, seen, response)


def review_answer(review: Review, who: Actor, response: Response) -> ReviewAnswer:
    response.headers["ETag"] = etag(review.id, review.revision)
    return ReviewAnswer.of(review, who)


async def _decided(
    here: Services,
    who: Actor,
    review: str,
    decision: Decision,
    body: DecisionBody | None,
    seen: int | None,
    response: Response,
) -> ReviewAnswer:
    reason = body.reason if body is not None else ""
    found = await here.database.write(lambda connection: decide(connection, who, review, decision, reason, seen))
    return review_answer(found, who, response)
