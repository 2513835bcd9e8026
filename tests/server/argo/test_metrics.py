"""Metrics of workflows and of their controller for Prometheus, over TLS and plain HTTP, and who may read them."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import yaml

from muster.kube.objects import Object, status_of
from muster.server.embedded_server import run_server
from muster.server.settings import read_settings
from muster.workflows.kinds import WORKFLOW
from tests.http_server import reserve_port

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


async def test_metrics_need_permission(tmp_path: Path) -> None:
    port = reserve_port()
    async with run_server(read_settings(tmp_path, {"listen": {"httpPort": port}})) as server:
        await server.cluster.create(WORKFLOW_OBJECT)
        async for event in server.cluster.watch(WORKFLOW, "default"):
            if status_of(event.object).get("phase") == "Succeeded":
                break
        assert status_of(event.object)["artifactRepositoryRef"] == {"default": True}
        assert status_of(event.object)["artifactGCStatus"] == {"notSpecified": True}
        user = yaml.safe_load((tmp_path / "kubeconfig").read_text())["users"][0]["user"]
        headers = {"Authorization": f"Bearer {user['token']}"}
        async with aiohttp.ClientSession() as session:
            for url in (f"{server.info.url}/metrics", f"http://127.0.0.1:{port}/metrics"):
                async with session.get(url, ssl=False) as refused:
                    assert refused.status == 401
                async with session.get(url, ssl=False, headers=headers) as told:
                    text = await told.text()
                assert 'argo_workflows_done{end="Succeeded"} 1.0' in text
                assert 'argo_workflows_total_count{namespace="default",phase="Succeeded"} 1.0' in text
                assert 'argo_workflows_gauge{phase="Succeeded"} 1.0' in text
                assert 'argo_workflows_pods_gauge{phase="Succeeded"} 1.0' in text
