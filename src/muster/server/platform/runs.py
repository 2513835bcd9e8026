"""Runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from sqlalchemy import Connection

from muster.kube.errors import NotFound
from muster.platform.graphs.document import mask_secrets
from muster.platform.graphs.model import is_graph
from muster.platform.permissions import Actor, may
from muster.platform.records.common import Page, Subject
from muster.platform.records.runs import Run, RunDetail, RunNode, RunState, TagCount
from muster.platform.runs.create import NewRun, PreparedRun, compile_source, load_copy, load_run
from muster.platform.runs.runs import (
    RunFilter,
    StoredRun,
    count_states,
    edit_run,
    find_stored,
    follows_templates,
    get_run,
    list_runs,
    nodes_of,
    parameters_given,
    workflow_ids,
)
from muster.platform.runs.tags import LONGEST_TAG, MOST_TAGS, count_tags
from muster.platform.workflows.versions import document_of
from muster.server.platform.event_feed import Event, EventFeed
from muster.server.platform.rest import (
    IfMatch,
    Moment,
    Paging,
    RequestBody,
    Search,
    TagFilter,
    etag,
    json_response,
    vars_of,
)
from muster.server.platform.security import Who
from muster.server.platform.services import Here, Services
from muster.server.platform.streams import EVENTS, event_stream, last_event_id
from muster.server.platform.workflows import look_of
from muster.workflows.task_graph import TaskGraph, refers_to_templates, run_graph, to_json

log = logging.getLogger(__name__)

router = APIRouter(prefix="/runs", tags=["runs"])

_ACTIONS = ("inspect", "copy", "edit", "stop", "retry", "delete")

_Name = Annotated[str, Field(max_length=200)]
_Tags = Annotated[list[Annotated[str, Field(max_length=LONGEST_TAG)]], Field(max_length=MOST_TAGS)]


class RunBody(RequestBody):
    workflow: _Name = ""
    """Its id or name; not needed if the version is given by id."""
    version: _Name = "latest"
    """Its number, name or id, or `latest`."""
    name: _Name = ""
    """Defaults to the names of the workflow and the version."""
    parameters: dict[str, str] = Field(default_factory=dict)
    """Values of the initial parameters; others have their defaults."""
    team: _Name | None = None
    """The id or name of one of your teams, to share it with; "" for none. Defaults to the team of the workflow."""
    tags: _Tags = Field(default_factory=list)
    """KEY or KEY=VALUE. All users see them."""

    def run(self) -> NewRun:
        return NewRun(self.workflow, self.version, self.name, self.parameters, self.team, tags=self.tags)


class CopyRun(RequestBody):
    workflow: _Name = ""
    version: _Name = ""
    """Another version; values that it does not have are dropped."""
    name: _Name = ""
    parameters: dict[str, str] = Field(default_factory=dict)
    """The values that differ."""
    team: _Name | None = None
    tags: _Tags | None = None
    """Defaults to the tags of the run that is copied."""

    def run(self) -> NewRun:
        return NewRun(self.workflow, self.version, self.name, self.parameters, self.team, tags=self.tags)


class RunChange(RequestBody):
    name: _Name | None = None
    tags: _Tags | None = None
    """All of its tags: those that are not here are removed."""


@router.get("", operation_id="list_runs", response_model=Page[Run])
async def all_runs(
    here: Here,
    who: Who,
    paging: Paging,
    q: Search = "",
    state: Annotated[list[RunState] | None, Query(description="One or more states.")] = None,
    workflow: Annotated[str, Query(description="Its id or name.")] = "",
    version: Annotated[str, Query(description="Its id; with a workflow also its number or name.")] = "",
    owner: Annotated[str, Query(description="The id or name of a user.")] = "",
    team: Annotated[str, Query(description="The id or name of a team.")] = "",
    since: Annotated[Moment | None, Query(description="Created at this time or later.")] = None,
    until: Annotated[Moment | None, Query(description="Created before this time.")] = None,
    tag: TagFilter = None,
) -> Response:
    """Lists runs by created, started, finished, name, state, workflow, version or owner; the newest first."""
    only = RunFilter(q, tuple(state or ()), workflow, version, owner, team, since, until, tuple(tag or ()))
    page = await here.database.read(lambda connection: list_runs(connection, who, paging, only))
    # This list is requested most, so it is serialized directly.
    return json_response(page)


@router.get("/states", operation_id="count_runs")
async def count_runs(
    here: Here,
    who: Who,
    workflow: Annotated[str, Query(description="Its id or name.")] = "",
    owner: Annotated[str, Query(description="The id or name of a user.")] = "",
) -> dict[str, int]:
    """Returns the number of runs in each state."""
    only = RunFilter(workflow=workflow, owner=owner)
    return await here.database.read(lambda connection: count_states(connection, who, only))


@router.get("/tags", operation_id="count_run_tags")
async def count_run_tags(
    here: Here,
    who: Who,
    workflow: Annotated[str, Query(description="Its id or name: only tags of its runs.")] = "",
) -> list[TagCount]:
    """Returns the tags that runs have, the most frequent first."""
    return await here.database.read(
        lambda connection: count_tags(connection, who, workflow_ids(connection, workflow) if workflow else None)
    )


@router.post("", status_code=201, operation_id="create_run")
async def create_run(body: RunBody, here: Here, who: Who, response: Response) -> Run:
    """Starts a run of a version, at once or as soon as resources are free."""
    look, new = look_of(here), body.run()
    source = await here.database.read(lambda connection: load_run(connection, who, new, look))
    made = await here.checked(who, compile_source, source)
    return await _create(here, who, made, response)


@router.get("/events", operation_id="watch_runs", response_class=Response, responses=EVENTS)
async def watch_runs(here: Here, who: Who, request: Request) -> Response:
    """Server-sent events: every run that changes, from now on or after Last-Event-ID. `reset` says that events were
    missed: load the list again."""
    return event_stream(request, _changes(here.run_feed, who, last_event_id(request)))


@router.get("/{run}", operation_id="get_run", response_model=RunDetail)
async def one_run(run: str, here: Here, who: Who) -> Response:
    last_event = here.run_feed.last  # before it is read: what changes meanwhile is sent again, not missed

    def read(connection: Connection) -> RunDetail:
        found = get_run(connection, who, run)
        inspects = may(who, "inspect", found.subject)
        return RunDetail(
            **vars_of(found),
            node_states=list(nodes_of(connection, run)),
            parameters=parameters_given(connection, run) if inspects else None,
            document=mask_secrets(document_of(connection, found.version_id)),
            may=[action for action in _ACTIONS if may(who, action, found.subject)],
            last_event=last_event,
        )

    whole = await here.database.read(read)
    # It may have ten thousand nodes, so it is serialized directly.
    return json_response(whole, etag(whole.id, whole.revision))


@router.get("/{run}/graph", operation_id="get_run_graph", response_model=TaskGraph)
async def get_run_graph(run: str, here: Here, who: Who) -> Response:
    """Returns the nodes and edges to draw: of a manifest, those of its templates, with the iterations and attempts that
    the run has made. The names of nodes without others inside are those in `node_states`."""

    def read(connection: Connection) -> tuple[str, bool, dict[str, Any] | None]:
        version, is_plain = get_run(connection, who, run).version_id, follows_templates(connection, run)
        is_known = is_plain and version in here.run_graphs
        return version, is_plain, None if is_known else document_of(connection, version)

    version, is_plain, document = await here.database.read(read)
    if document is None:
        return Response(here.run_graphs[version], media_type="application/json")
    if not is_graph(document):
        try:
            workflow = await here.runs.workflow(run)
            graph = await asyncio.to_thread(run_graph, workflow)
            content = await asyncio.to_thread(lambda: orjson.dumps(to_json(graph)))
            if is_plain and not refers_to_templates(graph):
                here.keep_run_graph(version, content)
            return Response(content, media_type="application/json")
        except NotFound:
            pass  # its Workflow does not exist yet, or no longer: what is left is the version
    _, content = await here.inspect_version(who, version, document)
    return Response(content, media_type="application/json")


@router.patch("/{run}", operation_id="edit_run")
async def change_run(run: str, body: RunChange, here: Here, who: Who, seen: IfMatch, response: Response) -> Run:
    """Renames the run, or replaces its tags."""
    found = await here.database.write(lambda connection: edit_run(connection, who, run, body.name, body.tags, seen))
    stored = await here.database.read(lambda connection: find_stored(connection, run))
    if stored is not None:
        here.run_feed.publish(stored, "run")
        here.all_runs_feed.publish(stored.run.subject)
    response.headers["ETag"] = etag(found.id, found.revision)
    return found


@router.post("/{run}/copy", status_code=201, operation_id="copy_run")
async def copy_run(run: str, body: CopyRun, here: Here, who: Who, response: Response) -> Run:
    """Starts a new run with the values of this one, and changes."""
    look, changes = look_of(here), body.run()
    source = await here.database.read(lambda connection: load_copy(connection, who, run, changes, look))
    made = await here.checked(who, compile_source, source)
    return await _create(here, who, made, response)


@router.post("/{run}/stop", operation_id="stop_run")
async def stop_run(run: str, here: Here, who: Who) -> Run:
    """Stops the run: no node starts any more, and running nodes are stopped."""
    return await here.runs.stop(who, run)


@router.post("/{run}/retry", operation_id="retry_run")
async def retry_run(run: str, here: Here, who: Who) -> Run:
    """Retries the run from the nodes that failed or did not finish."""
    return await here.runs.retry(who, run)


@router.delete("/{run}", status_code=204, operation_id="delete_run")
async def delete_run(run: str, here: Here, who: Who) -> None:
    """Deletes the run with everything that belongs to it. A running run is stopped."""
    await here.runs.delete(who, run)


@router.get("/{run}/events", operation_id="watch_run", response_class=Response, responses=EVENTS)
async def watch_run(
    run: str,
    here: Here,
    who: Who,
    request: Request,
    after: Annotated[
        str, Query(max_length=200, description="`last_event` of the run: sends only what has changed since.")
    ] = "",
) -> Response:
    """Server-sent events: the run as it is now, then after every change."""

    async def check() -> Run:
        return await here.database.read(lambda connection: get_run(connection, who, run))

    await check()
    return event_stream(request, _run_changes(here, who, run, last_event_id(request) or after), check)


async def _create(here: Services, who: Actor, made: PreparedRun, response: Response) -> Run:
    run = await here.runs.create(who, made)
    response.headers["Location"] = f"/api/v1/runs/{run.id}"
    return run


def _to_event(run: Run, nodes: tuple[RunNode, ...]) -> dict[str, Any]:
    states = list(nodes)
    return {**vars_of(run), "node_states": states}


async def _changes(feed: EventFeed, who: Actor, last: str) -> AsyncIterator[Event]:
    async for event in feed.after(last):
        stored: StoredRun | None = event.data
        if stored is None:
            yield event
        elif may(who, "view", Subject("run", stored.run.id, owner=stored.run.owner_id)):
            yield Event(event.id, _to_event(stored.run, stored.nodes), event.name)


async def _run_changes(here: Services, who: Actor, run_id: str, last: str) -> AsyncIterator[Event]:
    feed = here.run_feed

    def read(connection: Connection) -> dict[str, Any]:
        return _to_event(get_run(connection, who, run_id), nodes_of(connection, run_id))

    place = last or feed.last
    if not last:
        yield Event(place, await here.database.read(read), "run")
    async for event in feed.after(place):
        if event.name == "reset":
            yield Event(event.id, await here.database.read(read), "run")
        elif event.data.run.id == run_id:
            yield Event(event.id, _to_event(event.data.run, event.data.nodes), event.name)
