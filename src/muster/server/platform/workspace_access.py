"""What the routes of notebooks and of TensorBoards share: whose a workspace is, its Pod, events and log, and starting
and stopping it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar

from fastapi import Request, Response
from sqlalchemy import Connection

from muster.kube.builtin import EVENT, POD
from muster.kube.cluster import Cluster
from muster.kube.controller import Informer
from muster.kube.errors import AlreadyExists, ApiError, NotFound, Unavailable, is_dns_label
from muster.kube.events import sort_events
from muster.kube.kinds import Kind
from muster.kube.objects import (
    Object,
    controller_of,
    get_condition,
    labels_of,
    name_of,
    namespace_of,
    parse_time,
    status_of,
    timestamp,
    uid_of,
)
from muster.platform.database.queries import PageRequest, paginate
from muster.platform.errors import ConflictProblem, InvalidProblem, NotFoundProblem, Problem, UnavailableProblem
from muster.platform.jobs.detail import masks_for
from muster.platform.jobs.jobs import find_names
from muster.platform.messages import FieldError, field_error
from muster.platform.namespaces import OWNER_LABEL, TEAM_LABEL
from muster.platform.permissions import Actor, may, require
from muster.platform.records.common import Page, Subject
from muster.platform.records.pods import KubernetesEvent
from muster.platform.records.workspaces import Notebook, TensorBoard, WorkspaceProgress, WorkspaceState
from muster.platform.runs.logs import LogSource, read_log_lines
from muster.platform.runs.node_detail import event_summary
from muster.platform.runs.status import Masks
from muster.platform.status_messages import explain
from muster.platform.users.audit import write_audit
from muster.platform.users.namespace_names import namespace_of as namespace_for
from muster.platform.users.teams import team_to_share_with
from muster.server.platform.event_feed import Event
from muster.server.platform.logs import line_after, line_events, text_response
from muster.server.platform.rest import build_record
from muster.server.platform.services import Services
from muster.server.platform.streams import event_stream, last_event_id
from muster.workspaces.kinds import (
    CULL_AT_ANNOTATION,
    CULLED_AT_ANNOTATION,
    LONGEST_NAME,
    NOTEBOOK,
    RESTART_ANNOTATION,
    STOP_ANNOTATION,
    is_stopped,
    main_container,
)
from muster.workspaces.plan import is_ready, pod_name, secret_name, state_of

AnyWorkspace = TypeVar("AnyWorkspace", Notebook, TensorBoard)

_ACTIONS: Final = ("open", "start", "stop", "restart", "edit", "delete")
_SETTLE_SECONDS: Final = 0.2
_NAME: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class FoundWorkspace:
    object: Object
    pod: Object | None
    subject: Subject

    @property
    def state(self) -> tuple[WorkspaceState, str]:
        return state_of(self.object, self.pod)

    @property
    def progress(self) -> WorkspaceProgress | None:
        shown = status_of(self.object).get("environment")
        if not shown or self.state[0] != "starting":
            return None
        text = str(shown.get("message") or "")
        return WorkspaceProgress(text, list(explain(text)), float(shown.get("fraction") or 0.0))

    @property
    def ready_since(self) -> datetime | None:
        condition = get_condition(status_of(self.pod or {}).get("conditions"), "Ready") or {}
        return parse_time(str(condition["lastTransitionTime"])) if is_ready(self.pod) and condition else None

    def may(self, who: Actor) -> list[str]:
        """The actions that are permitted and possible now."""
        state, stopped = self.state[0], is_stopped(self.object)
        possible = {
            "open": state == "running",
            "start": stopped,
            "stop": not stopped,
            "restart": not stopped,
            "edit": True,
            "delete": True,
        }
        if state == "deleting":
            return []
        rules = {"restart": "start"}
        return [each for each in _ACTIONS if possible[each] and may(who, rules.get(each, each), self.subject)]


def subject_of(here: Services, workspace: Object) -> Subject:
    """As with jobs: what a workspace says about itself counts only in the namespace of the user or the team."""
    place = here.namespaces.owner_of(namespace_of(workspace))
    uid, labels = uid_of(workspace), labels_of(workspace)
    if place is not None and place.user:
        return Subject("workspace", uid, owner=place.user)
    team = labels.get(TEAM_LABEL, "") if place is None else place.team
    return Subject("workspace", uid, owner=labels.get(OWNER_LABEL, ""), team=team)


async def find_workspace(
    here: Services, who: Actor, kind: Kind, namespace: str, name: str, action: str = "view"
) -> FoundWorkspace:
    """Finds a workspace and checks that the user may do this to it."""
    try:
        found = await here.cluster.get(kind, name, namespace)
    except NotFound:
        raise NotFoundProblem.named(kind.kind, f"{namespace}/{name}") from None
    except Unavailable as error:
        raise UnavailableProblem(error.message) from None
    subject = subject_of(here, found)
    require(who, action, subject, f"{namespace}/{name}")
    return FoundWorkspace(found, await _pod_of(here.cluster, found), subject)


async def list_workspaces(here: Services, who: Actor, kind: Kind, namespace: str = "") -> list[FoundWorkspace]:
    """Lists what the user may see."""
    try:
        objects = (await here.cluster.list(kind, namespace)).items
    except NotFound:
        return []  # a cluster without this kind
    except ApiError as error:
        raise UnavailableProblem(error.message) from None
    visible = [(each, subject_of(here, each)) for each in objects]
    return [
        FoundWorkspace(each, await _pod_of(here.cluster, each), subject)
        for each, subject in visible
        if may(who, "view", subject)
    ]


def workspace_page(
    found: Iterable[AnyWorkspace], paging: PageRequest, q: str, states: Sequence[str] | None
) -> Page[AnyWorkspace]:
    """Returns one page of those that have one of the states and all words of `q` in their name, owner or image."""
    words = q.lower().split()
    fitting = [
        each for each in found if (not states or each.state in states) and all(w in _search_text(each) for w in words)
    ]
    sortable: dict[str, Callable[[AnyWorkspace], Any]] = {
        "created": lambda each: each.created,
        "name": lambda each: each.name,
        "state": lambda each: each.state,
        "namespace": lambda each: each.namespace,
    }
    return paginate(fitting, paging, key=lambda each: each.uid, sortable=sortable, usual="-created")


def _search_text(workspace: Notebook | TensorBoard) -> str:
    image = workspace.image if isinstance(workspace, Notebook) else ""
    return f"{workspace.namespace}/{workspace.name} {image} {workspace.owner_name or ''}".lower()


async def _pod_of(cluster: Cluster, workspace: Object) -> Object | None:
    try:
        pod = await cluster.get(POD, pod_name(workspace), namespace_of(workspace))
    except NotFound:
        return None
    owner = controller_of(pod)
    return pod if owner is not None and owner.get("uid") == uid_of(workspace) else None


@dataclass(frozen=True, slots=True)
class People:
    """The names of owners and teams, by id."""

    users: Mapping[str, str]
    teams: Mapping[str, str]

    def fields(self, subject: Subject) -> dict[str, str | None]:
        return {
            "owner_id": subject.owner or None,
            "owner_name": self.users.get(subject.owner),
            "team_id": subject.team or None,
            "team_name": self.teams.get(subject.team),
        }


async def people_of(here: Services, found: list[FoundWorkspace]) -> People:
    users, teams = [each.subject.owner for each in found], [each.subject.team for each in found]
    known = await here.database.read(lambda c: find_names(c, of_users=users, of_teams=teams, of_runs=()))
    return People(known.users, known.teams)


async def place_for(here: Services, who: Actor, team: str) -> tuple[str, str]:
    """Returns the namespace for a new workspace, and the id of its team; '' for none."""
    require(who, "create", Subject("workspace", owner=who.id))

    def look(connection: Connection) -> tuple[str, str]:
        team_id = team_to_share_with(connection, who, team) or ""
        return namespace_for(connection, user=who.id, team=team_id), team_id

    namespace, team_id = await here.database.read(look)
    try:
        await here.namespaces.ensure(namespace)
    except ApiError as error:
        raise to_problem(error) from None
    return namespace, team_id


def owner_labels(who: Actor, team: str) -> dict[str, str]:
    return {OWNER_LABEL: who.id, **({TEAM_LABEL: team} if team else {})}


def name_errors(name: str) -> list[FieldError]:
    if len(name) <= LONGEST_NAME and is_dns_label(name) and _NAME.fullmatch(name):
        return []
    return [field_error("name", "workspace.name", name=name[:100], most=LONGEST_NAME)]


def to_problem(error: ApiError, kind: str = "", name: str = "") -> Problem:
    """Turns the error of the cluster into one for the user."""
    if isinstance(error, AlreadyExists) and name:
        return ConflictProblem.from_error(field_error("name", "workspace.taken", kind=kind, name=name))
    if isinstance(error, NotFound):
        return NotFoundProblem(error.message)
    if isinstance(error, Unavailable):
        return UnavailableProblem(error.message)
    causes = [field_error(each.field, "workspace.cluster-refused", detail=each.message) for each in error.causes]
    return InvalidProblem.fields(causes) if causes else ConflictProblem(error.message)


async def note(here: Services, who: Actor, action: str, workspace: Object, **more: Any) -> None:
    """Writes what was done into the audit log."""
    title = f"{str(workspace['kind']).lower()}/{name_of(workspace)}"
    details = {"namespace": namespace_of(workspace), **more}
    await here.database.write(
        lambda connection: write_audit(connection, who, action, "workspace", uid_of(workspace), title, details)
    )


async def set_running(here: Services, who: Actor, kind: Kind, found: FoundWorkspace, action: str) -> None:
    """Starts, stops or restarts a workspace. The caller must check permissions."""
    stopped = is_stopped(found.object)
    if action == "stop" and stopped:
        raise ConflictProblem.of("workspace.is-stopped")
    if action == "start" and not stopped:
        raise ConflictProblem.of("workspace.is-started")
    annotations: dict[str, str | None] = {STOP_ANNOTATION: None, CULLED_AT_ANNOTATION: None, CULL_AT_ANNOTATION: None}
    if action == "stop":
        annotations = {STOP_ANNOTATION: timestamp(), CULL_AT_ANNOTATION: None}
    elif action == "restart" and not stopped:
        annotations[RESTART_ANNOTATION] = timestamp()
    change = {"metadata": {"annotations": annotations, "uid": uid_of(found.object)}}
    try:
        await here.cluster.patch(kind, name_of(found.object), namespace_of(found.object), change)
    except ApiError as error:
        raise to_problem(error) from None
    await note(here, who, action, found.object)


async def masks_of(here: Services, found: FoundWorkspace) -> Masks:
    """Masks for the Secrets that its Pod uses, and for the token of its server."""
    spec: Object = (found.pod or {}).get("spec") or {}
    token = {"containers": [{"name": "", "envFrom": [{"secretRef": {"name": secret_name(found.object)}}]}]}
    roles = {"spec": {"pod": {"template": {"spec": spec}}, "token": {"template": {"spec": token}}}}
    return await masks_for(here.cluster, {**found.object, **roles})


async def happenings(here: Services, found: FoundWorkspace) -> list[KubernetesEvent]:
    """Returns the events of the workspace and its current Pod, the oldest first."""
    uids = {uid_of(found.object), *([uid_of(found.pod)] if found.pod is not None else [])}
    page = await here.cluster.list(EVENT, namespace_of(found.object))
    told = sort_events(each for each in page.items if (each.get("involvedObject") or {}).get("uid") in uids)
    masks = await masks_of(here, found)
    return [build_record(KubernetesEvent, masks.anything(event_summary(each))) for each in told]


Find = Callable[[], Awaitable[FoundWorkspace]]
"""Finds the workspace again, and checks permissions again."""


async def changes_of(
    here: Services, kind: Kind, found: FoundWorkspace, describe: Callable[[], Awaitable[Any]]
) -> AsyncIterator[Event]:
    """Yields the workspace as it is now, then after every change, until it is deleted (`gone`)."""
    news = asyncio.Event()
    namespace = namespace_of(found.object)

    def changed(before: Object | None, after: Object | None) -> None:
        news.set()

    number = 0
    async with AsyncExitStack() as stack:
        for watched, name in ((kind, name_of(found.object)), (POD, pod_name(found.object))):
            informer = Informer(here.cluster, watched, namespace, fields=f"metadata.name={name}", on_change=changed)
            await stack.enter_async_context(informer)
        while True:
            news.clear()
            try:
                whole = await describe()
            except NotFoundProblem:
                yield Event(str(number), None, "gone")
                return
            number += 1
            yield Event(str(number), whole, kind.singular)
            await news.wait()
            await asyncio.sleep(_SETTLE_SECONDS)  # changes come in bursts


def log_source(found: FoundWorkspace) -> LogSource:
    workspace = found.object
    container = (
        str(main_container(workspace).get("name") or "") if workspace["kind"] == NOTEBOOK.kind else "tensorboard"
    )
    return LogSource(namespace_of(workspace), pod_name(workspace), container, controller=uid_of(workspace))


async def log_text(
    request: Request, here: Services, find: Find, found: FoundWorkspace, tail: int | None, times: bool
) -> Response:
    return text_response(request, here, find, log_source(found), await masks_of(here, found), tail, times)


def log_stream(request: Request, here: Services, find: Find) -> Response:
    """Server-sent events: a `line` for each line as it is written; `end` when the workspace is stopped."""
    return event_stream(request, _log_events(here, find, last_event_id(request)), partial(_found, find))


async def _found(find: Find) -> object:
    return await find()


async def _log_events(here: Services, find: Find, last: str) -> AsyncIterator[Event]:
    found = await find()
    masks = await masks_of(here, found)
    uid = uid_of(found.pod) if found.pod is not None else ""
    after = line_after(last, uid)

    async def ended() -> bool:
        nonlocal uid
        now = await find()
        uid = uid_of(now.pod) if now.pod is not None else uid
        return is_stopped(now.object) and now.pod is None

    lines = read_log_lines(here.cluster, log_source(found), follow=True, ended=ended, after=after)
    async for event in line_events(lines, masks, lambda number: f"{uid}.{number}"):
        after = int(event.id.rpartition(".")[2])
        yield event
    yield Event(f"{uid}.{after}", {}, "end")
