"""Probes and metrics of the platform, on a port of their own that is not for users: /healthz, /readyz and /metrics."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster import __version__
from muster.server.http_server import open_listener, serve_http
from muster.server.settings import Settings

if TYPE_CHECKING:
    from muster.server.platform.services import Services

PREFIX = "muster_platform_"
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})

Check = Callable[[], Awaitable[str]]
"""Returns what is wrong; '' if nothing is."""


class PlatformMetrics(Collector):
    """Metrics for Prometheus. `find_services` is called when it scrapes; it returns None while the platform is not
    served."""

    def __init__(self, find_services: Callable[[], Services | None]) -> None:
        self._find_services = find_services
        self._registry = CollectorRegistry()
        self._requests = Counter(
            f"{PREFIX}requests", "Requests, by method and status.", ("method", "code"), registry=self._registry
        )
        self._seconds = Histogram(
            f"{PREFIX}request_seconds",
            "Time until the response begins.",
            ("method",),
            registry=self._registry,
            buckets=_BUCKETS,
        )
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def observe(self, app: ASGIApp) -> ASGIApp:
        """Returns the application with its requests counted. Streams count when they begin."""

        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            begun, method = time.perf_counter(), scope["method"] if scope["method"] in _METHODS else "other"

            async def watched(message: Message) -> None:
                if message["type"] == "http.response.start":
                    self._requests.labels(method, str(message["status"])).inc()
                    self._seconds.labels(method).observe(time.perf_counter() - begun)
                await send(message)

            await app(scope, receive, watched)

        return counted

    def render(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        info = GaugeMetricFamily(f"{PREFIX}info", "The version of the server.", labels=("version",))
        info.add_metric((__version__,), 1)
        yield info
        here = self._find_services()
        leads = here is not None and here.leases.leads("controllers")
        yield GaugeMetricFamily(f"{PREFIX}leader", "Whether this server runs the controllers.", value=float(leads))
        streams = here.streams.total if here is not None else 0
        yield GaugeMetricFamily(f"{PREFIX}open_streams", "Open event streams, logs and downloads.", value=streams)
        writes = here.database.writes if here is not None else 0
        yield CounterMetricFamily(f"{PREFIX}database_writes", "Transactions that were written.", value=writes)


@asynccontextmanager
async def serve_monitoring(settings: Settings, ready: Check, metrics: PlatformMetrics) -> AsyncIterator[int]:
    """Serves probes and metrics, and yields the port. /healthz says that the process responds; a server without its
    database is alive, because restarting it would not help, but not ready."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["path"] == "/healthz":
            await _respond(send, 200, b"ok\n")
        elif scope["path"] == "/readyz":
            wrong = await ready()
            await _respond(send, 503 if wrong else 200, f"{wrong or 'ok'}\n".encode())
        elif scope["path"] == "/metrics":
            await _respond(send, 200, metrics.render(), CONTENT_TYPE_LATEST)
        else:
            await _respond(send, 404, b"use /healthz, /readyz or /metrics\n")

    web = settings.web
    with open_listener(web.monitoring_host, web.monitoring_port or 0, settings.home / "monitoring-port") as listener:
        async with serve_http(app, listener):
            yield listener.getsockname()[1]


async def _respond(send: Send, status: int, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
    headers = [(b"content-type", kind.encode()), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
