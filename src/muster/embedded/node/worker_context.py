"""What the workers of all Pods share: the cluster, the machine, and the image engines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from muster.embedded.node.hosts import AddressPool, HostsFiles
from muster.embedded.node.image_engine import EngineName, EngineProblem, ImageEngine, find_engine
from muster.embedded.node.logs import Logs
from muster.embedded.node.machine import DeviceAllocator
from muster.embedded.node.pod_context import ContainerError, EngineNotReady, InvalidAnnotation, ReferencedObjects
from muster.embedded.node.preparation import NodeContext
from muster.embedded.node.python_environments import PythonEnvironments
from muster.embedded.node.supervisor.contract import Isolation
from muster.embedded.settings import RUNTIME_ANNOTATION
from muster.kube.cluster import Cluster
from muster.kube.events import EventRecorder
from muster.kube.objects import Object, annotations_of, namespace_of


class Starter(Protocol):
    """Starts supervisors."""

    async def start(self, folder: str, isolation: Isolation | None = None) -> int:
        """Requests a supervisor for the Pod in this folder and returns its process number. Requesting twice is
        harmless."""
        ...


EndKeeping: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


@dataclass(slots=True)
class WorkerContext:
    cluster: Cluster
    recorder: EventRecorder
    node: NodeContext
    references: ReferencedObjects
    hosts: HostsFiles
    addresses: AddressPool
    devices: DeviceAllocator
    logs: Logs
    starter: Starter
    environments: PythonEnvironments
    nodes: dict[str, Object]
    """The nodes whose Pods run on this machine."""
    is_restricted: Callable[[str], bool]
    """Whether a namespace belongs to people who are not admins."""
    notify: str
    engines: dict[EngineName, ImageEngine | EngineProblem] = field(default_factory=dict)
    """The engines that were looked for. A missing one is looked for again after a while: it may have been started."""
    kept: dict[str, EndKeeping] = field(default_factory=dict)
    """The Pods that have failed and whose files are kept, by uid, the oldest first."""
    _retry_at: dict[EngineName, float] = field(default_factory=dict)
    _engine_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def engine_for(self, pod: Object) -> ImageEngine | None:
        """Returns the engine for a Pod, or None if its containers are processes of this machine. Raises EngineNotReady
        if the engine does not work here, and ContainerError if there is no such engine."""
        usual = self.node.settings.runtime
        wanted = annotations_of(pod).get(RUNTIME_ANNOTATION) or usual
        if wanted != usual and self.is_restricted(namespace_of(pod)):
            raise InvalidAnnotation(
                f'annotation {RUNTIME_ANNOTATION}: "{wanted[:64]}": Pods of namespace {namespace_of(pod)} run with '
                f"the runtime of this cluster, {usual}; remove the annotation"
            )
        if wanted == "sandbox":
            return None
        if wanted not in ("podman", "docker"):
            raise ContainerError(
                f'annotation {RUNTIME_ANNOTATION}: "{wanted[:64]}" is not a runtime; use sandbox, podman or docker'
            )
        name: EngineName = "podman" if wanted == "podman" else "docker"
        async with self._engine_lock:
            found = self.engines.get(name)
            if not isinstance(found, ImageEngine) and time.monotonic() >= self._retry_at.get(name, 0.0):
                found = self.engines[name] = await find_engine(name)
                self._retry_at[name] = time.monotonic() + EngineNotReady.retry_seconds
        if not isinstance(found, ImageEngine):
            raise EngineNotReady(found.message if found is not None else f"{name} has not been checked")
        return found
