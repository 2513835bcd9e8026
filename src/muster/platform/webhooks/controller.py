"""Sends the messages of webhooks. One of the servers on a database does it (leases.py).

A receiver is chosen by a user, so it is not trusted: it may not be in the server's own network unless a setting allows
it, redirects are not followed, its response is not read, and one that hangs holds up nothing but itself.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections import Counter
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import aiohttp

from muster import __version__
from muster.platform.database.database import Database
from muster.platform.database.tables import now
from muster.platform.messages import FieldError, field_error
from muster.platform.settings import WebhookSettings
from muster.platform.webhooks.deliveries import DueDelivery, find_due, store_result
from muster.platform.webhooks.signature import signed_headers
from muster.workflows.artifacts.egress import Egress, EgressRefused, egress_proxy, upstream_proxy

log = logging.getLogger(__name__)

SEND_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 2.0
"""Another server may have stored a message; those of this one wake it."""
_AT_ONCE: Final = 32
_AT_ONCE_PER_USER: Final = 4


class SendResult(NamedTuple):
    status: int | None
    problem: FieldError | None


class WebhookController:
    def __init__(self, database: Database, settings: WebhookSettings, send_seconds: float = SEND_SECONDS) -> None:
        self._database = database
        self._settings = settings
        self._send_seconds = send_seconds
        self._news = asyncio.Event()
        self._sending: dict[str, tuple[str, asyncio.Task[None]]] = {}
        """By webhook: the owner, and what sends its oldest message."""

    def wake(self) -> None:
        """Looks for messages at once."""
        self._news.set()

    async def run(self) -> None:
        try:
            while True:
                self._news.clear()
                await self._send_due()
                try:
                    async with asyncio.timeout(_LOOK_SECONDS):
                        await self._news.wait()
                except TimeoutError:
                    pass
        finally:
            tasks = [task for _, task in self._sending.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._sending.clear()

    async def _send_due(self) -> None:
        """Starts to send: one message of a webhook at a time, and a few of a user. Other messages of such a user are
        not selected, so that they never hide those of others."""
        at = now()
        while len(self._sending) < _AT_ONCE:
            busy = Counter(owner for owner, _ in self._sending.values())
            at_limit = [owner for owner, number in busy.items() if number >= _AT_ONCE_PER_USER]
            find = partial(
                find_due, at=at, limit=_AT_ONCE, without_webhooks=list(self._sending), without_owners=at_limit
            )
            found = await self._database.read(find)
            if not found:
                return
            for delivery in found:
                if len(self._sending) < _AT_ONCE and busy[delivery.owner_id] < _AT_ONCE_PER_USER:
                    busy[delivery.owner_id] += 1
                    task = asyncio.create_task(self._deliver(delivery))
                    self._sending[delivery.webhook_id] = (delivery.owner_id, task)

    async def _deliver(self, delivery: DueDelivery) -> None:
        try:
            result = await send(delivery, self._settings, self._send_seconds)
            at = now()
            await self._database.write(
                lambda connection: store_result(connection, delivery, result.status, result.problem, at)
            )
        except Exception:  # it stays due, and is tried again
            log.exception("the message %s of the webhook %s", delivery.id, delivery.webhook_id)
        finally:
            self._sending.pop(delivery.webhook_id, None)
            self._news.set()


async def send(delivery: DueDelivery, settings: WebhookSettings, seconds: float = SEND_SECONDS) -> SendResult:
    """Sends a message once. Neither the URL nor anything that the receiver says is in the result."""
    url = urlsplit(delivery.target.url)
    host, port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
    egress = Egress(settings.addresses, setting="webhooks.addresses", public_only=True)
    try:
        async with asyncio.timeout(seconds), egress_proxy(egress) as proxy:
            other = upstream_proxy()
            if other and not egress.is_named(host, port):
                await egress.check(host, port)
                proxy = other
            return await _post(delivery, proxy, egress)
    except EgressRefused:
        return SendResult(None, field_error("", "webhook.address", host=host, setting="webhooks.addresses"))
    except TimeoutError:
        return SendResult(None, field_error("", "webhook.slow", seconds=round(seconds)))
    except aiohttp.ClientSSLError:
        return SendResult(None, field_error("", "webhook.tls", host=host))
    except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError):
        if egress.refused:
            return SendResult(None, field_error("", "webhook.address", host=host, setting="webhooks.addresses"))
        return SendResult(None, field_error("", "webhook.connection", host=host))


async def _post(delivery: DueDelivery, proxy: str, egress: Egress) -> SendResult:
    body, target = delivery.body, delivery.target
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"Muster/{__version__}",
        **signed_headers(target.secret, delivery.id, int(time.time()), body),
    }
    # Nothing of the server's environment: no .netrc, no cookies, no proxy of its own.
    async with (
        aiohttp.ClientSession(trust_env=False, cookie_jar=aiohttp.DummyCookieJar()) as session,
        session.post(target.url, data=body.encode(), headers=headers, proxy=proxy, allow_redirects=False) as response,
    ):
        status = response.status
        response.close()  # the rest of the response is not read
    if egress.refused:
        raise EgressRefused(egress.refused[0])
    if egress.is_unreachable:
        raise OSError("the receiver cannot be reached")
    if 300 <= status < 400:
        return SendResult(status, field_error("", "webhook.redirect", status=status))
    if not 200 <= status < 300:
        return SendResult(status, field_error("", "webhook.status", status=status))
    return SendResult(status, None)
