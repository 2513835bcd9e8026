"""What has to be there before the first request is answered."""

from __future__ import annotations

from muster.kube.cluster import Cluster
from muster.platform.database.database import Database
from muster.platform.users.links import ensure_local_admin, forget_used_link
from muster.platform.users.local_secrets import platform_folder
from muster.platform.users.openid import OpenId
from muster.platform.users.sessions import Identities
from muster.server.platform.openid import CALLBACK
from muster.server.platform.services import Services
from muster.server.settings import Settings
from muster.workflows.artifacts.client import ArtifactClient


async def create_services(
    database: Database, cluster: Cluster, settings: Settings, url: str, artifacts: ArtifactClient | None = None
) -> Services:
    """On a database that is open. The secrets in the box's home work from then on."""
    folder = platform_folder(settings.home)
    await database.write(lambda connection: ensure_local_admin(connection, folder))
    await database.read(lambda connection: forget_used_link(connection, folder))
    oidc = settings.web.oidc
    openid = OpenId(oidc, f"{url}{CALLBACK}") if oidc else None
    return Services(database, cluster, settings, folder, url, Identities(database), openid, artifacts=artifacts)
