"""Metrics of workflows for Prometheus, and who may read them."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import yaml

from muster.kube.objects import Object, status_of
from muster.server.serving import run_server
from muster.server.settings import read_settings
from muster.workflows.kinds import WORKFLOW

COUNTER = {
    "name": "done",
    "help": "how many",
    "labels": [{"key": "end", "value": "{{status}}"}],
    "counter": {"value": "1"},
}
WORKFLOW_OBJECT: Object = {
    "apiVersion": WORKFLOW.api_version,
    "kind": "Workflow",
    "metadata": {"name": "counted", "namespace": "default"},
    "spec": {
        "entrypoint": "main",
        "templates": [
            {
                "name": "main",
                "metrics": {"prometheus": [COUNTER]},
                "container": {"image": "busybox", "command": ["true"]},
            }
        ],
    },
}


async def test_a_counter_of_a_template_needs_permission(tmp_path: Path) -> None:
    async with run_server(read_settings(tmp_path, {})) as server:
        await server.cluster.create(WORKFLOW_OBJECT)
        async for event in server.cluster.watch(WORKFLOW, "default"):
            if status_of(event.object).get("phase") == "Succeeded":
                break
        user = yaml.safe_load((tmp_path / "kubeconfig").read_text())["users"][0]["user"]
        url = f"{server.info.url}/metrics"
        async with aiohttp.ClientSession() as session:
            async with session.get(url, ssl=False) as refused:
                assert refused.status == 401
            async with session.get(url, ssl=False, headers={"Authorization": f"Bearer {user['token']}"}) as told:
                assert 'argo_workflows_done{end="Succeeded"} 1.0' in await told.text()
