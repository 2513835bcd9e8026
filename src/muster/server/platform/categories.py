"""Categories of modules."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import Field

from muster.platform.modules.modules import (
    Category,
    create_category,
    delete_category,
    edit_category,
    get_category,
    list_categories,
)
from muster.server.platform.rest import Answer, Body, IfMatch, PageOf, Paging, Search, etag, page_of
from muster.server.platform.security import Who
from muster.server.platform.services import Here

router = APIRouter(prefix="/categories", tags=["categories"])


class CategoryBody(Body):
    name: Annotated[str, Field(max_length=200)]
    description: Annotated[str, Field(max_length=10_000)] = ""


class CategoryChange(Body):
    name: Annotated[str, Field(max_length=200)] = ""
    description: Annotated[str, Field(max_length=10_000)] = ""


class CategoryAnswer(Answer):
    id: str
    name: str
    description: str
    created: datetime
    revision: int
    modules: int


@router.get("", operation_id="list_categories")
async def all_categories(here: Here, who: Who, paging: Paging, q: Search = "") -> PageOf[CategoryAnswer]:
    """Sorted by name, created or modules."""
    page = await here.database.read(lambda connection: list_categories(connection, who, paging, q))
    return page_of(page, CategoryAnswer.model_validate)


@router.post("", status_code=201, operation_id="create_category")
async def new_category(body: CategoryBody, here: Here, who: Who, response: Response) -> CategoryAnswer:
    made = await here.database.write(lambda connection: create_category(connection, who, body.name, body.description))
    return _answer(made, response)


@router.get("/{category}", operation_id="get_category")
async def one_category(category: str, here: Here, who: Who, response: Response) -> CategoryAnswer:
    """By id or name."""
    return _answer(await here.database.read(lambda connection: get_category(connection, who, category)), response)


@router.patch("/{category}", operation_id="edit_category")
async def change_category(
    category: str, body: CategoryChange, here: Here, who: Who, seen: IfMatch, response: Response
) -> CategoryAnswer:
    found = await here.database.write(lambda connection: edit_category(connection, who, category, body.changes(), seen))
    return _answer(found, response)


@router.delete("/{category}", status_code=204, operation_id="delete_category")
async def drop_category(category: str, here: Here, who: Who, seen: IfMatch) -> None:
    """Unless modules are in it."""
    await here.database.write(lambda connection: delete_category(connection, who, category, seen))


def _answer(category: Category, response: Response) -> CategoryAnswer:
    response.headers["ETag"] = etag(category.id, category.revision)
    return CategoryAnswer.model_validate(category)
