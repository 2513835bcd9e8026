"""What a user may set of the cluster in a box: `config.yaml` in its data directory. Everything has a default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from muster.embedded.node.settings import AgentSettings, ImageSettings, LogLimits, NodeSettings
from muster.embedded.scheduler.settings import SchedulerSettings
from muster.kube.kinds import Schema
from muster.kube.manifests import ManifestError, load_mapping
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
    validate,
)
from muster.platform.settings import (
    MODULES_SCHEMA,
    OIDC_SCHEMA,
    WEB_SCHEMA,
    ModuleSettings,
    WebSettings,
    read_module_settings,
    read_web_settings,
)

Durability: TypeAlias = Literal["power", "process"]

FILE = "config.yaml"

_TAINTS = list_of(obj({"key": STRING, "value": STRING, "effect": STRING}, ["key", "effect"]))
_CAPACITY = map_of(QUANTITY)

SCHEMA: Schema = obj({
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
    "gang": BOOLEAN,
    "durability": string(["power", "process"]),
    "eventHours": NUMBER,
    "listen": obj({"host": STRING, "port": integer(0, 65535)}),
    "web": WEB_SCHEMA,
    "database": STRING,
    "oidc": OIDC_SCHEMA,
    "modules": MODULES_SCHEMA,
})  # fmt: skip


class SettingsError(Exception):
    """The configuration cannot be used; the message names file, line and field."""


@dataclass(frozen=True, slots=True)
class Settings:
    home: Path
    agent: AgentSettings
    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)
    gang: bool = False
    """Every job is a gang: none of its members exists before there is room for all. For whoever runs jobs here."""
    durability: Durability = "power"
    """`power`: an acknowledged write survives a power cut; `process`: it survives kill -9 of the server."""
    event_hours: float = 24.0
    host: str = "127.0.0.1"
    port: int = 0
    """0: any free port; the kubeconfig says which."""
    web: WebSettings = field(default_factory=WebSettings)
    modules: ModuleSettings = field(default_factory=ModuleSettings)

    @classmethod
    def load(cls, home: Path) -> Settings:
        return read_settings(home, load_file(home / FILE))


def load_file(path: Path) -> Mapping[str, Any]:
    """What the file says; nothing if there is none."""
    try:
        document = load_mapping(path)
    except ManifestError as error:
        raise SettingsError(str(error)) from None
    if document is None:
        return {}
    causes = validate(document.object, SCHEMA)
    if causes:
        raise SettingsError("\n".join(f"{document.where(c.field)} {c.field}: {c.message}" for c in causes))
    return document.object


def read_settings(home: Path, said: Mapping[str, Any]) -> Settings:
    """From what the file says, already checked against the schema."""
    node = said.get("node") or {}
    logs = said.get("logs") or {}
    limits = LogLimits()
    restarts = said.get("restarts") or {}
    scheduler = said.get("scheduler") or {}
    listen = said.get("listen") or {}
    agent = AgentSettings(
        home=home,
        node_name=node.get("name") or "",
        capacity=_texts(node.get("capacity")),
        labels=node.get("labels") or {},
        taints=tuple(node.get("taints") or ()),
        nodes=tuple(_node(n) for n in said.get("nodes") or ()),
        runtime=said.get("runtime") or "sandbox",
        images={pattern: _image(image) for pattern, image in (said.get("images") or {}).items()},
        nfs=said.get("nfs") or {},
        environment=said.get("environment") or {},
        logs=LogLimits(
            file_bytes=int(logs["fileMegabytes"]) * 1024 * 1024 if "fileMegabytes" in logs else limits.file_bytes,
            files=logs.get("files", limits.files),
            keep_seconds=logs["keepDays"] * 86400.0 if "keepDays" in logs else limits.keep_seconds,
            total_bytes=int(logs["totalGigabytes"] * 1024**3) if "totalGigabytes" in logs else limits.total_bytes,
        ),
        backoff_base=restarts.get("backoffSeconds", 10.0),
        backoff_max=restarts.get("backoffMaxSeconds", 300.0),
    )
    return Settings(
        home=home,
        agent=agent,
        scheduler=SchedulerSettings(
            reserve_after_seconds=scheduler.get("reserveAfterSeconds", 30.0),
            hold_seconds=scheduler.get("holdSeconds", 30.0),
        ),
        gang=bool(said.get("gang")),
        durability=said.get("durability") or "power",
        event_hours=said.get("eventHours", 24.0),
        host=listen.get("host") or "127.0.0.1",
        port=listen.get("port") or 0,
        web=read_web_settings(said),
        modules=read_module_settings(said),
    )


def _node(said: Mapping[str, Any]) -> NodeSettings:
    return NodeSettings(
        name=said["name"],
        simulated=bool(said.get("simulated")),
        capacity=_texts(said.get("capacity")),
        labels=said.get("labels") or {},
        taints=tuple(said.get("taints") or ()),
    )


def _image(said: Mapping[str, Any]) -> ImageSettings:
    return ImageSettings(
        path=tuple(said.get("path") or ()),
        env=said.get("env") or {},
        rootfs=said.get("rootfs") or "",
        command=tuple(said.get("command") or ()),
        args=tuple(said.get("args") or ()),
        working_dir=said.get("workingDir") or "",
    )


def _texts(resources: Mapping[str, Any] | None) -> dict[str, str]:
    return {name: str(amount) for name, amount in (resources or {}).items()}
