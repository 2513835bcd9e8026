"""Runs the operator: the training controller on a real cluster while it leads, with its health endpoints and logs."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import orjson
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from muster.kube.errors import ApiError
from muster.kube.events import EventRecorder
from muster.kube.kinds import Kind
from muster.kube.remote.client import RemoteCluster
from muster.kube.remote.kubeconfig import Access
from muster.operator import webhook
from muster.operator.election import Election, lease_gate
from muster.operator.metrics import Metrics
from muster.operator.settings import OperatorSettings, enabled_job_kinds
from muster.training.controller import AUTOSCALER, TrainingController
from muster.training.gang import group_kind
from muster.training.kinds.base import JobKind
from muster.training.registry import training_kinds
from muster.workspaces.controller import WorkspaceController
from muster.workspaces.culler import Culler
from muster.workspaces.kinds import NOTEBOOK, TENSORBOARD, workspace_kinds

log = logging.getLogger(__name__)

AGENT = "muster-operator"


class Operator:
    """`await Operator(access, settings).run(stop)` runs until `stop` is set. Then it finishes running reconciles,
    flushes its events, and gives its lease back."""

    def __init__(self, access: Access, settings: OperatorSettings) -> None:
        self._settings = settings
        self._job_kinds = enabled_job_kinds(settings)
        self._metrics = Metrics()
        self._metrics.leads = self._leads
        self._cluster = RemoteCluster(
            access,
            on_warning=_log_warning,
            on_answer=self._metrics.observe_request,
            field_manager=AGENT,
            field_validation="Warn",
        )
        self._election = Election(self._cluster, settings.election) if settings.election is not None else None
        self._stop = asyncio.Event()
        self._known: frozenset[tuple[str, str]] | None = None
        self._controller: TrainingController | None = None
        self._webhook: webhook.Webhook | None = None
        self.port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """The port of the health endpoints, once they are served."""

    async def run(self, stop: asyncio.Event) -> None:
        self._stop = stop
        settings = self._settings
        async with (
            self._cluster,
            serve_health(
                settings.host,
                settings.port,
                alive=self._check_alive,
                ready=self._check_ready,
                metrics=self._metrics.render,
            ) as port,
            self._serve_webhook(),
        ):
            self.port.set_result(port)
            log.info("serving /healthz, /readyz and /metrics on %s:%d", settings.host, port)
            working = asyncio.create_task(self._lead())
            stopping = asyncio.create_task(stop.wait())
            try:
                await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
                if not working.done() and self._controller is None:
                    working.cancel()  # it only waits for the lease
                await asyncio.gather(working, return_exceptions=stop.is_set())
            finally:
                for task in (working, stopping):
                    task.cancel()
                await asyncio.gather(working, stopping, return_exceptions=True)
            log.info("stopped")

    @asynccontextmanager
    async def _serve_webhook(self) -> AsyncIterator[None]:
        """Serves the webhook, which every replica runs, leader or not."""
        if self._settings.webhook is None:
            yield
            return
        async with webhook.serve_webhook(self._settings.webhook, self._cluster) as self._webhook:
            yield

    async def _lead(self) -> None:
        await self._discover()
        if self._election is None:
            await self._work()
        else:
            await self._election.lead(self._work)

    async def _work(self) -> None:
        """Runs one term. When the cluster gains or loses one of our kinds, starts again with those it has."""
        cluster = self._cluster.with_gate(lease_gate(self._leads, self._settings.requests))
        # Separate from other requests, so that events never delay a Pod.
        events = self._cluster.with_gate(lease_gate(self._leads, self._settings.event_requests))
        while not self._stop.is_set():
            recorder = EventRecorder(events, AGENT)
            spoken = self._served_job_kinds()
            if not spoken:
                log.warning("the cluster serves no kind of training job; run `muster operator install`")
            controller = TrainingController(
                cluster,
                recorder,
                spoken,
                self._settings.gang_settings,
                namespaces=self._settings.scopes,
                workers=self._settings.workers,
                settle_seconds=self._settings.settle_seconds,
                lean=True,
                on_done=self._metrics.observe_reconcile,
                on_job_event=self._metrics.count_job_event,
            )
            self._controller = self._metrics.controller = controller
            workspaces = self._workspace_controller(cluster, recorder)
            parts = [] if workspaces is None else [workspaces.run(), *self._culling(cluster, recorder)]
            running = asyncio.create_task(_run_all(controller.run(), recorder.run(), *parts))
            changed = asyncio.create_task(self._until_changed())
            stopping = asyncio.create_task(self._stop.wait())
            try:
                await asyncio.wait([running, changed, stopping], return_when=asyncio.FIRST_COMPLETED)
                if running.done():
                    running.result()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._settings.grace_seconds):
                        await controller.finish()
                        if workspaces is not None:
                            await workspaces.finish()
                        await recorder.flush()
            finally:
                self._controller = self._metrics.controller = None
                for task in (running, changed, stopping):
                    task.cancel()
                await asyncio.gather(running, changed, stopping, return_exceptions=True)

    def _workspace_controller(self, cluster: RemoteCluster, recorder: EventRecorder) -> WorkspaceController | None:
        """Returns the controller of those kinds of workspaces that the cluster has; None if there are none."""
        options, known = self._settings.workspaces, self._known or frozenset()
        kinds = [kind for kind in (NOTEBOOK, TENSORBOARD) if _type_of(kind) in known]
        if options is None or not kinds:
            return None
        return WorkspaceController(
            cluster,
            recorder,
            tensorboard_image=options.tensorboard_image,
            fs_group=options.fs_group,
            namespaces=self._settings.scopes,
            kinds=kinds,
        )

    def _culling(self, cluster: RemoteCluster, recorder: EventRecorder) -> list[Coroutine[None, None, None]]:
        options, known = self._settings.workspaces, self._known or frozenset()
        kinds = [kind for kind in (NOTEBOOK, TENSORBOARD) if _type_of(kind) in known]
        if options is None or not kinds:
            return []
        return [Culler(cluster, recorder, options.culling, kinds=kinds, namespaces=self._settings.scopes).run()]

    async def _discover(self) -> None:
        """Waits for the API server, however long it takes: it may start after us."""
        for kind in (*training_kinds(), *(workspace_kinds() if self._settings.workspaces is not None else ())):
            self._cluster.catalogue.register(kind)
        delay = 0.1
        while True:
            try:
                await self._cluster.discover(again=True)
            except (ApiError, OSError) as error:
                log.warning("%s; retrying in %.1f s", error, delay)
                await asyncio.sleep(delay)
                delay = min(delay * 2, 10.0)
            else:
                self._known = self._present_kinds()
                return

    async def _until_changed(self) -> None:
        while True:
            await asyncio.sleep(self._settings.discovery_seconds)
            with suppress(ApiError, OSError):
                await self._cluster.discover(again=True)
                if self._present_kinds() != self._known:
                    self._known = self._present_kinds()
                    log.info("the kinds of the cluster have changed: restarting the controller")
                    return

    def _served_job_kinds(self) -> Sequence[JobKind]:
        known = self._known or frozenset()
        return [d for d in self._job_kinds if any(_type_of(kind) in known for kind in (d.kind, *d.other_versions))]

    def _present_kinds(self) -> frozenset[tuple[str, str]]:
        """Returns those of our kinds that the cluster has."""
        kinds = [kind for job_kind in self._job_kinds for kind in (job_kind.kind, *job_kind.other_versions)]
        if self._settings.workspaces is not None:
            kinds += [NOTEBOOK, TENSORBOARD]
        concern = {_type_of(kind) for kind in (*kinds, group_kind(self._settings.gang))} | {AUTOSCALER}
        return frozenset(concern & {_type_of(kind) for kind in self._cluster.catalogue})

    def _leads(self) -> bool:
        return self._election.holds if self._election is not None else True

    def _check_alive(self) -> str:
        return "the lease expired long ago" if self._election is not None and self._election.overdue else ""

    def _check_ready(self) -> str:
        if self._known is None:
            return "waiting for the API server"
        if self._controller is not None and not self._controller.is_synced:
            return "waiting for the first list of jobs and Pods"
        if self._webhook is not None and not self._webhook.ready:
            return "waiting for the webhook's certificate"
        return ""  # an operator that only waits for the lease is ready


async def serve(access: Access, settings: OperatorSettings) -> None:
    """Runs until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await Operator(access, settings).run(stop)


async def _run_all(*parts: Coroutine[None, None, None]) -> None:
    async with asyncio.TaskGroup() as group:
        for part in parts:
            group.create_task(part)


def _type_of(kind: Kind) -> tuple[str, str]:
    return kind.api_version, kind.kind


def _log_warning(warning: str) -> None:
    log.warning("warning from the API server: %s", warning)


LogFormat: TypeAlias = Literal["text", "json"]


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


def configure_logging(format: LogFormat, *, debug: bool = False) -> None:
    """Logs of the whole process go to stderr."""
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonFormatter() if format == "json" else text)
    logging.basicConfig(level=logging.DEBUG if debug else logging.INFO, handlers=[handler], force=True)


Check = Callable[[], str]
"""Returns what is wrong; "" if nothing is."""


@asynccontextmanager
async def serve_health(
    host: str, port: int, *, alive: Check, ready: Check, metrics: Callable[[], bytes]
) -> AsyncIterator[int]:
    """Yields the port, in case any free one was requested."""
    app = web.Application()
    app.router.add_get("/healthz", _probe(alive))
    app.router.add_get("/readyz", _probe(ready))

    async def scrape(_: web.Request) -> web.Response:
        return web.Response(body=metrics(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app.router.add_get("/metrics", scrape)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def _probe(check: Check) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def probe(_: web.Request) -> web.Response:
        wrong = check()
        return web.Response(status=503, text=f"{wrong}\n") if wrong else web.Response(text="ok\n")

    return probe
