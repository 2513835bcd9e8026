"""Webhooks: messages to other programs when a run ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from muster.platform.records.webhooks import END_STATES, Delivery, EndState, WebhookDetail
from muster.sdk.transport import Transport, parse_record


class Webhooks:
    """Webhooks are named by their ids."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, *, team: str = "", mine: bool = False, most: int | None = None) -> Iterator[WebhookDetail]:
        query = {"team": team, "mine": "true" if mine else ""}
        return (parse_record(WebhookDetail, item) for item in self._transport.pages("webhooks", query, most))

    def get(self, webhook: str) -> WebhookDetail:
        return parse_record(WebhookDetail, self._transport.request("GET", _path(webhook)))

    def create(
        self, name: str, url: str, *, secret: str = "", team: str = "", workflow: str = "",
        states: Sequence[EndState] = END_STATES,
    ) -> WebhookDetail:  # fmt: skip
        """For runs that are shared with a team, or for your own; of all workflows, or of one. `secret` signs the
        messages, as in the Standard Webhooks specification. Neither it nor the URL can be read again."""
        body = {
            "name": name,
            "url": url,
            "secret": secret,
            "team": team,
            "workflow": workflow,
            "states": list_(states),
        }
        return parse_record(WebhookDetail, self._transport.request("POST", "webhooks", body))

    def edit(self, webhook: str, **changes: Any) -> WebhookDetail:
        """`changes`: name, url, secret, workflow, states, enabled."""
        return parse_record(WebhookDetail, self._transport.request("PATCH", _path(webhook), changes))

    def delete(self, webhook: str) -> None:
        self._transport.request("DELETE", _path(webhook))

    def test(self, webhook: str) -> Delivery:
        """Sends a test message. `deliveries` has its result soon."""
        return parse_record(Delivery, self._transport.request("POST", f"{_path(webhook)}/test"))

    def deliveries(self, webhook: str, *, most: int | None = None) -> Iterator[Delivery]:
        """What was sent and what waits to be sent, the newest first."""
        items = self._transport.pages(f"{_path(webhook)}/deliveries", {}, most)
        return (parse_record(Delivery, item) for item in items)

    def redeliver(self, webhook: str, delivery: str) -> Delivery:
        """Sends a message again, with the same id."""
        path = f"{_path(webhook)}/deliveries/{quote(delivery, safe='')}/redeliver"
        return parse_record(Delivery, self._transport.request("POST", path))


list_ = list
"""`list` is a method above."""


def _path(webhook: str) -> str:
    return f"webhooks/{quote(webhook, safe='')}"
