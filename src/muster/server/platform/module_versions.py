"""Routes of module versions: builds, logs and reviews."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from sqlalchemy import Connection

from muster.platform.errors import NotFoundProblem
from muster.platform.modules.modules import get_module
from muster.platform.modules.reviews import ReviewFilter, ask_review, decide, get_review, list_reviews
from muster.platform.modules.source_snapshot import SourceSnapshot, list_changes, load_snapshot
from muster.platform.modules.versions import (
    StoredModuleVersion,
    find_version,
    list_versions,
    readme_of,
    take_step,
    version_record,
)
from muster.platform.permissions import Actor, require
from muster.platform.records.common import Page
from muster.platform.records.modules import (
    Decision,
    Module,
    ModuleVersion,
    ModuleVersionDetail,
    Review,
    SourceFile,
    SourceListing,
)
from muster.server.platform.event_feed import Event
from muster.server.platform.rest import (
    IfMatch,
    Paging,
    RequestBody,
    Search,
    etag,
    json_response,
    not_modified,
    vars_of,
)
from muster.server.platform.security import Who
from muster.server.platform.services import Here, Services
from muster.server.platform.streams import event_stream, last_event_id

reviews_router = APIRouter(prefix="/reviews", tags=["reviews"])


class DecisionBody(RequestBody):
    reason: Annotated[str, Field(max_length=10_000)] = ""
    """Required to reject."""


@reviews_router.get("", operation_id="list_reviews")
async def all_reviews(
    here: Here,
    who: Who,
    paging: Paging,
    q: Search = "",
    state: Annotated[str, Query(description="open, approved, rejected or withdrawn.")] = "",
    module: Annotated[str, Query(description="The id or name of a module.")] = "",
    author: Annotated[str, Query(description="The id or name of a user.")] = "",
    mine: Annotated[bool, Query(description="Only reviews that you asked for.")] = False,
) -> Page[Review]:
    """Lists reviews: your own, those of teams you lead, all for admins. Sorted by created, decided, module, author or
    state; the newest first."""
    only = ReviewFilter(q, state, module, author, mine)
    page = await here.database.read(lambda connection: list_reviews(connection, who, paging, only))
    return page.map(lambda review: review)


@reviews_router.get("/{review}", operation_id="get_review")
async def one_review(review: str, here: Here, who: Who, response: Response) -> Review:
    found = await here.database.read(lambda connection: get_review(connection, who, review))
    return review_answer(found, who, response)


@reviews_router.post("/{review}/approve", operation_id="approve_review")
async def approve(
    review: str, here: Here, who: Who, seen: IfMatch, response: Response, body: DecisionBody | None = None
) -> Review:
    """Approves and publishes the version. Authors cannot approve their own modules."""
    return await _decided(here, who, review, "approve", body, seen, response)


@reviews_router.post("/{review}/reject", operation_id="reject_review")
async def reject(review: str, body: DecisionBody, here: Here, who: Who, seen: IfMatch, response: Response) -> Review:
    return await _decided(here, who, review, "reject", body, seen, response)


@reviews_router.post("/{review}/withdraw", operation_id="withdraw_review")
async def withdraw(review: str, here: Here, who: Who, seen: IfMatch, response: Response) -> Review:
    """Withdraws the review. The version is private again."""
    return await _decided(here, who, review, "withdraw", None, seen, response)


def review_answer(review: Review, who: Actor, response: Response) -> Review:
    response.headers["ETag"] = etag(review.id, review.revision)
    return review


async def _decided(
    here: Services,
    who: Actor,
    review: str,
    decision: Decision,
    body: DecisionBody | None,
    seen: int | None,
    response: Response,
) -> Review:
    reason = body.reason if body is not None else ""
    found = await here.database.write(lambda connection: decide(connection, who, review, decision, reason, seen))
    return review_answer(found, who, response)


module_versions_router = APIRouter(prefix="/modules/{module}/versions", tags=["modules"])


class AskBody(RequestBody):
    message: Annotated[str, Field(max_length=10_000)] = ""
    """A message for the reviewer."""


@module_versions_router.get("", operation_id="list_module_versions")
async def list_module_versions(
    module: str, here: Here, who: Who, paging: Paging, state: Annotated[str, Query()] = ""
) -> Page[ModuleVersion]:
    """Lists versions by number or state, the newest first. Unpublished ones are for users who work on the module."""
    page = await here.database.read(
        lambda connection: list_versions(connection, who, get_module(connection, who, module), paging, state)
    )
    return page.map(version_record)


@module_versions_router.get("/{version}", operation_id="get_module_version", response_model=ModuleVersionDetail)
async def get_module_version(
    module: str, version: str, here: Here, who: Who, request: Request
) -> ModuleVersionDetail | Response:
    """By number or id, or `latest`."""

    def read(connection: Connection) -> tuple[Module, StoredModuleVersion, str]:
        of, found = _found(connection, who, module, version)
        return of, found, readme_of(connection, found)

    of, found, readme = await here.database.read(read)
    seen = found.seen_by(who, of)
    hidden = int(seen.source.env != found.source.env)
    tag = etag(found.id, hidden, found.revision)
    known = not_modified(request, tag)
    if known is not None:
        return known
    whole = ModuleVersionDetail(**vars_of(version_record(seen)), readme=readme)
    return json_response(whole, tag)


@module_versions_router.get(
    "/{version}/log",
    operation_id="module_build_log",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def get_build_log(module: str, version: str, here: Here, who: Who) -> Response:
    """Returns the whole log so far."""
    found = await here.database.read(lambda connection: _inspected(connection, who, module, version))
    path = here.builds.log_path(found.module_id, found.number)
    text = path.read_bytes() if path.exists() else b""
    return Response(text, media_type="text/plain; charset=utf-8", headers={"X-Content-Type-Options": "nosniff"})


@module_versions_router.get(
    "/{version}/log/events",
    operation_id="follow_module_build",
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def follow_module_build(module: str, version: str, here: Here, who: Who, request: Request) -> Response:
    """Server-sent events: the log as it is written, as `text`; the last event is `end` and has the `state`. The id of
    an event is its position in the log; with Last-Event-ID the stream continues from there."""

    async def check() -> StoredModuleVersion:
        return await here.database.read(lambda connection: _inspected(connection, who, module, version))

    found = await check()
    builds = here.builds
    path = builds.log_path(found.module_id, found.number)
    last = last_event_id(request)
    offset = int(last) if last.isdecimal() and len(last) < 16 else 0

    async def events() -> AsyncIterator[Event]:
        async for text, end, state in builds.follow(found.id, path, offset):
            yield Event(str(end), {"state": state}, "end") if state else Event(str(end), {"text": text})

    return event_stream(request, events(), check)


@module_versions_router.get("/{version}/source", operation_id="list_module_source")
async def list_module_source(
    module: str,
    version: str,
    here: Here,
    who: Who,
    against: Annotated[str, Query(max_length=100, description="Another version, to compare with.")] = "",
) -> SourceListing:
    """Lists the files that the version was built from, for users who work on the module or review it."""
    after, before = await _snapshots(here, who, module, version, against)
    return SourceListing(False, [], 0, False) if after is None else list_changes(after, before)


@module_versions_router.get("/{version}/source/file", operation_id="get_module_source")
async def get_source_file(
    module: str, version: str, here: Here, who: Who, path: Annotated[str, Query(max_length=4096)] = ""
) -> SourceFile:
    """Returns one of these files. A file that is not text, or too large, has no text."""
    found, _ = await _snapshots(here, who, module, version, "")
    file = found.files.get(path) if found is not None else None
    if file is None:
        raise NotFoundProblem.named("file", path)
    return file


async def _snapshots(
    here: Services, who: Actor, module: str, version: str, against: str
) -> tuple[SourceSnapshot | None, SourceSnapshot | None]:
    names = [version, *([against] if against else [])]
    found = await here.database.read(lambda connection: [_inspected(connection, who, module, name) for name in names])
    paths = [here.builds.source_path(each.module_id, each.number) for each in found]
    after, *before = await asyncio.to_thread(lambda: [load_snapshot(path) for path in paths])
    return after, before[0] if before else None


@module_versions_router.post("/{version}/review", status_code=201, operation_id="ask_module_review")
async def ask_module_review(
    module: str, version: str, here: Here, who: Who, response: Response, body: AskBody | None = None
) -> Review:
    """Asks for a review, so that all users may use the version. An admin or a leader of the module's team decides,
    never the author."""
    message = body.message if body is not None else ""
    review = await here.database.write(lambda connection: ask_review(connection, who, module, version, message))
    return review_answer(review, who, response)


@module_versions_router.post("/{version}/stop", operation_id="stop_module_build")
async def stop_build(module: str, version: str, here: Here, who: Who) -> ModuleVersion:
    stopped = await _step(here, who, module, version, "stop")
    await here.builds.stop(stopped.id)
    return stopped


@module_versions_router.post("/{version}/retry", operation_id="retry_module_build")
async def retry_build(module: str, version: str, here: Here, who: Who) -> ModuleVersion:
    """Builds a failed version again, from the current state of the branch or tag."""
    again = await _step(here, who, module, version, "retry")
    here.builds.look()
    return again


@module_versions_router.post("/{version}/deprecate", operation_id="deprecate_module_version")
async def deprecate_module_version(module: str, version: str, here: Here, who: Who) -> ModuleVersion:
    """Deprecates a version. Workflows that use it still run; others cannot start to use it."""
    return await _step(here, who, module, version, "deprecate")


@module_versions_router.post("/{version}/restore", operation_id="restore_module_version")
async def restore_module_version(module: str, version: str, here: Here, who: Who) -> ModuleVersion:
    return await _step(here, who, module, version, "restore")


async def _step(
    here: Services, who: Actor, module: str, version: str, step: Literal["stop", "retry", "deprecate", "restore"]
) -> ModuleVersion:
    def write(connection: Connection) -> StoredModuleVersion:
        of, found = _found(connection, who, module, version)
        return take_step(connection, who, of, found, step).seen_by(who, of)

    return version_record(await here.database.write(write))


def _found(connection: Connection, who: Actor, module: str, version: str) -> tuple[Module, StoredModuleVersion]:
    of = get_module(connection, who, module)
    return of, find_version(connection, who, of, version)


def _inspected(connection: Connection, who: Actor, module: str, version: str) -> StoredModuleVersion:
    of, found = _found(connection, who, module, version)
    require(who, "inspect", of.subject, of.name)
    return found
