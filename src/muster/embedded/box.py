"""The box: an embedded cluster with all its components, in one process.

async with Box(settings, new_catalogue()) as box:
    box.start()
    await box.cluster.create(pod)
"""

from __future__ import annotations

import asyncio
import gc
import logging
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

from muster.embedded.auth.identity import Identity
from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.controllers.claims import ClaimController
from muster.embedded.controllers.endpoints import EndpointsController
from muster.embedded.controllers.garbage import (
    DEFAULT_SERVICE_ACCOUNT,
    CrdController,
    EventExpiry,
    GarbageCollector,
    NamespaceContentsController,
    NamespaceController,
)
from muster.embedded.controllers.jobs import JobController
from muster.embedded.controllers.quotas import QuotaController
from muster.embedded.controllers.terminated_pods import TerminatedPodCollector
from muster.embedded.controllers.token_secrets import TokenSecretController
from muster.embedded.node.agent import Agent
from muster.embedded.node.image_engine import ImageEngine
from muster.embedded.node.nodes import NodeHeartbeat
from muster.embedded.node.supervisor.contract import Isolation
from muster.embedded.port_leases import PORT_LEASE, PortLeases
from muster.embedded.scheduler.scheduler import Scheduler
from muster.embedded.settings import ApiAccess, BoxSettings
from muster.embedded.store.history import Change
from muster.embedded.store.store import Store
from muster.kube.builtin import SERVICE_ACCOUNT
from muster.kube.encryption import KeyRing
from muster.kube.errors import NotFound
from muster.kube.events import EventRecorder
from muster.kube.kinds import Catalogue
from muster.kube.metrics_api import NODE_METRICS, POD_METRICS
from muster.kube.objects import Key, Object, name_of, namespace_of, spec_of, uid_of

log = logging.getLogger(__name__)


class Component(Protocol):
    """A part of the cluster, such as a controller. It runs until it is cancelled."""

    async def run(self) -> None: ...


class Box:
    """`catalogue` contains the kinds that the cluster serves besides its own."""

    def __init__(self, settings: BoxSettings, catalogue: Catalogue) -> None:
        """Raises EncryptionError, DirectoryInUse or StoreUnreadable."""
        self.settings = settings
        for kind in (PORT_LEASE, NODE_METRICS, POD_METRICS):
            catalogue.register(kind)
        self.keys = KeyRing.load(settings.key_file)
        self.cluster = EmbeddedCluster(
            settings.home / "store", catalogue, durability=settings.durability, keys=self.keys
        )
        self.cluster.store.member_megabytes = settings.budgets.member_object_megabytes
        self.cluster.addresses = PortLeases(self.cluster)
        self.identity = Identity.open(settings.home / "identity", self.cluster)
        self._recorders: list[EventRecorder] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Box:
        await self.cluster.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(recorder.flush() for recorder in self._recorders))
        await self.cluster.close()

    def start(
        self, api: ApiAccess | None = None, isolation: Isolation | None = None, engine: ImageEngine | None = None
    ) -> None:
        """Starts everything that turns objects into running Pods.

        `api` tells Pods how to reach the API, if it is served. `isolation` and `engine` are what the machine allows and
        an image engine that works, if these are already known."""
        cluster, settings = self.cluster, self.settings
        self.run_component(self.identity)
        self.run_component(GarbageCollector(cluster))
        self.run_component(NamespaceController(cluster))
        self.run_component(CrdController(cluster))
        self.run_component(GcTuner(cluster.store))
        self.run_component(NamespaceContentsController(cluster, api))
        if api is not None:
            tokens = self.identity.service_accounts
            self.run_component(TokenSecretController(cluster, tokens, api.ca_certificate))
        self.run_component(EventExpiry(cluster, timedelta(hours=settings.event_hours)))
        self.run_component(TerminatedPodCollector(cluster, settings.terminated_pods))
        self.run_component(Scheduler(cluster, self.recorder("default-scheduler"), settings.scheduler))
        self.run_component(JobController(cluster, self.recorder("job-controller")))
        self.run_component(QuotaController(cluster))
        self.run_component(EndpointsController(cluster, api))
        self.run_component(ClaimController(cluster, self.recorder("claim-controller"), settings.home / "volumes"))
        agent_settings = replace(settings.agent, api=api)
        agent = Agent(cluster, self.recorder("node-agent"), agent_settings, isolation=isolation, engine=engine)
        self.run_component(agent)
        self.run_component(NodeHeartbeat(cluster))

    def pod_token(self, pod: Object, audience: str, seconds: int) -> str:
        """Issues a token for the Pod's service account. It is valid as long as the Pod exists."""
        namespace, name = namespace_of(pod), spec_of(pod).get("serviceAccountName") or DEFAULT_SERVICE_ACCOUNT
        account = self.cluster.store.get(SERVICE_ACCOUNT.resource, Key(namespace, name))
        if account is None:
            raise NotFound(f'serviceaccount "{name}" not found')
        token, _ = self.identity.service_accounts.issue(
            namespace,
            name,
            uid_of(account),
            seconds=seconds,
            pod=name_of(pod),
            pod_uid=uid_of(pod),
            audiences=[audience] if audience else [],
        )
        return token

    def recorder(self, component: str) -> EventRecorder:
        recorder = EventRecorder(self.cluster, component)
        self._recorders.append(recorder)
        self.run_component(recorder)
        return recorder

    def run_component(self, component: Component) -> None:
        """Runs a component as long as the box is open."""
        name = type(component).__name__
        self._tasks.append(asyncio.create_task(_keep_running(name, component), name=name))


async def _keep_running(name: str, component: Component) -> None:
    """Restarts a component that fails. That is a bug, but the other components and the Pods keep running, and the
    component is level-triggered, so it can start again from the current state."""
    while True:
        try:
            await component.run()
        except Exception:
            log.exception("%s failed; it is restarted in a second", name)
            await asyncio.sleep(1.0)
        else:
            return


class GcTuner:
    """Keeps Python's cyclic garbage collector from walking every stored object again and again. It changes garbage
    collection for the whole process until `run` is cancelled."""

    def __init__(self, store: Store, *, every: int = 5_000, full_collection_seconds: float = 3600.0) -> None:
        self._store = store
        self._every = every
        self._full_collection_seconds = full_collection_seconds
        self._changes = 0

    async def run(self) -> None:
        before = gc.get_threshold()
        gc.set_threshold(50_000, 20, 100)
        gc.freeze()  # Objects from start-up stay. Searching them for garbage would only delay the first request.
        stop = self._store.listen(self._changed)
        try:
            while True:
                await asyncio.sleep(self._full_collection_seconds)
                gc.unfreeze()
                self._freeze()
        finally:
            stop()
            gc.set_threshold(*before)
            gc.unfreeze()

    def _changed(self, resource: str, change: Change) -> None:
        self._changes += 1
        if self._changes == self._every:
            # Not here: watchers still wait for the changes of this commit.
            asyncio.get_running_loop().call_soon(self._freeze)

    def _freeze(self) -> None:
        self._changes = 0
        gc.collect()
        gc.freeze()
