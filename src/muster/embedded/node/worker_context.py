"""What the workers of all Pods share: the cluster, the machine, and the image engines."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

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


class KeptPod(NamedTuple):
    """A Pod that has failed and whose files are kept."""

    namespace: str
    end: Callable[[], Coroutine[Any, Any, None]]
    """Gives up its files."""


def pods_to_give_up(kept: Mapping[str, KeptPod], most: int) -> list[str]:
    """Returns the uids of the Pods to give up, so that at most `most` remain. `kept` has the oldest first. Each time it
    is the oldest one of the namespace with most Pods, so nobody gives up more than others who fail as often."""
    by_namespace: dict[str, deque[str]] = {}
    for uid, pod in kept.items():
        by_namespace.setdefault(pod.namespace, deque()).append(uid)
    return [max(by_namespace.values(), key=len).popleft() for _ in range(len(kept) - max(most, 0))]


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
    kept: dict[str, KeptPod] = field(default_factory=dict)
    """By uid, the oldest first."""
    _retry_at: dict[EngineName, float] = field(default_factory=dict)
    _engine_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def limit_kept(self, most: int) -> None:
        """Gives up the files of Pods that have failed, until only so many are kept."""
        for uid in pods_to_give_up(self.kept, most):
            pod = self.kept.pop(uid, None)
            if pod is not None:
                await pod.end()

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
