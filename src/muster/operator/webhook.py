"""The validating webhook: an HTTPS server that every replica of the operator runs, leader or not.

`review` applies the same rules, with the same messages, as the embedded cluster.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from muster.kube.cluster import Cluster
from muster.kube.errors import ApiError, BadRequest
from muster.kube.kinds import Kind, invalid_object
from muster.kube.objects import Object, is_deleting, name_of, spec_of
from muster.kube.schema_validation import validate
from muster.operator.webhook_certificates import (
    CertificateError,
    CertificateFiles,
    CertificateSecret,
    CertificateSource,
    KeyPair,
)
from muster.training.registry import training_kinds

_KINDS: dict[tuple[str, str, str], Kind] = {(kind.group, kind.version, kind.kind): kind for kind in training_kinds()}


def review(asked: Any) -> Object:
    """Returns the AdmissionReview with the response. Raises BadRequest if `asked` is not an AdmissionReview."""
    request = asked.get("request") if isinstance(asked, dict) else None
    if not isinstance(request, dict) or not request.get("uid"):
        raise BadRequest("the body is not an AdmissionReview with a request")
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": request["uid"], **_response(request)},
    }


def _response(request: Object) -> Object:
    asked = request.get("kind") or {}
    kind = _KINDS.get((asked.get("group", ""), asked.get("version", ""), asked.get("kind", "")))
    new, old = request.get("object"), request.get("oldObject")
    if kind is None:
        named = f"{asked.get('group')}/{asked.get('version')} {asked.get('kind')}"
        return {"allowed": True, "warnings": [f"Muster's webhook was asked about {named}, which it does not know"]}
    if new is None or is_deleting(new):
        return {"allowed": True}
    if old is not None and spec_of(old) == spec_of(new):
        return {"allowed": True}  # stored objects stay usable, whichever rules they were validated by
    causes = validate(new, kind.schema)
    if not causes and kind.validate is not None:
        causes = kind.validate(new, old)
    if causes:
        status = invalid_object(kind, new, causes).to_status()
        status["details"] |= {
            "group": kind.group,
            "kind": kind.kind,
            "name": name_of(new),
        }  # kubectl builds its message from these
        return {"allowed": False, "status": status}
    warnings = [f"{cause.field}: {cause.message}" for cause in (kind.warnings(new) if kind.warnings else ())]
    return {"allowed": True, **({"warnings": warnings} if warnings else {})}


WEBHOOK_PATH = "/validate"
CHECK_SECONDS = 60.0
"""How often the certificate is checked. Updates of a mounted Secret take as long."""
RETRY_SECONDS = 2.0

_MAX_BYTES = 8 * 1024 * 1024
"""The maximum size of a request in bytes: an object, its previous state, and room to spare."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    port: int = 9443
    certificates: Path | None = None
    """A folder with tls.crt and tls.key; without one the operator issues its own."""
    namespace: str = "muster-system"
    service: str = "muster-operator"
    secret: str = "muster-operator-webhook"  # noqa: S105 (its name)
    configuration: str = "muster-operator"


class Webhook:
    def __init__(self, port: int) -> None:
        self.port = port
        """The port it listens on; the given one unless that is 0."""
        self.listening = asyncio.Event()

    @property
    def ready(self) -> bool:
        return self.listening.is_set()


@asynccontextmanager
async def serve_webhook(
    settings: WebhookSettings,
    cluster: Cluster,
    *,
    source: CertificateSource | None = None,
    look_seconds: float = CHECK_SECONDS,
) -> AsyncIterator[Webhook]:
    """Serves while the block runs. Starts as soon as there is a certificate, which may be later."""
    webhook = Webhook(settings.port)
    task = asyncio.create_task(
        _serve(webhook, source or _certificate_source(settings, cluster), look_seconds), name="validating webhook"
    )
    try:
        yield webhook
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _certificate_source(settings: WebhookSettings, cluster: Cluster) -> CertificateSource:
    if settings.certificates is not None:
        return CertificateFiles(settings.certificates)
    return CertificateSecret(
        cluster,
        namespace=settings.namespace,
        secret=settings.secret,
        service=settings.service,
        configuration=settings.configuration,
    )


async def _serve(webhook: Webhook, source: CertificateSource, look_seconds: float) -> None:
    app = web.Application(client_max_size=_MAX_BYTES)
    app.router.add_post(WEBHOOK_PATH, _handle_review)
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=5.0)
    await runner.setup()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    served: KeyPair | None = None
    try:
        while True:
            try:
                pair = await source.pair()
                if pair != served:
                    pair.load_into(context)
                    served = pair
                if not webhook.ready:
                    await _listen(runner, webhook, context)
            except (ApiError, CertificateError, OSError) as error:  # SSLError is an OSError
                _log.error("the webhook has no valid certificate: %s", error)
                await asyncio.sleep(min(RETRY_SECONDS, look_seconds) if served is None else look_seconds)
            else:
                await asyncio.sleep(look_seconds)
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, webhook: Webhook, context: ssl.SSLContext) -> None:
    listener = _listener(webhook.port)
    await web.SockSite(runner, listener, ssl_context=context).start()
    webhook.port = listener.getsockname()[1]
    webhook.listening.set()
    _log.info("the webhook listens", extra={"port": webhook.port})


def _listener(port: int) -> socket.socket:
    """Returns one socket for both versions of IP where both exist: an API server may use either."""
    if socket.has_dualstack_ipv6():
        with suppress(OSError):
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


async def _handle_review(request: web.Request) -> web.Response:
    try:
        answer = review(orjson.loads(await request.read()))
    except (BadRequest, orjson.JSONDecodeError) as error:
        return web.Response(status=400, text=str(error))
    return web.Response(body=orjson.dumps(answer), content_type="application/json")
