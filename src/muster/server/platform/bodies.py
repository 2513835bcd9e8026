"""What requests and answers are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import Request
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Query
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict

from muster.platform.errors import FieldError, Invalid

_parameters: dict[Callable[..., Any], list[str]] = {}


class Body(BaseModel):
    """A request. A field it does not know is refused by name."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=False)

    def changes(self) -> dict[str, Any]:
        """The fields that were written, for a PATCH."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class Answer(BaseModel):
    """An answer. It can be made of any object that has the same attributes."""

    model_config = ConfigDict(from_attributes=True)


async def only_known_parameters(request: Request) -> None:
    """A query parameter that nobody reads was meant to do something: it is refused."""
    if not request.url.query:
        return
    route: APIRoute = request.scope["route"]
    parameters = _parameters.get(route.endpoint)
    if parameters is None:
        found = get_flat_params(route.dependant)
        parameters = _parameters[route.endpoint] = [p.alias for p in found if isinstance(p.field_info, Query)]
    unknown = [name for name in request.query_params if name not in parameters]
    if unknown:
        told = f"there is no such parameter here; known: {', '.join(parameters) or 'none'}"
        raise Invalid.fields([FieldError(name, told) for name in unknown])
