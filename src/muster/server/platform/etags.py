"""Changes that do not overwrite each other (If-Match), and answers that need not be sent twice (If-None-Match)."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header, Request, Response

from muster.platform.errors import BadRequest


def etag(*parts: object) -> str:
    """Changes whenever one of the parts does: give it the revision of what is answered."""
    return '"' + "-".join(str(part) for part in parts) + '"'


def fresh(request: Request, tag: str) -> Response | None:
    """304 if the client has this already: `return fresh(request, tag) or ...`."""
    known = request.headers.get("if-none-match", "")
    tags = {one.strip().removeprefix("W/") for one in known.split(",")}
    return Response(status_code=304, headers={"ETag": tag}) if tag in tags or "*" in tags else None


async def _revision(if_match: Annotated[str | None, Header()] = None) -> int | None:
    if if_match is None or if_match.strip() == "*":
        return None
    last = if_match.strip().removeprefix("W/").strip('"').rpartition("-")[2]
    if not last.isdecimal():
        raise BadRequest(f"If-Match: {if_match} is not an ETag of this API")
    return int(last)


IfMatch = Annotated[int | None, Depends(_revision)]
"""The revision that the client has seen, if it says so: pass it on to what makes the change."""
