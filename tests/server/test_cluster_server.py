"""What a server needs of a real cluster. The stories are in tests/cluster/test_platform.py."""

from __future__ import annotations

import pytest

from muster.kube.kinds import Kind
from muster.kube.remote.client import RemoteCluster
from muster.kube.remote.kubeconfig import Access
from muster.server.cluster_server import connect_to, missing_kinds
from muster.server.pidfile import ServerError
from muster.training.registry import training_kinds
from muster.workflows.kinds import WORKFLOW
from muster.workspaces.kinds import workspace_kinds


@pytest.mark.parametrize(
    ("served", "missing"),
    [
        ([WORKFLOW, *training_kinds(), *workspace_kinds()], set()),
        ([WORKFLOW, *training_kinds()], {kind.kind for kind in workspace_kinds()}),
        ([*training_kinds(), *workspace_kinds()], {"Workflow"}),
    ],
)
def test_kinds_that_the_cluster_lacks_are_named(served: list[Kind], missing: set[str]) -> None:
    assert {kind.kind for kind in missing_kinds(served)} == missing


async def test_a_cluster_that_does_not_respond_is_named() -> None:
    access = Access("https://127.0.0.1:1", source='/home/ann/.kube/config (context "production")')
    async with RemoteCluster(access) as cluster:
        with pytest.raises(ServerError, match=r'context "production"\) does not respond'):
            await connect_to(cluster)
