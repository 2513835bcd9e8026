"""Webhooks: messages to other programs when a run ends."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import Field

from muster.platform.permissions import Actor, may
from muster.platform.records.common import Page
from muster.platform.records.webhooks import END_STATES, Delivery, EndState, Webhook, WebhookDetail
from muster.platform.webhooks.deliveries import list_deliveries, redeliver, send_test
from muster.platform.webhooks.webhooks import (
    LONGEST_NAME,
    LONGEST_SECRET,
    LONGEST_URL,
    WebhookFields,
    create_webhook,
    delete_webhook,
    edit_webhook,
    get_webhook,
    list_webhooks,
)
from muster.server.platform.rest import IfMatch, Paging, RequestBody, etag, vars_of
from muster.server.platform.security import Who
from muster.server.platform.services import Here

router = APIRouter(prefix="/webhooks", tags=["webhooks"])

_ACTIONS = ("edit", "delete")
_Name = Annotated[str, Field(max_length=LONGEST_NAME)]
_Url = Annotated[str, Field(max_length=LONGEST_URL)]
_Secret = Annotated[str, Field(max_length=LONGEST_SECRET)]
_Reference = Annotated[str, Field(max_length=200)]
_States = Annotated[list[EndState], Field(max_length=len(END_STATES))]


class WebhookBody(RequestBody):
    name: _Name
    url: _Url
    """No answer contains it."""
    secret: _Secret = ""
    """Signs the messages, as in the Standard Webhooks specification; "" for no signature. No answer contains it."""
    team: _Reference = ""
    """The id or name of one of your teams: the runs that are shared with it. Without it, your own runs."""
    workflow: _Reference = ""
    """The id or name of a workflow: only its runs."""
    states: _States = Field(default_factory=lambda: list(END_STATES))
    """Only runs that end in one of these states."""
    enabled: bool = True


class WebhookChange(RequestBody):
    name: _Name = ""
    url: _Url = ""
    secret: _Secret | None = None
    """"" removes it. A new URL needs it again."""
    workflow: _Reference = ""
    states: _States = Field(default_factory=lambda: list(END_STATES))
    enabled: bool = True


@router.get("", operation_id="list_webhooks")
async def all_webhooks(
    here: Here,
    who: Who,
    paging: Paging,
    team: Annotated[str, Query(max_length=200, description="The id or name of a team: only its webhooks.")] = "",
    mine: Annotated[bool, Query(description="Only your own, without those of teams.")] = False,
) -> Page[WebhookDetail]:
    """Lists webhooks by created or name."""
    page = await here.database.read(lambda connection: list_webhooks(connection, who, paging, team=team, mine=mine))
    return page.map(lambda webhook: _detail(who, webhook))


@router.post("", status_code=201, operation_id="create_webhook")
async def new_webhook(body: WebhookBody, here: Here, who: Who, response: Response) -> WebhookDetail:
    fields = WebhookFields(**vars(body))
    found = await here.database.write(lambda connection: create_webhook(connection, who, fields))
    response.headers["Location"] = f"/api/v1/webhooks/{found.id}"
    return _detail(who, found)


@router.get("/{webhook}", operation_id="get_webhook")
async def one_webhook(webhook: str, here: Here, who: Who, response: Response) -> WebhookDetail:
    found = await here.database.read(lambda connection: get_webhook(connection, who, webhook))
    response.headers["ETag"] = etag(found.id, found.revision)
    return _detail(who, found)


@router.patch("/{webhook}", operation_id="edit_webhook")
async def change_webhook(
    webhook: str, body: WebhookChange, here: Here, who: Who, seen: IfMatch, response: Response
) -> WebhookDetail:
    """Changes the fields that are sent. A webhook stays with its team."""
    found = await here.database.write(lambda connection: edit_webhook(connection, who, webhook, body.changes(), seen))
    response.headers["ETag"] = etag(found.id, found.revision)
    return _detail(who, found)


@router.delete("/{webhook}", status_code=204, operation_id="delete_webhook")
async def drop_webhook(webhook: str, here: Here, who: Who) -> None:
    """Deletes the webhook with its log. Messages that wait are not sent."""
    await here.database.write(lambda connection: delete_webhook(connection, who, webhook))


@router.post("/{webhook}/test", status_code=202, operation_id="test_webhook")
async def test_webhook(webhook: str, here: Here, who: Who) -> Delivery:
    """Sends a test message. Its result is in the list of deliveries."""
    found = await here.database.write(lambda connection: send_test(connection, who, webhook))
    here.webhooks.wake()
    return found


@router.get("/{webhook}/deliveries", operation_id="list_webhook_deliveries")
async def list_webhook_deliveries(webhook: str, here: Here, who: Who, paging: Paging) -> Page[Delivery]:
    """Lists what was sent and what waits to be sent, the newest first."""
    return await here.database.read(lambda connection: list_deliveries(connection, who, webhook, paging))


@router.post("/{webhook}/deliveries/{delivery}/redeliver", status_code=202, operation_id="redeliver_webhook")
async def redeliver_webhook(webhook: str, delivery: str, here: Here, who: Who) -> Delivery:
    """Sends a message again, with the same id."""
    found = await here.database.write(lambda connection: redeliver(connection, who, webhook, delivery))
    here.webhooks.wake()
    return found


def _detail(who: Actor, webhook: Webhook) -> WebhookDetail:
    return WebhookDetail(**vars_of(webhook), may=[action for action in _ACTIONS if may(who, action, webhook.subject)])
