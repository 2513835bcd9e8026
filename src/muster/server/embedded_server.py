"""Runs the whole server: the embedded cluster, all controllers, and every HTTP API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import NamedTuple

from starlette.types import ASGIApp

from muster.embedded.auth.certificates import ensure_certificates
from muster.embedded.auth.kubeconfig import ensure_admin_kubeconfig
from muster.embedded.box import Box
from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.node.image_engine import EngineProblem, ImageEngine, find_engine
from muster.embedded.node.images import match_image
from muster.embedded.node.isolation import probe_isolation
from muster.embedded.node.operations import AgentFiles
from muster.embedded.settings import ApiAccess, ImageSettings, RuntimeName
from muster.embedded.store.database import DirectoryInUse, StoreUnreadable
from muster.kube.builtin import NAMESPACE, POD, new_catalogue
from muster.kube.encryption import EncryptionError
from muster.kube.kinds import Catalogue
from muster.kube.objects import Key
from muster.kube.pod_security import is_restricted
from muster.pipelines.resolver import resolver_for
from muster.platform.errors import UnavailableProblem
from muster.server.argo.app import argo_app
from muster.server.fair_share import FairRequests, FairShares
from muster.server.http_server import limits_from, open_listener, serve_http, serve_https
from muster.server.kubernetes.app import kube_app
from muster.server.pidfile import ServerError, ServerInfo, claim_home, stop_signal
from muster.server.platform.host import host_platform
from muster.server.proxy.directory import pod_address
from muster.server.settings import Settings
from muster.server.workers import WorkerPool
from muster.training.children import SHARED_NETWORK_ENV
from muster.training.controller import TrainingController
from muster.training.gang import GangSettings
from muster.training.registry import JOB_KINDS, training_kinds
from muster.workflows.artifacts.client import ArtifactClient
from muster.workflows.artifacts.member_jobs import MemberAccess
from muster.workflows.cleanup import CleanupController, collect_garbage, needs_finalizer
from muster.workflows.controller import WorkflowController
from muster.workflows.controller_metrics import ControllerMetrics
from muster.workflows.cron.controller import CronController
from muster.workflows.cron.cron_jobs import CRON_JOB, CronJobController
from muster.workflows.executors.http import HttpExecutor
from muster.workflows.executors.pod import PodExecutor
from muster.workflows.executors.resource import ResourceExecutor, artifact_reader, service_account_permissions
from muster.workflows.kinds import workflow_kinds
from muster.workflows.lint import find_problems
from muster.workflows.metrics import MetricRegistry
from muster.workflows.model import Executor, ReportOutcome
from muster.workspaces.controller import WorkspaceController
from muster.workspaces.culler import Culler
from muster.workspaces.environments import READY, Environments, environments_folder, jupyter_command, jupyter_variables
from muster.workspaces.images import HOME, TENSORBOARD, WorkspaceImage
from muster.workspaces.kinds import workspace_kinds


class WorkflowServices(NamedTuple):
    """What other parts of the server use of the workflow controllers."""

    artifacts: ArtifactClient
    metrics: Callable[[datetime], str]
    """Prometheus' text of the metrics at a time."""


def start_workflow_controllers(box: Box, settings: Settings) -> WorkflowServices:
    cluster, home = box.cluster, box.settings.home / "workflows"
    cluster.store.input_folder = str(home / "inputs")
    artifacts = ArtifactClient(cluster, home, members=MemberAccess(settings.budgets, settings.member_addresses))
    metrics, counters = MetricRegistry(), ControllerMetrics()
    counters.pods = lambda: cluster.store.view.objects(POD.resource)
    read_manifest = artifact_reader(artifacts, home / "manifests")

    files = AgentFiles(box.settings.agent)

    def restricted(namespace: str) -> bool:
        return is_restricted(cluster.peek(NAMESPACE, Key("", namespace)))

    may = service_account_permissions(box.identity, restricted)

    def leaves(report: ReportOutcome) -> dict[str, Executor]:
        return {
            "pod": PodExecutor(cluster, report, files=files, home=home, artifacts=artifacts, budgets=settings.budgets),
            "resource": ResourceExecutor(cluster, report, read_artifact=read_manifest, may=may),
            "http": HttpExecutor(cluster, report, settings.member_addresses),
        }

    recorder, budgets = box.recorder("workflow-controller"), box.settings.budgets
    repository_of = artifacts.repository_status
    box.run_component(
        WorkflowController(
            cluster, recorder, leaves, find_problems, metrics, budgets, resolver_for, counters, repository_of
        )
    )
    box.run_component(CronController(cluster, box.recorder("cron-controller"), budgets=budgets, metrics=counters))
    cron_jobs = CronJobController(
        cluster, box.recorder("cronjob-controller"), budgets=budgets, is_restricted=restricted
    )
    box.run_component(cron_jobs)
    cleanup = CleanupController(
        cluster,
        box.recorder("workflow-cleanup"),
        collect=partial(collect_garbage, artifacts),
        wants_collection=needs_finalizer,
        owners=artifacts.owners,
        files=files,
    )
    artifacts.on_release = cleanup.artifacts_released
    box.run_component(cleanup)
    return WorkflowServices(artifacts, lambda now: metrics.text(now, counters))


def with_workspace_images(settings: Settings) -> tuple[Settings, Environments | None]:
    """Returns the settings with an environment for every image of workspaces, and what installs these. With an image
    engine, the images themselves are run."""
    agent = settings.agent
    if agent.runtime != "sandbox":
        return settings, None
    is_mapped = partial(match_image, images=agent.images)
    folder = environments_folder(settings.home)
    environments = Environments(folder, settings.workspaces, is_mapped=lambda image: bool(is_mapped(image)))

    def mapped(image: WorkspaceImage) -> ImageSettings:
        path = (str(environments.folder_of(image) / "bin"),)
        if image is TENSORBOARD:
            return ImageSettings(path)
        return ImageSettings(path, env=jupyter_variables(), command=jupyter_command(), working_dir=HOME)

    listed = [each for each in (*settings.workspaces.images, TENSORBOARD) if each.requirements]
    images = {pattern: mapped(image) for image in listed for pattern in image.patterns}
    return replace(settings, agent=replace(agent, usual_images=images)), environments


def start_workspace_controllers(box: Box, settings: Settings, environments: Environments | None) -> None:
    controller = WorkspaceController(
        box.cluster,
        box.recorder("workspace-controller"),
        environment=environments.status_of if environments is not None else lambda image: READY,
    )
    if environments is not None:
        environments.on_change = controller.environments_changed
        box.run_component(environments)
    box.run_component(controller)
    culler = Culler(
        box.cluster,
        box.recorder("notebook-culler"),
        settings.workspaces,
        address_of=partial(_workspace_address, box.cluster),
    )
    box.run_component(culler)


async def _workspace_address(cluster: EmbeddedCluster, namespace: str, pod: str, port: int) -> str:
    try:
        return await pod_address(cluster, namespace, pod, port)
    except UnavailableProblem as problem:
        raise OSError(problem.detail) from None


@dataclass(frozen=True, slots=True)
class RunningServer:
    cluster: EmbeddedCluster
    info: ServerInfo


@asynccontextmanager
async def run_server(settings: Settings, *, web: bool = False) -> AsyncIterator[RunningServer]:
    """Runs a whole server for as long as the block lasts; with `web`, the platform, too. Pods that run when it ends
    continue; the next server adopts them. Raises ServerError if it cannot start."""
    home = settings.home
    # It runs in another process for a while; everything else is prepared meanwhile.
    isolation = asyncio.get_running_loop().run_in_executor(None, probe_isolation)
    environment = {**SHARED_NETWORK_ENV, **settings.agent.environment}
    settings = replace(settings, agent=replace(settings.agent, environment=environment))
    catalogue = new_catalogue()
    settings, environments = with_workspace_images(settings)
    for kind in (*training_kinds(), *workflow_kinds(), *workspace_kinds(), CRON_JOB):
        catalogue.register(kind)
    with claim_home(home) as announce, open_listener(settings.host, settings.port, home / "port") as listener:
        engine = await _engine(settings.agent.runtime)
        port = listener.getsockname()[1]
        url = f"https://{settings.host}:{port}"
        certificates = ensure_certificates(home / "identity", [settings.host])
        kubeconfig = home / "kubeconfig"
        async with _open_box(settings, catalogue) as box:
            ensure_admin_kubeconfig(kubeconfig, url, certificates, box.identity.tokens)
            api = ApiAccess(settings.host, port, certificates.authority_pem().decode(), box.pod_token)
            box.start(api, (await isolation)[0], engine)
            # Before this, a step that goes on after a restart, and a request, would be refused whatever the roles say.
            await box.identity.wait_synced()
            gang = GangSettings(always=settings.gang)
            box.run_component(TrainingController(box.cluster, box.recorder("training-controller"), JOB_KINDS, gang))
            workflows = start_workflow_controllers(box, settings)
            start_workspace_controllers(box, settings, environments)
            async with AsyncExitStack() as stack:
                workers = await stack.enter_async_context(WorkerPool(settings.budgets))
                apis: ASGIApp = argo_app(
                    box.cluster,
                    box.identity,
                    kube_app(box.cluster, box.identity, workers),
                    artifacts=workflows.artifacts,
                    metrics=workflows.metrics,
                    workers=workers,
                    recorder=box.recorder("argo-server"),
                )
                shares = FairShares(settings.budgets)
                apis = FairRequests(apis, shares)
                limits = limits_from(settings.budgets)
                await stack.enter_async_context(serve_https(apis, listener, certificates, limits))
                if settings.http_port:
                    plain = open_listener("127.0.0.1", settings.http_port, home / "http-port")
                    await stack.enter_async_context(serve_http(apis, stack.enter_context(plain), limits))
                page = (
                    await stack.enter_async_context(
                        host_platform(
                            settings,
                            box.cluster,
                            workflows.artifacts,
                            box.keys,
                            workers,
                            box.identity,
                            shares=shares,
                        )
                    )
                    if web
                    else ""
                )
                yield RunningServer(box.cluster, announce(url, kubeconfig, page))


def _open_box(settings: Settings, catalogue: Catalogue) -> Box:
    try:
        return Box(settings, catalogue)
    except (StoreUnreadable, DirectoryInUse, EncryptionError) as error:
        raise ServerError(str(error)) from error


async def _engine(runtime: RuntimeName) -> ImageEngine | None:
    """Finds the image engine, if one is configured. With one that does not work, Pods would wait forever."""
    if runtime == "sandbox":
        return None
    found = await find_engine(runtime)
    if isinstance(found, EngineProblem):
        raise ServerError(
            f"{found.message}\nPods were to be run by {runtime} (--runtime, or `runtime` in config.yaml). "
            "`--runtime sandbox` runs them as processes of this machine, without an engine; `muster doctor` shows what "
            "works here."
        )
    return found


async def serve_until_signal(settings: Settings, on_ready: Callable[[ServerInfo], None] | None = None) -> None:
    """Serves until SIGINT or SIGTERM."""
    ended = stop_signal()
    async with run_server(settings, web=True) as server:
        if on_ready is not None:
            on_ready(server.info)
        await ended.wait()
