"""The real Argo controller runs a workflow in real Pods."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from muster.kube.objects import status_of
from muster.kube.remote.client import RemoteCluster
from tests.cluster.conftest import Needs
from tests.cluster.waiting import phase_of, until
from tools.cluster import addons, images

pytestmark = pytest.mark.cluster


WORD = {"parameters": [{"name": "word"}]}


def template(name: str, script: str, **more: Any) -> dict[str, Any]:
    container = {"image": images.BUSYBOX, "imagePullPolicy": "Never", "command": ["sh", "-c"], "args": [script]}
    return {"name": name, "container": container, **more}


@pytest.mark.timeout(300)
async def test_a_step_gets_the_output_of_the_previous_step(needs: Needs, remote: RemoteCluster) -> None:
    needs("node", "argo")
    name = f"test-{uuid.uuid4().hex[:8]}"
    made = {"parameters": [{"name": "word", "valueFrom": {"path": "/tmp/word"}}]}
    taken = {"parameters": [{"name": "word", "value": "{{steps.make.outputs.parameters.word}}"}]}
    workflow = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": name, "namespace": addons.WORKFLOWS},
        "spec": {
            "entrypoint": "main",
            "podGC": {"strategy": "OnWorkflowCompletion"},
            "templates": [
                {
                    "name": "main",
                    "steps": [
                        [{"name": "make", "template": "make"}],
                        [{"name": "take", "template": "take", "arguments": taken}],
                    ],
                },
                template("make", "echo -n mustered > /tmp/word", outputs=made),
                template(
                    "take", 'test "{{inputs.parameters.word}}" = mustered', inputs={"parameters": [{"name": "word"}]}
                ),
            ],
        },
    }
    kind = await remote.find("workflows.argoproj.io")
    await remote.create(workflow)
    done = await until(
        remote, kind, name, addons.WORKFLOWS, lambda found: phase_of(found) in ("Succeeded", "Failed", "Error"), 240
    )
    assert (phase_of(done), status_of(done).get("message")) == ("Succeeded", None)
    pods = [node for node in status_of(done)["nodes"].values() if node["type"] == "Pod"]
    assert [node["phase"] for node in pods] == ["Succeeded", "Succeeded"]
    await remote.delete(kind, name, addons.WORKFLOWS)
