"""Settings of the platform: where it is served, its database, single sign-on, and how modules are built."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Literal, TypeAlias

from muster.kube.kinds import Schema
from muster.kube.schema import NUMBER, STRING, STRINGS, integer, obj, string

BuilderChoice: TypeAlias = Literal["auto", "folder", "buildah", "podman", "docker"]

MODULES_SCHEMA: Schema = obj({
    "builder": string(["auto", "folder", "buildah", "podman", "docker"]),
    "minutes": NUMBER,
    "megabytes": integer(1),
    "atOnce": integer(1, 64),
    "localRepositories": STRINGS,
    "sshHosts": STRINGS,
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
