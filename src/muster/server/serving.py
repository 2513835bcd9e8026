"""Puts the box behind HTTPS, with every controller that Muster has."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from muster.embedded.agent.engines import Engine, NoEngine, find_engine
from muster.embedded.agent.isolation import probe_isolation
from muster.embedded.agent.settings import ApiAccess, RuntimeName
from muster.embedded.api.app import kube_app
from muster.embedded.box import Box
from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.database import StoreUnreadable
from muster.embedded.identity.certificates import ensure_certificates
from muster.embedded.identity.kubeconfig import ensure_admin_kubeconfig
from muster.embedded.lock import DirectoryInUse
from muster.embedded.settings import Settings
from muster.kube.builtin import new_catalogue
from muster.kube.kinds import Catalogue
from muster.server.argo.app import argo_app
from muster.server.https import https
from muster.server.listening import listening
from muster.server.orchestration import look_after_workflows
from muster.server.platform.hosting import hosting
from muster.server.presence import ServerError, ServerInfo, claimed
from muster.training.controller import TrainingController
from muster.training.gang import GangSettings
from muster.training.loopback import ENVIRONMENT
from muster.training.registry import DIALECTS, training_kinds
from muster.workflows.kinds import workflow_kinds


@dataclass(frozen=True, slots=True)
class Serving:
    cluster: EmbeddedCluster
    info: ServerInfo


@asynccontextmanager
async def serving(settings: Settings, *, web: bool = False) -> AsyncIterator[Serving]:
    """A whole Muster for as long as the block lasts; with `web`, the platform that teams use as well. Pods that still
    run when it ends go on; the next one adopts them. Raises ServerError if it cannot be, and says why."""
    home = settings.home
    # It takes another process a while to find out: meanwhile all the rest is made ready.
    isolation = asyncio.get_running_loop().run_in_executor(None, probe_isolation)
    environment = {**ENVIRONMENT, **settings.agent.environment}
    settings = replace(settings, agent=replace(settings.agent, environment=environment))
    catalogue = new_catalogue()
    for kind in (*training_kinds(), *workflow_kinds()):
        catalogue.register(kind)
    with claimed(home) as announce, listening(settings.host, settings.port, home / "port") as listener:
        engine = await _engine(settings.agent.runtime)
        port = listener.getsockname()[1]
        url = f"https://{settings.host}:{port}"
        certificates = ensure_certificates(home / "identity", [settings.host])
        kubeconfig = home / "kubeconfig"
        async with _open_box(settings, catalogue) as box:
            ensure_admin_kubeconfig(kubeconfig, url, certificates, box.identity.tokens)
            api = ApiAccess(settings.host, port, certificates.authority_pem().decode(), box.pod_token)
            box.start(api, (await isolation)[0], engine)
            gang = GangSettings(always=settings.gang)
            box.look_after(TrainingController(box.cluster, box.recorder("training-controller"), DIALECTS, gang))
            workflows = look_after_workflows(box)
            kube = kube_app(box.cluster, box.identity)
            apis = argo_app(
                box.cluster, box.identity, kube, artifacts=workflows.artifacts, metrics=workflows.metrics.text
            )
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(https(apis, listener, certificates))
                page = (
                    await stack.enter_async_context(hosting(settings, box.cluster, workflows.artifacts)) if web else ""
                )
                yield Serving(box.cluster, announce(url, kubeconfig, page))


def _open_box(settings: Settings, catalogue: Catalogue) -> Box:
    try:
        return Box(settings, catalogue)
    except (StoreUnreadable, DirectoryInUse) as error:
        raise ServerError(str(error)) from error


async def _engine(runtime: RuntimeName) -> Engine | None:
    """What runs the Pods, if images are to be run. One that does not work would let them wait for ever."""
    if runtime == "sandbox":
        return None
    found = await find_engine(runtime)
    if isinstance(found, NoEngine):
        raise ServerError(
            f"{found.message}\nPods were to be run by {runtime} (--runtime, or `runtime` in config.yaml). "
            "`--runtime sandbox` runs them as processes of this machine, without an engine; `muster doctor` shows what "
            "works here."
        )
    return found


async def serve(settings: Settings, on_ready: Callable[[ServerInfo], None] | None = None) -> None:
    """Until the process is told to end by SIGINT or SIGTERM."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    async with serving(settings, web=True) as server:
        if on_ready is not None:
            on_ready(server.info)
        await ended.wait()
