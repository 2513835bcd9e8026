"""Settings of the cluster in a box: its nodes, containers, logs, scheduler and store. Every field has a default that
suits a laptop.

They are a part of `config.yaml`; `muster.server.settings` reads the whole file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from muster.embedded.scheduler.model import SchedulerSettings
from muster.embedded.store.database import Durability
from muster.kube.budgets import BUDGETS_SCHEMA, Budgets, read_budgets
from muster.kube.encryption import KEY_FILE
from muster.kube.kinds import Schema
from muster.kube.objects import Object
from muster.kube.schema import (
    BOOLEAN,
    NUMBER,
    QUANTITY,
    STRING,
    STRING_MAP,
    STRINGS,
    integer,
    list_of,
    map_of,
    obj,
    string,
)

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
    usual_images: Mapping[str, ImageSettings] = field(default_factory=dict)
    """The same for images that `images` does not map, such as those of notebooks."""
    nfs: Mapping[str, str] = field(default_factory=dict)
    """`server:/path` -> the folder of this machine where it is mounted."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of every container that runs in this machine's environment. The Pod's own take precedence."""
    api: ApiAccess | None = None
    logs: LogLimits = field(default_factory=LogLimits)
    keep_failed_seconds: float = 600.0
    """How long the files of a Pod that failed are kept, so that a shell can be opened among them."""
    keep_failed_pods: int = 16
    """Of how many Pods. What they wrote is in memory. The namespace with most of them gives up its oldest one first."""
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


_TAINTS = list_of(obj({"key": STRING, "value": STRING, "effect": STRING}, ["key", "effect"]))
_CAPACITY = map_of(QUANTITY)

BOX_FIELDS: dict[str, Schema] = {
    "node": obj({
        "name": STRING,
        "capacity": _CAPACITY,
        "labels": STRING_MAP,
        "taints": _TAINTS,
        "keepFailedSeconds": NUMBER,
        "keepFailedPods": integer(0),
    }),
    "nodes": list_of(
        obj(
            {
                "name": STRING,
                "simulated": BOOLEAN,
                "capacity": _CAPACITY,
                "labels": STRING_MAP,
                "taints": _TAINTS,
            },
            ["name"],
        )
    ),
    "runtime": string(["sandbox", "podman", "docker"]),
    "images": map_of(
        obj({
            "path": STRINGS,
            "env": STRING_MAP,
            "rootfs": STRING,
            "command": STRINGS,
            "args": STRINGS,
            "workingDir": STRING,
        })
    ),
    "nfs": STRING_MAP,
    "environment": STRING_MAP,
    "logs": obj({"fileMegabytes": integer(1), "files": integer(1), "keepDays": NUMBER, "totalGigabytes": NUMBER}),
    "scheduler": obj({"reserveAfterSeconds": NUMBER, "holdSeconds": NUMBER}),
    "restarts": obj({"backoffSeconds": NUMBER, "backoffMaxSeconds": NUMBER}),
    "durability": string(["power", "process"]),
    "eventHours": NUMBER,
    "terminatedPods": integer(0),
    "encryptionKeyFile": STRING,
    "budgets": BUDGETS_SCHEMA,
}  # fmt: skip
"""The fields of `config.yaml` that are about the cluster in a box."""


@dataclass(frozen=True, slots=True)
class BoxSettings:
    home: Path
    agent: AgentSettings
    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)
    durability: Durability = "power"
    """`power`: an acknowledged write survives a power cut; `process`: it survives kill -9 of the server."""
    event_hours: float = 24.0
    """How long Events are kept."""
    terminated_pods: int = 1000
    """How many Pods that have ended are kept; 0 for no limit."""
    budgets: Budgets = field(default_factory=Budgets)
    encryption_key_file: str = ""
    """The file with the keys that encrypt secrets; '' for one in the data directory."""

    @property
    def key_file(self) -> Path:
        return Path(self.encryption_key_file) if self.encryption_key_file else self.home / KEY_FILE


def read_agent_settings(home: Path, config: Mapping[str, Any]) -> AgentSettings:
    """Reads the settings of the node agent from a config that has been validated."""
    node = config.get("node") or {}
    logs = config.get("logs") or {}
    limits, usual = LogLimits(), AgentSettings(home)
    restarts = config.get("restarts") or {}
    return AgentSettings(
        home=home,
        node_name=node.get("name") or "",
        capacity=_to_text(node.get("capacity")),
        labels=node.get("labels") or {},
        taints=tuple(node.get("taints") or ()),
        keep_failed_seconds=float(node.get("keepFailedSeconds", usual.keep_failed_seconds)),
        keep_failed_pods=node.get("keepFailedPods", usual.keep_failed_pods),
        nodes=tuple(_read_node(n) for n in config.get("nodes") or ()),
        runtime=config.get("runtime") or "sandbox",
        images={pattern: _read_image(image) for pattern, image in (config.get("images") or {}).items()},
        nfs=config.get("nfs") or {},
        environment=config.get("environment") or {},
        logs=LogLimits(
            file_bytes=int(logs["fileMegabytes"]) * 1024 * 1024 if "fileMegabytes" in logs else limits.file_bytes,
            files=logs.get("files", limits.files),
            keep_seconds=logs["keepDays"] * 86400.0 if "keepDays" in logs else limits.keep_seconds,
            total_bytes=int(logs["totalGigabytes"] * 1024**3) if "totalGigabytes" in logs else limits.total_bytes,
        ),
        backoff_base=restarts.get("backoffSeconds", 10.0),
        backoff_max=restarts.get("backoffMaxSeconds", 300.0),
        budgets=read_budgets(config),
    )


def read_scheduler_settings(config: Mapping[str, Any]) -> SchedulerSettings:
    scheduler = config.get("scheduler") or {}
    return SchedulerSettings(
        reserve_after_seconds=scheduler.get("reserveAfterSeconds", 30.0),
        hold_seconds=scheduler.get("holdSeconds", 30.0),
    )


def _read_node(node: Mapping[str, Any]) -> NodeSettings:
    return NodeSettings(
        name=node["name"],
        simulated=bool(node.get("simulated")),
        capacity=_to_text(node.get("capacity")),
        labels=node.get("labels") or {},
        taints=tuple(node.get("taints") or ()),
    )


def _read_image(image: Mapping[str, Any]) -> ImageSettings:
    return ImageSettings(
        path=tuple(image.get("path") or ()),
        env=image.get("env") or {},
        rootfs=image.get("rootfs") or "",
        command=tuple(image.get("command") or ()),
        args=tuple(image.get("args") or ()),
        working_dir=image.get("workingDir") or "",
    )


def _to_text(resources: Mapping[str, Any] | None) -> dict[str, str]:
    return {name: str(amount) for name, amount in (resources or {}).items()}
