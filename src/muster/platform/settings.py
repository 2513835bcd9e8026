"""Settings of the platform: where it is served, its database, single sign-on, and how modules are built."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
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
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class ModuleSettings:
    builder: BuilderChoice = "auto"
    """auto: what fits the runtime: nodes that run in the sandbox cannot use images, so modules are folders there."""
    minutes: float = 60.0
    """How long a build may take."""
    megabytes: int = 20_000
    """How large a repository, and the image made of it, may be."""
    at_once: int = 2
    """How many builds run at the same time."""
    local_repositories: tuple[Path, ...] = ()
    """Folders of this machine from which everybody may build modules; admins may from any."""


def read_module_settings(said: Mapping[str, Any]) -> ModuleSettings:
    """From what the file says, already checked against the schema."""
    modules = said.get("modules") or {}
    usual = ModuleSettings()
    return ModuleSettings(
        builder=modules.get("builder") or usual.builder,
        minutes=modules.get("minutes", usual.minutes),
        megabytes=modules.get("megabytes", usual.megabytes),
        at_once=modules.get("atOnce", usual.at_once),
        local_repositories=tuple(Path(folder) for folder in modules.get("localRepositories") or ()),
    )


DEFAULT_WEB_PORT = 8265
"""Taken if it is free."""

WEB_SCHEMA: Schema = obj({"host": STRING, "port": integer(0, 65535), "url": STRING})
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
    },
    ["issuer", "clientId"],
)


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """An OpenID provider that people log in with."""

    issuer: str
    client_id: str
    client_secret: str = ""
    client_secret_file: str = ""
    title: str = "Single sign-on"
    """What the button says."""
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    name_claim: str = "preferred_username"
    groups_claim: str = "groups"
    allowed_groups: tuple[str, ...] = ()
    """Only people in one of these may come in; () for everybody whom the provider knows."""
    admin_groups: tuple[str, ...] = ()
    """People in one of these are admins for as long as they are in it; () leaves that to the platform's admins."""

    def secret(self) -> str:
        return Path(self.client_secret_file).read_text().strip() if self.client_secret_file else self.client_secret


@dataclass(frozen=True, slots=True)
class WebSettings:
    host: str = "127.0.0.1"
    port: int = 0
    """0: the port of last time, else 8265 if it is free, else any."""
    url: str = ""
    """Where browsers reach it, if that is not host and port: behind a proxy that speaks HTTPS, say."""
    database: str = ""
    """'' for SQLite in the box's home."""
    oidc: OidcSettings | None = None


def read_web_settings(said: Mapping[str, Any]) -> WebSettings:
    """From what the file says, already checked against the schemas. MUSTER_DATABASE comes before what it says of the
    database, so that a password need not be in it."""
    web = said.get("web") or {}
    oidc = said.get("oidc")
    return WebSettings(
        host=web.get("host") or "127.0.0.1",
        port=web.get("port") or 0,
        url=(web.get("url") or "").rstrip("/"),
        database=os.environ.get("MUSTER_DATABASE") or said.get("database") or "",
        oidc=_oidc(oidc) if oidc else None,
    )


def _oidc(said: Mapping[str, Any]) -> OidcSettings:
    usual = OidcSettings("", "")
    return OidcSettings(
        issuer=said["issuer"].rstrip("/"),
        client_id=said["clientId"],
        client_secret=said.get("clientSecret") or "",
        client_secret_file=said.get("clientSecretFile") or "",
        title=said.get("title") or usual.title,
        scopes=tuple(said.get("scopes") or usual.scopes),
        name_claim=said.get("nameClaim") or usual.name_claim,
        groups_claim=said.get("groupsClaim") or usual.groups_claim,
        allowed_groups=tuple(said.get("allowedGroups") or ()),
        admin_groups=tuple(said.get("adminGroups") or ()),
    )
