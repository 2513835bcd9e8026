"""What every route of the platform can reach."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, Request

from muster.embedded.settings import Settings
from muster.kube.cluster import Cluster
from muster.platform.database.database import Database
from muster.platform.users.identity import Identities
from muster.platform.users.limits import LoginLimits
from muster.platform.users.openid import OpenId
from muster.workflows.artifacts.artifacts import Artifacts


@dataclass(slots=True)
class Platform:
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
    artifacts: Artifacts | None = None
    parts: dict[str, Any] = field(default_factory=dict)
    """What the areas of the platform keep for their own routes, by a name of their choice."""


def platform_of(request: Request) -> Platform:
    platform: Platform = request.app.state.platform
    return platform


async def _here(request: Request) -> Platform:
    # A dependency that is not async is run on a thread, which costs more than all the rest of a request.
    return platform_of(request)


Here = Annotated[Platform, Depends(_here)]
"""For a route's signature: `async def list_runs(here: Here, ...)`."""
