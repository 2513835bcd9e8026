"""What may be set of the platform that teams use: where it is served, where it keeps things, who vouches for people."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.kube.kinds import Schema
from muster.kube.schema import STRING, STRINGS, integer, obj

PORT = 8265
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
