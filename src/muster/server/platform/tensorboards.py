"""Routes of TensorBoards: on folders, or in one click on what runs, a job or a notebook have written."""

from __future__ import annotations

import posixpath
import re
import secrets
from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic import Field

from muster.kube.errors import ApiError, NotFound
from muster.kube.objects import (
    Object,
    meta,
    name_of,
    namespace_of,
    parse_time,
    spec_of,
    uid_of,
)
from muster.kube.pod_security import is_below
from muster.platform.errors import ForbiddenProblem, InvalidProblem
from muster.platform.messages import FieldError
from muster.platform.permissions import Actor, may
from muster.platform.records.common import Page, Subject
from muster.platform.records.workspaces import LogFolder, TensorBoard, WorkspaceState
from muster.platform.status_messages import explain
from muster.platform.users.namespace_names import namespaces_of
from muster.server.platform.notebook_form import Choices
from muster.server.platform.notebooks import find_choices
from muster.server.platform.rest import Paging, RequestBody, Search
from muster.server.platform.security import Who
from muster.server.platform.services import Here, Services
from muster.server.platform.tensorboard_logs import (
    MOST_FOLDERS,
    FoundLogs,
    LogCopies,
    copy_logs,
    find_logs_of_job,
    find_logs_of_notebook,
    find_logs_of_runs,
)
from muster.server.platform.workspace_access import (
    FoundWorkspace,
    People,
    find_workspace,
    list_workspaces,
    name_errors,
    note,
    owner_labels,
    people_of,
    place_for,
    set_running,
    to_problem,
    workspace_page,
)
from muster.server.platform.workspace_routes import add_workspace_routes
from muster.workspaces.kinds import TENSORBOARD, is_stopped, parse_log_path
from muster.workspaces.plan import pod_name

_MOST_RUNS: Final = 20
_Name = Annotated[str, Field(max_length=253)]


class LogFolderBody(RequestBody):
    name: Annotated[str, Field(max_length=100)] = ""
    """How it is called in the board; by default its number."""
    path: Annotated[str, Field(max_length=1000)]
    """pvc://CLAIM/PATH, a folder of a storage root, or an s3://, gs:// or hdfs:// URL."""


class NotebookFolder(RequestBody):
    namespace: _Name
    name: _Name
    path: Annotated[str, Field(max_length=1000)] = "logs"
    """A folder as the notebook sees it; one that is not absolute is in the home folder."""


class TensorBoardBody(RequestBody):
    """One of `logs`, `runs`, `job` and `notebook` says what to show. What runs and jobs wrote is found in the volumes
    and storage roots that their Pods mount. If there is a board on the same folders already, it is returned, and
    started if it is stopped."""

    name: _Name = ""
    """By default the name of the run, job or notebook."""
    team: _Name = ""
    """The id or name of one of your teams, to share it with; for `logs` only: the others are where they are."""
    logs: Annotated[list[LogFolderBody], Field(default_factory=list, max_length=MOST_FOLDERS)]
    runs: Annotated[list[_Name], Field(default_factory=list, max_length=_MOST_RUNS)]
    """Ids of runs, compared in one board."""
    job: Annotated[str, Field(max_length=800)] = ""
    """NAMESPACE/KIND/NAME."""
    notebook: NotebookFolder | None = None
    credentials: _Name = ""
    """A Secret with the variables that an object store needs, such as AWS_ACCESS_KEY_ID."""


class TensorBoardChange(RequestBody):
    logs: Annotated[list[LogFolderBody], Field(min_length=1, max_length=MOST_FOLDERS)]


router = APIRouter(prefix="/tensorboards", tags=["tensorboards"])


@router.get("", operation_id="list_tensorboards")
async def list_tensorboards(
    here: Here,
    who: Who,
    paging: Paging,
    q: Search = "",
    state: Annotated[list[WorkspaceState] | None, Query(description="One or more states.")] = None,
    namespace: str = "",
) -> Page[TensorBoard]:
    """Lists TensorBoards by created, name, state or namespace; the newest first."""
    found = await list_workspaces(here, who, TENSORBOARD, namespace)
    people = await people_of(here, found)
    return workspace_page([_describe(who, each, people) for each in found], paging, q, state)


@router.post("", status_code=201, operation_id="create_tensorboard")
async def create_tensorboard(body: TensorBoardBody, here: Here, who: Who) -> TensorBoard:
    """Creates a TensorBoard, or returns the one that shows the same folders."""
    if sum(map(bool, (body.logs, body.runs, body.job, body.notebook))) != 1:
        raise InvalidProblem.field("logs", "tensorboard.what")
    team, copies = "", LogCopies("")
    if body.logs:
        namespace, team = await place_for(here, who, body.team)
        title, logs = "logs", _check_folders(body.logs, await find_choices(here, who, namespace), who)
    else:
        namespace, title, logs, copies = await _find_logs(here, who, body)
        await _check_place(here, who, namespace)
    if body.name and name_errors(body.name):
        raise InvalidProblem.fields(name_errors(body.name))
    same = await _same_board(here, who, namespace, logs) if not body.name else None
    if same is not None:
        await copy_logs(here, same.object, copies.claim, copies.files)
        if is_stopped(same.object) and may(who, "start", same.subject):
            await set_running(here, who, TENSORBOARD, same, "start")
        return await _whole(here, who, namespace, name_of(same.object))
    name = body.name or await _free_name(here, namespace, title)
    spec: Object = _spec(logs)
    if body.credentials:
        spec["credentials"] = {"secretName": body.credentials}
    board = {
        "apiVersion": TENSORBOARD.api_version,
        "kind": TENSORBOARD.kind,
        "metadata": {"name": name, "namespace": namespace, "labels": owner_labels(who, team)},
        "spec": spec,
    }
    try:
        created = await here.cluster.create(board)
    except ApiError as error:
        raise to_problem(error, TENSORBOARD.kind, name) from None
    await note(here, who, "create", created, logs=[each.path for each in logs])
    await copy_logs(here, created, copies.claim, copies.files)
    return await _whole(here, who, namespace, name)


@router.patch("/{namespace}/{name}", operation_id="edit_tensorboard")
async def edit_tensorboard(namespace: str, name: str, body: TensorBoardChange, here: Here, who: Who) -> TensorBoard:
    """Shows other folders. The board is restarted if it runs."""
    found = await find_workspace(here, who, TENSORBOARD, namespace, name, "edit")
    logs = _check_folders(body.logs, await find_choices(here, who, namespace), who)
    kept = {key: value for key, value in spec_of(found.object).items() if key == "credentials"}
    try:
        await here.cluster.update({**found.object, "spec": {**kept, **_spec(logs)}})
    except ApiError as error:
        raise to_problem(error) from None
    await note(here, who, "edit", found.object, logs=[each.path for each in logs])
    return await _whole(here, who, namespace, name)


@router.delete("/{namespace}/{name}", status_code=204, operation_id="delete_tensorboard")
async def delete_tensorboard(namespace: str, name: str, here: Here, who: Who) -> None:
    """Deletes a TensorBoard. The logs stay."""
    found = await find_workspace(here, who, TENSORBOARD, namespace, name, "delete")
    try:
        await here.cluster.delete(TENSORBOARD, name, namespace, uid=uid_of(found.object))
    except NotFound:
        pass
    except ApiError as error:
        raise to_problem(error) from None
    await note(here, who, "delete", found.object)


async def _whole(here: Services, who: Actor, namespace: str, name: str) -> TensorBoard:
    found = await find_workspace(here, who, TENSORBOARD, namespace, name)
    return _describe(who, found, await people_of(here, [found]))


add_workspace_routes(
    router, TENSORBOARD, "tensorboard", TensorBoard, _whole,
    stop_help="Stops a TensorBoard. The logs stay.",
)  # fmt: skip


def _describe(who: Actor, found: FoundWorkspace, people: People) -> TensorBoard:
    board = found.object
    state, reason = found.state
    return TensorBoard(
        uid=uid_of(board),
        namespace=namespace_of(board),
        name=name_of(board),
        **people.fields(found.subject),
        logs=logs_of(board),
        state=state,
        reason=reason,
        reason_parts=list(explain(reason)),
        progress=found.progress,
        created=parse_time(meta(board)["creationTimestamp"]),
        ready_since=found.ready_since,
        pod=pod_name(board),
        may=found.may(who),
    )


def logs_of(board: Object) -> list[LogFolder]:
    """The folders of a board, as they are written in it."""
    spec = spec_of(board)
    named = [LogFolder(each["name"], each["path"]) for each in spec.get("logs") or ()]
    return named or [LogFolder("", str(spec.get("logspath") or ""))]


def _spec(logs: Sequence[LogFolder]) -> Object:
    if len(logs) == 1:
        return {"logspath": logs[0].path}
    return {"logs": [{"name": each.name, "path": each.path} for each in logs]}


def _check_folders(given: Sequence[LogFolderBody], choices: Choices, who: Actor) -> list[LogFolder]:
    """The folders with names, at the places where Pods can mount them. Raises Invalid."""
    wrong: list[FieldError] = []
    found: list[LogFolder] = []
    for number, each in enumerate(given):
        try:
            path = place_of(each.path, choices, is_admin=who.admin and "admin" in who.scopes)
        except InvalidProblem as problem:
            wrong += [FieldError(f"logs[{number}].path", e.message, e.code, e.arguments) for e in problem.errors]
            continue
        found.append(LogFolder(each.name or str(number + 1), path))
    names = [each.name for each in found]
    if wrong:
        raise InvalidProblem.fields(wrong)
    # Two folders of one name would be one in the board.
    return [
        each if names.count(each.name) == 1 else LogFolder(f"{each.name}-{number + 1}", each.path)
        for number, each in enumerate(found)
    ]


def place_of(path: str, choices: Choices, *, is_admin: bool) -> str:
    """Returns a path as a Tensorboard has it: a storage root is where the nodes have it, not where Pods see it. Raises
    Invalid."""
    try:
        source = parse_log_path(path)
    except ValueError as error:
        raise InvalidProblem.field("path", "tensorboard.path", path=path, detail=str(error)) from None
    if source.scheme == "pvc":
        if not is_admin and source.root not in choices.claims:
            raise InvalidProblem.field("path", "workspace.claim", name=source.root, known=sorted(choices.claims))
        return f"pvc://{source.root}/{source.path}".rstrip("/")
    if source.scheme != "path":
        return path
    usable = [root for root in choices.roots.values() if root.usable and is_below(source.path, root.path)]
    if not usable:
        if is_admin:
            return source.path
        known = sorted(root.path for root in choices.roots.values() if root.usable)
        raise InvalidProblem.field("path", "storage.root", root=source.path, roots=known)
    root = max(usable, key=lambda each: len(each.path))
    inner = source.path[len(root.path) :].strip("/")
    if root.claim:
        return f"pvc://{root.claim}/{inner}".rstrip("/")
    return posixpath.join(root.host_path or root.path, inner).rstrip("/")


async def _check_place(here: Services, who: Actor, namespace: str) -> None:
    """Raises Forbidden if the namespace is neither the user's nor a team's of theirs."""
    own = await here.database.read(lambda connection: namespaces_of(connection, who.id, who.teams))
    if namespace not in own and not (who.admin and "admin" in who.scopes):
        decision = may(who, "edit", Subject("workspace", namespace))
        assert decision.error is not None
        raise ForbiddenProblem.from_error(decision.error)


async def _find_logs(here: Services, who: Actor, body: TensorBoardBody) -> FoundLogs:
    if body.notebook is not None:
        wanted = body.notebook
        return await find_logs_of_notebook(here, who, wanted.namespace, wanted.name, wanted.path)
    return await (find_logs_of_job(here, who, body.job) if body.job else find_logs_of_runs(here, who, body.runs))


async def _same_board(here: Services, who: Actor, namespace: str, logs: Sequence[LogFolder]) -> FoundWorkspace | None:
    wanted = [each.path for each in logs]
    for found in await list_workspaces(here, who, TENSORBOARD, namespace):
        if [each.path for each in logs_of(found.object)] == wanted and found.state[0] != "deleting":
            return found
    return None


async def _free_name(here: Services, namespace: str, title: str) -> str:
    plain = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40].strip("-")
    name = plain if re.match(r"[a-z]", plain) else f"board-{plain}".rstrip("-")
    try:
        await here.cluster.get(TENSORBOARD, name, namespace)
    except NotFound:
        return name
    return f"{name}-{secrets.token_hex(2)}"
