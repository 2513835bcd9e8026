"""Routes of workspaces: open one in a browser."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Request
from pydantic import Field
from sqlalchemy import Connection

from muster.platform.errors import ConflictProblem, NotFoundProblem
from muster.platform.permissions import require
from muster.platform.users.audit import write_audit
from muster.platform.users.workspace_sessions import issue_ticket
from muster.server.platform.rest import ApiModel, RequestBody
from muster.server.platform.security import Who
from muster.server.platform.services import Here, Services
from muster.server.proxy.origins import ENTER, is_uid, origin_by_name, origin_by_port

router = APIRouter(prefix="/workspaces", tags=["workspaces"])


class OpenWorkspace(RequestBody):
    path: Annotated[str, Field(max_length=4000, pattern="^/")] = ""
    """The page to show, below the address of the workspace."""


class OpenedWorkspace(ApiModel):
    url: str
    """For the browser: it leads to the workspace, once, within half a minute."""
    origin: str
    """The address of the workspace, where API tokens are valid, too."""


@router.post("/{uid}/open")
async def open_workspace(
    uid: Annotated[str, Path(max_length=100)], body: OpenWorkspace, request: Request, here: Here, who: Who
) -> OpenedWorkspace:
    """Returns a link that opens a workspace in a browser. `uid` is that of its Notebook, Tensorboard or Pod."""
    workspace = await here.workspaces.find(uid) if is_uid(uid) else None
    if workspace is None:
        raise NotFoundProblem.named("workspace", uid)
    require(who, "open", workspace.subject, workspace.name)
    origin = await _origin(here, uid, request.headers.get("host", ""))
    path = body.path or (await here.workspaces.address(workspace)).path

    def issue(connection: Connection) -> str:
        write_audit(connection, who, "open", "workspace", uid, f"{workspace.namespace}/{workspace.name}")
        return issue_ticket(connection, who, uid)

    ticket = await here.database.write(issue)
    return OpenedWorkspace(url=f"{origin}{ENTER}?{urlencode({'ticket': ticket, 'next': path})}", origin=origin)


async def _origin(here: Services, uid: str, host: str) -> str:
    origins = here.settings.workspace_origins
    named = origin_by_name(uid, here.url, host, origins.domain)
    if named is not None:
        return named
    # A proxy with HTTPS in front of the platform does not serve our ports.
    if here.workspace_ports is not None and here.url.startswith("http:"):
        port = await here.workspace_ports.port_of(uid)
        numbered = origin_by_port(host, port) if port is not None else None
        if numbered is not None:
            return numbered
    raise ConflictProblem.of("workspace.origin", host=host[:100])
