"""Versions of modules: what was built of them, how, and what becomes of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from sqlalchemy import Connection

from muster.platform.modules.modules import Module, get_module, steps_from
from muster.platform.modules.reviews import ask_review
from muster.platform.modules.versions import ModuleVersion, find_version, list_versions, readme_of, take_step
from muster.platform.permissions import Actor, require
from muster.server.platform.modules import builds_of
from muster.server.platform.rest import Answer, Body, PageOf, Paging, etag, not_modified, page_of
from muster.server.platform.reviews import ReviewAnswer, review_answer
from muster.server.platform.security import Who
from muster.server.platform.services import Here, Services
from muster.server.platform.streams import Event, event_stream, last_event_id

router = APIRouter(prefix="/modules/{module}/versions", tags=["modules"])


class AskBody(Body):
    message: Annotated[str, Field(max_length=10_000)] = ""
    """For whoever decides."""


class VariableAnswer(Answer):
    name: str
    value: str
    secret: bool


class InputAnswer(Answer):
    name: str
    description: str


class OutputAnswer(Answer):
    name: str
    path: str
    type: str
    description: str


class ModuleVersionAnswer(Answer):
    id: str
    module_id: str
    number: int
    author_id: str
    author_name: str
    git_url: str
    """Without credentials."""
    git_ref: str
    git_commit: str
    """What was built."""
    dockerfile: str
    build_dir: str
    readme_path: str
    env: list[VariableAnswer]
    """Values are only for those who work on the module, or review it."""
    inputs: list[InputAnswer]
    outputs: list[OutputAnswer]
    state: str
    reason: str
    """Why it failed or was rejected."""
    steps: list[str]
    """What could be done with it by somebody who may."""
    runs_as: Literal["image", "folder", ""]
    image: str
    entrypoint: list[str]
    size: int
    created: datetime
    updated: datetime
    built: datetime | None

    @classmethod
    def of(cls, version: ModuleVersion) -> ModuleVersionAnswer:
        source = version.source
        runs_as: Literal["image", "folder", ""] = (
            "" if version.built is None else "folder" if version.folder else "image"
        )
        return cls(
            id=version.id,
            module_id=version.module_id,
            number=version.number,
            author_id=version.author_id,
            author_name=version.author_name,
            git_url=source.git_url,
            git_ref=source.git_ref,
            git_commit=version.git_commit,
            dockerfile=source.dockerfile,
            build_dir=source.build_dir or "/",
            readme_path=source.readme_path,
            env=[VariableAnswer.model_validate(variable) for variable in source.env],
            inputs=[InputAnswer.model_validate(given) for given in source.inputs],
            outputs=[OutputAnswer.model_validate(output) for output in source.outputs],
            state=version.state,
            reason=version.reason,
            steps=[step for step in steps_from(version.state) if step not in ("built", "fail")],
            runs_as=runs_as,
            image=version.image,
            entrypoint=list(version.entrypoint),
            size=version.size,
            created=version.created,
            updated=version.updated,
            built=version.built,
        )


class WholeModuleVersion(ModuleVersionAnswer):
    readme: str
    """Markdown, as its author wrote it: whoever shows it leaves out what a page would run."""


@router.get("", operation_id="list_module_versions")
async def versions_of_module(
    module: str, here: Here, who: Who, paging: Paging, state: Annotated[str, Query()] = ""
) -> PageOf[ModuleVersionAnswer]:
    """Sorted by number or state; the newest first. Those that are not published only for those who work on it."""
    page = await here.database.read(
        lambda connection: list_versions(connection, who, get_module(connection, who, module), paging, state)
    )
    return page_of(page, ModuleVersionAnswer.of)


@router.get("/{version}", operation_id="get_module_version", response_model=WholeModuleVersion)
async def version_of_module(
    module: str, version: str, here: Here, who: Who, request: Request
) -> WholeModuleVersion | Response:
    """By number or id, or `latest`."""

    def read(connection: Connection) -> tuple[Module, ModuleVersion, str]:
        of, found = _found(connection, who, module, version)
        return of, found, readme_of(connection, found)

    of, found, readme = await here.database.read(read)
    seen = found.seen_by(who, of)
    hidden = int(seen.source.env != found.source.env)
    tag = etag(found.id, hidden, found.revision)
    known = not_modified(request, tag)
    if known is not None:
        return known
    whole = WholeModuleVersion(**ModuleVersionAnswer.of(seen).model_dump(), readme=readme)
    return Response(whole.model_dump_json(), media_type="application/json", headers={"ETag": tag})


@router.get(
    "/{version}/log",
    operation_id="module_build_log",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def build_log(module: str, version: str, here: Here, who: Who) -> Response:
    """All of it, as far as it is written."""
    found = await here.database.read(lambda connection: _inspected(connection, who, module, version))
    path = builds_of(here).log_path(found.module_id, found.number)
    text = path.read_bytes() if path.exists() else b""
    return Response(text, media_type="text/plain; charset=utf-8", headers={"X-Content-Type-Options": "nosniff"})


@router.get(
    "/{version}/log/events",
    operation_id="follow_module_build",
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def follow_build(module: str, version: str, here: Here, who: Who, request: Request) -> Response:
    """The log as it is written: events with `text`; the last one is called `end` and has the `state`. The id of an
    event is where in the log it ends: whoever comes back with it misses nothing."""
    found = await here.database.read(lambda connection: _inspected(connection, who, module, version))
    builds = builds_of(here)
    path = builds.log_path(found.module_id, found.number)
    last = last_event_id(request)
    offset = int(last) if last.isdecimal() and len(last) < 16 else 0

    async def events() -> AsyncIterator[Event]:
        async for text, end, state in builds.follow(found.id, path, offset):
            yield Event(str(end), {"state": state}, "end") if state else Event(str(end), {"text": text})

    return event_stream(request, events())


@router.post("/{version}/review", status_code=201, operation_id="ask_module_review")
async def ask_for_review(
    module: str, version: str, here: Here, who: Who, response: Response, body: AskBody | None = None
) -> ReviewAnswer:
    """So that everybody may use it. An admin or a leader of the module's team decides, never the author."""
    message = body.message if body is not None else ""
    review = await here.database.write(lambda connection: ask_review(connection, who, module, version, message))
    return review_answer(review, who, response)


@router.post("/{version}/stop", operation_id="stop_module_build")
async def stop_build(module: str, version: str, here: Here, who: Who) -> ModuleVersionAnswer:
    stopped = await _step(here, who, module, version, "stop")
    await builds_of(here).stop(stopped.id)
    return stopped


@router.post("/{version}/retry", operation_id="retry_module_build")
async def retry_build(module: str, version: str, here: Here, who: Who) -> ModuleVersionAnswer:
    """Of a version whose build failed: the same again, with what the branch or tag is by now."""
    again = await _step(here, who, module, version, "retry")
    builds_of(here).look()
    return again


@router.post("/{version}/deprecate", operation_id="deprecate_module_version")
async def deprecate_version(module: str, version: str, here: Here, who: Who) -> ModuleVersionAnswer:
    """Workflows that use it go on; no other one may begin to."""
    return await _step(here, who, module, version, "deprecate")


@router.post("/{version}/restore", operation_id="restore_module_version")
async def restore_module_version(module: str, version: str, here: Here, who: Who) -> ModuleVersionAnswer:
    return await _step(here, who, module, version, "restore")


async def _step(
    here: Services, who: Actor, module: str, version: str, step: Literal["stop", "retry", "deprecate", "restore"]
) -> ModuleVersionAnswer:
    def write(connection: Connection) -> ModuleVersion:
        of, found = _found(connection, who, module, version)
        return take_step(connection, who, of, found, step).seen_by(who, of)

    return ModuleVersionAnswer.of(await here.database.write(write))


def _found(connection: Connection, who: Actor, module: str, version: str) -> tuple[Module, ModuleVersion]:
    of = get_module(connection, who, module)
    return of, find_version(connection, who, of, version)


def _inspected(connection: Connection, who: Actor, module: str, version: str) -> ModuleVersion:
    of, found = _found(connection, who, module, version)
    require(who, "inspect", of.subject, of.name)
    return found
