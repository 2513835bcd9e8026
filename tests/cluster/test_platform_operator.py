"""The platform and the operator as `muster deploy` installs them: a run with a training node, and connections that the
NetworkPolicies allow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.operator import install_manifests, platform_manifests
from tests.cluster.conftest import Needs
from tests.cluster.takeover import without_theirs
from tests.cluster.test_platform import finish, log
from tests.cluster.test_platform_deployment import Deployed, deployed_by
from tests.platform.graphs.samples import graph, training
from tests.server.platform.whole import states

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]

CONNECTIONS = """
from pathlib import Path
lines = [line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()[1:]]
listening = {line[1].split(":")[1] for line in lines if line[3] == "0A"}
ours = {int(line[2].split(":")[1], 16) for line in lines if line[3] == "01" and line[1].split(":")[1] not in listening}
print(*sorted(ours))
"""
"""Prints the ports to which a Pod has open connections of its own."""


@pytest.fixture
def deployed(needs: Needs, namespace: str, tmp_path: Path) -> Iterator[Deployed]:
    real = needs("node", "argo", "s3")
    with without_theirs(real), deployed_by(real, namespace, tmp_path, with_operator=True) as platform:
        yield platform


async def test_the_deployed_operator_runs_the_training_job_of_a_run(deployed: Deployed) -> None:
    member = await deployed.member()
    # It ends when all its workers have: none is removed while it still runs.
    document = graph(
        training("train", "PaddleJob", ("Worker", 2), command="echo worker ${HOSTNAME##*-} of $PADDLE_NNODES")
    )
    run = await finish(member, document)
    assert (run["state"], run["message"], states(run)) == ("succeeded", "", {"train": "succeeded"})
    assert await log(member, run["id"], "train") == ["worker 0 of 2"]
    assert [pod["phase"] for pod in await member.get(f"runs/{run['id']}/nodes/train/pods")] == ["Succeeded"] * 2

    for name, selector in (
        (platform_manifests.NAME, platform_manifests.SELECTOR),
        (install_manifests.NAME, install_manifests.SELECTOR),
    ):
        policy = json.loads(deployed.kubectl("get", "networkpolicy", name, "--output=json"))["spec"]
        assert policy["podSelector"]["matchLabels"] == selector
        labels = ",".join(f"{key}={value}" for key, value in selector.items())
        pods = deployed.kubectl("get", "pods", f"--selector={labels}", "--output=name").split()
        assert len(pods) == 2
        allowed = {port["port"] for rule in policy["egress"] for port in rule.get("ports") or ()}
        for pod in pods:
            used = {int(port) for port in deployed.kubectl("exec", pod, "--", "python3", "-c", CONNECTIONS).split()}
            assert used, "the API server at least"
            assert used <= allowed, f"{pod} connects to ports that its NetworkPolicy does not allow"
            said = deployed.kubectl("logs", pod)
            assert "forbidden" not in said.lower(), said
            assert "Traceback" not in said, said
