"""Messages of webhooks: which are due, what they say, when they are tried again, and the log.

A message is stored in the transaction that stores the end of its run, so a server that is killed loses none. It is sent
at least once; its id is the same at every attempt, so that a receiver can tell a repetition.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import orjson
from sqlalchemy import Connection, and_, delete, exists, func, insert, or_, select, update

from muster.platform.database.encrypted_columns import keys_of, unseal, webhook_place
from muster.platform.database.queries import AnyRow, PageRequest, as_record, new_id, select_page
from muster.platform.database.tables import memberships, now, users, webhook_deliveries, webhooks
from muster.platform.errors import NotFoundProblem
from muster.platform.messages import FieldError, field_error, format_message
from muster.platform.permissions import Actor
from muster.platform.quotas import budgets_of
from muster.platform.records.common import Page
from muster.platform.records.runs import Run
from muster.platform.records.webhooks import Delivery, DeliveryEvent, Webhook
from muster.platform.webhooks.webhooks import Target, get_webhook

KEPT: Final = 100
"""Messages of a webhook in the log, besides those that wait."""
_WAITS: Final = tuple(
    timedelta(seconds=seconds) for seconds in (10, 60, 5 * 60, 30 * 60, 2 * 3600, 6 * 3600, 12 * 3600)
)


@dataclass(frozen=True, slots=True)
class DueDelivery:
    id: str
    webhook_id: str
    owner_id: str
    event: DeliveryEvent
    body: str
    attempts: int
    target: Target


def wait_before(attempt: int) -> timedelta | None:
    """How long to wait after so many attempts that failed; None to give up. A pure function."""
    return _WAITS[attempt - 1] if 0 < attempt <= len(_WAITS) else None


def enqueue_run_end(connection: Connection, run: Run) -> None:
    """Stores a message for each webhook that wants to know of the end of this run. A webhook of a user who is disabled,
    or who has left the team, sends nothing."""
    own = and_(webhooks.c.team_id.is_(None), webhooks.c.owner_id == run.owner_id)
    is_member = exists().where(
        memberships.c.team_id == webhooks.c.team_id, memberships.c.user_id == webhooks.c.owner_id
    )
    of_team = and_(webhooks.c.team_id == run.team_id, or_(is_member, users.c.admin))
    query = (
        select(webhooks.c.id, webhooks.c.states)
        .join(users, users.c.id == webhooks.c.owner_id)
        .where(
            webhooks.c.enabled,
            ~users.c.disabled,
            or_(own, of_team) if run.team_id else own,
            or_(webhooks.c.workflow_id.is_(None), webhooks.c.workflow_id == run.workflow_id),
        )
    )
    for row in connection.execute(query).all():
        if run.state in row.states:
            _enqueue(connection, row.id, "run.ended", run_message(run), run)


def send_test(connection: Connection, actor: Actor, identifier: str) -> Delivery:
    """Stores a message that says that it is a test. It is tried once."""
    found = get_webhook(connection, actor, identifier, "edit")
    delivery = _enqueue(connection, found.id, "test", check_message(found), None)
    return get_delivery(connection, actor, identifier, delivery)


def redeliver(connection: Connection, actor: Actor, identifier: str, delivery: str) -> Delivery:
    """Sends a message of the log again, with the same id."""
    get_webhook(connection, actor, identifier, "edit")
    which = and_(webhook_deliveries.c.webhook_id == identifier, webhook_deliveries.c.id == delivery)
    values = {"state": "pending", "due": now(), "attempts": 0}
    connection.execute(update(webhook_deliveries).where(which).values(**values))
    return get_delivery(connection, actor, identifier, delivery)


def get_delivery(connection: Connection, actor: Actor, identifier: str, delivery: str) -> Delivery:
    get_webhook(connection, actor, identifier)
    which = and_(webhook_deliveries.c.webhook_id == identifier, webhook_deliveries.c.id == delivery)
    row = connection.execute(select(webhook_deliveries).where(which)).first()
    if row is None:
        raise NotFoundProblem.named("webhook", delivery)
    return _delivery(row)


def list_deliveries(connection: Connection, actor: Actor, identifier: str, wanted: PageRequest) -> Page[Delivery]:
    """The newest first."""
    get_webhook(connection, actor, identifier)
    page = select_page(
        connection,
        select(webhook_deliveries).where(webhook_deliveries.c.webhook_id == identifier),
        wanted,
        key=webhook_deliveries.c.id,
        sortable={"created": webhook_deliveries.c.created},
        usual="-created",
    )
    return page.map(_delivery)


def run_message(run: Run) -> dict[str, Any]:
    """What is sent when a run ends: nothing but what all users see of a run. A pure function."""
    return {
        "type": "run.ended",
        "text": f"Run {run.name} ({run.workflow_name} {run.version_name}): {run.state}",
        "run": {
            "id": run.id,
            "name": run.name,
            "state": run.state,
            "message": run.message,
            "workflow": run.workflow_name,
            "workflowId": run.workflow_id,
            "version": run.version_name,
            "versionNumber": run.version_number,
            "owner": run.owner_name,
            "team": run.team_name,
            "tags": run.tags,
            "retries": run.retries,
            "created": _time(run.created),
            "started": _time(run.started),
            "finished": _time(run.finished),
        },
    }


def check_message(webhook: Webhook) -> dict[str, Any]:
    """A pure function."""
    return {"type": "test", "text": f"Muster: a test of the webhook {webhook.name}", "run": None}


def find_due(
    connection: Connection,
    at: datetime,
    limit: int,
    *,
    without_webhooks: Collection[str] = (),
    without_owners: Collection[str] = (),
) -> list[DueDelivery]:
    """The oldest message of each webhook that has one to send, except for some webhooks, and webhooks of some users."""
    pending = and_(webhook_deliveries.c.state == "pending", webhook_deliveries.c.due <= at)
    oldest = select(func.min(webhook_deliveries.c.id)).where(pending).group_by(webhook_deliveries.c.webhook_id)
    query = (
        select(webhook_deliveries, webhooks.c.owner_id, webhooks.c.target)
        .join(webhooks, webhooks.c.id == webhook_deliveries.c.webhook_id)
        .where(
            webhook_deliveries.c.id.in_(oldest),
            webhooks.c.id.not_in(without_webhooks),
            webhooks.c.owner_id.not_in(without_owners),
        )
        .order_by(webhook_deliveries.c.due, webhook_deliveries.c.id)
        .limit(limit)
    )
    keys = keys_of(connection)
    found = []
    for row in connection.execute(query):
        target = unseal(keys, row.target, webhook_place(row.webhook_id))
        found.append(as_record(row, DueDelivery, target=Target(target["url"], target["secret"])))
    return found


def store_result(
    connection: Connection, delivery: DueDelivery, status: int | None, problem: FieldError | None, at: datetime
) -> None:
    """Stores how an attempt ended, and when the next one is due."""
    attempts = delivery.attempts + 1
    wait = None if problem is None or delivery.event == "test" else wait_before(attempts)
    values = {
        "state": "delivered" if problem is None else "pending" if wait else "failed",
        "attempts": attempts,
        "due": at + wait if wait else None,
        "tried": at,
        "status": status,
        "problem": _stored(problem),
    }
    connection.execute(update(webhook_deliveries).where(webhook_deliveries.c.id == delivery.id).values(**values))


def _enqueue(
    connection: Connection, webhook_id: str, event: DeliveryEvent, message: dict[str, Any], run: Run | None
) -> str:
    identifier, moment = new_id(), now()
    most = budgets_of(connection).webhook_pending
    waiting = and_(webhook_deliveries.c.webhook_id == webhook_id, webhook_deliveries.c.state == "pending")
    is_full = connection.execute(select(func.count()).where(waiting)).scalar_one() >= most
    problem = field_error("", "webhook.pending", most=most) if is_full else None
    body = orjson.dumps({"id": identifier, "timestamp": _time(moment), **message}).decode()
    connection.execute(
        insert(webhook_deliveries).values(
            id=identifier,
            webhook_id=webhook_id,
            event=event,
            run_id=run.id if run is not None else "",
            run_name=run.name if run is not None else "",
            run_state=run.state if run is not None else "",
            body=body,
            state="failed" if is_full else "pending",
            attempts=0,
            created=moment,
            due=None if is_full else moment,
            problem=_stored(problem),
        )
    )
    ended = and_(webhook_deliveries.c.webhook_id == webhook_id, webhook_deliveries.c.state != "pending")
    kept = select(webhook_deliveries.c.id).where(ended).order_by(webhook_deliveries.c.id.desc()).offset(KEPT).limit(1)
    oldest = connection.execute(kept).scalar_one_or_none()
    if oldest is not None:
        connection.execute(delete(webhook_deliveries).where(ended, webhook_deliveries.c.id <= oldest))
    return identifier


def _stored(problem: FieldError | None) -> dict[str, Any] | None:
    return {"code": problem.code, "arguments": dict(problem.arguments or {})} if problem is not None else None


def _delivery(row: AnyRow) -> Delivery:
    code = str((row.problem or {}).get("code") or "")
    arguments = (row.problem or {}).get("arguments") or {}
    text = format_message(code, arguments) if code else ""
    return as_record(row, Delivery, error=text, error_code=code, error_arguments=arguments)


def _time(at: datetime | None) -> str | None:
    return at.isoformat().replace("+00:00", "Z") if at is not None else None
