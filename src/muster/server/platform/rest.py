"""Conventions of every route: request bodies, responses, ETags, pages, query parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Annotated, Any, TypeAlias, TypeVar

import orjson
from fastapi import Depends, Header, Request, Response
from fastapi import Query as Query_fastapi
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Query
from fastapi.routing import APIRoute
from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, TypeAdapter

from muster.platform.database.queries import MAX_LIMIT, PageRequest
from muster.platform.errors import BadRequestProblem, InvalidProblem
from muster.platform.messages import field_error
from muster.platform.runs.tags import LONGEST_TAG, MOST_TAGS

Moment: TypeAlias = Annotated[
    datetime, AfterValidator(lambda given: given if given.tzinfo else given.replace(tzinfo=UTC))
]
"""A time in a query parameter; UTC if it names no time zone."""

_parameters: dict[Callable[..., Any], list[str]] = {}


class RequestBody(BaseModel):
    """A request body. Unknown fields are refused by name."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=False)

    def changes(self) -> dict[str, Any]:
        """The fields that were set, for a PATCH."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class ApiModel(BaseModel):
    """A response. It can be made from any object with the same attributes."""

    model_config = ConfigDict(from_attributes=True)


async def only_known_parameters(request: Request) -> None:
    """Refuses unknown query parameters."""
    if not request.url.query:
        return
    route: APIRoute = request.scope["route"]
    parameters = _parameters.get(route.endpoint)
    if parameters is None:
        found = get_flat_params(route.dependant)
        parameters = _parameters[route.endpoint] = [p.alias for p in found if isinstance(p.field_info, Query)]
    unknown = [name for name in request.query_params if name not in parameters]
    if unknown:
        known = parameters or ["none"]
        raise InvalidProblem.fields([field_error(name, "request.parameter", known=known) for name in unknown])


def etag(*parts: object) -> str:
    """An ETag that changes whenever one of the parts does: pass the revision."""
    return '"' + "-".join(str(part) for part in parts) + '"'


def not_modified(request: Request, tag: str) -> Response | None:
    """304 if the client has this already: `return fresh(request, tag) or ...`."""
    known = request.headers.get("if-none-match", "")
    tags = {one.strip().removeprefix("W/") for one in known.split(",")}
    return Response(status_code=304, headers={"ETag": tag}) if tag in tags or "*" in tags else None


async def _revision(if_match: Annotated[str | None, Header()] = None) -> int | None:
    if if_match is None or if_match.strip() == "*":
        return None
    last = if_match.strip().removeprefix("W/").strip('"').rpartition("-")[2]
    if not last.isdecimal():
        raise BadRequestProblem.of("request.etag", etag=if_match)
    return int(last)


IfMatch = Annotated[int | None, Depends(_revision)]
"""The revision that the client expects, if it sends one. Pass it to the function that makes the change."""


T = TypeVar("T")
M = TypeVar("M")


async def _paging(
    limit: Annotated[int, Query_fastapi(ge=1, le=MAX_LIMIT, description="The largest number of items.")] = 50,
    cursor: Annotated[str, Query_fastapi(max_length=4000, description="`next` of the previous page.")] = "",
    sort: Annotated[
        str, Query_fastapi(max_length=100, description="The field to sort by; with - in front, in descending order.")
    ] = "",
) -> PageRequest:
    return PageRequest(limit, cursor, sort)


Paging = Annotated[PageRequest, Depends(_paging)]
Search = Annotated[str, Query_fastapi(max_length=500, description="Words that must occur.")]
TagFilter: TypeAlias = Annotated[
    list[Annotated[str, StringConstraints(max_length=LONGEST_TAG)]] | None,
    Query_fastapi(max_length=MOST_TAGS, description="KEY=VALUE, or KEY for any value: only runs with all of these."),
]


def vars_of(record: Any) -> dict[str, Any]:
    """The fields of a record by name. Unlike `asdict`, it does not copy what is in them."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


def json_response(record: Any, tag: str = "") -> Response:
    """A record as JSON, for routes that set an ETag, and for lists that are requested most."""
    headers = {"ETag": tag} if tag else {}
    return Response(orjson.dumps(record, option=orjson.OPT_UTC_Z), media_type="application/json", headers=headers)


def build_record(kind: type[T], data: Mapping[str, Any]) -> T:
    """A record of plain data, with the records inside of it."""
    adapter = _adapters.get(kind)
    if adapter is None:
        adapter = _adapters[kind] = TypeAdapter(kind)
    record: T = adapter.validate_python(data)
    return record


_adapters: dict[type, TypeAdapter[Any]] = {}
