"""Runs the server against a real cluster: the platform's API and UI, with the Argo Workflows controller and Muster's
operator doing the work there.

The server keeps nothing of the cluster but what is in its database, and starts no controllers of its own: training jobs
and notebooks are the operator's (docs/operator.md).
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp

from muster.kube.encryption import EncryptionError, KeyRing
from muster.kube.errors import ApiError, Unavailable
from muster.kube.kinds import Kind
from muster.kube.remote.client import RemoteCluster
from muster.kube.remote.kubeconfig import POD_CREDENTIALS, Access
from muster.platform.settings import KubernetesSettings
from muster.server.pidfile import ServerError, ServerInfo, claim_home, stop_signal
from muster.server.platform.host import host_platform
from muster.server.settings import Settings
from muster.server.workers import WorkerPool
from muster.training.registry import training_kinds
from muster.workflows.artifacts.client import ArtifactClient
from muster.workflows.artifacts.member_jobs import MemberAccess
from muster.workflows.backend import ArgoBackend, ArgoOptions, nodes_from_argo_server
from muster.workflows.kinds import WORKFLOW, workflow_kinds
from muster.workspaces.kinds import workspace_kinds

log = logging.getLogger(__name__)

AGENT = "muster-server"
_ANSWER_SECONDS = 30.0


@asynccontextmanager
async def run_cluster_server(settings: Settings, access: Access) -> AsyncIterator[ServerInfo]:
    """Serves the platform on a real cluster for as long as the block lasts. Raises ServerError if it cannot start."""
    async with AsyncExitStack() as stack:
        announce = stack.enter_context(claim_home(settings.home))
        cluster = await stack.enter_async_context(
            RemoteCluster(access, on_warning=_log_warning, field_manager=AGENT, field_validation="Warn")
        )
        await connect_to(cluster)
        artifacts = ArtifactClient(
            cluster,
            settings.home / "workflows",
            members=MemberAccess(settings.budgets, settings.member_addresses),
        )
        options = ArgoOptions(settings.kubernetes.argo_instance_id, archive_logs=settings.s3 is not None)
        fetch_nodes = None
        if settings.kubernetes.argo_server:
            fetch_nodes = nodes_from_argo_server(await stack.enter_async_context(argo_server(settings.kubernetes)))
        backend = ArgoBackend(cluster, options, artifacts, fetch_nodes)
        workers = await stack.enter_async_context(WorkerPool(settings.budgets))
        try:
            keys = KeyRing.load(settings.key_file)
        except EncryptionError as error:
            raise ServerError(str(error)) from error
        if settings.s3 is None:
            log.warning(
                "artifacts.s3 is not set: nodes cannot pass files to each other, and logs are lost with their Pods"
            )
        page = await stack.enter_async_context(
            host_platform(settings, cluster, artifacts, keys, workers, backend=backend)
        )
        yield announce(access.server, None, page)


async def serve_until_signal(
    settings: Settings, access: Access, on_ready: Callable[[ServerInfo], None] | None = None
) -> None:
    """Serves until SIGINT or SIGTERM."""
    ended = stop_signal()
    async with run_cluster_server(settings, access) as server:
        if on_ready is not None:
            on_ready(server)
        await ended.wait()


async def connect_to(cluster: RemoteCluster) -> None:
    """Learns the kinds of the cluster. Raises ServerError if it cannot be reached, or cannot run workflows."""
    for kind in (*training_kinds(), *workflow_kinds(), *workspace_kinds()):
        cluster.catalogue.register(kind)
    try:
        await cluster.discover()
    except (ApiError, OSError) as error:
        raise ServerError(f"the cluster of {cluster.access.source} does not respond: {error}") from None
    missing = missing_kinds(cluster.catalogue)
    if WORKFLOW in missing:
        raise ServerError(
            f"the cluster of {cluster.access.source} has no Argo Workflows ({WORKFLOW.api_version} {WORKFLOW.kind}): "
            "install its controller, version 3.7 or newer"
        )
    if missing:
        names = ", ".join(sorted({kind.kind for kind in missing}))
        log.warning("the cluster has no %s: run `muster operator install` to use them", names)


def missing_kinds(served: Iterable[Kind]) -> list[Kind]:
    """Returns the kinds that the platform creates and the cluster does not have."""
    known = {(kind.api_version, kind.kind) for kind in served}
    wanted = (WORKFLOW, *training_kinds(), *workspace_kinds())
    return [kind for kind in wanted if (kind.api_version, kind.kind) not in known]


@asynccontextmanager
async def argo_server(settings: KubernetesSettings) -> AsyncIterator[Callable[[str], Awaitable[bytes]]]:
    """Yields a function that sends a request to the Argo server."""
    timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
    context = ssl.create_default_context()
    authority = POD_CREDENTIALS / "ca.crt"
    if authority.exists():
        context.load_verify_locations(authority)

    def token() -> str:
        # Read again for each request: the kubelet renews it.
        file = Path(settings.argo_token_file) if settings.argo_token_file else POD_CREDENTIALS / "token"
        return file.read_text().strip()

    async with aiohttp.ClientSession(timeout=timeout) as session:

        async def request(path: str) -> bytes:
            headers = {"Authorization": f"Bearer {token()}"}
            try:
                async with session.get(settings.argo_server + path, headers=headers, ssl=context) as answer:
                    content = await answer.read()
            except (aiohttp.ClientError, TimeoutError) as error:
                raise Unavailable(f"{settings.argo_server}: {error or type(error).__name__}") from None
            if answer.status != 200:
                raise Unavailable(f"{settings.argo_server} responded with status {answer.status}")
            return content

        yield request


def _log_warning(text: str) -> None:
    log.warning("the API server warns: %s", text)
