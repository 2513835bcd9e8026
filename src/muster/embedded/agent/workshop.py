"""What the work on every Pod shares: the cluster, the machine, names and devices, and who starts supervisors."""

from __future__ import annotations

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
from muster.embedded.agent.surroundings import ContainerError
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

    async def engine_for(self, pod: Object) -> Engine | None:
        """None: its containers are processes of this machine. Raises ContainerError when an engine is asked for that
        does not work here."""
        wanted = annotations_of(pod).get(RUNTIME_ANNOTATION) or self.here.settings.runtime
        if wanted == "sandbox":
            return None
        if wanted not in ("podman", "docker"):
            raise ContainerError(f'annotation {RUNTIME_ANNOTATION}: "{wanted}" is none of sandbox, podman, docker')
        name: EngineName = "podman" if wanted == "podman" else "docker"
        found = self.engines.get(name)
        if found is None:
            found = self.engines[name] = await find_engine(name)
        if isinstance(found, NoEngine):
            raise ContainerError(found.message)
        return found
