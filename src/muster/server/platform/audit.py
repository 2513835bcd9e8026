"""What was changed, by whom."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import AwareDatetime

from muster.platform.users.audit import AuditFilter, list_audit
from muster.server.platform.rest import Answer, PageOf, Paging, Search, page_of
from muster.server.platform.security import Who
from muster.server.platform.services import Here

router = APIRouter(prefix="/audit", tags=["audit"])


class AuditAnswer(Answer):
    id: str
    at: datetime
    actor_id: str
    actor_name: str
    via: str
    address: str
    action: str
    kind: str
    subject_id: str
    subject_name: str
    details: dict[str, Any]


@router.get("", operation_id="list_audit")
async def read_audit_log(
    here: Here,
    who: Who,
    paging: Paging,
    q: Search = "",
    actor: Annotated[str, Query(description="The id or name of a user.")] = "",
    kind: Annotated[str, Query()] = "",
    subject: Annotated[str, Query(description="The id of what it is about.")] = "",
    action: Annotated[str, Query()] = "",
    since: Annotated[AwareDatetime | None, Query(description="Not before; with its time zone.")] = None,
    until: Annotated[AwareDatetime | None, Query(description="Before; with its time zone.")] = None,
) -> PageOf[AuditAnswer]:
    """Everything for an admin, what one did oneself for others."""
    only = AuditFilter(q, actor, kind, subject, action, since, until)
    page = await here.database.read(lambda connection: list_audit(connection, who, paging, only))
    return page_of(page, AuditAnswer.model_validate)
