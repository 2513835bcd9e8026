"""What has to be there before the first request is answered."""

from __future__ import annotations

from muster.embedded.settings import Settings
from muster.kube.cluster import Cluster
from muster.platform.database.database import Database
from muster.platform.users.first import forget_used_link, settle
from muster.platform.users.identity import Identities
from muster.platform.users.local_secrets import platform_folder
from muster.platform.users.openid import OpenId
from muster.server.platform.openid import CALLBACK
from muster.server.platform.state import Platform
from muster.workflows.artifacts.artifacts import Artifacts


async def started(
    database: Database, cluster: Cluster, settings: Settings, url: str, artifacts: Artifacts | None = None
) -> Platform:
    """On a database that is open. The secrets in the box's home work from then on."""
    folder = platform_folder(settings.home)
    await database.write(lambda connection: settle(connection, folder))
    await database.read(lambda connection: forget_used_link(connection, folder))
    oidc = settings.web.oidc
    openid = OpenId(oidc, f"{url}{CALLBACK}") if oidc else None
    return Platform(database, cluster, settings, folder, url, Identities(database), openid, artifacts=artifacts)
