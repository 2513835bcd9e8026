"""All settings: `config.yaml` in the data directory. Every field has a default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from muster.embedded.settings import BOX_FIELDS, BoxSettings, read_agent_settings, read_scheduler_settings
from muster.kube.budgets import read_budgets
from muster.kube.kinds import Schema
from muster.kube.manifests import ManifestError, load_mapping
from muster.kube.schema import BOOLEAN, STRING, STRINGS, integer, obj
from muster.kube.schema_validation import validate
from muster.platform.settings import (
    KUBERNETES_SCHEMA,
    MODULES_SCHEMA,
    OIDC_SCHEMA,
    S3_SCHEMA,
    WEB_SCHEMA,
    WEBHOOKS_SCHEMA,
    WORKSPACE_ORIGIN_FIELDS,
    KubernetesSettings,
    ModuleSettings,
    S3Settings,
    WebhookSettings,
    WebSettings,
    WorkspaceOrigins,
    read_kubernetes_settings,
    read_module_settings,
    read_s3_settings,
    read_web_settings,
    read_webhook_settings,
    read_workspace_origins,
)
from muster.server.dispatch.settings import (
    COOKER_SCHEMA,
    DISPATCH_SCHEMA,
    CookerSettings,
    DispatchSettings,
    read_cooker_settings,
    read_dispatch_settings,
)
from muster.workspaces.images import WORKSPACES_SCHEMA, WorkspaceSettings, read_workspace_settings

CONFIG_FILE = "config.yaml"

SCHEMA: Schema = obj({
    **BOX_FIELDS,
    "gang": BOOLEAN,
    "artifacts": obj({"memberAddresses": STRINGS, "s3": S3_SCHEMA}),
    "kubernetes": KUBERNETES_SCHEMA,
    "listen": obj({"host": STRING, "port": integer(0, 65535), "httpPort": integer(0, 65535)}),
    "web": WEB_SCHEMA,
    "database": STRING,
    "oidc": OIDC_SCHEMA,
    "modules": MODULES_SCHEMA,
    "webhooks": WEBHOOKS_SCHEMA,
    "dispatch": DISPATCH_SCHEMA,
    "cooker": COOKER_SCHEMA,
    "workspaces": {**WORKSPACES_SCHEMA, "properties": {**WORKSPACES_SCHEMA["properties"], **WORKSPACE_ORIGIN_FIELDS}},
})  # fmt: skip


class SettingsError(Exception):
    """The configuration cannot be used. The message names file, line and field."""


@dataclass(frozen=True, slots=True)
class Settings(BoxSettings):
    """The settings of the cluster in a box, and of the server and the platform on top of it."""

    gang: bool = False
    """Every job is a gang: none of its Pods is created before there is room for all."""
    member_addresses: tuple[str, ...] = ()
    """Hosts, or hosts with ports, on this machine that artifacts of members may use."""
    s3: S3Settings | None = None
    """The artifact repository of all namespaces."""
    kubernetes: KubernetesSettings = field(default_factory=KubernetesSettings)
    host: str = "127.0.0.1"
    port: int = 0
    """0: any free port. The kubeconfig has the actual one."""
    http_port: int = 0
    """Where the Kubernetes and Argo APIs are served without TLS as well, on 127.0.0.1 only; 0 for nowhere."""
    web: WebSettings = field(default_factory=WebSettings)
    modules: ModuleSettings = field(default_factory=ModuleSettings)
    webhooks: WebhookSettings = field(default_factory=WebhookSettings)
    dispatch: DispatchSettings = field(default_factory=DispatchSettings)
    cooker: CookerSettings = field(default_factory=CookerSettings)
    workspaces: WorkspaceSettings = field(default_factory=WorkspaceSettings)
    workspace_origins: WorkspaceOrigins = field(default_factory=WorkspaceOrigins)

    @classmethod
    def load(cls, home: Path) -> Settings:
        return read_settings(home, load_file(home / CONFIG_FILE))


def load_file(path: Path) -> Mapping[str, Any]:
    """Returns the validated contents of the file, or {} if there is none. Raises SettingsError."""
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


def read_settings(home: Path, config: Mapping[str, Any]) -> Settings:
    """Reads the settings from a config that has been validated."""
    listen = config.get("listen") or {}
    try:
        web = read_web_settings(config)
        dispatch, cooker = read_dispatch_settings(config), read_cooker_settings(config)
        workspaces = read_workspace_settings(config)
        workspace_origins = read_workspace_origins(config)
        s3, kubernetes = read_s3_settings(config), read_kubernetes_settings(config)
        webhooks = read_webhook_settings(config)
    except ValueError as error:
        raise SettingsError(f"{home / CONFIG_FILE} {error}") from None
    return Settings(
        home=home,
        agent=read_agent_settings(home, config),
        scheduler=read_scheduler_settings(config),
        durability=config.get("durability") or "power",
        event_hours=config.get("eventHours", 24.0),
        terminated_pods=config.get("terminatedPods", 1000),
        budgets=read_budgets(config),
        gang=bool(config.get("gang")),
        member_addresses=(
            *((config.get("artifacts") or {}).get("memberAddresses") or ()),
            *([s3.endpoint] if s3 is not None else ()),
        ),
        s3=s3,
        kubernetes=kubernetes,
        host=listen.get("host") or "127.0.0.1",
        port=listen.get("port") or 0,
        http_port=listen.get("httpPort") or 0,
        encryption_key_file=config.get("encryptionKeyFile") or "",
        web=web,
        modules=read_module_settings(config),
        webhooks=webhooks,
        dispatch=dispatch,
        cooker=cooker,
        workspaces=workspaces,
        workspace_origins=workspace_origins,
    )
