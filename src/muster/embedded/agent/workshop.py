"""What the work on every Pod shares: the cluster, the machine, names and devices, and who starts supervisors."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Protocol

from muster.embedded.agent.around import Around
from muster.embedded.agent.containers import Here
from muster.embedded.agent.contract import Isolation
from muster.embedded.agent.devices import Devices
from muster.embedded.agent.engines import Engine, EngineName, NoEngine, find_engine
from muster.embedded.agent.hosts import Addresses, HostsFiles
from muster.embedded.agent.logs import Logs
from muster.embedded.agent.settings import RUNTIME_ANNOTATION
from muster.embedded.agent.surroundings import ContainerError, EngineMissing
from muster.embedded.events import Recorder
from muster.kube.cluster import Cluster
from muster.kube.objects import Object, annotations_of


class Starter(Protocol):
    """Starts supervisors."""

    async def start(self, folder: str, isolation: Isolation | None = None) -> int:
        """Asks for a supervisor of the Pod in this folder; answers its process number. Asking twice is harmless."""
        ...


@dataclass(slots=True)
class Workshop:
    cluster: Cluster
    recorder: Recorder
    here: Here
    around: Around
    hosts: HostsFiles
    addresses: Addresses
    devices: Devices
    logs: Logs
    starter: Starter
    nodes: dict[str, Object]
    """The nodes whose Pods run on this machine."""
    notify: str
    engines: dict[EngineName, Engine | NoEngine] = field(default_factory=dict)
    """Those that were looked for. One that was missing is looked for again after a while: it may have been started."""
    _look_again: dict[EngineName, float] = field(default_factory=dict)
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def engine_for(self, pod: Object) -> Engine | None:
        """None: its containers are processes of this machine. Raises EngineMissing when an engine is asked for that
        does not work here, ContainerError when it is none."""
        wanted = annotations_of(pod).get(RUNTIME_ANNOTATION) or self.here.settings.runtime
        if wanted == "sandbox":
            return None
        if wanted not in ("podman", "docker"):
            raise ContainerError(f'annotation {RUNTIME_ANNOTATION}: "{wanted}" is none of sandbox, podman, docker')
        name: EngineName = "podman" if wanted == "podman" else "docker"
        async with self._looking:
            found = self.engines.get(name)
            if not isinstance(found, Engine) and time.monotonic() >= self._look_again.get(name, 0.0):
                found = self.engines[name] = await find_engine(name)
                self._look_again[name] = time.monotonic() + EngineMissing.retry_seconds
        if not isinstance(found, Engine):
            raise EngineMissing(found.message if found is not None else f"{name} was not looked for")
        return found
