"""What every route of the platform can use."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, Request

from muster.kube.cluster import Cluster
from muster.platform.database.database import Database
from muster.platform.users.credentials import LoginLimits
from muster.platform.users.openid import OpenId
from muster.platform.users.sessions import Identities
from muster.server.settings import Settings
from muster.workflows.artifacts.client import ArtifactClient


@dataclass(slots=True)
class Services:
    database: Database
    cluster: Cluster
    settings: Settings
    folder: Path
    """In the box's home, for what the platform keeps in files."""
    url: str
    """Where browsers reach it, without a slash at the end."""
    identities: Identities
    openid: OpenId | None = None
    logins: LoginLimits = field(default_factory=LoginLimits)
    artifacts: ArtifactClient | None = None
    parts: dict[str, Any] = field(default_factory=dict)
    """What the areas of the platform keep for their own routes, by a name of their choice."""


def services_of(request: Request) -> Services:
    platform: Services = request.app.state.platform
    return platform


async def _here(request: Request) -> Services:
    # A dependency that is not async is run on a thread, which costs more than all the rest of a request.
    return services_of(request)


Here = Annotated[Services, Depends(_here)]
"""For a route's signature: `async def list_runs(here: Here, ...)`."""
