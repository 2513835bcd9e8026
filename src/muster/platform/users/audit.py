"""The audit log: who changed what, when and from where. It contains no secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert, select

from muster.platform.database.queries import PageRequest, as_record, contains_words, new_id, select_page
from muster.platform.database.tables import audit, now
from muster.platform.permissions import Actor, visible
from muster.platform.records.common import Kind, Page
from muster.platform.records.users import AuditEntry

_SECRET = re.compile(r"password|passwd|secret|token$|^hash$|credential|api_?key", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class AuditFilter:
    q: str = ""
    actor: str = ""
    """A user's id or name."""
    kind: str = ""
    subject: str = ""
    action: str = ""
    since: datetime | None = None
    until: datetime | None = None


def write_audit(
    connection: Connection,
    actor: Actor,
    action: str,
    kind: Kind,
    subject_id: str,
    subject_name: str,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Writes an entry in the transaction of the change, so that there is never one without the other."""
    connection.execute(
        insert(audit).values(
            id=new_id(),
            at=now(),
            actor_id=actor.id,
            actor_name=actor.name,
            via=actor.via,
            address=actor.address,
            action=action,
            kind=kind,
            subject_id=subject_id,
            subject_name=subject_name,
            details=mask_details(details or {}),
        )
    )


def list_audit(connection: Connection, actor: Actor, wanted: PageRequest, only: AuditFilter) -> Page[AuditEntry]:
    """All entries for admins, their own for other users."""
    query = select(audit).where(visible(actor, "audit", owner=audit.c.actor_id))
    if only.q:
        query = query.where(contains_words(only.q, audit.c.actor_name, audit.c.subject_name, audit.c.action))
    if only.actor:
        query = query.where((audit.c.actor_id == only.actor) | (audit.c.actor_name == only.actor))
    if only.kind:
        query = query.where(audit.c.kind == only.kind)
    if only.subject:
        query = query.where(audit.c.subject_id == only.subject)
    if only.action:
        query = query.where(audit.c.action == only.action)
    if only.since:
        query = query.where(audit.c.at >= only.since)
    if only.until:
        query = query.where(audit.c.at < only.until)
    sortable = {"at": audit.c.at, "actor": audit.c.actor_name, "action": audit.c.action}
    page = select_page(connection, query, wanted, key=audit.c.id, sortable=sortable, usual="-at")
    return page.map(lambda row: as_record(row, AuditEntry))


def mask_details(value: Any) -> Any:
    """The value without secrets, which are recognized by their names."""
    if isinstance(value, Mapping):
        return {
            key: "***" if _SECRET.search(str(key)) and isinstance(inner, str) else mask_details(inner)
            for key, inner in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [mask_details(item) for item in value]
    return value
