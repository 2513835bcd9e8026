"""Settings of the platform: where it is served, its database, single sign-on, how modules are built, where artifacts
are stored, and what it uses of a real cluster."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from muster.kube.kinds import Schema
from muster.kube.schema import BOOLEAN, NUMBER, STRING, STRINGS, integer, obj, string
from muster.platform.records.resources import QueueSystem

BuilderChoice: TypeAlias = Literal["auto", "folder", "buildah", "podman", "docker"]

MODULES_SCHEMA: Schema = obj({
    "builder": string(["auto", "folder", "buildah", "podman", "docker"]),
    "minutes": NUMBER,
    "megabytes": integer(1),
    "atOnce": integer(1, 64),
    "localRepositories": STRINGS,
    "sshHosts": STRINGS,
    "registry": STRING,
    "registryInsecure": BOOLEAN,
    "registrySecret": STRING,
    "builderImage": STRING,
    "namespace": STRING,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class ModuleSettings:
    builder: BuilderChoice = "auto"
    """auto: depends on the runtime. Nodes in the sandbox cannot use images, so modules are folders there."""
    minutes: float = 60.0
    """How long a build may take."""
    megabytes: int = 20_000
    """How large a repository, and the image built from it, may be."""
    at_once: int = 2
    """How many builds run at the same time."""
    local_repositories: tuple[Path, ...] = ()
    """Local folders from which all users may build modules. Admins may use any folder."""
    ssh_hosts: tuple[str, ...] = ()
    """Hosts for which all users may use the server's own ssh key. Admins may use it for any host."""
    addresses: tuple[str, ...] = ()
    """Hosts on this machine that users who are not admins may use: `artifacts.memberAddresses`."""
    registry: str = ""
    """On a real cluster: where images are pushed to, `registry.example/team`."""
    registry_insecure: bool = False
    """Whether the registry has no TLS, or a certificate that is not checked."""
    registry_secret: str = ""
    """The Secret of type kubernetes.io/dockerconfigjson, in `namespace`, that may push."""
    builder_image: str = ""
    """An image with rootless buildah."""
    namespace: str = "muster-builds"
    """Where the Jobs that build images run."""


def read_module_settings(config: Mapping[str, Any]) -> ModuleSettings:
    """Reads the settings from a config that has been validated."""
    modules = config.get("modules") or {}
    defaults = ModuleSettings()
    return ModuleSettings(
        builder=modules.get("builder") or defaults.builder,
        minutes=modules.get("minutes", defaults.minutes),
        megabytes=modules.get("megabytes", defaults.megabytes),
        at_once=modules.get("atOnce", defaults.at_once),
        local_repositories=tuple(Path(folder) for folder in modules.get("localRepositories") or ()),
        ssh_hosts=tuple(modules.get("sshHosts") or ()),
        registry=modules.get("registry") or "",
        registry_insecure=bool(modules.get("registryInsecure")),
        registry_secret=modules.get("registrySecret") or "",
        builder_image=modules.get("builderImage") or "",
        namespace=modules.get("namespace") or defaults.namespace,
        addresses=tuple((config.get("artifacts") or {}).get("memberAddresses") or ()),
    )


WORKSPACE_ORIGIN_FIELDS: Mapping[str, Schema] = {"domain": STRING, "ports": STRING}


@dataclass(frozen=True, slots=True)
class WorkspaceOrigins:
    """The addresses of workspaces: each has one of its own, so that its pages cannot act on the platform."""

    domain: str = ""
    """A domain whose wildcard DNS leads to this server: workspaces are at UID.DOMAIN."""
    ports: range = range(8300, 8400)
    """Ports for workspaces if the platform is opened by an address or a name that has no names below it."""


def read_workspace_origins(config: Mapping[str, Any]) -> WorkspaceOrigins:
    """Reads the settings from a config that has been validated. Raises ValueError."""
    workspaces = config.get("workspaces") or {}
    defaults = WorkspaceOrigins()
    domain = str(workspaces.get("domain") or "").strip().removeprefix("*.").strip(".").lower()
    if domain and not re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)*", domain):
        raise ValueError(f'workspaces.domain: "{domain}" is not a domain; use workspaces.example.com')
    text = workspaces.get("ports")
    return WorkspaceOrigins(domain, defaults.ports if text is None else _read_ports(str(text)))


def _read_ports(text: str) -> range:
    """'' for none."""
    if not text.strip():
        return range(0)
    found = re.fullmatch(r"\s*([0-9]{1,5})\s*-\s*([0-9]{1,5})\s*", text)
    if found is None or not 0 < int(found[1]) <= int(found[2]) < 65536:
        raise ValueError(f'workspaces.ports: "{text}" is not a range of ports; use 8300-8399')
    return range(int(found[1]), int(found[2]) + 1)


DEFAULT_WEB_PORT = 8265
"""Used if it is free."""

WEB_SCHEMA: Schema = obj({
    "host": STRING,
    "port": integer(0, 65535),
    "url": STRING,
    "trustedProxies": STRINGS,
    "monitoring": obj({"host": STRING, "port": integer(0, 65535)}, ["port"]),
})  # fmt: skip
OIDC_SCHEMA: Schema = obj(
    {
        "issuer": STRING,
        "clientId": STRING,
        "clientSecret": STRING,
        "clientSecretFile": STRING,
        "title": STRING,
        "scopes": STRINGS,
        "nameClaim": STRING,
        "groupsClaim": STRING,
        "allowedGroups": STRINGS,
        "adminGroups": STRINGS,
        "sessionHours": NUMBER,
        "tokenDays": NUMBER,
    },
    ["issuer", "clientId"],
)


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """An OpenID provider for logging in."""

    issuer: str
    client_id: str
    client_secret: str = ""
    client_secret_file: str = ""
    title: str = "Single sign-on"
    """The text of the login button."""
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    name_claim: str = "preferred_username"
    groups_claim: str = "groups"
    allowed_groups: tuple[str, ...] = ()
    """Only users in one of these groups may log in; () for all users of the provider."""
    admin_groups: tuple[str, ...] = ()
    """Users in one of these groups are admins as long as they are in it; () leaves that to the platform's admins."""
    session_hours: float = 12.0
    """How long a login counts: then the session ends, and tokens lose the rights of an admin, until the provider says
    again in which groups the user is."""
    token_days: float = 30.0
    """How long after the last login API tokens of users of the provider work."""

    def secret(self) -> str:
        return Path(self.client_secret_file).read_text().strip() if self.client_secret_file else self.client_secret


@dataclass(frozen=True, slots=True)
class WebSettings:
    host: str = "127.0.0.1"
    port: int = 0
    """0: the port that was used last, or 8265 if it is free, or any free port."""
    url: str = ""
    """The URL for browsers, if it is not host and port, for example behind an HTTPS proxy."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses or networks of proxies whose X-Forwarded-For header names the client."""
    monitoring_host: str = "127.0.0.1"
    monitoring_port: int | None = None
    """The port of probes and metrics; 0 for any, None for none."""
    database: str = ""
    """'': SQLite in the data directory."""
    oidc: OidcSettings | None = None


def read_web_settings(config: Mapping[str, Any]) -> WebSettings:
    """Reads the settings from a config that has been validated.

    MUSTER_DATABASE takes precedence over `database`, so that a password does not have to be in the file."""
    web = config.get("web") or {}
    monitoring = web.get("monitoring") or {}
    oidc = config.get("oidc")
    return WebSettings(
        host=web.get("host") or "127.0.0.1",
        port=web.get("port") or 0,
        url=(web.get("url") or "").rstrip("/"),
        trusted_proxies=_read_networks(web.get("trustedProxies") or ()),
        monitoring_host=monitoring.get("host") or "127.0.0.1",
        monitoring_port=monitoring.get("port"),
        database=os.environ.get("MUSTER_DATABASE") or config.get("database") or "",
        oidc=_read_oidc(oidc) if oidc else None,
    )


def _read_networks(texts: Iterable[str]) -> tuple[str, ...]:
    """Raises ValueError for a text that is neither an address nor a network."""
    for text in texts:
        try:
            ip_network(text, strict=False)
        except ValueError:
            raise ValueError(f'web.trustedProxies: "{text}" is not an address or a network; use 10.0.0.0/8') from None
    return tuple(texts)


def _read_oidc(config: Mapping[str, Any]) -> OidcSettings:
    defaults = OidcSettings("", "")
    return OidcSettings(
        issuer=config["issuer"].rstrip("/"),
        client_id=config["clientId"],
        client_secret=config.get("clientSecret") or "",
        client_secret_file=config.get("clientSecretFile") or "",
        title=config.get("title") or defaults.title,
        scopes=tuple(config.get("scopes") or defaults.scopes),
        name_claim=config.get("nameClaim") or defaults.name_claim,
        groups_claim=config.get("groupsClaim") or defaults.groups_claim,
        allowed_groups=tuple(config.get("allowedGroups") or ()),
        admin_groups=tuple(config.get("adminGroups") or ()),
        session_hours=config.get("sessionHours") or defaults.session_hours,
        token_days=config.get("tokenDays") or defaults.token_days,
    )


WEBHOOKS_SCHEMA: Schema = obj({"addresses": STRINGS})


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    addresses: tuple[str, ...] = ()
    """Hosts, hosts with ports, or networks in the server's own network that webhooks may be sent to."""


def read_webhook_settings(config: Mapping[str, Any]) -> WebhookSettings:
    """Reads the settings from a config that has been validated. Raises ValueError."""
    addresses = tuple((config.get("webhooks") or {}).get("addresses") or ())
    for text in addresses:
        if "/" in text:
            try:
                ip_network(text, strict=False)
            except ValueError:
                raise ValueError(
                    f'webhooks.addresses: "{text}" is not a host or a network; use hooks.local:8080 or 10.0.0.0/8'
                ) from None
    return WebhookSettings(addresses)


S3_SCHEMA: Schema = obj(
    {
        "endpoint": STRING,
        "bucket": STRING,
        "region": STRING,
        "accessKey": STRING,
        "secretKey": STRING,
        "secretName": STRING,
    },
    ["endpoint", "bucket"],
)


@dataclass(frozen=True, slots=True)
class S3Settings:
    """Where the artifacts of all runs are stored, and their logs on a real cluster."""

    endpoint: str
    """A host, with a port if it is not the usual one."""
    bucket: str
    """`{namespace}` in it stands for the namespace of a run."""
    insecure: bool = False
    """Whether the endpoint is reached without TLS."""
    region: str = ""
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    secret_name: str = ""
    """A Secret with `accessKey` and `secretKey` that every namespace has. Then the server distributes no keys, and each
    namespace may have keys that open nothing of the others."""


def read_s3_settings(config: Mapping[str, Any]) -> S3Settings | None:
    """Reads the settings from a config that has been validated. MUSTER_S3_ACCESS_KEY and MUSTER_S3_SECRET_KEY take
    precedence, so that keys do not have to be in the file. Raises ValueError."""
    s3 = (config.get("artifacts") or {}).get("s3")
    if not s3:
        return None
    address = urlsplit(s3["endpoint"])
    if address.scheme not in ("http", "https") or not address.netloc or address.path.strip("/"):
        raise ValueError(f'artifacts.s3.endpoint: "{s3["endpoint"]}" is not the URL of a server; use https://HOST:PORT')
    access_key = os.environ.get("MUSTER_S3_ACCESS_KEY") or s3.get("accessKey") or ""
    secret_key = os.environ.get("MUSTER_S3_SECRET_KEY") or s3.get("secretKey") or ""
    secret_name = s3.get("secretName") or ""
    if not secret_name and not (access_key and secret_key):
        raise ValueError(
            "artifacts.s3: set accessKey and secretKey (or MUSTER_S3_ACCESS_KEY and MUSTER_S3_SECRET_KEY), or "
            "secretName, the name of a Secret that every namespace has"
        )
    return S3Settings(
        endpoint=address.netloc,
        bucket=s3["bucket"],
        insecure=address.scheme == "http",
        region=s3.get("region") or "",
        access_key="" if secret_name else access_key,
        secret_key="" if secret_name else secret_key,
        secret_name=secret_name,
    )


KUBERNETES_SCHEMA: Schema = obj({
    "argoServer": STRING,
    "argoTokenFile": STRING,
    "argoInstanceId": STRING,
    "queues": string(["volcano", "kueue", "quota"]),
    "sharedStorageClass": STRING,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class KubernetesSettings:
    """What the server uses of a real cluster, besides its API."""

    argo_server: str = ""
    """The URL of the Argo server. It is needed only if Argo keeps nodes in its database."""
    argo_token_file: str = ""
    """A file with the token for it; the Pod's own token by default."""
    argo_instance_id: str = ""
    """The `instanceID` of the controller, if several share the cluster."""
    queues: QueueSystem | None = None
    """What enforces the totals of virtual clusters; None for what the cluster has."""
    shared_storage_class: str = ""
    """A storage class with ReadWriteMany, for training nodes with files."""


def read_kubernetes_settings(config: Mapping[str, Any]) -> KubernetesSettings:
    """Reads the settings from a config that has been validated. Raises ValueError."""
    found = config.get("kubernetes") or {}
    server = (found.get("argoServer") or "").rstrip("/")
    if server and not server.startswith(("http://", "https://")):
        raise ValueError(f'kubernetes.argoServer: "{server}" is not a URL; use https://argo-server.argo:2746')
    return KubernetesSettings(
        server,
        found.get("argoTokenFile") or "",
        found.get("argoInstanceId") or "",
        found.get("queues"),
        found.get("sharedStorageClass") or "",
    )
