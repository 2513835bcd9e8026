"""Webhooks, and the log of what they have sent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

from muster.platform.records.common import Subject

EndState: TypeAlias = Literal["succeeded", "failed", "stopped"]
END_STATES: Final[tuple[EndState, ...]] = ("succeeded", "failed", "stopped")
DeliveryEvent: TypeAlias = Literal["run.ended", "test"]
DeliveryState: TypeAlias = Literal["pending", "delivered", "failed"]


@dataclass(frozen=True, slots=True)
class Webhook:
    id: str
    name: str
    owner_id: str
    owner_name: str
    team_id: str | None
    """With a team: for runs that are shared with it. Without: for runs of the owner."""
    team_name: str | None
    workflow_id: str | None
    """Only for runs of this workflow; None for all."""
    workflow_name: str | None
    states: list[EndState]
    """Only for runs that end in one of these states."""
    enabled: bool
    address: str
    """The beginning of the URL. The rest is never shown: it often contains a token."""
    has_secret: bool
    created: datetime
    updated: datetime
    revision: int

    @property
    def subject(self) -> Subject:
        return Subject("webhook", self.id, owner=self.owner_id, team=self.team_id or "")


@dataclass(frozen=True, slots=True)
class WebhookDetail(Webhook):
    may: list[str]
    """What the caller may do: edit, delete."""


@dataclass(frozen=True, slots=True)
class Delivery:
    id: str
    """The `webhook-id` header: the same at every attempt."""
    event: DeliveryEvent
    run_id: str
    run_name: str
    run_state: str
    state: DeliveryState
    attempts: int
    created: datetime
    due: datetime | None
    """When it is tried next; None if it is not."""
    tried: datetime | None
    status: int | None
    """The HTTP status of the last response; None if there was none."""
    error: str
    """Why the last attempt failed."""
    error_code: str
    error_arguments: dict[str, Any]
