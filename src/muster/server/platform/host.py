"""Serves the platform on a port of its own, beside the cluster.

The libraries behind it take half a second to load, and most boxes are started for something else. So the port is open
at once, and the platform is loaded behind it: right away if it was used before, else when the first request comes.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from muster.embedded.auth.identity import Identity
from muster.embedded.cluster import EmbeddedCluster
from muster.kube.cluster import Cluster
from muster.kube.encryption import KeyRing
from muster.kube.rbac import User
from muster.platform.settings import DEFAULT_WEB_PORT
from muster.platform.users.credentials import API_TOKEN, platform_folder, prepare_secrets
from muster.server.cooker.listeners import serve_cooker
from muster.server.fair_share import FairRequests, FairShares
from muster.server.http_server import limits_from, open_web_listeners, serve_http
from muster.server.settings import Settings
from muster.server.workers import WorkerPool

if TYPE_CHECKING:
    from muster.server.platform.services import Services
    from muster.workflows.artifacts.client import ArtifactClient
    from muster.workflows.backend import WorkflowBackend

log = logging.getLogger(__name__)

_TRY_AGAIN_SECONDS = 5.0
_READY_SECONDS = 3.0
_SWITCH_SECONDS = 0.001
"""How long a thread keeps the interpreter while the event loop wants it: with the usual 5 ms, a few threads that work
on large objects hold up each step of every request."""
_LOOPBACK = {"127.0.0.1", "localhost", "::1"}


@asynccontextmanager
async def host_platform(
    settings: Settings,
    cluster: Cluster,
    artifacts: ArtifactClient | None = None,
    keys: KeyRing | None = None,
    workers: WorkerPool | None = None,
    identity: Identity | None = None,
    backend: WorkflowBackend | None = None,
    shares: FairShares | None = None,
) -> AsyncIterator[str]:
    """Serves the platform for as long as the block lasts, and yields its URL. `keys` encrypt its secrets, `workers`
    check what users write. With `identity`, tokens of the platform are valid for the cluster's APIs, too. `backend`
    runs the Workflows, if it is not the cluster's own. `shares` are those of the cluster's APIs."""
    web = settings.web
    prepare_secrets(platform_folder(settings.home))
    sys.setswitchinterval(_SWITCH_SECONDS)
    with open_web_listeners(web.host, web.port, settings.home / "web-port", usual=DEFAULT_WEB_PORT) as listeners:
        port = listeners[0].getsockname()[1]
        host = "127.0.0.1" if web.host == "0.0.0.0" else web.host  # noqa: S104 (it is asked about, not listened on)
        url = web.url or f"http://{host}:{port}"
        if web.host not in _LOOPBACK and not web.url.startswith("https:"):
            log.warning("web.host: passwords are sent unencrypted; put an HTTPS proxy in front and set web.url")
        if web.url and not web.trusted_proxies:
            log.warning(
                "web.trustedProxies is not set: if there is a proxy in front, all its users count as one address, and "
                "failed logins of one hold up the others; set it to the address of the proxy, such as [127.0.0.1]"
            )
        keys = keys or KeyRing.load(settings.key_file)
        hosted = _Hosted(settings, cluster, url, artifacts, keys, workers, backend, shares)
        if identity is not None:
            identity.others = hosted
        task = asyncio.create_task(hosted.run(), name="platform")
        try:
            async with AsyncExitStack() as stack:
                app: ASGIApp = hosted
                if web.monitoring_port is not None:
                    app = await stack.enter_async_context(_monitored(settings, hosted))
                limits = limits_from(settings.budgets)
                for listener in listeners:
                    await stack.enter_async_context(serve_http(app, listener, limits))
                if settings.cooker.enabled:
                    for_pods = isinstance(cluster, EmbeddedCluster)
                    await stack.enter_async_context(
                        serve_cooker(settings, cluster, hosted.serve_cooker, for_pods=for_pods)
                    )
                yield url
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def _monitored(settings: Settings, hosted: _Hosted) -> AsyncIterator[ASGIApp]:
    """Serves probes and metrics, and yields the application with its requests counted."""
    from muster.server.platform.monitoring import PlatformMetrics, serve_monitoring

    metrics = PlatformMetrics(lambda: hosted.services)
    async with serve_monitoring(settings, hosted.check_ready, metrics) as port:
        log.info("serving /healthz, /readyz and /metrics on %s:%d", settings.web.monitoring_host, port)
        yield metrics.observe(hosted)


class _Hosted:
    """An application that loads the real one when it is needed."""

    def __init__(
        self,
        settings: Settings,
        cluster: Cluster,
        url: str,
        artifacts: ArtifactClient | None,
        keys: KeyRing,
        workers: WorkerPool | None,
        backend: WorkflowBackend | None,
        shares: FairShares | None,
    ) -> None:
        self._shares = shares or FairShares(settings.budgets)
        self._settings, self._cluster, self._url, self._artifacts = settings, cluster, url, artifacts
        self._keys = keys
        self._workers = workers
        self._backend = backend
        self._app: ASGIApp | None = None
        self._cooker: ASGIApp | None = None
        self._services: Services | None = None
        self._trouble = ""
        self._asked = asyncio.Event()
        self._settled = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._serve_request(lambda: self._app, scope, receive, send)

    async def serve_cooker(self, scope: Scope, receive: Receive, send: Send) -> None:
        """MLP Cooker's API on a port of its own."""
        await self._serve_request(lambda: self._cooker, scope, receive, send)

    async def _serve_request(
        self, find: Callable[[], ASGIApp | None], scope: Scope, receive: Receive, send: Send
    ) -> None:
        self._asked.set()
        await self._settled.wait()
        app = find()
        if app is not None:
            await app(scope, receive, send)
        elif scope["type"] == "http":
            # It names files and hosts. Strangers learn only that something is wrong.
            web = self._settings.web
            is_local = web.host in _LOOPBACK and not web.url
            await _unavailable(send, self._trouble if is_local else "the platform cannot be served; see the server log")

    @property
    def services(self) -> Services | None:
        """None while the platform is not served."""
        return self._services

    async def check_ready(self) -> str:
        """Returns why requests cannot be served; '' if they can."""
        self._asked.set()
        if self._services is None:
            return self._trouble or "the server is starting"
        try:
            async with asyncio.timeout(_READY_SECONDS):
                await self._services.database.read(lambda connection: connection.exec_driver_sql("SELECT 1").scalar())
        except Exception as error:  # the driver's errors, which are not imported here
            return f"the database does not respond: {type(error).__name__}"
        return ""

    async def authenticate(self, token: str) -> User | None:
        """Returns the user of a token of the platform, for the cluster's APIs."""
        if not token.startswith(API_TOKEN):
            return None
        self._asked.set()
        await self._settled.wait()
        if self._services is None:
            return None
        from muster.platform.namespaces import cluster_user

        actor = await self._services.identities.of_token(token, "")
        return cluster_user(actor) if actor is not None else None

    async def run(self) -> None:
        is_laptop = isinstance(self._cluster, EmbeddedCluster) and not self._settings.web.database
        if is_laptop and not self._file.exists():
            await self._asked.wait()
        while True:
            try:
                await self._serve()
            except Exception as error:
                self._app, self._cooker, self._services, self._trouble = None, None, None, str(error)
                log.error("the platform cannot be served: %s", error, exc_info=not _is_explained(error))
                self._settled.set()
                await asyncio.sleep(_TRY_AGAIN_SECONDS)

    async def _serve(self) -> None:
        """Serves until it is cancelled. The modules are imported on a thread, so that the cluster keeps running."""
        await asyncio.to_thread(_load)
        from muster.platform.database.database import Database, sqlite_url
        from muster.server.cooker.app import cooker_app, for_pods, with_cooker
        from muster.server.pipelines.app import pipelines_app, with_pipelines
        from muster.server.platform.app import background_tasks, keep_running, platform_app
        from muster.server.platform.services import create_services
        from muster.server.proxy.app import serve_workspaces

        database = await Database.open(
            self._settings.web.database or sqlite_url(self._file),
            keys=self._keys,
            budgets=self._settings.budgets,
            survives_power_cut=self._settings.durability == "power",
        )
        try:
            services = await create_services(
                database,
                self._cluster,
                self._settings,
                self._url,
                self._artifacts,
                self._workers,
                backend=self._backend,
            )
            app: ASGIApp = with_pipelines(platform_app(services), pipelines_app(services))
            if self._settings.cooker.enabled:
                cooker, platform = cooker_app(services), app
                app, self._cooker = with_cooker(platform, cooker), for_pods(platform, cooker)
            app = FairRequests(app, self._shares)
            if self._cooker is not None:
                self._cooker = FairRequests(self._cooker, self._shares)
            async with serve_workspaces(services, app, self._shares) as self._app:
                self._services, self._trouble = services, ""
                self._settled.set()
                await keep_running(background_tasks(services))
        finally:
            if self._services is not None:
                await self._services.dispatch.close()
            await asyncio.to_thread(database.close)

    @property
    def _file(self) -> Any:
        return platform_folder(self._settings.home) / "platform.db"


def _load() -> None:
    """Imports the platform and the libraries behind it."""
    import muster.server.cooker.app
    import muster.server.pipelines.app
    import muster.server.platform.app  # noqa: F401


def _is_explained(error: Exception) -> bool:
    """Whether the message says all there is to say; if not, the traceback is logged, too."""
    from muster.platform.database.database import DatabaseError

    return isinstance(error, DatabaseError)


async def _unavailable(send: Send, trouble: str) -> None:
    document = {"type": "/problems/unavailable", "title": "Not now", "status": 503, "detail": trouble, "errors": []}
    headers = [(b"content-type", b"application/problem+json"), (b"retry-after", b"5"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": orjson.dumps(document)})
