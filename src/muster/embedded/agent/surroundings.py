"""What the preparation of a Pod may look at besides the Pod itself, and how it says that something is in the way."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from muster.embedded.agent.settings import ApiAccess
from muster.kube.objects import Object

Find: TypeAlias = Callable[[str, str], Object | None]
"""(namespace, name) -> the object, if there is one. Cluster-scoped ones have the namespace ''."""

ReferenceKind: TypeAlias = Literal["ConfigMap", "Secret", "PersistentVolumeClaim"]
Reference: TypeAlias = tuple[ReferenceKind, str, str]
"""(kind, namespace, name) of an object that a Pod depends on."""


def _nothing(_namespace: str, _name: str) -> Object | None:
    return None


def _none_of(_namespace: str) -> list[Object]:
    return []


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The cluster around one Pod. The address is the Pod's own; `allocatable` is what its node has."""

    pod_ip: str = ""
    host_ip: str = "127.0.0.1"
    config_map: Find = _nothing
    secret: Find = _nothing
    claim: Find = _nothing
    persistent_volume: Find = _nothing
    services: Callable[[str], list[Object]] = _none_of
    allocatable: Mapping[str, str] = field(default_factory=dict)
    api: ApiAccess | None = None


class NotReady(Exception):
    """The Pod cannot start as things are. It waits, with this reason and message in its status, and is looked at again
    when something it refers to changes."""

    reason = "CreateContainerConfigError"
    event = "Failed"
    retry_seconds: float | None = None
    """After this long even if nothing has changed; None where only a change can help."""

    def __init__(self, message: str, container: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.container = container
        """'' where it concerns the whole Pod."""

    @property
    def event_message(self) -> str:
        return f"Error: {self.message}"


class ConfigError(NotReady):
    """The environment names something that does not exist (yet)."""


class MountError(NotReady):
    """A volume cannot be provided (yet)."""

    reason = "ContainerCreating"
    event = "FailedMount"
    retry_seconds = 10.0

    def __init__(self, volume: str, message: str) -> None:
        super().__init__(f'MountVolume.SetUp failed for volume "{volume}" : {message}')

    @property
    def event_message(self) -> str:
        return self.message


class ContainerError(NotReady):
    """A container cannot be created the way its spec says."""

    reason = "CreateContainerError"


class EngineMissing(ContainerError):
    """The engine that is to run it does not work here (yet)."""

    retry_seconds = 30.0


class MachineError(NotReady):
    """This machine cannot make what the Pod needs: its disk is full, say."""

    reason = "CreateContainerError"
    event = "FailedCreatePodSandBox"
    retry_seconds = 10.0


class ImageNeedsCommand(NotReady):
    """An image without a command, and no engine that could ask the image for one."""

    reason = "ImageNeedsCommand"


def config_map_data(config_map: Object) -> dict[str, bytes]:
    data = {key: str(value).encode() for key, value in (config_map.get("data") or {}).items()}
    data.update((key, base64.b64decode(value)) for key, value in (config_map.get("binaryData") or {}).items())
    return data


def secret_data(secret: Object) -> dict[str, bytes]:
    data = {key: base64.b64decode(value or "") for key, value in (secret.get("data") or {}).items()}
    data.update((key, str(value).encode()) for key, value in (secret.get("stringData") or {}).items())
    return data
