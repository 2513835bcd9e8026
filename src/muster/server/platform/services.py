"""What every route of the platform can use: the database, the cluster, and the parts that run in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, ParamSpec, TypeVar

from fastapi import Depends, Request

from muster.dispatch.adapter import DispatcherAdapter
from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.node.image_engine import CHECK_IMAGE, EngineProblem, find_engine
from muster.kube.cluster import Cluster
from muster.kube.objects import Object
from muster.pipelines.controller import PipelineController, compile_run
from muster.pipelines.recurring_runs import RecurringController
from muster.pipelines.runs import RunSource
from muster.platform.argo.workflows import WorkflowWatch
from muster.platform.argo.workflows import subject_of as workflow_subject
from muster.platform.database.database import Database
from muster.platform.database.leases import Leases
from muster.platform.database.queries import new_id
from muster.platform.graphs.compile import inspect
from muster.platform.graphs.model import Parameter
from muster.platform.jobs.jobs import JobWatch, RunOwner
from muster.platform.jobs.jobs import subject_of as job_subject
from muster.platform.modules.builds import Builds
from muster.platform.modules.cluster_builds import JobBuilder
from muster.platform.modules.images import Engine, ImageEngines
from muster.platform.namespace_objects import POD_SECURITY, NamespaceParts
from muster.platform.namespaces import Namespaces
from muster.platform.permissions import Actor
from muster.platform.quotas import RequestRates
from muster.platform.records.jobs import Job
from muster.platform.records.resources import QueueSystem
from muster.platform.resources.queues import find_queue_system, kueue_kind
from muster.platform.runs.controller import RunController
from muster.platform.runs.runs import StoredRun
from muster.platform.runs.status import ENDED
from muster.platform.settings import OidcSettings
from muster.platform.users.credentials import platform_folder
from muster.platform.users.links import ensure_local_admin, forget_used_link
from muster.platform.users.login_limits import LoginLimits
from muster.platform.users.openid import OpenId
from muster.platform.users.sessions import Identities
from muster.platform.users.tokens import NO_LIMITS, OpenIdLimits
from muster.platform.webhooks.controller import WebhookController
from muster.platform.workflows.graph_context import graph_context
from muster.platform.workflows.versions import ContextLoader
from muster.server.cooker.listeners import SERVICE_URL
from muster.server.dispatch.adapters import CLUSTER, create_adapters
from muster.server.dispatch.service import DispatchService
from muster.server.platform.event_feed import EventFeed, OpenStreams
from muster.server.platform.metric_cache import MetricCache
from muster.server.platform.pod_usage import PodUsage
from muster.server.proxy.directory import WorkspaceDirectory
from muster.server.proxy.ports import PortListeners
from muster.server.settings import Settings
from muster.server.workers import WorkerPool
from muster.workflows.artifacts.client import ArtifactClient
from muster.workflows.backend import WorkflowBackend, backend_of
from muster.workspaces.volume_files import FileAccess

P = ParamSpec("P")
T = TypeVar("T")

OPENID_CALLBACK = "/api/v1/openid/callback"
"""The path to which the OpenID provider sends the browser back."""
_EVENTS_KEPT = 5000
_VERSIONS_KEPT = 16


@dataclass(slots=True)
class Services:
    database: Database
    cluster: Cluster
    settings: Settings
    folder: Path
    """The platform's own folder in the data directory."""
    url: str
    """The address that browsers use, without a slash at the end."""
    identities: Identities
    openid: OpenId | None
    artifacts: ArtifactClient | None
    namespaces: Namespaces
    runs: RunController
    run_feed: EventFeed
    """Changes of all runs. Event ids belong to this process: after a restart, clients load everything again."""
    jobs: JobWatch
    job_feed: EventFeed
    """Changes of all training jobs."""
    argo_workflows: WorkflowWatch
    argo_feed: EventFeed
    """Changes of all Workflows, as the subjects that changed."""
    all_runs_feed: EventFeed
    """Changes of everything that ran, as the subjects that changed."""
    backend: WorkflowBackend
    """Runs the Workflows."""
    builds: Builds
    dispatch: DispatchService
    pipeline_runs: PipelineController
    recurring_runs: RecurringController
    streams: OpenStreams
    rates: RequestRates
    workspaces: WorkspaceDirectory
    webhooks: WebhookController
    leases: Leases
    pod_usage: PodUsage
    """What Pods use over time."""
    queue_system: QueueSystem = "embedded"
    """What enforces the totals of virtual clusters."""
    workers: WorkerPool | None = None
    """Check texts of users. Without them, as in tests, a thread does."""
    load_context: ContextLoader = graph_context
    """Finds what a graph document refers to."""
    metrics: MetricCache = field(default_factory=MetricCache)
    """The scalars that jobs and nodes have written."""
    logins: LoginLimits = field(default_factory=LoginLimits)
    inspected: dict[str, tuple[tuple[Parameter, ...], bytes]] = field(default_factory=dict)
    """The parameters and graphs of some versions, which never change, by their ids."""
    run_graphs: dict[str, bytes] = field(default_factory=dict)
    """The graphs of runs that have no nodes but those of their templates, as JSON, by the ids of their versions."""
    run_owners: dict[str, RunOwner] = field(default_factory=dict)
    """The owners of runs that created jobs. They never change, so they are kept."""
    volume_files: FileAccess = field(default_factory=FileAccess)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    """Work that goes on after the answer."""
    workspace_ports: PortListeners | None = None
    """Ports of workspaces; None where none are served."""

    async def checked(self, who: Actor, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls a pure function on something that a user wrote, in a process with limits on time and memory."""
        if self.workers is None:
            return await asyncio.to_thread(function, *args, **kwargs)
        return await self.workers.run(who.id, function, *args, **kwargs)

    async def inspect_version(
        self, who: Actor, version: str, document: Mapping[str, Any]
    ) -> tuple[tuple[Parameter, ...], bytes]:
        """Returns the parameters of a version, and its graph as JSON."""
        known = self.inspected.get(version)
        if known is None:
            known = self.inspected[version] = await self.checked(who, inspect, document)
            while len(self.inspected) > _VERSIONS_KEPT:
                del self.inspected[next(iter(self.inspected))]
        return known

    def keep_run_graph(self, version: str, graph: bytes) -> None:
        self.run_graphs[version] = graph
        while len(self.run_graphs) > _VERSIONS_KEPT:
            del self.run_graphs[next(iter(self.run_graphs))]

    def do_later(self, work: Coroutine[Any, Any, None]) -> None:
        """Does something after the answer, so that its time does not tell the client whether it was done."""
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


async def create_services(
    database: Database,
    cluster: Cluster,
    settings: Settings,
    url: str,
    artifacts: ArtifactClient | None = None,
    workers: WorkerPool | None = None,
    adapters: Sequence[DispatcherAdapter] = (),
    backend: WorkflowBackend | None = None,
) -> Services:
    """Creates the services on an open database. From then on the secrets in the data directory are valid. `adapters`
    are those of the dispatcher, if they are not to be made from the settings. `backend` runs the Workflows; by default
    the one that the cluster itself has."""
    folder = platform_folder(settings.home)
    is_embedded = isinstance(cluster, EmbeddedCluster)
    backend = backend or backend_of(cluster)
    await database.write(lambda connection: ensure_local_admin(connection, folder, shared_namespace=is_embedded))
    await database.read(lambda connection: forget_used_link(connection, folder))
    oidc = settings.web.oidc
    feeds = (EventFeed(_EVENTS_KEPT, epoch=f"{new_id()}-") for _ in range(5))
    run_feed, job_feed, dispatch_feed, argo_feed, all_runs_feed = feeds

    def publish_run(stored: StoredRun) -> None:
        run_feed.publish(stored, "run")
        if stored.run.state in ENDED:
            webhooks.wake()
        all_runs_feed.publish(stored.run.subject)

    def publish_job(job: Job, deleted: bool) -> None:
        job_feed.publish(job, "gone" if deleted else "job")
        if not job.workflow:
            all_runs_feed.publish(job_subject(job, {}, namespaces.owner_of))

    def publish_workflow(namespace: str, uid: str) -> None:
        subject = workflow_subject(namespace, uid, namespaces.owner_of)
        argo_feed.publish(subject)
        all_runs_feed.publish(subject)

    leases = Leases(database)
    webhooks = WebhookController(database, settings.webhooks)
    parts = NamespaceParts(repository=settings.s3)
    system: QueueSystem = "embedded"
    if not is_embedded:
        system = settings.kubernetes.queues or await find_queue_system(cluster)
        parts = replace(
            parts,
            restricted_labels=POD_SECURITY,
            has_members=False,
            run_account=True,
            queue_system=system,
            local_queue=kueue_kind(cluster, "LocalQueue"),
        )
    namespaces = Namespaces(database, cluster, leases, parts)
    dispatch = DispatchService(
        database,
        adapters or create_adapters(settings.dispatch, cluster),
        settings.home / "dispatch",
        dispatch_feed,
        partial(_server_for, settings, is_embedded),
    )
    await dispatch.prepare()
    pipeline_runs = PipelineController(
        database, cluster, folder, backend, namespaces, settings.budgets, leases, artifacts
    )

    async def compile_tick(user: str, source: RunSource) -> Object:
        source = await pipeline_runs.prepare(source)
        if workers is None:
            return await asyncio.to_thread(compile_run, source)
        return await workers.run(user, compile_run, source)

    return Services(
        database,
        cluster,
        settings,
        folder,
        url,
        Identities(database, _openid_limits(oidc)),
        openid=OpenId(oidc, f"{url}{OPENID_CALLBACK}") if oidc else None,
        artifacts=artifacts,
        namespaces=namespaces,
        runs=RunController(database, cluster, folder, publish_run, backend, namespaces, settings.budgets, leases),
        run_feed=run_feed,
        jobs=JobWatch(cluster, publish_job),
        job_feed=job_feed,
        argo_workflows=WorkflowWatch(cluster, publish_workflow),
        argo_feed=argo_feed,
        all_runs_feed=all_runs_feed,
        backend=backend,
        dispatch=dispatch,
        pipeline_runs=pipeline_runs,
        recurring_runs=RecurringController(database, pipeline_runs, compile_tick, settings.budgets),
        streams=OpenStreams(settings.budgets),
        rates=RequestRates(settings.budgets.user_requests_per_second),
        workspaces=WorkspaceDirectory(cluster, namespaces.owner_of),
        webhooks=webhooks,
        leases=leases,
        pod_usage=PodUsage(cluster, folder / "pod-usage.json"),
        queue_system=system,
        workers=workers,
        load_context=partial(
            graph_context,
            system=system,
            claim_class="" if is_embedded else settings.kubernetes.shared_storage_class or None,
        ),
        builds=Builds(
            database,
            folder / "modules",
            settings.modules,
            settings.agent.runtime,
            IMAGE_ENGINES,
            None if is_embedded else JobBuilder(cluster, settings.modules),
        ),
    )


def _server_for(settings: Settings, is_embedded: bool, adapter: str) -> str:
    """Returns where programs of a dispatcher's jobs reach this server: Pods of the embedded cluster at its Service for
    Pods, all others at `web.url`."""
    if is_embedded and adapter == CLUSTER and settings.cooker.enabled:
        return SERVICE_URL
    return settings.web.url


def _openid_limits(oidc: OidcSettings | None) -> OpenIdLimits:
    if oidc is None:
        return NO_LIMITS
    return OpenIdLimits(timedelta(hours=oidc.session_hours), timedelta(days=oidc.token_days), bool(oidc.admin_groups))


async def _find_engine(name: Literal["podman", "docker"]) -> Engine | str:
    found = await find_engine(name)
    return found.message if isinstance(found, EngineProblem) else found


IMAGE_ENGINES = ImageEngines(_find_engine, CHECK_IMAGE)


def services_of(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


async def _here(request: Request) -> Services:
    # A dependency that is not async runs on a thread, which costs more than the rest of a request.
    return services_of(request)


Here = Annotated[Services, Depends(_here)]
"""For the signature of a route: `async def list_runs(here: Here, ...)`."""
