"""Lists as the API has them: `?limit=&cursor=&sort=&q=` and {"items": [...], "next": ..., "total": ...}."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Generic, TypeVar

from fastapi import Depends, Query
from pydantic import BaseModel

from muster.platform.database.paging import MAX_LIMIT, Page, PageRequest

T = TypeVar("T")
M = TypeVar("M")


class PageOf(BaseModel, Generic[M]):
    items: list[M]
    next: str | None
    """What to send as `cursor` for the piece that follows."""
    total: int


def page_of(page: Page[T], model: Callable[[T], M]) -> PageOf[M]:
    return PageOf.model_construct(items=[model(item) for item in page.items], next=page.next, total=page.total)


async def _paging(
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT, description="How many at most.")] = 50,
    cursor: Annotated[str, Query(description="`next` of the piece before.")] = "",
    sort: Annotated[str, Query(description="What to sort by; with - in front, the greatest first.")] = "",
) -> PageRequest:
    return PageRequest(limit, cursor, sort)


Paging = Annotated[PageRequest, Depends(_paging)]
Search = Annotated[str, Query(description="Words that have to occur.")]
