"""Webhooks as they are stored: created, listed, edited and deleted.

The URL and the secret are write-only: they are stored encrypted, and no answer of the API contains them. URLs of chat
systems are secrets, too: who has one can post.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from sqlalchemy import Connection, delete, insert, or_, select, update

from muster.platform.database.encrypted_columns import keys_of, seal, unseal, webhook_place
from muster.platform.database.queries import (
    AnyRow,
    PageRequest,
    as_record,
    find_row,
    new_id,
    record_columns,
    select_page,
)
from muster.platform.database.tables import now, teams, users, webhooks, workflows
from muster.platform.errors import InvalidProblem, NotFoundProblem, PreconditionFailedProblem
from muster.platform.messages import FieldError, field_error
from muster.platform.permissions import Actor, require, visible
from muster.platform.quotas import check_count
from muster.platform.records.common import Page, Subject
from muster.platform.records.webhooks import END_STATES, EndState, Webhook
from muster.platform.users.audit import write_audit
from muster.platform.users.teams import team_to_share_with
from muster.platform.webhooks.signature import SHORTEST_SECRET, signing_key

LONGEST_NAME: Final = 100
LONGEST_URL: Final = 2000
LONGEST_SECRET: Final = 500


class Target(NamedTuple):
    """What is kept secret of a webhook."""

    url: str
    secret: str


@dataclass(frozen=True, slots=True)
class WebhookFields:
    name: str = ""
    url: str = ""
    """'' keeps the URL of a webhook that is edited."""
    secret: str | None = None
    """None keeps the secret, '' removes it."""
    team: str = ""
    workflow: str = ""
    """An id or a name; '' for all workflows."""
    states: Sequence[EndState] = field(default_factory=lambda: list(END_STATES))
    enabled: bool = True


def create_webhook(connection: Connection, actor: Actor, new: WebhookFields) -> Webhook:
    require(actor, "create", Subject("webhook", owner=actor.id))
    check_count(connection, "user_webhooks", webhooks.c.owner_id == actor.id, "webhooks")
    _check(new, needs_url=True)
    identifier, moment = new_id(), now()
    team_id = team_to_share_with(connection, actor, new.team)
    target = Target(new.url, new.secret or "")
    connection.execute(
        insert(webhooks).values(
            id=identifier,
            owner_id=actor.id,
            team_id=team_id,
            created=moment,
            updated=moment,
            revision=1,
            **_values(connection, new),
            **_seal_target(connection, identifier, target),
        )
    )
    write_audit(connection, actor, "create", "webhook", identifier, new.name, {"address": shown_address(new.url)})
    return get_webhook(connection, actor, identifier)


def get_webhook(connection: Connection, actor: Actor, identifier: str, action: str = "view") -> Webhook:
    row = connection.execute(_WEBHOOKS.where(webhooks.c.id == identifier)).first()
    if row is None:
        raise NotFoundProblem.named("webhook", identifier)
    found = _webhook(row)
    require(actor, action, found.subject, identifier)
    return found


def list_webhooks(
    connection: Connection, actor: Actor, wanted: PageRequest, *, team: str = "", mine: bool = False
) -> Page[Webhook]:
    """Those that the actor may see: of a team (its id or name), or their own that no team has, or all."""
    conditions = [visible(actor, "webhook", owner=webhooks.c.owner_id, team=webhooks.c.team_id)]
    if team:
        conditions.append(or_(teams.c.id == team, teams.c.name == team))
    if mine:
        conditions += [webhooks.c.owner_id == actor.id, webhooks.c.team_id.is_(None)]
    sortable = {"created": webhooks.c.created, "name": webhooks.c.name}
    page = select_page(
        connection, _WEBHOOKS.where(*conditions), wanted, key=webhooks.c.id, sortable=sortable, usual="created"
    )
    return page.map(_webhook)


def edit_webhook(
    connection: Connection, actor: Actor, identifier: str, changes: Mapping[str, Any], revision: int | None = None
) -> Webhook:
    """`changes` are fields of `WebhookFields`; the team cannot be changed."""
    found = get_webhook(connection, actor, identifier, "edit")
    PreconditionFailedProblem.check("webhook", found.name, found.revision, revision)
    fields = WebhookFields(found.name, "", None, "", found.workflow_id or "", found.states, found.enabled)
    new = replace(fields, **changes)
    _check(new, needs_url=False)
    target = find_target(connection, identifier)
    if new.url and new.url != target.url and new.secret is None and target.secret:
        # Otherwise a member who does not know the secret could have it sign for a receiver of their own.
        raise InvalidProblem.field("secret", "webhook.secret-again")
    target = Target(new.url or target.url, target.secret if new.secret is None else new.secret)
    values = {**_values(connection, new), **_seal_target(connection, identifier, target)}
    connection.execute(
        update(webhooks).where(webhooks.c.id == identifier).values(**values, updated=now(), revision=found.revision + 1)
    )
    write_audit(
        connection, actor, "edit", "webhook", identifier, found.name, {"address": values["address"], "name": new.name}
    )
    return get_webhook(connection, actor, identifier)


def delete_webhook(connection: Connection, actor: Actor, identifier: str) -> None:
    found = get_webhook(connection, actor, identifier, "delete")
    connection.execute(delete(webhooks).where(webhooks.c.id == identifier))
    write_audit(connection, actor, "delete", "webhook", identifier, found.name)


def find_target(connection: Connection, identifier: str) -> Target:
    """The URL and the secret, for the server alone."""
    stored = connection.execute(select(webhooks.c.target).where(webhooks.c.id == identifier)).scalar_one()
    found = unseal(keys_of(connection), stored, webhook_place(identifier))
    return Target(found["url"], found["secret"])


def url_problem(url: str) -> FieldError | None:
    """A pure function."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return field_error("url", "webhook.url")
    is_whole = parts.scheme in ("http", "https") and parts.hostname and port != 0
    if not is_whole or not url.isascii() or not url.isprintable() or " " in url or len(url) > LONGEST_URL:
        return field_error("url", "webhook.url")
    if parts.username is not None or parts.password is not None:
        return field_error("url", "webhook.credentials")
    return None


def shown_address(url: str) -> str:
    """The scheme and the host: what follows often contains a token. A pure function."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}" + ("/…" if parts.path.strip("/") or parts.query else "")


def _check(new: WebhookFields, *, needs_url: bool) -> None:
    wrong: list[FieldError] = []
    name = new.name
    if not 0 < len(name) <= LONGEST_NAME or name.strip() != name or not name.isprintable():
        wrong.append(field_error("name", "webhook.name", name=name, most=LONGEST_NAME))
    if new.url or needs_url:
        problem = url_problem(new.url)
        wrong += [problem] if problem is not None else []
    if not new.states:
        wrong.append(field_error("states", "webhook.states"))
    if new.secret and (len(new.secret) > LONGEST_SECRET or len(signing_key(new.secret)) < SHORTEST_SECRET):
        wrong.append(field_error("secret", "webhook.secret", least=SHORTEST_SECRET, most=LONGEST_SECRET))
    if wrong:
        raise InvalidProblem.fields(wrong)


def _values(connection: Connection, new: WebhookFields) -> dict[str, Any]:
    return {
        "name": new.name,
        "workflow_id": _workflow_id(connection, new.workflow),
        "states": [state for state in END_STATES if state in new.states],
        "enabled": new.enabled,
    }


def _seal_target(connection: Connection, identifier: str, target: Target) -> dict[str, Any]:
    return {
        "address": shown_address(target.url),
        "target": seal(keys_of(connection), target._asdict(), webhook_place(identifier)),
        "has_secret": bool(target.secret),
    }


def _workflow_id(connection: Connection, id_or_name: str) -> str | None:
    if not id_or_name:
        return None
    found = find_row(connection, select(workflows.c.id), workflows, id_or_name)
    if found is None:
        raise InvalidProblem.field("workflow", "missing", kind="workflow", name=id_or_name)
    return str(found.id)


_WEBHOOKS = (
    select(
        *record_columns(
            Webhook,
            webhooks,
            owner_name=users.c.name,
            team_name=teams.c.name,
            workflow_name=workflows.c.name,
        )
    )
    .join(users, users.c.id == webhooks.c.owner_id)
    .outerjoin(teams, teams.c.id == webhooks.c.team_id)
    .outerjoin(workflows, workflows.c.id == webhooks.c.workflow_id)
)


def _webhook(row: AnyRow) -> Webhook:
    return as_record(row, Webhook)
