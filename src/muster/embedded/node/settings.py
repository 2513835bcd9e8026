"""The settings of the node agent. Every default suits a laptop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from muster.kube.budgets import Budgets
from muster.kube.objects import Object

RuntimeName: TypeAlias = Literal["sandbox", "podman", "docker"]

RUNTIME_ANNOTATION = "muster.dev/runtime"
"""Annotation of a Pod: its runtime, instead of the one in the settings."""


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """A node besides this machine's own. A simulated node runs nothing. The others run their Pods here, as processes,
    with their own capacity, labels and taints."""

    name: str
    simulated: bool = False
    capacity: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Object, ...] = ()


@dataclass(frozen=True, slots=True)
class ImageSettings:
    """What runs in place of an image if no image engine is used: an environment of this machine, or a root file
    system."""

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
    """How a Pod reaches the API: the content of its service-account folder and its KUBERNETES_* variables."""

    host: str
    port: int
    ca_certificate: str
    token: Callable[[Object, str, int], str]
    """(Pod, audience or '', lifetime in seconds) -> a token of the Pod's service account."""


@dataclass(frozen=True, slots=True)
class LogLimits:
    file_bytes: int = 64 * 1024 * 1024
    files: int = 4
    """The number of files of `file_bytes` that are kept of an attempt."""
    keep_seconds: float = 14 * 24 * 3600.0
    """How long the logs of a Pod are kept after the Pod is deleted."""
    total_bytes: int = 20 * 1024**3
    """Above this size, the logs of the Pods that were deleted first are dropped early."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    home: Path
    """Contains pods/ (one folder per Pod, removed with it), logs/ (which stay) and run/ (sockets)."""
    node_name: str = ""
    """'' means this machine's host name."""
    capacity: Mapping[str, str] = field(default_factory=dict)
    """The capacity of this machine's node. Adds to, or replaces, what was found (`nvidia.com/gpu: "4"`)."""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Object, ...] = ()
    nodes: tuple[NodeSettings, ...] = ()
    runtime: RuntimeName = "sandbox"
    images: Mapping[str, ImageSettings] = field(default_factory=dict)
    """By image name. `*` and `?` match as in a shell; the longest pattern wins."""
    nfs: Mapping[str, str] = field(default_factory=dict)
    """`server:/path` -> the folder of this machine where it is mounted."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of every container that runs in this machine's environment. The Pod's own take precedence."""
    api: ApiAccess | None = None
    logs: LogLimits = field(default_factory=LogLimits)
    backoff_base: float = 10.0
    backoff_max: float = 300.0
    coalesce_seconds: float = 0.02
    """How long to collect news of a Pod before its status is written."""
    budgets: Budgets = field(default_factory=Budgets)

    @property
    def pods(self) -> Path:
        return self.home / "pods"

    @property
    def log_folder(self) -> Path:
        return self.home / "logs"

    @property
    def run(self) -> Path:
        return self.home / "run"
