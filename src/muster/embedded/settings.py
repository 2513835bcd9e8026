"""Settings of the cluster in a box: its nodes, containers, logs, scheduler and store. Every field has a default.

They are a part of `config.yaml`; `muster.server.settings` reads the whole file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from muster.embedded.node.settings import AgentSettings, ImageSettings, LogLimits, NodeSettings
from muster.embedded.scheduler.model import SchedulerSettings
from muster.embedded.store.database import Durability
from muster.kube.budgets import BUDGETS_SCHEMA, Budgets, read_budgets
from muster.kube.encryption import KEY_FILE
from muster.kube.kinds import Schema
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

_TAINTS = list_of(obj({"key": STRING, "value": STRING, "effect": STRING}, ["key", "effect"]))
_CAPACITY = map_of(QUANTITY)

BOX_FIELDS: dict[str, Schema] = {
    "node": obj({"name": STRING, "capacity": _CAPACITY, "labels": STRING_MAP, "taints": _TAINTS}),
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
    limits = LogLimits()
    restarts = config.get("restarts") or {}
    return AgentSettings(
        home=home,
        node_name=node.get("name") or "",
        capacity=_to_text(node.get("capacity")),
        labels=node.get("labels") or {},
        taints=tuple(node.get("taints") or ()),
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
