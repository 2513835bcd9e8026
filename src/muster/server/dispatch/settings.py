"""Settings of dispatch and of MLP Cooker's API: which clusters there are besides this one, and what stands for what.

Keys of clusters are named, not written down: `env:NAME` or `file:/path`. MLP Cooker's own variables,
ML_PLATFORM_RESOURCE_*, take precedence over the file, so that a deployment of it keeps its environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from muster.kube.kinds import Schema
from muster.kube.schema import BOOLEAN, NUMBER, STRING, STRING_MAP, STRINGS, integer, map_of, obj

AIHC_ENDPOINT: Final = "https://aihc.bj.baidubce.com"
_VARIABLES: Final = "ML_PLATFORM_RESOURCE_"

DISPATCH_SCHEMA: Schema = obj({
    "aihc": obj({
        "endpoint": STRING,
        "accessKey": STRING,
        "secretKey": STRING,
        "pool": STRING,
        "managed": BOOLEAN,
        "queue": STRING,
        "queues": STRINGS,
        "pfs": STRING,
        "bucket": STRING,
    }),
    "timaker": obj(
        {
            "address": STRING,
            "host": STRING,
            "secretId": STRING,
            "secretKey": STRING,
            "uin": STRING,
            "project": integer(0),
            "appGroup": integer(0),
            "timeoutSeconds": NUMBER,
        },
        ["address", "secretId", "secretKey", "uin"],
    ),
})  # fmt: skip

COOKER_SCHEMA: Schema = obj({
    "enabled": BOOLEAN,
    "port": integer(0, 65535),
    "apps": STRING,
    "datasources": map_of(obj({"storageRoot": STRING, "claim": STRING, "path": STRING})),
    "accelerators": STRING_MAP,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class AihcSettings:
    endpoint: str
    access_key: str
    """A reference, as `secret_key`."""
    secret_key: str
    pool: str = ""
    """The id of the resource pool."""
    queue: str = ""
    """Of jobs that name none: the queue's id in a managed pool, its name in a self-managed one."""
    queues: tuple[str, ...] = ()
    """Other queues that jobs may name."""
    managed: bool = True
    pfs: str = ""
    """The PFS instance of data sources that name none."""
    bucket: str = ""
    """The BOS bucket of data sources that name none."""


@dataclass(frozen=True, slots=True)
class TimakerSettings:
    address: str
    secret_id: str
    """A reference, as `secret_key`."""
    secret_key: str
    uin: str
    host: str = ""
    """'': the host of the address."""
    project: int = 1
    app_group: int = 0
    """0: the capacity of the cluster is not looked at before a start."""
    timeout: float = 5.0


@dataclass(frozen=True, slots=True)
class DispatchSettings:
    aihc: AihcSettings | None = None
    timaker: TimakerSettings | None = None


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """Where the files of a data source are on this cluster: in a storage root of the platform, or in a claim."""

    storage_root: str = ""
    """Its name."""
    claim: str = ""
    path: str = ""
    """The folder in it that stands for the source's own root."""


@dataclass(frozen=True, slots=True)
class CookerSettings:
    enabled: bool = True
    port: int = 0
    """A port at `web.host` besides the Service for Pods; 0 for none."""
    apps: Path | None = None
    """The folder of application templates; None: `apps` in the data directory."""
    datasources: Mapping[str, SourcePlace] = field(default_factory=dict)
    """By `type:name`; * and ? match, and the longest pattern wins."""
    accelerators: Mapping[str, str] = field(default_factory=lambda: {"baidu.com/*": "nvidia.com/gpu"})
    """The resources of this cluster that stand for those of AIHC."""


def read_dispatch_settings(config: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> DispatchSettings:
    """Reads the settings from a config that has been validated. Raises ValueError."""
    given = config.get("dispatch") or {}
    return DispatchSettings(
        aihc=_read_aihc(given.get("aihc") or {}, environment),
        timaker=_read_timaker(given["timaker"]) if given.get("timaker") else None,
    )


def read_cooker_settings(config: Mapping[str, Any]) -> CookerSettings:
    """The same for MLP Cooker's API."""
    given = config.get("cooker") or {}
    defaults = CookerSettings()
    places = {name: _read_place(name, place) for name, place in (given.get("datasources") or {}).items()}
    return CookerSettings(
        enabled=given.get("enabled", True),
        port=given.get("port") or 0,
        apps=Path(given["apps"]).expanduser() if given.get("apps") else None,
        datasources=places,
        accelerators={**defaults.accelerators, **(given.get("accelerators") or {})},
    )


def _read_aihc(given: Mapping[str, Any], environment: Mapping[str, str]) -> AihcSettings | None:
    def value(variable: str, name: str, default: str = "") -> str:
        return environment.get(f"{_VARIABLES}{variable}") or given.get(name) or default

    def key(variable: str, name: str) -> str:
        if environment.get(f"{_VARIABLES}{variable}"):
            return f"env:{_VARIABLES}{variable}"
        return _check_reference(f"dispatch.aihc.{name}", given[name]) if given.get(name) else ""

    access_key, secret_key = key("AK", "accessKey"), key("SK", "secretKey")
    if not access_key and not secret_key:
        if given:
            raise ValueError("dispatch.aihc: accessKey and secretKey are missing; use env:NAME or file:/path")
        return None
    if not (access_key and secret_key):
        missing = "secretKey" if access_key else "accessKey"
        raise ValueError(f"dispatch.aihc.{missing} is missing; use env:NAME or file:/path")
    if not value("QUEUE_ID", "queue"):
        raise ValueError("dispatch.aihc.queue is missing: the queue of jobs that name none")
    if not given.get("managed", True) and not value("POOL_ID", "pool"):
        raise ValueError("dispatch.aihc.pool is missing: the id of the self-managed resource pool")
    return AihcSettings(
        endpoint=value("BASE_URL", "endpoint", AIHC_ENDPOINT).rstrip("/"),
        access_key=access_key,
        secret_key=secret_key,
        pool=value("POOL_ID", "pool"),
        queue=value("QUEUE_ID", "queue"),
        queues=tuple(given.get("queues") or ()),
        managed=given.get("managed", True),
        pfs=value("PFS_INSTANCE_ID", "pfs"),
        bucket=value("BUCKET", "bucket"),
    )


def _read_timaker(given: Mapping[str, Any]) -> TimakerSettings:
    return TimakerSettings(
        address=given["address"].rstrip("/"),
        secret_id=_check_reference("dispatch.timaker.secretId", given["secretId"]),
        secret_key=_check_reference("dispatch.timaker.secretKey", given["secretKey"]),
        uin=given["uin"],
        host=given.get("host") or "",
        project=given.get("project") or 1,
        app_group=given.get("appGroup") or 0,
        timeout=given.get("timeoutSeconds") or 5.0,
    )


def _read_place(name: str, given: Mapping[str, Any]) -> SourcePlace:
    if bool(given.get("storageRoot")) == bool(given.get("claim")):
        raise ValueError(f'cooker.datasources["{name}"]: name a storageRoot or a claim')
    if ":" not in name:
        raise ValueError(f'cooker.datasources["{name}"]: write the type and the name, such as pfs:pfs-7xWeAt')
    path = given.get("path") or ""
    if ".." in path.split("/"):
        raise ValueError(f'cooker.datasources["{name}"].path: leave .. out')
    return SourcePlace(given.get("storageRoot") or "", given.get("claim") or "", path)


def _check_reference(path: str, reference: str) -> str:
    source, _, name = reference.partition(":")
    if source not in ("env", "file") or not name:
        raise ValueError(f"{path}: name the key, do not write it down: env:NAME or file:/path")
    return reference
