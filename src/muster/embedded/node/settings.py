"""The settings of the node agent. Every default suits a laptop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from muster.kube.objects import Object

RuntimeName: TypeAlias = Literal["sandbox", "podman", "docker"]

RUNTIME_ANNOTATION = "muster.dev/runtime"
"""On a Pod: the runtime for this one, whatever the settings say."""


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """A node besides this machine's own. A simulated one runs nothing; the others run their Pods here, as processes,
    but have a capacity, labels and taints of their own."""

    name: str
    simulated: bool = False
    capacity: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Object, ...] = ()


@dataclass(frozen=True, slots=True)
class ImageSettings:
    """What stands in for an image when no engine runs it: an environment of this machine, or a root file system."""

    path: tuple[str, ...] = ()
    """Folders that come first in PATH."""
    env: Mapping[str, str] = field(default_factory=dict)
    rootfs: str = ""
    command: tuple[str, ...] = ()
    """The image's ENTRYPOINT."""
    args: tuple[str, ...] = ()
    """The image's CMD."""
    working_dir: str = ""


@dataclass(frozen=True, slots=True)
class ApiAccess:
    """How a Pod reaches the API: what goes into its service-account folder and its KUBERNETES_* variables."""

    host: str
    port: int
    ca_certificate: str
    token: Callable[[Object, str, int], str]
    """(Pod, audience or '', seconds it is to last) -> a token of the Pod's service account."""


@dataclass(frozen=True, slots=True)
class LogLimits:
    file_bytes: int = 64 * 1024 * 1024
    files: int = 4
    """How many files of `file_bytes` an attempt may have before its oldest is dropped."""
    keep_seconds: float = 14 * 24 * 3600.0
    """How long the logs of a Pod stay after the Pod has gone."""
    total_bytes: int = 20 * 1024**3
    """Above it, the logs of the Pods that went first are dropped, even before their time."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    home: Path
    """Holds pods/ (one folder per Pod, gone with it), logs/ (which stay) and run/ (sockets)."""
    node_name: str = ""
    """'' means this machine's host name."""
    capacity: Mapping[str, str] = field(default_factory=dict)
    """Of this machine's node: adds to, or replaces, what was found (`nvidia.com/gpu: "4"`)."""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Object, ...] = ()
    nodes: tuple[NodeSettings, ...] = ()
    runtime: RuntimeName = "sandbox"
    images: Mapping[str, ImageSettings] = field(default_factory=dict)
    """By image name; `*` and `?` match as in a shell, the longest pattern wins."""
    nfs: Mapping[str, str] = field(default_factory=dict)
    """`server:/path` -> the folder of this machine where it is mounted."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Given to every container that runs in this machine's environment, below what the Pod says."""
    api: ApiAccess | None = None
    logs: LogLimits = field(default_factory=LogLimits)
    backoff_base: float = 10.0
    backoff_max: float = 300.0
    coalesce_seconds: float = 0.02
    """How long news of a Pod may wait for more of it before the status is written."""

    @property
    def pods(self) -> Path:
        return self.home / "pods"

    @property
    def log_folder(self) -> Path:
        return self.home / "logs"

    @property
    def run(self) -> Path:
        return self.home / "run"
