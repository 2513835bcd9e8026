"""Serves the platform alone, on the cluster of a kubeconfig and on a PostgreSQL that it may share:
`python -m tests.chaos.platform_server HOME KUBECONFIG DATABASE`. It writes its address into HOME/url."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

from muster.kube.remote.client import RemoteCluster
from muster.kube.remote.kubeconfig import load_kubeconfig
from muster.server.platform.host import host_platform
from muster.server.settings import read_settings
from muster.server.workers import WorkerPool
from muster.training.registry import training_kinds
from muster.workflows.kinds import workflow_kinds
from muster.workspaces.kinds import workspace_kinds


async def main(home: Path, kubeconfig: Path, database: str) -> None:
    settings = read_settings(home, {"web": {"port": 0}, "database": database})
    async with RemoteCluster(load_kubeconfig(kubeconfig)) as cluster, WorkerPool(settings.budgets) as workers:
        for kind in (*training_kinds(), *workflow_kinds(), *workspace_kinds()):
            cluster.catalogue.register(kind)
        async with host_platform(settings, cluster, workers=workers) as url:
            (home / "url.new").write_text(url)
            (home / "url.new").rename(home / "url")
            await asyncio.Event().wait()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
